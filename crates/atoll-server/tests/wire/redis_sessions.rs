//! Databases, transactions and passwords: what a connection of Redis' protocol agrees on.

use crate::common::{Raw, command, options, start, start_on, start_redis};
use atoll_cache::EngineOptions;
use atoll_server::{Redis, RedisOptions, ServerOptions};
use std::net::{IpAddr, Ipv4Addr};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).unwrap()
}

fn with_password() -> RedisOptions {
    RedisOptions { password: Some(b"open sesame".to_vec()), is_open: false }
}

#[test]
fn a_large_keyspace_is_counted_by_a_sample() {
    let server = start_on(&EngineOptions::default(), options());
    let mut raw = Raw::connect(server.address);
    for database in ["0", "3"] {
        raw.call(&["SELECT", database]);
        let keys = if database == "0" { 30_000 } else { 10_000 };
        let sets: Vec<u8> =
            (0..keys).flat_map(|key| command(&["SET", &key.to_string(), "v", "PX", "500000"])).collect();
        raw.send(&sets);
        (0..keys).for_each(|_| assert_eq!(raw.reply(), b"+OK\r\n"));
    }
    assert_eq!(text(raw.call(&["DBSIZE"])), ":10000\r\n");
    let info = text(raw.call(&["INFO", "keyspace"]));
    let number = |database: &str, field: &str| -> f64 {
        let line = info.lines().find(|line| line.starts_with(database)).expect(&info);
        let (_, rest) = line.split_once(field).unwrap();
        rest.split(',').next().unwrap().parse().unwrap()
    };
    for (database, keys) in [("db0:", 30_000.0), ("db3:", 10_000.0)] {
        let counted = number(database, "keys=");
        assert!((0.75..1.25).contains(&(counted / keys)), "{info}");
        assert_eq!(number(database, "expires="), counted);
        assert!((300_000.0..=500_000.0).contains(&number(database, "avg_ttl=")), "{info}");
    }
    raw.call(&["FLUSHDB"]);
    assert_eq!(text(raw.call(&["DBSIZE"])), ":0\r\n");
    raw.call(&["SELECT", "0"]);
    assert_eq!(text(raw.call(&["DBSIZE"])), ":30000\r\n");
}

#[test]
fn increments_in_transactions_of_many_connections_are_all_counted_together() {
    // Two keys that every transaction adds to: another connection never sees them differ.
    let server = start_on(&EngineOptions::default(), ServerOptions { threads: 3, ..options() });
    let address = server.address;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let mut raw = Raw::connect(address);
                let transaction =
                    [&["MULTI"][..], &["INCR", "one"], &["INCR", "other"], &["EXEC"]].map(command).concat();
                for _ in 0..500 {
                    raw.send(&transaction);
                    let replies: Vec<String> = (0..4).map(|_| text(raw.reply())).collect();
                    let numbers: Vec<&str> = replies[3].lines().skip(1).collect();
                    assert_eq!(numbers[0], numbers[1], "{replies:?}");
                }
            });
        }
    });
    assert_eq!(text(Raw::connect(address).call(&["MGET", "one", "other"])), "*2\r\n$4\r\n2000\r\n$4\r\n2000\r\n");
}

