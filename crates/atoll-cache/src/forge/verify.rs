//! Every invariant of this engine's words in a quiet pool, walked and named: see [`crate::audit`].
//!
//! - every Queued chunk has exactly one node of its generation in one of the rings;
//! - every live slot points to a whole record of the chunk's generation, in a chunk that is Open,
//!   Queued or Leaving, whose key hashes to that slot's bucket and fingerprint; no key is live
//!   twice; no slot is pending

use super::Forge;
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS, Queue};
use super::operation::Operation;
use super::ring::{Cursors, Node};
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use crate::CacheError;
use crate::audit::{Audit, Walk};
use crate::extent::ExtentIndex;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::{ChunkId, ChunkState};
use std::collections::HashMap;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Walks the pool. No other client may use it meanwhile, or what is under way is reported as
    /// faults.
    pub(super) async fn audit(&self) -> Result<Audit, CacheError> {
        let mut walk = Walk::begin(&self.client).await?;
        self.verify_rings(&mut walk).await?;
        self.verify_index(&mut walk).await?;
        walk.end(&self.client).await
    }

    async fn verify_rings(&self, walk: &mut Walk) -> Result<(), CacheError> {
        let length = 1u32 << self.shared.settings.ring_log2;
        let mut queued: HashMap<ChunkId, u32> = HashMap::new();
        let cursors = self.cursors().await?;
        for queue in Queue::ALL {
            for (index, node) in self.nodes(queue, 0, length).await?.into_iter().enumerate() {
                let Some(Node { chunk, generation, .. }) = node else { continue };
                let Some(descriptor) = walk.descriptors.get(chunk.0 as usize) else {
                    walk.audit.fault(|| format!("node {index} of the {queue:?} queue names chunk {}", chunk.0));
                    continue;
                };
                let state = descriptor.chunk;
                let current = state
                    .is_some_and(|state| state.state == ChunkState::Queued && state.generation as u16 == generation);
                // A node of a group that was cleaned is stale, and will be dropped.
                if !current {
                    continue;
                }
                *queued.entry(chunk).or_default() += 1;
                let Cursors { head, .. } = cursors[queue as usize];
                let distance = (index as u32).wrapping_sub(head) & (length - 1);
                if distance >= cursors[queue as usize].len() {
                    walk.audit.fault(|| format!("chunk {} waits in the {queue:?} queue outside its cursors", chunk.0));
                }
            }
        }
        let Walk { audit, descriptors, .. } = walk;
        for (index, descriptor) in descriptors.iter().enumerate() {
            let is_queued = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
            let nodes = queued.get(&ChunkId(index as u32)).copied().unwrap_or(0);
            if is_queued && nodes != 1 {
                audit.fault(|| format!("chunk {index} is queued and has {nodes} nodes"));
            }
        }
        Ok(())
    }

    async fn verify_index(&self, walk: &mut Walk) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let buckets = self.shared.settings.buckets;
        let mut first = 0;
        while first < buckets {
            let count = 1024.min(self.shared.layout.buckets_in_a_piece(first));
            let mut buffer = Buffer::new();
            buffer.resize(BUCKET_BYTES as usize * count as usize);
            let mut batch = Batch::new();
            let read = batch.read(self.shared.layout.bucket(first), buffer);
            self.client.endpoint.post(&mut batch).await?;
            let words = batch.take(read);
            for (index, word) in words.words().iter().enumerate() {
                let slot = u64::from(first) * BUCKET_SLOTS as u64 + index as u64;
                self.verify_slot(op, walk, slot, Slot(*word)).await?;
            }
            first += count;
        }
        Ok(())
    }

    async fn verify_slot(&self, op: &mut Operation, walk: &mut Walk, slot: u64, word: Slot) -> Result<(), CacheError> {
        if word.is_free() {
            return Ok(());
        }
        if word.is_pending() {
            walk.audit.fault(|| format!("slot {slot} is pending"));
            return Ok(());
        }
        let Some((at, bytes, chunk)) = self.find_record(word).await? else {
            walk.audit.fault(|| format!("slot {slot} points outside the heap"));
            return Ok(());
        };
        let mut buffer = std::mem::take(&mut op.record);
        buffer.resize(bytes);
        let mut batch = Batch::new();
        let read = batch.read(at, buffer);
        self.client.endpoint.post(&mut batch).await?;
        op.record = batch.take(read);
        let Some(record) = self.judge(word, &op.record) else {
            walk.audit.fault(|| format!("slot {slot} points to no record of its own"));
            return Ok(());
        };
        let state = walk.descriptors[chunk.0 as usize].chunk;
        let in_group = state.is_some_and(|state| {
            matches!(state.state, ChunkState::Open | ChunkState::Queued | ChunkState::Leaving)
                && state.generation as u16 == record.header.generation
        });
        if !in_group {
            walk.audit.fault(|| format!("slot {slot} points into chunk {}, which holds no group of its time", chunk.0));
        }
        let (header, large, mut key) = (record.header, record.large(), record.key.to_vec());
        if let Some(body) = large {
            let Some(found) = walk.visit_large(self.extent_io(), slot, &header, &body).await? else { return Ok(()) };
            key = found;
        }
        let hash: KeyHash = self.key_hash(&key);
        if u64::from(hash.bucket) != slot / BUCKET_SLOTS as u64 || hash.fingerprint != word.fingerprint() {
            walk.audit.fault(|| format!("slot {slot} holds a key that does not belong there"));
        }
        walk.visit_object(slot, key, header.body_bytes());
        Ok(())
    }
}
