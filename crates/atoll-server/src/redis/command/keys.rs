//! COMMAND GETKEYS and GETKEYSANDFLAGS: which arguments of a command are keys, and what it does to
//! them.

use super::{CommandError, Context, Flag, Id, Outcome, SPECS, bitfield, subcommand, table};
use crate::redis::resp::Args;
use atoll_cache::Engine;
use atoll_cache::cache::parse_integer;

/// Where the command that is asked about begins.
const FROM: usize = 2;

/// Whether it is a subcommand about one key.
fn is_about_key(id: Id, args: Args<'_>, from: usize) -> bool {
    let is_named = |name: &str| args.len() > from + 1 && args.get(from + 1).eq_ignore_ascii_case(name.as_bytes());
    match id {
        Id::Object => ["encoding", "freq", "idletime", "refcount"].into_iter().any(is_named),
        Id::Memory => is_named("usage"),
        _ => false,
    }
}

/// The arguments of the command that is asked about.
fn places(id: Id, args: Args<'_>, from: usize) -> Vec<usize> {
    let (first, last, step) = SPECS[id as usize].keys;
    let count = args.len() - from;
    if SPECS[id as usize].flags.contains(&Flag::Script) {
        let keys = parse_integer(args.get(from + 2)).and_then(|keys| usize::try_from(keys).ok());
        return keys.filter(|keys| *keys <= count - 3).map_or(Vec::new(), |keys| (from + 3..from + 3 + keys).collect());
    }
    if is_about_key(id, args, from) {
        return vec![from + 2];
    }
    if first <= 0 {
        return Vec::new();
    }
    let last = if last < 0 { count as i64 + i64::from(last) } else { i64::from(last) };
    (first as usize..count.min(last as usize + 1)).step_by(step as usize).map(|place| from + place).collect()
}

/// What a command does to its key number `index`, in the words of Redis.
fn flags(id: Id, index: usize, args: Args<'_>) -> &'static [&'static str] {
    let spec = &SPECS[id as usize];
    match (spec.name, index) {
        ("bitfield", _) if !bitfield::writes(args.from(FROM + 2)) => &["RO", "access"],
        ("bitop", 0) => &["OW", "update"],
        ("bitop", _) => &["RO", "access"],
        ("object" | "memory", _) => &["RO"],
        ("exists" | "type" | "strlen" | "touch" | "watch" | "hexists" | "hlen" | "hstrlen", _) => &["RO"],
        ("del" | "unlink", _) => &["RM", "delete"],
        ("set" | "setex" | "psetex" | "mset", _) | ("rename", 1) => &["OW", "update"],
        ("setnx" | "msetnx", _) | ("renamenx", 1) => &["OW", "insert"],
        ("copy", 0) => &["RO", "access"],
        ("copy", _) => &["OW", "update"],
        ("append" | "hsetnx", _) => &["RW", "insert"],
        ("hdel", _) => &["RW", "delete"],
        ("getdel" | "rename" | "renamenx", _) => &["RW", "access", "delete"],
        ("hset" | "hmset" | "setrange" | "expire" | "expireat" | "pexpire" | "pexpireat" | "persist", _) => {
            &["RW", "update"]
        }
        _ if spec.flags.contains(&Flag::Readonly) => &["RO", "access"],
        _ => &["RW", "access", "update"],
    }
}

/// `COMMAND GETKEYS command argument...`, and `COMMAND GETKEYSANDFLAGS` alike.
pub(super) fn get<G: Engine>(c: &mut Context<'_, G>, with_flags: bool) -> Outcome {
    let id = table::find(c.args.get(FROM)).ok_or("ERR Invalid command specified")?;
    let spec = &SPECS[id as usize];
    let is_script = spec.flags.contains(&Flag::Script);
    if spec.keys.0 <= 0 && !is_script && !is_about_key(id, c.args, FROM) {
        return Err("ERR The command has no key arguments".into());
    }
    if !spec.takes(c.args.len() - FROM) || is_about_key(id, c.args, FROM) && c.args.len() < FROM + 3 {
        return Err(CommandError::from("ERR Invalid number of arguments specified for command"));
    }
    let places = places(id, c.args, FROM);
    c.reply.array(places.len());
    for (index, place) in places.into_iter().enumerate() {
        if with_flags {
            c.reply.array(2);
        }
        c.reply.bulk(c.args.get(place));
        if with_flags {
            let flags = flags(id, index, c.args);
            c.reply.set(flags.len());
            flags.iter().for_each(|flag| c.reply.simple(flag));
        }
    }
    Ok(())
}

/// `COMMAND LIST [FILTERBY (MODULE name | ACLCAT category | PATTERN pattern)]`
pub(super) fn list<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    use super::arguments::is;
    let category = |spec: &super::Spec| super::introspect::categories(spec);
    let all = SPECS.iter().flat_map(|spec| {
        let subcommands = subcommand::of_name(spec.name).iter().map(|one| one.name);
        std::iter::once((spec, spec.name)).chain(subcommands.map(move |name| (spec, name)))
    });
    let names: Vec<&str> = match c.args.len() {
        2 => all.map(|(_, name)| name).collect(),
        5 if is(c.args.get(2), "filterby") => {
            let (by, value) = (c.args.get(3), c.args.get(4));
            match () {
                () if is(by, "module") => Vec::new(),
                () if is(by, "aclcat") => {
                    let is_in = |spec: &super::Spec| {
                        category(spec).iter().any(|name| name.as_bytes()[1..].eq_ignore_ascii_case(value))
                    };
                    all.filter(|(spec, _)| is_in(spec)).map(|(_, name)| name).collect()
                }
                () if is(by, "pattern") => {
                    let pattern = value.to_ascii_lowercase();
                    let matches = |name: &str| crate::redis::glob::matches(&pattern, name.as_bytes());
                    all.map(|(_, name)| name).filter(|name| matches(name)).collect()
                }
                () => return Err(CommandError::Syntax),
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    c.reply.array(names.len());
    names.iter().for_each(|name| c.reply.bulk(name.as_bytes()));
    Ok(())
}
