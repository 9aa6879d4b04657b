//! Which pages of a region this process knows to be there.
//!
//! ```text
//!  0                 there                                             bytes
//!  +-----------------+-------------+-------------+-------------+-------+
//!  | all of it known |    piece    |   piece     |   piece     | piece |   2 MiB each, a bit says whether it is known
//!  +-----------------+-------------+-------------+-------------+-------+
//! ```
//!
//! A page that was known to be there may have been given back since. The client that gives it back
//! makes sure that no verb touches it ([`Endpoint::discard`](crate::Endpoint::discard)). Both parts
//! only grow, so that they need no order.

use super::mapping::HUGE_PAGE_BYTES;
use std::sync::atomic::{AtomicU64, Ordering};

const PIECE: u64 = HUGE_PAGE_BYTES as u64;

/// What is known of a region's pages.
pub(super) struct Pages {
    bytes: u64,
    there: AtomicU64,
    pieces: Box<[AtomicU64]>,
}

impl Pages {
    /// Of a region of so many bytes, of which the first `there` are known to be there.
    pub(super) fn new(bytes: u64, there: u64) -> Self {
        let words = if there < bytes { bytes.div_ceil(PIECE).div_ceil(64) } else { 0 };
        Self { bytes, there: AtomicU64::new(there), pieces: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Bytes from the first on that are known without a gap.
    #[inline]
    pub(super) fn there(&self) -> u64 {
        self.there.load(Ordering::Relaxed)
    }

    /// Whether a span is known to be there.
    pub(super) fn has(&self, start: u64, end: u64) -> bool {
        let there = self.there();
        end <= there || (start.max(there) / PIECE..end.div_ceil(PIECE)).all(|piece| self.has_piece(piece))
    }

    fn has_piece(&self, piece: u64) -> bool {
        let word = self.pieces.get((piece / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (piece % 64) & 1 == 1)
    }

    /// The first bytes are there.
    pub(super) fn note_there(&self, bytes: u64) {
        self.there.fetch_max(bytes.min(self.bytes), Ordering::Relaxed);
        self.advance();
    }

    /// A span is there: what of it are whole pieces is known from now on.
    pub(super) fn note(&self, start: u64, end: u64) {
        if start <= self.there() {
            self.there.fetch_max(end.min(self.bytes), Ordering::Relaxed);
        }
        let end = if end >= self.bytes { self.bytes.next_multiple_of(PIECE) } else { end };
        for piece in start.div_ceil(PIECE)..end / PIECE {
            if let Some(word) = self.pieces.get((piece / 64) as usize) {
                word.fetch_or(1 << (piece % 64), Ordering::Relaxed);
            }
        }
        self.advance();
    }

    /// What is known without a gap grows by the pieces behind it.
    fn advance(&self) {
        let mut there = self.there();
        while there < self.bytes && self.has_piece(there / PIECE) {
            there = ((there / PIECE + 1) * PIECE).min(self.bytes);
            self.there.fetch_max(there, Ordering::Relaxed);
        }
    }

    /// The whole pieces around a span, as far as the region has them.
    pub(super) fn around(&self, start: u64, end: u64) -> (u64, u64) {
        (start / PIECE * PIECE, end.next_multiple_of(PIECE).min(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_grows_from_the_start_and_by_the_piece() {
        let pages = Pages::new(7 * PIECE + 4096, 0);
        assert!(!pages.has(0, 8));
        pages.note(0, 5000);
        assert!(pages.has(0, 5000) && !pages.has(0, 5008));
        pages.note(2 * PIECE, 4 * PIECE);
        assert!(pages.has(2 * PIECE + 8, 4 * PIECE) && !pages.has(2 * PIECE, 4 * PIECE + 8));
        assert_eq!(pages.there(), 5000);
        pages.note(0, 2 * PIECE);
        assert_eq!(pages.there(), 4 * PIECE, "the pieces behind it come along");
        pages.note(7 * PIECE, 7 * PIECE + 4096);
        assert!(pages.has(7 * PIECE, 7 * PIECE + 4096), "the last piece is a short one");
        pages.note_there(7 * PIECE);
        assert_eq!(pages.there(), 7 * PIECE + 4096);
        assert_eq!(pages.around(PIECE + 8, 7 * PIECE + 8), (PIECE, 7 * PIECE + 4096));
    }
}
