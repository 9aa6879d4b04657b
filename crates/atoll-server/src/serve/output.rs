//! The bytes to send: small replies are copied one after another, large values are sent as they
//! are.
//!
//! ```text
//! bytes   |$256\r\n....\r\n+OK\r\n$1048576\r\n|\r\n+OK\r\n|
//! large                                       ^ value 0, sent where the mark stands
//! ```
//!
//! A value may also come open: then it is read while it is sent, where its mark stands.
//!
//! Invariants: the marks of `large` never decrease, and none lies beyond the end of `bytes`. At
//! most one value is open, and no large value is behind it: it ends its batch.
//!
//! An output is reused for the next batch, with its memory. It keeps the memory of large values,
//! too: fresh memory from the system costs more than the copy that moving a value saves.

use super::download::{Download, STEP_BYTES};
use super::memory;
use arrayvec::ArrayVec;
use atoll_cache::{Reading, Value};
use std::borrow::Cow;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::Context;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Values of at least so many bytes are sent from where the lookup put them. Below it a copy costs
/// less than the pieces do.
pub const LARGE_BYTES_MIN: usize = 32 << 10;
/// Values whose memory is kept for further use, and the most bytes of one.
const SPARES_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of small replies that room is kept for. More than what ends a batch, with the reply
/// that ended it.
const BYTES_KEPT: usize = 2 << 20;
/// Pieces of one write.
const SLICES_MAX: usize = 64;

/// What has been said to a peer and not been sent yet.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    large: Vec<(usize, Value)>,
    large_bytes: usize,
    /// The value that is open, and its mark.
    open: Option<(usize, Box<Reading>)>,
    /// Memory of values that have been sent.
    spares: Vec<Value>,
}

/// What an output consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Bytes of small replies, and the memory that they lie in.
    pub(super) replies_bytes: usize,
    pub(super) replies_memory: usize,
    /// Large values, and the memory of them: of one that is open, what is read at a time.
    pub(super) values: usize,
    pub(super) values_memory: usize,
}

/// Where an output ended at some time.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    bytes: usize,
    large: usize,
}

