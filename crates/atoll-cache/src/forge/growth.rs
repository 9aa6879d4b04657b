//! When the index grows: by what its client sees when it inserts, so that no user has to say how
//! large objects are.
//!
//! | a client sees | it |
//! |---|---|
//! | the mean load of buckets that wait to be split is above [`LOAD_MAX`] | splits a bucket |
//! | the same, if the load is projected to a full pool | the same, once the load is [`LOAD_MIN`] |
//! | a bucket with [`LOAD_HIGH`] objects or more, and one of these rows applies | splits some |
//! | the same, among the first [`SAMPLES_FEW`] buckets | the same |
//!
//! A client that leaves soon never knows the mean: hence the last row.
//!
//! The load of a bucket is the number of its live and pending slots. A bucket that has been split
//! in this round counts twice. A client projects the load by the share of chunks that are free. So
//! the index has its final size before the pool is full, and clients seldom find a bucket full.
//!
//! The index takes free chunks of the home, or a chunk of the client's stock. It never shrinks.

use super::Forge;
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS, ForgeLayout};
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use crate::CacheError;
use crate::extent::OpenChunk;
use crate::index::directory::Directory;
use crate::index::first_slot;
use crate::index::split::{self, Splits};
use atoll_fabric::{Address, Endpoint};
use atoll_pool::chunks::{self, FreeCount};
use atoll_pool::{Chunk, ChunkState, Layout};
use std::cell::Cell;

/// Loads are counted in this fraction of a slot.
const LOAD_UNIT: u32 = 4096;
/// The highest mean load. With it, one bucket in about 20 is full.
const LOAD_MAX: u32 = 10 * LOAD_UNIT;
/// A lower mean load leaves practically no bucket full.
const LOAD_MIN: u32 = 3 * LOAD_UNIT;
/// A bucket with so many objects is split soon.
const LOAD_HIGH: u32 = 8;
/// Splits after such a bucket was seen, and otherwise.
const SPLITS: [u32; 2] = [4, 1];
/// Insertions over which a client takes the mean.
const SAMPLES_MAX: u32 = 128;
/// Insertions after which the mean means little.
const SAMPLES_FEW: u32 = 8;
/// Insertions after which a client READs again how many chunks are free.
const LOOK_INSERTIONS: u32 = 256;
/// The used share of the pool is counted in this fraction. A lower share than an eighth counts as
/// an eighth.
const SHARE_UNIT: u32 = 1024;

/// What one client knows of the index's size, and of how full it is.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) directory: Directory,
    /// The mean load.
    load: Cell<u32>,
    /// Insertions in the mean, at most [`SAMPLES_MAX`].
    samples: Cell<u32>,
    /// The share of the pool's chunks that are used.
    used_share: Cell<u32>,
    /// Insertions until the client READs that share again.
    until_look: Cell<u32>,
    /// The mean load above which this client splits buckets.
    load_max: Cell<u32>,
    /// Splits that this client is to make.
    due: Cell<u32>,
    /// Whether it makes them whatever the mean load is.
    is_certain: Cell<bool>,
}

impl Growth {
    pub(super) fn new(layout: &ForgeLayout, pool: &Layout) -> Self {
        Self {
            directory: layout.directory(pool.chunk_bytes),
            load: Cell::default(),
            samples: Cell::default(),
            used_share: Cell::new(SHARE_UNIT),
            until_look: Cell::default(),
            load_max: Cell::new(LOAD_MAX),
            due: Cell::default(),
            is_certain: Cell::default(),
        }
    }

