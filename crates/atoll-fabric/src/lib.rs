//! The verbs contract, and the real fabrics that keep it.
//!
//! Everything above this crate is written against [`Endpoint`]. A protocol is straight-line `async`
//! code that posts [`Batch`]es of verbs and reads their results. It may rely only on what the
//! documentation of [`Endpoint`] says. The simulator (`atoll-sim`) does everything that this text
//! permits.
//!
//! | module | concept |
//! |---|---|
//! | [`address`] | where a word is: node, region, offset |
//! | [`buffer`] | memory lent to the fabric while a verb is in flight |
//! | [`batch`] | verbs posted at once, and their results |
//! | [`endpoint`] | the contract |
//! | [`checked`] | a verb's future, whose outcome a wrapper looks at |
//! | [`identity`] | the identity of an endpoint |
//! | [`arrivals`] | what an endpoint waits for, for a thread that waits for other things, too |
//! | [`error`] | what goes wrong |
//! | [`fabric`] | the control plane: regions by their address, and what a process reaches |
//! | [`message`] | small messages between endpoints, beside the verbs |
//! | [`prefetch`](mod@prefetch) | a hint to the processor |
//! | [`huge_pages`] | a hint to the kernel |
//! | [`traffic`] | what an endpoint has sent to other hosts |
//! | [`purpose`] | the purposes that a fabric counts verbs by |
//! | [`region`] | a span of memory that endpoints reach |
//! | [`attributes`] | what is fixed when a region is created |
//! | [`peers`] | the processes behind a region's endpoints, for an operator |
//! | [`busy`] | looking for what comes soon, before the thread sleeps |
//! | [`wait`] | blocking a thread until a future has ended |
//! | [`clock`] | where an endpoint's time comes from |
//! | [`shm`] | one host: loads, stores and atomic instructions on a shared mapping |
//! | `tcp` | any network: an agent at the target executes batches; with the feature `tcp` |
//! | [`conformance`] | the suite that every fabric passes |
//!
//! This is the only crate of the workspace with `unsafe` code, apart from the edges to C and
//! Python.

pub mod address;
pub mod arrivals;
pub mod attributes;
pub mod batch;
pub mod buffer;
pub mod busy;
pub mod checked;
pub mod clock;
pub mod conformance;
pub mod endpoint;
pub mod error;
pub mod fabric;
pub mod huge_pages;
pub mod identity;
pub mod idle_priority;
pub mod message;
pub mod pace;
pub mod pass_on;
pub mod peers;
pub mod prefetch;
pub mod purpose;
mod random;
pub mod region;
pub mod shm;
#[cfg(feature = "tcp")]
pub mod tcp;
pub mod traffic;
pub mod wait;

pub use address::{Address, COMPUTE_NODES_MAX};
pub use arrivals::Arrivals;
pub use attributes::{Domain, Kind, Lifetime, RegionAttributes};
pub use batch::{BATCH_VERBS_MAX, Batch, Ticket};
pub use buffer::Buffer;
pub use busy::BusyPolling;
pub use checked::{Checked, Either};
pub use clock::Clock;
pub use endpoint::{Endpoint, Intent, Limits, Purpose, RegionState};
pub use error::{FabricError, VerbError};
pub use fabric::{CostClass, Fabric, Hold, Reach, Sharing};
pub use huge_pages::prefer_huge_pages;
pub use identity::{Identity, Origin};
pub use idle_priority::run_at_idle_priority;
pub use message::{MAILBOX_MESSAGES_MAX, MESSAGE_BYTES_MAX, Mailbox, Message, MessageError, Messenger, Sender};
pub use pace::{HeldBack, Pace};
pub use peers::{PeerState, Peers};
pub use prefetch::prefetch;
pub use region::Region;
pub use traffic::Traffic;
pub use wait::{block_on, block_on_with, run_ready};
