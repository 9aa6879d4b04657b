//! The same commands to a real redis-server and to ours: the same bytes come back.
//!
//! `ATOLL_SEED=N` replays one sequence. A run has `ATOLL_ROUNDS=N` pipelines, each of 4 commands on
//! average: 16000 of them are about a million commands in all runs of a test.

use crate::common;
use crate::common::redis_server::Redis;
use crate::common::{Random, Raw, Running, options, start, start_on};
use atoll_cache::EngineOptions;
use atoll_cache::ditto::DittoOptions;

const KEYS: [&str; 7] = ["a", "b", "n", "f", "key:1", "key:2", "with blank"];
const VALUES: [&str; 24] = [
    "",
    "0",
    "1",
    "-1",
    "10",
    "007",
    "-0",
    "+5",
    "abc",
    " 1",
    "1 ",
    "3.14",
    "-2.5e3",
    "1e400",
    "0x1f",
    "inf",
    "nan",
    ".5",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "0.1",
    "a\r\nb",
    "The quick brown fox jumps over the lazy dog",
];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-3",
    "100",
    "100000",
    "x",
    "",
    "1.5",
    "9223372036854775807",
    "-9223372036854775808",
    "01",
];
/// Spans and moments: far enough away that no test sees them end (also as milliseconds), or none at
/// all.
const SPANS: [&str; 8] = ["300000", "200000", "0", "-1", "x", "9223372036854775807", "9223372036854775", "100000"];
const MOMENTS: [&str; 6] = ["4102444800", "4102444801", "1", "-5", "9223372036854775807", "x"];
const PATTERNS: [&str; 9] = ["*", "a", "key:*", "key:?", "[a-f]", "[^a]*", "*1", "with\\ *", "nothing"];

/// Keys that hold what PFADD makes, and nothing else.
const SKETCHES: [&str; 4] = ["sketch", "sketch:1", "sketch:2", "sketch:3"];
const CALLS: [&str; 8] = [
    "return redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.call('INCR', KEYS[1]) - 1 < 0",
    "return redis.pcall('APPEND', KEYS[1], ARGV[1])",
    "return #redis.call('HGETALL', KEYS[1])",
    "redis.call('HSET', KEYS[1], 'f', ARGV[1]) return redis.call('TYPE', KEYS[1])",
    "if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('DEL', KEYS[1]) end return {KEYS[1], ARGV[1], 7}",
    "return ARGV[1] .. #KEYS[1]",
];

