//! The server: INFO and TIME.
//!
//! INFO shows the metrics under the names that readers of Redis' INFO know. The section `Atoll` has
//! what only Atoll has. There `hit_ratio_by_capacity` lists parts and multiples of the pool's
//! capacity, each with the hit ratio that the load would have there, by the clients' miniatures.

use super::{Context, Outcome};
use crate::redis::census::{self, Census};
use crate::serve::counters::{Shared, Totals};
use atoll_cache::Engine;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of Redis whose commands these are; some clients look at it to know what they may
/// send.
pub const REDIS_VERSION: &str = "7.0.0";

/// `TIME`
pub async fn time<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    c.reply.array(2);
    c.reply.bulk(itoa::Buffer::new().format(now.as_secs()).as_bytes());
    c.reply.bulk(itoa::Buffer::new().format(now.subsec_micros()).as_bytes());
    Ok(())
}

type Section = fn(&mut String, &Shared, &Totals) -> std::fmt::Result;

/// The section that only this protocol knows.
const KEYSPACE: &str = "Keyspace";

const SECTIONS: [(&str, Section); 5] =
    [("Server", server), ("Clients", clients), ("Memory", memory), ("Stats", stats), ("Atoll", atoll)];

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
    let all = c.args.len() == 1 || ["all", "default", "everything"].iter().any(|name| named(name));
    let mut text = String::new();
    for (name, section) in SECTIONS.iter().filter(|(name, _)| all || named(name)) {
        let separator = if text.is_empty() { "" } else { "\r\n" };
        write!(text, "{separator}# {name}\r\n")
            .and_then(|()| section(&mut text, c.shared, &totals))
            .expect("memory takes what is written");
    }
    if all || named(KEYSPACE) {
        let census = census::take(c.cache, &c.instance.databases).await?;
        let separator = if text.is_empty() { "" } else { "\r\n" };
        write!(text, "{separator}# {KEYSPACE}\r\n")
            .and_then(|()| keyspace(&mut text, &census))
            .expect("memory takes what is written");
    }
    c.reply.text(&text);
    Ok(())
}

fn server(text: &mut String, shared: &Shared, _: &Totals) -> std::fmt::Result {
    let uptime = shared.started.elapsed().as_secs();
    write!(text, "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n")?;
    write!(text, "atoll_version:{}\r\n", env!("CARGO_PKG_VERSION"))?;
    write!(text, "os:{} {}\r\n", std::env::consts::OS, std::env::consts::ARCH)?;
    write!(text, "arch_bits:{}\r\nmultiplexing_api:epoll\r\n", usize::BITS)?;
    write!(text, "process_id:{}\r\ntcp_port:{}\r\n", std::process::id(), shared.options.port)?;
    write!(text, "uptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n", uptime / 86_400)?;
    write!(text, "worker_threads:{}\r\n", shared.workers.len())
}

fn clients(text: &mut String, shared: &Shared, _: &Totals) -> std::fmt::Result {
    let (clients, max) = (shared.clients.load(Relaxed), shared.limits.clients_max());
    write!(text, "connected_clients:{clients}\r\nmaxclients:{max}\r\nblocked_clients:0\r\n")
}

fn memory(text: &mut String, shared: &Shared, totals: &Totals) -> std::fmt::Result {
    let capacity_bytes = (shared.facts.capacity_bytes)();
    write!(text, "used_memory:{}\r\nmaxmemory:{capacity_bytes}\r\n", totals.used_bytes)?;
    write!(text, "maxmemory_policy:{}\r\n", policy(shared.facts.experts.as_deref()))
}

/// The name that Redis has for what comes nearest to what the engine does. Redis has two that look
/// at the use of all keys; what looks at more than how recent it was is the other.
pub(in crate::redis) fn policy(experts: Option<&str>) -> &'static str {
    match experts {
        Some("lru") => "allkeys-lru",
        _ => "allkeys-lfu",
    }
}

fn stats(text: &mut String, shared: &Shared, totals: &Totals) -> std::fmt::Result {
    write!(text, "total_connections_received:{}\r\n", shared.accepted.load(Relaxed))?;
    write!(text, "rejected_connections:{}\r\n", shared.refused.load(Relaxed))?;
    write!(text, "total_commands_processed:{}\r\n", totals.commands())?;
    write!(text, "total_error_replies:{}\r\n", totals.tally.errors)?;
    write!(text, "total_net_input_bytes:{}\r\n", totals.tally.bytes_in)?;
    write!(text, "total_net_output_bytes:{}\r\n", totals.tally.bytes_out)?;
    write!(text, "expired_keys:{}\r\nevicted_keys:{}\r\n", totals.stat("expirations"), totals.stat("evictions"))?;
    write!(text, "keyspace_hits:{}\r\nkeyspace_misses:{}\r\n", totals.stat("hits"), totals.misses())
}

fn keyspace(text: &mut String, census: &Census) -> std::fmt::Result {
    for (database, count) in census.iter().enumerate().filter(|(_, count)| count.keys > 0) {
        let (keys, expires, ttl) = (count.keys, count.expires, count.ttl_mean_ms);
        write!(text, "db{database}:keys={keys},expires={expires},avg_ttl={ttl}\r\n")?;
    }
    Ok(())
}

fn atoll(text: &mut String, shared: &Shared, totals: &Totals) -> std::fmt::Result {
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
