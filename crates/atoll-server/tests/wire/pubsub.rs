//! Channels: who gets which message, in which order, and what happens to a peer that takes none.

use crate::common;
use crate::common::redis_server::Redis;
use crate::common::{Raw, Running, command, options, start_on};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use std::io::Read;
use std::time::{Duration, Instant};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8_lossy(&reply).into_owned()
}

/// Connections of it are on different workers.
fn server() -> Running {
    start_on(&EngineOptions::default(), ServerOptions { threads: 3, ..options() })
}

/// A reply or push of these bulks and numbers, as both are written.
fn array(kind: char, parts: &[&str]) -> String {
    parts.iter().fold(format!("{kind}{}\r\n", parts.len()), |all, part| match part.starts_with(':') {
        true => all + part + "\r\n",
        false => all + &format!("${}\r\n{part}\r\n", part.len()),
    })
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn connections(raw: &mut Raw) -> usize {
    text(raw.call(&["CLIENT", "LIST"])).matches("id=").count()
}

/// What both servers reply to a connection, one command after the other, whatever has run before.
const CONVERSATION: &[&[&str]] = &[
    &["PUBSUB"],
    &["PUBSUB", "nosuch"],
    &["PUBSUB", "CHANNELS"],
    &["PUBSUB", "CHANNELS", "a", "b"],
    &["PUBSUB", "SHARDCHANNELS", "a", "b"],
    &["PUBSUB", "NUMSUB"],
    &["PUBSUB", "NUMSUB", "a", "b"],
    &["PUBSUB", "NUMPAT"],
    &["PUBSUB", "NUMPAT", "x"],
    &["PUBSUB", "SHARDNUMSUB", "a"],
    &["PUBLISH", "a"],
    &["PUBLISH", "a", "x"],
    &["SPUBLISH", "a", "x"],
    &["SUBSCRIBE"],
    &["UNSUBSCRIBE"],
    &["UNSUBSCRIBE", "a", "b"],
    &["PUNSUBSCRIBE"],
    &["SUNSUBSCRIBE"],
    &["EVAL", "return redis.call('publish', KEYS[1], 'x')", "1", "a"],
    &["COMMAND", "LIST", "FILTERBY", "PATTERN", "pubsub|s*ls"],
    &["MULTI"],
    &["SUBSCRIBE", "a"],
    &["SSUBSCRIBE", "a"],
    &["UNSUBSCRIBE", "a"],
    &["EXEC"],
    &["MULTI"],
    &["SUBSCRIBE", "a"],
    &["GET", "key"],
    &["EXEC"],
    &["PING"],
    &["PING", "x"],
    &["PING", "x", "y"],
    &["GET", "key"],
    &["GET"],
    &["MULTI"],
    &["CLIENT", "GETNAME"],
    &["CLIENT", "nosuch"],
    &["nosuch"],
    &["DISCARD"],
    &["PUBLISH", "b", "x"],
    &["SUBSCRIBE", "a"],
    &["PSUBSCRIBE", "a*"],
    &["SSUBSCRIBE", "s"],
    &["UNSUBSCRIBE", "nosuch"],
    &["PUNSUBSCRIBE", "nosuch"],
    &["UNSUBSCRIBE"],
    &["PUNSUBSCRIBE", "a*", "a*"],
    &["GET", "key"],
    &["SUNSUBSCRIBE"],
    &["GET", "key"],
    &["PING"],
    &["SUBSCRIBE", "a"],
    &["RESET"],
    &["GET", "key"],
    &["PUBSUB", "CHANNELS", "*"],
];

#[test]
fn conversations_about_channels_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = server();
    for version in ["2", "3"] {
        let mut servers = [redis.address, ours.address].map(Raw::connect);
        servers.iter_mut().for_each(|server| _ = server.call(&["HELLO", version]));
        for command in CONVERSATION {
            // Each name has a reply of its own.
            let replies = if command[0].ends_with("SUBSCRIBE") { command.len().max(2) - 1 } else { 1 };
            let [expected, found] = servers.each_mut().map(|server| {
                server.send(&common::command(command));
                (0..replies).map(|_| text(server.reply())).collect::<Vec<_>>()
            });
            assert_eq!(expected, found, "{command:?} in RESP{version}");
        }
    }
}

