//! What clients, dashboards and operators ask besides keys: the bytes of a real redis-server come
//! back.

use crate::common::redis_server::Redis;
use crate::common::{Raw, options, start};

/// Commands about connections and their server, whose replies do not depend on what ran before.
const ADMINISTRATION: &[&[&str]] = &[
    &["CLIENT"],
    &["CLIENT", "nosuch"],
    &["CLIENT", "LIST", "TYPE", "x"],
    &["CLIENT", "LIST", "TYPE", "pubsub"],
    &["CLIENT", "LIST", "type", "Master"],
    &["CLIENT", "LIST", "TYPE"],
    &["CLIENT", "LIST", "TYPE", "normal", "x"],
    &["CLIENT", "LIST", "ID"],
    &["CLIENT", "LIST", "ID", "x"],
    &["CLIENT", "LIST", "ID", "-1", "99999999"],
    &["CLIENT", "LIST", "what", "1"],
    &["CLIENT", "INFO", "x"],
    &["CLIENT", "KILL"],
    &["CLIENT", "KILL", "x"],
    &["CLIENT", "KILL", "ADDR"],
    &["CLIENT", "KILL", "ADDR", "1.2.3.4:5"],
    &["CLIENT", "KILL", "LADDR", "1.2.3.4:5", "ID", "99999999"],
    &["CLIENT", "KILL", "ID", "x"],
    &["CLIENT", "KILL", "ID", "0"],
    &["CLIENT", "KILL", "id", "99999999"],
    &["CLIENT", "KILL", "ID", "1", "what", "2"],
    &["CLIENT", "KILL", "ID", "1", "TYPE"],
    &["CLIENT", "KILL", "TYPE", "x"],
    &["CLIENT", "KILL", "TYPE", "replica"],
    &["CLIENT", "KILL", "TYPE", "slave", "SKIPME", "no"],
    &["CLIENT", "KILL", "USER", "nobody"],
    &["CLIENT", "KILL", "SKIPME", "what"],
    &["CLIENT", "REPLY", "what"],
    &["CLIENT", "REPLY"],
    &["CLIENT", "PAUSE"],
    &["CLIENT", "PAUSE", "x"],
    &["CLIENT", "PAUSE", "-1"],
    &["CLIENT", "PAUSE", "1.5", "WRITE"],
    &["CLIENT", "PAUSE", "1", "what"],
    &["CLIENT", "PAUSE", "9223372036854775807", "WRITE"],
    &["CLIENT", "UNPAUSE"],
    &["CLIENT", "UNPAUSE", "x"],
    &["CLIENT", "NO-EVICT", "on"],
    &["CLIENT", "NO-EVICT", "off"],
    &["CLIENT", "NO-EVICT", "what"],
    &["CLIENT", "UNBLOCK", "x"],
    &["CLIENT", "UNBLOCK", "99999999"],
    &["CLIENT", "UNBLOCK", "99999999", "timeout"],
    &["CLIENT", "UNBLOCK", "99999999", "ERROR"],
    &["CLIENT", "UNBLOCK", "99999999", "what"],
    &["CLIENT", "TRACKING", "off"],
    &["CLIENT", "TRACKING", "what"],
    &["CLIENT", "TRACKING", "on", "what"],
    &["CLIENT", "TRACKINGINFO"],
    &["CLIENT", "GETREDIR"],
    &["CLIENT", "CACHING", "yes"],
    &["CLIENT", "SETNAME", "a b"],
    &["CLIENT", "SETNAME", "name"],
    &["CLIENT", "GETNAME"],
    &["RESET"],
    &["CLIENT", "GETNAME"],
    &["RESET", "x"],
    &["CONFIG"],
    &["CONFIG", "nosuch"],
    &["CONFIG", "GET"],
    &["CONFIG", "GET", "nosuch"],
    &["CONFIG", "GET", "["],
    &["CONFIG", "GET", "MAXCLIENTS"],
    &["CONFIG", "GET", "timeou*"],
    &["CONFIG", "GET", "timeout", "timeout"],
    &["CONFIG", "SET"],
    &["CONFIG", "SET", "timeout"],
    &["CONFIG", "SET", "timeout", "1", "hz"],
    &["CONFIG", "SET", "nosuch", "1"],
    &["CONFIG", "SET", "timeout", "1", "nosuch", "2"],
    &["CONFIG", "GET", "timeout"],
    &["CONFIG", "SET", "timeout", "x"],
    &["CONFIG", "SET", "timeout", "-1"],
    &["CONFIG", "SET", "timeout", "99999999999999999999"],
    &["CONFIG", "SET", "timeout", "1", "TIMEOUT", "2"],
    &["CONFIG", "SET", "timeout", "77", "tcp-keepalive", "x"],
    &["CONFIG", "GET", "timeout"],
    &["CONFIG", "SET", "TIMEOUT", "77", "tcp-keepalive", "20"],
    &["CONFIG", "GET", "timeout"],
    &["CONFIG", "GET", "tcp-keepalive"],
    &["CONFIG", "SET", "timeout", "0"],
    &["CONFIG", "SET", "daemonize", "maybe"],
    &["CONFIG", "SET", "databases", "3"],
    &["CONFIG", "GET", "databases"],
    &["CONFIG", "SET", "maxmemory", "x"],
    &["CONFIG", "SET", "maxmemory-policy", "x"],
    &["CONFIG", "SET", "maxmemory-samples", "0"],
    &["CONFIG", "SET", "maxmemory-samples", "7"],
    &["CONFIG", "GET", "maxmemory-samples"],
    &["CONFIG", "SET", "appendonly", "maybe"],
    &["CONFIG", "SET", "appendonly", "no", "save", ""],
    &["CONFIG", "GET", "save"],
    &["CONFIG", "SET", "lazyfree-lazy-expire", "YES"],
    &["CONFIG", "GET", "lazyfree-lazy-expire"],
    &["CONFIG", "SET", "maxclients", "0"],
    &["CONFIG", "SET", "maxclients", "4294967296"],
    &["CONFIG", "SET", "maxclients", "123"],
    &["CONFIG", "GET", "maxclients"],
    &["CONFIG", "GET", "client-output-buffer-limit"],
    &["CONFIG", "SET", "client-output-buffer-limit", "x"],
    &["CONFIG", "SET", "client-output-buffer-limit", "master 0 0 0"],
    &["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 x"],
    &["CONFIG", "SET", "client-output-buffer-limit", "normal -1 0 0"],
    &["CONFIG", "SET", "client-output-buffer-limit", ""],
    &["CONFIG", "SET", "client-output-buffer-limit", "normal 1gb 10mb 5 replica 1 2 3 PUBSUB 64mb 0 0"],
    &["CONFIG", "GET", "client-output-buffer-limit"],
    &["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60"],
    &["CONFIG", "SET", "notify-keyspace-events", "KAq"],
    &["CONFIG", "SET", "notify-keyspace-events", "Elshzxetdn"],
    &["CONFIG", "GET", "notify-keyspace-events"],
    &["CONFIG", "SET", "notify-keyspace-events", "mKg$lshzxetdn"],
    &["CONFIG", "GET", "notify-keyspace-events"],
    &["CONFIG", "SET", "notify-keyspace-events", ""],
    &["CONFIG", "REWRITE"],
    &["CONFIG", "RESETSTAT"],
    &["CONFIG", "RESETSTAT", "x"],
    &["SLOWLOG"],
    &["SLOWLOG", "nosuch"],
    &["SLOWLOG", "GET", "x"],
    &["SLOWLOG", "GET", "-2"],
    &["SLOWLOG", "GET", "1", "2"],
    &["SLOWLOG", "GET", "0"],
    &["SLOWLOG", "LEN", "x"],
    &["SLOWLOG", "RESET"],
    &["CONFIG", "SET", "slowlog-log-slower-than", "-2"],
    &["CONFIG", "SET", "slowlog-max-len", "-1"],
    &["CONFIG", "SET", "slowlog-log-slower-than", "-1"],
    &["CONFIG", "GET", "slowlog-log-slower-than"],
    &["CONFIG", "GET", "slowlog-max-len"],
    &["SLOWLOG", "RESET"],
    &["SLOWLOG", "GET"],
    &["SLOWLOG", "LEN"],
    &["CONFIG", "SET", "slowlog-log-slower-than", "10000"],
    &["LATENCY"],
    &["LATENCY", "nosuch"],
    &["LATENCY", "DOCTOR"],
    &["LATENCY", "LATEST"],
    &["LATENCY", "HISTORY"],
    &["LATENCY", "HISTORY", "command"],
    &["LATENCY", "RESET"],
    &["LATENCY", "RESET", "command", "x"],
    &["LATENCY", "HISTOGRAM", "nosuch"],
    &["CONFIG", "SET", "latency-monitor-threshold", "1.5"],
    &["CONFIG", "GET", "latency-monitor-threshold"],
    &["CLUSTER", "INFO"],
    &["CLUSTER"],
    &["DEBUG"],
    &["COMMAND", "nosuch"],
    &["COMMAND", "COUNT", "x"],
    &["COMMAND", "LIST", "FILTERBY"],
    &["COMMAND", "LIST", "what", "a", "b"],
    &["COMMAND", "LIST", "FILTERBY", "PATTERN"],
    &["COMMAND", "LIST", "FILTERBY", "what", "x"],
    &["COMMAND", "LIST", "FILTERBY", "MODULE", "x"],
    &["COMMAND", "LIST", "FILTERBY", "ACLCAT", "x"],
    &["COMMAND", "LIST", "FILTERBY", "PATTERN", "getde?"],
    &["COMMAND", "LIST", "FILTERBY", "pattern", "CONFIG|re*S*"],
    &["COMMAND", "GETKEYS"],
    &["COMMAND", "GETKEYS", "GET"],
    &["COMMAND", "GETKEYS", "nosuch", "a"],
    &["COMMAND", "GETKEYS", "PING", "a"],
    &["COMMAND", "GETKEYS", "GET", "a", "b"],
    &["COMMAND", "GETKEYS", "get", "a"],
    &["COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"],
    &["COMMAND", "GETKEYS", "DEL", "a", "b", "c"],
    &["COMMAND", "GETKEYSANDFLAGS", "OBJECT", "encoding", "a"],
    &["COMMAND", "GETKEYSANDFLAGS", "MEMORY", "USAGE", "a", "SAMPLES", "1"],
    &["COMMAND", "GETKEYS", "MEMORY", "DOCTOR"],
    &["COMMAND", "GETKEYS", "MEMORY", "USAGE"],
    &["COMMAND", "GETKEYS", "OBJECT", "HELP"],
    &["OBJECT"],
    &["OBJECT", "nosuch"],
    &["OBJECT", "ENCODING"],
    &["OBJECT", "ENCODING", "absent"],
    &["OBJECT", "FREQ", "absent"],
    &["OBJECT", "IDLETIME", "absent"],
    &["OBJECT", "REFCOUNT", "absent"],
    &["MEMORY"],
    &["MEMORY", "nosuch"],
    &["MEMORY", "USAGE"],
    &["MEMORY", "USAGE", "absent"],
    &["MEMORY", "USAGE", "absent", "SAMPLES"],
    &["MEMORY", "USAGE", "absent", "SAMPLES", "x"],
    &["MEMORY", "USAGE", "absent", "samples", "-1"],
    &["MEMORY", "USAGE", "absent", "what", "1"],
    &["MEMORY", "PURGE"],
    &["COMMAND", "GETKEYS", "EVAL", "script", "2", "a", "b", "c"],
    &["COMMAND", "GETKEYS", "EVAL", "script", "0", "a"],
    &["COMMAND", "GETKEYS", "EVAL", "script", "9", "a"],
    &["COMMAND", "GETKEYS", "EVAL", "script", "x", "a"],
];

