//! `atoll node`, and pools on it: as a user runs them, with processes that are killed.

use crate::binary::{PoolName, Serving, atoll, printed, refused};
use redis::Commands;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A memory node, killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    address: SocketAddr,
    said: String,
}

impl Node {
    pub(crate) fn start(listen: &str, args: &[&str]) -> Self {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
            command.args(["node", "--listen", listen, "--capacity", "64MiB"]).args(args);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut said = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
            // atoll VERSION lends BYTES bytes at ADDRESS on ...
            if let Some(address) = said.split(' ').nth(6).and_then(|address| address.parse().ok()) {
                return Self { child, address, said };
            }
            // The port of a node that was killed may be in use for a moment.
            child.wait().unwrap();
            assert!(Instant::now() < end, "a node listens at {listen}: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pool(&self) -> String {
        format!("tcp:{}", self.address)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Repeats until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_pool_on_a_node_is_served_inspected_shared_with_the_nodes_host_and_removed() {
    let name = PoolName::new("node");
    let node = Node::start("127.0.0.1:0", &["--pool", &name.0]);
    assert!(node.said.contains("on fabric tcp") && node.said.contains(&name.0), "{}", node.said);
    let pool = node.pool();
    assert!(refused(&["serve", "--pool", &pool, "--port", "0"]).contains("atoll pool create"));
    let said = printed(&["doctor", &pool]);
    assert!(said.contains("1 answer, 67108864 bytes left") && said.contains("atoll pool create tcp:"), "{said}");
    assert!(printed(&["pool", "create", &pool]).contains("67108864 bytes on 1 memory node(s)"));
    let (far, near) = (Serving::start(&["--pool", &pool]), Serving::start(&["--pool", &name.0]));
    let () = far.connect().set("from far", vec![1_u8; 5000]).unwrap();
    assert_eq!(near.connect().get::<_, Vec<u8>>("from far").unwrap(), vec![1; 5000]);
    for _ in 0..100 {
        let (_, _) =
            (far.connect().incr::<_, _, i64>("n", 1).unwrap(), near.connect().incr::<_, _, i64>("n", 1).unwrap());
    }
    assert_eq!(far.connect().get::<_, i64>("n").unwrap(), 200);
    let info: String = redis::cmd("INFO").query(&mut far.connect()).unwrap();
    assert!(info.contains("fabric:tcp"), "{info}");
    for counted in ["fabric_round_trips:", "fabric_verbs:"] {
        let count = info.lines().find_map(|line| line.strip_prefix(counted)).map(|count| count.parse::<u64>().unwrap());
        assert!(count > Some(100), "{counted} {count:?}");
    }
    let info = printed(&["pool", "info", &pool]);
    assert!(info.contains("on fabric tcp") && info.contains("clients            2"), "{info}");
    drop((far, near));
    printed(&["pool", "repair", &pool]);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
    assert!(printed(&["pool", "verify", &name.0]).contains("sound"));
    printed(&["pool", "remove", &pool]);
    assert!(refused(&["pool", "info", &pool]).contains("does not exist"));
}

#[test]
fn what_a_killed_server_held_is_reclaimed_and_its_node_serves_on() {
    let node = Node::start("127.0.0.1:0", &[]);
    let pool = node.pool();
    printed(&["pool", "create", &pool]);
    let survivor = Serving::start(&["--pool", &pool]);
    for turn in 0..5 {
        let server = Serving::start(&["--pool", &pool]);
        let mut redis = server.connect();
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            for key in 0..50 {
                let () = redis.set(key, vec![turn as u8; 2000]).unwrap();
            }
        }
        // It is killed with what it has in flight.
        drop((redis, server));
        for key in 0..50 {
            let found: Option<Vec<u8>> = survivor.connect().get(key).unwrap();
            assert!(found.is_none_or(|found| found == vec![turn as u8; 2000]), "key {key}");
        }
    }
    until("the dead are reclaimed", || printed(&["pool", "info", &pool]).contains("clients            1"));
    drop(survivor);
    printed(&["pool", "repair", &pool]);
    let verified = printed(&["pool", "verify", &pool]);
    assert!(verified.contains("sound"), "{verified}");
}

/// No client is there that has seen it stand still.
#[test]
fn a_silent_server_is_shut_out_by_a_repair_and_goes_on_once_it_is_heard_again() {
    let node = Node::start("127.0.0.1:0", &[]);
    let pool = node.pool();
    printed(&["pool", "create", &pool]);
    let server = Serving::start(&["--pool", &pool]);
    let mut redis = server.connect();
    let () = redis.set("key", "value").unwrap();
    let repaired = || {
        let shown: serde_json::Value = serde_json::from_str(&printed(&["pool", "repair", &pool, "--json"])).unwrap();
        shown["clients"].as_u64().unwrap()
    };
    assert_eq!(repaired(), 0, "a client that is heard stays");
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).unwrap();
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    signal(rustix::process::Signal::STOP);
    // Not before it was silent for the agent's lease.
    let mut shut_out = 0;
    until("the silent server is shut out", || {
        shut_out += repaired();
        printed(&["pool", "info", &pool]).contains("clients            0")
    });
    assert!(shut_out > 0);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
    signal(rustix::process::Signal::CONT);
    until("the server goes on", || redis.get::<_, String>("key").is_ok_and(|found| found == "value"));
    let () = redis.set("key", "other").unwrap();
    assert_eq!(redis.get::<_, String>("key").unwrap(), "other");
}

#[test]
fn a_server_goes_on_by_itself_once_a_killed_node_is_back() {
    let mut node = Node::start("127.0.0.1:0", &[]);
    let (pool, listen) = (node.pool(), node.address.to_string());
    printed(&["pool", "create", &pool]);
    let server = Serving::start(&["--pool", &pool]);
    let mut redis = server.connect();
    let () = redis.set("old", "value").unwrap();
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    let failed: Result<Option<String>, _> = redis.get("old");
    assert!(failed.is_err(), "{failed:?}");
    let gone = refused(&["pool", "info", &pool]);
    assert!(gone.contains(&listen) && gone.contains("cannot reach the memory node"), "{gone}");
    drop(node);
    let _node = Node::start(&listen, &[]);
    let mut found = None;
    until("the server goes on", || {
        let got: Result<Option<String>, _> = redis.get("old");
        got.map(|got| found = got).is_ok()
    });
    assert_eq!(found, None, "nothing old is served");
    let () = redis.set("new", "value").unwrap();
    drop(server);
    printed(&["pool", "repair", &pool]);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
}

#[test]
fn a_pool_goes_on_without_a_killed_further_node_and_takes_it_in_again_empty() {
    const KEYS: u32 = 200;
    let (home, mut further) = (Node::start("127.0.0.1:0", &[]), Node::start("127.0.0.1:0", &[]));
    let (pool, listen) = (format!("{},{}", home.pool(), further.address), further.address.to_string());
    printed(&["pool", "create", &pool]);
    let server = Serving::start(&["--pool", &pool]);
    let mut redis = server.connect();
    let set = |redis: &mut redis::Connection, key: u32, value: &str| redis.set::<_, _, ()>(key, value);
    let mut get = {
        let mut redis = server.connect();
        move |key: u32| redis.get::<_, Option<String>>(key)
    };
    // So large that they fill dozens of chunks, which are spread over both nodes.
    let old = "old".repeat(1300);
    (0..KEYS).for_each(|key| set(&mut redis, key, &old).unwrap());
    further.child.kill().unwrap();
    further.child.wait().unwrap();
    // The first that ask may be told that the node is away.
    let mut found = Vec::new();
    until("the server goes on without the node", || {
        let got: Result<Vec<_>, _> = (0..KEYS).map(&mut get).collect();
        got.map(|got| found = got).is_ok()
    });
    let left = found.iter().flatten().count();
    assert!(found.iter().flatten().all(|value| *value == old) && (1..KEYS as usize).contains(&left), "{left}");
    let stored: Vec<_> = (0..KEYS).map(|key| set(&mut redis, key, "while away")).collect();
    let refused: Vec<_> = stored.iter().filter_map(|stored| stored.as_ref().err()).map(ToString::to_string).collect();
    assert!((1..KEYS as usize).contains(&refused.len()), "{} of {KEYS}", refused.len());
    assert!(refused.iter().all(|why| why.contains("memory node 1 has ended")), "{}", refused[0]);
    let info: String = redis::cmd("INFO").query(&mut redis).unwrap();
    assert!(info.contains("memory_nodes_absent:1\r\n"), "{info}");
    let info = printed(&["pool", "info", &pool]);
    assert!(info.contains(&format!("node 1 tcp:{listen}")) && info.contains("absent, its keys miss"), "{info}");
    // It comes back, empty.
    drop(further);
    let further = Node::start(&listen, &[]);
    until("every key can be set", || (0..KEYS).all(|key| set(&mut redis, key, "new").is_ok()));
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", further.child.id())).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
        kib.unwrap_or(0_u64) << 10
    };
    until("the node has all its memory", || resident() >= 64 << 20);
    let found: Vec<_> = (0..KEYS).map(|key| get(key).unwrap()).collect();
    assert!(found.iter().all(|value| value.as_deref() == Some("new")), "{found:?}");
    let info = printed(&["pool", "info", &pool]);
    assert!(!info.contains("absent"), "{info}");
    drop(server);
    printed(&["pool", "repair", &pool]);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// A host that vanishes refuses nothing: its node stands still here. Once it goes on, it still has
/// its bytes.
#[test]
fn a_pool_goes_on_without_a_silent_further_node_and_takes_it_in_again_empty() {
    const KEYS: u32 = 200;
    let (home, further) = (Node::start("127.0.0.1:0", &[]), Node::start("127.0.0.1:0", &[]));
    let pool = format!("{},{}", home.pool(), further.address);
    printed(&["pool", "create", &pool]);
    let server = Serving::start(&["--pool", &pool, "--threads", "2"]);
    let mut redis = server.connect();
    let set = |redis: &mut redis::Connection, key: u32, value: &str| redis.set::<_, _, ()>(key, value);
    let old = "old".repeat(1300);
    (0..KEYS).for_each(|key| set(&mut redis, key, &old).unwrap());
    signal(further.child.id(), rustix::process::Signal::STOP);
    let (begun, mut found, mut longest) = (Instant::now(), Vec::new(), Duration::ZERO);
    let mut pinging = server.connect();
    while found.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server goes on without the node");
        let asked = Instant::now();
        redis::cmd("PING").exec(&mut pinging).unwrap();
        longest = longest.max(asked.elapsed());
        // One at a time: a GET of a key of the silent node takes as long as a batch may take.
        let got: Result<Vec<Option<String>>, _> = (0..KEYS).map(|key| redis.get(key)).collect();
        found = got.unwrap_or_default();
    }
    println!("without the node after {:?}, the longest PING took {longest:?}", begun.elapsed());
    let left = found.iter().flatten().count();
    assert!(found.iter().flatten().all(|value| *value == old) && (1..KEYS as usize).contains(&left), "{left}");
    let info: String = redis::cmd("INFO").query(&mut redis).unwrap();
    assert!(info.contains("memory_nodes_absent:1\r\n"), "{info}");
    assert!(longest < Duration::from_secs(3), "a PING took {longest:?}");
    // It goes on, and the pool takes it in again without what it had.
    signal(further.child.id(), rustix::process::Signal::CONT);
    let mut has_old = false;
    until("every key can be set", || {
        (0..KEYS).all(|key| {
            let is_miss = found[key as usize].is_none();
            has_old |=
                is_miss && redis.get::<_, Option<String>>(key).is_ok_and(|got| got.is_some_and(|got| got == old));
            set(&mut redis, key, "new").is_ok()
        })
    });
    assert!(!has_old, "a key that was missed is there again as it was");
    let found: Vec<Option<String>> = (0..KEYS).map(|key| redis.get(key).unwrap()).collect();
    assert!(found.iter().all(|value| value.as_deref() == Some("new")), "{found:?}");
    drop((redis, pinging, server));
    printed(&["pool", "repair", &pool]);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
}

