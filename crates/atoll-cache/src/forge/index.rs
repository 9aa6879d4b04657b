//! FORGE's index among the engines' indexes: see [`crate::index`].
//!
//! A look at a record is under protection: the client WRITEs the protection of the chunk and READs
//! slot and record behind that. If the slot is unchanged, the record cannot be reused until the
//! look ends.

use super::layout::{BUCKET_BYTES, BUCKET_SLOTS};
use super::operation::{Notes, Operation};
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::index::{Index, Look, bucket_of_slot, copies, first_slot, index_parts, split};
use crate::record::Record;
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;

impl<E: Endpoint, T: Technique<E>> Index for Forge<E, T> {
    index_parts!(E, Slot, Notes);

    fn buckets(&self) -> u32 {
        self.growth.directory.size().count()
    }

    fn first_buckets(&self) -> u32 {
        self.shared.settings.buckets
    }

    async fn learn_buckets(&self) -> Result<(), CacheError> {
        split::learn(self).await
    }

    fn bucket_of_hash(&self, hash: u64) -> u32 {
        self.bucket_now(KeyHash::new(hash, self.shared.settings.buckets))
    }

    fn bucket_of_home(&self, home: u64) -> Option<u32> {
        let first = first_slot(u32::try_from(home).ok()?);
        (first < self.homes_end()).then(|| bucket_of_slot(self.growth.directory.size().slot_of_home(first)))
    }

    #[inline(always)]
    fn slot_at(&self, slot: u64) -> Address {
        self.bucket_at(bucket_of_slot(slot)).add(slot % BUCKET_SLOTS as u64 * 8)
    }

    async fn read_slots(&self, first: u32, most: u32) -> Result<Vec<u64>, CacheError> {
        loop {
            let words = self.read_words(first, most).await?;
            // An auditor looks at what is there, and changes nothing.
            if !self.client.is_member() {
                return Ok(words);
            }
            let size = self.growth.directory.size();
            let is_unsettled = |(bucket, words): &(u32, &[u64])| {
                let words = words.first_chunk().expect("a bucket is READ whole");
                !split::is_settled::<Slot>(words, size.depth(*bucket))
            };
            match (first..).zip(words.chunks(BUCKET_SLOTS)).find(is_unsettled) {
                Some((bucket, _)) => Box::pin(split::settle(self, bucket)).await?,
                None => return Ok(words),
            }
        }
    }

    async fn slot_word(&self, slot: u64) -> Result<Slot, CacheError> {
        loop {
            let mut batch = Batch::new();
            let word = batch.read_word(self.slot_at(slot));
            self.client.endpoint.post(&mut batch).await?;
            let word = Slot(batch.word(word));
            if !word.is_frozen() || !self.client.is_member() {
                return Ok(word);
            }
            Box::pin(split::settle(self, bucket_of_slot(slot))).await?;
        }
    }

    #[inline(always)]
    fn record_span(&self, word: Slot) -> Option<(Address, usize, ChunkId)> {
        Self::record_span(self, word)
    }

    fn ignores_new_nodes(&self) -> bool {
        self.is_open(Hole::UnknownNode)
    }

    fn judged<'r>(&self, word: Slot, record: &'r mut Buffer) -> Option<Record<'r>> {
        self.judge(word, record)
    }

    async fn look(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<Look, CacheError> {
        Ok(match self.read_protected(op, slot, word).await? {
            Some((now, _)) if now != word || now.is_frozen() => Look::Changed,
            Some(_) => match self.judge(word, &op.record) {
                Some(record) => Look::Sound(record.header, record.large().map(Box::new)),
                None => Look::Damaged,
            },
            None => Look::Damaged,
        })
    }

    fn end_look(&self, op: &mut Operation) {
        self.unprotect(op);
    }

    /// Loses nothing but a damaged live object. The record of a pending slot may be unsound without
    /// damage. An insertion that withdrew gives its place back. When it begins again, it may WRITE
    /// to the same place while this client READs, and make the slot pending with the same word.
    ///
    /// The caller found the record unsound and the word in the slot, by READs in any order. That of
    /// the record may have been too early, if the word has come back. The chunk is protected or the
    /// client's own by now, so a second READ of the record decides. What is unsound of a large
    /// object is its body, which no slot points to.
    ///
    /// The swap expects a pending word, so it hits an undecided insertion. No client has seen its
    /// object. Its inserter's own swap from that word fails now, and the inserter begins again.
    async fn drop_damaged(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        if self.is_open(Hole::Protection) || self.is_open(Hole::EarlyReuse) {
            return Ok(());
        }
        if word.is_live()
            && !word.is_large()
            && let Some((at, bytes, _)) = self.record_span(word)
        {
            let record = self.client.endpoint.read(at, Buffer::sized(bytes)).await?;
            if self.judge(word, &record).is_some() {
                return Ok(());
            }
        }
        let Some(word) = copies::closed(self, slot, word).await? else { return Ok(()) };
        if self.swap_slot(slot, word, word.emptied()).await? && word.is_live() {
            self.stats.damaged.add(1);
            self.count_removed(1).await?;
        }
        Ok(())
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// READs the words of the buckets from `first` on, as many as lie in one piece, and at most so
    /// many buckets.
    async fn read_words(&self, first: u32, most: u32) -> Result<Vec<u64>, CacheError> {
        let (endpoint, directory) = (&self.client.endpoint, &self.growth.directory);
        if directory.is_first(first) {
            return Ok(self.shared.layout.buckets().read_slots(endpoint, &self.spares, first, most).await?);
        }
        let (_, place) = directory.place(first);
        let chunk_buckets = (self.client.pool.layout.chunk_bytes / BUCKET_BYTES) as u32;
        let piece = most.min(chunk_buckets - place).min(directory.size().count() - first);
        let slots = self.spares.take((u64::from(piece) * BUCKET_BYTES) as usize);
        let slots = endpoint.read(self.bucket_at(first), slots).await?;
        let words = slots.words().to_vec();
        self.spares.keep(slots);
        Ok(words)
    }
}
