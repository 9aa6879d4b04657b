//! GLCache-DM: what the learned rule of [`forge`](crate::forge) knows and decides, without a verb.
//!
//! After Yang et al., "GL-Cache: Group-level learning for efficient and high-performance caching" (FAST'23), brought to a pool of memory as section 6.1 of FORGE's paper
//! describes its baseline: groups are sampled, trees of gradient boosting predict from seven features what each is worth, and eight of those worth least are merged into
//! one. Index, rings, regrouping and repair are `forge`'s; the verbs of the rule are in `forge/learned.rs`.
//!
//! | module | concept |
//! |---|---|
//! | `features` | what is known of a group: its record in the pool, the seven features |
//! | `watch` | what a group turns out to be worth: its objects, watched by the process for a while |
//! | `sample` | both together, kept in the pool to learn from |
//! | `trees` | the gradient boosting |
//! | `learner` | all of that of one process: rates, watch, the trees in use |
//! | `merge` | which objects of merged groups stay |
//!
//! | where we say more than the papers, or otherwise | |
//! |---|---|
//! | **Training** is asynchronous on memory nodes in the paper, whose nodes have no processor here. | Samples are in the pool, from all processes. The client that adds enough new ones READs them all and trains its process's trees, which come into use when the time that this takes has passed. On a real fabric that client stands still meanwhile; on the simulated one it does not, as if its machine had a core to spare. Trees are not shared: every process has its own, of the same samples. |
//! | **Inference** takes hundreds of microseconds of the client's processor (FORGE 6.2). | All groups of one eviction are one inference, charged as [`INFERENCE_NS`], the least that "hundreds" may mean. |
//! | **Utility** is the sum over the objects of 1 / (size x time to the next request). | Time is counted in lookups of the process that watches, and ends after a quarter of what the cache holds. The trees learn the logarithm: the order is all that counts. |
//! | **Rates** are those of the process that wrote the group. | The paper does not say whose. |
//! | **Age** is counted in groups written since. | The same everywhere, and needs no clock. |
//! | **Sample of an eviction**: the paper names no size. | Sixty-four groups, in runs of eight neighbours. |
//! | **Hotness** is flushed at intervals, which the paper does not name. | Once in as many lookups of a process as an eighth of what the cache holds; a client does its part in every round. |
//! | **Score** of an object in a merge: GL-Cache ranks by size and age, the paper's baseline regroups as FORGE does, by frequency. | Frequency / (size x age of the group); an object that nobody asked for goes. |
//! | **Before there are trees** the oldest of the sampled groups go. | |
//!
//! Everything that the pool holds of this is a hint, and checked: a number that is not one counts as zero, a sample that makes no sense is left out.

mod features;
mod learner;
mod merge;
mod sample;
mod trees;
mod watch;

pub use features::{FEATURES, Features, Written};
pub use learner::{INFERENCE_NS, Learner};
pub use merge::{Candidate, keep_best};
pub use sample::Sample;
pub use trees::Trees;
pub use watch::Watch;
