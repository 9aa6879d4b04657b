//! The server: the memory node's processor, which alone changes the cache.
//!
//! It handles one message after the other. It WRITEs a change to the pool before it answers, in
//! this order: it empties the entries of victims, writes the record, and writes the entry. A client
//! that READs meanwhile sees one version or another; see `layout` and `record`.
//!
//! | module | concept |
//! |---|---|
//! | `table` | its books of the index |
//! | `order` | the order in which objects are evicted |
//! | `room` | which bytes of the heap are free |
//! | `sessions` | what it remembers of clients |

mod order;
mod room;
mod sessions;
mod table;

use super::entry::Entry;
use super::holes::OpenHoles;
use super::record::{self, Header, Record};
use super::wire::{self, Accesses, Answer, Change, Condition, Head, Operation, Outcome, Payload};
use super::{CliqueMapPool, Hole};
use atoll_cache::KEY_BYTES_MAX;
use atoll_fabric::{Batch, Buffer, Endpoint, Mailbox, Message, MessageError, Messenger, VerbError};
use atoll_pool::{PoolClock, read_word};
use room::Room;
use sessions::{Due, Session};
use std::sync::Arc;
use table::{Object, Table};

/// Bits of a version that count a server's changes; the bits above are the server's epoch.
const CHANGE_BITS: u32 = 40;
/// How often an idle server checks whether it is still wanted.
const LOOK_NS: u64 = 1_000_000;
/// The most verbs that one change adds behind the removal of its victims: the record, the entry,
/// the count.
const CHANGE_VERBS: usize = 3;

/// A server's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Changes done.
    pub changes: u64,
    /// Changes whose condition did not hold.
    pub conflicts: u64,
    /// Messages whose request was done already, or which came too late.
    pub repeats: u64,
    /// Accesses that clients sent.
    pub accesses: u64,
    /// Objects evicted to make room, including those of the next counter.
    pub evictions: u64,
    /// Objects evicted because the bucket of a key was full.
    pub evictions_index: u64,
    /// Expired objects whose room was reclaimed.
    pub expirations: u64,
    /// Messages that are not the engine's.
    pub dropped: u64,
}

/// The server of a pool. There is one at a time. An operator who starts another makes sure that the
/// first has ended.
pub struct Server<E: Endpoint + Messenger> {
    shared: Arc<CliqueMapPool>,
    endpoint: E,
    /// How many servers the pool has had, including this one.
    epoch: u32,
    table: Table,
    room: Room,
    /// By place of the registry.
    sessions: Vec<Session>,
    versions: u64,
    clock: PoolClock,
    /// The verbs of the change under way that have not been posted.
    batch: Batch,
    record: Buffer,
    outgoing: Vec<u8>,
    stats: ServerStats,
    holes: OpenHoles,
}

impl<E: Endpoint + Messenger> Server<E> {
    /// Begins to serve a pool. The objects of an earlier server are lost.
    pub async fn start(shared: &Arc<CliqueMapPool>, endpoint: E) -> Result<Self, VerbError> {
        let (layout, settings) = (shared.layout, &shared.pool.settings);
        let epoch = read_word(&endpoint, layout.server_epoch()).await? as u32;
        let mut sessions = Vec::new();
        sessions.resize_with(settings.clients_max as usize, Session::default);
        let mut server = Self {
            shared: shared.clone(),
            endpoint,
            epoch: epoch + 1,
            table: Table::new(shared.settings.policy, layout),
            room: Room::new(layout.heap_bytes),
            sessions,
            versions: 0,
            clock: PoolClock::default(),
            batch: Batch::new(),
            record: Buffer::new(),
            outgoing: Vec::new(),
            stats: ServerStats::default(),
            holes: OpenHoles::NONE,
        };
        if epoch > 0 {
            server.batch.write_word(layout.mailbox(), 0);
            for entry in 0..server.table.entries() {
                server.make_way(1).await?;
                server.batch.write_word(layout.version(entry), 0);
            }
            server.post().await?;
        }
        // The mailbox last: a client that finds it finds its epoch, too.
        server.batch.write_word(layout.server_epoch(), server.epoch.into());
        server.batch.write_word(layout.objects(), 0);
        server.post().await?;
        server.batch.write_word(layout.mailbox(), server.endpoint.mailbox().0);
        server.post().await?;
        Ok(server)
    }