/// One random command.
fn random_command(random: &mut Random) -> Vec<String> {
    let key = |random: &mut Random| random.pick(&KEYS).to_owned();
    let value = |random: &mut Random| random.pick(&VALUES).to_owned();
    let number = |random: &mut Random| random.pick(&NUMBERS).to_owned();
    let name = |text: &str| text.to_owned();
    match random.below(66) {
        0..4 => vec![name("GET"), key(random)],
        4..7 => vec![name("set"), key(random), value(random)],
        7..10 => {
            let mut args = vec![name("SET"), key(random), value(random)];
            for _ in 0..random.below(4) {
                let word = random.pick(&["NX", "xx", "GET", "KEEPTTL", "EX", "px", "EXAT", "PXAT", "bogus", "NX"]);
                args.push(name(word));
                match word {
                    "EX" | "px" if random.below(8) > 0 => args.push(random.pick(&SPANS).to_owned()),
                    "EXAT" => args.push(random.pick(&["4102444800", "0", "-1", "x"]).to_owned()),
                    "PXAT" => args.push(random.pick(&["4102444800000", "0", "y"]).to_owned()),
                    _ => {}
                }
            }
            args
        }
        10 => vec![name("SETNX"), key(random), value(random)],
        11 => {
            let word = random.pick(&["SETEX", "PSETEX"]).to_owned();
            // A span that is over before its second reader would make the test depend on time.
            let span = random.pick(&["1000000", "0", "-1", "x", "9223372036854775807"]).to_owned();
            vec![word, key(random), span, value(random)]
        }
        12 => vec![name("GETSET"), key(random), value(random)],
        13 => vec![name("GETDEL"), key(random)],
        14 => {
            let mut args = vec![name("GETEX"), key(random)];
            match random.below(6) {
                0 => args.push(name("PERSIST")),
                1 => args.extend([name("EX"), random.pick(&SPANS).to_owned()]),
                2 => args.extend([name("EXAT"), random.pick(&MOMENTS).to_owned()]),
                3 => args.extend([name("EX"), name("100"), name("PERSIST")]),
                4 => args.push(name("KEEPTTL")),
                _ => {}
            }
            args
        }
        15 => vec![name("MGET"), key(random), key(random), key(random)],
        16 => vec![name("MSET"), key(random), value(random), key(random), value(random)],
        17 => vec![name("MSETNX"), key(random), value(random), key(random), value(random)],
        18 => {
            let word = random.pick(&["DEL", "UNLINK", "EXISTS", "TOUCH"]).to_owned();
            vec![word, key(random), key(random)]
        }
        19 | 20 => {
            let word = random.pick(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]);
            let amount = match word {
                // A span twice would be a tie for GT and LT or none, as the clock stands between
                // the two servers.
                "EXPIRE" if random.below(2) > 0 => (500_000 + random.below(1_000_000)).to_string(),
                "PEXPIRE" if random.below(2) > 0 => (500_000_000 + random.below(1_000_000_000)).to_string(),
                "EXPIRE" => name(random.pick(&["0", "-1", "x", "9223372036854775807", "9223372036854775"])),
                "PEXPIRE" => name(random.pick(&["0", "-5", "x", "9223372036854775807"])),
                "EXPIREAT" => name(random.pick(&MOMENTS)),
                _ => name(random.pick(&["4102444800000", "4102444801000", "1", "x"])),
            };
            let mut args = vec![name(word), key(random), amount];
            for _ in 0..random.below(3) {
                args.push(random.pick(&["NX", "xx", "GT", "LT", "gt", "what"]).to_owned());
            }
            args
        }
        21 => vec![random.pick(&["TTL", "EXPIRETIME", "PERSIST", "TYPE", "STRLEN"]).to_owned(), key(random)],
        22 => vec![random.pick(&["INCR", "DECR"]).to_owned(), key(random)],
        23 => vec![random.pick(&["INCRBY", "DECRBY"]).to_owned(), key(random), number(random)],
        24 | 25 => vec![name("INCRBYFLOAT"), key(random), value(random)],
        26 => vec![name("APPEND"), key(random), value(random)],
        27 => vec![random.pick(&["GETRANGE", "SUBSTR"]).to_owned(), key(random), number(random), number(random)],
        28 => {
            let offset = random.pick(&["0", "1", "5", "50", "-1", "x", "536870911", "9223372036854775807"]);
            let value = if offset == "536870911" { name("long enough") } else { value(random) };
            vec![name("SETRANGE"), key(random), name(offset), value]
        }
        29 => vec![name("KEYS"), random.pick(&PATTERNS).to_owned()],
        30 => match random.below(12) {
            0 => vec![name("FLUSHALL"), random.pick(&["ASYNC", "sync", "now"]).to_owned()],
            _ => vec![name("DBSIZE")],
        },
        31 => match random.below(4) {
            0 => vec![name("PING")],
            1 => vec![name("PING"), value(random)],
            2 => vec![name("ECHO"), value(random)],
            _ => vec![name("SELECT"), random.pick(&["0", "0", "1", "2", "15", "16", "-1", "x", "99"]).to_owned()],
        },
        32 => {
            let word =
                random.pick(&["GET", "SET", "nothing", "MSET", "INCRBY", "EXPIRE", "no\r\nthing", "CLIENT", "TIME"]);
            let args = random.below(5);
            let args = if word == "TIME" { args.max(1) } else { args };
            std::iter::once(name(word)).chain((0..args).map(|_| value(random))).collect()
        }
        33 => vec![random.pick(&["RENAME", "RENAMENX"]).to_owned(), key(random), key(random)],
        34 => {
            let mut args = vec![name("COPY"), key(random), key(random)];
            for _ in 0..random.below(3) {
                match random.below(4) {
                    0 => args.push(name("bogus")),
                    1 => args.extend([name("db"), random.pick(&["0", "1", "2", "16", "x"]).to_owned()]),
                    _ => args.push(name("REPLACE")),
                }
            }
            args
        }
        35 => vec![name("MOVE"), key(random), random.pick(&["0", "1", "2", "16", "x"]).to_owned()],
        36 => vec![
            name("SWAPDB"),
            random.pick(&["0", "1", "x", "16"]).to_owned(),
            random.pick(&["1", "2", "0", "y", "-1"]).to_owned(),
        ],
        37 | 38 => vec![name("MULTI")],
        39 | 40 => vec![name("EXEC")],
        41 => vec![random.pick(&["DISCARD", "UNWATCH"]).to_owned()],
        42 => vec![name("WATCH"), key(random), key(random)],
        43..46 => bitmap_command(random),
        50..60 => hash_command(random),
        60..63 => {
            let word = random.pick(&["EVAL", "EVAL", "EVAL_RO"]);
            vec![name(word), random.pick(&CALLS).to_owned(), name("1"), key(random), value(random)]
        }
        63 => {
            let mut args = vec![random.pick(&["PFADD", "PFCOUNT", "PFMERGE"]).to_owned()];
            args.push(random.pick(&SKETCHES).to_owned());
            let others = random.below(3);
            match args[0].as_str() {
                "PFADD" => args.extend((0..others).map(|_| value(random))),
                _ => args.extend((0..others).map(|_| random.pick(&SKETCHES).to_owned())),
            }
            args
        }
        64 => {
            let asked = random_command(random);
            // Redis finds no keys in one that has a single key.
            let asked = if asked[0] == "PFMERGE" { vec![name("TIME")] } else { asked };
            [name("COMMAND"), name("GETKEYS")].into_iter().chain(asked).collect()
        }
        65 => match random.below(6) {
            0 => {
                vec![
                    name("CONFIG"),
                    name("GET"),
                    random.pick(&["maxmemory-samples", "hz", "none", "lfu-log*"]).to_owned(),
                ]
            }
            1 => vec![random.pick(&["SORT", "SORT_RO"]).to_owned(), key(random), name("ALPHA")],
            2 => vec![name("OBJECT"), random.pick(&["REFCOUNT", "bogus"]).to_owned(), name("absent")],
            3 => vec![name("PUBSUB"), name("NUMSUB"), value(random)],
            4 => vec![name("WAIT"), number(random), name("1")],
            _ => vec![name("ACL"), random.pick(&["WHOAMI", "USERS"]).to_owned()],
        },
        46 | 47 => {
            let mut args = vec![name("LCS"), key(random), key(random)];
            for _ in 0..random.below(4) {
                match random.pick(&["LEN", "idx", "IDX", "IDX", "WITHMATCHLEN", "MINMATCHLEN", "bogus"]) {
                    "MINMATCHLEN" => args.extend([name("MINMATCHLEN"), number(random)]),
                    word => args.push(name(word)),
                }
            }
            args
        }
        _ => match random.below(4) {
            0 => vec![name("CLIENT"), name("SETNAME"), value(random)],
            1 => vec![name("CLIENT"), name("GETNAME")],
            2 => vec![
                name("SCAN"),
                random.pick(&["x", "-1", "0"]).to_owned(),
                name("COUNT"),
                random.pick(&["0", "x"]).to_owned(),
            ],
            _ => vec![name("HELLO"), random.pick(&["1", "4", "x"]).to_owned()],
        },
    }
}

/// One random command on bits.
fn bitmap_command(random: &mut Random) -> Vec<String> {
    const OFFSETS: [&str; 10] = ["0", "1", "7", "8", "13", "100", "-1", "x", "4294967296", "9223372036854775807"];
    const ENDS: [&str; 9] = ["0", "1", "2", "-1", "-2", "-9", "9", "100", "x"];
    let name = |text: &str| text.to_owned();
    let mut args = vec![String::new(), random.pick(&KEYS).to_owned()];
    match random.below(6) {
        0 => {
            args[0] = name("SETBIT");
            args.extend([name(random.pick(&OFFSETS)), name(random.pick(&["0", "1", "1", "0", "2", "x"]))]);
        }
        1 => {
            args[0] = name("GETBIT");
            args.push(name(random.pick(&OFFSETS)));
        }
        word @ (2 | 3) => {
            args[0] = name(if word == 2 { "BITCOUNT" } else { "BITPOS" });
            if word == 3 {
                args.push(name(random.pick(&["0", "1", "0", "1", "2", "x"])));
            }
            args.extend((0..random.below(4)).map(|_| name(random.pick(&ENDS))));
            if args.len() == 4 + usize::from(word == 3) && random.below(2) == 0 {
                args.push(name(random.pick(&["BIT", "byte", "bits"])));
            }
        }
        4 => {
            args.insert(1, name(random.pick(&["AND", "or", "XOR", "NOT", "not", "NAND"])));
            args[0] = name("BITOP");
            args.extend((0..1 + random.below(3)).map(|_| random.pick(&KEYS).to_owned()));
        }
        _ => {
            args[0] = name(random.pick(&["BITFIELD", "BITFIELD", "BITFIELD_RO"]));
            for _ in 0..random.below(4) {
                let word = random.pick(&["GET", "SET", "INCRBY", "OVERFLOW", "get", "PUT"]);
                args.push(name(word));
                if word == "OVERFLOW" {
                    args.push(name(random.pick(&["WRAP", "sat", "FAIL", "none"])));
                    continue;
                }
                args.push(name(random.pick(&["u8", "i8", "u1", "i5", "u63", "i64", "u13", "u64", "x"])));
                args.push(name(random.pick(&["0", "3", "#0", "#1", "#2", "17", "100", "-1", "#x"])));
                if word != "GET" && word != "get" {
                    // Redis saturates a SET of the least number to the greatest: see `bitfield`.
                    let number = random.pick(&NUMBERS);
                    args.push(name(if number.len() == 20 { "-1000" } else { number }));
                }
            }
        }
    }
    args
}

