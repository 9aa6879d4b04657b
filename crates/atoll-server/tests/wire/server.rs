//! The server around the commands: limits, hostile peers, workers, metrics, stopping.

use crate::common::memcached::Text;
use crate::common::{Random, Raw, TestPool, command, facts, options, start, start_on, start_with, with_memcached};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::{Cache, EngineOptions, model::Model};
use atoll_fabric::Clock;
use atoll_pool::clock::SKEW_MS;
use atoll_server::{Redis, Server, ServerOptions};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn a_busy_port_is_an_error_that_says_what_to_do() {
    let server = start(options());
    let options = ServerOptions { port: Some(server.address.port()), ..options() };
    let error = Server::bind(options).unwrap_err().to_string();
    assert!(error.contains("in use") && error.contains("choose another port"), "{error}");
}

#[test]
fn a_client_that_cannot_be_made_is_an_error_and_no_server() {
    let server = Server::bind(ServerOptions { threads: 2, ..options() }).unwrap();
    let client = |worker| match worker {
        1 => Err("the pool is full of clients"),
        _ => Ok(Cache::new(Model::new(atoll_fabric::Clock::host()))),
    };
    let ready = || panic!("it does not serve");
    let error = server.run_telling(Redis::default(), facts(), client, ready).unwrap_err().to_string();
    assert!(error.contains("the pool is full of clients"), "{error}");
}

#[test]
fn a_connection_too_many_is_told_so_and_others_go_on() {
    let server = start(ServerOptions { clients_max: 2, ..options() });
    let (mut first, mut second) = (Raw::connect(server.address), Raw::connect(server.address));
    assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
    assert_eq!(second.call(&["PING"]), b"+PONG\r\n");
    let third = Raw::connect(server.address);
    assert_eq!(third.rest(), b"-ERR max number of clients reached\r\n");
    assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(10);
    while {
        let mut next = Raw::connect(server.address);
        // A refused connection may be reset before its reply is read.
        let taken = next.stream().write_all(b"PING\r\n").is_ok();
        !(taken && next.rest_of_line().is_some_and(|line| line == b"+PONG\r\n"))
    } {
        assert!(Instant::now() < deadline, "the place of a connection that ended is not given to another");
    }
}

impl Raw {
    /// The next line, unless the connection has ended.
    fn rest_of_line(&mut self) -> Option<Vec<u8>> {
        let (mut stream, mut line) = (self.stream(), Vec::new());
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                _ => return None,
            }
        }
        Some(line)
    }
}

#[test]
fn connections_go_round_the_workers() {
    let server = start(ServerOptions { threads: 3, ..options() });
    let mut connections: Vec<Raw> = (0..6).map(|_| Raw::connect(server.address)).collect();
    // Each worker has a map of its own here, so that a key shows where it was set.
    for (index, connection) in connections.iter_mut().enumerate() {
        assert_eq!(connection.call(&["SET".to_owned(), format!("k{index}"), String::new()]), b"+OK\r\n");
    }
    for connection in &mut connections {
        assert_eq!(connection.call(&["DBSIZE"]), b":2\r\n");
    }
}

#[test]
fn hostile_bytes_end_their_connection_at_most() {
    let server = start(options());
    let mut random = Random(7);
    for _ in 0..300 {
        let length = 1 + random.below(400);
        let bytes: Vec<u8> = match random.below(3) {
            0 => (0..length).map(|_| random.next() as u8).collect(),
            1 => (0..length).map(|_| b"*$\r\n0123456789-+ GETSET\"'\\x"[random.below(27)]).collect(),
            _ => {
                let mut bytes = command(&["SET", "key", "some value"]).repeat(4);
                for _ in 0..3 {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
                bytes
            }
        };
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        stream.write_all(&bytes).unwrap();
        let _ = stream.read(&mut [0; 4096]);
    }
    for announced in ["*1048576\r\n$536870912\r\n", "*2\r\n$536870912\r\n", "*1048576\r\n"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(announced.as_bytes()).unwrap();
        let mut raw = Raw::connect(server.address);
        assert_eq!(raw.call(&["PING"]), b"+PONG\r\n");
    }
}

#[test]
fn a_command_in_single_bytes_is_answered() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for byte in [command(&["SET", "k", "v"]), b"GET 'k'\r\n".to_vec()].concat() {
        raw.send(&[byte]);
    }
    assert_eq!(raw.reply(), b"+OK\r\n");
    assert_eq!(raw.reply(), b"$1\r\nv\r\n");
}

