//! Commands whose value is stored while it arrives: SET and its relatives.
//!
//! ```text
//! *5\r\n$3\r\nSET\r\n$1\r\nk\r\n$268435456\r\n  ...the value...  \r\n$2\r\nEX\r\n$2\r\n10\r\n
//! |                                          |                |                          |
//! `- begin: a copy of what has arrived       `- into the pool `- the other arguments     `- run
//! ```
//!
//! Then the command runs like any other. In the place of the value it has the beginning of it,
//! which is all that the slow log shows, and a monitor that was not there when the value began.
//! What decides on the command is known only then: options behind the value, a pause, a change of
//! the user's rights. Whatever refuses it, the value is dropped.
//!
//! These commands are collected in memory as before: one that waits for EXEC, one that is refused
//! in any case, and all while a monitor would show their values.

use super::Spoken;
use super::command::{Id, SPECS, table};
use super::instance::Instance;
use super::resp::ProtocolError;
use super::resp::parser::Announced;
use super::session::Way;
use crate::serve::protocol::Client;
use crate::serve::upload::Upload;
use atoll_cache::Engine;

/// An argument behind the value is collected in memory, and copied. No option is longer.
const OPTION_BYTES_MAX: usize = 64 << 10;
/// Bytes of the value that the command has in its place.
const SHOWN_BYTES: usize = super::slow::ARG_BYTES_MAX;

/// A command whose value arrives.
#[derive(Debug)]
pub(crate) struct Arriving {
    /// The command as far as it has arrived, with the beginning of the value in the place of it.
    command: Vec<u8>,
    /// Where the value is in `command`.
    value_at: usize,
    /// Which of the arguments it is.
    place: usize,
    /// The value; taken by the command when that runs.
    upload: Option<Upload>,
    /// Bytes of the line break behind the value that are missing.
    break_missing: usize,
    /// Arguments behind the value.
    left: usize,
}

/// What the next step of a connection is.
pub(crate) enum Step {
    /// More must arrive.
    Drained,
    /// Something was stored.
    Stored,
    /// The bytes behind are no command.
    Invalid(ProtocolError),
    /// The command may run.
    Runs,
}

/// The place of the value among the arguments of a command, if it can be stored while it arrives.
fn value_place(id: Id) -> Option<usize> {
    match id {
        Id::Set | Id::Setnx | Id::Getset => Some(2),
        Id::Setex | Id::Psetex => Some(3),
        _ => None,
    }
}

/// Begins to store the value of a command of which the parser has found the beginning of `input`.
/// Returns how many bytes came before the value.
pub(crate) fn begin<G: Engine>(
    instance: &Instance,
    Spoken { parser, session, arriving, .. }: &mut Spoken,
    client: Client<'_, G>,
    input: &[u8],
) -> Option<usize> {
    let Announced { args, left, at, bytes } = parser.announced(input)?;
    let id = table::find(args.from(0).next()?)?;
    let is_taken = SPECS[id as usize].takes(args.len() + left) && value_place(id) == Some(args.len());
    if !is_taken || session.way(id) != Way::Beside || instance.monitors.is_any() {
        return None;
    }
    instance.users.check(session, id, args).ok()?;
    let key = instance.databases.get(session.database).stored(args.get(1));
    let upload = Upload::begin(client.cache, &key, bytes)?;
    let mut command = format!("*{}\r\n", args.len() + left).into_bytes();
    for arg in args.from(0) {
        command.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        command.extend_from_slice(arg);
        command.extend_from_slice(b"\r\n");
    }
    command.extend_from_slice(format!("${SHOWN_BYTES}\r\n").as_bytes());
    let (value_at, place, upload) = (command.len(), args.len(), Some(upload));
    *arriving = Some(Box::new(Arriving { command, value_at, place, upload, break_missing: 2, left: left - 1 }));
    parser.restart();
    session.peer.handle.upload.begin();
    Some(at)
}

impl Arriving {
    /// The command, once it has arrived.
    pub(crate) fn command(&self) -> &[u8] {
        &self.command
    }

    /// Bytes of the value that are to be read next; 0 behind it.
    pub(crate) fn bytes_expected(&self) -> usize {
        self.upload.as_ref().map_or(0, Upload::bytes_expected)
    }
}

/// Takes what has arrived of such a command, and moves `start` behind it.
pub(crate) async fn take<G: Engine>(
    Spoken { parser, session, arriving, .. }: &mut Spoken,
    client: Client<'_, G>,
    input: &[u8],
    start: &mut usize,
) -> Step {
    let Some(Arriving { command, value_at, place, upload, break_missing, left }) = arriving.as_deref_mut() else {
        return Step::Runs;
    };
    let Some(value) = upload else { return Step::Runs };
    let arrived = &input[*start..];
    if arrived.is_empty() {
        return Step::Drained;
    }
    if !value.is_whole() {
        let shown = (*value_at + SHOWN_BYTES - command.len()).min(arrived.len());
        command.extend_from_slice(&arrived[..shown]);
        let taken = value.take(client.cache, arrived).await;
        session.peer.handle.upload.add(taken);
        *start += taken;
        if value.is_whole() {
            command.extend_from_slice(b"\r\n");
        }
        return Step::Stored;
    }
    if *break_missing > 0 {
        let taken = (*break_missing).min(arrived.len());
        (*start, *break_missing) = (*start + taken, *break_missing - taken);
        if *break_missing > 0 {
            return Step::Drained;
        }
        parser.go_on_with(*left);
    }
    if *left > 0 {
        let rest = &input[*start..];
        match parser.parse(rest) {
            Ok(Some(taken)) => {
                command.extend_from_slice(&rest[..taken]);
                *start += taken;
            }
            Ok(None) if parser.announced(rest).is_some_and(|option| option.bytes > OPTION_BYTES_MAX) => {
                return Step::Invalid(ProtocolError::OptionTooLong);
            }
            Ok(None) => return Step::Drained,
            Err(error) => return Step::Invalid(error),
        }
    }
    parser.restart();
    session.peer.handle.upload.end();
    session.elided = Some((*place, value.bytes() - SHOWN_BYTES));
    session.upload = upload.take();
    Step::Runs
}
