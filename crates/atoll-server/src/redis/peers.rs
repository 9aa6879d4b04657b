//! The connections of a server as `CLIENT LIST` and `CLIENT KILL` see them.
//!
//! A connection publishes what it last did once a batch, with one relaxed store. So other
//! connections see it as it was at the end of its last batch; it sees itself as it is.
//!
//! | field of `CLIENT LIST` | here |
//! |---|---|
//! | `qbuf`, `qbuf-free` | bytes that have arrived and whose commands have not ended, and the room behind them; a connection that waits for its peer and has no part of a command holds no buffer |
//! | `argv-mem` | 0: arguments lie in `qbuf`; the copy of an inline command is not counted |
//! | `multi-mem` | memory of the commands since MULTI |
//! | `rbs`, `obl` | the memory of small replies that are sent at this time, and their bytes |
//! | `rbp` | 0: the buffers of replies belong to the worker, and shrink with none of its connections |
//! | `oll`, `omem` | large values that are sent at this time, and what other threads have posted; and the memory of both |
//! | `tot-mem` | all of these, and what every connection has |

use super::acl;
use super::channels::Counts;
use super::command::{Id, SPECS, subcommand};
use super::instance::Instance;
use super::resp::Protocol;
use super::session::Session;
use super::tracking::{Mode, Tracker};
use crate::serve::counters::Shared;
use crate::serve::handle::{Handle, Holds};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a peer has said about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// What it calls itself; empty if it does not.
    pub(crate) own: Vec<u8>,
    /// The library that it uses.
    pub(crate) library: Vec<u8>,
    /// The version of that library.
    pub(crate) version: Vec<u8>,
}

/// A connection as all connections see it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) handle: Arc<Handle>,
    names: Mutex<Names>,
    /// The number of the user that it is, and its name.
    user: Mutex<(u64, Arc<[u8]>)>,
    /// A [`Snapshot`], packed.
    state: AtomicU64,
    /// Bytes of memory of the commands since MULTI.
    queued_memory: AtomicUsize,
    /// The number of keys that it watches.
    watched: AtomicUsize,
}

/// Memory that every connection has, but for that of its task, which waits.
const BYTES_EACH: usize = size_of::<Handle>() + size_of::<Peer>() + size_of::<Session>();

/// What limits and filters tell connections apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Pubsub,
    /// There is none: this server does not replicate.
    Replica,
}

impl Kind {
    /// The kind of this name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        match () {
            () if name.eq_ignore_ascii_case(b"normal") => Some(Self::Normal),
            () if name.eq_ignore_ascii_case(b"pubsub") => Some(Self::Pubsub),
            () if [&b"slave"[..], b"replica", b"master"].iter().any(|other| name.eq_ignore_ascii_case(other)) => {
                Some(Self::Replica)
            }
            () => None,
        }
    }
}

/// The last command of a connection: its place in the table, and that of its subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    id: u8,
    subcommand: u8,
}

const NONE: u8 = u8::MAX;

impl Default for Last {
    fn default() -> Self {
        Self { id: NONE, subcommand: NONE }
    }
}

impl Last {
    /// A command.
    #[inline]
    pub(crate) fn command(id: Id) -> Self {
        Self { id: id as u8, subcommand: NONE }
    }

    /// A subcommand, by its place among those of the command.
    pub(crate) fn subcommand(id: Id, place: usize) -> Self {
        Self { id: id as u8, subcommand: place as u8 }
    }

    fn name(self) -> &'static str {
        let Some(spec) = SPECS.get(self.id as usize) else { return "NULL" };
        let subcommands = subcommand::of_name(spec.name);
        subcommands.get(self.subcommand as usize).map_or(spec.name, |subcommand| subcommand.name)
    }
}

/// What a connection publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) last: Last,
    pub(crate) database: u8,
    pub(crate) is_resp3: bool,
    /// Whether a command waits until the server is paused no more.
    pub(crate) is_waiting: bool,
    pub(crate) is_closing: bool,
    pub(crate) no_evict: bool,
    pub(crate) no_touch: bool,
    /// The number of commands since MULTI.
    pub(crate) queued: Option<u32>,
}