#[test]
fn a_pipeline_that_is_cut_by_its_replies_goes_on_where_it_was_cut_and_ends_with_quit() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let value = vec![b'v'; 300 << 10];
    raw.call(&[b"SET".as_slice(), b"big", &value]);
    let mut pipeline = Vec::new();
    for index in 0..50 {
        pipeline.extend(command(&["GET", "big"]));
        pipeline.extend(command(&["INCR", "count"]));
        if index % 7 == 0 {
            pipeline.extend(b"incr 'count'\r\n");
        }
    }
    pipeline.extend(command(&["QUIT"]));
    pipeline.extend(command(&["SET", "big", "overwritten"]));
    raw.send(&pipeline);
    let (mut count, big) = (0, [b"$307200\r\n".as_slice(), &value, b"\r\n"].concat());
    for index in 0..50 {
        assert!(raw.reply() == big, "{index}");
        for _ in 0..if index % 7 == 0 { 2 } else { 1 } {
            count += 1;
            assert_eq!(raw.reply(), format!(":{count}\r\n").into_bytes());
        }
    }
    assert_eq!(raw.reply(), b"+OK\r\n");
    assert_eq!(Raw::connect(server.address).call(&["STRLEN", "big"]), b":307200\r\n", "nothing runs behind QUIT");
}

#[test]
fn too_long_a_key_and_too_long_a_value_are_refused_and_change_nothing() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let key = vec![b'k'; (64 << 10) + 1];
    let reply = String::from_utf8(raw.call(&[b"SET".as_slice(), &key, b"v"])).unwrap();
    assert!(reply.starts_with("-ERR the key has 65537 bytes"), "{reply}");
    assert_eq!(raw.call(&[b"MGET".as_slice(), &key]), b"*1\r\n$-1\r\n");
    assert_eq!(raw.call(&["DBSIZE"]), b":0\r\n");
    raw.call(&["SET", "k", "v"]);
    let found = raw.call(&[b"MGET".as_slice(), b"k", &key, b"absent", b"k"]);
    assert_eq!(found, b"*4\r\n$1\r\nv\r\n$-1\r\n$-1\r\n$1\r\nv\r\n");
    let get = |key: &[u8]| command(&[b"GET".as_slice(), key]);
    raw.send(&[get(b"k"), get(b"k"), get(&key), get(b"absent"), get(b"k")].concat());
    for reply in ["$1\r\nv\r\n", "$1\r\nv\r\n", "-ERR the key has", "$-1\r\n", "$1\r\nv\r\n"] {
        let replied = String::from_utf8(raw.reply()).unwrap();
        assert!(replied.starts_with(reply), "{replied}");
    }
}

#[test]
fn gets_that_follow_each_other_are_answered_in_order_and_counted_one_by_one() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    (0..40).for_each(|key| drop(raw.call(&["SET", &format!("k{key}"), &format!("{key}")])));
    let name = |index: usize| format!("k{}", index * 7 % 50);
    let gets: Vec<u8> = (0..500).flat_map(|index| command(&["GET", &name(index)])).collect();
    raw.send(&[gets, command(&["INCR", "k0"]), command(&["GET", "k0"]), command(&["GET", "k0"])].concat());
    for index in 0..500 {
        let key = index * 7 % 50;
        let expected = match key {
            0..40 => format!("${}\r\n{key}\r\n", key.to_string().len()),
            _ => "$-1\r\n".to_owned(),
        };
        assert_eq!(raw.reply(), expected.into_bytes(), "{index}");
    }
    for reply in [":1\r\n", "$1\r\n1\r\n", "$1\r\n1\r\n"] {
        assert_eq!(raw.reply(), reply.as_bytes());
    }
    let info = String::from_utf8(raw.call(&["INFO"])).unwrap();
    // 40 SETs, 502 GETs and INCR; INFO will be counted when it has ended.
    assert!(info.contains("total_commands_processed:543"), "{info}");
}

