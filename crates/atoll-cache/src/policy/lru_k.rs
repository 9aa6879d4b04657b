//! LRU-K with K = 2: the object whose access before the last is longest ago leaves; one that was
//! accessed only once goes before all others, the least recently used first (O'Neil, O'Neil and
//! Weikum, "The LRU-K page replacement algorithm for database disk buffering", SIGMOD 1993).
//!
//! The extension word is the time of the access before the last, zero if there was none. The
//! paper's period of correlated references is zero. Its retained information would need the time of
//! an evicted object's last access; a ghost has none, so that a returning object starts anew.

use super::{Access, Object, Policy, Priority};

/// The policy.
#[derive(Debug)]
pub(super) struct LruK;

impl Policy for LruK {
    fn name(&self) -> &'static str {
        "lru-k"
    }

    fn extension_words(&self) -> usize {
        1
    }

    fn accessed(&self, access: &Access<'_>, _global: u64, extension: &mut [u64]) {
        // An access in the clock's first microsecond is told from none.
        extension[0] = access.before.map_or(0, |before| before.accessed_us.max(1));
    }

    fn priority(&self, _now_us: u64, object: &Object, _global: u64, extension: &[u64]) -> Priority {
        Priority::new(extension[0]).then(object.accessed_us)
    }
}
