//! The protocols beside each other, over the places of a figure.

use super::point::{Access, Measured, PROFILE, Point, measure_all};
use crate::bench::Options;
use crate::bench::sweep::Swept;
use atoll_lab::LabError;
use atoll_lab::load::{Load, LoadOptions};
use atoll_lab::report::places::Places;
use atoll_lab::report::{Figure, Series};
use atoll_near::Protocol;
use std::sync::Arc;

/// Lines of a figure, in this order: a name, the protocol, and whether objects are cached at first.
const SYSTEMS: [(&str, Protocol, bool); 6] = [
    ("none", Protocol::None, false),
    ("nocc", Protocol::NoCc, true),
    ("difache-noac", Protocol::DifacheNoAc, true),
    ("difache, on at first", Protocol::Difache, true),
    ("difache", Protocol::Difache, false),
    ("cmcache", Protocol::CmCache, true),
];
pub(super) const NONE: usize = 0;
pub(super) const NO_AC: usize = 2;
pub(super) const DIFACHE: usize = 4;
pub(super) const CMCACHE: usize = 5;

/// The paper's compute nodes, and clients on each.
pub(super) const COMPUTE_NODES: u16 = 8;
pub(super) const CLIENTS_PER_NODE: u16 = 16;
pub(super) const OBJECT_BYTES: u32 = 1024;
pub(super) const READ_PERCENT: f64 = 95.0;
pub(super) const THETA: f64 = 0.99;

/// So many accesses of so many objects, by popularity.
pub(super) fn skewed(objects: u64, theta: f64, requests: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let named = LoadOptions::named("ycsb-c");
    let load = LoadOptions { keys: objects, theta, requests: Some(requests), seed: options.seed, ..named };
    Ok(load.open()?.into())
}

/// The paper's default point without a near cache.
pub(super) fn testbed(load: Arc<dyn Load>, options: &Options) -> Point {
    Point {
        protocol: Protocol::None,
        cached_at_first: false,
        owners_from: 33,
        compute_nodes: COMPUTE_NODES,
        clients: COMPUTE_NODES * CLIENTS_PER_NODE,
        is_client_a_node: false,
        load,
        object_bytes: Some(OBJECT_BYTES),
        read_percent: Some(READ_PERCENT),
        near_bytes: None,
        profile: options.profile(PROFILE),
        seed: options.seed,
    }
}

/// Measures every protocol at the points.
pub(super) fn beside(places: Places, points: &[Point], options: &Options) -> Result<Swept<Measured>, LabError> {
    let all: Vec<Point> = SYSTEMS
        .iter()
        .flat_map(|(_, protocol, cached_at_first)| {
            points.iter().map(|point| Point { protocol: *protocol, cached_at_first: *cached_at_first, ..point.clone() })
        })
        .collect();
    let mut measured = measure_all(&all, options.workers)?.into_iter();
    let lines = SYSTEMS.iter().map(|_| measured.by_ref().take(points.len()).collect()).collect();
    Ok(Swept::new(places, SYSTEMS.iter().map(|(name, ..)| (*name).to_owned()).collect(), lines))
}

/// Throughput and hit ratio.
pub(super) fn figures(panel: &str, swept: &Swept<Measured>) -> Vec<Figure> {
    vec![
        swept.figure(format!("{panel}: throughput"), ("throughput", "Mops/s"), Measured::mops),
        swept.figure(format!("{panel}: reads that hit"), ("hits", "%"), Measured::hit_percent),
    ]
}

/// One protocol's throughput over another's, by place.
pub(super) fn over(swept: &Swept<Measured>, one: usize, other: usize) -> Vec<f64> {
    let pairs = swept.lines()[one].iter().zip(&swept.lines()[other]);
    pairs.map(|(one, other)| one.mops() / other.mops().max(1e-9)).collect()
}

/// The best throughput of a protocol.
pub(super) fn peak(swept: &Swept<Measured>, system: usize) -> f64 {
    swept.lines()[system].iter().map(Measured::mops).fold(0.0, f64::max)
}

/// The median latency of each kind of access, of one protocol by place.
pub(super) fn medians(measured: &Measured) -> [f64; 5] {
    Access::ALL.map(|access| measured.median_us(access))
}

/// What the text of the paper says beside what came out: of each statement its name, ours, and the
/// printed factor.
pub(super) fn statements(title: &str, statements: &[(&str, f64, f64)]) -> Figure {
    let places = Places::named("statement", statements.iter().map(|(name, ..)| *name));
    let ours: Series = places.line("ours", statements.iter().map(|(_, ours, _)| *ours));
    let line = ours.beside(statements.iter().map(|(.., printed)| Some(*printed)));
    places.factors(title, "factor", [line])
}
