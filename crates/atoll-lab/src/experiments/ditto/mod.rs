//! The figures of Ditto's paper.
//!
//! What differs from FORGE's experiments, after Ditto's section 5.1:
//!
//! - **Testbed**: eight compute nodes and one memory node, on the profile `cx6-100g`.
//! - **Ditto**: LRU and LFU as experts with the paper's parameters, unless a figure says otherwise.
//!   A sample is a bucket of sixteen slots, about half of which hold objects, where the paper's has
//!   five objects. Beside it stands the same with miniatures in place of regrets, as it learns by
//!   default.
//! - **CliqueMap**: one core at the memory node, unless a figure says otherwise; what it costs is
//!   in `processor`.
//! - **Clients**: each is one thread with one operation outstanding. The paper's clients run
//!   several coroutines on a core, of which it prints no number.
//! - **Cache size**: of a load that is not to miss, three times what its objects take, so that no
//!   bucket is ever full. Of a trace, a share of the footprint, where an object counts with its
//!   block and its slots: room for that share of the objects, as in the paper.

mod elastic;
mod fig13;
mod fig14;
mod fig15;
mod fig16;
mod fig18;
mod fig19;
mod fig2;
mod fig20;
mod fig21;
mod fig22;
mod fig23;
mod fig24;
mod fig25;
mod staged;

pub(super) use fig2::Tracking;
pub(super) use fig13::Elasticity;
pub(super) use fig14::Ycsb;
pub(super) use fig15::Cores;
pub(super) use fig16::RealTraces;
pub(super) use fig18::RelativeHits;
pub(super) use fig19::Changing;
pub(super) use fig20::Mixed;
pub(super) use fig21::Clients;
pub(super) use fig22::Memory;
pub(super) use fig23::Policies;
pub(super) use fig24::Ablation;
pub(super) use fig25::Counters;

use super::point::Measured;
use super::setup::{Setup, Start, cliquemap_footprint, objects_footprint};
use super::{Options, shape};
use crate::load::{Load, LoadOptions, ycsb::OBJECT_BYTES};
use crate::{LabError, report};
use atoll_baselines::cliquemap::Policy;
use atoll_cache::ditto::DittoOptions;
use atoll_sim::network::profiles;
use atoll_sim::network::traffic::VerbKind;
use std::sync::Arc;

const COMPUTE_NODES: u16 = 8;
/// Of the experiments in which a miss takes time (section 5.4).
const MISS_PENALTY_NS: u64 = 500_000;

