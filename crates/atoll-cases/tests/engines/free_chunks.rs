//! Searches for a free chunk, which begin anywhere.

use atoll_cache::Pooled;
use atoll_cache::forge::{Forge, ForgeOptions};
use atoll_fabric::{Address, Batch, Endpoint};
use atoll_pool::chunks::{self, FreeCount, Wanted};
use atoll_pool::{Chunk, ChunkId, ChunkState, Incarnation, Layout, PoolSettings, read_word};
use atoll_sim::{Sim, SimEndpoint, SimOptions, for_each_seed};

const OWNER: Incarnation = Incarnation { slot: 0, epoch: 1 };

/// A pool all of whose chunks are taken.
struct Taken {
    endpoint: SimEndpoint,
    layout: Layout,
    /// With their generations, in the order in which searches found them.
    all: Vec<(ChunkId, u32)>,
}

impl Taken {
    /// Runs a test with a pool of this many bytes.
    fn run(seed: u64, bytes: u64, test: impl AsyncFnOnce(Self) + 'static) {
        let base = PoolSettings { chunk_bytes: 1024, ..PoolSettings::for_capacity(bytes) };
        let settings = ForgeOptions::default().settings(base, 64);
        let sim = Sim::new(SimOptions::new(seed, settings.capacity_bytes));
        let endpoint = sim.endpoint("searcher");
        let ran = sim.block_on(async move {
            let shared = Forge::<SimEndpoint>::format(&endpoint, settings).await.unwrap();
            let layout = shared.pool().layout.clone();
            let mut taken = Self { endpoint, layout, all: Vec::new() };
            while let Some(found) = taken.search(FreeCount::Trusted).await {
                taken.all.push(found);
            }
            assert_eq!(taken.all.len() as u32, taken.layout.chunks());
            test(taken).await;
        });
        ran.unwrap();
    }

    async fn search(&self, count: FreeCount) -> Option<(ChunkId, u32)> {
        chunks::allocate(
            &self.endpoint,
            &self.layout,
            Wanted { owner: OWNER, state: ChunkState::Open, count, kept: 0, absent: 0 },
        )
        .await
        .unwrap()
    }

    async fn give_back(&self, chunk: ChunkId, generation: u32) {
        let open = Chunk::owned(ChunkState::Open, OWNER, generation);
        assert!(chunks::free(&self.endpoint, &self.layout, chunk, open).await.unwrap());
        self.settle().await;
    }

    async fn add(&self, at: Address, addend: u64) {
        let mut batch = Batch::new();
        batch.fetch_and_add(at, addend);
        self.endpoint.post(&mut batch).await.unwrap();
    }

    /// The count of free chunks follows unawaited.
    async fn settle(&self) {
        self.endpoint.flush().await.unwrap();
    }
}

/// The whole pool is taken, then one chunk is given back at a time: each is found, and nothing
/// after it.
#[test]
fn a_search_finds_the_only_free_chunk_wherever_it_begins() {
    for_each_seed(20, |seed| {
        Taken::run(seed, (50 + seed) * 1024, async |taken| {
            for (chunk, generation) in taken.all.clone() {
                taken.give_back(chunk, generation).await;
                let found = taken.search(FreeCount::Trusted).await;
                assert_eq!(found, Some((chunk, generation + 1)), "of {} chunks", taken.layout.chunks());
                taken.settle().await;
                for count in [FreeCount::Trusted, FreeCount::Glance, FreeCount::Distrusted, FreeCount::Ignored] {
                    assert_eq!(taken.search(count).await, None);
                }
            }
        });
    });
}

/// A client has died, and most chunks side by side are out of use: a client that evicted because it
/// looked at those alone would evict what fits.
#[test]
fn a_search_that_distrusts_the_count_finds_chunks_behind_a_row_that_is_out_of_use() {
    for_each_seed(20, |seed| {
        Taken::run(seed, 600 * 1024, async |mut taken| {
            taken.all.sort_unstable_by_key(|(chunk, _)| *chunk);
            for (chunk, generation) in taken.all.split_off(taken.all.len() - 40) {
                taken.give_back(chunk, generation).await;
            }
            for left in (17..=40).rev() {
                assert!(taken.search(FreeCount::Distrusted).await.is_some(), "with {left} chunks free");
                taken.settle().await;
            }
        });
    });
}

/// A count that is too high is one that another client is about to lower. If a search lowered it
/// first, it would stay too low. The exception: a client has died, and no client has counted again
/// what it left.
#[test]
fn a_search_lowers_a_count_only_while_a_death_is_not_counted() {
    for_each_seed(20, |seed| {
        Taken::run(seed, 100 * 1024, async |taken| {
            taken.settle().await;
            let Taken { endpoint, layout, .. } = &taken;
            taken.add(layout.free_chunks(), 1).await;
            for (deaths, left) in [(0, 1), (1, 0)] {
                taken.add(layout.deaths(), deaths).await;
                for count in [FreeCount::Distrusted, FreeCount::Ignored].into_iter().cycle().take(100) {
                    assert_eq!(taken.search(count).await, None);
                }
                assert_eq!(read_word(endpoint, layout.free_chunks()).await.unwrap(), left, "after {deaths} deaths");
            }
        });
    });
}

/// A client that has taken the last free chunk and has not said so yet searches again.
#[test]
fn a_search_does_not_lower_a_count_that_this_client_is_about_to_lower() {
    for_each_seed(20, |seed| {
        Taken::run(seed, 100 * 1024, async |taken| {
            taken.add(taken.layout.deaths(), 1).await;
            for (chunk, generation) in &taken.all[..20] {
                taken.give_back(*chunk, *generation).await;
                assert!(taken.search(FreeCount::Trusted).await.is_some());
                assert_eq!(taken.search(FreeCount::Distrusted).await, None);
                taken.settle().await;
                assert_eq!(read_word(&taken.endpoint, taken.layout.free_chunks()).await.unwrap(), 0);
            }
        });
    });
}
