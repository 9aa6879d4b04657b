//! How many verbs a core simulates in a second in a timed run: `cargo bench -p atoll-sim --bench
//! timed`.

use atoll_fabric::{Address, Buffer, Endpoint, Kind};
use atoll_sim::network::{Network, Stop, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::time::Instant;

const CLIENTS: u16 = 256;
const COMPUTE_NODES: u16 = 3;
const GETS: u64 = 2_000_000;
const REGION_BYTES: u64 = 1 << 24;

/// Clients that GET: a bucket of 128 bytes, then an object of 304.
fn run(seed: u64) -> (u64, f64, f64) {
    let nodes = vec![vec![region(REGION_BYTES, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(seed, nodes, Network::new(profiles::CX5_100G, COMPUTE_NODES)));
    let stop = Stop::after_operations(GETS);
    for client in 0..CLIENTS {
        let endpoint = sim.endpoint_on(&client.to_string(), client % COMPUTE_NODES);
        let stop = stop.clone();
        sim.spawn(&client.to_string(), async move {
            let (mut bucket, mut object) = (Buffer::new(), Buffer::new());
            bucket.resize(128);
            object.resize(304);
            let at = |random: u64| Address::new(0, 0, random % (REGION_BYTES / 512) * 512);
            while stop.begins(&endpoint) {
                bucket = endpoint.read(at(endpoint.random()), bucket).await.unwrap();
                object = endpoint.read(at(endpoint.random()), object).await.unwrap();
            }
        });
    }
    let start = Instant::now();
    let report = sim.run().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    (report.verbs, seconds, GETS as f64 * 1e3 / report.virtual_ns as f64)
}

fn main() {
    for seed in 1..=3 {
        let (verbs, seconds, gets) = run(seed);
        println!(
            "seed {seed}: {:.2} million verbs/s; {gets:.3} million GETs/s in virtual time",
            verbs as f64 / seconds / 1e6
        );
    }
}
