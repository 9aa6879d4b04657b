//! Ditto, Fig. 24: what each of its techniques is worth, one after the other.

use super::fig21::TRACE;
use super::testbed::{cache_bytes, paper, setup, verbs_figure};
use crate::bench::ablation::{self, Technique};
use crate::bench::loads::{Known, fixed};
use crate::bench::measured::Measured;
use crate::bench::setup::Setup;
use crate::bench::sweep::{METRICS, Sweep, Swept};
use crate::bench::{Findings, Options};
use atoll_baselines::ditto_ablations::{SAMPLED_OBJECTS, Variant};
use atoll_lab::LabError;
use atoll_lab::load::Load;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use atoll_sim::network::profiles;
use std::sync::Arc;

/// In place of the block trace of mail servers that the paper has: one with few hits, which the
/// other figures have, and one with many.
const TRACES: [&str; 2] = [TRACE, "arc_oltp"];
const REQUESTS_MAX: u64 = 600_000;
const CACHE_PERCENT: u64 = 10;
const CLIENTS: u16 = 64;

/// What is done without, step by step.
const TECHNIQUES: [Technique<Variant>; 4] = [
    ("- frequency-counter cache", |variant| variant.eager_counters = true),
    ("- lazy weight update", |variant| variant.eager_weights = true),
    ("- lightweight history", |variant| variant.history_apart = true),
    ("- sample-friendly hash table", |variant| variant.information_apart = true),
];

/// What is put together for section 5.6: its name, the first and the last step of which the first
/// is that much faster, and by how much the text prints.
const GAINS: [(&str, usize, usize, Option<f64>); 5] = [
    ("frequency-counter cache and lazy weight update", 0, 2, Some(1.04)),
    ("frequency-counter cache", 0, 1, None),
    ("lazy weight update", 1, 2, None),
    ("lightweight history", 2, 3, Some(1.13)),
    ("sample-friendly hash table", 3, 4, Some(1.42)),
];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let clients = options.scaled(CLIENTS, 4);
    let (names, variants): (Vec<String>, Vec<Variant>) = steps().into_iter().unzip();
    let mut sweep = Sweep::over(Places::named("step", names.clone()));
    let mut told = Vec::new();
    for trace in TRACES {
        let load = Known::of(fixed(trace, REQUESTS_MAX, clients, CACHE_PERCENT, options)?);
        told.push(load.what());
        let objects = load.footprint.objects;
        let points = variants.iter().map(|variant| point(&load.load, objects, clients, *variant, options.seed));
        sweep.line(trace, points);
    }
    let swept = sweep.measure(options)?;
    let mut figures = swept.figures(&METRICS);
    figures.push(gains(&swept, options.quick));
    for (trace, line) in TRACES.into_iter().zip(swept.lines()) {
        figures.push(verbs_figure(&format!("Verbs by step, {trace}"), &names, &line.iter().collect::<Vec<_>>()));
    }
    Ok(Findings {
        what: format!(
            "{}; in place of the paper's webmail, which hits more often than the first and about as often as the second by its published results. No penalty for a miss. The paper prints neither the cache size nor the number of clients, nor which verbs take a technique's place. {CACHE_PERCENT} %, {CLIENTS} clients, and \
             the order in which techniques go are those of its published scripts, and so is what is done instead. Without the counter cache every access is a FAA. Without lazy weights every regret is told at once, and \
             every eviction READs the weights; the paper sends a message to the memory node's processor, ours is a FAA for each expert. Without the lightweight history an eviction fetches an id by itself, READs the oldest entry of a ring beside the \
             pool, WRITEs its own over it and makes the slot that the old one named empty by a CAS, the last two without waiting; a regret READs the entry. Without the sample-friendly table an eviction READs the slots of \
             a bucket and then the access information of {SAMPLED_OBJECTS} objects, one after the other, and an insertion WRITEs four words one by one. A hit is the same with and without it, since LRU and LFU have one word to WRITE and one to \
             add to. Of the paper's GET the READ of the history counter is in none of the steps (see ditto-fig14). A gain is the throughput of a step over that of the one without the technique, as in the paper; hit ratios differ from step to step. \
             Where next to everything misses, as in the first trace, every request evicts, and the FAAs of evictions on the one word of the history counter are the limit: {} ns each in the profile, whatever else there is to do.",
            told.join("; "),
            profiles::CX6_100G.atomics_host.turn_ps / 1000,
        ),
        figures,
    })
}

