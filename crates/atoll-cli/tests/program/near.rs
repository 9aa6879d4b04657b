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
    let near =
        [Serving::start(&["--pool", pool, "--near", "1MiB"]), Serving::start(&["--pool", pool, "--near", "1MiB"])];
    let far = Serving::start(&["--pool", pool]);
    let servers = [&near[0], &near[1], &far];
    let mut connections = servers.map(Serving::connect);
    for round in 0..60_u64 {
        let writer = round as usize % 3;
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
        assert!(counted(server, "near_used_memory") <= counted(server, "near_maxmemory"));
    }
    assert!(printed(&["pool", "info", pool]).contains("near_caches        2"), "both have one");
    let () = redis::cmd("FLUSHALL").query(&mut connections[2]).unwrap();
    for connection in &mut connections {
        assert_eq!(connection.get::<_, Option<Vec<u8>>>("read").unwrap(), None);
    }
    // Both have copies of it when they are killed.
    let () = connections[2].set("kept", 1).unwrap();
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
