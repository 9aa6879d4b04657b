//! Random rules, and what users that are made by them may do.

use super::{comparable, server};
use crate::common::redis_server::Redis;
use crate::common::{Random, Raw};

/// A random rule, of all kinds that there are, and some that are none.
fn random_rule(random: &mut Random) -> String {
    const COMMANDS: [&str; 26] = [
        "get",
        "set",
        "GET",
        "mget",
        "lpush",
        "debug",
        "config",
        "config|get",
        "Config|Set",
        "client",
        "client|list",
        "acl",
        "acl|whoami",
        "select",
        "object|freq",
        "subscribe",
        "publish",
        "eval",
        "flushall",
        "hset",
        "ping",
        "xadd",
        "nosuch",
        "config|nosuch",
        "select|0",
        "memory|usage",
    ];
    const CATEGORIES: [&str; 24] = [
        "keyspace",
        "read",
        "write",
        "set",
        "sortedset",
        "list",
        "hash",
        "string",
        "bitmap",
        "hyperloglog",
        "geo",
        "stream",
        "pubsub",
        "admin",
        "fast",
        "slow",
        "blocking",
        "dangerous",
        "connection",
        "transaction",
        "scripting",
        "all",
        "READ",
        "nosuch",
    ];
    const OTHERS: [&str; 30] = [
        "on",
        "off",
        "ON",
        "nopass",
        "resetpass",
        "reset",
        "allkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "allcommands",
        "nocommands",
        "clearselectors",
        "sanitize-payload",
        "skip-sanitize-payload",
        ">p",
        ">q",
        "<p",
        "<q",
        "!2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "#12",
        "",
        "x",
        "~",
        "&",
        "+",
        "-",
        "+@",
        "%~k",
        "+select|1",
    ];
    let verb = random.pick(&["+", "+", "-"]);
    match random.below(10) {
        0..3 => format!("{verb}{}", random.pick(&COMMANDS)),
        3..6 => format!("{verb}@{}", random.pick(&CATEGORIES)),
        6 => {
            let kind = random.pick(&["~", "~", "%R~", "%W~", "%RW~", "%w~", "%RR~", "%x~", "%R"]);
            format!("{kind}{}", random.pick(&["a", "a*", "k[12]", "*", "b?", "k1", "a b"]))
        }
        7 => format!("&{}", random.pick(&["c", "c*", "*", "d?"])),
        8 => random.pick(&OTHERS).to_owned(),
        _ => {
            let rules: Vec<String> = (0..random.below(4)).map(|_| random_rule(random)).collect();
            let rules: Vec<&String> = rules.iter().filter(|rule| !rule.contains(['(', ')'])).collect();
            format!("({})", rules.iter().map(|rule| rule.as_str()).collect::<Vec<_>>().join(" "))
        }
    }
}

/// A random command to ask about.
fn random_call(random: &mut Random) -> Vec<String> {
    const KEYS: [&str; 6] = ["a", "a1", "k1", "k3", "b1", "z"];
    const CHANNELS: [&str; 4] = ["c", "c*", "d1", "z"];
    let mut key = || random.pick(&KEYS).to_owned();
    let (one, other) = (key(), key());
    let (channel, second) = (random.pick(&CHANNELS).to_owned(), random.pick(&CHANNELS).to_owned());
    let words: Vec<&str> = match random.below(22) {
        0 => vec!["GET", &one],
        1 => vec!["SET", &one, "x"],
        2 => vec!["SET", &one, "x", "GET"],
        3 => vec!["MGET", &one, &other],
        4 => vec!["MSET", &one, "x", &other, "y"],
        5 => vec!["COPY", &one, &other],
        6 => vec!["RENAME", &one, &other],
        7 => vec!["DEL", &one, &other],
        8 => vec!["EVAL", "return 1", "2", &one, &other],
        9 => vec!["EVAL_RO", "return 1", "1", &one, &other],
        10 => vec!["PUBLISH", &channel, &one],
        11 => vec!["SUBSCRIBE", &channel, &second],
        12 => vec!["PSUBSCRIBE", &channel, &second],
        13 => vec!["SSUBSCRIBE", &channel],
        14 => vec!["CONFIG", "GET", "x"],
        15 => vec!["SELECT", random.pick(&["0", "1", "2"])],
        16 => vec!["CLIENT", random.pick(&["LIST", "ID", "nosuch"])],
        17 => vec!["OBJECT", random.pick(&["FREQ", "ENCODING"]), &one],
        18 => vec!["BITOP", "AND", &one, &other],
        19 => vec!["ACL", random.pick(&["WHOAMI", "LIST"])],
        20 => vec![random.pick(&["FLUSHALL", "PING", "INFO", "MULTI", "AUTH", "MONITOR", "RANDOMKEY"]), "x"],
        _ => vec!["MEMORY", "USAGE", &one],
    };
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn random_rules_make_the_users_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = server();
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let rounds = std::env::var("ATOLL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1500);
    let (mut random, mut history) = (Random(seed), Vec::new());
    let mut compare = |args: &[&str], history: &mut Vec<String>| {
        let [expected, found] = servers.each_mut().map(|raw| comparable(args, raw.call(args)));
        history.push(format!("{args:?} -> {expected:?}"));
        let tail = history[history.len().saturating_sub(40)..].join("\n");
        assert_eq!(expected, found, "ATOLL_SEED={seed}: {args:?} after:\n{tail}");
    };
    for round in 0..rounds {
        let user = random.pick(&["u", "v"]);
        if round % 50 == 49 {
            compare(&["ACL", "DELUSER", user], &mut history);
        }
        let rules: Vec<String> = (0..1 + random.below(4)).map(|_| random_rule(&mut random)).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        compare(&[&["ACL", "SETUSER", user], rules.as_slice()].concat(), &mut history);
        compare(&["ACL", "GETUSER", user], &mut history);
        for _ in 0..4 {
            let call = random_call(&mut random);
            let call: Vec<&str> = call.iter().map(String::as_str).collect();
            compare(&[&["ACL", "DRYRUN", user], call.as_slice()].concat(), &mut history);
        }
        compare(&["ACL", "LIST"], &mut history);
    }
}
