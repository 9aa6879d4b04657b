//! Who is a client, while joiners die anywhere, all look alike, and the registry is nearly full;
//! and what an opener does who reads another boot id.

use atoll_fabric::{Address, Batch, Domain, Endpoint, Identity, Kind, VerbError};
use atoll_pool::boot::{self, Verdict};
use atoll_pool::header;
use atoll_pool::registry::{self, PROTECTIONS, Place, Protection};
use atoll_pool::{ChunkId, EngineArea, Member, PlaceState, Pool, PoolError, PoolSettings, read_word};
use atoll_sim::sim::region;
use atoll_sim::{After, Fault, Fencing, Sim, SimEndpoint, SimOptions, for_each_seed};
use std::cell::Cell;
use std::rc::Rc;

const CAPACITY_BYTES: u64 = 1 << 20;
/// More steps than a join has.
const STEPS_MAX: u64 = 120;

/// A simulation with a pool for this many clients.
fn formatted(seed: u64, fencing: Fencing, clients_max: u32) -> (Sim, Pool) {
    let settings = PoolSettings { clients_max, ..PoolSettings::for_capacity(CAPACITY_BYTES) };
    let nodes = vec![vec![region(CAPACITY_BYTES, Kind::Host)]];
    let sim = Sim::new(SimOptions { fencing, ..SimOptions::with_nodes(seed, nodes) });
    let endpoint = sim.endpoint("maker");
    let area = EngineArea { home_bytes: 64, share_bytes: 0 };
    let pool = sim.block_on(async move { Pool::format(&endpoint, settings, area).await }).unwrap().unwrap();
    (sim, pool)
}

/// Plays one client in a pool for this many.
fn played(clients_max: u32, play: impl AsyncFnOnce(SimEndpoint, Pool) + 'static) {
    let (sim, pool) = formatted(1, Fencing::Observed, clients_max);
    let endpoint = sim.endpoint("client");
    sim.block_on(async move { play(endpoint, pool).await }).unwrap();
}

/// Makes the places of the dead Fenced and frees them, as a repair does that finds nothing of
/// theirs; gives what is left.
async fn repaired(endpoint: &SimEndpoint, pool: &Pool) -> Vec<Place> {
    for place in registry::places(endpoint, pool).await.unwrap() {
        registry::fence_dead(endpoint, pool, &place).await.unwrap();
    }
    for place in registry::places(endpoint, pool).await.unwrap() {
        if place.state == PlaceState::Fenced {
            assert!(registry::free(endpoint, pool, &place).await.unwrap());
        }
    }
    registry::places(endpoint, pool).await.unwrap()
}

#[test]
fn a_joiner_that_dies_at_any_step_keeps_no_place() {
    for_each_seed(2, |seed| {
        for steps in 0..STEPS_MAX {
            for fencing in [Fencing::Observed, Fencing::Forced] {
                let (sim, pool) = formatted(seed, fencing, 1);
                let (endpoint, joined) = (sim.endpoint("dies"), pool.clone());
                let client = sim.spawn("dies", async move {
                    Member::join(&endpoint, &joined).await.unwrap();
                    endpoint.pause(1_000_000_000_000).await;
                });
                sim.control().fault(client, Fault::Kill, After::Steps(steps));
                let (endpoint, control) = (sim.endpoint("comes then"), sim.control());
                sim.block_on(async move {
                    endpoint.pause(1_000_000_000).await;
                    // If its steps ended sooner, it has joined.
                    control.kill(client);
                    let member = Member::join(&endpoint, &pool).await.unwrap();
                    member.check(&endpoint).await.unwrap();
                    member.leave(&endpoint).await.unwrap();
                    let places = repaired(&endpoint, &pool).await;
                    assert!(
                        places.iter().all(|place| place.state == PlaceState::Free),
                        "after {steps} steps: {places:?}"
                    );
                })
                .unwrap();
            }
        }
    });
}

/// Everyone calls itself process 1 of no namespace: only the endpoint's identity tells who has
/// died.
#[test]
fn of_clients_that_look_alike_only_the_dead_one_is_fenced() {
    for_each_seed(20, |seed| {
        let (sim, pool) = formatted(seed, Fencing::Observed, 4);
        let clients: Vec<_> = (0..3)
            .map(|number| {
                let (endpoint, pool) = (sim.endpoint(&format!("client {number}")), pool.clone());
                sim.spawn(&format!("client {number}"), async move {
                    Member::join(&endpoint, &pool).await.unwrap();
                    endpoint.pause(1_000_000_000_000).await;
                })
            })
            .collect();
        let (endpoint, control) = (sim.endpoint("looks"), sim.control());
        sim.block_on(async move {
            endpoint.pause(1_000_000_000).await;
            let before = registry::places(&endpoint, &pool).await.unwrap();
            let mut origins = Vec::new();
            for place in &before {
                origins.push(registry::origin(&endpoint, &pool, place.incarnation).await.unwrap());
            }
            assert!(origins.iter().all(|origin| *origin == origins[0] && origin.is_some()));
            control.kill(clients[1]);
            let mut gone = Vec::new();
            for place in &before {
                if registry::fence_dead(&endpoint, &pool, place).await.unwrap() {
                    gone.push(control.identified(place.identity));
                }
            }
            assert_eq!(gone, [Some(clients[1])]);
        })
        .unwrap();
    });
}