/// No client has seen the node end.
#[test]
fn a_server_starts_although_a_further_node_has_ended_while_no_client_was_there() {
    let (home, further) = (Node::start("127.0.0.1:0", &[]), Node::start("127.0.0.1:0", &[]));
    let (pool, listen) = (format!("{},{}", home.pool(), further.address), further.address.to_string());
    printed(&["pool", "create", &pool]);
    drop(further);
    let begun = Instant::now();
    let server = Serving::start(&["--pool", &pool]);
    println!("served after {:?}", begun.elapsed());
    let mut redis = server.connect();
    let stored = (0..50).filter(|key| redis.set::<_, _, ()>(*key, "value").is_ok()).count();
    assert!((1..50).contains(&stored), "{stored}");
    let _further = Node::start(&listen, &[]);
    until("every key can be set", || (0..50).all(|key| redis.set::<_, _, ()>(key, "new").is_ok()));
}

/// Clients make a pool anew only where every region is new. What another node still has is a
/// user's to remove, and they let go of it.
#[test]
fn a_home_that_came_back_empty_is_used_again_once_the_rest_of_its_pool_is_removed() {
    let (mut home, further) = (Node::start("127.0.0.1:0", &[]), Node::start("127.0.0.1:0", &[]));
    let (pool, listen) = (format!("{},{}", home.pool(), further.address), home.address.to_string());
    printed(&["pool", "create", &pool]);
    let servers = [(); 2].map(|()| Serving::start(&["--pool", &pool]));
    let mut redis = servers.each_ref().map(Serving::connect);
    let () = redis[0].set("old", "value").unwrap();
    let said = refused(&["pool", "remove", &pool]);
    assert!(said.contains("in use by the processes at 127.0.0.1:"), "{said}");
    home.child.kill().unwrap();
    home.child.wait().unwrap();
    drop(home);
    let _home = Node::start(&listen, &[]);
    // Nothing of the old pool is removed by itself.
    std::thread::sleep(Duration::from_secs(1));
    assert!(redis[0].get::<_, Option<String>>("old").is_err());
    let said = refused(&["pool", "remove", &pool]);
    assert!(said.contains("there is no home at") && said.contains("--force"), "{said}");
    let removed = printed(&["pool", "remove", &pool, "--force"]);
    assert!(removed.contains("+1 with 67108864 bytes"), "{removed}");
    until("the servers go on", || {
        redis.iter_mut().all(|redis| redis.get::<_, Option<String>>("old").is_ok_and(|found| found.is_none()))
    });
    let () = redis[0].set("new", "value").unwrap();
    assert_eq!(redis[1].get::<_, String>("new").unwrap(), "value");
    drop(servers);
    printed(&["pool", "repair", &pool]);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
}

