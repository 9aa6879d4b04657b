//! The parameters of `CONFIG`: a table of all that this server knows, and their values.
//!
//! | effect | in this server |
//! |---|---|
//! | `Real` | the parameter has the effect that it has in Redis |
//! | `Noted` | it has no meaning here: any valid value is accepted and shown, and changes nothing |
//! | `Shown` | it says how the server is; only the value that it has is accepted |
//!
//! A parameter of Redis that is not in the table is unknown. `client-output-buffer-limit` of
//! `normal` is compared with the replies of one batch: a connection runs no further command before
//! they are sent. That of `slave` is noted alone.

use super::acl::{Password, Users};
use super::events;
use super::script::Scripts;
use super::slow::Slow;
use super::tracking::Tracking;
use crate::serve::counters::Shared;
use crate::serve::limits::OutputLimit;
use crate::serve::options::TlsOptions;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What values a parameter takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// An integer from the first to the second.
    Integer(i64, i64),
    /// A number of bytes, with a unit or none.
    Bytes,
    /// The same, or a part of the memory in percent.
    BytesOrPercent,
    /// `yes` or `no`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    Text,
    /// Letters of classes of events.
    Events,
    /// Classes of connections, each with three numbers.
    Outputs,
    /// A password, none if it is empty.
    Password,
}

/// What a parameter changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Set and read in [`Parameter::value`] and [`set`].
    Real,
    /// Nothing; at first it has this value.
    Noted(&'static str),
    /// It is not changed, for this reason.
    Shown(&'static str),
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) effect: Effect,
}

/// Redis takes a number beyond these for the nearest of them.
const HZ: (u64, u64) = (1, 500);
const HZ_FIRST: &str = "10";

const INT: Kind = Kind::Integer(0, i32::MAX as i64);
const LONG: Kind = Kind::Integer(0, i64::MAX);
const IMMUTABLE: &str = "can't set immutable config";
const START: Effect = Effect::Shown(IMMUTABLE);
const POOL: Effect = Effect::Shown("the pool has its capacity: change it with 'atoll pool'");
const ENGINE: Effect = Effect::Shown("the engine of the pool decides what is evicted");
const CACHE: Effect = Effect::Shown("this server is a cache: it writes no files");
const ALONE: Effect = Effect::Shown("this server does not replicate and is in no cluster");
const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

macro_rules! parameters {
    ($($name:literal $kind:expr, $effect:expr;)*) => {
        /// Every parameter, in the order of its name.
        pub(crate) static PARAMETERS: &[Parameter] =
            &[$(Parameter { name: $name, kind: $kind, effect: $effect },)*];
    };
}

use Effect::{Noted, Real, Shown};
use Kind::{Bytes, BytesOrPercent, Events, Flag, Integer, Outputs, Text, Word};

