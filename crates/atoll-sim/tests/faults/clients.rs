//! Clients that die, stand still, are fenced, and do not know what became of a verb.

use super::words::*;
use atoll_fabric::{Batch, Buffer, Endpoint, Identity, VerbError};
use atoll_sim::{After, ClientState, Fault, Faults, Relaxations, Sim, SimEndpoint, SimOptions};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

/// An endpoint, and its identity.
fn identified(sim: &Sim, name: &str) -> (SimEndpoint, Identity) {
    let endpoint = sim.endpoint(name);
    let identity = endpoint.identity();
    (endpoint, identity)
}

#[test]
fn of_a_dead_clients_batch_every_permitted_subset_takes_effect_and_no_other() {
    let mut seen = BTreeSet::new();
    for seed in 0..20_000 {
        let sim = simulation(seed);
        let endpoint = sim.endpoint("dies");
        let client = sim.spawn("dies", async move {
            publish(&endpoint).await.unwrap();
        });
        sim.control().fault(client, Fault::Kill, After::Steps(seed % 10));
        sim.run().unwrap();
        let words: Vec<u64> = (8..14).map(|index| sim.peek_word(word(index))).collect();
        let published = sim.peek_word(word(0)) == 1;
        assert!(!published || words == [1; 6], "seed {seed}: a WRITE overtook the one before it");
        seen.insert((words, published));
    }
    // All 64 subsets of the words, and all of them with the word behind them.
    assert_eq!(seen.len(), 65);
}

#[test]
fn without_relaxations_a_dead_clients_batch_takes_effect_whole_or_not_at_all() {
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let sim = Sim::new(SimOptions { relaxations: Relaxations::none(), ..SimOptions::new(seed, 4096) });
        let endpoint = sim.endpoint("dies");
        let client = sim.spawn("dies", async move {
            publish(&endpoint).await.unwrap();
        });
        sim.control().fault(client, Fault::Kill, After::Steps(seed % 4));
        sim.run().unwrap();
        seen.insert([8, 9, 10, 11, 12, 13, 0].map(|index| sim.peek_word(word(index))));
    }
    assert_eq!(seen, BTreeSet::from([[0; 7], [1; 7]]));
}

/// Posts when it is dropped, as clients do that leave then.
struct Leaver {
    endpoint: SimEndpoint,
    errors: Rc<RefCell<Vec<VerbError>>>,
}

impl Drop for Leaver {
    fn drop(&mut self) {
        let mut batch = Batch::new();
        batch.write_word(word(1), 99);
        self.endpoint.post_unawaited(&mut batch);
        let leave = async {
            self.endpoint.pause(1000).await;
            let write = write(&self.endpoint, word(1), 99).await;
            let flush = self.endpoint.flush().await;
            self.errors.borrow_mut().extend([write, flush].into_iter().filter_map(Result::err));
        };
        atoll_fabric::run_ready(leave);
    }
}

#[test]
fn a_dead_client_does_nothing_any_more_and_its_destructors_are_told() {
    for seed in 0..200 {
        let sim = simulation(seed);
        let (errors, polls) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        let leaver = Leaver { endpoint: sim.endpoint("dies"), errors: errors.clone() };
        let cell = polls.clone();
        let client = sim.spawn("dies", async move {
            loop {
                cell.set(cell.get() + 1);
                write(&leaver.endpoint, word(0), cell.get()).await.unwrap();
            }
        });
        let (endpoint, control, counted) = (sim.endpoint("kills"), sim.control(), polls.clone());
        sim.spawn("kills", async move {
            endpoint.pause(seed * 50).await;
            control.kill(client);
            assert!(!control.is_alive(client));
            let polls = counted.get();
            endpoint.pause(100_000).await;
            assert_eq!(counted.get(), polls);
            assert_eq!((control.state(client), control.killed()), (ClientState::Killed, vec![client]));
        });
        sim.run().unwrap();
        assert_eq!(*errors.borrow(), [VerbError::Fenced, VerbError::Fenced]);
        assert!(sim.peek_word(word(0)) <= polls.get() && sim.peek_word(word(1)) == 0);
    }
}

