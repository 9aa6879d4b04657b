//! The Redis protocol: RESP2 and RESP3, and the commands.
//!
//! | module | concept |
//! |---|---|
//! | [`resp`] | the bytes of the protocol: parser, replies |
//! | [`command`] | the commands: their table, and one file for each family |
//! | `ahead` | commands that have been parsed and wait to run |
//! | `gets` | GETs that follow each other, looked up together |
//! | `instance` | what the connections of a server have in common |
//! | `channels` | channels and their subscribers |
//! | `monitors` | connections that see every command |
//! | `events` | events of keys |
//! | `peers` | the connections as all of them see them |
//! | `tracking` | clients that are told of changes |
//! | `pause` | commands that wait until a pause ends |
//! | `slow` | commands that took long |
//! | `session` | what a connection has agreed on with its peer |
//! | `upload` | commands whose value is stored while it arrives |
//! | `transaction` | commands that wait for EXEC, keys that are watched |
//! | `script` | scripts in Lua |
//! | `isolation` | commands that run alone |
//! | [`database`] | sixteen sets of keys in one cache |
//! | [`acl`] | users, and what they may do |
//! | `census` | how many keys each database has |
//! | [`glob`] | patterns of keys |
//! | `kind` | what kind a value is |
//! | [`hash`] | the bytes of a hash |
//! | [`hyperloglog`] | the bytes of a HyperLogLog |
//! | `config` | the parameters of CONFIG |
//! | [`extended`] | the floating-point numbers of Redis' counters |

pub mod acl;
mod ahead;
mod census;
mod channels;
pub mod command;
pub mod config;
pub mod database;
pub(crate) mod events;
pub mod extended;
mod gets;
pub mod glob;
pub mod hash;
pub mod hyperloglog;
pub(crate) mod instance;
pub(crate) mod isolation;
mod kind;
mod monitors;
mod pause;
mod peers;
pub mod resp;
pub mod script;
mod session;
mod slow;
mod tracking;
mod transaction;
mod upload;

pub use instance::RedisOptions;

use crate::serve::Output;
use crate::serve::counters::{SAMPLE_EVERY, Tally};
use crate::serve::handle::Handle;
use crate::serve::protocol::{self, Client, Ended, Listener, OUTPUT_BYTES_MAX, Protocol};
use acl::{FileError, Happened};
use ahead::{Ahead, Stopped};
use atoll_cache::{Engine, Value};
use command::{CommandError, Context, Id, SPECS, subcommand};
use instance::Instance;
use isolation::Batch;
use peers::Peer;
use resp::{Args, Parser, ProtocolError, Reply};
use script::{Admitted, Interpreters};
use session::{Replies, Session, Way};
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use upload::{Arriving, Step};

/// The Redis protocol, as one server speaks it.
#[derive(Clone, Default)]
pub struct Redis(Arc<Instance>);

impl Redis {
    /// With these options.
    pub fn new(options: RedisOptions) -> Self {
        Self(Arc::new(Instance::new(options)))
    }

    /// The same with the users of a file, where `ACL SAVE` saves them. Users that were there before
    /// are gone.
    ///
    /// # Panics
    /// If it has such a file already.
    pub fn with_acl_file(self, path: PathBuf) -> Result<Self, FileError> {
        self.0.users.open_file(path)?;
        Ok(self)
    }

    /// The same with these users too, or others of these names: one a line, as a file has them.
    /// Errors call them by `place`.
    pub fn with_users(self, lines: &str, place: &str) -> Result<Self, FileError> {
        self.0.users.add(lines, place)?;
        Ok(self)
    }

    /// What its connections have in common, for a protocol over the same keys.
    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.0
    }
}

/// A connection that speaks it.
pub struct Spoken {
    parser: Parser,
    session: Session,
    /// The command whose value is stored while it arrives.
    arriving: Option<Box<Arriving>>,
    /// Dropped with the connection.
    _listed: Listed,
}

/// A connection is among those of its server until this is dropped.
struct Listed(Arc<Instance>, Arc<Peer>);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.channels.leave(&self.1);
        self.0.tracking.end(self.1.handle.id);
        self.0.monitors.remove(&self.1);
        self.0.peers.remove(self.1.handle.id);
    }
}

/// Memory of a batch.
#[derive(Default)]
pub struct Scratch {
    /// Commands that have been parsed.
    ahead: Ahead,
    /// Where lookups put what they find; a large one is taken from here by its reply.
    value: Value,
    interpreters: Interpreters,
}

impl Protocol for Redis {
    type State = Spoken;
    type Scratch = Scratch;