impl Snapshot {
    #[inline]
    fn pack(self) -> u64 {
        let marks = [self.is_resp3, self.is_waiting, self.is_closing, self.no_evict, self.no_touch];
        let marks = marks.iter().rev().fold(0, |marks, mark| marks << 1 | u64::from(*mark));
        let queued = self.queued.map_or(0, |queued| queued.saturating_add(1));
        let last = u64::from(self.last.id) | u64::from(self.last.subcommand) << 8;
        last | u64::from(self.database) << 16 | marks << 24 | u64::from(queued) << 32
    }

    fn unpack(word: u64) -> Self {
        let mark = |index: u32| word >> (24 + index) & 1 == 1;
        Self {
            last: Last { id: word as u8, subcommand: (word >> 8) as u8 },
            database: (word >> 16) as u8,
            is_resp3: mark(0),
            is_waiting: mark(1),
            is_closing: mark(2),
            no_evict: mark(3),
            no_touch: mark(4),
            queued: ((word >> 32) as u32).checked_sub(1),
        }
    }
}

impl Session {
    /// Lets the other connections see what this one does.
    #[inline]
    pub(crate) fn publish(&self) {
        let snapshot = Snapshot {
            last: self.last,
            database: self.database,
            is_resp3: self.protocol == Protocol::Resp3,
            is_waiting: self.is_waiting,
            is_closing: self.closing,
            no_evict: self.no_evict,
            no_touch: self.no_touch,
            queued: self.queue.as_ref().map(|queue| queue.commands().len() as u32),
        };
        let peer = &*self.peer;
        peer.state.store(snapshot.pack(), Relaxed);
        let queued_memory = self.queue.as_ref().map_or(0, |queue| queue.memory_bytes());
        peer.queued_memory.store(queued_memory, Relaxed);
        peer.watched.store(self.watched.len(), Relaxed);
    }
}

impl Peer {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        let user = Mutex::new((0, acl::DEFAULT.into()));
        let state = AtomicU64::new(Snapshot::default().pack());
        let (queued_memory, watched) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { handle, names: Mutex::default(), user, state, queued_memory, watched }
    }

    /// It is this user from now on. The caller has locked the users.
    pub(crate) fn set_user(&self, id: u64, name: &Arc<[u8]>) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = (id, name.clone());
    }

    /// The number of the user that it is, and its name.
    pub(crate) fn user(&self) -> (u64, Arc<[u8]>) {
        self.user.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the peer has said about itself.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a command waits until the server is paused no more.
    pub(crate) fn is_waiting(&self) -> bool {
        Snapshot::unpack(self.state.load(Relaxed)).is_waiting
    }

    /// Whether it speaks RESP3, as it last published.
    pub(crate) fn is_resp3(&self) -> bool {
        Snapshot::unpack(self.state.load(Relaxed)).is_resp3
    }

    /// What it is to limits and filters.
    pub(crate) fn kind(&self) -> Kind {
        if self.handle.is_subscriber() { Kind::Pubsub } else { Kind::Normal }
    }

    /// Bytes of the server's own memory that it has at this moment.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.names();
        let names = names.own.len() + names.library.len() + names.version.len();
        let Holds { input_bytes, input_room, replies_memory, listed_memory, .. } = self.handle.holds();
        let held = input_bytes + input_room + replies_memory + listed_memory;
        BYTES_EACH + names + held + self.queued_memory.load(Relaxed)
    }

    /// Its line of `CLIENT LIST`, at that time, if it has so many subscriptions and is told of
    /// changes in this way.
    fn line(&self, now_ms: u64, subscribed: Counts, tracker: Option<&Tracker>) -> String {
        let (handle, names) = (&self.handle, self.names().clone());
        let Snapshot { last, database, is_resp3, is_waiting, is_closing, no_evict, no_touch, queued } =
            Snapshot::unpack(self.state.load(Relaxed));
        let marks = [
            (handle.is_monitor(), 'O'),
            (handle.is_subscriber(), 'P'),
            (tracker.is_some(), 't'),
            (tracker.is_some_and(|tracker| tracker.is_broken.load(Relaxed)), 'R'),
            (tracker.is_some_and(|tracker| tracker.mode == Mode::Broadcast), 'B'),
            (is_waiting, 'b'),
            (queued.is_some(), 'x'),
            (is_closing, 'c'),
            (handle.is_unix, 'U'),
            (no_evict, 'e'),
            (no_touch, 'T'),
        ];
        let mut flags: String = marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| *mark).collect();
        if flags.is_empty() {
            flags.push('N');
        }
        let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
        let said = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let (age, idle) = (seconds(handle.accepted_ms), seconds(handle.active_ms()));
        let Holds { input_bytes, input_room, replies_bytes, replies_memory, listed, listed_memory } = handle.holds();
        let multi = queued.map_or(-1, i64::from);
        let events = if replies_bytes + listed > 0 { "rw" } else { "r" };
        let mut line = String::new();
        let written = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={age} idle={idle} flags={flags} db={database} sub={} psub={} \
             ssub={} multi={multi} watch={} qbuf={input_bytes} qbuf-free={input_room} argv-mem=0 multi-mem={} \
             rbs={replies_memory} rbp=0 obl={replies_bytes} oll={listed} omem={listed_memory} tot-mem={} \
             events={events} cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
            handle.id,
            handle.peer,
            handle.local,
            handle.descriptor,
            said(&names.own),
            subscribed.channels,
            subscribed.patterns,
            subscribed.shards,
            self.watched.load(Relaxed),
            self.queued_memory.load(Relaxed),
            self.memory_bytes(),
            last.name(),
            said(&self.user().1),
            tracker.map_or(-1, |tracker| tracker.redirect.unwrap_or(0) as i64),
            if is_resp3 { 3 } else { 2 },
            said(&names.library),
            said(&names.version),
        );
        written.expect("memory takes what is written");
        line
    }
}

