//! The server: INFO and TIME.
//!
//! INFO has the sections of Redis, under the names that readers of Redis' INFO know. A field that
//! is about what this server has not, persistence and replication, says so: nothing is saved, no
//! replica is connected. The section `Atoll` has what only Atoll has. There `hit_ratio_by_capacity`
//! lists parts and multiples of the pool's capacity, each with the hit ratio that the load would
//! have there, by the clients' miniatures.
//!
//! | module | sections |
//! |---|---|
//! | this one | `Server`, `Clients`, `Replication`, `Modules`, `Cluster`, `Keyspace`, `Atoll` |
//! | `memory` | `Memory`, `Persistence`, `CPU` |
//! | `counts` | `Stats`, `Commandstats`, `Errorstats`, `Latencystats` |
//!
//! What workers count is as old as a second, but for the worker that is asked.
//!
//! | field of Redis 7.0 that is left out | why |
//! |---|---|
//! | `redis_build_id`, `atomicvar_api`, `gcc_version` | they are about Redis' build |
//! | `monotonic_clock`, `lru_clock` | they are about Redis' own clocks |
//! | `allocator_*`, `rss_overhead_*` | the allocator of this process is not asked; values are in the pool |
//! | `expired_stale_perc`, `expired_time_cap_reached_count`, `expire_cycle_cpu_milliseconds` | no cycle looks for expired keys: clients of the pool find them |
//! | `reply_buffer_shrinks`, `reply_buffer_expands` | no connection has a buffer for replies of its own |

mod counts;
mod memory;

pub(crate) use memory::seconds_used;

use super::{Context, Outcome};
use crate::NearFacts;
use crate::redis::census::{self, Census};
use crate::redis::instance::Instance;
use crate::serve::TEND_PERIOD;
use crate::serve::counters::{Shared, Totals};
use atoll_cache::Engine;
use std::fmt::{Result as Written, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of Redis that clients are told, by which some of them decide what they may send.
/// Semantics and texts are those of 7.0. With an older one than 7.4 redis-py keeps no values of its
/// own (CLIENT TRACKING). What 7.4 has besides and Atoll has not is the time to live of single
/// fields of a hash.
pub const REDIS_VERSION: &str = "7.4.0";

/// `TIME`
pub async fn time<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    c.reply.array(2);
    c.reply.bulk(itoa::Buffer::new().format(now.as_secs()).as_bytes());
    c.reply.bulk(itoa::Buffer::new().format(now.subsec_micros()).as_bytes());
    Ok(())
}

/// What sections are written from.
struct Facts<'a> {
    shared: &'a Shared,
    instance: &'a Instance,
    totals: &'a Totals,
    census: &'a Census,
}

/// When a section is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Also if none is named.
    ByDefault,
    /// If it is named, or all are.
    IfAsked,
}

use Shown::{ByDefault, IfAsked};

type Section = fn(&mut String, &Facts<'_>) -> Written;

const SECTIONS: [(&str, Shown, Section); 14] = [
    ("Server", ByDefault, server),
    ("Clients", ByDefault, clients),
    ("Memory", ByDefault, memory::memory),
    ("Persistence", ByDefault, memory::persistence),
    ("Stats", ByDefault, counts::stats),
    ("Replication", ByDefault, replication),
    ("CPU", ByDefault, memory::cpu),
    ("Modules", ByDefault, |_, _| Ok(())),
    ("Commandstats", IfAsked, counts::commands),
    ("Errorstats", ByDefault, counts::errors),
    ("Latencystats", IfAsked, counts::latencies),
    ("Cluster", ByDefault, |text, _| write!(text, "cluster_enabled:0\r\n")),
    ("Keyspace", ByDefault, keyspace),
    ("Atoll", ByDefault, atoll),
];

/// Publishes what this worker has counted.
pub(super) async fn publish<G: Engine>(c: &Context<'_, G>) -> Outcome {
    let objects = c.cache.objects().await?;
    c.shared.workers[c.worker].publish(&c.tally.borrow(), &c.cache.stats(), objects);
    Ok(())
}

/// `INFO [section...]`
pub async fn info<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    publish(c).await?;
    let totals = c.instance.totals(c.shared);
    let named = |name: &str| c.args.from(1).any(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
    let (all, default) = (named("all") || named("everything"), c.args.len() == 1 || named("default"));
    let is_shown = |name: &str, shown: Shown| all || default && shown == ByDefault || named(name);
    let needs_census = |name: &str| ["Memory", "Keyspace"].contains(&name);
    let census = match SECTIONS.iter().any(|(name, shown, _)| needs_census(name) && is_shown(name, *shown)) {
        true => census::take(c.cache, &c.instance.databases, c.turn()).await?,
        false => Census::default(),
    };
    let facts = Facts { shared: c.shared, instance: c.instance, totals: &totals, census: &census };
    let mut text = String::new();
    for (name, _, section) in SECTIONS.iter().filter(|(name, shown, _)| is_shown(name, *shown)) {
        let separator = if text.is_empty() { "" } else { "\r\n" };
        write!(text, "{separator}# {name}\r\n")
            .and_then(|()| section(&mut text, &facts))
            .expect("memory takes what is written");
    }
    c.reply.text(&text);
    Ok(())
}

fn server(text: &mut String, &Facts { shared, instance, .. }: &Facts<'_>) -> Written {
    let (uptime, now) = (shared.started.elapsed().as_secs(), SystemTime::now().duration_since(UNIX_EPOCH));
    let now_us = now.unwrap_or_default().as_micros();
    write!(text, "redis_version:{REDIS_VERSION}\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0\r\n")?;
    write!(text, "redis_mode:standalone\r\natoll_version:{}\r\n", env!("CARGO_PKG_VERSION"))?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    write!(text, "os:Linux {} {}\r\n", release.trim_ascii(), std::env::consts::ARCH)?;
    write!(text, "arch_bits:{}\r\nmultiplexing_api:epoll\r\n", usize::BITS)?;
    write!(text, "process_id:{}\r\nprocess_supervised:no\r\n", std::process::id())?;
    write!(
        text,
        "run_id:{}\r\ntcp_port:{}\r\nserver_time_usec:{now_us}\r\n",
        instance.run_id(),
        shared.options.port.unwrap_or(0)
    )?;
    write!(text, "uptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n", uptime / 86_400)?;
    // How often each worker tends, whatever was configured.
    let hz = 1000 / TEND_PERIOD.as_millis();
    write!(text, "hz:{hz}\r\nconfigured_hz:{}\r\n", instance.config.hz())?;
    let executable = std::env::current_exe().unwrap_or_default();
    write!(text, "executable:{}\r\nconfig_file:\r\nio_threads_active:0\r\n", executable.display())?;
    write!(text, "worker_threads:{}\r\n", shared.workers.len())
}

fn clients(text: &mut String, &Facts { shared, instance, .. }: &Facts<'_>) -> Written {
    let living = instance.peers.living();
    let largest = |bytes: fn(&crate::serve::handle::Handle) -> usize| {
        living.iter().map(|peer| bytes(&peer.handle)).max().unwrap_or(0)
    };
    let (clients, max) = (shared.clients.load(Relaxed), shared.limits.clients_max());
    write!(text, "connected_clients:{clients}\r\ncluster_connections:0\r\nmaxclients:{max}\r\n")?;
    write!(text, "client_recent_max_input_buffer:{}\r\n", largest(|handle| handle.input_bytes()))?;
    write!(text, "client_recent_max_output_buffer:{}\r\n", largest(|handle| handle.output_bytes()))?;
    let waiting = living.iter().filter(|peer| peer.is_waiting()).count();
    let tracking = instance.tracking.counts().clients;
    write!(text, "blocked_clients:{waiting}\r\ntracking_clients:{tracking}\r\nclients_in_timeout_table:0\r\n")
}

/// The policy that evicts what is used least often.
pub(in crate::redis) const LFU: &str = "allkeys-lfu";

/// The name that Redis has for what comes nearest to what the engine does. Redis has two that look
/// at the use of all keys; what looks at more than how recent it was is the other.
pub(in crate::redis) fn policy(experts: Option<&str>) -> &'static str {
    match experts {
        Some("lru") => "allkeys-lru",
        _ => LFU,
    }
}

