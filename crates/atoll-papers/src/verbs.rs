//! What the operations of engines ask of the network: round trips, verbs and bytes, counted where
//! the verbs are posted, beside what their papers say.
//!
//! One client on a simulated network does each operation many times, by itself. A row has the
//! median. Now and then a lookup meets an equal fingerprint and READs one record more; the mean
//! shows these. Verbs that tell the pool of accesses are apart, in the mean: they come with some
//! operations only.
//!
//! A row leaves out what a client does besides the operation: evictions, leases, the pool's clock.
//! Evictions have a row of their own: all that they cost, divided by the evicted objects. Engines
//! whose memory node has a processor that evicts have none.
//!
//! | module | concept |
//! |---|---|
//! | `papers` | what the papers say of single operations, and how far ours may be from it |

mod papers;

use crate::bench::named::System;
use crate::bench::point::Point;
use crate::bench::setup::Setup;
use crate::bench::sizes::{BLOCK_OBJECT_BYTES, GROUP_OBJECTS};
use crate::bench::system::{Subject, Work, on_system};
use crate::bench::tuning::ForgeTuning;
use atoll_cache::{Cache, SetOptions, Value};
use atoll_fabric::Purpose;
use atoll_lab::LabError;
use atoll_lab::load::{KEY_BYTES, LoadOptions};
use atoll_lab::output;
use atoll_sim::network::traffic::Posted;
use clap::ValueEnum;
use papers::Paper;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;

/// Times that each operation is done.
const OPERATIONS: u64 = 300;
/// Objects that are inserted until evictions are steady, and then to count them.
const EVICTIONS: u64 = 30_000;
const VALUE: [u8; (BLOCK_OBJECT_BYTES - KEY_BYTES) as usize] = [7; (BLOCK_OBJECT_BYTES - KEY_BYTES) as usize];
const POOL_BYTES: u64 = 6 << 20;
const ADDRESS_CACHE_BYTES: usize = 1 << 20;

/// What an operation costs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The engine.
    pub engine: String,
    /// The operation.
    pub op: &'static str,
    /// Whether the client had an address cache, and knew the key if there was one to know.
    pub address_cache: bool,
    /// Times that the client waits for the network, be it for verbs or for a message's answer.
    pub round_trips: f64,
    /// Verbs, including unawaited ones.
    pub verbs: f64,
    /// Verbs that tell the pool of accesses, in the mean.
    pub hotness_verbs: f64,
    /// Messages to the memory node's processor and answers, in the mean.
    pub messages: f64,
    /// Bytes that verbs and messages move, without headers.
    pub bytes: f64,
    /// Round trips in the mean, with those for equal fingerprints.
    pub round_trips_mean: f64,
    /// What the engine's paper says of it, if it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<&'static Paper>,
}

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// By engine and operation.
    pub ops: Vec<Row>,
}

/// Count round trips, verbs and bytes of single operations on a simulated network
#[derive(Clone, Debug, clap::Args)]
pub struct VerbsCommand {
    /// Engines, several [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    engine: Vec<System>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl VerbsCommand {
    /// Counts and prints.
    pub fn run(self) -> Result<(), LabError> {
        let all = System::value_variants();
        let report = count(if self.engine.is_empty() { all } else { &self.engine })?;
        output::print(self.json, &report, render);
        Ok(())
    }
}

fn render(report: &Report) -> String {
    let mut text = format!(
        "{:<13}{:<22}{:>12}{:>8}{:>9}{:>10}{:>8}{:>19}  {}\n",
        "",
        "",
        "round trips",
        "verbs",
        "hotness",
        "messages",
        "bytes",
        "round trips, mean",
        "paper: round trips, verbs"
    );
    for row in &report.ops {
        let Row { engine, op, address_cache, round_trips, verbs, hotness_verbs, messages, bytes, .. } = row;
        let Row { round_trips_mean, paper, .. } = row;
        let op = if *address_cache { format!("{op}, known") } else { (*op).to_owned() };
        let _ = write!(
            text,
            "{engine:<13}{op:<22}{round_trips:>12.2}{verbs:>8.2}{hotness_verbs:>9.2}{messages:>10.2}{bytes:>8.0}{round_trips_mean:>19.3}"
        );
        if let Some(Paper { round_trips, verbs, source, .. }) = paper {
            let _ = write!(text, "  {round_trips}, {verbs} ({source})");
        }
        text.push('\n');
    }
    text
}

