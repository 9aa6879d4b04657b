//! Large values that are stored while they arrive: they become what a SET makes of them, and one
//! that breaks off leaves nothing behind.

use crate::common::memcached::Text;
use crate::common::{Random, Raw, Running, TestPool, command, options, start_with, with_memcached};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const BYTES: usize = 5 << 20;

fn start() -> Running {
    let options = ServerOptions { threads: 2, ..with_memcached() };
    start_with(options, TestPool::of(&EngineOptions::default(), 64 << 20).process())
}

fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(bytes).collect()
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Sends bytes in pieces of any length, some of which a server sees apart.
fn send_in_pieces(raw: &mut Raw, bytes: &[u8], random: &mut Random) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = [1, 100, 10_000, 1 << 20][random.below(4)];
        let (piece, behind) = rest.split_at((1 + random.below(most)).min(rest.len()));
        raw.send(piece);
        rest = behind;
        if random.below(20) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_value_that_arrives_in_pieces_is_set_as_its_options_say() {
    let server = start();
    let (mut raw, mut random) = (Raw::connect(server.address), Random(1));
    let (first, second) = (value(1, BYTES), value(2, BYTES + 12_345));
    let (ok, null) = (b"+OK\r\n".to_vec(), b"$-1\r\n".to_vec());
    let mut set = |args: &[&[u8]], reply: &[u8], then: Option<&[u8]>| {
        let shown = String::from_utf8_lossy(args[0]).into_owned();
        // What comes behind it in a pipeline is not lost.
        send_in_pieces(&mut raw, &[command(args), command(&["ECHO", "behind"])].concat(), &mut random);
        assert!(raw.reply() == reply, "{shown} {}", args.len());
        assert_eq!(raw.reply(), bulk(b"behind"));
        assert!(raw.call(&["GET", "k"]) == then.map_or(null.clone(), bulk), "{shown} {}", args.len());
    };
    set(&[b"SET", b"k", &first, b"XX"], b"$-1\r\n", None);
    set(&[b"SET", b"k", &first], &ok, Some(&first));
    set(&[b"SET", b"k", &second, b"NX"], b"$-1\r\n", Some(&first));
    set(&[b"SET", b"k", &second, b"GET", b"PX", b"100000"], &bulk(&first), Some(&second));
    set(&[b"SET", b"k", &first, b"KEEPTTL"], &ok, Some(&first));
    set(&[b"SETNX", b"k", &second], b":0\r\n", Some(&first));
    set(&[b"GETSET", b"k", &second], &bulk(&first), Some(&second));
    set(&[b"PSETEX", b"k", b"100000", &first], &ok, Some(&first));
    set(&[b"SETEX", b"k", b"0", &second], b"-ERR invalid expire time in 'setex' command\r\n", Some(&first));
    set(&[b"SET", b"k", &second, b"EX"], b"-ERR syntax error\r\n", Some(&first));
    set(&[b"SETEX", b"k", b"100", &second], &ok, Some(&second));
    set(&[b"SET", b"k", &first, b"PXAT", b"1"], &ok, None);
    let ttl = ["SET", "k", "v", "PX", "100000"];
    assert_eq!(raw.call(&ttl), ok);
    send_in_pieces(&mut raw, &command(&[b"SET".as_slice(), b"k", &first, b"KEEPTTL"]), &mut random);
    assert_eq!(raw.reply(), ok);
    assert!(raw.call(&["PTTL", "k"]).starts_with(b":9"), "its time to live is kept");
    // A value that the pool does not take is passed over, and costs no memory.
    raw.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 40 << 20).as_bytes());
    send_in_pieces(&mut raw, &vec![b'v'; 40 << 20], &mut random);
    raw.send(b"\r\n");
    assert!(String::from_utf8(raw.reply()).unwrap().contains("bytes, more than the"));
    assert!(raw.call(&["GET", "k"]) == bulk(&first));
}

#[test]
fn values_that_break_off_leave_nothing_behind() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    let large = value(3, 12 << 20);
    assert_eq!(raw.call(&["SET", "k", "as it was"]), b"+OK\r\n");
    // Together they are five times the pool.
    for round in 0..25 {
        let mut broken = Raw::connect(server.address);
        broken.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", large.len()).as_bytes());
        broken.send(&large[..large.len() - 1 - round]);
        drop(broken);
    }
    assert_eq!(raw.call(&["GET", "k"]), bulk(b"as it was"));
    assert_eq!(raw.call(&[b"SET".as_slice(), b"k", &large]), b"+OK\r\n");
    assert!(raw.call(&["GET", "k"]) == bulk(&large));
}

