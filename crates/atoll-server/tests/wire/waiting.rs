//! A fabric that waits: operations that are slow are in the way of their own connection alone.

use crate::common;
use crate::common::{Raw, Running, options, start_with};
use atoll_cache::model::Model;
use atoll_cache::{Cache, CacheError, Change, ChosenPool, Engine, EngineOptions, Lasting, Lookup, Value};
use atoll_fabric::conformance::late::{self, Late};
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Clock, VerbError, block_on};
use atoll_server::ServerOptions;
use std::collections::HashSet;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

/// What the test and the engine's thread share.
#[derive(Default)]
struct Stage {
    /// Lookups of these keys wait.
    held: Mutex<HashSet<Vec<u8>>>,
    /// Lookups that wait now.
    waiting: AtomicUsize,
    /// Lookups so far.
    lookups: AtomicUsize,
    /// Rounds of tending.
    tended: AtomicUsize,
    /// Whether the first client has been shut out.
    is_shut_out: AtomicBool,
    /// Clients that have joined.
    joined: AtomicUsize,
}

impl Stage {
    fn hold(&self, key: &str) {
        self.held.lock().unwrap().insert(key.as_bytes().to_vec());
    }

    fn release(&self, key: &str) {
        self.held.lock().unwrap().remove(key.as_bytes());
    }

    fn is_held(&self, key: &[u8]) -> bool {
        self.held.lock().unwrap().contains(key)
    }
}

/// The reference engine, with lookups that wait until a test releases their keys.
struct Waiting {
    model: Model,
    stage: Arc<Stage>,
    number: usize,
}

impl Engine for Waiting {
    atoll_cache::pass_on_operations!(model, stats);

    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        self.stage.lookups.fetch_add(1, SeqCst);
        if self.stage.is_held(key) {
            self.stage.waiting.fetch_add(1, SeqCst);
            poll_fn(|_| if self.stage.is_held(key) { Poll::Pending } else { Poll::Ready(()) }).await;
            self.stage.waiting.fetch_sub(1, SeqCst);
        }
        self.usable()?;
        self.model.get(key, into).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        self.usable()?;
        self.model.update(key, change).await
    }

    async fn tend(&self) -> Result<(), CacheError> {
        self.stage.tended.fetch_add(1, SeqCst);
        self.usable()
    }
}

impl Waiting {
    fn usable(&self) -> Result<(), CacheError> {
        match self.number == 0 && self.stage.is_shut_out.load(SeqCst) {
            true => Err(VerbError::Fenced.into()),
            false => Ok(()),
        }
    }
}

fn start(options: ServerOptions) -> (Running, Arc<Stage>) {
    let stage = Arc::new(Stage::default());
    let shared = stage.clone();
    let server = start_with(options, move |_| {
        let number = shared.joined.fetch_add(1, SeqCst);
        let model = Model::new(Clock::host());
        Ok::<_, Infallible>(Cache::new(Waiting { model, stage: shared.clone(), number }))
    });
    (server, stage)
}

/// Waits until something is so that another thread does.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const GET_SLOW: [&str; 2] = ["GET", "slow"];

#[test]
fn lookups_of_different_connections_overlap_and_others_are_answered_meanwhile() {
    let (server, stage) = start(options());
    let mut connections: Vec<Raw> = (0..4).map(|_| Raw::connect(server.address)).collect();
    connections[0].call(&["SET", "slow", "v"]);
    stage.hold("slow");
    for connection in &mut connections[..3] {
        connection.send(&common::command(&GET_SLOW));
    }
    until("three lookups wait at once", || stage.waiting.load(SeqCst) == 3);
    assert_eq!(connections[3].call(&["SET", "quick", "w"]), b"+OK\r\n");
    assert_eq!(connections[3].call(&["GET", "quick"]), b"$1\r\nw\r\n");
    stage.release("slow");
    for connection in &mut connections[..3] {
        assert_eq!(connection.reply(), b"$1\r\nv\r\n");
    }
}

#[test]
fn a_command_that_waits_for_a_locked_key_is_told_of_the_script_before_it() {
    let (server, stage) = start(ServerOptions { threads: 2, ..options() });
    let [mut mover, mut script, mut waiting, mut other] = std::array::from_fn(|_| Raw::connect(server.address));
    assert_eq!(mover.call(&[b"SET".as_slice(), b"slow", &vec![b'v'; 2 << 20]]), b"+OK\r\n");
    assert_eq!(mover.call(&["CONFIG", "SET", "busy-reply-threshold", "50"]), b"+OK\r\n");
    // It has locked its keys.
    stage.hold("slow");
    mover.send(&common::command(&["COPY", "slow", "to"]));
    until("the copy waits", || stage.waiting.load(SeqCst) == 1);
    script.send(&common::command(&["EVAL", "while true do end", "0"]));
    std::thread::sleep(Duration::from_millis(300));
    waiting.send(&[common::command(&["GET", "to"]), common::command(&["GET", "other"])].concat());
    std::thread::sleep(Duration::from_millis(300));
    stage.release("slow");
    assert_eq!(mover.reply(), b":1\r\n");
    assert!(waiting.reply().starts_with(b"-BUSY"));
    assert!(waiting.reply().starts_with(b"-BUSY"));
    assert_eq!(other.call(&["SCRIPT", "KILL"]), b"+OK\r\n");
    assert!(script.reply().starts_with(b"-ERR Script killed by user"));
    assert!(waiting.call(&["GET", "to"]).starts_with(b"$2097152\r\n"));
}

