//! The common interface of engines whose caches live in a pool: how a pool is made, joined, left,
//! repaired and verified.
//!
//! A program that lets a user choose an engine is written once, over [`Pooled`].

use crate::audit::Audit;
use crate::{CacheError, Engine, Reserve};
use atoll_fabric::{Address, Endpoint};
use atoll_pool::layout::FIXED_BYTES_MOST;
use atoll_pool::{Client, EngineArea, Layout, Pool, PoolError, PoolSettings, Repaired};
use std::sync::Arc;

/// A pool of an engine, as one process has it open.
#[allow(async_fn_in_trait)]
pub trait EnginePool: Sized + 'static {
    /// The memory that the engine needs besides the words of every pool.
    fn engine_area(settings: &PoolSettings) -> EngineArea;

    /// Checks a new pool's settings against the engine's own limits, before there is any memory.
    fn check(settings: &PoolSettings) -> Result<(), PoolError>;

    /// A pool whose header was read.
    fn opened(pool: Pool) -> Result<Arc<Self>, PoolError>;

    /// The pool behind it.
    fn pool(&self) -> &Pool;

    /// Names the engine's own word at an address.
    fn describe_own(&self, at: Address) -> Option<String>;

    /// The settings that the pool was made with, for people: name and value.
    fn describe_settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What an evictor of this process shares with the process's writers. `None` if the engine has
    /// no evictor: its clients make all room themselves.
    fn reserve(&self) -> Option<&Reserve> {
        None
    }

    /// Names the word at an address, for people who follow a trace.
    fn describe(&self, at: Address) -> Option<String> {
        if let Some(node) = at.compute_node() {
            return Some(format!("export {} of compute node {node} +{}", at.region(), at.offset()));
        }
        self.describe_own(at).or_else(|| self.pool().layout.describe(at))
    }

    /// Formats all-zero regions, which the endpoint reaches. A hash seed of 0 means a random seed.
    async fn format<E: Endpoint>(endpoint: &E, settings: PoolSettings) -> Result<Arc<Self>, PoolError> {
        Self::check(&settings)?;
        let hash_seed = if settings.hash_seed == 0 { endpoint.random() } else { settings.hash_seed };
        let settings = PoolSettings { hash_seed, ..settings };
        let area = Self::engine_area(&settings);
        Self::opened(Pool::format(endpoint, settings, area).await?)
    }

    /// Opens a pool that was formatted before. `home_bytes` is the size of node 0's region.
    async fn open<E: Endpoint>(endpoint: &E, home_bytes: u64) -> Result<Arc<Self>, PoolError> {
        Self::opened(Pool::open(endpoint, home_bytes).await?)
    }
}

/// The settings of every pool, for people: name and value.
pub(crate) fn describe_pool(pool: &Pool) -> Vec<(&'static str, String)> {
    let settings = &pool.settings;
    vec![
        ("capacity_bytes", pool.capacity_bytes().to_string()),
        ("growth_bytes_max", settings.growth_bytes_max.to_string()),
        ("nodes", pool.layout.nodes_known().to_string()),
        ("nodes_max", settings.nodes_max.to_string()),
        ("chunk_bytes", settings.chunk_bytes.to_string()),
        ("chunks", pool.layout.chunks().to_string()),
        ("clients_max", settings.clients_max.to_string()),
        ("objects_max", settings.objects_max.to_string()),
    ]
}

/// Checks that slots can name all places of a heap. `most` is what the bits of a slot permit.
pub(crate) fn check_heap(layout: &Layout, most: u64) -> Result<(), PoolError> {
    let found = layout.heap_bytes_max();
    if found <= most {
        return Ok(());
    }
    let wanted = format!("at most {most} of them for this engine, growth included; engine forge takes the most");
    Err(PoolError::Setting { what: "the capacity in bytes without the metadata", found, wanted })
}

/// Settings for a pool that has so many chunks, one more for safety, and room for all metadata.
pub(crate) fn with_chunks(settings: PoolSettings, chunks: u64, area: EngineArea) -> PoolSettings {
    let metadata = area.home_bytes + FIXED_BYTES_MOST + chunks * 32 + u64::from(settings.clients_max) * 192;
    let capacity_bytes = (metadata + (chunks + 1) * u64::from(settings.chunk_bytes)).next_multiple_of(4096);
    PoolSettings { capacity_bytes, ..settings }
}

/// What a step of an evictor came to: see [`Pooled::evict_ahead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Enough chunks are free: it did nothing.
    Enough,
    /// It cleaned or evicted a group, or moved a queue on.
    Worked,
    /// Nothing can be evicted now, or other clients still protect what it has emptied.
    Waits,
}