/// One random command on hashes, or one that looks for what kind a value is. Redis keeps every hash
/// that they make as a listpack, whose order is ours.
fn hash_command(random: &mut Random) -> Vec<String> {
    const FIELDS: [&str; 8] = ["f", "g", "", "name", "n", "a\r\nb", "with blank", "7"];
    let name = |text: &str| text.to_owned();
    let field = |random: &mut Random| random.pick(&FIELDS).to_owned();
    // A sum with 400 digits would not stay in a listpack.
    let value = |random: &mut Random| match random.pick(&VALUES) {
        "1e400" => name("1e40"),
        value => value.to_owned(),
    };
    let word = random.pick(&[
        "HSET",
        "HSET",
        "hset",
        "HMSET",
        "HSETNX",
        "HGET",
        "HMGET",
        "HGETALL",
        "HDEL",
        "HDEL",
        "HEXISTS",
        "HINCRBY",
        "HINCRBY",
        "HINCRBYFLOAT",
        "HKEYS",
        "HVALS",
        "HLEN",
        "HSTRLEN",
        "HSCAN",
        "HRANDFIELD",
        "SCAN",
    ]);
    let mut args = vec![name(word), random.pick(&KEYS).to_owned()];
    match word {
        "HSET" | "hset" | "HMSET" => {
            for _ in 0..random.below(4) {
                args.extend([field(random), value(random)]);
            }
            if random.below(12) == 0 {
                args.push(field(random));
            }
        }
        "HSETNX" => args.extend([field(random), value(random)]),
        "HGET" | "HEXISTS" | "HSTRLEN" => args.push(field(random)),
        "HMGET" | "HDEL" => args.extend((0..random.below(5)).map(|_| field(random))),
        "HINCRBY" => args.extend([field(random), random.pick(&NUMBERS).to_owned()]),
        "HINCRBYFLOAT" => args.extend([field(random), value(random)]),
        "HSCAN" => {
            args.push(name(random.pick(&["0", "0", "0", "7", "-1", "x"])));
            for _ in 0..random.below(3) {
                match random.pick(&["MATCH", "count", "TYPE", "bogus", "match"]) {
                    "count" => args.extend([name("count"), random.pick(&NUMBERS).to_owned()]),
                    "TYPE" => args.extend([name("TYPE"), name("hash")]),
                    "bogus" => args.push(name("bogus")),
                    word => args.extend([name(word), name(random.pick(&["*", "?", "n*", "[^f]*", "a?\nb"]))]),
                }
            }
        }
        // Counts with which chance has no part.
        "HRANDFIELD" => {
            args.push(name(random.pick(&["0", "8", "100", "x", "9223372036854775807", "-9223372036854775808"])));
            args.extend((0..random.below(3)).map(|_| name(random.pick(&["WITHVALUES", "withvalues", "bogus"]))));
        }
        "SCAN" => {
            args[1] = name("0");
            args.extend(["COUNT", "1000000", "MATCH", random.pick(&KEYS), "TYPE"].map(name));
            args.push(name(random.pick(&["hash", "string", "HASH", "list", "nothing"])));
        }
        _ => {}
    }
    args
}

/// About the time that ours is to the latest moment of expiry, in the year 10889.
const LATEST_S: i64 = 279_000_000_000;

/// Whether two replies mean the same: keys come in any order, and seconds may be rounded apart
/// where the clock passes half a second between the two servers;
/// `ttl_and_expiretime_round_to_the_nearest_second` holds how.
fn agree(command: &[String], theirs: &[u8], ours: &[u8]) -> bool {
    let sorted = |reply: &[u8]| {
        let mut lines: Vec<_> = reply.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    let seconds = |reply: &[u8]| -> Option<i64> {
        std::str::from_utf8(reply).ok()?.strip_prefix(':')?.trim_end().parse().ok().filter(|&seconds| seconds > 0)
    };
    theirs == ours
        || match command[0].as_str() {
            "KEYS" => sorted(theirs) == sorted(ours),
            "TTL" | "EXPIRETIME" => {
                matches!((seconds(theirs), seconds(ours)), (Some(one), Some(other))
                    if one.abs_diff(other) <= 1 || one > other && other > LATEST_S)
            }
            _ => false,
        }
}

/// What a failure shows: the last commands, and all since the last WATCH.
fn shown_from(history: &[String]) -> usize {
    let watch = history.iter().rposition(|line| line.starts_with("[\"WATCH\""));
    history.len().saturating_sub(30).min(watch.unwrap_or(usize::MAX))
}

fn compare(redis: &Redis, ours: &Running, seed: u64, version: &str) {
    let mut random = Random(seed);
    let mut others = [redis.address, ours.address].map(Raw::connect);
    let (mut theirs, mut ours) = (Raw::connect(redis.address), Raw::connect(ours.address));
    let (mut transacting, mut watching) = (false, false);
    for connection in [&mut theirs, &mut ours] {
        connection.call(&["HELLO", version]);
        connection.call(&["FLUSHALL"]);
    }
    let mut history = Vec::new();
    let rounds = std::env::var("ATOLL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2000);
    for _ in 0..rounds {
        // What a failure shows.
        history.drain(..history.len().saturating_sub(1000));
        // Pipelines of all lengths: the replies come in order.
        let commands: Vec<_> = (0..1 + random.below(8))
            .flat_map(|_| {
                let mut command = random_command(&mut random);
                // In a transaction the replies that may differ a little are replies within a reply.
                if transacting && ["KEYS", "TTL", "EXPIRETIME"].contains(&command[0].as_str()) {
                    command = vec!["GET".to_owned(), "a".to_owned()];
                }
                // Databases that are exchanged twice have changed for Redis alone.
                if watching && command[0] == "SWAPDB" {
                    command = vec!["GET".to_owned(), "a".to_owned()];
                }
                match command[0].as_str() {
                    "MULTI" => transacting = true,
                    "WATCH" => watching = true,
                    "EXEC" | "DISCARD" if transacting => (transacting, watching) = (false, false),
                    _ => {}
                }
                // A key that was absent, and came and went, has changed for Redis alone.
                let mut commands = Vec::new();
                if command[0] == "WATCH" {
                    commands.extend(command[1..].iter().map(|key| ["SET", key, "watched"].map(str::to_owned).to_vec()));
                }
                commands.push(command);
                commands
            })
            .collect();
        // Another connection changes what is watched.
        if random.below(8) == 0 {
            let command = [random.pick(&["INCR", "DEL", "PERSIST"]), random.pick(&KEYS)];
            let [expected, found] = others.each_mut().map(|connection| connection.call(&command));
            history.push(format!("another: {command:?} -> {:?}", String::from_utf8_lossy(&expected)));
            assert_eq!(expected, found, "ATOLL_SEED={seed}: {command:?} after:\n{}", history.join("\n"));
        }
        let bytes: Vec<u8> = commands.iter().flat_map(|command| common::command(command)).collect();
        theirs.send(&bytes);
        ours.send(&bytes);
        for command in commands {
            let (expected, found) = (theirs.reply(), ours.reply());
            history.push(format!("{command:?} -> {:?}", String::from_utf8_lossy(&expected)));
            assert!(
                agree(&command, &expected, &found),
                "ATOLL_SEED={seed}, RESP{version}: {command:?}\n redis: {:?}\n atoll: {:?}\n after:\n{}",
                String::from_utf8_lossy(&expected),
                String::from_utf8_lossy(&found),
                history[shown_from(&history)..].join("\n"),
            );
        }
    }
}

#[test]
fn random_commands_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let seeds = match std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (1..=6).collect(),
    };
    for seed in seeds {
        compare(&redis, &ours, seed, "2");
        compare(&redis, &ours, seed, "3");
    }
}