#[test]
fn administration_gets_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut different = Vec::new();
    for version in ["2", "3"] {
        let mut servers = [redis.address, ours.address].map(Raw::connect);
        servers.iter_mut().for_each(|server| _ = server.call(&["HELLO", version]));
        for command in ADMINISTRATION {
            let [expected, found] =
                servers.each_mut().map(|server| String::from_utf8_lossy(&server.call(command)).into_owned());
            if expected != found {
                different.push(format!("{command:?} in RESP{version}\n redis: {expected:?}\n atoll: {found:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn keys_and_what_is_done_to_them_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let mut different = Vec::new();
    let specs = atoll_server::redis::command::SPECS.iter();
    let all: Vec<&str> = specs.filter(|spec| spec.keys.0 > 0).map(|spec| spec.name).collect();
    for name in all.iter().copied().chain(["eval", "eval_ro", "evalsha", "evalsha_ro"]) {
        let spec = atoll_server::redis::command::SPECS.iter().find(|spec| spec.name == name).unwrap();
        let mut command = vec!["COMMAND", "GETKEYSANDFLAGS", name];
        let args: &[&str] = if spec.keys.0 > 0 { &["a", "b", "c", "d"] } else { &["script", "1", "a"] };
        let count = if spec.arity > 0 { spec.arity as usize - 1 } else { args.len() };
        command.extend(&args[..count]);
        // The flags of a set come in any order, and in the same one from both.
        let [theirs, ours] =
            servers.each_mut().map(|server| String::from_utf8_lossy(&server.call(&command)).into_owned());
        if theirs != ours {
            different.push(format!("{command:?}\n redis: {theirs:?}\n atoll: {ours:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
