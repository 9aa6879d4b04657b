//! The same requests to a real memcached and to ours: the same bytes come back, but for tokens,
//! and for seconds that may pass in between.
//!
//! `ATOLL_SEED=N` replays one sequence.

use crate::common::memcached::{Memcached, Text};
use crate::common::{Random, Running, start, start_on, with_memcached};
use atoll_cache::EngineOptions;
use atoll_cache::ditto::DittoOptions;
use std::collections::HashMap;
use std::net::SocketAddr;

const KEYS: [&str; 5] = ["a", "b", "n", "s", "key:1"];
/// None has a minus sign: memcached looks for one beyond the end of the value, too.
const VALUES: [&str; 12] =
    ["", "0", "1", "10", "99", "18446744073709551615", "9223372036854775808", "007", "abc", "5 x", " 5", "a\r\nb"];
const NUMBERS: [&str; 11] =
    ["0", "1", "7", "18446744073709551615", "18446744073709551616", "-1", "-0", "+3", "x", "4294967297", "1x"];
/// Spans and moments that no test sees the end of, and some that are over.
const EXPTIMES: [&str; 9] = ["0", "0", "1000", "2592000", "2592001", "-1", "2000000000", "4102444800", "x"];

/// A number behind which the lines differ.
fn masked(line: &str) -> String {
    if line.starts_with("ME ") {
        return "ME".to_owned();
    }
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let is_meta = ["VA", "HD", "NS", "EX", "NF", "EN"].contains(&words[0].as_str());
    if words[0] == "VALUE" && words.len() == 5 {
        words[4] = "TOKEN".to_owned();
    }
    for word in words.iter_mut().skip(1).filter(|_| is_meta) {
        match (word.get(..1), word.get(1..).map(str::parse::<i64>)) {
            (Some("c"), Some(Ok(_))) => *word = "TOKEN".to_owned(),
            (Some("t"), Some(Ok(0..))) => *word = "SECONDS".to_owned(),
            _ => {}
        }
    }
    words.join(" ")
}

fn comparable(replies: &[u8]) -> String {
    let lines = String::from_utf8_lossy(replies).split("\r\n").map(masked).collect::<Vec<_>>().join("\r\n");
    // memcached shows a key in base64 if it was stored so, and as it is where an append made the
    // item anew.
    lines.replace(" kkey 1", " ka2V5IDE= b")
}

/// The flags of a meta command.
fn flags(random: &mut Random, letters: &[&str], key: &str) -> String {
    let mut flags = String::new();
    for _ in 0..random.below(5) {
        let letter = random.pick(letters);
        flags += " ";
        flags += letter;
        match letter {
            "T" | "N" => flags += random.pick(&["0", "30", "1000", "100000", "x", ""]),
            // Never a span that is over in this very second.
            "R" => flags += random.pick(&["0", "10", "500", "50000", "x", ""]),
            "O" => flags += random.pick(&["", "1", "abcdefghijklmnopqrstuvwxyz01234"]),
            "F" | "D" | "J" => flags += random.pick(&NUMBERS),
            "C" => flags += &format!("<{key}>"),
            _ => {}
        }
    }
    flags
}

