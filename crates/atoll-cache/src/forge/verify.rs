//! Walks every invariant of this engine's words in a quiet pool: see [`crate::audit`].
//!
//! - Every Queued chunk has exactly one node of its generation in one of the rings.
//! - Every live slot points into a chunk that is Open, Queued or Leaving, to a record of its
//!   generation.
//! - Every chunk of the index is in its directory once. Every slot has the depth of its bucket, and
//!   none is frozen.
//! - The invariants of every engine's slots hold, too.

use super::Forge;
use super::layout::Queue;
use super::ring::{Cursors, Node};
use super::slot::Slot;
use super::technique::Technique;
use crate::CacheError;
use crate::audit::{Audit, Walk};
use crate::index::split::Splits;
use crate::index::verify::{self, Visited};
use crate::index::walk::SlotWalk;
use crate::index::{Index, bucket_of_slot};
use atoll_fabric::Endpoint;
use atoll_pool::{ChunkId, ChunkState};
use std::collections::HashMap;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Walks the pool. No other client may use it meanwhile, since operations under way would be
    /// reported as faults.
    pub(super) async fn audit(&self) -> Result<Audit, CacheError> {
        let mut walk = Walk::begin(&self.client).await?;
        self.verify_rings(&mut walk).await?;
        self.verify_index(&mut walk).await?;
        let visit = |walk: &mut Walk, visited: Visited<'_, Slot>| {
            self.verify_slot(walk, &visited);
            true
        };
        verify::index(self, &mut walk, visit).await?;
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
        self.learn_buckets().await?;
        let directory = &self.growth.directory;
        let mut listed: Vec<_> = (0..directory.known_entries()).filter_map(|entry| directory.chunk(entry)).collect();
        if listed.len() < directory.entries_max() {
            // The chunk of the buckets to come may be there already.
            let next = atoll_pool::read_word(&self.client.endpoint, self.entry_at(listed.len())).await?;
            listed.extend(u32::try_from(next).ok().and_then(|next| next.checked_sub(1)).map(ChunkId));
        }
        let mut times: HashMap<ChunkId, usize> = HashMap::new();
        listed.into_iter().for_each(|chunk| *times.entry(chunk).or_default() += 1);
        for (number, descriptor) in (0..).zip(&walk.descriptors) {
            let is_index = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Index);
            let times = times.get(&ChunkId(number)).copied().unwrap_or(0);
            if times != usize::from(is_index) {
                walk.audit.fault(|| format!("chunk {number} is {times} times in the directory of the index"));
            }
        }
        let (size, mut slots) = (directory.size(), SlotWalk::new(self));
        while let Some(some) = slots.next().await? {
            for (slot, word) in some {
                let depth = size.depth(bucket_of_slot(slot));
                if word.is_frozen() || word.depth() != depth {
                    let (found, frozen) = (word.depth(), word.is_frozen());
                    walk.audit.fault(|| format!("slot {slot} has depth {found} (frozen: {frozen}), not {depth}"));
                }
            }
        }
        Ok(())
    }

    /// A live slot points into a group of its record's time.
    fn verify_slot(&self, walk: &mut Walk, visited: &Visited<'_, Slot>) {
        let Visited { slot, chunk, header, .. } = visited;
        let Some(header) = header else { return };
        let in_group = walk.descriptors[chunk.0 as usize].chunk.is_some_and(|found| {
            matches!(found.state, ChunkState::Open | ChunkState::Queued | ChunkState::Leaving)
                && self.shared.format.is_of_generation(header.generation, found.generation)
        });
        if !in_group {
            walk.audit.fault(|| format!("slot {slot} points into chunk {}, which holds no group of its time", chunk.0));
        }
    }
}