#[test]
fn a_pool_of_several_nodes_is_removed_as_a_whole_or_by_force() {
    let (home, further) = (Node::start("127.0.0.1:0", &[]), Node::start("127.0.0.1:0", &[]));
    let (part, listen) = (home.pool(), further.address.to_string());
    let pool = format!("{part},{listen}");
    let said = refused(&["pool", "create", &format!("{part},{}", home.address)]);
    assert!(said.contains("names twice"), "{said}");
    printed(&["pool", "create", &pool]);
    let said = refused(&["pool", "remove", &part]);
    assert!(said.contains("name the addresses of all"), "{said}");
    // Another address with one of its memory nodes harms it neither.
    let strange = Node::start("127.0.0.1:0", &[]);
    let other = format!("{},{listen}", strange.pool());
    for command in [&["create"][..], &["remove"]] {
        let said = refused(&[&["pool"], command, &[&other]].concat());
        assert!(said.contains("there is no home at") && said.contains(&listen), "{said}");
    }
    let server = Serving::start(&["--pool", &pool]);
    let said = refused(&["pool", "remove", &other, "--force"]);
    assert!(said.contains("in use by the process at 127.0.0.1:"), "{said}");
    drop(server);
    printed(&["pool", "create", &strange.pool()]);
    assert!(printed(&["pool", "remove", &other]).starts_with(&format!("removed {} with", strange.pool())));
    printed(&["pool", "repair", &pool]);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
    drop(further);
    let said = refused(&["pool", "remove", &pool]);
    assert!(said.contains(&listen) && said.contains("--force"), "{said}");
    let removed = printed(&["pool", "remove", &pool, "--force"]);
    assert!(removed.contains("with 67108864 bytes") && removed.contains(&listen), "{removed}");
    let _further = Node::start(&listen, &[]);
    let made: serde_json::Value = serde_json::from_str(&printed(&["pool", "create", &pool, "--json"])).unwrap();
    assert_eq!(made["capacity_bytes"], 128 << 20, "{made}");
    assert!(printed(&["pool", "remove", &pool]).contains("134217728 bytes"));
}

