//! Word-wise copies to and from memory that other processes change at the same time.
//!
//! Every shared word is accessed with atomic loads and stores only, so that a concurrent access is
//! defined behaviour. Each word that a client reads was written by one client. Several words
//! together may stem from different writes.

use crate::Intent;
use crate::prefetch::{prefetch, prefetch_to_write};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A span of shared words that has been checked to lie in a mapping.
#[derive(Clone, Copy)]
pub(super) struct Words {
    first: NonNull<AtomicU64>,
    count: usize,
}

impl Words {
    /// # Safety
    /// `first` is aligned to 8, and `count` words from it stay mapped readable and writable for as
    /// long as the value is used; nothing in any process accesses them other than atomically.
    #[inline]
    pub(super) unsafe fn new(first: NonNull<u8>, count: usize) -> Self {
        Self { first: first.cast(), count }
    }

    #[inline]
    fn at(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < self.count);
        // SAFETY: `index < count`, and the span is mapped and aligned (contract of `new`).
        unsafe { self.first.add(index).as_ref() }
    }

    /// The only word of a span of one.
    #[inline]
    pub(super) fn word(&self) -> &AtomicU64 {
        self.at(0)
    }

    /// The word with that number in the span.
    #[inline]
    pub(super) fn nth(&self, index: u64) -> &AtomicU64 {
        assert!(index < self.count as u64, "a word of the span");
        self.at(index as usize)
    }

    /// `count` words of the span from one on.
    #[inline]
    pub(super) fn part(&self, first: u64, count: usize) -> Self {
        assert!(first as usize + count <= self.count, "words of the span");
        // SAFETY: the part lies in the span, for which the contract of `new` holds.
        unsafe { Self::new(self.first.add(first as usize).cast(), count) }
    }

    /// Asks the processor for the lines of the span.
    #[inline]
    pub(super) fn expect(&self, intent: Intent) {
        const LINE_WORDS: usize = 8;
        let last = self.count.saturating_sub(1);
        // The span need not begin with a line: its last word may be on a further one.
        for index in (0..last).step_by(LINE_WORDS).chain((self.count > 0).then_some(last)) {
            match intent {
                Intent::Read => prefetch(self.at(index)),
                Intent::Write => prefetch_to_write(self.at(index)),
            }
        }
    }

    /// Loads every word, in no promised order against other words.
    #[inline(always)]
    pub(super) fn load_into(&self, words: &mut [u64]) {
        assert_eq!(words.len(), self.count);
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.at(index).load(Ordering::Relaxed);
        }
    }

    /// Loads the bytes behind the first `skip` of the span, which is as long as that needs.
    pub(super) fn load_bytes(&self, skip: usize, into: &mut [u8]) {
        assert!(skip < 8 && (skip + into.len()).div_ceil(8) == self.count, "the words of these bytes");
        let load = |index: usize| self.at(index).load(Ordering::Relaxed).to_ne_bytes();
        let head_bytes = if skip == 0 { 0 } else { into.len().min(8 - skip) };
        let (head, rest) = into.split_at_mut(head_bytes);
        if head_bytes > 0 {
            head.copy_from_slice(&load(0)[skip..skip + head_bytes]);
        }
        let first = usize::from(skip > 0);
        let (whole, tail) = rest.as_chunks_mut::<8>();
        for (index, word) in whole.iter_mut().enumerate() {
            *word = load(first + index);
        }
        if !tail.is_empty() {
            tail.copy_from_slice(&load(first + whole.len())[..tail.len()]);
        }
    }

    /// Stores these bytes, padded with zero bytes to whole words, in no promised order of words.
    pub(super) fn store_bytes(&self, from: &[u8]) {
        assert_eq!(from.len().div_ceil(8), self.count, "the words of these bytes");
        let (whole, tail) = from.as_chunks::<8>();
        for (index, word) in whole.iter().enumerate() {
            self.at(index).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            let mut word = [0; 8];
            word[..tail.len()].copy_from_slice(tail);
            self.at(whole.len()).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Stores every word, in no promised order against other words.
    #[inline]
    pub(super) fn store_from(&self, words: &[u64]) {
        assert_eq!(words.len(), self.count);
        for (index, word) in words.iter().enumerate() {
            self.at(index).store(*word, Ordering::Relaxed);
        }
    }
}
