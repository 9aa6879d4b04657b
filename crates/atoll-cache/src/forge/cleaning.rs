//! Cleaning: which groups have enough dead memory that a client moves their live objects, and when
//! it may evict instead.
//!
//! Promise: no client evicts an object for want of memory while more than one part in
//! [`DEAD_SHARE_ONE_IN`] of the usable chunks' bytes is reclaimable. Dead and expired bytes are
//! reclaimable. So is the rest of a group that was closed before half of it was used.
//!
//! A client that needs a chunk follows this table:
//!
//! | what it knows | what it does |
//! |---|---|
//! | a group of which a quarter is reclaimable, among the next few descriptors | cleans it |
//! | no more is dead than the last pass allows | evicts |
//! | a group of which a twelfth is reclaimable | cleans it |
//! | neither | continues its pass until a row above applies, or the pass is complete |
//! | the pass is complete, and the client has no chunk to move objects to | waits once for one, 10 ms at most |
//!
//! To clean a group, a client owns it, wherever in a ring its node is, and moves every live object
//! to its queue's open group. The node stays behind. A client that finds a ring half full takes the
//! next few nodes from its head. It cleans a group from there that has nearly as much dead memory
//! as the best that it knows, and puts any other at the tail.
//!
//! A **pass** is a walk over all descriptors that adds up the reclaimable bytes. Its result is one
//! word:
//!
//! ```text
//! word 0   bytes ever made dead, less those reclaimed; a chunk's worth at a time   atomics only
//! word 1   eviction is allowed until word 0 is beyond this; 0: no pass yet         atomics only
//! ```
//!
//! Word 0 says how much reclaimable memory there is more, or less, than at another time. A pass
//! takes the mean of word 0 over its READs: bytes died and were reclaimed meanwhile, in chunks
//! before and behind its cursor alike. So its result holds however fast other clients overwrite and
//! clean, and however long it takes. The result allows at least one part in [`SLACK_ONE_IN`] of the
//! pool to die before the next pass, unless too much is reclaimable already. So each needed chunk
//! costs a bounded number of descriptors. Both words are hints: a wrong word costs a pass, or an
//! eviction that was not needed. What a client that died had not told is in the next pass's result.
//!
//! A group with a quarter reclaimable is cheap to clean. On YCSB A of 256 threads, with a cache of
//! 200 000 objects, a third gains 1 % and loses no hits, and a half nothing more. A sixth of the
//! memory reclaimable at most, in place of an eighth, gains 8 % and loses 0.3 points of hit ratio.
//! Groups of their own for the objects that cleaners move gain 0.4 %, and every client would hold
//! another open chunk: so there are none.

use super::group::{Contents, Expiry};
use super::layout::Queue;
use super::leaving::{LeavingGroup, Slots};
use super::ring::Cursors;
use super::technique::Technique;
use super::{Forge, Rule};
use crate::CacheError;
use atoll_fabric::{Batch, Endpoint, Purpose};
use atoll_pool::chunks::Descriptor;
use atoll_pool::{ChunkId, ChunkState};

/// A client may evict while at most one part in so many of the usable memory is reclaimable.
const DEAD_SHARE_ONE_IN: u64 = 8;
/// One part in so many of the usable memory may die between two passes.
const SLACK_ONE_IN: u64 = 64;
/// A client that meets a group cleans it if one part in so many of a chunk is reclaimable.
const WORTHWHILE_ONE_IN: u64 = 4;
/// The same where eviction is not allowed. More than `DEAD_SHARE_ONE_IN`: if that share of the
/// memory is reclaimable, there is such a group.
const LEAST_ONE_IN: u64 = 12;
/// Groups cleaned for one chunk: so many groups that are a quarter dead give one chunk.
const CLEANS_MAX: u32 = 4;
/// The same where eviction is not allowed: several times as many groups as one chunk can need.
const CLEANS_FORCED_MAX: u32 = 64;
/// Descriptors READ before a group is cleaned.
const LOOK: u32 = 32;
/// Descriptors READ at once where eviction is not allowed and the client knows no group worth
/// cleaning.
const LOOK_FORCED: u32 = 256;
/// Nodes taken from the head of a ring that is half full: each cleaned group leaves one behind.
const HEADS_PER_CLEAN: usize = 2;
/// A group from a head is cleaned if it has at most one part in so many fewer dead bytes than the
/// best group that the client knows. To put it back takes as many round trips.
const HEAD_LESS_ONE_IN: u64 = 8;
/// Groups worth cleaning that a client remembers.
const CANDIDATES_MAX: usize = 32;

