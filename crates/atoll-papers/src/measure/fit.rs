//! The profile that gives what was measured.
//!
//! | what was measured | gives |
//! |---|---|
//! | READs and WRITEs of many clients, single and in batches | `serve.read_ps`, `serve.write_ps`, `serve_batch_ps` |
//! | CAS of many clients on words of their own, and on one word | `atomics_host.gap_ps`, `atomics_host.turn_ps` |
//! | batches of READs and a CAS of many clients | `serve.atomic_host_ps` |
//! | READs of [`LARGE_BYTES`](super::LARGE_BYTES) of many clients | `link_bits_per_s` |
//! | one client, its READs single and in batches | `client.batch_ps`, `client.verb_ps` |
//! | the latency of a WRITE, by itself | `wire_ps` |
//! | the latency of a READ, by itself | `host_read_ps` |
//! | the latency of a large READ, by itself | `client.kib_ps` |
//!
//! The other numbers cannot be told apart from outside: the base has them. `issue` becomes what
//! `serve` is, since clients on one host cannot tell which of both NICs is the limit. Where a base
//! says more than was measured in total, its parts shrink to fit.

use super::Measured;
use atoll_sim::network::profile::{AtomicTimes, ClientTimes, EngineTimes};
use atoll_sim::network::traffic::VerbKind;
use atoll_sim::network::{CpuCosts, Profile};
use std::fmt::Write;

/// A difference of rates below this share is noise.
const NOISE: f64 = 0.03;

fn ps(ns: f64) -> u64 {
    (ns.max(0.0) * 1000.0).round() as u64
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1000.0
}

/// The profile that gives what was measured; what was not measured is as in the base.
pub(super) fn fitted(measured: &Measured, base: &Profile) -> Profile {
    let batch_verbs = measured.batch_verbs as f64;
    let share = batch_verbs / (batch_verbs - 1.0).max(1.0);
    let serve_batch = (measured.read_ns - measured.batched_read_ns) * share;
    let serve_batch = if serve_batch < NOISE * measured.read_ns { 0.0 } else { serve_batch };
    let (read, write) = (measured.read_ns - serve_batch, measured.write_ns - serve_batch);
    let gap = measured.swap_ns - serve_batch;
    let hold = (measured.mixed_ns - measured.mixed_reads as f64 * read - serve_batch).clamp(0.0, gap.max(0.0));
    let turn = (measured.swap_one_word_ns - serve_batch).max(gap);
    let engine = EngineTimes {
        read_ps: ps(read),
        write_ps: ps(write),
        atomic_host_ps: ps(hold),
        atomic_device_ps: base.serve.atomic_device_ps,
    };
    let response_bits = 8.0 * base.response_bytes(VerbKind::Read, super::LARGE_BYTES) as f64;
    let profile = Profile {
        client: client(measured, base),
        issue: EngineTimes { atomic_device_ps: base.issue.atomic_device_ps, ..engine },
        serve: engine,
        serve_batch_ps: ps(serve_batch),
        atomics_host: AtomicTimes { gap_ps: ps(gap), turn_ps: ps(turn) },
        link_bits_per_s: (response_bits / measured.large_read_ns * 1e9) as u64,
        ..*base
    };
    with_latencies(measured, profile)
}

/// The processor's times, less what our own code takes.
fn client(measured: &Measured, base: &Profile) -> ClientTimes {
    let cpu = CpuCosts::measured();
    let batch_verbs = measured.batch_verbs as f64;
    let single = measured.client_ns - ns(cpu.poll_ps + cpu.batch_ps + cpu.verb_ps + cpu.completion_ps);
    let batched =
        measured.client_batched_ns - ns(cpu.verb_ps + cpu.completion_ps) - ns(cpu.poll_ps + cpu.batch_ps) / batch_verbs;
    // If many clients do no more together, the network was the limit.
    let is_seen = measured.client_batched_ns > 1.1 * measured.batched_read_ns;
    let of_verb = (batched * batch_verbs - single) / (batch_verbs - 1.0).max(1.0);
    let verb = if is_seen { of_verb.clamp(0.0, single.max(0.0)) } else { ns(base.client.verb_ps) };
    let rest = (single - verb).max(0.0);
    let known = ns(base.client.completion_ps + base.client.switch_ps);
    let scale = if known > rest { rest / known } else { 1.0 };
    ClientTimes {
        batch_ps: ps(rest - known * scale),
        verb_ps: ps(verb),
        completion_ps: ps(ns(base.client.completion_ps) * scale),
        switch_ps: ps(ns(base.client.switch_ps) * scale),
        kib_ps: base.client.kib_ps,
    }
}

