//! What scripts may use up, and what they cannot reach.

use crate::common;
use crate::common::{Raw, options, start, start_redis, with_memcached};
use atoll_server::{Redis, RedisOptions, ServerOptions};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Held by tests that need a processor for seconds: they are about time.
static PROCESSOR: Mutex<()> = Mutex::new(());

fn evaluate(raw: &mut Raw, script: &str) -> String {
    String::from_utf8_lossy(&raw.call(&["EVAL", script, "0"])).into_owned()
}

#[test]
fn a_script_reaches_nothing_of_the_host() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for name in [
        "io",
        "os.execute",
        "os.exit",
        "os.getenv",
        "os.remove",
        "os.time",
        "package",
        "require",
        "dofile",
        "loadfile",
        "debug",
        "print",
        "module",
        "newproxy",
        "setfenv",
        "getfenv",
        "string.dump",
    ] {
        let found = evaluate(&mut raw, &format!("return {name} == nil and 'absent' or 'there'"));
        let refused = found.contains("nonexistent global variable");
        assert!(refused || found == "$6\r\nabsent\r\n", "{name}: {found}");
    }
    // Compiled bytes could do anything to the interpreter.
    let found = evaluate(&mut raw, "return loadstring('\\27Lua') == nil and 1 or 0");
    assert_eq!(found, ":1\r\n");
    let found = evaluate(
        &mut raw,
        "local n = 0
        return load(function() n = n + 1 return n == 1 and '\\27Lua' or nil end) == nil and 1 or 0",
    );
    assert!(found == ":1\r\n", "{found}");
    assert!(evaluate(&mut raw, "\u{1b}Lua").starts_with("-ERR Error compiling script"));
}

#[test]
fn json_keeps_bytes_that_are_no_text_and_its_settings_are_those_of_one_script() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let json = raw.call(&["EVAL", "return {cjson.encode('\\255/'), cjson.decode('[\"\\254\"]')[1]}", "0"]);
    assert_eq!(json, b"*2\r\n$5\r\n\"\xff\\/\"\r\n$1\r\n\xfe\r\n");
    let sparse = "return cjson.encode({[1] = 1/3, [3] = 1e15})";
    assert_eq!(evaluate(&mut raw, sparse), "$29\r\n[0.33333333333333,null,1e+15]\r\n");
    let failed = evaluate(&mut raw, "local a = cjson.decode('')");
    assert!(failed.contains("user_script:1: Expected value but found T_END at character 1"), "{failed}");
    // The line of a function behind `return` is known if there is only one.
    let failed = evaluate(&mut raw, "return cjson.decode('')");
    assert!(failed.starts_with("-ERR user_script:1: Expected value"), "{failed}");
    let failed = evaluate(&mut raw, "local a = 1\nreturn cjson.decode('')");
    assert!(failed.starts_with("-ERR Expected value"), "{failed}");
    let refused = evaluate(&mut raw, "cjson.encode_max_depth(1) cjson.encode({{}})");
    assert!(refused.contains("excessive nesting (2)"), "{refused}");
    assert_eq!(
        evaluate(&mut raw, "return {cjson.encode({{}}), cjson.encode_max_depth()}"),
        "*2\r\n$4\r\n[{}]\r\n:1000\r\n"
    );
    // Deeper than the interpreter could follow.
    for script in [
        "local c = cjson.new() c.encode_max_depth(1e9) local t = {} for i = 1, 1e5 do t = {t} end c.encode(t)",
        "local c = cjson.new() c.decode_max_depth(1e9) c.decode(('['):rep(1e6))",
    ] {
        let reply = evaluate(&mut raw, script);
        assert!(reply.contains("(2001)"), "{reply}");
    }
}

