//! Random: evicts any object (Belady, 1966, has it as RAND).
//!
//! A policy draws no random numbers. It compares a mix of the object's times and the present time.
//! So an object that stayed this time has the same chance as all others the next time.

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const RANDOM: Policy = Policy {
    name: "random",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|now_us, object| {
        Priority::new(mix(object.inserted_us ^ mix(object.accessed_us ^ mix(now_us))))
    }),
};

/// The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection whose every output
/// bit depends on every input bit.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
