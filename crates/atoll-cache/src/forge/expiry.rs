//! Expired objects that no client asks for.
//!
//! A group's descriptor says when the next of its objects expires (see `group`). Clients that tend
//! look at descriptors at the pace of [`sweep`](crate::sweep): together, at each once in a pass. A
//! group whose time has come is swept. The client READs its records and removes every expired
//! object that a slot points to. The removed objects are dead memory, which `cleaning` reclaims.
//!
//! | step | verbs | if the client stops here |
//! |---|---|---|
//! | claim | READ the hand; CAS | the stretch is looked at in the next pass |
//! | look | READ its descriptors | the same |
//! | sweep | READ chunk; READ slots; for each expired object what `unlink` does | the same |
//! | note | CAS descriptor word 3, READ word 0; CAS word 3 back if the chunk is another group's now | the group is looked at again, or not swept again |
//!
//! The last step is a hint in both directions. A group whose time is noted too late keeps its
//! expired objects until a client asks for them. Cleaning or evicting the group ends that too.

use super::Forge;
use super::group::Expiry;
use super::layout::{BUCKET_SLOTS, Queue};
use super::open_groups::OpenGroup;
use super::operation::Operation;
use super::slot::Slot;
use super::technique::Technique;
use crate::CacheError;
use crate::index::Unlink;
use crate::sweep::{Budget, Hand};
use arrayvec::ArrayVec;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Purpose};
use atoll_pool::{ChunkId, ChunkState, chunks, read_word};

/// Descriptors of a stretch, at least, if so many are due: 8 KiB in one READ.
const STRETCH_MIN: u64 = 256;

/// The groups that a client has still to sweep, and its time budget for that.
pub(super) struct Sweep {
    /// Chunks of the stretch that this client claimed last whose time has come.
    due: Vec<ChunkId>,
    budget: Budget,
}

impl Sweep {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { due: Vec::new(), budget: Budget::new(now_ns) }
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Removes expired objects while this client's budget lasts.
    pub(super) async fn sweep_expired(&self) -> Result<(), CacheError> {
        let now_ns = self.client.endpoint.now_ns();
        let Some(until_ns) = self.sweep.borrow_mut().budget.until_ns(now_ns) else { return Ok(()) };
        let before = self.client.endpoint.purpose(Purpose::Upkeep);
        let swept = self.sweep_until(until_ns).await;
        self.client.endpoint.purpose(before);
        self.sweep.borrow_mut().budget.spent(self.client.endpoint.now_ns());
        swept
    }

