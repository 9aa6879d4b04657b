//! The command line: the commands of `atoll-commands`, and those of the lab.

#[cfg(feature = "lab")]
mod lab;
mod shell;
#[cfg(feature = "lab")]
mod sim;

use atoll_commands::settings::Settled;
use atoll_commands::{DoctorCommand, NodeCommand, PoolCommand, ServeCommand, TopCommand};
use clap::Parser;
use std::error::Error;

/// A cache whose memory is a pool that every process can reach.
#[derive(Debug, Parser)]
#[command(name = "atoll", version, about, propagate_version = true)]
pub(crate) enum Command {
    /// Serve a cache to Redis and memcached clients
    Serve(Box<ServeCommand>),
    /// Lend memory of this host to pools of other hosts
    Node(NodeCommand),
    /// Create, inspect, verify, repair and remove pools
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Watch a server or a pool in the terminal
    Top(TopCommand),
    Doctor(DoctorCommand),
    Completions(shell::CompletionsCommand),
    Man(shell::ManCommand),
    #[cfg(feature = "lab")]
    /// Replay a trace on a cache; report its hit ratio and its speed
    Replay(atoll_lab::replay::ReplayCommand),
    #[cfg(feature = "lab")]
    Advise(atoll_lab::advise::AdviseCommand),
    #[cfg(feature = "lab")]
    /// Experiments
    #[command(subcommand)]
    Lab(lab::LabCommand),
    #[cfg(feature = "lab")]
    /// Simulate clients that die, pause and come back, and look for faults
    #[command(subcommand)]
    Sim(sim::SimCommand),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self, settled: &Settled<'_>) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Serve(command) => command.run(settled),
            Self::Node(command) => command.run(settled),
            Self::Pool(command) => command.run(),
            Self::Top(command) => command.run(),
            Self::Doctor(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
            #[cfg(feature = "lab")]
            Self::Replay(command) => Ok(command.run()?),
            #[cfg(feature = "lab")]
            Self::Advise(command) => Ok(command.run()?),
            #[cfg(feature = "lab")]
            Self::Lab(command) => command.run(),
            #[cfg(feature = "lab")]
            Self::Sim(command) => command.run(),
        }
    }
}
