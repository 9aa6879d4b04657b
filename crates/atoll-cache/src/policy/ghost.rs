//! A ghost: what a table remembers of a key that it evicted. In Ditto (section 4.3.1): an entry of
//! the embedded eviction history.

/// Bits of the number that every eviction gets from a counter which wraps.
pub const HISTORY_ID_BITS: u32 = 28;
/// Most experts that a ghost can name.
pub const GHOST_EXPERTS_MAX: usize = 12;

/// A key's ghost, found at a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ghost {
    /// The experts that named the object as victim: bit i for expert i of the set.
    pub experts: u16,
    /// Evictions since its own.
    pub depth: u32,
    /// Evictions that a ghost lasts, by the objects that the cache holds. `depth` is below it.
    pub history: u32,
}

impl Ghost {
    /// The ghost with history number `id` when the counter of evictions stands at `counter`; `None`
    /// if it has outlived `history`.
    ///
    /// Both numbers wrap at [`HISTORY_ID_BITS`]; higher bits are ignored. A ghost that no lookup
    /// met for a whole lap looks young again, which costs one wrong regret.
    pub fn live(experts: u16, counter: u64, id: u64, history: u32) -> Option<Self> {
        let depth = history_depth(counter, id);
        (depth < history).then_some(Self { experts, depth, history })
    }
}

/// How many evictions ago the eviction of number `id` was, when the counter stands at `counter`.
pub const fn history_depth(counter: u64, id: u64) -> u32 {
    (counter.wrapping_sub(id) & ((1 << HISTORY_ID_BITS) - 1)) as u32
}

/// The first frequency of an object whose ghost proves its key.
pub(super) const FREQUENCY_RETURNED: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ghost_lives_for_its_history_across_the_wrap() {
        let lap = 1 << HISTORY_ID_BITS;
        for id in [0, 5, lap - 1, lap - 2] {
            for depth in [0, 1, 9] {
                let counter = (id + depth) % lap;
                assert_eq!(history_depth(counter, id), depth as u32);
                assert_eq!(Ghost::live(1, counter, id, 9).is_some(), depth < 9);
            }
        }
        assert_eq!(history_depth(lap + 3, 1), 2, "a counter of more bits is cut");
    }
}
