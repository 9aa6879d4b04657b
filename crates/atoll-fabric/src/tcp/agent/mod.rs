//! The agent of a memory node: it owns regions of this host and executes what arrives.
//!
//! | module | concept |
//! |---|---|
//! | this one | threads, listener, and what they share |
//! | `connection` | one connection: its bytes in and out, and the limits of its memory |
//! | `session` | one client's endpoint with this agent, and how it ends |
//! | `regions` | the regions, by the numbers of their nodes |
//! | `provide` | memory that is provided in the background |
//! | `ending` | sessions of ended clients with other agents |
//! | `watch` | an exported region whose changes its process is told of |
//! | `held` | answers that wait until a process has seen their changes |
//!
//! Each thread waits for its connections by one `epoll`. The first thread also listens, and hands
//! connections to the threads in turn. A thread calls another one to a connection (`Waiter`) that
//! has got something to tell or to send.

mod connection;
mod ending;
mod held;
mod provide;
mod regions;
pub(super) mod session;
pub(crate) mod watch;

use self::connection::{Connection, Scratch, Waits};
use self::ending::Ending;
use self::regions::Regions;
use self::session::Session;
use self::watch::Watch;
use super::tls::Tunnel;
use super::{Authority, Certificate, Secret, configure};
use crate::shm::ShmFabric;
use crate::shm::process::random_word;
use crate::{BusyPolling, Clock, FabricError, Identity, Pace};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::SockRef;
use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the threads look for peers that keep them waiting.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// How an agent is to be.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Most bytes of all its regions.
    pub capacity_bytes: u64,
    /// The name (`shm:/NAME`) under which processes of its host find its regions. Without a name
    /// the regions are the agent's own memory.
    pub name: Option<String>,
    /// What clients must know. Without it the agent listens on a loopback address only.
    pub secret: Option<Secret>,
    /// With it all connections are TLS.
    pub certificate: Option<Certificate>,
    /// Whose other agents it trusts, where a pool has memory nodes of several agents.
    pub authority: Option<Authority>,
    /// Threads that serve connections.
    pub threads: usize,
    /// How long a client must have been silent before another client can shut it out.
    pub lease: Duration,
    /// How long a process may answer for the words of a region that it
    /// [follows](crate::Endpoint::follow), after the agent last heard from it. A process that
    /// stands still delays those that change the region for at most one and a quarter of it. It
    /// should be shorter than the deadline of clients, and is an hour at most.
    pub watch_lease: Duration,
    /// Most connections at a time.
    pub connections_max: usize,
    /// Most bytes of all long frames of which a part has arrived.
    pub long_bytes_max: usize,
}

impl Default for AgentOptions {
    /// 1 GiB of the agent's own memory, one thread.
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            name: None,
            secret: None,
            certificate: None,
            authority: None,
            threads: 1,
            lease: Duration::from_secs(1),
            watch_lease: Duration::from_secs(1),
            connections_max: 4096,
            long_bytes_max: 256 << 20,
        }
    }
}

/// What the threads of an agent share.
struct Shared {
    options: AgentOptions,
    /// No other agent has it.
    agent: u64,
    started: Instant,
    clock: Clock,
    regions: Mutex<Regions>,
    sessions: Mutex<Sessions>,
    ending: Ending,
    connections: AtomicUsize,
    long_bytes: AtomicUsize,
    exported_bytes: AtomicU64,
    is_stopping: AtomicBool,
}

/// An endpoint: its region, and its identity there.
type Known = (u64, Identity);

#[derive(Default)]
struct Sessions {
    by_id: HashMap<u64, Arc<Session>>,
    by_identity: HashMap<Known, Arc<Session>>,
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_session(&self) -> Arc<Session> {
        let session = Arc::new(Session::new(random_word(), self.now_ms()));
        self.sessions().by_id.insert(session.id, session.clone());
        session
    }

    fn know_identity(&self, known: Known, session: &Arc<Session>) {
        self.sessions().by_identity.insert(known, session.clone());
    }

