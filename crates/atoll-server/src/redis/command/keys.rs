//! Which arguments of a command are keys, and what it does to them: for COMMAND GETKEYS and
//! GETKEYSANDFLAGS, and for access control.

use super::arguments::is;
use super::{CommandError, Context, Flag, Id, Outcome, SPECS, Spec, bitfield, subcommand, table};
use crate::redis::acl;
use crate::redis::resp::Args;
use atoll_cache::Engine;
use atoll_cache::cache::parse_integer;
use std::iter::StepBy;
use std::ops::Range;

/// Where the command that is asked about begins.
const FROM: usize = 2;

/// The subcommands about a key, which is the argument behind their names.
const ABOUT_A_KEY: [&str; 5] = ["memory|usage", "object|encoding", "object|freq", "object|idletime", "object|refcount"];

/// Whether it is a subcommand about one key.
fn is_about_key(id: Id, args: Args<'_>) -> bool {
    matches!(id, Id::Memory | Id::Object) && ABOUT_A_KEY.contains(&subcommand::full_name(id, args))
}

/// Which arguments of a command are keys.
fn places(id: Id, args: Args<'_>) -> StepBy<Range<usize>> {
    let (first, last, step) = SPECS[id as usize].keys;
    let none = (0..0).step_by(1);
    if SPECS[id as usize].flags.contains(&Flag::Script) {
        let keys = parse_integer(args.get(2)).and_then(|keys| usize::try_from(keys).ok());
        return keys.filter(|keys| *keys <= args.len() - 3).map_or(none, |keys| (3..3 + keys).step_by(1));
    }
    if is_about_key(id, args) {
        return (2..3).step_by(1);
    }
    if first <= 0 {
        return none;
    }
    let last = if last < 0 { args.len() as i64 + i64::from(last) } else { i64::from(last) };
    (first as usize..args.len().min(last as usize + 1)).step_by(step as usize)
}

/// What a command does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct Access {
    /// Whether its reply says something of the value.
    pub(in crate::redis) reads: bool,
    /// Whether it may change the key or its value.
    pub(in crate::redis) writes: bool,
}

/// Which arguments of a command, which the table has checked, are keys, and what it does to them.
pub(in crate::redis) fn accessed(id: Id, args: Args<'_>) -> impl Iterator<Item = (usize, Access)> {
    places(id, args).enumerate().map(move |(index, place)| {
        let flags = flags(id, index, args);
        let writes = ["insert", "update", "delete"].iter().any(|word| flags.contains(word));
        (place, Access { reads: flags.contains(&"access"), writes })
    })
}

/// Keys of a command that are used in the same way, wherever its arguments say nothing else.
pub(super) struct Specification {
    /// The argument that is the first of them.
    pub(super) first: i32,
    /// The last of them as a range has it: counted from the first, or from the last argument if
    /// negative.
    pub(super) last: i32,
    pub(super) step: i32,
    /// Whether the argument `first` says how many they are. They are behind it.
    pub(super) is_counted: bool,
    pub(super) flags: Vec<&'static str>,
}

/// The key specifications of a command.
pub(super) fn specifications(spec: &Spec) -> Vec<Specification> {
    let id = table::find(spec.name.as_bytes()).expect("the command is in the table");
    let (first, last, step) = range(spec);
    let flags = |index| match spec.name {
        // What its arguments may ask for.
        "set" | "bitfield" => vec!["RW", "access", "update", "variable_flags"],
        "spublish" | "ssubscribe" | "sunsubscribe" => vec!["not_key"],
        _ => flags(id, index, Args::new(&[], &[])).to_vec(),
    };
    let counted = |is_counted| Specification { first: 2, last: 0, step: 1, is_counted, flags: flags(0) };
    match first {
        _ if spec.flags.contains(&Flag::Script) => vec![counted(true)],
        0 => Vec::new(),
        _ if last != first && flags(0) != flags(1) => {
            let rest = if last < 0 { last } else { last - first - 1 };
            vec![
                Specification { first, last: 0, step, is_counted: false, flags: flags(0) },
                Specification { first: first + 1, last: rest, step, is_counted: false, flags: flags(1) },
            ]
        }
        _ => {
            let last = if last < 0 { last } else { last - first };
            vec![Specification { first, last, step, is_counted: false, flags: flags(0) }]
        }
    }
}

