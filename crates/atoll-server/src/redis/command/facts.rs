//! What COMMAND says of commands and subcommands that this server has no use for, in the words of
//! Redis.

use super::{Flag, Spec};
use crate::redis::acl;

/// Flags that Redis has and this server has no use for: it neither loads nor has replicas that lag.
pub(super) fn further_flags(name: &str) -> &'static [&'static str] {
    match name {
        "auth" | "discard" | "hello" | "multi" | "quit" | "reset" | "shutdown" | "unwatch" | "watch" => {
            &["loading", "stale", "allow_busy"]
        }
        "command" | "debug" | "echo" | "info" | "lastsave" | "monitor" | "psubscribe" | "publish" | "punsubscribe"
        | "readonly" | "readwrite" | "role" | "select" | "spublish" | "ssubscribe" | "subscribe" | "sunsubscribe"
        | "time" | "unsubscribe" => &["loading", "stale"],
        "eval" | "eval_ro" | "evalsha" | "evalsha_ro" => &["stale", "skip_monitor", "no_mandatory_keys"],
        "exec" => &["loading", "stale", "skip_slowlog"],
        "sort" | "sort_ro" => &["movablekeys"],
        _ => &[],
    }
}

/// What clients of a cluster, and those that compare replies, are told of a command.
pub(super) fn tips(name: &str) -> &'static [&'static str] {
    match name {
        "command" | "command|docs" | "command|info" | "command|list" | "function|list" | "hgetall" | "hkeys"
        | "hvals" | "module|list" => &["nondeterministic_output_order"],
        "client|info" | "client|list" | "hrandfield" | "hscan" | "lastsave" | "object|encoding" | "object|freq"
        | "object|idletime" | "object|refcount" | "pttl" | "time" | "ttl" => &["nondeterministic_output"],
        "dbsize" => &["request_policy:all_shards", "response_policy:agg_sum"],
        "del" | "exists" | "touch" | "unlink" => &["request_policy:multi_shard", "response_policy:agg_sum"],
        "flushall" | "flushdb" | "memory|purge" | "ping" => {
            &["request_policy:all_shards", "response_policy:all_succeeded"]
        }
        "config|set" | "latency|reset" | "script|flush" | "script|load" | "slowlog|reset" => {
            &["request_policy:all_nodes", "response_policy:all_succeeded"]
        }
        "function|stats" | "info" | "memory|doctor" | "memory|malloc-stats" | "memory|stats" => {
            &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]
        }
        "latency|doctor" | "latency|histogram" | "latency|history" | "latency|latest" => {
            &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]
        }
        "keys" => &["request_policy:all_shards", "nondeterministic_output_order"],
        "mget" => &["request_policy:multi_shard"],
        "mset" => &["request_policy:multi_shard", "response_policy:all_succeeded"],
        "msetnx" => &["request_policy:multi_shard", "response_policy:agg_min"],
        "randomkey" => &["request_policy:all_shards", "nondeterministic_output"],
        "scan" => &["nondeterministic_output", "request_policy:special"],
        "script|exists" => &["request_policy:all_shards", "response_policy:agg_logical_and"],
        "script|kill" => &["request_policy:all_shards", "response_policy:one_succeeded"],
        "slowlog|get" => &["request_policy:all_nodes", "nondeterministic_output"],
        "slowlog|len" => &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        "wait" => &["request_policy:all_shards", "response_policy:agg_min"],
        _ => &[],
    }
}

/// Redis' group for the families.
pub(super) fn group(spec: &Spec) -> &'static str {
    match spec.family {
        "string" | "range" | "count" | "lcs" => "string",
        "bitmap" | "bitfield" => "bitmap",
        "hash" => "hash",
        "keyspace" if ["dbsize", "flushall", "flushdb", "swapdb"].contains(&spec.name) => "server",
        "key" | "expire" | "keyspace" => "generic",
        "connection" if spec.name != "shutdown" => "connection",
        "hyperloglog" => "hyperloglog",
        "client" if spec.name == "client" => "connection",
        "script" => "scripting",
        "transaction" => "transactions",
        "memory" if spec.name == "object" => "generic",
        "absent" if ["sort", "sort_ro", "wait"].contains(&spec.name) => "generic",
        "absent" if ["asking", "readonly", "readwrite", "cluster"].contains(&spec.name) => "cluster",
        "absent" if spec.name == "function" => "scripting",
        "pubsub" => "pubsub",
        _ => "server",
    }
}

/// The version of Redis since which another command is to be used, and that command.
pub(super) fn replaced(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "getset" => Some(("6.2.0", "`SET` with the `!GET` argument")),
        "hmset" => Some(("4.0.0", "`HSET` with multiple field-value pairs")),
        "substr" => Some(("2.0.0", "`GETRANGE`")),
        _ => None,
    }
}

/// The version of Redis that had a subcommand first: that of its container, or a later one.
pub(super) fn since(spec: &Spec, name: &str) -> &'static str {
    match name {
        "client|getname" | "client|setname" => "2.6.9",
        "client|pause" => "2.9.50",
        "config|rewrite" => "2.8.0",
        "client|reply" => "3.2.0",
        "object|freq" => "4.0.0",
        "client|help" | "client|id" | "client|unblock" | "command|help" | "config|help" | "module|help"
        | "script|help" => "5.0.0",
        "client|caching" | "client|getredir" | "client|tracking" => "6.0.0",
        "client|info" | "client|trackinginfo" | "client|unpause" | "object|help" | "pubsub|help" | "slowlog|help" => {
            "6.2.0"
        }
        "acl|dryrun"
        | "client|no-evict"
        | "command|docs"
        | "command|getkeysandflags"
        | "command|list"
        | "latency|histogram"
        | "pubsub|shardchannels"
        | "pubsub|shardnumsub" => "7.0.0",
        "client|no-touch" | "client|setinfo" => "7.2.0",
        _ => spec.since,
    }
}

/// The flags of a subcommand. Those that are categories, too, it has where it is in the category.
pub(super) fn flags_of_subcommand(spec: &Spec, name: &str) -> Vec<&'static str> {
    if name.ends_with("|help") {
        return vec!["loading", "stale"];
    }
    let is_in = |category: &str| acl::categories(name).any(|other| other == category);
    let categories = [("admin", "admin"), ("pubsub", "pubsub"), ("read", "readonly")];
    let of_categories = categories.iter().filter(|(category, _)| is_in(category)).map(|(_, flag)| *flag);
    let of_container = spec.flags.iter().filter(|flag| **flag == Flag::Noscript).filter_map(|flag| flag.name());
    let further: &[&str] = match name {
        "function|stats" | "script|kill" => &["allow_busy"],
        "script|load" => &["stale"],
        _ if ["function", "memory", "module", "object", "script"].contains(&spec.name) => &[],
        _ => &["loading", "stale"],
    };
    of_categories.chain(of_container).chain(further.iter().copied()).collect()
}
