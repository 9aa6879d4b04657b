//! Which pages of a region this process knows to be present.
//!
//! ```text
//!  0                 there                                             bytes
//!  +-----------------+------+------+------+------+------+------+-------+
//!  | all of it known | page | page | page |            ...             |   4 KiB each, a bit says whether it is known
//!  +-----------------+------+------+------+------+------+------+-------+
//! ```
//!
//! A known page may have been returned to the host since. The client that returns it makes sure
//! that no verb touches it ([`Endpoint::discard`](crate::Endpoint::discard)). Both parts only grow,
//! so they need no order.

use super::mapping::{HUGE_PAGE_BYTES, PAGE_BYTES};
use std::sync::atomic::{AtomicU64, Ordering};

const PIECE: u64 = HUGE_PAGE_BYTES as u64;
/// Pages whose bits are in one word.
const PER_WORD: u64 = 64;

/// What is known of a region's pages.
pub(super) struct Pages {
    bytes: u64,
    there: AtomicU64,
    bits: Box<[AtomicU64]>,
}

impl Pages {
    /// Of a region of this many bytes, of which the first `there` are known to be there.
    pub(super) fn new(bytes: u64, there: u64) -> Self {
        let words = if there < bytes { bytes.div_ceil(PAGE_BYTES).div_ceil(PER_WORD) } else { 0 };
        Self { bytes, there: AtomicU64::new(there), bits: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Bytes from the first on that are known without a gap.
    #[inline]
    pub(super) fn there(&self) -> u64 {
        self.there.load(Ordering::Relaxed)
    }

    /// Whether a span is known to be there.
    pub(super) fn has(&self, start: u64, end: u64) -> bool {
        let there = self.there();
        end <= there || (start.max(there) / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).all(|page| self.has_page(page))
    }

    fn word(&self, page: u64) -> u64 {
        self.bits.get((page / PER_WORD) as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn has_page(&self, page: u64) -> bool {
        self.word(page) >> (page % PER_WORD) & 1 == 1
    }

    /// The first bytes are there.
    pub(super) fn note_there(&self, bytes: u64) {
        self.there.fetch_max(bytes.min(self.bytes), Ordering::Relaxed);
        self.advance();
    }

    /// A span is there: what of it are whole pages is known from now on.
    pub(super) fn note(&self, start: u64, end: u64) {
        if start <= self.there() {
            self.there.fetch_max(end.min(self.bytes), Ordering::Relaxed);
        }
        let end = if end >= self.bytes { self.bytes.next_multiple_of(PAGE_BYTES) } else { end };
        let (mut page, end) = (start.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        while page < end {
            let last = end.min((page / PER_WORD + 1) * PER_WORD);
            if let Some(word) = self.bits.get((page / PER_WORD) as usize) {
                word.fetch_or(u64::MAX >> (PER_WORD - (last - page)) << (page % PER_WORD), Ordering::Relaxed);
            }
            page = last;
        }
        self.advance();
    }

    /// What is known without a gap grows by the pages behind it.
    fn advance(&self) {
        let from = self.there();
        let mut page = from / PAGE_BYTES;
        loop {
            let ones = u64::from((self.word(page) >> (page % PER_WORD)).trailing_ones());
            page += ones;
            if ones == 0 || !page.is_multiple_of(PER_WORD) {
                break;
            }
        }
        if page * PAGE_BYTES > from {
            self.there.fetch_max((page * PAGE_BYTES).min(self.bytes), Ordering::Relaxed);
        }
    }

    /// The whole pieces of 2 MiB around a span, as far as the region has them.
    pub(super) fn around(&self, start: u64, end: u64) -> (u64, u64) {
        (start / PIECE * PIECE, end.next_multiple_of(PIECE).min(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_grows_from_the_start_and_by_the_page() {
        let pages = Pages::new(7 * PIECE + 4096, 0);
        assert!(!pages.has(0, 8));
        pages.note(0, 5000);
        assert!(pages.has(0, 5000) && !pages.has(0, 5008));
        pages.note(5 * PIECE + 4096, 5 * PIECE + 3 * 4096 + 8);
        assert!(pages.has(5 * PIECE + 4096, 5 * PIECE + 3 * 4096) && !pages.has(5 * PIECE, 5 * PIECE + 4097));
        assert!(!pages.has(5 * PIECE + 8192, 5 * PIECE + 3 * 4096 + 8), "of the last page a part was told of");
        pages.note(2 * PIECE, 4 * PIECE);
        assert!(pages.has(2 * PIECE + 8, 4 * PIECE) && !pages.has(2 * PIECE, 4 * PIECE + 8));
        assert_eq!(pages.there(), 5000);
        pages.note(0, 2 * PIECE);
        assert_eq!(pages.there(), 4 * PIECE, "the pages behind it come along");
        pages.note(7 * PIECE, 7 * PIECE + 4096);
        assert!(pages.has(7 * PIECE, 7 * PIECE + 4096), "the last page is a short one");
        pages.note_there(7 * PIECE);
        assert_eq!(pages.there(), 7 * PIECE + 4096);
        assert_eq!(pages.around(PIECE + 8, 7 * PIECE + 8), (PIECE, 7 * PIECE + 4096));
    }
}
