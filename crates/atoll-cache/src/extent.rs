//! Objects larger than half a chunk. Key and value fill chunks of their own, one after the other,
//! and the record lists them.
//!
//! An extent is a chunk and its generation. The record lists up to sixteen extents itself. For more
//! extents, the record lists up to sixteen chunks that are full of such words. The descriptor of an
//! extent holds the home number of its object's bucket. The owner alone writes the chunks, before
//! the record, and never changes them. They belong to the key's object under any record: a copy of
//! the record, or a record with another expiry, has the same extents.
//!
//! | the owner | verbs |
//! |---|---|
//! | allocates a chunk | WRITE descriptor's home number, CAS Open -> Extent: of several chunks in one batch |
//! | fills it | WRITE chunk; where memory is far, several in one batch: see `rounds` |
//! | publishes the record | as the engine does |
//! | announces that | CAS Extent -> Bound, unawaited |
//!
//! The client that makes the object dead frees the extents: CAS to Free, if the generation is the
//! listed one. A reader that still reads them finds that the slot has changed, or another checksum.
//!
//! A client that died may leave an extent that no object of its bucket has. It is in state Extent
//! with a dead owner, or in state Bound. A repairer frees it (see [`index`](crate::index)).
//!
//! A repairer leaves the extents of a living owner alone. It cannot tell whether the owner is about
//! to publish the object, or whether the object is dead already. An owner that stood still in
//! between binds the extent after the repair, and no repair may follow. So an owner checks the
//! extents that it has bound lately once another client has died ([`LatelyBound`]).

pub(crate) mod pins;
pub(crate) mod reading;
mod rounds;
pub(crate) mod staged;
pub(crate) mod turns;
pub(crate) mod unlisted;

use crate::CacheError;
use crate::index::Index;
use crate::record::{Hasher, Header, LARGE_EXTENTS, LargeBody, PIECE_BYTES};
use atoll_fabric::{Batch, Buffer, Endpoint, Intent};
use atoll_pool::{Chunk, ChunkId, ChunkState, Client, Layout, chunks};
use pins::Pins;
use rounds::{in_lanes, rounds};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use turns::Turn;
use unlisted::{Abandoned, Unlisted};

/// An empty chunk in state Open that its client owns, with its generation.
pub(crate) type OpenChunk = (ChunkId, u32);

/// A chunk of a large object, with the generation that the object's chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extent {
    pub(crate) chunk: ChunkId,
    pub(crate) generation: u32,
}

impl Extent {
    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.chunk.0)
    }

    /// Whether the chunk is still this extent, by its state.
    fn is_in(self, chunk: Chunk) -> bool {
        chunk.state.is_extent() && chunk.generation == self.generation
    }
}

/// The chunks of a large object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    /// The extents with key and value, in order.
    pub(crate) body: Vec<Extent>,
    /// The extents that list those, if there are more than the record lists.
    pub(crate) lists: Vec<Extent>,
}

impl Extents {
    /// All extents of the object.
    pub(crate) fn all(&self) -> impl Iterator<Item = Extent> {
        self.body.iter().chain(&self.lists).copied()
    }

    fn listed(&self) -> [u64; LARGE_EXTENTS] {
        let listed = if self.lists.is_empty() { &self.body } else { &self.lists };
        std::array::from_fn(|index| listed.get(index).map_or(0, |extent| extent.word()))
    }
}

/// Body and list chunks that an object with so many bytes of key and value needs.
pub(crate) fn chunks_needed(body_bytes: usize, chunk_bytes: u64) -> (usize, usize) {
    let body = (body_bytes as u64).div_ceil(chunk_bytes) as usize;
    let lists = if body > LARGE_EXTENTS { body.div_ceil(chunk_bytes as usize / 8) } else { 0 };
    (body, lists)
}

/// The longest key and value together that a record's lists can name.
fn body_bytes_max(chunk_bytes: u64) -> u64 {
    LARGE_EXTENTS as u64 * (chunk_bytes / 8) * chunk_bytes
}

/// The longest value of a pool whose objects have at most one part in `parts` of the heap each.
pub(crate) fn value_bytes_max(layout: &Layout, parts: u64) -> usize {
    let listed = body_bytes_max(layout.chunk_bytes);
    let part = usize::try_from((layout.heap_bytes() / parts).min(listed)).unwrap_or(usize::MAX);
    part.saturating_sub(crate::KEY_BYTES_MAX.min(part / 4)).min(crate::VALUE_BYTES_MAX)
}

