//! The order of verbs on several memory nodes.
//!
//! Verbs of one batch are in order on one node alone. A WRITE that must take effect before a verb
//! on another node is posted and awaited first, for one more round trip.

use atoll_fabric::{Address, Batch, Buffer, Ticket};

/// A WRITE that takes effect before a verb which is added to the batch afterwards.
pub(crate) enum Earlier {
    /// In the same batch.
    Added(Ticket),
    /// Posted and awaited; this is its buffer.
    Done(Buffer),
}

impl Earlier {
    /// Adds the WRITE of `words` to `at`, unless it has been made already.
    #[inline]
    pub(crate) fn add(batch: &mut Batch, at: Address, words: Buffer, is_in_order: bool) -> Self {
        if is_in_order { Self::Added(batch.write(at, words)) } else { Self::Done(words) }
    }

    /// The buffer, once the batch has been posted.
    #[inline]
    pub(crate) fn take(self, batch: &mut Batch) -> Buffer {
        match self {
            Self::Added(ticket) => batch.take(ticket),
            Self::Done(buffer) => buffer,
        }
    }
}
