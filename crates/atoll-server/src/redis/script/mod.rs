//! Scripts: EVAL and its relatives, SCRIPT.
//!
//! A script runs alone among all commands of this server, as a transaction does
//! (`transaction`). It promises other processes the same: with one key it is
//! one step, for which it may run several times. It runs as a coroutine, which yields the command
//! that it calls: so a command of a script may wait for the fabric as any other. Every millisecond
//! it leaves its worker to the other connections. What a peer needs to end a script runs beside it
//! (`runs_beside`). Other commands wait, and are refused once it has run for
//! `busy-reply-threshold`.
//!
//! | module | concept |
//! |---|---|
//! | `interpreter` | what scripts see, and their limits of time and memory |
//! | `reply` | replies as values of Lua, and the other way |
//! | `json`, `bits`, `msgpack`, `structs` | the libraries `cjson`, `bit`, `cmsgpack` and `struct` |
//! | `number` | numbers as texts and integers |
//! | `stage` | the stack that scripts run on, which they leave for others |
//! | `pattern` | the patterns of `string`, matched within the time |
//! | [`sandbox`] | scripts without a server, for tests of what they may do |
//! | `shebang` | the first line of a script, which may have flags |
//! | `prelude.lua` | the part that is written in Lua |
//!
//! | difference from Redis | why |
//! |---|---|
//! | a script is ended after `script-time-max` milliseconds, 60000 at first; what it has written stays, unless another process has changed its only key; 0 ends none, as in Redis | other commands wait for it |
//! | a function that Lua itself calls, such as an iterator of `for` or a metamethod, cannot call a command | Lua 5.1 cannot yield there |
//! | libraries and `_G` are empty for `#`, `ipairs`, `unpack`, `cmsgpack.pack` and functions of `table` but `foreach`; what `table.insert` puts into one is gone with the script; `getmetatable(_G)` is nil | scripts see them through views that cannot be changed |
//! | `string.dump`, `cmsgpack._COPYRIGHT` and `_DESCRIPTION` are not there; `os.clock` and `server` are, as in later versions | no bytes of compiled functions are made or taken |
//! | `cmsgpack` unpacks 128 tables within each other; it and `struct` return at most 7000 values, and a format of `struct` has at most 64 KiB | stack and time are bounded |
//! | settings of `cjson` are set back before each script, and nesting is at most 2000 | a script leaves nothing for the next one |
//! | a script that does not write may call PFCOUNT | PFCOUNT changes nothing here |
//! | many long strings that differ in few bytes only take longer to make | Lua 5.1 hashes a part of the bytes of a long string |
//! | integers are exact as arguments up to 2^62 | Redis 7.4 has that, 7.0 does not |
//! | the cache of scripts is emptied when it has 64 MiB | its memory is bounded |

mod bits;
mod interpreter;
mod json;
mod msgpack;
mod number;
pub mod pattern;
mod reply;
pub mod sandbox;
mod shebang;
mod stage;
mod structs;

use super::acl::{self, Happened};
use super::command::arguments::{integer, is};
use super::command::{self, CommandError, Context, Flag, Id, Outcome, SPECS, subcommand};
use super::isolation::Batch;
use super::resp::parser::Span;
use super::resp::{Args, Protocol, Reply};
use super::session::Session;
use super::transaction;
use crate::serve::{Output, first, woken_by_itself};
use atoll_cache::Engine;
use futures_util::future::{Either, select};
use interpreter::{Interpreter, Over};
use mlua::{MultiValue, Value};
use sha1::{Digest, Sha1};
use stage::Left;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The most bytes of scripts that are cached.
const CACHED_BYTES_MAX: usize = 64 << 20;

/// The scripts of a server.
#[derive(Default)]
pub(crate) struct Scripts {
    cached: Mutex<Cached>,
    /// Whether a script runs, and whether it is to end.
    is_running: AtomicBool,
    is_killed: Arc<AtomicBool>,
    /// When the script began that runs.
    began: Mutex<Option<Instant>>,
    /// Whether the script that runs has paused.
    has_paused: AtomicBool,
    /// Whether it has called a command that writes: then it cannot be killed.
    has_written: AtomicBool,
    /// Notified when a script pauses for the first time, and when `busy_ms` changes. Most scripts
    /// end before, and need not be told of.
    changed: Notify,
    /// After how many milliseconds other commands are told of a script that runs; 0 for never.
    busy_ms: Milliseconds<5000>,
    /// After how many milliseconds a script is ended; 0 for never. Well after `busy_ms`, so that a
    /// user who reads that a script runs has time to end it.
    time_ms_max: Milliseconds<60_000>,
    /// Bytes of all interpreters.
    lua_bytes: Arc<AtomicUsize>,
}

