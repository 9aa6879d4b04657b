//! Clients that keep values of their own, and are told when those change: CLIENT TRACKING.
//!
//! | a key that a client has read is | the client is told |
//! |---|---|
//! | changed through this server | as the command has run |
//! | changed, evicted or removed by another server, process or protocol of the pool | at the next [look](Instance::look_for_changes): a millisecond later, or as seldom as looks take a twentieth of a processor |
//! | expired | at the next look |
//!
//! What a client reads is noted in the `table` before it is read. If the server can no longer vouch
//! for what was noted (its place among the pool's sharers was lost, or a memory node), or keys of
//! all kinds change at once (FLUSHALL, FLUSHDB, SWAPDB), every client is told that everything has
//! changed: no client is stale for ever.
//!
//! Differences from Redis:
//! - A key that was not there when it was read is told of at once, behind the reply: no slot of the
//!   pool can tell that it comes to be. So is one that another client is about to change.
//! - With BCAST, a change by another server or process is told only of keys that a client with BCAST
//!   has read through this server; and each message has one key.
//! - A script reads the keys that it declares, whether it looks at them or not.
//! - Messages may come that Redis would not send. None is missing.
//!
//! At most `tracking-table-max-keys` keys are tracked, with 16 times as many readers all together;
//! beyond, clients are told that keys have changed which have not.

mod table;

use super::command::{Context, Flag, Id, SPECS, keys};
use super::database::Database;
use super::events::Class;
use super::instance::Instance;
use super::peers::Peer;
use super::resp::{Protocol, Reply};
use super::session::Session;
use crate::serve::Output;
use crate::serve::counters::Shared;
use atoll_cache::{Cache, Engine};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use table::{Looked, Reader, Table, Told};
use tokio::sync::Notify;

/// The channel by which a client of RESP2 is told.
const CHANNEL: &[u8] = b"__redis__:invalidate";
/// The least time between two looks, and the most.
const LOOK_PERIODS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// Looks take at most one part of so many of a processor.
const LOOK_PART: u32 = 20;
/// How long a server vouches for what it has noted without seeing its words.
const BLIND_MAX: Duration = Duration::from_secs(1);

/// Of which keys a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those that it reads.
    Reads,
    /// Those that it reads with the command behind `CLIENT CACHING YES`.
    OptIn,
    /// Those that it reads, but with the command behind `CLIENT CACHING NO`.
    OptOut,
    /// All keys with one of its prefixes.
    Broadcast,
}

/// A client that is told of changes.
#[derive(Debug)]
pub(crate) struct Tracker {
    pub(crate) peer: Arc<Peer>,
    pub(crate) mode: Mode,
    /// The id of the client that gets its messages.
    pub(crate) redirect: Option<u64>,
    /// Whether it is not told of its own changes.
    pub(crate) is_noloop: bool,
    /// In mode `Broadcast`, of which no one begins with another; otherwise none.
    pub(crate) prefixes: Vec<Vec<u8>>,
    /// Whether the client that got its messages is gone.
    pub(crate) is_broken: AtomicBool,
}

impl Tracker {
    fn has_prefix_of(&self, key: &[u8]) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    /// Whether it is told of changes by the client of this id, if the id is known.
    fn hears(&self, by: Option<u64>) -> bool {
        !(self.is_noloop && by == Some(self.peer.handle.id))
    }
}

/// That a session's client is told of changes.
#[derive(Debug)]
pub(crate) struct Tracks {
    pub(crate) tracker: Arc<Tracker>,
    /// Whether `CLIENT CACHING` has said so of the next command.
    pub(crate) is_excepted: bool,
    /// Keys that the command reads and that are told of behind its reply.
    unnoted: BTreeSet<Vec<u8>>,
}

impl Tracks {
    pub(crate) fn new(tracker: Arc<Tracker>) -> Self {
        Self { tracker, is_excepted: false, unnoted: BTreeSet::new() }
    }