#[test]
fn a_script_knows_the_version_and_what_its_user_may_run() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    let version = "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM == 0x070400 and 1 or 0}";
    assert_eq!(evaluate(&mut raw, version), "*2\r\n$5\r\n7.4.0\r\n:1\r\n");
    let clock = "local a = os.clock() for i = 1, 1e5 do end return os.clock() > a and a >= 0 and 1 or 0";
    assert_eq!(evaluate(&mut raw, clock), ":1\r\n");
    raw.call(&["ACL", "SETUSER", "limited", "on", "nopass", "~a*", "+eval", "+get"]);
    assert_eq!(raw.call(&["AUTH", "limited", "x"]), b"+OK\r\n");
    for (command, may) in [
        ("'get', 'a'", "1"),
        ("'get', 'b'", "0"),
        ("'set', 'a', 1", "0"),
        ("'acl', 'whoami'", "0"),
        // The numbers of arguments are wrong.
        ("'get'", "0"),
        ("'eval'", "0"),
        ("'eval', 'return 1'", "0"),
    ] {
        let script = format!("return redis.acl_check_cmd({command}) and 1 or 0");
        assert_eq!(evaluate(&mut raw, &script), format!(":{may}\r\n"), "{command}");
    }
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
    let _alone = PROCESSOR.lock().unwrap_or_else(PoisonError::into_inner);
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for script in [
        "local s, t = string.rep('x', 1e5), {} while true do t[#t + 1] = s .. #t end",
        "return ('x'):rep(1e9)",
        "local s = ('x'):rep(1e7) local t = {} for i = 1, 100 do t[i] = s end return cjson.encode(t)",
        "local s = 'x' while true do s = s .. s end",
    ] {
        let reply = evaluate(&mut raw, script);
        assert!(reply.contains("not enough memory"), "{script}: {reply}");
        assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
    }
    // What a script has left behind does not count.
    let garbage = "local a = string.rep('a', 1e7) for i = 1, 100 do local s = a .. i end return 1";
    assert_eq!(evaluate(&mut raw, garbage), ":1\r\n");
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
        "local t = {} for i = 1, 30 do t = {a=t, b=t} end return cjson.encode(t)",
        "local a = 1\nlocal b = 2\nwhile true do a = b end",
        "local function f()\nfor i = 1, 1e12 do end end\npcall(f) return 1",
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
                other.send(&common::command(&["SCRIPT", "KILL"]));
            }
            let mut replies = others.each_mut().map(Raw::reply);
            replies.sort();
            killed = replies.iter().any(|reply| reply == b"+OK\r\n");
        }
        assert!(killed, "{script}");
        let reply = String::from_utf8(raw.reply()).unwrap();
        // It is told where the script was.
        let digest = String::from_utf8(raw.call(&["SCRIPT", "LOAD", script])).unwrap();
        let line = match script.lines().count() {
            1 => 1,
            _ => 1 + script.lines().position(|line| line.contains("while") || line.contains("for")).unwrap(),
        };
        let expected = format!(
            "-ERR Script killed by user with SCRIPT KILL... script: {}, on @user_script:{line}.\r\n",
            digest.lines().nth(1).unwrap()
        );
        assert_eq!(reply, expected, "{script}");
        assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
    }
}

/// What these `SCRIPT KILL` found. They are sent again as long as no script runs.
fn once_a_script_runs<const N: usize>(mut kill: impl FnMut() -> [Vec<u8>; N]) -> [Vec<u8>; N] {
    let begun = Instant::now();
    loop {
        let replies = kill();
        if replies.iter().any(|reply| !reply.starts_with(b"-NOTBUSY")) {
            return replies;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no script runs");
    }
}

#[test]
fn a_script_that_has_written_is_not_killed() {
    let redis = RedisOptions::default();
    let server = start_redis(Redis::new(redis), ServerOptions { threads: 2, ..options() });
    let mut raw = Raw::connect(server.address);
    assert_eq!(raw.call(&["CONFIG", "SET", "script-time-max", "1500"]), b"+OK\r\n");
    raw.send(&common::command(&["EVAL", "redis.call('set', 'a', 1) while true do end", "0"]));
    let mut others = [server.address; 2].map(Raw::connect);
    let replies = once_a_script_runs(|| {
        others.iter_mut().for_each(|other| other.send(b"script kill\r\n"));
        others.each_mut().map(Raw::reply)
    });
    // One of two may be behind the script.
    let is_told = |reply: &Vec<u8>| reply.starts_with(b"-UNKILLABLE Sorry the script already executed write");
    assert!(replies.iter().any(is_told), "{replies:?}");
    assert!(String::from_utf8(raw.reply()).unwrap().contains("was ended"));
    assert_eq!(raw.call(&["SCRIPT", "KILL"]), b"-NOTBUSY No scripts in execution right now.\r\n");
}

#[test]
fn a_script_leaves_nothing_in_the_libraries_for_the_next_one() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for library in ["math", "string", "table", "redis", "cjson", "bit", "os", "struct", "cmsgpack", "coroutine", "_G"] {
        let poisoned = format!("table.insert({library}, 'poison') return #{library}");
        raw.call(&["EVAL", &poisoned, "0"]);
        assert_eq!(
            evaluate(&mut raw, &format!("return {{#{library}, rawget({library}, 1)}}")),
            "*1\r\n:0\r\n",
            "{library}"
        );
    }
    assert!(evaluate(&mut raw, "rawset(math, 1, 2)").contains("Attempt to modify a readonly table"));
}

