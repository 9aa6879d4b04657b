//! How commands are written, as Redis' documentation has it: for COMMAND DOCS, from which clients
//! make hints.
//!
//! ```text
//! <name>        an argument: a text, or a key or pattern if it is called so
//! <name:type>   an argument of this type
//! WORD          this word itself; before arguments it is their token
//! [...]         may be left out
//! a|b           one of these
//! (...)         together
//! ... behind    once or more; ...* with its token each time
//! ```

use super::{COMMANDS, SPECS};
use crate::redis::resp::Reply;

/// The time that a command takes, as Redis' documentation says it with `O`, and its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syntax {
    pub(super) complexity: &'static str,
    pub(super) arguments: &'static str,
}

macro_rules! syntaxes {
    ($($name:literal $complexity:literal $arguments:literal;)*) => {
        const SYNTAXES: &[(&str, Syntax)] = &[$(($name, Syntax { complexity: $complexity, arguments: $arguments })),*];
    };
}

syntaxes! {
    "acl" "" "";
    "append" "O(1)" "<key> <value>";
    "asking" "O(1)" "";
    "auth" "O(N)" "[<username>] <password>";
    "bitcount" "O(N)" "<key> [<start:integer> <end:integer> [BYTE|BIT]]";
    "bitfield" "O(1)" "<key> [(GET <encoding> <offset:integer>|[OVERFLOW (WRAP|SAT|FAIL)] (SET <encoding> <offset:integer> <value:integer>|INCRBY <encoding> <offset:integer> <increment:integer>)) ...]";
    "bitfield_ro" "O(1)" "<key> [(GET <encoding> <offset:integer>) ...*]";
    "bitop" "O(N)" "<operation> <destkey:key> <key> ...";
    "bitpos" "O(N)" "<key> <bit:integer> [<start:integer> [<end:integer> [BYTE|BIT]]]";
    "client" "" "";
    "cluster" "" "";
    "command" "O(N)" "";
    "config" "" "";
    "copy" "O(N)" "<source:key> <destination:key> [DB <destination-db:integer>] [REPLACE]";
    "dbsize" "O(1)" "";
    "debug" "" "";
    "decr" "O(1)" "<key>";
    "decrby" "O(1)" "<key> <decrement:integer>";
    "del" "O(N)" "<key> ...";
    "discard" "O(N)" "";
    "echo" "O(1)" "<message>";
    "eval" "" "<script> <numkeys:integer> [<key> ...] [<arg> ...]";
    "eval_ro" "" "<script> <numkeys:integer> [<key> ...] [<arg> ...]";
    "evalsha" "" "<sha1> <numkeys:integer> [<key> ...] [<arg> ...]";
    "evalsha_ro" "" "<sha1> <numkeys:integer> [<key> ...] [<arg> ...]";
    "exec" "" "";
    "exists" "O(N)" "<key> ...";
    "expire" "O(1)" "<key> <seconds:integer> [NX|XX|GT|LT]";
    "expireat" "O(1)" "<key> <unix-time-seconds:unix-time> [NX|XX|GT|LT]";
    "expiretime" "O(1)" "<key>";
    "flushall" "O(N)" "[ASYNC|SYNC]";
    "flushdb" "O(N)" "[ASYNC|SYNC]";
    "function" "" "";
    "get" "O(1)" "<key>";
    "getbit" "O(1)" "<key> <offset:integer>";
    "getdel" "O(1)" "<key>";
    "getex" "O(1)" "<key> [EX <seconds:integer>|PX <milliseconds:integer>|EXAT <unix-time-seconds:unix-time>|PXAT <unix-time-milliseconds:unix-time>|PERSIST]";
    "getrange" "O(N)" "<key> <start:integer> <end:integer>";
    "getset" "O(1)" "<key> <value>";
    "hdel" "O(N)" "<key> <field> ...";
    "hello" "O(1)" "[<protover:integer> [AUTH <username> <password>] [SETNAME <clientname>]]";
    "hexists" "O(1)" "<key> <field>";
    "hget" "O(1)" "<key> <field>";
    "hgetall" "O(N)" "<key>";
    "hincrby" "O(1)" "<key> <field> <increment:integer>";
    "hincrbyfloat" "O(1)" "<key> <field> <increment:double>";
    "hkeys" "O(N)" "<key>";
    "hlen" "O(1)" "<key>";
    "hmget" "O(N)" "<key> <field> ...";
    "hmset" "O(N)" "<key> (<field> <value>) ...";
    "hrandfield" "O(N)" "<key> [<count:integer> [WITHVALUES]]";
    "hscan" "O(1)" "<key> <cursor:integer> [MATCH <pattern>] [COUNT <count:integer>]";
    "hset" "O(1)" "<key> (<field> <value>) ...";
    "hsetnx" "O(1)" "<key> <field> <value>";
    "hstrlen" "O(1)" "<key> <field>";
    "hvals" "O(N)" "<key>";
    "incr" "O(1)" "<key>";
    "incrby" "O(1)" "<key> <increment:integer>";
    "incrbyfloat" "O(1)" "<key> <increment:double>";
    "info" "O(1)" "[<section> ...]";
    "keys" "O(N)" "<pattern>";
    "lastsave" "O(1)" "";
    "latency" "" "";
    "lcs" "O(N*M)" "<key1:key> <key2:key> [LEN] [IDX] [MINMATCHLEN <len:integer>] [WITHMATCHLEN]";
    "memory" "" "";
    "mget" "O(N)" "<key> ...";
    "module" "" "";
    "monitor" "" "";
    "move" "O(1)" "<key> <db:integer>";
    "mset" "O(N)" "(<key> <value>) ...";
    "msetnx" "O(N)" "(<key> <value>) ...";
    "multi" "O(1)" "";
    "object" "" "";
    "persist" "O(1)" "<key>";
    "pexpire" "O(1)" "<key> <milliseconds:integer> [NX|XX|GT|LT]";
    "pexpireat" "O(1)" "<key> <unix-time-milliseconds:unix-time> [NX|XX|GT|LT]";
    "pexpiretime" "O(1)" "<key>";
    "pfadd" "O(1)" "<key> [<element> ...]";
    "pfcount" "O(1)" "<key> ...";
    "pfmerge" "O(N)" "<destkey:key> <sourcekey:key> ...";
    "ping" "O(1)" "[<message>]";
    "psetex" "O(1)" "<key> <milliseconds:integer> <value>";
    "psubscribe" "O(N)" "(<pattern>) ...";
    "pttl" "O(1)" "<key>";
    "publish" "O(N+M)" "<channel> <message>";
    "pubsub" "" "";
    "punsubscribe" "O(N+M)" "[<pattern> ...]";
    "quit" "O(1)" "";
    "randomkey" "O(1)" "";
    "readonly" "O(1)" "";
    "readwrite" "O(1)" "";
    "rename" "O(1)" "<key> <newkey:key>";
    "renamenx" "O(1)" "<key> <newkey:key>";
    "reset" "O(1)" "";
    "role" "O(1)" "";
    "scan" "O(1)" "<cursor:integer> [MATCH <pattern>] [COUNT <count:integer>] [TYPE <type>]";
    "script" "" "";
    "select" "O(1)" "<index:integer>";
    "set" "O(1)" "<key> <value> [NX|XX] [GET] [EX <seconds:integer>|PX <milliseconds:integer>|EXAT <unix-time-seconds:unix-time>|PXAT <unix-time-milliseconds:unix-time>|KEEPTTL]";
    "setbit" "O(1)" "<key> <offset:integer> <value:integer>";
    "setex" "O(1)" "<key> <seconds:integer> <value>";
    "setnx" "O(1)" "<key> <value>";
    "setrange" "O(1)" "<key> <offset:integer> <value>";
    "shutdown" "O(N)" "[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]";
    "slowlog" "" "";
    "sort" "O(N+M*log(M))" "<key> [BY <pattern>] [LIMIT <offset:integer> <count:integer>] [GET <pattern> ...*] [ASC|DESC] [ALPHA] [STORE <destination:key>]";
    "sort_ro" "O(N+M*log(M))" "<key> [BY <pattern>] [LIMIT <offset:integer> <count:integer>] [GET <pattern> ...*] [ASC|DESC] [ALPHA]";
    "spublish" "O(N)" "<shardchannel> <message>";
    "ssubscribe" "O(N)" "<shardchannel> ...";
    "strlen" "O(1)" "<key>";
    "subscribe" "O(N)" "<channel> ...";
    "substr" "O(N)" "<key> <start:integer> <end:integer>";
    "sunsubscribe" "O(N)" "[<shardchannel> ...]";
    "swapdb" "O(N)" "<index1:integer> <index2:integer>";
    "time" "O(1)" "";
    "touch" "O(N)" "<key> ...";
    "ttl" "O(1)" "<key>";
    "type" "O(1)" "<key>";
    "unlink" "O(1)" "<key> ...";
    "unsubscribe" "O(N)" "[<channel> ...]";
    "unwatch" "O(1)" "";
    "wait" "O(1)" "<numreplicas:integer> <timeout:integer>";
    "watch" "O(1)" "<key> ...";
}

