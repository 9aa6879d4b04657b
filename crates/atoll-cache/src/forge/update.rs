//! The way of every change: find the key's object under protection, let the change decide, publish by one compare-and-swap.
//!
//! | what the bucket shows | verbs (one line, one round trip) |
//! |---|---|
//! | a slot with the key's fingerprint | WRITE intent, READ slot, READ record: if slot is unchanged, the record cannot be reused |
//! | the key's object, to be replaced | WRITE record, CAS slot old -> new |
//! | the key's object, to be removed | CAS slot old -> empty |
//! | no such object, one to be inserted | WRITE record, CAS slot free -> pending, READ the bucket; then CAS pending -> live |
//!
//! An insertion is pending until it has seen that it is the only one of its key, with these rules for what else it sees:
//!
//! | other slot with the key | then |
//! |---|---|
//! | live | withdraw (CAS pending -> empty) and begin anew: it is a replacement now |
//! | pending | make it empty by CAS, whoever it belongs to, and look again |
//! | none | CAS pending -> live; if that fails somebody made it empty: begin anew |
//!
//! Of two insertions whichever became pending later sees the other, so at most one slot of a key is ever live. A client that
//! stops while pending leaves a slot that nobody sees and the next insertion of the key clears.
//!
//! A compare-and-swap that fails begins the change anew, on what is there then: no update is lost, to another client or to a regrouping.
//!
//! When the bucket is full of live objects the insertion takes the place of one of them: an eviction.

use super::extent::{Extents, chunks_needed};
use super::group::Place;
use super::layout::{BUCKET_SLOTS, Queue};
use super::lookup::{ATTEMPTS_MAX, REUSE_NS};
use super::object::{self, HEADER_BYTES, Header, LargeBody};
use super::slot::{KeyHash, RecordLength, Slot};
use super::{Forge, Hole, Protection};
use crate::{CacheError, Change, Meta, Old, Verdict, Want};
use atoll_fabric::{Batch, Buffer, Endpoint, Intent};
use atoll_pool::ChunkId;

/// An object found, and protected.
struct Found {
    slot: u64,
    word: Slot,
    chunk: ChunkId,
    header: Header,
    large: Option<(LargeBody, Extents)>,
}

/// What a search for a key gave.
enum Search {
    Found(Found),
    Absent,
    Anew,
}

/// What one try at a change gave.
enum Try {
    Done(Option<u64>),
    Anew,
    /// So many chunks are needed in the stock first.
    Short(usize),
    /// An object must be counted against the limit first.
    Unreserved,
}

/// A new record before it has a place.
struct New {
    header: Header,
    large: Option<(LargeBody, Extents)>,
    carry: u8,
    queue: Queue,
}

impl<E: Endpoint> Forge<E> {
    /// Protects `chunk` and READs the slot and its record behind that; the slot's word now.
    pub(super) async fn read_protected(
        &mut self,
        slot: u64,
        word: Slot,
    ) -> Result<Option<(Slot, ChunkId)>, CacheError> {
        let Some((at, bytes, chunk)) = self.record_span(word) else { return Ok(None) };
        if self.protection == Protection::Ending {
            self.endpoint.flush().await?;
        }
        self.protection = Protection::Held;
        // What follows if this is the key's object: its count is looked up, and its bytes are counted as dead.
        self.shared.hotness.expect(chunk);
        self.endpoint.expect(self.shared.pool.layout.descriptor(chunk).add(16), 8, Intent::Write);
        let mut record = std::mem::take(&mut self.record);
        record.resize(bytes);
        let mut batch = Batch::new();
        if !self.is_open(Hole::Protection) {
            self.member().protect(&mut batch, chunk);
        }
        let now = batch.read_word(self.shared.layout.slot(slot));
        let read = batch.read(at, record);
        self.endpoint.post(&mut batch).await?;
        self.record = batch.take(read);
        Ok(Some((Slot(batch.word(now)), chunk)))
    }

    /// Ends the protection, if there is one.
    #[inline]
    pub(super) fn unprotect(&mut self) {
        if self.protection == Protection::Held {
            self.member().unprotect(&self.endpoint);
            self.protection = Protection::Ending;
        }
    }

