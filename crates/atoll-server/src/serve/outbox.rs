//! What other threads have for a connection's peer: bytes that wait until its worker sends them.
//!
//! | the connection owes, with a new message | then |
//! |---|---|
//! | more than the hard limit | it ends, and the bytes are dropped |
//! | more than the soft limit, for as long as that permits | it ends, and the bytes are dropped |
//! | less | the message waits behind those before it |
//!
//! What a connection owes is what waits here, and what its worker sends at that time. The thread
//! that posts never waits for the peer.

use super::limits::OutputLimit;
use super::output::Output;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Memory that an empty outbox keeps at most.
const BYTES_KEPT: usize = 16 << 10;

/// The bytes that wait.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    /// How many there are; written under the lock.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Since when more is owed than the soft limit, without a break.
    over_since: Option<Instant>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// Nothing else waits: the worker must be woken.
    First,
    /// Others wait before it.
    Behind,
    /// The connection must end.
    OverLimit,
}

impl Waiting {
    /// Whether a connection that owes this may go on.
    fn permits(&mut self, owed: u64, limit: OutputLimit) -> bool {
        if limit.hard_bytes > 0 && owed > limit.hard_bytes {
            return false;
        }
        if limit.soft_bytes == 0 || owed <= limit.soft_bytes {
            self.over_since = None;
            return true;
        }
        self.over_since.get_or_insert_with(Instant::now).elapsed() <= Duration::from_secs(limit.soft_s)
    }
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes wait. Exact for the thread that was woken, as far as others do not post.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Puts a message behind those that wait. The worker sends so many bytes at this time.
    pub(super) fn post(&self, message: &[u8], sending: usize, limit: OutputLimit) -> Posted {
        let mut waiting = self.waiting();
        let is_first = waiting.bytes.is_empty();
        let before = sending + waiting.bytes.len();
        if before as u64 <= limit.soft_bytes {
            // Between two messages it only owes less and less, so this is the least.
            waiting.over_since = None;
        }
        let owed = before + message.len();
        if !waiting.permits(owed as u64, limit) {
            waiting.bytes = Vec::new();
            self.bytes.store(0, Relaxed);
            return Posted::OverLimit;
        }
        waiting.bytes.extend_from_slice(message);
        self.bytes.store(waiting.bytes.len(), Relaxed);
        if is_first { Posted::First } else { Posted::Behind }
    }

    /// Whether a connection that owes this besides what its worker sends may go on.
    pub(super) fn is_within(&self, sending: usize, limit: OutputLimit) -> bool {
        let mut waiting = self.waiting();
        let owed = (sending + waiting.bytes.len()) as u64;
        waiting.permits(owed, limit)
    }

    /// Moves what waits behind what `output` has.
    #[inline]
    pub(super) fn take(&self, output: &mut Output) {
        if self.bytes() > 0 {
            self.take_some(output);
        }
    }

    #[cold]
    fn take_some(&self, output: &mut Output) {
        let mut waiting = self.waiting();
        self.bytes.store(0, Relaxed);
        if waiting.bytes.capacity() <= BYTES_KEPT {
            output.push(&waiting.bytes);
            return waiting.bytes.clear();
        }
        let bytes = std::mem::take(&mut waiting.bytes);
        // What posts does not wait for a long copy.
        drop(waiting);
        output.push(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(hard_bytes: u64, soft_bytes: u64, soft_s: u64) -> OutputLimit {
        OutputLimit { hard_bytes, soft_bytes, soft_s }
    }

    #[test]
    fn messages_wait_in_order_until_they_are_taken() {
        let (outbox, mut output) = (Outbox::default(), Output::default());
        assert_eq!(outbox.post(b"ab", 0, limit(0, 0, 0)), Posted::First);
        assert_eq!(outbox.post(b"c", 0, limit(0, 0, 0)), Posted::Behind);
        assert_eq!(outbox.bytes(), 3);
        output.push(b">");
        outbox.take(&mut output);
        assert_eq!((output.small(), outbox.bytes()), (&b">abc"[..], 0));
        let long = vec![b'x'; 2 * BYTES_KEPT];
        assert_eq!(outbox.post(&long, 0, limit(0, 0, 0)), Posted::First);
        outbox.take(&mut output);
        assert_eq!(output.len(), 4 + long.len());
        assert_eq!(outbox.waiting().bytes.capacity(), 0);
    }

    #[test]
    fn a_connection_may_owe_as_much_as_the_limits_permit() {
        let outbox = Outbox::default();
        assert_eq!(outbox.post(&[0; 6], 4, limit(10, 0, 0)), Posted::First);
        assert_eq!(outbox.post(&[0; 1], 4, limit(10, 0, 0)), Posted::OverLimit);
        assert_eq!(outbox.bytes(), 0);
        // Above the soft limit for no longer than that permits.
        assert_eq!(outbox.post(&[0; 11], 0, limit(0, 10, 3600)), Posted::First);
        assert_eq!(outbox.post(&[0; 11], 0, limit(0, 10, 3600)), Posted::Behind);
        std::thread::sleep(Duration::from_millis(2));
        assert!(outbox.is_within(0, limit(0, 10, 3600)));
        assert!(!outbox.is_within(0, limit(0, 10, 0)));
        // A long message behind another one that was taken long ago.
        outbox.take(&mut Output::default());
        outbox.waiting().over_since = Instant::now().checked_sub(Duration::from_secs(100));
        assert_eq!(outbox.post(&[0; 22], 0, limit(0, 10, 60)), Posted::First);
        outbox.waiting().over_since = Instant::now().checked_sub(Duration::from_secs(100));
        assert_eq!(outbox.post(&[0; 1], 0, limit(0, 10, 60)), Posted::OverLimit);
        assert_eq!(outbox.post(&[0; 22], 0, limit(0, 10, 60)), Posted::First);
        // Below it, time begins anew.
        assert!(outbox.is_within(0, limit(0, 22, 0)));
        assert!(outbox.is_within(0, limit(0, 10, 1)));
    }
}