#[test]
fn a_client_that_kills_itself_gets_no_further_than_its_next_await() {
    let sim = simulation(1);
    let (endpoint, control) = (sim.endpoint("suicide"), sim.control());
    let me = Rc::new(Cell::new(None));
    let own = me.clone();
    let client = sim.spawn("suicide", async move {
        endpoint.pause(10).await;
        control.kill(own.get().unwrap());
        let _ = write(&endpoint, word(0), 1).await;
        unreachable!("it is dead");
    });
    me.set(Some(client));
    sim.run().unwrap();
    assert_eq!(sim.peek_word(word(0)), 0);
}

#[test]
fn what_a_dead_client_had_in_flight_lands_late_until_a_fence_ends_it() {
    // What the word was some time after the death, and long after that.
    let run = |seed, fence: bool| {
        let sim = simulation(seed);
        let (dying, identity) = identified(&sim, "dies");
        let client = sim.spawn("dies", async move {
            let mut batch = Batch::new();
            batch.write_word(word(0), 1);
            dying.post_unawaited(&mut batch);
            dying.pause(u64::MAX / 2).await;
        });
        let (endpoint, control) = (sim.endpoint("looks"), sim.control());
        let seen = sim.block_on(async move {
            control.kill(client);
            if fence {
                assert_eq!(endpoint.is_dead(identity).await, Ok(true));
            }
            let early = read(&endpoint, word(0)).await.unwrap();
            endpoint.pause(10_000_000_000).await;
            (early, read(&endpoint, word(0)).await.unwrap())
        });
        seen.unwrap()
    };
    let seen = |fence: bool| -> HashSet<(u64, u64)> { (0..1000).map(|seed| run(seed, fence)).collect() };
    assert_eq!(seen(false), HashSet::from([(0, 0), (0, 1), (1, 1)]));
    assert_eq!(seen(true), HashSet::from([(0, 0), (1, 1)]));
}

#[test]
fn on_one_host_only_the_dead_are_fenced_and_over_a_network_the_living_are_shut_out() {
    for seed in 0..100 {
        for paused in [false, true] {
            let sim = simulation(seed);
            let (other, identity) = identified(&sim, "lives");
            let client = sim.spawn("lives", async move {
                for _ in 0..20 {
                    add(&other, word(0)).await.unwrap();
                }
                // It goes on living, so that only its death makes a fence.
                other.pause(1_000_000_000).await;
            });
            let (endpoint, control) = (sim.endpoint("fences"), sim.control());
            let fenced = sim.block_on(async move {
                endpoint.pause(200).await;
                if paused {
                    control.pause(client);
                }
                let alive = (endpoint.is_dead(identity).await, endpoint.shut_out(identity).await);
                control.kill(client);
                let dead = (endpoint.is_dead(identity).await, endpoint.shut_out(identity).await);
                let nobody = endpoint.is_dead(atoll_fabric::Identity::from_bits(77)).await;
                (alive, dead, nobody)
            });
            assert_eq!(fenced.unwrap(), ((Ok(false), Ok(false)), (Ok(true), Ok(true)), Ok(true)));
        }
        let sim = forced(seed);
        let (other, identity) = identified(&sim, "shut out");
        let counted = Rc::new(Cell::new(0));
        let (counts, ended) = (counted.clone(), Rc::new(Cell::new(false)));
        let end = ended.clone();
        sim.spawn("shut out", async move {
            while add(&other, word(0)).await.map_err(|error| assert_eq!(error, VerbError::Fenced)).is_ok() {
                counts.set(counts.get() + 1);
            }
            assert_eq!(add(&other, word(0)).await, Err(VerbError::Fenced));
            let mut batch = Batch::new();
            batch.fetch_and_add(word(0), 1);
            other.post_unawaited(&mut batch);
            assert_eq!(other.flush().await, Err(VerbError::Fenced));
            assert_eq!(other.shut_out(identity).await, Err(VerbError::Fenced));
            end.set(true);
        });
        let endpoint = sim.endpoint("fences");
        let (before, after) = sim
            .block_on(async move {
                endpoint.pause(seed * 10).await;
                assert_eq!(endpoint.is_dead(identity).await, Ok(false), "asking does no harm");
                assert_eq!(endpoint.shut_out(identity).await, Ok(true));
                let before = read(&endpoint, word(0)).await.unwrap();
                endpoint.pause(10_000_000).await;
                (before, read(&endpoint, word(0)).await.unwrap())
            })
            .unwrap();
        assert_eq!(before, after, "seed {seed}: something took effect behind the fence");
        assert!(ended.get() && (counted.get()..=counted.get() + 1).contains(&after));
    }
}

