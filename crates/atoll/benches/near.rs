//! What a GET costs that a near cache answers, beside one of the pool in shared memory.
//!
//! `cargo bench -p atoll --bench near` prints medians of blocks that take turns, for sets of keys
//! of several sizes. Values have 256 bytes. The pool is filled by another client.

use atoll::{Pool, PoolOptions, Value};
use std::time::Instant;

const GETS: u64 = 400_000;
const BLOCKS: usize = 9;
const VALUE_BYTES: usize = 256;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key 00000000 end";
    key[4..12].copy_from_slice(&number.to_le_bytes());
    key
}

/// Nanoseconds of a GET of one of so many keys, in the mean of a block.
fn block(client: &mut atoll::Client, value: &mut Value, keys: u64) -> f64 {
    let begun = Instant::now();
    for number in 0..GETS {
        let chosen = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
        assert!(client.get_into(&key(chosen), value).expect("the pool is sound"));
    }
    begun.elapsed().as_nanos() as f64 / GETS as f64
}

fn median(mut blocks: Vec<f64>) -> f64 {
    blocks.sort_by(f64::total_cmp);
    blocks[blocks.len() / 2]
}

fn main() {
    let options = PoolOptions::default().capacity_bytes(512 << 20);
    let name = format!("shm:/atoll-bench-near-{}", std::process::id());
    let made = Pool::create(&name, &options).expect("there is memory");
    println!("{:>10} {:>12} {:>12} {:>12}", "keys", "near, ns", "pool, ns", "near hits, %");
    for keys in [500, 10_000, 100_000] {
        let (far, near) = (Pool::open(&name).expect("it is there"), Pool::open(&name).expect("it is there"));
        near.near(256 << 20).expect("there is memory");
        let mut writer = made.client().expect("there is a place");
        (0..keys).for_each(|number| writer.set(&key(number), &[7; VALUE_BYTES]).expect("there is room"));
        let mut clients = [near, far].map(|pool| pool.client().expect("there is a place"));
        let (mut value, mut blocks) = (Value::new(), [const { Vec::new() }; 2]);
        for _ in 0..3 {
            block(&mut clients[0], &mut value, keys);
        }
        let before = clients[0].stats();
        for _ in 0..BLOCKS {
            for (client, blocks) in clients.iter_mut().zip(&mut blocks) {
                blocks.push(block(client, &mut value, keys));
            }
        }
        let after = clients[0].stats();
        let hits = 100.0 * (after.near_hits - before.near_hits) as f64 / (BLOCKS as u64 * GETS) as f64;
        let [near, far] = blocks.map(median);
        println!("{keys:>10} {near:>12.0} {far:>12.0} {hits:>12.1}");
    }
    drop(made);
    Pool::remove(&name).expect("no other process has it open");
}
