//! The pool of a point: how large its chunks and its index are for a cache of this many bytes.

use atoll_baselines::cliquemap::{CliqueMapOptions, record};
use atoll_baselines::glcache::GlCacheOptions;
use atoll_cache::engines::EngineChoices;
use atoll_cache::forge::{ENGINE_FORGE, ForgeOptions};
use atoll_cache::record::{brief_record_bytes, small_record_bytes};
use atoll_cache::table::TableOptions;
use atoll_cache::table::class::Class;
use atoll_cache::table::layout::ACCESS_BYTES;
use atoll_lab::load::KEY_BYTES;
use atoll_pool::PoolSettings;

/// Compute nodes of FORGE's testbed.
pub const COMPUTE_NODES: u16 = 3;
/// Objects of a group (FORGE 6.1).
pub const GROUP_OBJECTS: u32 = 64;
/// Key and value of an object in FORGE's figures. Both prototypes keep an object with its header in
/// one block of 256 bytes, and so do these: 64 records with their map fit into a chunk of 16 KiB,
/// and a record of the other engines into a block of 256 bytes.
pub const BLOCK_OBJECT_BYTES: u32 = 224;
/// Bytes of an object's entry in the map of its group.
const MAP_ENTRY_BYTES: u64 = 8;

const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 512..=64 << 10;
/// With fewer chunks for each thread, chunks become smaller. A thread holds two open groups and
/// some chunks in stock.
const CHUNKS_PER_THREAD: u64 = 16;
/// Chunks of this many objects do not become smaller. An object longer than half a chunk would be
/// cut in pieces.
const CHUNK_OBJECTS_MIN: u32 = 8;
/// Bytes of a small object besides key and value: in its record, the map and the index.
const OVERHEAD_BYTES: u32 = 48;

/// Slots by which the replacement's bytes for a slot are found.
const AREA_SLOTS: u64 = 1 << 20;

/// Bytes of pool that an object of this many bytes occupies on the table of objects. They are its
/// block, and its slots with their access information and the replacement's bytes.
pub fn objects_footprint(options: &TableOptions, object_bytes: u32) -> u64 {
    let record = small_record_bytes(KEY_BYTES as usize, object_bytes.saturating_sub(KEY_BYTES) as usize);
    let block = Class::of(record + 8 * options.extension_words).map_or(u64::from(object_bytes), Class::bytes);
    block + options.slots_per_object * (8 + ACCESS_BYTES + (options.area_bytes)(AREA_SLOTS) / AREA_SLOTS)
}

/// Bytes of pool that an object of this many bytes occupies on CliqueMap: its record, and its
/// entries.
pub fn cliquemap_footprint(object_bytes: u32) -> u64 {
    let record = record::record_bytes(KEY_BYTES as usize, object_bytes.saturating_sub(KEY_BYTES) as usize);
    CliqueMapOptions::default().footprint_bytes(record)
}

/// Settings of a pool of `cache_bytes`, metadata included, on the table of objects: the index is
/// made for as many objects as there is room for.
pub(super) fn objects_pool(options: TableOptions, cache_bytes: u64, object_bytes: u32, threads: u16) -> PoolSettings {
    let expected = cache_bytes / objects_footprint(&options, object_bytes);
    let settings = PoolSettings {
        chunk_bytes: fair_chunk_bytes(cache_bytes, object_bytes, threads, GROUP_OBJECTS),
        group_objects_max: 1,
        clients_max: clients_max(threads),
        ..PoolSettings::for_capacity(cache_bytes)
    };
    let slots = options.slots_per_object * expected;
    options.settings(settings, slots)
}

/// Places of clients for this many threads, for those that make and open the pool, and for an
/// evictor on each compute node.
pub(super) fn clients_max(threads: u16) -> u32 {
    u32::from(threads) + 2 * u32::from(COMPUTE_NODES) + 1
}

/// The largest power of two that a group of this many objects fills, in bytes.
fn chunk_bytes(object_bytes: u32, group_objects: u32) -> u64 {
    let group_bytes = u64::from(group_objects) * (u64::from(object_bytes) + u64::from(OVERHEAD_BYTES));
    1 << group_bytes.clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end()).ilog2()
}

/// The size of chunks for groups of at most so many objects. Every thread has its share of chunks.
fn fair_chunk_bytes(cache_bytes: u64, object_bytes: u32, threads: u16, group_objects: u32) -> u32 {
    let wanted = chunk_bytes(object_bytes, group_objects);
    let least = chunk_bytes(object_bytes, CHUNK_OBJECTS_MIN).min(wanted);
    let fair = (cache_bytes / (CHUNKS_PER_THREAD * u64::from(threads))).max(1);
    (1 << fair.ilog2()).clamp(least, wanted) as u32
}

