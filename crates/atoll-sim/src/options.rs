//! What a simulation is made of: its options and its regions.

use crate::fault::{Faults, Fencing};
use crate::network::Network;
use crate::{Distance, Relaxations, Strategy, Strict};
use atoll_fabric::{BATCH_VERBS_MAX, Domain, Kind, Lifetime, Limits, RegionAttributes};

/// What a simulation is made of.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Decides everything that chance decides.
    pub seed: u64,
    /// The regions of every node: `nodes[n][r]` is at addresses of node `n` and region `r`.
    pub nodes: Vec<Vec<RegionAttributes>>,
    /// How the next step is chosen.
    pub strategy: Strategy,
    /// Which relaxations of the contract are taken.
    pub relaxations: Relaxations,
    /// Which faults the seed draws.
    pub faults: Faults,
    /// Relaxations and faults that are switched off, whatever stands above; `ATOLL_SIM_STRICT` is
    /// the default.
    pub strict: Strict,
    /// What fences can do.
    pub fencing: Fencing,
    /// How far memory is from clients.
    pub distance: Distance,
    /// When a batch whose completion cannot arrive ends in "outcome unknown".
    pub deadline_ns: u64,
    /// What the endpoints say that they take at once.
    pub limits: Limits,
    /// A run of more steps is a livelock.
    pub steps_max: u64,
    /// Milliseconds since the Unix epoch when the run begins.
    pub epoch_ms: u64,
    /// How many of the last events a failing run prints; `ATOLL_SIM_TRACE` overrides it.
    pub trace_events: usize,
    /// Whether memory that is [discarded](atoll_fabric::Endpoint::discard) is given back to the
    /// host; else nothing does.
    pub gives_back: bool,
    /// In a timed run, the network; `None` for a run in which chance decides. The two do not mix:
    /// see [`SimOptions::timed`].
    pub network: Option<Network>,
}

impl SimOptions {
    /// One node with one host region of `bytes`, everything else as it is by default: all
    /// relaxations, no faults, strategy by the seed.
    pub fn new(seed: u64, bytes: u64) -> Self {
        Self::with_nodes(seed, vec![vec![region(bytes, Kind::Host)]])
    }

    /// A timed run on `network`: without relaxations and faults. See [`network`](crate::network).
    pub fn timed(seed: u64, nodes: Vec<Vec<RegionAttributes>>, network: Network) -> Self {
        Self {
            relaxations: Relaxations::none(),
            steps_max: u64::MAX,
            network: Some(network),
            distance: Distance::Far,
            ..Self::with_nodes(seed, nodes)
        }
    }

    /// Several nodes and regions; see [`region`].
    pub fn with_nodes(seed: u64, nodes: Vec<Vec<RegionAttributes>>) -> Self {
        Self {
            gives_back: true,
            seed,
            nodes,
            strategy: Strategy::FromSeed,
            relaxations: Relaxations::all(),
            faults: Faults::none(),
            strict: Strict::from_environment(),
            fencing: Fencing::default(),
            distance: Distance::default(),
            deadline_ns: 1_000_000,
            limits: Limits { batch_verbs_max: BATCH_VERBS_MAX, batches_max: 16, verb_bytes_max: 1 << 20 },
            steps_max: 20_000_000,
            epoch_ms: 1_700_000_000_000,
            network: None,
            trace_events: std::env::var("ATOLL_SIM_TRACE").ok().and_then(|text| text.parse().ok()).unwrap_or(0),
        }
    }
}

/// A region as a memory node exports it.
pub const fn region(bytes: u64, kind: Kind) -> RegionAttributes {
    RegionAttributes { bytes, kind, domain: Domain::Nic, lifetime: Lifetime::Process }
}
