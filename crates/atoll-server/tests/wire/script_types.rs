//! Scripts with coroutines, and scripts that read replies of RESP3: what redis-server says of them,
//! to peers of both forms of the protocol.

use crate::common::redis_server::Redis;
use crate::common::{Raw, options, start};

const WITH_COROUTINES: &[&str] = &[
    "local c = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end)
     local _, x = coroutine.resume(c, 1) local _, y = coroutine.resume(c, 10) return {x, y, coroutine.status(c)}",
    "local f = coroutine.wrap(function() redis.call('set', 'a', 'b') coroutine.yield(redis.call('get', 'a')) return 'end' end)
     return {f(), f()}",
    "local f = coroutine.wrap(function() coroutine.yield(1) error('x') end) return {f(), pcall(f)}",
    "local f = coroutine.wrap(function() coroutine.yield(1) error('x') end) f() f()",
    "local f = coroutine.wrap(function() end) f() f()",
    "local c = coroutine.create(function() redis.call('set', 'a', 'text') redis.call('incr', 'a') end)
     local ok, e = coroutine.resume(c) return {tostring(ok), type(e), e.err}",
    "local c = coroutine.create(function() local r = redis.pcall('incr', 'a') return r.err end) return {coroutine.resume(c)}",
    "local c = coroutine.create(function() pcall(function() coroutine.yield(1) end) return 5 end) return {coroutine.resume(c)}",
    "local c = coroutine.create(function() local ok, e = pcall(coroutine.yield, 1) return e end) return {coroutine.resume(c)}",
    "local c = coroutine.create(function() pcall(redis.call, 'nothing') coroutine.yield(1) return 2 end)
     local _, a = coroutine.resume(c) local _, b = coroutine.resume(c) return {a, b}",
    "local c = coroutine.create(function() local ok, e = pcall(error, 'x') coroutine.yield(e) return 2 end)
     local _, a = coroutine.resume(c) local _, b = coroutine.resume(c) return {a, b}",
    "coroutine.yield(1)",
    "local ok, e = pcall(coroutine.yield) return e",
    "return coroutine.resume(1)",
    "return coroutine.status('x')",
    "return coroutine.create(1)",
    "return coroutine.wrap({})",
    "coroutine.x = 1",
    "return tostring(coroutine.running())",
    "local c = coroutine.create(function() return coroutine.running() end)
     local _, r = coroutine.resume(c) return {r == c and 1 or 0, coroutine.status(c), select(2, coroutine.resume(c))}",
    "local c c = coroutine.create(function() return coroutine.resume(c) end)
     local t = {coroutine.resume(c)} return {tostring(t[1]), tostring(t[2]), tostring(t[3])}",
    "local a, b
     a = coroutine.create(function() return coroutine.resume(b) end)
     b = coroutine.create(function() return coroutine.status(a), coroutine.status(b), coroutine.resume(a) end)
     local t = {coroutine.resume(a)} for i = 1, 6 do t[i] = tostring(t[i]) end return t",
    "local f = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(redis.call('incrby', 'n', i)) end end)
     redis.call('del', 'n') local t = {} for i = 1, 5 do t[i] = f() end return t",
    "local function all(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i * i) end end) end
     local t = {} for v in all(5) do t[#t + 1] = v end return t",
    "local f = coroutine.wrap(function(...) return select('#', ...), coroutine.yield(...) end) return {f(1, nil, 3)}",
    "local outer = coroutine.wrap(function()
       local inner = coroutine.wrap(function() coroutine.yield(redis.call('echo', 'deep')) return redis.call('ping').ok end)
       coroutine.yield(inner()) return inner() end) return {outer(), outer()}",
    "return type(coroutine.create(function() end))",
];

const IN_RESP3: &[&str] = &[
    "redis.setresp(3) redis.call('del', 'h') redis.call('hset', 'h', 'f', 'v')
     local t = redis.call('hgetall', 'h') return {type(t.map), t.map.f, #t}",
    "redis.setresp(3) return redis.call('hgetall', 'h')",
    "redis.setresp(3) return redis.call('hgetall', 'absent')",
    "redis.setresp(3) return redis.call('hrandfield', 'h', 1, 'withvalues')",
    "redis.setresp(3) return tostring(redis.call('get', 'absent'))",
    "redis.setresp(3) return redis.call('get', 'absent')",
    "redis.setresp(3) local t = redis.call('mget', 'absent', 'a', 'absent') return {tostring(t[1]), t[2], tostring(t[3])}",
    "redis.setresp(3) return redis.call('mget', 'absent', 'a')",
    "redis.setresp(3) return {true, false, 1, 'x', nil}",
    "redis.setresp(3) return true",
    "redis.setresp(3) return false",
    "redis.setresp(3) return nil",
    "redis.setresp(3) return redis.call('set', 'a', 'b')",
    "redis.setresp(3) return redis.pcall('incr', 'a')",
    "redis.setresp(3) return redis.call('config', 'get', 'nothing.of.this.name')",
    "redis.setresp(3) redis.setresp(2) return tostring(redis.call('get', 'absent'))",
    "redis.setresp(3) redis.setresp(2) return redis.call('hgetall', 'h')",
    "redis.setresp(3) return redis.call('lcs', 'a', 'a', 'idx')",
    "redis.setresp(3) local t = redis.call('lcs', 'a', 'a', 'idx').map return {t.len, #t.matches}",
    "redis.setresp(3) return {double=1.5}",
    "redis.setresp(3) return {map={a=true}}",
    "redis.setresp(3) return {set={a=true}}",
    "redis.setresp(3.7) return false",
    "return tostring(redis.call('get', 'absent'))",
    "return redis.setresp(4)",
];

#[test]
fn scripts_with_coroutines_and_with_replies_of_resp3_do_what_they_do_in_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    for protocol in ["2", "3"] {
        let mut servers = [redis.address, ours.address].map(Raw::connect);
        servers.iter_mut().for_each(|server| drop(server.call(&["HELLO", protocol])));
        for server in &mut servers {
            server.call(&["FLUSHALL"]);
        }
        for script in WITH_COROUTINES.iter().chain(IN_RESP3) {
            let [expected, found] = servers
                .each_mut()
                .map(|server| String::from_utf8_lossy(&server.call(&["EVAL", script, "0"])).into_owned());
            assert_eq!(expected, found, "RESP{protocol}: {script}");
        }
    }
}

#[test]
fn a_coroutine_ends_with_its_script() {
    let server = start(options());
    let (mut raw, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    raw.send(&crate::common::command(&[
        "EVAL",
        "coroutine.wrap(function() pcall(function() while true do end end) end)()",
        "0",
    ]));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(other.call(&["SCRIPT", "KILL"]), b"+OK\r\n");
    assert!(raw.reply().starts_with(b"-ERR Script killed by user with SCRIPT KILL."));
    let nested = "local function f() return coroutine.wrap(f)() end return f()";
    assert!(String::from_utf8_lossy(&raw.call(&["EVAL", nested, "0"])).contains("stack overflow"));
    assert_eq!(
        raw.call(&["EVAL", "return coroutine.wrap(function() return redis.call('ping') end)()", "0"]),
        b"+PONG\r\n"
    );
}