/// The extents that a client has bound since it last asked how many clients had died.
#[derive(Debug, Default)]
pub(crate) struct LatelyBound {
    extents: Vec<Extent>,
    /// Clients that had died by then.
    deaths: u64,
}

impl LatelyBound {
    pub(crate) fn note(&mut self, extents: &Extents) {
        self.extents.extend(extents.all());
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// The extents that no repairer may have checked, now that `deaths` clients have died.
    pub(crate) fn take(&mut self, deaths: u64) -> Vec<Extent> {
        let extents = std::mem::take(&mut self.extents);
        if std::mem::replace(&mut self.deaths, deaths) == deaths { Vec::new() } else { extents }
    }
}

/// The client's operations that extents need.
pub(crate) struct ExtentIo<'c, E: Endpoint> {
    pub(crate) client: &'c Client<E>,
    pub(crate) hasher: &'c Hasher,
    pub(crate) pins: &'c Arc<Pins>,
    pub(crate) abandoned: &'c Arc<Abandoned>,
}

/// Whether [`free_unlisted`] may have something to free.
#[inline]
pub(crate) fn has_unlisted(index: &impl Index) -> bool {
    index.abandoned().is_any() || index.pins().is_any()
}

/// Frees the unlisted extents that this client has dropped, and those of dead objects that no
/// reader has pinned any more.
pub(crate) async fn free_unlisted(index: &impl Index) -> Result<(), CacheError> {
    if !has_unlisted(index) {
        return Ok(());
    }
    let extents = index.abandoned().take().into_iter().chain(index.pins().take_unpinned());
    // If one cannot be freed, the others are noted again.
    let unlisted: Vec<Unlisted> = extents.map(|extents| Unlisted::new(extents, index.abandoned())).collect();
    for extents in unlisted {
        index.extent_io().free(extents).await?;
    }
    Ok(())
}

