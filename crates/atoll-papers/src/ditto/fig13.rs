//! Ditto, Fig. 13: clients join and leave; memory is retired and restored.

use super::elastic::{self, Change, Elastic, PHASES};
use super::redis::Cluster;
use super::testbed::{paper, roomy_bytes, setup, tight_bytes, without_misses};
use crate::bench::loads::ycsb;
use crate::bench::setup::Setup;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;

const CLIENTS: u16 = 32;
const PHASE_NAMES: [&str; PHASES] = ["32 clients", "64 clients", "32 clients again"];
const MEMORY_NAMES: [&str; PHASES] = ["all memory", "three quarters", "all again"];
/// The part of the memory that is retired and restored.
const MEMORY_PERCENT: u32 = 25;
/// Section 5.2: Mops before, with twice the cores, and after.
const PRINTED_MOPS: [f64; PHASES] = [5.0, 8.5, 5.0];
/// Section 5.2: "the median latency stabilizes at 12 us".
const PRINTED_P50_US: f64 = 12.0;
/// Section 5.2: the 99th percentile "fluctuates slightly around 14 to 21 us".
const PRINTED_P99_US: std::ops::RangeInclusive<f64> = 14.0..=21.0;
/// Section 5.2, while memory goes and comes: Mops, and the tail latency.
const PRINTED_MEMORY: (f64, f64) = (5.0, 14.0);
const SOURCE: &str = "Ditto, section 5.2";
/// Section 5.2: Ditto's throughput over that of Redis is "more than 2 times" in all phases.
const OVER_REDIS: f64 = 2.0;
/// Nodes of Redis in each phase, of one core each, and its clients (section 2.1).
const REDIS_NODES: [u16; PHASES] = [32, 64, 32];
const REDIS_CLIENTS: u16 = 512;
const REDIS_KEYS: u64 = 10_000_000;
/// How long the model of Redis runs for each phase.
const REDIS_NS: u64 = 100_000_000;
/// Section 2.1, of Redis: minutes until data has migrated to 64 nodes, and back to 32.
const REDIS_MINUTES: [f64; 2] = [5.3, 5.6];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, clients, phase_ms) = options.scaled((300_000, CLIENTS, 30), (2_000, 4, 4));
    // Far more requests than the clients make in the time.
    let load = ycsb("ycsb-c", keys, 1 << 30, options)?;
    let point = |bytes| {
        let room_for_all = setup(load.clone(), &paper("lru+lfu"), 2 * clients, bytes, options.seed);
        options.networked(&without_misses(Setup { threads: clients, ..room_for_all }))
    };
    let run = elastic::measure(&point(roomy_bytes(keys, 2 * clients)), phase_ms, Change::Clients)?;
    let tight = point(tight_bytes(keys, clients));
    let memory = elastic::measure(&tight, phase_ms, Change::Memory { percent: MEMORY_PERCENT })?;
    let redis_load = ycsb("ycsb-c", options.scaled(REDIS_KEYS, 100_000), 1 << 40, options)?;
    let redis = REDIS_NODES.map(|nodes| Cluster::new(&*redis_load, nodes, REDIS_CLIENTS, 1).serve(REDIS_NS).mops);
    let Elastic { change_ns_max: [begin_ns_max, end_ns_max], misses, objects_moved, .. } = run;
    Ok(Findings {
        what: format!(
            "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million; phases of {phase_ms} ms in place of 3 minutes. In the middle one as many clients again join at once, and leave at \
             its end; here {clients} each time. The slowest join took {:.1} us, the slowest leave {:.1} us. Meanwhile {objects_moved} objects were written, evicted or copied, and \
             {misses} GETs missed. Throughput is at its new level when no later millisecond of the phase is further than 5 % from that of the phase's second half. \
             Redis' throughput is that of a model (ditto/redis.rs) with as many cores, {REDIS_CLIENTS} clients and 10 million keys; its times are those that the paper prints of its migration. Of the paper's Ditto the printed throughput is that of 32 cores, each with coroutines of which neither number nor \
             cost is printed: with 5 Mops at 12 us in the median there are 60 operations under way on 32 cores. Ours have one each and nothing to switch. \
             In a second run {} chunks, {MEMORY_PERCENT} % of all, go out of use in the middle phase and come back at its end: the last one was out of use after {:.1} ms, \
             and back after {:.1} ms. Who took them out and gave them back wrote or copied {} objects meanwhile; {} GETs missed because theirs had been evicted, and were set again at no cost but the SET's.",
            begin_ns_max as f64 / 1e3,
            end_ns_max as f64 / 1e3,
            memory.retired_chunks,
            memory.change_ns_max[0] as f64 / 1e6,
            memory.change_ns_max[1] as f64 / 1e6,
            memory.objects_moved_by_operators,
            memory.misses,
        ),
        figures: figures(&run, &memory, redis, options.quick),
    })
}

