//! The command `sim`, for a binary to mount.

use super::explore_command::ExploreCommand;
use super::swarm::{ReplayCommand, SwarmCommand};
use crate::LabError;

/// Simulations: what goes wrong when anything may
#[derive(Clone, Debug, clap::Subcommand)]
pub enum SimCommand {
    /// Draw pools, loads, liberties and faults from seeds, and look for what goes wrong
    Swarm(SwarmCommand),
    /// Run every interleaving of a small case
    Explore(ExploreCommand),
    /// Run one drawn case again
    Replay(ReplayCommand),
}

impl SimCommand {
    /// Simulates and prints what came of it.
    pub fn run(self) -> Result<(), LabError> {
        match self {
            Self::Swarm(command) => command.run(),
            Self::Explore(command) => command.run(),
            Self::Replay(command) => command.run(),
        }
    }
}