#[test]
fn an_endpoint_that_was_dropped_counts_as_dead() {
    let sim = simulation(1);
    let (gone, identity) = identified(&sim, "gone");
    drop(gone);
    let endpoint = sim.endpoint("fences");
    assert_eq!(sim.block_on(async move { endpoint.shut_out(identity).await }).unwrap(), Ok(true));
}

#[test]
fn a_paused_client_stands_still_while_others_go_on_and_resumes() {
    let mut frozen = [0; 2];
    for seed in 0..200 {
        let sim = simulation(seed);
        let (paused, steps) = (sim.endpoint("paused"), Rc::new(Cell::new(0)));
        let counter = steps.clone();
        let client = sim.spawn("paused", async move {
            for _ in 0..100 {
                counter.set(counter.get() + 1);
                add(&paused, word(0)).await.unwrap();
            }
        });
        sim.control().fault(client, Fault::Pause { ns: 50_000_000 }, After::Steps(seed % 50));
        let (endpoint, control) = (sim.endpoint("goes on"), sim.control());
        let before = sim.block_on(async move {
            while control.state(client) == ClientState::Running {
                endpoint.pause(1000).await;
            }
            assert_eq!(control.state(client), ClientState::Paused);
            // What goes on has landed then.
            endpoint.pause(10_000_000).await;
            let (polls, adds) = (steps.get(), read(&endpoint, word(0)).await.unwrap());
            endpoint.pause(20_000_000).await;
            assert_eq!(steps.get(), polls, "a paused task was polled");
            if seed % 2 == 0 {
                control.resume(client);
                endpoint.pause(10_000_000).await;
                assert!(read(&endpoint, word(0)).await.unwrap() > adds.min(99));
            }
            (polls, adds)
        });
        let (polls, adds) = before.unwrap();
        // A batch in flight stood still or went on.
        frozen[usize::from(adds == polls)] += 1;
        assert_eq!(sim.peek_word(word(0)), 100);
        assert!(seed % 2 == 0 || sim.now_ns() >= 50_000_000);
    }
    assert!(frozen.iter().all(|runs| *runs > 10), "{frozen:?}");
}

/// Takes the lock at word 0, which holds its owner; adds to word 1 without an atomic; releases.
/// A client that waits too long fences the owner, if it can, and takes over.
async fn locked_add(endpoint: &SimEndpoint, takes_over: bool) -> Result<(), VerbError> {
    let me = u64::from(endpoint.identity().bits());
    let mut spins = 0;
    let mut expected = 0;
    loop {
        let found = swap(endpoint, word(0), expected, me).await?;
        if found == expected {
            break;
        }
        expected = 0;
        spins += 1;
        endpoint.pause(1000).await;
        if takes_over && spins % 20 == 0 && endpoint.shut_out(atoll_fabric::Identity::from_bits(found as u32)).await? {
            expected = found;
        }
    }
    let value = read(endpoint, word(1)).await?;
    write(endpoint, word(1), value + 1).await?;
    swap(endpoint, word(0), me, 0).await.map(drop)
}

fn locked(sim: &Sim, takes_over: bool) -> Rc<Cell<u64>> {
    let done = Rc::new(Cell::new(0));
    for number in 0..4 {
        let (endpoint, done) = (sim.endpoint(&format!("client {number}")), done.clone());
        sim.spawn(&format!("client {number}"), async move {
            for _ in 0..10 {
                if locked_add(&endpoint, takes_over).await.is_err() {
                    return;
                }
                done.set(done.get() + 1);
            }
        });
    }
    done
}

