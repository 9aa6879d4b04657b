//! Transactions and scripts about one key are one step for all servers and processes of a pool.

use crate::common::{self, Raw, Running, options, start_with};
use atoll_cache::EngineOptions;
use atoll_cache::ditto::DittoOptions;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 1500;

fn engines() -> [EngineOptions; 2] {
    [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())]
}

/// Two servers of one pool.
fn servers(engine: &EngineOptions) -> [Running; 2] {
    let clients = common::clients_of_pool(engine);
    [(); 2].map(|()| start_with(options(), clients.clone()))
}

fn send_all(raw: &mut Raw, commands: &[&[&str]]) -> Vec<String> {
    commands.iter().for_each(|args| raw.send(&common::command(args)));
    commands.iter().map(|_| String::from_utf8(raw.reply()).unwrap()).collect()
}

fn call(raw: &mut Raw, args: &[&str]) -> String {
    String::from_utf8(raw.call(args)).unwrap()
}

/// The numbers of a reply of integers and texts of digits.
fn numbers(reply: &str) -> Vec<u64> {
    let is_value = |line: &&str| line.starts_with(':') || line.starts_with(|first: char| first.is_ascii_digit());
    reply.split("\r\n").filter(is_value).map(|line| line.trim_start_matches(':').parse().unwrap()).collect()
}

/// Does so many rounds at each of two servers at once; the connections afterwards.
fn at_both(servers: &[Running; 2], round: impl Fn(&mut Raw, u64) + Sync) {
    std::thread::scope(|scope| {
        for server in servers {
            let round = &round;
            scope.spawn(move || {
                let mut raw = Raw::connect(server.address);
                (0..ROUNDS).for_each(|number| round(&mut raw, number));
            });
        }
    });
}

#[test]
fn a_transaction_about_one_key_is_one_step_for_all_servers() {
    for engine in engines() {
        let servers = servers(&engine);
        at_both(&servers, |raw, _| {
            let replies = send_all(
                raw,
                &[&["MULTI"], &["INCR", "n"], &["APPEND", "n", "0"], &["GET", "n"], &["SET", "n", "1"], &["EXEC"]],
            );
            // It begins with 0 or 1, whatever the other server does.
            let found = numbers(&replies[5]);
            assert!(found == [1, 2, 10] || found == [2, 2, 20], "{engine:?}: {replies:?}");
        });
        at_both(&servers, |raw, _| {
            let replies = send_all(raw, &[&["MULTI"], &["INCR", "sum"], &["INCR", "sum"], &["GET", "sum"], &["EXEC"]]);
            let found = numbers(&replies[4]);
            assert!(found[0] + 1 == found[1] && found[1] == found[2], "{engine:?}: {found:?}");
        });
        let sum = call(&mut Raw::connect(servers[0].address), &["GET", "sum"]);
        assert_eq!(numbers(&sum).last(), Some(&(4 * ROUNDS)), "{engine:?}");
    }
}

#[test]
fn a_script_with_one_key_is_one_step_for_all_servers() {
    // It looks at the clock, as rate limiters do.
    const COUNT: &str = "local time = redis.call('TIME')
        local n = tonumber(redis.call('GET', KEYS[1]) or 0)
        redis.call('SET', KEYS[1], n + 1)
        return redis.call('GET', KEYS[1])";
    for engine in engines() {
        let servers = servers(&engine);
        at_both(&servers, |raw, _| assert!(!numbers(&call(raw, &["EVAL", COUNT, "1", "n"])).is_empty()));
        // As a command of a transaction, too.
        at_both(&servers, |raw, _| _ = send_all(raw, &[&["MULTI"], &["EVAL", COUNT, "1", "n"], &["EXEC"]]));
        let sum = call(&mut Raw::connect(servers[1].address), &["GET", "n"]);
        assert_eq!(numbers(&sum).last(), Some(&(4 * ROUNDS)), "{engine:?}");
    }
}

#[test]
fn a_lock_is_released_by_its_owner_alone_and_never_twice() {
    const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
        return 0";
    let servers = servers(&engines()[0]);
    let owners = std::sync::atomic::AtomicU64::new(0);
    at_both(&servers, |raw, number| {
        let mine = format!("{:?} {number}", std::thread::current().id());
        if call(raw, &["SET", "lock", &mine, "NX"]) == "+OK\r\n" {
            assert_eq!(owners.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "two own the lock");
            owners.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(call(raw, &["EVAL", RELEASE, "1", "lock", &mine]), ":1\r\n");
        }
        assert_eq!(call(raw, &["EVAL", RELEASE, "1", "lock", &mine]), ":0\r\n");
    });
}