/// One random request. `<k>` stands for a token of the key `k`.
fn random_request(random: &mut Random) -> String {
    let key = random.pick(&KEYS);
    let noreply = random.pick(&["", "", "", " noreply"]);
    match random.below(32) {
        0..4 => {
            let keys: Vec<_> = (0..1 + random.below(3)).map(|_| random.pick(&KEYS)).collect();
            format!("{} {}\r\n", random.pick(&["get", "gets"]), keys.join(" "))
        }
        4 => {
            let exptime = random.pick(&EXPTIMES);
            format!("{} {exptime} {key} {}\r\n", random.pick(&["gat", "gats"]), random.pick(&KEYS))
        }
        5..11 => {
            let (name, value) =
                (random.pick(&["set", "set", "set", "add", "replace", "append", "prepend"]), random.pick(&VALUES));
            let (flags, exptime) = (random.pick(&NUMBERS), random.pick(&EXPTIMES));
            match random.below(20) {
                0 => format!("{name} {key} {flags} {exptime} {}{noreply}\r\n{value}\r\nxxxxxx\r\n", value.len() + 1),
                1 if !value.is_empty() => {
                    format!("{name} {key} 0 0 {}{noreply}\r\n{value}\r\nxxxxxx\r\n", value.len() - 1)
                }
                _ => format!("{name} {key} {flags} {exptime} {}{noreply}\r\n{value}\r\n", value.len()),
            }
        }
        11 | 12 => {
            let value = random.pick(&VALUES);
            format!("cas {key} 3 0 {} <{key}>{noreply}\r\n{value}\r\n", value.len())
        }
        13..16 => format!("{} {key} {}{noreply}\r\n", random.pick(&["incr", "decr"]), random.pick(&NUMBERS)),
        16 => format!("touch {key} {}{noreply}\r\n", random.pick(&EXPTIMES)),
        17 => format!("delete {key}{}{noreply}\r\n", random.pick(&["", "", " 0", " 1"])),
        18 => match random.below(6) {
            0 => format!("flush_all{}{noreply}\r\n", random.pick(&["", " 0", " x"])),
            1 => format!("verbosity{}{noreply}\r\n", random.pick(&["", " 1", " x"])),
            2 => "version\r\n".to_owned(),
            3 => "stats reset\r\n".to_owned(),
            4 => format!("{} {}\r\n", random.pick(&["incr", "touch", "nothing"]), key.repeat(60)),
            _ => {
                let count = random.below(6);
                let words: Vec<_> = (0..count).map(|_| random.pick(&["a", "noreply", "0", "1", "GET", "x"])).collect();
                let name = random.pick(&["set", "cas", "incr", "delete", "touch", "get", "gat", "md", "ma", "me", ""]);
                // A line that announces data gets some.
                format!("{name} {}\r\nx\r\n", words.join(" "))
            }
        },
        19..23 => {
            let letters = ["v", "v", "k", "O", "s", "t", "c", "f", "q", "T", "R", "E", "!", "N"];
            match random.below(5) {
                // One that `N` makes is not known as one in base64.
                0 => format!("mg a2V5IDE= b{}\r\n", flags(random, &letters[..13], "")),
                _ => format!("mg {key}{}\r\n", flags(random, &letters, key)),
            }
        }
        23..27 => {
            let letters = [
                "T", "F", "C", "C", "I", "I", "k", "O", "q", "c", "s", "MS", "ME", "MA", "MP", "MR", "Mx", "Ma", "MSS",
                "x",
            ];
            let (value, is_binary) = (random.pick(&VALUES), random.below(5) == 0);
            let flags = flags(random, &letters, if is_binary { "" } else { key });
            let key = if is_binary { "a2V5IDE=" } else { key };
            let flags = if is_binary { format!(" b{flags}") } else { flags };
            format!("ms {key} {}{flags}\r\n{value}\r\n", value.len())
        }
        27..29 => {
            let letters = ["C", "I", "I", "T", "k", "O", "q", "x"];
            match random.below(5) {
                0 => format!("md a2V5IDE= b{}\r\n", flags(random, &letters, "")),
                _ => format!("md {key}{}\r\n", flags(random, &letters, key)),
            }
        }
        _ => {
            let letters =
                ["N", "J", "D", "T", "MI", "MD", "M+", "M-", "Mi", "Md", "Mx", "q", "t", "c", "v", "v", "k", "O", "C"];
            format!("ma {}{}\r\n", random.pick(&["n", "n", key]), flags(random, &letters, "n"))
        }
    }
}

/// One server, with two connections, and the tokens that were seen.
struct Side {
    connections: [Text; 2],
    tokens: HashMap<&'static str, String>,
}

impl Side {
    fn new(address: SocketAddr) -> Self {
        Self { connections: [(); 2].map(|()| Text::connect(address)), tokens: HashMap::new() }
    }

    /// Looks at the present token of a key.
    fn look(&mut self, key: &'static str) {
        let reply = self.connections[0].say(format!("mg {key} c\r\n"));
        if let Some(token) = reply.trim_end().strip_prefix("HD c").and_then(|reply| reply.split(' ').next()) {
            self.tokens.insert(key, token.to_owned());
        }
    }

