//! The server, over any protocol.
//!
//! | module | concept |
//! |---|---|
//! | this one | the acceptor: listens, hands connections to the workers in turn, stops all |
//! | [`protocol`] | the interface of a protocol to the server |
//! | `both` | two protocols, each at its listener |
//! | [`listen`] | the addresses that the server listens on |
//! | `socket` | a connection's stream: plain, or within TLS |
//! | `tls` | the certificate, which may change |
//! | `worker` | one thread with one client of the cache |
//! | `lives` | how long its last clients lived, and when the next one joins |
//! | `asking` | futures of the cache, and what they wait for |
//! | [`limits`] | the limits of connections, which may change |
//! | [`handle`] | a connection as every thread sees it |
//! | `outbox` | what other threads have for a connection's peer |
//! | `connection` | one connection: read a batch of commands, run it, write its replies |
//! | [`output`] | the bytes to send |
//! | `buffers` | memory that connections use one after the other |
//! | `memory` | large memory on its way back to the system |
//! | [`upload`] | large values that are stored while they arrive |
//! | `download` | large values that are read while they are sent |
//! | [`options`] | the configuration |
//! | [`counters`] | the workers' counters, which any thread may read |
//! | [`facts`] | facts about the pool that the server shows |
//!
//! ```text
//! acceptor (the calling thread)        worker 0                 worker 1 ...
//!   listeners, signals, metrics   -->  runtime, client, its     runtime, client, its
//!                                      connections              connections
//! ```
//!
//! The acceptor hands connections to the workers in turn, so that the workers have about the same
//! number. The step over the acceptor's thread costs once for each connection. Accepting does not
//! disturb the requests of a worker.

mod asking;
mod both;
mod buffers;
mod connection;
pub mod counters;
mod download;
pub mod facts;
pub mod handle;
pub mod limits;
pub mod listen;
mod lives;
pub(crate) mod memory;
pub mod options;
mod outbox;
pub mod output;
pub mod protocol;
mod socket;
mod tasks;
mod tls;
pub mod upload;
mod watch;
mod worker;

pub use both::{Both, Either};
pub use output::Output;

use crate::http;
pub(crate) use asking::{pauses, woken_by_itself};
use atoll_cache::{Cache, Engine};
use atoll_fabric::{FabricError, Pace};
use connection::refuse_peer;
use counters::{Counters, Meter, Shared};
use facts::PoolFacts;
use limits::Limits;
use listen::{ListenError, UnixSocket};
use options::{ServerOptions, TlsOptions};
use protocol::{Listener, Peer, Protocol};
use socket::Stream;
use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tls::Certificates;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;
use tokio_rustls::rustls::ServerConfig;
pub(crate) use worker::TEND_PERIOD;
use worker::{Arrival, Worker};

/// Why a server did not start, or ended without being stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] FabricError),
    /// A worker's client could not join.
    #[error("worker {worker} has no client of the cache: {reason}")]
    Client {
        /// Which of the workers.
        worker: usize,
        /// The error of its factory.
        reason: String,
    },
    /// The system has no thread, descriptor or memory left.
    #[error("the system refuses what a server needs ({0}): check the limits of processes, threads and open files")]
    System(#[from] io::Error),
    /// A worker panicked, which is our bug. The other workers were stopped.
    #[error("worker {worker} panicked: please report what it wrote")]
    Panicked {
        /// Which of the workers.
        worker: usize,
    },
}

/// Stops a server, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Stops the server. It answers what has arrived and then returns from [`Server::run`].
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// A server that has bound its addresses and does not serve yet. The cache is opened after that, so
/// that a port in use costs nothing.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    tcp: Option<TcpListener>,
    second: Option<TcpListener>,
    within_tls: Option<TcpListener>,
    certificates: Option<Certificates>,
    unix: Option<UnixSocket>,
    second_unix: Option<UnixSocket>,
    metrics: Option<TcpListener>,
    stopper: Stopper,
}

/// Serves a cache until SIGTERM or SIGINT (or an error) comes. `client` makes the client of worker
/// `0 .. options.threads`, on its thread.
pub fn serve<P, G, E, F>(protocol: P, options: ServerOptions, facts: PoolFacts, client: F) -> Result<(), ServeError>
where
    P: Protocol,
    G: Engine + 'static,
    E: std::fmt::Display,
    F: Fn(usize) -> Result<Cache<G>, E> + Send + Sync,
{
    Server::bind(options)?.run(protocol, facts, client)
}

