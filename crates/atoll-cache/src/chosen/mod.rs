//! Whichever engine a pool was made for, behind one type: for programs whose users choose the
//! engine.
//!
//! The pool's header names the engine, so that a process opens a pool by its name alone. A client
//! matches on its engine once for each operation, and is from there on that engine's own code. A
//! program for one engine only uses that engine's type.
//!
//! | module | concept |
//! |---|---|
//! | `options` | which engines there are, and what a new pool is told of its own |
//!
//! To add an engine: its variants here and in `options`, which the compiler asks for one after the
//! other.

mod options;

pub use options::{EngineId, EngineOptions, check};

use crate::audit::Audit;
use crate::ditto::{Ditto, DittoSettings};
use crate::experts::ExpertSet;
use crate::forge::{Forge, ForgePool};
use crate::kvs::Kvs;
use crate::pooled::Pooled;
use crate::queues::{QueueSettings, Queued};
use crate::table::TablePool;
use crate::{CacheError, Change, Engine, Lookup, Meta, Stats, Value};
use atoll_fabric::Endpoint;
use atoll_pool::{Client, Pool, PoolError, PoolSettings, Repaired};
use std::sync::Arc;

/// A pool as one process has it open. Cheap to clone.
#[derive(Clone)]
pub enum ChosenPool {
    /// A pool of `forge`.
    Forge(Arc<ForgePool>),
    /// A pool of `ditto`.
    Ditto(Arc<TablePool>),
    /// A pool of `kvs`.
    Kvs(Arc<TablePool>),
    /// A pool with queues.
    Queues(Arc<TablePool>),
}

impl ChosenPool {
    /// Formats all-zero regions, which the endpoint reaches, with settings made by
    /// [`EngineOptions::for_growth`]. A hash seed of 0 stands for a random one.
    pub async fn format<E: Endpoint>(endpoint: &E, settings: PoolSettings) -> Result<Self, PoolError> {
        Ok(match EngineId::of(&settings)? {
            EngineId::Forge => Self::Forge(ForgePool::format(endpoint, settings).await?),
            EngineId::Ditto => Self::Ditto(TablePool::format(endpoint, settings).await?),
            EngineId::Kvs => Self::Kvs(TablePool::format(endpoint, settings).await?),
            EngineId::Queues(_) => Self::Queues(TablePool::format(endpoint, settings).await?),
        })
    }

    /// Opens a pool that somebody formatted, for the engine that its header names. `home_bytes` is
    /// the size of node 0's region.
    pub async fn open<E: Endpoint>(endpoint: &E, home_bytes: u64) -> Result<Self, PoolError> {
        let pool = Pool::open(endpoint, home_bytes).await?;
        Ok(match EngineId::of(&pool.settings)? {
            EngineId::Forge => Self::Forge(ForgePool::new(pool)?),
            EngineId::Ditto => {
                let shared = TablePool::new(pool)?;
                DittoSettings::decode(shared.settings())?;
                Self::Ditto(shared)
            }
            EngineId::Kvs => Self::Kvs(TablePool::new(pool)?),
            EngineId::Queues(_) => Self::Queues(TablePool::new(pool)?),
        })
    }

    /// Joins as a new client.
    pub async fn join<E: Endpoint>(&self, endpoint: E) -> Result<Chosen<E>, PoolError> {
        Ok(match self {
            Self::Forge(shared) => Chosen::Forge(Forge::join(shared, endpoint).await?),
            Self::Ditto(shared) => Chosen::Ditto(Box::new(Ditto::join(shared, endpoint).await?)),
            Self::Kvs(shared) => Chosen::Kvs(Box::new(Kvs::join(shared, endpoint).await?)),
            Self::Queues(shared) => Chosen::Queues(Box::new(Queued::join(shared, endpoint).await?)),
        })
    }

    /// One that only looks, without a place in the pool: for [`Chosen::verify`].
    pub fn auditor<E: Endpoint>(&self, endpoint: E) -> Result<Chosen<E>, PoolError> {
        Ok(match self {
            Self::Forge(shared) => Chosen::Forge(Forge::auditor(shared, endpoint)),
            Self::Ditto(shared) => Chosen::Ditto(Box::new(Ditto::auditor(shared, endpoint)?)),
            Self::Kvs(shared) => Chosen::Kvs(Box::new(Kvs::auditor(shared, endpoint)?)),
            Self::Queues(shared) => Chosen::Queues(Box::new(Queued::auditor(shared, endpoint)?)),
        })
    }

    /// The pool behind it.
    pub fn pool(&self) -> &Pool {
        match self {
            Self::Forge(shared) => shared.pool(),
            Self::Ditto(shared) | Self::Kvs(shared) | Self::Queues(shared) => shared.pool(),
        }
    }

