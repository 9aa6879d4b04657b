//! The figures of Ditto's paper.
//!
//! What differs from all other experiments, after Ditto's section 5.1:
//!
//! - **Testbed**: eight compute nodes and one memory node, on the profile `cx6-100g`.
//! - **Ditto**: LRU and LFU as experts with the paper's parameters, unless a figure says otherwise.
//!   A sample is a bucket of sixteen slots, about half of which hold objects. The paper's sample
//!   has five objects. Beside it stands the same with miniatures in place of regrets, as it learns
//!   by default.
//! - **CliqueMap**: one core at the memory node, unless a figure says otherwise; what it costs is
//!   in `bench/processor.rs`.
//! - **Clients**: each is one thread with one operation in flight. The paper's clients run several
//!   coroutines on a core. It does not print how many.
//! - **Cache size**: of a load that must not miss, three times what its objects occupy, so that no
//!   bucket is ever full. Of a trace, a share of its footprint. An object counts with its block and
//!   its slots, so there is room for that share of the objects, as in the paper.
//!
//! | module | concept |
//! |---|---|
//! | `testbed` | points of the paper's testbed, and the bytes of its caches |
//! | `systems` | Ditto with its experts, and CliqueMap |
//! | `staged` | a run in stages |
//! | `exact` | exact policies on a sequence of keys, without a network |
//! | `elastic` | a run in which clients or memory come and go |
//! | `redis` | a model of a Redis cluster |

mod elastic;
mod exact;
pub(super) mod fig1;
pub(super) mod fig13;
pub(super) mod fig14;
pub(super) mod fig15;
pub(super) mod fig16;
pub(super) mod fig18;
pub(super) mod fig19;
pub(super) mod fig2;
pub(super) mod fig20;
pub(super) mod fig21;
pub(super) mod fig22;
pub(super) mod fig23;
pub(super) mod fig24;
pub(super) mod fig25;
pub(super) mod fig3;
pub(super) mod fig4;
pub(super) mod fig5;
mod redis;
mod staged;
mod systems;
mod testbed;
