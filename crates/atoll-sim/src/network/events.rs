//! Future events in the order of virtual time. Events of the same time happen in the order in which
//! they were added.
//!
//! ```text
//!   present  the slot whose time it is, in order
//!   wheel    | slot | slot | slot | ... 4096 slots of 2 ns: events within 8 us; a slot is an
//!            unordered list
//!   later    a heap: later events, such as the end of a pause
//! ```
//!
//! Most events are a few hundred to a few thousand nanoseconds ahead. So adding and removing one
//! costs the same, however many there are. The lists of all slots share one pool of entries, which
//! stays in the processor's nearest cache. Two levels of bits mark the slots that have a list, so
//! that counting zeros finds the next one. Invariants: the wheel holds no event of the present
//! slot, and no event in `later` is within the wheel's reach.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The task of a lane is polled.
    Poll(u32),
    /// A ring comes for the alarms of a lane.
    Ring(u32),
    /// A batch has been rung in at its compute node's NIC.
    Doorbell(u32),
    /// A verb of a batch has reached the NIC of its node.
    Request(u32, u8),
    /// A node's memory has answered a verb of a batch.
    Ready(u32, u8),
    /// The response to a verb of a batch has reached its compute node's NIC.
    Response(u32, u8),
    /// The completion of a batch can be seen by its client.
    Completion(u32),
    /// A message has been rung in at its sender's NIC, has come to its receiver's, and can be seen
    /// there.
    MailOut(u32),
    MailIn(u32),
    Mail(u32),
}

/// An event as one word, so that it stays in a register until it is listed: `id 32 | index 8 |
/// which 8`, from bit 0 up.
#[derive(Clone, Copy)]
struct Packed(u64);

impl Packed {
    #[inline(always)]
    fn of(event: Event) -> Self {
        let (which, id, index) = match event {
            Event::Poll(lane) => (0, lane, 0),
            Event::Doorbell(id) => (1, id, 0),
            Event::Request(id, index) => (2, id, index),
            Event::Ready(id, index) => (3, id, index),
            Event::Response(id, index) => (4, id, index),
            Event::Completion(id) => (5, id, 0),
            Event::MailOut(id) => (6, id, 0),
            Event::MailIn(id) => (7, id, 0),
            Event::Mail(id) => (8, id, 0),
            Event::Ring(lane) => (9, lane, 0),
        };
        Self(u64::from(id) | u64::from(index) << 32 | which << 40)
    }

    #[inline(always)]
    fn event(self) -> Event {
        let (id, index) = (self.0 as u32, (self.0 >> 32) as u8);
        match self.0 >> 40 {
            0 => Event::Poll(id),
            1 => Event::Doorbell(id),
            2 => Event::Request(id, index),
            3 => Event::Ready(id, index),
            4 => Event::Response(id, index),
            5 => Event::Completion(id),
            6 => Event::MailOut(id),
            7 => Event::MailIn(id),
            8 => Event::Mail(id),
            _ => Event::Ring(id),
        }
    }
}

const SLOTS: usize = 4096;
/// A slot is two to the power of this, in picoseconds: so little that most have one event, and so
/// much that a round trip is within the wheel's reach.
const SLOT_BITS: u32 = 11;
/// Slots that share a word of bits; as many words as bits in one, so that a single word says which
/// of them are not 0.
const WORD_SLOTS: usize = 64;
const _: () = assert!(SLOTS == WORD_SLOTS * WORD_SLOTS);

/// Lists longer than this are sorted by the library's algorithm; most have one entry.
const INSERTED_MAX: usize = 16;

/// What happens, and when. Entries are in the order of time, then of their making: numbers differ,
/// so that the event itself never decides.
#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    made: u64,
    event: Packed,
}

