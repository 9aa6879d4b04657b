//! The commands.
//!
//! A family is one file with an async handler for each of its commands. [`table`] has one line for
//! each command, by which it is found, checked and shown. A handler writes one reply, or returns an
//! error and has changed nothing. Semantics and texts are those of Redis 7.0; the family's header
//! states where Atoll differs.
//!
//! | family | commands |
//! |---|---|
//! | [`string`] | values as a whole: GET, SET and their relatives |
//! | [`range`] | parts of values: APPEND, GETRANGE, SETRANGE, STRLEN |
//! | [`count`] | values as numbers: INCR and its relatives |
//! | [`bitmap`] | values as bits: SETBIT, BITCOUNT and their relatives |
//! | [`bitfield`] | values as integers of any number of bits |
//! | [`hash`] | values as fields with values of their own |
//! | [`hyperloglog`] | values as sets whose size is estimated |
//! | [`key`] | keys whatever they hold: DEL, EXISTS, TYPE, TOUCH |
//! | [`expire`] | when keys expire |
//! | [`keyspace`] | all keys: SCAN, KEYS, DBSIZE, FLUSHALL |
//! | [`acl`](mod@acl) | users: ACL |
//! | [`config`] | the parameters of the server: CONFIG |
//! | [`connection`] | the connection itself: PING, HELLO, QUIT |
//! | [`client`] | all connections: CLIENT, MONITOR |
//! | `at_once` | what a command does with several keys |
//! | `tracking` | who is told of changes: CLIENT TRACKING |
//! | [`introspect`] | the commands themselves: COMMAND |
//! | [`info`] | the server: INFO, TIME |
//! | [`keys`] | which arguments are keys: COMMAND GETKEYS and LIST |
//! | [`memory`] | how a value is held, and what memory takes: OBJECT, MEMORY |
//! | [`lcs`] | the longest common subsequence of two values |
//! | [`slow`] | commands that took long: SLOWLOG, LATENCY |
//! | [`absent`] | what this server does not have: replication, modules, clusters, SORT |
//! | [`pubsub`] | channels: SUBSCRIBE and its relatives, PUBLISH, PUBSUB |
//! | [`subcommand`] | the subcommands of CLIENT, COMMAND, ... |
//! | `syntax` | how commands are written, for COMMAND DOCS |
//! | `facts` | what COMMAND tells of commands for clients of Redis alone |
//! | `script` | EVAL and its relatives, SCRIPT |
//! | `transaction` | MULTI, EXEC, WATCH and their relatives |

pub mod absent;
pub mod acl;
pub mod arguments;
mod at_once;
pub mod bitfield;
pub mod bitmap;
pub mod client;
pub mod config;
pub mod connection;
pub mod count;
pub mod error;
pub mod expire;
mod facts;
pub mod hash;
pub mod hyperloglog;
pub mod info;
pub mod introspect;
pub mod key;
pub mod keys;
pub mod keyspace;
pub mod lcs;
pub mod memory;
mod modify;
pub mod pubsub;
pub mod range;
pub mod slow;
pub mod string;
pub mod subcommand;
mod syntax;
pub mod table;
mod tracking;

pub use error::CommandError;
pub(super) use table::writes_or_tells;
pub use table::{COMMANDS, Flag, Id, SPECS, Spec};

use crate::redis::database::Database;
use crate::redis::instance::Instance;
use crate::redis::isolation::{Alone, Batch, Turn};
use crate::redis::kind::Kind;
use crate::redis::peers::Last;
use crate::redis::resp::{Args, Reply};
use crate::redis::session::{Replies, Session};
use crate::redis::{script, transaction};
use crate::serve::counters::{Shared, Tally};
use crate::serve::upload;
use atoll_cache::{Cache, Engine, Got, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::pin::pin;

/// The arguments of a handler.
pub struct Context<'a, G: Engine> {
    /// The cache.
    pub cache: &'a Cache<G>,
    /// The buffer of lookups. A reply moves a large value out of it.
    pub value: &'a mut Value,
    /// The worker's counters; borrowed only while counting.
    pub tally: &'a RefCell<Tally>,
    /// The number of the worker.
    pub worker: usize,
    /// The connection.
    pub session: &'a mut Session,
    /// The server.
    pub shared: &'a Shared,
    /// What its connections have in common.
    pub(crate) instance: &'a Instance,
    /// The command.
    pub args: Args<'a>,
    /// The writer of the reply.
    pub reply: Reply<'a>,
    /// The command's line of the table.
    pub spec: &'static Spec,
    /// The batch that the command is part of, unless the command runs alone.
    pub(crate) batch: Option<&'a Batch<'a>>,
    /// What keeps others from running, of a command that runs alone and by itself: not within a
    /// transaction or a script.
    pub(crate) alone: Option<&'a Alone<'a>>,
}

/// A command on so many bytes of values takes so long that others should not wait for its end.
const LARGE_BYTES_MIN: usize = 1 << 20;

impl<'a, G: Engine> Context<'a, G> {
    /// The database of this connection.
    #[inline]
    pub fn database(&self) -> Database {
        self.instance.databases.get(self.session.database)
    }

