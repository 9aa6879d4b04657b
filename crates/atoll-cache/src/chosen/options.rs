//! Which engines there are, and what a new pool is told of its own.

use crate::ditto::{DittoOptions, ENGINE_DITTO};
use crate::experts::ExpertSet;
use crate::forge::ForgeOptions;
use crate::forge::settings::ENGINE_FORGE;
use crate::kvs::{self, ENGINE_KVS};
use crate::queues::{ENGINE_QUEUES, QueueOptions, QueueSettings};
use crate::record::HEADER_BYTES;
use crate::table::{TablePool, TableSettings};
use atoll_pool::{PoolError, PoolSettings};
use std::fmt;

/// An engine whose caches live in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineId {
    /// [`forge`](crate::forge).
    Forge,
    /// [`ditto`](crate::ditto).
    Ditto,
    /// [`kvs`](crate::kvs).
    Kvs,
    /// [`queues`](crate::queues), and which they are.
    Queues(QueueOptions),
}

impl EngineId {
    /// Those without choices that make another engine of them.
    const PLAIN: [Self; 3] = [Self::Forge, Self::Ditto, Self::Kvs];

    /// Its number in the pool header.
    pub fn number(self) -> u64 {
        match self {
            Self::Forge => ENGINE_FORGE,
            Self::Ditto => ENGINE_DITTO,
            Self::Kvs => ENGINE_KVS,
            Self::Queues(_) => ENGINE_QUEUES,
        }
    }

    /// The engine that a pool's settings name.
    pub fn of(settings: &PoolSettings) -> Result<Self, PoolError> {
        let found = settings.engine;
        if found == ENGINE_QUEUES {
            return Ok(Self::Queues(QueueSettings::decode(&TableSettings::decode(settings)?)?.options()));
        }
        Self::PLAIN.into_iter().find(|id| id.number() == found).ok_or(PoolError::UnknownEngine { found })
    }
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Queues(options) => return options.fmt(f),
            Self::Forge => "forge",
            Self::Ditto => "ditto",
            Self::Kvs => "kvs",
        })
    }
}

/// The engine of a new pool, with its own choices.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineOptions {
    /// [`forge`](crate::forge).
    Forge(ForgeOptions),
    /// [`ditto`](crate::ditto).
    Ditto(DittoOptions),
    /// [`kvs`](crate::kvs), which has nothing to choose.
    Kvs,
    /// [`queues`](crate::queues).
    Queues(QueueOptions),
}

impl Default for EngineOptions {
    /// `forge` as it is shipped.
    fn default() -> Self {
        Self::Forge(ForgeOptions::default())
    }
}

impl EngineOptions {
    /// `ditto` with these experts, which learn as those that are shipped do.
    pub fn ditto(experts: ExpertSet) -> Self {
        Self::Ditto(DittoOptions::adaptive(experts))
    }

    /// Which engine.
    pub fn id(&self) -> EngineId {
        match self {
            Self::Forge(_) => EngineId::Forge,
            Self::Ditto(_) => EngineId::Ditto,
            Self::Kvs => EngineId::Kvs,
            Self::Queues(options) => EngineId::Queues(*options),
        }
    }

    /// Settings for a pool of so many bytes, to which so many may be added. `body_bytes_mean` is
    /// what an object is expected to have with its key, by which the index is sized; `None` leaves
    /// what the engine expects.
    pub fn for_growth(&self, body_bytes_mean: Option<u32>, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings {
        let mean = |expected: u32| body_bytes_mean.map_or(expected, |bytes| bytes.saturating_add(HEADER_BYTES as u32));
        match self {
            Self::Forge(options) => {
                let object_bytes_mean = mean(options.object_bytes_mean);
                ForgeOptions { object_bytes_mean, ..options.clone() }.for_growth(capacity_bytes, growth_bytes_max)
            }
            Self::Ditto(_) | Self::Kvs | Self::Queues(_) => {
                let mut options = match self {
                    Self::Ditto(options) => options.objects(),
                    Self::Queues(options) => options.objects(),
                    _ => kvs::options(),
                };
                options.object_bytes_mean = mean(options.object_bytes_mean);
                options.for_growth(capacity_bytes, growth_bytes_max)
            }
        }
    }
}

impl fmt::Display for EngineOptions {
    /// The engine, and its experts behind a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ditto(options) => write!(f, "{}:{}", self.id(), options.experts),
            Self::Forge(_) | Self::Kvs | Self::Queues(_) => self.id().fmt(f),
        }
    }
}

/// Checks a new pool's settings against its engine's own limits, before there is any memory.
pub fn check(settings: &PoolSettings) -> Result<(), PoolError> {
    match EngineId::of(settings)? {
        EngineId::Forge => Ok(()),
        EngineId::Ditto | EngineId::Kvs | EngineId::Queues(_) => TablePool::check(settings),
    }
}
