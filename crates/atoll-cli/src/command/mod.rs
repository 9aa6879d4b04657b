//! The command line: one file a command.

mod engine;
mod pool;
mod serve;
#[cfg(feature = "lab")]
mod sim;
mod size;

use atoll::{OpenError, Pool};
use clap::Parser;
use std::error::Error;

/// A cache whose memory is a pool that every process can reach.
#[derive(Debug, Parser)]
#[command(name = "atoll", version, about, propagate_version = true)]
pub(crate) enum Command {
    /// Serve a cache to Redis clients
    Serve(serve::ServeCommand),
    /// Make, look at, check, repair and remove pools
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    #[cfg(feature = "lab")]
    /// Replay a trace on a cache and report what it hits and how fast it is
    Replay(atoll_lab::replay::ReplayCommand),
    #[cfg(feature = "lab")]
    /// Experiments
    #[command(subcommand)]
    Lab(atoll_lab::LabCommand),
    #[cfg(feature = "lab")]
    /// Simulate clients that die, stop and come back, and look for what goes wrong
    #[command(subcommand)]
    Sim(sim::SimCommand),
}

impl Command {
    /// Does what was asked.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Serve(command) => command.run(),
            Self::Pool(command) => command.run(),
            #[cfg(feature = "lab")]
            Self::Replay(command) => Ok(command.run()?),
            #[cfg(feature = "lab")]
            Self::Lab(command) => Ok(command.run()?),
            #[cfg(feature = "lab")]
            Self::Sim(command) => command.run(),
        }
    }
}

/// The capacity that was asked for, or else 1 GiB, or else what the host has room for, of which it
/// tells on standard error.
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

/// Opens a pool, and says on standard error if that emptied it.
fn open_pool(name: &str) -> Result<Pool, OpenError> {
    let pool = Pool::open(name)?;
    if pool.was_reformatted() {
        eprintln!("{name} was in use when its host went down: it was made anew with the same settings, and is empty");
    }
    Ok(pool)
}
