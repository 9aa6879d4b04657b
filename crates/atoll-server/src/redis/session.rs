//! The state that a connection has agreed on with its peer.

use crate::redis::resp::Protocol;

/// The state of one connection that commands see and change.
#[derive(Debug, Default)]
pub struct Session {
    /// Differs for every connection since the server started; counts from 1.
    pub id: u64,
    /// The form of replies.
    pub protocol: Protocol,
    /// What the peer calls itself; empty if it does not.
    pub name: Vec<u8>,
    /// The library that the peer uses, as it says; empty if it does not.
    pub library_name: Vec<u8>,
    /// The version of that library.
    pub library_version: Vec<u8>,
    /// Whether the connection ends once the replies so far have been sent.
    pub closing: bool,
}

impl Session {
    /// Connection `id`, which has said nothing yet.
    pub fn new(id: u64) -> Self {
        Self { id, ..Self::default() }
    }
}