    /// By whom the reads of the next command are noted, if they are.
    fn reader(&self) -> Option<Reader> {
        let id = self.tracker.peer.handle.id;
        match (self.tracker.mode, self.is_excepted) {
            (Mode::Reads, _) | (Mode::OptIn, true) | (Mode::OptOut, false) => Some(Reader::Client(id)),
            (Mode::OptIn, false) | (Mode::OptOut, true) => None,
            (Mode::Broadcast, _) => Some(Reader::Broadcast),
        }
    }
}

/// The clients of a server that are told of changes, and the keys that they have read.
pub(crate) struct Tracking {
    trackers: Mutex<Trackers>,
    /// How many there are, and how many in mode `Broadcast`; written under the lock.
    count: AtomicUsize,
    broadcasters: AtomicUsize,
    table: Table,
    pub(crate) keys_max: AtomicU64,
    /// Notified when the first client wishes to be told.
    begun: Notify,
    blind_since: Mutex<Option<Instant>>,
}

/// Clients that are told of changes, by their ids.
#[derive(Default)]
struct Trackers {
    all: BTreeMap<u64, Arc<Tracker>>,
    /// Those of them in mode `Broadcast`.
    broadcasters: BTreeMap<u64, Arc<Tracker>>,
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            trackers: Mutex::default(),
            count: AtomicUsize::new(0),
            broadcasters: AtomicUsize::new(0),
            table: Table::default(),
            keys_max: AtomicU64::new(1_000_000),
            begun: Notify::new(),
            blind_since: Mutex::default(),
        }
    }
}

/// What INFO shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) clients: usize,
    pub(crate) keys: u64,
    pub(crate) items: u64,
    pub(crate) prefixes: usize,
}

impl Tracking {
    fn trackers(&self) -> MutexGuard<'_, Trackers> {
        self.trackers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the trackers.
    fn change(&self, how: impl FnOnce(&mut Trackers)) {
        let mut trackers = self.trackers();
        how(&mut trackers);
        self.count.store(trackers.all.len(), Relaxed);
        self.broadcasters.store(trackers.broadcasters.len(), Relaxed);
    }

    /// Whether any client is told of changes.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// A client is told of changes from now on, in this way.
    pub(crate) fn begin(&self, tracker: Arc<Tracker>) {
        self.change(|trackers| {
            let id = tracker.peer.handle.id;
            match tracker.mode {
                Mode::Broadcast => _ = trackers.broadcasters.insert(id, tracker.clone()),
                _ => _ = trackers.broadcasters.remove(&id),
            }
            trackers.all.insert(id, tracker);
        });
        self.begun.notify_one();
    }

    /// A client is told of changes no longer, or is gone.
    pub(crate) fn end(&self, id: u64) {
        if self.is_any() {
            self.change(|trackers| {
                trackers.all.remove(&id);
                trackers.broadcasters.remove(&id);
            });
        }
    }

    /// How the client of this id is told of changes.
    pub(crate) fn of(&self, id: u64) -> Option<Arc<Tracker>> {
        if self.is_any() { self.trackers().all.get(&id).cloned() } else { None }
    }

    pub(crate) fn counts(&self) -> Counts {
        let trackers = self.trackers();
        let prefixes: BTreeSet<&Vec<u8>> =
            trackers.broadcasters.values().flat_map(|tracker| &tracker.prefixes).collect();
        Counts {
            clients: trackers.all.len(),
            keys: self.table.keys(),
            items: self.table.items(),
            prefixes: prefixes.len(),
        }
    }

    /// Waits until there is something to look for.
    pub(crate) async fn until_needed(&self) {
        while !self.is_any() && self.table.keys() == 0 {
            self.begun.notified().await;
        }
    }
}

