//! The simulated fabric passes the suite under every strategy, with and without its relaxations.

use atoll_fabric::Kind;
use atoll_fabric::conformance::control::{self, ControlFixture, Done};
use atoll_fabric::conformance::{self, Case, Fixture, REGION_BYTES};
use atoll_sim::sim::region;
use atoll_sim::{Faults, Fencing, Relaxations, Sim, SimEndpoint, SimFabric, SimOptions, Strategy, for_each_seed};

struct Simulated {
    seed: u64,
    strategy: Strategy,
    relaxations: Relaxations,
    fencing: Fencing,
    faults: Faults,
}

impl Fixture for Simulated {
    type Endpoint = SimEndpoint;

    fn run(&self, case: &Case<SimEndpoint>) {
        let Self { seed, strategy, relaxations, fencing, faults } = *self;
        let rounds = 8;
        let nodes = vec![vec![region(REGION_BYTES, Kind::Host)]; case.nodes.into()];
        let options = SimOptions::with_nodes(seed, nodes);
        let sim = Sim::new(SimOptions { strategy, relaxations, fencing, faults, ..options });
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
            let (relaxations, faults) = (Relaxations::all(), Faults::none());
            conformance::run(&Simulated { seed, strategy, relaxations, fencing, faults });
        });
    }
}

#[test]
fn the_simulated_fabric_passes_without_relaxations() {
    let (strategy, relaxations, fencing) = (Strategy::FromSeed, Relaxations::none(), Fencing::Forced);
    let faults = Faults::none();
    for_each_seed(10, |seed| conformance::run(&Simulated { seed, strategy, relaxations, fencing, faults }));
}

#[test]
fn messages_keep_their_contract_with_and_without_relaxations() {
    let (strategy, fencing, faults) = (Strategy::FromSeed, Fencing::Observed, Faults::none());
    for relaxations in [Relaxations::all(), Relaxations::none()] {
        for_each_seed(40, |seed| {
            conformance::run_messages(&Simulated { seed, strategy, relaxations, fencing, faults })
        });
    }
}

#[test]
fn compute_nodes_export_regions_with_and_without_relaxations() {
    let (strategy, faults) = (Strategy::FromSeed, Faults::none());
    for relaxations in [Relaxations::all(), Relaxations::none()] {
        for_each_seed(40, |seed| {
            let fencing = if seed % 2 == 0 { Fencing::Observed } else { Fencing::Forced };
            conformance::run_exports(&Simulated { seed, strategy, relaxations, fencing, faults });
            conformance::run_followed(&Simulated { seed, strategy, relaxations, fencing, faults });
        });
    }
}

#[test]
fn unknown_outcomes_keep_their_contract_with_and_without_relaxations() {
    let strategy = Strategy::FromSeed;
    let faults = Faults { unknowns_max: 12, steps_between: 8, ns_max: 3_000_000, ..Faults::none() };
    for relaxations in [Relaxations::all(), Relaxations::none()] {
        for_each_seed(60, |seed| {
            let fencing = if seed % 2 == 0 { Fencing::Observed } else { Fencing::Forced };
            conformance::run_unknown(&Simulated { seed, strategy, relaxations, fencing, faults });
        });
    }
}

/// The control plane of a simulation without any region.
struct Control {
    sim: std::cell::RefCell<Sim>,
}

impl ControlFixture for Control {
    type Fabric = SimFabric;

    fn with(&self, plays: &dyn Fn(&SimFabric)) {
        let seed = self.sim.borrow().seed();
        self.sim.replace(Sim::new(SimOptions::with_nodes(seed, Vec::new())));
        let fabric = self.sim.borrow().fabric(0);
        plays(&fabric);
    }

    fn done(&self, done: Done) -> u64 {
        self.sim.borrow().block_on(done).unwrap()
    }
}

#[test]
fn the_simulated_control_plane_keeps_its_contract() {
    for_each_seed(20, |seed| {
        let sim = Sim::new(SimOptions::with_nodes(seed, Vec::new())).into();
        control::run(&Control { sim });
    });
}
