//! Buffers that a client keeps for spans which it READs or WRITEs now and then.

use atoll_fabric::Buffer;
use std::cell::RefCell;

/// Buffers kept at most.
const KEPT_MAX: usize = 64;
/// The largest buffer that is kept, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    buffers: RefCell<Vec<Buffer>>,
}

impl Spares {
    /// A buffer of so many bytes, of any content.
    pub(crate) fn take(&self, bytes: usize) -> Buffer {
        let mut buffer = self.buffers.borrow_mut().pop().unwrap_or_default();
        buffer.resize(bytes);
        buffer
    }

    /// Keeps a buffer for the next use.
    pub(crate) fn keep(&self, mut buffer: Buffer) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < KEPT_MAX {
            buffer.shrink_beyond(KEPT_BYTES_MAX);
            buffers.push(buffer);
        }
    }
}
