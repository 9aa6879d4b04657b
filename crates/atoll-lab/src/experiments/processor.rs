//! The processor of the memory node, for systems that need one: how many cores it has, and what
//! messages cost them.
//!
//! Receiving a message and answering it takes what the profile says of a client: finding a
//! completion, preparing a work request, ringing a doorbell. What the server does in between was
//! measured on this code, as the costs of clients were: `cargo bench -p atoll-lab --bench
//! cliquemap_server`. Costs of access information are by access, as merging them is what the paper
//! says keeps the core busy (Ditto, section 5.3). The paper prints none of these costs.
//!
//! Cores share one queue of messages and do not wait for each other: what locks between them cost
//! is not in it.

use atoll_baselines::cliquemap::Policy;
use atoll_baselines::cliquemap::wire::{self, Payload};
use atoll_sim::network::{Profile, Service};

/// What the server of CliqueMap does for a message, in nanoseconds of one core, without receiving
/// and answering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCosts {
    /// A change of a key.
    pub change_ns: u64,
    /// An access merged into the order of eviction.
    pub access_ns: u64,
}

impl ServerCosts {
    /// What was measured on 300,000 keys as skewed as YCSB's, with room for all: the median of
    /// three runs, on a virtual machine with two cores of an AMD EPYC and much other work going on.
    /// They were between 1652 and 2007 ns for a change and 120 and 182 for an access with LRU, 2360
    /// and 2766, and 727 and 866, with LFU.
    pub const fn measured(policy: Policy) -> Self {
        match policy {
            Policy::Lru => Self { change_ns: 1870, access_ns: 130 },
            Policy::Lfu => Self { change_ns: 2710, access_ns: 800 },
        }
    }
}

/// A memory node's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its cores.
    pub cores: usize,
    /// What messages cost them.
    pub costs: ServerCosts,
}

impl Default for Processor {
    /// One core, as Ditto's section 5.1 has it, and LRU.
    fn default() -> Self {
        Self { cores: 1, costs: ServerCosts::measured(Policy::Lru) }
    }
}

impl Processor {
    /// It, on a network.
    pub(super) fn service(self, profile: &Profile) -> Service {
        let client = profile.client;
        let passed_ns = (client.completion_ps + client.verb_ps + client.batch_ps) / 1000;
        let Self { cores, costs } = self;
        Service::by_message(cores, move |message| {
            passed_ns
                + match wire::decode(message) {
                    Some((_, Payload::Change(..))) => costs.change_ns,
                    Some((_, Payload::Accesses(accesses))) => accesses.iter().len() as u64 * costs.access_ns,
                    _ => 0,
                }
        })
    }
}
