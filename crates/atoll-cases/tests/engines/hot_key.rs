//! Many clients set one key at a time, on a simulated network in virtual time: no client waits for
//! another (see `overtaken`).

use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Pooled, SetOptions};
use atoll_cases::compiled::sim;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Kind, Purpose};
use atoll_pool::PoolSettings;
use atoll_sim::network::{Network, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::cell::Cell;
use std::rc::Rc;

const COMPUTE_NODES: u16 = 4;
const SETS: u64 = 50;

/// What a SET costs when so many clients set one key: round trips in the mean, and the longest time
/// in microseconds. What the clients pay to join and to leave is no part of it.
fn cost_of_a_set<G: Pooled<CaseEndpoint> + 'static>(settings: PoolSettings, clients: u16) -> (f64, u64) {
    let (beside, _) = cost_of_sets::<G>(settings.clone(), clients, 0);
    let (round_trips, longest_us) = cost_of_sets::<G>(settings, clients, SETS);
    ((round_trips - beside) as f64 / (f64::from(clients) * SETS as f64), longest_us)
}

/// Round trips of `clients` clients that join, make `sets` SETs each, and leave; and the longest
/// time of a SET in microseconds.
fn cost_of_sets<G: Pooled<CaseEndpoint> + 'static>(settings: PoolSettings, clients: u16, sets: u64) -> (u64, u64) {
    let settings = PoolSettings { clients_max: u32::from(clients) + 2, ..settings };
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX6_100G, COMPUTE_NODES)));
    let endpoint = CaseEndpoint::new(sim.endpoint("maker"));
    let pool = sim.block_on(async move { G::format(&endpoint, settings).await.unwrap() }).unwrap();
    let longest_ns = Rc::new(Cell::new(0));
    for number in 0..clients {
        let (pool, endpoint) = (pool.clone(), CaseEndpoint::new(sim.endpoint_on("client", number % COMPUTE_NODES)));
        let longest_ns = longest_ns.clone();
        sim.spawn("client", async move {
            use atoll_fabric::Endpoint;
            let cache = Cache::new(G::join(&pool, endpoint).await.unwrap());
            for _ in 0..sets {
                let begun_ns = cache.engine().client().endpoint.now_ns();
                cache.set(b"hot", &[7; 200], &SetOptions::default()).await.unwrap();
                longest_ns.set(longest_ns.get().max(cache.engine().client().endpoint.now_ns() - begun_ns));
            }
            assert_eq!(cache.stats().puts, sets);
            cache.into_engine().leave().await.unwrap();
        });
    }
    sim.run().unwrap();
    (sim.traffic().unwrap().of(Purpose::Request).round_trips, longest_ns.get() / 1000)
}

/// `looks`: the round trips that a SET may cost more if other clients set its key, too.
fn a_set_costs_a_few_looks_more<G: Pooled<CaseEndpoint> + 'static>(settings: PoolSettings, looks: f64) {
    let (alone, _) = cost_of_a_set::<G>(settings.clone(), 1);
    for clients in [8, 64] {
        let (round_trips, longest_us) = cost_of_a_set::<G>(settings.clone(), clients);
        println!(
            "{clients} clients: {round_trips:.2} round trips a SET, {alone:.2} alone; the longest {longest_us} us"
        );
        assert!(round_trips < alone + looks, "{clients} clients: {round_trips:.2} round trips, {alone:.2} alone");
        assert!(longest_us < 200, "{clients} clients: {longest_us} us");
    }
}

#[test]
fn a_set_of_forge_costs_a_few_looks_more_however_many_set_its_key() {
    // One look more than of `ditto`: a client that is alone sets the key without a look.
    a_set_costs_a_few_looks_more::<sim::Forge>(ForgeOptions::default().for_capacity(8 << 20), 3.0);
}

#[test]
fn a_set_of_ditto_costs_a_few_looks_more_however_many_set_its_key() {
    a_set_costs_a_few_looks_more::<sim::Ditto>(DittoOptions::default().for_capacity(8 << 20), 2.0);
}
