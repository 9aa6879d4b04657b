//! Small messages between endpoints, beside the verbs: for work that needs a CPU at the other side.
//!
//! | may happen | never happens |
//! |---|---|
//! | a message is lost, at any time and at any mailbox | a message arrives in parts, or changed |
//! | it arrives twice or more often | it arrives at another mailbox, or with another sender |
//! | it arrives late, after messages that were sent later, or after its sender's death | it arrives although no endpoint sent it |
//!
//! Verbs that the sender has seen completed are visible to the receiver of the message. A message
//! says nothing about verbs in flight. A client that needs an answer repeats its request after a
//! time, so a receiver may get the same request twice.
//!
//! A message carries the incarnation of its sender. It may arrive after the sender was shut out,
//! and no fence holds it back.

use std::future::Future;

/// Most bytes of a message: the datagram of the network with the smallest one.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// The most messages that wait at a mailbox; further ones are lost. A fabric may hold fewer.
pub const MAILBOX_MESSAGES_MAX: usize = 1024;

/// Where an endpoint receives its messages. A client can store it in a region for other clients to
/// find. A message to a wrong mailbox is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mailbox(pub u64);

impl Mailbox {
    /// The mailbox of no endpoint.
    pub const NOBODY: Self = Self(0);
}

/// The client that sends: a place in a registry, and how often the place was occupied. A receiver
/// uses it to tell whether the sender was shut out since. It is the sender's own claim, and must
/// not be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sender {
    /// The incarnation's place.
    pub slot: u32,
    /// How often the place had been occupied, including this time. 0 for an endpoint that is no
    /// client.
    pub epoch: u32,
}

/// A message that has arrived. Another process wrote its bytes: they must not be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's mailbox.
    pub from: Mailbox,
    /// The client that the sender claims to be.
    pub sender: Sender,
    /// The bytes that were sent.
    pub bytes: Vec<u8>,
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message is too long.
    #[error("a message of {bytes} bytes: at most {MESSAGE_BYTES_MAX} can be sent")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// This endpoint was fenced.
    #[error(
        "this client lost the pool: it was silent for too long, or a memory node failed. A cache joins again by itself"
    )]
    Fenced,
    /// This process is a fork of the process that made the endpoint. Only that process may use it.
    #[error("this process is a fork of the one that opened the pool: open the pool again after the fork")]
    Forked,
}

/// An endpoint that sends and receives messages.
pub trait Messenger {
    /// Where this endpoint alone receives, now and later. If memory is short and no mailbox can be
    /// made, it is the mailbox of no endpoint.
    fn mailbox(&self) -> Mailbox;

    /// From now on this endpoint sends as this client. Before, it sends as no client.
    fn sign(&self, sender: Sender);

    /// Sends `bytes` to `to`, without waiting. Success does not mean that they arrive.
    fn send(&self, to: Mailbox, bytes: &[u8]) -> Result<(), MessageError>;

    /// Waits for the next message. Dropping the future loses none.
    fn receive(&self) -> impl Future<Output = Message>;

    /// As [`Messenger::receive`] for at most `ns` nanoseconds; `None` if no message arrived.
    fn receive_within(&self, ns: u64) -> impl Future<Output = Option<Message>>;
}