fn figures(run: &Elastic, memory: &Elastic, redis: [f64; PHASES], quick: bool) -> Vec<Figure> {
    let time = Places::numbers("time", "ms", (0..run.windows.len()).map(|ms| ms as f64));
    let over_time = |name, run: &Elastic| time.line(name, run.windows.iter().map(|count| *count as f64 / 1e3));
    let phases = Places::named("phase", PHASE_NAMES);
    let by_phase = |name, of: &dyn Fn(usize) -> f64| phases.line(name, (0..PHASES).map(of));
    let printed = |of: [f64; PHASES]| of.map(|printed| (!quick).then_some(printed));
    let mops = by_phase("ditto", &|phase| run.level_mops(phase)).beside(printed(PRINTED_MOPS));
    let p50 = by_phase("P50", &|phase| run.latency_us(phase, 50.0)).beside(printed([PRINTED_P50_US; PHASES]));
    let p99_us = |phase: usize| run.latency_us(phase, 99.0);
    // Of a range what is nearest.
    let nearest = [0, 1, 2].map(|phase| p99_us(phase).clamp(*PRINTED_P99_US.start(), *PRINTED_P99_US.end()));
    let p99 = by_phase("P99", &p99_us).beside(printed(nearest));
    // The paper has a lower bound: what is above it is met.
    let over = |phase: usize| run.level_mops(phase) / redis[phase].max(1e-9);
    let bound = [0, 1, 2].map(|phase| over(phase).max(OVER_REDIS));
    let over_redis = by_phase("ditto over redis", &over).beside(printed(bound));
    let memory_phases = Places::named("phase", MEMORY_NAMES);
    let of_memory = memory_phases.line("ditto", (0..PHASES).map(|phase| memory.level_mops(phase)));
    let of_memory = of_memory.beside(printed([PRINTED_MEMORY.0; PHASES]));
    let tail = memory_phases.line("P99", (0..PHASES).map(|phase| memory.latency_us(phase, 99.0)));
    let tail = tail.beside(printed([PRINTED_MEMORY.1; PHASES]));
    let changes = Places::named("change", ["clients join", "clients leave", "memory goes", "memory comes back"]);
    let settled = [(run, 1), (run, 2), (memory, 1), (memory, 2)].map(|(run, phase)| run.settled_ms(phase) as f64);
    let mops_label = ("throughput", "Mops/s");
    vec![
        time.figure(
            "Throughput in every millisecond",
            mops_label,
            [over_time("clients", run), over_time("memory", memory)],
        ),
        phases.figure("Throughput", mops_label, [mops, phases.line("redis, model", redis)]).from(SOURCE),
        phases.factors("Throughput of Ditto over Redis, at least", "times higher", [over_redis]).from(SOURCE),
        memory_phases.figure("Throughput as memory goes and comes", mops_label, [of_memory]).from(SOURCE),
        phases.figure("Latency", ("latency", "us"), [p50, p99]).from(SOURCE),
        memory_phases.figure("Latency as memory goes and comes", ("latency", "us"), [tail]).from(SOURCE),
        changes.figure(
            "Time until throughput is at its new level",
            ("time", "ms"),
            [
                changes.line("ditto", settled),
                changes.line("Redis (paper)", REDIS_MINUTES.map(|minutes| minutes * 60e3)),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds of virtual time within which throughput must be at its new level after every
    /// change.
    const SETTLED_MS_MAX: f64 = 10.0;

    #[test]
    fn throughput_is_at_its_new_level_within_ten_milliseconds_and_nothing_is_moved() {
        let options = Options::default();
        let result = measure(&options).unwrap();
        let series = result.figures.last().and_then(|settled| settled.series.first()).unwrap();
        assert_eq!((series.name.as_str(), series.points.len()), ("ditto", 4));
        assert!(series.points.iter().all(|change| change.y <= SETTLED_MS_MAX), "{:?}", series.points);
        assert!(result.what.contains("Meanwhile 0 objects were written, evicted or copied"), "{}", result.what);
        assert!(result.what.contains("wrote or copied 0 objects meanwhile"), "{}", result.what);
    }
}
