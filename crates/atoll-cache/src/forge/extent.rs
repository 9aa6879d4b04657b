//! Objects larger than half a chunk: key and value fill chunks of their own, one after the other, and the record lists them.
//!
//! Up to sixteen extents are listed in the record itself; for more, the record lists up to sixteen chunks full of chunk numbers (two to
//! a word). The chunks are written before the record, by their owner alone, and never changed; whoever makes the object dead frees
//! them, after every operation that may still read them under protection has ended. A lookup, which is not protected, checks the
//! body's checksum.

use super::object::{Header, LARGE_CHUNKS, LargeBody};
use super::{Forge, evict};
use crate::CacheError;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};

/// The chunks of a large object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extents {
    /// Those with key and value, in order.
    pub(super) body: Vec<ChunkId>,
    /// Those with the numbers of the former, if there are more than the record lists.
    pub(super) lists: Vec<ChunkId>,
}

impl Extents {
    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = ChunkId> {
        self.body.iter().chain(&self.lists).copied()
    }

    fn listed(&self) -> [u32; LARGE_CHUNKS] {
        let listed = if self.lists.is_empty() { &self.body } else { &self.lists };
        std::array::from_fn(|index| listed.get(index).map_or(0, |chunk| chunk.0))
    }
}

/// Body and list chunks that an object with so many bytes of key and value needs.
pub(super) fn chunks_needed(body_bytes: usize, chunk_bytes: u64) -> (usize, usize) {
    let body = (body_bytes as u64).div_ceil(chunk_bytes) as usize;
    let lists = if body > LARGE_CHUNKS { body.div_ceil(chunk_bytes as usize / 4) } else { 0 };
    (body, lists)
}

/// The longest key and value together that a record's lists can name.
pub(super) fn body_bytes_max(chunk_bytes: u64) -> u64 {
    LARGE_CHUNKS as u64 * (chunk_bytes / 4) * chunk_bytes
}