#[test]
fn random_commands_get_the_replies_of_redis_from_every_engine() {
    let Some(redis) = Redis::start() else { return };
    for engine in [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())] {
        println!("{engine}:");
        compare(&redis, &start_on(&engine, options()), 11, "3");
    }
}

#[test]
fn bad_bytes_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let long = [b"*1\r\n$".as_slice(), &[b'1'; 70_000]].concat();
    for bytes in [
        b"*a\r\n".as_slice(),
        b"*99999999999\r\n",
        b"*1\r\n+3\r\n",
        b"*1\r\n\r\n\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$536870913\r\n",
        b"*1\r\n$4x\r\nPING\r\n",
        b"PING\r\nget \"a\r\n",
        b"set a 'b'c\r\n",
        b"*0\r\n*-5\r\n\r\n  \r\nPING\r\n*x\r\n",
        b"ECHO \"\\x41\\n\\q\" \r\necho 'it\\'s'\r\n*1\r\n:\r\n",
        b"*2\r\n$4\r\nECHOxx$2\r\nhixx*1\r\n?\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"QUIT\r\nPING\r\n",
        &long,
        &[b'a'; 70_000],
    ] {
        let [expected, found] = [redis.address, ours.address].map(|address| {
            let mut raw = Raw::connect(address);
            raw.send(bytes);
            String::from_utf8_lossy(&raw.rest()).into_owned()
        });
        assert_eq!(expected, found, "{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
    }
}

/// Scripts with their number of keys and their arguments.
const SCRIPTS: &[&[&str]] = &[
    &["return 1", "0"],
    &["return 'text'", "0"],
    &["return 3.99", "0"],
    &["return -3.99", "0"],
    &["return {1, 'two', {3, {4}}, 5.5}", "0"],
    &["return {1, 2, nil, 4}", "0"],
    &["return nil", "0"],
    &["return true", "0"],
    &["return false", "0"],
    &["return {true, false, 'x'}", "0"],
    &["return {ok='FINE'}", "0"],
    &["return {err='MINE is an error'}", "0"],
    &["return redis.status_reply('PONG')", "0"],
    &["return redis.error_reply('MINE again')", "0"],
    &["return redis.error_reply('single')", "0"],
    &["return KEYS", "2", "a", "b", "c"],
    &["return ARGV", "2", "a", "b", "c", "d"],
    &["return {#KEYS, #ARGV, KEYS[1], ARGV[1]}", "1", "a", ""],
    &["return redis.call('set', KEYS[1], ARGV[1])", "1", "a", "7"],
    &["return redis.call('get', KEYS[1])", "1", "a"],
    &["return redis.call('publish', KEYS[1], 'm')", "1", "a"],
    &["return redis.pcall('spublish', KEYS[1], 'm')", "1", "a"],
    &["return redis.call('get', KEYS[1])", "1", "absent"],
    &["return redis.call('incrby', KEYS[1], 5)", "1", "a"],
    &["return redis.call('incrbyfloat', KEYS[1], 0.5)", "1", "a"],
    &["return redis.call('mget', 'a', 'absent', 'a')", "0"],
    &["return redis.call('incr', KEYS[1])", "1", "a"],
    &["return redis.call('hset', KEYS[1], 'f', '1', 'g', ARGV[1])", "1", "h", "2"],
    &["redis.call('hincrby', KEYS[1], 'f', 6) return redis.call('hgetall', KEYS[1])", "1", "h"],
    &["return {redis.call('hget', KEYS[1], 'none'), redis.pcall('get', KEYS[1]), 'behind'}", "1", "h"],
    &["return redis.call('hget', KEYS[1], 'f')", "1", "a"],
    &["return redis.pcall('incr', KEYS[1])", "1", "a"],
    &["return {redis.pcall('incr', KEYS[1]), 'behind'}", "1", "a"],
    &["local ok, error = pcall(redis.call, 'incr', KEYS[1]); return {tostring(ok), tostring(error)}", "1", "a"],
    &["local ok, value = pcall(redis.call, 'get', KEYS[1]); return {tostring(ok), value}", "1", "a"],
    &["return pcall(function() return redis.call('get', KEYS[1]) end) and 1 or 0", "1", "a"],
    &["return redis.call('nosuch')", "0"],
    &["return redis.pcall('nosuch')", "0"],
    &["return redis.call('get')", "0"],
    &["return redis.call()", "0"],
    &["return redis.call('get', {})", "0"],
    &["return redis.call('multi')", "0"],
    &["return redis.call('eval', 'return 1', '0')", "0"],
    &["return redis.call('script', 'flush')", "0"],
    &["return nosuch", "0"],
    &["x = 1", "0"],
    &["local a = 1\nlocal b = a.b.c\nreturn b", "0"],
    &["error('mine')", "0"],
    &["error({err='MINE as a table'})", "0"],
    &["return syntax error", "0"],
    &["return redis.sha1hex('')", "0"],
    &[
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "1",
        "a",
        "x",
    ],
    &[
        "redis.call('set', 'lock', 'token'); if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "1",
        "lock",
        "token",
    ],
    &["redis.call('select', 3); redis.call('set', 'far', 'x'); return redis.call('exists', 'far')", "0"],
    &["return redis.call('exists', 'far')", "0"],
    &["return tonumber('10') + tonumber('0x10')", "0"],
    &["return string.format('%05d', 42) .. ('x'):rep(3)", "0"],
    &["return cjson.encode({1, 2, 'three'})", "0"],
    &["return cjson.encode({a=1})", "0"],
    &["return cjson.decode('{\"a\": [1, 2, {\"b\": \"c\"}]}').a[3].b", "0"],
    &["return cjson.decode('[1, null]')[2] == cjson.null and 1 or 0", "0"],
    &[
        "return {bit.band(0xff, 0x0f), bit.bor(1, 2), bit.bxor(7, 2), bit.lshift(1, 4), bit.rshift(256, 4), bit.bnot(0)}",
        "0",
    ],
    &["return bit.tohex(255)", "0"],
    &["return type(redis.call('ping'))", "0"],
    &["return redis.call('ping').ok", "0"],
    &["return 1", "-1"],
    &["return 1", "1"],
    &["return 1", "x"],
    &["#!lua", "0"],
    &["#!lua\nreturn redis.call('set', KEYS[1], 'x')", "1", "a"],
    &["#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])", "1", "a"],
    &["#!lua flags=no-writes,allow-oom\n\nreturn redis.call('set', KEYS[1], 'y')", "1", "a"],
    &["#!lua flags=allow-stale,no-cluster,allow-cross-slot-keys\nreturn redis.call('set', KEYS[1], 'z')", "1", "a"],
    &["#!lua\nerror('in the second line')", "0"],
    &["#!lua\nreturn syntax error", "0"],
    &["#!python\nreturn 1", "0"],
    &["#!lua name=x\nreturn 1", "0"],
    &["#!lua flags=bogus\nreturn 1", "0"],
    &["#!lua 'flags=no-writes\nreturn 1", "0"],
    &["# no shebang\nreturn 1", "0"],
];

