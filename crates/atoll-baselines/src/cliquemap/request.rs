//! A change in flight: the client sends it until there is an answer.
//!
//! A request that is sent again is the same to the byte, so the server knows it by its number. A
//! client that has no answer for [`PATIENCE_NS`] gives up. The server drops a request in flight
//! once it has seen a later request of the client.

use super::Session;
use super::wire::{self, Answer, Change, Head, Outcome, Payload};
use atoll_cache::CacheError;
use atoll_fabric::purpose::Scope;
use atoll_fabric::{Batch, Endpoint, Mailbox, MessageError, Messenger, Purpose, VerbError};

/// How long a client waits for an answer.
pub const PATIENCE_NS: u64 = 20_000_000_000;
/// The first and the longest pause before a request is sent again. The pause doubles each time.
/// Both are longer than a busy server's queue.
const RESEND_NS: u64 = 20_000_000;
const RESEND_NS_MAX: u64 = 320_000_000;
/// How long a client waits before it looks again for a server.
const LOOK_NS: u64 = 1_000_000;

/// A server, as a client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) mailbox: Mailbox,
    pub(super) epoch: u32,
}

impl<E: Endpoint + Messenger> Session<E> {
    /// Requests a change; returns its outcome, which is never [`Outcome::Stale`].
    pub(super) async fn request(&mut self, change: &Change, key: &[u8], value: &[u8]) -> Result<Answer, CacheError> {
        self.sequence += 1;
        let begun_ns = self.client.endpoint.now_ns();
        let server = self.reach(begun_ns).await?;
        let head = self.head(server, self.sequence);
        let mut wait_ns = RESEND_NS;
        while self.client.endpoint.now_ns().wrapping_sub(begun_ns) < PATIENCE_NS {
            for part in 0..change.parts() {
                let mut message = std::mem::take(&mut self.outgoing);
                wire::encode_change(&mut message, &head, change, part, key, value);
                self.outgoing = message;
                self.send(server)?;
            }
            let sent_ns = self.client.endpoint.now_ns();
            while let Some(left_ns) = wait_ns.checked_sub(self.client.endpoint.now_ns().wrapping_sub(sent_ns)) {
                match self.hear(left_ns).await {
                    Some((sequence, answer)) if sequence == self.sequence => return self.answered(answer),
                    _ => {}
                }
            }
            // It may take long, and other clients look at the lease.
            self.renew();
            if self.look_for_server().await?.is_some_and(|found| found != server) {
                // Only the server that it was sent to knew whether it did the change, and that
                // server is dead.
                break;
            }
            self.server = Some(server);
            wait_ns = (2 * wait_ns).min(RESEND_NS_MAX);
        }
        self.server = None;
        Err(VerbError::OutcomeUnknown.into())
    }

    fn answered(&mut self, answer: Answer) -> Result<Answer, CacheError> {
        match answer.outcome {
            Outcome::Stale => {
                // Only the server that it was sent to knew whether it did the change, and that
                // server is dead.
                self.server = None;
                Err(VerbError::OutcomeUnknown.into())
            }
            Outcome::NoRoom => Err(CacheError::OutOfMemory),
            Outcome::Done | Outcome::Conflict => Ok(answer),
        }
    }

    /// The pool's server; waits for one if there is none.
    pub(super) async fn reach(&mut self, begun_ns: u64) -> Result<Reached, VerbError> {
        if let Some(server) = self.server {
            return Ok(server);
        }
        while self.client.endpoint.now_ns().wrapping_sub(begun_ns) < PATIENCE_NS {
            if let Some(server) = self.look_for_server().await? {
                return Ok(server);
            }
            self.client.endpoint.pause(LOOK_NS).await;
        }
        // Nothing has been sent.
        Err(VerbError::PeerDead)
    }

    /// The pool's server, if there is one now.
    pub(super) async fn look_for_server(&mut self) -> Result<Option<Reached>, VerbError> {
        let (layout, mut batch) = (&self.shared.layout, Batch::new());
        let mailbox = batch.read_word(layout.mailbox());
        // READ after the mailbox, so that the epoch is not an earlier server's.
        let epoch = batch.read_word(layout.server_epoch());
        batch.fence();
        self.client.endpoint.post(&mut batch).await?;
        let (mailbox, epoch) = (batch.word(mailbox), batch.word(epoch) as u32);
        self.server = (mailbox != 0).then_some(Reached { mailbox: Mailbox(mailbox), epoch });
        Ok(self.server)
    }

    pub(super) fn head(&self, server: Reached, sequence: u64) -> Head {
        Head { client: self.client.me(), server_epoch: server.epoch, sequence }
    }

    /// Sends the outgoing message.
    pub(super) fn send(&self, server: Reached) -> Result<(), VerbError> {
        match self.client.endpoint.send(server.mailbox, &self.outgoing) {
            Ok(()) => Ok(()),
            Err(MessageError::Fenced) => Err(VerbError::Fenced),
            Err(MessageError::Forked) => Err(VerbError::Forked),
            Err(error @ MessageError::TooLong { .. }) => unreachable!("{error}"),
        }
    }

    /// Waits for a message for at most so long; returns an answer, with its number. Other messages
    /// are noted.
    pub(super) async fn hear(&mut self, ns: u64) -> Option<(u64, Answer)> {
        let message = self.client.endpoint.receive_within(ns).await?;
        let server = self.server.filter(|server| server.mailbox == message.from)?;
        let (head, payload) = wire::decode(&message.bytes)?;
        if head.client != self.client.me() || head.server_epoch != server.epoch {
            return None;
        }
        match payload {
            Payload::Answer(answer) => Some((head.sequence, answer)),
            Payload::Noted => {
                self.log.noted(head.sequence);
                None
            }
            Payload::Change(..) | Payload::Accesses(_) => None,
        }
    }

    /// Removes every object; returns how many there were.
    pub(super) async fn remove_all(&mut self) -> Result<u64, CacheError> {
        let flush = Change {
            operation: wire::Operation::Flush,
            condition: wire::Condition::Any,
            expiry_ms: None,
            key_bytes: 0,
            value_bytes: 0,
        };
        let removed = self.request(&flush, &[], &[]).await?.token;
        self.stats.removes.add(removed);
        Ok(removed)
    }

    /// From now on, posted verbs count as hints of hotness.
    pub(super) fn hinting(&self) -> Scope<'_, E> {
        Scope::new(&self.client.endpoint, Purpose::Hotness)
    }
}
