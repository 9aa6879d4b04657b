//! A large value on its way from the pool to a peer. It is read while it is sent, so the server
//! never has the whole of it in memory of its own, unless the peer is slow.
//!
//! | the peer | the value |
//! |---|---|
//! | takes it | is read piece by piece |
//! | is slow | stays in the pool, as long as the key has it |
//! | is slow, and the key has got another value for [`ORPHANED_MAX`] | is copied into the server's memory, so that the pool gets its room back |
//! | has got a part of it, and another process has replaced or evicted it | the connection ends: no reply can be right any more |

use super::memory;
use atoll_cache::Reading;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Bytes that are read at a time. Others run in between, and the bytes stay in the processor's
/// cache from one copy to the next.
const STEP_BYTES: usize = 256 << 10;
/// How long the pool keeps a value for a slow peer after its key has got another one.
const ORPHANED_MAX: Duration = Duration::from_secs(5);
/// How often a slow peer's value is looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// What is read and not sent, and what is not read.
struct Download<F> {
    reading: Option<Box<Reading>>,
    read: Vec<u8>,
    read_on: F,
}

impl<F: AsyncFnMut(&mut Reading, &mut [u8]) -> io::Result<()>> Download<F> {
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
        let orphaned_for = self.reading.as_ref().and_then(|reading| reading.orphaned_for());
        if orphaned_for.is_some_and(|time| time >= ORPHANED_MAX) {
            let missing = self.reading.as_ref().map_or(0, |reading| reading.missing_bytes());
            self.read.reserve_exact(missing);
            while self.read_some(STEP_BYTES).await? {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }
}

/// Sends a value.
pub(super) async fn send<S: AsyncWrite + Unpin>(
    reading: Box<Reading>,
    stream: &mut S,
    read_on: impl AsyncFnMut(&mut Reading, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut download = Download { reading: Some(reading), read: Vec::new(), read_on };
    while download.read_some(STEP_BYTES).await? {
        let mut sent = 0;
        while sent < download.read.len() {
            match timeout(LOOK_PERIOD, stream.write(&download.read[sent..])).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => sent += taken?,
                Err(_) => {}
            }
            if sent < download.read.len() {
                download.spare_the_pool().await?;
            }
        }
        download.read.clear();
        tokio::task::yield_now().await;
    }
    memory::free(download.read.capacity(), download.read);
    Ok(())
}
