//! The subcommands of container commands, one line for each.
//!
//! They are counted and timed each: the tally has the commands first, in the order of [`table`],
//! and behind them the subcommands in the order of this table.

use super::error::unknown_subcommand;
use super::{COMMANDS, CommandError, Context, Id, Outcome, SPECS, table};
use crate::redis::peers::Last;
use crate::redis::resp::Args;
use atoll_cache::Engine;

/// A line of a container's table.
#[derive(Debug)]
pub struct Subcommand {
    /// The container's name and its own: `client|id`.
    pub name: &'static str,
    /// The number of arguments, both names among them; if negative, at least this many.
    pub arity: i32,
    /// How it is written, and what it does.
    pub help: (&'static str, &'static str),
}

impl Subcommand {
    /// How its arguments are written, as `syntax` reads it.
    pub(super) fn arguments(&self) -> &'static str {
        self.help.0.split_once(' ').map_or("", |(_, arguments)| arguments)
    }

    /// Its name without the container's.
    fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or("", |(_, name)| name)
    }
}

macro_rules! subcommands {
    ($($container:ident: $($name:literal $arity:literal $syntax:literal $summary:literal;)*)*) => {
        /// The subcommands of a command, none if it is no container.
        pub fn of(id: Id) -> &'static [Subcommand] {
            match id {
                $(Id::$container => &[$(Subcommand { name: $name, arity: $arity, help: ($syntax, $summary) }),*],)*
                _ => &[],
            }
        }

        const CONTAINERS: [Id; [$(Id::$container),*].len()] = [$(Id::$container),*];
    };
}

