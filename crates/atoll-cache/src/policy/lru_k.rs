//! LRU-K with K = 2: evicts the object whose second-last access is oldest. After O'Neil, O'Neil and
//! Weikum, "The LRU-K page replacement algorithm for database disk buffering", SIGMOD 1993. Objects
//! that were accessed only once are evicted before all others, the least recently used first.
//!
//! The extension word is the time of the second-last access, zero if there was none. The paper's
//! period of correlated references is zero. Its retained information would need the time of an
//! evicted object's last access. A ghost has none, so a returning object starts without a past.

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const LRU_K: Policy = Policy {
    name: "lru-k",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Word {
        // An access in the clock's first microsecond differs from none.
        accessed: |access, _word| access.before.map_or(0, |before| before.accessed_us.max(1)),
        priority: |_now_us, object, word| Priority::new(word).then(object.accessed_us),
    },
};
