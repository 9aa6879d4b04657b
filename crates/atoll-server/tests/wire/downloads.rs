//! Large values that are read while they are sent: what a peer gets is one value, as slow as it may
//! be and whatever becomes of the key meanwhile.

use crate::common::memcached::Text;
use crate::common::{Raw, Running, TestPool, command, start_with, with_memcached};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::io::{Read, Write};
use std::time::Duration;

const BYTES: usize = 20 << 20;

fn pool() -> TestPool {
    TestPool::of(&EngineOptions::default(), 128 << 20)
}

fn start_over(pool: &TestPool) -> Running {
    start_with(ServerOptions { threads: 2, ..with_memcached() }, pool.process())
}

/// Sets `k` to so many bytes.
fn set(raw: &mut Raw, byte: u8) -> Vec<u8> {
    assert_eq!(raw.call(&[b"SET".as_slice(), b"k", &vec![byte; BYTES]]), b"+OK\r\n");
    [format!("${BYTES}\r\n").as_bytes(), &vec![byte; BYTES], b"\r\n"].concat()
}

/// Asks for `k`, and takes none of it yet. Sockets take a part of it.
fn ask(server: &Running) -> Raw {
    let mut slow = Raw::connect(server.address);
    slow.send(&[command(&["GET", "k"]), command(&["ECHO", "behind"])].concat());
    // The value is open once its beginning arrives.
    slow.stream().peek(&mut [0]).unwrap();
    slow
}

fn takes(mut slow: Raw, reply: &[u8]) {
    assert!(slow.reply() == reply, "it is the value that was there");
    assert_eq!(slow.reply(), b"$6\r\nbehind\r\n");
}

#[test]
fn a_value_that_is_being_sent_stays_what_it_was() {
    let server = start_over(&pool());
    let mut raw = Raw::connect(server.address);
    let first = set(&mut raw, b'1');
    assert!(raw.call(&["GET", "k"]) == first);
    let replaced = ask(&server);
    let second = set(&mut raw, b'2');
    let removed = ask(&server);
    assert_eq!(raw.call(&["DEL", "k"]), b":1\r\n");
    takes(replaced, &first);
    takes(removed, &second);
    let third = set(&mut raw, b'3');
    let evicted = ask(&server);
    for key in 0..300 {
        // More than the pool has room for.
        assert_eq!(raw.call(&[b"SET".as_slice(), key.to_string().as_bytes(), &vec![b'x'; 1 << 20]]), b"+OK\r\n");
    }
    takes(evicted, &third);
}

#[test]
fn slow_peers_have_no_room_of_the_pool_for_long() {
    let server = start_over(&pool());
    let mut raw = Raw::connect(server.address);
    let first = set(&mut raw, b'1');
    let slow: Vec<Raw> = (0..2).map(|_| ask(&server)).collect();
    // Others are not delayed by them, and have room beside what they have.
    for byte in *b"234" {
        set(&mut raw, byte);
    }
    std::thread::sleep(Duration::from_millis(6500));
    let large = vec![b'l'; 60 << 20];
    assert_eq!(raw.call(&[b"SET".as_slice(), b"large", &large]), b"+OK\r\n");
    assert_eq!(raw.call(&["STRLEN", "large"]), format!(":{}\r\n", large.len()).into_bytes());
    slow.into_iter().for_each(|slow| takes(slow, &first));
}

#[test]
fn a_peer_whose_value_another_process_has_removed_gets_no_other_bytes() {
    let pool = pool();
    let (server, other) = (start_over(&pool), start_over(&pool.opened_again()));
    let mut raw = Raw::connect(server.address);
    let first = set(&mut raw, b'1');
    let slow = ask(&server);
    set(&mut Raw::connect(other.address), b'2');
    set(&mut Raw::connect(other.address), b'3');
    let got = slow.rest();
    assert!(got.len() < first.len() && first.starts_with(&got), "{} bytes", got.len());
    assert!(raw.call(&["GET", "k"]).ends_with(b"333\r\n"));
}

