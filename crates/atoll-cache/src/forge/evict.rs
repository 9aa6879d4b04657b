//! How room is made: a free chunk, or one from cleaning, or one from evicting the oldest group of a queue.
//!
//! Whoever needs a chunk does this itself; nobody waits for another client. The way of a group out of a queue:
//!
//! | step | verbs | if the client stops here |
//! |---|---|---|
//! | take the ring node | FAA head; CAS node | the group is in no queue, its chunk Queued |
//! | own the chunk | CAS Queued -> Leaving | the chunk names its owner |
//! | judge | READ map and frequencies; READ the slots | |
//! | unlink what goes | CAS slot -> ghost or empty | each object is gone or still there |
//! | move what stays | READ record; WRITE copy, CAS slot -> copy | each object is here or there |
//! | reuse | READ intents; CAS Leaving -> Open, next generation | |
//!
//! A slot that no longer points into the group belongs to somebody else and is left alone. The chunk is reused only when every slot was unlinked and no
//! intent names it; else it waits in this client's hands.
//!
//! Cleaning is the same way for a group of which a quarter is dead or expired, found by looking through the descriptors in turn, except
//! that everything live stays in its queue.

use super::group::{Contents, MapEntry};
use super::layout::{BUCKET_SLOTS, Queue};
use super::object::{self, Header, Record};
use super::ring::Node;
use super::slot::{KeyHash, RecordLength, Slot, UNIT_BYTES};
use super::{Forge, Hole, Rule};
use crate::CacheError;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks, registry};

/// A chunk that nothing points to, which waits until nobody protects `guard` any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) chunk: ChunkId,
    pub(super) guard: ChunkId,
}

/// Groups that one need for room goes through before it keeps only what is hot, and before it keeps nothing.
const EFFORT_HOT: u32 = 16;
const EFFORT_ALL: u32 = 48;
/// Tries, each after a pause, before a writer gives up because others hold everything.
const TRIES_MAX: u32 = 2_000;
/// Groups cleaned for each chunk that is needed: of those a quarter dead, so many give one chunk.
const CLEANS_MAX: u32 = 4;
/// Descriptors looked through for each chunk that is needed.
const CLEAN_LOOK: u32 = 32;

/// An object of a group that is on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaver {
    pub(super) entry: MapEntry,
    /// The word of its slot, if it points here; else the object is dead.
    pub(super) word: Option<Slot>,
    /// Frequency brought along and accesses since.
    pub(super) frequency: u16,
    pub(super) stays: bool,
    /// The frequency that it takes along, if it stays.
    pub(super) carry: u8,
}

/// A group on its way out, owned by this client.
pub(super) struct LeavingGroup {
    pub(super) chunk: ChunkId,
    pub(super) state: Chunk,
    pub(super) queue: Queue,
    pub(super) objects: Vec<Leaver>,
}

impl LeavingGroup {
    fn live(&self) -> impl Iterator<Item = &Leaver> {
        self.objects.iter().filter(|leaver| leaver.word.is_some())
    }
}

/// What came of an attempt to evict.
enum Evicted {
    /// Something was done.
    Progress,
    /// Both queues were empty.
    Nothing,
}

