//! Nodes that are lost or slow, links that are cut, clocks that drift and jump.

use super::words::*;
use atoll_fabric::{Address, Batch, Endpoint, Kind, VerbError};
use atoll_sim::sim::region;
use atoll_sim::{Direction, Faults, Relaxations, Sim, SimOptions};
use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

fn two_nodes(seed: u64) -> Sim {
    Sim::new(SimOptions::with_nodes(seed, vec![vec![region(4096, Kind::Host)], vec![region(4096, Kind::Host)]]))
}

#[test]
fn a_lost_node_has_zero_bytes_and_is_dead_to_all_who_knew_it() {
    for seed in 0..200 {
        let sim = two_nodes(seed);
        let far = Address::new(1, 0, 0);
        sim.poke_word(far, 5);
        let (endpoint, control) = (sim.endpoint("knew it"), sim.control());
        let errors = Rc::new(Cell::new(0));
        let counted = errors.clone();
        sim.spawn("knew it", async move {
            for _ in 0..200 {
                add(&endpoint, word(0)).await.unwrap();
                if let Err(error) = add(&endpoint, far).await {
                    assert_eq!(error, VerbError::PeerDead);
                    counted.set(counted.get() + 1);
                }
            }
        });
        let endpoint = sim.endpoint("pulls the plug");
        let after = sim.block_on(async move {
            endpoint.pause(seed * 20).await;
            control.lose_node(1);
            let fresh = control.endpoint("new");
            let first = read(&fresh, far).await;
            endpoint.pause(100_000_000).await;
            (first, read(&fresh, far).await, read(&endpoint, far).await)
        });
        assert_eq!(after.unwrap(), (Ok(0), Ok(0), Err(VerbError::PeerDead)));
        assert!(errors.get() > 0 && sim.peek_word(word(0)) == 200);
    }
}

#[test]
fn a_cut_link_loses_requests_or_responses_and_heals() {
    for seed in 0..200 {
        for direction in [Direction::Requests, Direction::Responses, Direction::Both] {
            let sim = two_nodes(seed);
            let (endpoint, control, far) = (sim.endpoint("cut off"), sim.control(), Address::new(1, 0, 0));
            let client = sim.spawn("cut off", async move {
                endpoint.pause(1000).await;
                assert_eq!(add(&endpoint, far).await, Err(VerbError::OutcomeUnknown));
                let mut batch = Batch::new();
                batch.fetch_and_add(far, 1);
                endpoint.post_unawaited(&mut batch);
                add(&endpoint, word(0)).await.unwrap();
                assert_eq!(endpoint.flush().await, Err(VerbError::OutcomeUnknown));
                // One batch to both nodes: the near one is reached.
                batch.fetch_and_add(far, 1);
                batch.fetch_and_add(word(0), 1);
                assert_eq!(endpoint.post(&mut batch).await, Err(VerbError::OutcomeUnknown));
                endpoint.pause(1_000_000_000).await;
                add(&endpoint, far).await.unwrap();
            });
            control.cut_link(client, 1, direction, 500_000_000);
            sim.run().unwrap();
            let reached = if direction == Direction::Responses { 3 } else { 0 };
            assert_eq!((sim.peek_word(far), sim.peek_word(word(0))), (reached + 1, 2), "{direction:?}");
        }
    }
}

#[test]
fn a_slow_node_is_slow_for_a_while() {
    let sim = two_nodes(3);
    let (endpoint, control) = (sim.endpoint("waits"), sim.control());
    let times = sim.block_on(async move {
        control.slow_node(1, 1000, 10_000_000);
        let mut times = [0; 3];
        for (time, node) in times.iter_mut().zip([0, 1, 1]) {
            let begun_ns = endpoint.now_ns();
            for _ in 0..20 {
                add(&endpoint, Address::new(node, 0, 0)).await.unwrap();
            }
            *time = endpoint.now_ns() - begun_ns;
            if node == 1 {
                endpoint.pause(20_000_000).await;
            }
        }
        times
    });
    let [near, slow, healed] = times.unwrap();
    assert!(slow > 10 * near && slow > 10 * healed, "{near} {slow} {healed}");
}

#[test]
fn clocks_drift_and_jump_within_their_bounds() {
    let faults = Faults { clock_drift_per_mille_max: 5, ..Faults::none() };
    let sim = Sim::new(SimOptions { faults, relaxations: Relaxations::none(), ..SimOptions::new(1, 64) });
    let mut rates = HashSet::new();
    for number in 0..20 {
        let (endpoint, control) = (sim.endpoint(&number.to_string()), sim.control());
        let (rate, jump) = sim
            .block_on(async move {
                let begun_ns = endpoint.now_ns();
                endpoint.pause(1_000_000_000).await;
                let own_ns = endpoint.now_ns() - begun_ns;
                let before = endpoint.unix_ms();
                add(&endpoint, word(0)).await.unwrap();
                control.jump_clock(control.owner(&endpoint).unwrap(), -3_600_000);
                (own_ns, before - endpoint.unix_ms())
            })
            .unwrap();
        // A pause is one of the client's own clock.
        assert!((1_000_000_000..1_000_100_000).contains(&rate), "{rate}");
        assert_eq!(jump, 3_600_000);
        rates.insert(sim.now_ns() % 1_000_000_000 / 1_000_000);
    }
    assert!(rates.len() > 3, "{rates:?}");
}