#[test]
fn a_watched_counter_loses_no_increment() {
    let server = start_on(&EngineOptions::default(), ServerOptions { threads: 2, ..options() });
    let address = server.address;
    Raw::connect(address).call(&["SET", "n", "0"]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                let mut raw = Raw::connect(address);
                for _ in 0..100 {
                    loop {
                        raw.call(&["WATCH", "n"]);
                        let found = text(raw.call(&["GET", "n"]));
                        let next = found.lines().nth(1).unwrap().parse::<u64>().unwrap() + 1;
                        raw.call(&["MULTI"]);
                        raw.call(&["SET", "n", &next.to_string()]);
                        if text(raw.call(&["EXEC"])) != "*-1\r\n" {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(text(Raw::connect(address).call(&["GET", "n"])), "$3\r\n300\r\n");
}

#[test]
fn a_refused_command_keeps_the_others_of_its_transaction_from_running() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for broken in [&["NOSUCH"][..], &["GET"], &["CLIENT", "NOSUCH"]] {
        raw.call(&["MULTI"]);
        raw.call(&["INCR", "n"]);
        assert!(raw.call(broken).starts_with(b"-ERR "));
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        assert_eq!(text(raw.call(&["EXEC"])), aborted);
    }
    assert_eq!(text(raw.call(&["EXISTS", "n"])), ":0\r\n");
}

#[test]
fn a_connection_gives_the_password_first() {
    let server = start_redis(Redis::new(with_password()), options());
    let mut raw = Raw::connect(server.address);
    let refused = "-NOAUTH Authentication required.\r\n";
    for refusal in [&["GET", "a"][..], &["PING"], &["MULTI"], &["EXEC"], &["INFO"], &["CLIENT", "ID"]] {
        assert_eq!(text(raw.call(refusal)), refused, "{refusal:?}");
    }
    assert!(text(raw.call(&["HELLO", "3"])).starts_with("-NOAUTH HELLO"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(text(raw.call(&["AUTH", "open"])), wrong);
    assert_eq!(text(raw.call(&["AUTH", "root", "open sesame"])), wrong);
    assert_eq!(text(raw.call(&["GET", "a"])), refused);
    assert_eq!(text(raw.call(&["AUTH", "open sesame"])), "+OK\r\n");
    assert_eq!(text(raw.call(&["GET", "a"])), "$-1\r\n");
    assert_eq!(text(raw.call(&["RESET"])), "+RESET\r\n");
    assert_eq!(text(raw.call(&["GET", "a"])), refused);
    assert!(raw.call(&["HELLO", "3", "AUTH", "default", "open sesame"]).starts_with(b"%7\r\n"));
    assert_eq!(text(raw.call(&["GET", "a"])), "_\r\n");
}

#[test]
fn pipelines_of_a_connection_without_password_read_nothing() {
    let server = start_redis(Redis::new(with_password()), options());
    let mut raw = Raw::connect(server.address);
    raw.send(&[&["GET", "a"][..], &["GET", "b"], &["SET", "a", "x"], &["GET", "a"]].map(command).concat());
    (0..4).for_each(|_| assert!(raw.reply().starts_with(b"-NOAUTH")));
}

#[test]
fn a_peer_without_password_makes_the_server_keep_little() {
    let server = start_redis(Redis::new(with_password()), options());
    for (bytes, error) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut raw = Raw::connect(server.address);
        raw.send(bytes);
        assert_eq!(String::from_utf8(raw.rest()).unwrap(), error);
    }
    // In one pipeline, too.
    let mut raw = Raw::connect(server.address);
    raw.send(&[&["AUTH", "open sesame"][..], &["SET", "a", &"x".repeat(20_000)]].map(command).concat());
    (0..2).for_each(|_| assert_eq!(raw.reply(), b"+OK\r\n"));
}

/// An address of this host that is not loopback's.
fn address_of_host() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn other_hosts_are_served_with_a_password_or_if_the_server_is_open() {
    let Some(host) = address_of_host() else {
        println!("this host has loopback alone");
        return;
    };
    let answer = |redis: RedisOptions| {
        let everywhere = ServerOptions { address: Ipv4Addr::UNSPECIFIED.into(), ..options() };
        let server = start_redis(Redis::new(redis), everywhere);
        let mut raw = Raw::connect((host, server.address.port()).into());
        text(raw.call(&["PING"]))
    };
    assert!(answer(RedisOptions::default()).starts_with("-DENIED "));
    assert!(answer(with_password()).starts_with("-NOAUTH "));
    assert_eq!(answer(RedisOptions { is_open: true, ..RedisOptions::default() }), "+PONG\r\n");
}
