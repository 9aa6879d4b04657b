//! The state that a connection has agreed on with its peer.

use super::acl::Standing;
use super::command::{Flag, Id, SPECS, pubsub};
use super::events::Untold;
use super::peers::{Last, Peer};
use super::tracking::Tracks;
use super::transaction::{Queue, Watched};
use crate::redis::resp::Protocol;
use crate::serve::upload::Upload;
use std::cell::RefCell;
use std::sync::Arc;

/// The state of one connection that commands see and change.
#[derive(Debug)]
pub struct Session {
    /// The connection as all connections see it.
    pub(crate) peer: Arc<Peer>,
    /// The form of replies.
    pub protocol: Protocol,
    /// The number of the database that its commands are for.
    pub database: u8,
    /// Whether every command is timed: none comes behind another, or the slow log wants it.
    pub(crate) is_timed: bool,
    /// The last command.
    pub(crate) last: Last,
    /// Which replies are sent.
    pub(crate) replies: Replies,
    /// Whether the next command waits until the server is paused no more.
    pub(crate) is_waiting: bool,
    /// Whether the peer wishes not to be disconnected for lack of memory.
    pub(crate) no_evict: bool,
    /// Whether the peer wishes that its lookups do not count as accesses.
    pub(crate) no_touch: bool,
    /// Which user it is, and what that may do.
    pub(crate) standing: Standing,
    /// The commands since MULTI.
    pub(crate) queue: Option<Box<Queue>>,
    /// The keys of WATCH.
    pub(crate) watched: Vec<Watched>,
    /// Whether EXEC runs its commands.
    pub(crate) is_executing: bool,
    /// Whether what has just ended within a step is not to run again.
    pub(crate) ends_step: bool,
    /// Events of a step that is not published yet.
    pub(crate) untold: RefCell<Vec<Untold>>,
    /// Whether and how it is told of changes.
    pub(crate) tracks: Option<Box<Tracks>>,
    /// Whether it has subscribed to anything.
    pub(crate) is_subscriber: bool,
    /// Whether it sees every command.
    pub(crate) is_monitor: bool,
    /// The value of the command that runs, if it was stored while it arrived.
    pub(crate) upload: Option<Upload>,
    /// The place of that value among the arguments, and how many bytes more it has than the
    /// argument.
    pub(crate) elided: Option<(usize, usize)>,
    /// Whether the connection ends once the replies so far have been sent.
    pub closing: bool,
}

/// Which replies a connection sends, as `CLIENT REPLY` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    Sent,
    /// That of the next command is not sent.
    Skip,
    /// That of the command behind this one is not sent, and this one's neither.
    SkipNext,
    Off,
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
    /// The peer takes messages for replies, and may not run it now.
    Refuse,
}

impl Session {
    /// A connection that has said nothing yet.
    pub(crate) fn new(peer: Arc<Peer>, standing: Standing) -> Self {
        Self {
            peer,
            protocol: Protocol::default(),
            database: 0,
            is_timed: false,
            last: Last::default(),
            replies: Replies::default(),
            is_waiting: false,
            no_evict: false,
            no_touch: false,
            standing,
            queue: None,
            watched: Vec::new(),
            is_executing: false,
            ends_step: false,
            untold: RefCell::default(),
            tracks: None,
            is_subscriber: false,
            is_monitor: false,
            upload: None,
            elided: None,
            closing: false,
        }
    }

    /// Whether every command that it may run runs at once and is answered, and nothing is noted of
    /// it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.queue.is_none() && self.replies == Replies::Sent && !self.is_listening() && self.tracks.is_none()
    }

    /// Whether the peer takes messages for replies, so that it may run few commands.
    #[inline]
    pub(crate) fn is_listening(&self) -> bool {
        self.is_subscriber && self.protocol == Protocol::Resp2
    }

    /// The next command is not answered.
    pub(crate) fn skip_reply(&mut self) {
        self.replies = match self.replies {
            Replies::Sent => Replies::Skip,
            Replies::Skip | Replies::SkipNext => Replies::SkipNext,
            Replies::Off => Replies::Off,
        };
    }

    /// A command ends that began when not every reply was sent; returns whether its own reply is.
    pub(crate) fn end_silence(&mut self, began: Replies) -> bool {
        let is_sent = began == Replies::Off && self.replies == Replies::Sent;
        self.replies = match self.replies {
            Replies::Skip => Replies::Sent,
            Replies::SkipNext => Replies::Skip,
            other => other,
        };
        is_sent
    }

    /// What is done with a command that there is.
    #[inline]
    pub(crate) fn way(&self, id: Id) -> Way {
        let flags = SPECS[id as usize].flags;
        match id {
            _ if self.is_listening() && !pubsub::is_for_subscribers(id) => Way::Refuse,
            Id::Exec if self.queue.is_some() => Way::Exec,
            Id::Multi | Id::Discard | Id::Watch | Id::Quit | Id::Reset => Way::Beside,
            _ if self.queue.is_some() => Way::Queue,
            _ if flags.contains(&Flag::Script) => Way::Script,
            _ if flags.contains(&Flag::Alone) => Way::Alone,
            _ => Way::Beside,
        }
    }
}
