//! One READ gives words of different moments, in any order. A decision by several words needs words
//! that were READ in a known order.

use atoll_cache::EnginePool;
use atoll_cache::Pooled;
use atoll_cache::forge::ForgePool;
use atoll_cases::{Case, ForgeSubject, KvsSubject, Subject, load};
use atoll_fabric::Endpoint;
use atoll_pool::PoolError;
use atoll_sim::history::Evictions;
use atoll_sim::{Sim, SimOptions, for_each_seed};
use std::cell::Cell;
use std::rc::Rc;

/// Client 0 repairs all the time, while two clients replace large objects of keys of many buckets.
/// The pool has room for all of them, so that a miss is a mistake.
fn repair_beside_large_objects<S: Subject>(chunk_bytes: u32, chunks: u64, seeds: u64) {
    for_each_seed(seeds, |seed| {
        let case = Case::<S> { chunk_bytes, chunks, slots: 64, evictions: Evictions::Never, ..Case::default() };
        let writers = Rc::new(Cell::new(case.clients - 1));
        let checked = case.run_part(seed, |client| {
            let writers = writers.clone();
            async move {
                if client.number == 0 {
                    while writers.get() > 0 {
                        client.cache.engine().repair().await?;
                        client.endpoint().pause(100).await;
                    }
                    return Ok(client);
                }
                let mut random = client.random();
                for step in 0..40 {
                    let key = [b'a' + random.below(6) as u8];
                    let value_bytes = u64::from(chunk_bytes) + random.below(u64::from(chunk_bytes) / 2);
                    client.set(&key, load::unique_value(client.number, step, value_bytes)).await?;
                    client.get(&key).await?;
                }
                writers.set(writers.get() - 1);
                Ok(client)
            }
        });
        checked.unwrap_or_else(|error| {
            panic!("seed {seed}: {error}\nreplay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test forge torn_words::")
        });
    });
}

#[test]
fn a_repair_frees_no_extent_of_a_live_object_of_forge() {
    repair_beside_large_objects::<ForgeSubject>(256, 48, 200);
}

#[test]
fn a_repair_frees_no_extent_of_a_live_object_of_the_table() {
    repair_beside_large_objects::<KvsSubject>(512, 48, 200);
}

/// The magic of a header is WRITTEN last, and may be READ with older words.
#[test]
fn a_pool_that_is_being_formatted_is_no_pool_yet_and_never_a_damaged_one() {
    for_each_seed(500, |seed| {
        let case = Case::<ForgeSubject>::default();
        let settings = case.settings();
        let (regions, home_bytes) = (case.regions(&settings), settings.home_bytes());
        let sim = Sim::new(SimOptions::with_nodes(seed, regions));
        let (maker, opener) = (sim.endpoint("maker"), sim.endpoint("opener"));
        sim.spawn("maker", async move {
            ForgePool::format(&maker, settings).await.expect("the regions are new");
        });
        sim.spawn("opener", async move {
            loop {
                match ForgePool::open(&opener, home_bytes).await {
                    Ok(_) => break,
                    Err(PoolError::NotAPool) => opener.pause(10).await,
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
        });
        sim.run().unwrap();
    });
}
