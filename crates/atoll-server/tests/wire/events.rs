//! Keyspace notifications: which events commands tell, those of Redis, and which keys are lost.

use crate::common::redis_server::Redis;
use crate::common::{Raw, command, options, start_on};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::time::{Duration, Instant};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8_lossy(&reply).into_owned()
}

/// Commands that change keys and look for them, each of whose events come in one order.
const COMMANDS: &[&[&str]] = &[
    &["SET", "a", "1"],
    &["SET", "a", "2"],
    &["SET", "a", "3", "NX"],
    &["SET", "none", "3", "XX"],
    &["SET", "a", "3", "EX", "1000"],
    &["SET", "a", "4", "KEEPTTL"],
    &["SET", "a", "4", "GET"],
    &["SET", "got", "4", "GET"],
    &["SET", "got", "5", "NX", "GET"],
    &["SETNX", "a", "1"],
    &["SETNX", "nx", "1"],
    &["SETEX", "ex", "1000", "v"],
    &["PSETEX", "ex", "1000000", "v"],
    &["GETSET", "a", "5"],
    &["GETSET", "gs", "5"],
    &["GETDEL", "gs"],
    &["GETDEL", "gs"],
    &["GETEX", "a"],
    &["GETEX", "a", "EX", "1000"],
    &["GETEX", "a", "PERSIST"],
    &["GETEX", "a", "PERSIST"],
    &["GETEX", "a", "EXAT", "1"],
    &["GETEX", "a", "EX", "1000"],
    &["MSET", "m1", "1", "m2", "2", "m1", "3"],
    &["MSETNX", "m1", "1", "m3", "2"],
    &["MSETNX", "m3", "1", "m4", "2"],
    &["APPEND", "ap", "x"],
    &["APPEND", "ap", ""],
    &["SETRANGE", "sr", "2", "x"],
    &["SETRANGE", "sr", "2", ""],
    &["SETRANGE", "absent", "2", ""],
    &["INCR", "n"],
    &["DECRBY", "n", "5"],
    &["INCR", "ap"],
    &["INCRBYFLOAT", "n", "1.5"],
    &["INCRBYFLOAT", "nf", "1.5"],
    &["EXPIRE", "n", "1000"],
    &["EXPIRE", "n", "1000", "NX"],
    &["EXPIRE", "absent", "1000"],
    &["PERSIST", "n"],
    &["PERSIST", "n"],
    &["PEXPIREAT", "n", "4102444800000"],
    &["EXPIRE", "n", "-1"],
    &["RENAME", "m1", "m5"],
    &["RENAME", "m2", "m5"],
    &["RENAME", "m5", "m5"],
    &["RENAME", "absent", "m5"],
    &["RENAMENX", "m3", "m5"],
    &["RENAMENX", "m3", "m6"],
    &["COPY", "m5", "m7"],
    &["COPY", "m5", "m7"],
    &["COPY", "m5", "m7", "REPLACE"],
    &["COPY", "m5", "m7", "DB", "3"],
    &["COPY", "absent", "m7"],
    &["MOVE", "m7", "2"],
    &["MOVE", "absent", "2"],
    &["SETBIT", "bits", "7", "1"],
    &["SETBIT", "bits", "7", "1"],
    &["SETBIT", "bits", "9", "0"],
    &["BITOP", "NOT", "joined", "bits"],
    &["BITOP", "OR", "joined", "absent", "absent2"],
    &["BITOP", "OR", "joined", "absent"],
    &["BITFIELD", "bf", "SET", "u8", "0", "200"],
    &["BITFIELD", "bf", "GET", "u8", "0"],
    &["BITFIELD", "bf", "OVERFLOW", "WRAP", "INCRBY", "u8", "0", "100"],
    &["BITFIELD", "bf", "OVERFLOW", "FAIL", "INCRBY", "u8", "0", "300"],
    &["BITFIELD", "bf", "OVERFLOW", "FAIL", "INCRBY", "u8", "0", "300", "SET", "u8", "#2", "1"],
    &["BITFIELD", "bf", "SET", "u8", "0", "7"],
    &["BITFIELD", "bf", "SET", "u8", "0", "7"],
    &["BITFIELD", "bf", "SET", "u8", "0", "8", "SET", "u8", "0", "7"],
    &["BITFIELD", "bf", "SET", "u8", "#9", "0", "GET", "u8", "0"],
    &["BITFIELD", "bf", "OVERFLOW", "FAIL", "INCRBY", "u8", "#20", "300"],
    &["BITFIELD", "absent", "OVERFLOW", "FAIL", "INCRBY", "u8", "0", "300"],
    &["DEL", "absent"],
    &["BITFIELD", "absent", "GET", "u8", "0"],
    &["BITFIELD_RO", "absent", "GET", "u8", "0"],
    &["GET", "m5"],
    &["GET", "absent"],
    &["MGET", "absent", "m5", "other"],
    &["EXISTS", "absent", "m5"],
    &["TOUCH", "absent", "m5"],
    &["TYPE", "absent"],
    &["TTL", "absent"],
    &["PEXPIRETIME", "absent"],
    &["STRLEN", "absent"],
    &["LCS", "absent", "other"],
    &["OBJECT", "ENCODING", "absent"],
    &["MEMORY", "USAGE", "absent"],
    &["GETRANGE", "absent", "0", "1"],
    &["GETBIT", "absent", "0"],
    &["BITCOUNT", "absent"],
    &["BITPOS", "absent", "1"],
    &["EVAL", "redis.call('select', 4) return redis.call('set', KEYS[1], 'x')", "1", "script"],
    &["MULTI"],
    &["SET", "tx", "1"],
    &["DEL", "tx", "tx"],
    &["EXEC"],
    &["SWAPDB", "0", "5"],
    &["SET", "swapped", "1"],
    &["SWAPDB", "0", "5"],
    &["HSET", "h", "f", "1"],
    &["HSET", "h", "f", "1"],
    &["HSET", "h", "f", "2", "g", "3"],
    &["HMSET", "hm", "f", "1"],
    &["HSETNX", "h", "f", "1"],
    &["HSETNX", "h", "x", "1"],
    &["HSETNX", "hx", "x", "1"],
    &["HINCRBY", "h", "f", "1"],
    &["HINCRBY", "h", "f", "x"],
    &["HINCRBY", "hi", "f", "0"],
    &["HINCRBYFLOAT", "h", "f", "1.5"],
    &["HINCRBYFLOAT", "hf", "f", "1.5"],
    &["HDEL", "h", "none"],
    &["HDEL", "h", "f", "g"],
    &["HDEL", "h", "x", "none"],
    &["HDEL", "h", "x"],
    &["HGET", "absent", "f"],
    &["HMGET", "absent", "f", "g"],
    &["HGETALL", "absent"],
    &["HKEYS", "absent"],
    &["HVALS", "absent"],
    &["HLEN", "absent"],
    &["HEXISTS", "absent", "f"],
    &["HSTRLEN", "absent", "f"],
    &["HSCAN", "absent", "0"],
    &["HRANDFIELD", "absent"],
    &["HRANDFIELD", "absent", "-2"],
    &["HGET", "hm", "none"],
    &["APPEND", "hm", "x"],
    &["INCR", "hm"],
    &["SETRANGE", "hm", "0", "x"],
    &["SETBIT", "hm", "0", "1"],
    &["GETDEL", "hm"],
    &["GETSET", "hm", "x"],
    &["GETEX", "hm", "EX", "1000"],
    &["SET", "hm", "x", "GET"],
    &["MGET", "hm", "absent"],
    &["EXPIRE", "hm", "1000"],
    &["RENAME", "hm", "hn"],
    &["COPY", "hn", "hm"],
    &["SET", "hn", "x"],
    &["HSET", "hn", "f", "1"],
    &["DEL", "hm"],
    &["DEL", "m5", "absent"],
    &["UNLINK", "m6"],
    &["FLUSHDB"],
];