/// Counts every operation of these engines; of `forge` without and with the address cache.
pub fn count(engines: &[System]) -> Result<Report, LabError> {
    let mut ops = Vec::new();
    for engine in engines {
        let base = engine.put(base()?, GROUP_OBJECTS);
        let name = engine.name();
        ops.extend(on_system(&base, Rows { setup: &base, engine: name.clone(), address_cache: false })?);
        if *engine == System::Forge {
            let tuning = ForgeTuning { address_cache_bytes: ADDRESS_CACHE_BYTES };
            let known = Setup { tuning: Some(Arc::new(tuning)), ..base };
            ops.extend(on_system(&known, Rows { setup: &known, engine: name, address_cache: true })?);
        }
    }
    Ok(Report { ops })
}

/// One client, whose pool holds many times the objects of its operations. It makes no requests of a
/// load.
fn base() -> Result<Setup, LabError> {
    let load = LoadOptions { keys: 1, requests: Some(0), ..LoadOptions::named("ycsb-c") }.open()?;
    let one = Setup::new(load.into(), 1, POOL_BYTES, BLOCK_OBJECT_BYTES, 1);
    Ok(Setup { compute_nodes: 1, ..one })
}

/// What is done to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    GetHit,
    GetMiss,
    SetUpdate,
    SetInsert,
    Delete,
}

impl Operation {
    /// In an order in which each finds what it needs.
    const ALL: [Self; 5] = [Self::GetHit, Self::GetMiss, Self::SetUpdate, Self::SetInsert, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::GetHit => "GET hit",
            Self::GetMiss => "GET miss",
            Self::SetUpdate => "SET update",
            Self::SetInsert => "SET insert",
            Self::Delete => "DELETE",
        }
    }

    /// The key of its `step`th time: one that is there, or one that is not.
    fn key(self, step: u64) -> u64 {
        match self {
            Self::GetHit | Self::SetUpdate => step,
            Self::GetMiss | Self::SetInsert | Self::Delete => OPERATIONS + step,
        }
    }
}

/// The row of evictions.
const EVICTION: &str = "eviction, per object";

/// All rows of one engine.
struct Rows<'s> {
    setup: &'s Setup,
    engine: String,
    address_cache: bool,
}

impl Work for Rows<'_> {
    type Output = Vec<Row>;

    fn run<G: Subject>(self) -> Result<Vec<Row>, LabError> {
        let mut bench = Bench::<G> { point: Point::new(self.setup)? };
        (0..OPERATIONS).try_for_each(|step| bench.set(step).map(drop))?;
        let mut rows = Vec::new();
        for operation in Operation::ALL {
            rows.push(self.row(&bench, operation)?);
        }
        // A server evicts without verbs.
        if self.setup.processor.is_none() {
            rows.push(self.evictions(&bench)?);
        }
        bench.point.leave()?;
        Ok(rows)
    }
}

impl Rows<'_> {
    fn row<G: Subject>(&self, bench: &Bench<'_, G>, operation: Operation) -> Result<Row, LabError> {
        let (mut all, mut hotness) = (Vec::new(), 0);
        for step in 0..OPERATIONS {
            let posted = bench.once(operation, operation.key(step))?;
            all.push(posted[Purpose::Request as usize]);
            hotness += posted[Purpose::Hotness as usize].verbs;
        }
        let median = |count: &dyn Fn(&Posted) -> u64| {
            let mut counts: Vec<u64> = all.iter().map(count).collect();
            counts.sort_unstable();
            counts[counts.len() / 2] as f64
        };
        let mean = |sum: u64| sum as f64 / all.len() as f64;
        Ok(Row {
            engine: self.engine.clone(),
            op: operation.name(),
            address_cache: self.address_cache,
            // A message and its answer are a round trip.
            round_trips: median(&|posted| posted.round_trips + posted.messages / 2),
            verbs: median(&|posted| posted.verbs),
            hotness_verbs: mean(hotness),
            messages: mean(all.iter().map(|posted| posted.messages).sum()),
            bytes: median(&|posted| posted.bytes),
            round_trips_mean: mean(all.iter().map(|posted| posted.round_trips + posted.messages / 2).sum()),
            paper: self.paper(operation.name()),
        })
    }

    /// Inserts into a full pool, and what making room for that costs.
    fn evictions<G: Subject>(&self, bench: &Bench<'_, G>) -> Result<Row, LabError> {
        let insert = |from: u64| {
            bench.passed(async move |client: &Cache<G>| {
                for key in from..from + EVICTIONS {
                    client.set(&key.to_le_bytes(), &VALUE, &SetOptions::default()).await?;
                }
                Ok(())
            })
        };
        insert(1 << 32)?;
        let before = bench.evicted();
        let passed = insert(2 << 32)?;
        let objects = (bench.evicted() - before).max(1) as f64;
        let mut cost = Posted::default();
        for purpose in [Purpose::Eviction, Purpose::Collection] {
            cost.add(&passed[purpose as usize]);
        }
        let round_trips = cost.round_trips as f64 / objects;
        Ok(Row {
            engine: self.engine.clone(),
            op: EVICTION,
            address_cache: self.address_cache,
            round_trips,
            verbs: cost.verbs as f64 / objects,
            hotness_verbs: passed[Purpose::Hotness as usize].verbs as f64 / objects,
            messages: cost.messages as f64 / objects,
            bytes: cost.bytes as f64 / objects,
            round_trips_mean: round_trips,
            paper: self.paper(EVICTION),
        })
    }

    fn paper(&self, op: &str) -> Option<&'static Paper> {
        papers::ALL.iter().find(|paper| !self.address_cache && paper.engine == self.engine && paper.op == op)
    }
}