/// Milliseconds; at first as many as the number says.
struct Milliseconds<const FIRST: u64>(AtomicU64);

impl<const FIRST: u64> Default for Milliseconds<FIRST> {
    fn default() -> Self {
        Self(AtomicU64::new(FIRST))
    }
}

#[derive(Default)]
struct Cached {
    texts: HashMap<[u8; 20], Arc<[u8]>>,
    bytes: usize,
}

/// The SHA-1 of a script, which names it.
fn digest(text: &[u8]) -> [u8; 20] {
    Sha1::digest(text).into()
}

fn hex(digest: &[u8; 20]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("memory takes what is written");
        text
    })
}

/// The digest that a peer wrote.
fn digest_of(text: &[u8]) -> Option<[u8; 20]> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 40 && text.is_ascii())?;
    let mut digest = [0; 20];
    for (byte, at) in digest.iter_mut().zip((0..40).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

impl Scripts {
    fn cached(&self) -> std::sync::MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn get(&self, digest: &[u8; 20]) -> Option<Arc<[u8]>> {
        self.cached().texts.get(digest).cloned()
    }

    /// Caches a script, which can be compiled.
    fn add(&self, digest: [u8; 20], text: Arc<[u8]>) {
        let mut cached = self.cached();
        if cached.texts.contains_key(&digest) {
            return;
        }
        if cached.bytes + text.len() > CACHED_BYTES_MAX {
            *cached = Cached::default();
        }
        cached.bytes += text.len();
        cached.texts.insert(digest, text);
    }

    /// Whether the first line of the script that EVAL or EVALSHA is given says that it does not
    /// write.
    pub(super) fn says_no_writes(&self, id: Id, args: Args<'_>) -> bool {
        let says = |text: &[u8]| shebang::read(text).is_ok_and(|script| script.is_read_only == Some(true));
        match id {
            Id::Eval => says(args.get(1)),
            _ => digest_of(args.get(1)).and_then(|digest| self.get(&digest)).is_some_and(|text| says(&text)),
        }
    }

    /// How many scripts are cached.
    pub(crate) fn count(&self) -> usize {
        self.cached().texts.len()
    }

    /// Bytes of the scripts that are cached.
    pub(crate) fn bytes(&self) -> usize {
        self.cached().bytes
    }

    /// Bytes of the interpreters of all workers.
    pub(crate) fn lua_bytes(&self) -> usize {
        self.lua_bytes.load(Relaxed)
    }

    /// Whether a script runs. All commands wait for it but those that [`runs_beside`] names.
    #[inline]
    pub(crate) fn are_running(&self) -> bool {
        self.is_running.load(Relaxed)
    }

    fn began(&self) -> MutexGuard<'_, Option<Instant>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A script begins, until what is returned is dropped.
    fn begin(&self) -> Running<'_> {
        *self.began() = Some(Instant::now());
        self.is_killed.store(false, Relaxed);
        self.has_paused.store(false, Relaxed);
        self.has_written.store(false, Relaxed);
        self.is_running.store(true, Relaxed);
        Running(self)
    }

    /// The script that runs pauses.
    fn pause(&self) {
        if !self.has_paused.swap(true, Relaxed) {
            self.changed.notify_waiters();
        }
    }

    /// After how many milliseconds other commands are told of a script that runs; 0 for never.
    pub(crate) fn busy_ms(&self) -> u64 {
        self.busy_ms.0.load(Relaxed)
    }

    pub(crate) fn set_busy_ms(&self, ms: u64) {
        self.busy_ms.0.store(ms, Relaxed);
        self.changed.notify_waiters();
    }

    /// After how many milliseconds a script is ended; 0 for never.
    pub(crate) fn time_ms_max(&self) -> u64 {
        self.time_ms_max.0.load(Relaxed)
    }

    /// For scripts that begin from now on.
    pub(crate) fn set_time_ms_max(&self, ms: u64) {
        self.time_ms_max.0.store(ms, Relaxed);
    }

    /// When commands that wait are told of the script that runs. One that was killed ends soon.
    fn busy_at(&self) -> Option<Instant> {
        let (began, ms) = ((*self.began())?, self.busy_ms());
        if ms == 0 || self.is_killed.load(Relaxed) { None } else { began.checked_add(Duration::from_millis(ms)) }
    }

    /// A batch whose first command is `id` waits until it may run. The batch
    /// [enters](Batch::enter), unless the command runs beside a script, or is to be told of it.
    #[cold]
    pub(super) async fn admit(&self, batch: &Batch<'_>, id: Option<Id>, args: Args<'_>) -> Admitted {
        self.admit_where(runs_beside(id, args), batch.enter()).await
    }

    /// Waits for `may_run`, or until a script runs and the command is one that `runs_beside` it, or
    /// is to be told of it.
    pub(super) async fn admit_where<T>(&self, runs_beside: bool, may_run: impl Future<Output = T>) -> Admitted<T> {
        let mut may_run = pin!(may_run);
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if runs_beside && self.are_running() {
                return Admitted::Beside;
            }
            let busy_at = self.busy_at();
            if busy_at.is_some_and(|at| at <= Instant::now()) {
                return Admitted::Busy;
            }
            let until_busy = async {
                match busy_at {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let told = pin!(first(changed, until_busy));
            if let Either::Left((entered, _)) = woken_by_itself(select(may_run.as_mut(), told)).await {
                return Admitted::Entered(entered);
            }
        }
    }

    /// Ends the script that runs, unless it has written.
    fn kill(&self) -> Outcome {
        if !self.are_running() {
            return Err("NOTBUSY No scripts in execution right now.".into());
        }
        if self.has_written.load(Relaxed) {
            return Err(UNKILLABLE.into());
        }
        self.is_killed.store(true, Relaxed);
        Ok(())
    }
}

/// A script runs until this is dropped.
struct Running<'a>(&'a Scripts);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Relaxed);
        *self.0.began() = None;
    }
}

