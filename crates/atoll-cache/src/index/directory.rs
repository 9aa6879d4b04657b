//! Where the buckets of an index are that grows: the arithmetic of linear hashing, and what one
//! client knows of the pool's words for it. How a bucket is split: see [`split`](super::split).
//!
//! ```text
//! buckets  | 0 ... first - 1 | first ... first + c - 1 | first + c ... | ...
//!          | where the pool  | chunk that entry 0 of   | entry 1       |
//!          | was laid out    | the directory names     |               |
//! ```
//!
//! The index begins with `first` buckets. A hash chooses one of these, and has seven further bits.
//! A round doubles the index, one bucket at a time and in order: bucket `b` is split into `b` and
//! `b + first << depth`, where `depth` says how often `b` was split before. The next bit of the
//! hash chooses between the two.
//!
//! | word in the pool | holds | access |
//! |---|---|---|
//! | splits | how many buckets were ever added | atomics only |
//! | directory entry | one more than the number of a chunk of buckets; 0: none yet | atomics only |
//!
//! A slot's **home number** is its place in its bucket, and the bucket that its key would have in
//! an index of the largest size. It names the slot at every size, because a split keeps places.

use super::BUCKET_SLOTS;
use atoll_pool::ChunkId;
use std::cell::Cell;

/// Most rounds of an index: a slot word has three bits for the depth of its bucket.
pub(crate) const ROUNDS_MAX: u32 = 7;

/// How many buckets an index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Buckets of the new index.
    first: u32,
    count: u32,
    /// Rounds that have ended.
    rounds: u32,
    /// The bits of a hash that choose among the buckets that a first bucket was split into.
    mask: u32,
}

impl Size {
    /// So many buckets, of which there were `first` in the new index.
    pub(crate) fn new(first: u32, count: u32) -> Self {
        assert!(first > 0 && count >= first, "an index never shrinks: {count} of {first} buckets");
        let rounds = (count / first).ilog2();
        let is_amid = count > first << rounds;
        Self { first, count, rounds, mask: (1 << (rounds + u32::from(is_amid))) - 1 }
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// How many buckets were added.
    pub(crate) fn splits(self) -> u32 {
        self.count - self.first
    }

    /// The bucket of the keys whose hashes choose this first bucket and have these further bits.
    #[inline(always)]
    pub(crate) fn bucket(self, first: u32, split: u8) -> u32 {
        let split = u32::from(split);
        let (late, early) = (first + self.first * (split & self.mask), first + self.first * (split & self.mask >> 1));
        if late < self.count { late } else { early }
    }

    /// The slot with a home number.
    pub(crate) fn slot_of_home(self, home: u64) -> u64 {
        if self.count == self.first && self.mask == 0 && home < u64::from(self.first) * BUCKET_SLOTS as u64 {
            return home;
        }
        let bucket = home / BUCKET_SLOTS as u64;
        let (first, split) = (bucket % u64::from(self.first), bucket / u64::from(self.first));
        u64::from(self.bucket(first as u32, split as u8)) * BUCKET_SLOTS as u64 + home % BUCKET_SLOTS as u64
    }

    /// Buckets at the beginning of this round.
    fn round(self) -> u32 {
        self.first << self.rounds
    }

    /// How often a bucket has been split, or its parent before its birth.
    #[inline]
    pub(crate) fn depth(self, bucket: u32) -> u32 {
        self.rounds + u32::from(!self.is_unsplit(bucket))
    }

    /// Whether a bucket waits to be split in this round.
    #[inline]
    pub(crate) fn is_unsplit(self, bucket: u32) -> bool {
        bucket < self.round() && self.count - self.round() <= bucket
    }

    /// The bucket that the next split adds.
    pub(crate) fn next_child(self) -> u32 {
        self.count
    }

    /// The bucket that is split next.
    pub(crate) fn next_parent(self) -> u32 {
        self.count - self.round()
    }

    /// The bucket that the last split has split, if there was one.
    pub(crate) fn last_parent(self) -> Option<u32> {
        (self.count > self.first).then(|| Self::new(self.first, self.count - 1).next_parent())
    }

    /// The bucket that a split of a bucket with this depth adds.
    pub(crate) fn child(self, bucket: u32, depth: u32) -> u32 {
        bucket + (self.first << depth)
    }
}

/// One client's knowledge of an index.
#[derive(Debug)]
pub(crate) struct Directory {
    size: Cell<Size>,
    /// The parents of so many splits, from the first on, were seen thawed.
    thawed: Cell<u32>,
    rounds_max: u32,
    /// Log2 of the buckets of a chunk.
    chunk_log2: u32,
    /// One more than the number of each chunk; 0 if the client does not know the chunk.
    chunks: Box<[Cell<u32>]>,
}

impl Directory {
    /// A new index of so many buckets, in a pool with chunks for so many buckets.
    pub(crate) fn new(first: u32, rounds_max: u32, chunk_buckets: u32) -> Self {
        assert!(rounds_max <= ROUNDS_MAX && chunk_buckets.is_power_of_two());
        let entries = Self::entries(first, rounds_max, chunk_buckets);
        Self {
            size: Cell::new(Size::new(first, first)),
            thawed: Cell::new(0),
            rounds_max,
            chunk_log2: chunk_buckets.ilog2(),
            chunks: vec![Cell::new(0); entries as usize].into(),
        }
    }