/// A command that names a part of the addresses, names them in another order, or names an agent
/// that has nothing of the pool, is refused, and nothing is lost.
#[test]
fn wrong_addresses_of_a_pool_of_several_nodes_do_no_harm() {
    const KEYS: u32 = 300;
    let nodes = [(); 3].map(|()| Node::start("127.0.0.1:0", &[]));
    let [home, further, strange] = nodes.each_ref().map(|node| node.address);
    let pool = format!("tcp:{home},{further}");
    printed(&["pool", "create", &pool]);
    let server = Serving::start(&["--pool", &pool]);
    let mut redis = server.connect();
    let value = "value".repeat(200);
    (0..KEYS).for_each(|key| redis.set::<_, _, ()>(key, &value).unwrap());
    for wrong in [format!("tcp:{home}"), format!("tcp:{further},{home}"), format!("tcp:{home},{strange}")] {
        for command in [&["pool", "info"][..], &["pool", "verify"], &["pool", "repair"]] {
            let said = atoll(&[command, &[&wrong]].concat());
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.contains("error: "), "{command:?} {wrong}: {said}");
        }
        let said = refused(&["serve", "--port", "0", "--pool", &wrong]);
        assert!(said.contains("memory node 1") || !wrong.starts_with(&format!("tcp:{home}")), "{wrong}: {said}");
        let found: Vec<Option<String>> = (0..KEYS).map(|key| redis.get(key).unwrap()).collect();
        assert!(found.iter().all(|found| found.as_ref() == Some(&value)), "{wrong}");
    }
    drop(server);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
}

