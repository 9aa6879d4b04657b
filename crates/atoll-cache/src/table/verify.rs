//! Walks every invariant of the table's words in a quiet pool: see [`crate::audit`].
//!
//! - Every block of a chunk in use is named by exactly one slot or shelf, or one cell of a client.
//! - No slot names a block of a free chunk.
//! - Every live slot names a record of its tag.
//! - Every dead slot names a block whose record has the slot's bucket.
//! - The invariants of every engine's slots hold, too.
//! - The counts of dead bytes, in every chunk and in all, are right, unless a client died since
//!   they were counted.

use super::Core;
use super::cell::Cell;
use super::class::Class;
use super::layout::CELLS;
use super::slot::{Block, Slot};
use crate::CacheError;
use crate::audit::{Audit, Walk};
use crate::index::bucket_of_slot;
use crate::index::verify::{self, Visited};
use atoll_fabric::Endpoint;
use atoll_pool::{ChunkId, ChunkState, read_word, registry};
use std::collections::HashMap;

/// The blocks that a walk has seen.
struct Blocks {
    /// The slot that names a block, or the highest number for a shelf.
    named: HashMap<Block, u64>,
    dead_bytes: HashMap<ChunkId, u64>,
}

impl<E: Endpoint> Core<E> {
    pub(super) async fn audit(&self) -> Result<Audit, CacheError> {
        self.publish_dead();
        let mut walk = Walk::begin(&self.client).await?;
        let mut blocks = Blocks { named: HashMap::new(), dead_bytes: self.dead_on_shelves().await? };
        verify::index(self, &mut walk, |walk, visited| self.verify_slot(walk, &mut blocks, visited)).await?;
        self.verify_shelves(&mut walk, &mut blocks).await?;
        self.verify_blocks(&mut walk, &blocks).await?;
        self.verify_dead(&mut walk, &blocks).await?;
        walk.end(&self.client).await
    }

    async fn verify_dead(&self, walk: &mut Walk, blocks: &Blocks) -> Result<(), CacheError> {
        let (deaths, _) = self.client.deaths().await?;
        self.look_at_deaths(deaths).await?;
        if self.are_dead_bytes_doubtful() {
            return Ok(());
        }
        let counted = read_word(&self.client.endpoint, self.shared.layout.dead()).await?;
        let (Walk { audit, descriptors, .. }, dead_bytes) = (walk, &blocks.dead_bytes);
        let found: u64 = dead_bytes.values().sum();
        // Clients that are present and idle may not have published everything.
        let places = registry::places(&self.client.endpoint, &self.client.pool).await?;
        let me = self.client.is_member().then(|| self.client.me());
        if places.iter().any(|place| place.state.is_alive() && Some(place.incarnation) != me) {
            return Ok(());
        }
        if counted != found {
            audit.fault(|| format!("{counted} bytes are counted as dead, {found} are"));
        }
        for (index, descriptor) in descriptors.iter().enumerate() {
            let (counted, found) = (descriptor.dead_bytes, dead_bytes.get(&ChunkId(index as u32)).copied());
            if counted != found.unwrap_or(0) {
                audit.fault(|| format!("{counted} bytes of chunk {index} are counted as dead, {found:?} are"));
            }
        }
        Ok(())
    }