fn replication(text: &mut String, &Facts { instance, .. }: &Facts<'_>) -> Written {
    write!(text, "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n")?;
    write!(text, "master_replid:{}\r\nmaster_replid2:{:0>40}\r\n", instance.run_id(), 0)?;
    write!(text, "master_repl_offset:0\r\nsecond_repl_offset:-1\r\nrepl_backlog_active:0\r\n")?;
    write!(text, "repl_backlog_size:0\r\nrepl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n")
}

fn keyspace(text: &mut String, &Facts { census, .. }: &Facts<'_>) -> Written {
    for (database, count) in census.iter().enumerate().filter(|(_, count)| count.keys > 0) {
        let (keys, expires, ttl) = (count.keys, count.expires, count.ttl_mean_ms);
        write!(text, "db{database}:keys={keys},expires={expires},avg_ttl={ttl},subexpires=0\r\n")?;
    }
    Ok(())
}

fn atoll(text: &mut String, &Facts { shared, totals, .. }: &Facts<'_>) -> Written {
    let facts = &shared.facts;
    write!(text, "fabric:{}\r\nengine:{}\r\n", facts.fabric, facts.engine)?;
    if let Some(experts) = &facts.experts {
        write!(text, "experts:{experts}\r\n")?;
    }
    let capacity_bytes = (facts.capacity_bytes)();
    write!(text, "pool_capacity_bytes:{capacity_bytes}\r\npool_used_bytes:{}\r\n", totals.used_bytes)?;
    write!(text, "pool_provided_bytes:{}\r\n", (facts.provided_bytes)())?;
    write!(text, "objects:{}\r\n", totals.objects)?;
    write!(text, "wall_clock_ahead_ms:{}\r\n", (facts.wall_clock_ahead_ms)())?;
    write!(text, "memory_nodes_absent:{}\r\n", (facts.nodes_absent)())?;
    if let Some(near) = (facts.near)() {
        let NearFacts { copies, used_bytes, bytes, is_shared } = near;
        write!(text, "near_maxmemory:{bytes}\r\nnear_used_memory:{used_bytes}\r\nnear_objects:{copies}\r\n")?;
        write!(text, "near_shared:{}\r\n", u8::from(is_shared))?;
    }
    if let Some(curve) = totals.curve() {
        let points: Vec<String> = curve.map(|(capacity, ratio)| format!("{capacity}={ratio:.4}")).collect();
        write!(text, "hit_ratio_by_capacity:{}\r\n", points.join(","))?;
    }
    totals.stats.iter().try_for_each(|(name, number)| write!(text, "{name}:{number}\r\n"))
}

#[cfg(test)]
mod tests {
    use super::policy;

    #[test]
    fn a_policy_is_called_what_redis_would_call_it() {
        for (experts, name) in [(None, "allkeys-lfu"), (Some("lru+lfu"), "allkeys-lfu"), (Some("lru"), "allkeys-lru")] {
            assert_eq!(policy(experts), name, "{experts:?}");
        }
    }
}
