//! Points of the paper's testbed, and the bytes of caches on it.

use crate::bench::measured::Measured;
use crate::bench::setup::{Setup, Start};
use crate::bench::sizes::objects_footprint;
use atoll_cache::ditto::DittoOptions;
use atoll_lab::load::{Load, ycsb::OBJECT_BYTES};
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use atoll_sim::network::profiles;
use atoll_sim::network::traffic::VerbKind;
use std::sync::Arc;

const COMPUTE_NODES: u16 = 8;
/// What a client may hold open besides its objects.
const HELD_BYTES: u64 = 256 << 10;

/// Ditto with these experts and the paper's parameters.
pub(super) fn paper(experts: &str) -> DittoOptions {
    DittoOptions::paper(experts.parse().expect("all of them are policies"))
}

/// A point with a cache of this many bytes, on an engine that is still to be chosen.
pub(super) fn testbed(load: Arc<dyn Load>, threads: u16, cache_bytes: u64, seed: u64) -> Setup {
    let base = Setup::new(load, threads, cache_bytes, OBJECT_BYTES, seed);
    Setup { profile: profiles::CX6_100G, compute_nodes: COMPUTE_NODES, ..base }
}

/// The same on Ditto.
pub(super) fn setup(load: Arc<dyn Load>, options: &DittoOptions, threads: u16, cache_bytes: u64, seed: u64) -> Setup {
    testbed(load, threads, cache_bytes, seed).on_ditto(options, cache_bytes)
}

/// The bytes of a cache for this many objects.
pub(super) fn cache_bytes(options: &DittoOptions, objects: u64) -> u64 {
    objects * objects_footprint(&options.objects(), OBJECT_BYTES)
}

/// The bytes of a cache in which none of so many objects is ever evicted.
pub(super) fn roomy_bytes(objects: u64, threads: u16) -> u64 {
    cache_bytes(&paper("lru+lfu"), 3 * objects) + u64::from(threads) * HELD_BYTES
}

/// The bytes of a cache in which so many objects just have room, beside what clients hold.
pub(super) fn tight_bytes(objects: u64, threads: u16) -> u64 {
    cache_bytes(&paper("lru+lfu"), objects + objects / 10) + u64::from(threads) * HELD_BYTES / 8
}

/// A point at which nothing misses.
pub(super) fn without_misses(setup: Setup) -> Setup {
    Setup { start: Start::Loaded, ..setup }
}

/// Verbs that the memory node served for a request, by kind. They explain a ratio to the paper.
pub(super) fn verbs_figure(title: &str, names: &[String], measured: &[&Measured]) -> Figure {
    let places = Places::named("verb", ["READ", "WRITE", "CAS", "FAA"]);
    let of = |measured: &Measured, verb: VerbKind| {
        let nics = &measured.traffic.nics[COMPUTE_NODES.into()..];
        let served: u64 = nics.iter().map(|nic| nic.verbs[verb as usize]).sum();
        served as f64 / measured.requests.max(1) as f64
    };
    let lines = names
        .iter()
        .zip(measured)
        .map(|(name, measured)| places.line(name.clone(), VerbKind::ALL.into_iter().map(|verb| of(measured, verb))));
    places.figure(title, ("verbs a request", ""), lines)
}