    /// Argument `index`, which is a key, as the cache knows it.
    #[inline]
    pub fn key(&self, index: usize) -> Cow<'a, [u8]> {
        self.database().stored(self.args.get(index))
    }

    /// The time that a command which takes long leaves to other connections.
    pub(crate) fn turn(&self) -> Turn<'a> {
        Turn::begin(self.batch)
    }

    /// Of a command that runs alone: it moves so many bytes of values, and is about these keys
    /// alone, as the cache knows them. If that takes long, commands with other keys run meanwhile.
    pub(crate) fn moves(&self, bytes: usize, keys: impl Iterator<Item = Vec<u8>>) {
        if let Some(alone) = self.alone.filter(|_| bytes >= LARGE_BYTES_MIN) {
            alone.lock_keys(keys.collect());
        }
    }

    /// The arguments from `index` on, which are keys, as the cache knows them.
    pub fn keys(&self, index: usize) -> Vec<Cow<'a, [u8]>> {
        let database = self.database();
        self.args.from(index).map(|key| database.stored(key)).collect()
    }
}

impl<G: Engine> Context<'_, G> {
    /// Looks up the value of argument `index`, which is a key. Refuses a value of another kind,
    /// counts the read, and tells that a key is missed.
    #[inline]
    pub(crate) async fn look(&mut self, index: usize, kind: Kind) -> Result<bool, CommandError> {
        let is_there = self.cache.get(&self.key(index), self.value).await?;
        self.looked(self.args.get(index), is_there);
        if !is_there {
            return Ok(false);
        }
        kind.check(self.value.meta()).inspect_err(|_| string::forget(self.value))?;
        Ok(true)
    }
}

impl<G: Engine> Context<'_, G> {
    /// As [`look`](Self::look), but a large value may come open, to be read while it is sent. The
    /// command runs by itself, and its reply is sent.
    pub(crate) async fn look_or_open(&mut self, index: usize, kind: Kind) -> Result<Got, CommandError> {
        if self.batch.is_none() || self.session.replies != Replies::Sent {
            return Ok(if self.look(index, kind).await? { Got::Value } else { Got::Absent });
        }
        let got = self.cache.get_or_open(&self.key(index), self.value, upload::BYTES_MIN).await?;
        self.looked(self.args.get(index), !matches!(got, Got::Absent));
        match &got {
            Got::Absent => {}
            Got::Value => kind.check(self.value.meta()).inspect_err(|_| string::forget(self.value))?,
            Got::Open(reading) => kind.check(reading.meta())?,
        }
        Ok(got)
    }

    /// Looks up a part of the value of argument `index`, which is a key: the bytes that `part`
    /// chooses, given the length. Gives the length of a value that is there. As
    /// [`look`](Self::look) otherwise.
    pub(crate) async fn look_at_part<P>(
        &mut self,
        index: usize,
        kind: Kind,
        part: P,
    ) -> Result<Option<usize>, CommandError>
    where
        P: Fn(usize) -> Range<usize> + 'static,
    {
        let chosen = move |meta| if Kind::of(meta) == kind { part(meta.value_bytes) } else { 0..0 };
        let meta = self.cache.get_part(&self.key(index), chosen, self.value).await?;
        self.looked(self.args.get(index), meta.is_some());
        meta.map_or(Ok(()), |meta| kind.check(meta))?;
        Ok(meta.map(|meta| meta.value_bytes))
    }
}

/// A reply was written, or nothing was done for this reason.
pub type Outcome = Result<(), CommandError>;

impl<G: Engine> Context<'_, G> {
    /// Replies with the error of an outcome, if it is one.
    #[inline]
    pub(crate) fn conclude(&mut self, outcome: Outcome) {
        match outcome {
            Ok(()) => {}
            Err(CommandError::Silent) => self.session.closing = true,
            Err(error) => refuse(&error, &mut self.tally.borrow_mut(), &mut self.reply),
        }
    }
}

/// Replies with an error, and counts it.
pub(in crate::redis) fn refuse(error: &CommandError, tally: &mut Tally, reply: &mut Reply<'_>) {
    let text = error.to_string();
    tally.error(text.split(' ').next().unwrap_or_default());
    reply.error(text);
}

/// Runs command `id`, which takes these arguments: `context.spec` is set here.
#[inline]
pub(crate) async fn run<G: Engine>(id: Id, context: &mut Context<'_, G>) {
    context.spec = &SPECS[id as usize];
    context.session.last = Last::command(id);
    if context.session.tracks.is_some() {
        // Boxed, as every rare step.
        Box::pin(context.note_reads(id)).await;
    }
    let outcome = pin!(table::call(id, context)).await;
    {
        // Not before: what INFO shows does not have the INFO, and RESETSTAT leaves itself.
        let place = subcommand::place(id, context.args).expect("the subcommand has been found before");
        let mut tally = context.tally.borrow_mut();
        tally.calls[place] += 1;
        tally.failed[place] += u64::from(outcome.is_err());
    }
    context.conclude(outcome);
}
