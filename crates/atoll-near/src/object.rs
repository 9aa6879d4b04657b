//! What is cached: an object of a memory node, by its address.
//!
//! Coherence is kept for whole objects. Two objects must not overlap. An application that reads or
//! writes a part of an object names the object as well ([`Near::read_part`](crate::Near::read_part)
//! and [`Near::write_part`](crate::Near::write_part)): DiFache's nested objects, where the object
//! is the ancestor.
//!
//! Words that the application changes by atomics, such as a lock in an object, must not be cached.
//! [`Object::without`] declares such a sub-range: reads always READ it from the memory node, and a
//! write to it alone invalidates nothing.

use atoll_fabric::Address;
use std::ops::Range;

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    at: Address,
    bytes: u32,
    /// The uncached sub-range, in bytes from the first; empty if there is none.
    uncached: (u32, u32),
}

impl Object {
    /// The object of `bytes` bytes at `at`.
    ///
    /// # Panics
    /// If `at` is not on a memory node, or address or length are no multiples of 8, or the length
    /// is 0.
    pub fn new(at: Address, bytes: u32) -> Self {
        assert!(at.memory_node().is_some(), "an object is on a memory node");
        assert!(at.offset().is_multiple_of(8) && bytes.is_multiple_of(8) && bytes > 0, "an object is words");
        Self { at, bytes, uncached: (0, 0) }
    }

    /// The same object with a sub-range that is never cached, in bytes from its first.
    ///
    /// # Panics
    /// If the range is empty, is not words, or reaches beyond the object.
    pub fn without(self, uncached: Range<u32>) -> Self {
        assert!(!uncached.is_empty() && uncached.end <= self.bytes, "a part of the object");
        assert!(uncached.start.is_multiple_of(8) && uncached.end.is_multiple_of(8), "a part is words");
        Self { uncached: (uncached.start, uncached.end), ..self }
    }

    /// Its first byte.
    pub fn at(&self) -> Address {
        self.at
    }

    /// Its length.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether every byte of the range is in the uncached sub-range.
    pub(crate) fn is_uncached(&self, part: &Range<u32>) -> bool {
        self.uncached.0 <= part.start && part.end <= self.uncached.1
    }

    /// The part of the range that is in the uncached sub-range.
    pub(crate) fn uncached_of(&self, part: &Range<u32>) -> Option<Range<u32>> {
        let both = self.uncached.0.max(part.start)..self.uncached.1.min(part.end);
        (both.start < both.end).then_some(both)
    }

    pub(crate) fn whole(&self) -> Range<u32> {
        0..self.bytes
    }

    /// # Panics
    /// If the range is empty, is not words, or reaches beyond the object.
    pub(crate) fn check(&self, part: &Range<u32>) {
        assert!(!part.is_empty() && part.end <= self.bytes, "a part of the object");
        assert!(part.start.is_multiple_of(8) && part.end.is_multiple_of(8), "a part is words");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncached_range_is_cut_to_what_is_read() {
        let object = Object::new(Address::new(0, 0, 64), 64).without(16..32);
        assert_eq!(object.uncached_of(&object.whole()), Some(16..32));
        assert_eq!(object.uncached_of(&(24..64)), Some(24..32));
        assert_eq!(object.uncached_of(&(32..64)), None);
        assert!(object.is_uncached(&(16..24)) && !object.is_uncached(&(8..24)));
        assert_eq!(Object::new(Address::new(0, 0, 64), 64).uncached_of(&(0..64)), None);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let refused = |make: fn() -> Object| assert!(std::panic::catch_unwind(make).is_err());
        refused(|| Object::new(Address::new(0, 0, 4), 8));
        refused(|| Object::new(Address::new(0, 0, 8), 0));
        refused(|| Object::new(Address::new(0, 0, 8), 12));
        refused(|| Object::new(Address::on_compute(0, 0, 8), 8));
        refused(|| Object::new(Address::new(0, 0, 8), 8).without(0..16));
    }
}
