//! The memory nodes that a process knows, and which chunks each of them has.

use crate::ChunkId;
use crate::nodes::ABSENT_IDENTITY_MASK;
use crate::settings::NODES_MAX;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// The nodes that a process knows, shared by all its threads. They only grow.
#[derive(Debug)]
pub(crate) struct KnownNodes {
    /// How many nodes, including the home.
    count: AtomicU32,
    /// Chunks of all known nodes.
    chunks: AtomicU32,
    /// Of the chunks that the pool was created with, how many have memory, from the first on.
    provided: AtomicU32,
    /// For each known node, one more than its last chunk.
    ends: [AtomicU32; NODES_MAX as usize],
    /// For each node the identity of the region that this process has last used, with a mark.
    identities: [AtomicU32; NODES_MAX as usize],
    /// The open hole of `loss`, plus one.
    #[cfg(feature = "holes")]
    pub(crate) hole: AtomicU32,
    /// The open hole of `sharers`, plus one.
    #[cfg(feature = "holes")]
    pub(crate) sharers_hole: AtomicU32,
}

/// The bits of an identity that an absent node's word has, marked as known.
fn marked(identity: u32) -> u32 {
    identity & ABSENT_IDENTITY_MASK | 1 << 31
}

impl KnownNodes {
    pub(crate) fn home(chunks: u32) -> Self {
        let ends = [const { AtomicU32::new(0) }; NODES_MAX as usize];
        ends[0].store(chunks, Ordering::Relaxed);
        Self {
            count: AtomicU32::new(1),
            chunks: AtomicU32::new(chunks),
            provided: AtomicU32::new(0),
            ends,
            identities: [const { AtomicU32::new(0) }; NODES_MAX as usize],
            #[cfg(feature = "holes")]
            hole: AtomicU32::new(0),
            #[cfg(feature = "holes")]
            sharers_hole: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(crate) fn provided(&self) -> u32 {
        self.provided.load(Ordering::Acquire)
    }

    pub(crate) fn note_provided(&self, chunks: u32) {
        self.provided.fetch_max(chunks, Ordering::Release);
    }

    #[inline]
    pub(crate) fn chunks(&self) -> u32 {
        self.chunks.load(Ordering::Acquire)
    }

    pub(crate) fn count(&self) -> u8 {
        self.count.load(Ordering::Acquire) as u8
    }

    pub(crate) fn end(&self, node: u8) -> u32 {
        self.ends[usize::from(node)].load(Ordering::Relaxed)
    }

    /// Adds the next node. Threads that learn of it at once all add the same.
    pub(crate) fn add(&self, node: u8, chunks: u32) {
        assert!(node > 0 && node <= self.count(), "nodes become known in the order of their numbers");
        let end = self.end(node - 1) + chunks;
        self.ends[usize::from(node)].store(end, Ordering::Relaxed);
        // A thread that sees the sums also sees the nodes that they count.
        self.count.fetch_max(u32::from(node) + 1, Ordering::Release);
        self.chunks.fetch_max(end, Ordering::Release);
    }

    /// This process uses the region of a node, which has this identity.
    pub(crate) fn note_identity(&self, node: u8, identity: u32) {
        self.identities[usize::from(node)].store(marked(identity), Ordering::Relaxed);
    }

    /// Whether the last region of a node that this process has used has this identity, by the bits
    /// that an absent node's word has.
    pub(crate) fn has_identity(&self, node: u8, identity: u32) -> bool {
        self.identities[usize::from(node)].load(Ordering::Relaxed) == marked(identity)
    }

    pub(crate) fn chunks_of(&self, node: u8) -> Option<Range<u32>> {
        let start = if node == 0 { 0 } else { self.end(node - 1) };
        (node < self.count()).then(|| start..self.end(node))
    }

    /// The node of a chunk, and the chunk's number on that node. For an unknown chunk it is beyond
    /// the end of the last node.
    pub(crate) fn find(&self, chunk: ChunkId) -> (u8, u32) {
        let last = self.count() - 1;
        let node = (0..last).find(|node| chunk.0 < self.end(*node)).unwrap_or(last);
        (node, chunk.0 - if node == 0 { 0 } else { self.end(node - 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_numbered_through_and_found_again() {
        let known = KnownNodes::home(5);
        known.add(1, 3);
        known.add(2, 4);
        known.add(2, 4);
        assert_eq!((known.count(), known.chunks()), (3, 12));
        let found: Vec<_> = (0..12).map(|chunk| known.find(ChunkId(chunk))).collect();
        assert_eq!(found[..6], [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]);
        assert_eq!(found[6..], [(1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3)]);
        assert_eq!((known.chunks_of(1), known.chunks_of(2), known.chunks_of(3)), (Some(5..8), Some(8..12), None));
        assert_eq!(known.find(ChunkId(40)), (2, 32), "not known: beyond the end");
    }
}
