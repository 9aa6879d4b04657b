//! What a GET of the cache that threads share costs beside one of a bare client:
//! `cargo bench -p atoll --bench shared`.
//!
//! Both in turn, in blocks of a million GETs of a thousand keys of 100 bytes; printed are medians
//! of the blocks in nanoseconds, with one thread and with two at once.

use atoll::{Cache, Pool, PoolOptions, Value};
use std::time::Instant;

const KEYS: u64 = 1000;
const GETS: u64 = 1_000_000;
const BLOCKS: usize = 15;

fn key(index: u64) -> [u8; 8] {
    (index % KEYS).to_le_bytes()
}

/// Nanoseconds that a call takes, in the mean of a block.
fn block(mut get: impl FnMut(&[u8])) -> f64 {
    let begun = Instant::now();
    (0..GETS).for_each(|index| get(&key(index.wrapping_mul(0x9e37_79b9) >> 7)));
    begun.elapsed().as_nanos() as f64 / GETS as f64
}

fn median(mut blocks: Vec<f64>) -> f64 {
    blocks.sort_by(f64::total_cmp);
    blocks[blocks.len() / 2]
}

/// Medians of the bare client, of the shared cache with a place for the value, and with a new
/// vector.
fn measured(pool: &Pool, cache: &Cache) -> [f64; 3] {
    let (mut client, mut value) = (pool.client().expect("there is a place"), Value::new());
    let mut blocks = [const { Vec::new() }; 3];
    for _ in 0..BLOCKS {
        blocks[0].push(block(|key| assert!(client.get_into(key, &mut value).expect("it is there"))));
        blocks[1].push(block(|key| assert!(cache.get_into(key, &mut value).expect("it is there"))));
        blocks[2].push(block(|key| assert!(cache.get(key).expect("it is there").is_some())));
    }
    blocks.map(median)
}

fn main() {
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(64 << 20)).expect("there is memory");
    let cache = Cache::builder().clients(4).build(&pool).expect("there is a place");
    (0..KEYS).for_each(|index| cache.set(&key(index), &[7; 100]).expect("there is room"));
    for threads in [1, 2] {
        let rows: Vec<[f64; 3]> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads).map(|_| scope.spawn(|| measured(&pool, &cache))).collect();
            started.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for [bare, shared, vector] in rows {
            println!(
                "{threads} threads: bare {bare:.1} ns, shared {shared:.1} ns ({:+.1}), a vector {vector:.1} ns ({:+.1})",
                shared - bare,
                vector - bare
            );
        }
    }
}