#[test]
fn metrics_and_info_show_the_same_numbers() {
    let server = start(ServerOptions { metrics: Some("127.0.0.1:0".parse().unwrap()), ..options() });
    let mut raw = Raw::connect(server.address);
    raw.call(&["SET", "k", "v"]);
    for key in ["k", "k", "absent"] {
        raw.call(&["GET", key]);
    }
    raw.call(&["BOGUS"]);
    let info = String::from_utf8(raw.call(&["INFO"])).unwrap();
    let lines = [
        "keyspace_hits:2",
        "keyspace_misses:1",
        "db0:keys=1,",
        "fabric:none",
        "used_memory:18\r\n",
        "pool_used_bytes:12345678",
        "total_error_replies:1",
    ];
    lines.iter().for_each(|line| assert!(info.contains(line), "{line} in {info}"));
    let section = String::from_utf8(raw.call(&["INFO", "memory"])).unwrap();
    assert!(section.contains("# Memory") && !section.contains("# Server"), "{section}");

    let mut http = TcpStream::connect(server.metrics.unwrap()).unwrap();
    http.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    http.read_to_string(&mut text).unwrap();
    for line in [
        "HTTP/1.1 200 OK",
        "atoll_info{version=\"0.1.0\",fabric=\"none\",engine=\"model\"} 1",
        "atoll_hits_total 2",
        "atoll_misses_total{reason=\"absent\"} 1",
        "atoll_misses_total{reason=\"expired\"} 0",
        "atoll_modelled_misses_total{capacity=\"0.25\"} 0",
        "atoll_regroups_total 0",
        "atoll_pool_used_bytes 12345678",
        "atoll_connections 1",
        "atoll_commands_total{command=\"get\"} 3",
        "# HELP atoll_hits_total Lookups that found their key.\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    // The second INFO is among them if the worker has published meanwhile.
    let infos = "\natoll_command_seconds_bucket{command=\"info\",le=\"+Inf\"} ";
    let is_counted = [1, 2].iter().any(|count| text.contains(&format!("{infos}{count}\n")));
    assert!(is_counted, "{infos} in {text}");
}

#[test]
fn stopping_ends_idle_connections_and_stuck_ones() {
    let mut server = start(ServerOptions { threads: 2, ..options() });
    let mut idle = Raw::connect(server.address);
    assert_eq!(idle.call(&["PING"]), b"+PONG\r\n");
    let mut stuck = Raw::connect(server.address);
    stuck.call(&[b"SET".as_slice(), b"k", &vec![0; 8 << 20]]);
    stuck.send(&command(&["GET", "k"]).repeat(10));
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(idle.rest(), b"");
}

#[test]
fn shutdown_stops_the_server_and_says_what_it_does_not_do() {
    let mut server = start(options());
    let mut raw = Raw::connect(server.address);
    for (words, reply) in [
        (&["SHUTDOWN", "never"][..], "-ERR syntax error\r\n"),
        (&["SHUTDOWN", "SAVE", "NOSAVE"], "-ERR syntax error\r\n"),
        (&["SHUTDOWN", "ABORT"], "-ERR No shutdown in progress.\r\n"),
        (&["MULTI"], "+OK\r\n"),
        (&["SHUTDOWN"], "-ERR Command not allowed inside a transaction\r\n"),
        (&["EXEC"], "-EXECABORT Transaction discarded because of previous errors.\r\n"),
    ] {
        assert_eq!(String::from_utf8(raw.call(words)).unwrap(), reply);
    }
    assert!(raw.call(&["SHUTDOWN", "SAVE"]).starts_with(b"-ERR nothing is saved"));
    raw.send(&[command(&["SET", "k", "v"]), command(&["SHUTDOWN", "NOSAVE", "NOW"])].concat());
    assert_eq!(raw.rest(), b"+OK\r\n");
    server.wait();
}

#[test]
fn a_pipeline_of_costly_commands_makes_no_other_client_wait_for_all_of_them() {
    let server = start(options());
    let mut busy = Raw::connect(server.address);
    let fields: Vec<String> = (0..8000).map(|field| field.to_string()).collect();
    let set = ["HSET", "h"].into_iter().chain(fields.iter().map(String::as_str));
    busy.call(&set.collect::<Vec<_>>());
    let mut other = Raw::connect(server.address);
    no_ping_waits("the pipeline", |_| {
        longest_meanwhile(&mut other, || {
            busy.send(&command(&["HINCRBY", "h", "2", "1"]).repeat(300));
            (0..300).for_each(|_| _ = busy.reply());
        })
    });
}

/// A PING takes less than a quarter of what it is measured beside, in one of six rounds: the
/// machine may have other work.
fn no_ping_waits(beside: &str, mut measure: impl FnMut(usize) -> (Duration, Duration)) {
    let mut measured = Vec::new();
    for round in 0..6 {
        let (longest, took) = measure(round);
        if longest < took / 4 {
            return;
        }
        measured.push((longest, took));
    }
    panic!("a PING, and all of {beside}: {measured:?}");
}

/// The longest time that a PING takes while `busy` waits for so many replies, and how long they
/// take.
fn longest_meanwhile(other: &mut Raw, busy: impl FnOnce() + Send) -> (Duration, Duration) {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    let took = std::thread::scope(|scope| {
        let all = scope.spawn(busy);
        while !all.is_finished() {
            let asked = Instant::now();
            assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
            longest = longest.max(asked.elapsed());
        }
        began.elapsed()
    });
    (longest, took)
}

/// Sets so many short keys.
fn fill(raw: &mut Raw, keys: usize) {
    for from in (0..keys).step_by(1000) {
        let keys = from..keys.min(from + 1000);
        raw.send(&keys.clone().flat_map(|key| command(&["SET", &format!("key{key}"), "v"])).collect::<Vec<_>>());
        keys.for_each(|_| assert_eq!(raw.reply(), b"+OK\r\n"));
    }
}

#[test]
fn a_flush_of_many_keys_makes_no_other_client_wait_for_all_of_them() {
    for engine in [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())] {
        let server = start_on(&engine, with_memcached());
        let (mut busy, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
        let mut memcached = Text::connect(server.memcached());
        for flush in ["FLUSHALL", "FLUSHDB", "flush_all"] {
            no_ping_waits(flush, |_| {
                fill(&mut busy, 150_000);
                longest_meanwhile(&mut other, || match flush {
                    "flush_all" => assert_eq!(memcached.say("flush_all\r\n"), "OK\r\n"),
                    _ => assert_eq!(busy.call(&[flush]), b"+OK\r\n"),
                })
            });
            assert_eq!(busy.call(&["DBSIZE"]), b":0\r\n", "{engine:?} {flush}");
        }
        // As one step.
        fill(&mut busy, 2000);
        busy.send(&[command(&["MULTI"]), command(&["FLUSHALL"]), command(&["DBSIZE"]), command(&["EXEC"])].concat());
        let replies: Vec<u8> = (0..4).flat_map(|_| busy.reply()).collect();
        assert_eq!(String::from_utf8_lossy(&replies), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:0\r\n");
    }
}

/// Whatever number a peer calls a cursor, the scan goes on somewhere or is over.
#[test]
fn a_scan_from_any_cursor_ends() {
    let ditto = EngineOptions::Ditto(DittoOptions::default());
    let servers = [start(options()), start_on(&EngineOptions::default(), options()), start_on(&ditto, options())];
    for server in servers {
        let mut raw = Raw::connect(server.address);
        fill(&mut raw, 1000);
        assert_eq!(raw.call(&["HSET", "hash", "f", "1"]), b":1\r\n");
        let powers = (0..64).flat_map(|bit| [1_u64 << bit, (1_u64 << bit).wrapping_neg(), !(1_u64 << bit)]);
        for cursor in powers.chain([0, u64::MAX - 1]) {
            for command in [&["SCAN"][..], &["HSCAN", "hash"]] {
                let cursor = cursor.to_string();
                let reply = raw.call(&[command, &[&cursor, "COUNT", "10"]].concat());
                assert!(reply.starts_with(b"*2\r\n$"), "{command:?} {cursor}");
            }
        }
    }
}

/// What is to run alone waits for those that run, and others wait behind it.
#[test]
fn commands_on_many_keys_make_no_other_client_wait_while_scripts_run() {
    let server = start_on(&EngineOptions::default(), options());
    let (mut busy, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let mut scripts = Raw::connect(server.address);
    fill(&mut busy, 60_000);
    let keys: Vec<String> = (0..60_000).map(|key| format!("key{key}")).collect();
    let many = |name: &'static str| [name].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>();
    let pairs = ["MSET"].into_iter().chain(keys.iter().flat_map(|key| [key.as_str(), "v"])).collect();
    for words in [
        vec!["KEYS", "none"],
        vec!["DBSIZE"],
        vec!["SCAN", "0", "COUNT", "60000", "MATCH", "none"],
        pairs,
        many("EXISTS"),
        many("MGET"),
        many("TOUCH"),
        many("UNLINK"),
    ] {
        let (name, sent) = (words[0], command(&words));
        // Other processes may delay a PING. What a command does delays it every time.
        let (mut longest, mut took, mut looked) = Default::default();
        for _ in 0..5 {
            ((longest, took), looked) = meanwhile(&mut scripts, &mut busy, &mut other, &sent);
            if longest < took / 4 && looked > 8 {
                break;
            }
        }
        assert!(longest < took / 4, "{name}: a PING took {longest:?} while four took {took:?}");
        assert!(looked > 8, "{name}: {looked} scripts ran within {took:?}");
    }
}

/// Sends a command four times. Returns how long a PING took meanwhile at most, how long all took,
/// and how many scripts ran.
fn meanwhile(scripts: &mut Raw, busy: &mut Raw, other: &mut Raw, sent: &[u8]) -> ((Duration, Duration), u64) {
    let (is_over, looked) = (AtomicBool::new(false), AtomicU64::new(0));
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                assert_eq!(scripts.call(&["EVAL", "return 1", "0"]), b":1\r\n");
                looked.fetch_add(1, Relaxed);
            }
        });
        let found = longest_meanwhile(other, || {
            (0..4).for_each(|_| busy.send(sent));
            (0..4).for_each(|_| _ = busy.reply());
        });
        is_over.store(true, Relaxed);
        found
    });
    (found, looked.into_inner())
}

