//! Hyperbolic over idle time: evicts the object with the fewest accesses per time since its last
//! access.
//!
//! Hyperbolic caching (`hyperbolic`) divides by the time in the cache. So an object that was
//! popular long ago keeps its worth for as long again. Divided by the idle time, worth falls as
//! soon as accesses cease, and frequency and recency weigh the same. Accesses count up to
//! [`FREQUENCY_MAX`]. Sizes are ignored.

use super::{Formula, GHOSTS_ALL, Policy, Priority};

const FREQUENCY_MAX: u64 = 30;

pub(super) const HYPERBOLIC_IDLE: Policy = Policy {
    name: "hyperbolic-idle",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|now_us, object| {
        let accesses = object.frequency.clamp(1, FREQUENCY_MAX) as f64;
        Priority::real(-(object.idle_us(now_us).max(1) as f64) / accesses)
    }),
};