    fn commands() -> Vec<&'static str> {
        command::subcommand::counted_names()
    }

    fn too_many(_: Listener) -> &'static [u8] {
        b"-ERR max number of clients reached\r\n"
    }

    fn connect(&self, handle: &Arc<Handle>) -> Spoken {
        let peer = Arc::new(Peer::new(handle.clone()));
        self.0.peers.add(peer.clone());
        Spoken {
            parser: Parser::new(),
            session: Session::new(peer.clone(), self.0.users.standing(&peer)),
            arriving: None,
            _listed: Listed(self.0.clone(), peer),
        }
    }

    async fn wait(&self, state: &mut Spoken) {
        self.0.pause.wait().await;
        state.session.is_waiting = false;
    }

    async fn tend<G: Engine>(&self, client: Client<'_, G>) {
        self.0.tend(client.cache, client.shared);
    }

    async fn until_watched(&self, worker: usize) {
        match worker {
            0 => self.0.tracking.until_needed().await,
            _ => std::future::pending().await,
        }
    }

    async fn watch<G: Engine>(&self, client: Client<'_, G>) -> Duration {
        self.0.look_for_changes(client.cache, client.shared).await
    }

    fn refuses(&self, _: Listener, peer: protocol::Peer) -> Option<Cow<'static, [u8]>> {
        (self.0.is_protected() && !peer.is_trusted()).then_some(Cow::Borrowed(instance::PROTECTED))
    }

    #[inline]
    fn bytes_expected(state: &Spoken) -> usize {
        match &state.arriving {
            Some(arriving) if arriving.bytes_expected() > 0 => arriving.bytes_expected(),
            _ => state.parser.bytes_expected(),
        }
    }

    #[inline]
    async fn run<G: Engine>(
        &self,
        state: &mut Spoken,
        scratch: &mut Scratch,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> Ended {
        if state.arriving.is_some()
            && let Some(ended) = Box::pin(self.run_arriving(state, scratch, client, input, start, output)).await
        {
            return ended;
        }
        let ended = pin!(self.run_arrived(state, scratch, client, input, start, output)).await;
        if ended == Ended::Drained
            && let Some(head) = upload::begin(&self.0, state, client, &input[*start..])
        {
            *start += head;
            return Ended::Full;
        }
        ended
    }
}

