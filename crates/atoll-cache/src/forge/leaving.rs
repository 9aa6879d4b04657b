//! How a group leaves its queue: the client evicts or moves its objects, and reuses its chunk.
//!
//! | step | verbs | if the client stops here |
//! |---|---|---|
//! | find the ring node | FAA head; READ node; READ descriptor, fenced READ of the node | the node is found one lap later, or by a repair |
//! | own the chunk | CAS Queued -> Leaving | the chunk names its owner |
//! | empty the node | CAS node | the same; the node is stale |
//! | judge | READ map and frequencies; READ the slots, if much of the group is dead | |
//! | move the objects that stay | READ records; WRITE copies, CAS slots -> copies: see `moving` | each object is in its old place or its new one |
//! | unlink the evicted objects | CAS slot -> ghost or empty | each object is gone or still there |
//! | reuse | READ protections; CAS Leaving -> Open, next generation | |
//!
//! The map determines the word of a slot that points into the group (see `group`). If few bytes are
//! counted as dead, the evictor swaps every slot from that word. A swap that fails shows a dead
//! object. An atomic costs a NIC about four READs. So if a quarter or more is dead, the evictor
//! READs the slots first. A cleaner always READs them: a dead object that it copied would be dead
//! in its next group.
//!
//! A split of a bucket may move an object to another slot meanwhile. So the client READs the size
//! of the index when it owns the group, and again at the end. It looks once more for the objects
//! whose slots have moved in between.
//!
//! The client leaves a slot alone that no longer points into the group. It reuses the chunk only
//! when every slot is unlinked and no operation protects the chunk. Until then the chunk waits in
//! this client's stock. The client frees the extents of evicted large objects at once: a reader
//! finds the slot changed, or another checksum.

use super::group::{Contents, MapEntry};
use super::layout::Queue;
use super::nodes::Earlier;
use super::ring::{Head, Node};
use super::slot::{KeyHash, RecordLength, Slot, UNIT_BYTES};
use super::technique::Technique;
use super::{Forge, Hole, Rule};
use crate::CacheError;
use crate::extent::turns::Turn;
use crate::index::copies::{self, Sharing};
use crate::index::directory::Size;
use crate::index::split::{self, SplitWord};
use crate::index::{ATTEMPTS_MAX, Index, SlotWord, bucket_of_slot};
use crate::post_together;
use crate::record::Record;
use crate::removals::{Cause, Removal};
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Intent};
use atoll_pool::chunks::{self, Descriptor};
use atoll_pool::{Chunk, ChunkId, ChunkState};

/// If one part in so many of a group is dead, the evictor READs the slots before it swaps them.
const DEAD_READ_ONE_IN: u64 = 4;

/// An object of a group that leaves its queue.
#[derive(Clone, Copy, Debug)]
pub struct Leaver {
    pub(super) entry: MapEntry,
    /// The word of its slot, READ or derived from the map, if it points to the object. Otherwise
    /// the object is dead.
    pub word: Option<Slot>,
    /// The frequency that it brought along, plus the accesses since.
    pub frequency: u16,
    /// Whether it is moved to another group. Otherwise it is unlinked.
    pub stays: bool,
    /// The frequency that it carries to its next group, if it stays.
    pub carry: u8,
}

/// In which groups the client READs the slots before it swaps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// In groups much of which is dead. If nothing stays, a swap that fails costs no more than a
    /// READ that finds a dead object.
    IfManyDead,
    /// In groups in which at least so many bytes are counted as dead.
    IfDead(u64),
    /// In all groups: a dead object must not be copied.
    Always,
}

/// A group that leaves its queue. This client owns it.
pub struct LeavingGroup {
    pub(super) chunk: ChunkId,
    pub(super) state: Chunk,
    /// The queue that it was in.
    pub queue: Queue,
    /// Its objects, in the order in which they were written.
    pub objects: Vec<Leaver>,
    /// Bytes that were counted as dead in it.
    pub(super) dead_bytes: u64,
    /// Bytes of its chunk that no live object uses, as far as its owner knows.
    reclaimable: u64,
    /// Whether the slots were READ, so that every object with a word is alive.
    pub(super) is_known: bool,
    /// The size of the index by which the objects' slots were found.
    size: Size,
    /// All of the chunk, if it was READ whole; else empty.
    pub(super) bytes: Buffer,
}

