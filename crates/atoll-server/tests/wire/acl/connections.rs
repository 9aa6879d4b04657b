//! What connections may do whose user changes.

use super::{connect_as, ends, ok, server, text};
use crate::common::{Raw, command};
use std::time::Duration;

#[test]
fn a_change_of_a_user_is_seen_by_the_next_command_of_every_connection() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "&*"]);
    let mut users: Vec<Raw> = (0..4).map(|_| connect_as(&server, "u")).collect();
    for _ in 0..50 {
        ok(&mut operator, &["ACL", "SETUSER", "u", "-get"]);
        for user in &mut users {
            assert!(text(user.call(&["GET", "a"])).starts_with("-NOPERM"));
        }
        ok(&mut operator, &["ACL", "SETUSER", "u", "+get"]);
        for user in &mut users {
            assert_eq!(text(user.call(&["GET", "a"])), "$-1\r\n");
        }
    }
}

#[test]
fn a_pipeline_of_a_restricted_user_reads_nothing_that_it_may_not() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["MSET", "a1", "one", "b1", "two"]);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+get", "+acl|setuser", "~a*"]);
    let mut user = connect_as(&server, "u");
    user.send(&[&["GET", "a1"][..], &["GET", "b1"], &["GET", "a1"], &["GET", "b1"]].map(command).concat());
    let replies: Vec<String> = (0..4).map(|_| text(user.reply())).collect();
    assert!(replies[0] == "$3\r\none\r\n" && replies[2] == replies[0]);
    assert!(replies[1].starts_with("-NOPERM") && replies[3] == replies[1]);
    // Rights that a pipeline takes from itself.
    user.send(
        &[&["GET", "a1"][..], &["ACL", "SETUSER", "u", "-get"], &["GET", "a1"], &["GET", "a1"]].map(command).concat(),
    );
    let replies: Vec<String> = (0..4).map(|_| text(user.reply())).collect();
    assert_eq!((replies[0].as_str(), replies[1].as_str()), ("$3\r\none\r\n", "+OK\r\n"));
    assert!(replies[2..].iter().all(|reply| reply.starts_with("-NOPERM")));
}

#[test]
fn the_connections_of_a_removed_user_end() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "&*"]);
    let users: Vec<Raw> = (0..4).map(|_| connect_as(&server, "u")).collect();
    let mut subscriber = connect_as(&server, "u");
    subscriber.call(&["SUBSCRIBE", "c"]);
    assert_eq!(text(operator.call(&["ACL", "DELUSER", "u"])), ":1\r\n");
    assert!(users.into_iter().chain([subscriber]).all(ends));
    assert_eq!(text(operator.call(&["PING"])), "+PONG\r\n");
    // A user that removes itself gets the reply, and nothing of what comes behind.
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*"]);
    let mut own = connect_as(&server, "u");
    own.send(&[&["ACL", "DELUSER", "u"][..], &["SET", "a", "1"]].map(command).concat());
    assert_eq!(text(own.rest()), ":1\r\n");
    assert_eq!(text(operator.call(&["EXISTS", "a"])), ":0\r\n");
    // In a transaction, too.
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*"]);
    let mut own = connect_as(&server, "u");
    let transaction = [&["MULTI"][..], &["ACL", "DELUSER", "u"], &["SET", "a", "1"], &["EXEC"]].map(command).concat();
    own.send(&transaction);
    let rest = text(own.rest());
    assert!(rest.contains("*2\r\n:1\r\n-NOAUTH"), "{rest}");
    assert_eq!(text(operator.call(&["EXISTS", "a"])), ":0\r\n");
}

#[test]
fn a_user_that_is_made_again_is_another_one() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    for round in 0..30 {
        ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*"]);
        let old = connect_as(&server, "u");
        operator.send(
            &[&["ACL", "DELUSER", "u"][..], &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*"]]
                .map(command)
                .concat(),
        );
        assert_eq!(text(operator.reply()), ":1\r\n");
        assert_eq!(text(operator.reply()), "+OK\r\n");
        assert!(ends(old), "round {round}");
        connect_as(&server, "u").call(&["PING"]);
    }
}

#[test]
fn a_subscriber_ends_when_its_user_loses_the_channel() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "&c*", "&d"]);
    let subscribed = |kind: &str, name: &str| {
        let mut raw = connect_as(&server, "u");
        let reply = text(raw.call(&[kind, name]));
        assert!(reply.ends_with(":1\r\n"), "{reply}");
        raw
    };
    let (lost, kept) = (subscribed("SUBSCRIBE", "c1"), subscribed("SUBSCRIBE", "d"));
    let (pattern, shard) = (subscribed("PSUBSCRIBE", "c*"), subscribed("SSUBSCRIBE", "c2"));
    let mut none = connect_as(&server, "u");
    ok(&mut operator, &["ACL", "SETUSER", "u", "resetchannels", "&d"]);
    assert!([lost, pattern, shard].into_iter().all(ends));
    assert_eq!(text(none.call(&["PING"])), "+PONG\r\n");
    let mut kept = kept;
    assert_eq!(text(kept.call(&["PING"])), "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
}

#[test]
fn a_script_is_ended_by_users_that_may() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+ping"]);
    let mut user = connect_as(&server, "u");
    ok(&mut operator, &["CONFIG", "SET", "script-time-max", "2000"]);
    let mut runs = Raw::connect(server.address);
    runs.send(&command(&["EVAL", "while true do end", "0"]));
    std::thread::sleep(Duration::from_millis(200));
    user.send(b"*2\r\n$6\r\nscript\r\n$4\r\nkill\r\n");
    assert!(text(user.reply()).starts_with("-NOPERM"));
    // It ended by itself, since that command had to wait for it.
    assert!(text(runs.reply()).contains("script-time-max"));
}

