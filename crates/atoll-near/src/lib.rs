//! Coherent near caches: every compute node keeps copies of the objects that it reads, and no copy
//! is served after the object has changed.
//!
//! This is DiFache (`DiFache: Efficient and Scalable Caching on Disaggregated Memory using
//! Decentralized Coherence`) as an object interface. An application reads and writes objects of
//! memory nodes by their address. It replaces its READs and WRITEs by [`Near::read`] and
//! [`Near::write`]; its allocation stays as it is. No manager exists: a writer itself invalidates
//! the copies on other compute nodes.
//!
//! ```text
//!   memory node                          compute node A            compute node B
//!   objects | directory: members, modes  near region: stripes,     near region
//!                                        index, records
//!   writer on A:  1. WRITE object ------>
//!                 2. fetch-and-add of the object's invalidation word --------> B's stripe
//!   reader on B:  a hit copies the record, then compares the invalidation word with the record's
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`object`] | what is cached: an object by its address, parts of it, sub-ranges that are not |
//! | [`protocol`] | which coherence protocol is in use, and what it promises |
//! | [`directory`] | what all compute nodes share, on memory nodes: members, modes |
//! | [`mode`] | the mode of a stripe: off, in transition, on |
//! | [`node`] | the near region of a compute node |
//! | [`stripe`] | what a compute node knows of the objects of one stripe |
//! | `owners` | which compute nodes may have copies, where there are many |
//! | `members` | the compute nodes, and how one joins and leaves |
//! | `burial` | what happens when clients or whole nodes die |
//! | `absence` | a memory node that ends, and comes back empty |
//! | `newcomer` | what a compute node knows of the modes when it has joined |
//! | `records` | the copies: index, segments, records |
//! | [`profit`] | whether caching pays for an object |
//! | [`near`] | a client: reads, writes, atomics |
//! | [`host`] | processes of a host that are one compute node |
//! | `export` | who exports what processes of a host share |
//! | `read`, `write`, `atomics`, `switch`, `invalidate` | the steps of the protocol |
//! | [`central`] | the peer with a central manager |
//! | [`count`] | what a client counts |
//! | `hole` | guards that tests switch off |
//! | [`values`] | copies of values by their keys, under a cache |
//! | [`error`] | why an operation failed |
//!
//! ```
//! use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
//! use atoll_fabric::{Address, Buffer, Clock, run_ready};
//! use atoll_near::{Directory, DirectoryOptions, Near, NodeOptions, Object};
//! use std::sync::Arc;
//!
//! // A memory node of 1 MiB: the directory, its table of modes, then the application's objects.
//! let region = Arc::new(ShmRegion::anonymous(1 << 20)?);
//! let endpoint = || ShmEndpoint::with_regions(vec![region.clone()], Clock::host());
//! let mut options = DirectoryOptions { stripes: 1024, ..DirectoryOptions::default() };
//! options.cached_at_first = true;
//! let (home, table) = (Address::new(0, 0, 0), Address::new(0, 0, 8192));
//! let object = Object::new(Address::new(0, 0, 65536), 64);
//! run_ready(async {
//!     let directory = Directory::create(&endpoint(), home, &[table], options).await?;
//!     let node = NodeOptions { bytes: 1 << 18, segment_bytes: 4096 };
//!     let writer = Near::join(endpoint(), directory.clone(), node).await?;
//!     let reader = Near::join(endpoint(), directory, node).await?;
//!     let mut page = Buffer::sized(64);
//!     page.bytes_mut()[..5].copy_from_slice(b"hello");
//!     writer.write(&object, page).await?;
//!     for _ in 0..3 {
//!         let read = reader.read(&object, Buffer::new()).await?;
//!         assert_eq!(&read.bytes()[..5], b"hello");
//!     }
//!     assert_eq!(reader.counts().hits, 2);
//!     Ok::<(), atoll_near::NearError>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **A memory node that ends** takes its objects with it. A client that finds it gone calls
//! [`Near::lose_memory_node`]; no copy of its objects is served then. Once the node is there again
//! and the application has written its objects, a client with a new endpoint calls
//! [`Near::renew_memory_node`]. Compute nodes keep their near regions meanwhile; clients with new
//! endpoints attach to them.
//!
//! **Departures from the paper.** A copy is invalidated through a word of its stripe, which every
//! node has at the same place. So a writer needs no look-up in the index of another node: one
//! fetch-and-add a node, one round trip, instead of a READ and a WRITE in two. Objects that share a
//! stripe are invalidated together, which costs a miss and nothing else. The mode of a stripe is in
//! the directory. Nodes remember it, and a switch invalidates what they remember by the same word.
//! So no node waits for a switching flag, and no mode is locked. A node knows the mode of a stripe
//! that it has never used, too: it READs all modes when it joins, and is told of each switch. In
//! the paper it asks other nodes with its first access.
#![forbid(unsafe_code)]

mod absence;
mod atomics;
mod burial;
pub mod central;
pub mod count;
pub mod directory;
pub mod error;
mod export;
#[cfg_attr(not(feature = "holes"), allow(unreachable_pub))]
mod hole;
pub mod host;
mod invalidate;
mod members;
pub mod mode;
pub mod near;
mod newcomer;
pub mod node;
pub mod object;
mod owners;
pub mod profit;
pub mod protocol;
mod read;
mod records;
#[cfg(test)]
mod rows;
pub mod stripe;
mod switch;
pub mod values;
mod verbs;
mod write;

pub use central::Manager;
pub use count::Counts;
pub use directory::{Directory, DirectoryOptions};
pub use error::NearError;
#[cfg(feature = "holes")]
pub use hole::Hole;
pub use host::HostNode;
pub use near::{Near, Switch};
pub use node::NodeOptions;
pub use object::Object;
pub use protocol::{Promise, Protocol};
