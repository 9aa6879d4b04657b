//! The bytes of a hit, and the object's metadata.

use crate::extent::ExtentIo;
use crate::extent::reading::Reading;
use crate::record::{Header, LargeBody};
use crate::{CacheError, Lookup};
use atoll_fabric::{Buffer, Endpoint};
use std::ops::Range;

/// What a protocol says of a value. It is kept with the object; no engine reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// What the bytes are, in the bits of [`Attributes::KIND_BITS`], and a protocol's marks in the
    /// two others.
    pub kind: u8,
    /// A client's own: the flags of memcached.
    pub flags: u32,
}

impl Attributes {
    /// A string of which no client said anything.
    pub const NONE: Self = Self { kind: 0, flags: 0 };

    /// The bits of [`Attributes::kind`] that say what the bytes are. The two others are marks of a
    /// value of any kind, such as memcached's stale and win.
    pub const KIND_BITS: u8 = 0x3f;

    /// What the bytes are, whatever marks the value has; 0 for a string.
    #[inline]
    pub fn kind_of_bytes(self) -> u8 {
        self.kind & Self::KIND_BITS
    }

    /// Whether the value is a string.
    #[inline]
    pub fn is_string(self) -> bool {
        self.kind_of_bytes() == Self::NONE.kind
    }
}

/// An object's metadata: what is known of it besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// When it expires, in milliseconds since the Unix epoch on the pool's clock; `None` for never.
    pub expiry_ms: Option<u64>,
    /// Differs for every write of every key; a change of the expiry alone keeps it. For
    /// compare-and-set.
    pub token: u64,
    /// Length of the value in bytes.
    pub value_bytes: usize,
    /// What was said of the value when it was stored.
    pub attributes: Attributes,
}

/// A buffer for the value of a hit. Reuse it: in steady state a lookup then allocates nothing and
/// copies the value once.
#[derive(Debug)]
pub struct Value {
    /// Holds the value at `start .. start + meta.value_bytes`, with other bytes that the engine
    /// read around it.
    pub(crate) buffer: Buffer,
    pub(crate) start: usize,
    pub(crate) meta: Meta,
    /// A lookup leaves the value of a large object in the pool that has at least so many bytes.
    pub(crate) defers_from: usize,
    /// A large object whose value was left there. The place has no bytes then.
    pub(crate) deferred: Option<Box<(Header, LargeBody)>>,
}

impl Default for Value {
    fn default() -> Self {
        Self::new()
    }
}

impl Value {
    /// An empty place.
    pub const fn new() -> Self {
        let meta = Meta { expiry_ms: None, token: 0, value_bytes: 0, attributes: Attributes::NONE };
        Self { buffer: Buffer::new(), start: 0, meta, defers_from: usize::MAX, deferred: None }
    }

    /// The value of the last hit.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[self.start..self.start + self.meta.value_bytes]
    }

    /// Its metadata.
    #[inline]
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// The value of the last hit, for writing. The object in the pool stays as it is.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[self.start..self.start + self.meta.value_bytes]
    }

    /// Makes it hold no bytes.
    pub fn clear(&mut self) {
        (self.start, self.meta) = (0, Meta::default());
    }

    /// Makes the value of the last hit as long as `bytes`, with zeros behind it if it was shorter.
    pub fn resize(&mut self, bytes: usize) {
        // Behind the value stand other bytes that the engine read.
        let had = self.meta.value_bytes.min(bytes);
        self.buffer.truncate(self.start + had);
        self.buffer.extend(self.start + bytes);
        self.meta.value_bytes = bytes;
    }

    /// Whether it holds all bytes of a value that has at most so many.
    pub(crate) fn has_at_most(&self, bytes_max: usize) -> bool {
        self.deferred.is_none() && self.meta.value_bytes <= bytes_max
    }

    /// Takes its memory, to READ into it. It is empty until [`hold`](Self::hold). For engines.
    pub fn take_buffer(&mut self) -> Buffer {
        std::mem::take(self).buffer
    }

    /// Empties it for the next candidate, and takes its memory.
    #[inline]
    pub(crate) fn emptied(&mut self) -> Buffer {
        (self.start, self.meta) = (0, Meta::default());
        if self.defers_from < usize::MAX {
            self.deferred = None;
        }
        std::mem::take(&mut self.buffer)
    }

    /// Makes it hold the value that begins at `start` of `buffer`, of as many bytes as `meta` says.
    /// For engines.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter.
    pub fn hold(&mut self, buffer: Buffer, start: usize, meta: Meta) {
        assert!(start + meta.value_bytes <= buffer.bytes().len(), "a value lies within its buffer");
        *self = Self { buffer, start, meta, ..Self::new() };
    }

    /// Makes it hold a copy of `bytes`.
    pub(crate) fn assign(&mut self, bytes: &[u8], meta: Meta) {
        self.buffer.resize(bytes.len());
        self.buffer.bytes_mut().copy_from_slice(bytes);
        (self.start, self.meta) = (0, Meta { value_bytes: bytes.len(), ..meta });
    }

    /// Makes it hold a part of its value.
    pub(crate) fn narrow(&mut self, part: Range<usize>) {
        assert!(part.start <= part.end && part.end <= self.meta.value_bytes, "a part lies within its value");
        self.start += part.start;
        self.meta.value_bytes = part.len();
    }

    /// Frees the memory of a large value, so that a client does not keep it for ever.
    pub fn shrink_beyond(&mut self, bytes_max: usize) {
        drop(self.taken_beyond(bytes_max));
    }

    /// Takes the memory of a large value, and leaves an empty place. To free hundreds of megabytes
    /// takes a thread tens of milliseconds, so that it may leave that to another one.
    pub fn taken_beyond(&mut self, bytes_max: usize) -> Option<Self> {
        (self.buffer.len() > bytes_max).then(|| std::mem::take(self))
    }

    /// Bytes of its memory that a lookup has used.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }
}

