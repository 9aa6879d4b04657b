//! Hotness: a process counts accesses in its own memory, and adds the counts to the pool just
//! before an evictor needs them.
//!
//! Every process has one map of counters: a byte for every object that the pool can hold. A byte is
//! found by the object's chunk and its number in the group (the paper's object frequency map).
//! Beside the count the byte holds low bits of the chunk's generation and of the place's edition
//! (see `slot`). So counts of an evicted group do not pass to the next group in its chunk, and
//! counts of a dead record not to the next one in its place:
//!
//! ```text
//! 7        6 5          4 3            0
//! +---------+------------+--------------+
//! | edition | generation |    count     |
//! +---------+------------+--------------+
//! ```
//!
//! In a pool whose tags have no editions, the generation has four bits.
//!
//! A process adds a group's counts to the pool when the group's ring position enters the eviction
//! window: one fetch-and-add for four 16-bit counters. The paper packs eight counters of 8 bits,
//! which can carry into each other when a client is a lap late. These cannot: 1024 clients, a lap
//! late, with counts of 15 stay below 2^15.
//!
//! The evictor takes the counters by swapping each word for zero. Counts that a client adds
//! meanwhile stay. Two evictors of one position, a lap apart, never take the same count twice.
//!
//! Another form of the engine may keep counters elsewhere, or flush at other times: see
//! [`technique`](super::technique).

use super::Forge;
use super::layout::Queue;
use super::slot::SlotFormat;
use super::technique::Technique;
use crate::CacheError;
use arrayvec::ArrayVec;
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Endpoint, Purpose, prefer_huge_pages, prefetch};
use atoll_pool::ChunkId;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Counters from which on huge pages are asked for.
const HUGE_FROM: usize = 2 << 20;

/// One process's counters, shared by its threads. Counts are hints: a lost increment does no harm.
pub struct HotnessMap {
    counters: Vec<AtomicU8>,
    group_objects_max: usize,
    format: SlotFormat,
    /// For each queue, how far the window has been flushed (positions of 32 bits; bit 32 is set
    /// once it has begun).
    flushed: [AtomicU64; 2],
}

impl HotnessMap {
    pub(super) fn new(chunks: u32, group_objects_max: u32, format: SlotFormat) -> Self {
        let mut counters: Vec<AtomicU8> = bytemuck::zeroed_vec(chunks as usize * group_objects_max as usize);
        // Accesses touch them at random.
        if counters.len() >= HUGE_FROM {
            prefer_huge_pages(&mut counters);
        }
        Self { counters, group_objects_max: group_objects_max as usize, format, flushed: Default::default() }
    }

    #[inline]
    fn counter(&self, chunk: ChunkId, number: usize) -> Option<&AtomicU8> {
        self.counters.get(chunk.0 as usize * self.group_objects_max + number)
    }

    /// Prefetches the counters of a chunk's first objects. The chunk of an access is known before
    /// the object's number.
    #[inline]
    pub(super) fn expect(&self, chunk: ChunkId) {
        for number in [0, 64] {
            if let Some(counter) = self.counter(chunk, number) {
                prefetch(counter);
            }
        }
    }

    /// The upper bits of the counter of a record with this tag.
    #[inline]
    fn mark(&self, tag: u16) -> u8 {
        match self.format.has_editions() {
            true => (self.format.edition(tag) as u8) << 6 | (tag as u8 & 0x3) << 4,
            false => (tag as u8) << 4,
        }
    }

    /// The count in a counter, if it is of this generation, of whatever edition.
    fn count_in(&self, now: u8, generation: u16) -> u8 {
        let of_generation = if self.format.has_editions() { 0x30 } else { 0xf0 };
        if (now ^ (generation as u8) << 4) & of_generation == 0 { now & 0x0f } else { 0 }
    }

    /// Counts an access to a record with this tag, up to `max`.
    #[inline]
    pub(super) fn touch(&self, chunk: ChunkId, number: u16, tag: u16, max: u8) {
        let Some(counter) = self.counter(chunk, number as usize) else { return };
        let (mark, now) = (self.mark(tag), counter.load(Ordering::Relaxed));
        let count = if now & 0xf0 == mark { now & 0x0f } else { 0 };
        if count < max {
            counter.store(mark | (count + 1), Ordering::Relaxed);
        }
    }

    /// The count of one record with this tag.
    pub(super) fn count(&self, chunk: ChunkId, number: u16, tag: u16) -> u8 {
        let now = self.counter(chunk, number as usize).map_or(0, |counter| counter.load(Ordering::Relaxed));
        if now & 0xf0 == self.mark(tag) { now & 0x0f } else { 0 }
    }

    /// The count of what a place has in this generation.
    pub(super) fn count_of_place(&self, chunk: ChunkId, number: u16, generation: u16) -> u8 {
        let now = self.counter(chunk, number as usize).map_or(0, |counter| counter.load(Ordering::Relaxed));
        self.count_in(now, generation)
    }