impl Instance {
    /// A connection's line of `CLIENT LIST`.
    pub(crate) fn line(&self, peer: &Peer, shared: &Shared) -> String {
        let id = peer.handle.id;
        peer.line(shared.uptime_ms(), self.channels.counts(id), self.tracking.of(id).as_deref())
    }
}

/// The connections of a server, by their ids.
#[derive(Default)]
pub(crate) struct Peers(Mutex<BTreeMap<u64, Arc<Peer>>>);

impl Peers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Peer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection begins.
    pub(crate) fn add(&self, peer: Arc<Peer>) {
        self.all().insert(peer.handle.id, peer);
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, id: u64) {
        self.all().remove(&id);
    }

    /// The connection of that id, unless it is to end.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Peer>> {
        self.all().get(&id).filter(|peer| !peer.handle.is_ending()).cloned()
    }

    /// Bytes of the server's own memory that those have that are not to end.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.living().iter().map(|peer| peer.memory_bytes()).sum()
    }

    /// Those that are not to end, in the order of their ids.
    pub(crate) fn living(&self) -> Vec<Arc<Peer>> {
        self.all().values().filter(|peer| !peer.handle.is_ending()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_read_as_it_was_published() {
        let none = Snapshot::default();
        let all = Snapshot {
            last: Last::subcommand(Id::Client, 0),
            database: 15,
            is_resp3: true,
            is_waiting: true,
            is_closing: true,
            no_evict: true,
            no_touch: true,
            queued: Some(0),
        };
        let cases = [
            none,
            all,
            Snapshot { is_waiting: true, ..none },
            Snapshot { no_touch: true, ..none },
            Snapshot { is_resp3: true, ..none },
            Snapshot { queued: Some(70_000), last: Last::command(Id::Watch), ..none },
        ];
        for snapshot in cases {
            assert_eq!(Snapshot::unpack(snapshot.pack()), snapshot);
        }
        assert_eq!((none.last.name(), all.last.name()), ("NULL", "client|caching"));
    }
}
