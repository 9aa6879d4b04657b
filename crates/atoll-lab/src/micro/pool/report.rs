//! The figures of a pool, and their table.

use super::advice::{Found, advice, median};
use super::bare::Bare;
use super::measure::Flown;
use serde::Serialize;
use std::fmt::Write;

/// One kind of operation with so many in flight: medians over rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) operation: &'static str,
    pub(super) in_flight: usize,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) per_s: f64,
    /// Round trips of one, with those of the upkeep; of verbs it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round_trips: Option<f64>,
    #[serde(skip)]
    rounds: Vec<[f64; 4]>,
}

impl Row {
    /// Adds a round.
    pub(super) fn add(
        rows: &mut Vec<Self>,
        operation: &'static str,
        in_flight: usize,
        flown: &Flown,
        round_trips: Option<f64>,
    ) {
        let us = |quantile| flown.latencies.quantile(quantile) as f64 / 1e3;
        let round = [us(0.5), us(0.99), flown.per_s(), round_trips.unwrap_or(0.0)];
        let is_this = |row: &&mut Self| row.operation == operation && row.in_flight == in_flight;
        let row = match rows.iter_mut().find(is_this) {
            Some(row) => row,
            None => {
                let row = Self {
                    operation,
                    in_flight,
                    p50_us: 0.0,
                    p99_us: 0.0,
                    per_s: 0.0,
                    round_trips,
                    rounds: Vec::new(),
                };
                rows.push(row);
                rows.last_mut().expect("it was pushed")
            }
        };
        row.rounds.push(round);
        let of = |figure: usize| median(&row.rounds.iter().map(|round| round[figure]).collect::<Vec<_>>());
        let figures = [0, 1, 2, 3].map(of);
        [row.p50_us, row.p99_us, row.per_s, _] = figures;
        row.round_trips = round_trips.map(|_| figures[3]);
    }
}

/// A memory node.
#[derive(Clone, Debug, Serialize)]
struct Handshake {
    node: String,
    p50_us: f64,
}

/// The figures.
#[derive(Clone, Debug, Serialize)]
pub(in crate::micro) struct PoolReport {
    address: String,
    fabric: &'static str,
    rows: Vec<Row>,
    /// TCP's handshake with each memory node.
    handshakes: Vec<Handshake>,
    /// A bare ping-pong over this host's loopback; none over shared memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    ping_pong_us: Option<[f64; 2]>,
    /// A copy of 256 bytes.
    copy_us: f64,
    gets_per_s_one_connection: f64,
    gets_per_s_two_connections: f64,
    /// The share of a core that the client's thread took, with most GETs in flight; none where one
    /// at a time is all there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_core_share: Option<f64>,
    /// What READs of 64 KiB carry over one connection.
    large_mb_per_s: f64,
    advice: Vec<String>,
}

impl PoolReport {
    pub(super) fn new(address: &str, fabric: &'static str, mut rows: Vec<Row>, bare: Bare, found: Found) -> Self {
        let gets: Vec<f64> = rows.iter().filter(|row| row.operation == "GET").map(|row| row.per_s).collect();
        let ends = [gets.first(), gets.last()].map(|gets| gets.copied().unwrap_or(0.0));
        let advice = advice(&found, &bare, ends, atoll_fabric::tcp::socket_bytes_max());
        // By operation, then by how many are in flight.
        let order = ["READ", "WRITE", "CAS", "FAA", "GET", "SET"];
        rows.sort_by_key(|row| (order.iter().position(|name| *name == row.operation), row.in_flight));
        Self {
            address: address.to_owned(),
            fabric,
            rows,
            ping_pong_us: (!bare.handshakes.is_empty()).then_some([bare.ping_p50, bare.ping_p99]),
            handshakes: bare.handshakes.into_iter().map(|(node, p50_us)| Handshake { node, p50_us }).collect(),
            copy_us: bare.copy,
            gets_per_s_one_connection: median(&found.one_connection),
            gets_per_s_two_connections: median(&found.two_connections),
            client_core_share: (!found.core_share.is_empty()).then(|| median(&found.core_share)),
            large_mb_per_s: median(&found.large_bytes_per_s) / 1e6,
            advice,
        }
    }

    /// The figures as text.
    pub(in crate::micro) fn render(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{} on fabric {}; 256 bytes", self.address, self.fabric);
        let _ = writeln!(
            text,
            "{:<10}{:>10}{:>12}{:>12}{:>14}{:>13}",
            "", "in flight", "p50 us", "p99 us", "a second", "round trips"
        );
        for Row { operation, in_flight, p50_us, p99_us, per_s, round_trips, .. } in &self.rows {
            let round_trips = round_trips.map(|trips| format!("{trips:.2}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "{operation:<10}{in_flight:>10}{p50_us:>12.2}{p99_us:>12.2}{per_s:>14.0}{round_trips:>13}"
            );
        }
        if let Some([p50, p99]) = self.ping_pong_us {
            let _ = writeln!(text, "bare ping-pong over loopback: p50 {p50:.2} us, p99 {p99:.2} us");
        }
        for Handshake { node, p50_us } in &self.handshakes {
            let _ = writeln!(text, "handshake with {node}: p50 {p50_us:.2} us");
        }
        let _ = writeln!(text, "copy of 256 bytes: {:.3} us", self.copy_us);
        let _ = writeln!(
            text,
            "GETs a second: {:.0} over one connection, {:.0} over two; READs of 64 KiB: {:.0} MB/s over one",
            self.gets_per_s_one_connection, self.gets_per_s_two_connections, self.large_mb_per_s
        );
        for advice in &self.advice {
            let _ = writeln!(text, "advice: {advice}");
        }
        text
    }
}
