//! Ditto, Fig. 13: clients come and go.

use super::super::setup::Setup;
use super::super::{Experiment, Options, shape};
use super::elastic::{self, Elastic, PHASES};
use super::{paper, roomy_bytes, setup, without_misses, ycsb};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};

const CLIENTS: u16 = 32;
const PHASE_NAMES: [&str; PHASES] = ["32 clients", "64 clients", "32 clients again"];
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
        "Ditto Fig. 13: 32 clients join 32 others at once, and leave again, YCSB C, no misses"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, clients, phase_ms) = options.scaled((300_000, CLIENTS, 30), (2_000, 4, 4));
        // Far more requests than anybody gets to in the time.
        let load = ycsb("ycsb-c", keys, 1 << 30, options)?;
        let bytes = roomy_bytes(keys, 2 * clients);
        let room_for_all = setup(load, &paper("lru+lfu"), 2 * clients, bytes, options.seed);
        let run = elastic::measure(&without_misses(Setup { threads: clients, ..room_for_all }), phase_ms)?;
        let Elastic { join_ns_max, leave_ns_max, misses, objects_moved, .. } = run;
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million; phases of {phase_ms} ms in place of 3 minutes. In the middle one as many clients again join at once, and leave at \
                 its end; here {clients} each time. The slowest join took {:.1} us, the slowest leave {:.1} us. Meanwhile {objects_moved} objects were written, evicted or copied, and \
                 {misses} GETs missed. Throughput is at its new level when no later millisecond of the phase is further than 5 % from that of the phase's second half. \
                 Redis' times are those that the paper prints of its migration. Of the paper's Ditto the printed throughput is that of 32 cores, each with coroutines of which neither number nor \
                 cost is printed: with 5 Mops at 12 us in the median there are 60 operations under way on 32 cores. Ours have one each and nothing to switch. Memory \
                 that is added and taken away is not in this run.",
                join_ns_max as f64 / 1e3,
                leave_ns_max as f64 / 1e3,
            ),
            figures: figures(&run, options.quick),
        })
    }
}

fn figures(run: &Elastic, quick: bool) -> Vec<report::Figure> {
    let over_time = run.windows.iter().enumerate().map(|(ms, count)| (ms as f64, *count as f64 / 1e3));
    let by_phase = |name: &str, of: &dyn Fn(usize) -> f64, printed: &dyn Fn(usize) -> Option<f64>| report::Series {
        name: name.to_owned(),
        points: (0..PHASES)
            .map(|phase| report::Point { x: phase as f64, y: of(phase), paper: printed(phase).filter(|_| !quick) })
            .collect(),
    };
    let phases = || shape::categories("phase", PHASE_NAMES);
    let changes = || shape::categories("change", ["clients join", "clients leave"]);
    vec![
        report::Figure {
            title: "Throughput in every millisecond".to_owned(),
            x: shape::axis("time", "ms"),
            y: shape::axis("throughput", "Mops/s"),
            series: vec![shape::series("ditto", over_time)],
        },
        report::Figure {
            title: "Throughput".to_owned(),
            x: phases(),
            y: shape::axis("throughput", "Mops/s"),
            series: vec![by_phase("ditto", &|phase| run.level_mops(phase), &|phase| Some(PRINTED_MOPS[phase]))],
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
                shape::series("ditto", [1, 2].map(|phase| (phase as f64 - 1.0, run.settled_ms(phase) as f64))),
                shape::series("Redis (paper)", [0, 1].map(|place| (place as f64, REDIS_MINUTES[place] * 60e3))),
            ],
        },
    ]
}