#[test]
fn commands_on_a_large_value_make_no_other_client_wait() {
    const BYTES: usize = 64 << 20;
    let server = start_with(options(), TestPool::of(&EngineOptions::default(), 512 << 20).process());
    let (mut busy, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let (bytes, last) = ("x".repeat(BYTES), (BYTES - 1).to_string());
    let fields: Vec<String> = (0..500_000).map(|field| format!("field{field}")).collect();
    let many = |name| [name, "h"].into_iter().chain(fields.iter().map(String::as_str)).collect::<Vec<_>>();
    assert_eq!(busy.call(&["HSET", "h", "field7", "v"]), b":1\r\n");
    for words in [
        vec!["SET", "k", &bytes],
        vec!["GET", "k"],
        vec!["SETBIT", "k", "ROUND", "1"],
        vec!["BITFIELD", "k", "INCRBY", "u32", "#77", "7"],
        vec!["BITCOUNT", "k", "5", "-5"],
        vec!["BITPOS", "k", "0", "9", "-5"],
        vec!["SETRANGE", "k", &last, "ROUND"],
        vec!["APPEND", "k", "y"],
        vec!["GETRANGE", "k", "0", "-1"],
        vec!["COPY", "k", "0", "REPLACE"],
        vec!["RENAME", "ROUND", "NEXT"],
        vec!["BITOP", "XOR", "d", "k", "6"],
        vec!["BITOP", "NOT", "d", "k"],
        vec!["MSETNX", "ROUND", &bytes],
        many("HMGET"),
        many("HDEL"),
    ] {
        no_ping_waits(words[0], |round| {
            let (next, round) = ((round + 1).to_string(), round.to_string());
            let word = |word| match word {
                "ROUND" => &round,
                "NEXT" => &next,
                word => word,
            };
            let words: Vec<_> = words.iter().copied().map(word).collect();
            let sent = command(&words);
            longest_meanwhile(&mut other, || {
                busy.send(&sent);
                assert!(!busy.reply().starts_with(b"-"), "{}", words[0]);
            })
        });
    }
}

/// What is to run alone waits for no large value, and nothing waits with it.
#[test]
fn transactions_beside_large_values_make_no_other_client_wait() {
    const BYTES: usize = 64 << 20;
    let server = start_with(options(), TestPool::of(&EngineOptions::default(), 512 << 20).process());
    let (mut busy, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let bytes = "x".repeat(BYTES);
    for words in [vec!["SET", "k", &bytes], vec!["GET", "k"], vec!["APPEND", "k", "y"]] {
        let sent = command(&words);
        no_ping_waits(words[0], |_| {
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut alone = Raw::connect(server.address);
                    while !is_over.load(Relaxed) {
                        alone.send(b"multi\r\nincr n\r\nexec\r\n");
                        (0..3).for_each(|_| assert!(!alone.reply().starts_with(b"-")));
                    }
                });
                let measured = longest_meanwhile(&mut other, || {
                    busy.send(&sent);
                    assert!(!busy.reply().starts_with(b"-"), "{}", words[0]);
                });
                is_over.store(true, Relaxed);
                measured
            })
        });
    }
}

