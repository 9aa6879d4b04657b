//! `atoll serve --near`, over shared memory and over a network: copies are found, and no server
//! answers with an old one, whichever server changes the key, and whichever stands still or dies.

use crate::binary::{PoolName, Serving, printed, refused};
use crate::tcp::{Node, until};
use redis::Commands;
use std::time::{Duration, Instant};

/// A changed key reaches servers within this time, although one of them stands still: a lease and
/// what a busy machine takes.
const BOUND: Duration = Duration::from_secs(8);

#[test]
fn a_near_cache_that_the_host_has_no_room_for_is_refused_before_anything_is_served() {
    let why = refused(&["serve", "--port", "0", "--capacity", "64MiB", "--near", "1TiB"]);
    assert!(why.contains("no room for a near cache of 1099511627776 bytes: "), "{why}");
    assert!(why.contains("choose a smaller one, or free memory"), "{why}");
}

fn counted(server: &Serving, name: &str) -> u64 {
    let info: String = redis::cmd("INFO").query(&mut server.connect()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Every change that one server has made, the others see at once, copies or not.
fn change_and_read(pool: &str) {
    // Those of one size share one.
    let near = ["1MiB", "1MiB", "2MiB"].map(|bytes| Serving::start(&["--pool", pool, "--near", bytes]));
    let far = Serving::start(&["--pool", pool]);
    let servers = [&near[0], &near[1], &near[2], &far];
    let mut connections = servers.map(Serving::connect);
    for round in 0..60_u64 {
        let writer = round as usize % servers.len();
        let () = match round % 5 {
            1 => connections[writer].del("key").unwrap(),
            3 => redis::cmd("SET").arg("key").arg(round).arg("PX").arg(15).query(&mut connections[writer]).unwrap(),
            _ => connections[writer].set("key", round).unwrap(),
        };
        for _ in 0..4 {
            for connection in &mut connections {
                let found: Option<u64> = connection.get("key").unwrap();
                let is_right = match round % 5 {
                    1 => found.is_none(),
                    3 => found.is_none_or(|found| found == round),
                    _ => found == Some(round),
                };
                assert!(is_right, "round {round}: {found:?}");
            }
        }
    }
    for server in &near {
        let () = server.connect().set("read", vec![7_u8; 300]).unwrap();
        for _ in 0..200 {
            assert_eq!(server.connect().get::<_, Vec<u8>>("read").unwrap(), vec![7; 300]);
        }
        assert!(counted(server, "near_hits") > 100 && counted(server, "near_objects") > 0);
        assert_eq!(counted(server, "near_shared"), 1);
        assert!(counted(server, "near_used_memory") <= counted(server, "near_maxmemory"));
    }
    assert!(printed(&["pool", "info", pool]).contains("near_caches        2"), "two of them have one in common");
    let () = redis::cmd("FLUSHALL").query(&mut connections[3]).unwrap();
    for connection in &mut connections {
        assert_eq!(connection.get::<_, Option<Vec<u8>>>("read").unwrap(), None);
    }
    // All have copies of it when they are killed.
    let () = connections[3].set("kept", 1).unwrap();
    for connection in &mut connections {
        (0..20).for_each(|_| assert_eq!(connection.get::<_, u64>("kept").unwrap(), 1));
    }
    drop((connections, near));
    let () = far.connect().set("kept", 2).unwrap();
    assert_eq!(far.connect().get::<_, u64>("kept").unwrap(), 2);
    until("no near cache is left", || printed(&["pool", "info", pool]).contains("near_caches        0"));
}

#[test]
fn near_caches_of_servers_on_one_host_serve_nothing_old() {
    let name = PoolName::new("near");
    printed(&["pool", "create", &name.0, "--capacity", "16MiB"]);
    change_and_read(&name.0);
}

#[test]
fn near_caches_of_servers_over_a_network_serve_nothing_old() {
    let node = Node::start("127.0.0.1:0", &[]);
    printed(&["pool", "create", &node.pool()]);
    change_and_read(&node.pool());
}

const SHARED_KEYS: u64 = 16;

/// Reads all keys, whose values are this number.
fn read_all(connection: &mut redis::Connection, number: u64) {
    for key in 0..SHARED_KEYS {
        assert_eq!(connection.get::<_, u64>(key).unwrap(), number, "nothing old is served of key {key}");
    }
}

/// A server that answers from a near cache of this size. The values are this number.
fn near_server(pool: &str, bytes: &str, number: u64) -> Serving {
    let server = Serving::start(&["--pool", pool, "--near", bytes]);
    let mut connection = server.connect();
    until("it answers from its near cache", || {
        (0..5).for_each(|_| read_all(&mut connection, number));
        counted(&server, "near_hits") > 3 * SHARED_KEYS
    });
    server
}

/// Two servers share a near cache; the one that exports its words is killed. Its number may be lent
/// to another near cache before any key has changed.
fn kill_and_read(pool: &str) {
    let far = Serving::start(&["--pool", pool]);
    let mut writing = far.connect();
    let mut write = |number: u64| {
        let begun = Instant::now();
        for key in 0..SHARED_KEYS {
            let () = writing.set(key, number).unwrap();
        }
        assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    };
    write(0);
    let mut first = near_server(pool, "1MiB", 0);
    for round in 1..5_u64 {
        let second = near_server(pool, "1MiB", round - 1);
        let mut reading = second.connect();
        drop(first);
        let other = round.is_multiple_of(2).then(|| near_server(pool, "2MiB", round - 1));
        read_all(&mut reading, round - 1);
        write(round);
        (0..30).for_each(|_| read_all(&mut reading, round));
        let before = counted(&second, "near_hits");
        until("the other one makes copies", || {
            (0..5).for_each(|_| read_all(&mut reading, round));
            counted(&second, "near_hits") > before + 3 * SHARED_KEYS
        });
        drop(other);
        first = second;
    }
}

/// All processes that share a near cache are killed, and its memory is left. What others change
/// before it is found again, it does not serve as it was.
#[test]
fn what_killed_servers_leave_of_a_near_cache_is_not_taken_for_new() {
    let name = PoolName::new("near-left");
    printed(&["pool", "create", &name.0, "--capacity", "16MiB"]);
    let far = Serving::start(&["--pool", &name.0]);
    let mut writing = far.connect();
    for round in 0..3_u64 {
        for key in 0..SHARED_KEYS {
            let () = writing.set(key, round).unwrap();
        }
        drop(near_server(&name.0, "1MiB", round));
        // It exports words of the same number, and others.
        drop(near_server(&name.0, "2MiB", round));
    }
}

#[test]
fn servers_that_share_a_near_cache_go_on_when_one_is_killed() {
    let name = PoolName::new("near-killed");
    printed(&["pool", "create", &name.0, "--capacity", "16MiB"]);
    kill_and_read(&name.0);
}

#[test]
fn servers_that_share_a_near_cache_over_a_network_go_on_when_one_is_killed() {
    let node = Node::start("127.0.0.1:0", &[]);
    printed(&["pool", "create", &node.pool()]);
    kill_and_read(&node.pool());
}

#[test]
fn a_server_with_copies_that_stands_still_delays_a_change_for_a_bounded_time_and_serves_nothing_old_later() {
    let node = Node::start("127.0.0.1:0", &[]);
    let pool = node.pool();
    printed(&["pool", "create", &pool]);
    let (near, writer) = (Serving::start(&["--pool", &pool, "--near", "1MiB"]), Serving::start(&["--pool", &pool]));
    let (mut reading, mut writing) = (near.connect(), writer.connect());
    for round in 0..3_u64 {
        let () = writing.set("key", 2 * round).unwrap();
        // A client that has just joined counts from 0.
        until("the near cache answers", || {
            (0..50).for_each(|_| assert_eq!(reading.get::<_, u64>("key").unwrap(), 2 * round));
            counted(&near, "near_hits") > 50
        });
        let pid = rustix::process::Pid::from_raw(near.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let begun = Instant::now();
        let () = writing.set("key", 2 * round + 1).unwrap();
        let took = begun.elapsed();
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        assert!(took < BOUND, "{took:?}");
        // It may have been shut out meanwhile, and join again.
        until("the server goes on", || match reading.get::<_, u64>("key") {
            Ok(found) => {
                assert_eq!(found, 2 * round + 1, "nothing old is served");
                true
            }
            Err(_) => {
                reading = near.connect();
                false
            }
        });
    }
}

#[test]
fn a_near_cache_is_refused_where_it_could_serve_what_is_old() {
    let name = PoolName::new("near-named");
    let node = Node::start("127.0.0.1:0", &["--pool", &name.0]);
    let pool = node.pool();
    printed(&["pool", "create", &pool]);
    let said = refused(&["serve", "--pool", &pool, "--port", "0", "--near", "1MiB"]);
    assert!(said.contains("start the node without"), "{said}");
    let said = refused(&["serve", "--capacity", "16MiB", "--port", "0", "--near", "1000"]);
    assert!(said.contains("near cache") && said.contains("65536"), "{said}");
}
