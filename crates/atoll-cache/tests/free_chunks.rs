//! Searches for a free chunk, which begin anywhere.

use atoll_cache::Pooled;
use atoll_cache::forge::{Forge, ForgeOptions};
use atoll_fabric::Endpoint;
use atoll_pool::chunks::{self, FreeCount};
use atoll_pool::{Chunk, ChunkState, Incarnation, PoolSettings};
use atoll_sim::{Sim, SimEndpoint, SimOptions, for_each_seed};

const OWNER: Incarnation = Incarnation { slot: 0, epoch: 1 };

/// The whole pool is taken, then one chunk is given back at a time: each is found, and nothing after it.
#[test]
fn a_search_finds_the_only_free_chunk_wherever_it_begins() {
    for_each_seed(20, |seed| {
        let base = PoolSettings { chunk_bytes: 1024, ..PoolSettings::for_capacity((50 + seed) * 1024) };
        let settings = ForgeOptions::default().settings(base, 64);
        let sim = Sim::new(SimOptions::new(seed, settings.capacity_bytes));
        let endpoint = sim.endpoint("searcher");
        let searched = sim.block_on(async move {
            let shared = Forge::<SimEndpoint>::format(&endpoint, settings).await.unwrap();
            let layout = &Forge::<SimEndpoint>::pool_of(&shared).layout;
            let search = |count| chunks::allocate(&endpoint, layout, OWNER, ChunkState::Open, count, 0);
            let mut all = Vec::new();
            while let Some(found) = search(FreeCount::Trusted).await.unwrap() {
                all.push(found);
            }
            assert_eq!(all.len() as u32, layout.chunks());
            for (chunk, generation) in all {
                let open = Chunk::owned(ChunkState::Open, OWNER, generation);
                assert!(chunks::free(&endpoint, layout, chunk, open).await.unwrap());
                // The count of free chunks follows unawaited.
                endpoint.flush().await.unwrap();
                let found = search(FreeCount::Trusted).await.unwrap();
                assert_eq!(found, Some((chunk, generation + 1)), "of {} chunks", layout.chunks());
                endpoint.flush().await.unwrap();
                for count in [FreeCount::Trusted, FreeCount::Glance, FreeCount::Distrusted, FreeCount::Ignored] {
                    assert_eq!(search(count).await.unwrap(), None);
                }
            }
        });
        searched.unwrap();
    });
}

/// A client has died, and most chunks side by side are out of use: a client that evicted because it
/// looked at those alone would evict what fits.
#[test]
fn a_search_that_distrusts_the_count_finds_chunks_behind_a_row_that_is_out_of_use() {
    for_each_seed(20, |seed| {
        let base = PoolSettings { chunk_bytes: 1024, ..PoolSettings::for_capacity(600 * 1024) };
        let settings = ForgeOptions::default().settings(base, 64);
        let sim = Sim::new(SimOptions::new(seed, settings.capacity_bytes));
        let endpoint = sim.endpoint("searcher");
        let searched = sim.block_on(async move {
            let shared = Forge::<SimEndpoint>::format(&endpoint, settings).await.unwrap();
            let layout = &Forge::<SimEndpoint>::pool_of(&shared).layout;
            let search = |count| chunks::allocate(&endpoint, layout, OWNER, ChunkState::Open, count, 0);
            let mut all = Vec::new();
            while let Some(found) = search(FreeCount::Trusted).await.unwrap() {
                all.push(found);
            }
            all.sort_unstable_by_key(|(chunk, _)| *chunk);
            for (chunk, generation) in all.split_off(all.len() - 40) {
                let open = Chunk::owned(ChunkState::Open, OWNER, generation);
                assert!(chunks::free(&endpoint, layout, chunk, open).await.unwrap());
            }
            endpoint.flush().await.unwrap();
            for left in (17..=40).rev() {
                assert!(search(FreeCount::Distrusted).await.unwrap().is_some(), "with {left} chunks free");
                endpoint.flush().await.unwrap();
            }
        });
        searched.unwrap();
    });
}
