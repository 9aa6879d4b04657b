//! What a SET of a full cache costs, with a thread that evicts ahead of need and without.
//!
//! `cargo bench -p atoll --bench tail [-- SECONDS ROUNDS]` prints, for one writer and for two,
//! latencies and throughput: medians over rounds, in which the ways take turns. Keys of 16 bytes,
//! values of 256, a new key each time, 64 MiB.

use atoll::{Pool, PoolOptions};
use std::time::{Duration, Instant};

const CAPACITY_BYTES: usize = 64 << 20;
const VALUE: [u8; 256] = [7; 256];
/// SETs that fill the pool before a measurement.
const FILLING: u64 = 400_000;
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// The latencies of one writer's SETs in this time, in nanoseconds.
fn written(pool: &Pool, writer: u64, time: Duration) -> Vec<u32> {
    let mut client = pool.client().expect("there is a place");
    let mut number = writer << 48;
    let mut latencies = Vec::with_capacity(8_000_000);
    let begun = Instant::now();
    let mut before = begun;
    while before - begun < time {
        client.set(&key(number), &VALUE).expect("there is room");
        let now = Instant::now();
        latencies.push((now - before).as_nanos().min(u32::MAX.into()) as u32);
        (before, number) = (now, number + 1);
    }
    latencies
}

/// Quantiles, mean, and SETs a second of so many writers.
fn measured(evicts_ahead: bool, writers: u64, time: Duration) -> Vec<f64> {
    let options = PoolOptions::default().capacity_bytes(CAPACITY_BYTES as u64);
    let pool = Pool::anonymous(&options).expect("the host has memory");
    pool.provide(|_, _| ()).expect("the host has memory");
    pool.evict_ahead(evicts_ahead);
    let mut filler = pool.client().expect("there is a place");
    (0..FILLING).for_each(|number| filler.set(&key(number), &VALUE).expect("there is room"));
    drop(filler);
    let mut latencies: Vec<u32> = std::thread::scope(|scope| {
        let pool = &pool;
        let threads: Vec<_> = (1..=writers).map(|writer| scope.spawn(move || written(pool, writer, time))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    latencies.sort_unstable();
    let of = |quantile: f64| f64::from(latencies[((latencies.len() - 1) as f64 * quantile) as usize]);
    let mean = latencies.iter().map(|ns| f64::from(*ns)).sum::<f64>() / latencies.len() as f64;
    let mut figures: Vec<f64> = QUANTILES.iter().map(|(_, quantile)| of(*quantile)).collect();
    figures.extend([mean, latencies.len() as f64 / time.as_secs_f64() / 1e6]);
    figures
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let numbers: Vec<f64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let seconds = numbers.first().copied().unwrap_or(1.0);
    let rounds = numbers.get(1).map_or(5, |rounds| *rounds as usize);
    let ways: Vec<(u64, bool)> = [1, 2].into_iter().flat_map(|writers| [(writers, false), (writers, true)]).collect();
    let mut all = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for (figures, (writers, evicts_ahead)) in all.iter_mut().zip(&ways) {
            figures.push(measured(*evicts_ahead, *writers, Duration::from_secs_f64(seconds)));
        }
    }
    let names = QUANTILES.iter().map(|(name, _)| format!("{name:>8}")).collect::<String>();
    println!("{:28}{names}{:>8}{:>10}", "nanoseconds of a SET", "mean", "Mop/s");
    for ((writers, evicts_ahead), figures) in ways.iter().zip(&all) {
        let way = if *evicts_ahead { "evicting ahead" } else { "evicting inline" };
        print!("{:28}", format!("{writers} writer(s), {way}"));
        for figure in 0..figures[0].len() {
            let shown = median(figures.iter().map(|round| round[figure]).collect());
            match figure + 1 == figures[0].len() {
                true => println!("{shown:>10.2}"),
                false => print!("{shown:>8.0}"),
            }
        }
    }
}
