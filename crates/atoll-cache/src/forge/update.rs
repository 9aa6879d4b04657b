//! How a client changes a key: it finds the object under protection, lets the change decide, and
//! publishes by one compare-and-swap.
//!
//! | what the bucket shows | verbs (one line, one round trip) |
//! |---|---|
//! | a slot with the key's fingerprint | WRITE protection, READ slot, READ record: see `search` |
//! | the key's object, to be replaced | WRITE record, CAS slot old -> new |
//! | the key's object, to be removed | CAS slot old -> empty |
//! | no such object, one to be inserted | WRITE record, CAS slot free -> pending, READ the bucket; then CAS pending -> live: see `insert` |
//!
//! A blind change of a key whose object the client remembers takes one round trip: see `blind`. An
//! insertion soon after a miss of the key uses the bucket that the miss READ (see `absence`).
//!
//! If a compare-and-swap fails, the client retries the change on the object that is there then. It
//! starts at the word that the swap found, if that word may be the key's. So no update is lost to
//! another client or to a regrouping. A blind change that another blind change overtook is done:
//! see [`overtaken`](crate::overtaken).

use super::addresses::Known;
use super::layout::Queue;
use super::nodes::Earlier;
use super::open_groups::{Fate, Place};
use super::operation::Operation;
use super::search::{Found, Search};
use super::slot::{KeyHash, RecordLength, Slot};
use super::technique::{Section, Technique};
use super::vacancies::Placement;
use super::{Forge, Hole};
use crate::backoff::pause_ns;
use crate::extent::chunks_needed;
use crate::extent::staged::Staged;
use crate::extent::unlisted::{Listing, Unlisted};
use crate::index::{ATTEMPTS_MAX, Index, Unlink, copies};
use crate::overtaken::Overtaken;
use crate::record::{self, Header, LargeBody};
use crate::search::decide;
use crate::{CacheError, Cause, Change, Meta, Old, Verdict, Want};
use atoll_fabric::{Address, Batch, Buffer, Endpoint};

/// How an attempt ended.
pub(super) enum Try {
    Done(Option<u64>),
    Anew,
    /// The stock must first hold so many chunks.
    Short(usize),
    /// The client must first count an object against the limit.
    Unreserved,
}