/// Scripts that use what the table `redis` has, and errors.
const CALLING: &[&str] = &[
    "return redis.acl_check_cmd('set', 'x', 1)",
    "return redis.acl_check_cmd('get')",
    "return redis.acl_check_cmd('acl', 'whoami')",
    "return redis.acl_check_cmd('acl', 'nosuch')",
    "return redis.acl_check_cmd('nosuch')",
    "return redis.acl_check_cmd('set', {})",
    "return redis.acl_check_cmd()",
    "return {pcall(redis.acl_check_cmd, 'nosuch')}",
    "return redis.error_reply('-oops')",
    "return redis.error_reply('--oops')",
    "return redis.error_reply('-oops x')",
    "return redis.error_reply('a\\r\\nb')",
    "return redis.error_reply('-\\r\\nb')",
    "return redis.error_reply('')",
    "return redis.error_reply(3)",
    "return redis.error_reply()",
    "return redis.error_reply('a', 'b')",
    "return redis.error_reply({}).err",
    "return redis.status_reply(3)",
    "return redis.status_reply()",
    "return redis.status_reply('a', 'b')",
    "return redis.log()",
    "return redis.log(1)",
    "return redis.log('x', 'y')",
    "return redis.log(nil, 'y')",
    "return redis.log(4, 'y')",
    "return redis.log(-1, 'y')",
    "return redis.log(redis.LOG_DEBUG, 'y', {})",
    "return redis.log('1', 'y')",
    "return {pcall(redis.log)}",
    "return redis.set_repl()",
    "return redis.set_repl(1, 2)",
    "return redis.set_repl('x')",
    "return redis.set_repl(redis.REPL_ALL)",
    "return redis.set_repl(4)",
    "return redis.set_repl(-1)",
    "return redis.replicate_commands()",
    "return redis.breakpoint()",
    "return redis.sha1hex()",
    "return redis.sha1hex(1.5)",
    "return redis.sha1hex('a', 'b')",
    "return redis.sha1hex({})",
    "return redis.setresp()",
    "return redis.setresp(1)",
    "return redis.setresp('x')",
    "return redis.setresp(2, 3)",
    "return redis.setresp(2)",
    "error()",
    "error(nil)",
    "error(true)",
    "error(3)",
    "error('x', 0)",
    "error('x', 2)",
    "error('')",
    "error({err=3})",
    "local a = error('x', 'y')",
    "local ok, why = pcall(error) return {tostring(ok), tostring(why)}",
    "return {pcall(error, 'x')}",
    "return {pcall(function() error('x', 2) end)}",
    "local a = table.concat({{}})",
    "local a = table.concat({1, nil, 3}, ',', 1, 3)",
    "local a = string.format('%d', 'x')",
    "local a = string.format()",
    "local a = string.rep('x', 'y')",
    "local a = string.upper({})",
    "local a = table.sort({1, 'x'})",
    "local t = {} for i = 1, 5000 do t[i] = 5001 - i end table.sort(t) return t[77]",
    "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t",
    "return {('xy'):rep('3'), string.rep(12, 3.7), string.rep('', 5), string.rep('x', -1)}",
    "return {('aB'):upper(), ('aB'):lower(), ('aB'):reverse(), string.upper(12)}",
    "return {collectgarbage('collect'), collectgarbage(), type(collectgarbage('count')), type(gcinfo())}",
    "local a = collectgarbage('x')",
    "local a = collectgarbage({})",
];

/// Scripts that pack values as MessagePack, and unpack them.
const WITH_MESSAGES: &[&str] = &[
    "return redis.sha1hex(cmsgpack.pack(1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, 2^53, 2^62))",
    "return redis.sha1hex(cmsgpack.pack(-1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, -2^53))",
    "return redis.sha1hex(cmsgpack.pack(0.5, 0.1, -1.25, 1e300, 1/0, -1/0, 3.0))",
    "return redis.sha1hex(cmsgpack.pack(true, false, nil, 'a', ('b'):rep(31), ('c'):rep(32), ('d'):rep(300)))",
    "return #cmsgpack.pack(('e'):rep(70000))",
    "return redis.sha1hex(cmsgpack.pack({}, {1, 2, {3}}, {[1]=1, [3]=3}, {a={b='c'}}, {[0]=1}, {[1.5]=1}))",
    "local t = {} for i = 1, 40 do t[i] = i end return redis.sha1hex(cmsgpack.pack(t))",
    "local t = {} for i = 1, 20 do t = {t} end return redis.sha1hex(cmsgpack.pack(t))",
    "return redis.sha1hex(cmsgpack.pack(print))",
    "return cmsgpack.pack()",
    "return {cmsgpack.unpack(cmsgpack.pack(1, -1, 300, -300, 70000, -70000, 2^40, -2^40, 'x', true))}",
    "return tostring(cmsgpack.unpack(cmsgpack.pack(0.1))) .. tostring(cmsgpack.unpack(cmsgpack.pack(0.5)))",
    "return cmsgpack.unpack(cmsgpack.pack({1, {2, 'three'}, ('x'):rep(300)}))",
    "local t = cmsgpack.unpack(cmsgpack.pack({a={b='c'}, d=1})) return {t.a.b, t.d}",
    "local t = {} for i = 1, 70000 do t[i] = i end return #cmsgpack.unpack(cmsgpack.pack(t))",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 1)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 1, 3)}",
    "return {cmsgpack.unpack('')}",
    "return {cmsgpack.unpack('\\196\\2ab\\197\\0\\1c\\198\\0\\0\\0\\1d')}",
    "return {pcall(cmsgpack.unpack, '\\146\\1')}",
    "return {pcall(cmsgpack.unpack, '\\193')}",
    "return {pcall(cmsgpack.unpack, '\\199\\1\\1\\1')}",
    "return {pcall(cmsgpack.unpack_one, 'a', 5)}",
    "return {pcall(cmsgpack.unpack_one, 'a', -5)}",
    "return {pcall(cmsgpack.unpack_limit, 'a', -1, 0)}",
    "return cmsgpack.unpack('\\217')",
    "return cmsgpack._NAME .. cmsgpack._VERSION",
    "cmsgpack.pack = 1",
];

