//! Limits of connections that operators change while the server serves.

use crate::common::{Raw, command, options, start, start_on};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::time::{Duration, Instant};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).unwrap()
}

#[test]
fn a_silent_peer_is_disconnected_and_one_that_speaks_is_not() {
    let server = start(ServerOptions { idle_s_max: 1, threads: 2, ..options() });
    let (mut speaks, silent) = (Raw::connect(server.address), Raw::connect(server.address));
    // A part of a command is no longer silence than none.
    let mut half = Raw::connect(server.address);
    half.send(b"*1\r\n$4\r\nPI");
    let began = Instant::now();
    std::thread::scope(|scope| {
        let ended = [silent, half].map(|one| scope.spawn(move || one.rest()));
        while ended.iter().any(|one| !one.is_finished()) {
            assert_eq!(text(speaks.call(&["PING"])), "+PONG\r\n");
            assert!(began.elapsed() < Duration::from_secs(15));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert!(began.elapsed() > Duration::from_secs(1));
    assert_eq!(text(speaks.call(&["CONFIG", "SET", "timeout", "0"])), "+OK\r\n");
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(text(speaks.call(&["PING"])), "+PONG\r\n", "no peer is disconnected any more");
}

#[test]
fn a_command_that_waits_is_no_silence() {
    let server = start(ServerOptions { idle_s_max: 1, ..options() });
    let mut raw = Raw::connect(server.address);
    raw.call(&["CLIENT", "PAUSE", "4000", "WRITE"]);
    assert_eq!(text(raw.call(&["SET", "a", "1"])), "+OK\r\n");
}

#[test]
fn the_most_connections_are_changed_while_the_server_serves() {
    let server = start(options());
    let (mut one, _other) = (Raw::connect(server.address), Raw::connect(server.address));
    assert_eq!(text(one.call(&["CONFIG", "SET", "maxclients", "2"])), "+OK\r\n");
    assert_eq!(text(Raw::connect(server.address).rest()), "-ERR max number of clients reached\r\n");
    assert_eq!(text(one.call(&["CONFIG", "SET", "maxclients", "3"])), "+OK\r\n");
    assert_eq!(text(Raw::connect(server.address).call(&["PING"])), "+PONG\r\n");
    let why = "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able";
    // All or nothing.
    let refused = text(one.call(&["CONFIG", "SET", "timeout", "5", "maxclients", "4294967295"]));
    assert!(refused.starts_with(why), "{refused}");
    assert_eq!(text(one.call(&["CONFIG", "GET", "timeout"])), "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n");
}

#[test]
fn a_connection_that_owes_more_than_the_limit_ends() {
    let server = start_on(&EngineOptions::default(), options());
    let mut raw = Raw::connect(server.address);
    raw.call(&[b"SET".as_slice(), b"big", &vec![b'x'; 256 << 10]]);
    let limit = |raw: &mut Raw, limit: &str| {
        assert_eq!(text(raw.call(&["CONFIG", "SET", "client-output-buffer-limit", limit])), "+OK\r\n");
    };
    // One reply is below the hard limit, and two are not.
    limit(&mut raw, "normal 300kb 0 0");
    let mut one = Raw::connect(server.address);
    assert_eq!(one.call(&["GET", "big"]).len(), (256 << 10) + 11);
    one.send(&command(&["GET", "big"]).repeat(2));
    assert!(one.rest().is_empty());
    // A peer that takes nothing for longer than the soft limit permits.
    limit(&mut raw, "normal 0 200kb 1");
    let mut stuck = Raw::connect(server.address);
    assert_eq!(stuck.call(&["GET", "big"]).len(), (256 << 10) + 11);
    stuck.send(&command(&["GET", "big"]).repeat(1024));
    let began = Instant::now();
    while text(raw.call(&["CLIENT", "LIST"])).matches("\nid=").count() > 1 {
        assert!(began.elapsed() < Duration::from_secs(15));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(stuck.rest().len() < 1024 * (256 << 10));
}

#[test]
fn what_has_no_meaning_here_is_noted_or_refused() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let mut set = |name: &str, value: &str| text(raw.call(&["CONFIG", "SET", name, value]));
    assert_eq!(set("lfu-log-factor", "5"), "+OK\r\n");
    for (name, value) in [
        ("maxmemory", "1gb1"),
        ("maxmemory", "5"),
        ("maxmemory-policy", "noeviction"),
        ("appendonly", "yes"),
        ("save", "900 1"),
        ("requirepass", "x"),
        ("cluster-enabled", "yes"),
        ("port", "1"),
    ] {
        let reply = set(name, value);
        let refused = format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - ");
        assert!(reply.starts_with(&refused), "{reply}");
    }
    // The value that it has.
    assert_eq!(set("maxmemory", "1gb"), "+OK\r\n");
    assert_eq!(set("maxmemory-policy", "ALLKEYS-LFU"), "+OK\r\n");
    let all = text(raw.call(&["CONFIG", "GET", "*"]));
    assert!(all.contains("\r\nport\r\n") && all.contains(&format!("\r\n{}\r\n", server.address.port())), "{all}");
    assert!(all.contains("\r\nlfu-log-factor\r\n$1\r\n5\r\n"), "{all}");
}

#[test]
fn counts_begin_anew_after_a_reset() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    (0..10).for_each(|_| _ = raw.call(&["GET", "absent"]));
    let misses = |raw: &mut Raw| {
        let info = text(raw.call(&["INFO", "stats"]));
        info.lines().find_map(|line| line.strip_prefix("keyspace_misses:")).unwrap().to_owned()
    };
    assert_eq!(misses(&mut raw), "10");
    assert_eq!(text(raw.call(&["CONFIG", "RESETSTAT"])), "+OK\r\n");
    assert_eq!(misses(&mut raw), "0");
    raw.call(&["GET", "absent"]);
    assert_eq!(misses(&mut raw), "1");
}