    /// Looks for the key's object in the bucket that was read, and protects it. `skip` is a slot of the caller's own.
    async fn search(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        want: Want,
        pending: bool,
        skip: Option<u64>,
        begun_ns: u64,
    ) -> Result<Search, CacheError> {
        for index in 0..BUCKET_SLOTS {
            let (word, slot) = self.seen(hash, index);
            if !word.may_be(hash.fingerprint) || word.is_pending() != pending || skip == Some(slot) {
                continue;
            }
            let Some((now, chunk)) = self.read_protected(slot, word).await? else { return Ok(Search::Anew) };
            let late = self.endpoint.now_ns().wrapping_sub(begun_ns) > REUSE_NS;
            if now != word || late {
                return Ok(Search::Anew);
            }
            let record = std::mem::take(&mut self.record);
            let judged = self.judge(word, &record).map(|record| (record.header, record.large, record.key == key));
            let Some((header, large, is_ours)) = judged else {
                self.record = record;
                return Ok(Search::Anew);
            };
            let searched = match large {
                None if is_ours => {
                    if want == Want::Value {
                        let value = &record.bytes()[HEADER_BYTES + key.len()..HEADER_BYTES + header.body_bytes()];
                        self.old.assign(value, Meta::of(&header));
                    }
                    Search::Found(Found { slot, word, chunk, header, large: None })
                }
                None => Search::Absent,
                Some(body) => {
                    self.search_large(Found { slot, word, chunk, header, large: None }, body, key, want).await?
                }
            };
            self.record = record;
            if !matches!(searched, Search::Absent) {
                return Ok(searched);
            }
        }
        Ok(Search::Absent)
    }

    /// Completes a large object whose record is protected, if its key is the wanted one; `Absent` if it is another.
    async fn search_large(
        &mut self,
        found: Found,
        body: LargeBody,
        key: &[u8],
        want: Want,
    ) -> Result<Search, CacheError> {
        if found.header.key_bytes != key.len() {
            return Ok(Search::Absent);
        }
        let Some(extents) = self.extents(&found.header, &body).await? else { return Ok(Search::Anew) };
        // Without a wish for the value only the key is read, and `old` holds an empty value.
        let bytes = if want == Want::Value { found.header.body_bytes() } else { key.len() };
        let buffer = std::mem::take(&mut self.old.buffer);
        self.old.buffer = self.read_extents(&extents, bytes, buffer).await?;
        (self.old.start, self.old.meta) =
            (key.len(), Meta { value_bytes: bytes - key.len(), ..Meta::of(&found.header) });
        // The record cannot be reused. Its extents can: they pass to a copy of the record in another chunk, which is not protected, and
        // are freed with that. While the slot is what it was, they are its own.
        if self.slot_word(found.slot).await? != found.word {
            return Ok(Search::Anew);
        }
        if self.old.buffer.bytes()[..key.len()] != *key {
            return Ok(Search::Absent);
        }
        // Something else than a client wrote to the pool: a change must not seal that with a new checksum.
        if want == Want::Value && self.shared.hasher.hash(self.old.buffer.bytes()) != body.checksum {
            return Err(CacheError::Damaged { what: "the bytes of a large object" });
        }
        Ok(Search::Found(Found { large: Some((body, extents)), ..found }))
    }

    /// A slot's word now.
    pub(super) async fn slot_word(&mut self, slot: u64) -> Result<Slot, CacheError> {
        let mut batch = Batch::new();
        let word = batch.read_word(self.shared.layout.slot(slot));
        self.endpoint.post(&mut batch).await?;
        Ok(Slot(batch.word(word)))
    }