/// Scripts that pack values as structures of C, and unpack them.
const WITH_STRUCTS: &[&str] = &[
    "return redis.sha1hex(struct.pack('bBhHiIlLT', -1, 255, -2, 65535, -3, 4294967295, -4, 5, 6))",
    "return redis.sha1hex(struct.pack('>bBhHiIlLT', -1, 255, -2, 65535, -3, 4294967295, -4, 5, 6))",
    "return redis.sha1hex(struct.pack('<i3>i3<I5>I7', -77, 77, 2^33, 2^50))",
    "return redis.sha1hex(struct.pack('>fd<fd', 1.5, 0.1, -1.5, 1e300))",
    "return redis.sha1hex(struct.pack('sc3c0xs', 'abc', 'defgh', 'ijk', ''))",
    "return redis.sha1hex(struct.pack('!bi!4bd!2bl', 1, 2, 3, 4.5, 5, 6))",
    "return {struct.unpack('bBhHiIlLT', struct.pack('bBhHiIlLT', -1, 255, -2, 65535, -3, 4294967295, -4, 5, 6))}",
    "return {struct.unpack('>bBhHiIlLT', struct.pack('>bBhHiIlLT', -1, 255, -2, 65535, -3, 4294967295, -4, 5, 6))}",
    "return {struct.unpack('<i3>i3<I5>I7', struct.pack('<i3>i3<I5>I7', -77, 77, 2^33, 2^50))}",
    "return {tostring(struct.unpack('>f', struct.pack('>f', 1.5))), tostring(struct.unpack('d', struct.pack('d', 0.1)))}",
    "return {struct.unpack('sxc3s', struct.pack('sxc3s', 'abc', 'def', ''))}",
    "return {struct.unpack('Bc0h', struct.pack('Bc0h', 3, 'abc', 7))}",
    "return {struct.unpack('!8bi', struct.pack('!8bi', 1, 2))}",
    "return {struct.unpack('B', 'abc', 2)}",
    "return {struct.unpack('BB', 'abc', 2)}",
    "return {struct.size('bhilTfdc7x'), struct.size('!bil'), struct.size('!4bd'), struct.size('')}",
    "local a = struct.size('s')",
    "local a = struct.size('c0')",
    "local a = struct.unpack('i', 'abc')",
    "local a = struct.unpack('s', 'abc')",
    "local a = struct.unpack('c0', 'abc')",
    "local a = struct.unpack('B', 'abc', 0)",
    "local a = struct.unpack('B', 'abc', 9)",
    "local a = struct.unpack('B')",
    "local a = struct.pack('q', 1)",
    "local a = struct.pack('i33', 1)",
    "local a = struct.pack('!3i', 1)",
    "local a = struct.pack('i', 'x')",
    "local a = struct.pack('c5', 'abc')",
    "struct.pack = 1",
];

/// Scripts that look at libraries as tables, and that compile texts piece by piece.
const WITH_LIBRARIES: &[&str] = &[
    "local k={} for n in pairs(math) do k[#k+1]=n end table.sort(k) return k",
    "local k={} for n in pairs(table) do k[#k+1]=n end table.sort(k) return k",
    "local k={} for n in pairs(cjson) do k[#k+1]=n end table.sort(k) return k",
    "local k={} for n in pairs(bit) do k[#k+1]=n end table.sort(k) return k",
    "local k={} for n in pairs(struct) do k[#k+1]=n end table.sort(k) return k",
    "local k={} for n in pairs(coroutine) do k[#k+1]=n end table.sort(k) return k",
    "local k={} for n in pairs(redis) do k[#k+1]=n end table.sort(k) return k",
    "local k={} table.foreach(bit, function(n) k[#k+1]=n end) table.sort(k) return k",
    "return {type(rawget(math,'floor')), type(rawget(_G,'math')), type(rawget(_G,'nosuch')), type(rawget(_G,'KEYS'))}",
    "return rawget(math,'pi') == math.pi and rawequal(rawget(_G,'math'), math) and 1 or 0",
    "local n, f = next(bit) return {type(n), type(f), rawequal(bit[n], f) and 1 or 0}",
    "return {select('#', next({})), select('#', pairs({})), select('#', next(math))}",
    "local f, s, v = pairs(math) return {type(f), rawequal(s, math) and 1 or 0, type(v)}",
    "local f, s = pairs(math) s.floor = 1",
    "for k in pairs(math) do math[k] = nil end",
    "for k in pairs(_G) do _G[k] = nil end",
    "return {pcall(setmetatable, math, {})}",
    "return {pcall(next, math, 'nosuch')}",
    "return {type(getmetatable(math)), type(getmetatable({}))}",
    "return {pcall(cjson.encode, math)}",
    "local t = {a=1, b=2, c=3} for k in pairs(t) do t[k] = nil end return next(t) == nil and 1 or 0",
    "pairs()",
    "next(5)",
    "rawget('x', 1)",
    "local a = rawget({})",
    "getmetatable()",
    "setmetatable(1, {})",
    "setmetatable({}, 1)",
    "setmetatable({})",
    "setmetatable(setmetatable({}, {__metatable = 1}), {})",
    "return getmetatable(setmetatable({}, {__metatable = 'mine'}))",
    "for k in pairs(nil) do end",
    "table.foreach(1, 2)",
    "return table.foreach({a=1}, function(k, v) return k .. v end)",
    "local n=0 local f,e=load(function() n=n+1 return ({'ret','urn ','7'})[n] end) return {type(f), e, f()}",
    "local n=0 local f,e=load(function() n=n+1 return ({'ret','urn ',''})[n] end) return {type(f), e}",
    "local f,e=load(function() return {} end) return {type(f), e}",
    "local f,e=load(function() error('x') end) return {type(f), e}",
    "local f,e=load(function() error({a=1}) end) return {type(f), type(e)}",
    "local n=0 local f,e=load(function() n=n+1 if n==1 then return 'x x' end end) return {type(f), e}",
    "local n=0 local f,e=load(function() n=n+1 if n==1 then return 'x x' end end,'name') return {type(f), e}",
    "local n=0 local f,e=load(function() n=n+1 if n==1 then return 'x x' end end,'=name') return {type(f), e}",
    "local a = load(function() end, {})",
    "local n=0 local f,e=load(function() n=n+1 return n==1 and 5 or nil end) return {type(f), e}",
    "local n=0 return load(function() n=n+1 if n==1 then return redis.call('echo','return KEYS') end end)()",
    "local n=0 return {pcall(load(function() n=n+1 if n==1 then return 'zzz = 1' end end))}",
    "local n=0 return {pcall(load(function() n=n+1 if n==1 then return 'error(\"a\")' end end))}",
    "local n=0 return {load(function() n=n+1 if n==1 then return 'return ...' end end)(1, 2)}",
    "load('x')",
    "load(function() return true end) return 1",
];

