//! Small messages between endpoints, beside the verbs: for what needs a CPU at the other side.
//!
//! | may happen | never happens |
//! |---|---|
//! | a message is lost, at any time and at any mailbox | a message arrives in parts, or changed |
//! | it arrives twice or more often | it arrives at another mailbox, or from another than its sender |
//! | it arrives late, after messages that were sent later, and after its sender's death | it is invented |
//!
//! The sender of a message has seen some verbs completed. Their effects are visible to the
//! receiver. Of verbs in flight the message says nothing. A client that needs an answer sends again
//! after a time, so that a receiver may get the same request twice.
//!
//! A message carries the incarnation of its sender. It may arrive after the sender was shut out,
//! and no fence holds it back.

use std::future::Future;

/// Most bytes of a message: what a datagram of the smallest of the networks takes.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Messages that wait at a mailbox, at most; further ones are lost. A fabric may hold fewer.
pub const MAILBOX_MESSAGES_MAX: usize = 1024;

/// Where an endpoint receives its messages. A client can store it in a region for others to find.
/// What is sent to a wrong one is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mailbox(pub u64);

impl Mailbox {
    /// No endpoint's.
    pub const NOBODY: Self = Self(0);
}

/// The client that sends: a place in a registry, and how often that was taken. A receiver judges by
/// it whether a message is of a client that was shut out since. What an endpoint says of itself is
/// not to be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sender {
    /// The incarnation's place.
    pub slot: u32,
    /// How often the place had been taken, this time included. 0 for an endpoint that is no client.
    pub epoch: u32,
}

/// A message that has arrived. Its bytes are another process's, not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub from: Mailbox,
    /// As which client it was sent.
    pub sender: Sender,
    /// What was sent.
    pub bytes: Vec<u8>,
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is too long.
    #[error("a message of {bytes} bytes: at most {MESSAGE_BYTES_MAX} can be sent")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// This endpoint was fenced.
    #[error("this client was shut out of the pool because it stood still: join again")]
    Fenced,
    /// This process is a fork of the one that made the endpoint, which alone may use it.
    #[error("this process is a fork of the one that opened the pool: open the pool again after the fork")]
    Forked,
}

/// An endpoint that sends and receives messages.
pub trait Messenger {
    /// Where this endpoint alone receives, now and later. A mailbox that cannot be made, because
    /// memory is short, is [`Mailbox::NOBODY`].
    fn mailbox(&self) -> Mailbox;

    /// From now on this endpoint sends as this client; before, as no client.
    fn sign(&self, sender: Sender);

    /// Sends `bytes` to `to`, without waiting. That this succeeds says nothing of whether they
    /// arrive.
    fn send(&self, to: Mailbox, bytes: &[u8]) -> Result<(), MessageError>;

    /// Waits for the next message. Dropping the future loses none.
    fn receive(&self) -> impl Future<Output = Message>;

    /// As [`Messenger::receive`] for at most `ns` nanoseconds; `None` if nothing came.
    fn receive_within(&self, ns: u64) -> impl Future<Output = Option<Message>>;
}