/// The message that a key, or everything, has changed.
fn message(protocol: Protocol, key: Option<&[u8]>) -> Vec<u8> {
    let mut output = Output::default();
    let mut reply = Reply::new(&mut output, protocol);
    match protocol {
        Protocol::Resp3 => {
            reply.push(2);
            reply.bulk(b"invalidate");
        }
        Protocol::Resp2 => {
            reply.array(3);
            reply.bulk(b"message");
            reply.bulk(CHANNEL);
        }
    }
    match key {
        Some(key) => {
            reply.array(1);
            reply.bulk(key);
        }
        None => reply.null(),
    }
    output.to_vec()
}

/// The message that the client is gone which got the messages.
fn broken(redirect: u64) -> Vec<u8> {
    let mut output = Output::default();
    let mut reply = Reply::new(&mut output, Protocol::Resp3);
    reply.push(2);
    reply.bulk(b"tracking-redir-broken");
    reply.integer(redirect as i64);
    output.to_vec()
}

impl Instance {
    /// Tells a client that a key, or everything, has changed.
    fn tell_tracker(&self, shared: &Shared, tracker: &Tracker, key: Option<&[u8]>) {
        let post = |peer: &Peer, bytes: &[u8]| {
            peer.handle.post(bytes, shared.limits.output(peer.handle.is_subscriber()));
        };
        let redirected = tracker.redirect.map(|id| (id, self.peers.get(id)));
        let peer = match &redirected {
            None => &tracker.peer,
            Some((_, Some(peer))) => peer,
            Some((id, None)) => {
                tracker.is_broken.store(true, Relaxed);
                if tracker.peer.is_resp3() {
                    post(&tracker.peer, &broken(*id));
                }
                return;
            }
        };
        if peer.is_resp3() {
            post(peer, &message(Protocol::Resp3, key));
        } else if redirected.is_some() && peer.handle.is_subscriber() {
            post(peer, &message(Protocol::Resp2, key));
        }
    }

    /// Tells of a key that is not tracked any more, and was changed by the client of this id.
    fn tell_of(&self, shared: &Shared, told: &Told, by: Option<u64>) {
        // A program without a server may use a key that is in no database.
        let Some(key) = Database::of(&told.stored).and_then(|database| database.key(&told.stored)) else { return };
        let mut trackers = Vec::new();
        {
            let present = self.tracking.trackers();
            trackers.extend(told.clients.iter().filter_map(|id| present.all.get(id).cloned()));
            if told.is_broadcast {
                trackers.extend(present.broadcasters.values().filter(|tracker| tracker.has_prefix_of(key)).cloned());
            }
        }
        for tracker in trackers.iter().filter(|tracker| tracker.hears(by)) {
            self.tell_tracker(shared, tracker, Some(key));
        }
    }

    /// Tells every client that everything has changed.
    pub(crate) fn tell_all_changed(&self, shared: &Shared) {
        if !self.tracking.is_any() {
            return;
        }
        self.tracking.table.clear();
        let trackers: Vec<_> = self.tracking.trackers().all.values().cloned().collect();
        trackers.iter().for_each(|tracker| self.tell_tracker(shared, tracker, None));
    }

    /// A command of the client of this id has changed a key.
    #[cold]
    fn tell_changed<G: Engine>(&self, cache: &Cache<G>, shared: &Shared, stored: &[u8], by: u64) {
        let told = self.tracking.table.take(cache.engine(), stored);
        // Of keys that no client has read, too.
        let is_broadcast = self.tracking.broadcasters.load(Relaxed) > 0;
        if told.is_some() || is_broadcast {
            let clients = told.map_or_else(Vec::new, |told| told.clients);
            self.tell_of(shared, &Told { stored: stored.into(), clients, is_broadcast }, Some(by));
        }
    }

