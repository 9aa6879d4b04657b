//! Users: what they may do, and that they are those of redis-server.

mod connections;
mod conversation;
mod files;
mod random;

use crate::common::{Raw, Running, options, start_on};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::time::{Duration, Instant};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8_lossy(&reply).into_owned()
}

/// Connections of it are on different workers.
fn server() -> Running {
    start_on(&EngineOptions::default(), ServerOptions { threads: 3, ..options() })
}

fn ok(raw: &mut Raw, args: &[&str]) {
    assert_eq!(text(raw.call(args)), "+OK\r\n", "{args:?}");
}

/// A connection that is this user.
fn connect_as(server: &Running, name: &str) -> Raw {
    let mut raw = Raw::connect(server.address);
    ok(&mut raw, &["AUTH", name, "x"]);
    raw
}

/// Whether the server ends a connection that says nothing more.
fn ends(raw: Raw) -> bool {
    let began = Instant::now();
    let rest = raw.rest();
    assert!(began.elapsed() < Duration::from_secs(10));
    rest.is_empty()
}

/// Commands of later versions than 7.0.
const LATER: &[&str] = &[
    "client|no-touch",
    "client|setinfo",
    "cluster|myshardid",
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hsetex",
    "httl",
    "waitaof",
];

/// A reply with the words of each line in order: Redis shows single commands in the order of its
/// table, which is another one in each process. What differs in any case is left out of ACL LOG.
fn comparable(args: &[&str], reply: Vec<u8>) -> String {
    let reply = text(reply);
    let is = |index: usize, word: &str| args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word));
    if !is(0, "acl") {
        return reply;
    }
    if is(1, "genpass") && reply.starts_with('$') {
        return reply.len().to_string();
    }
    let mut lines: Vec<String> = Vec::new();
    // The lengths of texts differ by the commands of later versions.
    for line in reply.lines().filter(|line| !line.starts_with('$')) {
        let mut words: Vec<&str> = line.split([' ', '(', ')']).collect();
        words.retain(|word| !LATER.contains(&word.trim_start_matches(['+', '-'])));
        words.sort_unstable();
        lines.push(words.join(" "));
    }
    if is(1, "log") {
        lines
            .iter_mut()
            .filter(|line| ["*20", "%10"].contains(&line.as_str()))
            .for_each(|line| *line = "*14".to_owned());
        for field in ["entry-id", "timestamp-created", "timestamp-last-updated"] {
            while let Some(at) = lines.iter().position(|line| line == field) {
                lines.drain(at..at + 2);
            }
        }
        for index in 0..lines.len() {
            if ["age-seconds", "client-info"].contains(&lines[index].as_str()) {
                lines[index + 1].clear();
            }
        }
    }
    lines.join("\n")
}