/// The messages until that of channel `end`.
fn events(listener: &mut Raw) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let message = text(listener.reply());
        let parts: Vec<&str> = message.split("\r\n").collect();
        // Pattern, channel and message.
        let [_, _, "pmessage", _, _, _, channel, _, message, _] = parts[..] else { panic!("{parts:?}") };
        if channel == "end" {
            return all;
        }
        all.push(format!("{channel} {message}"));
    }
}

#[test]
fn commands_tell_the_events_that_redis_tells() {
    let Some(redis) = Redis::start() else { return };
    let ours = start_on(&EngineOptions::default(), ServerOptions { threads: 2, ..options() });
    for classes in ["KEA", "KA", "E$", "KEgnm"] {
        let mut servers = [redis.address, ours.address].map(|address| {
            let (mut other, mut listener) = (Raw::connect(address), Raw::connect(address));
            other.call(&["FLUSHALL"]);
            assert_eq!(text(other.call(&["CONFIG", "SET", "notify-keyspace-events", classes])), "+OK\r\n");
            listener.call(&["PSUBSCRIBE", "*"]);
            (other, listener)
        });
        for command in COMMANDS {
            let [expected, found] = servers.each_mut().map(|(other, listener)| {
                other.call(command);
                if command[0] == "MULTI" || command[1..].contains(&"tx") {
                    return Vec::new();
                }
                other.call(&["PUBLISH", "end", ""]);
                events(listener)
            });
            assert_eq!(expected, found, "{command:?} with {classes:?}");
        }
    }
}

