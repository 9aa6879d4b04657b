//! INFO: what dashboards and exporters read.

use crate::common::memcached::Text;
use crate::common::redis_server::Redis;
use crate::common::{Raw, command, options, start, start_on, with_memcached};
use atoll_cache::EngineOptions;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn info(raw: &mut Raw, sections: &[&str]) -> String {
    let text = String::from_utf8(raw.call(&[&["INFO"], sections].concat())).unwrap();
    text.split_once("\r\n").unwrap().1.to_owned()
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_else(|| panic!("{name}: {info}"))
}

fn number(info: &str, name: &str) -> u64 {
    field(info, name).parse().unwrap()
}

fn headings(info: &str) -> Vec<&str> {
    info.lines().filter(|line| line.starts_with('#') && *line != "# Atoll").collect()
}

#[test]
fn sections_are_those_of_redis_and_in_its_order() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    for sections in [
        &[][..],
        &["default"],
        &["all"],
        &["EVERYTHING"],
        &["nosuch"],
        &["commandstats"],
        &["keyspace", "Server", "nosuch", "clients"],
        &["default", "latencystats"],
        &["errorstats", "cluster", "cpu"],
    ] {
        let [theirs, ours] = servers.each_mut().map(|server| info(server, sections));
        let without_modules = |info: &str| -> Vec<String> {
            headings(info).into_iter().filter(|line| *line != "# Modules").map(str::to_owned).collect()
        };
        assert_eq!(without_modules(&theirs), without_modules(&ours), "{sections:?}");
    }
}

#[test]
fn fields_that_dashboards_read_are_there() {
    // Why these are not there is said where INFO is written.
    const ABSENT: [&str; 18] = [
        "redis_build_id",
        "monotonic_clock",
        "atomicvar_api",
        "gcc_version",
        "lru_clock",
        "allocator_allocated",
        "allocator_active",
        "allocator_resident",
        "allocator_frag_ratio",
        "allocator_frag_bytes",
        "allocator_rss_ratio",
        "allocator_rss_bytes",
        "rss_overhead_ratio",
        "rss_overhead_bytes",
        "expired_stale_perc",
        "expired_time_cap_reached_count",
        "expire_cycle_cpu_milliseconds",
        "reply_buffer_shrinks",
    ];
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let [theirs, ours] = [redis.address, ours.address].map(|address| {
        let info = info(&mut Raw::connect(address), &[]);
        info.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>()
    });
    let missing: Vec<&String> = theirs
        .difference(&ours)
        .filter(|name| !ABSENT.contains(&name.as_str()) && *name != "reply_buffer_expands")
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_memory_of_functions_is_none_and_hz_is_what_workers_do() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["EVAL", "return 1", "0"]);
    raw.call(&["CONFIG", "SET", "hz", "100"]);
    let info = info(&mut raw, &[]);
    assert_eq!((number(&info, "hz"), number(&info, "configured_hz")), (10, 100));
    let interpreters = number(&info, "used_memory_vm_eval");
    assert!(interpreters > 10_000, "{interpreters}");
    assert_eq!(interpreters, number(&info, "used_memory_vm_total"));
    assert_eq!(number(&info, "used_memory_scripts_eval"), number(&info, "used_memory_scripts"));
    assert_eq!(number(&info, "used_memory_vm_functions") + number(&info, "number_of_libraries"), 0);
}