impl Entry {
    #[inline]
    fn key(&self) -> (u64, u64) {
        (self.at, self.made)
    }

    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

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
    slots: Box<[u32; SLOTS]>,
    /// A bit for each slot whose list is not empty.
    occupied: [u64; WORD_SLOTS],
    /// A bit for each word of those that is not 0.
    occupied_words: u64,
    pool: Vec<Listed>,
    /// The first of the list of entries that are not in use.
    free: u32,
    later: BinaryHeap<Reverse<Entry>>,
    /// The slot of the first event in there, `u64::MAX` if it is empty.
    later_from: u64,
    made: u64,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            current: 0,
            present: Vec::new(),
            slots: Box::new([NONE; SLOTS]),
            occupied: [0; WORD_SLOTS],
            occupied_words: 0,
            pool: Vec::new(),
            free: NONE,
            later: BinaryHeap::new(),
            later_from: u64::MAX,
            made: 0,
        }
    }

    /// Adds an event, which is not before the last one that was taken.
    #[inline(always)]
    pub(crate) fn add(&mut self, at: u64, event: Event) {
        self.made += 1;
        self.place(at, self.made, Packed::of(event));
    }

    /// Takes an entry in its parts: whole it would be passed through memory.
    #[inline(always)]
    fn place(&mut self, at: u64, made: u64, event: Packed) {
        let number = at >> SLOT_BITS;
        debug_assert!(number >= self.current, "time goes forward");
        if number.wrapping_sub(self.current).wrapping_sub(1) < SLOTS as u64 - 1 {
            self.list(number as usize % SLOTS, Entry { at, made, event });
        } else {
            self.place_outside(at, made, event);
        }
    }

    /// Places what is not for the wheel.
    #[inline(never)]
    fn place_outside(&mut self, at: u64, made: u64, event: Packed) {
        let (number, entry) = (at >> SLOT_BITS, Entry { at, made, event });
        if number == self.current {
            self.present.push(entry);
            self.sink_last();
        } else {
            self.later_from = self.later_from.min(number);
            self.later.push(Reverse(entry));
        }
    }

    /// Brings the last entry of the present slot to its place among those before it, which are in
    /// order.
    #[inline]
    fn sink_last(&mut self) {
        let mut place = self.present.len() - 1;
        while place > 0 && self.present[place - 1].is_before(&self.present[place]) {
            self.present.swap(place - 1, place);
            place -= 1;
        }
    }

    #[inline(always)]
    fn list(&mut self, slot: usize, entry: Entry) {
        if self.free == NONE {
            self.grow();
        }
        let (first, place) = (self.free, &mut self.pool[self.free as usize]);
        self.free = place.next;
        *place = Listed { entry, next: std::mem::replace(&mut self.slots[slot], first) };
        self.occupied[slot / WORD_SLOTS] |= 1 << (slot % WORD_SLOTS);
        self.occupied_words |= 1 << (slot / WORD_SLOTS);
    }

    /// One more entry that is not in use.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free = self.pool.len() as u32;
        self.pool.push(Listed { entry: Entry { at: 0, made: 0, event: Packed(0) }, next: NONE });
    }

    /// The time of the next one.
    #[inline]
    pub(crate) fn next_at(&mut self) -> Option<u64> {
        if self.present.is_empty() {
            self.turn()?;
        }
        self.present.last().map(|entry| entry.at)
    }

    /// Takes the next one, with its time, if that is not after `end`.
    #[inline]
    pub(crate) fn take_until(&mut self, end: u64) -> Option<(u64, Event)> {
        let next = match self.present.pop() {
            Some(next) => next,
            None => match self.turn_to_single() {
                Some(next) => next,
                None => {
                    self.turn()?;
                    self.present.pop()?
                }
            },
        };
        if next.at > end {
            self.present.push(next);
            return None;
        }
        Some((next.at, next.event.event()))
    }

    /// Turns the wheel to the next slot, if it has a single event, and takes that: what happens
    /// most often, without a look at the order.
    #[inline]
    fn turn_to_single(&mut self) -> Option<Entry> {
        let (ahead, slot) = self.next_in_wheel()?;
        let first = self.slots[slot];
        let Listed { entry, next } = self.pool[first as usize];
        if next != NONE || self.later_from.wrapping_sub(self.current + ahead) < SLOTS as u64 {
            return None;
        }
        self.current += ahead;
        self.vacate(slot);
        self.pool[first as usize].next = std::mem::replace(&mut self.free, first);
        Some(entry)
    }

    /// A slot has no list any more.
    #[inline]
    fn vacate(&mut self, slot: usize) {
        let (word, bit) = (slot / WORD_SLOTS, slot % WORD_SLOTS);
        self.slots[slot] = NONE;
        self.occupied[word] &= !(1 << bit);
        self.occupied_words &= !(u64::from(self.occupied[word] == 0) << word);
    }

    /// Turns the wheel to the next slot that is not empty.
    fn turn(&mut self) -> Option<()> {
        match self.next_in_wheel() {
            Some((ahead, slot)) => {
                self.current += ahead;
                self.unlist(slot);
            }
            None if self.later_from == u64::MAX => return None,
            None => self.current = self.later_from,
        }
        if self.later_from.wrapping_sub(self.current) < SLOTS as u64 {
            self.bring_later();
        }
        Some(())
    }

    /// Empties the list of a slot into the present.
    #[inline]
    fn unlist(&mut self, slot: usize) {
        let mut next = self.slots[slot];
        self.vacate(slot);
        while next != NONE {
            let Listed { entry, next: behind } = self.pool[next as usize];
            self.pool[next as usize].next = std::mem::replace(&mut self.free, next);
            next = behind;
            self.present.push(entry);
            // The list begins with what was made last, which is last to happen more often than not.
            match self.present.len() {
                ..=INSERTED_MAX => self.sink_last(),
                _ if next == NONE => self.present.sort_unstable_by(|one, other| other.cmp(one)),
                _ => {}
            }
        }
    }

    /// Places what has come within the wheel's reach.
    #[cold]
    fn bring_later(&mut self) {
        loop {
            self.later_from = self.later.peek().map_or(u64::MAX, |Reverse(entry)| entry.at >> SLOT_BITS);
            if self.later_from.wrapping_sub(self.current) >= SLOTS as u64 {
                break;
            }
            let Some(Reverse(entry)) = self.later.pop() else { break };
            self.place(entry.at, entry.made, entry.event);
        }
    }

    /// The next slot with a list, and how far ahead it is.
    #[inline]
    fn next_in_wheel(&self) -> Option<(u64, usize)> {
        let here = self.current as usize % SLOTS;
        let (word, bit) = (here / WORD_SLOTS, here % WORD_SLOTS);
        let above = self.occupied[word] & (u64::MAX << bit);
        let slot = if above != 0 {
            word * WORD_SLOTS + above.trailing_zeros() as usize
        } else if self.occupied_words != 0 {
            // The words behind this one in their order, and this one last.
            let from = (word + 1) % WORD_SLOTS;
            let word = (from + self.occupied_words.rotate_right(from as u32).trailing_zeros() as usize) % WORD_SLOTS;
            word * WORD_SLOTS + self.occupied[word].trailing_zeros() as usize
        } else {
            return None;
        };
        Some((((slot + SLOTS - here) % SLOTS) as u64, slot))
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
            // More are added than taken at first, at times that collide, in the present slot,
            // within the wheel's reach and beyond it.
            if random.chance(if round < 100_000 { 600 } else { 400 }) {
                let at = now
                    + [random.below(3), random.below(1 << 14), random.spread(24), random.spread(40)]
                        [random.below(4) as usize];
                made += 1;
                events.add(at, Event::Poll(round));
                heap.push(Reverse((at, made, round)));
            } else {
                let expected = heap.pop().map(|Reverse((at, _, round))| (at, Event::Poll(round)));
                let at = expected.map(|(at, _)| at);
                assert_eq!(events.next_at(), at);
                if let Some(before) = at.and_then(|at| at.checked_sub(1)) {
                    assert_eq!(events.take_until(before), None, "nothing happens before its time");
                }
                assert_eq!(events.take_until(u64::MAX), expected);
                now = expected.map_or(now, |(at, _)| at);
            }
        }
        while let Some(Reverse((at, _, round))) = heap.pop() {
            assert_eq!(events.take_until(u64::MAX), Some((at, Event::Poll(round))));
        }
        assert_eq!(events.take_until(u64::MAX), None);
    }
}
