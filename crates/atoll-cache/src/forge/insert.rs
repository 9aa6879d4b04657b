//! How a client inserts an absent key. An insertion is pending until its client has seen that no
//! other slot has the key: see [`crate::search`].
//!
//! If the bucket is full of live objects, the inserter evicts one of them and uses its slot.

use super::addresses::Known;
use super::layout::{BUCKET_SLOTS, Queue};
use super::nodes::Earlier;
use super::open_groups::Place;
use super::operation::Operation;
use super::search::Found;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::update::New;
use super::{Forge, Hole};
use crate::index::copies::Sharing;
use crate::index::{Index, SlotWord, Unlink};
use crate::record::Header;
use crate::search::publish_pending;
use crate::{CacheError, Cause};
use atoll_fabric::{Batch, Endpoint};

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// The queue of a new record, and its initial frequency. A key whose object was in the main
    /// queue starts in the main queue. So does a key that is inserted soon after its eviction.
    pub(super) fn queue_for(&self, op: &Operation, hash: KeyHash, found: Option<&Found>) -> (Queue, u8) {
        match found {
            Some(found) => {
                let hits = self.shared.hotness.count(found.beside, found.header.number, found.header.generation);
                (if found.header.main { Queue::Main } else { Queue::Small }, hits.saturating_add(1).min(3))
            }
            None if self.ghost(op, hash).is_some() => (Queue::Main, 0),
            None => (Queue::Small, 0),
        }
    }

    /// The place in the bucket that an inserter uses, in this order: the key's own ghost, a free
    /// slot, the oldest ghost, a live object.
    fn choose_place(&self, op: &Operation, hash: KeyHash) -> usize {
        if let Some(index) = self.ghost(op, hash) {
            return index;
        }
        // Free slots before ghosts, old ghosts before young ones.
        let rank = |(place, word): (usize, &u64)| {
            let word = Slot(*word);
            let age = word.any_ghost_position().map(|position| u32::MAX - self.ghosts.age_groups(position));
            // One number with the place in its low byte, so that the minimum is found without a
            // branch.
            u64::from(!word.is_free()) << 40 | u64::from(age.map_or(0, |age| age.max(1))) << 8 | place as u64
        };
        let least = op.seen_words().iter().enumerate().map(rank).min().expect("a bucket has slots");
        let best = least as usize % 256;
        if op.seen(best).0.is_free() {
            return best;
        }
        // The bucket is full. The inserter may evict any object that is not pending and has no
        // extents to free. A random choice is the fairest.
        let start = self.client.endpoint.random() as usize % BUCKET_SLOTS;
        let usable = |index: &usize| op.seen(*index).0.is_live() && !op.seen(*index).0.is_large();
        (0..BUCKET_SLOTS).map(|index| (index + start) % BUCKET_SLOTS).find(usable).unwrap_or(start)
    }

    pub(super) async fn try_insert(
        &self,
        op: &mut Operation,
        (hash, key): (KeyHash, &[u8]),
        value: &[u8],
        new: &New<'_>,
        place: &Place,
    ) -> Result<bool, CacheError> {
        let index = self.choose_place(op, hash);
        let (before, slot) = op.seen(index);
        // An object with extents or copies, or one whose key a program asks for, is unlinked first
        // by a step of its own.
        let has_more = before.is_large() || before.sharing() != Sharing::None || self.removals.is_on();
        if before.is_live() && has_more {
            let evicted = self.unlink(op, slot, before, Some(Cause::Evicted)).await?;
            self.stats.evictions.add(u64::from(evicted));
            self.stats.evictions_index.add(u64::from(evicted));
            return Ok(false);
        }
        assert!(!before.is_frozen(), "an insertion begins in a settled bucket");
        self.groups.borrow_mut().aim(place, self.home_slot(hash, slot));
        let word = self.encode(op, hash, key, value, new, place).in_place_of(before);
        let address = self.slot_at(slot);
        let certain = self.is_open(Hole::DuplicateKey);
        let first = if certain { word } else { word.pending() };
        let (at, record) = self.outgoing_record(op, place);
        let is_in_order = self.is_in_order(at, address);
        let record = if is_in_order { record } else { Box::pin(self.write_first(at, record)).await? };
        let mut batch = Batch::new();
        let written = Earlier::add(&mut batch, at, record, is_in_order);
        let swap = batch.compare_and_swap(address, before.0, first.0);
        let begun_ns = self.client.endpoint.now_ns();
        let read = self.add_bucket_read(op, &mut batch);
        new.extents.begin();
        let posted = self.client.endpoint.post(&mut batch).await;
        new.extents.note_posted(&posted);
        posted?;
        op.outgoing = written.take(&mut batch);
        op.bucket = batch.take(read);
        if !batch.swapped(swap) {
            return Ok(false);
        }
        if before.is_live() {
            self.evict_displaced(before).await?;
        }
        if !self.has_settled(op, hash) {
            // The split withdraws the insertion, or has done so.
            self.swap_slot(slot, first, first.emptied()).await?;
            return Ok(false);
        }
        self.growth.note_load(op.notes.bucket, op.seen_words());
        let published =
            certain || publish_pending(self, op, (hash, key), slot, (word.pending(), word), begun_ns).await?;
        if !published {
            return Ok(false);
        }
        self.learn(key, Known::of(slot, word, &Header { number: place.number, ..new.header }), begun_ns);
        // An insertion in a live object's place adds one object and removes one.
        self.limit.note_inserted(op);
        self.client.count_objects(1).await?;
        Ok(true)
    }

    /// Accounts for an object that an inserter evicted by reusing its slot.
    async fn evict_displaced(&self, before: Slot) -> Result<(), CacheError> {
        self.stats.evictions.add(1);
        self.stats.evictions_index.add(1);
        self.count_removed(1).await?;
        if let Some((_, bytes, chunk)) = self.record_span(before) {
            self.count_dead(chunk, bytes as u64);
        }
        Ok(())
    }
}