impl Server {
    /// Binds the addresses of `options`.
    pub fn bind(options: ServerOptions) -> Result<Self, ServeError> {
        let certificates = options.tls.as_ref().map(Certificates::read).transpose()?;
        let at = |port: Option<u16>| port.map(|port| listen::tcp(SocketAddr::new(options.address, port))).transpose();
        let (tcp, within_tls) = (at(options.port)?, at(options.tls.as_ref().and_then(|tls| tls.port))?);
        let second = options.second.map(listen::tcp).transpose()?;
        let unix = options.unix.as_deref().map(UnixSocket::bind).transpose()?;
        let second_unix = options.second_unix.as_deref().map(UnixSocket::bind).transpose()?;
        let metrics = options.metrics.map(listen::tcp).transpose()?;
        let stopper = Stopper::default();
        Ok(Self { options, tcp, second, within_tls, certificates, unix, second_unix, metrics, stopper })
    }

    /// The TCP address that it listens on, if it has one.
    pub fn address(&self) -> Option<io::Result<SocketAddr>> {
        self.tcp.as_ref().map(TcpListener::local_addr)
    }

    /// The TCP address that it listens on within TLS, if it has one.
    pub fn tls_address(&self) -> Option<io::Result<SocketAddr>> {
        self.within_tls.as_ref().map(TcpListener::local_addr)
    }

    /// The second address that it listens on, if it has one.
    pub fn second_address(&self) -> Option<io::Result<SocketAddr>> {
        self.second.as_ref().map(TcpListener::local_addr)
    }

    /// The address of the metrics, if it has one.
    pub fn metrics_address(&self) -> Option<io::Result<SocketAddr>> {
        self.metrics.as_ref().map(TcpListener::local_addr)
    }

    /// The handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves peers that speak `protocol` until it is stopped. `facts` are those of the pool.
    /// `client` makes the client of worker `0 .. options.threads`, on its thread.
    pub fn run<P, G, E, F>(self, protocol: P, facts: PoolFacts, client: F) -> Result<(), ServeError>
    where
        P: Protocol,
        G: Engine + 'static,
        E: std::fmt::Display,
        F: Fn(usize) -> Result<Cache<G>, E> + Send + Sync,
    {
        self.run_telling(protocol, facts, client, || {})
    }