/// Of dead records that are at most one part in so many of a chunk, every second one is counted,
/// for two. An atomic costs a NIC about four READs. A group worth cleaning has at least eight such
/// dead records.
const DEAD_SAMPLED_ONE_IN: u64 = 32;
/// The step from one dead record to the next when a client samples them. It is the golden ratio's
/// fraction, whose multiples follow no period that a load may have.
const DEAD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A group that was worth cleaning when its descriptor was READ.
struct Candidate {
    chunk: ChunkId,
    descriptor: Descriptor,
    reclaimable: u64,
}

/// The result so far of a walk over the descriptors.
#[derive(Clone, Copy, Default)]
struct Pass {
    /// Descriptors seen; 0 before the first.
    looked: u32,
    /// Chunks among them that are neither retired nor part of the index.
    usable: u64,
    /// Bytes that cleaning could reclaim.
    reclaimable: u64,
    /// Word 0 when the pass began.
    since: u64,
    /// How much word 0 was above that when each descriptor was READ, added up.
    ahead: i64,
}

impl Pass {
    /// What word 0 was when the descriptors were READ, on the mean.
    fn mean(&self) -> u64 {
        self.since.wrapping_add_signed(self.ahead / i64::from(self.looked.max(1)))
    }
}

/// A client's knowledge of memory to be reclaimed.
pub(super) struct Cleaning {
    /// The next descriptor that the client READs.
    cursor: u32,
    candidates: Vec<Candidate>,
    pass: Pass,
    /// Words 0 and 1 as last READ: dead bytes, and the count up to which eviction is allowed.
    dead_bytes: u64,
    evict_until: u64,
    /// Bytes that this client made dead, less those that it reclaimed, and that it has not added to
    /// word 0 yet.
    untold_bytes: i64,
    /// Decides which dead records are counted.
    dead_seen: u64,
}

impl From<ChunkId> for Cleaning {
    /// Begins at the given chunk. Clients that began at the same chunk would READ the same
    /// descriptors.
    fn from(first: ChunkId) -> Self {
        Self {
            cursor: first.0,
            candidates: Vec::new(),
            pass: Pass::default(),
            dead_bytes: 0,
            evict_until: 0,
            untold_bytes: 0,
            dead_seen: 0,
        }
    }
}

impl Cleaning {
    /// How many bytes to count for a dead record of `bytes`. `None` if the record is not counted.
    pub(super) fn counted_bytes(&mut self, bytes: u64, chunk_bytes: u64) -> Option<u64> {
        let is_sampled = bytes * DEAD_SAMPLED_ONE_IN <= chunk_bytes;
        self.dead_seen = self.dead_seen.wrapping_add(DEAD_STEP);
        match is_sampled {
            false => Some(bytes),
            true if self.dead_seen >> 63 == 0 => None,
            true => Some(2 * bytes),
        }
    }

    /// Whether the last pass allows eviction after what has died and was reclaimed since.
    fn allows_eviction(&self) -> bool {
        self.evict_until != 0 && self.evict_until.wrapping_sub(self.dead_bytes) as i64 >= 0
    }

    /// Remembers a group. If there are too many, it replaces the group with least to reclaim.
    fn remember(&mut self, candidate: Candidate) {
        if let Some(known) = self.candidates.iter_mut().find(|known| known.chunk == candidate.chunk) {
            *known = candidate;
        } else if self.candidates.len() < CANDIDATES_MAX {
            self.candidates.push(candidate);
        } else if let Some(least) = self.candidates.iter_mut().min_by_key(|known| known.reclaimable)
            && least.reclaimable < candidate.reclaimable
        {
            *least = candidate;
        }
    }

    /// The most that a candidate has to reclaim.
    fn best(&self) -> u64 {
        self.candidates.iter().map(|candidate| candidate.reclaimable).max().unwrap_or(0)
    }

    /// A group is cleaned that the client may remember.
    fn forget(&mut self, chunk: ChunkId) {
        self.candidates.retain(|candidate| candidate.chunk != chunk);
    }

