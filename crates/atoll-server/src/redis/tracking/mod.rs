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
//! - With BCAST, a change by another server or process is told only of keys that a client with
//!   BCAST has read through this server since they last changed; and each message has one key.
//! - A script, and a transaction with a command that reads, count as reading a key if they are
//!   about that key alone.
//! - A client whose messages go to another one is told 20 ms later of a key that could not be
//!   noted.
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
const LOOK_PERIODS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));
/// Looks take at most one part of so many of a processor.
const LOOK_PART: u32 = 20;
/// Most words that a look drops to have fewer.
const DROPS_MAX: usize = 4096;
/// After how long another client is told of a key that could not be noted.
const LATE: Duration = Duration::from_millis(20);
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
    /// Keys that the command or step reads and that were noted, by how the cache knows them.
    noted: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys that it reads and that are told of behind its reply.
    unnoted: BTreeSet<Vec<u8>>,
}

impl Tracks {
    /// From now on, where it was done in the way of `before` so far.
    pub(crate) fn new(tracker: Arc<Tracker>, before: Option<Self>) -> Self {
        let unnoted = before.map_or_else(BTreeSet::new, |before| before.unnoted);
        Self { tracker, is_excepted: false, noted: BTreeMap::new(), unnoted }
    }

    /// Whether a change may pass without a message behind the reply: it was the client's own, or
    /// another connection gets the message.
    fn may_miss(&self) -> bool {
        self.tracker.is_noloop || self.tracker.redirect.is_some()
    }

    /// By whom its reads are noted.
    fn own_reader(&self) -> Reader {
        match self.tracker.mode {
            Mode::Broadcast => Reader::Broadcast,
            _ => Reader::Client(self.tracker.peer.handle.id),
        }
    }

    /// By whom it is noted that the next command reads a key, if it is; and the key as the client
    /// knows it.
    fn reads<'k>(&self, stored: &'k [u8]) -> Option<(Reader, &'k [u8])> {
        let key = Database::of(stored).and_then(|database| database.key(stored))?;
        let is_noted = match self.tracker.mode {
            Mode::Reads => true,
            Mode::OptIn => self.is_excepted,
            Mode::OptOut => !self.is_excepted,
            Mode::Broadcast => self.tracker.has_prefix_of(key),
        };
        is_noted.then_some((self.own_reader(), key))
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
    /// How long the latest look took, in nanoseconds.
    look_ns: AtomicU64,
    blind_since: Mutex<Option<Instant>>,
    /// Keys that clients are told of by another one, once their own replies have been sent.
    late: Mutex<Vec<Late>>,
    /// When it was last found that this server cannot follow changes.
    pub(crate) refused: Mutex<Option<Instant>>,
}

/// A key that a client is told of later than at this time.
type Late = (Instant, Arc<Tracker>, Vec<u8>);

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
            look_ns: AtomicU64::new(0),
            blind_since: Mutex::default(),
            late: Mutex::default(),
            refused: Mutex::default(),
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

    /// How many keys are tracked at most.
    fn keys_most(&self) -> u64 {
        match self.keys_max.load(Relaxed) {
            0 => u64::MAX,
            keys_max => keys_max,
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
            // One that has begun meanwhile may have had something noted.
            self.tell_all_changed(shared);
            return LOOK_PERIODS.0;
        }
        self.tell_late(shared);
        tracking.table.shrink(tracking.keys_most(), DROPS_MAX, |told| self.tell_of(shared, &told, None));
        let looked = tracking.table.look(cache.engine(), |told| self.tell_of(shared, &told, None)).await;
        let blind_since = {
            let mut blind_since = tracking.blind_since.lock().unwrap_or_else(PoisonError::into_inner);
            match looked {
                Looked::Blind => Some(*blind_since.get_or_insert(began)),
                Looked::Done | Looked::AllEnded => blind_since.take().and(None),
            }
        };
        if looked == Looked::AllEnded || blind_since.is_some_and(|since| since.elapsed() > BLIND_MAX) {
            *tracking.blind_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.tell_all_changed(shared);
        }
        if looked == Looked::Blind {
            let _ = cache.engine().follow_changes().await;
        }
        // One long look may be one that other processes delayed.
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let usual_ns = took_ns.min(tracking.look_ns.swap(took_ns, Relaxed));
        (Duration::from_nanos(usual_ns) * LOOK_PART).clamp(LOOK_PERIODS.0, LOOK_PERIODS.1)
    }
}