#[test]
fn a_watched_key_that_another_server_changes_is_never_overwritten() {
    for engine in engines() {
        let servers = servers(&engine);
        let done = std::sync::atomic::AtomicU64::new(0);
        at_both(&servers, |raw, _| {
            call(raw, &["WATCH", "n"]);
            let seen = numbers(&call(raw, &["GET", "n"])).last().map_or(0, |number| number + 1).to_string();
            let replies = send_all(raw, &[&["MULTI"], &["SET", "n", &seen], &["EXEC"]]);
            let is_done = replies[2] == "*1\r\n+OK\r\n";
            assert!(is_done || replies[2] == "*-1\r\n", "{replies:?}");
            done.fetch_add(is_done.into(), std::sync::atomic::Ordering::Relaxed);
        });
        let last = call(&mut Raw::connect(servers[0].address), &["GET", "n"]);
        assert_eq!(numbers(&last).last().map_or(0, |last| last + 1), done.into_inner(), "{engine:?}");
    }
}

/// What is told to others is told once, although a step may have to begin again.
#[test]
fn events_and_messages_of_a_step_are_told_once() {
    const TELL: &str = "redis.call('INCR', KEYS[1]) redis.call('PUBLISH', 'told', 'x') return 1";
    let servers = servers(&engines()[0]);
    let mut listeners = servers.each_ref().map(|server| {
        let mut raw = Raw::connect(server.address);
        call(&mut raw, &["CONFIG", "SET", "notify-keyspace-events", "E$"]);
        call(&mut raw, &["SUBSCRIBE", "told"]);
        call(&mut raw, &["SUBSCRIBE", "__keyevent@0__:incrby"]);
        call(&mut raw, &["SUBSCRIBE", "last"]);
        raw
    });
    at_both(&servers, |raw, number| match number % 2 {
        0 => assert_eq!(call(raw, &["EVAL", TELL, "1", "n"]), ":1\r\n"),
        _ => _ = send_all(raw, &[&["MULTI"], &["INCR", "n"], &["INCR", "n"], &["EXEC"]]),
    });
    for (server, listener) in servers.iter().zip(&mut listeners) {
        call(&mut Raw::connect(server.address), &["PUBLISH", "last", "."]);
        let mut counts = [0; 2];
        loop {
            let message = String::from_utf8(listener.reply()).unwrap();
            match () {
                () if message.contains("\r\nlast\r\n") => break,
                () if message.contains("\r\ntold\r\n") => counts[0] += 1,
                () => counts[1] += 1,
            }
        }
        assert_eq!(counts, [ROUNDS / 2, ROUNDS / 2 * 3]);
    }
    let sum = call(&mut Raw::connect(servers[0].address), &["GET", "n"]);
    assert_eq!(numbers(&sum).last(), Some(&(3 * ROUNDS)));
}

#[test]
fn a_script_that_turns_to_another_key_has_changed_each_once() {
    // The second key is not declared: from there on it is several steps.
    const BOTH: &str = "redis.call('INCR', KEYS[1]) redis.call('INCR', 'other') return 1";
    const CAUGHT: &str = "redis.call('INCR', KEYS[1]) redis.pcall('INCR', 'other') return 1";
    for engine in engines() {
        let servers = servers(&engine);
        at_both(&servers, |raw, number| {
            let script = if number % 2 == 0 { BOTH } else { CAUGHT };
            assert_eq!(call(raw, &["EVAL", script, "1", "n"]), ":1\r\n");
        });
        for key in ["n", "other"] {
            let sum = call(&mut Raw::connect(servers[0].address), &["GET", key]);
            assert_eq!(numbers(&sum).last(), Some(&(2 * ROUNDS)), "{engine:?} {key}");
        }
    }
}

