//! Commands that move large values from key to key let others run, and are one step all the same.

use crate::common::memcached::Text;
use crate::common::{Raw, Running, TestPool, start_with, with_memcached};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const BYTES: usize = 3 << 20;

fn start() -> Running {
    let options = ServerOptions { threads: 2, ..with_memcached() };
    start_with(options, TestPool::of(&EngineOptions::default(), 256 << 20).process())
}

/// Calls `move_one` until `looks` have been made at another connection.
fn beside(mut move_one: impl FnMut(u64) + Send, looks: impl FnOnce()) {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also if a look fails.
        let _over = Over(&is_over);
        scope.spawn(|| (0..).take_while(|_| !is_over.load(SeqCst)).for_each(&mut move_one));
        looks();
    });
}

#[test]
fn a_large_value_that_is_renamed_always_has_one_name() {
    let server = start();
    let (mut mover, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    mover.call(&[b"SET".as_slice(), b"a", &vec![b'v'; BYTES]]);
    let names = [["RENAME", "a", "b"], ["RENAME", "b", "a"]];
    let rename = |round: u64| assert_eq!(mover.call(&names[round as usize % 2]), b"+OK\r\n");
    beside(rename, || {
        for round in 0..100 {
            assert_eq!(other.call(&["EXISTS", "a", "b"]), b":1\r\n", "round {round}");
            assert_eq!(other.call(&["EVAL", "return redis.call('EXISTS', 'a', 'b')", "0"]), b":1\r\n");
        }
    });
}

#[test]
fn a_copy_of_a_large_value_is_what_its_source_has_when_it_appears() {
    let server = start();
    let (mut mover, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let mut memcached = Text::connect(server.memcached());
    // Every other one is small: to set it takes no time in which it could wait for a copy.
    let value = |version: u32| {
        let bytes = if version.is_multiple_of(2) { 0 } else { BYTES };
        [format!("{version:08}").into_bytes(), vec![b'v'; bytes]].concat()
    };
    let version = |other: &mut Raw, key| {
        let reply = other.call(&["GETRANGE", key, "0", "7"]);
        String::from_utf8_lossy(&reply).split("\r\n").nth(1).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(0)
    };
    for words in [vec!["COPY", "a", "b", "REPLACE"], vec!["BITOP", "OR", "b", "a", "absent"]] {
        other.call(&["DEL", "a", "b"]);
        let copy = |_| assert!(mover.call(&words).starts_with(b":"));
        beside(copy, || {
            for round in 1..40 {
                let value = value(round);
                match round % 4 {
                    0 | 1 => assert_eq!(other.call(&[b"SET".as_slice(), b"a", &value]), b"+OK\r\n"),
                    _ => {
                        let head = format!("set a 0 0 {}\r\n", value.len());
                        let request = [head.as_bytes(), &value, b"\r\n"].concat();
                        assert_eq!(memcached.say(request), "STORED\r\n");
                    }
                }
                // A copy that appears from now on was made of this value.
                other.call(&["DEL", "b"]);
                for _ in 0..6 {
                    let found = version(&mut other, "b");
                    assert!(found == 0 || found == round, "{}: {found}, and not {round}", words[0]);
                }
            }
        });
    }
}
