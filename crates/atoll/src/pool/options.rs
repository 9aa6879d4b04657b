//! The settings of a new pool.

use atoll_cache::engines::{self, EngineOptions};
use atoll_pool::settings::{CAPACITY_BYTES_MAX, NODES_MAX, NODES_MAX_DEFAULT};
use atoll_pool::{PoolError, PoolSettings};

/// The settings of a new pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    capacity_bytes: u64,
    capacity_bytes_max: Option<u64>,
    nodes: u32,
    nodes_max: Option<u32>,
    clients_max: Option<u32>,
    object_bytes_mean: Option<u32>,
    engine: EngineOptions,
}

impl Default for PoolOptions {
    /// 1 GiB on one memory node, the default engine.
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            capacity_bytes_max: None,
            nodes: 1,
            nodes_max: None,
            clients_max: None,
            object_bytes_mean: None,
            engine: EngineOptions::default(),
        }
    }
}

impl PoolOptions {
    /// Bytes of the whole pool, including metadata: the hard limit until the pool
    /// [grows](crate::Pool::grow).
    pub fn capacity_bytes(self, capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..self }
    }

    /// The most bytes to which the pool may ever grow. The index and all tables are made for this
    /// size. The default is the initial capacity, so that a pool that never grows pays nothing.
    pub fn capacity_bytes_max(self, capacity_bytes_max: u64) -> Self {
        Self { capacity_bytes_max: Some(capacity_bytes_max), ..self }
    }

    /// Memory nodes that the capacity is spread over. Each is a separate region. The default is 1.
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// The most memory nodes, including nodes added later: up to 64. The default is 16 in a pool
    /// that may grow.
    pub fn nodes_max(self, nodes_max: u32) -> Self {
        Self { nodes_max: Some(nodes_max), ..self }
    }

    /// The most clients (threads) at a time. The default is 64, and less in pools below 2 MiB.
    pub fn clients_max(self, clients_max: u32) -> Self {
        Self { clients_max: Some(clients_max), ..self }
    }

    /// Expected bytes of an object with its key, which determine the size of the index. The default
    /// is 296. Much smaller objects fill the index before the memory.
    pub fn object_bytes_mean(self, bytes: u32) -> Self {
        Self { object_bytes_mean: Some(bytes), ..self }
    }

    /// The engine and its options; by default `forge`. The pool stores the choice, so that a
    /// process that opens the pool need not know it.
    ///
    /// ```
    /// use atoll::{EngineOptions, Pool, PoolOptions};
    ///
    /// let engine = EngineOptions::ditto("lru+lfu".parse()?);
    /// let options = PoolOptions::default().capacity_bytes(16 << 20).engine(engine);
    /// let pool = Pool::anonymous(&options)?;
    /// assert_eq!(pool.engine().to_string(), "ditto");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn engine(self, engine: EngineOptions) -> Self {
        Self { engine, ..self }
    }

    /// The header's settings, checked.
    pub(super) fn settings(&self) -> Result<PoolSettings, PoolError> {
        // The check reports impossible settings before anything is computed from them.
        let capacity_bytes_max = self.capacity_bytes_max.unwrap_or(self.capacity_bytes);
        let Some(growth_bytes_max) = capacity_bytes_max.checked_sub(self.capacity_bytes) else {
            let wanted = format!("at least the capacity, {}", self.capacity_bytes);
            return Err(PoolError::Setting { what: "the most bytes", found: capacity_bytes_max, wanted });
        };
        let bytes_max = u64::from(NODES_MAX) * CAPACITY_BYTES_MAX;
        if capacity_bytes_max > bytes_max {
            let wanted = format!("at most {bytes_max}");
            return Err(PoolError::Setting { what: "the most bytes", found: capacity_bytes_max, wanted });
        }
        let mut settings = self.engine.for_growth(self.object_bytes_mean, self.capacity_bytes, growth_bytes_max);
        settings.clients_max = self.clients_max.unwrap_or(settings.clients_max);
        if self.nodes > 0 {
            settings = settings.spread(self.nodes);
        }
        let nodes_max =
            if growth_bytes_max > 0 { NODES_MAX_DEFAULT.max(self.nodes.saturating_add(1)) } else { self.nodes };
        (settings.nodes, settings.nodes_max) = (self.nodes, self.nodes_max.unwrap_or(nodes_max));
        settings.check()?;
        engines::check(&settings)?;
        Ok(settings)
    }
}