struct Bench<'s, G: Subject> {
    point: Point<'s, G>,
}

impl<G: Subject> Bench<'_, G> {
    /// What passed while `work` was done, by purpose.
    fn passed(
        &self,
        work: impl AsyncFnOnce(&Cache<G>) -> Result<(), LabError> + 'static,
    ) -> Result<[Posted; Purpose::ALL.len()], LabError> {
        let before = self.point.traffic();
        let place = self.point.places[0].clone();
        let client = place.take().expect("one task at a time");
        let (client, outcome) = self.point.alone(async move {
            let outcome = work(&client.cache).await;
            (client, outcome)
        })?;
        *place.borrow_mut() = Some(client);
        outcome?;
        let passed = self.point.traffic().since(&before);
        Ok(Purpose::ALL.map(|purpose| passed.of(purpose)))
    }

    fn set(&self, key: u64) -> Result<[Posted; Purpose::ALL.len()], LabError> {
        self.passed(async move |client: &Cache<G>| {
            client.set(&key.to_le_bytes(), &VALUE, &SetOptions::default()).await?;
            Ok(())
        })
    }

    fn once(&self, operation: Operation, key: u64) -> Result<[Posted; Purpose::ALL.len()], LabError> {
        self.passed(async move |client: &Cache<G>| {
            let bytes = key.to_le_bytes();
            let (wanted, present) = match operation {
                Operation::GetHit => (true, client.get(&bytes, &mut Value::new()).await?),
                Operation::GetMiss => (false, client.get(&bytes, &mut Value::new()).await?),
                Operation::SetUpdate | Operation::SetInsert => {
                    let outcome = client.set(&bytes, &VALUE, &SetOptions::default()).await?;
                    (operation == Operation::SetUpdate, outcome.old.is_some())
                }
                Operation::Delete => (true, client.delete(&bytes).await?),
            };
            let wrong = || LabError::Failed(format!("{}: the key was not as it should be", operation.name()));
            if wanted == present { Ok(()) } else { Err(wrong()) }
        })
    }

    fn evicted(&self) -> u64 {
        self.point.places[0].borrow().as_ref().map_or(0, |client| client.cache.stats().evictions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_takes_two_round_trips_and_a_set_three_and_with_known_addresses_one_less() {
        let report = count(&[System::Forge]).unwrap();
        let row = |op: &str, address_cache: bool| {
            report.ops.iter().find(|row| row.op == op && row.address_cache == address_cache).unwrap()
        };
        for (op, most, most_known) in
            [("GET hit", 2.0, 1.0), ("GET miss", 1.0, 1.0), ("SET update", 3.0, 2.0), ("SET insert", 3.0, 3.0)]
        {
            assert!(row(op, false).round_trips <= most, "{}", render(&report));
            assert!(row(op, true).round_trips <= most_known, "{}", render(&report));
            assert!(row(op, false).round_trips_mean <= most + 0.1, "{}", render(&report));
        }
        assert!(row(EVICTION, false).round_trips < 1.0, "{}", render(&report));
    }

    #[test]
    fn engines_ask_of_the_network_what_their_papers_say() {
        let report = count(System::value_variants()).unwrap();
        let with_paper = report.ops.iter().filter_map(|row| Some((row, row.paper?)));
        for (row, paper) in with_paper.clone() {
            let told = format!("{} {}: {paper:?}\n{}", row.engine, row.op, render(&report));
            assert!((row.round_trips - paper.round_trips).abs() <= paper.round_trips_beside, "{told}");
            // Of an eviction, hotness is what its insertions told.
            let verbs = row.verbs + if row.op == EVICTION { 0.0 } else { row.hotness_verbs };
            assert!((verbs - paper.verbs).abs() <= paper.verbs_beside, "{verbs}: {told}");
        }
        assert_eq!(with_paper.count(), papers::ALL.len(), "every row of the papers is of an engine and an operation");
    }
}