#[test]
fn a_message_comes_to_every_subscriber_once_for_each_subscription() {
    let server = server();
    let mut publisher = Raw::connect(server.address);
    let mut by_name = Raw::connect(server.address);
    let mut by_pattern = Raw::connect(server.address);
    let mut by_shard = Raw::connect(server.address);
    by_pattern.call(&["HELLO", "3"]);
    assert_eq!(text(by_name.call(&["SUBSCRIBE", "news"])), array('*', &["subscribe", "news", ":1"]));
    assert_eq!(text(by_name.call(&["PSUBSCRIBE", "n?ws"])), array('*', &["psubscribe", "n?ws", ":2"]));
    assert_eq!(text(by_pattern.call(&["PSUBSCRIBE", "[a-n]*"])), array('>', &["psubscribe", "[a-n]*", ":1"]));
    assert_eq!(text(by_shard.call(&["SSUBSCRIBE", "news"])), array('*', &["ssubscribe", "news", ":1"]));
    assert_eq!(text(publisher.call(&["PUBLISH", "news", "a\r\nb"])), ":3\r\n");
    assert_eq!(text(publisher.call(&["PUBLISH", "News", "x"])), ":0\r\n");
    assert_eq!(text(publisher.call(&["SPUBLISH", "news", "shard"])), ":1\r\n");
    assert_eq!(text(by_name.reply()), array('*', &["message", "news", "a\r\nb"]));
    assert_eq!(text(by_name.reply()), array('*', &["pmessage", "n?ws", "news", "a\r\nb"]));
    assert_eq!(text(by_pattern.reply()), array('>', &["pmessage", "[a-n]*", "news", "a\r\nb"]));
    assert_eq!(text(by_shard.reply()), array('*', &["smessage", "news", "shard"]));
    let numbers = text(publisher.call(&["PUBSUB", "NUMSUB", "news", "other"]));
    assert_eq!(numbers, array('*', &["news", ":1", "other", ":0"]));
    assert_eq!(text(publisher.call(&["PUBSUB", "NUMPAT"])), ":2\r\n");
    let info = text(publisher.call(&["INFO", "stats"]));
    for line in ["pubsub_channels:1", "pubsub_patterns:2", "pubsubshard_channels:1"] {
        assert!(info.lines().any(|one| one == line), "{line}");
    }
    let list = text(publisher.call(&["CLIENT", "LIST", "TYPE", "pubsub"]));
    assert_eq!(list.matches(" flags=P ").count(), 3, "{list}");
    assert_eq!(list.matches(" sub=1 psub=1 ssub=0 ").count(), 1, "{list}");
    assert_eq!(list.matches(" sub=0 psub=0 ssub=1 ").count(), 1, "{list}");
    // A connection that ends has subscribed to nothing.
    drop((by_name, by_pattern, by_shard));
    eventually("the subscribers are gone", || text(publisher.call(&["PUBSUB", "NUMPAT"])) == ":0\r\n");
    assert_eq!(text(publisher.call(&["PUBSUB", "CHANNELS"])), "*0\r\n");
    assert_eq!(text(publisher.call(&["PUBSUB", "SHARDCHANNELS"])), "*0\r\n");
}

#[test]
fn a_reply_says_that_messages_published_before_have_come() {
    let server = server();
    let mut publisher = Raw::connect(server.address);
    let mut subscriber = Raw::connect(server.address);
    subscriber.call(&["SUBSCRIBE", "c"]);
    for round in 0..200 {
        let message = round.to_string();
        assert_eq!(text(publisher.call(&["PUBLISH", "c", &message])), ":1\r\n");
        subscriber.send(&command(&["PING", &message]));
        assert_eq!(text(subscriber.reply()), array('*', &["message", "c", &message]));
        assert_eq!(text(subscriber.reply()), array('*', &["pong", &message]));
    }
    publisher.call(&["PUBLISH", "c", "last"]);
    subscriber.send(&command(&["UNSUBSCRIBE"]));
    assert_eq!(text(subscriber.reply()), array('*', &["message", "c", "last"]));
    assert_eq!(text(subscriber.reply()), array('*', &["unsubscribe", "c", ":0"]));
    assert_eq!(text(publisher.call(&["PUBLISH", "c", "none"])), ":0\r\n");
    assert_eq!(text(subscriber.call(&["GET", "a"])), "$-1\r\n");
}

