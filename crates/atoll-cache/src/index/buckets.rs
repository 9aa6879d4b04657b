//! Where the buckets of an index are.
//!
//! ```text
//! home node       | ... the engine's words | bucket 0 | bucket 1 | ... | bucket n - 1 |
//! further node i  | bucket i * n | bucket i * n + 1 | ...                             |
//! ```
//!
//! Every node that was there when the pool was made has the same number of buckets. Only the last
//! node may have fewer. Nodes hold buckets in the order of the nodes' numbers. A hash chooses among
//! all buckets. In a bucket the slots come first.

use super::{BUCKET_SLOTS, SLOTS_BYTES};
use crate::spares::Spares;
use atoll_fabric::{Address, Batch, Endpoint, VerbError};
use atoll_pool::{EngineArea, Layout, Pool, PoolError};

/// Buckets READ at once, where their slots do not lie side by side.
const BUCKETS_AT_ONCE: u32 = 16;

/// The buckets of an index, of `BYTES` bytes each.
#[derive(Clone, Debug)]
pub(crate) struct Buckets<const BYTES: u64> {
    first: Address,
    buckets: u32,
    /// Buckets of each node except the last, which may have fewer. With one node: all buckets.
    node_buckets: u32,
}

impl<const BYTES: u64> Buckets<BYTES> {
    /// An index of so many buckets, on so many nodes, whose first bucket is at `first`.
    pub(crate) fn new(first: Address, buckets: u32, nodes: u32) -> Self {
        const { assert!(BYTES >= SLOTS_BYTES && BYTES.is_multiple_of(64)) };
        Self { first, buckets, node_buckets: buckets.div_ceil(nodes) }
    }

    /// The area that the index needs on each node. At home, `bytes_before` bytes lie in front of
    /// it.
    pub(crate) fn area(&self, bytes_before: u64) -> EngineArea {
        let index_bytes = u64::from(self.node_buckets) * BYTES;
        let is_spread = self.node_buckets < self.buckets;
        EngineArea { home_bytes: bytes_before + index_bytes, share_bytes: if is_spread { index_bytes } else { 0 } }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.buckets
    }

    /// Where a bucket is.
    #[inline(always)]
    pub(crate) fn at(&self, bucket: u32) -> Address {
        if bucket < self.node_buckets {
            return self.first.add(u64::from(bucket) * BYTES);
        }
        self.further(bucket)
    }

    /// Out of the way of the one-node case, which it would slow down if it were inlined.
    #[cold]
    #[inline(never)]
    fn further(&self, bucket: u32) -> Address {
        let (node, index) = (bucket / self.node_buckets, bucket % self.node_buckets);
        Layout::engine_share(node as u8).add(u64::from(index) * BYTES)
    }

    /// Where a slot is, by its number: bucket * 16 + place.
    #[inline(always)]
    pub(crate) fn slot(&self, slot: u64) -> Address {
        // A slot's number has at most 34 bits, or was checked against the index.
        self.at((slot / BUCKET_SLOTS as u64) as u32).add(slot % BUCKET_SLOTS as u64 * 8)
    }

    /// How many buckets lie in one piece from this one on, including it.
    pub(crate) fn in_a_piece(&self, bucket: u32) -> u32 {
        (self.node_buckets - bucket % self.node_buckets).min(self.buckets.saturating_sub(bucket))
    }

    /// The bucket at an address, and the byte within it.
    pub(crate) fn find(&self, at: Address) -> Option<(u64, u64)> {
        let (begin, before) = match at.is_home() {
            true => (self.first, 0),
            false => (Layout::engine_share(at.node()), u64::from(at.node()) * u64::from(self.node_buckets)),
        };
        let offset = at.offset().checked_sub(begin.offset())?;
        let (index, within) = (offset / BYTES, offset % BYTES);
        let is_there = index < u64::from(self.node_buckets) && before + index < u64::from(self.buckets);
        is_there.then_some((before + index, within))
    }

    /// READs the slots of the buckets from `first` on: as many as lie in one piece, and at most the
    /// given number. Where the slots lie side by side, one READ covers all of them. Otherwise it is
    /// one READ a bucket, in one batch.
    pub(crate) async fn read_slots<E: Endpoint>(
        &self,
        endpoint: &E,
        spares: &Spares,
        first: u32,
        most: u32,
    ) -> Result<Vec<u64>, VerbError> {
        let piece = self.in_a_piece(first).min(most);
        assert!(piece > 0, "there is a bucket {first} of {}", self.buckets);
        let (reads, buckets_a_read) = if BYTES == SLOTS_BYTES { (1, piece) } else { (piece.min(BUCKETS_AT_ONCE), 1) };
        let mut batch = Batch::new();
        for read in 0..reads {
            let slots = spares.take(buckets_a_read as usize * SLOTS_BYTES as usize);
            batch.read(self.at(first + read * buckets_a_read), slots);
        }
        endpoint.post(&mut batch).await?;
        let mut words = Vec::with_capacity((reads * buckets_a_read) as usize * BUCKET_SLOTS);
        for read in 0..reads as usize {
            let slots = batch.take_nth(read);
            words.extend_from_slice(slots.words());
            spares.keep(slots);
        }
        Ok(words)
    }
}

/// Checks that the pool's area for the engine is as large as the engine needs.
pub(crate) fn check_area(pool: &Pool, needed: EngineArea) -> Result<(), PoolError> {
    let area = pool.layout.engine_area;
    match needed.home_bytes <= area.home_bytes && needed.share_bytes <= area.share_bytes {
        true => Ok(()),
        false => Err(PoolError::Damaged { what: "the engine area is too small" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const BYTES: u64>() {
        let (home, before) = (Address::new(0, 0, 4096), 640);
        for (nodes, count) in [(1, 4), (2, 4), (3, 10), (4, 3), (3, 1000)] {
            let buckets = Buckets::<BYTES>::new(home.add(before), count, nodes);
            let (mut pieces, mut first, area) = (0, 0, buckets.area(before));
            while first < count {
                let piece = buckets.in_a_piece(first);
                for bucket in first..first + piece {
                    let at = buckets.at(bucket);
                    assert_eq!(at, buckets.at(first).add(u64::from(bucket - first) * BYTES));
                    assert_eq!(buckets.slot(u64::from(bucket) * 16 + 5), at.add(40));
                    assert_eq!(buckets.find(at.add(8)), Some((bucket.into(), 8)));
                    let end = match at.is_home() {
                        true => home.offset() + area.home_bytes,
                        false => Layout::engine_share(1).offset() + area.share_bytes,
                    };
                    assert!(at.offset() + BYTES <= end);
                }
                (pieces, first) = (pieces + 1, first + piece);
            }
            assert_eq!(pieces, nodes.min(count), "{nodes} nodes, {count} buckets");
        }
    }

    #[test]
    fn buckets_lie_in_pieces_one_a_node_and_slots_in_their_buckets() {
        check::<SLOTS_BYTES>();
        check::<768>();
    }
}