/// The key specification of a subcommand, if it has a key. None changes it, or tells its value.
pub(super) fn specification_of(subcommand: &str) -> Option<Specification> {
    let is_there = ABOUT_A_KEY.contains(&subcommand);
    is_there.then(|| Specification { first: 2, last: 0, step: 1, is_counted: false, flags: vec!["RO"] })
}

/// The keys of a command as COMMAND says them. Shard channels stand where keys do.
pub(super) fn range(spec: &Spec) -> (i32, i32, i32) {
    match spec.name {
        "spublish" => (1, 1, 1),
        "ssubscribe" | "sunsubscribe" => (1, -1, 1),
        _ => spec.keys,
    }
}

/// What a command does to its key number `index`, in the words of Redis.
fn flags(id: Id, index: usize, args: Args<'_>) -> &'static [&'static str] {
    let spec = &SPECS[id as usize];
    match (spec.name, index) {
        ("bitfield", _) if !bitfield::writes(args.from(2)) => &["RO", "access"],
        ("set", _) if args.from(3).any(|word| is(word, "get")) => &["RW", "access", "update"],
        ("bitop", 0) => &["OW", "update"],
        ("pfmerge", 0) => &["RW", "access", "insert"],
        ("bitop" | "pfmerge", _) => &["RO", "access"],
        ("pfcount", _) => &["RW", "access"],
        ("object" | "memory", _) => &["RO"],
        ("sort" | "sort_ro", _) => &["RO", "access"],
        ("exists" | "type" | "strlen" | "touch" | "watch" | "hexists" | "hlen" | "hstrlen", _) => &["RO"],
        ("del" | "unlink", _) => &["RM", "delete"],
        ("set" | "setex" | "psetex" | "mset", _) | ("rename", 1) => &["OW", "update"],
        ("setnx" | "msetnx", _) | ("renamenx", 1) => &["OW", "insert"],
        ("copy", 0) => &["RO", "access"],
        ("copy", _) => &["OW", "update"],
        ("append" | "hsetnx" | "pfadd", _) => &["RW", "insert"],
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
    let args = c.args.command_at(FROM);
    let id = table::find(args.get(0)).ok_or("ERR Invalid command specified")?;
    if subcommand::place(id, args).is_none() {
        return Err("ERR Invalid command specified".into());
    }
    let spec = &SPECS[id as usize];
    let is_script = spec.flags.contains(&Flag::Script);
    if spec.keys.0 <= 0 && !is_script && !is_about_key(id, args) {
        return Err("ERR The command has no key arguments".into());
    }
    if !spec.takes(args.len()) || is_about_key(id, args) && args.len() < 3 {
        return Err(CommandError::from("ERR Invalid number of arguments specified for command"));
    }
    let places = places(id, args);
    c.reply.array(places.len());
    for (index, place) in places.into_iter().enumerate() {
        if with_flags {
            c.reply.array(2);
        }
        c.reply.bulk(args.get(place));
        if with_flags {
            let flags = flags(id, index, args);
            c.reply.set(flags.len());
            flags.iter().for_each(|flag| c.reply.simple(flag));
        }
    }
    Ok(())
}

/// `COMMAND LIST [FILTERBY (MODULE name | ACLCAT category | PATTERN pattern)]`
pub(super) fn list<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let all = subcommand::all_names();
    let names: Vec<&str> = match c.args.len() {
        2 => all.collect(),
        5 if is(c.args.get(2), "filterby") => {
            let (by, value) = (c.args.get(3), c.args.get(4));
            match () {
                () if is(by, "module") => Vec::new(),
                () if is(by, "aclcat") => {
                    all.filter(|name| acl::categories(name).any(|category| is(value, category))).collect()
                }
                () if is(by, "pattern") => {
                    let pattern = value.to_ascii_lowercase();
                    let matches = |name: &str| crate::redis::glob::matches(&pattern, name.as_bytes());
                    all.filter(|name| matches(name)).collect()
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
