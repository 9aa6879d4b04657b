//! A [blind](crate::Change::is_blind) SET of a key whose object the client knows: one batch.
//!
//! | verb of the batch | why it is in this place |
//! |---|---|
//! | WRITE protection of the old record's chunk | in front of the swap: if the swap succeeds, no client has begun to reuse the chunk |
//! | WRITE the new record | in front of the swap that publishes it |
//! | CAS slot: the known word -> the new word | |
//! | READ the head of the old record, if the client remembered the word | behind the swap: its length counts as dead, and the change is shown it |
//!
//! The record's place may be that of a dead one: see `vacancies`, which adds verbs to the batch.
//!
//! | memory | the client knows the word |
//! |---|---|
//! | far | because it remembers it (see `addresses`): the SET takes one round trip |
//! | near | because it READs the bucket and the heads of the records with the key's fingerprint: a READ costs less than a memory of words |
//!
//! The swap must not replace another key's object. The key's object could then be in another slot
//! of the bucket, and the bucket would have two of them. Three facts exclude it:
//!
//! - A known word was live, and its record had the key. The next record of its place has another
//!   tag: another edition, or another generation once the chunk is reused. So a slot with the same
//!   word has the same record, unless the chunk was reused as often as the tag has generations. The
//!   head that a READ tore is that of a place that was reused. The checksum of a head is not
//!   checked: something else than a client that writes another key into a record has its object
//!   replaced, not dropped.
//! - The client uses a remembered word only while the pool's counts show that no chunk was reused
//!   so often since it saw the word, and another word only for as long as an operation may (see
//!   `reuse`).
//! - A batch may be under way for longer. The old record shows whose object was replaced: nothing
//!   reuses it meanwhile. If it was another key's, the client withdraws its record before the SET
//!   returns, and starts again. The other key's object counts as evicted.
//!
//! | the swap finds | then |
//! |---|---|
//! | the known word, and the old record has the key | done |
//! | the same, but the old record has another key | CAS slot: the new word -> empty; start again |
//! | another word with the key's fingerprint | start again, and look in that slot first |
//! | any other word | start again |

use super::addresses::Known;
use super::layout::Queue;
use super::open_groups::{Fate, Place};
use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::update::{New, Try};
use super::vacancies::Placement;
use super::{Forge, Hole};
use crate::extent::unlisted::Listing;
use crate::index::copies::{self, Sharing};
use crate::index::{Index, SlotWord};
use crate::record::{Header, Record};
use crate::{CacheError, Change, Meta, Old, Verdict};
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;

/// An object that a blind swap may replace.
pub(super) struct Guess {
    known: Known,
    /// Whether the client remembered it. Otherwise this operation has READ the head of its record.
    is_remembered: bool,
    slot: Address,
    /// Where its record is.
    at: Address,
    bytes: usize,
    chunk: ChunkId,
}