    /// Entries of the directory of such an index.
    pub(crate) fn entries(first: u32, rounds_max: u32, chunk_buckets: u32) -> u32 {
        ((first << rounds_max) - first).div_ceil(chunk_buckets)
    }

    /// The size that this client knows.
    #[inline(always)]
    pub(crate) fn size(&self) -> Size {
        self.size.get()
    }

    /// Notes that the index has had so many splits. The client knows the chunks of all buckets.
    pub(crate) fn note_splits(&self, splits: u32) {
        let first = self.size().first;
        assert!(first + splits <= self.buckets_max(), "a size is checked before it is noted");
        if first + splits > self.size().count {
            self.size.set(Size::new(first, first + splits));
        }
    }

    /// Whether this client has seen the parents thawed of all splits that made an index so large.
    #[inline]
    pub(crate) fn has_seen_thawed(&self, size: Size) -> bool {
        self.thawed.get() >= size.splits()
    }

    /// Notes that the parents of all splits that made an index so large are thawed.
    pub(crate) fn note_thawed(&self, size: Size) {
        self.thawed.set(self.thawed.get().max(size.splits()));
    }

    /// Most splits that there may be.
    pub(crate) fn splits_max(&self) -> u32 {
        self.buckets_max() - self.size().first
    }

    /// Most buckets that there may be.
    pub(crate) fn buckets_max(&self) -> u32 {
        self.size().first << self.rounds_max
    }

    /// Whether the index may ever grow.
    #[inline]
    pub(crate) fn grows(&self) -> bool {
        self.rounds_max > 0
    }

    /// The home bucket of the keys whose hashes choose this first bucket and have these further
    /// bits.
    #[inline]
    pub(crate) fn home(&self, first: u32, split: u8) -> u32 {
        first + self.size().first * (u32::from(split) & ((1 << self.rounds_max) - 1))
    }

    /// The entry of the directory for a bucket that was added, and the bucket's place in its chunk.
    #[inline(always)]
    pub(crate) fn place(&self, bucket: u32) -> (usize, u32) {
        let added = bucket - self.size().first;
        ((added >> self.chunk_log2) as usize, added & ((1 << self.chunk_log2) - 1))
    }

    /// Whether the index began with a bucket.
    #[inline(always)]
    pub(crate) fn is_first(&self, bucket: u32) -> bool {
        bucket < self.size().first
    }

    /// The chunk that an entry names, if this client knows it.
    #[inline(always)]
    pub(crate) fn chunk(&self, entry: usize) -> Option<ChunkId> {
        self.chunks[entry].get().checked_sub(1).map(ChunkId)
    }

    /// Notes the chunk of an entry.
    pub(crate) fn note_chunk(&self, entry: usize, chunk: ChunkId) {
        self.chunks[entry].set(chunk.0 + 1);
    }

    /// How many entries there are.
    pub(crate) fn entries_max(&self) -> usize {
        self.chunks.len()
    }

    /// The first entry that this client does not know.
    pub(crate) fn known_entries(&self) -> usize {
        self.chunks.iter().position(|chunk| chunk.get() == 0).unwrap_or(self.chunks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_moves_keys_to_the_new_bucket_alone_and_keeps_their_homes() {
        for first in [1, 2, 3, 7] {
            let directory = Directory::new(first, 3, 2);
            assert_eq!(directory.chunks.len() as u32, (7 * first).div_ceil(2));
            let keys = || (0..first).flat_map(|bucket| (0..=255u8).map(move |split| (bucket, split)));
            let mut before = Size::new(first, first);
            assert!(keys().all(|(bucket, split)| before.bucket(bucket, split) == bucket && before.depth(bucket) == 0));
            for splits in 1..=7 * first {
                let (parent, child) = (before.next_parent(), before.next_child());
                let depth = before.depth(parent);
                assert_eq!(before.child(parent, depth), child);
                directory.note_splits(splits);
                let now = directory.size();
                assert_eq!((now.count(), now.last_parent()), (first + splits, Some(parent)));
                assert_eq!((now.depth(parent), now.depth(child)), (depth + 1, depth + 1));
                let mut moved = 0;
                for (bucket, split) in keys() {
                    let (old, new) = (before.bucket(bucket, split), now.bucket(bucket, split));
                    assert!(new == old || (old == parent && new == child));
                    moved += usize::from(new != old);
                    let home = u64::from(directory.home(bucket, split)) * 16 + 5;
                    assert!(home < u64::from(directory.buckets_max()) * 16);
                    assert_eq!(now.slot_of_home(home), u64::from(new) * 16 + 5);
                }
                assert_eq!(moved, 128 >> depth, "half of the parent's keys move");
                let others = (0..before.count()).filter(|other| *other != parent);
                assert!(others.into_iter().all(|other| now.depth(other) == before.depth(other)));
                before = now;
            }
            assert_eq!(before.count(), directory.buckets_max());
        }
    }

    #[test]
    fn an_entry_names_the_chunk_of_its_buckets() {
        let directory = Directory::new(5, 2, 4);
        assert!(directory.is_first(4) && !directory.is_first(5));
        assert_eq!((directory.place(5), directory.place(8), directory.place(9)), ((0, 0), (0, 3), (1, 0)));
        assert_eq!((directory.chunk(0), directory.known_entries()), (None, 0));
        directory.note_chunk(0, ChunkId(0));
        assert_eq!((directory.chunk(0), directory.known_entries()), (Some(ChunkId(0)), 1));
    }
}
