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
//! Clients of other processes do not know the pins. A reader therefore looks at the states of the
//! chunks behind each piece that it has READ. If another process has freed one, the value is torn,
//! and the reader cannot go on.
//!
//! Orphans are bound and no object has them, so a repairer frees them if their process dies.

use super::{Extent, ExtentIo, Extents, Turn};
use crate::record::{Header, LargeBody, PIECE_BYTES};
use crate::{CacheError, Meta};
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::chunks;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The extents that readers of this process have pinned.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pinned: Mutex<Pinned>,
    /// Whether there are any, or orphans to be freed. Written under the lock.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Pinned {
    /// By the first extent of each object.
    objects: HashMap<Extent, Object>,
    /// Bytes of all these objects.
    bytes: usize,
    /// Orphans that no reader has pinned any more.
    unpinned: Vec<Extents>,
}

#[derive(Debug)]
struct Object {
    readers: usize,
    bytes: usize,
    /// Once no object has them: since when, and which they are.
    orphans: Option<(Instant, Extents)>,
}

/// A reader's pin.
#[derive(Debug)]
struct Pin {
    pins: Arc<Pins>,
    first: Extent,
}

impl Pins {
    fn pinned(&self) -> MutexGuard<'_, Pinned> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins the extents of an object of so many bytes. `None` if more than `most` would be pinned.
    fn pin(self: &Arc<Self>, extents: &Extents, bytes: usize, most: usize) -> Option<Pin> {
        let first = *extents.body.first()?;
        let mut pinned = self.pinned();
        let Pinned { objects, bytes: sum, .. } = &mut *pinned;
        match objects.get_mut(&first) {
            Some(object) => object.readers += 1,
            None if *sum + bytes > most => return None,
            None => {
                objects.insert(first, Object { readers: 1, bytes, orphans: None });
                *sum += bytes;
            }
        }
        self.is_any.store(true, SeqCst);
        Some(Pin { pins: self.clone(), first })
    }

    /// Takes over the extents of an object that is dead, if a reader has pinned them. Then the
    /// caller does not free them.
    pub(super) fn take_over(&self, extents: &Extents) -> bool {
        if !self.is_any.load(SeqCst) {
            return false;
        }
        let mut pinned = self.pinned();
        let object = extents.body.first().and_then(|first| pinned.objects.get_mut(first));
        object.map(|object| object.orphans = Some((Instant::now(), extents.clone()))).is_some()
    }

    /// Whether there may be orphans to be freed.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(SeqCst)
    }

    /// The orphans that no reader has pinned any more: the caller frees them.
    pub(super) fn take_unpinned(&self) -> Vec<Extents> {
        let mut pinned = self.pinned();
        self.is_any.store(!pinned.objects.is_empty(), SeqCst);
        std::mem::take(&mut pinned.unpinned)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pinned = self.pins.pinned();
        let object = pinned.objects.get_mut(&self.first).expect("an object stays pinned while it has readers");
        object.readers -= 1;
        if object.readers == 0 {
            let object = pinned.objects.remove(&self.first).expect("it has just been there");
            pinned.bytes -= object.bytes;
            pinned.unpinned.extend(object.orphans.map(|(_, extents)| extents));
            self.pins.is_any.store(!pinned.objects.is_empty() || !pinned.unpinned.is_empty(), SeqCst);
        }
    }
}

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

    /// How long the object has not been in the cache any more, and has been kept for this reader.
    pub fn orphaned_for(&self) -> Option<Duration> {
        let pinned = self.pin.pins.pinned();
        pinned.objects.get(&self.pin.first)?.orphans.as_ref().map(|(since, _)| since.elapsed())
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
        let (mut spare, mut turn) = (Buffer::new(), Turn::begin());
        let first = reading.key_bytes + reading.read;
        for piece in into.chunks_mut(PIECE_BYTES) {
            self.read_span(&reading.extents, reading.key_bytes + reading.read, piece, &mut spare).await?;
            reading.checksum = self.hasher.with_piece(reading.checksum, piece);
            reading.read += piece.len();
            turn.copied(piece.len()).await;
        }
        let (endpoint, layout) = (&self.client.endpoint, &self.client.pool.layout);
        let (first, _) = layout.divide(first as u64);
        let end = ((reading.key_bytes + reading.read) as u64).div_ceil(layout.chunk_bytes);
        let extents = &reading.extents.body[first as usize..end as usize];
        let numbers: Vec<_> = extents.iter().map(|extent| extent.chunk).collect();
        let states = chunks::states(endpoint, layout, &numbers).await?;
        let are_its = extents.iter().zip(states).all(|(extent, state)| state.is_some_and(|state| extent.is_in(state)));
        Ok(are_its && (reading.missing_bytes() > 0 || reading.checksum == reading.body.checksum))
    }
}
