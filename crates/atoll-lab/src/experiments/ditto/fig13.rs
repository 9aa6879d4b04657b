//! Ditto, Fig. 13: clients come and go, memory goes and comes.

use super::super::setup::Setup;
use super::super::{Experiment, Options, shape};
use super::elastic::{self, Change, Elastic, PHASES};
use super::{paper, roomy_bytes, setup, tight_bytes, without_misses, ycsb};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};

const CLIENTS: u16 = 32;
const PHASE_NAMES: [&str; PHASES] = ["32 clients", "64 clients", "32 clients again"];
const MEMORY_NAMES: [&str; PHASES] = ["all memory", "three quarters", "all again"];
/// What of the memory goes and comes back.
const MEMORY_PERCENT: u32 = 25;
/// Section 5.2: Mops before, with twice the cores, and after.
const PRINTED_MOPS: [f64; PHASES] = [5.0, 8.5, 5.0];
/// Section 5.2: "the median latency stabilizes at 12 us".
const PRINTED_P50_US: f64 = 12.0;
/// Section 2.1, of Redis: minutes until data has migrated to 64 nodes, and back to 32.
const REDIS_MINUTES: [f64; 2] = [5.3, 5.6];

/// The experiment.
pub(crate) struct Elasticity;

impl Experiment for Elasticity {
    fn name(&self) -> &'static str {
        "ditto-fig13"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 13: 32 clients join 32 others at once, and leave again; a quarter of the memory goes and comes back; YCSB C"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, clients, phase_ms) = options.scaled((300_000, CLIENTS, 30), (2_000, 4, 4));
        // Far more requests than anybody gets to in the time.
        let load = ycsb("ycsb-c", keys, 1 << 30, options)?;
        let bytes = roomy_bytes(keys, 2 * clients);
        let point = |bytes| {
            let room_for_all = setup(load.clone(), &paper("lru+lfu"), 2 * clients, bytes, options.seed);
            without_misses(Setup { threads: clients, ..room_for_all })
        };
        let run = elastic::measure(&point(bytes), phase_ms, Change::Clients)?;
        let tight = point(tight_bytes(keys, clients));
        let memory = elastic::measure(&tight, phase_ms, Change::Memory { percent: MEMORY_PERCENT })?;
        let Elastic { begin_ns_max, end_ns_max, misses, objects_moved, .. } = run;
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million; phases of {phase_ms} ms in place of 3 minutes. In the middle one as many clients again join at once, and leave at \
                 its end; here {clients} each time. The slowest join took {:.1} us, the slowest leave {:.1} us. Meanwhile {objects_moved} objects were written, evicted or copied, and \
                 {misses} GETs missed. Throughput is at its new level when no later millisecond of the phase is further than 5 % from that of the phase's second half. \
                 Redis' times are those that the paper prints of its migration. Of the paper's Ditto the printed throughput is that of 32 cores, each with coroutines of which neither number nor \
                 cost is printed: with 5 Mops at 12 us in the median there are 60 operations under way on 32 cores. Ours have one each and nothing to switch. \
                 In a second run {} chunks, {MEMORY_PERCENT} % of all, go out of use in the middle phase and come back at its end: the last one was out of use after {:.1} ms, \
                 and back after {:.1} ms. Who took them out and gave them back wrote or copied {} objects meanwhile; {} GETs missed because theirs had been evicted, and were set again at no cost but the SET's.",
                begin_ns_max as f64 / 1e3,
                end_ns_max as f64 / 1e3,
                memory.retired_chunks,
                memory.begin_ns_max as f64 / 1e6,
                memory.end_ns_max as f64 / 1e6,
                memory.objects_moved_by_operators,
                memory.misses,
            ),
            figures: figures(&run, &memory, options.quick),
        })
    }
}

fn figures(run: &Elastic, memory: &Elastic, quick: bool) -> Vec<report::Figure> {
    let over_time = |run: &Elastic| -> Vec<(f64, f64)> {
        run.windows.iter().enumerate().map(|(ms, count)| (ms as f64, *count as f64 / 1e3)).collect()
    };
    let by_phase = |name: &str, of: &dyn Fn(usize) -> f64, printed: &dyn Fn(usize) -> Option<f64>| report::Series {
        name: name.to_owned(),
        points: (0..PHASES)
            .map(|phase| report::Point { x: phase as f64, y: of(phase), paper: printed(phase).filter(|_| !quick) })
            .collect(),
    };
    let phases = || shape::categories("phase", PHASE_NAMES);
    let changes = || shape::categories("change", ["clients join", "clients leave", "memory goes", "memory comes back"]);
    let settled = [(run, 1), (run, 2), (memory, 1), (memory, 2)].map(|(run, phase)| run.settled_ms(phase) as f64);
    vec![
        report::Figure {
            title: "Throughput in every millisecond".to_owned(),
            x: shape::axis("time", "ms"),
            y: shape::axis("throughput", "Mops/s"),
            series: vec![shape::series("clients", over_time(run)), shape::series("memory", over_time(memory))],
        },
        report::Figure {
            title: "Throughput".to_owned(),
            x: phases(),
            y: shape::axis("throughput", "Mops/s"),
            series: vec![by_phase("ditto", &|phase| run.level_mops(phase), &|phase| Some(PRINTED_MOPS[phase]))],
        },
        report::Figure {
            title: "Throughput as memory goes and comes".to_owned(),
            x: shape::categories("phase", MEMORY_NAMES),
            y: shape::axis("throughput", "Mops/s"),
            series: vec![shape::series("ditto", (0..PHASES).map(|phase| (phase as f64, memory.level_mops(phase))))],
        },
        report::Figure {
            title: "Latency".to_owned(),
            x: phases(),
            y: shape::axis("latency", "us"),
            series: vec![
                by_phase("P50", &|phase| run.latency_us(phase, 50.0), &|_| Some(PRINTED_P50_US)),
                by_phase("P99", &|phase| run.latency_us(phase, 99.0), &|_| None),
            ],
        },
        report::Figure {
            title: "Time until throughput is at its new level".to_owned(),
            x: changes(),
            y: shape::axis("time", "ms"),
            series: vec![
                shape::series("ditto", settled.into_iter().enumerate().map(|(change, ms)| (change as f64, ms))),
                shape::series("Redis (paper)", [0, 1].map(|place| (place as f64, REDIS_MINUTES[place] * 60e3))),
            ],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Milliseconds of virtual time in which throughput is to be at its new level, whatever
    /// changes.
    const SETTLED_MS_MAX: f64 = 10.0;

    #[test]
    fn throughput_is_at_its_new_level_within_ten_milliseconds_and_nothing_is_moved() {
        let options = Options { quick: false, traces: PathBuf::new(), seed: 1, workers: 1, baselines: Vec::new() };
        let result = Elasticity.run(&options).unwrap();
        let series = result.figures.last().and_then(|settled| settled.series.first()).unwrap();
        assert_eq!((series.name.as_str(), series.points.len()), ("ditto", 4));
        assert!(series.points.iter().all(|change| change.y <= SETTLED_MS_MAX), "{:?}", series.points);
        assert!(result.what.contains("Meanwhile 0 objects were written, evicted or copied"), "{}", result.what);
        assert!(result.what.contains("wrote or copied 0 objects meanwhile"), "{}", result.what);
    }
}