#[test]
fn what_a_connection_publishes_to_itself_comes_behind_the_reply() {
    let server = server();
    let mut own = Raw::connect(server.address);
    own.call(&["HELLO", "3"]);
    own.call(&["SUBSCRIBE", "c"]);
    assert_eq!(text(own.call(&["PUBLISH", "c", "1"])), ":1\r\n");
    assert_eq!(text(own.reply()), array('>', &["message", "c", "1"]));
    for one in [&["MULTI"][..], &["PUBLISH", "c", "2"], &["GET", "a"]] {
        own.call(one);
    }
    assert_eq!(text(own.call(&["EXEC"])), "*2\r\n:1\r\n_\r\n");
    assert_eq!(text(own.reply()), array('>', &["message", "c", "2"]));
    let script = "redis.call('publish', 'c', '3') return 'done'";
    assert_eq!(text(own.call(&["EVAL", script, "0"])), "$4\r\ndone\r\n");
    assert_eq!(text(own.reply()), array('>', &["message", "c", "3"]));
    // Replies that are not wanted hold no message back.
    own.send(&[command(&["CLIENT", "REPLY", "OFF"]), command(&["PUBLISH", "c", "4"])].concat());
    assert_eq!(text(own.reply()), array('>', &["message", "c", "4"]));
    own.send(&command(&["CLIENT", "REPLY", "ON"]));
    assert_eq!(text(own.reply()), "+OK\r\n");
    // The form of messages follows the connection.
    own.call(&["HELLO", "2"]);
    Raw::connect(server.address).call(&["PUBLISH", "c", "5"]);
    assert_eq!(text(own.reply()), array('*', &["message", "c", "5"]));
}

