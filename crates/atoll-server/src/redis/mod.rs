//! The Redis protocol: RESP2 and RESP3, and the commands.
//!
//! | module | concept |
//! |---|---|
//! | [`resp`] | the bytes of the protocol: parser, replies |
//! | [`command`] | the commands: their table, and one file for each family |
//! | `ahead` | commands that have been parsed and wait to run |
//! | `gets` | GETs that follow each other, looked up together |
//! | `session` | what a connection has agreed on with its peer |
//! | [`glob`] | patterns of keys |
//! | [`extended`] | the floating-point numbers of Redis' counters |

mod ahead;
pub mod command;
pub mod extended;
mod gets;
pub mod glob;
pub mod resp;
mod session;

use crate::serve::protocol::{Client, Ended, OUTPUT_BYTES_MAX, Protocol};
use crate::serve::{Output, counters::Tally};
use ahead::{Ahead, Stopped};
use atoll_cache::{Engine, Value};
use command::{Context, Id, SPECS};
use resp::{Parser, ProtocolError, Reply};
use session::Session;
use std::cell::RefCell;
use std::pin::pin;

/// The Redis protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redis;

/// A connection that speaks it.
pub struct Spoken {
    parser: Parser,
    session: Session,
}

/// Memory of a batch.
#[derive(Default)]
pub struct Scratch {
    /// Commands that have been parsed.
    ahead: Ahead,
    /// Where lookups put what they find; a large one is taken from here by its reply.
    value: Value,
}

impl Protocol for Redis {
    const COMMANDS: &'static [&'static str] = &command::table::NAMES;
    const TOO_MANY: &'static [u8] = b"-ERR max number of clients reached\r\n";

    type State = Spoken;
    type Scratch = Scratch;

    fn connect(&self, id: u64) -> Spoken {
        Spoken { parser: Parser::new(), session: Session::new(id) }
    }

    #[inline]
    fn bytes_expected(state: &Spoken) -> usize {
        state.parser.bytes_expected()
    }

    #[inline]
    async fn run<G: Engine>(
        state: &mut Spoken,
        scratch: &mut Scratch,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> Ended {
        loop {
            let stopped = scratch.ahead.parse(&mut state.parser, input, *start);
            if let Some(ended) = pin!(run_parsed(state, scratch, client, input, start, output)).await {
                return ended;
            }
            match stopped {
                Stopped::Enough => {}
                Stopped::Drained => return Ended::Drained,
                Stopped::Invalid(error) => {
                    refuse(client.tally, output, &state.session, error);
                    return Ended::Closing;
                }
            }
        }
    }
}

/// Runs the commands that have been parsed; `None` when all of them have been run and the batch
/// goes on.
#[inline]
async fn run_parsed<G: Engine>(
    state: &mut Spoken,
    Scratch { ahead, value }: &mut Scratch,
    client: Client<'_, G>,
    input: &[u8],
    start: &mut usize,
    output: &mut Output,
) -> Option<Ended> {
    {
        let keys = ahead.keys(&state.parser, input);
        if !keys.is_empty() {
            client.cache.expect(&keys).await;
        }
    }
    let mut index = 0;
    while index < ahead.len() {
        let gets = pin!(gets::run(state, (ahead, index), client, input, output)).await;
        let Spoken { parser, session } = &mut *state;
        index += gets.max(1);
        let (id, args, end) = ahead.command(index - 1, parser, input);
        if gets == 0 && args.len() > 0 {
            let reply = Reply::new(output, session.protocol);
            let Client { cache, tally, shared, worker } = client;
            let context =
                Context { cache, value, tally, shared, worker, session: &mut *session, args, reply, spec: &SPECS[0] };
            pin!(run_sampled(id, context)).await;
        }
        *start = end;
        if session.closing {
            return Some(Ended::Closing);
        }
        if output.len() >= OUTPUT_BYTES_MAX {
            // What has been parsed behind this command is parsed again.
            parser.restart();
            return Some(Ended::Full);
        }
    }
    None
}

/// Runs one command, and takes its time if it is one to be sampled.
///
/// The state of a command under way is large, because that of the largest one is. Here and on the
/// way to here such states are pinned before they are awaited: then they are made where they stay.
/// An await alone moves them there, all their bytes, which cost a fifth of the time.
#[inline]
async fn run_sampled<G: Engine>(id: Option<Id>, mut context: Context<'_, G>) {
    let sampled = context.tally.borrow_mut().begin();
    pin!(command::run(id, &mut context)).await;
    if let Some(began) = sampled {
        context.tally.borrow_mut().sampled(began.elapsed());
    }
}

fn refuse(tally: &RefCell<Tally>, output: &mut Output, session: &Session, error: ProtocolError) {
    tally.borrow_mut().errors += 1;
    Reply::new(output, session.protocol).error(format_args!("ERR Protocol error: {error}"));
}