/// Begins a SET of `k`, and gives what is missing of it.
fn begin<'v>(raw: &mut Raw, value: &'v [u8]) -> &'v [u8] {
    raw.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).as_bytes());
    raw.send(&value[..value.len() / 2]);
    std::thread::sleep(Duration::from_millis(300));
    &value[value.len() / 2..]
}

#[test]
fn what_happens_while_a_value_arrives_decides_on_its_command() {
    let server = start();
    let (mut raw, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let value = value(4, BYTES);
    let end = |raw: &mut Raw, rest: &[u8]| {
        raw.send(rest);
        raw.send(b"\r\n");
    };
    // Others change the key meanwhile, and see nothing of the value.
    let rest = begin(&mut raw, &value);
    assert_eq!(other.call(&["GET", "k"]), b"$-1\r\n");
    assert_eq!(other.call(&["SET", "k", "meanwhile"]), b"+OK\r\n");
    end(&mut raw, rest);
    assert_eq!(raw.reply(), b"+OK\r\n");
    assert!(other.call(&["GET", "k"]) == bulk(&value));
    // The databases are swapped, so that the key is another one.
    let rest = begin(&mut raw, &value);
    assert_eq!(other.call(&["SWAPDB", "0", "1"]), b"+OK\r\n");
    end(&mut raw, rest);
    assert!(raw.reply().starts_with(b"-ERR another client has changed the key meanwhile"));
    assert_eq!(other.call(&["GET", "k"]), b"$-1\r\n");
    assert_eq!(other.call(&["SWAPDB", "0", "1"]), b"+OK\r\n");
    // A pause.
    let rest = begin(&mut raw, &value);
    assert_eq!(other.call(&["CLIENT", "PAUSE", "300", "WRITE"]), b"+OK\r\n");
    assert_eq!(other.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]), b"+OK\r\n");
    end(&mut raw, rest);
    assert_eq!(raw.reply(), b"+OK\r\n");
    let slow = other.call(&["SLOWLOG", "GET", "3"]);
    assert!(String::from_utf8_lossy(&slow).contains(&format!("... ({} more bytes)", BYTES - 128)));
    assert_eq!(other.call(&["CONFIG", "SET", "slowlog-log-slower-than", "10000"]), b"+OK\r\n");
    // The user loses the right to do it.
    let rest = begin(&mut raw, &value);
    assert_eq!(other.call(&["ACL", "SETUSER", "default", "-set"]), b"+OK\r\n");
    end(&mut raw, rest);
    assert!(raw.reply().starts_with(b"-NOPERM"));
    assert_eq!(other.call(&["ACL", "SETUSER", "default", "+set"]), b"+OK\r\n");
    // A transaction has its values in memory.
    assert_eq!(raw.call(&["MULTI"]), b"+OK\r\n");
    assert_eq!(raw.call(&[b"SET".as_slice(), b"t", &value]), b"+QUEUED\r\n");
    assert_eq!(raw.call(&["EXEC"]), b"*1\r\n+OK\r\n");
    assert!(raw.call(&["GET", "t"]) == bulk(&value));
    // A monitor sees the value.
    let mut monitor = Raw::connect(server.address);
    assert_eq!(monitor.call(&["MONITOR"]), b"+OK\r\n");
    assert_eq!(raw.call(&[b"SET".as_slice(), b"m", &vec![b'm'; BYTES]]), b"+OK\r\n");
    assert!(monitor.reply().len() > BYTES);
    assert_eq!(monitor.call(&["RESET"]), b"+RESET\r\n");
    // One that comes amid a value sees the beginning of it.
    let rest = begin(&mut raw, &value);
    let mut late = Raw::connect(server.address);
    assert_eq!(late.call(&["MONITOR"]), b"+OK\r\n");
    end(&mut raw, rest);
    assert_eq!(raw.reply(), b"+OK\r\n");
    let shown = String::from_utf8(late.reply()).unwrap();
    assert!(shown.contains(&format!("... ({} more bytes)\"", BYTES - 128)), "{shown}");
}

/// Options are short: what is longer is not collected.
#[test]
fn an_argument_behind_a_value_that_is_longer_than_any_option_is_refused() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    raw.send(format!("*5\r\n$3\r\nSET\r\n$1\r\nk\r\n${BYTES}\r\n").as_bytes());
    raw.send(&value(8, BYTES));
    raw.send(format!("\r\n$2\r\nEX\r\n${}\r\n1", 512 << 20).as_bytes());
    assert_eq!(raw.reply(), b"-ERR Protocol error: too big argument behind a value\r\n");
    assert_eq!(raw.rest(), b"");
}

