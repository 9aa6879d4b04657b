//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Commands behind MULTI wait in the connection's [`Queue`]. EXEC runs them one after the other,
//! alone among all commands of this server ([`isolation`](super::isolation)).
//!
//! | towards | a transaction is |
//! |---|---|
//! | other connections of this server | one step |
//! | other servers and processes of the pool, if all its commands are about one key | one step |
//! | the same, if they are about several keys | as many steps as it has commands, each atomic for its key |
//!
//! A transaction about one key runs on what the key has at one moment, and publishes the outcome
//! only if no other process has changed the key meanwhile; otherwise it runs again, for at most
//! [`TIME_MAX`] ([`Cache::hold`]). A script that is given one key does the same.
//! Once it turns to something else, what it has made of the key is published, and it goes on in
//! many steps. Replies and events are those of the last run. Monitors, statistics and the slow log
//! show each run. If the outcome cannot be published, EXEC replies with the error alone.
//!
//! WATCH notes what it finds at its keys: each write of a key by any process has a token of its
//! own. EXEC compares, alone, and runs nothing if a key has another token or expiry. The only key
//! of a transaction is compared in the same step. A change of another key by another process behind
//! that look is not seen. An object that was evicted or has expired has changed. What went and came
//! back is as it was, and for Redis has changed: a key that was absent, an expiry, databases that
//! changed places twice.

use super::acl::{self, Happened};
use super::command::error::unknown;
use super::command::{CommandError, Context, Flag, Id, Outcome, SPECS, keys, subcommand};
use super::resp::Args;
use super::resp::parser::{COMMAND_BYTES_MAX, Span};
use super::script::{self, Interpreters};
use super::session::Session;
use atoll_cache::{Cache, Engine, KEY_BYTES_MAX};
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::{Duration, Instant};

/// The most keys that a connection watches.
const WATCHED_MAX: usize = 1 << 16;

/// A step that has taken so long is not done again.
const TIME_MAX: Duration = Duration::from_secs(5);

/// The error of a step that is not done again.
const OVERTAKEN: &str = "ERR another process of the pool has changed the key meanwhile: nothing was done, try again";

/// Commands that wait for EXEC.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The arguments of all commands, one behind the other.
    bytes: Vec<u8>,
    spans: Vec<Span>,
    commands: Vec<Queued>,
    /// Whether a command was refused: then none of them runs.
    is_broken: bool,
}

#[derive(Debug)]
struct Queued {
    id: Id,
    start: usize,
    first_span: usize,
    end_span: usize,
}

impl Queue {
    fn push(&mut self, id: Id, args: Args<'_>) -> Outcome {
        if SPECS[id as usize].flags.contains(&Flag::NoMulti) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        let more: usize = args.from(0).map(<[u8]>::len).sum();
        if self.bytes.len() + more > COMMAND_BYTES_MAX {
            return Err("ERR the commands since MULTI have more bytes than one command may have".into());
        }
        let (start, first_span) = (self.bytes.len(), self.spans.len());
        for arg in args.from(0) {
            let at = (self.bytes.len() - start) as u32;
            self.bytes.extend_from_slice(arg);
            self.spans.push(Span { start: at, end: at + arg.len() as u32 });
        }
        self.commands.push(Queued { id, start, first_span, end_span: self.spans.len() });
        Ok(())
    }

    /// The commands, in order.
    pub(super) fn commands(&self) -> impl ExactSizeIterator<Item = (Id, Args<'_>)> {
        self.commands.iter().map(|command| {
            let spans = &self.spans[command.first_span..command.end_span];
            (command.id, Args::new(&self.bytes[command.start..], spans))
        })
    }

    /// Bytes of its memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let Self { bytes, spans, commands, .. } = self;
        let lists = spans.capacity() * size_of::<Span>() + commands.capacity() * size_of::<Queued>();
        size_of::<Self>() + bytes.capacity() + lists
    }

    /// Why none of the commands may run.
    pub(super) fn refusal(&self) -> Outcome {
        match self.is_broken {
            true => Err("EXECABORT Transaction discarded because of previous errors.".into()),
            false => Ok(()),
        }
    }
}

/// A key that is watched, and the object that was there: its token and expiry.
#[derive(Debug)]
pub(crate) struct Watched {
    database: u8,
    key: Vec<u8>,
    found: Option<(u64, Option<u64>)>,
}

/// The token and the expiry of a key's object.
async fn found<G: Engine>(cache: &Cache<G>, stored: &[u8]) -> Result<Option<(u64, Option<u64>)>, CommandError> {
    Ok(cache.peek(stored).await?.map(|meta| (meta.token, meta.expiry_ms)))
}

