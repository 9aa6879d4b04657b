//! Which bytes of the heap are free: the server's own books, in its own memory.
//!
//! Spans have any length. The server allocates the smallest span that is long enough, and joins
//! freed spans with their neighbours. Evicting until a span is long enough comes to an end: an
//! empty heap is one span.

use super::super::entry::Span;
use super::super::record::RECORD_UNIT_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// Free spans of a heap.
#[derive(Debug)]
pub(super) struct Room {
    /// Length by first byte. No two spans touch.
    by_offset: BTreeMap<u64, u64>,
    /// The same spans: length, first byte.
    by_bytes: BTreeSet<(u64, u64)>,
}

impl Room {
    /// A heap that is all free.
    pub(super) fn new(heap_bytes: u64) -> Self {
        let mut room = Self { by_offset: BTreeMap::new(), by_bytes: BTreeSet::new() };
        room.add(0, heap_bytes / RECORD_UNIT_BYTES * RECORD_UNIT_BYTES);
        room
    }

    fn add(&mut self, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.by_offset.insert(offset, bytes);
            self.by_bytes.insert((bytes, offset));
        }
    }

    fn remove(&mut self, offset: u64, bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_bytes.remove(&(bytes, offset));
    }

    /// Allocates a span of so many bytes, a multiple of the unit; `None` if no free span is long
    /// enough.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Span> {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(RECORD_UNIT_BYTES));
        let (free, offset) = *self.by_bytes.range((bytes, 0)..).next()?;
        self.remove(offset, free);
        self.add(offset + bytes, free - bytes);
        Some(Span { offset, bytes })
    }

    /// Frees a span.
    pub(super) fn give(&mut self, span: Span) {
        let Span { mut offset, mut bytes } = span;
        let before = self.by_offset.range(..offset).next_back().map(|(at, free)| (*at, *free));
        let behind = self.by_offset.range(offset..).next().map(|(at, free)| (*at, *free));
        if let Some((at, free)) = before {
            assert!(at + free <= offset, "a span that is free is given back");
            if at + free == offset {
                self.remove(at, free);
                (offset, bytes) = (at, bytes + free);
            }
        }
        if let Some((at, free)) = behind {
            assert!(span.offset + span.bytes <= at, "a span that is free is given back");
            if span.offset + span.bytes == at {
                self.remove(at, free);
                bytes += free;
            }
        }
        self.add(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_nobody_elses_and_what_comes_back_is_one_span_again() {
        let mut room = Room::new(4096 + 7);
        let mut taken = Vec::new();
        let mut step = 7_u64;
        for round in 0..10_000 {
            step = step.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            if (step >> 60) < 9 {
                taken.extend(room.take(16 + (step >> 40) % 20 * 16));
            } else if !taken.is_empty() {
                let span = taken.swap_remove((step >> 33) as usize % taken.len());
                room.give(span);
            }
            let mut spans: Vec<(u64, u64)> = taken.iter().map(|span: &Span| (span.offset, span.bytes)).collect();
            spans.extend(room.by_offset.iter().map(|(offset, bytes)| (*offset, *bytes)));
            spans.sort_unstable();
            let ends = spans.iter().fold(0, |end, (offset, bytes)| if *offset == end { end + bytes } else { u64::MAX });
            assert_eq!(ends, 4096, "round {round}: every byte is somebody's, once");
        }
        taken.drain(..).for_each(|span| room.give(span));
        assert_eq!(room.take(4096), Some(Span { offset: 0, bytes: 4096 }));
        assert_eq!(room.take(16), None);
    }
}
