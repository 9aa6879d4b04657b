//! The memory node of an experiment over a network: a thread of the experiment's process.

use crate::LabError;
use atoll_fabric::tcp::{Agent, AgentOptions, RunningAgent, Secret};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Where this namespace reaches it.
pub(super) const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// It, until it is dropped.
pub(super) struct Node {
    agent: RunningAgent,
    /// The file of its secret, if other hosts reach it.
    secret_file: Option<PathBuf>,
}

impl Node {
    /// One of so many bytes, which other hosts reach or not.
    pub(super) fn start(capacity_bytes: u64, is_for_hosts: bool) -> Result<Self, LabError> {
        let secret_file = is_for_hosts.then(draw_secret).transpose()?;
        let secret = secret_file.as_deref().map(Secret::of_file).transpose()?;
        let listen = if is_for_hosts { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let options = AgentOptions { capacity_bytes, secret, ..AgentOptions::default() };
        Ok(Self { agent: Agent::bind(listen, options)?.start()?, secret_file })
    }

    /// The pool's address where the node has this one.
    pub(super) fn pool(&self, node: Ipv4Addr) -> String {
        format!("tcp:{node}:{}", self.agent.address().port())
    }

    pub(super) fn secret_file(&self) -> Option<PathBuf> {
        self.secret_file.clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(path) = &self.secret_file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A file with a secret that only this user can read.
fn draw_secret() -> Result<PathBuf, LabError> {
    let failed = |source| LabError::System { what: "draw a secret for the memory node", source };
    let path = std::env::temp_dir().join(format!("atoll-kill-{}-secret", std::process::id()));
    let mut drawn = [0; 32];
    let mut random = std::fs::File::open("/dev/urandom").map_err(failed)?;
    std::io::Read::read_exact(&mut random, &mut drawn).map_err(failed)?;
    let text: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    // What another process left under the name is not written to.
    let _ = std::fs::remove_file(&path);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    Ok(path)
}
