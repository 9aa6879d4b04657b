//! A large value on its way from the pool to a peer. It is read while it is sent, so the server
//! never has the whole of it in memory of its own, unless the peer is slow.
//!
//! | the peer | the value |
//! |---|---|
//! | takes it | is read piece by piece |
//! | is slow | stays in the pool, as long as the key has it |
//! | is slow, and the key has got another value for [`ORPHANED_MAX`] | is copied into the server's memory, so that the pool gets its room back |
//! | is slow, the key has got another value, and such values and uploads have too much of the pool | the same, at the next look |
//! | has got a part of it, and another process has replaced or evicted it | the connection ends: no reply can be right any more |
//! | has got a part of it, the key has got another value, and another process repairs the pool because some process died | the same |

use super::memory;
use atoll_cache::Reading;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::AsyncWrite;
use tokio::time::timeout_at;

/// Bytes that are read at a time. Others run in between, and the bytes stay in the processor's
/// cache from one copy to the next.
pub(super) const STEP_BYTES: usize = 256 << 10;
/// How long the pool keeps a value for a slow peer after its key has got another one.
const ORPHANED_MAX: Duration = Duration::from_secs(5);
/// How often a value is looked at, whether its peer takes bytes or not.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// A value that is sent: what is read and not sent, and what is not read.
pub(super) struct Download<F> {
    reading: Option<Box<Reading>>,
    read: Vec<u8>,
    read_on: F,
    next_look: Instant,
}

impl<F: AsyncFnMut(&mut Reading, &mut [u8]) -> io::Result<()>> Download<F> {
    /// A value of which nothing is read yet. `read_on` reads its next bytes.
    pub(super) fn new(reading: Box<Reading>, read_on: F) -> Self {
        Self { reading: Some(reading), read: Vec::new(), read_on, next_look: Instant::now() + LOOK_PERIOD }
    }

    /// Reads the next bytes behind those that are not sent, at most so many. Returns whether there
    /// were any.
    async fn read_some(&mut self, bytes_max: usize) -> io::Result<bool> {
        let Some(reading) = &mut self.reading else { return Ok(false) };
        let start = self.read.len();
        self.read.resize(start + reading.missing_bytes().min(bytes_max), 0);
        (self.read_on)(reading, &mut self.read[start..]).await?;
        if reading.missing_bytes() == 0 {
            self.reading = None;
        }
        Ok(true)
    }

    /// Reads the rest if the pool has kept the value for too long.
    async fn spare_the_pool(&mut self) -> io::Result<()> {
        let orphaned = self.reading.as_ref().and_then(|reading| reading.orphaned());
        if orphaned.is_some_and(|orphaned| orphaned.since >= ORPHANED_MAX || orphaned.are_too_many) {
            let missing = self.reading.as_ref().map_or(0, |reading| reading.missing_bytes());
            self.read.reserve_exact(missing);
            while self.read_some(STEP_BYTES).await? {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Waits until the peer takes bytes, be they this value's or those in front of it, and looks at
    /// the value meanwhile. `poll_write` is shown what is read and not sent. Returns how many bytes
    /// the peer has taken.
    pub(super) async fn write(
        &mut self,
        mut poll_write: impl FnMut(&mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> io::Result<usize> {
        loop {
            let now = Instant::now();
            if now >= self.next_look {
                self.next_look = now + LOOK_PERIOD;
                self.spare_the_pool().await?;
            }
            let written = poll_fn(|cx| poll_write(cx, &self.read));
            match timeout_at(self.next_look.into(), written).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => return taken,
                Err(_) => {}
            }
        }
    }

    /// Sends the value.
    pub(super) async fn send<S: AsyncWrite + Unpin>(mut self, stream: &mut S) -> io::Result<()> {
        while !self.read.is_empty() || self.read_some(STEP_BYTES).await? {
            let mut sent = 0;
            while sent < self.read.len() {
                sent += self.write(|cx, read| Pin::new(&mut *stream).poll_write(cx, &read[sent..])).await?;
            }
            self.read.clear();
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl<F> Drop for Download<F> {
    fn drop(&mut self) {
        memory::free(self.read.capacity(), std::mem::take(&mut self.read));
    }
}
