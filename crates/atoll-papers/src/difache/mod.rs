//! The figures of DiFache's paper.
//!
//! What differs from all other experiments, after DiFache's section 7:
//!
//! - **Testbed**: eight compute nodes and one memory node, on the profile `cx4-100g`; 16 clients on
//!   each compute node, each one thread with one operation in flight. The paper's clients run
//!   coroutines; it does not print how many.
//! - **Load**: 95 % reads, Zipf's exponent 0.99, objects of 1 KiB, unless a figure varies it. Whole
//!   objects are read and written. There are fewer objects than in the paper (1 million), so that
//!   eight near caches fit into this machine's memory.
//! - **Near caches** hold all objects, as in the paper, unless a figure says otherwise.
//! - **Systems**: `difache`, `difache-noac`, `cmcache`, `nocc` and `none`, as in
//!   `atoll_near::protocol`. As in the paper an object is not cached at first;
//!   `difache, on at first` is the other way. The central manager of `cmcache` has a machine of its
//!   own: see `manager`.
//! - A client's access to the near cache of its own node costs what the steps of the protocol
//!   measured on shared memory. Invalidations pass the compute nodes' NICs.
//!
//! | module | concept |
//! |---|---|
//! | `point` | a point: compute nodes, their clients, objects |
//! | `manager` | the central manager of CMCache, and what it costs |
//! | `scaling` | near caches by the number of compute nodes |
//! | `systems` | the protocols beside each other |

pub(super) mod fig1;
pub(super) mod fig10;
pub(super) mod fig11;
pub(super) mod fig12;
pub(super) mod fig13;
pub(super) mod fig15;
pub(super) mod fig4;
mod manager;
mod point;
mod scaling;
mod systems;