    fn forget_session(&self, id: u64, known: Option<Known>) {
        let mut sessions = self.sessions();
        sessions.by_id.remove(&id);
        if let Some(known) = known {
            sessions.by_identity.remove(&known);
        }
    }

    fn session_of(&self, known: Known) -> Option<Arc<Session>> {
        self.sessions().by_identity.get(&known).cloned()
    }

    /// Ends the sessions whose first region is this one.
    fn end_sessions_of(&self, region: u64) {
        let sessions: Vec<Arc<Session>> = self.sessions().by_id.values().cloned().collect();
        sessions.iter().filter(|session| session.is_of(region)).for_each(|session| session.end(self));
    }

    /// Ends a session that another agent names; whether it has ended, or never was.
    fn end_session(&self, agent: u64, id: u64) -> bool {
        let found = self.sessions().by_id.get(&id).cloned();
        if let Some(session) = found.filter(|_| agent == self.agent) {
            session.end(self);
        }
        true
    }
}

/// An agent that listens, and does not serve yet.
pub struct Agent {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Agent {
    /// Listens on an address.
    ///
    /// # Errors
    /// [`FabricError::System`] if it cannot listen there, or if it has no secret and the address is
    /// reached from other hosts.
    pub fn bind(listen: &str, options: AgentOptions) -> Result<Self, FabricError> {
        let system = |source| FabricError::System { name: listen.to_owned(), what: "listen", source };
        let address = listen.to_socket_addrs().map_err(system)?.next();
        let address = address.ok_or_else(|| system(io::ErrorKind::AddrNotAvailable.into()))?;
        if options.secret.is_none() && !address.ip().is_loopback() {
            let why = "other hosts reach this address: give a secret (--secret-file), or listen on 127.0.0.1";
            return Err(system(io::Error::other(why)));
        }
        let fabric = options.name.as_deref().map(ShmFabric::named).transpose()?;
        let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => system(io::Error::new(
                error.kind(),
                "the address is in use: stop what listens there, or choose another port (--listen)",
            )),
            _ => system(error),
        })?;
        let address = listener.local_addr().map_err(system)?;
        let regions = Mutex::new(Regions::new(fabric, options.capacity_bytes));
        let shared = Shared {
            ending: Ending::new(options.secret.clone(), options.authority.clone()),
            options,
            agent: random_word(),
            started: Instant::now(),
            clock: Clock::host(),
            regions,
            sessions: Mutex::default(),
            connections: AtomicUsize::new(0),
            long_bytes: AtomicUsize::new(0),
            exported_bytes: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        };
        Ok(Self { listener, address, shared: Arc::new(shared) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to serve.
    ///
    /// # Errors
    /// [`FabricError::System`] if the system has no thread or descriptor left.
    pub fn start(self) -> Result<RunningAgent, FabricError> {
        let name = self.address.to_string();
        let system = |source| FabricError::System { name: name.clone(), what: "serve", source };
        let mut polls = Vec::new();
        let mut ways = Vec::new();
        let mut streams = Vec::new();
        let mut calls = Vec::new();
        for _ in 0..self.shared.options.threads.max(1) {
            let poll = Poll::new().map_err(system)?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(system)?);
            let (way, accepted) = channel();
            ways.push(Way { accepted: way, waker: waker.clone() });
            calls.push(Arc::new(Calls { tokens: Mutex::default(), waker }));
            polls.push(poll);
            streams.push(accepted);
        }
        let wakers = ways.iter().map(|way| way.waker.clone()).collect();
        let mut running =
            RunningAgent { address: self.address, shared: self.shared.clone(), wakers, threads: Vec::new() };
        let mut listener = Some(Listening { listener: self.listener, ways, next: 0 });
        for (index, ((poll, accepted), calls)) in polls.into_iter().zip(streams).zip(calls).enumerate() {
            let mut thread = Thread {
                poll,
                accepted,
                listening: listener.take(),
                shared: self.shared.clone(),
                calls,
                watches: Vec::new(),
                connections: HashMap::new(),
                next: 0,
            };
            let builder = std::thread::Builder::new().name(format!("atoll-agent-{index}"));
            running.threads.push(builder.spawn(move || thread.run()).map_err(system)?);
        }
        Ok(running)
    }
}

/// An agent that serves until it is dropped.
pub struct RunningAgent {
    address: SocketAddr,
    shared: Arc<Shared>,
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningAgent {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Relaxed)
    }

