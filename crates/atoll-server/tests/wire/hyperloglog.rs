//! HyperLogLogs beside a real redis-server: estimates, errors, and values of one that the other
//! reads.

use crate::common::redis_server::Redis;
use crate::common::{Random, Raw, options, start, start_on};
use atoll_cache::EngineOptions;

const KEYS: [&str; 4] = ["a", "b", "c", "absent"];

/// One random command; `K` is among its keys.
fn random_command(random: &mut Random) -> Vec<String> {
    let key = |random: &mut Random| random.pick(&KEYS).to_owned();
    let mut args: Vec<String> = Vec::new();
    match random.below(20) {
        0..10 => {
            args.extend(["PFADD".to_owned(), key(random)]);
            // Few elements and many, so that values are sparse, dense, and between them.
            let (count, elements) = (1 << random.below(11), 1 << random.below(20));
            args.extend((0..random.below(count)).map(|_| random.below(elements).to_string()));
        }
        10..15 => {
            args.push("PFCOUNT".to_owned());
            (0..1 + random.below(4)).for_each(|_| args.push(key(random)));
        }
        15 | 16 => {
            args.push("PFMERGE".to_owned());
            (0..1 + random.below(4)).for_each(|_| args.push(key(random)));
        }
        17 => args.extend(["DEL".to_owned(), key(random)]),
        18 => args.extend(["EXPIREAT".to_owned(), key(random), "4102444800".to_owned()]),
        _ => args.extend(["EXPIRETIME".to_owned(), key(random)]),
    }
    args
}

#[test]
fn random_commands_reply_as_redis_does() {
    let Some(redis) = Redis::start() else { return };
    for engine in [EngineOptions::default(), EngineOptions::Ditto(Default::default())] {
        let ours = start_on(&engine, options());
        let mut servers = [redis.address, ours.address].map(Raw::connect);
        servers.iter_mut().for_each(|server| drop(server.call(&["FLUSHALL"])));
        for seed in 0..20 {
            let mut random = Random(0x9e37_79b9 + seed);
            for _ in 0..60 {
                let command = random_command(&mut random);
                let [theirs, ours] = servers.each_mut().map(|server| server.call(&command));
                let (head, count) = (&command[..2.min(command.len())], command.len());
                assert!(theirs == ours, "seed {seed}: {head:?} with {count} words: {theirs:?} {ours:?}");
            }
        }
    }
}

/// The bytes behind the head of a bulk string.
fn bulk(reply: &[u8]) -> Vec<u8> {
    let start = reply.iter().position(|byte| *byte == b'\n').expect("a head") + 1;
    reply[start..reply.len() - 2].to_vec()
}

#[test]
fn a_value_of_one_server_is_read_by_the_other() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    for (from, to) in [(redis.address, ours.address), (ours.address, redis.address)] {
        let [mut from, mut to] = [from, to].map(Raw::connect);
        for count in [0, 1, 50, 500, 1_500, 5_000, 50_000] {
            from.call(&["DEL", "k"]);
            let elements: Vec<String> = (0..count).map(|number| format!("element {number}")).collect();
            let mut chunks = elements.chunks(1000);
            loop {
                let chunk = chunks.next().unwrap_or_default();
                from.call(&[&["PFADD".to_owned(), "k".to_owned()], chunk].concat());
                if chunk.len() < 1000 {
                    break;
                }
            }
            let value = bulk(&from.call(&["GET", "k"]));
            assert!(value.len() <= 12_304, "{count} elements: {} bytes", value.len());
            to.call(&[&b"SET"[..], b"k", &value]);
            let counts = [&mut from, &mut to].map(|server| server.call(&["PFCOUNT", "k"]));
            assert_eq!(counts[0], counts[1], "{count} elements");
            // Both know what is in it already.
            if count > 0 {
                assert_eq!(to.call(&["PFADD", "k", "element 0"]), b":0\r\n", "{count} elements");
            }
        }
    }
}

#[test]
fn what_is_no_hyperloglog_is_refused_as_redis_does_and_stays() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let sparse = |body: &[u8]| [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80", body].concat();
    let values: [&[u8]; 8] = [
        b"",
        b"no such thing, and longer than a head",
        b"HYLL",
        &[&b"HYLL\0\0\0\0"[..], &[0; 12_295]].concat(),
        &[&b"HYLL\x02\0\0\0"[..], &[0; 12_296]].concat(),
        // Too few registers, too many, and half a run.
        &sparse(&[0x7f, 0xfe]),
        &sparse(&[0x7f, 0xff, 0x00]),
        &sparse(&[0x7f]),
    ];
    let commands: [&[&[u8]]; 4] = [
        &[b"PFCOUNT", b"K"],
        &[b"PFCOUNT", b"other", b"K"],
        &[b"PFMERGE", b"other", b"K"],
        &[b"PFMERGE", b"K", b"other"],
    ];
    for value in values {
        for command in commands {
            let [theirs, ours] = servers.each_mut().map(|server| {
                server.call(&[&b"SET"[..], b"K", value]);
                server.call(&["PFADD", "other", "x"]);
                let reply = server.call(command);
                let left = server.call(&["GET", "K"]);
                assert_eq!(bulk(&left), value);
                String::from_utf8_lossy(&reply).into_owned()
            });
            assert_eq!(theirs, ours, "{command:?} on {value:?}");
            assert!(theirs.starts_with('-'), "{theirs}");
        }
    }
    for command in [&["PFADD", "H", "x"][..], &["PFCOUNT", "H"], &["PFMERGE", "H", "other"], &["PFMERGE", "n", "H"]] {
        let [theirs, ours] = servers.each_mut().map(|server| {
            server.call(&["HSET", "H", "f", "x"]);
            server.call(command)
        });
        assert_eq!(theirs, ours, "{command:?}");
    }
    for command in [&["PFADD"][..], &["PFCOUNT"], &["PFMERGE"], &["PFADD", "new"], &["PFADD", "new"], &["PFMERGE", "n"]]
    {
        let [theirs, ours] = servers.each_mut().map(|server| server.call(command));
        assert_eq!(theirs, ours, "{command:?}");
    }
}