    /// Takes the count of what a place has in this generation, leaving zero.
    fn take(&self, chunk: ChunkId, number: usize, generation: u16) -> u8 {
        let Some(counter) = self.counter(chunk, number) else { return 0 };
        let now = counter.load(Ordering::Relaxed);
        if now == 0 {
            return 0;
        }
        counter.store(0, Ordering::Relaxed);
        self.count_in(now, generation)
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Adds this process's counts to the pool, where that is due.
    pub(super) async fn flush_hotness(&self) -> Result<(), CacheError> {
        let before = self.client.endpoint.purpose(Purpose::Hotness);
        let flushed = self.technique.flush_hotness(self).await;
        self.client.endpoint.purpose(before);
        flushed
    }

    /// Adds this process's counts of groups that have entered a queue's eviction window.
    pub async fn flush_windows(&self) -> Result<(), CacheError> {
        let cursors = self.cursors().await?;
        self.note_cursors(cursors);
        for queue in Queue::ALL {
            let (head, window) =
                (cursors[queue as usize].head, self.shared.settings.window.min(cursors[queue as usize].len()));
            let end = head.wrapping_add(window);
            let flushed = &self.shared.hotness.flushed[queue as usize];
            let before = flushed.swap(1 << 32 | u64::from(end), Ordering::Relaxed);
            // An earlier flush of any thread of this process covered part of the window. The rest
            // is new.
            let behind = end.wrapping_sub(before as u32);
            let new = if before >> 32 == 0 { window } else { behind.min(window) };
            if new == 0 {
                continue;
            }
            let first = end.wrapping_sub(new);
            for (index, node) in self.nodes(queue, first, new).await?.into_iter().enumerate() {
                if let Some(node) = node {
                    let at = self.shared.layout.frequencies(queue, first.wrapping_add(index as u32));
                    self.flush_group(at, node.chunk, node.generation);
                }
            }
        }
        Ok(())
    }

    /// Adds this process's counts of a group to the counters that begin there.
    pub fn flush_group(&self, at: Address, chunk: ChunkId, generation: u16) {
        let objects = self.client.pool.settings.group_objects_max as usize;
        let mut batch = Batch::new();
        for first in (0..objects).step_by(4) {
            let lane = |lane: usize| match first + lane {
                number if number < objects => self.shared.hotness.take(chunk, number, generation),
                _ => 0,
            };
            let counts = (0..4).fold(0u64, |word, index| word | u64::from(lane(index)) << (16 * index));
            if counts != 0 {
                batch.fetch_and_add(at.add(2 * first as u64), counts);
            }
            if batch.is_full() {
                self.client.endpoint.post_unawaited(&mut batch);
            }
        }
        if !batch.is_empty() {
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }

    /// All processes' counts of a group that this client has dequeued: the counts flushed to
    /// `position`, and this process's unflushed counts. Leaves zero behind.
    pub async fn take_frequencies(
        &self,
        queue: Queue,
        position: u32,
        chunk: ChunkId,
        generation: u16,
        objects: usize,
    ) -> Result<Vec<u16>, CacheError> {
        let at = self.technique.counters(self, chunk, queue, position);
        let buffer = self.spares.take((2 * objects).next_multiple_of(8));
        let mut batch = Batch::new();
        let read = batch.read(at, buffer);
        self.client.endpoint.post(&mut batch).await?;
        let mut buffer = batch.take(read);
        self.swap_for_zero(at, buffer.words_mut()).await?;
        let flushed = |number: usize| (buffer.words()[number / 4] >> (16 * (number % 4))) as u16;
        let at_home = |number: usize| match u16::from(self.shared.hotness.take(chunk, number, generation)) {
            // All counts are in the pool already.
            _ if self.technique.counts_at_once() => 0,
            count => count,
        };
        let frequencies = (0..objects).map(|number| flushed(number).saturating_add(at_home(number))).collect();
        self.spares.keep(buffer);
        Ok(frequencies)
    }

    /// Swaps each word that is not zero for zero; `words` receives the old words. A word that
    /// changes meanwhile is left to the position's next lap.
    async fn swap_for_zero(&self, at: Address, words: &mut [u64]) -> Result<(), CacheError> {
        for (part, words) in words.chunks_mut(BATCH_VERBS_MAX).enumerate() {
            let mut batch = Batch::new();
            let mut swaps = ArrayVec::<_, BATCH_VERBS_MAX>::new();
            for (index, word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
                let address = at.add(8 * (part * BATCH_VERBS_MAX + index) as u64);
                swaps.push((index, batch.compare_and_swap(address, *word, 0)));
            }
            if swaps.is_empty() {
                continue;
            }
            self.client.endpoint.post(&mut batch).await?;
            for (index, swap) in swaps {
                if !batch.swapped(swap) {
                    words[index] = 0;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stop_at_the_cap_and_die_with_their_generation_and_their_record() {
        for heap_bytes in [1 << 30, 1 << 40] {
            let format = SlotFormat::new(heap_bytes);
            let map = HotnessMap::new(2, 8, format);
            for _ in 0..20 {
                map.touch(ChunkId(1), 3, 0x17, 3);
            }
            assert_eq!((map.count(ChunkId(1), 3, 0x17), map.count(ChunkId(1), 3, 0x18)), (3, 0));
            map.touch(ChunkId(1), 3, 0x18, 3);
            assert_eq!(map.count(ChunkId(1), 3, 0x18), 1);
            if let Some(next) = format.next_edition(0x18) {
                assert_eq!(map.count(ChunkId(1), 3, next), 0);
                map.touch(ChunkId(1), 3, next, 3);
                assert_eq!((map.count(ChunkId(1), 3, next), map.count_of_place(ChunkId(1), 3, 0x18)), (1, 1));
            }
            assert_eq!(map.take(ChunkId(1), 3, 0x18), 1);
            assert_eq!(map.take(ChunkId(1), 3, 0x18), 0);
            // A number from damaged bytes is ignored.
            map.touch(ChunkId(1), 4095, 0, 3);
        }
    }
}