#[test]
fn every_subscriber_gets_all_messages_in_one_order() {
    const MESSAGES: usize = 2000;
    let server = server();
    let mut subscribers: Vec<Raw> = (0..4).map(|_| Raw::connect(server.address)).collect();
    subscribers.iter_mut().for_each(|one| _ = one.call(&["PSUBSCRIBE", "*"]));
    let seen: Vec<Vec<String>> = std::thread::scope(|scope| {
        for publisher in 0..3 {
            let mut raw = Raw::connect(server.address);
            scope.spawn(move || {
                let publish = |index: usize| command(&["PUBLISH", &format!("c{publisher}"), &index.to_string()]);
                raw.send(&(0..MESSAGES).flat_map(publish).collect::<Vec<_>>());
                (0..MESSAGES).for_each(|_| assert_eq!(text(raw.reply()), ":4\r\n"));
            });
        }
        let read = subscribers
            .into_iter()
            .map(|mut one| scope.spawn(move || (0..3 * MESSAGES).map(|_| text(one.reply())).collect::<Vec<_>>()));
        let read: Vec<_> = read.collect();
        read.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(seen.iter().all(|one| *one == seen[0]), "subscribers disagree about the order");
    for publisher in 0..3 {
        let channel = format!("c{publisher}\r\n");
        let own: Vec<&String> = seen[0].iter().filter(|message| message.contains(&channel)).collect();
        assert_eq!(own.len(), MESSAGES);
        assert!(own.iter().enumerate().all(|(index, message)| message.ends_with(&format!("\r\n{index}\r\n"))));
    }
}

#[test]
fn a_subscriber_that_takes_nothing_ends_at_the_limit_and_delays_no_publisher() {
    let server = server();
    let mut publisher = Raw::connect(server.address);
    let (mut slow, mut quick) = (Raw::connect(server.address), Raw::connect(server.address));
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 4mb 0 0"];
    assert_eq!(text(publisher.call(&limit)), "+OK\r\n");
    slow.call(&["SUBSCRIBE", "c"]);
    quick.call(&["SUBSCRIBE", "c"]);
    let message = "x".repeat(64 << 10);
    // Sockets take some megabytes before the server owes anything.
    let mut messages = 0;
    eventually("the slow subscriber is still there", || {
        messages += 1;
        let count = text(publisher.call(&["PUBLISH", "c", &message]));
        assert_eq!(text(quick.reply()).len(), array('*', &["message", "c", &message]).len());
        count == ":1\r\n"
    });
    assert!(messages * message.len() > 4 << 20);
    let mut taken = Vec::new();
    let _ = slow.stream().read_to_end(&mut taken);
    assert!(taken.len() < messages * message.len());
    assert_eq!(connections(&mut publisher), 2);
    // One message beyond the limit is enough.
    slow = Raw::connect(server.address);
    slow.call(&["SUBSCRIBE", "d"]);
    assert_eq!(text(publisher.call(&["PUBLISH", "d", &"x".repeat(5 << 20)])), ":1\r\n");
    assert!(slow.rest().is_empty());
}

#[test]
fn a_subscriber_that_owes_more_than_the_soft_limit_for_too_long_ends() {
    let server = server();
    let mut publisher = Raw::connect(server.address);
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 1mb 1"];
    assert_eq!(text(publisher.call(&limit)), "+OK\r\n");
    let mut slow = Raw::connect(server.address);
    slow.call(&["SUBSCRIBE", "c"]);
    let message = "x".repeat(1 << 20);
    let owed = |raw: &mut Raw| -> usize {
        let list = text(raw.call(&["CLIENT", "LIST", "TYPE", "pubsub"]));
        list.split(" omem=").nth(1).map_or(0, |rest| rest.split(' ').next().unwrap().parse().unwrap())
    };
    eventually("the subscriber owes something", || {
        publisher.call(&["PUBLISH", "c", &message]);
        owed(&mut publisher) > 3 << 20
    });
    // Nothing more is published.
    eventually("the subscriber is still there", || connections(&mut publisher) == 1);
}

#[test]
fn the_names_of_a_connection_are_bounded() {
    let server = server();
    let mut raw = Raw::connect(server.address);
    raw.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"]);
    let name = vec![b'n'; 40 << 20];
    raw.send(&command(&[b"SUBSCRIBE", name.as_slice()]));
    assert!(raw.reply().ends_with(b":1\r\n"));
    let refusal = "-ERR the channels and patterns of this connection would take more than 64 MiB\r\n";
    let other = vec![b'o'; 40 << 20];
    assert_eq!(text(raw.call(&[b"PSUBSCRIBE".as_slice(), b"small", &other])), refusal);
    assert_eq!(text(raw.call(&["SUBSCRIBE", "small"])), array('*', &["subscribe", "small", ":2"]));
    assert!(raw.call(&[b"UNSUBSCRIBE", name.as_slice()]).ends_with(b":1\r\n"));
    assert!(raw.call(&[b"PSUBSCRIBE", other.as_slice()]).ends_with(b":2\r\n"));
}

#[test]
fn messages_wait_while_the_server_is_paused_and_a_silent_subscriber_stays() {
    let server = start_on(&EngineOptions::default(), ServerOptions { idle_s_max: 1, ..options() });
    let (mut own, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    other.call(&["SUBSCRIBE", "c"]);
    let began = Instant::now();
    own.call(&["CLIENT", "PAUSE", "3500", "WRITE"]);
    assert_eq!(text(own.call(&["PUBLISH", "c", "x"])), ":1\r\n");
    assert!(began.elapsed() >= Duration::from_millis(3500));
    assert_eq!(text(other.reply()), array('*', &["message", "c", "x"]));
}

#[test]
fn what_was_published_is_sent_before_a_server_stops() {
    let mut server = server();
    let (mut own, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    other.call(&["SUBSCRIBE", "c"]);
    let messages = command(&["PUBLISH", "c", "x"]).repeat(1000);
    own.send(&messages);
    (0..1000).for_each(|_| _ = own.reply());
    server.stop();
    assert_eq!(text(other.rest()), array('*', &["message", "c", "x"]).repeat(1000));
}