    /// Opens a hole, to show its effect in a simulation.
    #[cfg(feature = "holes")]
    pub fn open_hole(&mut self, hole: Hole) {
        self.holes = OpenHoles::only(hole);
    }

    /// Its counters.
    pub fn stats(&self) -> &ServerStats {
        &self.stats
    }

    /// Its endpoint.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Serves for as long as it is wanted.
    pub async fn serve(&mut self, is_wanted: impl Fn() -> bool) -> Result<(), VerbError> {
        while is_wanted() {
            if let Some(message) = self.endpoint.receive_within(LOOK_NS).await {
                self.take(&message).await?;
            }
        }
        Ok(())
    }

    /// Handles a message.
    pub async fn take(&mut self, message: &Message) -> Result<(), VerbError> {
        let payload = wire::decode(&message.bytes);
        let Some((head, payload)) = payload.filter(|(head, _)| self.admits(message.from, head)) else {
            self.stats.dropped += 1;
            return Ok(());
        };
        match payload {
            Payload::Change(change, first, part) => self.take_change(message.from, &head, &change, first, part).await,
            Payload::Accesses(accesses) => self.take_accesses(message.from, &head, accesses),
            Payload::Answer(_) | Payload::Noted => {
                self.stats.dropped += 1;
                Ok(())
            }
        }
    }

    fn admits(&mut self, from: Mailbox, head: &Head) -> bool {
        self.sessions.get_mut(head.client.slot as usize).is_some_and(|session| session.admits(from, head))
    }

    fn session(&mut self, head: &Head) -> &mut Session {
        &mut self.sessions[head.client.slot as usize]
    }

    async fn take_change(
        &mut self,
        from: Mailbox,
        head: &Head,
        change: &Change,
        first: usize,
        part: &[u8],
    ) -> Result<(), VerbError> {
        if head.server_epoch != self.epoch {
            return self.answer(from, head, &Answer { outcome: Outcome::Stale, token: 0, before: None });
        }
        if change.key_bytes as usize > KEY_BYTES_MAX || change.value_bytes as usize > self.shared.value_bytes_max() {
            self.stats.dropped += 1;
            return Ok(());
        }
        let due = match self.holes.has(Hole::Repeats) && change.parts() == 1 {
            true => Due::Now(part.to_vec()),
            false => self.session(head).change(head.sequence, change, first, part),
        };
        let answer = match due {
            Due::Nothing => {
                self.stats.repeats += 1;
                return Ok(());
            }
            Due::Again(answer) => {
                self.stats.repeats += 1;
                answer
            }
            Due::Now(body) => {
                let (key, value) = body.split_at(change.key_bytes as usize);
                let answer = self.change(change, key, value).await?;
                self.session(head).answered(head.sequence, answer);
                answer
            }
        };
        self.answer(from, head, &answer)
    }

    fn answer(&mut self, to: Mailbox, head: &Head, answer: &Answer) -> Result<(), VerbError> {
        wire::encode_answer(&mut self.outgoing, head, answer);
        self.send(to)
    }

    fn send(&mut self, to: Mailbox) -> Result<(), VerbError> {
        match self.endpoint.send(to, &self.outgoing) {
            Ok(()) => Ok(()),
            Err(MessageError::Fenced) => Err(VerbError::Fenced),
            Err(MessageError::Forked) => Err(VerbError::Forked),
            Err(error @ MessageError::TooLong { .. }) => unreachable!("{error}"),
        }
    }