    /// Serves until another thread drops what it has of the agent, or the process ends.
    pub fn join(mut self) {
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Relaxed);
        self.wakers.iter().for_each(|waker| drop(waker.wake()));
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

/// How connections go to a thread.
struct Way {
    accepted: Sender<TcpStream>,
    waker: Arc<Waker>,
}

/// Connections of a thread that other threads call it to.
struct Calls {
    tokens: Mutex<Vec<Token>>,
    waker: Arc<Waker>,
}

impl Calls {
    fn tokens(&self) -> MutexGuard<'_, Vec<Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that waits for what another thread does.
#[derive(Clone)]
struct Waiter {
    calls: Arc<Calls>,
    token: Token,
}

impl Waiter {
    /// Has its thread serve the connection, if it has not ended.
    fn call(&self) {
        self.calls.tokens().push(self.token);
        let _ = self.calls.waker.wake();
    }

    fn is(&self, other: &Self) -> bool {
        self.token == other.token && Arc::ptr_eq(&self.calls, &other.calls)
    }

    #[cfg(test)]
    fn of_no_connection() -> Self {
        let waker = Arc::new(Waker::new(Poll::new().unwrap().registry(), WAKER).unwrap());
        Self { calls: Arc::new(Calls { tokens: Mutex::default(), waker }), token: Token(0) }
    }
}

/// The listener, and where its connections go.
struct Listening {
    listener: TcpListener,
    ways: Vec<Way>,
    next: usize,
}

/// A fork of this process may have a copy of the descriptor. Clients that it keeps waiting would
/// hear nothing.
impl Drop for Listening {
    fn drop(&mut self) {
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
    }
}

/// One thread and its connections.
struct Thread {
    poll: Poll,
    accepted: Receiver<TcpStream>,
    listening: Option<Listening>,
    shared: Arc<Shared>,
    calls: Arc<Calls>,
    /// Watches that began on its connections and are not over, though their connections may be.
    watches: Vec<Arc<Watch>>,
    connections: HashMap<Token, Connection>,
    next: usize,
}

impl Thread {
    fn run(&mut self) {
        let mut events = Events::with_capacity(256);
        let mut scratch = Scratch::new();
        let mut waiting: Vec<Token> = Vec::new();
        let mut polling = BusyPolling::default();
        let mut looked = Instant::now();
        let mut next_look = looked;
        if let Some(listening) = &mut self.listening {
            let registered = self.poll.registry().register(&mut listening.listener, LISTENER, Interest::READABLE);
            registered.expect("a new listener is registered once");
        }
        while !self.shared.is_stopping.load(Relaxed) {
            let timeout = match waiting.is_empty() {
                true if self.watches.is_empty() => LOOK_PERIOD,
                true => LOOK_PERIOD.min(next_look.saturating_duration_since(Instant::now())),
                false => Duration::ZERO,
            };
            if self.wait(&mut events, timeout, &mut polling).is_err() {
                continue;
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {
                        self.begin();
                        let called = std::mem::take(&mut *self.calls.tokens());
                        called.into_iter().for_each(|token| {
                            if !waiting.contains(&token) {
                                waiting.push(token);
                            }
                        });
                    }
                    token if !waiting.contains(&token) => waiting.push(token),
                    _ => {}
                }
            }
            waiting.retain(|token| self.serve(*token, &mut scratch, &mut next_look));
            if !self.watches.is_empty() && Instant::now() >= next_look {
                next_look = self.look_at_watches();
            }
            if looked.elapsed() >= LOOK_PERIOD {
                looked = Instant::now();
                self.end_overdue();
                // A listener without free descriptors gets no new event for what it has refused.
                self.accept();
            }
        }
        self.connections.values_mut().for_each(|connection| connection.end(&self.shared));
        self.watches.iter().for_each(|watch| watch.abandon());
    }