/// How a command may run while scripts may run.
pub(super) enum Admitted<T = ()> {
    /// As any.
    Entered(T),
    /// Beside a script.
    Beside,
    /// Not at all: a script has run for long.
    Busy,
}

/// What a command is told that finds a script that has run for long.
pub(super) const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// What SCRIPT KILL is told of a script that has written: `script-time-max` ends it all the same.
const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
    either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";

/// Where a worker keeps its interpreter.
#[derive(Default)]
pub(crate) struct Interpreters(Option<Box<Interpreter>>);

/// Runs EVAL or one of its relatives. The caller runs alone.
pub(super) async fn run<G: Engine>(id: Id, mut c: Context<'_, G>, interpreters: &mut Interpreters) {
    c.spec = &SPECS[id as usize];
    c.tally.borrow_mut().calls[id as usize] += 1;
    c.tally.borrow_mut().begin();
    if c.instance.monitors.is_any() {
        c.instance.monitors.show(id, &c, false);
    }
    let began = Instant::now();
    let outcome = pin!(evaluate(id, &mut c, interpreters)).await;
    {
        let mut tally = c.tally.borrow_mut();
        let took = began.elapsed();
        c.instance.slow.took(id, c.args, c.session, took);
        tally.timed(id as usize, took, 1);
        tally.failed[id as usize] += u64::from(outcome.is_err());
    }
    c.conclude(outcome);
}