/// The parts that a client READ of a group that it owns.
pub struct LeavingParts {
    /// Each object's entry of the map, and the word of its slot, READ or derived, if it points to
    /// the object.
    pub entries: Vec<(MapEntry, Option<Slot>)>,
    /// Whether the slots were READ.
    pub is_known: bool,
    /// All of the chunk, or nothing.
    pub bytes: Buffer,
}

impl LeavingGroup {
    pub(super) fn live(&self) -> impl Iterator<Item = &Leaver> {
        self.objects.iter().filter(|leaver| leaver.word.is_some())
    }

    /// Whether this client knows of no dead object in it.
    pub(super) fn is_alive(&self) -> bool {
        self.objects.iter().all(|leaver| leaver.word.is_some()) && (self.is_known || self.dead_bytes == 0)
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Owns the group of a node that was found at a queue's head, READs its map and frequencies,
    /// and empties the node. `None` if the node was stale, or if the group was put back because of
    /// its segment.
    pub(super) async fn take_group(
        &self,
        queue: Queue,
        head: Head,
        slots: Slots,
    ) -> Result<Option<LeavingGroup>, CacheError> {
        let owned = self.own_head(queue, &head, slots).await?;
        // The group is this client's, or the node is stale: either way the node is not needed any
        // more.
        self.empty_node(queue, head.position, head.word).await?;
        let Some(mut group) = owned else { return Ok(None) };
        group.queue = queue;
        if head.node.segment == 0 {
            return Ok(Some(group));
        }
        group.objects.iter_mut().for_each(|leaver| leaver.carry = leaver.entry.carry);
        self.put_back(group, queue, head.node.segment - 1).await?;
        Ok(None)
    }

    async fn own_head(&self, queue: Queue, head: &Head, slots: Slots) -> Result<Option<LeavingGroup>, CacheError> {
        let Head { node, position, .. } = *head;
        if self.client.pool.layout.checked_chunk(node.chunk.0).is_none() && !self.is_open(Hole::UnknownNode) {
            self.client.learn_nodes().await?;
        }
        if self.client.pool.layout.checked_chunk(node.chunk.0).is_none() {
            return Ok(None);
        }
        // A repairer that finds the node behind the head takes the group over, empties the node and
        // queues the group again by another node. A late dequeuer must not own the group by the old
        // node: the group would have two nodes when it is put back. The repairer empties the old
        // node before the descriptor is Queued again. So if a node that is READ after the
        // descriptor is unchanged, it is the node of the group in the descriptor.
        let mut batch = Batch::new();
        let mut words = Buffer::new();
        words.resize(Descriptor::BYTES as usize);
        let descriptor = batch.read(self.client.pool.layout.descriptor(node.chunk), words);
        let standing = batch.read_word(self.node_address(queue, position));
        batch.fence();
        self.client.endpoint.post(&mut batch).await?;
        let is_standing = batch.word(standing) == head.word || self.is_open(Hole::LateDequeuer);
        let descriptor = Descriptor::from_words(batch.take(descriptor).words());
        let Some(queued) = descriptor.chunk.filter(|_| is_standing) else { return Ok(None) };
        let stale = queued.state != ChunkState::Queued
            || (queued.generation as u16 != node.generation && !self.is_open(Hole::StaleNode));
        if stale {
            return Ok(None);
        }
        let objects = self.group_objects(descriptor.contents).unwrap_or(0);
        let frequencies = self.take_frequencies(queue, position, node.chunk, node.generation, objects).await?;
        self.own_group(node.chunk, descriptor, frequencies, slots).await
    }

    /// The number of a group's objects, if it is possible.
    pub fn group_objects(&self, contents: u64) -> Option<usize> {
        let objects = usize::from(Contents::from_word(contents).objects);
        let settings = &self.client.pool.settings;
        let possible = objects <= settings.group_objects_max as usize && 8 * objects <= settings.chunk_bytes as usize;
        possible.then_some(objects)
    }

    /// Makes a queued chunk this client's, and READs its map and its objects' slots.
    pub async fn own_group(
        &self,
        chunk: ChunkId,
        descriptor: chunks::Descriptor,
        mut frequencies: Vec<u16>,
        slots: Slots,
    ) -> Result<Option<LeavingGroup>, CacheError> {
        let Some(queued) = descriptor.chunk else { return Ok(None) };
        let layout = self.client.pool.layout.clone();
        let leaving = Chunk::owned(ChunkState::Leaving, self.client.me(), queued.generation);
        // The words of the descriptor were READ in any order, perhaps while its owner closed the
        // group. Only words that are READ after the swap are sure to be the group's: an atomic
        // orders a READ behind it.
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(layout.descriptor(chunk), queued.word(), leaving.word());
        let contents = batch.read_word(layout.contents(chunk));
        let dead_bytes = batch.read_word(layout.dead_bytes(chunk));
        let grows = self.growth.directory.grows();
        let splits = grows.then(|| batch.read_word(self.shared.layout.splits()));
        self.client.endpoint.post(&mut batch).await?;
        if !batch.swapped(swap) {
            return Ok(None);
        }
        let splits = splits.map(|splits| batch.word(splits));
        let (contents, dead_bytes) = (batch.word(contents), batch.word(dead_bytes));
        if let Some(splits) = splits {
            split::note(self, splits).await?;
        }
        let size = self.growth.directory.size();
        let (contents_word, contents) = (contents, Contents::from_word(contents));
        let Some(objects) = self.group_objects(contents_word) else {
            // The contents word is damaged. The client finds the group's objects by their records
            // instead.
            Box::pin(self.settle_chunk(chunk, leaving)).await?;
            return Ok(None);
        };
        frequencies.resize(objects, 0);
        let parts = match self.technique.read_group(self, chunk, leaving.generation, objects).await? {
            Some(parts) => parts,
            None => self.read_map(chunk, leaving.generation, contents, dead_bytes, slots).await?,
        };
        if dead_bytes != 0 {
            // Subtracted, not cleared: another client may add to it.
            let mut batch = Batch::new();
            batch.fetch_and_add(layout.dead_bytes(chunk), dead_bytes.wrapping_neg());
            self.client.endpoint.post_unawaited(&mut batch);
        }
        let leavers = parts.entries.into_iter().zip(frequencies).map(|((entry, word), hits)| {
            let frequency = hits.saturating_add(u16::from(entry.carry));
            Leaver { entry, word, frequency, stays: false, carry: 0 }
        });
        let objects: Vec<_> = leavers.collect();
        let LeavingParts { is_known, bytes, .. } = parts;
        let live: u64 = objects.iter().filter_map(|leaver| leaver.word).map(|word| word.length().bytes()).sum();
        let used_bytes = contents.used_bytes(layout.chunk_bytes);
        let dead = if is_known { used_bytes.saturating_sub(live) } else { dead_bytes.min(used_bytes) };
        let reclaimable = dead + self.unused_bytes(contents);
        Ok(Some(LeavingGroup {
            chunk,
            state: leaving,
            queue: contents.queue,
            objects,
            dead_bytes,
            reclaimable,
            is_known,
            size,
            bytes,
        }))
    }

    /// READs the map of a group that this client owns. READs its objects' slots too, if much is
    /// dead or the caller asks for it.
    async fn read_map(
        &self,
        chunk: ChunkId,
        generation: u32,
        contents: Contents,
        dead_bytes: u64,
        slots: Slots,
    ) -> Result<LeavingParts, CacheError> {
        let layout = &self.client.pool.layout;
        let objects = usize::from(contents.objects);
        let map = self.spares.take(8 * objects);
        let at = layout.chunk(chunk).add(layout.chunk_bytes - 8 * objects as u64);
        let map = self.client.endpoint.read(at, map).await?;
        let mut entries: Vec<_> =
            map.words().iter().rev().map(|word| (MapEntry::from_word(*word), None::<Slot>)).collect();
        self.spares.keep(map);
        // The paper's rule judges groups by how many of their objects are alive.
        let few_dead = match slots {
            Slots::IfManyDead => dead_bytes < contents.used_bytes(layout.chunk_bytes) / DEAD_READ_ONE_IN,
            // A count below zero or far beyond a chunk is wrong.
            Slots::IfDead(least) => dead_bytes < least || dead_bytes > 2 * layout.chunk_bytes,
            Slots::Always => false,
        };
        let is_known = !few_dead
            || self.shared.settings.options.rule == Rule::Paper
            || !self.expect_words(&mut entries, chunk, generation, contents);
        let homes_end = self.homes_end();
        let mut looked = Vec::new();
        for pair in entries.iter_mut().filter(|(entry, _)| is_known || entry.reused) {
            pair.1 = None;
            if pair.0.slot < homes_end {
                looked.push(pair);
            }
        }
        let read = |(entry, _): &&mut (MapEntry, Option<Slot>)| self.slot_at(self.slot_of_home(entry.slot));
        let words = post_together::read_words(&self.client.endpoint, looked.iter().map(read)).await?;
        for ((entry, found), word) in looked.iter_mut().zip(words) {
            let word = Slot(word);
            if self.points_to(word, chunk, generation, entry) {
                *found = self.warm_word((chunk, generation), entry, word).await?;
            }
        }
        Ok(LeavingParts { entries, is_known, bytes: Buffer::new() })
    }

    /// Fills in the words that the slots have while they point to the group's objects. `false` if
    /// no client can have written such a map.
    fn expect_words(
        &self,
        entries: &mut [(MapEntry, Option<Slot>)],
        chunk: ChunkId,
        generation: u32,
        contents: Contents,
    ) -> bool {
        let (size, homes_end) = (self.growth.directory.size(), self.homes_end());
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        let mut end = u64::from(contents.used_units) * UNIT_BYTES;
        let mut is_sound = end <= chunk_bytes;
        for (entry, word) in entries.iter_mut().rev() {
            let begin = u64::from(entry.offset_units) * UNIT_BYTES;
            is_sound &= begin < end && entry.slot < homes_end;
            if !is_sound {
                break;
            }
            let length = if entry.large { RecordLength::LARGE } else { RecordLength::of(end - begin) };
            let heap_offset = u64::from(chunk.0) * chunk_bytes + begin;
            let live =
                self.shared.format.live(entry.fingerprint, length, heap_offset, self.shared.format.tag(generation));
            *word = Some(live.moved_to(size.depth(bucket_of_slot(size.slot_of_home(entry.slot)))));
            end = begin;
        }
        is_sound
    }

    /// The word, if it points to the entry's object in a group that leaves its queue.
    pub(super) fn word_here(&self, word: Slot, group: &LeavingGroup, entry: &MapEntry) -> Option<Slot> {
        self.points_to(word, group.chunk, group.state.generation, entry).then_some(word)
    }

    /// The word of the slot of an entry's object, once its bucket is not being split. The slot had
    /// the word `seen`. `None` if the word does not point to the object any more.
    pub(super) async fn warm_word(
        &self,
        (chunk, generation): (ChunkId, u32),
        entry: &MapEntry,
        seen: Slot,
    ) -> Result<Option<Slot>, CacheError> {
        let word = if seen.is_frozen() { Box::pin(self.settled_word(entry)).await? } else { seen };
        Ok(self.points_to(word, chunk, generation, entry).then_some(word))
    }

    /// The word of an entry's slot now. Its bucket is not being split. The depth of the word shows
    /// that the slot has not moved.
    async fn settled_word(&self, entry: &MapEntry) -> Result<Slot, CacheError> {
        for _ in 0..ATTEMPTS_MAX {
            let slot = self.slot_of_home(entry.slot);
            let bucket = bucket_of_slot(slot);
            let word = self.slot_word(slot).await?;
            let size = self.growth.directory.size();
            if size.slot_of_home(entry.slot) == slot && word.depth() == size.depth(bucket) {
                return Ok(word);
            }
            Box::pin(split::settle(self, bucket)).await?;
        }
        Err(CacheError::Damaged { what: "a bucket that is never settled" })
    }

    /// Of a group's objects, those whose slots a split has moved since this client found them, and
    /// that still point to the group.
    async fn moved_objects(&self, group: &mut LeavingGroup, objects: &[Leaver]) -> Result<Vec<Leaver>, CacheError> {
        self.learn_buckets().await?;
        let now = self.growth.directory.size();
        let before = std::mem::replace(&mut group.size, now);
        let mut moved = Vec::new();
        for leaver in objects {
            let home = leaver.entry.slot;
            if before == now || home >= self.homes_end() || before.slot_of_home(home) == now.slot_of_home(home) {
                continue;
            }
            let word = self.settled_word(&leaver.entry).await?;
            let word = self.word_here(word, group, &leaver.entry);
            moved.extend(word.map(|word| Leaver { word: Some(word), ..*leaver }));
        }
        Ok(moved)
    }

    /// Whether a slot's word points to the entry's object.
    pub fn points_to(&self, word: Slot, chunk: ChunkId, generation: u32, entry: &MapEntry) -> bool {
        self.is_at(word, chunk, entry) && self.shared.format.has_generation(word, generation)
    }

    /// Puts a whole group into a queue again, with the frequencies that its objects carry.
    pub(super) async fn put_back(&self, group: LeavingGroup, queue: Queue, segment: u8) -> Result<(), CacheError> {
        self.stats.groups_reinserted.add(1);
        let layout = self.client.pool.layout.clone();
        let queued = group.state.back(ChunkState::Queued);
        let at = layout.chunk(group.chunk).add(layout.chunk_bytes - 8 * group.objects.len() as u64);
        let descriptor = layout.descriptor(group.chunk);
        let is_in_order = self.is_in_order(at, descriptor);
        let map = match self.remake_map(&group, at).await? {
            Some(map) if !is_in_order => Some(Box::pin(self.write_first(at, map)).await?),
            map => map,
        };
        let mut batch = Batch::new();
        let written = map.map(|map| Earlier::add(&mut batch, at, map, is_in_order));
        let swap = batch.compare_and_swap(descriptor, group.state.word(), queued.word());
        self.client.endpoint.post(&mut batch).await?;
        if let Some(written) = written {
            self.spares.keep(written.take(&mut batch));
        }
        if !batch.swapped(swap) {
            return Err(CacheError::Damaged { what: "another client changed the state of a leaving group" });
        }
        if group.dead_bytes > 0 {
            // The owner subtracted the count when it took the group. The dead bytes are still
            // there.
            let mut batch = Batch::new();
            batch.fetch_and_add(layout.dead_bytes(group.chunk), group.dead_bytes);
            self.client.endpoint.post_unawaited(&mut batch);
        }
        let node = Node { chunk: group.chunk, generation: group.state.generation as u16, segment };
        self.enqueue(queue, node).await
    }

    /// The map of a group, at `at`, with the frequencies that its objects carry. `None` if the map
    /// must stay as it is: a client that protects the chunk may write an entry meanwhile.
    async fn remake_map(&self, group: &LeavingGroup, at: Address) -> Result<Option<Buffer>, CacheError> {
        let bytes = 8 * group.objects.len();
        let may_differ = self.has_vacancies_in(group.chunk) && !self.is_open(Hole::OverwrittenEntry);
        if may_differ && !self.client.protected_among(&[group.chunk]).await?.is_empty() {
            return Ok(None);
        }
        let mut map = self.spares.take(bytes);
        if may_differ {
            map = self.client.endpoint.read(at, map).await?;
        }
        for (word, leaver) in map.words_mut().iter_mut().rev().zip(&group.objects) {
            // The entry that a client has written since is that of a record in the same place.
            if !may_differ || MapEntry::from_word(*word) == leaver.entry {
                *word = MapEntry { carry: leaver.carry, ..leaver.entry }.word();
            }
        }
        Ok(Some(map))
    }

    /// Moves the objects that stay to the open group of `to`, unlinks the rest, and takes the chunk
    /// into the stock.
    pub async fn empty_group(&self, mut group: LeavingGroup, to: Queue) -> Result<(), CacheError> {
        if self.is_open(Hole::EarlyReuse) {
            self.release_chunk(&group, &group.objects).await?;
        }
        let objects = std::mem::take(&mut group.objects);
        let mut leavers = objects.clone();
        while !leavers.is_empty() {
            let mut again = Vec::new();
            if leavers.iter().any(|leaver| leaver.stays) {
                again = Box::pin(self.move_objects(&group, &mut leavers, to)).await?;
            }
            leavers.retain(|leaver| !leaver.stays && leaver.word.is_some());
            if !leavers.is_empty() {
                again.extend(self.unlink_leavers(&group, &leavers).await?);
            }
            if again.is_empty() && self.growth.directory.grows() {
                again = Box::pin(self.moved_objects(&mut group, &objects)).await?;
            }
            leavers = again;
        }
        self.note_reclaimed(group.reclaimable);
        split::thaw_last(self).await?;
        if !self.is_open(Hole::EarlyReuse) {
            self.release_chunk(&group, &objects).await?;
        }
        Ok(())
    }

    /// Swaps the slots of objects that do not stay to empty, or to ghosts. Returns the objects
    /// whose slots point here with another word than expected. Their bucket was split meanwhile, or
    /// the expected word was derived from a map to which something else than a client wrote.
    async fn unlink_leavers(&self, group: &LeavingGroup, leavers: &[Leaver]) -> Result<Vec<Leaver>, CacheError> {
        let leave_ghosts = self.leaves_ghosts(group.queue);
        let has_copies = |leaver: &Leaver| leaver.word.is_some_and(|word| word.sharing() != Sharing::None);
        let (closed, mut mistaken) = match leavers.iter().any(has_copies) {
            true => Box::pin(self.close_leavers(group, leavers)).await.map(|(closed, rest)| (Some(closed), rest))?,
            false => (None, Vec::new()),
        };
        let leavers = closed.as_deref().unwrap_or(leavers);
        let mut turn = Turn::of_writer(&self.client);
        for part in leavers.chunks(BATCH_VERBS_MAX) {
            // In near memory, the swaps wait for it one after the other, unless it is prefetched.
            for leaver in part {
                let slot = self.slot_at(self.slot_of_home(leaver.entry.slot));
                self.client.endpoint.expect(slot, 8, Intent::Write);
            }
            let mut extents = Vec::new();
            for leaver in part.iter().filter(|leaver| leaver.word.is_some_and(Slot::is_large)) {
                extents.push(self.leaving_extents(leaver).await?);
            }
            let mut extents = extents.into_iter();
            // Before the swaps: behind them a repairer may free the extents that name a key.
            let mut noted = Vec::new();
            if self.removals.is_on() {
                for leaver in part {
                    noted.push(Box::pin(self.removal_of_leaver(group, leaver)).await?);
                }
            }
            let mut batch = Batch::new();
            let swaps: arrayvec::ArrayVec<_, BATCH_VERBS_MAX> = part
                .iter()
                .map(|leaver| {
                    let word = leaver.word.expect("an object that is unlinked has a slot");
                    assert!(!word.is_frozen(), "no client changes a frozen slot");
                    let hash = KeyHash::of_parts(word.fingerprint(), leaver.entry.more);
                    let after = if leave_ghosts { Slot::ghost(hash, self.ghosts.position_now()) } else { Slot::EMPTY };
                    let slot = self.slot_at(self.slot_of_home(leaver.entry.slot));
                    batch.compare_and_swap(slot, word.0, after.in_place_of(word).0)
                })
                .collect();
            self.client.endpoint.post(&mut batch).await?;
            let mut removed = 0;
            for (index, (leaver, swap)) in part.iter().zip(swaps).enumerate() {
                let extents = leaver.word.filter(|word| word.is_large()).and_then(|_| extents.next().flatten());
                if !batch.swapped(swap) {
                    mistaken.extend(self.still_here(group, leaver, Slot(batch.word(swap))).await?);
                    continue;
                }
                removed += 1;
                self.removals.note_read(noted.get_mut(index).and_then(Option::take));
                if let Some(extents) = extents {
                    self.extent_io().free_extents(&extents).await?;
                    // A group may have hundreds of large objects.
                    turn.changed(extents.all().count()).await;
                }
            }
            self.stats.evictions.add(removed);
            if removed > 0 {
                self.count_removed(removed).await?;
            }
        }
        Ok(mistaken)
    }

    /// The same object with the word that its slot has now, if it is still the group's. The slot
    /// had the word `seen`.
    async fn still_here(
        &self,
        group: &LeavingGroup,
        leaver: &Leaver,
        seen: Slot,
    ) -> Result<Option<Leaver>, CacheError> {
        let mut word = self.word_here(seen, group, &leaver.entry);
        if word.is_some() {
            word = self.warm_word((group.chunk, group.state.generation), &leaver.entry, seen).await?;
        }
        Ok(word.map(|word| Leaver { word: Some(word), ..*leaver }))
    }

    /// Ends the copies of objects that leave. Returns them with the words that their slots have
    /// then, and those whose slots have changed.
    async fn close_leavers(
        &self,
        group: &LeavingGroup,
        leavers: &[Leaver],
    ) -> Result<(Vec<Leaver>, Vec<Leaver>), CacheError> {
        let (mut closed, mut mistaken) = (Vec::with_capacity(leavers.len()), Vec::new());
        for leaver in leavers {
            let (slot, word) = (self.slot_of_home(leaver.entry.slot), leaver.word.unwrap_or(Slot::EMPTY));
            match copies::closed(self, slot, word).await? {
                Some(word) => closed.push(Leaver { word: Some(word), ..*leaver }),
                None => {
                    let seen = self.slot_word(slot).await?;
                    mistaken.extend(self.still_here(group, leaver, seen).await?);
                }
            }
        }
        Ok((closed, mistaken))
    }

    /// What is to be noted of an object that this client is about to evict with a group. Its record
    /// lies in the group's chunk.
    async fn removal_of_leaver(
        &self,
        group: &LeavingGroup,
        leaver: &Leaver,
    ) -> Result<Option<Box<Removal>>, CacheError> {
        let Some((word, (at, bytes, _))) = leaver.word.and_then(|word| Some((word, self.record_span(word)?))) else {
            return Ok(None);
        };
        let mut record = self.spares.take(bytes);
        let begin = leaver.entry.offset_units as usize * UNIT_BYTES as usize;
        match group.bytes.bytes().get(begin..begin + bytes) {
            Some(read) => record.bytes_mut().copy_from_slice(read),
            None => record = self.client.endpoint.read(at, record).await?,
        }
        let removal = self.removal_in(word, &record, Cause::Evicted).await?;
        self.spares.keep(record);
        Ok(removal)
    }

    /// The extents of a large object in a group that this client owns.
    async fn leaving_extents(&self, leaver: &Leaver) -> Result<Option<crate::extent::Extents>, CacheError> {
        let Some(word) = leaver.word else { return Ok(None) };
        let Some((at, bytes, _)) = self.record_span(word) else { return Ok(None) };
        let mut buffer = Buffer::new();
        buffer.resize(bytes);
        let buffer = self.client.endpoint.read(at, buffer).await?;
        let record = Record::decode(&buffer, &self.shared.hasher, self.sealed_tag(self.shared.format.tag_of(word)));
        match record.and_then(|record| Some((record.header, record.large()?))) {
            Some((header, body)) => self.extent_io().extents(&header, &body).await,
            None => Ok(None),
        }
    }

    /// Takes an emptied chunk into the stock, or lets it wait if it is protected.
    async fn release_chunk(&self, group: &LeavingGroup, objects: &[Leaver]) -> Result<(), CacheError> {
        self.give_up_vacancies_in(group.chunk);
        let is_blind = self.is_open(Hole::Protection) || self.is_open(Hole::ProtectedRoom) && self.is_evictor();
        let is_protected = !is_blind && !self.client.protected_among(&[group.chunk]).await?.is_empty();
        if is_protected {
            self.stock.let_wait(group.chunk);
            return Ok(());
        }
        self.unlink_late(group.chunk, Some(objects)).await?;
        self.reuse_chunk(group.chunk, group.state).await
    }

    /// Before an emptied chunk is reused, which no operation protects any more: evicts what a
    /// client has published there since this one READ the slots, and has not copied, because it
    /// died. `known` are the objects as this client found them.
    pub(super) async fn unlink_late(&self, chunk: ChunkId, known: Option<&[Leaver]>) -> Result<(), CacheError> {
        if !self.has_vacancies_in(chunk) || self.is_open(Hole::ForgottenOrphans) {
            return Ok(());
        }
        let layout = self.client.pool.layout.clone();
        let objects = match known {
            Some(objects) => objects.len(),
            None => {
                let contents = atoll_pool::read_word(&self.client.endpoint, layout.contents(chunk)).await?;
                self.group_objects(contents).unwrap_or(self.client.pool.settings.group_objects_max as usize)
            }
        };
        let at = layout.chunk(chunk).add(layout.chunk_bytes - 8 * objects as u64);
        let map = self.client.endpoint.read(at, self.spares.take(8 * objects)).await?;
        // An object whose slot was READ, and that was alive then, is unlinked. Its place had no
        // other record since. Of an entry that is not `reused` the word may be derived.
        let was_alive = |number: usize, entry: &MapEntry| {
            let leaver = known.and_then(|known| known.get(number));
            leaver.is_some_and(|leaver| {
                (leaver.entry.reused && leaver.word.is_some())
                    && (leaver.entry.slot, leaver.entry.fingerprint) == (entry.slot, entry.fingerprint)
            })
        };
        let entries = map.words().iter().rev().copied().map(MapEntry::from_word).enumerate();
        let mut late = entries.filter(|(number, entry)| entry.reused && !was_alive(*number, entry)).peekable();
        if late.peek().is_some() {
            let late: Vec<MapEntry> = late.map(|(_, entry)| entry).collect();
            Box::pin(self.unlink_late_objects(chunk, late)).await?;
        }
        self.spares.keep(map);
        Ok(())
    }

    /// Evicts the objects of these entries whose slots point to their places.
    async fn unlink_late_objects(&self, chunk: ChunkId, mut late: Vec<MapEntry>) -> Result<(), CacheError> {
        self.learn_buckets().await?;
        let size = self.growth.directory.size();
        // Something else than a client may have written an entry.
        late.retain(|entry| entry.slot < self.homes_end());
        let slots = late.iter().map(|entry| self.slot_at(size.slot_of_home(entry.slot)));
        let words = post_together::read_words(&self.client.endpoint, slots).await?;
        for (entry, word) in late.iter().zip(words) {
            let (word, bucket) = (Slot(word), bucket_of_slot(size.slot_of_home(entry.slot)));
            let is_settled = !word.is_frozen() && word.depth() == size.depth(bucket);
            if !is_settled || self.is_at(word, chunk, entry) {
                self.unlink_late_object(chunk, entry).await?;
            }
        }
        Ok(())
    }

    /// Whether a slot's word points to an entry's place. In whatever generation: an owner that left
    /// the pool has queued the chunk in a new one.
    fn is_at(&self, word: Slot, chunk: ChunkId, entry: &MapEntry) -> bool {
        let offset =
            u64::from(chunk.0) * self.client.pool.layout.chunk_bytes + u64::from(entry.offset_units) * UNIT_BYTES;
        word.is_live() && self.shared.format.heap_offset(word) == offset
    }

    #[cold]
    async fn unlink_late_object(&self, chunk: ChunkId, entry: &MapEntry) -> Result<(), CacheError> {
        loop {
            let word = self.settled_word(entry).await?;
            let Some((at, bytes, _)) = self.record_span(word).filter(|_| self.is_at(word, chunk, entry)) else {
                return Ok(());
            };
            let mut noted = None;
            if self.removals.is_on() {
                let record = self.client.endpoint.read(at, self.spares.take(bytes)).await?;
                noted = self.removal_in(word, &record, Cause::Evicted).await?;
                self.spares.keep(record);
            }
            if copies::take_out(self, self.slot_of_home(entry.slot), word).await? {
                self.removals.note_read(noted);
                self.stats.evictions.add(1);
                return self.count_removed(1).await.map(drop);
            }
        }
    }
}
