//! The limits of connections, which may change while the server serves.
//!
//! | limit | when it is looked at |
//! |---|---|
//! | connections | when a peer connects |
//! | silence of a peer | once a second, unless the connection runs or awaits a command of its own |
//! | keep-alive probes of TCP | when a peer connects |
//! | replies that a peer does not take | when replies are sent |
//! | what other threads have posted and a peer does not take | when they post, and once a second |
//!
//! What is posted has the limit of subscribers. All replies of a monitor have it too.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Descriptors that a server needs besides those of its connections.
const DESCRIPTORS_OWN: u64 = 64;

/// The most bytes that a connection owes its peer. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// A connection that owes more ends at once.
    pub hard_bytes: u64,
    /// A connection that owes more for [`soft_s`](Self::soft_s) ends.
    pub soft_bytes: u64,
    /// Seconds.
    pub soft_s: u64,
}

#[derive(Debug, Default)]
struct Output {
    hard_bytes: AtomicU64,
    soft_bytes: AtomicU64,
    soft_s: AtomicU64,
}

impl Output {
    fn new(limit: OutputLimit) -> Self {
        let output = Self::default();
        output.set(limit);
        output
    }

    fn get(&self) -> OutputLimit {
        OutputLimit {
            hard_bytes: self.hard_bytes.load(Relaxed),
            soft_bytes: self.soft_bytes.load(Relaxed),
            soft_s: self.soft_s.load(Relaxed),
        }
    }

    fn set(&self, limit: OutputLimit) {
        self.hard_bytes.store(limit.hard_bytes, Relaxed);
        self.soft_bytes.store(limit.soft_bytes, Relaxed);
        self.soft_s.store(limit.soft_s, Relaxed);
    }
}

/// The limits of a server.
#[derive(Debug)]
pub struct Limits {
    clients_max: AtomicU64,
    idle_s_max: AtomicU64,
    keepalive_s: AtomicU64,
    /// Of ordinary connections, and of subscribers.
    outputs: [Output; 2],
}

/// What a subscriber may be owed at first: what Redis permits.
pub const SUBSCRIBER_OUTPUT: OutputLimit = OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_s: 60 };

impl Limits {
    /// These limits, and no limit of what ordinary connections are owed. There are fewer
    /// connections if the system permits fewer descriptors.
    pub fn new(clients_max: usize, idle_s_max: u32, keepalive_s: u32) -> Self {
        let clients_max = clients_max as u64;
        let possible = descriptors_for(clients_max).map_or_else(|possible| possible, |()| clients_max);
        Self {
            clients_max: AtomicU64::new(possible.min(clients_max)),
            idle_s_max: AtomicU64::new(idle_s_max.into()),
            keepalive_s: AtomicU64::new(keepalive_s.into()),
            outputs: [Output::new(OutputLimit::default()), Output::new(SUBSCRIBER_OUTPUT)],
        }
    }

    /// Connections served at most.
    #[inline]
    pub fn clients_max(&self) -> u64 {
        self.clients_max.load(Relaxed)
    }

    /// Changes how many connections are served at most. The error is how many the system permits.
    pub fn set_clients_max(&self, clients_max: u64) -> Result<(), u64> {
        descriptors_for(clients_max)?;
        self.clients_max.store(clients_max, Relaxed);
        Ok(())
    }

    /// Seconds after which a silent peer is disconnected; 0 for never.
    pub fn idle_s_max(&self) -> u64 {
        self.idle_s_max.load(Relaxed)
    }

    /// Changes [`idle_s_max`](Self::idle_s_max).
    pub fn set_idle_s_max(&self, seconds: u64) {
        self.idle_s_max.store(seconds, Relaxed);
    }

    /// Seconds after which the system asks whether a silent peer is there; 0 for never.
    pub fn keepalive_s(&self) -> u64 {
        self.keepalive_s.load(Relaxed)
    }

    /// Changes [`keepalive_s`](Self::keepalive_s), for peers that connect from now on.
    pub fn set_keepalive_s(&self, seconds: u64) {
        self.keepalive_s.store(seconds, Relaxed);
    }

    /// What a connection may owe its peer.
    #[inline]
    pub fn output(&self, is_subscriber: bool) -> OutputLimit {
        self.outputs[usize::from(is_subscriber)].get()
    }

    /// Changes what connections may owe their peers.
    pub fn set_output(&self, is_subscriber: bool, limit: OutputLimit) {
        self.outputs[usize::from(is_subscriber)].set(limit);
    }

    /// Lets the system probe a silent peer.
    pub(super) fn keep_alive(&self, stream: &tokio::net::TcpStream) -> io::Result<()> {
        match self.keepalive_s() {
            0 => Ok(()),
            // As Redis: three probes, a third of the time apart.
            seconds => socket2::SockRef::from(stream).set_tcp_keepalive(
                &socket2::TcpKeepalive::new()
                    .with_time(Duration::from_secs(seconds))
                    .with_interval(Duration::from_secs((seconds / 3).max(1)))
                    .with_retries(3),
            ),
        }
    }
}

/// Lets the process have descriptors for so many connections. The error is how many connections the
/// system permits.
fn descriptors_for(clients: u64) -> Result<(), u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = clients.saturating_add(DESCRIPTORS_OWN);
    let present = getrlimit(Resource::Nofile);
    if present.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let wanted = Rlimit { current: Some(needed), maximum: present.maximum };
    if present.maximum.is_none_or(|maximum| maximum >= needed) && setrlimit(Resource::Nofile, wanted).is_ok() {
        return Ok(());
    }
    Err(present.maximum.or(present.current).unwrap_or(0).saturating_sub(DESCRIPTORS_OWN).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_the_system_permits_are_refused() {
        let limits = Limits::new(10, 0, 0);
        assert_eq!(limits.clients_max(), 10);
        let possible = limits.set_clients_max(u32::MAX.into()).unwrap_err();
        assert_eq!(limits.clients_max(), 10);
        limits.set_clients_max(possible).unwrap();
        assert_eq!(Limits::new(u32::MAX as usize, 0, 0).clients_max(), possible);
    }
}
