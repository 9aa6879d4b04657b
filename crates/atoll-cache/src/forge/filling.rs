//! How a client fills and closes groups, and counts dead bytes in them.
//!
//! | step | verbs |
//! |---|---|
//! | begin a group | none: the chunk is in stock |
//! | publish a record in it | see `insert`, `update` |
//! | queue it, when it is closed and all its places are settled | in one batch WRITE the map, WRITE descriptor words 1 and 3, CAS Open -> Queued; then enqueue (see `ring`) |
//! | count a dead record | FAA descriptor word 2, not awaited |

use super::Forge;
use super::group::Contents;
use super::layout::Queue;
use super::nodes::Earlier;
use super::open_groups::{ClosedGroup, Fate, OpenGroup, Place};
use super::ring::Node;
use super::slot::{KeyHash, UNIT_BYTES};
use super::technique::Technique;
use crate::CacheError;
use crate::record::Header;
use atoll_fabric::purpose::Scope;
use atoll_fabric::{Batch, Endpoint, Intent, Purpose};
use atoll_pool::{Chunk, ChunkId, ChunkState};

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Whether the group that is filled for `queue` has room for a record of so many bytes.
    pub(super) fn has_room(&self, queue: Queue, record_bytes: u64) -> bool {
        self.has_room_for(queue, (1, record_bytes))
    }

    /// The same for so many records, which have so many bytes together.
    pub(super) fn has_room_for(&self, queue: Queue, records: (u32, u64)) -> bool {
        self.groups.borrow().has_room(queue, records, &self.client.pool.settings)
    }

    /// Allocates the next place of the group that is filled for `queue`, if it has room.
    pub(super) fn take_place(
        &self,
        queue: Queue,
        (slot, hash): (u64, KeyHash),
        carry: u8,
        header: &Header,
    ) -> Option<Place> {
        let format = (&self.client.pool.settings, self.shared.format);
        let place = self.groups.borrow_mut().take_place(queue, (slot, hash), carry, header, format)?;
        // The next record will most likely be as long. Its memory is in no processor's cache: no
        // client has touched it for long.
        let record_bytes = header.record_bytes();
        let next = self.client.pool.layout.chunk(place.chunk).add(place.offset_bytes + record_bytes);
        self.client.endpoint.expect(next, record_bytes, Intent::Write);
        Some(place)
    }

    /// Settles a place.
    #[inline]
    pub(super) fn settle_place(&self, place: &Place, header: &Header, fate: Fate) {
        let dead_bytes = self.groups.borrow_mut().settle(place, header, fate);
        if dead_bytes > 0 {
            self.note_died(dead_bytes);
        }
    }

    /// Closes the group that is filled for `queue`, which has no room, and begins to fill a chunk.
    /// The other operations of this client find room there while this one queues the closed group,
    /// unless that is done beside them.
    pub(super) async fn open_group(&self, queue: Queue, chunk: (ChunkId, u32)) -> Result<(), CacheError> {
        self.groups.borrow_mut().open_next(queue, chunk);
        self.stock.wants_next.set(true);
        if self.is_attended.get() && !self.is_evictor() {
            return Ok(());
        }
        self.queue_settled_groups().await
    }

    /// Closes the group that is filled for `queue`. The client queues it when all its places are
    /// settled. A group without objects is put back into the stock.
    pub async fn close_group(&self, queue: Queue, segment: u8) -> Result<(), CacheError> {
        self.groups.borrow_mut().close(queue, segment);
        self.queue_settled_groups().await
    }

    /// Queues the closed groups whose places are all settled.
    pub(super) async fn queue_settled_groups(&self) -> Result<(), CacheError> {
        loop {
            let Some(closed) = self.groups.borrow_mut().take_settled() else { return Ok(()) };
            // The purpose is eviction: a group is queued so that it can be evicted.
            let before = self.client.endpoint.purpose(Purpose::Eviction);
            let queued = self.queue_closed(closed).await;
            self.client.endpoint.purpose(before);
            queued?;
        }
    }

    async fn queue_closed(&self, ClosedGroup { queue, segment, mut group }: ClosedGroup) -> Result<(), CacheError> {
        if group.map.is_empty() {
            self.stock.chunks.push((group.chunk, group.generation));
        } else {
            let open = Chunk::owned(ChunkState::Open, self.client.me(), group.generation);
            self.queue_group(queue, segment, &mut group, open).await?;
        }
        self.groups.borrow_mut().keep_memory(group);
        Ok(())
    }

    /// Writes the map of a group whose chunk this client owns in state `from`, and queues the
    /// group.
    pub(super) async fn queue_group(
        &self,
        queue: Queue,
        segment: u8,
        group: &mut OpenGroup,
        from: Chunk,
    ) -> Result<(), CacheError> {
        assert!(
            matches!(from.state, ChunkState::Open | ChunkState::Leaving),
            "a client queues a group that it has filled or emptied"
        );
        let record = self.technique.group_record(self, group);
        let now_ms = match group.expiries.is_empty() {
            true => 0,
            false => {
                let now_ns = self.client.endpoint.now_ns();
                self.client.pool_ms(now_ns).await?
            }
        };
        let layout = &self.client.pool.layout;
        let mut map = self.spares.take(8 * group.map.len());
        for (word, entry) in map.words_mut().iter_mut().rev().zip(&group.map) {
            *word = entry.word();
        }
        let descriptor = layout.descriptor(group.chunk);
        let used_units = (group.used_bytes / UNIT_BYTES) as u16;
        let contents = Contents { objects: group.map.len() as u16, queue, used_units };
        let at = layout.chunk(group.chunk).add(layout.chunk_bytes - 8 * group.map.len() as u64);
        let is_in_order = self.is_in_order(at, descriptor);
        let map = if is_in_order { map } else { Box::pin(self.write_first(at, map)).await? };
        let mut batch = Batch::new();
        let written = Earlier::add(&mut batch, at, map, is_in_order);
        batch.write_word(layout.contents(group.chunk), contents.word());
        batch.write_word(layout.note(group.chunk), group.expiry(now_ms).word());
        if let Some((at, words)) = record {
            batch.write(at, words);
        }
        // A repairer may have READ the group before, and be about to take it over.
        let queued = match from.state {
            ChunkState::Leaving => from.back(ChunkState::Queued),
            _ => Chunk { state: ChunkState::Queued, ..from },
        };
        // The verbs after a WRITE are in order, so a client that finds the group queued finds its
        // map.
        let swap = batch.compare_and_swap(descriptor, from.word(), queued.word());
        self.client.endpoint.post(&mut batch).await?;
        self.spares.keep(written.take(&mut batch));
        if !batch.swapped(swap) {
            return Err(CacheError::Damaged { what: "another client changed the state of a group" });
        }
        if group.dead_bytes > 0 {
            self.mark_dead(group.chunk, group.dead_bytes);
        }
        self.note_died(self.unused_bytes(contents));
        let node = Node { chunk: group.chunk, generation: group.generation as u16, segment };
        self.enqueue(queue, node).await
    }

    /// Closes groups that have no room for another object, so that they need not wait for the next
    /// write to be queued. Returns whether there are closed groups.
    pub(super) fn close_full_groups(&self) -> bool {
        let settings = &self.client.pool.settings;
        // Extents cannot be evicted while their record's group is open. All clients together may
        // hold at most a sixteenth of the pool that way.
        let held_max = self.client.pool.layout.heap_bytes() / 16 / u64::from(settings.clients_max);
        let mut groups = self.groups.borrow_mut();
        for queue in Queue::ALL {
            let is_full = groups.filled(queue).is_some_and(|group| {
                group.map.len() >= settings.group_objects_max as usize || group.extent_bytes > held_max
            });
            if is_full {
                groups.close(queue, 0);
            }
        }
        groups.is_closing()
    }

    /// Counts bytes of a group that no slot points to any more. The count is a hint for cleaning:
    /// it may land after the group was evicted.
    pub(super) fn count_dead(&self, chunk: ChunkId, bytes: u64) {
        self.note_died(bytes);
        if let Some(group) = self.groups.borrow_mut().of_chunk(chunk) {
            group.dead_bytes += bytes;
            return;
        }
        self.mark_dead(chunk, bytes);
    }

    /// Adds dead bytes to a group's descriptor.
    fn mark_dead(&self, chunk: ChunkId, bytes: u64) {
        let layout = &self.client.pool.layout;
        let Some(counted) = self.cleaning.borrow_mut().counted_bytes(bytes, layout.chunk_bytes) else { return };
        let mut batch = Batch::new();
        batch.fetch_and_add(layout.dead_bytes(chunk), counted);
        let _scope = Scope::new(&self.client.endpoint, Purpose::Collection);
        self.client.endpoint.post_unawaited(&mut batch);
    }
}
