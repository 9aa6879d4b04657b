//! Ditto, Fig. 1: what it costs to give a Redis cluster twice the nodes, and to take them away.

use super::redis::{Cluster, Span};
use crate::bench::loads::ycsb;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

const NODES: u16 = 32;
const CLIENTS: u16 = 512;
const KEYS: u64 = 10_000_000;
const SLOTS: u64 = 16_384;
/// A slot has this part of its keys, so that all takes this part of the time.
const PART: u64 = 100;
const SPAN_NS: u64 = 100_000_000;
/// Section 2.1: minutes until data has migrated to 64 nodes, and back to 32.
const MINUTES: [f64; 2] = [5.3, 5.6];
/// Section 2.1: by how much throughput drops meanwhile, and P99 rises, at most, in percent.
const DROP_PERCENT: f64 = 7.0;
const RISE_PERCENT: f64 = 21.0;
const SOURCE: &str = "Ditto, section 2.1";

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, part) = options.scaled((KEYS, PART), (100_000, 1));
    let load = ycsb("ycsb-c", keys, 1 << 40, options)?;
    let mut cluster = Cluster::new(&*load, NODES, CLIENTS, (keys / SLOTS / part).max(1));
    let few = cluster.serve(SPAN_NS);
    let (more, more_ns) = cluster.migrate(2 * NODES, SPAN_NS);
    let many = cluster.serve(SPAN_NS);
    let (fewer, fewer_ns) = cluster.migrate(NODES, SPAN_NS);
    let again = cluster.serve(SPAN_NS);
    let minutes = [more_ns, fewer_ns].map(|ns| (ns * part) as f64 / 60e9);
    // Of both migrations what is worst beside the level before.
    let both = [(&few, &more), (&many, &fewer)];
    let worst = |of: fn(&Span, &Span) -> f64| {
        let all = both.iter().flat_map(|(level, spans)| spans.iter().map(move |span| of(level, span)));
        (all.fold(1.0, f64::max) - 1.0) * 100.0
    };
    let drop = 100.0 - 100.0 / (1.0 + worst(|level, span| level.mops / span.mops.max(1e-9)) / 100.0);
    let rise = worst(|level, span| span.p99_us / level.p99_us.max(1e-9));
    let printed = |number: f64| (!options.quick).then_some(number);
    let spans: Vec<Span> = [vec![few], more, vec![many], fewer, vec![again]].concat();
    let time = Places::numbers("time", "ms", (0..spans.len()).map(|span| (span as u64 * SPAN_NS / 1_000_000) as f64));
    let changes = Places::named("change", ["to twice the nodes", "back"]);
    let worsts = Places::named("meanwhile, at most", ["throughput lower", "P99 higher"]);
    Ok(Findings {
        what: format!(
            "A model of a Redis cluster, whose constants stand in ditto/redis.rs: {NODES} nodes of one core, then twice as many, then {NODES} again; {CLIENTS} clients, YCSB C, {keys} keys. \
             A node takes as long for each request, and as long again for each key that comes or goes; keys are moved one after the other. Slots have one of {part} keys, so that \
             migrations take as small a part of the time that is shown."
        ),
        figures: vec![
            time.figure(
                "Throughput over time",
                ("throughput", "Mops/s"),
                [time.line("redis", spans.iter().map(|span| span.mops))],
            ),
            time.figure("P99 over time", ("P99", "us"), [time.line("redis", spans.iter().map(|span| span.p99_us))]),
            changes
                .figure(
                    "Time of the migration",
                    ("time", "minutes"),
                    [changes.line("redis", minutes).beside(MINUTES.map(printed))],
                )
                .from(SOURCE),
            worsts
                .figure(
                    "What a migration costs meanwhile",
                    ("cost", "%"),
                    [worsts.line("redis", [drop, rise]).beside([DROP_PERCENT, RISE_PERCENT].map(printed))],
                )
                .from(SOURCE),
        ],
    })
}
