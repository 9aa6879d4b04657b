//! Values of hundreds of megabytes, in a process of its own: what is resident besides the pool is
//! what the server has of them.

#[path = "wire/common/mod.rs"]
mod common;

use atoll_cache::EngineOptions;
use common::{Raw, TestPool, command, options, start_with};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const BYTES: usize = 256 << 20;
const POOL_BYTES: u64 = 600 << 20;
const RESIDENT_KIB_MAX: usize = 64 << 10;

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The bytes of a value from `start` on: each page of it says where it is.
fn part(start: usize, bytes: usize) -> Vec<u8> {
    let mut part = vec![b'v'; bytes];
    for (page, place) in part.chunks_mut(4096).zip((start as u64..).step_by(4096)) {
        page[..8].copy_from_slice(&place.to_le_bytes());
    }
    part
}

const PART: usize = 1 << 20;

fn set(stream: &mut TcpStream, key: &str) {
    write!(stream, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${BYTES}\r\n", key.len()).unwrap();
    (0..BYTES).step_by(PART).for_each(|start| stream.write_all(&part(start, PART)).unwrap());
    stream.write_all(b"\r\n").unwrap();
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
}

fn get(stream: &mut TcpStream, key: &str) {
    stream.write_all(&command(&["GET", key])).unwrap();
    let head = format!("${BYTES}\r\n");
    let (mut found, mut piece) = (vec![0; head.len()], vec![0; PART]);
    stream.read_exact(&mut found).unwrap();
    assert_eq!(found, head.as_bytes());
    for start in (0..BYTES).step_by(PART) {
        stream.read_exact(&mut piece).unwrap();
        assert!(piece == part(start, PART), "the value differs behind byte {start}");
    }
    stream.read_exact(&mut [0; 2]).unwrap();
}

#[test]
fn values_that_come_and_go_take_no_memory_besides_the_pools() {
    let pool = TestPool::of(&EngineOptions::default(), POOL_BYTES);
    let server = start_with(options(), pool.process());
    let mut raw = Raw::connect(server.address);
    // All memory of the pool is resident from here on.
    for key in 0..POOL_BYTES >> 19 {
        raw.call(&[b"SET".as_slice(), key.to_string().as_bytes(), &vec![b'x'; 600 << 10]]);
    }
    let before = resident_kib();
    let (is_over, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let longest = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(SeqCst) {
                most.fetch_max(resident_kib(), SeqCst);
                let began = Instant::now();
                assert_eq!(raw.call(&["PING"]), b"+PONG\r\n");
                longest = longest.max(began.elapsed());
                std::thread::sleep(Duration::from_millis(2));
            }
            longest
        });
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        for _ in 0..3 {
            set(&mut stream, "k");
            get(&mut stream, "k");
        }
        // Some that are not read: the server keeps nothing of them.
        let mut slow = TcpStream::connect(server.address).unwrap();
        slow.write_all(&command(&["GET", "k"]).repeat(4)).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        // One that breaks off.
        let mut broken = TcpStream::connect(server.address).unwrap();
        write!(broken, "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${BYTES}\r\n").unwrap();
        (0..BYTES / 2).step_by(PART).for_each(|start| broken.write_all(&part(start, PART)).unwrap());
        drop(broken);
        get(&mut stream, "k");
        is_over.store(true, SeqCst);
        watching.join().unwrap()
    });
    let more = most.load(SeqCst).saturating_sub(before);
    println!("{more} KiB more than {before} KiB; the longest PING took {longest:?}");
    assert!(more < RESIDENT_KIB_MAX, "{more} KiB are resident besides the pool");
}
