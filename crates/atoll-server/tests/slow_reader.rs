//! A peer that does not read its replies, in a process of its own: what is resident is what this
//! test made.

#[path = "wire/common/mod.rs"]
mod common;

use common::{Raw, command, options, start};
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

/// Replies that the peer asks for at least, of a mebibyte each: a server that kept them would hold
/// gigabytes.
const REPLIES: usize = 4096;
const RESIDENT_KIB_MAX: usize = 512 << 10;

#[test]
fn a_peer_that_sends_and_does_not_read_costs_bounded_memory() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&[b"SET".as_slice(), b"k", &vec![b'v'; 1 << 20]]);
    let stream = raw.stream();
    stream.set_nonblocking(true).unwrap();
    let get = command(&["GET", "k"]);
    let (gets, mut sent, mut stalled) = (get.repeat(1000), 0, Instant::now());
    // Sockets take what the server does not read: it has stopped when they take nothing more, and
    // not before all were asked for.
    while sent < REPLIES * get.len() || stalled.elapsed() < Duration::from_millis(500) {
        match (&*stream).write(&gets) {
            Ok(bytes) => (sent, stalled) = (sent + bytes, Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(stalled.elapsed() < Duration::from_secs(60), "sockets hold less than {REPLIES} requests");
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 64 << 20, "the server reads on although its replies are not read");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident_kib: usize = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(resident_kib < RESIDENT_KIB_MAX, "{resident_kib} KiB are resident");
    assert_eq!(Raw::connect(server.address).call(&["PING"]), b"+PONG\r\n");
}
