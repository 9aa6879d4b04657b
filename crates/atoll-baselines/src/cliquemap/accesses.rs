//! A client's log of its GETs for the server, which does not see them.
//!
//! The client notes each access with its time and the hash of its key, sixteen bytes. It sends the
//! log when it has 2 KB, or when the first access is 2 ms old and the client does something. Clocks
//! of different hosts cannot be compared. So a message has the age of each access in place of its
//! time. The server does not need the age: it counts accesses in the order in which they arrive.

use super::Session;
use super::wire::{self, LOG_ACCESSES};
use atoll_cache::CacheError;
use atoll_fabric::{Endpoint, Messenger};

/// The longest age of a log's first access, if the client does something.
const LOG_NS: u64 = 2_000_000;
/// How long a client waits for the server to note a log before it sends the next one.
pub const LOG_PATIENCE_NS: u64 = 100_000_000;

/// Accesses that have not been sent, and the log in flight.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The time, and the hash of the key.
    accesses: Vec<(u64, u64)>,
    /// The last log that was sent.
    sequence: u64,
    /// When it was sent, until the server has acknowledged it.
    sent_ns: Option<u64>,
}

impl Log {
    /// The server has noted a log.
    pub(super) fn noted(&mut self, sequence: u64) {
        if sequence == self.sequence {
            self.sent_ns = None;
        }
    }

    fn is_due(&self, now_ns: u64) -> bool {
        let is_old = |(at_ns, _): &(u64, u64)| now_ns.saturating_sub(*at_ns) >= LOG_NS;
        self.accesses.len() >= LOG_ACCESSES || self.accesses.first().is_some_and(is_old)
    }
}

impl<E: Endpoint + Messenger> Session<E> {
    /// Notes an access of this client.
    #[inline]
    pub(super) async fn note_access(&mut self, hash: u64) -> Result<(), CacheError> {
        let now_ns = self.client.endpoint.now_ns();
        self.log.accesses.push((now_ns, hash));
        if self.log.is_due(now_ns) { Box::pin(self.tell()).await } else { Ok(()) }
    }

    /// Sends the accesses if it is time.
    pub(super) async fn tell_if_due(&mut self) -> Result<(), CacheError> {
        if self.log.is_due(self.client.endpoint.now_ns()) { Box::pin(self.tell()).await } else { Ok(()) }
    }

    async fn tell(&mut self) -> Result<(), CacheError> {
        while let Some(sent_ns) = self.log.sent_ns {
            let waited_ns = self.client.endpoint.now_ns().wrapping_sub(sent_ns);
            match LOG_PATIENCE_NS.checked_sub(waited_ns).filter(|left_ns| *left_ns > 0) {
                // No change is under way, so an answer now is a duplicate.
                Some(left_ns) => drop(self.hear(left_ns).await),
                // The log is lost, or the server is: accesses are hints.
                None => (self.log.sent_ns, self.server) = (None, None),
            }
        }
        let now_ns = self.client.endpoint.now_ns();
        let server = match self.server {
            Some(server) => server,
            // A GET needs no server, and does not wait for one.
            None => match self.look_for_server().await? {
                Some(server) => server,
                None => {
                    self.log.accesses.clear();
                    return Ok(());
                }
            },
        };
        self.log.sequence += 1;
        let head = self.head(server, self.log.sequence);
        let ages = self.log.accesses.iter().map(|(at_ns, hash)| (now_ns.saturating_sub(*at_ns) / 1000, *hash));
        wire::encode_accesses(&mut self.outgoing, &head, ages);
        {
            let _scope = self.hinting();
            self.send(server)?;
        }
        self.log.accesses.clear();
        self.log.sent_ns = Some(now_ns);
        Ok(())
    }
}