/// Looks `key` up by `look`, and copies the value of a hit to the start of `into`, if it has room.
/// The value of a large object is READ straight to there.
pub(crate) async fn look_up_to<E: Endpoint>(
    io: ExtentIo<'_, E>,
    key: &[u8],
    into: &mut [u8],
    mut look: impl AsyncFnMut(&mut Value) -> Result<Lookup, CacheError>,
) -> Result<(Lookup, Meta), CacheError> {
    let mut value = Value::new();
    // The lookup repairs what it finds damaged, if it READs the value itself.
    for defers_from in [0, 0, usize::MAX] {
        value.defers_from = defers_from;
        let lookup = look(&mut value).await?;
        let meta = value.meta();
        let Some(into) = into.get_mut(..meta.value_bytes).filter(|_| lookup == Lookup::Hit) else {
            return Ok((lookup, meta));
        };
        let is_whole = match value.deferred.take() {
            Some(large) => Box::pin(io.read_value(&large.0, &large.1, key, into)).await?,
            None => {
                into.copy_from_slice(value.bytes());
                true
            }
        };
        if is_whole {
            return Ok((lookup, meta));
        }
    }
    unreachable!("a value that a lookup has READ is whole")
}

/// Looks `key` up by `look`, and puts the bytes of a hit's value that `part` chooses into `into`.
/// Of a large object these alone are READ, if they are at most half of it. Without a place `look`
/// gives the metadata alone.
///
/// A part has no checksum. While the object has the same token, its extents have not been reused.
pub(crate) async fn look_up_part<E: Endpoint>(
    io: ExtentIo<'_, E>,
    key: &[u8],
    part: impl Fn(Meta) -> Range<usize>,
    into: &mut Value,
    mut look: impl AsyncFnMut(Option<&mut Value>) -> Result<Option<(Lookup, Meta)>, CacheError>,
) -> Result<(Lookup, Meta), CacheError> {
    // The lookup repairs what it finds damaged, if it READs the value itself.
    for defers_from in [0, 0, usize::MAX] {
        into.defers_from = defers_from;
        let found = look(Some(&mut *into)).await?;
        into.defers_from = usize::MAX;
        let (lookup, meta) = found.expect("a lookup with a place says how it ended");
        if lookup != Lookup::Hit {
            return Ok((lookup, meta));
        }
        let Some(large) = into.deferred.take() else {
            into.narrow(part(meta));
            return Ok((lookup, meta));
        };
        let chosen = part(meta);
        if chosen.len() > meta.value_bytes / 2 {
            continue;
        }
        let bytes = Box::pin(io.read_part(&large.0, &large.1, key, chosen, into.take_buffer())).await?;
        let after = look(None).await?;
        if let (Some(bytes), Some((_, Meta { token, .. }))) = (bytes, after)
            && token == meta.token
        {
            let value_bytes = bytes.bytes().len();
            into.hold(bytes, 0, Meta { value_bytes, ..meta });
            return Ok((lookup, meta));
        }
    }
    unreachable!("a value that a lookup has READ is whole")
}

/// Begins to read the value of a large object that a lookup has left in the pool: see
/// [`Engine::open_value`](crate::Engine::open_value). `look` gives the metadata of the key's
/// object.
pub(crate) async fn open<E: Endpoint>(
    io: ExtentIo<'_, E>,
    key: &[u8],
    value: &mut Value,
    bytes_max: usize,
    look: impl AsyncFnOnce() -> Result<Option<Meta>, CacheError>,
) -> Result<Option<Reading>, CacheError> {
    let Some(large) = value.deferred.take() else { return Ok(None) };
    let Some(reading) = io.begin_reading((&large.0, &large.1), key, bytes_max).await? else { return Ok(None) };
    // Who makes it dead from now on finds the pin.
    let is_still_there = look().await?.is_some_and(|meta| meta.token == reading.meta().token);
    Ok(is_still_there.then_some(reading))
}