#[test]
fn a_registry_that_is_nearly_full_has_a_place_for_all_that_live() {
    for_each_seed(30, |seed| {
        let (sim, pool) = formatted(seed, Fencing::Observed, 3);
        let control = sim.control();
        let left = Rc::new(Cell::new(0));
        // Two at a time live; of all that come, every second one dies on its way.
        let endpoint = sim.endpoint("driver");
        let counted = left.clone();
        sim.block_on(async move {
            for round in 0..20u64 {
                let (member, pool, left) = (control.endpoint("comes"), pool.clone(), counted.clone());
                let client = control.spawn(&format!("comes {round}"), async move {
                    match Member::join(&member, &pool).await {
                        Ok(joined) => {
                            joined.check(&member).await.unwrap();
                            joined.leave(&member).await.unwrap();
                            left.set(left.get() + 1);
                        }
                        Err(error) => panic!("{error}"),
                    }
                });
                if round % 2 == 0 {
                    control.fault(client, Fault::Kill, After::Steps(endpoint.random() % STEPS_MAX));
                }
                if round % 2 == 1 {
                    endpoint.pause(10_000_000_000).await;
                }
            }
            let places = repaired(&endpoint, &pool).await;
            assert!(places.iter().all(|place| place.state == PlaceState::Free), "{places:?}");
        })
        .unwrap();
        assert!(left.get() >= 10, "those that were not killed left");
    });
}

#[test]
fn a_client_that_was_shut_out_is_told_so_and_its_epoch_never_comes_again() {
    played(2, async |endpoint, pool| {
        let member = Member::join(&endpoint, &pool).await.unwrap();
        member.check(&endpoint).await.unwrap();
        let [place] = registry::places(&endpoint, &pool).await.unwrap()[..] else { panic!("one place was taken") };
        let origin = registry::origin(&endpoint, &pool, place.incarnation).await.unwrap();
        assert_eq!((place.identity, origin), (endpoint.identity(), Some(endpoint.origin())));
        assert!(!registry::fence_dead(&endpoint, &pool, &place).await.unwrap(), "it lives");
        assert!(registry::declare_dead(&endpoint, &pool, &place).await.unwrap());
        assert_eq!(member.check(&endpoint).await, Err(VerbError::Fenced));
        let again = Member::join(&endpoint, &pool).await.unwrap();
        assert!(again.took_over && again.incarnation.slot == 0 && again.incarnation.epoch == 2);
        assert_eq!(member.check(&endpoint).await, Err(VerbError::Fenced));
        assert_eq!(again.check(&endpoint).await, Ok(()));
        // What has left names no endpoint.
        again.leave(&endpoint).await.unwrap();
        let places = registry::places(&endpoint, &pool).await.unwrap();
        assert_eq!((places[0].state, places[0].identity), (PlaceState::Free, Identity::NOBODY));
    });
}

/// Else an observer that saw an earlier client's lease, and later the same of its successor, would
/// take the successor for one that stood still in between; and one that came for a client at rest
/// would be overlooked by those who wait.
#[test]
fn a_lease_of_a_place_never_has_a_value_again_and_a_new_client_is_not_at_rest() {
    played(1, async |endpoint, pool| {
        let mut leases = Vec::new();
        for rounds in [3, 0, 1, 2] {
            let member = Member::join(&endpoint, &pool).await.unwrap();
            for round in 0..=rounds {
                if round > 0 {
                    member.renew(&endpoint, 1);
                    endpoint.flush().await.unwrap();
                }
                let place = registry::places(&endpoint, &pool).await.unwrap().remove(0);
                assert!(!place.is_at_rest());
                leases.push(place.lease);
            }
            member.begin(&endpoint).await.unwrap();
            member.rest(&endpoint, || true).await.unwrap();
            assert!(registry::places(&endpoint, &pool).await.unwrap()[0].is_at_rest());
            member.leave(&endpoint).await.unwrap();
        }
        assert!(leases.is_sorted_by(|before, after| before < after), "{leases:?}");
    });
}

