//! Hashes: their limits, what other kinds of values say to their commands, and what other processes
//! of the pool do to them.

use crate::common::redis_server::Redis;
use crate::common::{Raw, clients_of_pool, command, options, start, start_on, start_with};
use atoll_cache::{Attributes, Cache, Engine, EngineOptions, Expiry, SetOptions};
use atoll_fabric::run_ready;
use atoll_server::ServerOptions;
use atoll_server::redis::hash::{BYTES_MAX, push_pair};
use std::collections::HashMap;
use std::time::Duration;

const WRONG_KIND: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const NO_HASH: &str =
    "-ERR the value is no hash that a client of Redis has written: remove the key, or set it anew\r\n";
const ENGINES: [fn() -> EngineOptions; 2] = [EngineOptions::default, || EngineOptions::Ditto(Default::default())];

fn text(reply: Vec<u8>) -> String {
    String::from_utf8_lossy(&reply).into_owned()
}

/// Commands on a key `K`, which is a string or a hash. Each replies the same to every run.
const COMMANDS: &[&[&str]] = &[
    &["GET", "K"],
    &["SET", "K", "x", "GET"],
    &["SET", "K", "x", "NX", "GET"],
    &["SET", "K", "x", "NX"],
    &["SET", "K", "x", "XX"],
    &["SET", "K", "x"],
    &["SETNX", "K", "x"],
    &["SETEX", "K", "1000", "x"],
    &["GETSET", "K", "x"],
    &["GETDEL", "K"],
    &["GETEX", "K"],
    &["GETEX", "K", "PERSIST"],
    &["GETEX", "K", "EX", "1000"],
    &["GETEX", "K", "EX", "0"],
    &["MGET", "K", "absent", "K"],
    &["MSET", "K", "x"],
    &["MSETNX", "K", "x"],
    &["STRLEN", "K"],
    &["APPEND", "K", "x"],
    &["GETRANGE", "K", "0", "1"],
    &["GETRANGE", "K", "x", "1"],
    &["SUBSTR", "K", "0", "1"],
    &["SETRANGE", "K", "1", "x"],
    &["SETRANGE", "K", "1", ""],
    &["SETRANGE", "K", "-1", "x"],
    &["SETRANGE", "K", "536870912", "x"],
    &["INCR", "K"],
    &["DECR", "K"],
    &["INCRBY", "K", "5"],
    &["INCRBY", "K", "x"],
    &["DECRBY", "K", "5"],
    &["INCRBYFLOAT", "K", "1.5"],
    &["INCRBYFLOAT", "K", "x"],
    &["SETBIT", "K", "7", "1"],
    &["SETBIT", "K", "x", "1"],
    &["GETBIT", "K", "7"],
    &["BITCOUNT", "K"],
    &["BITCOUNT", "K", "x", "1"],
    &["BITPOS", "K", "1"],
    &["BITPOS", "K", "x"],
    &["BITOP", "AND", "to", "other", "K"],
    &["BITOP", "NOT", "K", "other"],
    &["BITOP", "OR", "K", "absent"],
    &["BITFIELD", "K", "GET", "u8", "0"],
    &["BITFIELD", "K", "SET", "u8", "0", "1"],
    &["BITFIELD_RO", "K", "GET", "u8", "0"],
    &["LCS", "K", "other"],
    &["LCS", "other", "K", "bogus"],
    &["DEL", "K"],
    &["UNLINK", "K"],
    &["EXISTS", "K"],
    &["TOUCH", "K"],
    &["TYPE", "K"],
    &["TTL", "K"],
    &["EXPIRE", "K", "-1"],
    &["EXPIREAT", "K", "4102444800"],
    &["PERSIST", "K"],
    &["RENAME", "K", "to"],
    &["RENAME", "other", "K"],
    &["RENAMENX", "K", "to"],
    &["COPY", "K", "to"],
    &["COPY", "other", "K"],
    &["COPY", "other", "K", "REPLACE"],
    &["MOVE", "K", "2"],
    &["OBJECT", "REFCOUNT", "K"],
    &["SCAN", "0", "COUNT", "1000000", "MATCH", "K", "TYPE", "hash"],
    &["SCAN", "0", "COUNT", "1000000", "MATCH", "K", "TYPE", "String"],
    &["HSET", "K", "f", "1"],
    &["HSET", "K", "f"],
    &["HSET", "K", "f", "1", "g"],
    &["HSET", "K", "f", "1", "f", "2", "new", "3"],
    &["HMSET", "K", "f", "2", "new", "3"],
    &["HMSET", "K", "f", "2", "new"],
    &["HSETNX", "K", "f", "2"],
    &["HSETNX", "K", "new", "2"],
    &["HGET", "K", "f"],
    &["HGET", "K", "none"],
    &["HMGET", "K", "f", "none", "n", "f"],
    &["HMGET", "K", "1", "2", "3", "4", "5", "6", "7", "f", "8", "n", "f"],
    &["HGETALL", "K"],
    &["HDEL", "K", "none"],
    &["HDEL", "K", "n", "none", "n"],
    &["HDEL", "K", "f", "n"],
    &["HDEL", "K", "1", "2", "3", "4", "5", "6", "7", "n", "8", "f", "n"],
    &["HEXISTS", "K", "f"],
    &["HEXISTS", "K", "none"],
    &["HINCRBY", "K", "n", "5"],
    &["HINCRBY", "K", "n", "-9223372036854775808"],
    &["HINCRBY", "K", "n", "9223372036854775807"],
    &["HINCRBY", "K", "f", "5"],
    &["HINCRBY", "K", "none", "5"],
    &["HINCRBY", "K", "n", "x"],
    &["HINCRBYFLOAT", "K", "n", "1.5"],
    &["HINCRBYFLOAT", "K", "f", "5"],
    &["HINCRBYFLOAT", "K", "none", "5e3"],
    &["HINCRBYFLOAT", "K", "n", "inf"],
    &["HINCRBYFLOAT", "K", "n", "nan"],
    &["HINCRBYFLOAT", "K", "n", "x"],
    &["HKEYS", "K"],
    &["HVALS", "K"],
    &["HLEN", "K"],
    &["HSTRLEN", "K", "f"],
    &["HSTRLEN", "K", "none"],
    &["HSCAN", "K", "0"],
    &["HSCAN", "K", "x"],
    &["HSCAN", "K", "0", "MATCH", "?", "COUNT", "1"],
    &["HSCAN", "K", "0", "COUNT", "0"],
    &["HSCAN", "K", "0", "TYPE", "hash"],
    &["HSCAN", "K", "0", "MATCH"],
    &["HRANDFIELD", "K", "0"],
    &["HRANDFIELD", "K", "-0", "WITHVALUES"],
    &["HRANDFIELD", "K", "2"],
    &["HRANDFIELD", "K", "9", "withvalues"],
    &["HRANDFIELD", "K", "9", "bogus"],
    &["HRANDFIELD", "K", "9", "withvalues", "bogus"],
    &["HRANDFIELD", "K", "x"],
    &["HRANDFIELD", "K", "-9223372036854775808"],
    &["HRANDFIELD", "K", "4611686018427387903", "WITHVALUES"],
    &["HRANDFIELD", "K", "4611686018427387904", "WITHVALUES"],
    &["HRANDFIELD", "K", "-4611686018427387904", "WITHVALUES"],
    &["OBJECT", "ENCODING", "K"],
];

