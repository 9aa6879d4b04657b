//! Faults that a seed draws, and what a trace tells of them.

use super::words::*;
use atoll_fabric::{Endpoint, VerbError};
use atoll_sim::{After, Direction, Fault, Faults, Fencing, Relaxations, Sim, SimEndpoint, SimOptions};
use std::cell::Cell;
use std::rc::Rc;

/// Clients that add to a word, and a driver that replaces the dead.
fn replaced(seed: u64) -> (Sim, u64) {
    let faults = Faults { kills_max: 3, pauses_max: 3, unknowns_max: 3, steps_between: 40, ..Faults::none() };
    let sim = Sim::new(SimOptions { faults, fencing: Fencing::Forced, ..SimOptions::new(seed, 64) });
    async fn play(endpoint: SimEndpoint) {
        for _ in 0..30 {
            match add(&endpoint, word(0)).await {
                Ok(_) | Err(VerbError::OutcomeUnknown) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    for number in 0..3 {
        sim.spawn(&format!("client {number}"), play(sim.endpoint(&format!("client {number}"))));
    }
    let (control, successors) = (sim.control(), Rc::new(Cell::new(0)));
    let count = successors.clone();
    sim.spawn_spared("driver", async move {
        while let Some(dead) = control.next_killed().await {
            let name = format!("successor of {}", control.name(dead));
            control.spawn(&name, play(control.endpoint(&name)));
            count.set(count.get() + 1);
        }
    });
    sim.run().unwrap();
    let successors = successors.get();
    (sim, successors)
}

#[test]
fn drawn_faults_repeat_keep_to_their_numbers_and_the_dead_have_successors() {
    let mut kills = 0;
    for seed in 0..300 {
        let (sim, successors) = replaced(seed);
        let (again, _) = replaced(seed);
        let report = |sim: &Sim| sim.run().unwrap();
        assert_eq!(report(&sim), report(&again));
        let dead = sim.control().killed().len() as u64;
        assert!(dead <= 3 && successors == dead);
        // Everything but what the dead and the unlucky were at.
        let sum = sim.peek_word(word(0));
        assert!((90 - 3..=90 + 30 * dead).contains(&sum), "seed {seed}: {sum} with {dead} dead");
        kills += dead;
    }
    assert!(kills > 300, "{kills}");
}

#[test]
fn calm_ends_all_faults_so_that_every_client_comes_to_its_end() {
    for seed in 0..200 {
        let sim = simulation(seed);
        let control = sim.control();
        let clients: Vec<_> = (0..3)
            .map(|number| {
                let endpoint = sim.endpoint("adds");
                sim.spawn(&format!("client {number}"), async move {
                    for _ in 0..20 {
                        add(&endpoint, word(0)).await.unwrap();
                    }
                })
            })
            .collect();
        control.fault(clients[0], Fault::Pause { ns: u64::MAX }, After::Steps(seed % 30));
        control.fault(clients[1], Fault::Kill, After::Ns(1_000_000_000));
        control.slow_node(0, 1000, u64::MAX / 2);
        let (driver, endpoint) = (control.clone(), sim.endpoint("driver"));
        sim.spawn_spared("driver", async move {
            endpoint.pause(50_000_000).await;
            driver.cut_link(clients[2], 0, Direction::Responses, u64::MAX / 2);
            driver.calm();
        });
        sim.run().unwrap();
        assert_eq!((sim.peek_word(word(0)), control.killed().len()), (60, 0), "seed {seed}");
    }
}

#[test]
fn a_swarm_has_runs_with_and_without_every_fault() {
    let max = Faults { unknowns_max: 2, clock_drift_per_mille_max: 5, ..Faults::host(3, 3, 1000) };
    let mut random = atoll_sim::Random::new(1);
    let drawn: Vec<Faults> = (0..200).map(|_| max.drawn(&mut random)).collect();
    let counts =
        |faults: &Faults| [faults.kills_max, faults.pauses_max, faults.unknowns_max, faults.clock_drift_per_mille_max];
    for kind in 0..4 {
        let has = |wanted: fn(u32) -> bool| drawn.iter().any(|faults| wanted(counts(faults)[kind]));
        assert!(has(|count| count == 0) && has(|count| count >= 2));
    }
    assert!(drawn.iter().all(|faults| faults.kills_max <= 3 && (1..=1000).contains(&faults.steps_between)));
    assert!(drawn.iter().all(|faults| faults.link_cuts_max == 0));
}

#[test]
fn a_trace_tells_verbs_by_name_and_faults() {
    let sim = Sim::new(SimOptions { trace_events: 1000, relaxations: Relaxations::none(), ..SimOptions::new(1, 4096) });
    sim.name_addresses(|at| (at.offset() < 64).then(|| format!("slot {}", at.offset() / 8)));
    let endpoint = sim.endpoint("anna");
    let identity = endpoint.identity();
    let client = sim.spawn("anna", async move {
        swap(&endpoint, word(3), 0, 7).await.unwrap();
        swap(&endpoint, word(3), 0, 8).await.unwrap();
        add(&endpoint, word(100)).await.unwrap();
        publish(&endpoint).await.unwrap();
        endpoint.pause(u64::MAX).await;
    });
    let (endpoint, control) = (sim.endpoint("bert"), sim.control());
    sim.block_on(async move {
        endpoint.pause(1_000_000).await;
        control.pause(client);
        control.resume(client);
        control.kill(client);
        endpoint.shut_out(identity).await.unwrap();
    })
    .unwrap();
    let trace = sim.trace();
    for line in [
        "anna: polled",
        "anna: CAS slot 3 [0:0+0x18] from 0x0 to 0x7",
        "anna: CAS slot 3 [0:0+0x18] from 0x0 to 0x8 REFUSED, is 0x7",
        "anna: FAA 0:0+0x320 from 0x0 to 0x1",
        "anna: WRITE 0:0+0x40 48 bytes, the first word 0x1",
        "anna: WRITE slot 0 [0:0+0x0] becomes 0x1",
        "anna: PAUSED",
        "anna: RESUMED",
        "anna: KILLED",
        "block_on: FENCES anna",
    ] {
        assert!(trace.contains(line), "no `{line}` in {trace}");
    }
}