impl<E: Endpoint> ExtentIo<'_, E> {
    /// The extents of a large object; `None` if the bytes read are no list of chunks.
    pub(crate) async fn extents(&self, header: &Header, body: &LargeBody) -> Result<Option<Extents>, CacheError> {
        let layout = &self.client.pool.layout;
        let (bodies, lists) = chunks_needed(header.body_bytes(), layout.chunk_bytes);
        if bodies > layout.chunks_max as usize || lists > LARGE_EXTENTS {
            return Ok(None);
        }
        let listed = self.listed(&body.extents[..if lists == 0 { bodies } else { lists }]).await?;
        let Some(listed) = listed else { return Ok(None) };
        if lists == 0 {
            return Ok(Some(Extents { body: listed, lists: Vec::new() }));
        }
        let mut words = Vec::with_capacity(bodies);
        for list in &listed {
            let into = Buffer::sized(8 * (bodies - words.len()).min(layout.chunk_bytes as usize / 8));
            let buffer = self.client.endpoint.read(layout.chunk(list.chunk), into).await?;
            words.extend_from_slice(buffer.words());
        }
        Ok(self.listed(&words).await?.map(|body| Extents { body, lists: listed }))
    }

    /// The extents that these words name. `None` if a word names no chunk, or a chunk of a node
    /// that this process does not know yet.
    async fn listed(&self, words: &[u64]) -> Result<Option<Vec<Extent>>, CacheError> {
        let layout = &self.client.pool.layout;
        let last = words.iter().map(|word| *word as u32).max().unwrap_or(0);
        if layout.checked_chunk(last).is_none() {
            self.client.learn_nodes().await?;
        }
        if layout.checked_chunk(last).is_none() {
            return Ok(None);
        }
        let extent = |word: &u64| Extent { chunk: ChunkId(*word as u32), generation: (*word >> 32) as u32 };
        Ok(Some(words.iter().map(extent).collect()))
    }

    /// READs key and value of a large object, each chunk straight to its place in `buffer`; `None`
    /// if the checksum does not match.
    pub(crate) async fn read_body(
        &self,
        header: &Header,
        body: &LargeBody,
        mut buffer: Buffer,
    ) -> Result<Option<Buffer>, CacheError> {
        let Some(extents) = self.extents(header, body).await? else { return Ok(None) };
        if self.client.endpoint.is_near() {
            buffer.resize(header.body_bytes());
            let (key, value) = buffer.bytes_mut().split_at_mut(header.key_bytes);
            let is_sound = self.read_pieces(&extents, body, key, value).await?;
            return Ok(is_sound.then_some(buffer));
        }
        let buffer = self.read_extents(&extents, header.body_bytes(), buffer).await?;
        let (key, value) = buffer.bytes().split_at(header.key_bytes);
        Ok(self.is_sound(body, key, value).then_some(buffer))
    }

    /// READs the value of a large object with this key into memory of the caller, which is as long;
    /// returns whether it is whole and the key's. If not, any bytes may be there.
    pub(crate) async fn read_value(
        &self,
        header: &Header,
        body: &LargeBody,
        key: &[u8],
        into: &mut [u8],
    ) -> Result<bool, CacheError> {
        assert_eq!(into.len(), header.value_bytes, "the memory is as long as the value");
        let Some(extents) = self.extents(header, body).await? else { return Ok(false) };
        let mut read_key = vec![0; header.key_bytes];
        if self.client.endpoint.is_near() {
            let is_sound = self.read_pieces(&extents, body, &mut read_key, into).await?;
            return Ok(is_sound && read_key == key);
        }
        let place = |start, bytes: &[u8]| {
            let (of_key, of_value) = bytes.split_at(bytes.len().min(read_key.len().saturating_sub(start)));
            read_key[start.min(header.key_bytes)..][..of_key.len()].copy_from_slice(of_key);
            into[start.saturating_sub(header.key_bytes)..][..of_value.len()].copy_from_slice(of_value);
        };
        self.read_rounds(&extents, header.body_bytes(), place).await?;
        Ok(read_key == key && self.is_sound(body, key, into))
    }

    /// READs a part of the value of a large object; `None` if it is another key's. What was READ is
    /// the object's if that is still there afterwards.
    pub(crate) async fn read_part(
        &self,
        header: &Header,
        body: &LargeBody,
        key: &[u8],
        part: Range<usize>,
        mut buffer: Buffer,
    ) -> Result<Option<Buffer>, CacheError> {
        let Some(extents) = self.extents(header, body).await? else { return Ok(None) };
        let (mut read_key, mut spare) = (vec![0; header.key_bytes], Buffer::new());
        self.read_span(&extents, 0, &mut read_key, &mut spare).await?;
        buffer.resize(part.len());
        self.read_span(&extents, header.key_bytes + part.start, buffer.bytes_mut(), &mut spare).await?;
        Ok((read_key == key).then_some(buffer))
    }

    /// Whether these are the key and the value that were written.
    pub(crate) fn is_sound(&self, body: &LargeBody, key: &[u8], value: &[u8]) -> bool {
        self.hasher.hash(key) == body.key_hash && self.hasher.body_checksum(body.key_hash, value) == body.checksum
    }

    /// READs key and value, and hashes each piece of the value as soon as it is there; returns
    /// whether they are what was written.
    async fn read_pieces(
        &self,
        extents: &Extents,
        body: &LargeBody,
        key: &mut [u8],
        value: &mut [u8],
    ) -> Result<bool, CacheError> {
        let mut spare = Buffer::new();
        let mut start = key.len();
        self.read_span(extents, 0, key, &mut spare).await?;
        let mut checksum = body.key_hash;
        let end = key.len() + value.len();
        let mut turn = Turn::of_reader();
        for piece in value.chunks_mut(PIECE_BYTES) {
            self.read_span(extents, start, piece, &mut spare).await?;
            start += piece.len();
            // It comes while the piece before it is hashed.
            self.expect_span(extents, start, end.min(start + PIECE_BYTES), Intent::Read);
            checksum = self.hasher.with_piece(checksum, piece);
            turn.copied(piece.len()).await;
        }
        Ok(self.hasher.hash(key) == body.key_hash && checksum == body.checksum)
    }

    /// Hints that bytes of key and value are READ or written next, those that lie in one chunk.
    fn expect_span(&self, extents: &Extents, start: usize, end: usize, intent: Intent) {
        let layout = &self.client.pool.layout;
        let (index, within) = layout.divide(start as u64);
        let bytes = (end.saturating_sub(start) as u64).min(layout.chunk_bytes - within);
        if let Some(extent) = extents.body.get(index as usize).filter(|_| bytes > 0) {
            let at = layout.chunk(extent.chunk).add(within).whole_word().0;
            self.client.endpoint.expect(at, bytes, intent);
        }
    }

    /// READs the bytes of key and value from `start` on.
    async fn read_span(
        &self,
        extents: &Extents,
        mut start: usize,
        mut into: &mut [u8],
        spare: &mut Buffer,
    ) -> Result<(), CacheError> {
        let (layout, mut turn) = (&self.client.pool.layout, Turn::of_reader());
        while !into.is_empty() {
            let (index, within) = layout.divide(start as u64);
            let bytes = into.len().min((layout.chunk_bytes - within) as usize);
            let (part, rest) = into.split_at_mut(bytes);
            let at = layout.chunk(extents.body[index as usize].chunk).add(within);
            self.client.endpoint.read_into(at, part, spare).await?;
            (start, into) = (start + bytes, rest);
            turn.copied(bytes).await;
        }
        Ok(())
    }

    /// WRITEs bytes of key and value from `start` on, which is a whole word. The last word is
    /// padded with zero bytes.
    async fn write_span(
        &self,
        extents: &Extents,
        mut start: usize,
        mut from: &[u8],
        spare: &mut Buffer,
    ) -> Result<(), CacheError> {
        let layout = &self.client.pool.layout;
        while !from.is_empty() {
            let (index, within) = layout.divide(start as u64);
            let (part, rest) = from.split_at(from.len().min((layout.chunk_bytes - within) as usize));
            let at = layout.chunk(extents.body[index as usize].chunk).add(within);
            self.client.endpoint.write_from(at, part, spare).await?;
            (start, from) = (start + part.len(), rest);
        }
        Ok(())
    }

    /// WRITEs key and value into their extents, and returns the hash of the key and the checksum of
    /// both. Where memory is near, each piece of the value is hashed just before it is copied.
    async fn write_body(
        &self,
        extents: &Extents,
        key: &[u8],
        value: &[u8],
        spare: &mut Buffer,
    ) -> Result<(u64, u64), CacheError> {
        let key_hash = self.hasher.hash(key);
        if !self.client.endpoint.is_near() {
            self.write_rounds(extents, key, value).await?;
            return Ok((key_hash, self.hasher.body_checksum(key_hash, value)));
        }
        // The key's last word has the first bytes of the value.
        let shared = (key.len().next_multiple_of(8) - key.len()).min(value.len());
        let head = [key, &value[..shared]].concat();
        self.write_span(extents, 0, &head, spare).await?;
        let rest = &value[shared..];
        let start = head.len();
        let mut checksum = key_hash;
        let (mut written, mut turn) = (0, Turn::of_writer(self.client));
        for piece in value.chunks(PIECE_BYTES) {
            let place = start + written;
            self.expect_span(extents, place, (start + rest.len()).min(place + PIECE_BYTES), Intent::Write);
            checksum = self.hasher.with_piece(checksum, piece);
            let part = &rest[written..rest.len().min(written + PIECE_BYTES)];
            self.write_span(extents, place, part, spare).await?;
            written += part.len();
            turn.copied(piece.len()).await;
        }
        assert_eq!(written, rest.len(), "the value has been written whole");
        Ok((key_hash, checksum))
    }

    /// READs the first `bytes` of key and value.
    pub(crate) async fn read_extents(
        &self,
        extents: &Extents,
        bytes: usize,
        mut buffer: Buffer,
    ) -> Result<Buffer, CacheError> {
        let layout = &self.client.pool.layout;
        let chunk_bytes = layout.chunk_bytes as usize;
        buffer.resize(bytes);
        if !self.client.endpoint.is_near() {
            let into = buffer.bytes_mut();
            let place = |start: usize, bytes: &[u8]| into[start..start + bytes.len()].copy_from_slice(bytes);
            self.read_rounds(extents, bytes, place).await?;
            return Ok(buffer);
        }
        let mut turn = Turn::of_reader();
        for (index, extent) in extents.body.iter().enumerate().take(bytes.div_ceil(chunk_bytes)) {
            let start = index * chunk_bytes;
            let length = (bytes - start).min(chunk_bytes);
            buffer.narrow(start, length.next_multiple_of(8));
            buffer = self.client.endpoint.read(layout.chunk(extent.chunk), buffer).await?;
            turn.copied(length).await;
        }
        buffer.resize(bytes);
        Ok(buffer)
    }

    /// Writes key and value into chunks that this client owns in state Open, as many as
    /// [`chunks_needed`], and turns them into extents. Returns `outgoing`.
    pub(crate) async fn write_extents(
        &self,
        open: Vec<OpenChunk>,
        home: u32,
        key: &[u8],
        value: &[u8],
        outgoing: Buffer,
    ) -> Result<(Unlisted, LargeBody, Buffer), CacheError> {
        let layout = &self.client.pool.layout;
        let (bodies, _) = chunks_needed(key.len() + value.len(), layout.chunk_bytes);
        self.take_open(&open, home).await?;
        let mut body: Vec<_> = open.into_iter().map(|(chunk, generation)| Extent { chunk, generation }).collect();
        let lists = body.split_off(bodies);
        let unlisted = Unlisted::new(Extents { body, lists }, self.abandoned);
        let (extents, mut spare) = (unlisted.extents(), outgoing);
        let (key_hash, checksum) = self.write_body(extents, key, value, &mut spare).await?;
        self.write_lists(extents).await?;
        let large = LargeBody { checksum, key_hash, extents: extents.listed() };
        Ok((unlisted, large, spare))
    }

    /// WRITEs the lists of an object that has more extents than its record lists.
    async fn write_lists(&self, extents: &Extents) -> Result<(), CacheError> {
        let layout = &self.client.pool.layout;
        for (list, extents) in extents.lists.iter().zip(extents.body.chunks(layout.chunk_bytes as usize / 8)) {
            let mut buffer = Buffer::sized(8 * extents.len());
            buffer.words_mut().iter_mut().zip(extents).for_each(|(word, extent)| *word = extent.word());
            let mut batch = Batch::new();
            batch.write(layout.chunk(list.chunk), buffer);
            self.client.endpoint.post(&mut batch).await?;
        }
        Ok(())
    }

    /// Turns open chunks into extents, of an object whose bucket has this home number.
    async fn take_open(&self, open: &[OpenChunk], home: u32) -> Result<(), CacheError> {
        in_lanes(|lane| self.take_lane(open, home, lane)).await
    }

    async fn take_lane(&self, open: &[OpenChunk], home: u32, lane: usize) -> Result<(), CacheError> {
        let (layout, mut turn) = (&self.client.pool.layout, Turn::of_writer(self.client));
        // Each takes two verbs.
        for (_, round) in rounds(open, self.client.batch_verbs_max() / 2, lane) {
            let (mut batch, mut swaps) = (Batch::new(), Vec::with_capacity(round.len()));
            for (chunk, generation) in round {
                let open = Chunk::owned(ChunkState::Open, self.client.me(), *generation);
                let taken = Chunk { state: ChunkState::Extent, ..open };
                batch.write_word(layout.contents(*chunk), home.into());
                swaps.push(batch.compare_and_swap(layout.descriptor(*chunk), open.word(), taken.word()));
            }
            self.client.endpoint.post(&mut batch).await?;
            if !swaps.iter().all(|swap| batch.swapped(*swap)) {
                return Err(CacheError::Damaged { what: "another client changed the state of an open chunk" });
            }
            // Over a network the verbs wait, and another operation may have some in flight.
            if self.client.endpoint.is_near() {
                turn.changed(round.len()).await;
            }
        }
        Ok(())
    }

    /// Binds these extents, which this client wrote: their object is published.
    pub(crate) fn bind_extents(&self, extents: &Extents) {
        let mut batch = Batch::new();
        for extent in extents.all() {
            let written = Chunk::owned(ChunkState::Extent, self.client.me(), extent.generation);
            let bound = Chunk { state: ChunkState::Bound, ..written };
            // The swap fails if another client has made the object dead already.
            let descriptor = self.client.pool.layout.descriptor(extent.chunk);
            batch.compare_and_swap(descriptor, written.word(), bound.word());
            if batch.is_full() {
                self.client.endpoint.post_unawaited(&mut batch);
            }
        }
        if !batch.is_empty() {
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }

    /// Frees the extents of an object that is dead, once no reader of this process has pinned them.
    pub(crate) async fn free_extents(&self, extents: &Extents) -> Result<(), CacheError> {
        match self.unlisted(extents) {
            Some(unlisted) => self.free(unlisted).await,
            None => Ok(()),
        }
    }

    /// The extents of an object that is dead, for this client to free. `None` if a reader of this
    /// process has pinned them: then a client frees them once that has ended.
    pub(crate) fn unlisted(&self, extents: &Extents) -> Option<Unlisted> {
        (!self.pins.take_over(extents)).then(|| Unlisted::new(extents.clone(), self.abandoned))
    }

    /// Frees unlisted extents.
    pub(crate) async fn free(&self, unlisted: Unlisted) -> Result<(), CacheError> {
        let all: Vec<Extent> = unlisted.extents().all().collect();
        in_lanes(|lane| self.free_lane(&all, lane)).await?;
        unlisted.forget();
        Ok(())
    }

    async fn free_lane(&self, extents: &[Extent], lane: usize) -> Result<(), CacheError> {
        let (endpoint, layout, mut turn) =
            (&self.client.endpoint, &self.client.pool.layout, Turn::of_writer(self.client));
        for (_, round) in rounds(extents, self.client.batch_verbs_max(), lane) {
            let numbers: Vec<ChunkId> = round.iter().map(|extent| extent.chunk).collect();
            let mut still = Vec::with_capacity(round.len());
            for (extent, state) in round.iter().zip(chunks::states(endpoint, layout, &numbers).await?) {
                still.extend(state.filter(|state| extent.is_in(*state)).map(|state| (extent.chunk, state)));
            }
            if still.is_empty() {
                continue;
            }
            let freed = chunks::free_together(endpoint, layout, &still).await?;
            for ((chunk, state), _) in still.iter().zip(freed).filter(|(_, freed)| !freed) {
                // Its owner may be binding it just now.
                self.free_extent(Extent { chunk: *chunk, generation: state.generation }).await?;
            }
            if self.client.endpoint.is_near() {
                turn.changed(round.len()).await;
            }
        }
        Ok(())
    }

    /// Those of these extents that are Bound. Their owner checks whether an object has them.
    pub(crate) async fn still_bound(&self, extents: &[Extent]) -> Result<Vec<(ChunkId, Chunk)>, CacheError> {
        let mut bound = Vec::new();
        for extent in extents {
            let descriptor =
                chunks::descriptors(&self.client.endpoint, &self.client.pool.layout, extent.chunk, 1).await?[0];
            let is_bound = |chunk: &Chunk| (chunk.state, chunk.generation) == (ChunkState::Bound, extent.generation);
            bound.extend(descriptor.chunk.filter(is_bound).map(|chunk| (extent.chunk, chunk)));
        }
        Ok(bound)
    }

    /// The extents of these chunks, by the home numbers of their objects' buckets. These are READ
    /// after the states.
    pub(crate) async fn by_home(
        &self,
        suspects: Vec<(ChunkId, Chunk)>,
    ) -> Result<BTreeMap<u64, Vec<(Extent, Chunk)>>, CacheError> {
        let numbers: Vec<ChunkId> = suspects.iter().map(|(chunk, _)| *chunk).collect();
        let homes = chunks::contents(&self.client.endpoint, &self.client.pool.layout, &numbers).await?;
        let mut by_home: BTreeMap<u64, Vec<(Extent, Chunk)>> = BTreeMap::new();
        for ((chunk, found), home) in suspects.into_iter().zip(homes) {
            let extent = Extent { chunk, generation: found.generation };
            by_home.entry(home).or_default().push((extent, found));
        }
        Ok(by_home)
    }

    /// Frees an extent that no object has; returns whether it was still an extent.
    pub(crate) async fn free_extent(&self, extent: Extent) -> Result<bool, CacheError> {
        let layout = &self.client.pool.layout;
        loop {
            let descriptor = chunks::descriptors(&self.client.endpoint, layout, extent.chunk, 1).await?[0];
            let still = descriptor.chunk.filter(|chunk| extent.is_in(*chunk));
            let Some(chunk) = still else { return Ok(false) };
            // Its owner may be binding it just now: then look again.
            if chunks::free(&self.client.endpoint, layout, extent.chunk, chunk).await? {
                return Ok(true);
            }
        }
    }
}
