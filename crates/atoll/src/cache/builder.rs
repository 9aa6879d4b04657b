//! How a cache that threads share is made.

use super::clients::Clients;
use super::listener::Listener;
use super::{Cache, Lifetime, Shared};
use crate::fabric::PoolFabric;
use crate::{OpenError, Pool};
use atoll_cache::{Cause, Meta};
use std::sync::Arc;
use std::time::Duration;

/// Clients of a cache at most, whatever the processors.
const CLIENTS_MAX: usize = 16;

/// Why a cache could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No client could join the pool.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Both times were given. An object has one expiry in the pool, which every process and every
    /// Redis client sees. Nothing there says when the object was set, so that a lookup could renew
    /// the time to idle beyond the end of the time to live.
    #[error(
        "a cache has a time to live or a time to idle, not both: an object has one expiry, and a lookup that renews \
         it would not know when the object was set; give the time to live if values must not be older, else the time \
         to idle, or make two caches over one pool"
    )]
    BothTimes,
    /// A thread that tends the pool could not be started.
    #[error("no thread can be started that tends the pool ({0}): allow one, or build without (`tend(false)`)")]
    Thread(std::io::Error),
}

/// What a cache is to be like.
#[derive(Clone, Debug)]
pub struct Builder {
    live: Option<Duration>,
    idle: Option<Duration>,
    listener: Option<Listener>,
    clients: usize,
    tends: bool,
}

impl Default for Builder {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { live: None, idle: None, listener: None, clients: processors.min(CLIENTS_MAX), tends: true }
    }
}

impl Builder {
    /// Objects expire so long after they were set, unless they are set for another time. Not beside
    /// a time to idle: see [`BuildError::BothTimes`].
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.live = Some(time);
        self
    }

    /// Objects expire so long after this cache or a clone of it set or found them last. A lookup
    /// renews the time once an eighth of it is over, which costs a write. Not beside a time to live:
    /// see [`BuildError::BothTimes`].
    ///
    /// | what | renews |
    /// |---|---|
    /// | a lookup of this cache that hits | every object with an expiry of which less than seven eighths of the time are left, also one that was set for a shorter time |
    /// | many keys at once ([`Cache::get_many`]), [`Cache::contains`], [`Cache::peek`] | nothing |
    /// | a lookup of another process | what that process has as its time to idle |
    pub fn time_to_idle(mut self, time: Duration) -> Self {
        self.idle = Some(time);
        self
    }

    /// `listen(key, meta, cause)` is called once for each object that this cache and its clones have
    /// removed from the pool, whichever process had set it: evicted to make room, found expired,
    /// replaced, or removed by a call. It is not told of what other processes remove, nor of an
    /// expired object that a set overwrites, nor of an object whose bytes were damaged. The value is
    /// not given, since it is not read.
    ///
    /// It runs on the thread whose operation removed the object, at the end of that operation, and
    /// on the thread that tends. It may use the cache, but not load a key (`get_with`): its thread
    /// may be the one that loads it. A cache holds its listener, so that a listener holds the cache
    /// as a [`WeakCache`]. A listener that panics is not called again. While there is one, each
    /// object that is evicted costs a read more; without one nothing costs more.
    ///
    /// [`WeakCache`]: crate::WeakCache
    pub fn eviction_listener(mut self, listen: impl Fn(&[u8], Meta, Cause) + Send + Sync + 'static) -> Self {
        self.listener = Some(Listener::new(listen));
        self
    }

    /// Clients that the cache has of the pool at most. So many threads use it at once; more threads
    /// wait. By default one for each processor, 16 at most. A client joins when a thread needs it,
    /// and takes a place of the pool (`clients_max`). Where no place is left, threads share the
    /// clients that there are.
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients.max(1);
        self
    }

    /// Whether a thread tends the pool every tenth of a second: renews leases, reclaims what dead
    /// clients held, removes what has expired. By default yes. Without the thread, operations do the
    /// same, so that an idle program does not.
    pub fn tend(mut self, tends: bool) -> Self {
        self.tends = tends;
        self
    }

    /// Makes a cache over a pool.
    ///
    /// # Errors
    /// If the pool has no place for one client.
    pub fn build<F: PoolFabric>(self, pool: &Pool<F>) -> Result<Cache<F>, BuildError> {
        let lifetime = match (self.live, self.idle) {
            (Some(_), Some(_)) => return Err(BuildError::BothTimes),
            (Some(time), None) => Lifetime::Live(time),
            (None, Some(time)) => Lifetime::Idle(time),
            (None, None) => Lifetime::Unlimited,
        };
        let attends_hits = self.listener.is_some() || self.idle.is_some();
        let clients = Arc::new(Clients::new(pool, self.clients, self.listener)?);
        if self.tends {
            clients.clone().tend_regularly().map_err(BuildError::Thread)?;
        }
        Ok(Cache(Arc::new(Shared {
            clients,
            lifetime,
            attends_hits,
            loads: Default::default(),
            loaded: Default::default(),
            load_failures: Default::default(),
        })))
    }
}
