//! A pool of the table, as one process has it open.

use super::layout::{self, TableLayout};
use super::settings::TableSettings;
use super::slot;
use crate::extent::pins::Pins;
use crate::extent::value_bytes_max;
use crate::pooled::{EnginePool, check_heap, describe_pool};
use crate::record::Hasher;
use atoll_fabric::Address;
use atoll_pool::{EngineArea, Layout, Pool, PoolError, PoolSettings};
use std::sync::Arc;

/// A pool as one process has it open.
pub struct TablePool {
    pub(crate) pool: Arc<Pool>,
    pub(crate) settings: TableSettings,
    pub(crate) layout: TableLayout,
    pub(super) hasher: Hasher,
    pub(super) pins: Arc<Pins>,
}

impl TablePool {
    /// The pool's settings and layout.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The engine's settings.
    pub fn settings(&self) -> &TableSettings {
        &self.settings
    }

    /// The engine's layout.
    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// The longest value that fits: a quarter of the heap. So a new value fits beside the old one
    /// and the blocks that clients hold.
    pub fn value_bytes_max(&self) -> usize {
        value_bytes_max(&self.pool.layout, 4)
    }

    /// Objects that the index is made for: half of its slots.
    pub fn objects_expected(&self) -> u64 {
        let limit = self.pool.settings.objects_max;
        if limit > 0 { limit } else { u64::from(self.settings.buckets) * layout::BUCKET_SLOTS as u64 / 2 }
    }
}

impl EnginePool for TablePool {
    fn engine_area(settings: &PoolSettings) -> EngineArea {
        layout::engine_area(settings)
    }

    fn check(settings: &PoolSettings) -> Result<(), PoolError> {
        TableSettings::decode(settings)?;
        check_heap(&Layout::plan(settings, layout::engine_area(settings))?, slot::HEAP_BYTES_MAX)
    }

    fn opened(pool: Pool) -> Result<Arc<Self>, PoolError> {
        let settings = TableSettings::decode(&pool.settings)?;
        let layout = TableLayout::new(&pool, &settings)?;
        check_heap(&pool.layout, slot::HEAP_BYTES_MAX)?;
        let hasher = Hasher::new(pool.settings.hash_seed);
        Ok(Arc::new(Self { pool: Arc::new(pool), settings, layout, hasher, pins: Arc::default() }))
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn describe_own(&self, at: Address) -> Option<String> {
        self.layout.describe(at)
    }

    fn describe_settings(&self) -> Vec<(&'static str, String)> {
        let objects = &self.settings;
        let mut described = describe_pool(&self.pool);
        described.extend([
            ("index_slots", (u64::from(objects.buckets) * layout::BUCKET_SLOTS as u64).to_string()),
            ("extension_bytes", objects.extension_bytes.to_string()),
        ]);
        described
    }
}
