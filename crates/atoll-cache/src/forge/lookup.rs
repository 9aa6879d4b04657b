//! How a client answers a GET: READ the key's bucket, READ the record, check the record. A GET
//! costs two round trips, takes no lock and writes nothing.
//!
//! | what the record READ says | then |
//! |---|---|
//! | whole, of the slot's generation, this key | hit, as of the moment when the bucket was READ |
//! | whole, of the slot's generation, another key | an equal fingerprint: the next slot |
//! | torn, or of another generation or edition | the chunk or the place was reused meanwhile: retry |
//! | anything, later than the client relies on tags (see `reuse`) | retry |
//!
//! The tag in the slot has up to 16 bits of the chunk's generation. A record that passes is the
//! slot's own, unless the chunk was reused 2^13 times between two READs. In pools beyond 64 GiB
//! fewer reuses are enough, but each of them turns the whole pool over. The time limit excludes
//! both cases.
//!
//! A key that is present throughout stays in one slot. So a lookup that READs the bucket word by
//! word, in any order, cannot miss it. A key that a lookup does not find was absent at a moment
//! between the READs. If the bucket is being split, or has been, its words show it, and the lookup
//! begins again (see [`split`]).

use super::addresses::Known;
use super::ghosts::has_ghost;
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS};
use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::candidate::Candidate;
use crate::index::{ATTEMPTS_MAX, Index, Unlink, split};
use crate::record::{Header, LargeBody, Record};
use crate::{CacheError, Lookup, Meta, Value};
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;

/// Attempts after which a lookup examines the object for damage.
const REREADS_MAX: u32 = 16;

