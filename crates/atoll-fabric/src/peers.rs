//! The processes behind the endpoints of a region, as an operator sees them.
//!
//! They are for display and for signals. Nothing here proves that an endpoint is dead: see
//! [`Endpoint::is_dead`](crate::Endpoint::is_dead).

use crate::Identity;
use std::collections::{HashMap, HashSet};

/// The state of the process behind an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It exists, and runs or sleeps.
    Running,
    /// It was stopped (by SIGSTOP, from a terminal, by a debugger) and may be resumed.
    Stopped,
    /// It will never act again: what it could write may be reused.
    Dead,
    /// It is alive, and invisible from here: it is in a container, on another host, or another
    /// user's. It may run or be stopped.
    NotVisible,
}

/// The processes that have a region open, as far as this one can see them.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    by_identity: HashMap<Identity, u32>,
    present: HashSet<u32>,
    connections: Vec<String>,
}

impl Peers {
    /// A process has the region open.
    pub fn add(&mut self, pid: u32) {
        self.present.insert(pid);
    }

    /// A process of another host may have the region open, by this connection.
    pub fn add_connection(&mut self, from: String) {
        self.connections.push(from);
    }

    /// An endpoint is of this process.
    pub fn add_endpoint(&mut self, identity: Identity, pid: u32) {
        self.by_identity.insert(identity, pid);
    }

    /// The process of an endpoint, by the pid that it has here.
    pub fn pid(&self, identity: Identity) -> Option<u32> {
        self.by_identity.get(&identity).copied()
    }

    /// The processes that have a pid here, in order.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.present.iter().copied().collect();
        pids.sort_unstable();
        pids
    }

    /// Where the connections are from that have the region open: `HOST:PORT`, as their memory node
    /// sees it.
    pub fn connections(&self) -> &[String] {
        &self.connections
    }
}
