//! A fabric that waits: operations that are slow are in the way of their own connection alone.

mod common;

use atoll_cache::model::Model;
use atoll_cache::{Cache, CacheError, Change, Engine, Lookup, Meta, Value};
use atoll_fabric::{Clock, VerbError};
use atoll_server::ServerOptions;
use common::{Raw, Running, options, start_with};
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
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        if self.stage.is_held(key) {
            self.stage.waiting.fetch_add(1, SeqCst);
            poll_fn(|_| if self.stage.is_held(key) { Poll::Pending } else { Poll::Ready(()) }).await;
            self.stage.waiting.fetch_sub(1, SeqCst);
        }
        self.usable()?;
        self.model.get(key, into).await
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        self.model.peek(key).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        self.usable()?;
        self.model.update(key, change).await
    }

    atoll_cache::forward_engine!(model);

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
    assert!(reply.starts_with("-ERR") && reply.contains("shut out"), "{reply}");
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