subcommands! {
    Acl:
        "acl|cat" -2 "CAT [<category>]" "The categories of commands, or the commands of one";
        "acl|deluser" -3 "DELUSER <user> [<user> ...]" "Removes users, whose connections end";
        "acl|dryrun" -4 "DRYRUN <user> <command> [<argument> ...]" "Whether a user may run a command, which is not run";
        "acl|genpass" -2 "GENPASS [<bits>]" "A random password";
        "acl|getuser" 3 "GETUSER <user>" "What a user may do";
        "acl|help" 2 "HELP" "This text";
        "acl|list" 2 "LIST" "All users as a file has them";
        "acl|load" 2 "LOAD" "Takes all users from the file";
        "acl|log" -2 "LOG [<count>|RESET]" "What was refused, the newest first";
        "acl|save" 2 "SAVE" "Writes all users into the file";
        "acl|setuser" -3 "SETUSER <user> [<rule> ...]" "Makes a user, or changes one by rules";
        "acl|users" 2 "USERS" "The names of all users";
        "acl|whoami" 2 "WHOAMI" "The user of this connection";
    Client:
        "client|caching" 3 "CACHING (YES|NO)" "Whether the client is told of changes of what the next command reads";
        "client|getname" 2 "GETNAME" "The name of this connection";
        "client|getredir" 2 "GETREDIR" "Where invalidation messages go; -1 for nowhere";
        "client|help" 2 "HELP" "This text";
        "client|id" 2 "ID" "The number of this connection";
        "client|info" 2 "INFO" "What the server knows of this connection";
        "client|kill" -3 "KILL <address:port> | (ID <id>|TYPE <type>|ADDR <address:port>|LADDR <address:port>|USER <user>|SKIPME (YES|NO)|MAXAGE <seconds>) ..." "Ends connections";
        "client|list" -2 "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)|ID <id> ...]" "What the server knows of all connections";
        "client|no-evict" 3 "NO-EVICT (ON|OFF)" "Accepted; no connection is evicted";
        "client|no-touch" 3 "NO-TOUCH (ON|OFF)" "Accepted; lookups still count as accesses";
        "client|pause" -3 "PAUSE <milliseconds> [WRITE|ALL]" "Lets commands wait";
        "client|reply" 3 "REPLY (ON|OFF|SKIP)" "Whether this connection gets replies";
        "client|setinfo" 4 "SETINFO (LIB-NAME|LIB-VER) <text>" "Says which library the peer uses";
        "client|setname" 3 "SETNAME <name>" "Names this connection";
        "client|tracking" -3 "TRACKING (ON|OFF) [REDIRECT <id>] [PREFIX <prefix> ...*] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]" "Tells the client when keys change that it has read";
        "client|trackinginfo" 2 "TRACKINGINFO" "Whether the client is told of changes";
        "client|unblock" -3 "UNBLOCK <id> [TIMEOUT|ERROR]" "Ends the waiting of a connection; no command of this server blocks";
        "client|unpause" 2 "UNPAUSE" "Lets commands go on after a pause";
    Command:
        "command|count" 2 "COUNT" "The number of commands";
        "command|docs" -2 "DOCS [<name> ...]" "What commands do";
        "command|getkeys" -4 "GETKEYS <command> <argument> ..." "Which arguments are keys";
        "command|getkeysandflags" -4 "GETKEYSANDFLAGS <command> <argument> ..." "Which arguments are keys, and what the command does to them";
        "command|help" 2 "HELP" "This text";
        "command|info" -2 "INFO [<name> ...]" "Arity, flags and keys of commands";
        "command|list" -2 "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]" "The names of commands";
    Config:
        "config|get" -3 "GET <pattern> [<pattern> ...]" "Parameters and their values";
        "config|help" 2 "HELP" "This text";
        "config|resetstat" 2 "RESETSTAT" "Counts what INFO shows from 0 again";
        "config|rewrite" 2 "REWRITE" "Refused: this server has no configuration file";
        "config|set" -4 "SET <parameter> <value> [<parameter> <value> ...]" "Changes parameters, all or none";
    Function:
        "function|help" 2 "HELP" "This text";
        "function|list" -2 "LIST [LIBRARYNAME <pattern>] [WITHCODE]" "There are none";
        "function|stats" 2 "STATS" "That there are none";
    Latency:
        "latency|doctor" 2 "DOCTOR" "What took long, in words";
        "latency|help" 2 "HELP" "This text";
        "latency|histogram" -2 "HISTOGRAM [<command> ...]" "How long the calls of commands took";
        "latency|history" 3 "HISTORY <event>" "The seconds in which an event was, and how long it took";
        "latency|latest" 2 "LATEST" "Each event's last time and its longest";
        "latency|reset" -2 "RESET [<event> ...]" "Forgets events";
    Memory:
        "memory|doctor" 2 "DOCTOR" "What there is to say about memory";
        "memory|help" 2 "HELP" "This text";
        "memory|malloc-stats" 2 "MALLOC-STATS" "There are no statistics of the allocator";
        "memory|purge" 2 "PURGE" "Accepted; there is nothing to purge";
        "memory|stats" 2 "STATS" "What takes how much memory";
        "memory|usage" -3 "USAGE <key> [SAMPLES <count>]" "The bytes of a key and its value in the pool";
    Module:
        "module|help" 2 "HELP" "This text";
        "module|list" 2 "LIST" "There are none";
    Object:
        "object|encoding" 3 "ENCODING <key>" "How Redis would hold the value";
        "object|freq" 3 "FREQ <key>" "Refused: accesses are not counted for each key";
        "object|help" 2 "HELP" "This text";
        "object|idletime" 3 "IDLETIME <key>" "Refused: accesses are not counted for each key";
        "object|refcount" 3 "REFCOUNT <key>" "1: no two keys share a value";
    Pubsub:
        "pubsub|channels" -2 "CHANNELS [<pattern>]" "The channels that have subscribers";
        "pubsub|help" 2 "HELP" "This text";
        "pubsub|numpat" 2 "NUMPAT" "The number of patterns that have subscribers";
        "pubsub|numsub" -2 "NUMSUB [<channel> ...]" "How many have subscribed to channels, those by a pattern not among them";
        "pubsub|shardchannels" -2 "SHARDCHANNELS [<pattern>]" "The shard channels that have subscribers";
        "pubsub|shardnumsub" -2 "SHARDNUMSUB [<channel> ...]" "How many have subscribed to shard channels";
    Script:
        "script|exists" -3 "EXISTS <digest> [<digest> ...]" "Which scripts the server knows";
        "script|flush" -2 "FLUSH [ASYNC|SYNC]" "Forgets all scripts";
        "script|help" 2 "HELP" "This text";
        "script|kill" 2 "KILL" "Ends the script that runs";
        "script|load" 3 "LOAD <script>" "Makes a script known, and gives its digest";
    Slowlog:
        "slowlog|get" -2 "GET [<count>]" "The newest commands that took long, -1 for all: id, second, microseconds, arguments, address, name";
        "slowlog|help" 2 "HELP" "This text";
        "slowlog|len" 2 "LEN" "How many there are";
        "slowlog|reset" 2 "RESET" "Forgets them";
}

/// The subcommands of the command of this name.
pub(in crate::redis) fn of_name(name: &str) -> &'static [Subcommand] {
    table::find(name.as_bytes()).map_or(&[], of)
}

/// The names of all commands and subcommands.
pub(in crate::redis) fn all_names() -> impl Iterator<Item = &'static str> {
    let subcommands = |name| of_name(name).iter().map(|one| one.name);
    SPECS.iter().flat_map(move |spec| std::iter::once(spec.name).chain(subcommands(spec.name)))
}

/// The names of all that is counted, in the order of the tally.
pub(in crate::redis) fn counted_names() -> Vec<&'static str> {
    let subcommands = CONTAINERS.into_iter().flat_map(of).map(|one| one.name);
    table::NAMES.into_iter().chain(subcommands).collect()
}

