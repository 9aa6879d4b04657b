//! A server over the reference engine or one in a pool, in this process; and raw bytes to and from
//! any server.
#![allow(dead_code)] // Each of the two test programs uses a part of it.

pub(crate) mod memcached;
pub(crate) mod pieces;
pub(crate) mod redis_server;

use atoll_cache::{Cache, CacheError, Chosen, ChosenPool, Engine, EngineOptions, Near, Words, model::Model};
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Clock, run_ready};
use atoll_pool::sharers::{Ending, Sharers};
use atoll_server::serve::Both;
use atoll_server::{Memcached, PoolFacts, Redis, Server, ServerOptions, Stopper};
use std::convert::Infallible;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server that stops when dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    second: Option<SocketAddr>,
    within_tls: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

/// Options for a server that a test runs: any free port, no signals.
pub(crate) fn options() -> ServerOptions {
    ServerOptions { port: Some(0), stop_on_signals: false, ..ServerOptions::default() }
}

/// The same, for one that serves memcached, too.
pub(crate) fn with_memcached() -> ServerOptions {
    ServerOptions { second: Some("127.0.0.1:0".parse().unwrap()), ..options() }
}

pub(crate) fn facts() -> PoolFacts {
    PoolFacts {
        fabric: "none".to_owned(),
        engine: "model".to_owned(),
        experts: None,
        capacity_bytes: Box::new(|| 1 << 30),
        provided_bytes: Box::new(|| 1 << 30),
        used_bytes: Box::new(|| 12_345_678),
        wall_clock_ahead_ms: Box::new(|| -1500),
        nodes_absent: Box::new(|| 1),
        try_join: Box::new(|| Ok(())),
        near: Box::new(|| None),
    }
}

/// Starts a server over the reference engine.
pub(crate) fn start(options: ServerOptions) -> Running {
    start_with(options, |_| Ok::<_, Infallible>(Cache::new(Model::new(Clock::host()))))
}

/// Starts a server over a pool of 64 MiB for that engine.
pub(crate) fn start_on(engine: &EngineOptions, options: ServerOptions) -> Running {
    let pool = TestPool::new(engine);
    let experts = pool.pool.experts().map(|experts| experts.to_string());
    start_redis_with(Redis::default(), options, PoolFacts { experts, ..facts() }, pool.process())
}

/// A client of a pool over shared memory.
type PoolClient = Cache<Near<Chosen<ShmEndpoint>>>;

/// A pool of 64 MiB over shared memory.
#[derive(Clone)]
pub(crate) struct TestPool {
    pool: Arc<ChosenPool>,
    region: Arc<ShmRegion>,
    clock: Clock,
}

impl TestPool {
    /// For that engine.
    pub(crate) fn new(engine: &EngineOptions) -> Self {
        Self::of(engine, 64 << 20)
    }

    /// The same, of so many bytes.
    pub(crate) fn of(engine: &EngineOptions, bytes: u64) -> Self {
        let settings = engine.for_growth(None, bytes, 0);
        let (region, clock) = (Arc::new(ShmRegion::anonymous(settings.home_bytes()).unwrap()), Clock::host());
        let endpoint = ShmEndpoint::with_regions(vec![region.clone()], clock.clone());
        Self { pool: Arc::new(run_ready(ChosenPool::format(&endpoint, settings)).unwrap()), region, clock }
    }

    /// The same pool, as another process has it open.
    pub(crate) fn opened_again(&self) -> Self {
        let endpoint = ShmEndpoint::with_regions(vec![self.region.clone()], self.clock.clone());
        let pool = run_ready(ChosenPool::open(&endpoint, self.pool.pool().settings.home_bytes())).unwrap();
        Self { pool: Arc::new(pool), ..self.clone() }
    }

    /// Nothing that any process knows of an object without a look is valid any more.
    pub(crate) fn end_all_copies(&self) {
        let endpoint = ShmEndpoint::with_regions(vec![self.region.clone()], self.clock.clone());
        let layout = &self.pool.pool().layout;
        run_ready(Sharers::default().end(&endpoint, layout, Ending::Everything)).unwrap();
    }

    /// A process that uses it: each call joins it as a client.
    pub(crate) fn process(&self) -> impl Fn(usize) -> Result<PoolClient, CacheError> + Clone + Send + Sync + use<> {
        let (own, words) = (self.clone(), Arc::new(Words::new(10).unwrap()));
        move |_| {
            let endpoint = ShmEndpoint::with_regions(vec![own.region.clone()], own.clock.clone());
            Ok(Cache::new(Near::telling(run_ready(own.pool.join(endpoint))?, words.clone())))
        }
    }
}

