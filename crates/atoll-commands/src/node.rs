//! `atoll node`: memory of this host for pools of other hosts.

use crate::capacity_or_default;
use crate::logs::LogArgs;
use crate::settings::{SettingsArgs, Settled};
use atoll::size::parse_bytes;
use atoll_fabric::Region;
use atoll_fabric::shm::ShmRegion;
use atoll_fabric::shm::host::Room;
use atoll_fabric::tcp::{Agent, AgentOptions, Authority, Certificate, SECRET_FILE, Secret};
use clap::Args;
use std::error::Error;
use std::path::PathBuf;

/// What a memory node may lend: see the README's limits.
const CAPACITY_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 40;

/// Options of `atoll node`.
#[derive(Args, Debug)]
pub struct NodeCommand {
    /// Address and port to listen on. One that other hosts reach needs a secret
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7700")]
    listen: String,
    /// Most bytes that the node lends [default: 1GiB, or less if the host has no room for it]
    #[arg(long, value_parser = parse_capacity)]
    capacity: Option<u64>,
    /// Name under which processes of this host open the same pool (shm:/NAME), and under which the
    /// node finds it when it is started again [default: the memory is the node's own]
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// File that holds the secret which clients must know; its end of line does not count
    #[arg(long, value_name = "PATH", env = SECRET_FILE)]
    secret_file: Option<PathBuf>,
    /// File with the node's certificate (PEM), and those that link it to its authority: all
    /// connections are TLS. Clients name the authority's file behind the address: ?ca=PATH
    #[arg(long, value_name = "PATH", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File with the certificate's key (PEM)
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File with the certificate of the authority of the pool's other memory nodes [default: the
    /// file of --tls-cert]
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl NodeCommand {
    /// Does it, and prints what comes of it.
    pub fn run(self, settled: &Settled<'_>) -> Result<(), Box<dyn Error>> {
        self.logs.begin();
        if let Some(other) = self.pool.as_deref().filter(|name| name.starts_with("tcp:")) {
            return Err(format!("--pool names memory of this host, shm:/NAME, and not {other}").into());
        }
        let capacity_bytes = capacity_or_default(self.capacity, self.pool.as_deref());
        if self.settings.config {
            settled.print(&[("capacity", capacity_bytes.to_string())]);
            return Ok(());
        }
        // It may be there already. What is wrong with its name is said by the agent.
        let found = self.pool.as_deref().and_then(|name| ShmRegion::open(name).ok());
        let found = found.map(|region| region.attributes().bytes);
        if let (Some(found), Some(wanted)) = (found, self.capacity)
            && found > wanted
        {
            let name = self.pool.as_deref().unwrap_or_default();
            return Err(format!(
                "{name} is there, and has {found} bytes: say --capacity {found} or more, or lend another one"
            )
            .into());
        }
        let tls = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let authority = self.tls_ca.as_deref().or(self.tls_cert.as_deref());
        // A region of that name may be there already, and then needs no room.
        let room = Room::of_region(None).filter(|room| self.pool.is_none() && room.usable_bytes() < capacity_bytes);
        if let Some(room) = room {
            tracing::warn!("{room}: a pool that needs more of this node is refused (--capacity {capacity_bytes})");
        }
        let options = AgentOptions {
            capacity_bytes,
            certificate: tls.map(|(certificate, key)| Certificate::of_files(certificate, key, None)).transpose()?,
            authority: authority.map(Authority::of_file).transpose()?,
            name: self.pool.clone(),
            secret: self.secret_file.as_deref().map(Secret::of_file).transpose()?,
            threads: self.threads.into(),
            ..AgentOptions::default()
        };
        let agent = Agent::bind(&self.listen, options)?;
        println!(
            "atoll {} lends {capacity_bytes} bytes at {} on fabric tcp: memory {}, {}, {}, {} thread(s)",
            env!("CARGO_PKG_VERSION"),
            agent.address(),
            match (self.pool.as_deref(), found) {
                (Some(name), Some(bytes)) => format!("{name} with the pool of {bytes} bytes that is in it"),
                (Some(name), None) => name.to_owned(),
                (None, _) => "of its own".to_owned(),
            },
            if self.secret_file.is_some() { "with a secret" } else { "without a secret" },
            if tls.is_some() { "TLS" } else { "no TLS" },
            self.threads,
        );
        agent.start()?.join();
        Ok(())
    }
}

fn parse_capacity(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if CAPACITY_BYTES.contains(&bytes) => Ok(bytes),
        bytes => Err(format!("a memory node lends 64 KiB to 4 TiB, and these are {bytes} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_lends_at_least_64_kib_and_at_most_4_tib() {
        for (text, is_possible) in
            [("65535", false), ("64KiB", true), ("4TiB", true), ("4398046511105", false), ("banana", false)]
        {
            assert_eq!(parse_capacity(text).is_ok(), is_possible, "{text}");
        }
    }
}