    fn take_accesses(&mut self, from: Mailbox, head: &Head, accesses: Accesses<'_>) -> Result<(), VerbError> {
        if head.server_epoch == self.epoch && self.session(head).note(head.sequence) {
            accesses.iter().for_each(|(_, hash)| self.table.access(hash));
            self.stats.accesses += accesses.iter().len() as u64;
        }
        wire::encode_noted(&mut self.outgoing, head);
        self.send(from)
    }

    /// Does a change. Its effects are in the pool when this ends.
    async fn change(&mut self, change: &Change, key: &[u8], value: &[u8]) -> Result<Answer, VerbError> {
        if change.operation == Operation::Flush {
            return self.remove_all().await;
        }
        let hash = self.shared.hasher.hash(key);
        let found = self.table.find(hash, key);
        let before = found.and_then(|entry| self.table.present(entry));
        let holds = match (change.condition, found.and_then(|entry| self.table.get(entry))) {
            (Condition::Any, _) | (Condition::Absent, None) => true,
            (Condition::Version(version), Some(object)) => object.version == version,
            _ => self.holes.has(Hole::LostUpdate),
        };
        let token = match (holds, change.operation, found) {
            (false, ..) | (true, Operation::Expire, None) => {
                self.stats.conflicts += 1;
                return Ok(Answer {
                    outcome: Outcome::Conflict,
                    token: before.map_or(0, |before| before.token),
                    before,
                });
            }
            (true, Operation::Put, _) => self.put(hash, key, value, None, change.expiry_ms).await?,
            (true, Operation::Expire, Some(entry)) => match self.value_of(entry).await? {
                Some((value, token)) => self.put(hash, key, &value, Some(token), change.expiry_ms).await?,
                None => return Ok(Answer { outcome: Outcome::Conflict, token: 0, before }),
            },
            (true, _, found) => {
                if let Some(entry) = found {
                    self.remove(entry).await?;
                    self.commit().await?;
                }
                Some(0)
            }
        };
        self.stats.changes += u64::from(token.is_some());
        let outcome = if token.is_some() { Outcome::Done } else { Outcome::NoRoom };
        Ok(Answer { outcome, token: token.unwrap_or(0), before })
    }

    /// The value of an object, and its token. An object with a damaged record is removed: only the
    /// server could have damaged it.
    async fn value_of(&mut self, entry: u32) -> Result<Option<(Vec<u8>, u64)>, VerbError> {
        let Some((span, version)) = self.table.get(entry).map(|object| (object.span, object.version)) else {
            return Ok(None);
        };
        let mut buffer = std::mem::take(&mut self.record);
        buffer.resize(span.bytes as usize);
        self.record = self.endpoint.read(self.shared.layout.record(span), buffer).await?;
        let record = Record::decode(&self.record, &self.shared.hasher);
        if let Some(record) = record.filter(|record| record.header.version == version) {
            return Ok(Some((record.value.to_vec(), record.header.token)));
        }
        self.remove(entry).await?;
        self.commit().await?;
        Ok(None)
    }