/// Makes a pool of 64 MiB for that engine; each call joins it as a client.
pub(crate) fn clients_of_pool(
    engine: &EngineOptions,
) -> impl Fn(usize) -> Result<PoolClient, CacheError> + Clone + Send + Sync + 'static {
    TestPool::new(engine).process()
}

/// Starts a server over the reference engine, with these options of the protocol.
pub(crate) fn start_redis(redis: Redis, options: ServerOptions) -> Running {
    let client = |_| Ok::<_, Infallible>(Cache::new(Model::new(Clock::host())));
    start_redis_with(redis, options, facts(), client)
}

pub(crate) fn start_with<G, E, F>(options: ServerOptions, client: F) -> Running
where
    G: Engine + 'static,
    E: Display,
    F: Fn(usize) -> Result<Cache<G>, E> + Send + Sync + 'static,
{
    start_redis_with(Redis::default(), options, facts(), client)
}

fn start_redis_with<G, E, F>(redis: Redis, options: ServerOptions, facts: PoolFacts, client: F) -> Running
where
    G: Engine + 'static,
    E: Display,
    F: Fn(usize) -> Result<Cache<G>, E> + Send + Sync + 'static,
{
    let server = Server::bind(options).unwrap();
    let address = server.address().or(server.second_address()).expect("a TCP address").unwrap();
    let stopper = server.stopper();
    let second = server.second_address().map(Result::unwrap);
    let within_tls = server.tls_address().map(Result::unwrap);
    let metrics = server.metrics_address().map(Result::unwrap);
    let memcached = Memcached::new(&redis);
    let thread = std::thread::spawn(move || {
        server.run(Both::new(redis, memcached), facts, client).unwrap();
    });
    Running { address, second, within_tls, metrics, stopper, thread: Some(thread) }
}

impl Running {
    /// Where it serves memcached.
    pub(crate) fn memcached(&self) -> SocketAddr {
        self.second.expect("a server that serves memcached")
    }

    /// Where it serves Redis within TLS.
    pub(crate) fn tls(&self) -> SocketAddr {
        self.within_tls.expect("a server that speaks TLS")
    }

    /// Stops it and waits until it has ended.
    pub(crate) fn stop(&mut self) {
        self.stopper.stop();
        self.wait();
    }

    /// Waits until it has stopped.
    pub(crate) fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

/// A connection that shows replies as they are on the wire.
pub(crate) struct Raw {
    reader: BufReader<TcpStream>,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// The next reply, with all its elements.
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let mut reply = Vec::new();
        self.read_reply(&mut reply);
        reply
    }

    fn read_reply(&mut self, reply: &mut Vec<u8>) {
        let start = reply.len();
        self.reader.read_until(b'\n', reply).unwrap();
        let line = std::str::from_utf8(&reply[start..]).expect("a reply begins with text").trim_end().to_owned();
        assert!(!line.is_empty(), "the connection ended within a reply");
        let number = || line[1..].parse::<i64>().unwrap();
        match line.as_bytes()[0] {
            b'$' | b'=' if number() >= 0 => {
                let start = reply.len();
                reply.resize(start + number() as usize + 2, 0);
                self.reader.read_exact(&mut reply[start..]).unwrap();
            }
            b'*' | b'~' | b'>' if number() >= 0 => (0..number()).for_each(|_| self.read_reply(reply)),
            b'%' => (0..number() * 2).for_each(|_| self.read_reply(reply)),
            _ => {}
        }
    }

    /// Sends a command and gives its reply.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<u8> {
        self.send(&command(args));
        self.reply()
    }

    /// How many commands of another connection are answered before a reply arrives here.
    pub(crate) fn answered_meanwhile(&self, other: &mut Self) -> u32 {
        let (began, mut answered) = (Instant::now(), 0);
        self.stream().set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        while self.stream().peek(&mut [0]).is_err() {
            assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
            answered += 1;
            assert!(began.elapsed() < Duration::from_secs(60));
        }
        self.stream().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        answered
    }

    /// Everything until the server closes the connection.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A server that closes while bytes of ours are unread resets the connection, behind what it
        // said.
        let _ = self.reader.read_to_end(&mut rest);
        rest
    }
}

/// A command as a multibulk.
pub(crate) fn command<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A small generator of random numbers (splitmix64): the same seed gives the same test.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}