impl<E: Endpoint> Forge<E> {
    /// Fills the stock to `chunks`, and one more for objects that will be regrouped.
    pub(super) async fn restock(&mut self, chunks: usize) -> Result<(), CacheError> {
        while self.stock.len() < chunks {
            self.obtain_chunk(TRIES_MAX).await?;
        }
        if self.stock.len() == chunks {
            match self.obtain_chunk(1).await {
                Ok(()) | Err(CacheError::OutOfMemory) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a chunk to the stock.
    async fn obtain_chunk(&mut self, tries: u32) -> Result<(), CacheError> {
        let (before, mut effort, mut tried, mut cleaned) = (self.stock.len(), 0, 0, 0);
        self.recheck_waiting().await?;
        while self.stock.len() <= before {
            let layout = &self.shared.pool.layout;
            if let Some(chunk) = chunks::allocate(&self.endpoint, layout, self.me(), ChunkState::Open).await? {
                self.stock.push(chunk);
                return Ok(());
            }
            if self.is_open(Hole::IdleEvictor) && self.me().slot != 0 {
                return Err(CacheError::OutOfMemory);
            }
            if effort == 0 && cleaned < CLEANS_MAX && self.clean().await? {
                cleaned += 1;
                continue;
            }
            effort += 1;
            match self.evict(effort).await? {
                Evicted::Progress => {}
                Evicted::Nothing => {
                    tried += 1;
                    if tried >= tries {
                        return Err(CacheError::OutOfMemory);
                    }
                    // What is left is in open groups: our own can go into the queues now.
                    for queue in Queue::ALL {
                        self.close_group(queue, 0).await?;
                    }
                    self.recheck_waiting().await?;
                    self.endpoint.pause(1_000 * u64::from(tried.min(100))).await;
                }
            }
        }
        Ok(())
    }

    /// Counts an object against the limit, evicting until there is room.
    pub(super) async fn reserve_object(&mut self) -> Result<(), CacheError> {
        let (at, max) = (self.shared.pool.layout.resident_objects(), self.shared.pool.settings.objects_max);
        let (mut effort, mut tried) = (0, 0);
        loop {
            let mut batch = Batch::new();
            let resident = batch.fetch_and_add(at, 1);
            self.endpoint.post(&mut batch).await?;
            if batch.word(resident) < max {
                self.reserved = true;
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.fetch_and_add(at, u64::MAX);
            self.endpoint.post(&mut batch).await?;
            effort += 1;
            if let Evicted::Nothing = self.evict(effort).await? {
                tried += 1;
                if tried >= TRIES_MAX {
                    return Err(CacheError::OutOfMemory);
                }
                for queue in Queue::ALL {
                    self.close_group(queue, 0).await?;
                }
                self.endpoint.pause(1_000 * u64::from(tried.min(100))).await;
            }
        }
    }

    /// Gives a reservation back that the operation did not use.
    pub(super) fn release_reservation(&mut self) {
        if std::mem::take(&mut self.reserved) {
            let mut batch = Batch::new();
            batch.fetch_and_add(self.shared.pool.layout.resident_objects(), u64::MAX);
            self.endpoint.post_unawaited(&mut batch);
        }
    }

    /// The queue to evict from: the small one when it has more than its share.
    fn choose_queue(&mut self, lengths: [u32; 2]) -> Option<Queue> {
        let [small, main] = lengths.map(u64::from);
        let share = u64::from(self.shared.settings.options.small_percent);
        match (small, main) {
            (0, 0) => None,
            (_, 0) => Some(Queue::Small),
            (0, _) => Some(Queue::Main),
            _ if small * 100 > share * (small + main) => Some(Queue::Small),
            _ => Some(Queue::Main),
        }
    }

    /// Takes groups from a queue, judges their objects, and empties them.
    async fn evict(&mut self, effort: u32) -> Result<Evicted, CacheError> {
        let cursors = self.cursors().await?;
        let lengths = cursors.map(super::ring::Cursors::len);
        self.note_cursors(cursors);
        let Some(queue) = self.choose_queue(lengths) else { return Ok(Evicted::Nothing) };
        if lengths[queue as usize] > 1 << self.shared.settings.ring_log2 {
            self.catch_up(queue, cursors[queue as usize]).await?;
            return Ok(Evicted::Progress);
        }
        let take = u32::from(self.shared.settings.options.merge_groups).min(lengths[queue as usize].div_ceil(2)).max(1);
        let mut groups = Vec::with_capacity(take as usize);
        for _ in 0..take {
            let Some((node, position)) = self.dequeue(queue).await? else { continue };
            if let Some(group) = self.take_group(queue, node, position).await? {
                self.stats.groups_evicted += 1;
                groups.push(group);
            }
        }
        match self.shared.settings.options.rule {
            Rule::Object => {
                for group in groups {
                    self.evict_by_object(group, effort).await?;
                }
            }
            Rule::Paper => self.evict_by_merging(groups, effort).await?,
        }
        Ok(Evicted::Progress)
    }

    /// Remembers how old ghosts are now.
    pub(super) fn note_cursors(&mut self, cursors: [super::ring::Cursors; 2]) {
        let groups = u64::from(cursors[0].len() + cursors[1].len());
        self.small_head = cursors[0].head;
        self.ghost_age_groups = (groups * u64::from(self.shared.settings.options.ghost_age_percent) / 100) as u32;
    }

    /// Our rule: each object by itself.
    async fn evict_by_object(&mut self, mut group: LeavingGroup, effort: u32) -> Result<(), CacheError> {
        let promote_hits = u16::from(self.shared.settings.options.promote_hits);
        for leaver in &mut group.objects {
            let least = match group.queue {
                Queue::Small => promote_hits,
                Queue::Main => 1,
            };
            let least = if effort > EFFORT_HOT { least + 1 } else { least };
            leaver.stays = leaver.frequency >= least && effort <= EFFORT_ALL;
            leaver.carry = match group.queue {
                Queue::Small => 0,
                Queue::Main => (leaver.frequency.min(3) as u8).saturating_sub(1),
            };
        }
        let all_stay =
            group.queue == Queue::Main && group.objects.iter().all(|leaver| leaver.stays && leaver.word.is_some());
        if all_stay && effort <= EFFORT_HOT {
            return self.put_back(group, Queue::Main, 0).await;
        }
        self.empty_group(group, Queue::Main).await
    }

    /// The paper's rule: the hottest objects of all groups become one group.
    async fn evict_by_merging(&mut self, groups: Vec<LeavingGroup>, effort: u32) -> Result<(), CacheError> {
        let mut merged = Vec::with_capacity(groups.len());
        for group in groups {
            let active = group.live().filter(|leaver| leaver.frequency > 0).count();
            if 2 * active > group.objects.len() && effort <= EFFORT_HOT {
                self.put_back(group, Queue::Main, 0).await?;
            } else {
                merged.push(group);
            }
        }
        let mut frequencies: Vec<u16> = merged
            .iter()
            .flat_map(LeavingGroup::live)
            .map(|leaver| leaver.frequency)
            .filter(|hits| *hits > 0)
            .collect();
        frequencies.sort_unstable_by(|a, b| b.cmp(a));
        let room = self.shared.pool.settings.group_objects_max as usize;
        let mut places = frequencies.len().min(room);
        let least = frequencies.get(places.wrapping_sub(1)).copied().unwrap_or(u16::MAX);
        let sum: u64 = frequencies[..places].iter().map(|hits| u64::from(*hits)).sum();
        for leaver in merged.iter_mut().flat_map(|group| &mut group.objects) {
            leaver.stays = effort <= EFFORT_ALL && leaver.word.is_some() && leaver.frequency >= least && places > 0;
            places -= usize::from(leaver.stays);
            leaver.carry = 0;
        }
        let stays = merged.iter().flat_map(|group| &group.objects).filter(|leaver| leaver.stays).count() as u64;
        // A merged group is one by itself: what is open for the main queue so far is closed first.
        self.close_group(Queue::Main, 0).await?;
        for group in merged {
            self.empty_group(group, Queue::Main).await?;
        }
        let segment = self.segment(16 * sum / stays.max(1), stays);
        self.close_group(Queue::Main, segment).await
    }

    /// The virtual segment of a merged group with this mean frequency, in sixteenths, against the running mean of such groups.
    fn segment(&mut self, mean: u64, objects: u64) -> u8 {
        let before = self.merged_mean;
        if objects > 0 {
            self.merged_mean = if before == 0 { mean } else { (7 * before + mean) / 8 };
        }
        match mean {
            0 => 0,
            mean if mean > 2 * before && before > 0 => 3,
            mean if 2 * mean < before => 1,
            _ => 2,
        }
    }

    /// Owns the group of a node that was taken from the ring, and reads all that is known of its objects. `None` if the node was stale, or its
    /// segment sent it back.
    async fn take_group(
        &mut self,
        queue: Queue,
        node: Node,
        position: u32,
    ) -> Result<Option<LeavingGroup>, CacheError> {
        if self.shared.pool.layout.checked_chunk(node.chunk.0).is_none() {
            return Err(CacheError::Damaged { what: "a queue names a chunk that is not there" });
        }
        let descriptor = chunks::descriptors(&self.endpoint, &self.shared.pool.layout, node.chunk, 1).await?[0];
        let Some(queued) = descriptor.chunk else { return Err(CacheError::Damaged { what: "a chunk's state" }) };
        let stale = queued.state != ChunkState::Queued
            || (queued.generation as u16 != node.generation && !self.is_open(Hole::StaleNode));
        if stale {
            return Ok(None);
        }
        let objects = self.group_objects(descriptor.contents)?;
        let frequencies = self.take_frequencies(queue, position, node.chunk, node.generation, objects).await?;
        if node.segment > 0 {
            self.stats.groups_reinserted += 1;
            self.enqueue(queue, Node { segment: node.segment - 1, ..node }).await?;
            return Ok(None);
        }
        let group = self.own_group(node.chunk, descriptor, frequencies).await?;
        Ok(group.map(|group| LeavingGroup { queue, ..group }))
    }

    fn group_objects(&self, contents: u64) -> Result<usize, CacheError> {
        let objects = usize::from(Contents::from_word(contents).objects);
        let settings = &self.shared.pool.settings;
        let possible = objects <= settings.group_objects_max as usize && 8 * objects <= settings.chunk_bytes as usize;
        if possible { Ok(objects) } else { Err(CacheError::Damaged { what: "the number of a group's objects" }) }
    }

    /// Makes a queued chunk this client's, and READs its map and its objects' slots.
    async fn own_group(
        &mut self,
        chunk: ChunkId,
        descriptor: chunks::Descriptor,
        mut frequencies: Vec<u16>,
    ) -> Result<Option<LeavingGroup>, CacheError> {
        let Some(queued) = descriptor.chunk else { return Ok(None) };
        let layout = self.shared.pool.layout.clone();
        let leaving = Chunk::owned(ChunkState::Leaving, self.me(), queued.generation);
        // The descriptor was READ in any order of its words, perhaps while its owner closed the group: only what is READ behind the swap
        // (an atomic orders a READ behind it) is the group's own.
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(layout.descriptor(chunk), queued.word(), leaving.word());
        let contents = batch.read_word(layout.descriptor(chunk).add(8));
        let dead_bytes = batch.read_word(layout.descriptor(chunk).add(16));
        self.endpoint.post(&mut batch).await?;
        if !batch.swapped(swap) {
            return Ok(None);
        }
        let (contents, dead_bytes) = (batch.word(contents), batch.word(dead_bytes));
        let objects = self.group_objects(contents)?;
        frequencies.resize(objects, 0);
        let mut map = std::mem::take(&mut self.scratch);
        map.resize(8 * objects);
        let at = layout.chunk(chunk).add(layout.chunk_bytes - 8 * objects as u64);
        let map = self.endpoint.read(at, map).await?;
        if dead_bytes != 0 {
            // Subtracted, not cleared: somebody may be adding to it.
            let mut batch = Batch::new();
            batch.fetch_and_add(layout.descriptor(chunk).add(16), dead_bytes.wrapping_neg());
            self.endpoint.post_unawaited(&mut batch);
        }
        let slots = u64::from(self.shared.settings.buckets) * BUCKET_SLOTS as u64;
        let mut leavers: Vec<Leaver> = map
            .words()
            .iter()
            .rev()
            .zip(frequencies)
            .map(|(word, hits)| {
                let entry = MapEntry::from_word(*word);
                let frequency = hits.saturating_add(u16::from(entry.carry));
                Leaver { entry, word: None, frequency, stays: false, carry: 0 }
            })
            .collect();
        self.scratch = map;
        for part in leavers.chunks_mut(BATCH_VERBS_MAX) {
            let mut batch = Batch::new();
            let reads: arrayvec::ArrayVec<_, BATCH_VERBS_MAX> = part
                .iter()
                .map(|leaver| {
                    (leaver.entry.slot < slots).then(|| batch.read_word(self.shared.layout.slot(leaver.entry.slot)))
                })
                .collect();
            self.endpoint.post(&mut batch).await?;
            for (leaver, read) in part.iter_mut().zip(reads) {
                let Some(read) = read else { continue };
                let word = Slot(batch.word(read));
                let offset =
                    u64::from(chunk.0) * layout.chunk_bytes + u64::from(leaver.entry.offset_units) * UNIT_BYTES;
                let is_here = word.is_live()
                    && self.shared.format.heap_offset(word) == offset
                    && self.shared.format.has_generation(word, leaving.generation);
                leaver.word = is_here.then_some(word);
            }
        }
        let queue = Contents::from_word(contents).queue;
        Ok(Some(LeavingGroup { chunk, state: leaving, queue, objects: leavers }))
    }

    /// Puts a group whole into a queue again, with its objects' frequencies brought down.
    async fn put_back(&mut self, group: LeavingGroup, queue: Queue, segment: u8) -> Result<(), CacheError> {
        self.stats.groups_reinserted += 1;
        let layout = self.shared.pool.layout.clone();
        let mut map = std::mem::take(&mut self.scratch);
        map.resize(8 * group.objects.len());
        for (word, leaver) in map.words_mut().iter_mut().rev().zip(&group.objects) {
            *word = MapEntry { carry: leaver.carry, ..leaver.entry }.word();
        }
        let queued = Chunk { state: ChunkState::Queued, ..group.state };
        let mut batch = Batch::new();
        let written =
            batch.write(layout.chunk(group.chunk).add(layout.chunk_bytes - 8 * group.objects.len() as u64), map);
        let swap = batch.compare_and_swap(layout.descriptor(group.chunk), group.state.word(), queued.word());
        self.endpoint.post(&mut batch).await?;
        self.scratch = batch.take(written);
        if !batch.swapped(swap) {
            return Err(CacheError::Damaged { what: "somebody else changed the state of a leaving group" });
        }
        let node = Node { chunk: group.chunk, generation: group.state.generation as u16, segment };
        self.enqueue(queue, node).await
    }

    /// Unlinks what does not stay, moves what stays to the open group of `to`, and takes the chunk into the stock.
    async fn empty_group(&mut self, mut group: LeavingGroup, to: Queue) -> Result<(), CacheError> {
        if self.is_open(Hole::EarlyReuse) {
            self.release_chunk(&group).await?;
        }
        let mut moved = std::mem::take(&mut group.objects);
        for leaver in moved.iter_mut().filter(|leaver| leaver.stays) {
            if let Some(word) = leaver.word {
                leaver.stays = self.move_object(&group, leaver, word, to).await?;
            }
        }
        self.unlink_leavers(&group, &moved).await?;
        if !self.is_open(Hole::EarlyReuse) {
            self.release_chunk(&group).await?;
        }
        Ok(())
    }

    /// Copies an object to the open group of `to` and points its slot there. `false` if it expired, or there is no room for the copy: it goes.
    async fn move_object(
        &mut self,
        group: &LeavingGroup,
        leaver: &Leaver,
        word: Slot,
        to: Queue,
    ) -> Result<bool, CacheError> {
        let Some((at, bytes, _)) = self.record_span(word) else { return Ok(false) };
        let mut buffer = std::mem::take(&mut self.record);
        buffer.resize(bytes);
        let mut batch = Batch::new();
        let read = batch.read(at, buffer);
        self.endpoint.post(&mut batch).await?;
        self.record = batch.take(read);
        let header = Record::decode(&self.record, &self.shared.hasher).map(|record| record.header);
        let Some(header) = header else {
            return if self.is_open(Hole::EarlyReuse) {
                Ok(true)
            } else {
                Err(CacheError::Damaged { what: "a record in an evicted group" })
            };
        };
        let now_ns = self.endpoint.now_ns();
        if header.expiry_ms.is_some() && header.is_expired(self.pool_ms(now_ns).await?) {
            return Ok(false);
        }
        if !self.open_room(to, header.record_bytes()).await? {
            let layout = &self.shared.pool.layout;
            match chunks::allocate(&self.endpoint, layout, self.me(), ChunkState::Open).await? {
                Some(chunk) => self.stock.push(chunk),
                None => return Ok(false),
            }
            self.open_room(to, header.record_bytes()).await?;
        }
        let hash = KeyHash { bucket: 0, fingerprint: word.fingerprint(), more: leaver.entry.more };
        let (slot, carry) = (leaver.entry.slot, leaver.carry);
        let place = self.take_place(to, header.record_bytes(), slot, hash, carry, header.large, header.expiry_ms);
        let header =
            Header { number: place.number, generation: place.generation as u16, main: to == Queue::Main, ..header };
        let mut record = std::mem::take(&mut self.record);
        object::relocate(&mut record, &self.shared.hasher, &header);
        let layout = &self.shared.pool.layout;
        let length = if header.large { RecordLength::LARGE } else { RecordLength::of(header.record_bytes()) };
        let heap_offset = u64::from(place.chunk.0) * layout.chunk_bytes + place.offset_bytes;
        let copy = self.shared.format.live(word.fingerprint(), length, heap_offset, place.generation);
        let mut batch = Batch::new();
        let written = batch.write(layout.chunk(place.chunk).add(place.offset_bytes), record);
        let swap = batch.compare_and_swap(self.shared.layout.slot(slot), word.0, copy.0);
        self.endpoint.post(&mut batch).await?;
        self.record = batch.take(written);
        if batch.swapped(swap) {
            self.stats.regroups += 1;
            if header.large {
                self.count_extents(to, header.body_bytes());
            }
        } else {
            // Somebody replaced or removed it meanwhile; it is not ours to move or to evict.
            self.give_place_back(to, header.record_bytes(), header.expiry_ms);
        }
        debug_assert!(group.chunk != place.chunk || self.is_open(Hole::EarlyReuse));
        Ok(true)
    }

    /// Makes the slots of objects that do not stay empty, or ghosts.
    async fn unlink_leavers(&mut self, group: &LeavingGroup, leavers: &[Leaver]) -> Result<(), CacheError> {
        let leave_ghosts = self.shared.settings.options.ghosts && group.queue == Queue::Small;
        let going = leavers.iter().filter(|leaver| !leaver.stays && leaver.word.is_some());
        let going: Vec<&Leaver> = going.collect();
        for part in going.chunks(BATCH_VERBS_MAX) {
            let mut extents = Vec::new();
            for leaver in part.iter().filter(|leaver| leaver.word.is_some_and(Slot::is_large)) {
                extents.push(self.leaving_extents(leaver).await?);
            }
            let mut extents = extents.into_iter();
            let mut batch = Batch::new();
            let swaps: arrayvec::ArrayVec<_, BATCH_VERBS_MAX> = part
                .iter()
                .map(|leaver| {
                    let word = leaver.word.unwrap_or(Slot::EMPTY);
                    let hash = KeyHash { bucket: 0, fingerprint: word.fingerprint(), more: leaver.entry.more };
                    let after = if leave_ghosts { Slot::ghost(hash, self.small_head) } else { Slot::EMPTY };
                    batch.compare_and_swap(self.shared.layout.slot(leaver.entry.slot), word.0, after.0)
                })
                .collect();
            self.endpoint.post(&mut batch).await?;
            let mut removed = 0;
            for (leaver, swap) in part.iter().zip(swaps) {
                let extents = leaver.word.filter(|word| word.is_large()).and_then(|_| extents.next().flatten());
                if batch.swapped(swap) {
                    removed += 1;
                    if let Some(extents) = extents {
                        self.retire_extents(extents, Some(group.chunk)).await?;
                    }
                }
            }
            self.stats.evictions += removed;
            self.count_removed(removed);
        }
        Ok(())
    }

    /// The extents of a large object in a group that this client owns.
    async fn leaving_extents(&mut self, leaver: &Leaver) -> Result<Option<super::extent::Extents>, CacheError> {
        let Some((at, bytes, _)) = leaver.word.and_then(|word| self.record_span(word)) else { return Ok(None) };
        let mut buffer = Buffer::new();
        buffer.resize(bytes);
        let mut batch = Batch::new();
        let read = batch.read(at, buffer);
        self.endpoint.post(&mut batch).await?;
        let buffer = batch.take(read);
        match Record::decode(&buffer, &self.shared.hasher) {
            Some(Record { header, large: Some(body), .. }) => self.extents(&header, &body).await,
            _ => Ok(None),
        }
    }

    /// Chunks that operations of others must not see reused.
    pub(super) async fn protected_by_others(&mut self) -> Result<Vec<ChunkId>, CacheError> {
        Ok(registry::protected_chunks(&self.endpoint, &self.shared.pool, self.me()).await?)
    }

    /// Takes an emptied chunk into the stock, or lets it wait.
    async fn release_chunk(&mut self, group: &LeavingGroup) -> Result<(), CacheError> {
        let protected = !self.is_open(Hole::Protection) && self.protected_by_others().await?.contains(&group.chunk);
        if protected {
            self.waiting.push(Waiting { chunk: group.chunk, guard: group.chunk });
            return Ok(());
        }
        self.reuse_chunk(group.chunk, group.state).await
    }

    async fn reuse_chunk(&mut self, chunk: ChunkId, leaving: Chunk) -> Result<(), CacheError> {
        let generation = leaving.generation.wrapping_add(1);
        let open = Chunk { state: ChunkState::Open, generation, ..leaving };
        if !chunks::transition(&self.endpoint, &self.shared.pool.layout, chunk, leaving.word(), open).await? {
            return Err(CacheError::Damaged { what: "somebody else changed the state of a leaving group" });
        }
        // More than a few chunks in one client's hands are better in everybody's.
        if self.stock.len() < 4 {
            self.stock.push((chunk, generation));
            return Ok(());
        }
        chunks::free(&self.endpoint, &self.shared.pool.layout, chunk, open).await?;
        Ok(())
    }

    /// Frees a chunk that nothing points to, whoever made it what it is.
    pub(super) async fn free_owned(&mut self, chunk: ChunkId, state: ChunkState) -> Result<(), CacheError> {
        let layout = self.shared.pool.layout.clone();
        let descriptor = chunks::descriptors(&self.endpoint, &layout, chunk, 1).await?[0];
        match descriptor.chunk {
            Some(found) if found.state == state => {
                chunks::free(&self.endpoint, &layout, chunk, found).await?;
                Ok(())
            }
            _ => Err(CacheError::Damaged { what: "a chunk of a dead object is something else" }),
        }
    }

    /// Frees those waiting chunks that nobody protects any more.
    pub(super) async fn recheck_waiting(&mut self) -> Result<(), CacheError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let protected = self.protected_by_others().await?;
        for waiting in std::mem::take(&mut self.waiting) {
            if protected.contains(&waiting.guard) {
                self.waiting.push(waiting);
            } else {
                let state = if waiting.chunk == waiting.guard { ChunkState::Leaving } else { ChunkState::Extent };
                self.free_owned(waiting.chunk, state).await?;
            }
        }
        Ok(())
    }

    /// Gives all waiting chunks away; for leaving. An emptied group goes into a queue again, where whoever evicts it next finds nothing in it
    /// and waits instead. Extents wait here for whoever still reads them; what a client keeps protected that has stopped is left to its repair.
    pub(super) async fn free_waiting(&mut self) -> Result<(), CacheError> {
        self.recheck_waiting().await?;
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.chunk == waiting.guard {
                self.requeue_emptied(waiting.chunk).await?;
            } else {
                self.waiting.push(waiting);
            }
        }
        for tried in 1..=TRIES_MAX {
            if self.waiting.is_empty() {
                break;
            }
            self.endpoint.pause(1_000 * u64::from(tried.min(100))).await;
            self.recheck_waiting().await?;
        }
        Ok(())
    }

    /// Puts a group that this client emptied, and nothing else points to, into the small queue.
    async fn requeue_emptied(&mut self, chunk: ChunkId) -> Result<(), CacheError> {
        let layout = self.shared.pool.layout.clone();
        let descriptor = chunks::descriptors(&self.endpoint, &layout, chunk, 1).await?[0];
        let damaged = Err(CacheError::Damaged { what: "somebody else changed the state of a leaving group" });
        let Some(leaving) = descriptor.chunk.filter(|found| found.state == ChunkState::Leaving) else { return damaged };
        // A new generation, because a group that was cleaned has left a node of its own behind.
        let generation = leaving.generation.wrapping_add(1);
        let queued = Chunk { state: ChunkState::Queued, generation, ..leaving };
        if !chunks::transition(&self.endpoint, &layout, chunk, leaving.word(), queued).await? {
            return damaged;
        }
        let node = Node { chunk, generation: generation as u16, segment: 0 };
        self.enqueue(Queue::Small, node).await
    }

    /// Looks at the next few descriptors and cleans the group there that has most dead in it, if that is a quarter; whether it did.
    async fn clean(&mut self) -> Result<bool, CacheError> {
        let layout = self.shared.pool.layout.clone();
        let ring = 1u32 << self.shared.settings.ring_log2;
        // A cleaned group leaves its node in the ring: with many of those the queue must move first.
        if self.cursors().await?.iter().any(|cursors| cursors.len() > ring / 2) {
            return Ok(false);
        }
        let first = ChunkId(self.clean_cursor % layout.chunks);
        self.clean_cursor = (first.0 + CLEAN_LOOK.min(layout.chunks - first.0)) % layout.chunks;
        let descriptors = chunks::descriptors(&self.endpoint, &layout, first, CLEAN_LOOK).await?;
        let now_ns = self.endpoint.now_ns();
        let now_ms = self.pool_ms(now_ns).await?;
        let dead = |descriptor: &chunks::Descriptor| {
            let expired = descriptor.engine != 0 && descriptor.engine <= now_ms;
            // A hint that went below zero or beyond a chunk is nothing to go by.
            let dead_bytes = Some(descriptor.dead_bytes).filter(|bytes| *bytes <= layout.chunk_bytes).unwrap_or(0);
            dead_bytes.max(if expired { layout.chunk_bytes / 4 } else { 0 })
        };
        let queued =
            |descriptor: &chunks::Descriptor| descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
        let best = descriptors.iter().enumerate().filter(|(_, each)| queued(each)).max_by_key(|(_, each)| dead(each));
        let Some((index, descriptor)) = best else { return Ok(false) };
        let queue = Contents::from_word(descriptor.contents).queue;
        // Half of what a full group holds must be sure to find room.
        let has_room = !self.stock.is_empty() || self.has_room(queue, layout.chunk_bytes / 2);
        if dead(descriptor) < layout.chunk_bytes / 4 || !has_room {
            return Ok(false);
        }
        let chunk = ChunkId(first.0 + index as u32);
        let generation = descriptor.chunk.map_or(0, |chunk| chunk.generation as u16);
        let objects = self.group_objects(descriptor.contents)?;
        let frequencies =
            (0..objects).map(|number| u16::from(self.shared.hotness.count(chunk, number as u16, generation))).collect();
        let Some(mut group) = self.own_group(chunk, *descriptor, frequencies).await? else { return Ok(false) };
        for leaver in &mut group.objects {
            leaver.stays = true;
            leaver.carry = leaver.frequency.min(3) as u8;
        }
        self.stats.groups_cleaned += 1;
        self.empty_group(group, queue).await?;
        Ok(true)
    }
}