/// A user says that a node has moved. What was on it is lost, and the pool uses the new one.
#[test]
fn a_node_that_has_moved_is_given_up_and_made_anew() {
    const KEYS: u32 = 300;
    let home = Node::start("127.0.0.1:0", &[]);
    let further = Node::start("127.0.0.1:0", &[]);
    let old = format!("tcp:{},{}", home.address, further.address);
    printed(&["pool", "create", &old]);
    let said = refused(&["pool", "repair", &old, "--give-up", "1"]);
    assert!(said.contains("it is there"), "{said}");
    let said = refused(&["pool", "repair", &old, "--give-up", "2"]);
    assert!(said.contains("no such node"), "{said}");
    drop(further);
    let moved = Node::start("127.0.0.1:0", &[]);
    let new = format!("tcp:{},{}", home.address, moved.address);
    let said = refused(&["pool", "info", &new]);
    assert!(said.contains("--give-up 1"), "{said}");
    printed(&["pool", "repair", &new, "--give-up", "1"]);
    let server = Serving::start(&["--pool", &new]);
    let mut redis = server.connect();
    let set = |redis: &mut redis::Connection, key| redis.set::<_, _, ()>(key, "new").is_ok();
    until("every key can be set", || (0..KEYS).all(|key| set(&mut redis, key)));
    let info = printed(&["pool", "info", &new]);
    assert!(!info.contains("absent"), "{info}");
    drop(server);
    printed(&["pool", "repair", &new]);
    // From now on this is its place.
    let said = refused(&["pool", "info", &format!("tcp:{},127.0.0.1:1", home.address)]);
    assert!(said.contains("memory node 1"), "{said}");
    assert!(printed(&["pool", "verify", &new]).contains("sound"));
}

/// A server that still names the old address of a node that has moved harms nothing.
#[test]
fn a_server_with_the_old_address_of_a_moved_node_harms_nothing() {
    const KEYS: u32 = 200;
    let [home, further, moved] = [(); 3].map(|()| Node::start("127.0.0.1:0", &[]));
    let old = format!("tcp:{},{}", home.address, further.address);
    let new = format!("tcp:{},{}", home.address, moved.address);
    printed(&["pool", "create", &old]);
    let old_server = Serving::start(&["--pool", &old]);
    // It has joined.
    let mut early = old_server.connect();
    until("the server with the old address stores a key", || early.set::<_, _, ()>("early", "v").is_ok());
    let said = refused(&["pool", "repair", &new, "--give-up", "1"]);
    assert!(said.contains("clients use it"), "{said}");
    assert!(printed(&["pool", "repair", &new, "--give-up", "1", "--force"]).contains("given up"));
    let server = Serving::start(&["--pool", &new]);
    let mut redis = server.connect();
    let set = |redis: &mut redis::Connection, key| redis.set::<_, _, ()>(key, "new").is_ok();
    until("every key can be set", || (0..KEYS).all(|key| set(&mut redis, key)));
    // The old one tries to join again meanwhile: first while its node lives, then without it.
    std::thread::sleep(Duration::from_secs(2));
    drop(further);
    std::thread::sleep(Duration::from_secs(2));
    let found: Vec<Option<String>> = (0..KEYS).map(|key| redis.get(key).unwrap()).collect();
    assert!(found.iter().all(|value| value.as_deref() == Some("new")), "{found:?}");
    assert!(!printed(&["pool", "info", &new]).contains("absent"));
    drop((old_server, server));
    printed(&["pool", "repair", &new]);
    assert!(printed(&["pool", "verify", &new]).contains("sound"));
}