#[test]
fn writers_of_one_large_hash_begin_again_once_at_most() {
    const WRITERS: usize = 8;
    const WRITES: usize = 10;
    let (server, stage) = start(options());
    let mut raw = Raw::connect(server.address);
    for first in (0..70_000).step_by(10_000) {
        let fields = (first..first + 10_000).flat_map(|field| [field.to_string(), "value".to_owned()]);
        raw.call(&["HSET".to_owned(), "h".to_owned()].into_iter().chain(fields).collect::<Vec<_>>());
    }
    let before = stage.lookups.load(SeqCst);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut raw = Raw::connect(server.address);
            scope.spawn(move || {
                for write in 0..WRITES {
                    let field = format!("{writer} {write}");
                    assert_eq!(raw.call(&["HSET", "h", &field, "v"]), b":1\r\n");
                }
            });
        }
    });
    assert_eq!(raw.call(&["HLEN", "h"]), format!(":{}\r\n", 70_000 + WRITERS * WRITES).into_bytes());
    let lookups = stage.lookups.load(SeqCst) - before;
    assert!(lookups <= 2 * WRITERS * WRITES + 2, "{lookups} lookups for {} writes", WRITERS * WRITES);
}

#[test]
fn replies_of_one_connection_are_in_order() {
    let (server, stage) = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["SET", "slow", "v"]);
    stage.hold("slow");
    raw.send(
        &[common::command(&GET_SLOW), common::command(&["SET", "slow", "new"]), common::command(&GET_SLOW)].concat(),
    );
    until("the first one waits", || stage.waiting.load(SeqCst) == 1);
    raw.stream().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(raw.stream().read(&mut [0; 1]).is_err(), "nothing overtakes a command of its connection");
    raw.stream().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stage.release("slow");
    assert_eq!([raw.reply(), raw.reply(), raw.reply()].concat(), b"$1\r\nv\r\n+OK\r\n$3\r\nnew\r\n");
}

#[test]
fn the_worker_tends_and_publishes_while_an_operation_waits() {
    let (server, stage) = start(ServerOptions { metrics: Some("127.0.0.1:0".parse().unwrap()), ..options() });
    let (mut slow, mut quick) = (Raw::connect(server.address), Raw::connect(server.address));
    stage.hold("slow");
    slow.send(&common::command(&GET_SLOW));
    until("the lookup waits", || stage.waiting.load(SeqCst) == 1);
    let tended = stage.tended.load(SeqCst);
    until("it tends", || stage.tended.load(SeqCst) >= tended + 3);
    assert_eq!(quick.call(&["SET", "k", "v"]), b"+OK\r\n");
    until("it publishes", || {
        let mut http = TcpStream::connect(server.metrics.unwrap()).unwrap();
        http.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        http.read_to_string(&mut text).unwrap();
        text.contains("\natoll_objects 1\n")
    });
    stage.release("slow");
    assert_eq!(slow.reply(), b"$-1\r\n");
}

#[test]
fn a_client_that_was_shut_out_is_replaced_while_its_operations_wait() {
    let (server, stage) = start(options());
    let (mut slow, mut quick) = (Raw::connect(server.address), Raw::connect(server.address));
    stage.hold("slow");
    slow.send(&common::command(&GET_SLOW));
    until("the lookup waits", || stage.waiting.load(SeqCst) == 1);
    stage.is_shut_out.store(true, SeqCst);
    until("another client joins", || stage.joined.load(SeqCst) == 2);
    assert_eq!(quick.call(&["SET", "k", "v"]), b"+OK\r\n");
    stage.release("slow");
    let reply = String::from_utf8(slow.reply()).unwrap();
    assert!(reply.starts_with("-ERR") && reply.contains("lost the pool"), "{reply}");
    assert_eq!(slow.call(&["GET", "k"]), b"$1\r\nv\r\n");
}

