//! OBJECT and MEMORY: how a value is held, and what memory takes.
//!
//! | reply | here |
//! |---|---|
//! | `OBJECT ENCODING` | what Redis would choose for a value that is set: `int`, `embstr` or `raw`, not what an APPEND made of it there; `listpack` for every hash |
//! | `OBJECT REFCOUNT` | 1: no two keys share a value |
//! | `OBJECT FREQ`, `IDLETIME` | what does not go with `maxmemory-policy` is refused in Redis' words. `FREQ` is the number of hits, up to 255: `forge` counts 3 at most, those of this server, and anew when it moves the object; `ditto` counts all. A hit in a near cache counts later, or not at all |
//! | `MEMORY USAGE` | header, key and value of the record; `SAMPLES` is read, and changes nothing |
//! | `MEMORY STATS` | the fields of Redis that have a meaning here; those about its allocator are missing |
//! | `MEMORY DOCTOR` | that memory is the pool's, and how full it is |
//! | `MEMORY MALLOC-STATS` | what Redis says where its allocator keeps no statistics |
//! | `MEMORY PURGE` | nothing is done |
//!
//! None of them counts as an access, but for `OBJECT ENCODING` of a value of up to 20 bytes.

use super::arguments::{integer, is};
use super::{CommandError, Context, Id, Outcome, info, subcommand};
use crate::redis::census;
use crate::redis::kind::Kind;
use atoll_cache::cache::parse_integer;
use atoll_cache::record::HEADER_BYTES;
use atoll_cache::{Engine, Meta};

/// The longest text of an integer that Redis looks at.
const INTEGER_BYTES_MAX: usize = 20;
/// The longest value that Redis holds beside its header.
const EMBEDDED_BYTES_MAX: usize = 44;

const FREQ: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                    switching between policies at runtime LRU and LFU data will take some time to adjust.";
const IDLETIME: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
                        switching between policies at runtime LRU and LFU data will take some time to adjust.";

const UNTOLD: &str = "ERR the engine keeps nothing about the accesses to single keys";
/// The highest frequency of Redis.
const FREQ_MAX: u64 = 255;

/// The metadata of a key; without it the reply is that there is nothing.
async fn meta<G: Engine>(c: &mut Context<'_, G>, index: usize) -> Result<Option<Meta>, CommandError> {
    let meta = c.cache.peek(&c.key(index)).await?;
    if meta.is_none() {
        c.reply.null();
    }
    Ok(meta)
}

/// `OBJECT subcommand ...`
pub async fn object<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let name = subcommand::called(c, Id::Object);
    if name == "help" {
        return subcommand::help(c, Id::Object);
    }
    let meta = meta(c, 2).await?;
    c.tally.borrow_mut().looked(meta.is_some());
    let Some(meta) = meta else { return Ok(()) };
    let is_lfu = info::policy(c.shared.facts.experts.as_deref()) == info::LFU;
    match name {
        "encoding" => {
            let encoding = match meta.value_bytes {
                _ if Kind::of(meta) == Kind::HASH => "listpack",
                _ if Kind::of(meta) != Kind::STRING => "raw",
                ..=INTEGER_BYTES_MAX if is_integer(c).await? => "int",
                ..=EMBEDDED_BYTES_MAX => "embstr",
                _ => "raw",
            };
            c.reply.bulk(encoding.as_bytes());
        }
        "freq" if !is_lfu => return Err(FREQ.into()),
        "idletime" if is_lfu => return Err(IDLETIME.into()),
        "freq" | "idletime" => {
            let accesses = c.cache.accesses(&c.key(2)).await?;
            let told = match name {
                "freq" => accesses.map(|accesses| accesses.hits.min(FREQ_MAX)),
                _ => accesses.and_then(|accesses| accesses.idle_ms).map(|ms| ms / 1000),
            };
            c.reply.integer(told.ok_or(UNTOLD)? as i64);
        }
        _ => c.reply.integer(1),
    }
    Ok(())
}

/// Whether the value is an integer as Redis writes it.
async fn is_integer<G: Engine>(c: &mut Context<'_, G>) -> Result<bool, CommandError> {
    Ok(c.cache.get(&c.key(2), c.value).await? && parse_integer(c.value.bytes()).is_some())
}

/// `MEMORY subcommand ...`
pub async fn memory<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match subcommand::called(c, Id::Memory) {
        "usage" => return usage(c).await,
        "stats" => return stats(c).await,
        "doctor" => {
            let (used, capacity) = ((c.shared.facts.used_bytes)(), (c.shared.facts.capacity_bytes)());
            let percent = (used as f64 / capacity.max(1) as f64 * 100.0).round();
            c.reply.text(&format!(
                "The memory is that of the pool: {used} of {capacity} bytes are in use ({percent} %). The engine \
                 evicts objects before the pool is full, so a full pool is no problem by itself. INFO Atoll shows the \
                 hit ratio at other capacities.\n"
            ));
        }
        "malloc-stats" => c.reply.text("Stats not supported for the current allocator"),
        "purge" => c.reply.ok(),
        _ => return subcommand::help(c, Id::Memory),
    }
    Ok(())
}

/// `MEMORY USAGE key [SAMPLES count]`
async fn usage<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let mut rest = c.args.from(3);
    while let Some(word) = rest.next() {
        let count = rest.next().filter(|_| is(word, "samples")).ok_or(CommandError::Syntax)?;
        if integer(count)? < 0 {
            return Err(CommandError::Syntax);
        }
    }
    if let Some(meta) = meta(c, 2).await? {
        let key_bytes = c.key(2).len();
        c.reply.count(HEADER_BYTES + key_bytes + meta.value_bytes);
    }
    Ok(())
}

/// `MEMORY STATS`
async fn stats<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let census = census::take(c.cache, &c.instance.databases, c.turn()).await?;
    let (used, keys): (u64, u64) = (census.iter().map(|one| one.bytes).sum(), census.iter().map(|one| one.keys).sum());
    let peak = c.instance.memory_peak(used);
    let present: Vec<usize> = (0..census.len()).filter(|number| census[*number].keys > 0).collect();
    let before = [
        ("peak.allocated", peak as usize),
        ("total.allocated", used as usize),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", c.instance.peers.memory_bytes()),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", c.instance.scripts.bytes()),
        ("functions.caches", 0),
    ];
    let behind = [
        ("overhead.total", 0),
        ("keys.count", keys as usize),
        ("keys.bytes-per-key", used.checked_div(keys).unwrap_or(0) as usize),
        ("dataset.bytes", used as usize),
    ];
    let percent = |of: u64, all: u64| if all == 0 { 0.0 } else { of as f64 / all as f64 * 100.0 };
    let percentages = [("dataset.percentage", percent(used, used)), ("peak.percentage", percent(used, peak))];
    c.reply.map(before.len() + present.len() + behind.len() + percentages.len());
    let number = |c: &mut Context<'_, G>, (name, number): (&str, usize)| {
        c.reply.bulk(name.as_bytes());
        c.reply.count(number);
    };
    before.into_iter().for_each(|field| number(c, field));
    for database in present {
        c.reply.bulk(format!("db.{database}").as_bytes());
        c.reply.map(3);
        let tables = ["overhead.hashtable.main", "overhead.hashtable.expires", "overhead.hashtable.slot-to-keys"];
        tables.into_iter().for_each(|name| number(c, (name, 0)));
    }
    behind.into_iter().for_each(|field| number(c, field));
    for (name, percentage) in percentages {
        c.reply.bulk(name.as_bytes());
        c.reply.double(percentage);
    }
    Ok(())
}