    async fn sweep_until(&self, until_ns: u64) -> Result<(), CacheError> {
        while self.client.endpoint.now_ns() < until_ns {
            let due = self.sweep.borrow_mut().due.pop();
            match due {
                Some(chunk) => self.sweep_group(chunk).await?,
                None if self.claim_stretch().await? => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Claims the next descriptors, and notes the groups in which an object has expired. `false` if
    /// no descriptors are due.
    async fn claim_stretch(&self) -> Result<bool, CacheError> {
        let (at, layout) = (self.shared.layout.sweep(), self.client.pool.layout.clone());
        let word = read_word(&self.client.endpoint, at).await?;
        let now_ns = self.client.endpoint.now_ns();
        let now_ms = self.client.pool_ms(now_ns).await?;
        let Some((stretch, next)) = Hand::from_word(word).stretch(now_ms, layout.chunks(), STRETCH_MIN) else {
            return Ok(false);
        };
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, word, next.word());
        self.client.endpoint.post(&mut batch).await?;
        if !batch.swapped(swap) {
            return Ok(false);
        }
        let (first, count) = (stretch.start, stretch.len() as u32);
        let descriptors = chunks::descriptors(&self.client.endpoint, &layout, ChunkId(first), count).await?;
        for (chunk, descriptor) in stretch.zip(&descriptors) {
            let is_queued = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
            if is_queued && Expiry::is_over(Expiry::from_word(descriptor.engine).next, now_ms) {
                self.sweep.borrow_mut().due.push(ChunkId(chunk));
            }
        }
        Ok(true)
    }

    /// Queues this client's open groups in which an object has expired, so that they are swept like
    /// all others.
    pub(super) async fn close_expired_groups(&self) -> Result<(), CacheError> {
        for queue in Queue::ALL {
            let first_ms = self.groups.borrow().filled(queue).and_then(OpenGroup::first_expiry_ms);
            let Some(first_ms) = first_ms else { continue };
            let now_ns = self.client.endpoint.now_ns();
            if first_ms <= self.client.pool_ms(now_ns).await? {
                self.close_group(queue, 0).await?;
            }
        }
        Ok(())
    }

    /// Sweeps the groups that this client has claimed, before it evicts any object that has not
    /// expired. Returns whether there was one.
    pub(super) async fn sweep_due(&self) -> Result<bool, CacheError> {
        let mut is_any = false;
        loop {
            let Some(chunk) = self.sweep.borrow_mut().due.pop() else { return Ok(is_any) };
            self.sweep_group(chunk).await?;
            is_any = true;
        }
    }

    async fn sweep_group(&self, chunk: ChunkId) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let layout = self.client.pool.layout.clone();
        let Some(descriptor) = chunks::descriptors(&self.client.endpoint, &layout, chunk, 1).await?.first().copied()
        else {
            return Ok(());
        };
        let Some(queued) = descriptor.chunk.filter(|chunk| chunk.state == ChunkState::Queued) else { return Ok(()) };
        let now_ns = self.client.endpoint.now_ns();
        let now_ms = self.client.pool_ms(now_ns).await?;
        let expiry = Expiry::from_word(descriptor.engine);
        if !Expiry::is_over(expiry.next, now_ms) {
            return Ok(());
        }
        let mut buffer = Buffer::new();
        buffer.resize(layout.chunk_bytes as usize);
        let mut buffer = self.client.endpoint.read(layout.chunk(chunk), buffer).await?;
        let records = self.parse(&mut buffer, queued.generation);
        let mut next_ms: Option<u64> = None;
        let mut expired = Vec::new();
        for record in &records {
            let Some(expiry_ms) = record.expiry_ms() else { continue };
            if expiry_ms <= now_ms {
                expired.push(record.hash);
            } else {
                next_ms = Some(next_ms.map_or(expiry_ms, |next_ms| next_ms.min(expiry_ms)));
            }
        }
        // Sorted by bucket. Only the map says where in its bucket the record's slot is. The map is
        // written once, and may be another group's by now.
        expired.sort_unstable_by_key(|hash| self.home(*hash));
        expired.dedup_by_key(|hash| self.home(*hash));
        for hashes in expired.chunks(BATCH_VERBS_MAX) {
            let mut batch = Batch::new();
            let reads: ArrayVec<_, BATCH_VERBS_MAX> = hashes
                .iter()
                .map(|hash| {
                    let (bucket, words) = (self.bucket_now(*hash), Buffer::sized(8 * BUCKET_SLOTS));
                    (bucket, batch.read(self.bucket_at(bucket), words))
                })
                .collect();
            self.client.endpoint.post(&mut batch).await?;
            let found: Vec<_> = reads.into_iter().map(|(bucket, read)| (bucket, batch.take(read))).collect();
            for (hash, (bucket, words)) in hashes.iter().zip(found) {
                (op.bucket, op.notes.bucket) = (words, bucket);
                if !self.has_settled(op, *hash) {
                    self.read_bucket(op, *hash).await?;
                }
                for place in 0..BUCKET_SLOTS {
                    let (word, slot) = op.seen(place);
                    self.take_if_expired(op, slot, word, (chunk, queued.generation), &records, now_ms).await?;
                }
            }
        }
        let swept = Expiry { next: Expiry::time(next_ms, now_ms), ..expiry };
        let at = layout.note(chunk);
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, descriptor.engine, swept.word());
        let state = batch.read_word(layout.descriptor(chunk));
        self.client.endpoint.post(&mut batch).await?;
        if batch.swapped(swap) && batch.word(state) != queued.word() {
            // The chunk is another group's, whose word happens to be equal.
            let mut batch = Batch::new();
            batch.compare_and_swap(at, swept.word(), descriptor.engine);
            self.client.endpoint.post(&mut batch).await?;
        }
        Ok(())
    }

    /// Removes an object if its slot points to an expired record of the group.
    async fn take_if_expired(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        (chunk, generation): (ChunkId, u32),
        records: &[super::repair::Parsed],
        now_ms: u64,
    ) -> Result<(), CacheError> {
        let begin = u64::from(chunk.0) * self.client.pool.layout.chunk_bytes;
        let offset = self.shared.format.heap_offset(word).wrapping_sub(begin);
        if !word.is_live() || !self.shared.format.has_generation(word, generation) {
            return Ok(());
        }
        let Ok(index) = records.binary_search_by_key(&offset, super::repair::Parsed::offset_bytes) else {
            return Ok(());
        };
        if records[index].expiry_ms().is_some_and(|expiry_ms| expiry_ms <= now_ms) {
            self.take_expired(op, slot, word).await?;
        }
        Ok(())
    }
}