impl Instance {
    /// Tells of keys that a command of a client has read and that could not be noted. Another
    /// connection than its own is told later, so that the reply comes first.
    fn tell_unnoted(&self, shared: &Shared, tracker: &Arc<Tracker>, keys: BTreeSet<Vec<u8>>) {
        for key in keys {
            match tracker.redirect {
                None => self.tell_tracker(shared, tracker, Some(&key)),
                Some(_) => {
                    let mut late = self.tracking.late.lock().unwrap_or_else(PoisonError::into_inner);
                    late.push((Instant::now(), tracker.clone(), key));
                }
            }
        }
    }

    /// Tells what had to wait for a reply.
    fn tell_late(&self, shared: &Shared) {
        let due = {
            let mut late = self.tracking.late.lock().unwrap_or_else(PoisonError::into_inner);
            let due = late.partition_point(|(since, ..)| since.elapsed() >= LATE);
            late.drain(..due).collect::<Vec<_>>()
        };
        due.iter().for_each(|(_, tracker, key)| self.tell_tracker(shared, tracker, Some(key)));
    }
}

impl Session {
    /// A command has run, or was refused: tells of the keys that it has read and that are not
    /// tracked.
    #[cold]
    pub(crate) fn tell_unnoted<G: Engine>(
        &mut self,
        instance: &Instance,
        (cache, shared): (&Cache<G>, &Shared),
        id: Option<Id>,
    ) {
        let is_within = self.queue.is_some();
        let Some(tracks) = &mut self.tracks else { return };
        let reader = tracks.own_reader();
        for (stored, key) in std::mem::take(&mut tracks.noted) {
            if tracks.may_miss() && !instance.tracking.table.has(cache.engine(), &stored, reader) {
                tracks.unnoted.insert(key);
            }
        }
        instance.tell_unnoted(shared, &tracks.tracker, std::mem::take(&mut tracks.unnoted));
        if !is_within && id != Some(Id::Client) {
            tracks.is_excepted = false;
        }
    }
}

impl<G: Engine> Context<'_, G> {
    /// A command is about to run: notes the keys that it reads. Within a step that may have to
    /// begin again its only key has been noted before.
    #[cold]
    pub(crate) async fn note_reads(&mut self, id: Id) {
        // Containers are not marked.
        let reads = SPECS[id as usize].flags.contains(&Flag::Readonly) || matches!(id, Id::Object | Id::Memory);
        if !reads {
            return;
        }
        for (place, _) in keys::accessed(id, self.args) {
            let stored = self.database().stored(self.args.get(place));
            match self.cache.is_held() {
                false => self.note(&stored).await,
                true => self.tell_unless_noted(&stored),
            }
        }
    }

    /// Notes that a key is about to be read, as the cache knows it.
    #[cold]
    pub(crate) async fn note(&mut self, stored: &[u8]) {
        let tracking = &self.instance.tracking;
        let Some(tracks) = &mut self.session.tracks else { return };
        let Some((reader, key)) = tracks.reads(stored) else { return };
        let keys_most = tracking.keys_most();
        let noted = tracking.table.add(self.cache.engine(), stored, reader, keys_most).await;
        // The reader of one key too many pays for it, and no writer later.
        tracking.table.shrink(keys_most, 2, |told| self.instance.tell_of(self.shared, &told, None));
        match noted {
            Ok(true) => _ = tracks.noted.insert(stored.to_vec(), key.to_vec()),
            _ => _ = tracks.unnoted.insert(key.to_vec()),
        }
    }

    /// A key that is read within a step is told of behind the reply if it was not noted before.
    fn tell_unless_noted(&mut self, stored: &[u8]) {
        let Some(tracks) = &mut self.session.tracks else { return };
        if let Some((_, key)) = tracks.reads(stored)
            && !tracks.noted.contains_key(stored)
        {
            tracks.unnoted.insert(key.to_vec());
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
