//! The blocks of a chunk, as they lie there, and the slots that name them.

use crate::CacheError;
use crate::table::Core;
use crate::table::block::Image;
use crate::table::class::Class;
use crate::table::layout::{BUCKET_SLOTS, SLOTS_BYTES};
use crate::table::slot::Slot;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::{ChunkId, chunks};

/// Buckets READ in one batch.
const BUCKETS_AT_ONCE: usize = 16;

/// The blocks of a chunk, as they lie there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::table) struct Blocks {
    pub(in crate::table) class: Option<Class>,
    pub(in crate::table) images: Vec<Image>,
    /// The highest tag of the blocks, or the tag with which the chunk began.
    pub(in crate::table) tag: u16,
}

impl Blocks {
    /// Whether some block does not show the bucket in which a slot may name it.
    pub(in crate::table) fn has_torn(&self) -> bool {
        self.images.iter().any(|image| image.is_torn())
    }
}

/// A slot that names a block.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct Naming {
    pub(in crate::table) slot: u64,
    pub(in crate::table) word: Slot,
    /// The block's number in its chunk.
    pub(in crate::table) number: usize,
}

impl<E: Endpoint> Core<E> {
    /// READs a chunk's blocks.
    pub(in crate::table) async fn blocks(&self, chunk: ChunkId) -> Result<Blocks, CacheError> {
        let (blocks, contents) = self.read_blocks(chunk).await?;
        self.spares.keep(contents);
        Ok(blocks)
    }

    /// The blocks of the chunk, and all its bytes.
    pub(super) async fn read_blocks(&self, chunk: ChunkId) -> Result<(Blocks, Buffer), CacheError> {
        let layout = self.client.pool.layout.clone();
        let descriptor = chunks::descriptors(&self.client.endpoint, &layout, chunk, 1).await?[0];
        let class = u8::try_from(descriptor.contents).ok().and_then(Class::from_code);
        let mut blocks = Blocks { class, images: Vec::new(), tag: descriptor.engine as u16 };
        let buffer = self.spares.take(layout.chunk_bytes as usize);
        let Some(class) = class else { return Ok((blocks, buffer)) };
        let mut buffer = self.client.endpoint.read(layout.chunk(chunk), buffer).await?;
        for index in 0..class.blocks(layout.chunk_bytes) {
            let bytes = class.bytes() as usize;
            let image = self.image(&mut buffer, index as usize * bytes, bytes);
            blocks.tag = blocks.tag.max(image.tag().unwrap_or(0));
            blocks.images.push(image);
        }
        Ok((blocks, buffer))
    }

    /// The slots that name blocks of the chunk, each with its block's number. They are searched in
    /// the buckets that the blocks' records name.
    pub(in crate::table) async fn named(
        &self,
        chunk: ChunkId,
        blocks: &Blocks,
        numbers: &[usize],
    ) -> Result<Vec<Naming>, CacheError> {
        let mut named = Vec::new();
        let Some(class) = blocks.class else { return Ok(named) };
        let with_bucket = |number: &usize| Some((*number, blocks.images[*number].bucket()?));
        let told: Vec<(usize, u32)> = numbers.iter().filter_map(with_bucket).collect();
        for some in told.chunks(BUCKETS_AT_ONCE) {
            let mut batch = Batch::new();
            for (_, bucket) in some {
                let mut buffer = Buffer::new();
                buffer.resize(SLOTS_BYTES as usize);
                batch.read(self.shared.layout.bucket(*bucket), buffer);
            }
            self.client.endpoint.post(&mut batch).await?;
            for (index, (number, bucket)) in some.iter().enumerate() {
                let slots = batch.take_nth(index);
                let block = self.block_of(chunk, class, *number);
                let words = slots.words().iter().map(|word| Slot(*word)).enumerate();
                let first = u64::from(*bucket) * BUCKET_SLOTS as u64;
                let naming = words.filter(|(_, word)| word.names(block));
                named.extend(naming.map(|(place, word)| Naming { slot: first + place as u64, word, number: *number }));
            }
        }
        Ok(named)
    }
}