    /// Looks for changes that came from elsewhere, and tells of them. Returns when to look again.
    pub(crate) async fn look_for_changes<G: Engine>(&self, cache: &Cache<G>, shared: &Shared) -> Duration {
        let (began, tracking) = (Instant::now(), &self.tracking);
        if !tracking.is_any() {
            tracking.table.clear();
            return LOOK_PERIODS.0;
        }
        let keys_max = match tracking.keys_max.load(Relaxed) {
            0 => u64::MAX,
            keys_max => keys_max,
        };
        tracking.table.shrink(keys_max, |told| self.tell_of(shared, &told, None));
        let looked = tracking.table.look(cache.engine(), |told| self.tell_of(shared, &told, None)).await;
        let blind_since = {
            let mut blind_since = tracking.blind_since.lock().unwrap_or_else(PoisonError::into_inner);
            match looked {
                Looked::Blind => Some(*blind_since.get_or_insert(began)),
                Looked::Done | Looked::AllEnded => blind_since.take().and(None),
            }
        };
        if looked == Looked::AllEnded || blind_since.is_some_and(|since| since.elapsed() > BLIND_MAX) {
            self.tell_all_changed(shared);
        }
        if looked == Looked::Blind {
            let _ = cache.engine().follow_changes().await;
        }
        (began.elapsed() * LOOK_PART).clamp(LOOK_PERIODS.0, LOOK_PERIODS.1)
    }
}

impl Session {
    /// A command has run, or was refused: the keys are told of that it has read and that could not
    /// be noted.
    #[cold]
    pub(crate) fn tell_unnoted(&mut self, instance: &Instance, shared: &Shared, id: Option<Id>) {
        let is_within = self.queue.is_some();
        let Some(tracks) = &mut self.tracks else { return };
        for key in std::mem::take(&mut tracks.unnoted) {
            instance.tell_tracker(shared, &tracks.tracker, Some(&key));
        }
        if !is_within && id != Some(Id::Client) {
            tracks.is_excepted = false;
        }
    }
}

impl<G: Engine> Context<'_, G> {
    /// A command is about to run: notes the keys that it reads. Within a step that may have to begin
    /// again they have been noted before.
    #[cold]
    pub(crate) async fn note_reads(&mut self, id: Id) {
        if !self.cache.is_held() && SPECS[id as usize].flags.contains(&Flag::Readonly) {
            let keys = keys::accessed(id, self.args).map(|(place, _)| self.args.get(place).to_vec()).collect();
            self.note_keys(keys).await;
        }
    }

    /// EXEC or a script is about to run: notes the keys that its commands read, or that it declares.
    #[cold]
    pub(crate) async fn note_reads_of_step(&mut self, id: Id) {
        let mut noted = Vec::new();
        match &self.session.queue {
            Some(queue) => {
                for (id, args) in queue.commands() {
                    let flags = SPECS[id as usize].flags;
                    if flags.contains(&Flag::Readonly) || flags.contains(&Flag::Script) {
                        noted.extend(keys::accessed(id, args).map(|(place, _)| args.get(place).to_vec()));
                    }
                }
            }
            None => noted.extend(keys::accessed(id, self.args).map(|(place, _)| self.args.get(place).to_vec())),
        }
        self.note_keys(noted).await;
    }

    async fn note_keys(&mut self, keys: Vec<Vec<u8>>) {
        let (database, instance) = (self.database(), self.instance);
        let Some(tracks) = &mut self.session.tracks else { return };
        let Some(reader) = tracks.reader() else { return };
        for key in keys {
            if reader == Reader::Broadcast && !tracks.tracker.has_prefix_of(&key) {
                continue;
            }
            let noted = instance.tracking.table.add(self.cache.engine(), &database.stored(&key), reader).await;
            if !matches!(noted, Ok(true)) {
                tracks.unnoted.insert(key);
            }
        }
    }

    /// A key of the database of this number has changed by this event.
    #[inline]
    pub(crate) fn tell_trackers(&self, database: u8, class: Class, key: &[u8]) {
        if class.is_change() && self.instance.tracking.is_any() {
            let stored = self.instance.databases.get(database).stored(key);
            self.instance.tell_changed(self.cache, self.shared, &stored, self.session.peer.handle.id);
        }
    }
}