/// The smallest cache for this many threads. In a smaller one their open groups hold most of it.
pub fn cache_bytes_min(object_bytes: u32, threads: u16) -> u64 {
    CHUNKS_PER_THREAD * u64::from(threads) * chunk_bytes(object_bytes, CHUNK_OBJECTS_MIN)
}

/// The smallest cache for this many threads whose groups have [`GROUP_OBJECTS`] of these objects.
pub fn grouped_cache_bytes_min(object_bytes: u32, threads: u16) -> u64 {
    CHUNKS_PER_THREAD * u64::from(threads) * chunk_bytes(object_bytes, GROUP_OBJECTS)
}

/// Objects of this many bytes in the mean that a full group has; `None` if the engine of the pool
/// has no groups.
pub fn objects_a_group(pool: &PoolSettings, object_bytes: u32) -> Option<u64> {
    let has_groups = [ENGINE_FORGE, GlCacheOptions::ENGINE.number].contains(&pool.engine);
    let record = brief_record_bytes(KEY_BYTES as usize, object_bytes.saturating_sub(KEY_BYTES) as usize);
    let fit = u64::from(pool.chunk_bytes) / (record + MAP_ENTRY_BYTES);
    has_groups.then_some(fit.min(pool.group_objects_max.into()))
}

/// Settings of a pool of `cache_bytes`, metadata included, for groups of at most this many objects.
pub fn pool(cache_bytes: u64, object_bytes: u32, threads: u16, group_objects: u32) -> PoolSettings {
    pool_of(ForgeOptions::default(), cache_bytes, object_bytes, threads, group_objects)
}

/// The same, with other choices than the default ones.
pub fn pool_of(
    choices: ForgeOptions,
    cache_bytes: u64,
    object_bytes: u32,
    threads: u16,
    group_objects: u32,
) -> PoolSettings {
    let (settings, options, slots) = groups_of(choices, cache_bytes, object_bytes, threads, group_objects);
    options.settings(settings, slots)
}

/// Settings of a pool of groups without its engine's; the engine's choices, for objects of that
/// size; and the slots of its index.
pub fn groups_of(
    choices: ForgeOptions,
    cache_bytes: u64,
    object_bytes: u32,
    threads: u16,
    group_objects: u32,
) -> (PoolSettings, ForgeOptions, u64) {
    let chunk_bytes = fair_chunk_bytes(cache_bytes, object_bytes, threads, group_objects);
    let options = ForgeOptions { object_bytes_mean: object_bytes + OVERHEAD_BYTES, ..choices };
    let slots = 2 * cache_bytes / u64::from(options.object_bytes_mean);
    let settings = PoolSettings {
        chunk_bytes,
        // No chunk has more records than units of sixteen bytes.
        group_objects_max: group_objects.min(chunk_bytes / 16),
        clients_max: clients_max(threads),
        ..PoolSettings::for_capacity(cache_bytes)
    };
    (settings, options, slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_papers_objects_where_the_cache_is_large_enough_and_chunks_of_their_own_size() {
        for threads in [16, 128, 256, 300] {
            let bytes = grouped_cache_bytes_min(BLOCK_OBJECT_BYTES, threads);
            let pool = pool(bytes, BLOCK_OBJECT_BYTES, threads, GROUP_OBJECTS);
            assert_eq!(objects_a_group(&pool, BLOCK_OBJECT_BYTES), Some(GROUP_OBJECTS.into()), "{threads}");
            let small = super::pool(bytes / 4, BLOCK_OBJECT_BYTES, threads, GROUP_OBJECTS);
            assert!(objects_a_group(&small, BLOCK_OBJECT_BYTES).unwrap() < 32, "{threads}");
        }
        // The sizes of FORGE's Fig. 17.
        let bytes = grouped_cache_bytes_min(BLOCK_OBJECT_BYTES, 2 * 128);
        let mut chunks = Vec::new();
        for objects in [16, 32, 64, 128] {
            let pool = pool(bytes, BLOCK_OBJECT_BYTES, 128, objects);
            assert_eq!(objects_a_group(&pool, BLOCK_OBJECT_BYTES), Some(objects.into()));
            chunks.push(pool.chunk_bytes);
        }
        assert!(chunks.is_sorted_by(|less, more| less < more), "{chunks:?}");
    }
}