/// The same with latencies as they were measured.
fn with_latencies(measured: &Measured, profile: Profile) -> Profile {
    let link_ns = |bytes: u64| bytes as f64 * 8e9 / profile.link_bits_per_s as f64;
    // Each way passes a link out and a link in.
    let links_ns = |verb, bytes| {
        2.0 * (link_ns(profile.request_bytes(verb, bytes)) + link_ns(profile.response_bytes(verb, bytes)))
    };
    let (cpu, client) = (CpuCosts::measured(), &profile.client);
    let processor = ns(cpu.poll_ps + cpu.batch_ps + cpu.verb_ps + cpu.completion_ps)
        + ns(client.batch_ps + client.verb_ps + client.completion_ps);
    let write_servers = ns(profile.issue.write_ps + profile.serve.write_ps + profile.serve_batch_ps);
    let read_servers = ns(profile.issue.read_ps + profile.serve.read_ps + profile.serve_batch_ps);
    let way = measured.write_latency_ns - processor - write_servers - links_ns(VerbKind::Write, 8);
    let known = ns(profile.doorbell_ps + profile.completion_ps + 2 * profile.switch_ps);
    let scale = if known > way { way.max(0.0) / known } else { 1.0 };
    let scaled = |part: u64| ps(ns(part) * scale);
    let host_read = measured.read_latency_ns - processor - read_servers - links_ns(VerbKind::Read, 8) - way.max(0.0);
    let kib = super::LARGE_BYTES as f64 / 1024.0;
    let longer = links_ns(VerbKind::Read, super::LARGE_BYTES) - links_ns(VerbKind::Read, 8);
    let copied = (measured.large_read_latency_ns - measured.read_latency_ns - longer) / kib;
    let copied = if copied < NOISE * longer / kib { 0.0 } else { copied };
    Profile {
        client: ClientTimes { kib_ps: ps(copied), ..profile.client },
        doorbell_ps: scaled(profile.doorbell_ps),
        completion_ps: scaled(profile.completion_ps),
        switch_ps: scaled(profile.switch_ps),
        wire_ps: ps((way - known).max(0.0) / 2.0),
        host_read_ps: ps(host_read),
        ..profile
    }
}

/// The file that `--profile` reads.
pub(super) fn toml(name: &str, base: &str, fabric: &str, profile: &Profile) -> String {
    let Profile { client, serve, issue, atomics_host, .. } = profile;
    let mut text = format!(
        "# Measured on {fabric} by atoll lab measure-network. Times are picoseconds.\n\
         name = \"{name}\"\nbase = \"{base}\"\n"
    );
    for (key, value) in [
        ("doorbell_ps", profile.doorbell_ps),
        ("serve_batch_ps", profile.serve_batch_ps),
        ("link_bits_per_s", profile.link_bits_per_s),
        ("wire_ps", profile.wire_ps),
        ("switch_ps", profile.switch_ps),
        ("host_read_ps", profile.host_read_ps),
        ("completion_ps", profile.completion_ps),
    ] {
        let _ = writeln!(text, "{key} = {value}");
    }
    let _ = writeln!(
        text,
        "[client]\nbatch_ps = {}\nverb_ps = {}\ncompletion_ps = {}\nkib_ps = {}\nswitch_ps = {}",
        client.batch_ps, client.verb_ps, client.completion_ps, client.kib_ps, client.switch_ps
    );
    for (table, engine) in [("issue", issue), ("serve", serve)] {
        let _ = writeln!(
            text,
            "[{table}]\nread_ps = {}\nwrite_ps = {}\natomic_host_ps = {}",
            engine.read_ps, engine.write_ps, engine.atomic_host_ps
        );
    }
    let _ = writeln!(text, "[atomics_host]\ngap_ps = {}\nturn_ps = {}", atomics_host.gap_ps, atomics_host.turn_ps);
    text
}