/// A server finds the objects of a pipeline's keys before it runs the commands.
#[test]
fn a_pipeline_of_sets_takes_little_more_than_one_round_trip_for_each() {
    const SETS: u64 = 800;
    let node = Node::start("127.0.0.1:0", &[]);
    printed(&["pool", "create", &node.pool()]);
    let server = Serving::start(&["--pool", &node.pool()]);
    let mut redis = server.connect();
    let set_all = |redis: &mut redis::Connection| {
        for first in (0..SETS).step_by(16) {
            let mut pipe = redis::pipe();
            for key in first..first + 16 {
                pipe.set(key, vec![7_u8; 100]).ignore();
            }
            let () = pipe.query(redis).unwrap();
        }
    };
    set_all(&mut redis);
    // What the server has used this long ago it looks at again.
    std::thread::sleep(Duration::from_millis(100));
    let round_trips = |redis: &mut redis::Connection| {
        let info: String = redis::cmd("INFO").arg("atoll").query(redis).unwrap();
        info.lines().find_map(|line| line.strip_prefix("fabric_round_trips:")?.parse::<u64>().ok()).unwrap()
    };
    // What the server does now and then counts more where the machine is busy.
    let pass = |_| {
        let before = round_trips(&mut redis);
        set_all(&mut redis);
        round_trips(&mut redis) - before
    };
    let taken = (0..3).map(pass).min().unwrap();
    // Two for 16 SETs to find the objects, and one each; and what a client does now and then.
    assert!((SETS..SETS * 3 / 2).contains(&taken), "{taken} round trips for {SETS} SETs");
}

#[test]
fn a_node_that_other_hosts_reach_wants_a_secret() {
    let refused = atoll(&["node", "--listen", "0.0.0.0:0", "--capacity", "16MiB"]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("--secret-file"), "{refused}");
    let path = std::env::temp_dir().join(format!("atoll-secret-{}", std::process::id()));
    std::fs::write(&path, "a secret of some length\n").unwrap();
    let path_text = path.to_str().unwrap();
    let node = Node::start("0.0.0.0:0", &["--secret-file", path_text]);
    let pool = format!("tcp:127.0.0.1:{}", node.address.port());
    let run = |secret: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        command.args(["pool", "create", &pool]);
        if let Some(path) = secret {
            command.env("ATOLL_SECRET_FILE", path);
        }
        command.output().unwrap()
    };
    let without = String::from_utf8_lossy(&run(None).stderr).into_owned();
    assert!(without.contains("ATOLL_SECRET_FILE"), "{without}");
    let with = run(Some(path_text));
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_node_says_at_once_that_its_capacity_or_its_secret_cannot_be() {
    for capacity in ["1", "100TiB"] {
        let said = refused(&["node", "--listen", "127.0.0.1:0", "--capacity", capacity]);
        assert!(said.contains("64 KiB to 4 TiB"), "{capacity}: {said}");
    }
    for command in [&["node", "--listen", "127.0.0.1:0"][..], &["pool", "info", "tcp:127.0.0.1:1"]] {
        let atoll = Command::new(env!("CARGO_BIN_EXE_atoll")).args(command).env("ATOLL_SECRET_FILE", "").output();
        let atoll = atoll.unwrap();
        let said = String::from_utf8_lossy(&atoll.stderr).into_owned();
        assert!(!atoll.status.success() && said.contains("ATOLL_SECRET_FILE is empty: unset it"), "{said}");
    }
}

