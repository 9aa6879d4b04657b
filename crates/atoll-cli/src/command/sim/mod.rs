//! The command `sim`: one file a command.

mod explore;
mod replay;
mod swarm;

use atoll_cases::engine::SimulatedEngine;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use explore::ExploreCommand;
use replay::ReplayCommand;
use std::error::Error;
use swarm::SwarmCommand;

/// Simulations: what goes wrong when anything may
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum SimCommand {
    /// Draw pools, loads, relaxations and faults from seeds, and look for what goes wrong
    Swarm(SwarmCommand),
    /// Run every interleaving of a small case
    Explore(ExploreCommand),
    /// Run one drawn case again
    Replay(ReplayCommand),
}

impl SimCommand {
    /// Simulates and prints what came of it.
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Swarm(command) => command.run(),
            Self::Explore(command) => command.run(),
            Self::Replay(command) => command.run(),
        }
    }
}

/// Reads the name of an engine.
fn engine() -> impl TypedValueParser<Value = SimulatedEngine> {
    let values = SimulatedEngine::ALL.iter().map(|engine| PossibleValue::new(engine.name()).help(engine.what()));
    PossibleValuesParser::new(values).map(|name| {
        let named = SimulatedEngine::ALL.iter().copied().find(|engine| engine.name() == name);
        named.expect("clap lets names of the list through alone")
    })
}
