//! Ditto, Fig. 19: a load that changes from friendly to LRU to friendly to LFU and back.

use super::staged::{self, Counted, Stage, Staged};
use super::systems::{self, System};
use crate::bench::sweep::{Metric, Swept};
use crate::bench::{Findings, Options};
use atoll_cache::ditto::DittoOptions;
use atoll_lab::LabError;
use atoll_lab::load::Load;
use atoll_lab::load::patterned::{Pattern, Patterned};
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use std::sync::Arc;

/// In microseconds: when a client tells the pool of an access at the latest. In so small a cache an
/// object without accesses stays less than a tenth of a second. LFU would know of no access that is
/// told at the usual age.
const COUNTER_AGE_US: u64 = 10_000;

/// Ditto as in the other figures, but its clients tell the pool of accesses sooner.
pub(super) fn telling_soon() -> Vec<System> {
    systems::ditto(|options| DittoOptions { counter_age_us: COUNTER_AGE_US, ..options })
}

/// The paper's four phases.
const PHASES: [(&str, Pattern); 4] = [
    ("1: recent", Pattern::Recent),
    ("2: frequent", Pattern::Frequent),
    ("3: recent", Pattern::Recent),
    ("4: frequent", Pattern::Frequent),
];
const CLIENTS: u16 = 16;
/// Stages of a phase.
const STEPS: usize = 10;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests, clients) = options.scaled((2_000, 1_600_000, CLIENTS), (500, 40_000, 4));
    let load: Arc<dyn Load> = Arc::new(Patterned {
        phases: PHASES.map(|(_, pattern)| pattern).to_vec(),
        keys,
        object_bytes: OBJECT_BYTES,
        requests,
        seed: options.seed,
    });
    let mut systems = telling_soon();
    systems.extend(systems::cliquemap());
    let setups = systems.iter().map(|system| system.point(&load, clients, keys, options.seed)).collect();
    let stages = [Stage { clients, memory_percent: 100, part: 1 }; PHASES.len() * STEPS];
    let counted = staged::measure_all(&systems, setups, &stages, options)?;
    conclude(&counted, options);
    Ok(Findings {
        what: format!(
            "The paper says of its load only that it is synthesized and has four phases. Ours has {requests} requests in four phases of equal length. In the first and third each is for one of the \
             {keys} newest keys, all of which are as likely; a new key comes, and the oldest goes, after every second request, and no key comes twice. In the second and fourth one half of the requests are each for one of \
             {keys} popular keys, which are the same in both phases, and the other half each for a key that is asked for once. The cache has room for {keys} objects of {OBJECT_BYTES} bytes. \
             Places along are tenths of a phase, by requests and not by time: all systems are asked the same. Between them clients wait for each other, which is not counted. Nothing is warmed up. \
             The paper does not say how many clients and keys there are. In so small a cache objects pass soon: clients tell the pool of accesses that they have added up when these are {} ms old at the latest, in place \
             of a second, or LFU would know next to nothing. \
             CliqueMap has one core at the memory node. The paper's text prints no number of this figure.",
            COUNTER_AGE_US / 1000,
        ),
        figures: figures(counted),
    })
}

/// The paper's statement that Ditto has the highest throughput and hit ratio, beside ours.
fn conclude(counted: &Staged, options: &Options) {
    let all: Vec<Counted> = counted.lines.iter().map(|line| Counted::sum(line)).collect();
    for (label, unit, of) in
        [("throughput", "Mops/s", Counted::mops as fn(&Counted) -> f64), ("hit ratio", "%", Counted::hit_percent)]
    {
        // Ditto as the paper has it stands first.
        let best = (0..all.len()).max_by(|one, other| of(&all[*one]).total_cmp(&of(&all[*other]))).unwrap_or_default();
        let told = if best == 0 { "as in the paper" } else { "in the paper it is ditto: wrong direction" };
        options.record.conclude(format!(
            "Of all phases together {} has the highest {label}, {:.2} {unit}, and ditto {:.2} {unit}; {told}.",
            counted.names[best],
            of(&all[best]),
            of(&all[0]),
        ));
    }
}

fn figures(counted: Staged) -> Vec<Figure> {
    const METRICS: [Metric<Counted>; 2] =
        [("throughput", "Mops/s", Counted::mops), ("hit ratio", "%", Counted::hit_percent)];
    let steps = (1..=PHASES.len() * STEPS).map(|step| step as f64 / STEPS as f64);
    let by_step = Swept::new(Places::numbers("requests", "phases", steps), counted.names, counted.lines);
    let phases = Places::named("phase", PHASES.into_iter().map(|(name, _)| name).chain(["all"]));
    let summed = by_step.lines().iter().map(|line| {
        let mut phases: Vec<Counted> = line.chunks(STEPS).map(Counted::sum).collect();
        phases.push(Counted::sum(line));
        phases
    });
    let by_phase = Swept::new(phases, by_step.names().to_vec(), summed.collect());
    let mut figures = Vec::new();
    for (label, unit, of) in METRICS {
        figures.push(by_step.figure(format!("Tenths of a phase, {label}"), (label, unit), of));
        figures.push(by_phase.figure(format!("Phases, {label}"), (label, unit), of));
    }
    figures.push(staged::weights(by_step.names(), by_step.lines(), STEPS));
    figures
}