/// Writes the methods of a [`Pooled`] engine over endpoints of type `$endpoint` that wraps another
/// engine in the field `$engine`, and passes its calls on: all but `join`, `auditor` and `leave`.
#[macro_export]
macro_rules! pass_on_upkeep {
    ($engine:ident, $endpoint:ty) => {
        fn shared(&self) -> &std::sync::Arc<Self::Shared> {
            $crate::Pooled::shared(&self.$engine)
        }

        fn client(&self) -> &atoll_pool::Client<$endpoint> {
            $crate::Pooled::client(&self.$engine)
        }

        async fn repair(&self) -> Result<atoll_pool::Repaired, $crate::CacheError> {
            $crate::Pooled::repair(&self.$engine).await
        }

        async fn verify(&self) -> Result<$crate::audit::Audit, $crate::CacheError> {
            $crate::Pooled::verify(&self.$engine).await
        }

        async fn retire_chunks(&self, most: u64) -> Result<u64, $crate::CacheError> {
            $crate::Pooled::retire_chunks(&self.$engine, most).await
        }

        async fn evict_ahead(&self) -> Result<$crate::Ahead, $crate::CacheError> {
            $crate::Pooled::evict_ahead(&self.$engine).await
        }

        async fn discard_retired(&self) -> Result<u64, $crate::CacheError> {
            $crate::Pooled::discard_retired(&self.$engine).await
        }

        async fn restore_chunk(&self) -> Result<bool, $crate::CacheError> {
            $crate::Pooled::restore_chunk(&self.$engine).await
        }

        async fn grow(&self, bytes: u64) -> Result<u8, atoll_pool::PoolError> {
            $crate::Pooled::grow(&self.$engine, bytes).await
        }
    };
}

/// An engine whose cache lives in a pool, as one client uses it.
#[allow(async_fn_in_trait)]
pub trait Pooled<E: Endpoint>: Engine + Sized {
    /// The pool as one process has it open.
    type Shared: EnginePool;

    /// Formats all-zero regions, which the endpoint reaches.
    async fn format(endpoint: &E, settings: PoolSettings) -> Result<Arc<Self::Shared>, PoolError> {
        Self::Shared::format(endpoint, settings).await
    }

    /// Opens a pool that was formatted before. `home_bytes` is the size of node 0's region.
    async fn open(endpoint: &E, home_bytes: u64) -> Result<Arc<Self::Shared>, PoolError> {
        Self::Shared::open(endpoint, home_bytes).await
    }

    /// Joins as a new client.
    async fn join(shared: &Arc<Self::Shared>, endpoint: E) -> Result<Self, PoolError>;

    /// An auditor, without a place in the pool: for [`Pooled::verify`].
    fn auditor(shared: &Arc<Self::Shared>, endpoint: E) -> Result<Self, PoolError>;

    /// The pool, as this client's process has it open.
    fn shared(&self) -> &Arc<Self::Shared>;

    /// The client of the pool.
    fn client(&self) -> &Client<E>;

    /// Releases everything that this client holds and gives up its place.
    async fn leave(&self) -> Result<(), CacheError>;

    /// Looks after all clients now, and reclaims what dead clients held.
    async fn repair(&self) -> Result<Repaired, CacheError>;

    /// Walks the pool. No other client may use it meanwhile, since operations under way would be
    /// reported as faults.
    async fn verify(&self) -> Result<Audit, CacheError>;

    /// Makes the pool smaller by at least one and at most `most` chunks; returns by how many. If no
    /// chunk is free, it evicts the objects in some. An error if all chunks are in use for what
    /// cannot be evicted.
    async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        // An engine whose memory its clients cannot return keeps this default.
        let _ = most;
        Err(CacheError::OutOfMemory)
    }

    /// Makes room ahead of need, for other clients. This is the only work of an evictor, a client
    /// that makes no other operation. One call evicts at most once, and only while few chunks are
    /// free. The evictor puts emptied chunks back to the pool's free chunks.
    async fn evict_ahead(&self) -> Result<Ahead, CacheError> {
        // Clients of an engine that keeps this default make all room themselves.
        Ok(Ahead::Enough)
    }

    /// Continues to return the memory of retired chunks to the host; returns how many chunks still
    /// wait. Clients do this by themselves when they look after each other, a few chunks at a time.
    /// The memory of a chunk stays until all operations that were under way when it was retired
    /// have ended: see [`retirement`](atoll_pool::retirement).
    async fn discard_retired(&self) -> Result<u64, CacheError> {
        let client = self.client();
        Ok(client.as_operation(client.discard_retired(usize::MAX)).await?)
    }

    /// Restores a retired chunk; returns whether there was one, and memory for it.
    async fn restore_chunk(&self) -> Result<bool, CacheError> {
        Ok(false)
    }

    /// Adds a memory node with at most so many bytes, on a fabric whose regions all exist already;
    /// returns its number.
    async fn grow(&self, bytes: u64) -> Result<u8, PoolError> {
        self.client().grow(bytes).await
    }
}
