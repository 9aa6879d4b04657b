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
//! | [`key`] | keys whatever they hold: DEL, EXISTS, TYPE, TOUCH |
//! | [`expire`] | when keys expire |
//! | [`keyspace`] | all keys: SCAN, KEYS, DBSIZE, FLUSHALL |
//! | [`connection`] | the connection itself: PING, HELLO, CLIENT, QUIT |
//! | [`introspect`] | the commands themselves: COMMAND |
//! | [`info`] | the server: INFO, TIME |

pub mod arguments;
pub mod connection;
pub mod count;
pub mod error;
pub mod expire;
pub mod info;
pub mod introspect;
pub mod key;
pub mod keyspace;
pub mod range;
pub mod string;
pub mod table;

pub use error::CommandError;
pub use table::{COMMANDS, Flag, Id, SPECS, Spec};

use crate::redis::resp::{Args, Reply};
use crate::redis::session::Session;
use crate::serve::counters::{Shared, Tally};
use atoll_cache::{Cache, Engine, Value};
use std::cell::RefCell;
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
    /// The command.
    pub args: Args<'a>,
    /// The writer of the reply.
    pub reply: Reply<'a>,
    /// The command's line of the table.
    pub spec: &'static Spec,
}

/// A reply was written, or nothing was done for this reason.
pub type Outcome = Result<(), CommandError>;

/// Runs a command that [`table::find`] has found to be `id`: `context.spec` is set here.
#[inline]
pub(crate) async fn run<G: Engine>(id: Option<Id>, context: &mut Context<'_, G>) {
    let outcome = match id {
        None => Err(error::unknown(context.args)),
        Some(id) => {
            let spec = &SPECS[id as usize];
            context.spec = spec;
            if spec.takes(context.args.len()) {
                context.tally.borrow_mut().calls[id as usize] += 1;
                pin!(table::call(id, context)).await
            } else {
                Err(CommandError::Arity(spec.name))
            }
        }
    };
    match outcome {
        Ok(()) => {}
        Err(CommandError::Silent) => context.session.closing = true,
        Err(error) => {
            context.tally.borrow_mut().errors += 1;
            context.reply.error(error);
        }
    }
}
