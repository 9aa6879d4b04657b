//! Values that are stored while they arrive, piece by piece.
//!
//! | step | the client | the chunks are |
//! |---|---|---|
//! | stage | knows the key and how long the value will be | not allocated yet |
//! | append | allocates chunks for the bytes that it has, and WRITEs them | extents that no object has |
//! | append of the last bytes | WRITEs the lists of the extents, too | the same |
//! | update | publishes a record that lists the extents | the object's |
//! | drop without an update | notes the extents: see [`unlisted`](super::unlisted) | free |
//!
//! A repairer leaves the extents of a living owner alone, and frees those of a dead one that no
//! object has. So a staged value needs no words of the pool besides its chunks. A client allocates
//! chunks for bytes that have arrived, never for announced ones.

use super::pins::Share;
use super::unlisted::{Abandoned, Unlisted};
use super::{Extent, ExtentIo, Extents, OpenChunk, Turn, chunks_needed};
use crate::CacheError;
use crate::record::{Hasher, LargeBody, PIECE_BYTES};
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::Layout;
use std::sync::Arc;

/// Where memory is far, so many bytes are WRITten at once.
const FAR_BYTES: usize = 256 << 10;

/// A value that is not published yet. [`Cache::stage`](crate::Cache::stage) begins it, and
/// [`Cache::set_staged`](crate::Cache::set_staged) publishes it. If it is dropped before that, the
/// pool has nothing of it any more.
#[derive(Debug)]
pub struct Staged {
    key_hash: u64,
    home: u32,
    key_bytes: usize,
    value_bytes: usize,
    /// Bytes of the value that were appended.
    appended: usize,
    /// The checksum of the key and of the value's pieces that are complete.
    checksum: u64,
    /// Bytes of key and value that are in the extents: whole words.
    written: usize,
    /// The bytes behind those.
    pending: Vec<u8>,
    /// Where the piece that is not complete begins in `pending`.
    piece: usize,
    extents: Unlisted,
    /// Of the room that the process keeps for such values.
    share: Option<Share>,
}

impl Staged {
    /// A value for this key, whose bucket has this home number, as long as its `share`. The client
    /// that frees the extents in `abandoned` will have them.
    pub(crate) fn new(hasher: &Hasher, key: &[u8], share: Share, home: u32, abandoned: &Arc<Abandoned>) -> Self {
        let value_bytes = share.bytes();
        let key_hash = hasher.hash(key);
        Self {
            key_hash,
            home,
            key_bytes: key.len(),
            value_bytes,
            appended: 0,
            checksum: key_hash,
            written: 0,
            pending: key.to_vec(),
            piece: key.len(),
            extents: Unlisted::new(Extents::default(), abandoned),
            share: Some(share),
        }
    }

    /// How long the value will be, in bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Bytes of the value that are still to be appended.
    pub fn missing_bytes(&self) -> usize {
        self.value_bytes - self.appended
    }

    /// Takes all of it, and leaves a value that has nothing.
    pub(crate) fn taken(&mut self) -> Self {
        let (pending, extents) = (std::mem::take(&mut self.pending), self.extents.taken());
        Self { pending, extents, share: self.share.take(), ..*self }
    }

    /// # Errors
    /// [`CacheError::BegunByAnother`] if another client has the extents. It is no error of a verb:
    /// a client that meets one of those is lost.
    pub(crate) fn check_owner(&self, abandoned: &Arc<Abandoned>) -> Result<(), CacheError> {
        if self.extents.are_of(abandoned) { Ok(()) } else { Err(CacheError::BegunByAnother) }
    }

    /// Chunks that the client has to allocate before it appends so many bytes.
    pub(crate) fn chunks_wanted(&self, bytes: usize, layout: &Layout) -> usize {
        let (_, lists) = chunks_needed(self.key_bytes + self.value_bytes, layout.chunk_bytes);
        let end = (self.key_bytes + self.appended + bytes) as u64;
        let bodies = end.div_ceil(layout.chunk_bytes) as usize - self.extents.extents().body.len();
        if self.missing_bytes() == bytes { bodies + lists } else { bodies }
    }

