//! Commands about the commands themselves.
//!
//! What COMMAND says of a command is what Redis 7.0 says of it. Differences: SORT has no keys of
//! BY, GET and STORE. Documentation has no history, and of subcommands no complexity. Arguments
//! that belong together have the name of the first of them. Arguments of subcommands are called and
//! written as HELP has them, and are texts. No command is a module's, so `COMMAND LIST FILTERBY
//! MODULE` finds none.

use super::arguments::is;
use super::subcommand::Subcommand;
use super::{Context, Id, Outcome, SPECS, Spec, facts, keys, subcommand, syntax, table};
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
    let named = || c.args.from(2).map(subcommand::named);
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
            named().for_each(|named| match named {
                Some((id, None)) => describe(&mut c.reply, &SPECS[id as usize]),
                Some((id, Some(subcommand))) => describe_subcommand(&mut c.reply, &SPECS[id as usize], subcommand),
                None => c.reply.null(),
            });
        }
        _ => {
            let of_table = || table::ids().map(|id| (id, None));
            let all = if c.args.len() == 2 { of_table().collect() } else { named().flatten().collect::<Vec<_>>() };
            c.reply.map(all.len());
            all.iter().for_each(|(id, subcommand)| match (&SPECS[*id as usize], subcommand) {
                (spec, None) => document(&mut c.reply, spec),
                (spec, Some(subcommand)) => document_subcommand(&mut c.reply, spec, subcommand),
            });
        }
    }
    Ok(())
}

fn describe(reply: &mut Reply<'_>, spec: &Spec) {
    let subcommands = subcommand::of_name(spec.name);
    // Those of a container are those of its subcommands.
    let own = if subcommands.is_empty() { spec.flags } else { &[] };
    let flags: Vec<&str> =
        own.iter().filter_map(|flag| flag.name()).chain(facts::further_flags(spec.name).iter().copied()).collect();
    describe_head(reply, (spec.name, spec.arity), &flags, keys::range(spec));
    describe_keys(reply, spec.name, &keys::specifications(spec));
    reply.array(subcommands.len());
    subcommands.iter().for_each(|subcommand| describe_subcommand(reply, spec, subcommand));
}

fn describe_subcommand(reply: &mut Reply<'_>, spec: &Spec, subcommand: &Subcommand) {
    let (flags, keys) = (facts::flags_of_subcommand(spec, subcommand.name), keys::specification_of(subcommand.name));
    let range = if keys.is_some() { (2, 2, 1) } else { (0, 0, 0) };
    describe_head(reply, (subcommand.name, subcommand.arity), &flags, range);
    describe_keys(reply, subcommand.name, keys.as_slice());
    reply.array(0);
}

/// The eighth element and the ninth.
fn describe_keys(reply: &mut Reply<'_>, name: &str, specifications: &[keys::Specification]) {
    reply_all(reply, facts::tips(name));
    reply.array(specifications.len());
    specifications.iter().for_each(|one| reply_keys(reply, one));
}

/// The first seven elements of ten.
fn describe_head(
    reply: &mut Reply<'_>,
    (name, arity): (&str, i32),
    flags: &[&str],
    (first, last, step): (i32, i32, i32),
) {
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(arity.into());
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    [first, last, step].iter().for_each(|&number| reply.integer(number.into()));
    let categories = acl::categories(name);
    reply.set(categories.clone().count());
    categories.for_each(|category| reply.simple(&format!("@{category}")));
}

fn reply_all(reply: &mut Reply<'_>, texts: &[&str]) {
    reply.array(texts.len());
    texts.iter().for_each(|text| reply.bulk(text.as_bytes()));
}

/// Replies with a key specification.
fn reply_keys(reply: &mut Reply<'_>, keys: &keys::Specification) {
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(keys.flags.len());
    keys.flags.iter().for_each(|flag| reply.simple(flag));
    let found: (&str, &[(&str, i32)]) = match keys.is_counted {
        true => ("keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", keys.step)]),
        false => ("range", &[("lastkey", keys.last), ("keystep", keys.step), ("limit", 0)]),
    };
    for (part, (kind, numbers)) in [("begin_search", ("index", &[("index", keys.first)][..])), ("find_keys", found)] {
        reply.bulk(part.as_bytes());
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(numbers.len());
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.integer((*number).into());
        }
    }
}

fn document(reply: &mut Reply<'_>, spec: &Spec) {
    let id = table::find(spec.name.as_bytes()).expect("the command is in the table");
    let (syntax, subcommands) = (syntax::of(id as usize), subcommand::of_name(spec.name));
    let arguments = syntax::parse(syntax.arguments);
    let texts = [("summary", spec.summary), ("since", spec.since), ("group", facts::group(spec))];
    let complexity = Some(("complexity", syntax.complexity)).filter(|(_, text)| !text.is_empty());
    let replaced = facts::replaced(spec.name);
    let texts = texts.into_iter().chain(complexity);
    let more = [!arguments.is_empty(), !subcommands.is_empty()];
    let fields = texts.clone().count() + 3 * usize::from(replaced.is_some());
    reply.bulk(spec.name.as_bytes());
    reply.map(fields + more.iter().filter(|is_there| **is_there).count());
    texts.for_each(|(field, text)| reply_text(reply, field, text));
    if let Some((since, by)) = replaced {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("deprecated");
        reply_text(reply, "deprecated_since", since);
        reply_text(reply, "replaced_by", by);
    }
    reply_arguments(reply, &arguments, keys::specifications(spec).len());
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|subcommand| document_subcommand(reply, spec, subcommand));
    }
}

fn document_subcommand(reply: &mut Reply<'_>, spec: &Spec, subcommand: &Subcommand) {
    let arguments = syntax::parse(subcommand.arguments());
    reply.bulk(subcommand.name.as_bytes());
    reply.map(3 + usize::from(!arguments.is_empty()));
    reply_text(reply, "summary", subcommand.help.1);
    reply_text(reply, "since", facts::since(spec, subcommand.name));
    reply_text(reply, "group", facts::group(spec));
    reply_arguments(reply, &arguments, keys::specification_of(subcommand.name).iter().len());
}

fn reply_text(reply: &mut Reply<'_>, field: &str, text: &str) {
    reply.bulk(field.as_bytes());
    reply.bulk(text.as_bytes());
}

/// Replies with arguments, if there are any.
fn reply_arguments(reply: &mut Reply<'_>, arguments: &[syntax::Argument<'_>], specifications: usize) {
    if arguments.is_empty() {
        return;
    }
    reply.bulk(b"arguments");
    reply.array(arguments.len());
    let mut keys = 0;
    arguments.iter().for_each(|argument| argument.reply(reply, &mut keys, specifications));
}
