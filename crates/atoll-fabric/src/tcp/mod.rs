//! The fabric of any network: an agent on the memory node's host executes batches that arrive over
//! TCP.
//!
//! An address is `tcp:HOST:PORT[,HOST:PORT...]`. The first agent has the home. Memory node `n` is
//! made on agent `n`, counted around the list, and found on any. The agents' atomics are the
//! processors': processes of a memory node's host may open the same regions by `shm:`.
//!
//! | module | concept |
//! |---|---|
//! | `wire` | the bytes: frames, verbs, limits |
//! | `call` | calls that are no verbs, and their answers |
//! | `tls` | TLS around connections, where the user asks for it |
//! | `silence` | agents that do not answer |
//! | `secret` | how each side proves that it knows the shared secret |
//! | `control` | a connection for calls, one after the other |
//! | `fabric` | the control plane |
//! | `link` | a connection for batches: many in flight, answered in order |
//! | `flight` | what is in flight, and where its results go |
//! | `counting` | the round trips and verbs of an endpoint |
//! | `endpoint`, `post`, `messenger`, `arrivals` | one thread's access |
//! | `follow`, `mirror` | exported regions whose words their own process reads without a verb |
//! | `notice` | the bytes on a watch connection, which keeps a mirror |
//! | [`agent`] | the other side |
//!
//! **Order.** An agent executes the batches of one connection in order, and the verbs of a batch in
//! the program order of `shm`. A fence therefore costs nothing. A batch for several agents is one
//! frame for each; those are unordered, as the contract permits.
//!
//! **Outcome unknown.** A batch that was sent and not answered ends so at its deadline, or when the
//! connection breaks. The connection is closed then. A connection is an identity: the client is
//! lost, and joins anew with another endpoint.
//!
//! **Following.** A process that follows a region which it exports keeps a mirror of the words. The
//! agent tells the mirror's thread what verbs have changed, and holds their answers back until the
//! thread has stored it. The process answers from the mirror while it has a lease from the agent,
//! which a ping renews. The agent lets writers go on once the lease is over: see
//! [`AgentOptions::watch_lease`]. The region of a process that lost its lease is gone for good.
//!
//! **Death.** An endpoint is dead when its session with the home's agent, and all sessions that it
//! named there, have ended. A session ends with its connection. The kernels end the connection of a
//! host that does not answer within [`SILENCE`]. Another client may have a session shut out that
//! was silent for the agent's lease.
//!
//! **A memory node that is silent.** An agent that does not answer may be alive. Once it has been
//! silent for [`TcpOptions::forsake_after`], a pool may go on without it. Its region is then never
//! used again: it is removed when the agent answers.
//!
//! | danger | why it does not happen |
//! |---|---|
//! | an ended client's verbs still reach the forsaken region | no client uses that region any more |
//! | a client whose session with the home has ended reads it | it sends nothing to further agents once the home has not answered for [`HOME_LEASE`] |
//! | such a client has not noticed yet | the home's agent takes it for ended only once its session has been over for [`FORSAKEN_AFTER`], which is longer |

pub mod agent;
mod arrivals;
mod call;
mod control;
mod counting;
mod endpoint;
mod fabric;
mod flight;
mod follow;
mod link;
mod messenger;
mod mirror;
mod notice;
mod post;
mod secret;
mod silence;
#[cfg(test)]
mod tests;
mod tls;
pub(crate) mod wire;

pub use agent::{Agent, AgentOptions, RunningAgent};
pub use endpoint::TcpEndpoint;
pub use fabric::{TcpFabric, TcpHold, TcpReach, TcpRegion};
pub use secret::Secret;
pub use tls::{Authority, Certificate};
pub use wire::parse as parse_frames;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a host may not answer before the kernel takes a connection with it for broken.
pub const SILENCE: Duration = Duration::from_secs(10);

/// How long a client sends verbs to further agents after it has asked the home's agent something
/// that was answered. Then it asks again. Longer than a batch may take.
pub const HOME_LEASE: Duration = Duration::from_secs(7);
/// How long after a client's session with its home has ended it counts as ended everywhere, but for
/// agents that answer. Longer than [`HOME_LEASE`].
pub const FORSAKEN_AFTER: Duration = Duration::from_secs(9);

/// The environment variable that names the file of the shared secret.
pub const SECRET_FILE: &str = "ATOLL_SECRET_FILE";

/// How a client uses agents.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// What an agent on another host wants to be known.
    pub secret: Option<Secret>,
    /// Whose agents it trusts; with it all connections are TLS.
    pub authority: Option<Authority>,
    /// How long a batch may take. A longer one ends with an unknown outcome.
    pub deadline: Duration,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long an agent must have been silent before the pool may go on without its memory nodes.
    pub forsake_after: Duration,
}

impl Default for TcpOptions {
    /// No secret, no TLS; five seconds for a batch, two for a connection, ten of silence.
    fn default() -> Self {
        Self {
            secret: None,
            authority: None,
            deadline: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            forsake_after: SILENCE,
        }
    }
}

/// The least of this host's limits of a socket's buffers, in bytes; `None` if they cannot be read.
pub fn socket_bytes_max() -> Option<u64> {
    let most = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        text.split_whitespace().nth(2)?.parse().ok()
    };
    Some(u64::min(most("tcp_rmem")?, most("tcp_wmem")?))
}

/// Sets what both sides of a connection want of it: small frames leave at once, and a host that
/// does not answer is found out.
fn configure(stream: &impl AsFd) -> io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(SILENCE / 3).with_interval(SILENCE / 6).with_retries(4);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(SILENCE))
}