parameters! {
    "acl-pubsub-default"          Word(&["resetchannels", "allchannels"]), Shown("a new user may use no channel");
    "aclfile"                     Text, START;
    "acllog-max-len"              Integer(0, 4096), Real;
    "active-expire-effort"        Integer(1, 10), Noted("1");
    "activedefrag"                Flag, Noted("no");
    "activerehashing"             Flag, Noted("yes");
    "always-show-logo"            Flag, Noted("no");
    "aof-use-rdb-preamble"        Flag, Noted("yes");
    "appenddirname"               Text, CACHE;
    "appendfilename"              Text, CACHE;
    "appendfsync"                 Word(&["everysec", "always", "no"]), Noted("everysec");
    "appendonly"                  Flag, CACHE;
    "auto-aof-rewrite-min-size"   Bytes, Noted("67108864");
    "auto-aof-rewrite-percentage" INT, Noted("100");
    "bind"                        Text, START;
    "busy-reply-threshold"        LONG, Real;
    "client-output-buffer-limit"  Outputs, Real;
    "client-query-buffer-limit"   Bytes, Shown("a command may have this many bytes");
    "cluster-enabled"             Flag, ALONE;
    "cluster-node-timeout"        LONG, Noted("15000");
    "daemonize"                   Flag, START;
    "databases"                   INT, START;
    "dbfilename"                  Text, CACHE;
    "dir"                         Text, CACHE;
    "dynamic-hz"                  Flag, Noted("yes");
    "enable-debug-command"        Word(&["no", "yes", "local"]), START;
    "hash-max-listpack-entries"   LONG, Noted("512");
    "hash-max-listpack-value"     LONG, Noted("64");
    "hash-max-ziplist-entries"    LONG, Noted("512");
    "hash-max-ziplist-value"      LONG, Noted("64");
    "hll-sparse-max-bytes"        Bytes, Noted("3000");
    "hz"                          Integer(0, i32::MAX as i64), Noted(HZ_FIRST);
    "io-threads"                  INT, START;
    "io-threads-do-reads"         Flag, START;
    "jemalloc-bg-thread"          Flag, Noted("yes");
    "latency-monitor-threshold"   LONG, Real;
    "latency-tracking"            Flag, Noted("yes");
    "lazyfree-lazy-eviction"      Flag, Noted("no");
    "lazyfree-lazy-expire"        Flag, Noted("no");
    "lazyfree-lazy-server-del"    Flag, Noted("no");
    "lazyfree-lazy-user-del"      Flag, Noted("no");
    "lazyfree-lazy-user-flush"    Flag, Noted("no");
    "lfu-decay-time"              INT, Noted("1");
    "lfu-log-factor"              INT, Noted("10");
    "list-compress-depth"         INT, Noted("0");
    "list-max-listpack-size"      Integer(i32::MIN as i64, i32::MAX as i64), Noted("-2");
    "logfile"                     Text, START;
    "loglevel"                    Word(&["debug", "verbose", "notice", "warning"]), Noted("notice");
    "lua-time-limit"              LONG, Real;
    "maxclients"                  Integer(1, u32::MAX as i64), Real;
    "maxmemory"                   Bytes, POOL;
    "maxmemory-clients"           BytesOrPercent, Shown("no connection is evicted");
    "maxmemory-eviction-tenacity" Integer(0, 100), Noted("10");
    "maxmemory-policy"            Word(POLICIES), ENGINE;
    "maxmemory-samples"           Integer(1, i32::MAX as i64), Noted("5");
    "min-replicas-max-lag"        INT, Noted("10");
    "min-replicas-to-write"       INT, Noted("0");
    "no-appendfsync-on-rewrite"   Flag, Noted("no");
    "notify-keyspace-events"      Events, Real;
    "oom-score-adj"               Word(&["no", "yes", "relative", "absolute"]), Noted("no");
    "pidfile"                     Text, START;
    "port"                        INT, START;
    "protected-mode"              Flag, START;
    "proto-max-bulk-len"          Bytes, Shown("a value may have this many bytes");
    "rdb-del-sync-files"          Flag, Noted("no");
    "rdbchecksum"                 Flag, START;
    "rdbcompression"              Flag, Noted("yes");
    "repl-backlog-size"           Bytes, Noted("1048576");
    "repl-diskless-sync"          Flag, Noted("yes");
    "repl-timeout"                Integer(1, i32::MAX as i64), Noted("60");
    "replica-priority"            INT, Noted("100");
    "replica-read-only"           Flag, Noted("yes");
    "replica-serve-stale-data"    Flag, Noted("yes");
    "replicaof"                   Text, ALONE;
    "requirepass"                 Kind::Password, Real;
    "save"                        Text, CACHE;
    "script-time-max"             LONG, Real;
    "set-max-intset-entries"      LONG, Noted("512");
    "slaveof"                     Text, ALONE;
    "slowlog-log-slower-than"     Integer(-1, i64::MAX), Real;
    "slowlog-max-len"             LONG, Real;
    "stop-writes-on-bgsave-error" Flag, Noted("yes");
    "stream-node-max-bytes"       Bytes, Noted("4096");
    "stream-node-max-entries"     LONG, Noted("100");
    "supervised"                  Word(&["no", "upstart", "systemd", "auto"]), START;
    "tcp-backlog"                 INT, START;
    "tcp-keepalive"               INT, Real;
    "timeout"                     INT, Real;
    "tls-auth-clients"            Word(&["yes", "no", "optional"]), START;
    "tls-ca-cert-file"            Text, START;
    "tls-cert-file"               Text, START;
    "tls-key-file"                Text, START;
    "tls-port"                    INT, START;
    "tracking-table-max-keys"     LONG, Real;
    "unixsocket"                  Text, START;
    "unixsocketperm"              INT, START;
    "zset-max-listpack-entries"   LONG, Noted("128");
    "zset-max-listpack-value"     LONG, Noted("64");
}

