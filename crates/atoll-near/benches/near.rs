//! What a read takes on shared memory: a copy in the near cache of another client's node, beside a
//! READ of the object, and a read of an object that is not cached.
//!
//! `cargo bench -p atoll-near [-- OBJECTS ROUNDS]` prints medians in nanoseconds over rounds, in
//! which the ways take turns. Objects of 256 bytes, read in an order by chance.

use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Address, Buffer, Clock, Endpoint, run_ready};
use atoll_near::{Directory, DirectoryOptions, Near, NodeOptions, Object, Switch};
use std::sync::Arc;
use std::time::Instant;

const OBJECT_BYTES: u32 = 256;
const READS: usize = 200_000;
const TABLE: Address = Address::new(0, 0, 8192);

fn object(first: u64, number: u64) -> Object {
    Object::new(Address::new(0, 0, first + number * u64::from(OBJECT_BYTES)), OBJECT_BYTES)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let objects = arguments.first().copied().unwrap_or(10_000);
    let rounds = arguments.get(1).copied().unwrap_or(9);
    let options = DirectoryOptions { stripes: (4 * objects as u32).next_power_of_two(), ..DirectoryOptions::default() };
    let first = (TABLE.offset() + options.table_bytes()).next_multiple_of(4096);
    let region_bytes = (first + 2 * objects * u64::from(OBJECT_BYTES)).next_multiple_of(4096);
    let region = Arc::new(ShmRegion::anonymous(region_bytes).expect("the host has memory"));
    let endpoint = || ShmEndpoint::with_regions(vec![region.clone()], Clock::host());
    let node = NodeOptions { bytes: (objects * 1024).max(1 << 20), ..NodeOptions::default() };
    let (owner, near) = run_ready(async {
        let maker = endpoint();
        let directory = Directory::create(&maker, Address::new(0, 0, 0), &[TABLE], options).await.expect("it fits");
        let owner = Near::join(endpoint(), directory.clone(), node).await.expect("it fits");
        let near = Near::attach(endpoint(), directory, owner.region()).await.expect("it is there");
        for number in 0..objects {
            near.switch(&object(first, number), Switch::On).await.expect("no verb fails");
            near.switch(&object(first, objects + number), Switch::Pin).await.expect("no verb fails");
            // The other client makes the copy.
            owner.read(&object(first, number), Buffer::new()).await.expect("no verb fails");
        }
        (owner, near)
    });
    let order: Vec<u64> = (0..READS as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % objects).collect();
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (way, took) in took.iter_mut().enumerate() {
            let (raw, mut buffer) = (endpoint(), Buffer::sized(OBJECT_BYTES as usize));
            let begun = Instant::now();
            run_ready(async {
                for number in &order {
                    // What is not cached are the objects behind the others.
                    let number = if way == 2 { objects + number } else { *number };
                    let object = object(first, number);
                    buffer = match way {
                        0 => raw.read(object.at(), buffer).await.expect("no verb fails"),
                        _ => near.read(&object, buffer).await.expect("no verb fails"),
                    };
                }
            });
            took.push(begun.elapsed().as_nanos() as f64 / READS as f64);
        }
    }
    let [read, hit, bypass] = took.map(median);
    println!("{objects} objects of {OBJECT_BYTES} bytes, medians of {rounds} rounds of {READS} reads:");
    println!("READ {read:.0} ns, hit of another client's copy {hit:.0} ns, read of what is not cached {bypass:.0} ns");
    println!("{:?}", near.counts());
    drop(owner);
}
