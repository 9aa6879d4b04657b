//! SLOWLOG and LATENCY: commands that took long.
//!
//! Events are `command` and `fast-command`, as in Redis. `LATENCY HISTOGRAM` scales the timed calls
//! of a command up to all its calls. There is no `LATENCY GRAPH`.

use super::{Context, Id, Outcome, subcommand};
use crate::serve::counters::{Timed, latency_bound_ns};
use atoll_cache::Engine;
use atoll_cache::cache::parse_integer;
use std::sync::atomic::Ordering::Relaxed;

/// Entries that `SLOWLOG GET` shows without a number.
const ENTRIES: usize = 10;

/// `SLOWLOG subcommand ...`
pub async fn slowlog<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match subcommand::called(c, Id::Slowlog) {
        "get" => {
            let most = match c.args.len() {
                2 => ENTRIES,
                3 => {
                    let most = parse_integer(c.args.get(2)).filter(|most| *most >= -1);
                    let most = most.ok_or("ERR count should be greater than or equal to -1")?;
                    usize::try_from(most).unwrap_or(usize::MAX)
                }
                _ => return Err(super::error::unknown_or_arity("SLOWLOG", c.args.get(1))),
            };
            let entries = c.instance.slow.entries(most);
            c.reply.array(entries.len());
            for entry in entries {
                c.reply.array(6);
                [entry.id, entry.at_s, entry.took_us].iter().for_each(|number| c.reply.integer(*number as i64));
                c.reply.array(entry.args.len());
                entry.args.iter().for_each(|arg| c.reply.bulk(arg));
                c.reply.bulk(entry.peer.as_bytes());
                c.reply.bulk(&entry.name);
            }
        }
        "len" => c.reply.count(c.instance.slow.len()),
        "reset" => {
            c.instance.slow.clear();
            c.reply.ok();
        }
        _ => return subcommand::help(c, Id::Slowlog),
    }
    Ok(())
}

/// `LATENCY subcommand ...`
pub async fn latency<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match subcommand::called(c, Id::Latency) {
        "doctor" => {
            let text = diagnosis(c);
            c.reply.text(&text);
        }
        "histogram" => {
            super::info::publish(c).await?;
            histogram(c);
        }
        "history" => {
            let events = c.instance.slow.events();
            let found = std::str::from_utf8(c.args.get(2)).ok().and_then(|name| events.get(name));
            let samples = found.map(|event| &event.samples);
            c.reply.array(samples.map_or(0, |samples| samples.len()));
            for (at_s, ms) in samples.into_iter().flatten() {
                c.reply.array(2);
                c.reply.integer(*at_s as i64);
                c.reply.integer(*ms as i64);
            }
        }
        "latest" => {
            let events = c.instance.slow.events();
            c.reply.array(events.len());
            for (name, event) in events {
                let (at_s, ms) = event.samples.back().copied().unwrap_or_default();
                c.reply.array(4);
                c.reply.bulk(name.as_bytes());
                [at_s, ms, event.max_ms].iter().for_each(|number| c.reply.integer(*number as i64));
            }
        }
        "reset" => {
            let asked: Vec<&[u8]> = c.args.from(2).collect();
            let is_asked = |name: &str| asked.is_empty() || asked.contains(&name.as_bytes());
            let forgotten = c.instance.slow.forget_events(is_asked);
            c.reply.count(forgotten);
        }
        _ => return subcommand::help(c, Id::Latency),
    }
    Ok(())
}

fn diagnosis<G: Engine>(c: &Context<'_, G>) -> String {
    if c.instance.slow.event_ms.load(Relaxed) == 0 {
        return "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \
                \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a \
                deep space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n"
            .to_owned();
    }
    let events = c.instance.slow.events();
    if events.is_empty() {
        return "No command took longer than latency-monitor-threshold.\n".to_owned();
    }
    let mut text = String::new();
    for (name, event) in events {
        let seconds = event.samples.len() as u64;
        let mean_ms = event.samples.iter().map(|(_, ms)| ms).sum::<u64>() / seconds.max(1);
        text += &format!(
            "{name}: in {seconds} seconds a command took long, {mean_ms} ms on average and {} ms at most. SLOWLOG GET \
             shows which.\n",
            event.max_ms
        );
    }
    text
}

/// How many calls took at most so many microseconds: a power of two each, where there are more than
/// below it.
fn steps(timed: &Timed, calls: u64) -> Vec<(u64, u64)> {
    let (all, mut below, mut steps) = (timed.count().max(1), 0, Vec::new());
    for (index, bucket) in timed.buckets.iter().enumerate() {
        below += bucket;
        let bound_us = latency_bound_ns(index).map_or(u64::MAX >> 1, |ns| ns.div_ceil(1000));
        let scaled = (u128::from(below) * u128::from(calls) / u128::from(all)) as u64;
        match steps.last_mut() {
            Some((bound, count)) if *bound == bound_us => *count = scaled,
            Some((_, count)) if *count == scaled => {}
            _ if scaled > 0 => steps.push((bound_us, scaled)),
            _ => {}
        }
    }
    steps
}

/// `LATENCY HISTOGRAM [command...]`
fn histogram<G: Engine>(c: &mut Context<'_, G>) {
    let totals = c.instance.totals(c.shared);
    let names = subcommand::counted_names();
    let asked: Vec<usize> = match c.args.len() {
        2 => (0..names.len()).collect(),
        _ => c.args.from(2).flat_map(subcommand::places).collect(),
    };
    let tally = &totals.tally;
    let found: Vec<usize> = asked.into_iter().filter(|index| tally.timed[*index].count() > 0).collect();
    c.reply.map(found.len());
    for index in found {
        let steps = steps(&tally.timed[index], tally.calls[index]);
        c.reply.bulk(names[index].as_bytes());
        c.reply.map(2);
        c.reply.bulk(b"calls");
        c.reply.integer(tally.calls[index] as i64);
        c.reply.bulk(b"histogram_usec");
        c.reply.map(steps.len());
        for (bound_us, count) in steps {
            c.reply.integer(bound_us as i64);
            c.reply.integer(count as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_cumulative_and_end_at_all_calls() {
        let mut timed = Timed::default();
        // Below 250 ns, 1 us, 2 us, and beyond all bounds.
        (timed.buckets[0], timed.buckets[2], timed.buckets[3]) = (1, 1, 2);
        *timed.buckets.last_mut().unwrap() = 1;
        assert_eq!(steps(&timed, 50), [(1, 20), (2, 40), (u64::MAX >> 1, 50)]);
    }
}