const _: () = assert!(SYNTAXES.len() == COMMANDS);

/// That of the command in this line of the table.
pub(super) fn of(id: usize) -> Syntax {
    let (name, syntax) = SYNTAXES[id];
    debug_assert_eq!(name, SPECS[id].name);
    syntax
}

/// An argument, or several that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Argument<'s> {
    /// Empty for several.
    name: &'s str,
    kind: Kind<'s>,
    /// The word in front of it.
    token: Option<&'s str>,
    is_optional: bool,
    is_multiple: bool,
    /// Whether the token is there each time.
    repeats_token: bool,
    parts: Vec<Self>,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind<'s> {
    /// Nothing but its token.
    #[default]
    Token,
    Value(&'s str),
    OneOf,
    Block,
}

/// The types of arguments, as Redis calls them.
const TYPES: [&str; 6] = ["double", "integer", "key", "pattern", "string", "unix-time"];

/// The arguments that a text describes.
pub(super) fn parse(text: &str) -> Vec<Argument<'_>> {
    let mut rest = text;
    let mut alternatives = alternatives(&mut rest);
    assert!(rest.is_empty(), "brackets match: {text}");
    if alternatives.len() > 1 { vec![one(alternatives)] } else { alternatives.pop().unwrap_or_default() }
}

