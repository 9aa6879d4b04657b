//! Ghosts: the words that an evictor leaves in the index for objects that it evicts from the small
//! queue, and by some rules from the main queue. A key that is inserted again while its ghost is
//! young enters the main queue.
//!
//! The age of a ghost is the number of groups that have left the small queue since. A client knows
//! the head of that queue from its last eviction.
//!
//! A rule may limit that age by the main queue's turnover: the groups that have left the small
//! queue since the oldest group of the main queue entered it. A key that returns later than that is
//! asked for more rarely than the objects that it would displace. The client remembers some of the
//! cursors that it has READ, and knows the turnover from them.

use super::Forge;
use super::operation::Operation;
use super::ring::Cursors;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use crate::index::BUCKET_SLOTS;
use crate::miniature::queues::QueueRule;
use atoll_fabric::Endpoint;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Cursors that a client remembers: of about two turns of the main queue.
const REMEMBERED_MAX: usize = 64;

/// A client's knowledge of the age of ghosts.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// The position of the small queue's head when last READ.
    head: Cell<u32>,
    /// For how many steps of the head a ghost is young.
    young_groups: Cell<u32>,
    /// Tails of the main queue, each with the small queue's head then; the oldest first.
    remembered: RefCell<VecDeque<(u32, u32)>>,
}

impl Ghosts {
    /// Notes the cursors of both queues, from which the rule derives how long a ghost is young.
    pub(super) fn note_cursors(&self, [small, main]: [Cursors; 2], rule: &QueueRule) {
        self.head.set(small.head);
        let groups = small.len().saturating_add(main.len());
        self.young_groups.set(rule.ghost_age(groups, self.turnover(small, main)));
    }

    /// The groups that have left the small queue since the oldest group of the main queue entered
    /// it. `u32::MAX` if the client does not know.
    fn turnover(&self, small: Cursors, main: Cursors) -> u32 {
        let remembered = &mut *self.remembered.borrow_mut();
        let apart = (main.len() / (REMEMBERED_MAX as u32 / 2)).max(1);
        if remembered.back().is_none_or(|(tail, _)| main.tail.wrapping_sub(*tail) >= apart) {
            remembered.push_back((main.tail, small.head));
        }
        // Of the cursors that were READ before the oldest group entered, the last are enough.
        let is_earlier = |(tail, _): &(u32, u32)| main.head.wrapping_sub(*tail) < u32::MAX / 2;
        while remembered.len() > REMEMBERED_MAX || remembered.get(1).is_some_and(is_earlier) {
            remembered.pop_front();
        }
        let known = remembered.front().filter(|oldest| is_earlier(oldest));
        known.map_or(u32::MAX, |(_, head)| small.head.wrapping_sub(*head))
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

/// Whether a key has a ghost of any age among the words of its bucket.
#[inline]
pub(super) fn has_ghost(words: &[u64; BUCKET_SLOTS], hash: KeyHash) -> bool {
    words.iter().any(|word| Slot(*word).ghost_position(hash).is_some())
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
    use super::super::rules::RULES;
    use super::*;

    #[test]
    fn a_ghost_is_young_for_a_part_of_both_queues_also_where_positions_begin_anew() {
        let ghosts = Ghosts::default();
        let head = 5;
        let cursors = [Cursors { head, tail: head + 40 }, Cursors { head: 0, tail: 160 }];
        ghosts.note_cursors(cursors, &QueueRule { ghost_age_percent: 10, ..RULES[3] });
        assert_eq!(ghosts.position_now(), head);
        assert!(ghosts.is_young(head) && ghosts.is_young(head.wrapping_sub(20)));
        assert!(!ghosts.is_young(head.wrapping_sub(21)));
    }

    #[test]
    fn a_ghost_is_no_older_than_the_oldest_group_of_the_main_queue() {
        let (ghosts, rule) = (Ghosts::default(), QueueRule { turnover_percent: Some(100), ..RULES[3] });
        let at = |step: u32| {
            // Three groups leave the small queue for one that enters the main queue, which has 40.
            let (small, main) = (step.wrapping_mul(3).wrapping_sub(50), step.wrapping_sub(20));
            [Cursors { head: small, tail: small.wrapping_add(10) }, Cursors { head: main.wrapping_sub(40), tail: main }]
        };
        ghosts.note_cursors(at(0), &rule);
        assert_eq!(ghosts.young_groups.get(), 100, "the client does not know the turnover yet");
        (1..200).for_each(|step| ghosts.note_cursors(at(step), &rule));
        assert_eq!(ghosts.young_groups.get(), 100, "twice both queues are fewer than 120");
        let half = QueueRule { turnover_percent: Some(50), ..rule };
        ghosts.note_cursors(at(200), &half);
        assert_eq!(ghosts.young_groups.get(), 60);
        assert!(ghosts.remembered.borrow().len() <= REMEMBERED_MAX);
    }
}