/// The place in the tally of a command, or of its subcommand if it has one; `None` if there is no
/// such subcommand.
#[inline]
pub(in crate::redis) fn place(id: Id, args: Args<'_>) -> Option<usize> {
    if of(id).is_empty() || args.len() == 1 { Some(id as usize) } else { place_in(id, args.get(1)) }
}

#[cold]
fn place_in(id: Id, name: &[u8]) -> Option<usize> {
    let before = CONTAINERS.into_iter().take_while(|other| *other != id).map(|other| of(other).len()).sum::<usize>();
    let place = of(id).iter().position(|one| name.eq_ignore_ascii_case(one.own_name().as_bytes()))?;
    Some(COMMANDS + before + place)
}

/// What is called so: a command, or a command and one of its subcommands.
pub(in crate::redis) fn named(name: &[u8]) -> Option<(Id, Option<&'static Subcommand>)> {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let id = table::find(words.next()?)?;
    match words.next() {
        None => Some((id, None)),
        Some(own) => {
            let found = of(id).iter().find(|one| own.eq_ignore_ascii_case(one.own_name().as_bytes()))?;
            Some((id, Some(found)))
        }
    }
}

/// The places in the tally of what is called so: a command with all its subcommands, or one of
/// these.
pub(in crate::redis) fn places(name: &[u8]) -> Vec<usize> {
    let Some((id, subcommand)) = named(name) else { return Vec::new() };
    match subcommand {
        Some(subcommand) => place_in(id, subcommand.own_name().as_bytes()).into_iter().collect(),
        None => {
            let all = of(id).iter().filter_map(|one| place_in(id, one.own_name().as_bytes()));
            std::iter::once(id as usize).chain(all).collect()
        }
    }
}

/// The subcommand that is called, which [`check`] has found; noted as the connection's last
/// command.
pub(in crate::redis) fn called<G: Engine>(c: &mut Context<'_, G>, id: Id) -> &'static str {
    let (all, name) = (of(id), c.args.get(1));
    let place = all.iter().position(|one| name.eq_ignore_ascii_case(one.own_name().as_bytes()));
    let place = place.expect("the subcommand has been found before");
    c.session.last = Last::subcommand(id, place);
    all[place].own_name()
}

/// The name of a command, with its subcommand if it has that one.
pub(in crate::redis) fn full_name(id: Id, args: Args<'_>) -> &'static str {
    let named = |one: &&Subcommand| args.len() > 1 && args.get(1).eq_ignore_ascii_case(one.own_name().as_bytes());
    of(id).iter().find(named).map_or(SPECS[id as usize].name, |one| one.name)
}

/// Checks that a container has this subcommand, and that it takes so many arguments.
#[cold]
pub(in crate::redis) fn check(id: Id, args: Args<'_>) -> Outcome {
    let (all, name) = (of(id), args.get(1));
    let Some(found) = all.iter().find(|one| name.eq_ignore_ascii_case(one.own_name().as_bytes())) else {
        return Err(unknown_subcommand(&SPECS[id as usize].name.to_uppercase(), name));
    };
    match found.arity {
        exactly if exactly >= 0 && args.len() != exactly as usize => Err(CommandError::Arity(found.name)),
        least if args.len() < least.unsigned_abs() as usize => Err(CommandError::Arity(found.name)),
        _ => Ok(()),
    }
}

/// `... HELP`
pub(in crate::redis) fn help<G: Engine>(c: &mut Context<'_, G>, id: Id) -> Outcome {
    let all = of(id);
    c.reply.array(1 + 2 * all.len());
    let container = SPECS[id as usize].name.to_uppercase();
    c.reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for subcommand in all {
        c.reply.simple(subcommand.help.0);
        c.reply.simple(&format!("    {}.", subcommand.help.1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subcommands_of_a_container_stand_in_order_and_one_of_them_is_help() {
        for spec in &SPECS {
            let all = of(super::super::table::find(spec.name.as_bytes()).unwrap());
            assert!(all.is_sorted_by_key(|one| one.name));
            assert!(all.iter().all(|one| one.name.starts_with(&format!("{}|", spec.name))));
            assert_eq!(all.is_empty(), !all.iter().any(|one| one.own_name() == "help"));
        }
    }

    #[test]
    fn every_subcommand_has_a_place_of_its_own_in_the_tally() {
        let names = counted_names();
        for (index, name) in names.iter().enumerate() {
            let places = places(name.as_bytes());
            assert!(places.contains(&index), "{name}");
            let is_container = !name.contains('|') && !of(table::find(name.as_bytes()).unwrap()).is_empty();
            assert_eq!(places.len() == 1, !is_container, "{name}");
            assert!(places.iter().all(|place| names[*place].starts_with(name)), "{name}");
        }
        for other in ["nosuch", "client|nosuch", "get|list", "|", "client|", ""] {
            assert!(places(other.as_bytes()).is_empty(), "{other}");
        }
    }
}