#[test]
fn values_of_memcached_and_those_within_a_step_are_sent_whole() {
    let server = start_over(&pool());
    let (mut raw, mut text) = (Raw::connect(server.address), Text::connect(server.memcached()));
    let first = set(&mut raw, b'1');
    let body = &first[first.len() - BYTES - 2..];
    let got = text.say_bytes(b"get k\r\nget a k b\r\n");
    let one = [format!("VALUE k 0 {BYTES}\r\n").as_bytes(), body, b"END\r\n"].concat();
    assert!(got == one.repeat(2));
    assert!(raw.call(&["EVAL", "return #redis.call('GET', 'k')", "0"]) == format!(":{BYTES}\r\n").into_bytes());
    raw.send(&[command(&["MULTI"]), command(&["GET", "k"]), command(&["EXEC"])].concat());
    assert_eq!((raw.reply(), raw.reply()), (b"+OK\r\n".to_vec(), b"+QUEUED\r\n".to_vec()));
    assert!(raw.reply() == [b"*1\r\n".as_slice(), &first].concat());
    raw.send(&[command(&["CLIENT", "REPLY", "SKIP"]), command(&["GET", "k"])].concat());
    raw.send(&command(&["GET", "k"]).repeat(5));
    (0..5).for_each(|_| assert!(raw.reply() == first));
    // A peer that leaves within a value.
    let leaving = Raw::connect(server.address);
    leaving.stream().write_all(&command(&["GET", "k"])).unwrap();
    leaving.stream().read_exact(&mut [0; 100]).unwrap();
    drop(leaving);
    assert_eq!(raw.call(&["HSET", "h", "f", "v"]), b":1\r\n");
    assert_eq!(text.say("get h\r\n"), "END\r\n");
}

#[test]
fn a_peer_that_takes_a_value_steadily_is_not_idle() {
    let server = start_over(&pool());
    let mut raw = Raw::connect(server.address);
    let bytes = 48 << 20;
    assert_eq!(raw.call(&[b"SET".as_slice(), b"k", &vec![b'v'; bytes]]), b"+OK\r\n");
    assert_eq!(raw.call(&["CONFIG", "SET", "timeout", "1"]), b"+OK\r\n");
    let steady = Raw::connect(server.address);
    steady.stream().write_all(&command(&["GET", "k"])).unwrap();
    let (mut left, mut piece) = (format!("${bytes}\r\n\r\n").len() + bytes, vec![0; 1 << 20]);
    while left > 0 {
        let part = left.min(piece.len());
        steady.stream().read_exact(&mut piece[..part]).expect("the value comes whole");
        left -= part;
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn large_values_in_a_row_and_small_ones_between_them_come_in_order() {
    let server = start_over(&pool());
    let (mut raw, mut text) = (Raw::connect(server.address), Text::connect(server.memcached()));
    let first = set(&mut raw, b'1');
    assert_eq!(raw.call(&["SET", "s", "small"]), b"+OK\r\n");
    let pipeline = [command(&["GET", "s"]), command(&["GET", "k"])].concat().repeat(8);
    raw.send(&pipeline);
    for round in 0..8 {
        assert_eq!(raw.reply(), b"$5\r\nsmall\r\n", "round {round}");
        assert!(raw.reply() == first, "round {round}");
    }
    let body = &first[first.len() - BYTES - 2..];
    let got = text.say_bytes(b"get s k none k s\r\nget k k\r\n");
    let (small, large) = (b"VALUE s 0 5\r\nsmall\r\n".as_slice(), format!("VALUE k 0 {BYTES}\r\n").into_bytes());
    let large = [large.as_slice(), body].concat();
    assert!(got == [small, &large, &large, small, b"END\r\n", &large, &large, b"END\r\n"].concat());
}
