//! The command line: one file for each command.

mod engine;
#[cfg(feature = "lab")]
mod lab;
mod new_pool;
mod node;
mod pool;
mod serve;
#[cfg(feature = "lab")]
mod sim;
mod size;

use atoll::fabric::PoolFabric;
use atoll::{OpenError, Pool};
use clap::Parser;
use std::error::Error;

/// A cache whose memory is a pool that every process can reach.
#[derive(Debug, Parser)]
#[command(name = "atoll", version, about, propagate_version = true)]
pub(crate) enum Command {
    /// Serve a cache to Redis clients
    Serve(serve::ServeCommand),
    /// Lend memory of this host to pools of other hosts
    Node(node::NodeCommand),
    /// Create, inspect, verify, repair and remove pools
    #[command(subcommand)]
    Pool(pool::PoolCommand),
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
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Serve(command) => command.run(),
            Self::Node(command) => command.run(),
            Self::Pool(command) => command.run(),
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

/// The requested capacity. The default is 1 GiB, or less if the host has no room for it; that is
/// reported on standard error.
fn capacity_or_default(given: Option<u64>, name: Option<&str>) -> u64 {
    const DEFAULT_BYTES: u64 = 1 << 30;
    given.unwrap_or_else(|| {
        let (bytes, less) = atoll_fabric::shm::host::capacity_default(name, DEFAULT_BYTES);
        if let Some(room) = less {
            eprintln!("{room}: the pool has {bytes} bytes, and not {DEFAULT_BYTES} (--capacity)");
        }
        bytes
    })
}

/// Opens a pool. If opening it emptied it, that is reported on standard error.
fn open_pool<F: PoolFabric>(fabric: &F) -> Result<Pool<F>, OpenError> {
    let pool = Pool::open_on(fabric)?;
    let name = fabric.address().unwrap_or("the pool");
    if pool.was_reformatted() {
        eprintln!("{name} was in use when its host went down: it was made anew with the same settings, and is empty");
    }
    Ok(pool)
}
