//! What one connection sees of the others, and does to them.

use crate::common::{Raw, Running, command, options, start_on};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::time::{Duration, Instant};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).unwrap()
}

fn server() -> Running {
    start_on(&EngineOptions::default(), ServerOptions { threads: 3, ..options() })
}

fn id(raw: &mut Raw) -> String {
    text(raw.call(&["CLIENT", "ID"])).trim_start_matches(':').trim_end().to_owned()
}

/// The value of a field of a connection's line.
fn field<'a>(lines: &'a str, id: &str, name: &str) -> &'a str {
    let line = lines.lines().find(|line| line.starts_with(&format!("id={id} "))).expect(lines);
    line.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).expect(line)
}

fn list(raw: &mut Raw) -> String {
    text(raw.call(&["CLIENT", "LIST"]))
}

#[test]
fn every_connection_is_listed_as_it_is() {
    let server = server();
    let (mut own, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let (own_id, other_id) = (id(&mut own), id(&mut other));
    let set_up = [
        &["HELLO", "3", "SETNAME", "worker"][..],
        &["SELECT", "7"],
        &["CLIENT", "SETINFO", "LIB-NAME", "mine"],
        &["CLIENT", "SETINFO", "lib-ver", "1.2"],
        &["CLIENT", "NO-EVICT", "ON"],
        &["CLIENT", "NO-TOUCH", "ON"],
        &["MULTI"],
        &["GET", "a"],
        &["CLIENT", "GETNAME"],
    ];
    for one in set_up {
        other.call(one);
    }
    let lines = list(&mut own);
    assert_eq!(lines.lines().filter(|line| line.starts_with("id=")).count(), 2, "{lines}");
    let expected = [
        ("name", "worker"),
        ("db", "7"),
        ("resp", "3"),
        ("flags", "xeT"),
        ("multi", "2"),
        ("cmd", "multi"),
        ("lib-name", "mine"),
        ("lib-ver", "1.2"),
        ("user", "default"),
        ("laddr", &server.address.to_string()),
        ("addr", &other.stream().local_addr().unwrap().to_string()),
    ];
    for (name, value) in expected {
        assert_eq!(field(&lines, &other_id, name), value, "{name}");
    }
    assert_eq!(field(&lines, &own_id, "cmd"), "client|list");
    assert_eq!(field(&lines, &own_id, "flags"), "N");
    let info = text(own.call(&["CLIENT", "INFO"]));
    assert_eq!(field(&info, &own_id, "cmd"), "client|info");
    assert!(!info.contains(&format!("id={other_id} ")));
    let named = text(own.call(&["CLIENT", "LIST", "ID", &other_id, "12345", &other_id]));
    assert_eq!(named.lines().filter(|line| line.starts_with(&format!("id={other_id} "))).count(), 2);
    assert!(text(own.call(&["CLIENT", "LIST", "TYPE", "normal"])).contains(&format!("id={other_id} ")));
    assert_eq!(text(own.call(&["CLIENT", "LIST", "TYPE", "pubsub"])), "$0\r\n\r\n");
    other.call(&["RESET"]);
    let lines = list(&mut own);
    for (name, value) in
        [("name", ""), ("db", "0"), ("resp", "2"), ("flags", "N"), ("cmd", "reset"), ("lib-name", "mine")]
    {
        assert_eq!(field(&lines, &other_id, name), value, "{name}");
    }
    drop(other);
    let gone = Instant::now();
    while list(&mut own).contains(&format!("id={other_id} ")) {
        assert!(gone.elapsed() < Duration::from_secs(10), "a connection that has ended is still listed");
    }
}

#[test]
fn a_connection_is_listed_with_what_it_has_in_memory() {
    let server = server();
    let [mut own, mut other, mut third] = [(); 3].map(|()| Raw::connect(server.address));
    let (own_id, other_id, third_id) = (id(&mut own), id(&mut other), id(&mut third));
    let number = |lines: &str, id: &str, name: &str| -> u64 { field(lines, id, name).parse().unwrap() };
    let waits = Instant::now();
    let lines = loop {
        let lines = list(&mut own);
        // Its latest reply has been sent.
        if field(&lines, &other_id, "events") == "r" {
            break lines;
        }
        assert!(waits.elapsed() < Duration::from_secs(10), "{lines}");
    };
    // The bytes of this very command have arrived. One that waits holds no buffer.
    assert_eq!(number(&lines, &own_id, "qbuf"), command(&["CLIENT", "LIST"]).len() as u64);
    assert!(number(&lines, &own_id, "qbuf-free") > 1000);
    assert_eq!((field(&lines, &other_id, "qbuf"), field(&lines, &other_id, "qbuf-free")), ("0", "0"));
    let least = number(&lines, &other_id, "tot-mem");
    assert!(least > 100 && number(&lines, &own_id, "tot-mem") > least + 1000, "{lines}");
    // Keys that are watched, and commands that wait for EXEC.
    [&["WATCH", "a", "b", "c"][..], &["MULTI"], &["SET", "a", &"x".repeat(5000)]].iter().for_each(|one| {
        other.call(one);
    });
    let lines = list(&mut own);
    assert_eq!((field(&lines, &other_id, "watch"), field(&lines, &third_id, "watch")), ("3", "0"));
    let queued = number(&lines, &other_id, "multi-mem");
    assert!((5000..20_000).contains(&queued), "{lines}");
    assert!(number(&lines, &other_id, "tot-mem") >= least + queued);
    other.call(&["DISCARD"]);
    let lines = list(&mut own);
    assert_eq!((field(&lines, &other_id, "watch"), field(&lines, &other_id, "multi-mem")), ("0", "0"));
    // A part of a command.
    let part = &command(&["SET", "a", &"x".repeat(1000)])[..500];
    other.send(part);
    let waits = Instant::now();
    while number(&list(&mut own), &other_id, "qbuf") != part.len() as u64 {
        assert!(waits.elapsed() < Duration::from_secs(10));
    }
    // Replies that a peer does not take: small ones lie in one buffer, large ones in a list.
    for (name, length) in [("small", 1000), ("large", 256 << 10)] {
        assert_eq!(own.call(&[b"SET".as_slice(), name.as_bytes(), &vec![b'x'; length]]), b"+OK\r\n");
    }
    let mut fourth = Raw::connect(server.address);
    let fourth_id = id(&mut fourth);
    third.send(&command(&["GET", "large"]).repeat(1024));
    fourth.send(&command(&["GET", "small"]).repeat(20_000));
    let stuck = Instant::now();
    let lines = loop {
        let lines = list(&mut own);
        let (listed, small) = (number(&lines, &third_id, "omem"), number(&lines, &fourth_id, "obl"));
        if listed > 0 && listed == number(&lines, &third_id, "oll") * (256 << 10) && small > 100 << 10 {
            break lines;
        }
        assert!(stuck.elapsed() < Duration::from_secs(10), "the peers take every reply: {lines}");
    };
    assert_eq!((field(&lines, &fourth_id, "oll"), field(&lines, &fourth_id, "omem")), ("0", "0"), "{lines}");
    assert!(number(&lines, &fourth_id, "rbs") >= number(&lines, &fourth_id, "obl"), "{lines}");
    for id in [&third_id, &fourth_id] {
        assert_eq!(field(&lines, id, "events"), "rw");
        assert!(number(&lines, id, "tot-mem") > least + (100 << 10), "{lines}");
    }
    assert_eq!(field(&lines, &other_id, "events"), "r");
    let total: u64 =
        lines.lines().filter_map(|line| line.split_once(" tot-mem=")?.1.split(' ').next()?.parse::<u64>().ok()).sum();
    let info = text(own.call(&["INFO", "memory"]));
    let told = info.lines().find_map(|line| line.strip_prefix("mem_clients_normal:")).unwrap();
    assert!(told.parse::<u64>().unwrap() > total / 2, "{told} {total}");
}

#[test]
fn a_connection_ends_that_another_one_kills_by_any_filter() {
    let server = server();
    let mut own = Raw::connect(server.address);
    let own_id = id(&mut own);
    let laddr = server.address.to_string();
    for by in ["old", "ID", "ADDR", "LADDR", "TYPE", "USER", "SKIPME", "MAXAGE"] {
        let mut other = Raw::connect(server.address);
        let (other_id, addr) = (id(&mut other), other.stream().local_addr().unwrap().to_string());
        let (kill, reply): (&[&str], _) = match by {
            "old" => (&["CLIENT", "KILL", &addr], "+OK\r\n"),
            "ID" => (&["CLIENT", "KILL", "ID", &other_id], ":1\r\n"),
            "ADDR" => (&["CLIENT", "KILL", "ADDR", &addr, "ID", &other_id], ":1\r\n"),
            "LADDR" => (&["CLIENT", "KILL", "LADDR", &laddr], ":1\r\n"),
            "TYPE" => (&["CLIENT", "KILL", "type", "normal"], ":1\r\n"),
            "USER" => (&["CLIENT", "KILL", "USER", "default"], ":1\r\n"),
            "SKIPME" => (&["CLIENT", "KILL", "SKIPME", "yes"], ":1\r\n"),
            _ => {
                std::thread::sleep(Duration::from_millis(1100));
                assert_eq!(text(own.call(&["CLIENT", "KILL", "MAXAGE", "100"])), ":0\r\n");
                (&["CLIENT", "KILL", "MAXAGE", "1"], ":1\r\n")
            }
        };
        assert_eq!(text(own.call(kill)), reply, "{kill:?}");
        assert!(!list(&mut own).contains(&format!("id={other_id} ")), "{by}");
        assert!(other.rest().is_empty(), "{by}");
    }
    // None of these finds a connection.
    for none in [&["ID", "99999"][..], &["ADDR", "1.2.3.4:5"], &["TYPE", "replica"], &["ID", &own_id]] {
        assert_eq!(text(own.call(&[&["CLIENT", "KILL"], none].concat())), ":0\r\n", "{none:?}");
    }
    // The own reply is sent.
    own.send(&command(&["CLIENT", "KILL", "ID", &own_id, "SKIPME", "no"]));
    own.send(&command(&["SET", "a", "x"]));
    assert_eq!(text(own.rest()), ":1\r\n");
    assert_eq!(text(Raw::connect(server.address).call(&["GET", "a"])), "$-1\r\n");
}

#[test]
fn a_connection_ends_that_is_killed_while_its_peer_takes_no_replies() {
    let server = server();
    let (mut own, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let other_id = id(&mut other);
    assert_eq!(own.call(&[b"SET".as_slice(), b"big", &vec![b'x'; 256 << 10]]), b"+OK\r\n");
    other.send(&command(&["GET", "big"]).repeat(1024));
    let stuck = Instant::now();
    while field(&list(&mut own), &other_id, "omem") == "0" {
        assert!(stuck.elapsed() < Duration::from_secs(10), "the peer takes every reply");
    }
    assert_eq!(text(own.call(&["CLIENT", "KILL", "ID", &other_id])), ":1\r\n");
    assert!(other.rest().len() < 1024 * (256 << 10));
}

#[test]
fn replies_that_a_connection_does_not_want_are_not_sent() {
    let server = server();
    let mut raw = Raw::connect(server.address);
    let mut send = |commands: &[&[&str]], replies: &[&str]| {
        raw.send(&commands.iter().flat_map(|one| command(one)).collect::<Vec<_>>());
        for reply in replies {
            assert_eq!(text(raw.reply()), *reply, "{commands:?}");
        }
    };
    send(&[&["CLIENT", "REPLY", "SKIP"], &["SET", "a", "1"], &["GET", "a"]], &["$1\r\n1\r\n"]);
    send(
        &[&["CLIENT", "REPLY", "SKIP"], &["CLIENT", "REPLY", "SKIP"], &["INCR", "a"], &["GET", "a"]],
        &["$1\r\n2\r\n"],
    );
    send(
        &[&["CLIENT", "REPLY", "OFF"], &["GET", "a"], &["GET", "a"], &["nothing"], &["CLIENT", "REPLY", "ON"]],
        &["+OK\r\n"],
    );
    send(&[&["CLIENT", "REPLY", "OFF"], &["INCR", "a"], &["CLIENT", "REPLY", "SKIP"], &["RESET"]], &["+RESET\r\n"]);
    send(&[&["GET", "a"], &["CLIENT", "REPLY", "what"]], &["$1\r\n3\r\n", "-ERR syntax error\r\n"]);
}

#[test]
fn commands_wait_while_the_server_is_paused() {
    let server = server();
    let (mut own, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let other_id = id(&mut other);
    own.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    // What comes behind a command that waits, waits too.
    let waiting: [&[&str]; 5] = [&["GET", "a"], &["nothing"], &["SET", "a", "1"], &["GET", "a"], &["PING"]];
    other.send(&waiting.map(command).concat());
    assert_eq!(text(other.reply()), "$-1\r\n");
    assert!(text(other.reply()).starts_with("-ERR unknown"));
    let waits = Instant::now();
    while field(&list(&mut own), &other_id, "flags") != "b" {
        assert!(waits.elapsed() < Duration::from_secs(10), "the write does not wait");
    }
    assert_eq!(text(own.call(&["GET", "a"])), "$-1\r\n");
    assert_eq!(text(own.call(&["EVAL_RO", "return 1", "0"])), ":1\r\n");
    // A script that says that it does not write does not wait, and sends no message.
    let reads = "#!lua flags=no-writes\nreturn redis.pcall(unpack(ARGV))";
    assert_eq!(text(own.call(&["EVAL", reads, "0", "GET", "a"])), "$-1\r\n");
    let digest = text(own.call(&["SCRIPT", "LOAD", reads]));
    let by_digest = ["EVALSHA", digest.lines().nth(1).unwrap(), "0"];
    assert_eq!(text(own.call(&[&by_digest[..], &["GET", "a"]].concat())), "$-1\r\n");
    let refused = "-ERR Write commands are not allowed from read-only scripts.\r\n";
    assert_eq!(text(own.call(&[&by_digest[..], &["PUBLISH", "c", "m"]].concat())), refused);
    own.call(&["CLIENT", "UNPAUSE"]);
    for reply in ["+OK\r\n", "$1\r\n1\r\n", "+PONG\r\n"] {
        assert_eq!(text(other.reply()), reply);
    }
    assert_eq!(field(&list(&mut own), &other_id, "flags"), "N");
    // A transaction that writes waits at EXEC, whenever the pause began.
    [&["MULTI"][..], &["INCR", "a"]].iter().for_each(|one| _ = other.call(one));
    let began = Instant::now();
    own.call(&["CLIENT", "PAUSE", "200", "WRITE"]);
    assert_eq!(text(other.call(&["EXEC"])), "*1\r\n:2\r\n");
    assert!(began.elapsed() >= Duration::from_millis(200));
    // So does a script that may write, or that the server does not know.
    for script in [&["EVAL", "#!lua\nreturn 1", "0"][..], &["EVAL", "return 1", "0"], &["EVALSHA", "unknown", "0"]] {
        let began = Instant::now();
        own.call(&["CLIENT", "PAUSE", "200", "WRITE"]);
        other.call(script);
        assert!(began.elapsed() >= Duration::from_millis(200), "{script:?}");
    }
    // Everything waits, the end of the pause too.
    let began = Instant::now();
    own.call(&["CLIENT", "PAUSE", "300", "ALL"]);
    own.send(&command(&["CLIENT", "UNPAUSE"]));
    assert_eq!(text(other.call(&["PING"])), "+PONG\r\n");
    assert_eq!(text(own.reply()), "+OK\r\n");
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_paused_connection_is_killed_and_a_paused_server_stops() {
    let mut server = server();
    let mut connections: Vec<Raw> = (0..4).map(|_| Raw::connect(server.address)).collect();
    let ids: Vec<String> = connections.iter_mut().map(id).collect();
    let mut own = Raw::connect(server.address);
    own.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    connections.iter_mut().for_each(|one| one.send(&command(&["INCR", "n"])));
    let waits = Instant::now();
    while list(&mut own).matches(" flags=b ").count() < 4 {
        assert!(waits.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(text(own.call(&["CLIENT", "KILL", "ID", &ids[0]])), ":1\r\n");
    assert!(connections.remove(0).rest().is_empty());
    assert_eq!(text(own.call(&["GET", "n"])), "$-1\r\n");
    let stopped = Instant::now();
    server.stop();
    assert!(stopped.elapsed() < Duration::from_secs(30));
    connections.into_iter().for_each(|one| assert!(one.rest().is_empty()));
}
