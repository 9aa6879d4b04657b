//! The step after which no slot names a block of a chunk: objects move, or are evicted.

use super::blocks::{Blocks, Naming};
use crate::index::{Index, copies};
use crate::table::operation::Operation;
use crate::table::slot::Slot;
use crate::table::{Core, Hole};
use crate::{CacheError, Cause};
use atoll_fabric::{Batch, Buffer, Endpoint, Ticket};
use atoll_pool::ChunkId;

/// Slots swapped in one batch.
const SLOTS_AT_ONCE: usize = 16;

/// The outcome of unnaming a chunk's blocks.
pub(super) enum Unnamed {
    /// No slot names a block any more. Whether a client has these blocks, given by their numbers,
    /// is not known yet.
    All(Vec<usize>),
    /// A slot changed meanwhile.
    Changed,
    /// For some objects there is no room yet.
    Crowded,
}

impl<E: Endpoint> Core<E> {
    /// Makes no slot name a block of the chunk. Objects move if the `contents` of the chunk are
    /// given; otherwise the slots become empty. With `waits`, objects that should move stay while
    /// there is no room for them.
    pub(super) async fn unname(
        &self,
        op: &mut Operation,
        chunk: ChunkId,
        blocks: &Blocks,
        contents: Option<&mut Buffer>,
        waits: bool,
    ) -> Result<Unnamed, CacheError> {
        let mut others: Vec<usize> = (0..blocks.images.len()).collect();
        let mut named = self.named(chunk, blocks, &others).await?;
        let (mut are_same, mut is_unnamed) = (true, vec![false; others.len()]);
        if let Some(contents) = contents {
            let live = named.extract_if(.., |naming| naming.word.is_live()).collect();
            let moved = Box::pin(self.move_objects(op, chunk, blocks, contents, live)).await?;
            are_same = moved.are_same;
            moved.numbers.into_iter().for_each(|number| is_unnamed[number] = true);
            if waits && !moved.left.is_empty() {
                return Ok(Unnamed::Crowded);
            }
            named.extend(moved.left);
        }
        let mut leaving = Vec::with_capacity(named.len());
        for mut naming in named {
            let Some(word) = copies::closed(self, naming.slot, naming.word).await? else {
                are_same = false;
                continue;
            };
            naming.word = word;
            let extents = if word.is_live() { self.extents_of(op, naming.slot, word).await? } else { Some(None) };
            match extents {
                Some(extents) => {
                    let removal = self.removal_before(word, Some(Cause::Evicted)).await?;
                    leaving.push((naming, extents, removal));
                }
                None => are_same = false,
            }
        }
        for some in leaving.chunks_mut(SLOTS_AT_ONCE) {
            let mut batch = Batch::new();
            let swap = |(naming, ..): &(Naming, _, _)| {
                batch.compare_and_swap(self.shared.layout.slot(naming.slot), naming.word.0, Slot::EMPTY.0)
            };
            let swaps: Vec<Ticket> = some.iter().map(swap).collect();
            self.client.endpoint.post(&mut batch).await?;
            let (mut evicted, mut without_name) = (0, Vec::new());
            for ((naming, extents, removal), swap) in some.iter_mut().zip(swaps) {
                let is_swapped = batch.swapped(swap);
                are_same &= is_swapped;
                // A pending slot's block still belongs to its inserter. A slot with another tag did
                // not hold the record that was seen.
                is_unnamed[naming.number] |= is_swapped
                    && (!naming.word.is_pending() || self.is_open(Hole::PendingName))
                    && blocks.images[naming.number].tag() == Some(naming.word.tag());
                if is_swapped && naming.word.is_live() {
                    evicted += 1;
                    self.removals.note_read(removal.take());
                    without_name.extend(&*extents);
                }
                if is_swapped && naming.word.is_dead() {
                    self.note_dead(naming.word.block(), naming.word.class(self.shared.settings.large_class), -1);
                }
            }
            self.stats.evictions.add(evicted);
            if evicted > 0 {
                self.count_removed(evicted).await?;
            }
            for extents in without_name {
                self.extent_io().free_extents(extents).await?;
            }
        }
        others.retain(|number| !is_unnamed[*number]);
        Ok(if are_same { Unnamed::All(others) } else { Unnamed::Changed })
    }
}
