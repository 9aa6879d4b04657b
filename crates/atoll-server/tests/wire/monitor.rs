//! MONITOR: who sees which command, and what that costs the others.

use crate::common::redis_server::Redis;
use crate::common::{Raw, command, options, start};
use std::time::{Duration, Instant};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).unwrap()
}

/// What connections do while another one sees it.
const SESSION: &[&[&str]] = &[
    &["SET", "a", "x\"\\\n\r\t\u{7}\u{8}\0\u{7f}é"],
    &["AUTH", "secret"],
    &["AUTH", "default", "secret"],
    &["HELLO", "2", "AUTH", "default", "secret", "SETNAME", "me"],
    &["SELECT", "5"],
    &["get", "a"],
    &["GET"],
    &["nosuch"],
    &["SET", "a", "x"],
    &["INCR", "a"],
    &["CLIENT", "ID"],
    &["CLIENT", "LIST"],
    &["CLIENT", "KILL", "ID", "999"],
    &["CLIENT", "HELP"],
    &["CONFIG", "GET", "x"],
    &["CONFIG", "HELP"],
    &["SLOWLOG", "LEN"],
    &["MULTI"],
    &["GET", "a"],
    &["MONITOR"],
    &["EVAL", "return redis.call('get', 'a')", "0"],
    &["EXEC"],
    &["EVAL", "redis.call('select', 3) redis.call('set', 'a', 'b') return redis.call('get', 'a')", "0"],
    &["EVAL", "return 1", "-1"],
    &["EVAL", "return syntax error", "0"],
    &["MULTI"],
    &["DISCARD"],
    &["MULTI"],
    &["nosuch"],
    &["EXEC"],
    &["RESET"],
    &["SUBSCRIBE", "a"],
    &["GET", "a"],
    &["PING"],
    &["RESET"],
    &["ECHO", "x"],
    &["ECHO", "the end"],
];

/// The lines until the end, without their times and ports.
fn seen(monitor: &mut Raw) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = text(monitor.reply());
        let (time, rest) = line.strip_prefix('+').unwrap().split_once(' ').unwrap();
        let (seconds, micros) = time.split_once('.').unwrap();
        assert!(seconds.len() >= 10 && micros.len() == 6 && micros.parse::<u32>().is_ok(), "{line:?}");
        let (from, command) = rest.split_once("] ").unwrap();
        let (database, from) = from.strip_prefix('[').unwrap().split_once(' ').unwrap();
        let from = if from.starts_with("127.0.0.1:") { "peer" } else { from };
        lines.push(format!("{database} {from} {command}"));
        if command.contains("the end") {
            return lines;
        }
    }
}

#[test]
fn a_monitor_sees_what_a_monitor_of_redis_sees() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let [expected, found] = [redis.address, ours.address].map(|address| {
        let (mut monitor, mut other) = (Raw::connect(address), Raw::connect(address));
        assert_eq!(text(monitor.call(&["MONITOR"])), "+OK\r\n");
        // The second one has no reply.
        monitor.send(&command(&["MONITOR"]));
        assert_eq!(text(monitor.call(&["ECHO", "begin"])), "$5\r\nbegin\r\n");
        SESSION.iter().for_each(|command| _ = other.call(command));
        seen(&mut monitor)
    });
    assert_eq!(expected, found);
}

#[test]
fn a_monitor_is_marked_and_ends_with_reset() {
    let server = start(options());
    let (mut monitor, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    monitor.call(&["MONITOR"]);
    monitor.send(&command(&["PING"]).repeat(2));
    for _ in 0..2 {
        assert_eq!(text(monitor.reply()), "+PONG\r\n");
        assert!(text(monitor.reply()).ends_with("] \"PING\"\r\n"));
    }
    assert!(text(other.call(&["CLIENT", "LIST"])).contains(" flags=O "));
    assert_eq!(text(monitor.call(&["RESET"])), "+RESET\r\n");
    other.call(&["PING"]);
    assert_eq!(text(monitor.call(&["GET", "a"])), "$-1\r\n");
    assert!(!text(other.call(&["CLIENT", "LIST"])).contains(" flags=O "));
}

#[test]
fn a_monitor_sees_commands_while_one_of_its_own_waits() {
    let server = start(options());
    let (mut monitor, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    monitor.call(&["MONITOR"]);
    other.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    monitor.send(&command(&["SET", "a", "1"]));
    for round in 0..20 {
        other.call(&["ECHO", &round.to_string()]);
        assert!(text(monitor.reply()).ends_with(&format!("] \"ECHO\" \"{round}\"\r\n")));
    }
    other.call(&["CLIENT", "UNPAUSE"]);
    assert_eq!(text(monitor.reply()), "+OK\r\n");
    assert!(text(monitor.reply()).ends_with("] \"SET\" \"a\" \"1\"\r\n"));
}

#[test]
fn every_get_of_a_pipeline_is_seen() {
    let server = start(options());
    let (mut monitor, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    monitor.call(&["MONITOR"]);
    other.send(&[command(&["GET", "a"]).repeat(50), command(&["ECHO", "the end"])].concat());
    assert_eq!(seen(&mut monitor).len(), 51);
}

#[test]
fn a_monitor_that_takes_nothing_ends_and_a_silent_one_stays() {
    let server = start(atoll_server::ServerOptions { idle_s_max: 1, ..options() });
    let mut other = Raw::connect(server.address);
    other.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 16mb 0 0"]);
    let monitors = |raw: &mut Raw| text(raw.call(&["CLIENT", "LIST"])).matches(" flags=O ").count();
    let (mut slow, mut silent) = (Raw::connect(server.address), Raw::connect(server.address));
    slow.call(&["MONITOR"]);
    silent.call(&["MONITOR"]);
    let mut reader = silent.stream().try_clone().unwrap();
    let drain = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let set = command(&["SET", "a", &"\u{1}".repeat(50_000)]);
    let began = Instant::now();
    while monitors(&mut other) == 2 {
        (0..20).for_each(|_| other.send(&set));
        (0..20).for_each(|_| _ = other.reply());
        assert!(began.elapsed() < Duration::from_secs(30), "the slow monitor is still there");
    }
    while began.elapsed() < Duration::from_secs(4) {
        assert_eq!(monitors(&mut other), 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    // A command that no monitor may be shown ends all of them.
    other.call(&["SET", "a", &"x".repeat(17 << 20)]);
    while monitors(&mut other) > 0 {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    drop(silent);
    drain.join().unwrap().unwrap_or(0);
}