#[test]
fn keys_that_are_read_are_counted_as_redis_counts_them() {
    const VALUES: [(&str, &[&str]); 3] =
        [("string", &["SET", "k", "12"]), ("hash", &["HSET", "k", "f", "1"]), ("absent", &["DEL", "k"])];
    const COMMANDS: &[&[&str]] = &[
        &["GET", "k"],
        &["MGET", "k", "other", "k"],
        &["GETDEL", "k"],
        &["GETSET", "k", "v"],
        &["SET", "k", "v"],
        &["SET", "k", "v", "GET"],
        &["SET", "k", "v", "NX", "GET"],
        &["SET", "k", "v", "XX", "GET"],
        &["SET", "k", "v", "XX"],
        &["SETNX", "k", "v"],
        &["MSETNX", "k", "v"],
        &["GETEX", "k"],
        &["GETEX", "k", "EX", "100"],
        &["GETEX", "k", "EX", "0"],
        &["GETEX", "k", "PERSIST"],
        &["GETEX", "k", "bogus"],
        &["GETRANGE", "k", "0", "1"],
        &["SUBSTR", "k", "0", "1"],
        &["SETRANGE", "k", "1", "x"],
        &["STRLEN", "k"],
        &["APPEND", "k", "x"],
        &["INCR", "k"],
        &["INCRBYFLOAT", "k", "1"],
        &["GETBIT", "k", "3"],
        &["SETBIT", "k", "3", "1"],
        &["BITCOUNT", "k"],
        &["BITPOS", "k", "1"],
        &["BITOP", "AND", "to", "k", "other"],
        &["BITFIELD", "k", "GET", "u4", "0"],
        &["BITFIELD", "k", "SET", "u4", "0", "1"],
        &["BITFIELD_RO", "k", "GET", "u4", "0"],
        &["HGET", "k", "f"],
        &["HMGET", "k", "f", "g"],
        &["HGETALL", "k"],
        &["HEXISTS", "k", "f"],
        &["HLEN", "k"],
        &["HSTRLEN", "k", "f"],
        &["HRANDFIELD", "k"],
        &["HSCAN", "k", "0"],
        &["HSET", "k", "f", "2"],
        &["HDEL", "k", "f"],
        &["HINCRBY", "k", "f", "2"],
        &["PFADD", "k", "x"],
        &["PFCOUNT", "k"],
        &["PFCOUNT", "k", "other"],
        &["PFMERGE", "to", "k"],
        &["LCS", "k", "other"],
        &["DEL", "k"],
        &["EXISTS", "k", "other", "k"],
        &["TOUCH", "k", "other"],
        &["TYPE", "k"],
        &["RENAME", "k", "to"],
        &["COPY", "k", "to", "REPLACE"],
        &["MOVE", "k", "5"],
        &["TTL", "k"],
        &["PTTL", "k"],
        &["EXPIRETIME", "k"],
        &["EXPIRE", "k", "100"],
        &["PERSIST", "k"],
        &["OBJECT", "ENCODING", "k"],
        &["OBJECT", "REFCOUNT", "k"],
        &["MEMORY", "USAGE", "k"],
        &["WATCH", "k"],
        &["SCAN", "0"],
        &["RANDOMKEY"],
        &["KEYS", "*"],
        &["EVAL", "return redis.call('get', KEYS[1])", "1", "k"],
    ];
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut differ = Vec::new();
    for (kind, make) in VALUES {
        for command in COMMANDS {
            let [expected, found] = [redis.address, ours.address].map(|address| {
                let mut raw = Raw::connect(address);
                raw.call(&["FLUSHALL"]);
                raw.call(make);
                raw.call(&["CONFIG", "RESETSTAT"]);
                raw.call(command);
                let stats = info(&mut raw, &["stats"]);
                (number(&stats, "keyspace_hits"), number(&stats, "keyspace_misses"))
            });
            if expected != found {
                differ.push(format!("{command:?} of {kind}: {expected:?} in Redis, and here {found:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn gets_that_are_looked_up_together_are_counted_one_by_one() {
    let server = start(with_memcached());
    let mut raw = Raw::connect(server.address);
    raw.call(&["SET", "k", "v"]);
    raw.send(&[command(&["GET", "k"]), command(&["GET", "absent"]), command(&["GET", "k"])].concat());
    (0..3).for_each(|_| _ = raw.reply());
    let mut memcached = Text::connect(server.memcached());
    memcached.say("get k absent k\r\nmg k v\r\nmg absent v\r\ngat 0 k absent\r\n");
    let stats = info(&mut raw, &["stats"]);
    assert_eq!((number(&stats, "keyspace_hits"), number(&stats, "keyspace_misses")), (2 + 4, 1 + 3));
}

#[test]
fn fragmentation_is_the_part_of_the_capacity_that_holds_no_live_object() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    // The pool has 1 GiB, of which 12345678 bytes are in use.
    for live in [0, 16 + 1 + 10_000_000] {
        let memory = info(&mut raw, &["memory"]);
        assert_eq!(number(&memory, "mem_fragmentation_bytes"), 12_345_678 - live);
        let ratio = if live == 0 { "1.01" } else { "1.00" };
        assert_eq!(field(&memory, "mem_fragmentation_ratio"), ratio);
        raw.call(&["SET", "k", &"x".repeat(10_000_000)]);
    }
}

#[test]
fn memory_is_that_of_the_live_objects() {
    let server = start_on(&EngineOptions::default(), options());
    let mut raw = Raw::connect(server.address);
    assert_eq!(number(&info(&mut raw, &["memory"]), "used_memory"), 0);
    let record = 16 + 7 + 1000;
    for round in 1..=3 {
        // Each round overwrites what the former wrote.
        let value = "x".repeat(1000);
        let sets: Vec<u8> = (0..5000).flat_map(|key| command(&["SET", &format!("key{key:04}"), &value])).collect();
        raw.send(&sets);
        (0..5000).for_each(|_| assert_eq!(raw.reply(), b"+OK\r\n"));
        let memory = info(&mut raw, &["memory"]);
        assert_eq!(number(&memory, "used_memory"), 5000 * record, "round {round}");
        assert_eq!(number(&memory, "maxmemory"), 1 << 30);
    }
    raw.call(&["FLUSHALL"]);
    let memory = info(&mut raw, &["memory"]);
    assert_eq!(number(&memory, "used_memory"), 0);
    assert_eq!(number(&memory, "used_memory_peak"), 5000 * record);
    assert!(number(&memory, "used_memory_rss") > 1 << 20);
}

/// A sample that meets one large value of many small ones would tell of a multiple.
#[test]
fn memory_is_never_more_than_the_chunks_in_use_have() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&[&b"SET"[..], b"large", &vec![b'x'; 12_000_000]]);
    for key in 0..20_000_u32 {
        raw.call(&["SET", &key.to_string(), "x"]);
    }
    for _ in 0..200 {
        let all = info(&mut raw, &["memory", "atoll"]);
        assert!(number(&all, "used_memory") <= number(&all, "pool_used_bytes"), "{all}");
    }
}

#[test]
fn commands_and_errors_are_counted_each() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["SET", "a", "text"]);
    (0..200).for_each(|_| _ = raw.call(&["GET", "a"]));
    raw.call(&["INCR", "a"]);
    raw.call(&["GET"]);
    raw.call(&["nosuch"]);
    raw.call(&["EVALSHA", "none", "0"]);
    raw.call(&["KEYS", "*"]);
    let all = info(&mut raw, &["all"]);
    let stat = |command: &str, name: &str| -> f64 {
        let line = field(&all, &format!("cmdstat_{command}"));
        line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).expect(line).parse().unwrap()
    };
    for (command, name, expected) in [
        ("get", "calls", 200.0),
        ("get", "rejected_calls", 1.0),
        ("get", "failed_calls", 0.0),
        ("incr", "calls", 1.0),
        ("incr", "failed_calls", 1.0),
        ("evalsha", "failed_calls", 1.0),
        ("keys", "calls", 1.0),
    ] {
        assert_eq!(stat(command, name), expected, "{command} {name}");
    }
    assert!(stat("get", "usec_per_call") > 0.0 && stat("keys", "usec_per_call") > 0.0, "{all}");
    assert_eq!((field(&all, "errorstat_ERR"), field(&all, "errorstat_NOSCRIPT")), ("count=3", "count=1"));
    assert_eq!(number(&all, "total_error_replies"), 4);
    assert!(field(&all, "latency_percentiles_usec_get").starts_with("p50="), "{all}");
    assert_eq!((number(&all, "keyspace_hits"), number(&all, "rejected_connections")), (200, 0));
}