/// Scripts that encode and decode JSON.
const WITH_JSON: &[&str] = &[
    "return {cjson.encode(1/3), cjson.encode(1e14), cjson.encode(99999999999999), cjson.encode(-0), cjson.encode(1e-7)}",
    "return cjson.encode('a/b\\127\\255\\0\\31\\\"\\\\\\b\\f\\n\\r\\t\\v')",
    "return {cjson.encode({}), cjson.encode({{}}), cjson.encode({[0]='a'}), cjson.encode({[1.5]='a'})}",
    "return {cjson.encode({[1]='a', [3]='b'}), cjson.encode({[1]='a', [10]='b'}), cjson.encode({[1]=1, x=2})}",
    "return cjson.encode({1, 2, 3, 4, 5, 6, [14]=1})",
    "local a = cjson.encode({1, 2, 3, 4, 5, 6, [15]=1})",
    "local a = cjson.encode({[11]=1})",
    "return {cjson.encode(nil), cjson.encode(true), cjson.encode({a=cjson.null}), cjson.encode({[1e15]=1})}",
    "local a = cjson.encode({[true]='a'})",
    "local a = cjson.encode({[cjson.null]='a'})",
    "local a = cjson.encode({[1/0]='a'})",
    "local a = cjson.encode({error})",
    "local a = cjson.encode(0/0)",
    "local a = cjson.encode()",
    "local a = cjson.encode(1, 2)",
    "local t = {} t[1] = t local a = cjson.encode(t)",
    "local t = {} for i = 1, 999 do t = {a=t} end return #cjson.encode(t)",
    "return #cjson.decode(('['):rep(1000) .. (']'):rep(1000))",
    "local a = cjson.decode(('[{\"a\":'):rep(600))",
    "return {tostring(cjson.decode('nan')), tostring(cjson.decode('-inf')), tostring(cjson.decode('1e400'))}",
    "return {cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\\\\u0000\\255\"'), cjson.decode(12)}",
    "local a = cjson.decode()",
    "local a = cjson.decode(nil)",
    "local a = cjson.decode('')",
    "return cjson.decode('')",
    "return cjson.encode()",
    "return string.rep('x', 'y')",
    "return collectgarbage('x')",
    "return {pcall(cjson.decode, '')}",
    "return {pcall(function() local a = cjson.decode('') end)}",
    "local a = cjson.decode('\\0x')",
    "return {cjson._NAME, cjson._VERSION, tostring(cjson.null), type(cjson.new()), tostring(cjson.new() == cjson)}",
    "return {cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_number_precision()}",
    "return {tostring(cjson.encode_keep_buffer()), tostring(cjson.encode_invalid_numbers())}",
    "return {tostring(cjson.decode_invalid_numbers()), select(2, cjson.encode_sparse_array())}",
    "local c = cjson.new() return {c.encode_max_depth('3.7'), c.encode_max_depth(nil), cjson.encode_max_depth()}",
    "local c = cjson.new() local a = c.encode_max_depth(0)",
    "local c = cjson.new() local a = c.encode_max_depth(1, 2)",
    "local c = cjson.new() local a = c.encode_max_depth('x')",
    "local c = cjson.new() c.encode_max_depth(2) local a = c.encode({{{}}})",
    "local c = cjson.new() c.decode_max_depth(2) local a = c.decode('{\"a\":[[1]]}')",
    "local c = cjson.new() return {c.encode_number_precision(3), c.encode(1/3), c.encode(1234)}",
    "local c = cjson.new() local a = c.encode_number_precision(17)",
    "local c = cjson.new() c.encode_sparse_array(true, 3, 4) return c.encode({[1]=1, [100]=2})",
    "local c = cjson.new() c.encode_sparse_array(false, 0) return c.encode({[1]=1, [100]=2})",
    "local c = cjson.new() local a = c.encode_sparse_array(false, 2, -1)",
    "local c = cjson.new() local a = c.encode_sparse_array('x')",
    "local c = cjson.new() local a = c.encode_sparse_array(1, 2, 3, 4)",
    "local c = cjson.new() c.encode_invalid_numbers(true) return c.encode({0/0, 1/0, -1/0})",
    "local c = cjson.new() return {c.encode_invalid_numbers('null'), c.encode({0/0, 1/0})}",
    "local c = cjson.new() c.decode_invalid_numbers(false) return {pcall(c.decode, '[01]')}",
    "local c = cjson.new() c.decode_invalid_numbers(false) return {pcall(c.decode, '-inf')}",
    "local c = cjson.new() local a = c.decode_invalid_numbers('null')",
    "local c = cjson.new() return {tostring(c.encode_keep_buffer('off')), tostring(c.encode_keep_buffer(true))}",
    "local c = cjson.new() c.x = 1 return c.x",
    "cjson.x = 1",
];

/// Scripts whose replies have types of RESP3, or numbers.
const TYPED: &[&str] = &[
    "return {double=3.5}",
    "return {double=-1e20}",
    "return {double=1/0}",
    "return {double='3'}",
    "return {map={a=1}}",
    "return {map={a={double=2.5}}}",
    "return {map={}}",
    "return {map='x'}",
    "return {set={a=true}}",
    "return {big_number='123'}",
    "return {big_number='12\\r\\n3'}",
    "return {big_number=123}",
    "return {verbatim_string={format='txt',string='hi'}}",
    "return {verbatim_string={format='markdown',string='a\\r\\nb'}}",
    "return {verbatim_string={format='t',string='hi'}}",
    "return {verbatim_string={format='txt'}}",
    "return {1, {double=2.5}, {map={1}}}",
    "return {err='E\\r\\n+x'}",
    "return {ok='a\\r\\n+b'}",
    "return {err=3, ok='x', double=1}",
    "return {double=1, big_number='2'}",
    "return {big_number='2', verbatim_string={format='txt',string='hi'}}",
    "return {verbatim_string={format='txt',string='hi'}, map={}}",
    "return {map={a=1}, set={b=1}}",
    "local t = {} for i = 1, 20000 do t[i] = 'x' .. i end return t",
    "local t = {} for i = 1, 20000 do t[i] = 'x' .. i end return {map=t}",
    "local t = {} for i = 1, 20000 do t['x' .. i] = true end return {1, {set={a=t}}, #cjson.encode(t)}",
    "return 1e20",
    "return -1e20",
    "return 0/0",
    "return 2^62",
    "return 2^63",
    "return redis.call('echo', 1e20)",
    "return redis.call('echo', -1.5e300)",
    "return redis.call('echo', 0.1)",
    "return redis.call('echo', 1e-5)",
    "return redis.call('echo', 1e16)",
    "return redis.call('echo', -9007199254740993)",
    "return redis.call('echo', 2^63)",
    "return redis.call('echo', 0/0)",
    "return redis.call('echo', 1/0)",
    "return redis.call('echo', 3.0)",
];