#[test]
fn no_password_is_shown() {
    let server = server();
    let (mut operator, mut monitor) = (Raw::connect(server.address), Raw::connect(server.address));
    ok(&mut monitor, &["MONITOR"]);
    ok(&mut operator, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", ">hushhush"]);
    ok(&mut operator, &["AUTH", "u", "hushhush"]);
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["CONFIG", "SET", "timeout", "0", "requirepass", "hushhush"]);
    let log = text(operator.call(&["SLOWLOG", "GET", "-1"]));
    assert!(!log.contains("hushhush") && log.matches("(redacted)").count() >= 5, "{log}");
    let config = text(operator.call(&["CONFIG", "GET", "requirepass"]));
    assert!(config.ends_with("********\r\n"), "{config}");
    operator.call(&["PING", "end"]);
    let mut seen = String::new();
    while !seen.contains("\"end\"") {
        seen = text(monitor.reply());
        assert!(!seen.contains("hushhush"), "{seen}");
    }
}

#[test]
fn what_was_refused_is_counted_and_shown() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+get", "+publish", "+client|info", "~a"]);
    let mut user = connect_as(&server, "u");
    user.call(&["GET", "b"]);
    user.call(&["SET", "a", "x"]);
    user.call(&["SET", "a", "x"]);
    user.call(&["PUBLISH", "c", "x"]);
    user.call(&["AUTH", "u2", "x"]);
    assert!(text(user.call(&["CLIENT", "INFO"])).contains(" user=u "));
    let info = text(operator.call(&["INFO", "stats"]));
    for line in ["auth:1", "cmd:2", "key:1", "channel:1"] {
        assert!(info.contains(&format!("\r\nacl_access_denied_{line}\r\n")), "{line}: {info}");
    }
    let list = text(operator.call(&["CLIENT", "LIST"]));
    assert!(list.contains(" user=default ") && list.contains(" user=u "), "{list}");
    assert!(text(operator.call(&["ACL", "LOG"])).contains(" cmd=auth user=u "));
    ok(&mut operator, &["CONFIG", "RESETSTAT"]);
    assert!(text(operator.call(&["INFO", "stats"])).contains("\r\nacl_access_denied_cmd:0\r\n"));
    // The log is bounded, however long the names are.
    for number in 0..300 {
        user.call(&["GET", &format!("{number}{}", "k".repeat(60_000))]);
    }
    let log = operator.call(&["ACL", "LOG", "1000"]);
    assert!(log.starts_with(b"*128\r\n") && log.len() < 128 * 2000, "{}", log.len());
    assert_eq!(text(operator.call(&["CLIENT", "KILL", "USER", "u"])), ":1\r\n");
    assert!(ends(user));
}

#[test]
fn names_and_rules_are_bounded() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    let mut set = |name: &str, rules: &[&str]| text(operator.call(&[&["ACL", "SETUSER", name], rules].concat()));
    assert_eq!(set(&"n".repeat(256), &["on"]), "+OK\r\n");
    assert_eq!(set(&"n".repeat(257), &["on"]), "-ERR Usernames can't have more than 256 bytes\r\n");
    let long = "-ERR Error in ACL SETUSER: A user and its rules have at most 64 KiB\r\n";
    assert_eq!(set("u", &[&format!("~{}", "k".repeat(65_536))]), long);
    assert_eq!(set("u", &["+@all"; 20_000]), long);
    assert_eq!(set("u", &[&format!("~{}", "k".repeat(40_000))]), "+OK\r\n");
    let grown = set("u", &[&format!("~{}", "j".repeat(40_000))]);
    assert!(grown.ends_with(": A user and its rules have at most 64 KiB\r\n"), "{}", grown.len());
    let quoted = set("u", &["(~\"a'b\" +get)"]);
    assert!(quoted.ends_with("no quotes, and no parenthesis at its end\r\n"), "{quoted}");
}

#[test]
fn a_refused_command_does_not_wait_for_the_end_of_a_pause() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+get", "~*"]);
    let mut user = connect_as(&server, "u");
    ok(&mut operator, &["CLIENT", "PAUSE", "100000", "WRITE"]);
    assert!(text(user.call(&["SET", "a", "1"])).starts_with("-NOPERM"));
    ok(&mut operator, &["CLIENT", "UNPAUSE"]);
}

#[test]
fn users_change_under_load_and_no_connection_reads_what_it_may_not() {
    let server = server();
    let mut operator = Raw::connect(server.address);
    ok(&mut operator, &["MSET", "a", "public", "b", "secret"]);
    ok(&mut operator, &["ACL", "SETUSER", "u", "on", "nopass", "+get", "+acl|whoami", "~a"]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut user = connect_as(&server, "u");
            scope.spawn(move || {
                for _ in 0..300 {
                    user.send(&command(&["GET", "b"]).repeat(8));
                    (0..8).for_each(|_| assert!(text(user.reply()).starts_with("-NOPERM")));
                }
            });
        }
        for round in 0..300 {
            let rule = if round % 2 == 0 { "+set" } else { "-set" };
            ok(&mut operator, &["ACL", "SETUSER", "u", rule, "resetkeys", "~a", &format!("~c{round}")]);
        }
    });
}