/// The parameter of this name, in whatever case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The values that are not kept where they have their effect.
#[derive(Default)]
pub(crate) struct Config {
    noted: Mutex<Vec<(&'static str, String)>>,
}

/// The class that is noted alone, until it is set.
const SLAVE: &str = "268435456 67108864 60";

impl Config {
    fn noted(&self) -> MutexGuard<'_, Vec<(&'static str, String)>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, name: &'static str, value: String) {
        let mut noted = self.noted();
        noted.retain(|(other, _)| *other != name);
        noted.push((name, value));
    }

    fn get(&self, name: &str) -> Option<String> {
        self.noted().iter().find(|(other, _)| *other == name).map(|(_, value)| value.clone())
    }

    /// What `hz` was set to.
    pub(crate) fn hz(&self) -> String {
        self.get("hz").unwrap_or_else(|| HZ_FIRST.to_owned())
    }
}

/// A value that fits its parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    /// The limits that were given, by their class.
    Outputs(Vec<(Class, OutputLimit)>),
    Password(Option<Password>),
}

/// A class of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Normal,
    Slave,
    Pubsub,
}

/// A number of bytes with its unit.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(text.len());
    let factor = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

/// A number of bytes, or of percent; 0 percent are 0 bytes.
fn bytes_or_percent(text: &str) -> Result<Value, String> {
    let invalid = || "argument must be a memory or percent value".to_owned();
    let Some(digits) = text.strip_suffix('%') else { return bytes(text).map(Value::Number).ok_or_else(invalid) };
    match digits.parse::<u64>().map_err(|_| invalid())? {
        0 => Ok(Value::Number(0)),
        percent @ 1..=100 => Ok(Value::Text(format!("{percent}%"))),
        _ => Err("percentage argument must be less or equal to 100".to_owned()),
    }
}

fn outputs(text: &str) -> Result<Vec<(Class, OutputLimit)>, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let mut limits = Vec::new();
    for class in words.chunks(4) {
        let kind = match class[0].to_ascii_lowercase().as_str() {
            "normal" => Class::Normal,
            "slave" | "replica" => Class::Slave,
            "pubsub" => Class::Pubsub,
            _ => return Err("Invalid client class specified in buffer limit configuration.".to_owned()),
        };
        let soft_s = class[3].parse::<u64>().ok().filter(|seconds| *seconds <= i32::MAX as u64);
        let (Some(hard_bytes), Some(soft_bytes), Some(soft_s)) = (bytes(class[1]), bytes(class[2]), soft_s) else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".to_owned());
        };
        limits.push((kind, OutputLimit { hard_bytes, soft_bytes, soft_s }));
    }
    Ok(limits)
}

fn shown(limit: OutputLimit) -> String {
    format!("{} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_s)
}

/// Whether a text is a value of a parameter, or why it is none; `None` if there is no such
/// parameter. For tests of what peers send.
pub fn check(name: &str, text: &[u8]) -> Option<Result<(), String>> {
    let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name)?;
    Some(parameter.parse(text).map(drop))
}

/// The names of all parameters, in order.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    PARAMETERS.iter().map(|parameter| parameter.name)
}

impl Parameter {
    /// Why a text is no value of it.
    fn invalid(&self, why: String) -> String {
        if matches!(self.effect, Effect::Shown(IMMUTABLE)) { IMMUTABLE.to_owned() } else { why }
    }

    /// A text as a value of this parameter, or why it is none.
    pub(crate) fn parse(&self, text: &[u8]) -> Result<Value, String> {
        self.valid(text).map_err(|why| self.invalid(why))
    }