#[test]
fn a_pool_that_is_open_elsewhere_is_not_touched_by_an_opener_with_another_boot_id() {
    played(2, async |endpoint, pool| {
        let member = Member::join(&endpoint, &pool).await.unwrap();
        boot::count_join(&endpoint, &pool.layout).await.unwrap();
        let clock = read_word(&endpoint, pool.layout.clock()).await.unwrap();
        let mine = endpoint.boot().map_or(7, |boot| boot ^ 1);
        for (is_volatile, is_shared) in [(true, false), (true, true), (false, true)] {
            let verdict = boot::look(&endpoint, &pool.layout, Some(mine), is_volatile, is_shared).await.unwrap();
            assert_eq!(verdict, Verdict::OtherBoot);
            let settled = boot::settle(&endpoint, &pool, Some(mine), is_volatile, verdict).await;
            assert!(matches!(settled, Err(PoolError::OtherBoot { .. })), "{settled:?}");
            let unknown = boot::look(&endpoint, &pool.layout, None, is_volatile, is_shared).await.unwrap();
            assert_eq!(unknown, Verdict::GoesOn);
        }
        member.check(&endpoint).await.unwrap();
        assert_eq!(read_word(&endpoint, pool.layout.clock()).await.unwrap(), clock);
        // Alone with a file on a disk that was not closed it is made anew.
        let verdict = boot::look(&endpoint, &pool.layout, Some(mine), false, false).await.unwrap();
        assert_eq!(verdict, Verdict::MadeAnew);
        assert!(boot::settle(&endpoint, &pool, Some(mine), false, verdict).await.unwrap());
        assert_eq!(member.check(&endpoint).await, Err(VerbError::Fenced));
        let verdict = boot::look(&endpoint, &pool.layout, Some(mine), false, false).await.unwrap();
        assert_eq!(verdict, Verdict::GoesOn);
    });
}

/// Atomics of two agents do not exclude each other.
#[test]
fn a_pool_whose_atomics_are_of_another_domain_is_refused() {
    let (sim, _) = formatted(1, Fencing::Observed, 2);
    let open = |name| {
        let endpoint = sim.endpoint(name);
        sim.block_on(async move { Pool::open(&endpoint, CAPACITY_BYTES).await.map(drop) }).unwrap()
    };
    assert_eq!(open("of the same"), Ok(()));
    let at = |word: usize| Address::new(0, 0, 8 * word as u64);
    let mut words: [u64; 32] = std::array::from_fn(|word| sim.peek_word(at(word)));
    words[24] = 0;
    header::seal(&mut words);
    words.iter().enumerate().for_each(|(word, value)| sim.poke_word(at(word), *value));
    assert_eq!(open("of another"), Err(PoolError::Domain { found: 0, mine: Domain::Nic }));
}

/// Each operation of a client has its own protection. A client that is about to reuse a chunk sees
/// all of them, however many the other client has. It sees none of the place's previous client.
#[test]
fn all_protections_of_a_client_are_seen_and_none_of_the_last_client_of_its_place() {
    for_each_seed(20, |seed| {
        let (sim, pool) = formatted(seed, Fencing::Observed, 2);
        let endpoints = [sim.endpoint("holder"), sim.endpoint("looker")];
        sim.block_on(async move {
            let [holder, looker] = &endpoints;
            let me = Member::join(looker, &pool).await.unwrap();
            let all: Vec<_> = (0..PROTECTIONS).map(ChunkId).collect();
            let seen = async || {
                let mut chunks = registry::protected_among(looker, &pool, (&me, 1), &all).await.unwrap().0;
                chunks.sort_unstable();
                chunks
            };
            for operations in [1, 2, PROTECTIONS] {
                let member = Member::join(holder, &pool).await.unwrap();
                assert_eq!(seen().await, []);
                let mut protections: Vec<_> = (0..operations).map(|_| Protection::default()).collect();
                let wanted: Vec<_> = (0..operations).map(ChunkId).collect();
                for (protection, chunk) in protections.iter_mut().zip(&wanted) {
                    member.prepare(holder, protection).await.unwrap();
                    let mut batch = Batch::new();
                    member.protect(&mut batch, protection, *chunk);
                    holder.post(&mut batch).await.unwrap();
                }
                assert_eq!(seen().await, wanted);
                assert_eq!(member.protected().collect::<Vec<_>>(), wanted);
                for protection in &mut protections[1..] {
                    member.unprotect(holder, protection);
                }
                holder.flush().await.unwrap();
                assert_eq!(seen().await, wanted[..1]);
                // It leaves with one that it has not ended.
                member.leave(holder).await.unwrap();
                assert_eq!(seen().await, []);
            }
        })
        .unwrap();
    });
}