#[test]
fn pipelined_gets_tell_what_they_miss_and_nothing_is_told_unless_it_is_wanted() {
    let server = start_on(&EngineOptions::default(), options());
    let (mut own, mut listener) = (Raw::connect(server.address), Raw::connect(server.address));
    listener.call(&["PSUBSCRIBE", "*"]);
    let gets = [command(&["GET", "absent"]).repeat(20), command(&["SET", "a", "1"])].concat();
    for (classes, expected) in [("", 0), ("K", 0), ("A", 0), ("Em", 20), ("KE$", 2)] {
        own.call(&["CONFIG", "SET", "notify-keyspace-events", classes]);
        own.send(&gets);
        (0..21).for_each(|_| _ = own.reply());
        own.call(&["PUBLISH", "end", ""]);
        assert_eq!(events(&mut listener).len(), expected, "{classes:?}");
    }
}

#[test]
fn keys_that_expire_or_are_evicted_are_told_with_their_database() {
    for engine in [EngineOptions::default(), EngineOptions::Ditto(Default::default())] {
        let server = start_on(&engine, ServerOptions { threads: 2, ..options() });
        let (mut own, mut listener) = (Raw::connect(server.address), Raw::connect(server.address));
        listener.call(&["PSUBSCRIBE", "__key*"]);
        own.call(&["CONFIG", "SET", "notify-keyspace-events", "Exe"]);
        // All workers note within a tenth of a second.
        std::thread::sleep(Duration::from_millis(500));
        own.call(&["SELECT", "3"]);
        own.call(&["SET", "short", "x", "PX", "20"]);
        let began = Instant::now();
        let expired = "*4\r\n$8\r\npmessage\r\n$6\r\n__key*\r\n$22\r\n__keyevent@3__:expired\r\n$5\r\nshort\r\n";
        // A look finds it, if no sweep has.
        std::thread::sleep(Duration::from_millis(50));
        own.call(&["GET", "short"]);
        assert_eq!(text(listener.reply()), expired);
        assert!(began.elapsed() < Duration::from_secs(20));
        // More than the pool has room for; replaced and deleted keys are not told.
        let value = "x".repeat(10_000);
        let fill = std::thread::spawn(move || {
            for index in 0..20_000 {
                own.call(&["SET", &format!("key:{}", index / 2), &value]);
            }
            own.call(&["FLUSHALL"]);
            own.call(&["PUBLISH", "__key_end", ""]);
        });
        let mut evicted = Vec::new();
        loop {
            let message = text(listener.reply());
            let parts: Vec<&str> = message.split("\r\n").collect();
            if parts[6] == "__key_end" {
                break;
            }
            assert_eq!(parts[6], "__keyevent@3__:evicted");
            assert!(parts[8].starts_with("key:"), "{message}");
            evicted.push(parts[8].to_owned());
        }
        fill.join().unwrap();
        let all = evicted.len();
        evicted.sort();
        evicted.dedup();
        assert!(all > 1000 && all < 10_000, "{all}");
        // No key comes back in this load but the one that is just written.
        assert!(all - evicted.len() < all / 10, "{all} {}", evicted.len());
    }
}
