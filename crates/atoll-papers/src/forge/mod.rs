//! The figures of FORGE's paper, each on FORGE and its baselines.
//!
//! | module | concept |
//! |---|---|
//! | `versus` | FORGE beside its baselines: by how much it is better |
//! | `cache_sizes` | loads over the sizes of the cache |

mod cache_sizes;
pub(super) mod fig13;
pub(super) mod fig14;
pub(super) mod fig15;
pub(super) mod fig16;
pub(super) mod fig17;
pub(super) mod fig18;
pub(super) mod fig2;
pub(super) mod fig3;
pub(super) mod fig5;
mod versus;