impl Output {
    /// Bytes to send.
    #[inline]
    pub fn len(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |(_, reading)| reading.missing_bytes());
        self.bytes.len() + self.large_bytes + open
    }

    /// What it consists of.
    #[inline]
    pub(super) fn sizes(&self) -> Sizes {
        let open = self.open.as_ref().map(|(_, reading)| reading.missing_bytes().min(STEP_BYTES));
        Sizes {
            replies_bytes: self.bytes.len(),
            replies_memory: self.bytes.capacity(),
            values: self.large.len() + usize::from(open.is_some()),
            values_memory: self.large_bytes + open.unwrap_or(0),
        }
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it has little memory, used or not.
    #[inline]
    pub fn is_small(&self) -> bool {
        self.bytes.capacity() <= LARGE_BYTES_MIN && self.spares.is_empty() && self.large.is_empty()
    }

    /// Appends small bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a value: a small one is copied, a large one taken, which leaves unspecified bytes in
    /// `value`.
    #[inline]
    pub fn push_value(&mut self, value: &mut Value) {
        debug_assert!(self.open.is_none(), "no value is behind one that is open");
        let length = value.bytes().len();
        if length < LARGE_BYTES_MIN {
            return self.bytes.extend_from_slice(value.bytes());
        }
        self.large.push((self.bytes.len(), std::mem::replace(value, self.spares.pop().unwrap_or_default())));
        self.large_bytes += length;
    }

    /// Appends a value that is read while it is sent.
    pub fn push_open(&mut self, reading: Box<Reading>) {
        assert!(self.open.is_none(), "one value at most is open");
        self.open = Some((self.bytes.len(), reading));
    }

    /// Sends everything, with one call to the system if the peer takes it. `read_on` reads the next
    /// bytes of a value that is open.
    pub async fn send<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        read_on: impl AsyncFnMut(&mut Reading, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.large.is_empty() && self.open.is_none() {
            stream.write_all(&self.bytes).await?;
        } else {
            let (mut sent, open) = (0, self.open.take());
            let end = open.as_ref().map_or(self.bytes.len(), |(mark, _)| *mark);
            let mut download = open.map(|(_, reading)| Download::new(reading, read_on));
            while sent < end + self.large_bytes {
                let slices = self.unsent(sent, end);
                let mut write = |cx: &mut Context<'_>| Pin::new(&mut *stream).poll_write_vectored(cx, &slices);
                let taken = match &mut download {
                    // The value is pinned already.
                    Some(download) => Box::pin(download.write(|cx, _| write(cx))).await?,
                    None => std::future::poll_fn(write).await?,
                };
                if taken == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                sent += taken;
            }
            if let Some(download) = download {
                Box::pin(download.send(stream)).await?;
                stream.write_all(&self.bytes[end..]).await?;
            }
        }
        // Within TLS the last bytes may wait for the socket yet.
        stream.flush().await?;
        self.clear();
        Ok(())
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        assert!(self.open.is_none(), "an open value is sent, and not copied");
        let (mut all, mut start) = (Vec::with_capacity(self.len()), 0);
        for (mark, value) in &self.large {
            all.extend_from_slice(&self.bytes[start..*mark]);
            all.extend_from_slice(value.bytes());
            start = *mark;
        }
        all.extend_from_slice(&self.bytes[start..]);
        all
    }

    /// All bytes; they are copied if large values are among them.
    pub fn whole(&self) -> Cow<'_, [u8]> {
        if self.large.is_empty() && self.open.is_none() {
            Cow::Borrowed(&self.bytes)
        } else {
            Cow::Owned(self.to_vec())
        }
    }

    /// The bytes, unless large values are among them.
    #[cfg(test)]
    pub(crate) fn small(&self) -> &[u8] {
        &self.bytes
    }

    /// Where it ends now.
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), large: self.large.len() }
    }

    /// Takes back what was appended since it ended there.
    pub fn take_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.open.take_if(|(at, _)| *at > mark.bytes);
        for (_, value) in self.large.drain(mark.large..) {
            self.large_bytes -= value.bytes().len();
        }
    }

    /// Makes it empty, keeping memory of ordinary size for further use.
    pub fn clear(&mut self) {
        self.open = None;
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
        for (_, mut value) in self.large.drain(..) {
            memory::shrink_beyond(&mut value, SPARE_BYTES_MAX);
            if self.spares.len() < SPARES_MAX {
                self.spares.push(value);
            }
        }
        self.large_bytes = 0;
    }

    /// The first pieces behind the first `sent` bytes, up to the small ones at `end`.
    fn unsent(&self, mut sent: usize, end: usize) -> ArrayVec<IoSlice<'_>, SLICES_MAX> {
        let mut slices = ArrayVec::new();
        let mut start = 0;
        for (mark, value) in self.large.iter().map(|(mark, value)| (*mark, value.bytes())).chain([(end, &[][..])]) {
            for piece in [&self.bytes[start..mark], value] {
                let skipped = sent.min(piece.len());
                sent -= skipped;
                if skipped < piece.len() && slices.try_push(IoSlice::new(&piece[skipped..])).is_err() {
                    return slices;
                }
            }
            start = mark;
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_cache::{Cache, Chosen, ChosenPool, EngineOptions, Got, SetOptions, model::Model};
    use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
    use atoll_fabric::{Clock, run_ready};
    use std::cell::Cell;
    use std::sync::Arc;
    use std::time::Duration;

    fn value_of(bytes: &[u8]) -> Value {
        let (cache, mut value) = (Cache::new(Model::new(Clock::host())), Value::new());
        run_ready(async {
            cache.set(b"k", bytes, &SetOptions::default()).await.unwrap();
            assert!(cache.get(b"k", &mut value).await.unwrap());
        });
        value
    }

    fn cache_of_a_pool() -> Cache<Chosen<ShmEndpoint>> {
        let settings = EngineOptions::default().for_growth(None, 64 << 20, 0);
        let region = Arc::new(ShmRegion::anonymous(settings.home_bytes()).unwrap());
        let endpoint = || ShmEndpoint::with_regions(vec![region.clone()], Clock::host());
        let pool = run_ready(ChosenPool::format(&endpoint(), settings)).unwrap();
        Cache::new(run_ready(Arc::new(pool).join(endpoint())).unwrap())
    }

    #[test]
    fn a_peer_that_does_not_take_what_is_in_front_of_an_open_value_keeps_it_in_the_pool_no_longer_than_others() {
        const BYTES: usize = 8 << 20;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (cache, options) = (cache_of_a_pool(), SetOptions::default());
            cache.set(b"k", &vec![b'1'; BYTES], &options).await.unwrap();
            let Got::Open(reading) = cache.get_or_open(b"k", &mut Value::new(), 1).await.unwrap() else {
                panic!("the value is large")
            };
            cache.set(b"k", &vec![b'2'; BYTES], &options).await.unwrap();
            let mut output = Output::default();
            output.push(&[b'<'; 1000]);
            output.push_open(reading);
            // The peer's end stays open, and takes nothing.
            let (mut stream, _peer) = tokio::io::duplex(100);
            let read = Cell::new(0);
            let read_on = async |reading: &mut Reading, into: &mut [u8]| {
                assert!(cache.read_on(reading, into).await.unwrap());
                read.set(read.get() + into.len());
                Ok(())
            };
            let sent = tokio::time::timeout(Duration::from_secs(8), output.send(&mut stream, read_on)).await;
            assert!(sent.is_err(), "there was nobody who took it");
            assert_eq!(read.get(), BYTES, "the server has taken the value out of the pool");
        });
    }

    #[test]
    fn pieces_come_in_order_whatever_has_been_sent() {
        let mut output = Output::default();
        let mut whole = Vec::new();
        for (index, length) in [3, LARGE_BYTES_MIN, LARGE_BYTES_MIN + 1, 5].into_iter().enumerate() {
            let bytes = vec![index as u8; length];
            output.push(b"<");
            output.push_value(&mut value_of(&bytes));
            whole.extend([b"<".as_slice(), &bytes].concat());
        }
        output.push(b">");
        whole.push(b'>');
        assert_eq!(output.len(), whole.len());
        let Sizes { replies_bytes, replies_memory, values, values_memory } = output.sizes();
        assert_eq!((values, values_memory), (2, 2 * LARGE_BYTES_MIN + 1), "short values are copied");
        assert_eq!(replies_bytes, whole.len() - values_memory);
        assert!(replies_memory >= replies_bytes);
        let mark = output.mark();
        output.push(b"taken back");
        output.push_value(&mut value_of(&vec![9; LARGE_BYTES_MIN]));
        output.take_back(mark);
        assert_eq!((output.len(), output.to_vec()), (whole.len(), whole.clone()));
        for sent in (0..whole.len()).step_by(997).chain([whole.len() - 1, whole.len()]) {
            assert_eq!(
                output.unsent(sent, output.bytes.len()).iter().flat_map(|slice| slice.to_vec()).collect::<Vec<_>>(),
                whole[sent..]
            );
        }
    }
}