    /// Writes an object, under a new token or under the one that it keeps; returns the token.
    /// `None` if there is no room for it even after evictions.
    async fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        token: Option<u64>,
        expiry_ms: Option<u64>,
    ) -> Result<Option<u64>, VerbError> {
        let bytes = record::record_bytes(key.len(), value.len());
        let objects_max = self.shared.objects_max();
        let mut now_ms = None;
        let span = loop {
            let is_counted = self.table.count() < objects_max || self.table.find(hash, key).is_some();
            if let Some(span) = if is_counted { self.room.take(bytes) } else { None } {
                break span;
            }
            let now_ms = match now_ms {
                Some(now_ms) => now_ms,
                None => *now_ms.insert(self.now_ms().await?),
            };
            let Some(victim) = self.table.victim(hash, now_ms) else {
                self.commit().await?;
                return Ok(None);
            };
            self.evict(victim, now_ms).await?;
        };
        let (entry, accesses) = match self.table.find(hash, key) {
            Some(entry) => {
                let (before, accesses) = self.table.remove(entry).expect("it was found");
                self.room.give(before.span);
                (entry, accesses)
            }
            None => (self.vacant_entry(hash).await?, 0),
        };
        self.versions += 1;
        let version = u64::from(self.epoch) << CHANGE_BITS | self.versions;
        let token = token.unwrap_or(version);
        self.make_way(CHANGE_VERBS).await?;
        let (layout, mut record) = (self.shared.layout, std::mem::take(&mut self.record));
        record::encode(&mut record, &self.shared.hasher, &Header { version, token, expiry_ms }, key, value);
        let mut words = Buffer::sized(super::entry::ENTRY_BYTES as usize);
        words.words_mut().copy_from_slice(&Entry::new(hash, version, span).words());
        let written = self.batch.write(layout.record(span), record);
        self.batch.write(layout.entry(entry), words);
        let value_bytes = value.len() as u64;
        let key = key.into();
        self.table.insert(entry, Object { hash, key, version, token, expiry_ms, value_bytes, span }, accesses);
        self.batch.write_word(layout.objects(), self.table.count());
        self.endpoint.post(&mut self.batch).await?;
        self.record = self.batch.take(written);
        self.batch.clear();
        self.record.shrink_beyond(1 << 20);
        Ok(Some(token))
    }

    /// An entry of the key's bucket for an object. If needed, another object is evicted for it.
    async fn vacant_entry(&mut self, hash: u64) -> Result<u32, VerbError> {
        if let Some(entry) = self.table.free_entry(hash) {
            return Ok(entry);
        }
        let victim = self.table.victim_in_bucket(hash).expect("a bucket without a free entry has objects");
        self.remove(victim).await?;
        (self.stats.evictions, self.stats.evictions_index) = (self.stats.evictions + 1, self.stats.evictions_index + 1);
        Ok(victim)
    }

    async fn evict(&mut self, victim: u32, now_ms: u64) -> Result<(), VerbError> {
        let object = self.table.get(victim);
        match object.and_then(|object| object.expiry_ms).is_some_and(|expiry_ms| expiry_ms <= now_ms) {
            true => self.stats.expirations += 1,
            false => self.stats.evictions += 1,
        }
        self.remove(victim).await
    }

    /// Removes an object from the books. The next post empties its entry, before all other verbs.
    async fn remove(&mut self, entry: u32) -> Result<(), VerbError> {
        if let Some((object, _)) = self.table.remove(entry) {
            self.room.give(object.span);
            self.make_way(1).await?;
            self.batch.write_word(self.shared.layout.version(entry), 0);
        }
        Ok(())
    }

    async fn remove_all(&mut self) -> Result<Answer, VerbError> {
        let removed = self.table.count();
        for entry in 0..self.table.entries() {
            self.remove(entry).await?;
        }
        self.commit().await?;
        self.stats.changes += 1;
        Ok(Answer { outcome: Outcome::Done, token: removed, before: None })
    }

    /// Posts the batch, if so many more verbs would be too many.
    async fn make_way(&mut self, verbs: usize) -> Result<(), VerbError> {
        if self.batch.len() + verbs > self.endpoint.limits().batch_verbs_max {
            self.post().await?;
        }
        Ok(())
    }

    /// Posts the batch, with the count of objects behind it.
    async fn commit(&mut self) -> Result<(), VerbError> {
        self.make_way(1).await?;
        self.batch.write_word(self.shared.layout.objects(), self.table.count());
        self.post().await
    }

    async fn post(&mut self) -> Result<(), VerbError> {
        self.endpoint.post(&mut self.batch).await?;
        self.batch.clear();
        Ok(())
    }

    /// The pool's time.
    async fn now_ms(&mut self) -> Result<u64, VerbError> {
        let now_ns = self.endpoint.now_ns();
        self.clock.now_ms(&self.endpoint, &self.shared.pool.layout, now_ns).await
    }
}