    /// The same, and calls `announce` once all workers have their clients: from then on it serves.
    pub fn run_telling<P, G, E, F>(
        self,
        protocol: P,
        facts: PoolFacts,
        client: F,
        announce: impl FnOnce(),
    ) -> Result<(), ServeError>
    where
        P: Protocol,
        G: Engine + 'static,
        E: std::fmt::Display,
        F: Fn(usize) -> Result<Cache<G>, E> + Send + Sync,
    {
        let (threads, commands) = (self.options.threads.max(1), P::commands());
        let shared = Arc::new(Shared {
            workers: (0..threads).map(|_| Counters::new(commands.len())).collect(),
            clients: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            rates: Meter::default(),
            limits: Limits::new(self.options.clients_max, self.options.idle_s_max, self.options.keepalive_s),
            options: ServerOptions {
                port: self.address().transpose()?.map(|address| address.port()),
                second: self.second_address().transpose()?,
                tls: match (self.options.tls.clone(), self.tls_address().transpose()?) {
                    (Some(tls), Some(address)) => Some(TlsOptions { port: Some(address.port()), ..tls }),
                    (tls, _) => tls,
                },
                ..self.options.clone()
            },
            started: Instant::now(),
            stopper: self.stopper.clone(),
            commands: commands.into(),
            facts,
        });
        let (wanted, possible) = (self.options.clients_max as u64, shared.limits.clients_max());
        if possible < wanted {
            tracing::warn!(
                "{possible} connections are served at most, not {wanted}: this process may have no more files open \
                 (`ulimit -n`); raise that limit, or say --maxclients"
            );
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let acceptor = Acceptor {
            tcp: self.tcp,
            second: self.second,
            within_tls: self.within_tls,
            certificates: RefCell::new(self.certificates),
            unix: self.unix,
            second_unix: self.second_unix,
            metrics: self.metrics,
            stop_on_signals: self.options.stop_on_signals,
            stopper: self.stopper,
            shared,
        };
        std::thread::scope(|scope| {
            let (mut workers, mut channels) = (Vec::new(), Vec::new());
            let (ready, mut readiness) = mpsc::unbounded_channel();
            for index in 0..threads {
                let (channel, streams) = mpsc::unbounded_channel();
                let (client, shared, ready) = (&client, acceptor.shared.clone(), ready.clone());
                let (stopper, protocol) = (acceptor.stopper.clone(), protocol.clone());
                let work = move || {
                    // However the worker ends, the server ends with it.
                    let _guard = StopOnDrop(stopper);
                    run_worker(protocol, index, client, shared, streams, &ready)
                };
                let thread = std::thread::Builder::new().name(format!("atoll-worker-{index}"));
                workers.push(thread.spawn_scoped(scope, work)?);
                channels.push(channel);
            }
            drop(ready);
            let started = (0..threads).try_for_each(|_| match readiness.blocking_recv() {
                Some(started) => started,
                // The worker has panicked: its end says so.
                None => Ok(()),
            });
            let accepted = started.and_then(|()| {
                announce();
                Ok(runtime.block_on(acceptor.accept(&protocol, &channels))?)
            });
            drop(channels);
            let mut ended = accepted;
            for (worker, thread) in workers.into_iter().enumerate() {
                if thread.join().is_err() {
                    ended = Err(ServeError::Panicked { worker });
                }
            }
            ended
        })
    }
}

struct StopOnDrop(Stopper);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn run_worker<P, G, E, F>(
    protocol: P,
    index: usize,
    client: &F,
    shared: Arc<Shared>,
    streams: mpsc::UnboundedReceiver<Arrival>,
    ready: &mpsc::UnboundedSender<Result<(), ServeError>>,
) where
    P: Protocol,
    G: Engine + 'static,
    E: std::fmt::Display,
    F: Fn(usize) -> Result<Cache<G>, E>,
{
    // Other connections run while a large value is copied, or waits for room.
    atoll_cache::pause_with(|ns| Box::pin(asking::pause(ns)));
    let made = || -> Result<(Runtime, Rc<Worker<P, G>>), ServeError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let cache = client(index).map_err(|reason| ServeError::Client { worker: index, reason: reason.to_string() })?;
        Ok((runtime, Rc::new(Worker::new(protocol, cache, shared, index))))
    };
    match made() {
        Ok((runtime, worker)) => {
            let _ = ready.send(Ok(()));
            LocalSet::new().block_on(&runtime, worker.clone().run(streams, || client(index)));
            // The connections were dropped with the set.
            runtime.block_on(worker.close());
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    }
}

/// Where connections go: the channels of the workers.
type Channels = [mpsc::UnboundedSender<Arrival>];

struct Acceptor {
    tcp: Option<TcpListener>,
    second: Option<TcpListener>,
    within_tls: Option<TcpListener>,
    certificates: RefCell<Option<Certificates>>,
    unix: Option<UnixSocket>,
    second_unix: Option<UnixSocket>,
    metrics: Option<TcpListener>,
    stop_on_signals: bool,
    stopper: Stopper,
    shared: Arc<Shared>,
}

impl Acceptor {
    /// Accepts until the server is to stop.
    async fn accept<P: Protocol>(self, protocol: &P, channels: &Channels) -> io::Result<()> {
        let metrics = match self.metrics {
            Some(listener) => Some(tokio::net::TcpListener::from_std(listener)?),
            None => None,
        };
        if let Some(listener) = metrics {
            tokio::spawn(http::serve(listener, self.shared.clone()));
        }
        let tcp = self.tcp.map(tokio::net::TcpListener::from_std).transpose()?;
        let second = self.second.map(tokio::net::TcpListener::from_std).transpose()?;
        let within_tls = self.within_tls.map(tokio::net::TcpListener::from_std).transpose()?;
        let of_socket = |socket: &Option<UnixSocket>| {
            let listener = socket.as_ref().map(UnixSocket::listener).transpose()?;
            listener.map(tokio::net::UnixListener::from_std).transpose()
        };
        let (unix, second_unix) = (of_socket(&self.unix)?, of_socket(&self.second_unix)?);
        let (mut terminate, mut interrupt) = match self.stop_on_signals {
            true => (Some(signal(SignalKind::terminate())?), Some(signal(SignalKind::interrupt())?)),
            false => (None, None),
        };
        let stopped = async {
            let signalled = std::future::poll_fn(|cx| {
                let mut came = false;
                for signal in [&mut terminate, &mut interrupt].into_iter().flatten() {
                    came |= signal.poll_recv(cx).is_ready();
                }
                if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            });
            first(self.stopper.0.notified(), signalled).await;
        };
        let (shared, next) = (&self.shared, &AtomicU64::new(0));
        let tls = shared.options.tls.as_ref();
        let (is_second_within, is_certified) =
            (tls.is_some_and(|tls| tls.at_second), tls.is_some_and(|tls| tls.clients.is_some()));
        let present = || self.certificates.borrow_mut().as_mut().map(Certificates::present);
        let over_tcp = async |tcp: Option<tokio::net::TcpListener>, listener, is_within: bool| {
            let Some(tcp) = tcp else { return std::future::pending().await };
            loop {
                match tcp.accept().await {
                    Ok((stream, from)) => {
                        let tls = if is_within { present() } else { None };
                        let peer = if is_within && is_certified { Peer::Certified } else { Peer::Tcp(from.ip()) };
                        admit(protocol, (listener, peer), shared, channels, next, (stream, tls));
                    }
                    Err(error) => retry(error).await,
                }
            }
        };
        let over_unix = async |unix: Option<tokio::net::UnixListener>, listener| {
            let Some(unix) = unix else { return std::future::pending().await };
            loop {
                match unix.accept().await {
                    Ok((stream, _)) => {
                        admit(protocol, (listener, Peer::Unix), shared, channels, next, stream);
                    }
                    Err(error) => retry(error).await,
                }
            }
        };
        let over_tcp = first(
            first(over_tcp(tcp, Listener::First, false), over_tcp(within_tls, Listener::First, true)),
            over_tcp(second, Listener::Second, is_second_within),
        );
        let over_unix = first(over_unix(unix, Listener::First), over_unix(second_unix, Listener::Second));
        first(stopped, first(over_tcp, over_unix)).await;
        tracing::info!("the server stops: it answers what it has received, and leaves the pool");
        Ok(())
    }
}

/// Ends with the first of the two.
pub(crate) async fn first(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        let ended = a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready();
        if ended { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Runs what may take long on a thread of its own; here, if the system has no room for a thread.
/// Dropping the future does not wait for it.
pub(crate) async fn apart<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, tells) = oneshot::channel();
    // A thread that cannot be started drops what it was given.
    let once = Arc::new(Mutex::new(Some(what)));
    let take = |once: &Mutex<Option<_>>| once.lock().unwrap_or_else(PoisonError::into_inner).take();
    let taken = once.clone();
    let run = move || drop(told.send(take(&taken).map(|what| what())));
    match std::thread::Builder::new().name("atoll-apart".to_owned()).spawn(run) {
        Ok(_) => tells.await.ok().flatten().expect("it has not panicked"),
        Err(_) => take(&once).expect("no thread has taken it")(),
    }
}

/// Waits after a failed accept: without free descriptors the next accept would fail at once.
/// Waiting peers come to no harm.
async fn retry(error: io::Error) {
    static ERRORS: Pace = Pace::new();
    if error.kind() != io::ErrorKind::ConnectionAborted {
        if let Some(more) = ERRORS.line() {
            tracing::error!("connections cannot be accepted: {error}{more}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A connection that tokio accepted, and how it goes to its worker's runtime.
trait Accepted {
    fn into_stream(self, limits: &Limits) -> io::Result<Stream>;

    /// Tells the peer why it is refused.
    fn refuse(self, shared: &Shared, why: &[u8]);
}

impl Accepted for (tokio::net::TcpStream, Option<Arc<ServerConfig>>) {
    fn into_stream(self, limits: &Limits) -> io::Result<Stream> {
        // A reply is written at once and whole: there is nothing for the kernel to wait for.
        let (stream, tls) = self;
        stream.set_nodelay(true)?;
        limits.keep_alive(&stream)?;
        Ok(Stream::Tcp(stream.into_std()?, tls))
    }

    fn refuse(mut self, shared: &Shared, why: &[u8]) {
        // A peer that awaits the server's keys understands no plain words.
        let why = if self.1.is_some() { &[] } else { why };
        refuse_peer(&mut self.0, shared, why);
    }
}

impl Accepted for tokio::net::UnixStream {
    fn into_stream(self, _: &Limits) -> io::Result<Stream> {
        self.into_std().map(Stream::Unix)
    }

    fn refuse(mut self, shared: &Shared, why: &[u8]) {
        refuse_peer(&mut self, shared, why);
    }
}

/// Hands a connection to the next worker, unless there are too many or the protocol refuses it.
fn admit<P: Protocol, S: Accepted>(
    protocol: &P,
    (listener, peer): (Listener, Peer),
    shared: &Shared,
    channels: &Channels,
    next: &AtomicU64,
    stream: S,
) {
    let id = next.fetch_add(1, Relaxed) + 1;
    shared.accepted.fetch_add(1, Relaxed);
    static REFUSALS: Pace = Pace::new();
    if shared.clients.load(Relaxed) as u64 >= shared.limits.clients_max() {
        if let Some(more) = REFUSALS.line() {
            let most = shared.limits.clients_max();
            tracing::warn!("connection {id} is refused: {most} are served at most (maxclients){more}");
        }
        return stream.refuse(shared, P::too_many(listener));
    }
    if let Some(why) = protocol.refuses(listener, peer) {
        if let Some(more) = REFUSALS.line() {
            let why = String::from_utf8_lossy(&why);
            tracing::warn!("connection {id} of {peer:?} is refused: {}{more}", why.trim_end());
        }
        return stream.refuse(shared, &why);
    }
    // Only the peer knows of a stream that has failed already.
    let Ok(stream) = stream.into_stream(&shared.limits) else { return };
    shared.clients.fetch_add(1, Relaxed);
    if channels[id as usize % channels.len()].send((id, listener, stream)).is_err() {
        shared.clients.fetch_sub(1, Relaxed);
    }
}