    fn say(&mut self, connection: usize, requests: &str) -> String {
        let mut requests = requests.to_owned();
        for key in KEYS {
            let token = self.tokens.get(key).map_or("999999999", String::as_str);
            requests = requests.replace(&format!("<{key}>"), token);
        }
        comparable(&self.connections[connection].say_bytes(requests.as_bytes()))
    }
}

fn compare(memcached: &Memcached, ours: &Running, seed: u64) {
    let mut random = Random(seed);
    let (mut theirs, mut ours) = (Side::new(memcached.address), Side::new(ours.memcached()));
    let mut history = Vec::new();
    for side in [&mut theirs, &mut ours] {
        side.say(0, "flush_all\r\n");
    }
    for _ in 0..3000 {
        // Tokens are looked at now and then, so that some are old.
        let looked = random.pick(&KEYS);
        let looks = random.below(2) == 0;
        let requests: Vec<_> = (0..1 + random.below(4)).map(|_| random_request(&mut random)).collect();
        for side in [&mut theirs, &mut ours] {
            if looks {
                side.look(looked);
            }
        }
        // Where tokens have an order, one that no item ever had is a newer one.
        let unknown = KEYS.into_iter().filter(|key| !theirs.tokens.contains_key(key)).chain([""]);
        let unknown: Vec<_> = unknown.map(|key| format!(" C<{key}>")).collect();
        let known = |request: String| unknown.iter().fold(request, |request, token| request.replace(token, ""));
        let requests: Vec<_> = requests.into_iter().map(known).collect();
        // memcached changes a number in place, unless the request before still holds it.
        let counts = |request: &String| ["incr", "decr", "ma "].iter().any(|name| request.starts_with(name));
        let exchanges = if requests.iter().any(counts) { requests } else { vec![requests.concat()] };
        let connection = random.below(2);
        for requests in exchanges {
            let [expected, found] = [&mut theirs, &mut ours].map(|side| side.say(connection, &requests));
            // Who wins an item gets a new token here.
            if expected.split("\r\n").any(|line| line.ends_with(" W")) {
                theirs.tokens.clear();
                ours.tokens.clear();
            }
            history.push(format!("{requests:?} -> {expected:?}"));
            assert!(
                expected == found,
                "ATOLL_SEED={seed}: {requests:?}\n memcached: {expected:?}\n atoll:     {found:?}\n after:\n{}",
                history[history.len().saturating_sub(15)..].join("\n"),
            );
        }
    }
}

#[test]
fn random_requests_get_the_replies_of_memcached() {
    let Some(memcached) = Memcached::start() else { return };
    let ours = start(with_memcached());
    let seeds = match std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (1..=6).collect(),
    };
    seeds.into_iter().for_each(|seed| compare(&memcached, &ours, seed));
}

#[test]
fn random_requests_get_the_replies_of_memcached_from_every_engine() {
    let Some(memcached) = Memcached::start() else { return };
    for engine in [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())] {
        println!("{engine}:");
        compare(&memcached, &start_on(&engine, with_memcached()), 11);
    }
}