/// What stands before a closing bracket or the end: sequences between bars.
fn alternatives<'s>(rest: &mut &'s str) -> Vec<Vec<Argument<'s>>> {
    let mut all = vec![Vec::new()];
    loop {
        *rest = rest.trim_start();
        let last: &mut Vec<Argument<'_>> = all.last_mut().expect("there is one at least");
        let Some(first) = rest.chars().next() else { return all };
        match first {
            ']' | ')' => return all,
            '|' => {
                *rest = &rest[1..];
                all.push(Vec::new());
            }
            '[' | '(' => {
                *rest = &rest[1..];
                let within = alternatives(rest);
                *rest = rest.get(1..).expect("brackets match");
                last.push(Argument { is_optional: first == '[', ..one(within) });
            }
            '<' => {
                let (name, behind) = rest[1..].split_once('>').expect("brackets match");
                *rest = behind;
                let typed = name.split_once(':').filter(|(_, kind)| TYPES.contains(kind));
                let of_name = if TYPES.contains(&name) { name } else { "string" };
                let (name, kind) = typed.unwrap_or((name, of_name));
                last.push(Argument { name, kind: Kind::Value(kind), ..Argument::default() });
            }
            '.' => {
                let behind = rest.trim_start_matches('.');
                let argument = last.last_mut().expect("something is repeated");
                argument.is_multiple = true;
                argument.repeats_token = behind.starts_with('*');
                *rest = behind.trim_start_matches('*');
            }
            _ => {
                let end = rest.find([' ', '|', '[', ']', '(', ')', '<']).unwrap_or(rest.len());
                let (token, behind) = rest.split_at(end);
                *rest = behind;
                last.push(Argument { token: Some(token), ..Argument::default() });
            }
        }
    }
}