    /// A shelf names blocks of a chunk in use. Nothing else names them, and their records say that
    /// they are dead.
    async fn verify_shelves(&self, walk: &mut Walk, blocks: &mut Blocks) -> Result<(), CacheError> {
        for class in Class::all() {
            for (index, word) in self.shelves(class).await?.into_iter().enumerate().filter(|(_, word)| *word != 0) {
                let name = format!("shelf {index} of class {}", class.code());
                let Some(shelf) = self.sound_shelf(class, word) else {
                    walk.audit.fault(|| format!("{name} is damaged"));
                    continue;
                };
                let descriptor = walk.descriptors[shelf.chunk.0 as usize];
                let is_in_use = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
                if !is_in_use || descriptor.contents != u64::from(class.code()) {
                    walk.audit.fault(|| format!("{name} names chunk {} that is none ({descriptor:?})", shelf.chunk.0));
                    continue;
                }
                let image = self.blocks(shelf.chunk).await?.images;
                for (number, image) in image.iter().enumerate().skip(shelf.next.into()) {
                    let block = self.block_of(shelf.chunk, class, number);
                    if let Some(other) = blocks.named.insert(block, u64::MAX) {
                        walk.audit.fault(|| format!("{name} and slot {other} name the same block"));
                    }
                    if image.tag() != Some(shelf.tag) {
                        walk.audit.fault(|| format!("{name} names a block whose record does not tell it"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Every block of chunks in use is named by a slot, a shelf or a cell.
    async fn verify_blocks(&self, walk: &mut Walk, blocks: &Blocks) -> Result<(), CacheError> {
        let places = registry::places(&self.client.endpoint, &self.client.pool).await?;
        let cells = self.all_cells().await?;
        let mut in_hands = HashMap::new();
        for (index, word) in cells.iter().enumerate() {
            let Some(cell) = Cell::from_word(*word) else { continue };
            let client = (index / CELLS) as u32;
            if !places.iter().any(|place| place.incarnation.slot == client && place.state.is_alive()) {
                walk.audit.fault(|| format!("a cell of client {client}, who is not there, names {:?}", cell.block));
            }
            in_hands.insert(cell.block, client);
        }
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        let (Walk { audit, descriptors, .. }, named) = (walk, &blocks.named);
        for (index, descriptor) in descriptors.iter().enumerate() {
            if descriptor.chunk.is_none_or(|chunk| chunk.state != ChunkState::Queued) {
                continue;
            }
            let Some(class) = u8::try_from(descriptor.contents).ok().and_then(Class::from_code) else {
                audit.fault(|| format!("chunk {index} is in use and has no class"));
                continue;
            };
            for number in 0..class.blocks(chunk_bytes) {
                let block = Block::at(index as u64 * chunk_bytes + number * class.bytes());
                if !named.contains_key(&block) && !in_hands.contains_key(&block) {
                    audit.fault(|| format!("nobody has block {number} of chunk {index} ({block:?})"));
                }
            }
        }
        Ok(())
    }

    /// A slot names a block of a chunk in use, and nothing else names it. Returns whether it is the
    /// block of an object.
    fn verify_slot(&self, walk: &mut Walk, blocks: &mut Blocks, visited: Visited<'_, Slot>) -> bool {
        let Visited { slot, word, chunk, record, .. } = visited;
        if let Some(other) = blocks.named.insert(word.block(), slot) {
            walk.audit.fault(|| format!("slots {other} and {slot} name the same block"));
        }
        let class = word.class(self.shared.settings.large_class);
        let descriptor = walk.descriptors[chunk.0 as usize];
        let (_, within) = self.client.pool.layout.divide(word.block().heap_offset());
        let is_of_chunk = descriptor.contents == u64::from(class.code())
            && within.is_multiple_of(class.bytes())
            && descriptor.chunk.is_some_and(|chunk| {
                matches!(chunk.state, ChunkState::Open | ChunkState::Queued | ChunkState::Leaving)
            });
        if !is_of_chunk {
            walk.audit
                .fault(|| format!("slot {slot} names a block of chunk {} that is none ({descriptor:?})", chunk.0));
        }
        if !word.is_dead() {
            return true;
        }
        *blocks.dead_bytes.entry(chunk).or_default() += class.bytes();
        // The look for a record has moved the window of the buffer.
        let bytes = class.bytes().min(self.client.pool.layout.chunk_bytes - within) as usize;
        let image = self.image(record, 0, bytes);
        if (image.bucket(), image.tag()) != (Some(bucket_of_slot(slot)), Some(word.tag())) {
            walk.audit.fault(|| format!("slot {slot} names a dead block whose record does not tell it"));
        }
        false
    }
}
