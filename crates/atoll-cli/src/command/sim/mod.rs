//! The command `sim`: one file for each command.

mod explore;
mod replay;
mod swarm;

use atoll_cases::engine::SimulatedEngine;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use explore::ExploreCommand;
use replay::ReplayCommand;
use std::error::Error;
use swarm::SwarmCommand;

/// Simulations: find faults under all failures that the contract permits
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum SimCommand {
    /// Draw pools, loads, relaxations and failures from seeds, and look for faults
    Swarm(SwarmCommand),
    /// Run every interleaving of a small case
    Explore(ExploreCommand),
    /// Replay one drawn case
    Replay(ReplayCommand),
}

impl SimCommand {
    /// Simulates and prints the result.
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Swarm(command) => command.run(),
            Self::Explore(command) => command.run(),
            Self::Replay(command) => command.run(),
        }
    }
}

/// What cases of an engine are drawn from.
fn drawn(engine: SimulatedEngine) -> String {
    let forms = engine.identity().forms.iter().map(|form| form.name);
    format!("Options of {}", forms.collect::<Vec<_>>().join(", "))
}

/// Parses the name of an engine.
fn engine() -> impl TypedValueParser<Value = SimulatedEngine> {
    let values = SimulatedEngine::ALL.iter().map(|engine| PossibleValue::new(engine.name()).help(drawn(*engine)));
    PossibleValuesParser::new(values).map(|name| {
        let named = SimulatedEngine::ALL.iter().copied().find(|engine| engine.name() == name);
        named.expect("clap lets names of the list through alone")
    })
}
