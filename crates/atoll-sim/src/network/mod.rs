//! What verbs cost: a run in virtual time, on a network of NICs with limits.
//!
//! A simulation with a [`Network`] is *timed*. Only what clients draw themselves is random in it:
//! no relaxation is taken, no fault happens, no strategy chooses. A client is a thread with its own
//! processor, whose time is virtual, too. The path of a verb:
//!
//! ```text
//!   client's processor   polls its task, makes the batch, copies: CpuCosts and ClientTimes
//!         |              doorbell_ps
//!   compute node's NIC   issue engine (one verb after another) -> link out
//!         |              wire_ps + switch_ps
//!   memory node's NIC    link in -> serve engine (by verb) -> [atomics unit]: takes effect
//!         |              host_read_ps, or the atomic's turn -> link out
//!         |              wire_ps + switch_ps
//!   compute node's NIC   link in
//!         |              completion_ps, once all verbs of the batch have come so far
//!   client's processor   finds the completion, copies, continues
//! ```
//!
//! Engines, links and atomics units are servers: each knows only the time from which it is free.
//! That is exact as long as requests arrive in the order of time. So a verb has an event wherever
//! it reaches a server that verbs from elsewhere reach, too. There is one event per batch at the
//! doorbell. There are three per verb: at the memory node's NIC, when its memory has answered, and
//! back at the compute node's NIC. There is one per batch at its completion.
//!
//! One thing happens early: a verb takes effect when it reaches the memory node's NIC, before it
//! waits for the engine. The engine serves in that order, so no other verb sees a difference.
//!
//! **Order in a batch**: verbs to one node follow one another. A fenced verb is held back at the
//! client's NIC until the responses to all earlier verbs to its node have arrived. All other
//! traffic contends.
//!
//! **Exports**: a verb to what another compute node exports passes both NICs, as above. A batch
//! whose verbs are all to exports of the client's own compute node passes none: its processor
//! reaches that memory, and is charged for the steps and the bytes.
//!
//! The model leaves out loss, congestion control, NIC caches for queue pairs and translations, and
//! limits of outstanding READs.
//!
//! | module | concept |
//! |---|---|
//! | [`profile`], [`profiles`] | what a network costs; those known by name |
//! | `written` | those that users write |
//! | [`cpu`] | what the steps of a protocol cost the client's processor |
//! | [`bound`] | the most that a memory node gives for an operation's verbs |
//! | [`traffic`] | what has passed, and which limit was reached |
//! | [`service`] | a memory node's processor, for messages |
//! | [`stop`] | when clients end |
//! | `nic`, `server`, `atomics` | a NIC and its parts |
//! | `events` | what is to happen, by time |
//! | `timed` | the world in a timed run |

mod atomics;
pub mod bound;
pub mod cpu;
pub(crate) mod events;
mod nic;
pub mod profile;
pub mod profiles;
mod server;
pub mod service;
pub mod stop;
pub(crate) mod timed;
pub mod traffic;
mod written;

pub use cpu::CpuCosts;
pub use profile::Profile;
pub use service::Service;
pub use stop::Stop;
pub use traffic::Traffic;

/// Behind which NIC the regions of a node of [`SimOptions::nodes`](crate::SimOptions) are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// One of its own: a memory node.
    Own,
    /// That of a compute node, which exports regions.
    ComputeNode(u16),
}

/// The network of a timed run.
#[derive(Clone, Debug)]
pub struct Network {
    /// What it costs.
    pub profile: Profile,
    /// What the steps of protocols cost clients.
    pub cpu: CpuCosts,
    /// Compute nodes, each with one NIC. Endpoints sit on them:
    /// [`Sim::endpoint_on`](crate::Sim::endpoint_on).
    pub compute_nodes: u16,
    /// By node of the simulation; nodes beyond the list have their own NIC.
    pub homes: Vec<Home>,
}

impl Network {
    /// Memory nodes with NICs of their own, and this many compute nodes; steps cost what was
    /// measured.
    pub fn new(profile: Profile, compute_nodes: u16) -> Self {
        Self { profile, cpu: CpuCosts::measured(), compute_nodes, homes: Vec::new() }
    }
}
