//! The size of a pool that is to hold so many objects.

use super::annex::Annex;
use super::layout::engine_area_with;
use super::settings::ForgeOptions;
use crate::pooled::with_chunks;
use atoll_pool::PoolSettings;

impl ForgeOptions {
    /// Settings for a pool of at most so many objects with records of up to `record_bytes`, for
    /// experiments that count objects.
    pub fn for_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.for_objects_with::<()>(objects_max, clients_max, record_bytes)
    }

    /// As [`Self::for_objects`], for a form of the engine with this annex.
    pub fn for_objects_with<A: Annex>(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        let group_objects = (objects_max / 100).clamp(1, 64) as u32;
        let chunk_bytes =
            (group_objects * (record_bytes.next_multiple_of(16) + 8)).next_power_of_two().clamp(256, 64 << 10);
        // Half-dead groups, the chunks that clients hold open, and the metadata.
        let chunks = 4 * objects_max / u64::from(group_objects) + 8 * u64::from(clients_max) + 64;
        let slots = 3 * objects_max + 64;
        let settings = PoolSettings {
            chunk_bytes,
            clients_max,
            objects_max,
            group_objects_max: group_objects,
            ..PoolSettings::for_capacity((chunks + 1) * u64::from(chunk_bytes))
        };
        let settings = A::claim(self.settings(settings, slots));
        let area = engine_area_with::<A>(&settings);
        with_chunks(settings, chunks, area)
    }
}