impl Session {
    /// Puts a command behind those that wait for EXEC. An error breaks the transaction.
    pub(super) fn queue(&mut self, id: Id, args: Args<'_>) -> Outcome {
        let queue = self.queue.as_mut().expect("a command is queued behind MULTI");
        let queued = queue.push(id, args);
        queue.is_broken |= queued.is_err();
        queued
    }

    /// A command was refused: no command since MULTI will run.
    pub(super) fn break_queue(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.is_broken = true;
        }
    }

    /// Forgets the commands since MULTI, and the keys that are watched.
    pub(super) fn forget_queue(&mut self) {
        self.queue = None;
        self.watched = Vec::new();
    }
}

/// Whether there is such a command and it takes so many arguments.
#[inline]
pub(super) fn check(id: Option<Id>, args: Args<'_>) -> Result<Id, CommandError> {
    let id = id.ok_or_else(|| unknown(args))?;
    let spec = &SPECS[id as usize];
    if !spec.takes(args.len()) {
        return Err(CommandError::Arity(spec.name));
    }
    if spec.flags.contains(&Flag::Container) && args.len() > 1 {
        subcommand::check(id, args)?;
    }
    Ok(id)
}

/// Whether those of the watched keys are as they were that `is_chosen`, as the cache knows them.
async fn are_unchanged<G: Engine>(
    c: &Context<'_, G>,
    watched: &[Watched],
    is_chosen: impl Fn(&[u8]) -> bool,
) -> Result<bool, CommandError> {
    for key in watched {
        let stored = c.instance.databases.get(key.database).stored(&key.key);
        if is_chosen(&stored) && found(c.cache, &stored).await? != key.found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The key that all commands are about, as the cache knows it.
fn only_key<G: Engine>(c: &Context<'_, G>, queue: &Queue) -> Option<Vec<u8>> {
    let database = c.database();
    let mut only = None;
    for (id, args) in queue.commands() {
        let mut has_key = false;
        for (place, _) in keys::accessed(id, args) {
            let key = database.stored(args.get(place));
            if only.get_or_insert_with(|| key.to_vec())[..] != *key {
                return None;
            }
            has_key = true;
        }
        if !has_key {
            return None;
        }
    }
    only
}

/// Does what is about this key alone in one step for the whole pool: again and again, until no
/// other process has come in between. Replies and events of the last time count. A break says that
/// it is not to be done again. Without a key, or within such a step, it is done once. `reads` tells
/// whether it may look at the key.
pub(super) async fn in_one_step<G: Engine, T>(
    c: &mut Context<'_, G>,
    (key, reads): (Option<&[u8]>, bool),
    mut each: impl AsyncFnMut(&mut Context<'_, G>) -> ControlFlow<T, T>,
) -> Result<T, CommandError> {
    let cache = c.cache;
    let Some(key) = key.filter(|key| key.len() <= KEY_BYTES_MAX && !cache.is_held()) else {
        let done = pin!(each(c)).await;
        // Nor is the step around it.
        c.session.ends_step = done.is_break() && cache.is_held();
        let (ControlFlow::Continue(done) | ControlFlow::Break(done)) = done;
        return Ok(done);
    };
    let (mark, began) = (c.reply.output().mark(), Instant::now());
    loop {
        if reads && c.session.tracks.is_some() {
            Box::pin(c.note(key)).await;
        }
        let hold = cache.hold(key).await?;
        let done = pin!(each(c)).await;
        let is_over = std::mem::take(&mut c.session.ends_step) || began.elapsed() > TIME_MAX;
        match (hold.publish().await, done) {
            (Ok(true), ControlFlow::Continue(done) | ControlFlow::Break(done)) => {
                c.tell_held();
                return Ok(done);
            }
            (outcome, done) => {
                c.session.untold.get_mut().clear();
                c.reply.output().take_back(mark);
                outcome?;
                match done {
                    ControlFlow::Break(done) => return Ok(done),
                    ControlFlow::Continue(_) if is_over => return Err(OVERTAKEN.into()),
                    ControlFlow::Continue(_) => {}
                }
            }
        }
    }
}

/// Whether a command that has no keys leaves no trace that another connection could see.
fn is_traceless(id: Id) -> bool {
    let flags = SPECS[id as usize].flags;
    let shows = [Flag::Pubsub, Flag::Write, Flag::Admin];
    flags.contains(&Flag::Fast) && !shows.iter().any(|flag| flags.contains(flag))
}

/// A command is about to run. If it is about anything but keys, a hold ends before.
pub(super) async fn let_go_before<G: Engine>(c: &Context<'_, G>, id: Id) -> Outcome {
    if c.cache.is_held() && keys::accessed(id, c.args).next().is_none() && !is_traceless(id) {
        c.cache.let_go().await?;
    }
    Ok(())
}

/// `EXEC` behind MULTI. The caller runs alone.
pub(super) async fn run<G: Engine>(mut c: Context<'_, G>, interpreters: &mut Interpreters) {
    pin!(execute(&mut c, interpreters)).await;
    if c.instance.monitors.is_any() {
        c.instance.monitors.show(Id::Exec, &c, false);
    }
}

/// Runs the commands since MULTI.
async fn execute<G: Engine>(c: &mut Context<'_, G>, interpreters: &mut Interpreters) {
    let queue = c.session.queue.take().expect("EXEC runs a queue");
    let watched = std::mem::take(&mut c.session.watched);
    c.tally.borrow_mut().calls[Id::Exec as usize] += 1;
    let began = Instant::now();
    let outcome = match queue.refusal() {
        Ok(()) => pin!(execute_if_unchanged(c, &queue, &watched, interpreters)).await,
        Err(error) => Err(error),
    };
    if outcome.is_err() {
        c.tally.borrow_mut().failed[Id::Exec as usize] += 1;
        return c.conclude(outcome);
    }
    c.tally.borrow_mut().timed(Id::Exec as usize, began.elapsed(), 1);
}

/// Runs the commands if no watched key has changed.
async fn execute_if_unchanged<G: Engine>(
    c: &mut Context<'_, G>,
    queue: &Queue,
    watched: &[Watched],
    interpreters: &mut Interpreters,
) -> Outcome {
    if c.session.is_subscriber {
        // What came before the transaction must not come behind its UNSUBSCRIBE.
        c.session.peer.handle.take_posted(c.reply.output());
    }
    let key = only_key(c, queue);
    let is_only = |stored: &[u8]| key.as_deref() == Some(stored);
    // A look at another key would end the step.
    if !are_unchanged(c, watched, |stored| !is_only(stored)).await? {
        c.reply.null_array();
        return Ok(());
    }
    let step = async |c: &mut Context<'_, G>| {
        ControlFlow::Continue(match are_unchanged(c, watched, is_only).await {
            Ok(true) => {
                pin!(execute_all(c, queue, interpreters)).await;
                Ok(())
            }
            Ok(false) => {
                c.reply.null_array();
                Ok(())
            }
            Err(error) => Err(error),
        })
    };
    let reads = [Flag::Readonly, Flag::Script];
    let reads = queue.commands().any(|(id, _)| reads.iter().any(|flag| SPECS[id as usize].flags.contains(flag)));
    pin!(in_one_step(c, (key.as_deref(), reads), step)).await?
}

async fn execute_all<G: Engine>(c: &mut Context<'_, G>, queue: &Queue, interpreters: &mut Interpreters) {
    let commands = queue.commands();
    c.session.is_executing = true;
    c.reply.array(commands.len());
    for (id, args) in commands {
        let mut c =
            Context { args, session: &mut *c.session, value: &mut *c.value, reply: c.reply.again(), alone: None, ..*c };
        // What a user may do may have changed since the command arrived.
        if let Err(refusal) = acl::admit(&mut c, id, Happened::Executing) {
            c.conclude(Err(refusal));
            continue;
        }
        pin!(run_alone(id, c, interpreters)).await;
    }
    c.session.is_executing = false;
}

/// Runs a command, which may be a script. The caller runs alone.
pub(super) async fn run_alone<G: Engine>(id: Id, c: Context<'_, G>, interpreters: &mut Interpreters) {
    if SPECS[id as usize].flags.contains(&Flag::Script) {
        return pin!(script::run(id, c, interpreters)).await;
    }
    pin!(super::run_sampled(id, c)).await;
}

/// `MULTI`
pub(super) async fn multi<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.session.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    c.session.queue = Some(Box::default());
    c.reply.ok();
    Ok(())
}

/// `EXEC` without MULTI.
pub(super) async fn exec<G: Engine>(_: &mut Context<'_, G>) -> Outcome {
    Err("ERR EXEC without MULTI".into())
}

/// `DISCARD`
pub(super) async fn discard<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.session.queue.is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    c.session.forget_queue();
    c.reply.ok();
    Ok(())
}

/// `WATCH key...`
pub(super) async fn watch<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.session.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    if c.session.watched.len() + c.args.len() > WATCHED_MAX {
        return Err("ERR too many keys are watched by this connection".into());
    }
    for index in 1..c.args.len() {
        let found = found(c.cache, &c.key(index)).await?;
        let (database, key) = (c.session.database, c.args.get(index).to_vec());
        // What was found first counts.
        if !c.session.watched.iter().any(|other| other.database == database && other.key == key) {
            c.session.watched.push(Watched { database, key, found });
        }
    }
    c.reply.ok();
    Ok(())
}

/// `UNWATCH`
pub(super) async fn unwatch<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    c.session.watched = Vec::new();
    c.reply.ok();
    Ok(())
}