    fn valid(&self, text: &[u8]) -> Result<Value, String> {
        if matches!(self.kind, Kind::Password) {
            return Ok(Value::Password((!text.is_empty()).then(|| Password::of(text))));
        }
        let text = String::from_utf8_lossy(text).into_owned();
        let one_of =
            |words: &[&str]| words.iter().find(|word| word.eq_ignore_ascii_case(&text)).map(|word| (*word).to_owned());
        match self.kind {
            Kind::Integer(min, max) => match atoll_cache::cache::parse_integer(text.as_bytes()) {
                None => Err("argument couldn't be parsed into an integer".to_owned()),
                Some(number) if !(min..=max).contains(&number) => {
                    Err(format!("argument must be between {min} and {max} inclusive"))
                }
                Some(number) if number < 0 => Ok(Value::Text(number.to_string())),
                Some(number) => Ok(Value::Number(number as u64)),
            },
            Kind::Bytes => bytes(&text).map(Value::Number).ok_or_else(|| "argument must be a memory value".to_owned()),
            Kind::BytesOrPercent => bytes_or_percent(&text),
            Kind::Flag => {
                one_of(&["yes", "no"]).map(Value::Text).ok_or_else(|| "argument must be 'yes' or 'no'".to_owned())
            }
            Kind::Word(words) => one_of(words)
                .map(Value::Text)
                .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", "))),
            Kind::Text => Ok(Value::Text(text)),
            Kind::Events => events::parse(&text)
                .map(|classes| Value::Number(classes.into()))
                .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
            Kind::Outputs => outputs(&text).map(Value::Outputs),
            Kind::Password => unreachable!("handled above"),
        }
    }

    /// Its value. `started` are the values that only the protocol knows.
    pub(crate) fn value(&self, config: &Config, shared: &Shared, started: &Started<'_>) -> String {
        let (limits, options) = (&shared.limits, &shared.options);
        match self.name {
            "client-output-buffer-limit" => {
                let slave = config.get("slave").unwrap_or_else(|| SLAVE.to_owned());
                let (normal, pubsub) = (shown(limits.output(false)), shown(limits.output(true)));
                format!("normal {normal} slave {slave} pubsub {pubsub}")
            }
            "slowlog-log-slower-than" => started.slow.threshold_us.load(Relaxed).to_string(),
            "slowlog-max-len" => started.slow.entries_max.load(Relaxed).to_string(),
            "latency-monitor-threshold" => started.slow.event_ms.load(Relaxed).to_string(),
            "notify-keyspace-events" => events::printed(started.events.get()),
            "tracking-table-max-keys" => started.tracking.keys_max.load(Relaxed).to_string(),
            "maxclients" => limits.clients_max().to_string(),
            "timeout" => limits.idle_s_max().to_string(),
            "tcp-keepalive" => limits.keepalive_s().to_string(),
            "bind" => options.address.to_string(),
            "port" => options.port.unwrap_or(0).to_string(),
            "unixsocket" => options.unix.as_ref().map_or_else(String::new, |path| path.display().to_string()),
            "tls-port" => options.tls.as_ref().and_then(|tls| tls.port).unwrap_or(0).to_string(),
            "tls-cert-file" => tls_file(shared, |tls| Some(&tls.certificate)),
            "tls-key-file" => tls_file(shared, |tls| Some(&tls.key)),
            "tls-ca-cert-file" => tls_file(shared, |tls| tls.clients.as_deref()),
            "tls-auth-clients" => {
                if tls_file(shared, |tls| tls.clients.as_deref()).is_empty() { "no" } else { "yes" }.to_owned()
            }
            "io-threads" => shared.workers.len().to_string(),
            "databases" => super::database::DATABASES.to_string(),
            "maxmemory" => (shared.facts.capacity_bytes)().to_string(),
            "maxmemory-policy" => super::command::info::policy(shared.facts.experts.as_deref()).to_owned(),
            "protected-mode" => if started.is_protected { "yes" } else { "no" }.to_owned(),
            // No password is kept in clear text.
            "requirepass" => if started.users.has_nopass() { "" } else { "********" }.to_owned(),
            "aclfile" => started.users.file().map_or_else(String::new, |path| path.display().to_string()),
            "acllog-max-len" => started.users.log.entries_max.load(Relaxed).to_string(),
            "acl-pubsub-default" => "resetchannels".to_owned(),
            "appendonly"
            | "cluster-enabled"
            | "daemonize"
            | "enable-debug-command"
            | "io-threads-do-reads"
            | "supervised" => "no".to_owned(),
            "rdbchecksum" => "yes".to_owned(),
            "appenddirname" => "appendonlydir".to_owned(),
            "unixsocketperm" => "0".to_owned(),
            "appendfilename" => "appendonly.aof".to_owned(),
            "dbfilename" => "dump.rdb".to_owned(),
            "busy-reply-threshold" | "lua-time-limit" => started.scripts.busy_ms().to_string(),
            "script-time-max" => started.scripts.time_ms_max().to_string(),
            "client-query-buffer-limit" => super::resp::parser::COMMAND_BYTES_MAX.to_string(),
            "proto-max-bulk-len" => super::resp::parser::BULK_BYTES_MAX.to_string(),
            "maxmemory-clients" => "0".to_owned(),
            "tcp-backlog" => crate::serve::listen::BACKLOG.to_string(),
            name => match self.effect {
                Effect::Noted(first) => config.get(name).unwrap_or_else(|| first.to_owned()),
                _ => String::new(),
            },
        }
    }

    /// Why it cannot have another value than `present`, if it cannot have this one.
    pub(crate) fn refuses(&self, value: &Value, present: &str) -> Option<&'static str> {
        let Effect::Shown(why) = self.effect else { return None };
        let is_same = match value {
            Value::Number(number) => number.to_string() == present,
            Value::Text(text) => text == present,
            Value::Outputs(_) | Value::Password(_) => false,
        };
        (!is_same).then_some(why)
    }
}