    /// The candidate with most to reclaim, if that is at least `least`.
    fn take_best(&mut self, least: u64) -> Option<Candidate> {
        let of = |(_, candidate): &(usize, &Candidate)| candidate.reclaimable;
        let (index, best) = self.candidates.iter().enumerate().max_by_key(of)?;
        (best.reclaimable >= least).then_some(index).map(|index| self.candidates.swap_remove(index))
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Cleans a group. The client has cleaned `cleaned` groups before for the same chunk. `false`
    /// if it has to evict instead.
    pub(super) async fn clean(&self, cleaned: u32) -> Result<bool, CacheError> {
        let before = self.client.endpoint.purpose(Purpose::Collection);
        let outcome = self.clean_next(cleaned).await;
        self.client.endpoint.purpose(before);
        outcome
    }

    async fn clean_next(&self, cleaned: u32) -> Result<bool, CacheError> {
        if cleaned >= CLEANS_FORCED_MAX {
            return Ok(false);
        }
        if self.stock.chunks.is_empty() {
            Box::pin(self.obtain_spare()).await?;
        }
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        let (worthwhile, least) = (chunk_bytes / WORTHWHILE_ONE_IN, chunk_bytes / LEAST_ONE_IN);
        // The best of a few new groups and of the remembered groups is nearly the best of all.
        self.look_for_dead(LOOK).await?;
        let best = self.cleaning.borrow().best().max(worthwhile);
        let cursors = self.cursors().await?;
        let head_least = (cleaned < CLEANS_MAX).then_some(best - best / HEAD_LESS_ONE_IN);
        if self.advance_heads(cursors, HEADS_PER_CLEAN, head_least).await? {
            return Ok(true);
        }
        if cleaned < CLEANS_MAX && self.clean_best(worthwhile).await? {
            return Ok(true);
        }
        let (mut looked, all) = (0, self.client.pool.layout.chunks());
        let mut has_waited = false;
        loop {
            let allows_eviction = self.cleaning.borrow().allows_eviction();
            if allows_eviction && !Box::pin(self.sweep_due()).await? {
                return Ok(false);
            }
            let allows_eviction = self.cleaning.borrow().allows_eviction();
            if !allows_eviction && self.clean_best(least).await? {
                return Ok(true);
            }
            if looked >= all {
                // Other clients that clean have all chunks for a moment. Evicting would lose
                // objects that fit.
                let waits = !allows_eviction && self.stock.chunks.is_empty() && !has_waited;
                if !waits || !Box::pin(self.await_spare()).await? {
                    return Ok(false);
                }
                (has_waited, looked) = (true, 0);
            }
            looked += Box::pin(self.look_for_dead(LOOK_FORCED)).await?;
        }
    }

    /// Continues the pass by at most `most` descriptors and remembers the groups worth cleaning.
    /// Returns how many descriptors it READ.
    async fn look_for_dead(&self, most: u32) -> Result<u32, CacheError> {
        let layout = self.client.pool.layout.clone();
        let all = layout.chunks();
        let first = self.cleaning.borrow().cursor % all;
        let count = most.min(all - first);
        // Claimed before the READ, so that another operation of this client continues behind it.
        self.cleaning.borrow_mut().cursor = (first + count) % all;
        let (words, buffer) = (self.spares.take(16), self.spares.take(count as usize * Descriptor::BYTES as usize));
        let mut batch = Batch::new();
        let words = batch.read(self.shared.layout.dead_bytes(), words);
        let read = batch.read(layout.descriptor(ChunkId(first)), buffer);
        self.client.endpoint.post(&mut batch).await?;
        let (words, buffer) = (batch.take(words), batch.take(read));
        let now_ns = self.client.endpoint.now_ns();
        let now_ms = self.client.estimated_ms(now_ns).await?;
        let is_over = self.note_pass(ChunkId(first), (words.words(), buffer.words()), now_ms);
        self.spares.keep(words);
        self.spares.keep(buffer);
        if is_over {
            self.end_pass().await?;
        }
        Ok(count)
    }

    /// Notes the descriptors from `first` on. Returns whether that ends a pass. `words` are words 0
    /// and 1.
    fn note_pass(&self, first: ChunkId, (words, descriptors): (&[u64], &[u64]), now_ms: u64) -> bool {
        let (layout, least) = (&self.client.pool.layout, self.client.pool.layout.chunk_bytes / LEAST_ONE_IN);
        let mut cleaning = self.cleaning.borrow_mut();
        (cleaning.dead_bytes, cleaning.evict_until) = (words[0], words[1]);
        if cleaning.pass.looked == 0 {
            cleaning.pass.since = cleaning.dead_bytes;
        }
        let (count, ahead) = (descriptors.len() as i64 / 4, cleaning.dead_bytes.wrapping_sub(cleaning.pass.since));
        cleaning.pass.ahead = cleaning.pass.ahead.saturating_add(count.saturating_mul(ahead as i64));
        for (index, words) in descriptors.chunks(4).enumerate() {
            let (chunk, descriptor) = (ChunkId(first.0 + index as u32), Descriptor::from_words(words));
            let state = descriptor.chunk.map(|chunk| chunk.state);
            let is_out_of_use = matches!(
                state,
                Some(ChunkState::Retired | ChunkState::Discarding | ChunkState::Discarded | ChunkState::Index)
            );
            cleaning.pass.usable += u64::from(!is_out_of_use);
            if state != Some(ChunkState::Queued) {
                continue;
            }
            let reclaimable = self.reclaimable_bytes(&descriptor, now_ms);
            cleaning.pass.reclaimable += reclaimable;
            if reclaimable >= least {
                cleaning.remember(Candidate { chunk, descriptor, reclaimable });
            }
        }
        cleaning.pass.looked += count as u32;
        cleaning.pass.looked >= layout.chunks()
    }

    /// Publishes the result of a whole pass.
    async fn end_pass(&self) -> Result<(), CacheError> {
        let pass = std::mem::take(&mut self.cleaning.borrow_mut().pass);
        let usable_bytes = pass.usable * self.client.pool.layout.chunk_bytes;
        let left = (usable_bytes / DEAD_SHARE_ONE_IN) as i64 - pass.reclaimable as i64;
        let left = if left < 0 { left } else { left.max((usable_bytes / SLACK_ONE_IN) as i64) };
        let evict_until = pass.mean().wrapping_add_signed(left).max(1);
        let mut batch = Batch::new();
        let before = std::mem::replace(&mut self.cleaning.borrow_mut().evict_until, evict_until);
        // Another client may have ended a pass meanwhile. Its result is as good.
        batch.compare_and_swap(self.shared.layout.evict_until(), before, evict_until);
        Ok(self.client.endpoint.post(&mut batch).await?)
    }

    /// Bytes that cleaning a queued group would reclaim, by its descriptor.
    fn reclaimable_bytes(&self, descriptor: &Descriptor, now_ms: u64) -> u64 {
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        // An estimate may be twice the truth. A count below zero or far beyond a chunk is ignored.
        let dead = Some(descriptor.dead_bytes).filter(|bytes| *bytes <= 2 * chunk_bytes).unwrap_or(0);
        let is_expired = Expiry::is_over(Expiry::from_word(descriptor.engine).quarter, now_ms);
        let dead = dead.max(if is_expired { chunk_bytes / WORTHWHILE_ONE_IN } else { 0 });
        dead.saturating_add(self.unused_bytes(Contents::from_word(descriptor.contents))).min(chunk_bytes)
    }

    /// Unused bytes of a closed group, if the group is so small that cleaning it pays. Zero under
    /// the rules that make small groups on purpose.
    pub(super) fn unused_bytes(&self, contents: Contents) -> u64 {
        let (chunk_bytes, objects_max) =
            (self.client.pool.layout.chunk_bytes, self.client.pool.settings.group_objects_max);
        let used_bytes = contents.used_bytes(chunk_bytes) + 8 * u64::from(contents.objects);
        let is_small = 2 * used_bytes < chunk_bytes && 2 * u32::from(contents.objects) < objects_max;
        if is_small && self.shared.settings.options.rule != Rule::Paper { chunk_bytes - used_bytes } else { 0 }
    }

    /// Cleans the remembered group with most to reclaim, if that is at least `least`. Returns
    /// whether it did.
    async fn clean_best(&self, least: u64) -> Result<bool, CacheError> {
        loop {
            let Some(candidate) = self.cleaning.borrow_mut().take_best(least) else { return Ok(false) };
            if self.clean_group(&candidate).await? {
                return Ok(true);
            }
        }
    }

    async fn clean_group(&self, candidate: &Candidate) -> Result<bool, CacheError> {
        let descriptor = &candidate.descriptor;
        let contents = Contents::from_word(descriptor.contents);
        let queue = contents.queue;
        // The live objects must be sure to find room. The dead bytes are an estimate from every
        // second record, which is seldom twice the truth.
        let used_bytes = contents.used_bytes(self.client.pool.layout.chunk_bytes);
        let live_bytes_max = used_bytes.saturating_sub(descriptor.dead_bytes / 2);
        if !self.sets_aside_for(queue, (u32::from(contents.objects), live_bytes_max)) {
            return Ok(false);
        }
        let cleaned = self.clean_into(queue, candidate).await;
        self.stock.end_aside();
        cleaned
    }

    /// Moves the live objects of a group to the open group of `queue`, and to the spare chunk.
    async fn clean_into(&self, queue: Queue, candidate: &Candidate) -> Result<bool, CacheError> {
        let Candidate { chunk, descriptor, .. } = candidate;
        let generation = descriptor.chunk.map_or(0, |chunk| chunk.generation as u16);
        let objects = self.group_objects(descriptor.contents).unwrap_or(0);
        let frequencies = match self.technique.counts_by_chunk() {
            true => self.take_frequencies(queue, 0, *chunk, generation, objects).await?,
            false => (0..objects)
                .map(|number| u16::from(self.shared.hotness.count_of_place(*chunk, number as u16, generation)))
                .collect(),
        };
        let owned = self.own_group(*chunk, *descriptor, frequencies, Slots::Always).await?;
        let Some(group) = owned else { return Ok(false) };
        self.move_live(group, queue).await?;
        Ok(true)
    }

    /// Moves the live objects of a group that this client owns.
    async fn move_live(&self, mut group: LeavingGroup, queue: Queue) -> Result<(), CacheError> {
        for leaver in &mut group.objects {
            leaver.stays = true;
            leaver.carry = leaver.frequency.min(3) as u8;
        }
        self.stats.groups_cleaned.add(1);
        self.empty_group(group, queue).await
    }

    /// Takes nodes from the head of a ring that is half full. This clears the nodes that cleaned
    /// groups left behind. If `worthwhile` is given, the client cleans the groups in which so many
    /// bytes are dead. It puts the others at the tail. Returns whether it has cleaned one.
    pub async fn advance_heads(
        &self,
        cursors: [Cursors; 2],
        heads: usize,
        worthwhile: Option<u64>,
    ) -> Result<bool, CacheError> {
        let ring = 1u32 << self.shared.settings.ring_log2;
        let mut has_cleaned = false;
        for queue in Queue::ALL {
            let cursors = cursors[queue as usize];
            if cursors.len() > ring {
                Box::pin(self.catch_up(queue, cursors)).await?;
            } else if cursors.len() > ring / 2 {
                for _ in 0..heads {
                    has_cleaned |= Box::pin(self.advance_head(queue, worthwhile)).await?;
                }
            }
        }
        Ok(has_cleaned)
    }

    async fn advance_head(&self, queue: Queue, worthwhile: Option<u64>) -> Result<bool, CacheError> {
        let Some(head) = self.dequeue(queue).await? else { return Ok(false) };
        let slots = Slots::IfDead(worthwhile.unwrap_or(u64::MAX));
        let Some(mut group) = self.take_group(queue, head, slots).await? else { return Ok(false) };
        let live = group.live().filter_map(|leaver| leaver.word);
        let room @ (_, live_bytes) =
            live.fold((0, 0), |(records, bytes), word| (records + 1, bytes + word.length().bytes()));
        let reclaimable = self.client.pool.layout.chunk_bytes.saturating_sub(live_bytes);
        // The count of dead bytes is an estimate. Slots that were READ say what is alive.
        let is_worthwhile = group.is_known && worthwhile.is_some_and(|least| reclaimable >= least);
        if is_worthwhile && self.sets_aside_for(queue, room) {
            self.cleaning.borrow_mut().forget(group.chunk);
            let moved = self.move_live(group, queue).await;
            self.stock.end_aside();
            return moved.map(|()| true);
        }
        group.objects.iter_mut().for_each(|leaver| leaver.carry = leaver.frequency.min(3) as u8);
        self.put_back(group, queue, 0).await?;
        Ok(false)
    }

    /// Whether records of so many bytes together are sure to find room. Their chunk is set aside,
    /// if there is one, because other operations of this client draw from the stock and use the
    /// room. It must be taken back.
    fn sets_aside_for(&self, queue: Queue, records: (u32, u64)) -> bool {
        let is_alone = self.client.in_flight().count() <= 1;
        self.stock.set_aside() || is_alone && self.has_room_for(queue, records)
    }

    /// Counts bytes that became reclaimable.
    pub(super) fn note_died(&self, bytes: u64) {
        self.add_dead(bytes as i64);
    }

    /// Counts bytes that were reclaimable and are in use again, or free.
    pub(super) fn note_reclaimed(&self, bytes: u64) {
        self.add_dead(-(bytes as i64));
    }

    /// Adds to word 0, a chunk's worth at a time.
    fn add_dead(&self, bytes: i64) {
        let mut cleaning = self.cleaning.borrow_mut();
        cleaning.untold_bytes += bytes;
        cleaning.dead_bytes = cleaning.dead_bytes.wrapping_add_signed(bytes);
        if cleaning.untold_bytes.unsigned_abs() >= self.client.pool.layout.chunk_bytes {
            let told = std::mem::take(&mut cleaning.untold_bytes);
            let mut batch = Batch::new();
            batch.fetch_and_add(self.shared.layout.dead_bytes(), told as u64);
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }
}
