//! Pauses of operations on large objects, where memory is near.
//!
//! There an operation ends at its first poll. One that copies hundreds of megabytes would keep its
//! thread from everything else. A server says what its threads do in between ([`pause_with`]).
//! Without that there are no pauses. Over a network operations wait anyway.
//!
//! An operation that pauses has lent nothing of its client that another one could not wait for: the
//! thread may run that meanwhile.
//!
//! A server that stops may drop an operation at a pause. If it changes the pool, its client does
//! not leave as if it had released everything: see [`cut_off`](atoll_pool::cut_off).

use atoll_fabric::Endpoint;
use atoll_pool::Client;
use atoll_pool::cut_off::{CutOff, Unfinished};
use std::cell::Cell;
use std::pin::Pin;

/// Makes a future that ends once the thread has done what was waiting, and after so many
/// nanoseconds.
pub type Pause = fn(u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Bytes that are copied between two pauses: less than a millisecond, also where the system has to
/// give the memory first.
const TURN_BYTES: usize = 1 << 20;

/// To change the state of a chunk takes as long as to copy so many bytes.
const BYTES_PER_CHANGE: usize = 4 << 10;

thread_local! {
    static PAUSE: Cell<Option<Pause>> = const { Cell::new(None) };
}

/// Lets the operations of this thread's clients pause every megabyte that they copy, and while they
/// wait for room. They are not to be polled by a caller that expects them to be ready at once.
pub fn pause_with(pause: Pause) {
    PAUSE.set(Some(pause));
}

/// An operation that changes the pool waits for other clients for so many nanoseconds. Where memory
/// is near, its thread does meanwhile what is waiting there.
pub(crate) async fn wait<E: Endpoint>(client: &Client<E>, ns: u64) {
    match PAUSE.get().filter(|_| client.endpoint.is_near()) {
        None => client.endpoint.pause(ns).await,
        Some(pause) => {
            let unfinished = client.cut_off().begin();
            pause(ns).await;
            unfinished.end();
        }
    }
}

/// The bytes that an operation may copy until its next pause.
pub(crate) struct Turn<'c> {
    left: usize,
    /// Of the client, if the operation changes the pool.
    cut_off: Option<&'c CutOff>,
}

impl<'c> Turn<'c> {
    /// Of an operation that only reads: it may be dropped at a pause.
    pub(crate) fn of_reader() -> Self {
        Self { left: TURN_BYTES, cut_off: None }
    }

    /// Of an operation of this client that changes the pool.
    pub(crate) fn of_writer<E: Endpoint>(client: &'c Client<E>) -> Self {
        Self { left: TURN_BYTES, cut_off: Some(client.cut_off()) }
    }

    /// So many bytes were copied.
    #[inline]
    pub(crate) async fn copied(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        if self.left == 0 {
            self.left = TURN_BYTES;
            if let Some(pause) = PAUSE.get() {
                let unfinished = self.cut_off.map(CutOff::begin);
                pause(0).await;
                unfinished.into_iter().for_each(Unfinished::end);
            }
        }
    }

    /// The states of so many chunks were changed.
    #[inline]
    pub(crate) async fn changed(&mut self, chunks: usize) {
        self.copied(chunks * BYTES_PER_CHANGE).await;
    }
}
