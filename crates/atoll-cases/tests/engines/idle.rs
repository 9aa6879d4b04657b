//! What idle clients cost.

use atoll_cache::Pooled;
use atoll_cases::compiled::sim;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Endpoint, Kind};
use atoll_pool::PoolSettings;
use atoll_pool::registry::Times;
use atoll_sim::network::{Network, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::cell::RefCell;
use std::rc::Rc;

const COMPUTE_NODES: u16 = 10;
const LOOKS: u64 = 40;
/// One percent of a link of 25 Gb/s.
const BYTES_PER_S_MAX: u64 = 25_000_000_000 / 8 / 100;

/// Bytes a second on the home's link, both ways, for so many clients that tend and do nothing else.
fn bytes_per_s<G: Pooled<CaseEndpoint> + 'static>(options: PoolSettings, clients: u32) -> u64 {
    let settings = PoolSettings { clients_max: clients + 2, ..options };
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let options = SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, COMPUTE_NODES));
    let sim = Sim::new(SimOptions { steps_max: u64::MAX, ..options });
    let endpoint = CaseEndpoint::new(sim.endpoint("maker"));
    let shared = sim.block_on(async move { G::format(&endpoint, settings).await.unwrap() }).unwrap();
    let engines: Vec<_> = (0..clients)
        .map(|number| {
            let (shared, endpoint) =
                (shared.clone(), CaseEndpoint::new(sim.endpoint_on("client", number as u16 % COMPUTE_NODES)));
            let joined = sim.block_on(async move { G::join(&shared, endpoint).await.unwrap() });
            Rc::new(RefCell::new(Some(joined.unwrap())))
        })
        .collect();
    let look_ns = Times::default().look_ns;
    let tend = |looks: u64| {
        for (number, place) in engines.iter().enumerate() {
            let (engine, place) = (place.take().unwrap(), place.clone());
            sim.spawn("client", async move {
                // Not all at once.
                engine.client().endpoint.pause(number as u64 * look_ns / u64::from(clients)).await;
                for _ in 0..looks {
                    engine.tend().await.unwrap();
                    engine.client().endpoint.pause(look_ns).await;
                }
                *place.borrow_mut() = Some(engine);
            });
        }
        sim.run().unwrap();
        sim.traffic().unwrap()
    };
    // Each client first finds the clients that it looks after.
    let before = tend(LOOKS);
    let passed = tend(LOOKS).since(&before);
    engines.into_iter().for_each(|engine| std::mem::forget(engine.take()));
    let home = &passed.nics[usize::from(COMPUTE_NODES)];
    println!("{clients} clients: {} bytes in, {} out in {} ms", home.bytes_in, home.bytes_out, passed.ns / 1_000_000);
    (home.bytes_in + home.bytes_out) * 1_000_000_000 / passed.ns
}

fn idle_clients_cost_little<G: Pooled<CaseEndpoint> + 'static>(options: impl Fn(u64) -> PoolSettings) {
    let [few, many] = [250, 1000].map(|clients| bytes_per_s::<G>(options(64 << 20), clients));
    println!("{few} bytes a second with 250 clients, {many} with 1000");
    assert!(many <= BYTES_PER_S_MAX, "{many} bytes a second at the home");
    assert!(many <= few * 9 / 2, "{few} bytes a second with 250 clients, {many} with 1000");
}

/// What a client READs to look after other clients does not grow with their number.
#[test]
fn a_thousand_idle_clients_of_forge_take_a_hundredth_of_a_link() {
    idle_clients_cost_little::<sim::Forge>(|bytes| atoll_cache::forge::ForgeOptions::default().for_capacity(bytes));
}

#[test]
fn a_thousand_idle_clients_of_the_table_take_a_hundredth_of_a_link() {
    let options = atoll_cache::ditto::DittoOptions::adaptive("lru+lfu".parse().unwrap());
    idle_clients_cost_little::<sim::Ditto>(|bytes| {
        options.objects().settings(PoolSettings::for_capacity(bytes), 1 << 14)
    });
}
