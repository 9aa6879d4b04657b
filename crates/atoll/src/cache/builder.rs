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
    near_bytes: Option<u64>,
}

impl Default for Builder {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let clients = processors.min(CLIENTS_MAX);
        Self { live: None, idle: None, listener: None, clients, tends: true, near_bytes: None }
    }
}

impl Builder {
    /// Objects expire this long after they were set, unless the set gives another time. Excludes a
    /// time to idle: see [`BuildError::BothTimes`].
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.live = Some(time);
        self
    }

    /// Objects expire this long after this cache, or a clone of it, last set or found them. A
    /// lookup renews the expiry once an eighth of the time has passed; a renewal costs a write.
    /// Excludes a time to live: see [`BuildError::BothTimes`].
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

    /// `listen(key, meta, cause)` is called once for each object that this cache and its clones
    /// have removed from the pool. Any process may have set the object. The causes: evicted to make
    /// room, found expired, replaced, or removed by a call.
    ///
    /// The listener is not called for what other processes remove, for an expired object that a set
    /// overwrites, or for an object whose bytes are damaged. It gets no value, because the removal
    /// reads none.
    ///
    /// The listener runs at the end of an operation, on the thread whose operation removed the
    /// object. It also runs on the thread that tends the pool. It may use the cache, but must not
    /// load a key (`get_with`): its own thread may be the loader.
    ///
    /// A cache holds its listener, so a listener must hold the cache as a [`WeakCache`]. A listener
    /// that panics is not called again. With a listener, each eviction of an object costs one more
    /// read; without one nothing costs more.
    ///
    /// [`WeakCache`]: crate::WeakCache
    pub fn eviction_listener(mut self, listen: impl Fn(&[u8], Meta, Cause) + Send + Sync + 'static) -> Self {
        self.listener = Some(Listener::new(listen));
        self
    }

    /// The most clients that the cache has of the pool. As many threads use the cache at once;
    /// further threads wait. The default is one for each processor, at most 16. A client joins when
    /// a thread needs it, and occupies a place of the pool (`clients_max`). When no place is free,
    /// threads share the clients that have joined.
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients.max(1);
        self
    }

    /// Whether a thread tends the pool every tenth of a second. It renews leases, reclaims what
    /// dead clients held, and removes expired objects. The default is yes. Without the thread only
    /// operations do this work, so an idle program does none of it.
    pub fn tend(mut self, tends: bool) -> Self {
        self.tends = tends;
        self
    }

    /// Keeps copies of what is looked up often in at most so many bytes of this host's memory: see
    /// [`Pool::near`].
    pub fn near(mut self, bytes: u64) -> Self {
        self.near_bytes = Some(bytes);
        self
    }

    /// Makes a cache over a pool.
    ///
    /// # Errors
    /// If the pool has no place for one client, or lets this process have no near cache that was
    /// asked for.
    pub fn build<F: PoolFabric>(self, pool: &Pool<F>) -> Result<Cache<F>, BuildError> {
        let lifetime = match (self.live, self.idle) {
            (Some(_), Some(_)) => return Err(BuildError::BothTimes),
            (Some(time), None) => Lifetime::Live(time),
            (None, Some(time)) => Lifetime::Idle(time),
            (None, None) => Lifetime::Unlimited,
        };
        if let Some(bytes) = self.near_bytes {
            pool.near(bytes)?;
        }
        let attends_hits = self.listener.is_some() || self.idle.is_some();
        let clients = Arc::new(Clients::new(pool, self.clients, self.listener)?);
        let turns = match self.tends {
            true => Some(clients.clone().tend_regularly().map_err(BuildError::Thread)?),
            false => None,
        };
        Ok(Cache(Arc::new(Shared {
            clients,
            turns,
            lifetime,
            attends_hits,
            loads: Default::default(),
            loaded: Default::default(),
            load_failures: Default::default(),
        })))
    }
}