impl Redis {
    /// Takes what has arrived of a command whose value is stored while it arrives, and runs the
    /// command. `None` once it has run and the batch goes on.
    async fn run_arriving<G: Engine>(
        &self,
        state: &mut Spoken,
        scratch: &mut Scratch,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> Option<Ended> {
        match upload::take(state, client, input, start).await {
            Step::Drained => return Some(Ended::Drained),
            Step::Stored => return Some(Ended::Full),
            Step::Invalid(error) => {
                refuse(client.tally, output, &state.session, error);
                return Some(Ended::Closing);
            }
            Step::Runs => {}
        }
        let arriving = state.arriving.take().expect("a command has arrived");
        let (command, mut at) = (arriving.command(), 0);
        let ended = self.run_arrived(state, scratch, client, command, &mut at, output).await;
        if at < command.len() {
            // It waits, and is run again.
            state.arriving = Some(arriving);
            return Some(ended);
        }
        (state.session.upload, state.session.elided) = (None, None);
        (ended != Ended::Drained).then_some(ended)
    }

    /// Runs the commands that have arrived.
    #[inline]
    async fn run_arrived<G: Engine>(
        &self,
        state: &mut Spoken,
        scratch: &mut Scratch,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> Ended {
        let mut batch = self.0.isolation.batch(client.worker);
        let mut has_run = false;
        let ended = loop {
            self.0.users.refresh(&mut state.session);
            state.parser.set_stranger(state.session.standing.is_stranger());
            let mut stopped = scratch.ahead.parse(&mut state.parser, input, *start);
            let mut is_beside = false;
            batch.is_refused = false;
            if scratch.ahead.len() > 0 && !batch.try_enter() {
                if has_run && !Box::pin(batch.enter_soon()).await {
                    state.parser.restart();
                    break Ended::Full;
                }
                let (id, args, _) = scratch.ahead.command(0, &state.parser, input);
                let admitted = Box::pin(self.0.scripts.admit(&batch, id, args)).await;
                is_beside = !matches!(admitted, Admitted::Entered(()));
                if is_beside && scratch.ahead.keep_first() {
                    // Those behind are parsed again, and wait then.
                    state.parser.restart();
                    stopped = Stopped::Enough;
                }
                batch.is_refused = matches!(admitted, Admitted::Busy);
            }
            let parsed = (&mut *state, &mut *scratch);
            let ended = pin!(run_parsed((&self.0, &mut batch), parsed, client, input, start, output)).await;
            if let Some(ended) = ended {
                break ended;
            }
            has_run = !is_beside;
            match stopped {
                Stopped::Enough => {}
                Stopped::Drained => break Ended::Drained,
                Stopped::Invalid(error) => {
                    refuse(client.tally, output, &state.session, error);
                    break Ended::Closing;
                }
            }
        };
        state.session.publish();
        self.0.tell_lost(client.cache, client.shared);
        ended
    }
}

/// Runs the commands that have been parsed; `None` when all of them have been run and the batch
/// goes on.
#[inline]
async fn run_parsed<'i, G: Engine>(
    (instance, batch): (&'i Instance, &mut Batch<'i>),
    (state, Scratch { ahead, value, interpreters }): (&mut Spoken, &mut Scratch),
    client: Client<'_, G>,
    input: &[u8],
    start: &mut usize,
    output: &mut Output,
) -> Option<Ended> {
    if state.session.is_plain() && instance.users.frees(&state.session) {
        let keys = ahead.keys(&state.parser, input);
        if !keys.is_empty() {
            let database = instance.databases.get(state.session.database);
            database.with_stored(&keys, async |keys| client.cache.expect(keys).await).await;
        }
    }
    state.session.is_timed = ahead.len() == 1 || instance.slow.is_fine();
    let mut index = 0;
    while index < ahead.len() {
        // What is to be told of each command is told when it runs by itself.
        let is_told = instance.monitors.is_any() || instance.events.has(events::Class::MISS);
        let is_free = state.session.is_plain() && instance.users.frees(&state.session);
        let has_locked = instance.isolation.has_locked_keys();
        let gets = match is_free && !instance.pause.is_set() && !is_told && !has_locked {
            true => batch.passing(pin!(gets::run(instance, state, (ahead, index), client, input, output))).await,
            false => 0,
        };
        let Spoken { parser, session, .. } = &mut *state;
        index += gets.max(1);
        let (id, args, end) = ahead.command(index - 1, parser, input);
        if session.is_subscriber || session.is_monitor || session.tracks.is_some() {
            // A reply says that what came before the command has been sent.
            session.peer.handle.take_posted(output);
        }
        if gets == 0 && args.len() > 0 {
            if instance.pause.is_set() && must_wait(instance, (id, args), session) {
                parser.restart();
                return Some(Ended::Waits);
            }
            if has_locked && is_locked(instance, (id, args), session) {
                if !output.is_empty() {
                    // The replies so far do not wait with it.
                    parser.restart();
                    return Some(Ended::Full);
                }
                let keys = keys_beside(instance, (id, args), session);
                let unlocked = Box::pin(instance.scripts.admit_where(false, batch.until_unlocked(&keys))).await;
                batch.is_refused = matches!(unlocked, Admitted::Busy);
            }
            let (with, memory) = ((instance, &mut *batch), (&mut *value, &mut *interpreters));
            match session.replies {
                Replies::Sent => pin!(run_one(with, (id, args), session, memory, client, output)).await,
                began => {
                    let mut silence = Output::default();
                    pin!(run_one(with, (id, args), session, memory, client, &mut silence)).await;
                    if session.end_silence(began) {
                        output.push(&silence.to_vec());
                    }
                }
            }
            // What comes behind the command waits by itself.
            batch.is_refused = false;
            if session.tracks.is_some() {
                session.tell_unnoted(instance, (client.cache, client.shared), id);
            }
        }
        *start = end;
        if session.closing || session.peer.handle.is_ending() {
            return Some(Ended::Closing);
        }
        let must_wait = index < ahead.len() && !batch.has_begun() && !Box::pin(batch.enter_soon()).await;
        let is_over = must_wait || ahead.len() > 1 && batch.has_had_its_turn(client.cache.engine());
        if output.len() >= OUTPUT_BYTES_MAX || is_over {
            // What has been parsed behind this command is parsed again.
            parser.restart();
            return Some(Ended::Full);
        }
    }
    None
}

/// Whether a command waits until a pause ends. One that is refused in any case does not.
#[cold]
fn must_wait(instance: &Instance, (id, args): (Option<Id>, Args<'_>), session: &mut Session) -> bool {
    let concerned = transaction::check(id, args).is_ok_and(|id| {
        instance.users.check(session, id, args).is_ok()
            && session.way(id) != Way::Refuse
            && instance.pause.concerns((id, args), session, &instance.scripts)
    });
    session.is_waiting = concerned;
    concerned
}

/// The keys of a command that runs beside others, as the cache knows them. What waits for EXEC or
/// runs alone looks at no key before nothing is locked.
fn keys_beside<'a>(instance: &Instance, (id, args): (Option<Id>, Args<'a>), session: &Session) -> Vec<Cow<'a, [u8]>> {
    match transaction::check(id, args) {
        Ok(id) if session.way(id) == Way::Beside => {
            let database = instance.databases.get(session.database);
            command::keys::accessed(id, args).map(|(place, _)| database.stored(args.get(place))).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a command waits because another one has locked one of its keys.
#[cold]
fn is_locked(instance: &Instance, command: (Option<Id>, Args<'_>), session: &Session) -> bool {
    instance.isolation.is_locked(keys_beside(instance, command, session).iter())
}

/// Does with a command what is to be done with it.
#[inline]
async fn run_one<'i, G: Engine>(
    (instance, batch): (&'i Instance, &mut Batch<'i>),
    (id, args): (Option<Id>, Args<'_>),
    session: &mut Session,
    (value, interpreters): (&mut Value, &mut Interpreters),
    client: Client<'_, G>,
    output: &mut Output,
) {
    let Client { cache, tally, shared, worker, .. } = client;
    let reply = Reply::new(output, session.protocol);
    let mut context = Context {
        cache,
        value,
        tally,
        shared,
        instance,
        worker,
        session,
        args,
        reply,
        spec: &SPECS[0],
        batch: None,
        alone: None,
    };
    let id = match transaction::check(id, args) {
        Ok(id) => id,
        Err(error) => return reject(context, id, error),
    };
    let happened = if context.session.queue.is_some() { Happened::Queueing } else { Happened::Arriving };
    if let Err(refusal) = acl::admit(&mut context, id, happened) {
        return reject(context, Some(id), refusal);
    }
    if batch.is_refused {
        return reject(context, Some(id), script::BUSY.into());
    }
    let way = context.session.way(id);
    let alone = match way {
        Way::Alone | Way::Script | Way::Exec => match batch.try_be_alone() {
            Some(alone) => Some(alone),
            None => match Box::pin(instance.scripts.admit_where(false, batch.be_alone())).await {
                Admitted::Entered(alone) => Some(alone),
                _ => return reject(context, Some(id), script::BUSY.into()),
            },
        },
        _ => None,
    };
    match way {
        Way::Beside => {
            let batch = &*batch;
            let context = Context { batch: Some(batch), ..context };
            batch.passing(pin!(run_sampled(id, context))).await;
        }
        Way::Alone => {
            let context = Context { alone: alone.as_ref(), ..context };
            pin!(run_sampled(id, context)).await;
        }
        Way::Script => {
            pin!(transaction::run_alone(id, context, interpreters)).await;
        }
        Way::Queue => match context.session.queue(id, args) {
            Ok(()) => context.reply.simple("QUEUED"),
            error => context.conclude(error),
        },
        Way::Exec => {
            pin!(transaction::run(context, interpreters)).await;
        }
        Way::Refuse => {
            if let Some(place) = subcommand::place(id, args) {
                tally.borrow_mut().rejected[place] += 1;
            }
            context.conclude(Err(command::pubsub::refusal(id, args)));
        }
    }
    if let Some(alone) = alone {
        batch.go_on(alone);
    }
}

/// Refuses a command before it runs, and with it those since MULTI. EXEC ends its transaction.
#[cold]
fn reject<G: Engine>(mut context: Context<'_, G>, id: Option<Id>, mut why: CommandError) {
    if let Some(place) = id.and_then(|id| subcommand::place(id, context.args)) {
        context.tally.borrow_mut().rejected[place] += 1;
    }
    match id {
        Some(Id::Exec) => {
            context.session.forget_queue();
            let text = why.to_string();
            let text = text.strip_prefix("ERR ").unwrap_or(&text);
            why = CommandError::Other(format!("EXECABORT Transaction discarded because of: {text}"));
        }
        _ => context.session.break_queue(),
    }
    context.conclude(Err(why));
}

/// Runs one command, and takes its time if it is one to be timed.
///
/// The state of a command under way is large, because that of the largest one is. Here and on the
/// way to here such states are pinned before they are awaited: then they are made where they stay.
/// An await alone moves them there, all their bytes, which cost a fifth of the time.
#[inline]
async fn run_sampled<G: Engine>(id: Id, mut context: Context<'_, G>) {
    let sampled = context.tally.borrow_mut().begin();
    let is_timed = context.session.is_timed || !slow::is_brief(id, context.args);
    let began = if is_timed { Some(sampled.unwrap_or_else(Instant::now)) } else { sampled };
    pin!(command::run(id, &mut context)).await;
    if context.instance.monitors.is_any() {
        context.instance.monitors.show(id, &context, false);
    }
    if let Some(began) = began {
        let (took, mut tally) = (began.elapsed(), context.tally.borrow_mut());
        context.instance.slow.took(id, context.args, context.session, took);
        let calls = if is_timed { 1 } else { SAMPLE_EVERY };
        tally.timed(subcommand::place(id, context.args).expect("the subcommand has run"), took, calls);
    }
}

fn refuse(tally: &RefCell<Tally>, output: &mut Output, session: &Session, error: ProtocolError) {
    tally.borrow_mut().error("ERR");
    Reply::new(output, session.protocol).error(format_args!("ERR Protocol error: {error}"));
}
