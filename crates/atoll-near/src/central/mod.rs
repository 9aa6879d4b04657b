//! CMCache: a central manager keeps the caches coherent. It is the peer that DiFache's paper
//! compares itself with (sections 2.3 and 7), after PolarDB-MP.
//!
//! ```text
//!   reader on B   a hit: as in `records`
//!                 a miss --- read ------->  manager: B becomes a sharer; READs the object
//!                        <-- bytes -------
//!   writer on A   --- write, bytes ------>  manager: fetch-and-add to the stripe of each sharer
//!                                                    WRITEs the object; A is the only sharer
//!                 <-- done ---------------
//! ```
//!
//! The [`Manager`] handles one request of an object at a time; requests for other objects pass.
//!
//! | request | the manager, in this order | sharers then |
//! |---|---|---|
//! | read | adds the node to the sharers; READs the object | one more |
//! | write of the whole object | ends the copies of sharers and of the writer's node; WRITEs | the writer's node |
//! | write of a part | ends the copies of sharers; WRITEs | none |
//! | atomic | ends the copies of sharers; does the atomic | none |
//!
//! **The promise** is always [`Promise::Linearizable`](crate::Promise), for whole objects: a read
//! never returns parts of two writes. An object changes while no copy of it is valid. A reader
//! samples the words of its stripe before it asks, and is a sharer once it is answered. So a later
//! write ends its copy. The writer's copy carries the invalidation word that the manager has left
//! on the writer's node.
//!
//! **Messages** may be lost, doubled and late. A client repeats a request until it is answered. A
//! read may be done twice. Of each client, the manager remembers the latest change and its answer;
//! so it does a change once. The bytes of a large object come in several messages.
//!
//! | a change comes | the manager |
//! |---|---|
//! | later than the client's latest, or the first | begins it |
//! | the latest one, of which bytes are missing | takes the bytes |
//! | the latest one, which is being done | does nothing |
//! | the latest one, which is done | answers again |
//! | an earlier one | does nothing: the client does not wait for it |
//!
//! | ends | outcome |
//! |---|---|
//! | a client | what it has asked for may still be done; its node is buried as in `members` |
//! | the manager | **outside the promise**: the directory is lost. Hits go on; all else fails with [`NearError::NoManager`](crate::NearError) |
//!
//! Objects of more than [`OBJECT_BYTES_MAX`] are not cached: clients READ and WRITE them. What a
//! node evicts stays shared until the next write. The manager's memory grows with the number of
//! objects that are shared. The endpoint of a client receives no other messages.
//!
//! | module | concept |
//! |---|---|
//! | `wire` | messages |
//! | `ask` | the client's side |
//! | `manager` | the manager |

mod ask;
mod manager;
mod wire;

pub(crate) use ask::Asking;
pub use manager::Manager;
pub use wire::{OBJECT_BYTES_MAX, begins_request};