    /// The body of the record that is to be published. All bytes were appended.
    pub(crate) fn body(&self, hasher: &Hasher, key: &[u8]) -> Box<LargeBody> {
        assert_eq!(self.missing_bytes(), 0, "a value is published whole");
        assert_eq!(self.key_hash, hasher.hash(key), "a value is published under the key that it was staged for");
        let extents = self.extents.extents().listed();
        Box::new(LargeBody { checksum: self.checksum, key_hash: self.key_hash, extents })
    }

    /// Its extents.
    pub(crate) fn extents(&self) -> &Unlisted {
        &self.extents
    }
}

impl<E: Endpoint> ExtentIo<'_, E> {
    /// Appends bytes, with as many open chunks of this client as [`Staged::chunks_wanted`] says.
    pub(crate) async fn append(
        &self,
        staged: &mut Staged,
        open: Vec<OpenChunk>,
        mut bytes: &[u8],
    ) -> Result<(), CacheError> {
        self.take_open(&open, staged.home).await?;
        let layout = &self.client.pool.layout;
        let (bodies, _) = chunks_needed(staged.key_bytes + staged.value_bytes, layout.chunk_bytes);
        for (chunk, generation) in open {
            let extents = staged.extents.extents_mut();
            let place = if extents.body.len() < bodies { &mut extents.body } else { &mut extents.lists };
            place.push(Extent { chunk, generation });
        }
        let is_near = self.client.endpoint.is_near();
        let written_together = if is_near { PIECE_BYTES } else { FAR_BYTES };
        let (mut spare, mut turn) = (Buffer::new(), Turn::of_writer(self.client));
        while !bytes.is_empty() {
            let room = PIECE_BYTES - (staged.pending.len() - staged.piece);
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            staged.pending.extend_from_slice(part);
            (staged.appended, bytes) = (staged.appended + part.len(), rest);
            let is_whole = staged.missing_bytes() == 0;
            if part.len() < room && !is_whole {
                break;
            }
            staged.checksum = self.hasher.with_piece(staged.checksum, &staged.pending[staged.piece..]);
            staged.piece = staged.pending.len();
            if is_whole || staged.pending.len() >= written_together {
                // The last word is padded with zero bytes.
                let words = if is_whole { staged.pending.len() } else { staged.pending.len() / 8 * 8 };
                let written = &staged.pending[..words];
                match is_near {
                    true => self.write_span(staged.extents.extents(), staged.written, written, &mut spare).await?,
                    false => self.write_together(staged.extents.extents(), staged.written, written).await?,
                }
                staged.written += words;
                staged.pending.drain(..words);
                staged.piece = staged.pending.len();
                turn.copied(words).await;
            }
        }
        if staged.missing_bytes() == 0 {
            self.write_lists(staged.extents.extents()).await?;
        }
        Ok(())
    }

    /// WRITEs bytes of key and value from `start` on, which is a whole word, in one batch.
    async fn write_together(&self, extents: &Extents, start: usize, bytes: &[u8]) -> Result<(), CacheError> {
        let layout = &self.client.pool.layout;
        let (mut batch, mut done) = (Batch::new(), 0);
        while done < bytes.len() {
            let (index, within) = layout.divide((start + done) as u64);
            let part = &bytes[done..][..(bytes.len() - done).min((layout.chunk_bytes - within) as usize)];
            let mut buffer = Buffer::sized(part.len().next_multiple_of(8));
            buffer.bytes_mut()[..part.len()].copy_from_slice(part);
            buffer.bytes_mut()[part.len()..].fill(0);
            batch.write(layout.chunk(extents.body[index as usize].chunk).add(within), buffer);
            done += part.len();
            if batch.is_full() || done == bytes.len() {
                self.client.endpoint.post(&mut batch).await?;
                batch.clear();
            }
        }
        Ok(())
    }
}
