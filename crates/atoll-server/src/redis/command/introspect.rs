//! Commands about the commands themselves.
//!
//! The reply has the ten elements of Redis 7. Key specifications, subcommands and hints are empty.
//! First key, last key and step describe the keys of all commands that Atoll has.

use super::arguments::is;
use super::{Context, Id, Outcome, SPECS, Spec, keys, subcommand, table};
use crate::redis::acl;
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
                None => c.reply.null(),
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
    let categories = acl::categories(spec.name);
    reply.set(categories.clone().count());
    categories.for_each(|category| reply.simple(&format!("@{category}")));
    reply.array(0);
    reply.array(0);
    reply.array(0);
}

/// Redis' group for the families.
fn group(spec: &Spec) -> &'static str {
    match spec.family {
        "string" | "range" | "count" | "lcs" => "string",
        "bitmap" | "bitfield" => "bitmap",
        "hash" => "hash",
        "keyspace" if ["dbsize", "flushall", "flushdb", "swapdb"].contains(&spec.name) => "server",
        "key" | "expire" | "keyspace" => "generic",
        "connection" => "connection",
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

fn document(reply: &mut Reply<'_>, spec: &Spec) {
    reply.bulk(spec.name.as_bytes());
    reply.map(3);
    for (field, text) in [("summary", spec.summary), ("since", spec.since), ("group", group(spec))] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
}