/// Three values of nearly half of the pool each, in one step, by connections of one worker: each
/// waits for room that the others have, and a fourth connection runs meanwhile.
#[test]
fn values_that_wait_for_room_hold_no_other_connection_up_and_are_stored() {
    let pool = TestPool::of(&EngineOptions::default(), 64 << 20);
    let server = start_with(options(), pool.process());
    let mut other = Raw::connect(server.address);
    let append = |key: &str| {
        let mut raw = Raw::connect(server.address);
        raw.send(&command(&[b"APPEND".as_slice(), key.as_bytes(), &vec![b'v'; 30 << 20]]));
        raw
    };
    let mut all = ["a", "b", "c"].map(append);
    let (mut answered, mut longest) = (0, Duration::ZERO);
    for raw in &mut all {
        raw.stream().set_nonblocking(true).unwrap();
        while raw.stream().peek(&mut [0]).is_err() {
            let began = Instant::now();
            assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
            longest = longest.max(began.elapsed());
            answered += 1;
        }
        raw.stream().set_nonblocking(false).unwrap();
        assert_eq!(raw.reply(), format!(":{}\r\n", 30 << 20).into_bytes());
    }
    println!("{answered} commands were answered meanwhile, the slowest after {longest:?}");
    // All waits of one search take two seconds, and there are several.
    assert!(longest < Duration::from_millis(1500), "{longest:?}");
}

#[test]
fn a_value_of_memcached_is_stored_while_it_arrives() {
    let server = start();
    let mut text = Text::connect(server.memcached());
    let (first, second) = (value(5, BYTES), value(6, BYTES + 1));
    let say = |text: &mut Text, line: &str, value: &[u8]| {
        let (head, tail) = value.split_at(value.len() / 3);
        text.send(&[line.as_bytes(), b"\r\n", head].concat());
        std::thread::sleep(Duration::from_millis(20));
        text.say([tail, b"\r\n"].concat())
    };
    let (bytes, more) = (first.len(), second.len());
    assert_eq!(say(&mut text, &format!("replace k 0 0 {bytes}"), &first), "NOT_STORED\r\n");
    assert_eq!(say(&mut text, &format!("set k 7 0 {bytes}"), &first), "STORED\r\n");
    assert_eq!(say(&mut text, &format!("add k 0 0 {bytes}"), &first), "NOT_STORED\r\n");
    let got = text.say_bytes(b"get k\r\n");
    assert!(got == [format!("VALUE k 7 {bytes}\r\n").as_bytes(), &first, b"\r\nEND\r\n"].concat());
    assert_eq!(say(&mut text, &format!("cas k 0 0 {more} 1"), &second), "EXISTS\r\n");
    assert_eq!(say(&mut text, &format!("ms k {more} T100 F3"), &second), "HD\r\n");
    assert_eq!(say(&mut text, &format!("append k 0 0 {bytes} noreply"), &first), "");
    let got = text.say_bytes(b"get k\r\n");
    let both = [second.as_slice(), &first].concat();
    assert!(got == [format!("VALUE k 3 {}\r\n", both.len()).as_bytes(), &both, b"\r\nEND\r\n"].concat());
    // Data that does not end where its line says.
    text.send(&[format!("set k 0 0 {bytes}\r\n").as_bytes(), &first, b"x\nversion\r\n"].concat());
    let replies = text.say("");
    assert!(replies.starts_with("CLIENT_ERROR bad data chunk\r\nVERSION"), "{replies}");
    assert!(text.say_bytes(b"get k\r\n").starts_with(format!("VALUE k 3 {}\r\n", both.len()).as_bytes()));
}

#[test]
fn peers_that_stop_within_a_value_leave_others_their_room() {
    let server = start();
    let half = |address: SocketAddr| {
        let mut raw = Raw::connect(address);
        raw.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nh\r\n${}\r\n", 16 << 20).as_bytes());
        raw.stream().write_all(&vec![b'h'; 15 << 20]).unwrap();
        raw
    };
    // More than the uploads of a server may have together.
    let halves: Vec<Raw> = (0..5).map(|_| half(server.address)).collect();
    let mut raw = Raw::connect(server.address);
    let value = value(7, 16 << 20);
    for round in 0..3 {
        assert_eq!(raw.call(&[b"SET".as_slice(), b"k", &value]), b"+OK\r\n", "round {round}");
        assert!(raw.call(&["GET", "k"]) == bulk(&value));
    }
    for mut raw in halves {
        raw.send(&[vec![b'h'; 1 << 20], b"\r\n".to_vec()].concat());
        assert_eq!(raw.reply(), b"+OK\r\n");
    }
}
