//! Network namespaces as hosts: a worker in each reaches the memory node over a link of its own,
//! which can be cut.
//!
//! ```text
//! this namespace, with the memory node        198.x.y.(4 h + 1) on atXhH
//!                                                     |  veth
//! namespace of host h, with its worker        198.x.y.(4 h + 2) on eth0
//! ```
//!
//! The addresses are of 198.18.0.0/15, which is reserved for tests of networks (RFC 2544). A link
//! that is cut loses every packet, and tells neither side.

use crate::LabError;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Hosts that an experiment can have: each takes four addresses of 256.
pub(super) const HOSTS_MAX: u64 = 63;

/// One.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// The process of the experiment.
    experiment: u32,
    number: u8,
}

impl Host {
    /// The name of its namespace.
    pub(super) fn namespace(self) -> String {
        format!("atoll-{}-{}", self.experiment, self.number)
    }

    /// This namespace's end of its link.
    fn link(self) -> String {
        format!("at{:x}h{}", self.experiment, self.number)
    }

    fn ip(self, end: u8) -> Ipv4Addr {
        let block = self.experiment % 512;
        Ipv4Addr::new(198, 18 + (block / 256) as u8, (block % 256) as u8, 4 * self.number + end)
    }

    /// Where it finds the memory node.
    pub(super) fn node(self) -> Ipv4Addr {
        self.ip(1)
    }

    fn make(self) -> Result<(), LabError> {
        let (namespace, link) = (&self.namespace(), &self.link());
        ip(&["netns", "add", namespace])?;
        ip(&["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace])?;
        ip(&["address", "add", &format!("{}/30", self.ip(1)), "dev", link])?;
        ip(&["link", "set", link, "up"])?;
        ip(&["-n", namespace, "address", "add", &format!("{}/30", self.ip(2)), "dev", "eth0"])?;
        ip(&["-n", namespace, "link", "set", "eth0", "up"])
    }
}

fn ip(args: &[&str]) -> Result<(), LabError> {
    let failed = |source| LabError::System { what: "make or cut a link between network namespaces", source };
    let output = Command::new("ip").args(args).stdin(Stdio::null()).output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(std::io::Error::other(format!("`ip {}`: {}", args.join(" "), said.trim()))))
}

/// All hosts of an experiment; they are removed when it is dropped.
pub(super) struct Hosts {
    experiment: u32,
    /// When the link of each is to be mended, if it is cut.
    mend: Vec<Option<Instant>>,
}

impl Hosts {
    /// Makes so many.
    pub(super) fn make(count: u64) -> Result<Self, LabError> {
        assert!(count <= HOSTS_MAX, "the options were checked");
        let mut hosts = Self { experiment: std::process::id(), mend: Vec::new() };
        for _ in 0..count {
            hosts.mend.push(None);
            hosts.host(hosts.mend.len() - 1).make()?;
        }
        Ok(hosts)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.mend.len()
    }

    pub(super) fn host(&self, number: usize) -> Host {
        Host { experiment: self.experiment, number: number as u8 }
    }

    /// Cuts the link of a host for this long, if it is not cut already. Says whether it did.
    pub(super) fn cut(&mut self, number: usize, time: Duration) -> Result<bool, LabError> {
        if self.mend[number].is_some() {
            return Ok(false);
        }
        ip(&["link", "set", &self.host(number).link(), "down"])?;
        self.mend[number] = Some(Instant::now() + time);
        Ok(true)
    }

    /// Mends the links whose time has come by `now`; all without one.
    pub(super) fn mend(&mut self, now: Option<Instant>) -> Result<(), LabError> {
        for number in 0..self.mend.len() {
            if self.mend[number].is_some_and(|at| now.is_none_or(|now| at <= now)) {
                ip(&["link", "set", &self.host(number).link(), "up"])?;
                self.mend[number] = None;
            }
        }
        Ok(())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for number in 0..self.mend.len() {
            // Its link goes with it. What was not made cannot be removed.
            let _ = ip(&["netns", "delete", &self.host(number).namespace()]);
        }
    }
}