/// The bytes of an object that is put.
pub(super) enum Body<'v> {
    /// A new value.
    New(&'v [u8]),
    /// The value that the object has: only the header changes.
    Same(&'v [u8]),
    /// A new value that is in extents already. If it is not published, they stay its own.
    Staged(&'v Staged),
}

/// A new record before it has a place.
pub(super) struct New<'e> {
    pub(super) header: Header,
    pub(super) large: Option<Box<LargeBody>>,
    /// The extents of a new large value.
    pub(super) extents: Listing<'e>,
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Applies a change.
    pub(super) async fn apply<C: Change>(
        &self,
        op: &mut Operation,
        key: &[u8],
        change: &mut C,
    ) -> Result<Option<u64>, CacheError> {
        let hash = self.key_hash(key);
        let mut outcome = Err(CacheError::Damaged { what: "an object that stays unsound" });
        op.overtaken = None;
        op.notes.moved = None;
        debug_assert!(op.notes.orphan.is_none(), "an operation ends with its orphaned record");
        for attempt in 0..ATTEMPTS_MAX {
            self.technique.lock(self, Section::Bucket(hash)).await?;
            let tried = self.try_change(op, hash, key, change).await;
            self.unprotect(op);
            self.technique.unlock(self, Section::Bucket(hash));
            let step = match tried {
                Ok(Try::Done(token)) => {
                    outcome = Ok(token);
                    break;
                }
                Ok(Try::Anew) => {
                    self.stats.conflicts.add(1);
                    if let Some(pause_ns) = pause_ns(&self.client.endpoint, attempt) {
                        self.client.endpoint.pause(pause_ns).await;
                    }
                    Ok(())
                }
                Ok(Try::Short(_)) if self.is_open(Hole::DroppedSet) => return Ok(None),
                Ok(Try::Short(chunks)) => self.restock(op, chunks).await,
                Ok(Try::Unreserved) => {
                    // Other operations may use the drawn chunks while this one waits.
                    self.stock.chunks.put_back(&mut op.notes.chunks);
                    self.reserve_object(op).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                outcome = Err(error);
                break;
            }
        }
        if let Some(orphan) = op.notes.orphan.take() {
            let token = Some(orphan.token());
            let ended = Box::pin(self.evict_orphan(op, *orphan)).await;
            // The change took place, and its object was evicted for want of room.
            outcome = match (ended, outcome) {
                (Ok(()), Err(CacheError::OutOfMemory)) => Ok(token),
                (Ok(()), outcome) => outcome,
                (Err(error), _) => Err(error),
            };
        }
        self.limit.release(&self.client, op);
        if !op.notes.chunks.is_empty() {
            self.stock.chunks.put_back(&mut op.notes.chunks);
        }
        if self.growth.is_due() && outcome.is_ok() {
            Box::pin(self.grow_index()).await?;
        }
        outcome
    }

    async fn try_change<C: Change>(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        change: &mut C,
    ) -> Result<Try, CacheError> {
        if op.notes.orphan.is_some() {
            return Box::pin(self.copy_orphan(op)).await;
        }
        let begun_ns = self.client.endpoint.now_ns();
        let recalled_ns = self.recall_absence(op, hash);
        let overtaken_at = op.overtaken.as_mut().and_then(|overtaken| overtaken.by.take());
        let moved = op.notes.moved.take();
        let (is_near, remembers) = (self.client.endpoint.is_near(), self.addresses.borrow().is_on());
        let is_first = overtaken_at.is_none() && recalled_ns.is_none() && moved.is_none();
        let guesses = is_first && change.is_blind() && (is_near || remembers);
        if guesses
            && let Some(guess) = self.guess(op, hash, key).await?
            && let Some(tried) = self.try_blind(op, (hash, key), guess, change, begun_ns).await?
        {
            return Ok(tried);
        }
        // A client whose memory is near has READ the bucket for its guess.
        let read_ns = recalled_ns.or((guesses && is_near).then_some(begun_ns));
        // The time is read before the bucket, or before the object is READ anew under protection:
        // an object that this change finds expired had expired by then.
        let now_ms = self.client.pool_ms(begun_ns).await?;
        if let Some((_, word)) = overtaken_at.filter(|_| change.is_blind())
            && let Some(header) = self.read_overtaking(op, word, key, begun_ns).await?
            && let Verdict::Put { .. } = change.decide(now_ms, Some(Old { meta: Meta::of(&header), value: &[] }))
        {
            self.stats.puts.add(1);
            return Ok(Try::Done(Some(self.client.next_token().await?)));
        }
        let known = match (overtaken_at.or(moved), recalled_ns) {
            (Some(place), _) => self.search_overtaken(op, place, key, change.wants(), begun_ns).await?,
            (None, Some(_)) => None,
            (None, None) => self.search_known(op, hash, key, change.wants()).await?,
        };
        let found = match known {
            Some(found) => Some(found),
            None => {
                if read_ns.is_none() {
                    self.read_bucket(op, hash).await?;
                }
                let seen_ns = read_ns.unwrap_or(begun_ns);
                match self.search(op, (hash, key), change.wants(), false, None, seen_ns).await? {
                    Search::Anew => return Ok(Try::Anew),
                    Search::Overtaken { token, slot, now } => {
                        // This operation READ the bucket itself: a bucket that an earlier miss kept
                        // has no object of the key.
                        self.note_overtaken(op, hash, token, slot, now);
                        return Ok(Try::Anew);
                    }
                    Search::Found(found) => Some(found),
                    Search::Absent => None,
                }
            }
        };
        let (verdict, present_token) = decide(change, now_ms, found.as_ref(), &op.old);
        if recalled_ns.is_some() && found.is_none() && !matches!(verdict, Verdict::Put { .. }) {
            // A bucket that an earlier miss kept does not prove to a caller that the key is absent.
            return Ok(Try::Anew);
        }
        match (verdict, found) {
            // A client removes an expired object before it reports the expiry. Otherwise another
            // client, which found it live a moment ago, could bring it back.
            (Verdict::Leave, Some(found)) if present_token.is_none() && !self.is_open(Hole::UntakenExpiry) => {
                let removed = self.unlink(op, found.slot, found.word, Some(Cause::Expired)).await?;
                self.stats.expirations.add(u64::from(removed));
                Ok(if removed { Try::Done(None) } else { Try::Anew })
            }
            (Verdict::Leave, _) => Ok(Try::Done(present_token)),
            (Verdict::Remove, None) => Ok(Try::Done(None)),
            (Verdict::Remove, Some(found)) => {
                self.forget(key);
                self.try_remove(found).await
            }
            (Verdict::Expire { .. }, None) => Ok(Try::Done(None)),
            (Verdict::Expire { expiry_ms }, Some(found)) => {
                if found.large.is_none() && change.wants() == Want::Meta {
                    let Operation { old, record, .. } = op;
                    found.header.copy_value(record, old);
                }
                let value = std::mem::take(&mut op.old);
                let header = Header { expiry_ms, tagged: false, ..found.header };
                let tried = self.try_put(op, (hash, key), Body::Same(value.bytes()), header, Some(found)).await;
                op.old = value;
                tried
            }
            (Verdict::Put { expiry_ms, attributes }, found) => {
                let token = self.client.next_token().await?;
                let about = (expiry_ms, attributes);
                if let Some(staged) = change.staged() {
                    staged.check_owner(&self.abandoned)?;
                    let header = Header::of_new(key.len(), staged.value_bytes(), false, about, token);
                    return self.try_put(op, (hash, key), Body::Staged(staged), header, found).await;
                }
                let value = change.value();
                let header = Header::of_new(key.len(), value.len(), change.is_blind(), about, token);
                self.try_put(op, (hash, key), Body::New(value), header, found).await
            }
        }
    }

    /// Notes that a slot has another word now. The operation had found an object with this token
    /// there.
    fn note_overtaken(&self, op: &mut Operation, hash: KeyHash, token: u64, slot: u64, now: Slot) {
        let is_its = now.may_be(hash.fingerprint) && !now.is_pending();
        op.overtaken = Some(Overtaken { token, by: is_its.then_some((slot, now)) });
    }

    /// Whether a blind change of another client has put this record since the last attempt.
    fn is_overtaken_by(&self, op: &Operation, header: &Header) -> bool {
        let holes = (self.is_open(Hole::OvertakenByCopy), self.is_open(Hole::OvertakenBySight));
        op.overtaken.as_ref().is_some_and(|overtaken| overtaken.is_by(header, holes.0, holes.1))
    }

    /// READs, without protection, the record that overtook a change. Returns its header if a blind
    /// change put it.
    async fn read_overtaking(
        &self,
        op: &mut Operation,
        word: Slot,
        key: &[u8],
        begun_ns: u64,
    ) -> Result<Option<Header>, CacheError> {
        let Some((at, bytes, _)) = self.find_record(word).await? else { return Ok(None) };
        let mut record = std::mem::take(&mut op.record);
        record.resize(bytes);
        op.record = self.client.endpoint.read(at, record).await?;
        let late = self.is_outdated(begun_ns);
        // The key of a large object is not in its record.
        let is_ours = |record: &record::Record<'_>| !record.header.large && record.key == key;
        let judged = self.judge(word, &op.record).filter(|record| is_ours(record) && !late);
        Ok(judged.map(|record| record.header).filter(|header| self.is_overtaken_by(op, header)))
    }

    /// The key's object, if it is in the slot in which the last attempt found another word than
    /// expected.
    async fn search_overtaken(
        &self,
        op: &mut Operation,
        (slot, word): (u64, Slot),
        key: &[u8],
        want: Want,
        begun_ns: u64,
    ) -> Result<Option<Found>, CacheError> {
        let searched = self.search_slot(op, slot, word, key, want, begun_ns).await?;
        Ok(if let Search::Found(found) = searched { Some(found) } else { None })
    }

    async fn try_remove(&self, mut found: Found) -> Result<Try, CacheError> {
        let Some(closed) = copies::closed(self, found.slot, found.word).await? else { return Ok(Try::Anew) };
        found.word = closed;
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.slot_at(found.slot), found.word.0, found.word.emptied().0);
        self.client.endpoint.post(&mut batch).await?;
        if !batch.swapped(swap) && !self.is_open(Hole::LostUpdate) {
            return Ok(Try::Anew);
        }
        self.stats.removes.add(1);
        self.count_removed(1).await?;
        self.bury(found, false).await?;
        Ok(Try::Done(None))
    }

    /// Whether key and value have extents of their own.
    pub(super) fn is_large(&self, header: &Header) -> bool {
        header.small_record_bytes() > self.client.pool.layout.chunk_bytes / 2
    }

    /// Writes a new record and publishes it, in the found object's slot or in a free one.
    async fn try_put(
        &self,
        op: &mut Operation,
        (hash, key): (KeyHash, &[u8]),
        body: Body<'_>,
        mut header: Header,
        mut found: Option<Found>,
    ) -> Result<Try, CacheError> {
        // Before anything is taken: if a process with copies cannot be reached, nothing has
        // changed.
        if let Some(found) = &mut found {
            let Some(closed) = copies::closed(self, found.slot, found.word).await? else {
                self.forget(key);
                return Ok(Try::Anew);
            };
            found.word = closed;
        }
        if found.is_none() {
            self.check_present(op.notes.bucket)?;
        }
        header.large = self.is_large(&header);
        let (mut queue, carry) = self.queue_for(op, hash, found.as_ref());
        let vacancy = found.as_ref().and_then(|found| self.take_vacancy(&header, self.slot_at(found.slot)));
        if let Some(vacancy) = &vacancy {
            queue = vacancy.queue;
        }
        header.main = queue == Queue::Main;
        let fresh_chunks = match body {
            Body::New(_) if header.large => {
                let (bodies, lists) = chunks_needed(header.body_bytes(), self.client.pool.layout.chunk_bytes);
                bodies + lists
            }
            _ => 0,
        };
        let wanted = fresh_chunks + usize::from(vacancy.is_none() && !self.has_room(queue, header.record_bytes()));
        if !self.draw_stock(op, wanted) {
            op.notes.short_of = (fresh_chunks == 0).then(|| (queue, header.record_bytes()));
            return Ok(Try::Short(wanted));
        }
        if found.is_none() && !op.has_reserved() && self.client.pool.settings.objects_max > 0 {
            return Ok(Try::Unreserved);
        }
        let same_body = matches!(body, Body::Same(_));
        let mut written = None;
        let (value, large, extents) = match body {
            Body::Staged(staged) => (&[][..], Some(staged.body(&self.shared.hasher, key)), Some(staged.extents())),
            Body::New(value) | Body::Same(value) if !header.large => (value, None, None),
            Body::Same(value) => {
                let large = found.as_ref().and_then(|found| found.large.as_ref());
                (value, large.map(|large| Box::new(large.body)), None)
            }
            Body::New(value) => {
                let open = op.notes.chunks.split_off(op.notes.chunks.len() - fresh_chunks);
                let (extents, body) = self.write_extents(op, open, self.home(hash), (key, value)).await?;
                (value, Some(Box::new(body)), Some(&*written.insert(extents)))
            }
        };
        let new = New { header, large, extents: Listing(extents) };
        let slot = self.home_slot(hash, found.as_ref().map_or(0, |found| found.slot));
        let mut taken = self.take_placement(vacancy, (queue, carry), (slot, hash), &header);
        if taken.is_none() {
            // Boxed, as every rare step here: its state would enlarge every change.
            taken = Box::pin(self.open_place(op, (queue, carry), (slot, hash), &header)).await?.map(Placement::from);
        }
        let Some(mut placement) = taken else {
            // Other operations of this client have used the room.
            self.give_up_extents(written).await?;
            op.notes.short_of = (fresh_chunks == 0).then(|| (queue, header.record_bytes()));
            return Ok(Try::Short(fresh_chunks + 1));
        };
        let overwrites = found.is_some();
        let published = match found {
            Some(found) => {
                let entry = ((slot, hash), carry);
                self.try_replace(op, (entry, key), value, &new, (&mut placement, found), same_body).await
            }
            None => self.try_insert(op, (hash, key), value, &new, &placement.place).await,
        };
        match &published {
            Ok(true) => {
                let extent_bytes = if new.large.is_some() { header.body_bytes() as u64 } else { 0 };
                self.settle_placement(op, placement, (slot, hash), &header, Fate::Published { extent_bytes });
                if let Some(extents) = new.extents.0 {
                    self.bind_extents(extents.extents());
                }
                self.stats.puts.add(1);
                self.note_written(hash, overwrites);
                if op.notes.orphan.is_some() {
                    return Box::pin(self.copy_orphan(op)).await;
                }
                return Ok(Try::Done(Some(header.token)));
            }
            Ok(false) => {
                new.extents.end();
                self.settle_placement(op, placement, (slot, hash), &header, Fate::Withdrawn);
            }
            // A verb of this operation may still land. The group stays open until a repairer takes
            // it over.
            Err(CacheError::Verb(_)) => {}
            Err(_) => {
                let fate = Fate::Published { extent_bytes: 0 };
                self.settle_placement(op, placement, (slot, hash), &header, fate);
            }
        }
        published?;
        self.give_up_extents(written).await?;
        Ok(Try::Anew)
    }

    /// Frees the extents of a record that was not published.
    async fn give_up_extents(&self, extents: Option<Unlisted>) -> Result<(), CacheError> {
        match extents {
            Some(extents) => Box::pin(self.extent_io().free(extents)).await,
            None => Ok(()),
        }
    }

    /// Encodes the record for its place into `outgoing`, and returns its slot word of depth 0.
    pub(super) fn encode(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        new: &New<'_>,
        place: &Place,
    ) -> Slot {
        let generation = self.sealed_tag(place.tag);
        let header = Header { number: place.number, generation, ..new.header };
        let length = match &new.large {
            Some(large) => {
                record::encode_large(&mut op.outgoing, &self.shared.hasher, &header, large);
                RecordLength::LARGE
            }
            None => {
                record::encode_small(&mut op.outgoing, &self.shared.hasher, &header, key, value);
                RecordLength::of(header.record_bytes())
            }
        };
        let layout = &self.client.pool.layout;
        let heap_offset = u64::from(place.chunk.0) * layout.chunk_bytes + place.offset_bytes;
        self.shared.format.live(hash.fingerprint, length, heap_offset, place.tag)
    }

    /// Allocates a place for a record in a chunk that the operation drew. `None` if the operation
    /// has no chunk.
    pub(super) async fn open_place(
        &self,
        op: &mut Operation,
        (queue, carry): (Queue, u8),
        (slot, hash): (u64, KeyHash),
        header: &Header,
    ) -> Result<Option<Place>, CacheError> {
        loop {
            let Some(chunk) = op.notes.chunks.pop() else { return Ok(None) };
            self.open_group(queue, chunk).await?;
            let place = self.take_place(queue, (slot, hash), carry, header);
            if place.is_some() {
                return Ok(place);
            }
        }
    }

    /// The address of the encoded record, and the record. The client WRITEs it before it changes
    /// the slot.
    #[inline]
    pub(super) fn outgoing_record(&self, op: &mut Operation, place: &Place) -> (Address, Buffer) {
        let at = self.client.pool.layout.chunk(place.chunk).add(place.offset_bytes);
        (at, std::mem::take(&mut op.outgoing))
    }

    async fn try_replace(
        &self,
        op: &mut Operation,
        ((entry, carry), key): (((u64, KeyHash), u8), &[u8]),
        value: &[u8],
        new: &New<'_>,
        (placement, found): (&mut Placement, Found),
        same_body: bool,
    ) -> Result<bool, CacheError> {
        let (hash, place) = (entry.1, placement.place);
        let word = self.encode(op, hash, key, value, new, &place).in_place_of(found.word);
        let slot = self.slot_at(found.slot);
        let (at, record) = self.outgoing_record(op, &place);
        let is_in_order = self.is_in_order(at, slot);
        let record = if is_in_order { record } else { Box::pin(self.write_first(at, record)).await? };
        let begun_ns = self.client.endpoint.now_ns();
        let mut batch = Batch::new();
        self.add_entry(&mut batch, placement, entry, carry);
        let written = Earlier::add(&mut batch, at, record, is_in_order);
        let swap = batch.compare_and_swap(slot, found.word.0, word.0);
        let checks = self.add_checks(&mut batch, placement, (slot, found.beside));
        new.extents.begin();
        let posted = self.client.endpoint.post(&mut batch).await;
        new.extents.note_posted(&posted);
        posted?;
        op.outgoing = written.take(&mut batch);
        if !batch.swapped(swap) {
            self.note_overtaken(op, hash, found.header.token, found.slot, Slot(batch.word(swap)));
            self.forget(key);
            return Ok(self.is_open(Hole::LostUpdate));
        }
        self.note_checks(placement, &checks, &batch, (found.slot, word));
        self.learn(key, Known::of(found.slot, word, &Header { number: place.number, ..new.header }), begun_ns);
        if !self.keep_vacancy(op, (&checks, &batch), found.word, &found.header) {
            self.bury(found, same_body).await?;
        }
        Ok(true)
    }
}
