//! Memory that the connections of a worker use one after the other. With many connections the same
//! few buffers stay in the processor's cache.

use super::memory;
use super::output::Output;
use std::cell::RefCell;

/// Memory for input that is not in use.
#[derive(Default)]
pub(super) struct Buffers(RefCell<Vec<Vec<u8>>>);

impl Buffers {
    /// What a new buffer has room for.
    const BYTES: usize = 64 << 10;
    /// A buffer that has grown beyond this is not kept.
    const BYTES_KEPT: usize = 256 << 10;
    /// Buffers kept.
    const COUNT: usize = 64;

    /// An empty buffer: that which was used last.
    #[inline]
    pub(super) fn take(&self) -> Vec<u8> {
        self.0.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(Self::BYTES))
    }

    /// Takes a buffer back.
    #[inline]
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.0.borrow_mut();
        if (1..=Self::BYTES_KEPT).contains(&buffer.capacity()) && buffers.len() < Self::COUNT {
            buffer.clear();
            buffers.push(buffer);
        } else {
            memory::free(buffer.capacity(), buffer);
        }
    }
}

/// Outputs that are not in use.
#[derive(Default)]
pub(super) struct Outputs(RefCell<Vec<Output>>);

impl Outputs {
    /// Outputs kept, whatever memory they have. One that waits for its peer is not here, and seldom
    /// do many large ones come back at once.
    const COUNT: usize = 8;
    /// Outputs kept if they have little memory: as many as wait to be sent together.
    const COUNT_SMALL: usize = 64;

    /// An empty output: that which was used last.
    #[inline]
    pub(super) fn take(&self) -> Output {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes an output back.
    #[inline]
    pub(super) fn give(&self, mut output: Output) {
        let mut outputs = self.0.borrow_mut();
        output.clear();
        if outputs.len() < if output.is_small() { Self::COUNT_SMALL } else { Self::COUNT } {
            outputs.push(output);
        }
    }
}

/// Other memory of batches that is not in use: as many pieces as batches were under way at once.
pub(super) struct Scratches<T>(RefCell<Vec<Box<T>>>);

impl<T: Default> Scratches<T> {
    pub(super) fn new() -> Self {
        Self(RefCell::default())
    }

    /// The one that was used last.
    #[inline]
    pub(super) fn take(&self) -> Box<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes one back.
    #[inline]
    pub(super) fn give(&self, scratch: Box<T>) {
        self.0.borrow_mut().push(scratch);
    }
}
