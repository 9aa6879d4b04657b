//! The state that a connection has agreed on with its peer.

use super::command::{Flag, Id, SPECS};
use super::transaction::{Queue, Watched};
use crate::redis::resp::Protocol;

/// The state of one connection that commands see and change.
#[derive(Debug, Default)]
pub struct Session {
    /// Differs for every connection since the server started; counts from 1.
    pub id: u64,
    /// The form of replies.
    pub protocol: Protocol,
    /// The number of the database that its commands are for.
    pub database: u8,
    /// What the peer calls itself; empty if it does not.
    pub name: Vec<u8>,
    /// The library that the peer uses, as it says; empty if it does not.
    pub library_name: Vec<u8>,
    /// The version of that library.
    pub library_version: Vec<u8>,
    /// Whether the peer has given the password that this server wants.
    pub is_authenticated: bool,
    /// The commands since MULTI.
    pub(crate) queue: Option<Box<Queue>>,
    /// The keys of WATCH.
    pub(crate) watched: Vec<Watched>,
    /// Whether its SCRIPT KILL, which runs next, has ended a script.
    pub(crate) has_killed: bool,
    /// Whether the connection ends once the replies so far have been sent.
    pub closing: bool,
}

/// What is done with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It runs beside the commands of other connections.
    Beside,
    /// It runs alone.
    Alone,
    /// It is a script, and runs alone.
    Script,
    /// It waits for EXEC.
    Queue,
    /// The queue runs, alone.
    Exec,
    /// The peer must give the password first.
    Refuse,
}

impl Session {
    /// Connection `id`, which has said nothing yet.
    pub fn new(id: u64, is_authenticated: bool) -> Self {
        Self { id, is_authenticated, ..Self::default() }
    }

    /// Whether every command runs at once.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_authenticated && self.queue.is_none()
    }

    /// What is done with a command that there is.
    #[inline]
    pub(crate) fn way(&self, id: Id) -> Way {
        let flags = SPECS[id as usize].flags;
        match id {
            _ if !self.is_authenticated && !flags.contains(&Flag::NoAuth) => Way::Refuse,
            Id::Exec if self.queue.is_some() => Way::Exec,
            Id::Multi | Id::Discard | Id::Watch | Id::Quit | Id::Reset => Way::Beside,
            _ if self.queue.is_some() => Way::Queue,
            _ if flags.contains(&Flag::Script) => Way::Script,
            _ if flags.contains(&Flag::Alone) => Way::Alone,
            _ => Way::Beside,
        }
    }
}
