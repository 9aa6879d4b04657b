//! Large values that are read piece by piece, as slowly as a peer takes them.
//!
//! A reader may take seconds, in which its object may be replaced or evicted. So it *pins* the
//! extents, for all clients of its process:
//!
//! | the reader | a client that makes the object dead |
//! |---|---|
//! | looks the object up | |
//! | pins its extents | |
//! | looks again: the object is still there | |
//! | reads piece by piece | frees its extents, unless they are pinned: then they are *orphans* |
//! | unpins them | the last reader of orphans gives them to the process's clients, which free them |
//!
//! Clients of other processes do not know the pins. So each step of a reader is an operation that
//! looks at the states of the chunks, READs them, and looks again:
//!
//! | the look | shows |
//! |---|---|
//! | in front of the READ | the chunks were not taken out of use before the operation began, so their memory is there until it ends: see [`retirement`](atoll_pool::retirement) |
//! | behind the READ | the bytes are the object's |
//!
//! If another process has freed a chunk, the value is torn, and the reader cannot go on.
//!
//! Orphans are bound and no object has them. A repairer of this process leaves them to their
//! readers. A repairer of another process frees them, as it must if their process has died.

use super::pins::{Orphaned, Pin};
use super::{ExtentIo, Extents, Turn};
use crate::record::{Header, LargeBody, PIECE_BYTES};
use crate::{CacheError, Meta};
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::chunks;
use std::ops::Range;

/// A large value that is read piece by piece: see
/// [`Cache::get_or_open`](crate::Cache::get_or_open). Its object cannot be freed by this process
/// meanwhile, so drop it soon.
#[derive(Debug)]
pub struct Reading {
    meta: Meta,
    key_bytes: usize,
    body: LargeBody,
    extents: Extents,
    /// Bytes of the value that were read.
    read: usize,
    /// The checksum of the key and of these.
    checksum: u64,
    pin: Pin,
}

impl Reading {
    /// What is known of the object besides its value.
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// Bytes that are still to be read.
    pub fn missing_bytes(&self) -> usize {
        self.meta.value_bytes - self.read
    }

    /// Since when the object is not in the cache any more, and kept for its readers. `None` while
    /// it is there.
    pub fn orphaned(&self) -> Option<Orphaned> {
        self.pin.orphaned()
    }
}

impl<E: Endpoint> ExtentIo<'_, E> {
    /// Begins to read a large object with this key. `None` if it is not the key's, or if more than
    /// `most` bytes would be pinned. What is read is the object's if that is still there
    /// afterwards.
    pub(crate) async fn begin_reading(
        &self,
        (header, body): (&Header, &LargeBody),
        key: &[u8],
        most: usize,
    ) -> Result<Option<Reading>, CacheError> {
        let Some(extents) = self.extents(header, body).await? else { return Ok(None) };
        let Some(pin) = self.pins.pin(&extents, header.body_bytes(), most) else { return Ok(None) };
        let mut read_key = vec![0; header.key_bytes];
        self.read_span(&extents, 0, &mut read_key, &mut Buffer::new()).await?;
        let (meta, key_bytes) = (Meta::of(header), header.key_bytes);
        let reading = Reading { meta, key_bytes, body: *body, extents, read: 0, checksum: body.key_hash, pin };
        Ok((read_key == key && self.hasher.hash(key) == body.key_hash).then_some(reading))
    }

    /// READs the next bytes of the value: as many as `into` has, whole pieces of the checksum
    /// unless they are the last. Returns whether they are the object's.
    pub(crate) async fn read_on(&self, reading: &mut Reading, into: &mut [u8]) -> Result<bool, CacheError> {
        assert!(into.len() == reading.missing_bytes() || into.len().is_multiple_of(PIECE_BYTES), "pieces are whole");
        let start = reading.key_bytes + reading.read;
        if !self.are_its(reading, start..start + into.len()).await? {
            return Ok(false);
        }
        let (mut spare, mut turn) = (Buffer::new(), Turn::of_reader());
        for piece in into.chunks_mut(PIECE_BYTES) {
            self.read_span(&reading.extents, reading.key_bytes + reading.read, piece, &mut spare).await?;
            reading.checksum = self.hasher.with_piece(reading.checksum, piece);
            reading.read += piece.len();
            turn.copied(piece.len()).await;
        }
        let are_its = self.are_its(reading, start..start + into.len()).await?;
        Ok(are_its && (reading.missing_bytes() > 0 || reading.checksum == reading.body.checksum))
    }

    /// Whether the chunks with these bytes of key and value are still the object's.
    async fn are_its(&self, reading: &Reading, bytes: Range<usize>) -> Result<bool, CacheError> {
        let (endpoint, layout) = (&self.client.endpoint, &self.client.pool.layout);
        let (first, _) = layout.divide(bytes.start as u64);
        let end = (bytes.end as u64).div_ceil(layout.chunk_bytes);
        let extents = &reading.extents.body[first as usize..end as usize];
        let numbers: Vec<_> = extents.iter().map(|extent| extent.chunk).collect();
        let states = chunks::states(endpoint, layout, &numbers).await?;
        Ok(extents.iter().zip(states).all(|(extent, state)| state.is_some_and(|state| extent.is_in(state))))
    }
}