/// A system: its name, and a point of the testbed made into one on it with a cache for so many
/// objects.
type System = (&'static str, fn(Setup, u64) -> Setup);

/// Two experts that learn from regrets, as in the paper; each of them alone; and both as they learn
/// by default.
const SYSTEMS: [System; 4] = [
    ("ditto", |setup, objects| on_ditto(setup, &paper("lru+lfu"), objects)),
    ("ditto-lru", |setup, objects| on_ditto(setup, &paper("lru"), objects)),
    ("ditto-lfu", |setup, objects| on_ditto(setup, &paper("lfu"), objects)),
    ("ditto, miniatures", |setup, objects| on_ditto(setup, &by_miniatures(paper("lru+lfu")), objects)),
];

/// The same, and what has a processor at the memory node: one core, and room for as many objects.
const WITH_CLIQUEMAP: [System; 6] = [
    SYSTEMS[0],
    SYSTEMS[1],
    SYSTEMS[2],
    SYSTEMS[3],
    ("cliquemap-lru", |setup, objects| on_cliquemap(setup, Policy::Lru, objects)),
    ("cliquemap-lfu", |setup, objects| on_cliquemap(setup, Policy::Lfu, objects)),
];

fn on_ditto(setup: Setup, options: &DittoOptions, objects: u64) -> Setup {
    setup.on_ditto(options, cache_bytes(options, objects), OBJECT_BYTES)
}

fn on_cliquemap(setup: Setup, policy: Policy, objects: u64) -> Setup {
    setup.on_cliquemap(policy, objects * cliquemap_footprint(OBJECT_BYTES), OBJECT_BYTES)
}

/// The same point on each of these systems, with a cache for so many objects; a miss takes time.
fn on_all(systems: &[System], load: &Arc<dyn Load>, threads: u16, objects: u64, seed: u64) -> Vec<Setup> {
    let base = testbed(load.clone(), threads, objects * u64::from(OBJECT_BYTES), seed);
    let base = Setup { miss_penalty_ns: MISS_PENALTY_NS, ..base };
    systems.iter().map(|(_, on)| on(base.clone(), objects)).collect()
}

/// What the systems are called.
fn names(systems: &[System]) -> Vec<String> {
    systems.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// What a client may hold open besides its objects.
const HELD_BYTES: u64 = 256 << 10;

/// Ditto with these experts and the paper's parameters.
fn paper(experts: &str) -> DittoOptions {
    DittoOptions::paper(experts.parse().expect("all of them are policies"))
}

/// The same, but for how it learns: as it does by default.
fn by_miniatures(options: DittoOptions) -> DittoOptions {
    DittoOptions { learning: atoll_cache::experts::Settings::default(), ..options }
}

/// A point of the paper's testbed with a cache of so many bytes.
fn setup(load: Arc<dyn Load>, options: &DittoOptions, threads: u16, cache_bytes: u64, seed: u64) -> Setup {
    testbed(load, threads, cache_bytes, seed).on_ditto(options, cache_bytes, OBJECT_BYTES)
}

/// The same without its engine.
fn testbed(load: Arc<dyn Load>, threads: u16, cache_bytes: u64, seed: u64) -> Setup {
    let base = Setup::new(load, threads, cache_bytes, OBJECT_BYTES, seed);
    Setup { profile: profiles::CX6_100G, compute_nodes: COMPUTE_NODES, ..base }
}

/// A workload of YCSB.
fn ycsb(name: &str, keys: u64, requests: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let options = LoadOptions { keys, requests: Some(requests), seed: options.seed, ..LoadOptions::named(name) };
    Ok(options.open()?.into())
}

/// The bytes of a cache in which none of so many objects is ever evicted.
fn roomy_bytes(objects: u64, threads: u16) -> u64 {
    cache_bytes(&paper("lru+lfu"), 3 * objects) + u64::from(threads) * HELD_BYTES
}

/// The bytes of a cache in which so many objects just have room, beside what clients hold.
fn tight_bytes(objects: u64, threads: u16) -> u64 {
    cache_bytes(&paper("lru+lfu"), objects + objects / 10) + u64::from(threads) * HELD_BYTES / 8
}

/// A point at which nothing misses.
fn without_misses(setup: Setup) -> Setup {
    Setup { start: Start::Loaded, ..setup }
}

/// The bytes of a cache for so many objects.
fn cache_bytes(options: &DittoOptions, objects: u64) -> u64 {
    objects * objects_footprint(&options.objects(), OBJECT_BYTES)
}

/// Verbs that the memory node served for a request, by kind: what a ratio to the paper is explained
/// with.
fn verbs_figure(title: &str, names: &[String], measured: &[&Measured]) -> report::Figure {
    let of = |measured: &Measured, verb: VerbKind| {
        let served: u64 =
            measured.traffic.nics[COMPUTE_NODES.into()..].iter().map(|nic| nic.verbs[verb as usize]).sum();
        served as f64 / measured.requests.max(1) as f64
    };
    let line = |(name, measured): (&String, &&Measured)| {
        let places = VerbKind::ALL.iter().enumerate();
        shape::series(name.clone(), places.map(|(place, verb)| (place as f64, of(measured, *verb))))
    };
    report::Figure {
        title: title.to_owned(),
        x: shape::categories("verb", ["READ", "WRITE", "CAS", "FAA"]),
        y: shape::axis("verbs a request", ""),
        series: names.iter().zip(measured).map(line).collect(),
    }
}