#[test]
fn what_a_step_wrote_before_an_error_stays_and_large_replies_are_whole() {
    let servers = servers(&engines()[0]);
    let mut raw = Raw::connect(servers[0].address);
    let raised = call(&mut raw, &["EVAL", "redis.call('SET', KEYS[1], 'v') error('why')", "1", "k"]);
    assert!(raised.starts_with("-") && raised.contains("why"), "{raised}");
    assert_eq!(call(&mut raw, &["GET", "k"]), "$1\r\nv\r\n");
    let value = "v".repeat(200_000);
    let replies = send_all(&mut raw, &[&["MULTI"], &["SET", "k", &value], &["GET", "k"], &["STRLEN", "k"], &["EXEC"]]);
    assert_eq!(replies[4], format!("*3\r\n+OK\r\n$200000\r\n{value}\r\n:200000\r\n"));
    // A wrong kind is refused within a step as elsewhere, and an expiry that is past removes.
    let replies = send_all(
        &mut raw,
        &[
            &["MULTI"],
            &["DEL", "k"],
            &["HSET", "k", "f", "1"],
            &["GET", "k"],
            &["PEXPIREAT", "k", "1"],
            &["EXISTS", "k"],
            &["EXEC"],
        ],
    );
    assert!(replies[6].starts_with("*5\r\n:1\r\n:1\r\n-WRONGTYPE"), "{replies:?}");
    assert!(replies[6].ends_with(":1\r\n:0\r\n"), "{replies:?}");
    assert_eq!(call(&mut Raw::connect(servers[1].address), &["EXISTS", "k"]), ":0\r\n");
}

#[test]
fn a_key_that_is_named_twice_is_one_key() {
    const COUNT: &str = "redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[2])
        return redis.call('MGET', KEYS[1], KEYS[2])";
    let servers = servers(&engines()[0]);
    at_both(&servers, |raw, number| {
        let found = match number % 2 {
            0 => numbers(&call(raw, &["EVAL", COUNT, "2", "n", "n"])),
            _ => {
                let commands: &[&[&str]] =
                    &[&["MULTI"], &["INCR", "n"], &["MGET", "n", "n"], &["INCR", "n"], &["EXEC"]];
                let found = numbers(&send_all(raw, commands)[4]);
                assert_eq!(found[0] + 1, found[3], "{found:?}");
                found[..3].to_vec()
            }
        };
        assert!(found.iter().all(|number| *number == found[0]), "{found:?}");
    });
    let sum = call(&mut Raw::connect(servers[0].address), &["GET", "n"]);
    assert_eq!(numbers(&sum).last(), Some(&(4 * ROUNDS)));
}

/// A script that was ended does not begin again, although another server has changed its key.
#[test]
fn a_step_whose_script_takes_too_long_ends() {
    const SPIN: &str = "redis.call('SET', KEYS[1], 'mine') while true do end";
    let servers = servers(&engines()[0]);
    let mut other = Raw::connect(servers[1].address);
    call(&mut Raw::connect(servers[0].address), &["CONFIG", "SET", "script-time-max", "5000"]);
    for commands in [&[&["EVAL", SPIN, "1", "k"][..]][..], &[&["MULTI"], &["EVAL", SPIN, "1", "k"], &["EXEC"]]] {
        let mut raw = Raw::connect(servers[0].address);
        let began = Instant::now();
        commands.iter().for_each(|args| raw.send(&common::command(args)));
        // By then it runs, on a busy machine too.
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(call(&mut other, &["SET", "k", "other"]), "+OK\r\n");
        let replies: Vec<_> = commands.iter().map(|_| String::from_utf8(raw.reply()).unwrap()).collect();
        assert!(replies.last().unwrap().starts_with("-ERR "), "{replies:?}");
        // A script is ended after five seconds; another run would take as many.
        assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
        assert_eq!(call(&mut other, &["GET", "k"]), "$5\r\nother\r\n");
    }
}

/// What a subscriber was sent before its transaction is not lost when that begins again.
#[test]
fn a_subscriber_whose_step_begins_again_loses_no_message() {
    let servers = servers(&engines()[0]);
    let mut subscriber = Raw::connect(servers[0].address);
    subscriber.call(&["HELLO", "3"]);
    subscriber.call(&["SUBSCRIBE", "c"]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Raw::connect(servers[1].address);
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                call(&mut other, &["INCR", "n"]);
            }
        });
        let publisher = scope.spawn(|| {
            let mut publisher = Raw::connect(servers[0].address);
            (0..ROUNDS).for_each(|_| _ = call(&mut publisher, &["PUBLISH", "c", "m"]));
        });
        let (mut messages, mut executed) = (0, 0);
        while messages < ROUNDS {
            [&["MULTI"][..], &["INCR", "n"], &["INCR", "n"], &["EXEC"]]
                .iter()
                .for_each(|args| subscriber.send(&common::command(args)));
            loop {
                let reply = String::from_utf8(subscriber.reply()).unwrap();
                if reply.starts_with('>') {
                    messages += 1;
                } else if reply.starts_with("*2") {
                    executed += 1;
                    break;
                }
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        publisher.join().unwrap();
        assert!(executed > 0);
    });
}