/// Alternatives as one argument.
fn one(mut alternatives: Vec<Vec<Argument<'_>>>) -> Argument<'_> {
    if alternatives.len() == 1 {
        return together(alternatives.pop().expect("there is one"));
    }
    let parts = alternatives.into_iter().map(together).collect();
    Argument { kind: Kind::OneOf, parts, ..Argument::default() }
}

/// A sequence as one argument: a word in front is its token.
fn together(mut sequence: Vec<Argument<'_>>) -> Argument<'_> {
    let is_word = |argument: &Argument<'_>| argument.kind == Kind::Token && argument.parts.is_empty();
    if sequence.len() == 1 {
        return sequence.pop().expect("there is one");
    }
    let token = if sequence.first().is_some_and(is_word) { sequence.remove(0).token } else { None };
    match sequence.len() {
        1 => Argument { token, ..sequence.pop().expect("there is one") },
        _ => Argument { kind: Kind::Block, token, parts: sequence, ..Argument::default() },
    }
}

impl Argument<'_> {
    /// Its name: several have that of the first of them.
    fn name(&self) -> String {
        match (self.parts.first(), self.token) {
            (Some(first), _) => first.name(),
            (None, Some(token)) if self.kind == Kind::Token => token.to_lowercase(),
            _ => self.name.to_owned(),
        }
    }

    /// Replies with it. `keys` counts the keys so far; the command has so many key specifications.
    pub(super) fn reply(&self, reply: &mut Reply<'_>, keys: &mut usize, specifications: usize) {
        let kind = match self.kind {
            Kind::Token => "pure-token",
            Kind::Value(kind) => kind,
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        };
        let is_key = kind == "key" && specifications > 0;
        let flags = [
            (self.is_optional, "optional"),
            (self.is_multiple, "multiple"),
            (self.is_multiple && self.repeats_token, "multiple_token"),
        ];
        let flags: Vec<&str> = flags.into_iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| flag).collect();
        let more = [is_key, self.token.is_some(), !flags.is_empty(), !self.parts.is_empty()];
        reply.map(2 + more.iter().filter(|is_there| **is_there).count());
        for (field, text) in [("name", &*self.name()), ("type", kind)] {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if is_key {
            reply.bulk(b"key_spec_index");
            reply.count((*keys).min(specifications - 1));
            *keys += 1;
        }
        if let Some(token) = self.token {
            reply.bulk(b"token");
            reply.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag));
        }
        if !self.parts.is_empty() {
            reply.bulk(b"arguments");
            reply.array(self.parts.len());
            self.parts.iter().for_each(|part| part.reply(reply, keys, specifications));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::command::subcommand;

    #[test]
    fn every_command_has_its_syntax_and_every_syntax_is_one() {
        for (id, spec) in SPECS.iter().enumerate() {
            assert_eq!(SYNTAXES[id].0, spec.name);
            parse(of(id).arguments);
            for subcommand in subcommand::of_name(spec.name) {
                parse(subcommand.arguments());
            }
        }
    }

    #[test]
    fn what_a_syntax_says_is_a_tree_of_arguments() {
        let value = |name, kind| Argument { name, kind: Kind::Value(kind), ..Argument::default() };
        let word = |token| Argument { token: Some(token), ..Argument::default() };
        let nx_or_xx = Argument { kind: Kind::OneOf, parts: vec![word("NX"), word("XX")], ..Argument::default() };
        let seconds = Argument { token: Some("EX"), is_optional: true, ..value("seconds", "integer") };
        assert_eq!(
            parse("<key> [NX|XX] [EX <seconds:integer>]"),
            [value("key", "key"), Argument { is_optional: true, ..nx_or_xx }, seconds]
        );
        let parts = vec![value("offset", "integer"), value("encoding", "string")];
        let block = Argument { kind: Kind::Block, token: Some("GET"), parts, ..Argument::default() };
        assert_eq!(
            parse("[(GET <offset:integer> <encoding>) ...*]"),
            [Argument { is_optional: true, is_multiple: true, repeats_token: true, ..block }]
        );
    }
}