/// The lines of a section, each cut at `end`.
fn lines(raw: &mut Raw, section: &str, end: &str) -> BTreeSet<String> {
    let info = info(raw, &[section]);
    let lines = info.lines().filter(|line| line.contains(end));
    lines.map(|line| line.split(end).next().unwrap().to_owned()).collect()
}

#[test]
fn subcommands_are_counted_each_as_redis_counts_them() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let counted = [redis.address, ours.address].map(|address| {
        let mut raw = Raw::connect(address);
        raw.call(&["GET", "a"]);
        raw.call(&["CONFIG", "RESETSTAT"]);
        for args in [
            &["CLIENT", "LIST"][..],
            &["client", "id"],
            &["CLIENT", "ID"],
            &["CLIENT"],
            &["CLIENT", "NOSUCH"],
            &["CLIENT", "SETNAME"],
            &["CLIENT", "SETNAME", "two words"],
            &["CONFIG", "GET", "maxclients"],
            &["COMMAND", "COUNT"],
            &["SCRIPT", "EXISTS", "none"],
            &["GET", "a"],
            &["MULTI"],
            &["PUBSUB", "NUMPAT"],
            &["EXEC"],
        ] {
            raw.call(args);
        }
        // Of each call there is a time, too.
        let timed = lines(&mut raw, "latencystats", ":p50=");
        let histogram = |raw: &mut Raw, names: &[&str]| {
            let reply = String::from_utf8(raw.call(&[&["LATENCY", "HISTOGRAM"], names].concat())).unwrap();
            let found: BTreeSet<String> = reply.lines().filter(|line| line.contains('|')).map(str::to_owned).collect();
            found
        };
        let histograms = [&["client"][..], &["CLIENT|ID", "config|get", "client|nosuch", "get|id"], &[]]
            .map(|names| histogram(&mut raw, names));
        let mut counts = lines(&mut raw, "commandstats", ",usec=");
        let refused = info(&mut raw, &["commandstats"]);
        counts.extend(refused.lines().filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            Some(format!("{name} {}", rest.split_once("rejected_calls=")?.1))
        }));
        (counts, timed, histograms)
    });
    assert_eq!(counted[0], counted[1]);
    assert!(counted[1].0.contains("cmdstat_client|id:calls=2"), "{:?}", counted[1]);
}

