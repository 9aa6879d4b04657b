//! Quick demotion: the more often an object was accessed, the longer it may stay idle. An object
//! with few accesses is evicted soon.
//!
//! It condenses S3-FIFO's small queue, main queue and ghost into one number of an object, without a
//! queue. S3-FIFO is by Yang et al., SOSP 2023; the principle is in "FIFO can be better than LRU",
//! HotOS 2023. The number is the idle time divided by a lifetime that depends on the frequency. The
//! object with the largest number is evicted.
//!
//! | frequency | lifetime | as in S3-FIFO |
//! |---|---|---|
//! | 1 | 1 | the small queue |
//! | 2 | 3 | still the small queue: two accesses are often one |
//! | 3 and more | 20 for each access, of 60 accesses at most | the main queue; a returning key starts here |

use super::{Formula, GHOSTS_ALL, Object, Policy, Priority};

/// Lifetimes of objects with one and two accesses, in units of the first.
const ONCE: f64 = 1.0;
const TWICE: f64 = 3.0;
/// The lifetime that each access adds from the third on.
const EACH: f64 = 20.0;
const FREQUENCY_MAX: u64 = 60;

fn priority(now_us: u64, object: &Object) -> Priority {
    let lifetime = match object.frequency {
        0 | 1 => ONCE,
        2 => TWICE,
        frequency => EACH * frequency.min(FREQUENCY_MAX) as f64,
    };
    Priority::real(-(object.idle_us(now_us).max(1) as f64) / lifetime)
}

pub(super) const QUICK_DEMOTION: Policy =
    Policy { name: "quick-demotion", ghost_percent: GHOSTS_ALL, formula: Formula::Plain(priority) };

/// The same with ghosts half as old, for loops longer than the cache: if every key of a loop has
/// proven itself, none stays.
pub(super) const QUICK_DEMOTION_STRICT: Policy =
    Policy { name: "quick-demotion-strict", ghost_percent: 50, formula: Formula::Plain(priority) };