#[test]
fn a_killed_lock_holder_is_fenced_and_nobody_waits_for_ever_nor_loses_an_update() {
    let faults = Faults { ns_max: 1_000_000, ..Faults::host(2, 2, 100) };
    let options = |seed| SimOptions { steps_max: 200_000, faults, ..SimOptions::new(seed, 64) };
    let (mut kills, mut stuck) = (0, 0);
    for seed in 0..500 {
        let sim = Sim::new(options(seed));
        let done = locked(&sim, true);
        sim.run().unwrap();
        let dead = sim.control().killed().len() as u64;
        kills += dead;
        // What a dead one was at may have been counted or not.
        let sum = sim.peek_word(word(1));
        assert!(
            (done.get()..=done.get() + dead).contains(&sum),
            "seed {seed}: {sum} of {} and {dead} dead",
            done.get()
        );

        let sim = Sim::new(options(seed));
        locked(&sim, false);
        stuck += u64::from(sim.run().is_err());
    }
    assert!(kills > 300 && stuck > 50, "{kills} kills, {stuck} stuck without fences");
}

#[test]
fn an_update_behind_an_unfenced_takeover_is_lost_by_some_seed() {
    // As above, but the lock is taken from any slow client, alive or not.
    let faults = Faults { ns_max: 1_000_000, ..Faults::host(0, 3, 50) };
    let wrong = (0..300).filter(|seed| {
        let sim = Sim::new(SimOptions { faults, ..SimOptions::new(*seed, 64) });
        for number in 0..3 {
            let endpoint = sim.endpoint("breaks locks");
            sim.spawn(&format!("client {number}"), async move {
                for _ in 0..10 {
                    let (me, mut expected, mut spins) = (u64::from(endpoint.identity().bits()), 0, 0);
                    while swap(&endpoint, word(0), expected, me).await.unwrap() != expected {
                        endpoint.pause(1000).await;
                        spins += 1;
                        expected = if spins % 20 == 0 { read(&endpoint, word(0)).await.unwrap() } else { 0 };
                    }
                    let value = read(&endpoint, word(1)).await.unwrap();
                    write(&endpoint, word(1), value + 1).await.unwrap();
                    swap(&endpoint, word(0), me, 0).await.unwrap();
                }
            });
        }
        sim.run().unwrap();
        sim.peek_word(word(1)) != 30
    });
    assert!(wrong.count() > 10);
}

#[test]
fn an_outcome_is_unknown_and_the_effect_comes_never_or_late_until_a_fence() {
    let run = |seed, fence: bool| {
        let sim = forced(seed);
        let (lost, identity) = identified(&sim, "loses");
        let outcome = Rc::new(Cell::new(false));
        let known = outcome.clone();
        let client = sim.spawn("loses", async move {
            let (mut batch, mut buffer) = (Batch::new(), Buffer::new());
            buffer.resize(16);
            buffer.words_mut().fill(7);
            let written = batch.write(word(2), buffer);
            batch.fetch_and_add(word(0), 1);
            let result = lost.post(&mut batch).await;
            known.set(result == Err(VerbError::OutcomeUnknown));
            // The fabric may keep the buffer, but the batch is still one of the same verbs.
            batch.take(written);
        });
        sim.control().fault(client, Fault::OutcomeUnknown, After::Steps(1 + seed % 4));
        let (endpoint, known) = (sim.endpoint("looks"), outcome.clone());
        let seen = sim.block_on(async move {
            while !known.get() && endpoint.now_ns() < u64::MAX / 2 && read(&endpoint, word(0)).await.unwrap() == 0 {
                endpoint.pause(10).await;
            }
            if fence {
                endpoint.shut_out(identity).await.unwrap();
            }
            let early = read(&endpoint, word(0)).await.unwrap();
            endpoint.pause(10_000_000_000).await;
            (early, read(&endpoint, word(0)).await.unwrap())
        });
        (outcome.get(), seen.unwrap())
    };
    let seen = |fence: bool| -> BTreeSet<(u64, u64)> {
        (0..1000).map(|seed| run(seed, fence)).filter(|(unknown, _)| *unknown).map(|(_, seen)| seen).collect()
    };
    assert_eq!(seen(false), BTreeSet::from([(0, 0), (0, 1), (1, 1)]));
    assert_eq!(seen(true), BTreeSet::from([(0, 0), (1, 1)]));
}