async fn evaluate<G: Engine>(id: Id, c: &mut Context<'_, G>, interpreters: &mut Interpreters) -> Outcome {
    let keys = integer(c.args.get(2))?;
    let more = c.args.len() - 3;
    let keys = match usize::try_from(keys) {
        Ok(keys) if keys > more => return Err("ERR Number of keys can't be greater than number of args".into()),
        Ok(keys) => keys,
        Err(_) => return Err("ERR Number of keys can't be negative".into()),
    };
    let scripts = &c.instance.scripts;
    let is_text = matches!(id, Id::Eval | Id::EvalRo);
    let digest = if is_text { Some(digest(c.args.get(1))) } else { digest_of(c.args.get(1)) };
    let cached = digest.and_then(|digest| scripts.get(&digest));
    let is_new = is_text && cached.is_none();
    let text = cached.or_else(|| is_text.then(|| c.args.get(1).into()));
    let (Some(digest), Some(text)) = (digest, text) else {
        return Err("NOSCRIPT No matching script. Please use EVAL.".into());
    };
    let script = shebang::read(&text)?;
    let must_not_write = matches!(id, Id::EvalRo | Id::EvalshaRo);
    let is_read_only = must_not_write || script.is_read_only == Some(true);
    let failed = |error: mlua::Error| CommandError::Other(format!("ERR {}", reply::said(&error)));
    if interpreters.0.is_none() {
        interpreters.0 =
            Some(Box::new(Interpreter::new(scripts.is_killed.clone(), scripts.lua_bytes.clone()).map_err(failed)?));
    }
    let interpreter = interpreters.0.as_mut().expect("it was made");
    let function = interpreter.compile(digest, script.body).map_err(|error| {
        CommandError::Other(format!("ERR Error compiling script (new function): {}", reply::said(&error)))
    })?;
    if is_new {
        scripts.add(digest, text.clone());
    }
    if must_not_write && script.is_read_only == Some(false) {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    // What it is given as its only key is changed in one step.
    let key = (keys > 0).then(|| c.key(3)).filter(|key| (4..3 + keys).all(|other| c.key(other) == *key));
    let running = scripts.begin();
    let time = Some(scripts.time_ms_max()).filter(|ms| *ms > 0).map(Duration::from_millis);
    let step = async |c: &mut Context<'_, G>| {
        if let Err(error) = interpreter.begin(time, c.args.from(3).take(keys), c.args.from(3 + keys)) {
            return ControlFlow::Break(Err(failed(error)));
        }
        let ended_as = |over: Over, line: Option<usize>| {
            let text = format!("ERR {}", over.text());
            ControlFlow::Break(Err(CommandError::Other(reply::at(&text, &hex(&digest), line.or(script.only_line())))))
        };
        // It may have been killed between two runs.
        if c.instance.scripts.is_killed.load(Relaxed) {
            return ended_as(Over::Killed, None);
        }
        // SELECT of a script is for the script alone.
        let mut session = Session::new(c.session.peer.clone(), c.session.standing.clone());
        session.database = c.session.database;
        // It reads for its connection.
        session.tracks = c.session.tracks.take();
        let ended = pin!(play(is_read_only, c, &mut session, interpreter, function.clone())).await;
        c.session.tracks = session.tracks.take();
        c.session.untold.get_mut().append(session.untold.get_mut());
        interpreter.end();
        match ended {
            Ok(Ended::Returned | Ended::Overtaken) => ControlFlow::Continue(Ok(())),
            // It is not to run again.
            Err(error) => match interpreter.watch.over.get() {
                Some(over) => ended_as(over, interpreter.watch.line.get()),
                None => ControlFlow::Break(Err(failed(error))),
            },
            Ok(Ended::Raised(value)) => {
                let why = reply::raised(&value, &hex(&digest), script.only_line());
                ControlFlow::Continue(Err(CommandError::Other(why)))
            }
        }
    };
    let outcome = pin!(transaction::in_one_step(c, (key.as_deref(), true), step)).await;
    drop(running);
    if interpreter.is_spent() {
        interpreters.0 = None;
    }
    outcome?
}

/// How a script ended.
enum Ended {
    /// Its reply was written.
    Returned,
    Raised(Value),
    /// Another process has changed its key, or the key cannot be changed.
    Overtaken,
}

/// Resumes a script until it ends or calls a command. Where it has had its turn, the worker's other
/// connections run.
async fn on_stage(
    scripts: &Scripts,
    interpreter: &Interpreter,
    thread: &mlua::Thread,
    given: (Value, bool),
) -> mlua::Result<MultiValue> {
    let mut left = interpreter.stage.borrow_mut().resume(thread.clone(), given);
    loop {
        match left {
            Left::Resumed(values) => return values,
            Left::Paused => {
                scripts.pause();
                woken_by_itself(tokio::task::yield_now()).await;
            }
        }
        left = interpreter.stage.borrow_mut().go_on();
    }
}