#[test]
fn a_node_does_not_say_that_it_lends_less_than_the_pool_has_that_is_there() {
    let name = PoolName::new("there");
    printed(&["pool", "create", &name.0, "--capacity", "16MiB"]);
    let node = ["node", "--listen", "127.0.0.1:0", "--pool", &name.0, "--capacity"];
    let said = refused(&[&node[..], &["8MiB"]].concat());
    assert!(said.contains("16777216 bytes") && said.contains("--capacity 16777216 or more"), "{said}");
    let node = Node::start("127.0.0.1:0", &["--pool", &name.0]);
    assert!(node.said.contains("the pool of 16777216 bytes that is in it"), "{}", node.said);
    let said = refused(&["node", "--listen", &node.address().to_string(), "--capacity", "1MiB"]);
    assert!(said.contains("in use") && said.contains("choose another port"), "{said}");
}

#[test]
fn a_node_with_a_certificate_serves_clients_that_know_its_authority() {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!("atoll-node-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&certificate, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let node = Node::start("127.0.0.1:0", &["--tls-cert", certificate, "--tls-key", key]);
    assert!(node.said.contains(", TLS, "), "{}", node.said);
    let plain = refused(&["pool", "create", &node.pool()]);
    assert!(plain.contains("?ca="), "{plain}");
    let pool = format!("{}?ca={certificate}", node.pool());
    printed(&["pool", "create", &pool]);
    let server = Serving::start(&["--pool", &pool]);
    let () = server.connect().set("key", vec![1_u8; 100_000]).unwrap();
    assert_eq!(server.connect().get::<_, Vec<u8>>("key").unwrap(), vec![1; 100_000]);
    drop(server);
    printed(&["pool", "repair", &pool]);
    assert!(printed(&["pool", "verify", &pool]).contains("sound"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What one future of a worker waits for does not delay what another one sends.
#[test]
fn a_lone_command_takes_little_more_than_its_round_trips() {
    let node = Node::start("127.0.0.1:0", &[]);
    let pool = node.pool();
    printed(&["pool", "create", &pool]);
    let server = Serving::start(&["--pool", &pool, "--threads", "1"]);
    let mut redis = server.connect();
    let () = redis.set("key", "value").unwrap();
    let mut median = || {
        let mut took: Vec<Duration> = (0..100)
            .map(|_| {
                let begun = Instant::now();
                assert_eq!(redis.get::<_, String>("key").unwrap(), "value");
                begun.elapsed()
            })
            .collect();
        took.sort_unstable();
        took[50]
    };
    // The machine may have other work part of the time.
    let least = (0..10).map(|_| median()).min().unwrap();
    // A look at what waits for time comes every millisecond.
    assert!(least < Duration::from_micros(900), "the median GET took {least:?}");
}

/// On a memory node and on this host.
#[test]
fn the_lab_measures_a_pool_and_leaves_it_as_it_was() {
    let node = Node::start("127.0.0.1:0", &[]);
    let near = PoolName::new("micro");
    for (pool, rows) in [(node.pool(), 42), (near.0.clone(), 6)] {
        let create = ["pool", "create", &pool, "--capacity", "32MiB"];
        printed(if pool.starts_with("tcp:") { &create[..3] } else { &create });
        let server = Serving::start(&["--pool", &pool]);
        let () = server.connect().set("mine", "value").unwrap();
        let shown = printed(&["lab", "micro", "--pool", &pool, "--seconds", "0.01", "--rounds", "1", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["rows"].as_array().unwrap().len(), rows, "{shown}");
        let hit = shown["rows"].as_array().unwrap().iter().find(|row| row["operation"] == "GET").unwrap();
        assert!(hit["p50_us"].as_f64().unwrap() > 0.0 && hit["per_s"].as_f64().unwrap() > 0.0, "{hit}");
        if rows > 6 {
            assert!((0.9..2.0).contains(&hit["round_trips"].as_f64().unwrap()), "{hit}");
            assert!(shown["ping_pong_us"][0].as_f64().unwrap() > 0.0, "{shown}");
        }
        assert_eq!(server.connect().get::<_, String>("mine").unwrap(), "value");
        let info = printed(&["pool", "info", &pool]);
        assert!(info.contains("objects            1\n") || info.contains("objects            1 "), "{info}");
        let text = printed(&["lab", "micro", "--pool", &pool, "--seconds", "0.01", "--rounds", "1"]);
        assert!(text.contains("in flight") && text.contains("READ"), "{text}");
    }
}
