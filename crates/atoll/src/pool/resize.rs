//! Making a pool smaller, and larger again, while clients use it. It works chunk by chunk, and the
//! memory of the chunks returns to the host.

use super::{OpenError, Pool};
use crate::fabric::PoolFabric;
use atoll_cache::{CacheError, Engine};
use atoll_fabric::block_on;
use atoll_pool::{Chunk, ChunkState, chunks};
use std::time::{Duration, Instant};

/// The least chunks in use that a pool may be shrunk to.
pub const CHUNKS_LEAST: u64 = 16;

/// How long a client that shrinks the pool waits for running operations, counted from the last one
/// that ended.
const DISCARD_PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two checks whether they have ended.
const DISCARD_STEP: Duration = Duration::from_millis(5);

/// Why a pool was not made smaller, or not by that much.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// No client could join.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The pool would become too small.
    #[error("{wanted} chunks are to go, and the pool has {chunks} in use, of which it keeps {CHUNKS_LEAST}")]
    TooSmall {
        /// Chunks in use.
        chunks: u64,
        /// Chunks to take out of use.
        wanted: u64,
    },
    /// A client failed while it shrank the pool.
    #[error("{done} of {wanted} chunks are out of use, then: {error}")]
    Ended {
        /// Chunks that were taken out of use.
        done: u64,
        /// Chunks to take out of use.
        wanted: u64,
        /// The error.
        error: CacheError,
    },
}

/// How much a pool's memory changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Chunks that were taken out of use, or put back into use.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of chunks out of use whose memory the host does not have back yet. The cause is a
    /// client that is paused inside an operation, or that makes no operation and does not tend the
    /// pool. The memory returns to the host once every such client has made progress.
    pub held_bytes: u64,
}

impl<F: PoolFabric> Pool<F> {
    /// Makes the pool smaller by at least this many bytes, in whole chunks, while clients use it.
    /// It evicts objects for which no room is left, and moves none. The memory returns to the host
    /// where the fabric allows it. `progress` gets the chunks done and the chunks in total.
    pub fn shrink(&self, bytes: u64, mut progress: impl FnMut(u64, u64)) -> Result<Resized, ResizeError> {
        let opened = self.opened_now();
        let ended = |done, wanted| move |error| ResizeError::Ended { done, wanted, error };
        let chunk_bytes = opened.chosen.pool().layout.chunk_bytes;
        let wanted = bytes.div_ceil(chunk_bytes);
        let client = opened.join()?;
        let endpoint = &client.client().endpoint;
        let info = self.info().map_err(ended(0, wanted))?;
        let chunks = info.chunks - info.chunks_retired;
        if wanted > chunks.saturating_sub(CHUNKS_LEAST) {
            return Err(ResizeError::TooSmall { chunks, wanted });
        }
        let mut done = 0;
        while done < wanted {
            progress(done, wanted);
            done += block_on(endpoint, client.retire_chunks(wanted - done)).map_err(ended(done, wanted))?;
        }
        progress(wanted, wanted);
        let mut waiting = u64::MAX;
        let mut deadline = Instant::now();
        loop {
            let left = block_on(endpoint, client.discard_retired()).map_err(ended(wanted, wanted))?;
            if left < waiting {
                (waiting, deadline) = (left, Instant::now() + DISCARD_PATIENCE);
            }
            if left == 0 || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(DISCARD_STEP);
            // Another client that makes the pool smaller waits for this one.
            block_on(endpoint, client.tend()).map_err(ended(wanted, wanted))?;
        }
        block_on(endpoint, client.leave()).map_err(ended(wanted, wanted))?;
        let left = self.info().map_err(ended(wanted, wanted))?.chunks_undiscarded;
        Ok(Resized { chunks: wanted, bytes: wanted * chunk_bytes, held_bytes: left * chunk_bytes })
    }

    /// Puts back into use at most this many bytes that [`Pool::shrink`] took out of use. It does so
    /// in whole chunks, as far as the host has the memory.
    pub fn restore(&self, bytes: u64) -> Result<Resized, ResizeError> {
        let opened = self.opened_now();
        let ended = |done, wanted| move |error| ResizeError::Ended { done, wanted, error };
        let chunk_bytes = opened.chosen.pool().layout.chunk_bytes;
        let (wanted, mut done) = (bytes / chunk_bytes, 0);
        let client = opened.join()?;
        let endpoint = &client.client().endpoint;
        while done < wanted && block_on(endpoint, client.restore_chunk()).map_err(ended(done, wanted))? {
            done += 1;
        }
        block_on(endpoint, client.leave()).map_err(ended(done, wanted))?;
        Ok(Resized { chunks: done, bytes: done * chunk_bytes, held_bytes: 0 })
    }
}

/// How many of these chunks are out of use, and how many of those still have their memory.
pub(super) fn out_of_use(descriptors: &[chunks::Descriptor]) -> (u64, u64) {
    let out_of_use = || descriptors.iter().filter_map(|each| each.chunk).filter(|chunk| chunk.state.is_out_of_use());
    let is_undiscarded = |chunk: &Chunk| chunk.state != ChunkState::Discarded;
    (out_of_use().count() as u64, out_of_use().filter(is_undiscarded).count() as u64)
}