#[test]
fn scripts_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let mut speakers = [redis.address, ours.address].map(Raw::connect);
    speakers.iter_mut().for_each(|speaker| drop(speaker.call(&["HELLO", "3"])));
    for script in TYPED {
        let [expected, found] = speakers.each_mut().map(|speaker| speaker.call(&["EVAL", script, "0"]));
        assert_eq!(String::from_utf8_lossy(&expected), String::from_utf8_lossy(&found), "{script}");
    }
    let mut compare = |command: &[&str]| {
        let [expected, found] =
            servers.each_mut().map(|server| String::from_utf8_lossy(&server.call(command)).into_owned());
        assert_eq!(expected, found, "{command:?}");
        found
    };
    for script in SCRIPTS {
        compare(&[&["EVAL"][..], script].concat());
        compare(&[&["EVAL_RO"][..], script].concat());
    }
    for script in
        TYPED.iter().chain(CALLING).chain(WITH_JSON).chain(WITH_MESSAGES).chain(WITH_STRUCTS).chain(WITH_LIBRARIES)
    {
        compare(&["EVAL", script, "0"]);
    }
    compare(&["SELECT", "3"]);
    compare(&["EXISTS", "far"]);
    compare(&["SELECT", "0"]);
    let digest = compare(&["SCRIPT", "LOAD", "return ARGV[1]"]);
    let digest = digest.lines().nth(1).unwrap();
    for command in [
        &["EVALSHA", digest, "0", "hello"][..],
        &["EVALSHA", &digest.to_uppercase(), "0", "hello"],
        &["EVALSHA_RO", digest, "0", "hello"],
        &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
        &["EVALSHA", "short", "0"],
        &["SCRIPT", "EXISTS", digest, "ffffffffffffffffffffffffffffffffffffffff"],
        &["SCRIPT", "KILL"],
        &["SCRIPT", "FLUSH", "what"],
        &["SCRIPT", "FLUSH"],
        &["SCRIPT", "EXISTS", digest],
        &["EVALSHA", digest, "0", "hello"],
        &["SCRIPT", "LOAD", "return syntax error"],
        &["EVAL", "return syntax error", "0"],
        &["EVALSHA", "b079e35b196f4c35910a3906528bf878d6336ffe", "0"],
        &["SCRIPT", "LOAD", "#!lua flags=no-writes\nreturn 1"],
        &["SCRIPT", "LOAD", "#!lua flags=bogus\nreturn 1"],
        &["SCRIPT", "NOSUCH"],
        &["SCRIPT", "LOAD"],
        &["MULTI"],
        &["EVAL", "return redis.call('incr', KEYS[1])", "1", "counter"],
        &["EVAL", "return redis.call('incr', KEYS[1])", "1", "counter"],
        &["EXEC"],
    ] {
        compare(command);
    }
}

/// Random bytes that are almost JSON.
fn random_json(random: &mut Random, depth: u32, text: &mut Vec<u8>) {
    let blanks = random.pick(&["", "", "", " ", "\t\r\n"]);
    text.extend_from_slice(blanks.as_bytes());
    match random.below(if depth < 4 { 12 } else { 8 }) {
        0 => text.extend_from_slice(random.pick(&["true", "false", "null", "nul", "x", "", "Infinity"]).as_bytes()),
        1 => text.extend_from_slice(random.pick(&["-", "+1", "01", "0x1F", "0x.8p1", "-nan(a_1)", "INF"]).as_bytes()),
        2 => text.extend_from_slice(random.pick(&["1.", ".5", "-.5e1", "1e", "1e+", "1.5.5", "1E-3"]).as_bytes()),
        3 | 4 => {
            let (number, power) = (random.below(1_000_000) as i64 - 500_000, random.below(40) as i64 - 20);
            text.extend_from_slice(format!("{number}e{power}").as_bytes());
        }
        5..8 => random_text(random, text),
        8 | 9 => {
            text.push(b'[');
            for index in 0..random.below(4) {
                if index > 0 {
                    text.push(b',');
                }
                random_json(random, depth + 1, text);
            }
            text.push(b']');
        }
        _ => {
            text.push(b'{');
            for index in 0..random.below(4) {
                if index > 0 {
                    text.push(b',');
                }
                random_text(random, text);
                text.push(b':');
                random_json(random, depth + 1, text);
            }
            text.push(b'}');
        }
    }
}

fn random_text(random: &mut Random, text: &mut Vec<u8>) {
    const PARTS: [&[u8]; 13] = [
        b"a",
        b"bc",
        b"/",
        b"\\n",
        b"\\/",
        b"\\u00e9",
        b"\\u0000",
        b"\\ud83d\\ude00",
        b"\\ud83d",
        b"\\x",
        b"\t",
        b"\0",
        b"\"",
    ];
    text.push(b'"');
    for _ in 0..random.below(4) {
        match random.below(8) {
            0 => text.push(random.below(256) as u8),
            1..7 => text.extend_from_slice(random.pick(&PARTS[..8])),
            _ => text.extend_from_slice(random.pick(&PARTS)),
        }
    }
    text.push(b'"');
}

#[test]
fn random_json_has_the_values_and_texts_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let script = "local c = cjson.new()
        c.encode_invalid_numbers(true)
        c.decode_invalid_numbers(ARGV[2] == '1')
        local is_well, value = pcall(c.decode, ARGV[1])
        return {cjson.encode(ARGV[1]), is_well and c.encode(value) or value}";
    let mut decoded = 0;
    for _ in 0..4000 {
        let mut text = Vec::new();
        random_json(&mut random, 0, &mut text);
        // Some bytes are lost or changed.
        if !text.is_empty() && random.below(4) == 0 {
            let at = random.below(text.len());
            text.truncate(at);
            text.push(random.below(256) as u8);
        }
        let takes_invalid = if random.below(2) == 0 { b"1" } else { b"0" };
        let command = [b"EVAL".as_slice(), script.as_bytes(), b"0", &text, takes_invalid];
        let [expected, found] = servers.each_mut().map(|server| server.call(&command));
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(shown(&expected), shown(&found), "ATOLL_SEED={seed}: {}", shown(&text));
        decoded += usize::from(!shown(&found).contains("Expected"));
    }
    assert!((1000..3900).contains(&decoded), "{decoded}");
}