/// Resumes a script until it ends, and runs the commands that it calls.
async fn play<G: Engine>(
    is_read_only: bool,
    c: &mut Context<'_, G>,
    session: &mut Session,
    interpreter: &Interpreter,
    function: mlua::Function,
) -> mlua::Result<Ended> {
    let lua = &interpreter.lua;
    let thread = lua.create_thread(interpreter.run.clone())?;
    let mut command = Command::default();
    let mut given = (Value::Function(function), false);
    loop {
        let mut values: MultiValue = match on_stage(&c.instance.scripts, interpreter, &thread, given).await {
            Ok(values) => values,
            // Only what must end a script passes its protection.
            Err(error) => match interpreter.watch.over.get() {
                Some(over) => return Err(mlua::Error::runtime(over.text())),
                None => return Err(error),
            },
        };
        if !thread.is_resumable() {
            let is_well = values.pop_front().is_some_and(|first| first == Value::Boolean(true));
            let value = values.pop_front().unwrap_or(Value::Nil);
            return match is_well {
                true => reply::write(&mut c.reply, &value, interpreter.protocol.get()).map(|()| Ended::Returned),
                false => Ok(Ended::Raised(value)),
            };
        }
        // The prelude asks about a command instead of calling it.
        if values.front() == Some(&interpreter::ASKS) {
            values.pop_front();
            given = match may_call(c, session, values, &mut command) {
                Ok(may) => (Value::Boolean(may), false),
                Err(refusal) => (reply::error_table(lua, &refusal.to_string())?, true),
            };
            continue;
        }
        let form = (is_read_only, interpreter.protocol.get());
        let called = pin!(call(c, session, values, form, &mut command)).await;
        if c.cache.has_lost_hold() {
            return Ok(Ended::Overtaken);
        }
        given = match called {
            Ok(()) => {
                let reply = command.reply.whole();
                (reply::read(lua, &reply)?, reply.starts_with(b"-"))
            }
            Err(refusal) => (reply::error_table(lua, &refusal.to_string())?, true),
        };
    }
}

/// A command that a script calls. Its memory serves the next one.
#[derive(Default)]
struct Command {
    /// The arguments, one behind the other.
    bytes: Vec<u8>,
    spans: Vec<Span>,
    reply: Output,
}

impl Command {
    /// Takes the values that are to be its arguments, at least one.
    fn take(&mut self, values: MultiValue) -> Outcome {
        let Self { bytes, spans, .. } = self;
        bytes.clear();
        spans.clear();
        for value in values {
            let start = bytes.len() as u32;
            match value {
                Value::String(text) => bytes.extend_from_slice(&text.as_bytes()),
                Value::Integer(integer) if integer.unsigned_abs() <= 1 << 53 => {
                    bytes.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
                }
                Value::Integer(integer) => bytes.extend_from_slice(number::argument(integer as f64).as_bytes()),
                Value::Number(number) => bytes.extend_from_slice(number::argument(number).as_bytes()),
                _ => return Err("ERR Lua redis lib command arguments must be strings or integers".into()),
            }
            spans.push(Span { start, end: bytes.len() as u32 });
        }
        match spans.is_empty() {
            true => Err("ERR Please specify at least one argument for this redis lib call".into()),
            false => Ok(()),
        }
    }
}

/// Whether the user of the script may run a command. One with a wrong number of arguments does not
/// run, and only a user who may do everything hears nothing of that.
fn may_call<G: Engine>(
    c: &Context<'_, G>,
    session: &mut Session,
    values: MultiValue,
    command: &mut Command,
) -> Result<bool, CommandError> {
    command.take(values)?;
    let args = Args::new(&command.bytes, &command.spans);
    let invalid = || CommandError::from("ERR Invalid command passed to redis.acl_check_cmd()");
    let id = command::table::find(args.get(0)).ok_or_else(invalid)?;
    let spec = &SPECS[id as usize];
    let checked = match spec.flags.contains(&Flag::Container) && args.len() > 1 {
        true => subcommand::check(id, args),
        false => Ok(()),
    };
    let takes = spec.takes(args.len()) && checked.is_ok();
    if !matches!(checked, Ok(()) | Err(CommandError::Arity(_))) {
        return Err(invalid());
    }
    let users = &c.instance.users;
    users.refresh(session);
    Ok(users.frees(session) || takes && users.check(session, id, args).is_ok())
}

