//! What is to happen, in the order of virtual time; at the same time in the order in which it was decided.
//!
//! ```text
//!   present  the slot whose time it is, in order
//!   wheel    | slot | slot | slot | ... 4096 of them, 16 ns each: what happens within 67 us; a slot is a list in no order
//!   later    a heap: what happens after that, a pause for example
//! ```
//!
//! Most events are a few hundred to a few thousand nanoseconds away, so that adding and taking one costs the same however many there are. The lists of all
//! slots share one pool of entries, which stays in the processor's nearest cache. Invariants: the wheel has nothing of the present slot, and nothing in `later` is within
//! the wheel's reach.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The task of a lane is polled.
    Poll(u32),
    /// A batch has been rung in at its compute node's NIC.
    Doorbell(u32),
    /// A verb of a batch has come to the NIC of its node.
    Request(u32, u8),
    /// A node's memory has answered a verb of a batch.
    Ready(u32, u8),
    /// The response to a verb of a batch has come to its compute node's NIC.
    Response(u32, u8),
    /// The completion of a batch can be seen by its client.
    Completion(u32),
    /// A message has been rung in at its sender's NIC, has come to its receiver's, and can be seen there.
    MailOut(u32),
    MailIn(u32),
    Mail(u32),
}

const SLOTS: usize = 4096;
/// A slot is two to the power of this, in picoseconds.
const SLOT_BITS: u32 = 14;

/// Time, number, event: numbers differ, so that the event itself never decides.
type Entry = (u64, u64, Event);

/// The end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Listed {
    entry: Entry,
    next: u32,
}

/// Events to come.
pub(crate) struct Events {
    /// The number of the present slot, counted from time 0.
    current: u64,
    /// Its events, the last one first to happen.
    present: Vec<Entry>,
    /// By slot, the first of its list in the pool.
    slots: Vec<u32>,
    /// A bit for each slot whose list is not empty.
    occupied: [u64; SLOTS / 64],
    pool: Vec<Listed>,
    /// The first of the list of entries that are not in use.
    free: u32,
    later: BinaryHeap<Reverse<Entry>>,
    made: u64,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            current: 0,
            present: Vec::new(),
            slots: vec![NONE; SLOTS],
            occupied: [0; SLOTS / 64],
            pool: Vec::new(),
            free: NONE,
            later: BinaryHeap::new(),
            made: 0,
        }
    }

    /// Adds an event, which is not before the last one that was taken.
    #[inline]
    pub(crate) fn add(&mut self, at: u64, event: Event) {
        self.made += 1;
        self.place((at, self.made, event));
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        let number = entry.0 >> SLOT_BITS;
        debug_assert!(number >= self.current, "time goes forward");
        if number == self.current {
            let place = self.present.partition_point(|other| *other > entry);
            self.present.insert(place, entry);
        } else if number - self.current < SLOTS as u64 {
            self.list(number as usize % SLOTS, entry);
        } else {
            self.later.push(Reverse(entry));
        }
    }

    #[inline]
    fn list(&mut self, slot: usize, entry: Entry) {
        let listed = Listed { entry, next: self.slots[slot] };
        if self.free == NONE {
            self.slots[slot] = self.pool.len() as u32;
            self.pool.push(listed);
        } else {
            let place = &mut self.pool[self.free as usize];
            self.slots[slot] = std::mem::replace(&mut self.free, place.next);
            *place = listed;
        }
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// The time of the next one.
    #[inline]
    pub(crate) fn next_at(&mut self) -> Option<u64> {
        if self.present.is_empty() {
            self.turn()?;
        }
        self.present.last().map(|(at, ..)| *at)
    }

    /// Takes the next one, with its time.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u64, Event)> {
        self.next_at()?;
        self.present.pop().map(|(at, _, event)| (at, event))
    }

    /// Turns the wheel to the next slot that is not empty.
    fn turn(&mut self) -> Option<()> {
        let in_later = self.later.peek().map(|Reverse((at, ..))| at >> SLOT_BITS);
        self.current = self.next_in_wheel().or(in_later)?;
        let slot = self.current as usize % SLOTS;
        let mut next = std::mem::replace(&mut self.slots[slot], NONE);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        while next != NONE {
            let Listed { entry, next: behind } = self.pool[next as usize];
            self.present.push(entry);
            self.pool[next as usize].next = std::mem::replace(&mut self.free, next);
            next = behind;
        }
        self.present.sort_unstable_by(|one, other| other.cmp(one));
        while self.later.peek().is_some_and(|Reverse((at, ..))| (at >> SLOT_BITS) - self.current < SLOTS as u64) {
            let Some(Reverse(entry)) = self.later.pop() else { break };
            self.place(entry);
        }
        Some(())
    }

    fn next_in_wheel(&self) -> Option<u64> {
        let first = self.current as usize % SLOTS;
        let above = self.occupied[first / 64] & (u64::MAX << (first % 64));
        let words = (1..=SLOTS / 64).map(|step| (first / 64 + step) % (SLOTS / 64));
        let rest = words.map(|word| (word, self.occupied[word]));
        let (word, bits) = std::iter::once((first / 64, above)).chain(rest).find(|(_, bits)| *bits != 0)?;
        let index = word * 64 + bits.trailing_zeros() as usize;
        Some(self.current + ((index + SLOTS - first) % SLOTS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn events_are_taken_in_the_order_of_time_and_then_of_their_making() {
        let (mut events, mut heap) = (Events::new(), BinaryHeap::new());
        let mut random = Random::new(7);
        let (mut now, mut made) = (0, 0);
        for round in 0..200_000_u32 {
            // More are added than taken at first, at times that collide, in the present slot, within the wheel's reach and beyond it.
            if random.chance(if round < 100_000 { 600 } else { 400 }) {
                let at = now
                    + [random.below(3), random.below(1 << 14), random.spread(24), random.spread(40)]
                        [random.below(4) as usize];
                made += 1;
                events.add(at, Event::Poll(round));
                heap.push(Reverse((at, made, Event::Poll(round))));
            } else {
                let expected = heap.pop().map(|Reverse((at, _, event))| (at, event));
                assert_eq!(events.next_at(), expected.map(|(at, _)| at));
                assert_eq!(events.take(), expected);
                now = expected.map_or(now, |(at, _)| at);
            }
        }
        while let Some(Reverse((at, _, event))) = heap.pop() {
            assert_eq!(events.take(), Some((at, event)));
        }
        assert_eq!(events.take(), None);
    }
}
