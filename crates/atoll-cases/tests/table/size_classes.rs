//! Objects of all sizes have their part of the memory: blocks of one size class are taken from
//! another as both are written.

use atoll_baselines::kvs;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::EnginePool;
use atoll_cache::ditto::DittoOptions;
use atoll_cache::table::TableOptions;
use atoll_cache::{Cache, Pooled, SetOptions, Value};
use atoll_cases::compiled::sim;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_pool::PoolSettings;
use atoll_sim::{Sim, SimOptions};

const VALUE_BYTES: [usize; 4] = [100, 500, 2000, 7000];
const CAPACITY_BYTES: u64 = 12 << 20;
const SETS: u32 = 60_000;
/// Pools of which the mean is taken.
const POOLS: u64 = 5;

/// How many objects of every size there are.
type Counts = [u32; VALUE_BYTES.len()];

fn size(number: u32) -> usize {
    number.wrapping_mul(0x9e37_79b1) as usize >> 30
}

async fn count<G: Pooled<CaseEndpoint>>(cache: &mut Cache<G>) -> Counts {
    let (mut resident, mut value) = (Counts::default(), Value::new());
    for number in 0..SETS {
        resident[size(number)] += u32::from(cache.get(&number.to_le_bytes(), &mut value).await.unwrap());
    }
    resident
}

/// Objects of every size that are there after as many of each were set, many times what there is
/// room for; and once a third of the memory has gone, too.
fn resident<G: Pooled<CaseEndpoint> + 'static>(options: &TableOptions, seed: u64) -> [Counts; 2] {
    let base = PoolSettings { chunk_bytes: 16 << 10, clients_max: 2, ..PoolSettings::for_capacity(CAPACITY_BYTES) };
    let settings = options.settings(base, 24_576);
    let sim = Sim::new(SimOptions { steps_max: u64::MAX, ..SimOptions::new(seed, settings.capacity_bytes) });
    let endpoint = CaseEndpoint::new(sim.endpoint("client"));
    let resident = sim.block_on(async move {
        let pool = G::format(&endpoint, settings).await.unwrap();
        let mut cache = Cache::new(G::join(&pool, endpoint).await.unwrap());
        for number in 0..SETS {
            let value = vec![7; VALUE_BYTES[size(number)]];
            cache.set(&number.to_le_bytes(), &value, &SetOptions::default()).await.unwrap();
        }
        let before = count(&mut cache).await;
        let mut left = u64::from(pool.pool().layout.chunks()) / 3;
        while left > 0 {
            left -= cache.engine().retire_chunks(left).await.unwrap();
        }
        let after = count(&mut cache).await;
        cache.into_engine().leave().await.unwrap();
        [before, after]
    });
    resident.unwrap()
}

/// None has more than its part because it is large, or because it is small.
fn no_size_is_preferred<G: Pooled<CaseEndpoint> + 'static>(options: TableOptions) {
    // The smallest objects have few chunks: of one pool alone chance decides how many of those go.
    let pools: Vec<[Counts; 2]> = (1..=POOLS).map(|seed| resident::<G>(&options, seed)).collect();
    let mean = |when: usize| -> Counts {
        std::array::from_fn(|size| pools.iter().map(|pool| pool[when][size]).sum::<u32>() / POOLS as u32)
    };
    for (resident, capacity) in [mean(0), mean(1)].iter().zip([CAPACITY_BYTES, CAPACITY_BYTES / 3 * 2]) {
        let of_size = resident.iter().zip(VALUE_BYTES);
        let bytes: u64 = of_size.map(|(objects, bytes)| u64::from(*objects) * bytes as u64).sum();
        println!("{resident:?} objects of {VALUE_BYTES:?} bytes, {bytes} bytes in {capacity}");
        let (least, most) = (resident.iter().min().unwrap(), resident.iter().max().unwrap());
        assert!(*most < 2 * least, "{resident:?} objects of {VALUE_BYTES:?} bytes");
        assert!(bytes > capacity / 2, "{bytes} bytes of values in a cache of {capacity}");
    }
}

#[test]
fn no_size_is_preferred_where_any_object_goes() {
    no_size_is_preferred::<sim::Kvs>(kvs::options());
}

#[test]
fn no_size_is_preferred_by_ditto() {
    no_size_is_preferred::<sim::Ditto>(DittoOptions::default().objects());
}

#[test]
fn no_size_is_preferred_by_queues() {
    no_size_is_preferred::<sim::Queued>(QueueOptions::new(QueuePolicy::S3Fifo).objects());
}
