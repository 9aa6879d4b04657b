//! The empty chunks that a client owns in state Open. Operations draw from them and put back what
//! they have not used.

use crate::extent::OpenChunk;
use std::cell::RefCell;

/// Empty chunks in state Open.
#[derive(Debug, Default)]
pub(crate) struct OpenChunks(RefCell<Vec<OpenChunk>>);

impl OpenChunks {
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push(&self, chunk: OpenChunk) {
        self.0.borrow_mut().push(chunk);
    }

    pub(crate) fn extend(&self, chunks: Vec<OpenChunk>) {
        self.0.borrow_mut().extend(chunks);
    }

    pub(crate) fn pop(&self) -> Option<OpenChunk> {
        self.0.borrow_mut().pop()
    }

    /// All of the chunks.
    pub(crate) fn take(&self) -> Vec<OpenChunk> {
        self.0.take()
    }

    /// Moves up to `most` of the chunks to those that an operation has drawn.
    #[inline]
    pub(crate) fn draw(&self, drawn: &mut Vec<OpenChunk>, most: usize) {
        let mut chunks = self.0.borrow_mut();
        let left = chunks.len().saturating_sub(most);
        drawn.extend(chunks.drain(left..));
    }

    /// Takes back what an operation has drawn and not used.
    pub(crate) fn put_back(&self, drawn: &mut Vec<OpenChunk>) {
        self.0.borrow_mut().append(drawn);
    }
}
