//! Limits of connections that operators change while the server serves.

use crate::common::{Raw, command, options, start, start_on};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use atoll_sim::requirement::offered;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
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
        ("acl-pubsub-default", "allchannels"),
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

/// Connections of the test below.
const CROWD: usize = 10_000;
/// Names the process that serves it.
const SERVES: &str = "ATOLL_TEST_SERVES_THE_CROWD";

/// The server of the test below, in a process of its own: one process may not have both ends of so
/// many connections open.
#[test]
#[ignore = "another test runs it"]
fn serves_a_crowd_until_its_input_ends() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    let options = ServerOptions { threads: 2, clients_max: CROWD + 100, ..options() };
    let mut server = start_on(&EngineOptions::default(), options);
    println!("{SERVES} {}", server.address);
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    server.stop();
}

/// Memory of a process.
fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    1024 * line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

/// Lets this process have so many files open.
fn open_files(needed: u64) -> Result<(), String> {
    let present = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: Some(needed), maximum: present.maximum };
    if present.current.is_none_or(|files| files >= needed) || setrlimit(Resource::Nofile, wanted).is_ok() {
        return Ok(());
    }
    Err(format!("{needed} open files are needed, and this process may have {present:?} (`ulimit -Hn`)"))
}

#[test]
fn ten_thousand_idle_connections_are_answered_and_disturb_no_other() {
    // A child process has the limits of its parent.
    if offered("open-files", open_files(CROWD as u64 + 500)).is_none() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["limits::serves_a_crowd_until_its_input_ends", "--exact", "--ignored", "--nocapture"])
        .env(SERVES, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().split(SERVES).nth(1).map(|address| address.trim().to_owned()));
    let address: SocketAddr = address.expect("the server says where it listens").parse().unwrap();
    let mut working = Raw::connect(address);
    assert_eq!(text(working.call(&["PING"])), "+PONG\r\n");
    let (began, before) = (Instant::now(), resident_bytes(child.id()));
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| TcpStream::connect(address).unwrap()).collect();
    // Each is served, not only accepted by the system.
    let answers = |crowd: &mut Vec<TcpStream>| {
        for stream in &mut *crowd {
            stream.write_all(b"PING\r\n").unwrap();
        }
        for stream in crowd {
            let mut reply = [0; 7];
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"+PONG\r\n");
        }
    };
    answers(&mut crowd);
    let each = resident_bytes(child.id()).saturating_sub(before) / CROWD as u64;
    println!("{CROWD} connections within {:?}, {each} bytes each", began.elapsed());
    // A connection that waits has no buffer: what it has is the state of its task, 13 KiB.
    assert!(each < 16 << 10, "{each} bytes for each idle connection");
    let worked = Instant::now();
    for number in 0..2000 {
        assert_eq!(text(working.call(&["SET", "k", &number.to_string()])), "+OK\r\n");
        assert!(text(working.call(&["GET", "k"])).contains(&number.to_string()));
    }
    println!("4000 round trips beside them took {:?}", worked.elapsed());
    let info = text(working.call(&["INFO", "clients"]));
    assert!(info.contains(&format!("connected_clients:{}\r\n", CROWD + 1)), "{info}");
    answers(&mut crowd);
    drop(crowd);
    let ended = Instant::now();
    while !text(working.call(&["INFO", "clients"])).contains("connected_clients:1\r\n") {
        assert!(ended.elapsed() < Duration::from_secs(30), "connections end when their peers do");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