#[test]
fn a_server_stops_while_an_operation_waits() {
    let (mut server, stage) = start(options());
    let mut raw = Raw::connect(server.address);
    stage.hold("slow");
    raw.send(&common::command(&GET_SLOW));
    until("the lookup waits", || stage.waiting.load(SeqCst) == 1);
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A pool whose fabric's results come late.
struct LatePool {
    region: Arc<ShmRegion>,
    clock: Clock,
    pool: ChosenPool,
    /// While this is not set, no result comes to a server.
    answers: Arc<AtomicBool>,
}

fn late_endpoint(region: &Arc<ShmRegion>, clock: &Clock) -> Late<ShmEndpoint> {
    Late(ShmEndpoint::with_regions(vec![region.clone()], clock.clone()))
}

impl LatePool {
    fn new(engine: &EngineOptions) -> Self {
        let settings = engine.for_growth(None, 4 << 20, 0);
        let (region, clock) = (Arc::new(ShmRegion::anonymous(settings.home_bytes()).unwrap()), Clock::host());
        let endpoint = late_endpoint(&region, &clock);
        let pool = block_on(&endpoint, ChosenPool::format(&endpoint, settings)).unwrap();
        Self { region, clock, pool, answers: Arc::new(AtomicBool::new(true)) }
    }

    /// A server over it, as `atoll serve` has it where the fabric waits.
    fn serve(&self) -> Running {
        let (region, clock) = (self.region.clone(), self.clock.clone());
        let (pool, answers) = (self.pool.clone(), self.answers.clone());
        start_with(options(), move |_| {
            late::count_polls(answers.clone());
            let endpoint = late_endpoint(&region, &clock);
            let joined = block_on(&endpoint, pool.join(late_endpoint(&region, &clock)));
            joined.map(|engine| Cache::new(Lasting::new(engine)))
        })
    }

    /// All clients have left, and nothing is half done.
    fn check(&self) {
        let endpoint = late_endpoint(&self.region, &self.clock);
        let auditor = self.pool.auditor(late_endpoint(&self.region, &self.clock)).unwrap();
        let audit = block_on(&endpoint, auditor.verify()).unwrap();
        assert!(audit.faults.is_empty(), "{:?}", audit.faults);
        let [_, open, _, leaving, ..] = audit.chunks;
        assert_eq!((open, leaving), (0, 0), "the server's client has put back what it held: {audit:?}");
        assert!(audit.objects > 100, "{audit:?}");
    }
}

/// Sets of `keys`, with values of all sizes, for a pool that is soon full.
fn sets(keys: std::ops::Range<usize>) -> Vec<u8> {
    keys.flat_map(|key| {
        let value = "v".repeat(if key % 100 == 7 { 60_000 } else { 1 + key * 37 % 900 });
        common::command(&["SET", &format!("key {}", key % 5000), &value])
    })
    .collect()
}

/// Returns when 300 of the `sets` that `stream` sent are done: as many objects as `LatePool::check`
/// asks for, however slow the machine is.
fn wait_for_sets(stream: &mut TcpStream) {
    let mut replies = [0; "+OK\r\n".len() * 300];
    stream.read_exact(&mut replies).unwrap();
}

#[test]
fn connections_that_are_cut_while_operations_wait_leave_nothing_half_done() {
    for engine in [EngineOptions::default(), EngineOptions::ditto("lru+lfu".parse().unwrap())] {
        let pool = LatePool::new(&engine);
        let mut server = pool.serve();
        let address = server.address;
        for round in 0..12 {
            let cut: Vec<_> = (0..4)
                .map(|connection| {
                    let first = (round * 4 + connection) * 1000;
                    let bytes = sets(first..first + 1000);
                    std::thread::spawn(move || {
                        let mut stream = TcpStream::connect(address).unwrap();
                        stream.write_all(&bytes[..bytes.len() - 3]).unwrap();
                        if round == 0 {
                            wait_for_sets(&mut stream);
                        }
                        std::thread::sleep(Duration::from_millis((7 * round + 3 * connection) as u64 % 20));
                        // With replies that were not read: the connection is reset.
                        drop(stream);
                    })
                })
                .collect();
            cut.into_iter().for_each(|thread| thread.join().unwrap());
        }
        server.stop();
        pool.check();
    }
}

#[test]
fn operations_that_are_dropped_as_the_server_stops_end_and_its_client_leaves() {
    for engine in [EngineOptions::default(), EngineOptions::ditto("lru+lfu".parse().unwrap())] {
        let pool = LatePool::new(&engine);
        for round in 0..4 {
            let mut server = pool.serve();
            let bytes = sets(round * 7000..round * 7000 + 10_000);
            let mut streams: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(server.address).unwrap()).collect();
            let mut replying = streams[0].try_clone().unwrap();
            std::thread::scope(|scope| {
                for stream in &mut streams {
                    // It ends when the server does.
                    scope.spawn(|| stream.write_all(&bytes).is_ok());
                }
                wait_for_sets(&mut replying);
                std::thread::sleep(Duration::from_millis(50 + 7 * round as u64));
                // From here on four operations wait, until their connections are dropped.
                pool.answers.store(false, SeqCst);
                let answers = pool.answers.clone();
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(1400));
                    answers.store(true, SeqCst);
                });
                server.stop();
            });
            pool.check();
        }
    }
}
