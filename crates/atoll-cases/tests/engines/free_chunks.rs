//! Searches for a free chunk, which begin anywhere.

use atoll_cache::Pooled;
use atoll_cache::forge::{Forge, ForgeOptions};
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Endpoint};
use atoll_pool::chunks::{self, FreeCount, Wanted};
use atoll_pool::{Chunk, ChunkId, ChunkState, Incarnation, Layout, PoolSettings, read_word};
use atoll_sim::{After, Fault, Sim, SimEndpoint, SimOptions, for_each_seed};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const OWNER: Incarnation = Incarnation { slot: 0, epoch: 1 };
/// Clients that allocate at the same time, when one of them dies.
const OWNERS: [Incarnation; 3] = [Incarnation { slot: 1, epoch: 1 }, Incarnation { slot: 2, epoch: 1 }, OWNER];
/// Steps in which one of them allocates all that it wants, at most.
const STEPS: u64 = 300;

fn wanted(most: usize, owner: Incarnation, count: FreeCount, kept: u64) -> Wanted {
    Wanted { most, owner, state: ChunkState::Open, count, kept, absent: 0 }
}

/// What a client has got.
type Allocated = Rc<RefCell<Vec<(ChunkId, u32)>>>;

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
        self.search_several(1, count, 0).await.pop()
    }

    async fn search_several(&self, most: usize, count: FreeCount, kept: u64) -> Vec<(ChunkId, u32)> {
        chunks::allocate(&self.endpoint, &self.layout, wanted(most, OWNER, count, kept)).await.unwrap()
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

#[test]
fn several_chunks_at_once_are_counted_and_leave_the_reserve() {
    for_each_seed(50, |seed| {
        Taken::run(seed, (50 + seed % 50) * 1024, async move |taken| {
            for (chunk, generation) in &taken.all {
                taken.give_back(*chunk, *generation).await;
            }
            let mut allocated = Vec::new();
            for kept in [3, 0] {
                for most in (1..BATCH_VERBS_MAX).rev().cycle() {
                    let some = taken.search_several(most, FreeCount::Trusted, kept).await;
                    assert!(some.len() <= most);
                    if some.is_empty() {
                        break;
                    }
                    allocated.extend(some);
                    taken.settle().await;
                }
                assert_eq!(allocated.len() as u64 + kept, taken.all.len() as u64);
            }
            assert_eq!(read_word(&taken.endpoint, taken.layout.free_chunks()).await.unwrap(), 0);
            allocated.sort_unstable();
            let mut all: Vec<_> = taken.all.iter().map(|(chunk, generation)| (*chunk, generation + 1)).collect();
            all.sort_unstable();
            assert_eq!(allocated, all, "each is allocated once");
        });
    });
}

/// Clients allocate several chunks at once from the same few. One of them dies between any two
/// effects, and what it had posted takes effect or not. Each chunk that is not free names its
/// owner. A chunk that names a living client is one that this client has got.
#[test]
fn a_client_that_dies_while_it_allocates_several_leaves_only_chunks_that_name_it() {
    for_each_seed(300, |seed| {
        let base = PoolSettings { chunk_bytes: 1024, ..PoolSettings::for_capacity((40 + seed % 40) * 1024) };
        let settings = ForgeOptions::default().settings(base, 64);
        let sim = Sim::new(SimOptions::new(seed, settings.capacity_bytes));
        let endpoint = sim.endpoint("maker");
        let format =
            async move { Forge::<SimEndpoint>::format(&endpoint, settings).await.unwrap().pool().layout.clone() };
        let layout = sim.block_on(format).unwrap();
        let allocated: [Allocated; OWNERS.len()] = Default::default();
        for (owner, allocated) in OWNERS.into_iter().zip(allocated.clone()) {
            let (endpoint, layout) = (sim.endpoint("client"), layout.clone());
            let client = sim.spawn("client", async move {
                for most in [15, 5, 9] {
                    let wanted = wanted(most, owner, FreeCount::Trusted, 0);
                    let some = chunks::allocate(&endpoint, &layout, wanted).await.unwrap();
                    allocated.borrow_mut().extend(some);
                }
                endpoint.flush().await.unwrap();
            });
            if owner == OWNERS[0] {
                sim.control().fault(client, Fault::Kill, After::Steps(seed % STEPS));
            }
        }
        sim.run().unwrap();
        let open = |chunk, owner| {
            let found = Chunk::from_word(sim.peek_word(layout.descriptor(chunk)))?;
            let its = Chunk::owned(ChunkState::Open, owner, found.generation);
            (found == its).then_some((chunk, found.generation))
        };
        for (owner, allocated) in OWNERS.into_iter().zip(&allocated) {
            let its: BTreeSet<_> = (0..layout.chunks()).filter_map(|chunk| open(ChunkId(chunk), owner)).collect();
            let got: BTreeSet<_> = allocated.borrow().iter().copied().collect();
            assert_eq!(got.len(), allocated.borrow().len(), "each is allocated once");
            assert!(got.is_subset(&its), "what it has got names it");
            assert!(owner == OWNERS[0] || got == its, "nothing else names a client that lives");
        }
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