#[test]
fn a_script_that_sees_what_libraries_have_changes_none_of_it_for_the_next_one() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    // Every function of every library, and every global.
    let everything = "local all = {}
        for name, value in pairs(_G) do
            all[#all + 1] = name .. type(value)
            if type(value) == 'table' and value ~= KEYS and value ~= ARGV and value ~= _G then
                for own, part in pairs(value) do all[#all + 1] = name .. '.' .. own .. tostring(part) end
            end
        end
        table.sort(all) return all";
    let before = evaluate(&mut raw, everything);
    for name in ["math.floor", "redis.call", "loadstring", "cjson.encode", "string.gsub"] {
        assert!(before.contains(name), "{name}: {before}");
    }
    let ways = [
        "t[k] = nil",
        "t[k] = 1",
        "rawset(t, k, 1)",
        "setmetatable(t, {__index = function() end})",
        "local f, s = pairs(t) s[k] = 1",
        "local f, s = pairs(t) rawset(s, k, 1)",
        "table.foreach(t, function(n) t[n] = nil end)",
        "getmetatable(t).__index[k] = 1",
        "table.insert(t, 1)",
        "table.sort(t, function() return true end)",
        "table.remove(t, 1)",
        "local n = 0 load(function() n = n + 1 if n == 1 then return 'local t, k = ... t[k] = 1' end end)(t, k)",
    ];
    for way in ways {
        let script = format!(
            "for _, t in ipairs {{_G, math, string, table, redis, server, cjson, cmsgpack, struct, bit, os, coroutine}} do
                local names = {{}}
                for k in pairs(t) do names[#names + 1] = k end
                for _, k in ipairs(names) do pcall(function() {way} end) end
            end
            return 1"
        );
        assert_eq!(evaluate(&mut raw, &script), ":1\r\n", "{way}");
        assert_eq!(evaluate(&mut raw, everything), before, "{way}");
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
    let begun = Instant::now();
    let killed = once_a_script_runs(|| {
        // One of two is not behind the script.
        let mut others = [server.address; 2].map(Raw::connect);
        for other in &mut others {
            other.send(&common::command(&["HELLO", "2", "AUTH", "default", "secret"]));
            other.send(&common::command(&["CLIENT", "SETINFO", "LIB-NAME", "x"]));
            other.send(b"script kill\r\n");
        }
        others.each_mut().map(|other| {
            other.reply();
            assert_eq!(other.reply(), b"+OK\r\n");
            other.reply()
        })
    });
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(killed.iter().any(|reply| reply == b"+OK\r\n"), "{killed:?}");
    assert!(String::from_utf8(raw.reply()).unwrap().contains("Script killed by user"));
}

#[test]
fn a_script_that_is_not_killed_is_ended_after_script_time_max() {
    let _alone = PROCESSOR.lock().unwrap_or_else(PoisonError::into_inner);
    // Each has a server of its own: a script keeps its worker.
    // Each instruction of most of them takes milliseconds.
    let scripts = [
        // Line ends within a text, of which none is at its end.
        "local a = 'x' .. string.rep('\\n', 3e6) .. 'x' while true do redis.error_reply(a) end",
        "while true do end",
        "return (('a'):rep(30000):find(('a*'):rep(20) .. 'b'))",
        "local a = string.rep('a', 1e7) while true do local s = a:upper() end",
        "local a = string.rep('a', 1e7) while true do local s = string.format('%s', a) end",
        "local a = string.rep('a', 1e7) while true do pcall(redis.sha1hex, a) end",
        "local t = {} for i = 1, 3e5 do t[i] = i end while true do local s = table.concat(t) end",
        "local t = {} for i = 1, 4e6 do t[i] = -i end while true do table.sort(t) t[1] = 2 end",
        "while true do local s = string.rep('', 2147483647) end",
        "local t = {} for i = 1, 30 do t = {a=t, b=t} end return #cjson.encode(t)",
        "local s = '[' .. string.rep('1,', 1e5) .. '1]' while true do cjson.decode(s) end",
        "local a = 'return 1' .. string.rep(' ', 1e7) while true do loadstring(a, 'x') end",
    ];
    // More at once would not get enough of a processor to be in time.
    scripts.chunks(4).for_each(|scripts| {
        std::thread::scope(|scope| {
            for script in scripts {
                scope.spawn(move || {
                    let server = start(options());
                    let (mut raw, begun) = (Raw::connect(server.address), Instant::now());
                    assert_eq!(raw.call(&["CONFIG", "SET", "script-time-max", "2000"]), b"+OK\r\n");
                    let reply = evaluate(&mut raw, script);
                    assert!(reply.contains("longer than script-time-max"), "{script}: {reply}");
                    assert!((2..7).contains(&begun.elapsed().as_secs()));
                    assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
                });
            }
        })
    });
}

/// A server with one worker, whose only worker runs the script.
#[test]
fn the_only_worker_reads_what_ends_its_script() {
    let server = start(ServerOptions { threads: 1, ..options() });
    // The other connections wait for the script wherever it is: within functions of Lua that call
    // back, too, and within those of this server.
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do redis.call('ping') end",
        "table.sort({3, 2, 1}, function() while true do end end)",
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "for x in function() while true do end end do end",
        "return ('x'):gsub('.', function() while true do end end)",
        "return (('a'):rep(30000):find(('a*'):rep(20) .. 'b'))",
        "local t = {} for i = 1, 30 do t = {a=t, b=t} end return cjson.encode(t)",
    ] {
        let mut raw = Raw::connect(server.address);
        // A transaction runs its scripts in the same way.
        let is_within = script.contains("ping");
        let script = common::command(&["EVAL", script, "0"]);
        match is_within {
            true => raw.send(&[b"multi\r\n".as_slice(), &script, b"exec\r\n"].concat()),
            false => raw.send(&script),
        }
        std::thread::sleep(Duration::from_millis(50));
        let (mut waiting, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
        waiting.send(&common::command(&["SET", "k", "v"]));
        let begun = Instant::now();
        assert!(other.call(&["HELLO", "2"]).starts_with(b"*"));
        assert_eq!(other.call(&["CLIENT", "SETINFO", "LIB-NAME", "x"]), b"+OK\r\n");
        // What is behind it in the pipeline waits for the script to end.
        other.send(b"script kill\r\nping\r\n");
        assert_eq!(other.reply(), b"+OK\r\n");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(other.reply(), b"+PONG\r\n");
        assert_eq!(waiting.reply(), b"+OK\r\n");
        if is_within {
            assert_eq!([raw.reply(), raw.reply()], [&b"+OK\r\n"[..], b"+QUEUED\r\n"]);
        }
        let reply = String::from_utf8(raw.reply()).unwrap();
        assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{reply}");
    }
}

#[test]
fn commands_that_wait_for_a_script_are_told_so_after_the_threshold() {
    const BUSY: &[u8] = b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";
    for threads in [1, 2] {
        let server = start(ServerOptions { threads, ..with_memcached() });
        let mut raw = Raw::connect(server.address);
        let shown = raw.call(&["CONFIG", "GET", "busy-reply-threshold"]);
        assert_eq!(shown, b"*2\r\n$20\r\nbusy-reply-threshold\r\n$4\r\n5000\r\n");
        // A script that runs for longer than that is not ended soon: it can be killed.
        let shown = raw.call(&["CONFIG", "GET", "script-time-max"]);
        assert_eq!(shown, b"*2\r\n$15\r\nscript-time-max\r\n$5\r\n60000\r\n");
        assert_eq!(raw.call(&["CONFIG", "SET", "busy-reply-threshold", "1000"]), b"+OK\r\n");
        let mut others = [server.address; 4].map(Raw::connect);
        let mut memcached = Raw::connect(server.memcached());
        let begun = Instant::now();
        raw.send(&common::command(&["EVAL", "while true do end", "0"]));
        std::thread::sleep(Duration::from_millis(500));
        // Those came before it is over, and are told when it is.
        others[0].send(b"ping\r\n");
        others[1].send(b"get a\r\nset a 1\r\n");
        others[2].send(&common::command(&["EVAL", "return 1", "0"]));
        others[3].send(b"multi\r\nget a\r\nexec\r\nnothing\r\nping\r\n");
        memcached.send(b"set m 0 0 1\r\n1\r\n");
        for (other, replies) in others.iter_mut().zip([1, 2, 1]) {
            (0..replies).for_each(|_| assert_eq!(other.reply(), BUSY));
        }
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!([others[3].reply(), others[3].reply()], [b"+OK\r\n", BUSY]);
        let exec = String::from_utf8(others[3].reply()).unwrap();
        assert!(exec.starts_with("-EXECABORT Transaction discarded because of: BUSY Redis is busy"), "{exec}");
        assert!(others[3].reply().starts_with(b"-ERR unknown command"));
        assert_eq!(others[3].reply(), BUSY);
        assert_eq!(others[0].call(&["PING"]), BUSY);
        assert_eq!(others[0].call(&["SCRIPT", "KILL"]), b"+OK\r\n");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(others[1].call(&["GET", "a"]), b"$-1\r\n");
        // The other protocol has no such reply: its commands wait.
        let mut stored = [0; 8];
        std::io::Read::read_exact(&mut memcached.stream(), &mut stored).unwrap();
        assert_eq!(&stored, b"STORED\r\n");
        assert!(String::from_utf8(raw.reply()).unwrap().contains("Script killed by user"));
        // None is told so if the threshold is 0.
        assert_eq!(raw.call(&["CONFIG", "SET", "lua-time-limit", "0"]), b"+OK\r\n");
        raw.send(&common::command(&["EVAL", "while true do end", "0"]));
        std::thread::sleep(Duration::from_millis(100));
        others[1].send(b"ping\r\n");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(once_a_script_runs(|| [others[0].call(&["SCRIPT", "KILL"])]), [b"+OK\r\n"]);
        assert_eq!(others[1].reply(), b"+PONG\r\n");
    }
}

#[test]
fn a_reply_does_not_wait_for_the_script_of_another_connection() {
    let server = start(options());
    let (mut one, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let brief = "local began = os.clock() while os.clock() < began + 0.2 do end return 1";
    one.send(&[common::command(&["EVAL", brief, "0"]), common::command(&["SET", "k", "v"])].concat());
    std::thread::sleep(Duration::from_millis(100));
    // It runs next.
    other.send(&common::command(&["EVAL", "while true do end", "0"]));
    let begun = Instant::now();
    assert_eq!(one.reply(), b":1\r\n");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(Raw::connect(server.address).call(&["SCRIPT", "KILL"]), b"+OK\r\n");
    assert_eq!(one.reply(), b"+OK\r\n");
    assert!(String::from_utf8(other.reply()).unwrap().contains("Script killed by user"));
}

#[test]
fn a_server_stops_while_a_script_runs() {
    let mut server = start(ServerOptions { threads: 1, ..options() });
    let mut raw = Raw::connect(server.address);
    raw.send(&common::command(&["EVAL", "while true do pcall(function() while true do end end) end", "0"]));
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    Raw::connect(server.address).send(b"shutdown nosave\r\n");
    server.wait();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// Scripts have a stack of their own, which must hold whatever Lua permits.
#[test]
fn calls_within_each_other_end_at_the_limits_of_lua() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    for script in [
        "local function f(n) if n == 0 then return 1 end local t = setmetatable({}, {__index = function() return f(n - 1) end}) return t.x end return f(60)",
        "return #loadstring('return ' .. ('('):rep(150) .. '1' .. (')'):rep(150)) and 1 or 1",
    ] {
        let reply = evaluate(&mut raw, script);
        assert!(reply == ":1\r\n" || reply.starts_with("-ERR"), "{reply}");
    }
    assert!(
        evaluate(
            &mut raw,
            "local f f = function() return setmetatable({}, {__index = function() return f() end}).x end return f()"
        )
        .starts_with("-ERR")
    );
    assert!(
        evaluate(
            &mut raw,
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. 'x'] end return t.x"
        )
        .contains("overflow")
    );
    let nested = format!("return {}", "(".repeat(3000));
    assert!(evaluate(&mut raw, &nested).starts_with("-ERR"));
    let nested = "local s = ('('):rep(1e5) local _, why = loadstring('return ' .. s) return why";
    assert!(evaluate(&mut raw, nested).contains("overflow") || evaluate(&mut raw, nested).contains("levels"));
    assert_eq!(evaluate(&mut raw, "return (('a'):rep(1000):find(('(a'):rep(30) .. (')'):rep(30)))"), ":1\r\n");
    assert_eq!(evaluate(&mut raw, "return 1"), ":1\r\n");
}
