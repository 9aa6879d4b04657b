//! Ghosts: the words that an evictor leaves in the index for objects that it evicts from the small
//! queue. A key that is inserted again while its ghost is young enters the main queue.
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

/// A client's knowledge of the age of ghosts.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// The position of the small queue's head when last READ.
    head: Cell<u32>,
    /// For how many steps of the head a ghost is young.
    young_groups: Cell<u32>,
}

impl Ghosts {
    /// Notes the cursors of both queues. A ghost is young for `young_percent` of their length
    /// together.
    pub(super) fn note_cursors(&self, cursors: [Cursors; 2], young_percent: u16) {
        let groups = u64::from(cursors[0].len()) + u64::from(cursors[1].len());
        self.head.set(cursors[0].head);
        self.young_groups.set((groups * u64::from(young_percent) / 100) as u32);
    }

    /// The position of a ghost that an evictor leaves now.
    pub(super) fn position_now(&self) -> u32 {
        self.head.get()
    }

    /// The age of a ghost with this position.
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
    /// The place of this key's ghost, if the key has a young ghost.
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
