//! The verbs contract, and the real fabrics that keep it.
//!
//! Everything above this crate is written against [`Endpoint`]: straight-line `async` code that
//! posts [`Batch`]es of verbs and reads their results. What a protocol may rely on is written on
//! [`Endpoint`] and on nothing else; the simulator (`atoll-sim`) does whatever that text permits.
//!
//! | module | concept |
//! |---|---|
//! | [`address`] | where a word is: node, region, offset |
//! | [`buffer`] | memory lent to the fabric for the time of a verb |
//! | [`batch`] | verbs posted at once, and their results |
//! | [`endpoint`] | the contract |
//! | [`fabric`] | the control plane: regions by their address, and what a process reaches |
//! | [`message`] | small messages between endpoints, beside the verbs |
//! | [`prefetch`](mod@prefetch) | a hint to the processor |
//! | [`huge_pages`] | a hint to the kernel |
//! | [`purpose`] | what verbs are sent for, where a fabric counts |
//! | [`region`] | a span of memory that endpoints reach, and its attributes |
//! | [`peers`] | the processes behind a region's endpoints, for an operator |
//! | [`wait`] | blocking a thread until a future has ended |
//! | [`clock`] | where an endpoint's time comes from |
//! | [`shm`] | one host: loads, stores and atomic instructions on a shared mapping |
//! | [`conformance`] | the suite that every fabric passes |
//!
//! This is the only crate of the workspace with `unsafe` code.

pub mod address;
pub mod batch;
pub mod buffer;
pub mod clock;
pub mod conformance;
pub mod endpoint;
pub mod fabric;
pub mod huge_pages;
pub mod message;
pub mod pass_on;
pub mod peers;
pub mod prefetch;
pub mod purpose;
pub mod region;
pub mod shm;
pub mod wait;

pub use address::{Address, COMPUTE_NODES_MAX};
pub use batch::{BATCH_VERBS_MAX, Batch, Ticket};
pub use buffer::Buffer;
pub use clock::Clock;
pub use endpoint::{Endpoint, Identity, Intent, Limits, Origin, VerbError};
pub use fabric::{CostClass, Fabric, FabricError, Hold, Reach, Sharing};
pub use huge_pages::prefer_huge_pages;
pub use message::{MAILBOX_MESSAGES_MAX, MESSAGE_BYTES_MAX, Mailbox, Message, MessageError, Messenger, Sender};
pub use peers::{PeerState, Peers};
pub use prefetch::prefetch;
pub use purpose::Purpose;
pub use region::{Domain, Kind, Lifetime, Region, RegionAttributes};
pub use wait::{block_on, block_on_with, run_ready};