    /// Whether [`Forge::grow_index`] has something to do.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due.get() > 0
    }

    /// Notes the words of a bucket in which this client has just made a slot pending.
    #[inline]
    pub(super) fn note_load(&self, bucket: u32, words: &[u64; BUCKET_SLOTS]) {
        if !self.directory.grows() {
            return;
        }
        let used: u32 = words.iter().map(|word| u32::from(!Slot(*word).is_free())).sum();
        let others = used.saturating_sub(1);
        let counted = if self.directory.size().is_unsplit(bucket) { others } else { 2 * others } * LOAD_UNIT;
        let samples = (self.samples.get() + 1).min(SAMPLES_MAX);
        self.samples.set(samples);
        let mean = self.load.get();
        self.load.set((mean * (samples - 1) + counted) / samples);
        if samples <= SAMPLES_FEW && others >= LOAD_HIGH {
            self.is_certain.set(true);
            self.due.set(SPLITS[0]);
        }
        if self.load.get() < self.load_min() {
            return;
        }
        let until_look = self.until_look.get().saturating_sub(1);
        self.until_look.set(until_look);
        if until_look == 0 || self.is_loaded() {
            self.due.set(if others >= LOAD_HIGH { SPLITS[0] } else { SPLITS[1] });
        }
    }

    /// Whether the load, in a full pool, is too high.
    fn is_loaded(&self) -> bool {
        let load = self.load.get();
        load >= self.load_min() && load * SHARE_UNIT / self.used_share.get() >= self.load_max.get()
    }

    fn load_min(&self) -> u32 {
        LOAD_MIN.min(self.load_max.get())
    }

    /// Notes how many of the pool's chunks are free.
    fn note_free(&self, free: u64, chunks: u32) {
        let used = u64::from(chunks).saturating_sub(free) * u64::from(SHARE_UNIT) / u64::from(chunks.max(1));
        self.used_share.set((used as u32).max(SHARE_UNIT / 8));
        self.until_look.set(LOOK_INSERTIONS);
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Sets the mean number of a bucket's objects at which this client lets the index grow.
    pub fn set_index_load_max(&self, objects: u32) {
        self.growth.load_max.set(objects * LOAD_UNIT);
    }

    /// The bucket of a key with this hash, as far as this client knows.
    #[inline(always)]
    pub fn bucket_now(&self, hash: KeyHash) -> u32 {
        self.growth.directory.size().bucket(hash.bucket, hash.split)
    }

    /// Where a bucket is that this client knows.
    #[inline(always)]
    pub fn bucket_at(&self, bucket: u32) -> Address {
        if self.growth.directory.is_first(bucket) {
            return self.shared.layout.bucket(bucket);
        }
        let (entry, place) = self.growth.directory.place(bucket);
        let chunk = self.growth.directory.chunk(entry).expect("a client knows the chunks of the buckets that it knows");
        self.client.pool.layout.chunk(chunk).add(u64::from(place) * BUCKET_BYTES)
    }

    /// The home number of the bucket of a key with this hash.
    #[inline]
    pub(super) fn home(&self, hash: KeyHash) -> u32 {
        self.growth.directory.home(hash.bucket, hash.split)
    }

    /// The home number of a slot in the bucket of a key with this hash, by the slot's place.
    #[inline]
    pub fn home_slot(&self, hash: KeyHash, slot: u64) -> u64 {
        first_slot(self.home(hash)) + slot % BUCKET_SLOTS as u64
    }

    /// The slot with a home number.
    #[inline]
    pub(super) fn slot_of_home(&self, home: u64) -> u64 {
        self.growth.directory.size().slot_of_home(home)
    }

    /// One more than the highest home number of a slot.
    pub(super) fn homes_end(&self) -> u64 {
        first_slot(self.growth.directory.buckets_max())
    }

    /// Makes the splits that are due, if there is memory for them.
    #[cold]
    pub(super) async fn grow_index(&self) -> Result<(), CacheError> {
        let due = self.growth.due.take();
        if self.growth.until_look.get() == 0 {
            let free = chunks::free_chunks(&self.client.endpoint, &self.client.pool.layout).await?;
            self.growth.note_free(free, self.client.pool.layout.chunks());
        }
        if self.growth.is_certain.take() || self.growth.is_loaded() {
            for _ in 0..due {
                if !split::grow(self).await? {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl<E: Endpoint, T: Technique<E>> Splits for Forge<E, T> {
    fn directory(&self) -> &Directory {
        &self.growth.directory
    }

    fn splits_at(&self) -> Address {
        self.shared.layout.splits()
    }

    fn entry_at(&self, entry: usize) -> Address {
        self.shared.layout.directory_entry(entry)
    }

    async fn chunk_for_index(&self) -> Result<Option<OpenChunk>, CacheError> {
        let layout = &self.client.pool.layout;
        let found = match self.client.allocate(FreeCount::Glance, self.chunks_kept()).await? {
            Some(found) => Some(found),
            None if self.stock.chunks.len() > 1 => self.stock.chunks.pop(),
            None => None,
        };
        let Some((chunk, generation)) = found else { return Ok(None) };
        if layout.node_of(chunk) == 0 {
            return Ok(found);
        }
        let open = Chunk::owned(ChunkState::Open, self.client.me(), generation);
        self.client.free_own(chunk, open).await?;
        Ok(None)
    }

    fn thaws_early(&self) -> bool {
        self.is_open(super::Hole::EarlyThaw)
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::ForgeOptions;
    use super::*;
    use atoll_pool::Layout;

    fn growth() -> Growth {
        let settings = ForgeOptions::default().for_capacity(8 << 20);
        let area = super::super::layout::engine_area(&settings);
        let layout = Layout::plan(&settings, area).unwrap();
        let forge = super::super::settings::ForgeSettings::decode(&settings).unwrap();
        Growth::new(&ForgeLayout::of(layout.engine(), &settings, &forge), &layout)
    }

    fn bucket(objects: usize) -> [u64; BUCKET_SLOTS] {
        std::array::from_fn(|place| if place <= objects { 1 << 56 } else { 0 })
    }

    #[test]
    fn the_index_grows_once_its_load_would_be_too_high_in_a_full_pool() {
        let growth = growth();
        (0..1000).for_each(|_| growth.note_load(0, &bucket(2)));
        assert!(!growth.is_due(), "almost no bucket is full");
        growth.note_free(10, 1000);
        (0..200).for_each(|_| growth.note_load(0, &bucket(9)));
        assert!(!growth.is_due(), "a full pool has no more than this load");
        growth.note_free(500, 1000);
        growth.note_load(0, &bucket(9));
        assert!(growth.is_loaded() && growth.is_due());
        growth.due.take();
        growth.note_free(0, 1000);
        (0..200).for_each(|_| growth.note_load(0, &bucket(11)));
        assert_eq!(growth.due.take(), SPLITS[0], "it is full now");
    }

    #[test]
    fn a_client_looks_now_and_then_how_full_the_pool_is() {
        let growth = growth();
        growth.note_load(0, &bucket(5));
        assert!(growth.is_due() && !growth.is_loaded(), "it has never looked");
        growth.due.take();
        growth.note_free(0, 1000);
        (1..LOOK_INSERTIONS).for_each(|_| growth.note_load(0, &bucket(5)));
        assert!(!growth.is_due());
        growth.note_load(0, &bucket(5));
        assert!(growth.is_due());
    }
}