/// Runs a command that a script calls, which reads its reply in this form of the protocol.
async fn call<G: Engine>(
    c: &mut Context<'_, G>,
    session: &mut Session,
    values: MultiValue,
    (is_read_only, protocol): (bool, Protocol),
    command: &mut Command,
) -> Outcome {
    command.reply.clear();
    command.take(values)?;
    let Command { bytes, spans, reply } = command;
    let args = Args::new(bytes, spans);
    let found = command::table::find(args.get(0));
    let id = match transaction::check(found, args) {
        Ok(id) => id,
        Err(CommandError::Arity(_)) => return Err("ERR Wrong number of args calling Redis command from script".into()),
        Err(_) if found.is_none() => {
            return Err("ERR Unknown Redis command called from script".into());
        }
        Err(error) => return Err(error),
    };
    let flags = SPECS[id as usize].flags;
    if flags.contains(&Flag::Noscript) {
        return Err("ERR This Redis command is not allowed from script".into());
    }
    let reply = Reply::new(reply, protocol);
    let mut context = Context { args, session, value: &mut *c.value, reply, alone: None, ..*c };
    acl::admit(&mut context, id, Happened::InScript)?;
    if is_read_only && command::writes_or_tells(id) {
        return Err("ERR Write commands are not allowed from read-only scripts.".into());
    }
    if flags.contains(&Flag::Write) {
        context.instance.scripts.has_written.store(true, Relaxed);
    }
    transaction::let_go_before(&context, id).await?;
    context.tally.borrow_mut().begin();
    pin!(command::run(id, &mut context)).await;
    if context.instance.monitors.is_any() {
        context.instance.monitors.show(id, &context, true);
    }
    Ok(())
}

/// EVAL and its relatives run above the table of commands: [`run`].
pub(super) async fn eval<G: Engine>(_: &mut Context<'_, G>) -> Outcome {
    Err("ERR This Redis command is not allowed from script".into())
}

/// `SCRIPT EXISTS digest...`, `SCRIPT FLUSH [ASYNC | SYNC]`, `SCRIPT KILL`, `SCRIPT LOAD script`
pub(super) async fn script<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let scripts = &c.instance.scripts;
    match c.args.get(1) {
        word if is(word, "help") => return subcommand::help(c, Id::Script),
        word if is(word, "exists") => {
            c.reply.array(c.args.len() - 2);
            for text in c.args.from(2) {
                c.reply.yes(digest_of(text).is_some_and(|digest| scripts.get(&digest).is_some()));
            }
        }
        word if is(word, "flush") => {
            match c.args.len() {
                2 => {}
                3 if is(c.args.get(2), "async") || is(c.args.get(2), "sync") => {}
                _ => return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
            }
            *scripts.cached() = Cached::default();
            c.reply.ok();
        }
        word if is(word, "kill") => {
            scripts.kill()?;
            c.reply.ok();
        }
        _ => {
            let text = c.args.get(2);
            Interpreter::check(shebang::read(text)?.body).map_err(|error| {
                let why = reply::said(&error).into_owned();
                CommandError::Other(format!("ERR Error compiling script (new function): {why}"))
            })?;
            let digest = digest(text);
            scripts.add(digest, text.into());
            c.reply.bulk(hex(&digest).as_bytes());
        }
    }
    Ok(())
}

/// Whether a command does not wait for a script that runs: what a peer needs to end it, and what
/// begins and ends a transaction, so that the rest of a pipeline is not taken for single commands.
#[cold]
pub(super) fn runs_beside(id: Option<Id>, args: Args<'_>) -> bool {
    let word = || args.get(1);
    match id {
        Some(Id::Auth | Id::Hello | Id::Multi | Id::Discard | Id::Unwatch) => true,
        Some(Id::Quit | Id::Reset | Id::Shutdown) => true,
        Some(Id::Script) if args.len() > 1 => is(word(), "kill"),
        Some(Id::Client) if args.len() > 1 => {
            ["setinfo", "setname", "getname", "id"].iter().any(|name| is(word(), name))
        }
        _ => false,
    }
}
