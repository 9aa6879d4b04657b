//! The fabric of one host: a READ is a copy, a compare-and-swap an atomic instruction, and no
//! process runs on the other side.
//!
//! A region is a file under `/dev/shm` (`shm:/NAME`), a file elsewhere (a path), or anonymous
//! memory. Its atomicity domain is the processors of the host.
//! [`Endpoint::post`](crate::Endpoint::post) executes everything in the call. So
//! [`run_ready`](crate::run_ready) drives any protocol over this fabric.
//!
//! Verbs execute in program order; `order` says which barriers stand between them.
//!
//! | module | concept |
//! |---|---|
//! | `fabric` | the control plane: regions by their names |
//! | `region` | a region: made, opened, shared, removed |
//! | `mapping`, `pages`, `provision` | its memory: mapped, known to be present, requested from the host |
//! | [`host`] | how much memory the host has left |
//! | `names` | names of regions, and the files behind them |
//! | `lock`, `lock_bytes`, `descriptor` | locks by which the kernel proves which processes live |
//! | `nodes` | the regions of further memory nodes |
//! | `endpoint`, `execute`, `order`, `words` | an endpoint, its verbs, their barriers, their words |
//! | `remote` | verbs that an agent executes for clients on other hosts |
//! | `export`, `exports` | regions that endpoints export, as compute nodes |
//! | `follow` | exported regions whose words processes of the host read without a verb |
//! | `host_memory` | memory that processes of the host share without a fabric |
//! | `watched` | exported regions of an agent whose changes a follower is told of |
//! | `mailbox`, `messenger`, `futex` | messages, and sleeping until one arrives |
//! | `process`, `fork` | what a process is, for display; a process that forks |

mod descriptor;
mod endpoint;
mod execute;
mod export;
mod exports;
mod fabric;
mod follow;
#[cfg(any(test, feature = "fork"))]
pub mod fork;
mod futex;
pub mod host;
mod host_memory;
pub(crate) mod lock;
mod lock_bytes;
mod mailbox;
mod mapping;
mod messenger;
mod names;
mod nodes;
mod order;
mod pages;
pub(crate) mod process;
mod provision;
mod region;
#[cfg(feature = "tcp")]
mod remote;
#[cfg(test)]
mod tests;
#[cfg(feature = "tcp")]
mod watched;
mod words;

pub use endpoint::ShmEndpoint;
pub use fabric::{ShmFabric, ShmReach};
pub use host_memory::{HostMemory, HostUser};
pub use lock::RegionLock;
pub use nodes::{NODES_MAX, ShmNodes};
pub use process::ForkGuard;
pub use region::ShmRegion;
