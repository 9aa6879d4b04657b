//! Near caches by the number of compute nodes, on one of Twitter's clusters: what Fig. 1 and Fig. 4
//! have in common.

use super::manager::{self, REQUEST_NS};
use super::point::{Access, Measured, Point, measure_all};
use super::systems::{CLIENTS_PER_NODE, COMPUTE_NODES, testbed};
use crate::bench::Options;
use crate::bench::loads::real;
use crate::bench::sweep::Swept;
use atoll_lab::LabError;
use atoll_lab::report::places::Places;
use atoll_near::Protocol;

/// The cluster of Fig. 12.
const CLUSTER: &str = "twitter-4";
const SYSTEMS: [(&str, Protocol, bool); 4] = [
    ("none", Protocol::None, false),
    ("nocc", Protocol::NoCc, true),
    ("difache", Protocol::Difache, false),
    ("cmcache", Protocol::CmCache, true),
];
pub(super) const CMCACHE: usize = 3;

/// The systems over the number of compute nodes.
pub(super) struct Scaling {
    pub(super) swept: Swept<Measured>,
    /// By number of compute nodes.
    pub(super) parts: Vec<Parts>,
    pub(super) what: String,
}

/// Of what the median latency of CMCache's cache operations consists.
pub(super) struct Parts {
    pub(super) network_us: f64,
    pub(super) queue_us: f64,
    pub(super) handled_us: f64,
    /// The share of all accesses that are such operations.
    pub(super) asks: f64,
}

impl Parts {
    /// The share of the network and the queue.
    pub(super) fn serialization(&self) -> f64 {
        let serial_us = self.network_us + self.queue_us;
        serial_us / (serial_us + self.handled_us)
    }
}

impl Scaling {
    pub(super) fn measure(options: &Options) -> Result<Self, LabError> {
        let requests = options.scaled(400_000, 8_000);
        let nodes: Vec<u16> = options.scaled((1..=COMPUTE_NODES).collect(), vec![1, 2]);
        let load = real(CLUSTER, requests, options)?;
        let base = Point { object_bytes: None, read_percent: None, ..testbed(load, options) };
        let sized = |compute_nodes, clients| Point { compute_nodes, clients, ..base.clone() };
        let mut points: Vec<Point> = SYSTEMS
            .iter()
            .flat_map(|(_, protocol, cached_at_first)| {
                nodes.iter().map(|nodes| Point {
                    protocol: *protocol,
                    cached_at_first: *cached_at_first,
                    ..sized(*nodes, nodes * CLIENTS_PER_NODE)
                })
            })
            .collect();
        // One client alone READs objects of the same sizes.
        let alone = real(CLUSTER, requests / u64::from(CLIENTS_PER_NODE), options)?;
        points.push(Point { load: alone, ..sized(1, 1) });
        let mut measured = measure_all(&points, options.workers)?.into_iter();
        let lines: Vec<Vec<Measured>> = SYSTEMS.iter().map(|_| measured.by_ref().take(nodes.len()).collect()).collect();
        let read_us = measured.next().expect("a client alone").median_us(Access::ReadBypassing);
        let handled_us = REQUEST_NS as f64 / 1e3 + read_us;
        let network_us = manager::exchange_ns(base.profile)? as f64 / 1e3;
        let parts = lines[CMCACHE].iter().map(|measured| {
            let (median_us, operations) = measured.asking();
            Parts {
                network_us,
                queue_us: (median_us - network_us - handled_us).max(0.0),
                handled_us,
                asks: operations as f64 / measured.requests.max(1) as f64,
            }
        });
        let parts = parts.collect();
        let names = SYSTEMS.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let swept = Swept::new(Places::numbers("compute nodes", "", nodes), names, lines);
        let what = format!(
            "A load with the statistics of Twitter's cluster 4, {requests} requests, of which a fifth warms up; \
             {CLIENTS_PER_NODE} clients on each compute node."
        );
        Ok(Self { swept, parts, what })
    }

    /// The parts with the most compute nodes.
    pub(super) fn last(&self) -> &Parts {
        self.parts.last().expect("there are compute nodes")
    }
}