#[test]
fn every_command_replies_to_every_kind_of_value_as_redis_does() {
    let Some(redis) = Redis::start() else { return };
    let ours = start_on(&EngineOptions::default(), options());
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let mut both = |command: &[&str]| servers.each_mut().map(|server| text(server.call(command)));
    let mut different = Vec::new();
    for version in ["2", "3"] {
        both(&["HELLO", version]);
        for made in [&["HSET", "K", "f", "text", "n", "7"][..], &["SET", "K", "a string of some length"], &["PING"]] {
            for command in COMMANDS {
                both(&["FLUSHALL"]);
                both(&["SET", "other", "x"]);
                both(made);
                let mut seen = vec![both(command)];
                for look in [
                    &["TYPE", "K"][..],
                    &["GET", "K"],
                    &["HGETALL", "K"],
                    &["TYPE", "to"],
                    &["GET", "to"],
                    &["HGETALL", "to"],
                    &["DBSIZE"],
                ] {
                    seen.push(both(look));
                }
                for [expected, found] in seen.into_iter().filter(|[expected, found]| expected != found) {
                    different.push(format!("{made:?} {command:?}\n redis: {expected:?}\n atoll: {found:?}"));
                }
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn pipelined_gets_of_both_kinds_get_their_own_replies_and_errors_are_counted() {
    for engine in ENGINES {
        let server = start_on(&engine(), options());
        let mut raw = Raw::connect(server.address);
        raw.call(&["HSET", "h", "f", "1"]);
        raw.call(&["SET", "s", "x"]);
        raw.send(&[command(&["GET", "h"]), command(&["GET", "s"]), command(&["GET", "absent"])].concat().repeat(20));
        for _ in 0..20 {
            assert_eq!(text(raw.reply()), WRONG_KIND);
            assert_eq!(text(raw.reply()), "$1\r\nx\r\n");
            assert_eq!(text(raw.reply()), "$-1\r\n");
        }
        let info = text(raw.call(&["INFO", "all"]));
        assert!(info.contains("errorstat_WRONGTYPE:count=20\r\n"), "{info}");
        let get = info.lines().find(|line| line.starts_with("cmdstat_get:")).unwrap();
        assert!(get.contains("calls=60,") && get.ends_with("failed_calls=20"), "{get}");
    }
}

#[test]
fn a_hash_grows_to_its_limit_and_no_further() {
    let server = start_on(&EngineOptions::default(), options());
    let mut raw = Raw::connect(server.address);
    let too_long = |bytes: usize| {
        format!(
            "-ERR the hash would have {bytes} bytes, and the limit is 1048576: split it, since each change writes all of it\r\n"
        )
    };
    // The lengths of field and value take one byte and three.
    let longest = vec![b'x'; BYTES_MAX - 5];
    let longer = vec![b'x'; BYTES_MAX - 4];
    assert_eq!(text(raw.call(&[&b"HSET"[..], b"h", b"f", &longer])), too_long(BYTES_MAX + 1));
    assert_eq!(text(raw.call(&["EXISTS", "h"])), ":0\r\n");
    assert_eq!(text(raw.call(&[&b"HSET"[..], b"h", b"f", &longest])), ":1\r\n");
    assert_eq!(text(raw.call(&["HSTRLEN", "h", "f"])), format!(":{}\r\n", longest.len()));
    for grown in [
        &["HSET", "h", "", ""][..],
        &["HMSET", "h", "", ""],
        &["HSETNX", "h", "", ""],
        &["HINCRBY", "h", "", "1"],
        &["HINCRBYFLOAT", "h", "", "1"],
    ] {
        let bytes = BYTES_MAX + if grown[0].starts_with("HINCR") { 3 } else { 2 };
        assert_eq!(text(raw.call(grown)), too_long(bytes), "{grown:?}");
    }
    assert_eq!(text(raw.call(&[&b"HSET"[..], b"h", b"f", &longer])), too_long(BYTES_MAX + 1));
    assert_eq!(text(raw.call(&["HLEN", "h"])), ":1\r\n");
    assert!(raw.call(&["HGET", "h", "f"]).ends_with(&[&longest[..], b"\r\n"].concat()));
    // What makes it no longer is done.
    assert_eq!(text(raw.call(&[&b"HSET"[..], b"h", b"f", &vec![b'y'; longest.len()]])), ":0\r\n");
    assert_eq!(text(raw.call(&["HSET", "h", "f", "short", "g", ""])), ":1\r\n");
    assert_eq!(text(raw.call(&["HGETALL", "h"])), "*4\r\n$1\r\nf\r\n$5\r\nshort\r\n$1\r\ng\r\n$0\r\n\r\n");
    // A command far beyond the limit, on another kind of value.
    raw.call(&["SET", "s", "x"]);
    let pairs: Vec<Vec<u8>> = (0..40_u8).flat_map(|field| [vec![field], vec![b'x'; 1 << 18]]).collect();
    for (key, refused) in [("s", WRONG_KIND.to_owned()), ("new", too_long(40 * (2 + 3 + (1 << 18))))] {
        let args: Vec<&[u8]> =
            [&b"HSET"[..], key.as_bytes()].into_iter().chain(pairs.iter().map(|it| &it[..])).collect();
        assert_eq!(text(raw.call(&args)), refused);
    }
    assert_eq!(text(raw.call(&["EXISTS", "new"])), ":0\r\n");
}

#[test]
fn a_hash_keeps_its_expiry_and_an_empty_one_is_gone() {
    let server = start_on(&EngineOptions::default(), options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["HSET", "h", "f", "1"]);
    raw.call(&["EXPIREAT", "h", "4102444800"]);
    for changed in [
        &["HSET", "h", "f", "2", "g", "3"][..],
        &["HSETNX", "h", "x", "2"],
        &["HINCRBY", "h", "f", "1"],
        &["HINCRBYFLOAT", "h", "f", "1"],
        &["HDEL", "h", "g"],
    ] {
        raw.call(changed);
        assert_eq!(text(raw.call(&["EXPIRETIME", "h"])), ":4102444800\r\n", "{changed:?}");
    }
    assert_eq!(text(raw.call(&["HDEL", "h", "f", "x"])), ":2\r\n");
    assert_eq!(text(raw.call(&["EXISTS", "h"])), ":0\r\n");
    raw.call(&["HSET", "h", "f", "1"]);
    assert_eq!(text(raw.call(&["TTL", "h"])), ":-1\r\n");
    raw.call(&["PEXPIRE", "h", "20"]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(text(raw.call(&["HGETALL", "h"])), "*0\r\n");
    assert_eq!(text(raw.call(&["HSET", "h", "g", "1"])), ":1\r\n");
    assert_eq!(text(raw.call(&["HKEYS", "h"])), "*1\r\n$1\r\ng\r\n");
}

#[test]
fn two_servers_that_change_one_hash_lose_nothing() {
    const ROUNDS: usize = 300;
    for engine in ENGINES {
        let clients = clients_of_pool(&engine());
        let options = || ServerOptions { threads: 2, ..options() };
        let servers = [start_with(options(), clients.clone()), start_with(options(), clients)];
        std::thread::scope(|scope| {
            for (index, address) in [0, 1, 0, 1].map(|server| servers[server].address).into_iter().enumerate() {
                scope.spawn(move || {
                    let mut raw = Raw::connect(address);
                    let own = format!("own:{index}");
                    for round in 0..ROUNDS {
                        raw.call(&["HINCRBY", "h", "sum", "1"]);
                        assert_eq!(text(raw.call(&["HSET", "h", &own, &round.to_string()])), ":1\r\n");
                        assert_eq!(text(raw.call(&["HINCRBYFLOAT", "h", &own, "0.5"])), {
                            let sum = format!("{round}.5");
                            format!("${}\r\n{sum}\r\n", sum.len())
                        });
                        // The last connection with a field removes the hash, if `sum` is not there.
                        if round % 10 == 9 {
                            raw.call(&["HINCRBY", "h", "sum", "1"]);
                        }
                        assert_eq!(text(raw.call(&["HDEL", "h", &own])), ":1\r\n");
                        assert_eq!(text(raw.call(&["HSET", "once", &format!("{index}:{round}"), ""])), ":1\r\n");
                    }
                });
            }
        });
        for server in &servers {
            let mut raw = Raw::connect(server.address);
            let sum = (4 * (ROUNDS + ROUNDS / 10)).to_string();
            assert_eq!(text(raw.call(&["HGETALL", "h"])), format!("*2\r\n$3\r\nsum\r\n$4\r\n{sum}\r\n"));
            assert_eq!(text(raw.call(&["HLEN", "once"])), format!(":{}\r\n", 4 * ROUNDS));
        }
        // A hash that is emptied and made anew all the time.
        std::thread::scope(|scope| {
            for (index, address) in [0, 1].map(|server| servers[server].address).into_iter().enumerate() {
                scope.spawn(move || {
                    let mut raw = Raw::connect(address);
                    let own = index.to_string();
                    for _ in 0..ROUNDS {
                        assert_eq!(text(raw.call(&["HSETNX", "brief", &own, "x"])), ":1\r\n");
                        assert_eq!(text(raw.call(&["HDEL", "brief", &own])), ":1\r\n");
                    }
                });
            }
        });
        assert_eq!(text(Raw::connect(servers[1].address).call(&["EXISTS", "brief"])), ":0\r\n");
        // A change through one server is a change for who watches through the other.
        let [mut one, mut other] = servers.each_ref().map(|server| Raw::connect(server.address));
        one.call(&["WATCH", "h"]);
        other.call(&["HSET", "h", "f", "1"]);
        one.call(&["MULTI"]);
        one.call(&["HSET", "h", "f", "2"]);
        assert_eq!(text(one.call(&["EXEC"])), "*-1\r\n");
        assert_eq!(text(one.call(&["HGET", "h", "f"])), "$1\r\n1\r\n");
    }
}

/// Another process writes a value of this kind.
fn write<G: Engine>(client: &Cache<G>, key: &[u8], value: &[u8], attributes: Attributes) {
    let options = SetOptions { attributes, expiry: Expiry::InMs(1_000_000), ..SetOptions::default() };
    assert!(run_ready(client.set(key, value, &options)).unwrap().stored);
}

#[test]
fn bytes_that_are_no_hash_are_refused_by_every_command_and_can_be_removed() {
    for engine in ENGINES {
        let clients = clients_of_pool(&engine());
        let (server, client) = (start_with(options(), clients.clone()), clients(0).unwrap());
        let mut raw = Raw::connect(server.address);
        let mut long = Vec::new();
        while long.len() <= BYTES_MAX {
            push_pair((b"field", &[b'v'; 1000]), &mut long);
        }
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x01f\x05v",
            b"\x01f\x01v\x01",
            &[0xff; 30],
            b"\x01f\xff\xff\xff\xff\xff\xff\xff\xff\x7fv",
            &long,
        ] {
            let hash = Attributes { kind: 1, ..Attributes::NONE };
            write(&client, b"h", bytes, hash);
            for refused in [
                &["HGET", "h", "f"][..],
                &["HMGET", "h", "f"],
                &["HGETALL", "h"],
                &["HKEYS", "h"],
                &["HVALS", "h"],
                &["HLEN", "h"],
                &["HEXISTS", "h", "f"],
                &["HSTRLEN", "h", "f"],
                &["HSCAN", "h", "0"],
                &["HRANDFIELD", "h"],
                &["HRANDFIELD", "h", "1"],
                &["HRANDFIELD", "h", "-1"],
                &["HSET", "h", "f", "1"],
                &["HMSET", "h", "f", "1"],
                &["HSETNX", "h", "f", "1"],
                &["HINCRBY", "h", "f", "1"],
                &["HINCRBYFLOAT", "h", "f", "1"],
                &["HDEL", "h", "f"],
            ] {
                assert_eq!(text(raw.call(refused)), NO_HASH, "{refused:?} {:?}", &bytes[..bytes.len().min(40)]);
            }
            assert_eq!(text(raw.call(&["GET", "h"])), WRONG_KIND);
            assert_eq!(text(raw.call(&["APPEND", "h", "x"])), WRONG_KIND);
            assert_eq!(text(raw.call(&["TYPE", "h"])), "+hash\r\n");
            let meta = run_ready(client.peek(b"h")).unwrap().unwrap();
            assert_eq!((meta.value_bytes, meta.attributes, meta.expiry_ms.is_some()), (bytes.len(), hash, true));
            assert_eq!(text(raw.call(&["COPY", "h", "copied", "REPLACE"])), ":1\r\n");
            assert_eq!(text(raw.call(&["DEL", "h"])), ":1\r\n");
            assert_eq!(text(raw.call(&["SET", "copied", "x"])), "+OK\r\n");
            assert_eq!(text(raw.call(&["GET", "copied"])), "$1\r\nx\r\n");
        }
    }
}

#[test]
fn a_field_that_another_process_wrote_twice_counts_once_to_those_who_change_it() {
    let clients = clients_of_pool(&EngineOptions::default());
    let (server, client) = (start_with(options(), clients.clone()), clients(0).unwrap());
    let mut raw = Raw::connect(server.address);
    let hash = Attributes { kind: 1, ..Attributes::NONE };
    write(&client, b"h", b"\x01f\x011\x01f\x0255", hash);
    assert_eq!(text(raw.call(&["HMGET", "h", "f", "f"])), "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
    assert_eq!(text(raw.call(&["HINCRBY", "h", "f", "2"])), ":3\r\n");
    assert_eq!(text(raw.call(&["HVALS", "h"])), "*2\r\n$1\r\n3\r\n$1\r\n3\r\n");
    assert_eq!(text(raw.call(&["HDEL", "h", "f"])), ":1\r\n");
    assert_eq!(text(raw.call(&["EXISTS", "h"])), ":0\r\n");
}

#[test]
fn marks_of_another_protocol_do_not_change_what_kind_a_value_is() {
    let clients = clients_of_pool(&EngineOptions::default());
    let (server, client) = (start_with(options(), clients.clone()), clients(0).unwrap());
    let mut raw = Raw::connect(server.address);
    let marked = |kind: u8| Attributes { kind: !Attributes::KIND_BITS | kind, flags: 9 };
    let attributes = |key: &[u8]| run_ready(client.peek(key)).unwrap().unwrap().attributes;
    write(&client, b"s", b"7", marked(0));
    write(&client, b"h", b"\x01f\x017", marked(1));
    assert_eq!(text(raw.call(&["GET", "s"])), "$1\r\n7\r\n");
    assert_eq!(text(raw.call(&["INCR", "s"])), ":8\r\n");
    assert_eq!(text(raw.call(&["SETBIT", "s", "0", "1"])), ":0\r\n");
    assert_eq!(text(raw.call(&["HSET", "s", "f", "1"])), WRONG_KIND);
    assert_eq!(text(raw.call(&["HINCRBY", "h", "f", "1"])), ":8\r\n");
    assert_eq!(text(raw.call(&["GET", "h"])), WRONG_KIND);
    assert_eq!([b"s", b"h"].map(|key| attributes(key)), [marked(0), marked(1)]);
    raw.call(&["MSET", "s", "x", "h", "y"]);
    assert_eq!([b"s", b"h"].map(|key| attributes(key)), [Attributes::NONE; 2]);
    // A kind that no command here knows.
    write(&client, b"k", b"7", marked(2));
    for refused in [&["GET", "k"][..], &["INCR", "k"], &["SETBIT", "k", "0", "1"], &["HGET", "k", "f"]] {
        assert_eq!(text(raw.call(refused)), WRONG_KIND, "{refused:?}");
    }
    assert_eq!(text(raw.call(&["TYPE", "k"])), "+unknown\r\n");
    for kind in ["hash", "string"] {
        assert_eq!(
            text(raw.call(&["SCAN", "0", "COUNT", "1000000", "MATCH", "k", "TYPE", kind])),
            "*2\r\n$1\r\n0\r\n*0\r\n"
        );
    }
    assert_eq!(text(raw.call(&["DEL", "k"])), ":1\r\n");
}

/// The texts of a reply that is an array of them.
fn texts(reply: &str) -> Vec<&str> {
    reply.lines().skip(2).step_by(2).collect()
}

#[test]
fn random_fields_are_any_and_repeat_only_if_asked_to() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["HSET", "h", "a", "1", "b", "2", "c", "3", "d", "4"]);
    let mut counts = HashMap::<String, u32>::new();
    let repeated = text(raw.call(&["HRANDFIELD", "h", "-4000"]));
    for field in texts(&repeated) {
        *counts.entry(field.to_owned()).or_default() += 1;
    }
    assert_eq!(counts.values().sum::<u32>(), 4000);
    assert!(counts.len() == 4 && counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
    counts.clear();
    for _ in 0..1000 {
        let some = text(raw.call(&["HRANDFIELD", "h", "2"]));
        let fields = texts(&some);
        assert!(fields.len() == 2 && fields[0] != fields[1], "{fields:?}");
        for field in fields.into_iter().chain([text(raw.call(&["HRANDFIELD", "h"])).lines().nth(1).unwrap()]) {
            *counts.entry(field.to_owned()).or_default() += 1;
        }
    }
    assert!(counts.len() == 4 && counts.values().all(|count| (600..900).contains(count)), "{counts:?}");
    let pairs = text(raw.call(&["HRANDFIELD", "h", "-50", "WITHVALUES"]));
    for pair in texts(&pairs).chunks(2) {
        assert!(["a1", "b2", "c3", "d4"].contains(&&*pair.concat()), "{pair:?}");
    }
    raw.call(&["HELLO", "3"]);
    let pairs = text(raw.call(&["HRANDFIELD", "h", "-2", "WITHVALUES"]));
    assert!(pairs.starts_with("*2\r\n*2\r\n$1\r\n") && pairs.matches("*2\r\n$1\r\n").count() == 2, "{pairs}");
}

#[test]
fn a_reply_that_repeats_fields_has_a_limit() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let value = "v".repeat(1023 * 32 - 1);
    raw.call(&["HSET", "h", "f", &value]);
    // A field has a byte, and about 32 stand around it: a pair counts as 32 KiB.
    let refused = "-ERR value is out of range, the reply would be too long\r\n";
    assert_eq!(text(raw.call(&["HRANDFIELD", "h", "-2049", "WITHVALUES"])), refused);
    assert_eq!(texts(&text(raw.call(&["HRANDFIELD", "h", "-2048", "WITHVALUES"]))).len(), 2 * 2048);
    assert_eq!(text(raw.call(&["HRANDFIELD", "h", "-9223372036854775807"])), refused);
    let repeated = |times| [&["HMGET", "h", "none"][..], &vec!["f"; times]].concat();
    assert_eq!(text(raw.call(&repeated(2049))), refused);
    assert!(text(raw.call(&repeated(2048))).starts_with("*2049\r\n$-1\r\n$32735\r\n"));
    assert_eq!(text(raw.call(&["HRANDFIELD", "absent", "-9223372036854775807"])), "*0\r\n");
    assert_eq!(text(raw.call(&["PING"])), "+PONG\r\n");
}

#[test]
fn a_long_pattern_over_many_fields_lets_others_run() {
    let server = start(options());
    let (mut raw, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let fields: Vec<String> = (0..50_000).flat_map(|field| [format!("{field:x}"), String::new()]).collect();
    let args: Vec<&str> = ["HSET", "h"].into_iter().chain(fields.iter().map(|it| &**it)).collect();
    assert_eq!(text(raw.call(&args)), ":50000\r\n");
    raw.send(&command(&["HSCAN", "h", "0", "MATCH", &["*".repeat(20_000), "7f".to_owned()].concat()]));
    let answered = raw.answered_meanwhile(&mut other);
    let expected = (0..50_000).filter(|field| format!("{field:x}").ends_with("7f")).count();
    let reply = text(raw.reply());
    assert!(reply.starts_with(&format!("*2\r\n$1\r\n0\r\n*{}\r\n", 2 * expected)), "{}", &reply[..40]);
    assert!(answered >= 5, "{answered}");
}

/// Of Redis 7.4.
#[test]
fn a_hash_is_scanned_without_its_values() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["HSET", "h", "one", "1", "two", "2"]);
    for words in [&["HSCAN", "h", "0", "NOVALUES"][..], &["HSCAN", "h", "0", "novalues", "MATCH", "*", "COUNT", "9"]] {
        assert_eq!(raw.call(words), b"*2\r\n$1\r\n0\r\n*2\r\n$3\r\none\r\n$3\r\ntwo\r\n");
    }
    assert_eq!(raw.call(&["SCAN", "0", "NOVALUES"]), b"-ERR syntax error\r\n");
}