    /// The engine that the pool was made for.
    pub fn engine(&self) -> EngineId {
        match self {
            Self::Forge(_) => EngineId::Forge,
            Self::Ditto(_) => EngineId::Ditto,
            Self::Kvs(_) => EngineId::Kvs,
            Self::Queues(shared) => {
                let settings = QueueSettings::decode(shared.settings());
                EngineId::Queues(settings.map(|settings| settings.options()).unwrap_or_default())
            }
        }
    }

    /// The policies that say what goes, if it is an engine with experts.
    pub fn experts(&self) -> Option<ExpertSet> {
        match self {
            Self::Ditto(shared) => DittoSettings::decode(shared.settings()).ok().map(|settings| settings.experts),
            Self::Forge(_) | Self::Kvs(_) | Self::Queues(_) => None,
        }
    }

    /// What the pool was made with, for people: name and value, the engine and its experts first.
    pub fn describe_settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("engine", self.engine().to_string())];
        settings.extend(self.experts().map(|experts| ("experts", experts.to_string())));
        settings.extend(match self {
            Self::Forge(shared) => shared.describe_settings(),
            Self::Ditto(shared) | Self::Kvs(shared) | Self::Queues(shared) => shared.describe_settings(),
        });
        settings
    }
}

/// A client of a pool, whichever engine that was made for.
#[expect(clippy::large_enum_variant, reason = "clients are few and are not moved about")]
pub enum Chosen<E: Endpoint> {
    /// Of a pool of `forge`. In place, so that nothing stands between the default engine and its
    /// caller.
    Forge(Forge<E>),
    /// Of a pool of `ditto`.
    Ditto(Box<Ditto<E>>),
    /// Of a pool of `kvs`.
    Kvs(Box<Kvs<E>>),
    /// Of a pool with queues.
    Queues(Box<Queued<E>>),
}

/// The same on every engine.
macro_rules! on_engine {
    ($chosen:expr, $engine:ident => $done:expr) => {
        match $chosen {
            Chosen::Forge($engine) => $done,
            Chosen::Ditto($engine) => $done,
            Chosen::Kvs($engine) => $done,
            Chosen::Queues($engine) => $done,
        }
    };
}

impl<E: Endpoint> Chosen<E> {
    /// The client of the pool that this is.
    pub fn client(&self) -> &Client<E> {
        on_engine!(self, engine => engine.client())
    }

    /// Puts everything that this client holds back into the pool and gives up its place.
    pub async fn leave(&self) -> Result<(), CacheError> {
        on_engine!(self, engine => engine.leave().await)
    }

    /// Makes the pool smaller by at most so many chunks: see [`Pooled::retire_chunks`].
    pub async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.retire_chunks(most).await)
    }

    /// Goes on giving back the memory of retired chunks: see [`Pooled::discard_retired`].
    pub async fn discard_retired(&self) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.discard_retired().await)
    }

    /// Gives a retired chunk back: see [`Pooled::restore_chunk`].
    pub async fn restore_chunk(&self) -> Result<bool, CacheError> {
        on_engine!(self, engine => engine.restore_chunk().await)
    }

    /// Looks after everybody now, and reclaims what the dead ones held.
    pub async fn repair(&self) -> Result<Repaired, CacheError> {
        match self {
            Self::Forge(engine) => Pooled::repair(engine).await,
            Self::Ditto(engine) => Pooled::repair(&**engine).await,
            Self::Kvs(engine) => Pooled::repair(&**engine).await,
            Self::Queues(engine) => Pooled::repair(&**engine).await,
        }
    }

    /// Walks the pool. Nobody else may use it meanwhile, or what is under way is reported as
    /// faults.
    pub async fn verify(&self) -> Result<Audit, CacheError> {
        match self {
            Self::Forge(engine) => Pooled::verify(engine).await,
            Self::Ditto(engine) => Pooled::verify(&**engine).await,
            Self::Kvs(engine) => Pooled::verify(&**engine).await,
            Self::Queues(engine) => Pooled::verify(&**engine).await,
        }
    }
}

impl<E: Endpoint> Engine for Chosen<E> {
    #[inline]
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        on_engine!(self, engine => engine.get(key, into).await)
    }

    async fn get_many<F: FnMut(usize, Lookup, &Value)>(&self, keys: &[&[u8]], found: F) -> Result<(), CacheError> {
        on_engine!(self, engine => engine.get_many(keys, found).await)
    }

    async fn expect(&self, keys: &[&[u8]]) {
        on_engine!(self, engine => engine.expect(keys).await)
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        on_engine!(self, engine => engine.peek(key).await)
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        on_engine!(self, engine => engine.update(key, change).await)
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.scan(cursor, count, each).await)
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        on_engine!(self, engine => engine.random_key().await)
    }

    async fn flush(&self) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.flush().await)
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.objects().await)
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.now_ms().await)
    }

    async fn tend(&self) -> Result<(), CacheError> {
        on_engine!(self, engine => engine.tend().await)
    }

    fn value_bytes_max(&self) -> usize {
        on_engine!(self, engine => engine.value_bytes_max())
    }

    fn stats(&self) -> Stats {
        on_engine!(self, engine => engine.stats())
    }
}