fn point(load: &Arc<dyn Load>, objects: u64, clients: u16, variant: Variant, seed: u64) -> Setup {
    let ditto = paper("lru+lfu");
    let bytes = cache_bytes(&ditto, objects * CACHE_PERCENT / 100);
    setup(load.clone(), &ditto, clients, bytes, seed).ablated_ditto(variant)
}

/// Name and switches of every step.
fn steps() -> Vec<(String, Variant)> {
    ablation::steps("all techniques", Variant::default(), &TECHNIQUES)
}

fn gains(swept: &Swept<Measured>, quick: bool) -> Figure {
    let places = Places::named("technique", GAINS.map(|(name, ..)| name));
    let lines = swept.names().iter().zip(swept.lines()).map(|(trace, line)| {
        let gain = |with: usize, without: usize| line[with].mops() / line[without].mops().max(1e-9);
        let gains = places.line(trace.clone(), GAINS.map(|(_, with, without, _)| gain(with, without)));
        gains.beside(GAINS.map(|(.., printed)| printed.filter(|_| !quick)))
    });
    places.factors("Gain in throughput", "times higher", lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measured::measure_all;
    use atoll_fabric::Purpose;
    use atoll_lab::load::patterned::{Pattern, Patterned};
    use atoll_lab::load::ycsb::OBJECT_BYTES;

    #[test]
    fn every_step_adds_the_verbs_that_its_technique_saves() {
        let phases = vec![Pattern::Frequent, Pattern::Recent];
        let load: Arc<dyn Load> =
            Arc::new(Patterned { phases, keys: 10_000, object_bytes: OBJECT_BYTES, requests: 60_000, seed: 3 });
        let setups: Vec<Setup> = steps().into_iter().map(|(_, variant)| point(&load, 20_000, 4, variant, 3)).collect();
        let measured = measure_all(&setups, &Options::default()).unwrap();
        let evictions = |one: &Measured| one.stats.iter().find(|(name, _)| *name == "evictions").unwrap().1 as f64;
        let per_request = |one: &Measured, purpose| one.traffic.of(purpose).verbs as f64 / one.requests as f64;
        let per_eviction = |one: &Measured, count: fn(&Measured) -> u64| count(one) as f64 / evictions(one);
        let round_trips = |one: &Measured| one.traffic.of(Purpose::Eviction).round_trips;
        let verbs = |one: &Measured| one.traffic.of(Purpose::Eviction).verbs;
        let [whole, counters, weights, history, information] = measured.as_slice() else { panic!("five steps") };
        // A FAA more for nearly every hit.
        let hits = counters.hits as f64 / counters.requests as f64;
        let more = per_request(counters, Purpose::Hotness) - per_request(whole, Purpose::Hotness);
        assert!(more > 0.8 * hits && more < 1.1 * hits, "{more} of {hits} hits");
        let differences = |count| {
            let steps = [counters, weights, history, information].map(|one| per_eviction(one, count));
            [steps[1] - steps[0], steps[2] - steps[1], steps[3] - steps[2]]
        };
        // Of an eviction: READ weights; FAA, which went with the sample, and READ of the old entry;
        // up to five READs.
        let [for_weights, for_history, for_information] = differences(round_trips);
        assert!((0.9..1.4).contains(&for_weights), "{for_weights}");
        assert!((1.9..2.6).contains(&for_history), "{for_history}");
        assert!((3.5..6.5).contains(&for_information), "{for_information}");
        // The FAA was there before; READ, WRITE and, once the ring is full, a CAS come.
        let [_, for_history, _] = differences(verbs);
        assert!((1.9..3.4).contains(&for_history), "{for_history}");
    }
}