#[test]
fn lines_at_the_edges_get_the_replies_of_memcached() {
    let Some(memcached) = Memcached::start() else { return };
    let ours = start(with_memcached());
    let long = "k".repeat(251);
    let longest = "k".repeat(250);
    let all_letters: String = (b'A'..=b'Z').map(|letter| format!(" {}", char::from(letter))).collect();
    for requests in [
        "get\r\n",
        "\r\n",
        "\n",
        "   \r\n",
        "get a b c\n",
        "  get   a   \r\n",
        "gets\r\n",
        "GET a\r\n",
        "bget a\r\n",
        "set k 0 0 3\r\nabcd\r\nget k\r\n",
        "set k 0 0 3 \r\nabc\r\nget k\r\n",
        "set k 0 0 3 xx\r\nabc\r\n",
        "set k 0 0 3 noreply x\r\nabc\r\n",
        "set noreply 0 0 1\r\nx\r\nget noreply\r\ndelete noreply\r\n",
        "set k -1 0 3\r\nabc\r\n",
        "set k 4294967296 0 3\r\nabc\r\nget k\r\n",
        "set k 0 0 2147483647\r\nversion\r\n",
        "set k 0 0 2147483646\r\nversion\r\n",
        "set k 0 0 -1\r\nversion\r\n",
        "set k 0 0\t 1\r\nx\r\n",
        "set k 0 0 1\nx\r\nget k\n",
        "set a\tb 0 0 1\r\nx\r\nget a\tb\r\n",
        "set a\x01 0 0 1\r\nx\r\nget a\x01\r\n",
        "get a\r\r\n",
        "gat\r\n",
        "gat 1\r\n",
        "gat 10 k noreply\r\n",
        "incr k noreply\r\nversion\r\n",
        "set m 0 0 2\r\n-1\r\nincr m 1\r\nset m 0 0 2\r\n-0\r\ndecr m 1\r\n",
        "touch k noreply\r\nversion\r\n",
        "delete a b c d\r\n",
        "delete k noreply 0\r\n",
        "delete k 0 noreply\r\nversion\r\n",
        "flush_all 1 2 3\r\n",
        "flush_all noreply\r\nversion\r\n",
        "flush_all -1\r\nget k\r\n",
        "verbosity noreply\r\nversion\r\n",
        "version x\r\n",
        "quit x\r\n",
        "quit\r\nversion\r\n",
        "shutdown\r\n",
        "stats foo\r\n",
        "stats reset x\r\n",
        "cas k 0 0 1\r\nx\r\n",
        "cas k 0 0 1 x\r\nx\r\n",
        "cas zz 0 0 1 1 noreply\r\nx\r\nversion\r\n",
        "mn x\r\n",
        "m\r\nmz\r\nmg\r\nms\r\nmd\r\nma\r\nme\r\n",
        "mg zz v k Oabc\r\n",
        "mg a0 b v k\r\nmg !! b v k\r\nmg ab v k b\r\n",
        "mg k Tx\r\nmg k T\r\nmg k N\r\n",
        "ms k\r\n",
        "ms k S1\r\nx\r\n",
        "ms k x\r\nversion\r\n",
        "ms k -1\r\nversion\r\n",
        "ms k 1 I\r\nxx\r\nversion\r\n",
        "ms k 1 T0 F5 c k Oq b\r\nx\r\n",
        "ms k 1 Fx\r\nx\r\n",
        "ms k 1 E99 c\r\nx\r\n",
        "ms k 1 s c f t\r\nx\r\nmg k s f v t\r\n",
        "me zz\r\nme zz x y\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        "post x\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        &format!("set {long} 0 0 1\r\nx\r\n"),
        &format!("get {long}\r\n"),
        &format!("get a {long}\r\n"),
        &format!("gat 1 {long}\r\n"),
        &format!("incr {long} 1\r\ntouch {long} 1\r\ndelete {long}\r\n"),
        &format!("set {longest} 0 0 1\r\nx\r\nget {longest}\r\nincr {longest} 1\r\ntouch {longest} 1\r\n"),
        &format!("mg {longest} k\r\ndelete {longest}\r\n"),
        &format!("mg {long} v\r\nmd {long}\r\nma {long}\r\nme {long}\r\nms {long} 1\r\nx\r\n"),
        &format!("mg k v{all_letters}\r\nmd k v{all_letters}\r\n"),
        &format!("mg k O{}\r\nmg k O{}\r\n", "a".repeat(31), "a".repeat(32)),
        &format!("ms k 1 O{}\r\nx\r\n", "a".repeat(40)),
        &format!("{}\r\n", "x".repeat(2000)),
        &format!("get {}\r\n", "k ".repeat(2000)),
    ] {
        let [expected, found] = [memcached.address, ours.memcached()].map(|address| {
            let mut connection = Text::connect(address);
            comparable(&connection.say_bytes(requests.as_bytes()))
        });
        assert_eq!(expected, found, "{:?}", &requests[..requests.len().min(80)]);
    }
}