    /// Waits for events, for at most `longest`.
    fn wait(&mut self, events: &mut Events, longest: Duration, polling: &mut BusyPolling) -> io::Result<()> {
        let (mut outcome, since) = (Ok(()), Instant::now());
        let has_found = polling.find(longest, || {
            outcome = self.poll.poll(events, Some(Duration::ZERO));
            outcome.is_err() || !events.is_empty()
        });
        if has_found {
            return outcome;
        }
        self.poll.poll(events, Some(longest.saturating_sub(since.elapsed())))?;
        if !longest.is_zero() {
            polling.waited(since.elapsed(), !events.is_empty());
        }
        Ok(())
    }

    fn accept(&mut self) {
        let Some(listening) = &mut self.listening else { return };
        loop {
            match listening.listener.accept() {
                Ok((stream, _)) => {
                    let shared = &self.shared;
                    static REFUSALS: Pace = Pace::new();
                    if shared.connections.fetch_add(1, Relaxed) >= shared.options.connections_max {
                        if let Some(more) = REFUSALS.line() {
                            let most = shared.options.connections_max;
                            tracing::warn!("a connection is refused: {most} are served{more}");
                        }
                        shared.connections.fetch_sub(1, Relaxed);
                        continue;
                    }
                    listening.next = (listening.next + 1) % listening.ways.len();
                    let way = &listening.ways[listening.next];
                    if way.accepted.send(stream).is_err() || way.waker.wake().is_err() {
                        shared.connections.fetch_sub(1, Relaxed);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Begins to serve what the listener has handed over.
    fn begin(&mut self) {
        while let Ok(mut stream) = self.accepted.try_recv() {
            self.next += 1;
            let token = Token(self.next);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registered = configure(&stream)
                .and_then(|()| self.poll.registry().register(&mut stream, token, interest))
                .and_then(|()| stream.peer_addr());
            let certificate = self.shared.options.certificate.as_ref();
            let tunnel = certificate.map(|certificate| Tunnel::to_client(certificate).ok_or(())).transpose();
            match (registered, tunnel) {
                (Ok(peer), Ok(tunnel)) => {
                    let waiter = Waiter { calls: self.calls.clone(), token };
                    drop(self.connections.insert(token, Connection::new((stream, peer), tunnel, waiter, &self.shared)));
                }
                _ => drop(self.shared.connections.fetch_sub(1, Relaxed)),
            }
        }
    }

    /// Ends the watches whose time has come. Gives the time of the next look.
    fn look_at_watches(&mut self) -> Instant {
        let now = Instant::now();
        // A watch may have been given its first lease since.
        let mut next_look = now + LOOK_PERIOD.min(self.shared.options.watch_lease);
        self.watches.retain(|watch| {
            let due = watch.look(now);
            next_look = next_look.min(due.unwrap_or(next_look));
            due.is_some()
        });
        next_look
    }

    /// Serves a connection; whether it waits for another turn. A watch that begins is looked at
    /// soon.
    fn serve(&mut self, token: Token, scratch: &mut Scratch, next_look: &mut Instant) -> bool {
        let Some(connection) = self.connections.get_mut(&token) else { return false };
        let waits = connection.serve(&self.shared, scratch);
        if let Some(watch) = connection.take_new_watch() {
            self.watches.push(watch);
            *next_look = Instant::now();
        }
        match waits {
            Waits::ForPeer => false,
            Waits::ForTurn => true,
            Waits::Ended => {
                self.end(token);
                false
            }
        }
    }

    fn end(&mut self, token: Token) {
        if let Some(mut connection) = self.connections.remove(&token) {
            // What it was has ended before its peer sees the end of the connection.
            connection.end(&self.shared);
            let _ = self.poll.registry().deregister(connection.stream());
            self.shared.connections.fetch_sub(1, Relaxed);
        }
    }

    fn end_overdue(&mut self) {
        let now_ms = self.shared.now_ms();
        let overdue = self.connections.iter().filter(|(_, connection)| connection.is_overdue(now_ms));
        let overdue: Vec<Token> = overdue.map(|(token, _)| *token).collect();
        overdue.into_iter().for_each(|token| self.end(token));
    }
}
