//! The interface of a protocol: it interprets the bytes of a connection, and replies.
//!
//! The server reads, keeps the input, passes it on in batches, and sends the replies. It knows no
//! commands. A protocol takes whole commands from the front of the input and runs them one after
//! the other, so that replies are in order. It stops at a command that has not arrived entirely.
//! Where the fabric waits, batches of a worker's connections may run at once. So no state that they
//! share is borrowed across an await.

use super::counters::{Shared, Tally};
use super::handle::Handle;
use super::output::Output;
use atoll_cache::{Cache, Engine};
use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A batch of commands ends when its replies are so long: they are sent before anything more is run
/// or read.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A listener of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// The ports at [`ServerOptions::address`](super::options::ServerOptions::address), plain and
    /// within TLS, and the Unix socket.
    First,
    /// That of [`ServerOptions::second`](super::options::ServerOptions::second).
    Second,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A Unix socket.
    Unix,
    /// This address.
    Tcp(IpAddr),
    /// A peer that shows a certificate of the authority that the server trusts.
    Certified,
}

impl Peer {
    /// Whether it is on this host, or shows a certificate.
    pub fn is_trusted(self) -> bool {
        match self {
            Self::Unix | Self::Certified => true,
            Self::Tcp(address) => address.to_canonical().is_loopback(),
        }
    }
}

/// A protocol, with what its connections have in common. All workers have a clone.
pub trait Protocol: Clone + Send + Sync + 'static {
    /// Its commands, as the metrics name them: [`Tally::calls`] counts them in this order, from
    /// [`Client::first_command`] on.
    fn commands() -> Vec<&'static str>;

    /// The error for a peer of that listener that exceeds the limit of connections.
    fn too_many(listener: Listener) -> &'static [u8];

    /// What a connection has agreed on with its peer, and how far its input is understood.
    type State: 'static;
    /// Memory that a batch needs and another one may use again.
    type Scratch: Default + 'static;

    /// A new connection.
    fn connect(&self, handle: &Arc<Handle>) -> Self::State;

    /// What a peer is told whose connection is refused because of where it comes from.
    fn refuses(&self, listener: Listener, peer: Peer) -> Option<Cow<'static, [u8]>> {
        let _ = (listener, peer);
        None
    }

    /// Waits until the command may run at which a batch ended with [`Ended::Waits`]. Dropped if the
    /// connection ends.
    fn wait(&self, state: &mut Self::State) -> impl Future<Output = ()> {
        let _ = state;
        std::future::ready(())
    }

    /// A worker's client has looked after its pool, with or without requests. Called ten times a
    /// second.
    fn tend<G: Engine>(&self, client: Client<'_, G>) -> impl Future<Output = ()> {
        let _ = client;
        std::future::ready(())
    }

    /// Waits until the worker of this number has to [watch](Protocol::watch) its pool.
    fn until_watched(&self, worker: usize) -> impl Future<Output = ()> {
        let _ = worker;
        std::future::pending()
    }

    /// Looks for what others have changed in the pool. Returns after which time the worker looks
    /// again, if it has to.
    fn watch<G: Engine>(&self, client: Client<'_, G>) -> impl Future<Output = Duration> {
        let _ = client;
        std::future::pending()
    }

    /// Bytes that the command has, at the least, of which a part has arrived.
    fn bytes_expected(state: &Self::State) -> usize;

    /// Runs the commands that stand in `input` from `start` on, and moves `start` behind each that
    /// it has run, until more must arrive, or the replies in `output` have [`OUTPUT_BYTES_MAX`]
    /// bytes.
    fn run<G: Engine>(
        &self,
        state: &mut Self::State,
        scratch: &mut Self::Scratch,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> impl Future<Output = Ended>;
}

/// Why a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// More must arrive.
    Drained,
    /// The replies are long enough to be sent, or other connections have waited long enough.
    Full,
    /// The next command must wait for [`Protocol::wait`], without anything of the worker's.
    Waits,
    /// The connection is to be closed, once its replies have been sent.
    Closing,
}

/// A worker's client of the cache, as a batch uses it.
pub struct Client<'a, G: Engine> {
    /// The cache.
    pub cache: &'a Cache<G>,
    /// What the worker counts.
    pub tally: &'a RefCell<Tally>,
    /// The server.
    pub shared: &'a Shared,
    /// Which of the server's workers it is.
    pub worker: usize,
    /// Where the protocol's commands begin in the tally: not at 0 if it is the second of two.
    pub first_command: usize,
}

impl<G: Engine> Clone for Client<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Engine> Copy for Client<'_, G> {}
