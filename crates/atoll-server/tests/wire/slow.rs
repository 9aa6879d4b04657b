//! Commands that took long are found by their thresholds.

use crate::common;
use crate::common::{Raw, options, start};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).unwrap()
}

fn set(raw: &mut Raw, name: &str, value: &str) {
    assert_eq!(text(raw.call(&["CONFIG", "SET", name, value])), "+OK\r\n");
}

#[test]
fn the_slow_log_shows_the_newest_commands_beyond_its_threshold() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["CLIENT", "SETNAME", "me"]);
    raw.call(&["GET", "before"]);
    assert_eq!(text(raw.call(&["SLOWLOG", "LEN"])), ":0\r\n");
    set(&mut raw, "slowlog-log-slower-than", "0");
    // Also in a pipeline, and not what is refused.
    raw.send(&[&["GET", "a"][..], &["SET", "a", "b"], &["nosuch"], &["GET"]].map(common::command).concat());
    (0..4).for_each(|_| _ = raw.reply());
    raw.call(&["AUTH", "root", "secret"]);
    raw.call(&["HELLO", "2", "AUTH", "root", "secret"]);
    raw.call(&["EVAL", "return redis.call('get', 'a')", "0"]);
    raw.call(&["ACL", "DELUSER", "secretive"]);
    raw.call(&["CONFIG", "SET", "masterauth", "secret"]);
    let long = "x".repeat(200);
    raw.call(&[&["MSET", &long][..], &["v"; 79]].concat());
    set(&mut raw, "slowlog-log-slower-than", "-1");
    let entries = text(raw.call(&["SLOWLOG", "GET", "-1"]));
    let own = raw.stream().local_addr().unwrap().to_string();
    assert!(entries.starts_with("*9\r\n*6\r\n:8\r\n"), "{entries}");
    for shown in [
        "*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        "*3\r\n$4\r\nAUTH\r\n$10\r\n(redacted)\r\n$10\r\n(redacted)\r\n",
        "*5\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$10\r\n(redacted)\r\n$10\r\n(redacted)\r\n",
        "$4\r\nEVAL\r\n",
        "*3\r\n$3\r\nACL\r\n$7\r\nDELUSER\r\n$10\r\n(redacted)\r\n",
        "*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$10\r\nmasterauth\r\n$10\r\n(redacted)\r\n",
        "... (50 more arguments)",
        "... (72 more bytes)",
        &own,
        "$2\r\nme\r\n",
    ] {
        assert!(entries.contains(shown), "{shown:?} in {entries}");
    }
    assert!(!entries.contains("before") && !entries.contains("secret") && !entries.contains("nosuch"), "{entries}");
    assert!(text(raw.call(&["SLOWLOG", "GET", "1"])).starts_with("*1\r\n"));
    // A shorter log takes effect with the next entry.
    set(&mut raw, "slowlog-max-len", "2");
    set(&mut raw, "slowlog-log-slower-than", "0");
    raw.call(&["GET", "a"]);
    assert_eq!(text(raw.call(&["SLOWLOG", "LEN"])), ":2\r\n");
    set(&mut raw, "slowlog-log-slower-than", "60000000");
    raw.call(&["SLOWLOG", "RESET"]);
    raw.call(&["GET", "a"]);
    assert_eq!(text(raw.call(&["SLOWLOG", "LEN"])), ":0\r\n");
}

#[test]
fn an_event_is_a_second_with_a_command_beyond_the_threshold() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    // A script that takes several milliseconds anywhere.
    let slow = ["EVAL", "local n = 0; for i = 1, 3000000 do n = n + 1 end; return n", "0"];
    raw.call(&slow);
    assert_eq!(text(raw.call(&["LATENCY", "LATEST"])), "*0\r\n");
    set(&mut raw, "latency-monitor-threshold", "1");
    raw.call(&slow);
    // What comes now may take a millisecond, too.
    set(&mut raw, "latency-monitor-threshold", "60000");
    assert!(text(raw.call(&["LATENCY", "LATEST"])).starts_with("*1\r\n*4\r\n$7\r\ncommand\r\n:"));
    assert!(text(raw.call(&["LATENCY", "HISTORY", "command"])).starts_with("*1\r\n*2\r\n:"));
    assert!(text(raw.call(&["LATENCY", "DOCTOR"])).contains("command: in 1 seconds"));
    assert_eq!(text(raw.call(&["LATENCY", "RESET", "fast-command"])), ":0\r\n");
    assert_eq!(text(raw.call(&["LATENCY", "RESET"])), ":1\r\n");
    assert_eq!(text(raw.call(&["LATENCY", "LATEST"])), "*0\r\n");
    let histogram = text(raw.call(&["LATENCY", "HISTOGRAM", "eval", "nosuch"]));
    assert!(
        histogram.starts_with("*2\r\n$4\r\neval\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec"),
        "{histogram}"
    );
    assert!(histogram.ends_with(":2\r\n"), "the last step has all calls: {histogram}");
}