/// Values of a megabyte and more are changed and counted in another way than small ones.
#[test]
fn large_values_are_changed_and_counted_as_small_ones_are() {
    let server = start_on(&EngineOptions::default(), options());
    let mut raw = Raw::connect(server.address);
    let mut random = Random(77);
    let mut bytes = vec![0_u8; 1_300_000];
    raw.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    let mut events = Raw::connect(server.address);
    events.call(&["SUBSCRIBE", "__keyspace@0__:k"]);
    raw.call(&["SETRANGE", "k", &(bytes.len() - 1).to_string(), "\0"]);
    assert!(String::from_utf8(events.reply()).unwrap().contains("setrange"));
    for round in 0..120 {
        // Bytes of another value lie behind a short one in the same memory.
        let other = "\u{7f}".repeat(random.below(3_000_000));
        assert_eq!(raw.call(&["SET", "other", &other]), b"+OK\r\n");
        raw.call(&["GET", "other"]);
        let (place, far) = (random.below(bytes.len()), random.below(40_000));
        let event = match round % 4 {
            0 => {
                assert_eq!(raw.call(&["APPEND", "k", "abc"]), format!(":{}\r\n", bytes.len() + 3).into_bytes());
                bytes.extend_from_slice(b"abc");
                "append"
            }
            1 => {
                let at = if round % 8 == 1 { place } else { bytes.len() + far };
                bytes.resize(bytes.len().max(at + 3), 0);
                bytes[at..at + 3].copy_from_slice(b"xyz");
                let length = format!(":{}\r\n", bytes.len()).into_bytes();
                assert_eq!(raw.call(&["SETRANGE", "k", &at.to_string(), "xyz"]), length);
                "setrange"
            }
            2 => {
                let bit = 8 * if round % 8 == 2 { place } else { bytes.len() + far } + 5;
                bytes.resize(bytes.len().max(bit / 8 + 1), 0);
                let was = bytes[bit / 8] >> 2 & 1;
                bytes[bit / 8] ^= 4;
                let reply = raw.call(&["SETBIT", "k", &bit.to_string(), &(1 - was).to_string()]);
                assert_eq!(reply, format!(":{was}\r\n").into_bytes());
                "setbit"
            }
            _ => {
                let at = if round % 8 == 3 { place.min(bytes.len() - 4) } else { bytes.len() + far };
                bytes.resize(bytes.len().max(at + 4), 0);
                let was = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
                bytes[at..at + 4].copy_from_slice(&was.wrapping_add(7).to_be_bytes());
                let reply = raw.call(&[
                    "BITFIELD",
                    "k",
                    "GET",
                    "u32",
                    &(8 * at).to_string(),
                    "INCRBY",
                    "u32",
                    &(8 * at).to_string(),
                    "7",
                ]);
                assert_eq!(reply, format!("*2\r\n:{was}\r\n:{}\r\n", was.wrapping_add(7)).into_bytes());
                "setbit"
            }
        };
        let told = String::from_utf8(events.reply()).unwrap();
        assert!(told.contains(event), "{told}");
        let (one, two) = (random.below(8 * bytes.len()), random.below(8 * bytes.len()));
        let (first, last) = (one.min(two), one.max(two).min(one.min(two) + (8 << random.below(22))));
        let bit = |number: usize| bytes[number / 8] >> (7 - number % 8) & 1;
        let range = [first.to_string(), last.to_string()];
        let count = (first..=last).filter(|number| bit(*number) == 1).count();
        assert_eq!(raw.call(&["BITCOUNT", "k", &range[0], &range[1], "BIT"]), format!(":{count}\r\n").into_bytes());
        let wanted = round as u8 % 2;
        let place = (first..=last).find(|number| bit(*number) == wanted).map_or(-1, |number| number as i64);
        let reply = raw.call(&["BITPOS", "k", &wanted.to_string(), &range[0], &range[1], "BIT"]);
        assert_eq!(reply, format!(":{place}\r\n").into_bytes(), "{range:?}");
        let at = (8 * bytes.len() - 40).to_string();
        let read = u16::from_be_bytes([bytes[bytes.len() - 5], bytes[bytes.len() - 4]]);
        assert_eq!(raw.call(&["BITFIELD_RO", "k", "GET", "u16", &at]), format!("*1\r\n:{read}\r\n").into_bytes());
    }
    let whole = raw.call(&["GET", "k"]);
    assert_eq!(whole, [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat());
    let whole = bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert_eq!(raw.call(&["BITCOUNT", "k"]), format!(":{whole}\r\n").into_bytes());
}

#[test]
fn requests_of_memcached_make_no_other_client_wait_for_all_of_them() {
    let server = start_on(&EngineOptions::default(), with_memcached());
    let mut other = Raw::connect(server.address);
    let mut memcached = Text::connect(server.memcached());
    assert_eq!(memcached.say(format!("set k 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000))), "STORED\r\n");
    // Each makes the value anew.
    let appends = "append k 0 0 1\r\ny\r\n".repeat(200);
    no_ping_waits("the appends", |_| {
        longest_meanwhile(&mut other, || assert_eq!(memcached.say(&appends), "STORED\r\n".repeat(200)))
    });
    // The keys of one request.
    let line = format!("get{}\r\n", " absent".repeat(140_000));
    let lines = line.repeat(8);
    no_ping_waits("the lookups", |_| {
        longest_meanwhile(&mut other, || assert_eq!(memcached.say(&lines), "END\r\n".repeat(8)))
    });
}

#[test]
fn a_key_never_expires_before_its_time_has_passed() {
    for engine in [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())] {
        let server = start_on(&engine, with_memcached());
        let (mut raw, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
        for round in 0..100_u64 {
            let ms = 3 + round % 7;
            let began = Instant::now();
            match round % 3 {
                0 => raw.call(&["SET", "k", "v", "PX", &ms.to_string()]),
                1 => raw.call(&["PSETEX", "k", &ms.to_string(), "v"]),
                _ => {
                    raw.call(&["SET", "k", "v"]);
                    raw.call(&["PEXPIRE", "k", &ms.to_string()])
                }
            };
            let left = String::from_utf8(raw.call(&["PTTL", "k"])).unwrap();
            let left: i64 = left.trim_start_matches(':').trim_end().parse().unwrap();
            // It may be over by now on a busy host, and then PTTL finds no key.
            assert!(left <= ms as i64 && (left >= 0 || began.elapsed() >= Duration::from_millis(ms)), "{left} of {ms}");
            while other.call(&["EXISTS", "k"]) == b":1\r\n" {
                assert!(began.elapsed() < Duration::from_secs(5), "it expires at last");
            }
            let took = began.elapsed();
            assert!(took >= Duration::from_millis(ms), "{engine:?}: {ms} ms were over after {took:?}");
        }
    }
}

#[test]
fn ttl_and_expiretime_round_to_the_nearest_second() {
    // A clock that stands still: what is set now is asked after now.
    let (clock, _hand) = Clock::manual(1_000_000 * 1_000_000_000);
    let server = start_with(options(), move |_| Ok::<_, Infallible>(Cache::new(Model::new(clock.clone()))));
    let mut raw = Raw::connect(server.address);
    for (ms, seconds) in [(1, 0), (497, 0), (500, 1), (1497, 1), (1500, 2), (59_999, 60), (60_000, 60)] {
        assert_eq!(raw.call(&["SET", "k", "v", "PX", &ms.to_string()]), b"+OK\r\n");
        for (command, expected) in [
            ("PTTL", ms),
            ("TTL", seconds),
            ("PEXPIRETIME", 1_000_000_000 + ms + SKEW_MS),
            ("EXPIRETIME", 1_000_000 + seconds),
        ] {
            assert_eq!(raw.call(&[command, "k"]), format!(":{expected}\r\n").into_bytes(), "{command} with {ms} ms");
        }
    }
}

#[test]
fn info_and_the_metrics_tell_of_the_wall_clock_and_of_absent_memory_nodes() {
    let server = start(ServerOptions { metrics: Some("127.0.0.1:0".parse().unwrap()), ..options() });
    let info = Raw::connect(server.address).call(&["INFO", "atoll"]);
    let info = String::from_utf8_lossy(&info);
    assert!(info.contains("wall_clock_ahead_ms:-1500\r\n") && info.contains("clocks_refused:0\r\n"), "{info}");
    assert!(info.contains("memory_nodes_absent:1\r\n"), "{info}");
    let mut stream = TcpStream::connect(server.metrics.unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    assert!(metrics.contains("\natoll_wall_clock_ahead_seconds -1.5\n"), "{metrics}");
    assert!(metrics.contains("\natoll_memory_nodes_absent 1\n"), "{metrics}");
    assert!(metrics.contains("\natoll_clocks_refused_total 0\n"), "{metrics}");
}
