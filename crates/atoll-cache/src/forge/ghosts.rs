//! Ghosts: what is left in the index of an object that was evicted from the small queue. A key that
//! is inserted again while its ghost is young enters the main queue.
//!
//! The age of a ghost is the number of groups that have left the small queue since. A client knows
//! the head of that queue from its last eviction.

use super::Forge;
use super::operation::Operation;
use super::ring::Cursors;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use atoll_fabric::Endpoint;
use std::cell::Cell;

/// What a client knows of the age of ghosts.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// Where the small queue's head was when last seen.
    head: Cell<u32>,
    /// How many of its steps a ghost is young.
    young_groups: Cell<u32>,
}

impl Ghosts {
    /// Notes the cursors of both queues; a ghost is young for so many percent of their length.
    pub(super) fn note_cursors(&self, cursors: [Cursors; 2], young_percent: u16) {
        let groups = u64::from(cursors[0].len()) + u64::from(cursors[1].len());
        self.head.set(cursors[0].head);
        self.young_groups.set((groups * u64::from(young_percent) / 100) as u32);
    }

    /// The position of a ghost that is left now.
    pub(super) fn position_now(&self) -> u32 {
        self.head.get()
    }

    /// How old the ghost of a position is.
    #[inline]
    pub(super) fn age_groups(&self, position: u32) -> u32 {
        self.head.get().wrapping_sub(position)
    }

    #[inline]
    fn is_young(&self, position: u32) -> bool {
        self.age_groups(position) <= self.young_groups.get()
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// The place of a ghost of this key that is young enough.
    #[inline]
    pub(super) fn ghost(&self, op: &Operation, hash: KeyHash) -> Option<usize> {
        if !self.shared.settings.options.ghosts {
            return None;
        }
        let young = |position: u32| self.ghosts.is_young(position);
        let words = op.seen_words().iter();
        words.map(|word| Slot(*word)).position(|word| word.ghost_position(hash).is_some_and(young))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ghost_is_young_for_a_part_of_both_queues_also_where_positions_begin_anew() {
        let ghosts = Ghosts::default();
        let head = 5;
        let cursors = [Cursors { head, tail: head + 40 }, Cursors { head: 0, tail: 160 }];
        ghosts.note_cursors(cursors, 10);
        assert_eq!(ghosts.position_now(), head);
        assert!(ghosts.is_young(head) && ghosts.is_young(head.wrapping_sub(20)));
        assert!(!ghosts.is_young(head.wrapping_sub(21)));
    }
}
