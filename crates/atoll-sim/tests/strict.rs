//! A failure tells which relaxations and faults it needs.

use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_sim::strict::{Needs, Switch, needs};
use atoll_sim::{Faults, Relaxations, Sim, SimOptions, Strict};
use std::cell::Cell;
use std::rc::Rc;

const FAULTS: Faults = Faults { ns_max: 100_000, ..Faults::host(2, 2, 20) };

fn simulation(seed: u64, strict: Strict) -> Sim {
    Sim::new(SimOptions { strict, faults: FAULTS, ..SimOptions::new(seed, 4096) })
}

fn judged(scenario: fn(&Sim) -> bool) -> Needs {
    needs(0, 300, (Relaxations::all(), FAULTS), |seed, strict| {
        if scenario(&simulation(seed, strict)) { Ok(()) } else { Err("wrong".to_owned()) }
    })
}

/// A reader relies on the words of a WRITE being there together.
fn trusts_a_write(sim: &Sim) -> bool {
    let writer = sim.endpoint("writer");
    sim.spawn_spared("writer", async move {
        let (mut batch, mut object) = (Batch::new(), Buffer::new());
        object.resize(64);
        object.words_mut().fill(1);
        batch.write(Address::new(0, 0, 0), object);
        writer.post(&mut batch).await.unwrap();
    });
    let (reader, right) = (sim.endpoint("reader"), Rc::new(Cell::new(true)));
    let seen = right.clone();
    sim.spawn_spared("reader", async move {
        let (mut batch, mut object) = (Batch::new(), Buffer::new());
        object.resize(64);
        let ticket = batch.read(Address::new(0, 0, 0), object);
        reader.post(&mut batch).await.unwrap();
        let object = batch.take(ticket);
        seen.set(object.words().iter().all(|word| *word == object.words()[0]));
    });
    sim.run().unwrap();
    right.get()
}

/// A client counts itself in and out, and relies on coming to its end.
fn trusts_its_life(sim: &Sim) -> bool {
    for number in 0..3 {
        let endpoint = sim.endpoint("counts");
        sim.spawn(&format!("client {number}"), async move {
            for addend in [1, u64::MAX].repeat(10) {
                let mut batch = Batch::new();
                batch.fetch_and_add(Address::new(0, 0, 0), addend);
                endpoint.post(&mut batch).await.unwrap();
            }
        });
    }
    sim.run().unwrap();
    sim.peek_word(Address::new(0, 0, 0)) == 0
}

#[test]
fn a_failure_tells_which_relaxations_and_faults_it_needs() {
    let torn = judged(trusts_a_write);
    assert!(torn.failures > 0 && torn.failures_strict == 0, "{torn}");
    assert_eq!(torn.needed().collect::<Vec<_>>(), [Switch::Interleave, Switch::Tear], "{torn}");
    let killed = judged(trusts_its_life);
    assert_eq!(killed.needed().collect::<Vec<_>>(), [Switch::Kills], "{killed}");
    assert!(killed.to_string().contains("without kills: 0: needed"), "{killed}");
}