impl Guess {
    /// The operation's buffer for the head of the object's record.
    #[inline]
    fn buffer(&self, op: &mut Operation, key: &[u8]) -> Buffer {
        let mut buffer = std::mem::take(&mut op.record);
        buffer.resize(Record::head_bytes(key.len()).min(self.bytes));
        buffer
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Tries a blind change of a key whose object the client knows. `None` if that is not possible:
    /// nothing has been changed. The operation began at `begun_ns`.
    pub(super) async fn try_blind<C: Change>(
        &self,
        op: &mut Operation,
        (hash, key): (KeyHash, &[u8]),
        guess: Guess,
        change: &mut C,
        begun_ns: u64,
    ) -> Result<Option<Try>, CacheError> {
        assert!(change.is_blind(), "the change does not depend on the object");
        if guess.is_remembered && !self.is_timely(&guess.known).await? {
            return Ok(None);
        }
        let now_ms = self.client.estimated_ms(begun_ns).await?;
        let Verdict::Put { expiry_ms, attributes } = change.decide(now_ms, None) else { return Ok(None) };
        let (value, known) = (change.value(), guess.known);
        let queue = if known.main { Queue::Main } else { Queue::Small };
        let header = Header::of_new(key.len(), value.len(), true, (expiry_ms, attributes), 0);
        if self.is_large(&header) {
            return Ok(None);
        }
        let record_bytes = header.record_bytes();
        let is_short = !self.has_room(queue, record_bytes) && !self.has_vacancy(&header, guess.slot);
        if !self.draw_stock(op, usize::from(is_short)) {
            op.notes.short_of = Some((queue, record_bytes));
            return Ok(Some(Try::Short(1)));
        }
        let token = self.client.next_token().await?;
        self.client.member().prepare(&self.client.endpoint, &mut op.notes.protection).await?;
        // Without an await until the batch is posted: a future that is dropped earlier holds none.
        let vacancy = self.take_vacancy(&header, guess.slot);
        let queue = vacancy.as_ref().map_or(queue, |vacancy| vacancy.queue);
        let header = Header { main: queue == Queue::Main, ..header.with_token(token) };
        let hits = self.shared.hotness.count(guess.chunk, known.number, self.shared.format.tag_of(known.word));
        let carry = hits.saturating_add(1).min(3);
        let slot = (self.home_slot(hash, known.slot), hash);
        let mut taken = self.take_placement(vacancy, (queue, carry), slot, &header);
        if taken.is_none() {
            taken = self.open_place(op, (queue, carry), slot, &header).await?.map(Placement::from);
        }
        // Other operations of this client have used the room.
        let Some(mut placement) = taken else {
            op.notes.short_of = Some((queue, record_bytes));
            return Ok(Some(Try::Short(1)));
        };
        let is_outdated = match guess.is_remembered {
            true => self.are_reuses_outdated() || self.is_late(&known),
            false => self.is_outdated(begun_ns),
        };
        if is_outdated {
            self.settle_placement(op, placement, slot, &header, Fate::Withdrawn);
            return Ok(None);
        }
        let new = New { header, large: None, extents: Listing(None) };
        let place = placement.place;
        let word = self.encode(op, hash, key, value, &new, &place).in_place_of(known.word);
        let (at, record) = self.outgoing_record(op, &place);
        if !self.is_in_order(at, guess.slot) {
            op.outgoing = record;
            self.settle_placement(op, placement, slot, &header, Fate::Withdrawn);
            return Ok(None);
        }
        let posted_ns = if guess.is_remembered { self.client.endpoint.now_ns() } else { begun_ns };
        let mut batch = Batch::new();
        self.client.member().protect(&mut batch, &mut op.notes.protection, guess.chunk);
        self.add_entry(&mut batch, &placement, slot, carry);
        let written = batch.write(at, record);
        let swap = batch.compare_and_swap(guess.slot, known.word.0, word.0);
        let checks = self.add_checks(&mut batch, &placement, (guess.slot, guess.chunk));
        let behind = guess.is_remembered.then(|| {
            let old = batch.read(guess.at, guess.buffer(op, key));
            (old, self.add_look_at_reuses(&mut batch, posted_ns))
        });
        // After an error the place stays unsettled: a verb of this operation may still land.
        self.client.endpoint.post(&mut batch).await?;
        op.outgoing = batch.take(written);
        if let Some((old, reuses)) = behind {
            op.record = batch.take(old);
            if let Some(reuses) = reuses {
                self.note_reuses(batch.take(reuses).words(), posted_ns);
            }
        }
        if !batch.swapped(swap) {
            self.settle_placement(op, placement, slot, &header, Fate::Withdrawn);
            self.forget(key);
            self.stats.addresses_stale.add(u64::from(guess.is_remembered));
            let now = Slot(batch.word(swap));
            op.notes.moved = (now.may_be(hash.fingerprint) && !now.is_pending()).then_some((known.slot, now));
            return Ok(Some(Try::Anew));
        }
        self.note_checks(&mut placement, &checks, &batch, (known.slot, word));
        self.settle_placement(op, placement, slot, &header, Fate::Published { extent_bytes: 0 });
        if !guess.is_remembered && self.is_outdated(begun_ns) {
            op.record = self.client.endpoint.read(guess.at, guess.buffer(op, key)).await?;
        }
        let (old, of) = Record::head(&op.record, self.sealed_tag(self.shared.format.tag_of(known.word)));
        let is_its = of == Some(key);
        if !is_its && !self.is_open(Hole::UncheckedSwap) {
            if self.is_of_another(op, &guess, key).await? {
                self.withdraw(&guess, key, (&place, word, &header)).await?;
                if let Some(orphan) = op.notes.orphan.take() {
                    self.evict_orphan(op, *orphan).await?;
                }
                return Ok(Some(Try::Anew));
            }
            // No client wrote such a record. The change has replaced it.
            self.stats.damaged.add(1);
        }
        self.stats.addresses_right.add(u64::from(guess.is_remembered));
        self.stats.puts.add(1);
        self.note_written(hash, true);
        self.learn(key, Known::of(known.slot, word, &Header { number: place.number, ..header }), posted_ns);
        let is_sound = is_its && (!guess.is_remembered || old.number == known.number);
        if !(is_sound && self.keep_vacancy(op, (&checks, &batch), known.word, &old)) {
            // Something else than a client may have written its lengths.
            self.count_dead(guess.chunk, old.record_bytes().min(guess.bytes as u64));
        }
        if is_its && !old.is_expired(now_ms) {
            change.decide(now_ms, Some(Old { meta: Meta::of(&old), value: &[] }));
        }
        if op.notes.orphan.is_some() {
            return Box::pin(self.copy_orphan(op)).await.map(Some);
        }
        Ok(Some(Try::Done(Some(token))))
    }

    /// The object of a key that a blind swap may replace, if the client knows one. Where memory is
    /// near, the client has READ the key's bucket afterwards.
    #[inline]
    pub(super) async fn guess(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<Option<Guess>, CacheError> {
        if self.client.endpoint.is_near() {
            return self.look(op, hash, key).await;
        }
        let Some(known) = self.remembered(hash, key) else { return Ok(None) };
        Ok(self.guess_of(known.slot, known.word).map(|guess| Guess { known, is_remembered: true, ..guess }))
    }

    /// Finds the object of a key in its bucket, by the heads of the records. A READ may have torn
    /// the head.
    #[inline]
    async fn look(&self, op: &mut Operation, hash: KeyHash, key: &[u8]) -> Result<Option<Guess>, CacheError> {
        self.read_bucket(op, hash).await?;
        for place in op.candidates(hash) {
            let (word, slot) = op.seen(place);
            let guess = if word.is_live_of(hash.fingerprint) { self.guess_of(slot, word) } else { None };
            let Some(guess) = guess else { continue };
            let head = guess.buffer(op, key);
            op.record = self.client.endpoint.read(guess.at, head).await?;
            let (header, of) = Record::head(&op.record, self.sealed_tag(self.shared.format.tag_of(word)));
            if of == Some(key) {
                let known = Known::of(slot, word, &header);
                return Ok(Some(Guess { known, ..guess }));
            }
        }
        Ok(None)
    }

    /// The object in a slot that has this word, if a blind swap may replace it.
    #[inline]
    fn guess_of(&self, slot: u64, word: Slot) -> Option<Guess> {
        // What has copies is closed first.
        if word.is_large() || word.sharing() != Sharing::None {
            return None;
        }
        let (at, bytes, chunk) = self.record_span(word)?;
        let known = Known { slot, word, main: false, number: 0, reuses: 0 };
        let slot = self.slot_at(slot);
        // The protection is on the home.
        let home = self.client.pool.layout.clock();
        let is_in_order = self.is_in_order(home, slot) && self.is_in_order(at, slot);
        is_in_order.then_some(Guess { known, is_remembered: false, slot, at, bytes, chunk })
    }

    /// Whether the client may still use a word that it remembers.
    async fn is_timely(&self, known: &Known) -> Result<bool, CacheError> {
        // The counts only grow: what is late by old ones is late by new ones.
        if !self.is_late(known) && self.are_reuses_outdated() {
            self.look_at_reuses().await?;
        }
        Ok(!self.is_late(known))
    }

    /// Whether the client saw the word too many reuses ago to use it, as far as it knows.
    pub(super) fn is_late(&self, known: &Known) -> bool {
        let chunk = self.record_span(known.word).map(|(_, _, chunk)| chunk);
        chunk.is_none_or(|chunk| self.may_have_come_back(known, chunk)) && !self.is_open(Hole::UncheckedSwap)
    }

    /// Whether the replaced record is another key's. This operation protects it.
    #[cold]
    async fn is_of_another(&self, op: &mut Operation, guess: &Guess, key: &[u8]) -> Result<bool, CacheError> {
        let mut record = std::mem::take(&mut op.record);
        record.resize(guess.bytes);
        op.record = self.client.endpoint.read(guess.at, record).await?;
        Ok(self.judge(guess.known.word, &op.record).is_some_and(|record| record.key != key))
    }

    /// Undoes a swap that has replaced another key's object.
    #[cold]
    async fn withdraw(
        &self,
        guess: &Guess,
        key: &[u8],
        (place, word, header): (&Place, Slot, &Header),
    ) -> Result<(), CacheError> {
        self.forget(key);
        self.stats.addresses_stale.add(u64::from(guess.is_remembered));
        self.count_dead(guess.chunk, guess.bytes as u64);
        if Box::pin(copies::take_out(self, guess.known.slot, word)).await? {
            self.count_removed(1).await?;
            self.count_dead(place.chunk, header.record_bytes());
        }
        Ok(())
    }
}
