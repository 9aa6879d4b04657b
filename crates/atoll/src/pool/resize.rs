//! A pool that becomes smaller, and larger again, while others use it: chunk by chunk, whose memory goes back to the host.

use super::{OpenError, Pool};
use atoll_cache::CacheError;
use atoll_fabric::shm::ShmRegion;
use atoll_fabric::{Address, run_ready};
use atoll_pool::{ChunkState, chunks};
use std::cell::Cell;

/// Chunks in use below which a pool does not become smaller.
pub const CHUNKS_LEAST: u64 = 16;

/// Why a pool could not be made smaller, or not by so much.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// No client could be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It would be too small.
    #[error("the pool has {chunks} chunks in use, of which {wanted} cannot go: it keeps {CHUNKS_LEAST}")]
    TooSmall {
        /// Those in use.
        chunks: u64,
        /// Those that should go.
        wanted: u64,
    },
    /// A client failed at it.
    #[error("{done} of {wanted} chunks are out of use, then: {error}")]
    Ended {
        /// Chunks that went.
        done: u64,
        /// Chunks that should go.
        wanted: u64,
        /// What happened.
        error: CacheError,
    },
}

/// How much a pool's memory changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Chunks that went out of use, or came back.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that went back to the host, in whole pages; its file system may have no holes.
    pub host_bytes: u64,
}

impl Pool {
    /// Makes the pool smaller by at least so many bytes, in whole chunks, while others use it; evicts what has no room any more and moves nothing. The memory goes
    /// back to the host where that can be. `progress` is told the chunks done, and of how many.
    pub fn shrink(&self, bytes: u64, mut progress: impl FnMut(u64, u64)) -> Result<Resized, ResizeError> {
        let ended = |done, wanted| move |error| ResizeError::Ended { done, wanted, error };
        let chunk_bytes = self.0.chosen.pool().layout.chunk_bytes;
        let wanted = bytes.div_ceil(chunk_bytes);
        let mut client = self.0.join()?;
        let info = self.info().map_err(ended(0, wanted))?;
        let chunks = info.chunks - info.chunks_retired;
        if wanted > chunks.saturating_sub(CHUNKS_LEAST) {
            return Err(ResizeError::TooSmall { chunks, wanted });
        }
        let host_bytes = Cell::new(0);
        let mut done = 0;
        while done < wanted {
            progress(done, wanted);
            let discard = |at: Address, bytes: u64| {
                let gone = self.region_of(at).map_or(0, |region| region.discard(at.offset(), bytes));
                host_bytes.set(host_bytes.get() + gone);
            };
            done += run_ready(client.retire_chunks(wanted - done, discard)).map_err(ended(done, wanted))?;
        }
        progress(wanted, wanted);
        run_ready(client.leave()).map_err(ended(wanted, wanted))?;
        Ok(Resized { chunks: wanted, bytes: wanted * chunk_bytes, host_bytes: host_bytes.get() })
    }

    /// Gives back at most so many bytes that [`Pool::shrink`] took out of use, in whole chunks, as far as the host has the memory.
    pub fn restore(&self, bytes: u64) -> Result<Resized, ResizeError> {
        let ended = |done, wanted| move |error| ResizeError::Ended { done, wanted, error };
        let chunk_bytes = self.0.chosen.pool().layout.chunk_bytes;
        let (wanted, mut done) = (bytes / chunk_bytes, 0);
        let mut client = self.0.join()?;
        let reserve =
            |at: Address, bytes: u64| self.region_of(at).is_some_and(|region| region.reserve(at.offset(), bytes));
        while done < wanted && run_ready(client.restore_chunk(reserve)).map_err(ended(done, wanted))? {
            done += 1;
        }
        run_ready(client.leave()).map_err(ended(done, wanted))?;
        Ok(Resized { chunks: done, bytes: done * chunk_bytes, host_bytes: 0 })
    }

    fn region_of(&self, at: Address) -> Option<&ShmRegion> {
        if at.is_home() {
            return Some(&self.0.region);
        }
        self.0.nodes.region(at.node()).map(|region| &**region)
    }
}

/// How many of these chunks are out of use.
pub(super) fn retired(descriptors: &[chunks::Descriptor]) -> u64 {
    let is_retired = |each: &&chunks::Descriptor| each.chunk.is_some_and(|chunk| chunk.state == ChunkState::Retired);
    descriptors.iter().filter(is_retired).count() as u64
}