impl<E: Endpoint> Forge<E> {
    /// The extents of a large object; `None` if what is read is no list of chunks.
    pub(super) async fn extents(&mut self, header: &Header, body: &LargeBody) -> Result<Option<Extents>, CacheError> {
        let layout = self.shared.pool.layout.clone();
        let (bodies, lists) = chunks_needed(header.body_bytes(), layout.chunk_bytes);
        if bodies > layout.chunks as usize || lists > LARGE_CHUNKS {
            return Ok(None);
        }
        let checked = |numbers: &[u32]| -> Option<Vec<ChunkId>> {
            numbers.iter().map(|number| layout.checked_chunk(*number)).collect()
        };
        let listed = checked(&body.chunks[..if lists == 0 { bodies } else { lists }]);
        let Some(listed) = listed else { return Ok(None) };
        if lists == 0 {
            return Ok(Some(Extents { body: listed, lists: Vec::new() }));
        }
        let mut numbers = Vec::with_capacity(bodies);
        for list in &listed {
            let here = (bodies - numbers.len()).min(layout.chunk_bytes as usize / 4);
            let mut buffer = Buffer::new();
            buffer.resize((4 * here).next_multiple_of(8));
            let mut batch = Batch::new();
            let read = batch.read(layout.chunk(*list), buffer);
            self.endpoint.post(&mut batch).await?;
            let buffer = batch.take(read);
            numbers.extend(buffer.words().iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).take(here));
        }
        Ok(checked(&numbers).map(|body| Extents { body, lists: listed }))
    }

    /// READs key and value of a large object, each chunk straight to its place in `buffer`; `None` if their checksum is another.
    pub(super) async fn read_body(
        &mut self,
        header: &Header,
        body: &LargeBody,
        buffer: Buffer,
    ) -> Result<Option<Buffer>, CacheError> {
        let Some(extents) = self.extents(header, body).await? else { return Ok(None) };
        let bytes = header.body_bytes();
        let buffer = self.read_extents(&extents, bytes, buffer).await?;
        Ok((self.shared.hasher.hash(buffer.bytes()) == body.checksum).then_some(buffer))
    }

    /// READs the first `bytes` of key and value.
    pub(super) async fn read_extents(
        &mut self,
        extents: &Extents,
        bytes: usize,
        mut buffer: Buffer,
    ) -> Result<Buffer, CacheError> {
        let layout = self.shared.pool.layout.clone();
        let chunk_bytes = layout.chunk_bytes as usize;
        buffer.resize(bytes);
        for (index, chunk) in extents.body.iter().enumerate().take(bytes.div_ceil(chunk_bytes)) {
            let start = index * chunk_bytes;
            buffer.narrow(start, (bytes - start).min(chunk_bytes).next_multiple_of(8));
            let mut batch = Batch::new();
            let read = batch.read(layout.chunk(*chunk), buffer);
            self.endpoint.post(&mut batch).await?;
            buffer = batch.take(read);
        }
        buffer.resize(bytes);
        Ok(buffer)
    }

    /// Writes key and value into chunks from the stock, which has enough, and turns them into extents.
    pub(super) async fn write_extents(&mut self, key: &[u8], value: &[u8]) -> Result<(Extents, LargeBody), CacheError> {
        let layout = self.shared.pool.layout.clone();
        let chunk_bytes = layout.chunk_bytes as usize;
        let (bodies, lists) = chunks_needed(key.len() + value.len(), layout.chunk_bytes);
        let mut extents = Extents::default();
        for index in 0..bodies + lists {
            let (chunk, generation) = self.stock.pop().expect("the stock was filled before");
            let open = Chunk::owned(ChunkState::Open, self.me(), generation);
            let extent = Chunk { state: ChunkState::Extent, ..open };
            if !chunks::transition(&self.endpoint, &layout, chunk, open.word(), extent).await? {
                return Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" });
            }
            if index < bodies { extents.body.push(chunk) } else { extents.lists.push(chunk) }
        }
        let mut body = std::mem::take(&mut self.outgoing);
        body.resize((key.len() + value.len()).next_multiple_of(8));
        body.bytes_mut()[..key.len()].copy_from_slice(key);
        body.bytes_mut()[key.len()..key.len() + value.len()].copy_from_slice(value);
        body.bytes_mut()[key.len() + value.len()..].fill(0);
        let checksum = self.shared.hasher.hash(&body.bytes()[..key.len() + value.len()]);
        let bytes = body.len();
        for (index, chunk) in extents.body.iter().enumerate() {
            let start = index * chunk_bytes;
            body.narrow(start, (bytes - start).min(chunk_bytes));
            let mut batch = Batch::new();
            let written = batch.write(layout.chunk(*chunk), body);
            self.endpoint.post(&mut batch).await?;
            body = batch.take(written);
        }
        self.outgoing = body;
        for (list, numbers) in extents.lists.iter().zip(extents.body.chunks(chunk_bytes / 4)) {
            let mut buffer = Buffer::new();
            buffer.resize((4 * numbers.len()).next_multiple_of(8));
            for (word, pair) in buffer.words_mut().iter_mut().zip(numbers.chunks(2)) {
                *word = u64::from(pair[0].0) | u64::from(pair.get(1).map_or(0, |chunk| chunk.0)) << 32;
            }
            let mut batch = Batch::new();
            batch.write(layout.chunk(*list), buffer);
            self.endpoint.post(&mut batch).await?;
        }
        let body = LargeBody { checksum, chunks: extents.listed() };
        Ok((extents, body))
    }

    /// Frees the extents of an object that is dead, or lets them wait for whoever still reads them under the protection of `guard`,
    /// the chunk of its record.
    pub(super) async fn retire_extents(&mut self, extents: Extents, guard: Option<ChunkId>) -> Result<(), CacheError> {
        let protected = match guard {
            Some(guard) => self.protected_by_others().await?.contains(&guard),
            None => false,
        };
        for chunk in extents.all() {
            match guard {
                Some(guard) if protected => self.waiting.push(evict::Waiting { chunk, guard }),
                _ => self.free_owned(chunk, ChunkState::Extent).await?,
            }
        }
        Ok(())
    }
}
