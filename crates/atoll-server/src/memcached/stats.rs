//! `stats`: what has a meaning here.
//!
//! Commands are those of this protocol. Connections, bytes and items are those of the server and of
//! its pool.
//!
//! | of memcached 1.6 | here |
//! |---|---|
//! | `stats slabs` | has no class: objects of all sizes lie one behind the other in the pool |
//! | `stats items` | has one class for all of them |
//! | `stats sizes` | says that sizes are not tracked, as memcached does at first; they cannot be |
//! | `stats detail`, `stats cachedump`, `stats extstore` | unknown: no prefix is counted, no list of items is kept, nothing is on a disk |
//!
//! | field that is left out | why |
//! |---|---|
//! | `get_expired`, `get_flushed`, `expired_unfetched`, `evicted_unfetched`, `evicted_active` | the cache does not tell a key that has gone from one that never was, nor whether what it evicts was hit |
//! | `hash*` | the index of keys is the pool's, and `atoll pool info` shows it |
//! | `growth_factor`, `chunk_size`, `slab*`, `lru*`, `crawler*`, `moves_*`, `direct_reclaims`, `hot_*`, `warm_*`, `tail_*`, `temp*` | there are no slabs and no lists of recent use |
//! | `read_buf*`, `response_obj*`, `reserved_fds`, `malloc_fails`, `*logbuf*`, `log_*` | they are about memcached's own buffers and logs |
//! | `oldest` | objects are in no order of age |
//! | `umask`, `memory_file`, `stat_key_prefix`, `libevent`, `*napi*`, `round_robin_fallback`, `num_threads_per_udp`, `reqs_per_event`, `ext_*`, `ssl_*` but for `ssl_enabled` | they are about parts that this server does not have |

use super::request::{ERROR, Id};
use super::{Context, VERSION};
use crate::redis::command::info::seconds_used;
use crate::serve::counters::Totals;
use crate::serve::listen::BACKLOG;
use atoll_cache::{CacheError, Engine};
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines of `STAT NAME VALUE`.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn push(&mut self, name: impl Display, value: impl Display) {
        write!(self.0, "STAT {name} {value}\r\n").expect("memory takes what is written");
    }
}

/// `stats [settings | items | slabs | sizes | conns | reset]`
pub(super) async fn run<G: Engine>(c: &mut Context<'_, G>, what: &[u8]) -> Result<(), CacheError> {
    let mut lines = Lines::default();
    let objects = c.client.cache.objects().await?;
    c.client.shared.workers[c.client.worker].publish(&c.client.tally.borrow(), &c.client.cache.stats(), objects);
    match what {
        b"" => general(c, &mut lines),
        b"settings" => settings(c, &mut lines),
        b"items" => items(c, &mut lines),
        b"slabs" => {
            lines.push("active_slabs", 0);
            lines.push("total_malloced", (c.client.shared.facts.provided_bytes)());
        }
        b"sizes" => lines.push("sizes_status", "disabled"),
        b"conns" => connections(c, &mut lines),
        b"reset" => {
            c.inner.redis.forget_counts(c.client.shared);
            c.say("RESET", false);
            return Ok(());
        }
        _ => {
            c.say(ERROR, false);
            return Ok(());
        }
    }
    c.output.push(lines.0.as_bytes());
    c.say("END", false);
    Ok(())
}

/// How often some commands of this protocol ran, and how often they did not find their key.
fn counted<G: Engine>(c: &Context<'_, G>, totals: &Totals, ids: &[Id]) -> (u64, u64) {
    let places = ids.iter().map(|id| c.client.first_command + *id as usize);
    let (calls, missed) = (&totals.tally.calls, &totals.tally.missed);
    places.fold((0, 0), |(run, sum), place| (run + calls[place], sum + missed[place]))
}