/// A candidate, or a large object of which the client has READ only the record.
enum Judged {
    Is(Candidate),
    Large(Header, Box<LargeBody>),
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// The parts of `key`'s hash.
    #[inline]
    pub(super) fn key_hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::new(self.shared.hasher.hash(key), self.shared.settings.buckets)
    }

    /// Where a key's bucket is, as far as this client knows, and this operation's buffer for it.
    #[inline(always)]
    fn bucket_span(&self, op: &mut Operation, hash: KeyHash) -> (Address, Buffer) {
        let mut buffer = std::mem::take(&mut op.bucket);
        buffer.resize(BUCKET_BYTES as usize);
        op.notes.bucket = self.bucket_now(hash);
        (self.bucket_at(op.notes.bucket), buffer)
    }

    /// READs the bucket of a key, and settles it if it is being split.
    #[inline]
    pub(super) async fn read_bucket(&self, op: &mut Operation, hash: KeyHash) -> Result<(), CacheError> {
        loop {
            let (at, buffer) = self.bucket_span(op, hash);
            op.bucket = self.client.endpoint.read(at, buffer).await?;
            if self.has_settled(op, hash) {
                return Ok(());
            }
            Box::pin(split::settle(self, op.notes.bucket)).await?;
        }
    }

    /// Whether the bucket that was READ is the key's, and is not being split.
    #[inline]
    pub(super) fn has_settled(&self, op: &Operation, hash: KeyHash) -> bool {
        self.is_bucket_of(hash, op.notes.bucket, op.seen_words())
    }

    /// Whether these words, which were READ just now, show that the bucket is the key's, and is not
    /// being split. Another operation of this client may have learned meanwhile that the index has
    /// grown.
    #[inline]
    pub(super) fn is_bucket_of(&self, hash: KeyHash, bucket: u32, words: &[u64; BUCKET_SLOTS]) -> bool {
        let size = self.growth.directory.size();
        split::is_settled::<Slot>(words, size.depth(bucket)) && size.bucket(hash.bucket, hash.split) == bucket
    }

    /// Adds the READ of the same bucket once more to a batch, with this operation's buffer.
    #[inline]
    pub(super) fn add_bucket_read(&self, op: &mut Operation, batch: &mut Batch) -> atoll_fabric::Ticket {
        batch.read(self.bucket_at(op.notes.bucket), std::mem::take(&mut op.bucket))
    }

    /// Where a slot's record is, and how many bytes to READ; `None` if the word points outside the
    /// heap.
    #[inline(always)]
    pub(super) fn record_span(&self, slot: Slot) -> Option<(Address, usize, ChunkId)> {
        let layout = &self.client.pool.layout;
        let offset = self.shared.format.heap_offset(slot);
        if self.is_open(Hole::TrustedBytes) {
            let chunk = ChunkId((offset / layout.chunk_bytes) as u32);
            return Some((layout.chunk(ChunkId(0)).add(offset), slot.length().bytes() as usize, chunk));
        }
        let (number, within) = layout.divide(offset);
        let chunk = layout.checked_chunk(u32::try_from(number).ok()?)?;
        let room = layout.chunk_bytes - within;
        Some((layout.chunk(chunk).add(within), slot.length().bytes().min(room) as usize, chunk))
    }

    /// The generation that a brief record's checksum has, in a chunk with this tag. With the hole
    /// open it has none.
    #[inline]
    pub(super) fn sealed_tag(&self, tag: u16) -> u16 {
        if self.is_open(Hole::Generation) { 0 } else { tag }
    }

    /// The record that was READ, if it is whole and belongs to the slot. `None` if it is torn, or
    /// of another generation. The caller compares the key.
    #[inline]
    pub(super) fn judge<'r>(&self, slot: Slot, record: &'r Buffer) -> Option<Record<'r>> {
        let record = Record::decode(record, &self.shared.hasher, self.sealed_tag(self.shared.format.tag_of(slot)))?;
        let same =
            self.shared.format.tag_of(slot) == record.header.generation && record.header.large == slot.is_large();
        (same || self.is_open(Hole::Generation)).then_some(record)
    }

    /// Looks `key` up. The lookup counts as an access if `counted` is set.
    #[inline]
    pub(super) async fn lookup(
        &self,
        op: &mut Operation,
        key: &[u8],
        into: &mut Value,
        counted: bool,
    ) -> Result<Lookup, CacheError> {
        if counted && self.client.count_operation() {
            Box::pin(self.make_round()).await?;
        }
        let hash = self.key_hash(key);
        if counted {
            self.technique.looked_up(self, hash);
        }
        let remembers = self.addresses.borrow().is_on();
        if remembers
            // Boxed, so that it costs nothing in a client without an address cache.
            && let Some(lookup) = Box::pin(self.lookup_known(op, hash, key, into, counted)).await?
        {
            return Ok(lookup);
        }
        for attempt in 0..ATTEMPTS_MAX {
            let begun_ns = self.client.endpoint.now_ns();
            // Not `read_bucket`: every future within this one costs a tenth of the instructions of
            // a hit.
            let (at, buffer) = self.bucket_span(op, hash);
            op.bucket = self.client.endpoint.read(at, buffer).await?;
            if let Some(lookup) = self.lookup_seen(op, hash, key, into, begun_ns, counted).await? {
                return Ok(lookup);
            }
            self.stats.rereads.add(1);
            if self.is_outdated(begun_ns) {
                Box::pin(self.measure_round_trip()).await?;
            }
            if attempt >= REREADS_MAX {
                Box::pin(self.examine(op, hash, key)).await?;
            }
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    /// Checks the slots that were READ, one by one. `None` if the lookup must retry.
    #[inline]
    async fn lookup_seen(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        into: &mut Value,
        begun_ns: u64,
        counted: bool,
    ) -> Result<Option<Lookup>, CacheError> {
        // One after the other, not with `candidates`: a hit in memory nearby costs a twentieth
        // fewer instructions.
        for place in 0..BUCKET_SLOTS {
            let slot = Slot(op.bucket.words()[place]);
            if !slot.may_be(hash.fingerprint) || slot.is_pending() || slot.is_frozen() {
                continue;
            }
            let (_, number) = op.seen(place);
            match self.read_candidate(slot, key, into, begun_ns).await? {
                Candidate::Ours(header) => {
                    into.meta = Meta::of(&header);
                    if header.expiry_ms.is_some() && self.has_expired(&header, begun_ns).await? {
                        if !Box::pin(self.take_expired(op, number, slot)).await? {
                            return Ok(None);
                        }
                        if counted {
                            self.stats.misses_expired.add(1);
                            self.note_read(hash, false);
                        }
                        return Ok(Some(Lookup::Expired));
                    }
                    if counted {
                        self.count_hit(hash, slot, &header);
                    }
                    self.learn(key, Known::of(number, slot, &header), begun_ns);
                    op.found = Some((number, slot));
                    return Ok(Some(Lookup::Hit));
                }
                Candidate::Other => {}
                Candidate::Reused => return Ok(None),
            }
        }
        if !self.has_settled(op, hash) {
            Box::pin(split::settle(self, op.notes.bucket)).await?;
            return Ok(None);
        }
        if counted {
            self.stats.count_absent(has_ghost(op.seen_words(), hash));
            self.note_read(hash, false);
            if self.absences.is_on() {
                self.remember_absence(op, hash, begun_ns);
            }
        }
        Ok(Some(Lookup::Absent))
    }

    /// READs a slot's record into `into`, with its extents if the object is large, and judges it.
    #[inline]
    async fn read_candidate(
        &self,
        slot: Slot,
        key: &[u8],
        into: &mut Value,
        begun_ns: u64,
    ) -> Result<Candidate, CacheError> {
        let Some((at, bytes, chunk)) = self.record_span(slot) else {
            // The chunk may be on a node that this client does not know. The client learns the
            // nodes and retries.
            self.client.learn_nodes().await?;
            return Ok(Candidate::Reused);
        };
        self.shared.hotness.expect(chunk);
        // The READ overwrites the value of the last hit, whatever it finds.
        let mut buffer = into.emptied();
        buffer.resize(bytes);
        into.buffer = self.client.endpoint.read(at, buffer).await?;
        match self.judge_record(slot, key, into, begun_ns) {
            Judged::Is(candidate) => Ok(candidate),
            // Boxed, as every rare step here: its state would enlarge every lookup.
            Judged::Large(header, body) => {
                Box::pin(Candidate::read_body(self.extent_io(), (header, &body), key, into)).await
            }
        }
    }

    /// Judges the record in `into`, completing a large object.
    #[inline]
    pub(super) async fn judge_candidate(
        &self,
        slot: Slot,
        key: &[u8],
        into: &mut Value,
        begun_ns: u64,
    ) -> Result<Candidate, CacheError> {
        match self.judge_record(slot, key, into, begun_ns) {
            Judged::Is(candidate) => Ok(candidate),
            Judged::Large(header, body) => {
                Box::pin(Candidate::read_body(self.extent_io(), (header, &body), key, into)).await
            }
        }
    }

    /// Judges the record in `into`.
    #[inline(always)]
    fn judge_record(&self, slot: Slot, key: &[u8], into: &mut Value, begun_ns: u64) -> Judged {
        if self.is_open(Hole::Validation) {
            return Judged::Is(Candidate::believed(key, into));
        }
        let Some(record) = self.judge(slot, &into.buffer) else { return Judged::Is(Candidate::Reused) };
        let (header, is_ours, value_at) = (record.header, record.key == key, record.value_at);
        if let Some(body) = record.large() {
            if body.key_hash != self.shared.hasher.hash(key) || header.key_bytes != key.len() {
                return Judged::Is(Candidate::Other);
            }
            // Only the record must be READ in time. Its checksum covers the body, so the READ of
            // the extents may last any time.
            return match self.timely(header, begun_ns) {
                Candidate::Ours(header) => Judged::Large(header, Box::new(body)),
                late => Judged::Is(late),
            };
        }
        into.start = value_at;
        Judged::Is(if is_ours { self.timely(header, begun_ns) } else { Candidate::Other })
    }

    #[inline]
    fn timely(&self, header: Header, begun_ns: u64) -> Candidate {
        if self.is_outdated(begun_ns) { Candidate::Reused } else { Candidate::Ours(header) }
    }

    /// Whether the object has expired by the pool's time.
    #[inline]
    pub(super) async fn has_expired(&self, header: &Header, begun_ns: u64) -> Result<bool, CacheError> {
        match header.expiry_ms {
            Some(expiry_ms) => Ok(self.client.has_come(expiry_ms, begun_ns).await?),
            None => Ok(false),
        }
    }

    /// Counts an access to the object in the slot.
    #[inline(always)]
    pub(super) fn count_hit(&self, hash: KeyHash, slot: Slot, header: &Header) {
        self.stats.hits.add(1);
        self.note_read(hash, true);
        let (chunk, _) = self.client.pool.layout.divide(self.shared.format.heap_offset(slot));
        let (chunk, max) = (ChunkId(chunk as u32), self.shared.settings.options.frequency_max);
        self.shared.hotness.touch(chunk, header.number, header.generation, max);
        self.technique.counted_hit(self, chunk, header.number, header.generation);
    }
}
