//! `atoll node`: memory of this host for pools of other hosts.

use super::capacity_or_default;
use super::size::parse_bytes;
use atoll_fabric::tcp::{Agent, AgentOptions, SECRET_FILE, Secret};
use clap::Args;
use std::error::Error;
use std::path::PathBuf;

/// Options of `atoll node`.
#[derive(Args, Debug)]
pub(crate) struct NodeCommand {
    /// Address and port to listen on. One that other hosts reach needs a secret
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7700")]
    listen: String,
    /// Most bytes that the node lends [default: 1GiB, or less if the host has no room for it]
    #[arg(long, value_parser = parse_bytes)]
    capacity: Option<u64>,
    /// Name under which processes of this host open the same pool (shm:/NAME), and under which the
    /// node finds it when it is started again [default: the memory is the node's own]
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// File that holds the secret which clients must know; its end of line does not count
    #[arg(long, value_name = "PATH", env = SECRET_FILE)]
    secret_file: Option<PathBuf>,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
}

impl NodeCommand {
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let capacity_bytes = capacity_or_default(self.capacity, self.pool.as_deref());
        let options = AgentOptions {
            capacity_bytes,
            name: self.pool.clone(),
            secret: self.secret_file.as_deref().map(Secret::of_file).transpose()?,
            threads: self.threads.into(),
            ..AgentOptions::default()
        };
        let agent = Agent::bind(&self.listen, options)?;
        println!(
            "atoll {} lends {capacity_bytes} bytes at {} on fabric tcp: memory {}, {}, {} thread(s)",
            env!("CARGO_PKG_VERSION"),
            agent.address(),
            self.pool.as_deref().unwrap_or("of its own"),
            if self.secret_file.is_some() { "with a secret" } else { "without a secret" },
            self.threads,
        );
        agent.start()?.join();
        Ok(())
    }
}
