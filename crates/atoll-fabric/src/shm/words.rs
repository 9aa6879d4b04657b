//! Word-wise copies to and from memory that other processes change at the same time.
//!
//! Every shared word is accessed with atomic loads and stores only, so that a concurrent access is
//! defined behaviour. Each word that a client reads was written by one client. Several words
//! together may stem from different writes.
//!
//! Long spans are copied by the processor's own instruction for that, where it has one. A compiler
//! makes no wide accesses of atomic ones.

use crate::Intent;
use crate::prefetch::{prefetch, prefetch_to_write};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Spans of so many words are long.
const LONG_WORDS: usize = 128;

/// Copies aligned shared words to memory of the caller, or the other way; on x86-64 in about five
/// sixths of the time of a loop.
///
/// # Safety
/// `count` words are readable from `from` on and writable from `to` on, and do not overlap. The
/// shared ones are aligned; nothing accesses them other than atomically.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_long(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller's promise. The processor accesses each aligned word as one, as a relaxed
    // atomic access does, and in no promised order against other words. It keeps the order against
    // what is before and behind the instruction.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") count => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

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
        self.load_whole(0, bytemuck::cast_slice_mut(words));
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
        self.load_whole(first, whole);
        if !tail.is_empty() {
            tail.copy_from_slice(&load(first + whole.len())[..tail.len()]);
        }
    }

    /// Loads so many words from one of the span on.
    #[inline(always)]
    fn load_whole(&self, first: usize, into: &mut [[u8; 8]]) {
        #[cfg(target_arch = "x86_64")]
        if into.len() >= LONG_WORDS {
            let from = self.part(first as u64, into.len()).first.as_ptr();
            // SAFETY: the contract of `new`, for a part of the span; `into` is the caller's alone.
            unsafe { copy_long(from.cast(), into.as_mut_ptr().cast(), into.len()) };
            return;
        }
        for (index, word) in into.iter_mut().enumerate() {
            *word = self.at(first + index).load(Ordering::Relaxed).to_ne_bytes();
        }
    }

    /// Stores these bytes, padded with zero bytes to whole words, in no promised order of words.
    pub(super) fn store_bytes(&self, from: &[u8]) {
        assert_eq!(from.len().div_ceil(8), self.count, "the words of these bytes");
        let (whole, tail) = from.as_chunks::<8>();
        self.store_whole(whole);
        if !tail.is_empty() {
            let mut word = [0; 8];
            word[..tail.len()].copy_from_slice(tail);
            self.at(whole.len()).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Stores these words at the first ones of the span.
    fn store_whole(&self, from: &[[u8; 8]]) {
        #[cfg(target_arch = "x86_64")]
        if from.len() >= LONG_WORDS {
            let to = self.part(0, from.len()).first.as_ptr();
            // SAFETY: the contract of `new`, for a part of the span; `from` does not overlap it.
            unsafe { copy_long(from.as_ptr().cast(), to.cast(), from.len()) };
            return;
        }
        for (index, word) in from.iter().enumerate() {
            self.at(index).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }

    /// Stores every word, in no promised order against other words.
    #[inline]
    pub(super) fn store_from(&self, words: &[u64]) {
        self.store_whole(bytemuck::cast_slice(words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around the length from which on a span is long.
    #[test]
    fn copies_of_all_lengths_are_whole_and_touch_nothing_beside() {
        let shared: Vec<AtomicU64> = (0..3 * LONG_WORDS as u64).map(AtomicU64::new).collect();
        let words = |first: usize, count: usize| {
            let first = NonNull::from(&shared[first]).cast();
            // SAFETY: the words lie in `shared`, which lives on, and are accessed as atomic ones.
            unsafe { Words::new(first, count) }
        };
        let bytes: Vec<u8> = shared.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        for count in [0, 1, 2, LONG_WORDS - 1, LONG_WORDS, LONG_WORDS + 1, 2 * LONG_WORDS] {
            let mut loaded = vec![u64::MAX; count];
            words(7, count).load_into(&mut loaded);
            assert!(loaded.iter().copied().eq(7..7 + count as u64));
            for (skip, short) in [(0, 0), (3, 0), (0, 5), (7, 1)] {
                let Some(length) = (8 * count).checked_sub(skip + short) else { continue };
                // One beside on each side; the memory of a caller lies anywhere.
                let mut loaded = vec![0xee; length + 2];
                words(7, count).load_bytes(skip, &mut loaded[1..=length]);
                assert_eq!(loaded[1..=length], bytes[56 + skip..56 + skip + length]);
                assert_eq!((loaded[0], loaded[length + 1]), (0xee, 0xee));
            }
        }
        for count in [0, 1, LONG_WORDS - 1, LONG_WORDS, LONG_WORDS + 1, 2 * LONG_WORDS] {
            let stored: Vec<u8> = (0..8 * count + 1).map(|place| (place * 7 % 251) as u8).collect();
            words(5, count + 1).store_bytes(&stored);
            let found: Vec<u8> = shared.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
            assert_eq!(found[40..40 + stored.len()], stored);
            assert_eq!(found[40 + stored.len()..][..7], [0; 7], "the last word is padded");
            assert_eq!(shared[4].load(Ordering::Relaxed), 4);
            words(5, count).store_from(&vec![9; count]);
            assert!(shared[5..5 + count].iter().all(|word| word.load(Ordering::Relaxed) == 9));
        }
        assert_eq!(shared[3 * LONG_WORDS - 1].load(Ordering::Relaxed), 3 * LONG_WORDS as u64 - 1);
    }
}