    /// What is known of a key's object, if it is present.
    pub(super) async fn present(&mut self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let hash = self.key_hash(key);
        for _ in 0..ATTEMPTS_MAX {
            let begun_ns = self.endpoint.now_ns();
            self.read_bucket(hash).await?;
            let search = self.search(hash, key, Want::Meta, false, None, begun_ns).await?;
            self.unprotect();
            match search {
                Search::Anew => self.stats.rereads += 1,
                Search::Absent => return Ok(None),
                Search::Found(found) => {
                    let now_ms = self.pool_ms(begun_ns).await?;
                    if !found.header.is_expired(now_ms) {
                        return Ok(Some(Meta::of(&found.header)));
                    }
                    if self.take_expired(found.slot, found.word, now_ms).await? {
                        return Ok(None);
                    }
                }
            }
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    /// Applies a change.
    pub(super) async fn apply<C: Change>(&mut self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let hash = self.key_hash(key);
        let mut outcome = Err(CacheError::Damaged { what: "an object that stays unsound" });
        for attempt in 0..ATTEMPTS_MAX {
            let tried = self.try_change(hash, key, change).await;
            self.unprotect();
            let step = match tried {
                Ok(Try::Done(token)) => {
                    outcome = Ok(token);
                    break;
                }
                Ok(Try::Anew) => {
                    self.stats.conflicts += 1;
                    // Two clients that undo each other's steps part after pauses of different lengths.
                    if attempt >= 4 {
                        self.endpoint.pause(self.endpoint.random() % (100 << attempt.min(10))).await;
                    }
                    Ok(())
                }
                Ok(Try::Short(_)) if self.is_open(Hole::DroppedSet) => return Ok(None),
                Ok(Try::Short(chunks)) => self.restock(chunks).await,
                Ok(Try::Unreserved) => self.reserve_object().await,
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                outcome = Err(error);
                break;
            }
        }
        self.release_reservation();
        outcome
    }

    async fn try_change<C: Change>(&mut self, hash: KeyHash, key: &[u8], change: &mut C) -> Result<Try, CacheError> {
        let begun_ns = self.endpoint.now_ns();
        self.read_bucket(hash).await?;
        let found = match self.search(hash, key, change.wants(), false, None, begun_ns).await? {
            Search::Anew => return Ok(Try::Anew),
            Search::Found(found) => Some(found),
            Search::Absent => None,
        };
        let now_ms = self.pool_ms(begun_ns).await?;
        let live = found.as_ref().filter(|found| !found.header.is_expired(now_ms));
        if found.is_some() && live.is_none() {
            self.clock.advance(&self.endpoint, &self.shared.pool.layout, now_ms).await?;
        }
        let value = if live.is_some() && change.wants() == Want::Value { self.old.bytes() } else { &[] };
        let verdict = change.decide(now_ms, live.map(|found| Old { meta: Meta::of(&found.header), value }));
        let present_token = live.map(|found| found.header.token);
        match (verdict, found) {
            // Whoever tells that an object has expired takes it away first: somebody who found it live a moment ago must not bring it back.
            (Verdict::Leave, Some(found)) if present_token.is_none() => {
                let removed = self.unlink(found.slot, found.word).await?;
                Ok(if removed { Try::Done(None) } else { Try::Anew })
            }
            (Verdict::Leave, _) => Ok(Try::Done(present_token)),
            (Verdict::Remove, None) => Ok(Try::Done(None)),
            (Verdict::Remove, Some(found)) => self.try_remove(found).await,
            (Verdict::Expire { .. }, None) => Ok(Try::Done(None)),
            (Verdict::Expire { expiry_ms }, Some(found)) => {
                if found.large.is_none() && change.wants() == Want::Meta {
                    let bytes = HEADER_BYTES + key.len()..HEADER_BYTES + found.header.body_bytes();
                    self.old.assign(&self.record.bytes()[bytes], Meta::of(&found.header));
                }
                let value = std::mem::take(&mut self.old);
                let header = Header { expiry_ms, ..found.header };
                let tried = self.try_put(hash, key, value.bytes(), header, Some(found), true).await;
                self.old = value;
                tried
            }
            (Verdict::Put { expiry_ms }, found) => {
                let value = change.value();
                let token = self.next_token().await?;
                let header = Header {
                    key_bytes: key.len(),
                    value_bytes: value.len(),
                    number: 0,
                    main: false,
                    large: false,
                    expiry_ms,
                    generation: 0,
                    token,
                };
                self.try_put(hash, key, value, header, found, false).await
            }
        }
    }

    async fn try_remove(&mut self, found: Found) -> Result<Try, CacheError> {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.shared.layout.slot(found.slot), found.word.0, 0);
        self.endpoint.post(&mut batch).await?;
        if !batch.swapped(swap) && !self.is_open(Hole::LostUpdate) {
            return Ok(Try::Anew);
        }
        self.stats.removes += 1;
        self.count_removed(1);
        self.bury(found, false).await?;
        Ok(Try::Done(None))
    }

    /// Accounts for an object that this client has just made dead.
    async fn bury(&mut self, found: Found, extents_live_on: bool) -> Result<(), CacheError> {
        self.count_dead(found.chunk, found.header.record_bytes());
        if let Some((_, extents)) = found.large
            && !extents_live_on
        {
            self.retire_extents(extents, Some(found.chunk)).await?;
        }
        Ok(())
    }

    /// Counts objects that this client removed or evicted.
    pub(super) fn count_removed(&mut self, objects: u64) {
        self.count_objects(-(objects as i64));
        if self.shared.pool.settings.objects_max > 0 {
            let mut batch = Batch::new();
            batch.fetch_and_add(self.shared.pool.layout.resident_objects(), objects.wrapping_neg());
            self.endpoint.post_unawaited(&mut batch);
        }
    }

    /// Writes a new record and publishes it, in the found object's slot or in a free one. `same_body`: only the header changes.
    async fn try_put(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        mut header: Header,
        found: Option<Found>,
        same_body: bool,
    ) -> Result<Try, CacheError> {
        let chunk_bytes = self.shared.pool.layout.chunk_bytes;
        header.large = object::small_record_bytes(key.len(), value.len().max(header.value_bytes)) > chunk_bytes / 2;
        let (queue, carry) = self.queue_for(hash, found.as_ref());
        header.main = queue == Queue::Main;
        let fresh_chunks = match header.large && !same_body {
            true => {
                let (bodies, lists) = chunks_needed(header.body_bytes(), chunk_bytes);
                bodies + lists
            }
            false => 0,
        };
        let group_chunks = usize::from(!self.has_room(queue, header.record_bytes()));
        if self.stock.len() < fresh_chunks + group_chunks {
            return Ok(Try::Short(fresh_chunks + group_chunks));
        }
        if found.is_none() && !self.reserved && self.shared.pool.settings.objects_max > 0 {
            return Ok(Try::Unreserved);
        }
        if !self.open_room(queue, header.record_bytes()).await? {
            return Ok(Try::Short(fresh_chunks + 1));
        }
        let large = match (&found, header.large) {
            (_, false) => None,
            (Some(found), true) if same_body => found.large.clone(),
            _ => {
                let (extents, body) = self.write_extents(key, value).await?;
                Some((body, extents))
            }
        };
        let new = New { header, large, carry, queue };
        let published = match found {
            Some(found) => self.try_replace(hash, key, value, &new, found, same_body).await?,
            None => self.try_insert(hash, key, value, &new).await?,
        };
        if published {
            if new.large.is_some() {
                self.count_extents(new.queue, header.body_bytes());
            }
            self.stats.puts += 1;
            return Ok(Try::Done(Some(header.token)));
        }
        if let Some((_, extents)) = new.large
            && !same_body
        {
            // Nobody has seen them.
            self.retire_extents(extents, None).await?;
        }
        Ok(Try::Anew)
    }

    /// Where a new record goes, and what frequency it brings: a key that was in the main queue, or that came back soon after it was evicted, starts in
    /// the main queue.
    fn queue_for(&self, hash: KeyHash, found: Option<&Found>) -> (Queue, u8) {
        match found {
            Some(found) => {
                let hits = self.shared.hotness.count(found.chunk, found.header.number, found.header.generation);
                (if found.header.main { Queue::Main } else { Queue::Small }, hits.saturating_add(1).min(3))
            }
            None if self.ghost(hash).is_some() => (Queue::Main, 0),
            None => (Queue::Small, 0),
        }
    }

    /// The place of a ghost of this key that is young enough.
    fn ghost(&self, hash: KeyHash) -> Option<usize> {
        if !self.shared.settings.options.ghosts {
            return None;
        }
        let young = |position: u32| self.small_head.wrapping_sub(position) <= self.ghost_age_groups;
        (0..BUCKET_SLOTS).find(|index| self.seen(hash, *index).0.ghost_position(hash).is_some_and(young))
    }

    /// Encodes the record for its place into `outgoing`, and gives its slot word.
    fn encode(&mut self, hash: KeyHash, key: &[u8], value: &[u8], new: &New, place: Place) -> Slot {
        let header = Header { number: place.number, generation: place.generation as u16, ..new.header };
        let length = match &new.large {
            Some((body, _)) => {
                object::encode_large(&mut self.outgoing, &self.shared.hasher, &header, body);
                RecordLength::LARGE
            }
            None => {
                object::encode_small(&mut self.outgoing, &self.shared.hasher, &header, key, value);
                RecordLength::of(header.record_bytes())
            }
        };
        let layout = &self.shared.pool.layout;
        let heap_offset = u64::from(place.chunk.0) * layout.chunk_bytes + place.offset_bytes;
        self.shared.format.live(hash.fingerprint, length, heap_offset, place.generation)
    }

    fn place(&mut self, new: &New, slot: u64, hash: KeyHash) -> Place {
        let large = new.large.is_some();
        self.take_place(new.queue, new.header.record_bytes(), slot, hash, new.carry, large, new.header.expiry_ms)
    }

    fn unplace(&mut self, new: &New) {
        self.give_place_back(new.queue, new.header.record_bytes(), new.header.expiry_ms);
    }

    fn add_record_write(&mut self, batch: &mut Batch, place: Place) -> atoll_fabric::Ticket {
        let at = self.shared.pool.layout.chunk(place.chunk).add(place.offset_bytes);
        batch.write(at, std::mem::take(&mut self.outgoing))
    }

    async fn try_replace(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        new: &New,
        found: Found,
        same_body: bool,
    ) -> Result<bool, CacheError> {
        let place = self.place(new, found.slot, hash);
        let word = self.encode(hash, key, value, new, place);
        let mut batch = Batch::new();
        let written = self.add_record_write(&mut batch, place);
        let swap = batch.compare_and_swap(self.shared.layout.slot(found.slot), found.word.0, word.0);
        self.endpoint.post(&mut batch).await?;
        self.outgoing = batch.take(written);
        if !batch.swapped(swap) {
            self.unplace(new);
            return Ok(self.is_open(Hole::LostUpdate));
        }
        self.bury(found, same_body).await?;
        Ok(true)
    }

    /// The place in the bucket that an insertion takes: its own ghost's, a free one, the oldest ghost's; else that of a live object.
    fn choose_place(&self, hash: KeyHash) -> usize {
        if let Some(index) = self.ghost(hash) {
            return index;
        }
        // Free slots before ghosts, old ghosts before young ones.
        let rank = |index: usize| {
            let word = self.seen(hash, index).0;
            let age = word.any_ghost_position().map(|position| u32::MAX - self.small_head.wrapping_sub(position));
            (!word.is_free(), age.map_or(0, |age| age.max(1)))
        };
        let best = (0..BUCKET_SLOTS).min_by_key(|index| rank(*index)).expect("a bucket has slots");
        if self.seen(hash, best).0.is_free() {
            return best;
        }
        // It is full: any object will do that is not pending and has no extents to free; the random one is the fairest.
        let start = self.endpoint.random() as usize % BUCKET_SLOTS;
        let usable = |index: &usize| self.seen(hash, *index).0.is_live() && !self.seen(hash, *index).0.is_large();
        (0..BUCKET_SLOTS).map(|index| (index + start) % BUCKET_SLOTS).find(usable).unwrap_or(start)
    }

    async fn try_insert(&mut self, hash: KeyHash, key: &[u8], value: &[u8], new: &New) -> Result<bool, CacheError> {
        let index = self.choose_place(hash);
        let (before, slot) = self.seen(hash, index);
        if before.is_large() && before.is_live() {
            self.unlink(slot, before).await?;
            return Ok(false);
        }
        let place = self.place(new, slot, hash);
        let word = self.encode(hash, key, value, new, place);
        let address = self.shared.layout.slot(slot);
        let certain = self.is_open(Hole::DuplicateKey);
        let first = if certain { word } else { word.pending() };
        let mut batch = Batch::new();
        let written = self.add_record_write(&mut batch, place);
        let swap = batch.compare_and_swap(address, before.0, first.0);
        let begun_ns = self.endpoint.now_ns();
        let read = self.add_bucket_read(&mut batch, hash);
        self.endpoint.post(&mut batch).await?;
        self.outgoing = batch.take(written);
        self.bucket = batch.take(read);
        if !batch.swapped(swap) {
            self.unplace(new);
            return Ok(false);
        }
        if before.is_live() {
            self.evict_displaced(before);
        }
        let published = certain || self.decide_pending(hash, key, slot, word, begun_ns).await?;
        if !published {
            self.unplace(new);
            return Ok(false);
        }
        // Whoever took a live object's place added one and removed one.
        self.reserved = false;
        self.count_objects(1);
        Ok(true)
    }

    /// Accounts for an object whose slot an insertion took.
    fn evict_displaced(&mut self, before: Slot) {
        self.stats.evictions += 1;
        self.stats.evictions_index += 1;
        self.count_removed(1);
        if let Some((_, bytes, chunk)) = self.record_span(before) {
            self.count_dead(chunk, bytes as u64);
        }
    }

    /// Decides this client's pending slot; whether it is live now. The bucket has been READ after it became pending.
    async fn decide_pending(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        slot: u64,
        word: Slot,
        mut begun_ns: u64,
    ) -> Result<bool, CacheError> {
        let address = self.shared.layout.slot(slot);
        for _ in 0..ATTEMPTS_MAX {
            let live = self.search(hash, key, Want::Meta, false, Some(slot), begun_ns).await?;
            let mut look_again = matches!(live, Search::Anew);
            if matches!(live, Search::Found(_)) {
                let mut batch = Batch::new();
                batch.compare_and_swap(address, word.pending().0, 0);
                self.endpoint.post(&mut batch).await?;
                return Ok(false);
            }
            if !look_again {
                match self.search(hash, key, Want::Meta, true, Some(slot), begun_ns).await? {
                    Search::Absent => {}
                    Search::Anew => look_again = true,
                    Search::Found(other) => {
                        let mut batch = Batch::new();
                        batch.compare_and_swap(self.shared.layout.slot(other.slot), other.word.0, 0);
                        self.endpoint.post(&mut batch).await?;
                        look_again = true;
                    }
                }
            }
            if !look_again {
                let mut batch = Batch::new();
                let swap = batch.compare_and_swap(address, word.pending().0, word.0);
                self.endpoint.post(&mut batch).await?;
                return Ok(batch.swapped(swap));
            }
            begun_ns = self.endpoint.now_ns();
            self.read_bucket(hash).await?;
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    /// Takes an expired object away, before anybody is told that it has expired: then nobody who found it live a moment ago can bring it back.
    /// `false` if the slot has changed.
    pub(super) async fn take_expired(&mut self, slot: u64, word: Slot, now_ms: u64) -> Result<bool, CacheError> {
        self.clock.advance(&self.endpoint, &self.shared.pool.layout, now_ms).await?;
        let removed = self.unlink(slot, word).await?;
        self.unprotect();
        self.stats.expirations += u64::from(removed);
        Ok(removed)
    }

    /// Makes a slot empty if it still has this word, and buries its object; whether it did. For evictions and flushes of single slots.
    pub(super) async fn unlink(&mut self, slot: u64, word: Slot) -> Result<bool, CacheError> {
        let begun_ns = self.endpoint.now_ns();
        let Some((now, chunk)) = self.read_protected(slot, word).await? else { return Ok(false) };
        let record: Buffer = std::mem::take(&mut self.record);
        let judged = self.judge(word, &record).map(|record| (record.header, record.large));
        self.record = record;
        let (Some((header, body)), true) = (judged, now == word) else { return Ok(false) };
        let large = match body {
            Some(body) => self.extents(&header, &body).await?.map(|extents| (body, extents)),
            None => None,
        };
        if (body.is_some() && large.is_none()) || self.endpoint.now_ns().wrapping_sub(begun_ns) > REUSE_NS {
            return Ok(false);
        }
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.shared.layout.slot(slot), word.0, 0);
        self.endpoint.post(&mut batch).await?;
        let removed = batch.swapped(swap);
        if removed {
            self.count_removed(1);
            self.bury(Found { slot, word, chunk, header, large }, false).await?;
        }
        self.unprotect();
        Ok(removed)
    }
}
