//! What scripts may use up, and what they cannot reach.

use crate::common;
use crate::common::{Raw, options, start, start_redis};
use atoll_server::{Redis, RedisOptions, ServerOptions};
use std::time::{Duration, Instant};

fn evaluate(raw: &mut Raw, script: &str) -> String {
    String::from_utf8_lossy(&raw.call(&["EVAL", script, "0"])).into_owned()
}

#[test]
fn a_script_reaches_nothing_of_the_host() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for name in [
        "io",
        "os",
        "package",
        "require",
        "dofile",
        "loadfile",
        "load",
        "debug",
        "coroutine",
        "collectgarbage",
        "print",
        "module",
        "newproxy",
        "setfenv",
        "getfenv",
        "gcinfo",
        "string.dump",
    ] {
        let found = evaluate(&mut raw, &format!("return {name} == nil and 'absent' or 'there'"));
        let refused = found.contains("nonexistent global variable");
        assert!(refused || found == "$6\r\nabsent\r\n", "{name}: {found}");
    }
    // Compiled bytes could do anything to the interpreter.
    let found = evaluate(&mut raw, "return loadstring('\\27Lua') == nil and 1 or 0");
    assert_eq!(found, ":1\r\n");
    assert!(evaluate(&mut raw, "\u{1b}Lua").starts_with("-ERR Error compiling script"));
}

#[test]
fn a_script_leaves_nothing_for_the_next_one() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for script in [
        "string.rep = nil",
        "table.insert = 1",
        "redis.call = nil",
        "cjson.encode = nil",
        "x = 1",
        "_G.x = 1",
        "_G.string = nil",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'rep', 1)",
        "setmetatable(_G, {})",
        "getmetatable(_G).__index = nil",
        "getmetatable('').__index.rep = nil",
        "getmetatable(string).__index.rep = nil",
        "loadstring('x = 1')()",
        "loadstring('string.rep = nil')()",
        "KEYS = 1",
    ] {
        assert!(evaluate(&mut raw, script).starts_with("-ERR "), "{script}");
        let whole = "return {('x'):rep(2), string.rep('y', 2), type(redis.call), cjson.encode({1}), #KEYS, \
                     rawget(_G, 'x') == nil and 1 or 0}";
        let expected = "*6\r\n$2\r\nxx\r\n$2\r\nyy\r\n$8\r\nfunction\r\n$3\r\n[1]\r\n:0\r\n:1\r\n";
        assert_eq!(evaluate(&mut raw, whole), expected, "after {script}");
    }
}

#[test]
fn a_script_that_takes_all_memory_is_ended_and_the_next_one_runs() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for script in [
        "local t = {} while true do t[#t + 1] = {1, 2, 3, 4, 5, 6, 7, 8} end",
        "return ('x'):rep(1e9)",
        "local s = 'x' while true do s = s .. s end",
    ] {
        let reply = evaluate(&mut raw, script);
        assert!(reply.contains("not enough memory"), "{script}: {reply}");
        assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
    }
    let deep = "local t = {} local u = t for i = 1, 1000 do u[1] = {} u = u[1] end return t";
    assert!(evaluate(&mut raw, deep).contains("-ERR reached lua stack limit"));
    assert!(evaluate(&mut raw, "local function f() return f() + 1 end return f()").contains("stack overflow"));
    assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
}

#[test]
fn a_script_that_does_not_end_is_killed_and_hides_from_it_in_no_pcall() {
    let server = start(ServerOptions { threads: 2, ..options() });
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() end) end",
        "while true do redis.call('ping') end",
    ] {
        let mut raw = Raw::connect(server.address);
        raw.send(&common::command(&["EVAL", script, "0"]));
        // Connections go to the workers in turn: one of two is not behind the script.
        let mut others = [server.address; 2].map(Raw::connect);
        let begun = Instant::now();
        let mut killed = false;
        while !killed && begun.elapsed() < Duration::from_secs(4) {
            std::thread::sleep(Duration::from_millis(20));
            for other in &mut others {
                other.stream().set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                other.send(&common::command(&["SCRIPT", "KILL"]));
            }
            let mut replies = others.each_mut().map(Raw::reply);
            replies.sort();
            killed = replies.iter().any(|reply| reply == b"+OK\r\n");
        }
        assert!(killed, "{script}");
        let reply = String::from_utf8(raw.reply()).unwrap();
        assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{script}: {reply}");
        assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
    }
}

/// A client's library sends HELLO, or AUTH, and CLIENT SETINFO first.
#[test]
fn a_script_is_killed_by_a_connection_that_gives_its_password_first() {
    let redis = RedisOptions { password: Some(b"secret".to_vec()), ..RedisOptions::default() };
    let server = start_redis(Redis::new(redis), ServerOptions { threads: 2, ..options() });
    let mut raw = Raw::connect(server.address);
    assert_eq!(raw.call(&["AUTH", "secret"]), b"+OK\r\n");
    raw.send(&common::command(&["EVAL", "while true do end", "0"]));
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    // One of two is not behind the script.
    let mut others = [server.address; 2].map(Raw::connect);
    for other in &mut others {
        other.send(&common::command(&["HELLO", "2", "AUTH", "default", "secret"]));
        other.send(&common::command(&["CLIENT", "SETINFO", "LIB-NAME", "x"]));
        other.send(b"script kill\r\n");
    }
    let mut replies = others.each_mut().map(|other| [(); 3].map(|()| other.reply()));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    replies.sort_by_key(|[.., kill]| kill.starts_with(b"-"));
    assert_eq!((&*replies[0][1], &*replies[0][2]), (&b"+OK\r\n"[..], &b"+OK\r\n"[..]));
    assert!(String::from_utf8(raw.reply()).unwrap().contains("Script killed by user"));
}

#[test]
fn a_script_that_nobody_kills_is_ended_after_five_seconds() {
    // Each has a server of its own: a script keeps its worker.
    let scripts = ["while true do end", "return (('a'):rep(30000):find(('a*'):rep(20) .. 'b'))"];
    std::thread::scope(|scope| {
        for script in scripts {
            scope.spawn(move || {
                let server = start(options());
                let (mut raw, begun) = (Raw::connect(server.address), Instant::now());
                let reply = evaluate(&mut raw, script);
                assert!(reply.contains("longer than 5 seconds"), "{script}: {reply}");
                assert!((5..10).contains(&begun.elapsed().as_secs()));
                assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
            });
        }
    });
}