/// A file of the server's TLS as a parameter: empty for none.
fn tls_file(shared: &Shared, file: impl Fn(&TlsOptions) -> Option<&Path>) -> String {
    let file = shared.options.tls.as_ref().and_then(file);
    file.map_or_else(String::new, |path| path.display().to_string())
}

/// How the protocol was started.
#[derive(Clone, Copy)]
pub(crate) struct Started<'a> {
    /// What took long, with its thresholds.
    pub(crate) slow: &'a Slow,
    /// Which events are told.
    pub(crate) events: &'a events::Events,
    /// Which clients are told of changes.
    pub(crate) tracking: &'a Tracking,
    pub(crate) is_protected: bool,
    pub(crate) scripts: &'a Scripts,
    /// Its users.
    pub(crate) users: &'a Users,
}

/// Sets parameters, all or none; the error names the parameter that cannot have its value, and says
/// why.
pub(crate) fn set(
    config: &Config,
    shared: &Shared,
    Started { slow, events, tracking, scripts, users, .. }: &Started<'_>,
    values: Vec<(&'static Parameter, Value)>,
) -> Result<(), (&'static str, String)> {
    let limits = &shared.limits;
    // What may fail comes first.
    for (parameter, value) in &values {
        if let ("maxclients", Value::Number(clients)) = (parameter.name, value) {
            limits.set_clients_max(*clients).map_err(|possible| {
                let mut why = "The operating system is not able to handle the specified number of clients".to_owned();
                write!(why, ", try with {possible}").expect("memory takes what is written");
                (parameter.name, why)
            })?;
        }
    }
    for (parameter, value) in values {
        match (parameter.name, value) {
            ("maxclients", _) => {}
            ("slowlog-log-slower-than", Value::Number(us)) => slow.threshold_us.store(us as i64, Relaxed),
            // The only value below 0.
            ("slowlog-log-slower-than", _) => slow.threshold_us.store(-1, Relaxed),
            ("slowlog-max-len", Value::Number(most)) => slow.entries_max.store(most, Relaxed),
            ("latency-monitor-threshold", Value::Number(ms)) => slow.event_ms.store(ms, Relaxed),
            ("busy-reply-threshold" | "lua-time-limit", Value::Number(ms)) => scripts.set_busy_ms(ms),
            ("script-time-max", Value::Number(ms)) => scripts.set_time_ms_max(ms),
            ("notify-keyspace-events", Value::Number(classes)) => events.set(classes as u32),
            ("tracking-table-max-keys", Value::Number(most)) => tracking.keys_max.store(most, Relaxed),
            ("acllog-max-len", Value::Number(most)) => users.log.entries_max.store(most, Relaxed),
            (_, Value::Password(password)) => users.set_default_password(password),
            ("timeout", Value::Number(seconds)) => limits.set_idle_s_max(seconds),
            ("tcp-keepalive", Value::Number(seconds)) => limits.set_keepalive_s(seconds),
            (_, Value::Outputs(given)) => given.into_iter().for_each(|(class, limit)| match class {
                Class::Normal => limits.set_output(false, limit),
                Class::Pubsub => limits.set_output(true, limit),
                Class::Slave => config.note("slave", shown(limit)),
            }),
            (name, value) => {
                if let Effect::Noted(_) = parameter.effect {
                    config.note(
                        name,
                        match value {
                            Value::Number(number) if name == "hz" => number.clamp(HZ.0, HZ.1).to_string(),
                            Value::Number(number) => number.to_string(),
                            Value::Text(text) => text,
                            Value::Outputs(_) | Value::Password(_) => unreachable!("handled above"),
                        },
                    );
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_every_first_value_is_valid() {
        assert!(PARAMETERS.is_sorted_by_key(|parameter| parameter.name));
        for parameter in PARAMETERS {
            if let Effect::Noted(first) = parameter.effect {
                assert!(parameter.parse(first.as_bytes()).is_ok(), "{}", parameter.name);
            }
        }
    }

    #[test]
    fn bytes_have_the_units_of_redis() {
        let cases = [("0", Some(0)), ("10", Some(10)), ("1k", Some(1000)), ("1Kb", Some(1024)), ("2mb", Some(2 << 20))];
        let more = [("3gb", Some(3 << 30)), ("", None), ("mb", None), ("1tb", None), ("-1", None), ("1 mb", None)];
        for (text, expected) in cases.into_iter().chain(more) {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert_eq!(bytes("99999999999999999999gb"), None);
    }
}
