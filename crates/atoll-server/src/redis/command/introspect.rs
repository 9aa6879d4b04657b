//! Commands about the commands themselves.
//!
//! The reply has the ten elements of Redis 7. Key specifications, subcommands and hints are empty.
//! First key, last key and step describe the keys of all commands that Atoll has.

use super::arguments::is;
use super::{Context, Flag, Id, Outcome, SPECS, Spec, keys, subcommand, table};
use crate::redis::resp::Reply;
use atoll_cache::Engine;

/// `COMMAND`, `COMMAND COUNT`, `COMMAND INFO [name...]`, `COMMAND DOCS [name...]`, `COMMAND LIST
/// ...`, `COMMAND GETKEYS ...`
pub async fn command<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.args.len() == 1 {
        c.reply.array(SPECS.len());
        SPECS.iter().for_each(|spec| describe(&mut c.reply, spec));
        return Ok(());
    }
    let named = || c.args.from(2).map(|name| table::find(name).map(|id| &SPECS[id as usize]));
    match c.args.get(1) {
        word if is(word, "help") => return subcommand::help(c, Id::Command),
        word if is(word, "count") => c.reply.count(SPECS.len()),
        word if is(word, "list") => return keys::list(c),
        word if is(word, "getkeys") => return keys::get(c, false),
        word if is(word, "getkeysandflags") => return keys::get(c, true),
        word if is(word, "info") && c.args.len() == 2 => {
            c.reply.array(SPECS.len());
            SPECS.iter().for_each(|spec| describe(&mut c.reply, spec));
        }
        word if is(word, "info") => {
            c.reply.array(c.args.len() - 2);
            named().for_each(|spec| match spec {
                Some(spec) => describe(&mut c.reply, spec),
                None => c.reply.null_array(),
            });
        }
        _ => {
            let all = if c.args.len() == 2 { SPECS.iter().collect() } else { named().flatten().collect::<Vec<_>>() };
            c.reply.map(all.len());
            all.iter().for_each(|spec| document(&mut c.reply, spec));
        }
    }
    Ok(())
}

fn describe(reply: &mut Reply<'_>, spec: &Spec) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity.into());
    let flags = spec.flags.iter().filter_map(|flag| flag.name());
    reply.set(flags.clone().count());
    flags.for_each(|flag| reply.simple(flag));
    let (first, last, step) = spec.keys;
    [first, last, step].iter().for_each(|&number| reply.integer(number.into()));
    let categories = categories(spec);
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    reply.array(0);
    reply.array(0);
    reply.array(0);
}

/// The categories of a command's access control.
pub(super) fn categories(spec: &Spec) -> Vec<&'static str> {
    let access = match spec.flags {
        flags if flags.contains(&Flag::Write) => Some("@write"),
        flags if flags.contains(&Flag::Readonly) => Some("@read"),
        _ => None,
    };
    let speed = if spec.flags.contains(&Flag::Fast) { "@fast" } else { "@slow" };
    [access, Some(group(spec).1), Some(speed)].into_iter().flatten().collect()
}

/// Redis' group and access category for the families.
fn group(spec: &Spec) -> (&'static str, &'static str) {
    match spec.family {
        "string" | "range" | "count" | "lcs" => ("string", "@string"),
        "bitmap" | "bitfield" => ("bitmap", "@bitmap"),
        "hash" => ("hash", "@hash"),
        "key" | "expire" => ("generic", "@keyspace"),
        "keyspace" if ["dbsize", "flushall", "flushdb", "swapdb"].contains(&spec.name) => ("server", "@keyspace"),
        "keyspace" => ("generic", "@keyspace"),
        "connection" => ("connection", "@connection"),
        "script" => ("scripting", "@scripting"),
        "transaction" => ("transactions", "@transaction"),
        "memory" if spec.name == "object" => ("generic", "@keyspace"),
        "memory" => ("server", "@read"),
        "pubsub" => ("pubsub", "@pubsub"),
        "introspect" => ("server", "@connection"),
        _ => ("server", "@dangerous"),
    }
}

fn document(reply: &mut Reply<'_>, spec: &Spec) {
    reply.bulk(spec.name.as_bytes());
    reply.map(3);
    for (field, text) in [("summary", spec.summary), ("since", spec.since), ("group", group(spec).0)] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
}
