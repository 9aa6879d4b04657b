//! How many verbs a core simulates in a second: `cargo bench -p atoll-sim`.

use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_sim::{Sim, SimOptions, Strategy};
use std::time::Instant;

const CLIENTS: u64 = 8;
const BATCHES: u64 = 200_000;

/// Clients that do what lookups and updates of a cache do: a word or two, an object of some 300
/// bytes, a swap.
fn run(strategy: Strategy, seed: u64) -> (u64, u64, f64) {
    let sim = Sim::new(SimOptions { strategy, steps_max: u64::MAX >> 1, ..SimOptions::new(seed, 1 << 22) });
    for client in 0..CLIENTS {
        let endpoint = sim.endpoint(&client.to_string());
        sim.spawn(&client.to_string(), async move {
            let mut batch = Batch::new();
            let mut buffer = Buffer::new();
            for round in 0..BATCHES {
                let at = |word: u64| Address::new(0, 0, 8 * (word % (1 << 18)));
                let random = endpoint.random();
                batch.clear();
                buffer.resize(304);
                match round % 4 {
                    0 => {
                        let ticket = batch.write(at(random).aligned(), std::mem::take(&mut buffer));
                        batch.compare_and_swap(at(random >> 32), 0, random);
                        endpoint.post(&mut batch).await.unwrap();
                        buffer = batch.take(ticket);
                    }
                    1 | 2 => {
                        batch.read_word(at(random));
                        batch.read_word(at(random >> 20));
                        endpoint.post(&mut batch).await.unwrap();
                    }
                    _ => {
                        let ticket = batch.read(at(random).aligned(), std::mem::take(&mut buffer));
                        endpoint.post(&mut batch).await.unwrap();
                        buffer = batch.take(ticket);
                    }
                }
            }
        });
    }
    let start = Instant::now();
    let report = sim.run().unwrap();
    (report.verbs, report.steps, start.elapsed().as_secs_f64())
}

/// Keeps an object of some 300 bytes inside the region.
trait Aligned {
    fn aligned(self) -> Self;
}

impl Aligned for Address {
    fn aligned(self) -> Self {
        Address::new(0, 0, self.offset() / 512 * 512)
    }
}

fn main() {
    for strategy in [Strategy::Uniform, Strategy::Bursts, Strategy::Priorities] {
        for seed in 1..=3 {
            let (verbs, steps, seconds) = run(strategy, seed);
            let (verbs, steps) = (verbs as f64 / seconds / 1e6, steps as f64 / seconds / 1e6);
            println!("{strategy:?} seed {seed}: {verbs:.2} million verbs/s, {steps:.2} million steps/s");
        }
    }
}
