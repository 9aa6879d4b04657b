//! The counters for Prometheus: text over HTTP, at any path.
//!
//! A reader gets the counters as the workers last published them, at most a second ago. The format
//! is the text format 0.0.4: lines of `name{label="value"} number`, after a line with the kind of
//! the number.

use crate::NearFacts;
use crate::serve::apart;
use crate::serve::counters::{MISSES, SAMPLE_EVERY, Shared, Timed, latency_bound_ns};
use atoll_cache::Stats;
use atoll_cache::miniature::choice::CURVE;
use atoll_cache::stats::MODELLED_MISSES;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::TcpListener;

/// A reader that has not sent its request or taken its answer by then is cut off.
const READER_PATIENCE: Duration = Duration::from_secs(10);

/// Answers readers until dropped.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is left, most likely: at once it would fail again.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let answer = service_fn(|_: Request<Incoming>| {
                let shared = shared.clone();
                // A pool that does not answer makes no connection wait.
                async move { Ok::<_, Infallible>(apart(move || response(&shared)).await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            let served = http.keep_alive(false).serve_connection(TokioIo::new(stream), answer);
            let _ = tokio::time::timeout(READER_PATIENCE, served).await;
        });
    }
}

fn response(shared: &Shared) -> Response<Full<Bytes>> {
    let mut text = String::new();
    write_metrics(&mut text, shared).expect("memory takes what is written");
    let content_type = (CONTENT_TYPE, "text/plain; version=0.0.4");
    Response::builder().header(content_type.0, content_type.1).body(Full::from(text)).expect("the header is valid")
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn number(text: &mut String, name: &str, kind: &str, help: &str, number: u64) -> fmt::Result {
    head(text, name, kind, help)?;
    writeln!(text, "{name} {number}")
}

/// A label's value with what would end it escaped.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes all metrics.
fn write_metrics(text: &mut String, shared: &Shared) -> fmt::Result {
    let (totals, facts) = (shared.totals(), &shared.facts);
    head(text, "atoll_info", "gauge", "The version, the fabric and the engine.")?;
    let (fabric, engine, version) = (label(&facts.fabric), label(&facts.engine), env!("CARGO_PKG_VERSION"));
    writeln!(text, "atoll_info{{version=\"{version}\",fabric=\"{fabric}\",engine=\"{engine}\"}} 1")?;
    let seconds = shared.started.elapsed().as_secs();
    number(text, "atoll_uptime_seconds", "gauge", "Seconds since the server started.", seconds)?;
    let capacity_bytes = (facts.capacity_bytes)();
    number(text, "atoll_pool_capacity_bytes", "gauge", "Bytes that the pool holds at most.", capacity_bytes)?;
    let provided_bytes = (facts.provided_bytes)();
    number(text, "atoll_pool_provided_bytes", "gauge", "Bytes of the capacity whose memory is there.", provided_bytes)?;
    number(text, "atoll_pool_used_bytes", "gauge", "Bytes of the pool in use.", totals.used_bytes)?;
    number(text, "atoll_objects", "gauge", "Objects in the pool.", totals.objects)?;
    let help = "Seconds by which this host's wall clock is ahead of the pool's time, by which objects expire.";
    head(text, "atoll_wall_clock_ahead_seconds", "gauge", help)?;
    writeln!(text, "atoll_wall_clock_ahead_seconds {}", (facts.wall_clock_ahead_ms)() as f64 / 1000.0)?;
    if let Some(near) = (facts.near)() {
        let NearFacts { copies, used_bytes, bytes, .. } = near;
        number(text, "atoll_near_max_bytes", "gauge", "Most bytes of the near cache.", bytes)?;
        number(text, "atoll_near_used_bytes", "gauge", "Bytes of the copies in the near cache.", used_bytes)?;
        number(text, "atoll_near_objects", "gauge", "Copies in the near cache.", copies)?;
    }
    let absent = (facts.nodes_absent)();
    number(text, "atoll_memory_nodes_absent", "gauge", "Memory nodes that have ended and are not back.", absent)?;
    let clients = shared.clients.load(Relaxed) as u64;
    number(text, "atoll_connections", "gauge", "Connections being served.", clients)?;
    let accepted = shared.accepted.load(Relaxed);
    number(text, "atoll_connections_accepted_total", "counter", "Connections accepted.", accepted)?;
    let refused = shared.refused.load(Relaxed);
    number(text, "atoll_connections_refused_total", "counter", "Connections refused: there were too many.", refused)?;
    number(text, "atoll_received_bytes_total", "counter", "Bytes received.", totals.tally.bytes_in)?;
    number(text, "atoll_sent_bytes_total", "counter", "Bytes sent.", totals.tally.bytes_out)?;
    number(text, "atoll_error_replies_total", "counter", "Replies that were errors.", totals.tally.errors)?;
    head(text, "atoll_misses_total", "counter", "Lookups that found nothing, by reason.")?;
    for (reason, count) in totals.misses_by_reason() {
        writeln!(text, "atoll_misses_total{{reason=\"{reason}\"}} {count}")?;
    }
    let modelled = "Lookups that a pool of a part of the capacity would have missed, by the clients' miniatures.";
    head(text, "atoll_modelled_misses_total", "counter", modelled)?;
    for (quarters, name) in CURVE.into_iter().zip(MODELLED_MISSES) {
        let (capacity, count) = (quarters as f64 / 4.0, totals.stat(name));
        writeln!(text, "atoll_modelled_misses_total{{capacity=\"{capacity}\"}} {count}")?;
    }
    let labelled = |name: &str| name.starts_with(MISSES) || MODELLED_MISSES.contains(&name);
    for ((name, count), meaning) in totals.stats.iter().zip(Stats::MEANINGS).filter(|((name, _), _)| !labelled(name)) {
        number(text, &format!("atoll_{name}_total"), "counter", meaning, *count)?;
    }
    head(text, "atoll_commands_total", "counter", "Commands run.")?;
    for (name, calls) in shared.commands.iter().zip(&totals.tally.calls).filter(|(_, calls)| **calls > 0) {
        writeln!(text, "atoll_commands_total{{command=\"{name}\"}} {calls}")?;
    }
    head(text, LATENCY, "histogram", &latency_help())?;
    let timed = shared.commands.iter().zip(&totals.tally.timed);
    for (command, timed) in timed.filter(|(_, timed)| timed.count() > 0) {
        write_latency(text, command, timed)?;
    }
    Ok(())
}

const LATENCY: &str = "atoll_command_seconds";

fn latency_help() -> String {
    format!(
        "Time to run a command, without the network. Of brief commands one in {SAMPLE_EVERY} is timed and counts for \
         all of them."
    )
}

fn write_latency(text: &mut String, command: &str, timed: &Timed) -> fmt::Result {
    let mut below = 0;
    for (index, count) in timed.buckets.iter().enumerate() {
        below += count;
        let bound = latency_bound_ns(index).map_or("+Inf".to_owned(), |ns| (ns as f64 / 1e9).to_string());
        writeln!(text, "{LATENCY}_bucket{{command=\"{command}\",le=\"{bound}\"}} {below}")?;
    }
    let seconds = timed.sum_ns as f64 / 1e9;
    writeln!(text, "{LATENCY}_sum{{command=\"{command}\"}} {seconds}")?;
    writeln!(text, "{LATENCY}_count{{command=\"{command}\"}} {below}")
}