#[test]
fn what_a_connection_was_sent_is_counted_once_it_has_ended() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let mut sent = raw.call(&["PING"]).len() as u64;
    Raw::connect(server.address).call(&["PING"]);
    let began = Instant::now();
    loop {
        let reply = raw.call(&["INFO", "stats"]);
        let stats = String::from_utf8_lossy(&reply).into_owned();
        if number(&stats, "total_net_output_bytes") == sent + 7 {
            assert_eq!(
                number(&stats, "total_writes_processed") + 1,
                number(&stats, "total_reads_processed"),
                "{stats}"
            );
            break;
        }
        sent += reply.len() as u64;
        assert!(began.elapsed() < Duration::from_secs(20), "{sent} bytes: {stats}");
    }
    raw.call(&["CONFIG", "RESETSTAT"]);
    let stats = info(&mut raw, &["stats"]);
    assert_eq!(number(&stats, "total_connections_received"), 0);
    assert_eq!(number(&stats, "total_commands_processed"), 1, "{stats}");
}

#[test]
fn the_memory_of_scripts_is_that_of_the_interpreters() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    assert_eq!(number(&info(&mut raw, &["memory"]), "used_memory_lua"), 0);
    raw.call(&["EVAL", "return 1", "0"]);
    let brief = number(&info(&mut raw, &["memory"]), "used_memory_lua");
    assert!((10_000..1 << 20).contains(&brief), "{brief}");
    raw.call(&["EVAL", "local t = {} for i = 1, 100000 do t[i] = i end return #t", "0"]);
    assert!(number(&info(&mut raw, &["memory"]), "used_memory_lua") > brief + 500_000);
}

#[test]
fn the_rate_of_commands_is_that_of_the_last_second() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let began = Instant::now();
    while number(&info(&mut raw, &["stats"]), "instantaneous_ops_per_sec") < 10 {
        raw.call(&["PING"]);
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    // Silent, it falls to the one INFO of a second.
    while number(&info(&mut raw, &["stats"]), "instantaneous_ops_per_sec") > 5 {
        std::thread::sleep(Duration::from_millis(400));
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
