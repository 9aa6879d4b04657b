//! The simulated fabric passes the suite under every strategy, with and without its liberties.

use atoll_fabric::conformance::{self, Case, Fixture, REGION_BYTES};
use atoll_sim::{Fencing, Liberties, Sim, SimEndpoint, SimOptions, Strategy, for_each_seed};

struct Simulated {
    seed: u64,
    strategy: Strategy,
    liberties: Liberties,
    fencing: Fencing,
}

impl Fixture for Simulated {
    type Endpoint = SimEndpoint;

    fn run(&self, case: &Case<SimEndpoint>) {
        let Self { seed, strategy, liberties, fencing } = *self;
        let rounds = 8;
        let sim = Sim::new(SimOptions { strategy, liberties, fencing, ..SimOptions::new(seed, REGION_BYTES) });
        for client in 0..case.clients {
            let name = format!("client {client}");
            sim.spawn(&name, (case.play)(sim.endpoint(&name), client, rounds));
        }
        sim.run().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        sim.block_on((case.verify)(sim.endpoint("verify"), rounds)).unwrap();
    }
}

#[test]
fn the_simulated_fabric_passes_under_every_strategy() {
    for strategy in [Strategy::Uniform, Strategy::Bursts, Strategy::Priorities] {
        for_each_seed(30, |seed| {
            let fencing = if seed % 2 == 0 { Fencing::Observed } else { Fencing::Forced };
            conformance::run(&Simulated { seed, strategy, liberties: Liberties::all(), fencing });
        });
    }
}

#[test]
fn the_simulated_fabric_passes_without_liberties() {
    let (strategy, liberties, fencing) = (Strategy::FromSeed, Liberties::none(), Fencing::Forced);
    for_each_seed(10, |seed| conformance::run(&Simulated { seed, strategy, liberties, fencing }));
}

#[test]
fn messages_keep_their_contract_with_and_without_liberties() {
    let (strategy, fencing) = (Strategy::FromSeed, Fencing::Observed);
    for liberties in [Liberties::all(), Liberties::none()] {
        for_each_seed(40, |seed| conformance::run_messages(&Simulated { seed, strategy, liberties, fencing }));
    }
}
