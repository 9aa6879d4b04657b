//! The size of a pool that is to hold so many objects.

use super::class::Class;
use super::layout::engine_area;
use super::settings::{CHUNK_BYTES_MIN, TableOptions};
use crate::pooled::with_chunks;
use atoll_pool::PoolSettings;

impl TableOptions {
    /// Settings for a pool of at most so many objects with records of up to `record_bytes`, for
    /// experiments that count objects.
    pub fn for_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        let block = Class::of(u64::from(record_bytes) + 8 * self.extension_words).map_or(32 << 10, Class::bytes);
        let chunk_bytes = (16 * block).next_power_of_two().clamp(CHUNK_BYTES_MIN.into(), 64 << 10) as u32;
        // Blocks for the objects, for clients and for half-used chunks, and as much again, so that
        // blocks are no limit.
        let blocks = 2 * objects_max + 64 * u64::from(clients_max) + 256;
        let chunks = blocks / (u64::from(chunk_bytes) / block) + 4 * u64::from(clients_max) + 16;
        let settings = PoolSettings {
            chunk_bytes,
            clients_max,
            objects_max,
            group_objects_max: 1,
            ..PoolSettings::for_capacity((chunks + 1) * u64::from(chunk_bytes))
        };
        let settings = self.settings(settings, self.slots_per_object * objects_max + 64);
        let area = engine_area(&settings);
        with_chunks(settings, chunks, area)
    }
}
