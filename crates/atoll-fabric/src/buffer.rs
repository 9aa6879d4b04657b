//! Memory lent to the fabric for the time of a verb.
//!
//! A [`Buffer`] is moved into a [`Batch`](crate::Batch) and comes back with the result, so that a
//! dropped future never frees memory that a NIC may still write: the fabric owns it until the verb
//! has ended. It is a span of words, because verbs take effect in words; its length is counted in
//! bytes. A buffer that has grown keeps its memory, so a client that reuses one allocates nothing
//! in steady state.
//!
//! A buffer can be [narrowed](Buffer::narrow) to a window, so that several READs fill the parts of
//! one value without another copy.

/// Memory of so many bytes is not written before it is used.
const FRESH_BYTES_MIN: usize = 1 << 20;

/// Word-aligned memory with a length in bytes. Bytes between the length and the next word boundary
/// are unspecified.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Covers the window; grows, never shrinks.
    words: Vec<u64>,
    /// First word of the window.
    start: usize,
    /// Length of the window.
    bytes: usize,
}

impl Buffer {
    /// An empty buffer; it allocates when it is first resized.
    pub const fn new() -> Self {
        Self { words: Vec::new(), start: 0, bytes: 0 }
    }

    /// A buffer of `bytes` zero bytes.
    #[inline]
    pub fn sized(bytes: usize) -> Self {
        let mut buffer = Self::new();
        buffer.resize(bytes);
        buffer
    }

    /// Makes the window the first `bytes`. New memory is zero; otherwise contents are those of an
    /// earlier use.
    #[inline]
    pub fn resize(&mut self, bytes: usize) {
        self.narrow(0, bytes);
    }

    /// Makes the window `bytes` from byte `start` on, growing the memory if need be.
    ///
    /// # Panics
    /// If `start` is not a multiple of 8.
    #[inline]
    pub fn narrow(&mut self, start: usize, bytes: usize) {
        assert!(start.is_multiple_of(8), "a window starts at a word");
        let words = start / 8 + bytes.div_ceil(8);
        if words > self.words.len() {
            self.grow(words);
        }
        (self.start, self.bytes) = (start / 8, bytes);
    }

    /// Makes the window end at `bytes` from its start, if it ends behind that.
    pub fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Makes the window end at `bytes` from its start, with zeros behind what it had.
    pub fn extend(&mut self, bytes: usize) {
        let (had, present) = (self.bytes, (self.words.len() - self.start) * 8);
        if bytes > present {
            self.grow(self.start + bytes.div_ceil(8));
        }
        self.bytes = bytes;
        // What is new is zero already.
        let stale = bytes.min(present);
        self.bytes_mut()[had.min(stale)..stale].fill(0);
    }

    /// Much new memory is taken from the allocator as zeros: the system gives its pages one by one,
    /// when they are first written. To write zeros there would take a thread tens of milliseconds.
    #[cold]
    fn grow(&mut self, words: usize) {
        if words * 8 < FRESH_BYTES_MIN || words / 2 < self.words.len() {
            return self.words.resize(words, 0);
        }
        let mut fresh = vec![0; words];
        fresh[..self.words.len()].copy_from_slice(&self.words);
        self.words = fresh;
    }

    /// Length of the window in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The words, the last of which may be partly beyond the length.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[self.start..self.start + self.bytes.div_ceil(8)]
    }

    /// The words, for writing.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words[self.start..self.start + self.bytes.div_ceil(8)]
    }

    /// The bytes, in memory order.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(self.words())[..self.bytes]
    }

    /// The bytes, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        &mut bytemuck::cast_slice_mut(self.words_mut())[..bytes]
    }

    /// Gives the memory of a buffer that has grown beyond `bytes_max` back to the allocator.
    pub fn shrink_beyond(&mut self, bytes_max: usize) {
        if self.words.len() * 8 > bytes_max {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_keeps_its_bytes_and_has_zeros_behind_them() {
        for more in [1, 9, 1000, FRESH_BYTES_MIN, 3 * FRESH_BYTES_MIN] {
            for had in [0, 5, 8, FRESH_BYTES_MIN - 3] {
                let mut buffer = Buffer::sized(had + 64);
                buffer.bytes_mut().fill(7);
                buffer.truncate(had);
                buffer.extend(had + more);
                assert_eq!(buffer.len(), had + more);
                assert!(buffer.bytes()[..had].iter().all(|byte| *byte == 7));
                assert!(buffer.bytes()[had..].iter().all(|byte| *byte == 0), "{had} and {more}");
                buffer.bytes_mut().fill(9);
                buffer.resize(2 * (had + more));
                assert!(buffer.bytes()[..had + more].iter().all(|byte| *byte == 9), "{had} and {more}");
            }
        }
    }
}