fn general<G: Engine>(c: &Context<'_, G>, lines: &mut Lines) {
    let (shared, totals) = (c.client.shared, c.inner.redis.totals(c.client.shared));
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    lines.push("pid", std::process::id());
    lines.push("uptime", shared.started.elapsed().as_secs());
    lines.push("time", now_s);
    lines.push("version", VERSION);
    lines.push("atoll_version", env!("CARGO_PKG_VERSION"));
    lines.push("pointer_size", usize::BITS);
    let [system_s, user_s, ..] = seconds_used("/proc/self/stat");
    lines.push("rusage_user", format_args!("{user_s:.6}"));
    lines.push("rusage_system", format_args!("{system_s:.6}"));
    lines.push("max_connections", shared.limits.clients_max());
    lines.push("curr_connections", shared.clients.load(Relaxed));
    lines.push("total_connections", shared.accepted.load(Relaxed));
    lines.push("rejected_connections", shared.refused.load(Relaxed));
    // One for each connection.
    lines.push("connection_structures", shared.clients.load(Relaxed));
    const STORES: [Id; 7] = [Id::Set, Id::Add, Id::Replace, Id::Append, Id::Prepend, Id::Cas, Id::MetaSet];
    const METAS: [Id; 6] = [Id::MetaGet, Id::MetaSet, Id::MetaDelete, Id::MetaArithmetic, Id::MetaNoop, Id::MetaDebug];
    let touches = [Id::Touch, Id::Gat, Id::Gats];
    let (gets, get_misses) = counted(c, &totals, &[Id::Get, Id::Gets, Id::Gat, Id::Gats, Id::MetaGet]);
    lines.push("cmd_get", gets);
    lines.push("cmd_set", counted(c, &totals, &STORES).0);
    lines.push("cmd_flush", counted(c, &totals, &[Id::FlushAll]).0);
    lines.push("cmd_touch", counted(c, &totals, &touches).0);
    lines.push("cmd_meta", counted(c, &totals, &METAS).0);
    lines.push("get_hits", gets.saturating_sub(get_misses));
    lines.push("get_misses", get_misses);
    for (name, ids) in [
        ("delete", &[Id::Delete, Id::MetaDelete][..]),
        ("incr", &[Id::Incr, Id::MetaArithmetic]),
        ("decr", &[Id::Decr]),
        ("touch", &touches),
    ] {
        let (run, missed) = counted(c, &totals, ids);
        lines.push(format_args!("{name}_misses"), missed);
        lines.push(format_args!("{name}_hits"), run.saturating_sub(missed));
    }
    let ((run, missed), place) = (counted(c, &totals, &[Id::Cas]), c.client.first_command + Id::Cas as usize);
    let other = totals.tally.failed[place];
    lines.push("cas_misses", missed);
    lines.push("cas_hits", run.saturating_sub(missed + other));
    lines.push("cas_badval", other);
    lines.push("store_too_large", totals.tally.stores_too_large);
    lines.push("store_no_memory", totals.tally.stores_without_room);
    // There is no password.
    lines.push("auth_cmds", 0);
    lines.push("auth_errors", 0);
    lines.push("bytes_read", totals.tally.bytes_in);
    lines.push("bytes_written", totals.tally.bytes_out);
    lines.push("limit_maxbytes", (shared.facts.capacity_bytes)());
    lines.push("accepting_conns", 1);
    lines.push("listen_disabled_num", 0);
    lines.push("time_in_listen_disabled_us", 0);
    lines.push("conn_yields", 0);
    lines.push("threads", shared.workers.len());
    lines.push("bytes", totals.used_bytes);
    lines.push("curr_items", totals.objects);
    lines.push("total_items", totals.stat("puts"));
    lines.push("evictions", totals.stat("evictions"));
    lines.push("reclaimed", totals.stat("expirations"));
}

fn settings<G: Engine>(c: &Context<'_, G>, lines: &mut Lines) {
    let (shared, options) = (c.client.shared, &c.client.shared.options);
    let first = std::net::SocketAddr::new(options.address, options.port.unwrap_or(0));
    let address = options.second.unwrap_or(first);
    lines.push("maxbytes", (shared.facts.capacity_bytes)());
    lines.push("maxconns", shared.limits.clients_max());
    lines.push("tcpport", address.port());
    lines.push("udpport", 0);
    lines.push("inter", address.ip());
    lines.push("verbosity", 0);
    lines.push("evictions", "on");
    let socket = shared.options.second_unix.as_ref().map_or("NULL".to_owned(), |path| path.display().to_string());
    lines.push("domain_socket", socket);
    lines.push("num_threads", shared.workers.len());
    lines.push("cas_enabled", "yes");
    lines.push("item_size_max", c.client.cache.value_bytes_max());
    lines.push("flush_enabled", "yes");
    lines.push("idle_timeout", shared.limits.idle_s_max());
    lines.push("auth_enabled_ascii", "no");
    lines.push("auth_enabled_sasl", "no");
    lines.push("binding_protocol", "ascii");
    lines.push("tcp_backlog", BACKLOG);
    // What is beyond the most connections is told so, and not left to wait.
    lines.push("maxconns_fast", "yes");
    for (name, is_there) in [
        ("track_sizes", false),
        ("detail_enabled", false),
        ("dump_enabled", false),
        ("shutdown_command", false),
        ("inline_ascii_response", false),
        ("ssl_enabled", options.tls.as_ref().is_some_and(|tls| tls.at_second)),
    ] {
        lines.push(name, if is_there { "yes" } else { "no" });
    }
}

/// There are no classes of sizes: all items are in one.
fn items<G: Engine>(c: &Context<'_, G>, lines: &mut Lines) {
    let totals = c.inner.redis.totals(c.client.shared);
    if totals.objects > 0 {
        lines.push("items:1:number", totals.objects);
        lines.push("items:1:evicted", totals.stat("evictions"));
        lines.push("items:1:reclaimed", totals.stat("expirations"));
    }
}

fn connections<G: Engine>(c: &Context<'_, G>, lines: &mut Lines) {
    let now_ms = c.client.shared.uptime_ms();
    for handle in c.inner.connections().values() {
        let descriptor = handle.descriptor;
        let address = |address: &str| match handle.is_unix {
            true => format!("unix:{}", address.strip_suffix(":0").unwrap_or(address)),
            false => format!("tcp:{address}"),
        };
        lines.push(format_args!("{descriptor}:addr"), address(&handle.peer));
        lines.push(format_args!("{descriptor}:listen_addr"), address(&handle.local));
        let state = if handle.output_bytes() > 0 { "conn_mwrite" } else { "conn_parse_cmd" };
        lines.push(format_args!("{descriptor}:state"), state);
        let idle_s = now_ms.saturating_sub(handle.active_ms()) / 1000;
        lines.push(format_args!("{descriptor}:secs_since_last_cmd"), idle_s);
    }
}
