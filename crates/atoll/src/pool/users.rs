//! Who has a pool open.

use atoll_fabric::Peers;
use std::fmt;

/// The processes that have a pool open, as far as this one can see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Those that have a pid here.
    pub pids: Vec<u32>,
    /// Where the connections are from of those that use a memory node: `HOST:PORT`, as that node
    /// sees them.
    pub connections: Vec<String>,
}

impl Users {
    pub(super) fn of(peers: &Peers) -> Self {
        Self { pids: peers.pids(), connections: peers.connections().to_vec() }
    }

    /// Whether none is seen. There may be others.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.connections.is_empty()
    }
}

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, what: (&str, &str), names: Vec<String>| {
            let (one, many) = what;
            write!(f, "{} {}", if names.len() == 1 { one } else { many }, names.join(", "))
        };
        if self.is_empty() {
            return f.write_str("a process that is not visible here");
        }
        if !self.pids.is_empty() {
            named(f, ("process", "processes"), self.pids.iter().map(u32::to_string).collect())?;
        }
        if !self.connections.is_empty() {
            f.write_str(if self.pids.is_empty() { "" } else { " and " })?;
            named(f, ("the process at", "the processes at"), self.connections.clone())?;
        }
        Ok(())
    }
}
