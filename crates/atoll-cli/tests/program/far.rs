//! Commands of a server whose memory is far away.

use crate::binary::{Serving, printed};
use crate::tcp::Node;
use atoll_fabric::conformance::proxy::{Faults, Proxy};
use redis::Commands;
use std::time::{Duration, Instant};

/// A server, and so much time that a message takes to its memory node and back.
fn serve(delay: Duration) -> (Node, Proxy, Serving) {
    let node = Node::start("127.0.0.1:0", &[]);
    printed(&["pool", "create", &node.pool()]);
    let proxy = Proxy::start(node.address(), Faults { delay, ..Faults::default() });
    let server = Serving::start(&["--pool", &format!("tcp:{}", proxy.address())]);
    (node, proxy, server)
}

/// Commands of many connections overlap where each waits for the network.
#[test]
fn commands_of_many_connections_share_the_time_of_a_round_trip() {
    let (_node, _proxy, server) = serve(Duration::from_micros(500));
    let () = server.connect().set("k", vec![1_u8; 100]).unwrap();
    let run = |connections: usize| {
        let (begun, time) = (Instant::now(), Duration::from_secs(2));
        let count = std::thread::scope(|scope| {
            let counting: Vec<_> = (0..connections)
                .map(|_| {
                    let mut redis = server.connect();
                    scope.spawn(move || {
                        let mut count = 0_u64;
                        while begun.elapsed() < time {
                            assert_eq!(redis.get::<_, Vec<u8>>("k").unwrap().len(), 100);
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            counting.into_iter().map(|count| count.join().unwrap()).sum::<u64>()
        });
        count as f64 / begun.elapsed().as_secs_f64()
    };
    // Far fewer than fifty times, in one of three rounds, so that a busy machine passes.
    let is_shared = (0..3).any(|_| {
        let (one, fifty) = (run(1), run(50));
        println!("{one:.0} GETs a second over one connection, {fifty:.0} over fifty: {:.1} times", fifty / one);
        fifty > 10.0 * one
    });
    assert!(is_shared);
}

/// A worker runs 64 operations at a time. The others wait, however many they are.
#[test]
fn commands_of_hundreds_of_connections_wait_for_each_other() {
    const CONNECTIONS: usize = 300;
    let (_node, _proxy, server) = serve(Duration::from_millis(1));
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let mut redis = server.connect();
            scope.spawn(move || {
                for number in 0..20 {
                    let key = format!("{connection} {number}");
                    let () = redis.set(&key, number).unwrap();
                    let () = redis::cmd("MSET").arg(&[&key, "1", "a", "2", "b", "3"]).query(&mut redis).unwrap();
                    assert_eq!(redis.incr::<_, _, u64>(&key, 1).unwrap(), 2);
                }
            });
        }
    });
    assert_eq!(redis::cmd("DBSIZE").query::<usize>(&mut server.connect()).unwrap(), 20 * CONNECTIONS + 2);
}

#[test]
fn a_command_of_many_keys_takes_the_time_of_a_few_round_trips() {
    const KEYS: usize = 64;
    let (_node, _proxy, server) = serve(Duration::from_millis(3));
    let mut redis = server.connect();
    let mut call = |name: &str, keys: &dyn Fn(&mut redis::Cmd)| {
        let mut command = redis::cmd(name);
        keys(&mut command);
        let begun = Instant::now();
        (command.query::<redis::Value>(&mut redis).unwrap(), begun.elapsed())
    };
    let one_by_one: Duration =
        (0..KEYS).map(|key| call("SET", &|it| _ = it.arg(format!("one {key}")).arg(key)).1).sum();
    let names = |it: &mut redis::Cmd| (0..KEYS).for_each(|key| _ = it.arg(format!("key {key}")));
    let pairs = |it: &mut redis::Cmd| (0..KEYS).for_each(|key| _ = it.arg(format!("key {key}")).arg(key));
    let count = |count: usize| redis::Value::Int(count as i64);
    for (name, said, args) in [
        ("MSET", redis::Value::Okay, &pairs as &dyn Fn(&mut redis::Cmd)),
        ("EXISTS", count(KEYS), &names),
        ("MSETNX", count(0), &pairs),
        ("DEL", count(KEYS), &names),
        ("EXISTS", count(0), &names),
        ("MSETNX", count(1), &pairs),
    ] {
        let (reply, took) = call(name, args);
        println!("{name} of {KEYS} keys: {took:?}; {KEYS} SETs: {one_by_one:?}");
        assert_eq!(reply, said, "{name}");
        assert!(took < one_by_one / 2, "{name}: {took:?} of {one_by_one:?}");
    }
    // Keys that are there twice.
    let twice: &dyn Fn(&mut redis::Cmd) = &|it| _ = it.arg("key 0").arg("key 1").arg("key 0");
    assert_eq!(call("EXISTS", twice).0, count(3));
    assert_eq!(call("MSET", &|it| _ = it.arg(&["k", "1", "other", "2", "k", "3"])).0, redis::Value::Okay);
    assert_eq!(call("GET", &|it| _ = it.arg("k")).0, redis::Value::BulkString(b"3".to_vec()));
    assert_eq!(call("DEL", twice).0, count(2));
    // What a script has changed is held back until it commands more than one key.
    let script = "redis.call('INCR', KEYS[1]); redis.call('MSET', KEYS[2], 1, KEYS[3], 2)
        return redis.call('DEL', KEYS[1], KEYS[2]) + redis.call('EXISTS', KEYS[2], KEYS[3])";
    assert_eq!(call("EVAL", &|it| _ = it.arg(script).arg(3).arg(&["n", "a", "b"])).0, count(3));
    // The commands behind one that fails are not begun, or end and are told.
    let long = "k".repeat(1 << 20);
    let mut deletes = redis::cmd("DEL");
    deletes.arg("b").arg(&long).arg("k");
    assert!(deletes.query::<redis::Value>(&mut redis).is_err());
    assert_eq!(redis.exists::<_, u8>("b").unwrap(), 0);
}
