//! Pauses of operations on large objects, where memory is near.
//!
//! There an operation ends at its first poll. One that copies hundreds of megabytes would keep its
//! thread from everything else. A server says what its threads do in between ([`pause_with`]).
//! Without that there are no pauses. Over a network operations wait anyway.
//!
//! An operation that pauses has lent nothing of its client: an operation that the thread runs
//! meanwhile may need it.

use std::cell::Cell;
use std::pin::Pin;

/// Makes a future that ends once the thread has done what was waiting.
pub type Pause = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Bytes that are copied between two pauses: less than a millisecond, also where the system has to
/// give the memory first.
const TURN_BYTES: usize = 1 << 20;

/// To change the state of a chunk takes as long as to copy so many bytes.
const BYTES_PER_CHANGE: usize = 4 << 10;

thread_local! {
    static PAUSE: Cell<Option<Pause>> = const { Cell::new(None) };
}

/// Lets the operations of this thread's clients pause every megabyte that they copy. They are
/// not to be polled by a caller that expects them to be ready at once.
pub fn pause_with(pause: Pause) {
    PAUSE.set(Some(pause));
}

/// The bytes that an operation may copy until its next pause.
pub(crate) struct Turn(usize);

impl Turn {
    pub(crate) fn begin() -> Self {
        Self(TURN_BYTES)
    }

    /// So many bytes were copied.
    #[inline]
    pub(crate) async fn copied(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
        if self.0 == 0 {
            *self = Self::begin();
            if let Some(pause) = PAUSE.get() {
                pause().await;
            }
        }
    }

    /// The states of so many chunks were changed.
    #[inline]
    pub(crate) async fn changed(&mut self, chunks: usize) {
        self.copied(chunks * BYTES_PER_CHANGE).await;
    }
}
