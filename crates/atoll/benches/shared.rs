//! What a GET of the cache that threads share costs beside one of a bare client.
//!
//! | to know | run | it prints |
//! |---|---|---|
//! | nanoseconds, on a quiet machine | `cargo bench -p atoll --bench shared` | medians with one thread and with two, and last the difference for one thread |
//! | instructions, on any machine with valgrind | `cargo bench -p atoll --bench shared -- instructions` | instructions of a GET by each way, and the differences |
//!
//! The ways take turns, in blocks of a million GETs of a thousand keys of 100 bytes.

use atoll::{Cache, Pool, PoolOptions, Value};
use std::process::Command;
use std::time::Instant;

const KEYS: u64 = 1000;
const GETS: u64 = 1_000_000;
const BLOCKS: usize = 15;
/// GETs under valgrind, beside a run without any.
const GETS_COUNTED: u64 = 200_000;
/// What the shared cache may cost more.
const MORE_NS_MAX: f64 = 30.0;

/// The bare client; the shared cache with a place for the value, and with a new vector.
const WAYS: [&str; 3] = ["bare", "shared", "vector"];

fn key(index: u64) -> [u8; 8] {
    (index % KEYS).to_le_bytes()
}

fn gets(gets: u64, mut get: impl FnMut(&[u8])) {
    (0..gets).for_each(|index| get(&key(index.wrapping_mul(0x9e37_79b9) >> 7)));
}

/// Nanoseconds that a call takes, in the mean of a block.
fn block(get: impl FnMut(&[u8])) -> f64 {
    let begun = Instant::now();
    gets(GETS, get);
    begun.elapsed().as_nanos() as f64 / GETS as f64
}

fn median(mut blocks: Vec<f64>) -> f64 {
    blocks.sort_by(f64::total_cmp);
    blocks[blocks.len() / 2]
}

/// Medians of the ways.
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

/// So many GETs by one way, for valgrind to count.
fn counted(pool: &Pool, cache: &Cache, way: &str, count: u64) {
    let (mut client, mut value) = (pool.client().expect("there is a place"), Value::new());
    match way {
        "bare" => gets(count, |key| assert!(client.get_into(key, &mut value).expect("it is there"))),
        "shared" => gets(count, |key| assert!(cache.get_into(key, &mut value).expect("it is there"))),
        _ => gets(count, |key| assert!(cache.get(key).expect("it is there").is_some())),
    }
}

/// Instructions of a GET by one way: of a run with GETs, less those of a run without.
fn instructions(way: &str) -> f64 {
    let run = |count: u64| -> u64 {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
        let output = command.args([way, &count.to_string()]).output().expect("valgrind is installed");
        let printed = String::from_utf8_lossy(&output.stderr);
        let collected = printed.lines().find_map(|line| line.split("Collected :").nth(1));
        collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("valgrind failed: {printed}"))
    };
    (run(GETS_COUNTED) - run(0)) as f64 / GETS_COUNTED as f64
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if asked.first().is_some_and(|asked| asked == "instructions") {
        let [bare, shared, vector] = WAYS.map(instructions);
        println!("instructions of a GET: bare {bare:.1}, shared {shared:.1} ({:+.1})", shared - bare);
        println!("with a new vector {vector:.1} ({:+.1})", vector - bare);
        return;
    }
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(64 << 20)).expect("there is memory");
    // While instructions are counted no other thread runs.
    let builder = Cache::builder().clients(4).tend(asked.is_empty());
    let cache = builder.build(&pool).expect("there is a place");
    (0..KEYS).for_each(|index| cache.set(&key(index), &[7; 100]).expect("there is room"));
    if let [way, count] = &asked[..] {
        return counted(&pool, &cache, way, count.parse().expect("a number of GETs"));
    }
    let mut alone = None;
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
            alone.get_or_insert(shared - bare);
        }
    }
    println!("difference: {:+.1} ns a GET (at most {MORE_NS_MAX})", alone.unwrap_or(f64::NAN));
}
