//! What the server has counted since it started, or since `CONFIG RESETSTAT`.
//!
//! `keyspace_hits` and `keyspace_misses` count the keys that commands read, as Redis does, and
//! those of memcached's `get`, `gat` and `mg`. The metrics count the lookups of the cache's
//! clients, for whatever purpose.
//!
//! Commands that have keys are timed by samples: `usec` is their calls times the mean of the
//! samples. Every other command is timed each time.

use super::{Facts, Written};
use crate::redis::acl::Reason;
use crate::redis::channels::Kind;
use crate::serve::counters::{LATENCY_BUCKETS, Shared, Totals, latency_bound_ns};
use std::fmt::Write;

pub(super) fn stats(text: &mut String, &Facts { shared, instance, totals, .. }: &Facts<'_>) -> Written {
    let rates = shared.rates.get();
    write!(text, "total_connections_received:{}\r\n", totals.accepted)?;
    write!(text, "total_commands_processed:{}\r\n", totals.commands())?;
    write!(text, "instantaneous_ops_per_sec:{}\r\n", rates.commands)?;
    write!(text, "total_net_input_bytes:{}\r\n", totals.tally.bytes_in)?;
    write!(text, "total_net_output_bytes:{}\r\n", totals.tally.bytes_out)?;
    write!(text, "total_net_repl_input_bytes:0\r\ntotal_net_repl_output_bytes:0\r\n")?;
    write!(text, "instantaneous_input_kbps:{:.2}\r\n", rates.bytes_in as f64 / 1024.0)?;
    write!(text, "instantaneous_output_kbps:{:.2}\r\n", rates.bytes_out as f64 / 1024.0)?;
    write!(text, "instantaneous_input_repl_kbps:0.00\r\ninstantaneous_output_repl_kbps:0.00\r\n")?;
    write!(text, "rejected_connections:{}\r\n", totals.refused)?;
    write!(text, "sync_full:0\r\nsync_partial_ok:0\r\nsync_partial_err:0\r\n")?;
    write!(text, "expired_keys:{}\r\nevicted_keys:{}\r\n", totals.stat("expirations"), totals.stat("evictions"))?;
    write!(text, "evicted_clients:0\r\n")?;
    let (found, missed) = (totals.tally.keys_found, totals.tally.keys_missed);
    write!(text, "keyspace_hits:{found}\r\nkeyspace_misses:{missed}\r\n")?;
    for (name, kind) in
        [("pubsub_channels", Kind::Channel), ("pubsub_patterns", Kind::Pattern), ("pubsubshard_channels", Kind::Shard)]
    {
        write!(text, "{name}:{}\r\n", instance.channels.active_count(kind))?;
    }
    for name in [
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
        // The capacity is never exceeded.
        "total_eviction_exceeded_time",
        "current_eviction_exceeded_time",
        "unexpected_error_replies",
        "dump_payload_sanitizations",
        // Every worker reads and writes by itself.
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
    ] {
        write!(text, "{name}:0\r\n")?;
    }
    let tracked = instance.tracking.counts();
    write!(text, "tracking_total_keys:{}\r\ntracking_total_items:{}\r\n", tracked.keys, tracked.items)?;
    write!(text, "tracking_total_prefixes:{}\r\n", tracked.prefixes)?;
    write!(text, "total_error_replies:{}\r\n", totals.tally.errors)?;
    write!(text, "total_reads_processed:{}\r\n", totals.tally.reads)?;
    write!(text, "total_writes_processed:{}\r\n", totals.tally.writes)?;
    let denied = |(reason, name)| write!(text, "acl_access_denied_{name}:{}\r\n", instance.users.log.denied(reason));
    Reason::ALL.into_iter().try_for_each(denied)
}

/// Each command that was called or refused, those of another protocol among them: its name, and its
/// place.
fn called(shared: &Shared, totals: &Totals) -> impl Iterator<Item = (&'static str, usize)> {
    let counts = |index: usize| totals.tally.calls[index] + totals.tally.rejected[index] > 0;
    (0..).zip(&shared.commands).filter(move |(index, _)| counts(*index)).map(|(index, name)| (*name, index))
}

pub(super) fn commands(text: &mut String, &Facts { shared, totals, .. }: &Facts<'_>) -> Written {
    for (name, index) in called(shared, totals) {
        let tally = &totals.tally;
        let (calls, timed) = (tally.calls[index], &tally.timed[index]);
        let mean_us = timed.sum_ns as f64 / timed.count().max(1) as f64 / 1000.0;
        let usec = (mean_us * calls as f64).round();
        write!(text, "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={mean_us:.2},")?;
        write!(text, "rejected_calls={},failed_calls={}\r\n", tally.rejected[index], tally.failed[index])?;
    }
    Ok(())
}

pub(super) fn errors(text: &mut String, &Facts { totals, .. }: &Facts<'_>) -> Written {
    totals
        .tally
        .errors_by_code
        .iter()
        .filter(|(_, count)| **count > 0)
        .try_for_each(|(code, count)| write!(text, "errorstat_{code}:count={count}\r\n"))
}

pub(super) fn latencies(text: &mut String, &Facts { shared, totals, .. }: &Facts<'_>) -> Written {
    for (name, index) in called(shared, totals) {
        let timed = &totals.tally.timed[index];
        let count = timed.count();
        if count == 0 {
            continue;
        }
        // The bound below which that part of the calls is.
        let bound = |part: f64| {
            let mut below = 0;
            let bucket = timed.buckets.iter().position(|bucket| {
                below += bucket;
                below as f64 >= part * count as f64
            });
            let bucket = bucket.unwrap_or(LATENCY_BUCKETS).min(LATENCY_BUCKETS - 1);
            latency_bound_ns(bucket).unwrap_or(0) as f64 / 1000.0
        };
        let (p50, p99, p999) = (bound(0.5), bound(0.99), bound(0.999));
        write!(text, "latency_percentiles_usec_{name}:p50={p50:.3},p99={p99:.3},p99.9={p999:.3}\r\n")?;
    }
    Ok(())
}
