//! Scripts: the last client of a case is the director, and tells the other clients what to do, one
//! operation after the other.

use atoll_cache::EnginePool;
use atoll_cache::{CacheError, Pooled};
use atoll_cases::{Case, Client, ForgeSubject, Stop, Stops, Subject, load};
use atoll_fabric::Endpoint;
use atoll_pool::registry::{self, PlaceState, Times};
use atoll_pool::{Chunk, ChunkId, Pool, read_word};
use atoll_sim::{ClientId, Control, History, Sim};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

/// Clients of an order at most.
pub(crate) const CLIENTS: usize = 4;

/// Waits until something is so.
pub(crate) async fn until<S: Subject>(client: &Client<S>, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_000_000 {
        if is_so() {
            return;
        }
        client.endpoint().pause(10_000).await;
    }
    panic!("client {} waits for ever", client.number);
}

/// The simulator's name of a client, which has to post before it has one.
pub(crate) async fn identify<S: Subject>(control: &Control, client: &Client<S>) -> Result<ClientId, CacheError> {
    client.cache.tend().await?;
    Ok(control.identified(client.endpoint().identity()).expect("it has posted"))
}

pub(crate) fn pool_of<S: Subject>(client: &Client<S>) -> &Pool {
    client.cache.engine().shared().pool()
}

/// Sets six keys of several sizes.
pub(crate) async fn set_some<S: Subject>(client: &Client<S>, name: &str, first: u64) -> Result<(), CacheError> {
    for step in first..first + 6 {
        let bytes = [10, 60, 100, 180, 30, 140][step as usize % 6];
        client.set(format!("{name}{step}").as_bytes(), load::unique_value(client.number, step, bytes)).await?;
    }
    Ok(())
}

/// The state of a chunk.
pub(crate) async fn state_of<S: Subject>(client: &Client<S>, chunk: ChunkId) -> Result<Chunk, CacheError> {
    let word = read_word(client.endpoint(), pool_of(client).layout.descriptor(chunk)).await?;
    Ok(Chunk::from_word(word).expect("a client wrote it"))
}

/// Makes rounds until every place of a client that was shut out is free.
pub(crate) async fn settle<S: Subject>(client: &Client<S>) -> Result<(), CacheError> {
    for _ in 0..20 {
        let places = registry::places(client.endpoint(), pool_of(client)).await?;
        if places.iter().all(|place| place.state != PlaceState::Fenced) {
            return Ok(());
        }
        client.endpoint().pause(Times::default().help_ns).await;
        client.cache.tend().await?;
    }
    panic!("a client's place is never free again");
}

/// What the director tells a client to do.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Set(String, u64),
    Delete(String),
    Get(String),
    /// Makes a round.
    Tend,
    Repair,
    /// Leaves and joins again.
    Rejoin,
}

/// What the director and the other clients share.
struct Script {
    control: Control,
    clients: [Obedient; CLIENTS],
    /// Whether the director has ended.
    is_over: Cell<bool>,
}

/// A client that does what the director says.
#[derive(Default)]
struct Obedient {
    task: Cell<Option<ClientId>>,
    stops: RefCell<Stops>,
    command: RefCell<Option<Command>>,
    /// The number of the last command, and of the last command that has ended.
    given: Cell<u32>,
    ended: Cell<u32>,
}

impl Script {
    fn new(sim: &Sim) -> Rc<Self> {
        Rc::new(Self { control: sim.control(), clients: Default::default(), is_over: Cell::new(false) })
    }

    /// The client obeys until the director has ended.
    async fn obey<S: Subject>(&self, mut client: Client<S>) -> Result<Client<S>, CacheError> {
        let (number, me) = (client.number, &self.clients[client.number as usize]);
        for given in 1.. {
            until(&client, || self.is_over.get() || me.given.get() >= given).await;
            if self.is_over.get() {
                break;
            }
            let command = me.command.borrow().clone().expect("a command has a number");
            match command {
                Command::Set(key, bytes) => {
                    let value = load::unique_value(number, given.into(), bytes);
                    client.set(key.as_bytes(), value).await?;
                }
                Command::Delete(key) => client.delete(key.as_bytes()).await?,
                Command::Get(key) => drop(client.get(key.as_bytes()).await?),
                Command::Tend => client.cache.tend().await?,
                Command::Repair => drop(client.cache.engine().repair().await?),
                Command::Rejoin => client.rejoin().await?,
            }
            me.ended.set(given);
        }
        Ok(client)
    }
}

/// The last client of a case, which tells the other clients what to do.
pub(crate) struct Director<S: Subject = ForgeSubject> {
    client: Client<S>,
    script: Rc<Script>,
}

impl<S: Subject> Deref for Director<S> {
    type Target = Client<S>;

    fn deref(&self) -> &Client<S> {
        &self.client
    }
}

impl<S: Subject> Director<S> {
    /// The stops of a client.
    pub(crate) fn stops(&self, number: usize) -> Stops {
        self.script.clients[number].stops.borrow().clone()
    }

    /// Kills a client.
    pub(crate) fn kill(&self, number: usize) {
        self.script.control.kill(self.script.clients[number].task.get().expect("it has joined"));
    }

    /// Tells a client to begin.
    pub(crate) fn begin(&self, number: usize, command: Command) {
        let client = &self.script.clients[number];
        *client.command.borrow_mut() = Some(command);
        client.given.set(client.given.get() + 1);
    }

    /// Whether a client has ended what it was told to do.
    pub(crate) fn has_ended(&self, number: usize) -> bool {
        let client = &self.script.clients[number];
        client.ended.get() >= client.given.get()
    }

    /// Waits until a client has ended what it was told to do.
    pub(crate) async fn ended(&self, number: usize) {
        until(self, || self.has_ended(number)).await;
    }

    /// Tells a client to do something, and waits until it has.
    pub(crate) async fn tell(&self, number: usize, command: Command) {
        self.begin(number, command);
        self.ended(number).await;
    }

    /// Tells a client to set keys `first`, `first + 1` and so on, of 60 bytes each.
    pub(crate) async fn set_keys(&self, number: usize, name: &str, keys: std::ops::Range<u64>) {
        for key in keys {
            self.tell(number, Command::Set(format!("{name}{key}"), 60)).await;
        }
    }

    /// Waits until a client stops; false if it ends what it does before that.
    pub(crate) async fn stops_at(&self, stop: &Stop, number: usize) -> bool {
        until(self, || stop.is_reached() || self.has_ended(number)).await;
        stop.is_reached()
    }

    /// Lets a client go on from a stop, and waits until it has ended what it does.
    pub(crate) async fn finish(&self, stop: &Stop, number: usize) {
        stop.release();
        self.ended(number).await;
    }

    /// Waits until a client stands at a stop.
    pub(crate) async fn reached(&self, stop: &Stop) {
        stop.reached(self.endpoint()).await;
    }
}

/// Runs a script, which must go well, then walks the pool.
pub(crate) fn direct<S: Subject>(
    case: &Case<S>,
    seed: u64,
    director: impl AsyncFn(&Director<S>) -> Result<(), CacheError> + Clone + 'static,
) {
    directed(case, seed, director).unwrap();
}

/// Runs a script under some seeds; in how many of them the director met what it waited for.
pub(crate) fn count<S: Subject>(
    case: &Case<S>,
    seeds: u64,
    director: impl AsyncFn(&Director<S>) -> Result<bool, CacheError> + Clone + 'static,
) -> u32 {
    let met = Rc::new(Cell::new(0));
    for seed in 0..seeds {
        let (met, director) = (met.clone(), director.clone());
        direct(case, seed, async move |each: &Director<S>| {
            met.set(met.get() + u32::from(director(each).await?));
            Ok(())
        });
    }
    println!("met in {} of {seeds} runs", met.get());
    met.get()
}

/// The same as `direct`; gives what went wrong, if anything did.
pub(crate) fn directed<S: Subject>(
    case: &Case<S>,
    seed: u64,
    director: impl AsyncFn(&Director<S>) -> Result<(), CacheError> + Clone + 'static,
) -> Result<(), String> {
    let (sim, _) = case.formatted(seed)?;
    let (script, history, clients) = (Script::new(&sim), Rc::new(History::new()), case.clients as usize);
    case.play(&sim, &history, |client| {
        let (script, director) = (script.clone(), director.clone());
        async move {
            let number = client.number as usize;
            let me = &script.clients[number];
            me.task.set(Some(identify(&script.control, &client).await?));
            *me.stops.borrow_mut() = client.stops.clone();
            until(&client, || script.clients[..clients].iter().all(|client| client.task.get().is_some())).await;
            let client = if number + 1 < clients {
                script.obey(client).await
            } else {
                let directing = Director { client, script: script.clone() };
                director(&directing).await.map(|()| directing.client)
            };
            if number + 1 == clients || client.is_err() {
                script.is_over.set(true);
            }
            client
        }
    })?;
    case.verify(&sim)?;
    history.check_with(case.evictions).map(drop).map_err(|violation| violation.to_string())
}

/// Runs a script under these seeds. It goes well under every seed while the hole is closed, and
/// wrong under one while it is open.
pub(crate) fn show_order<S: Subject>(
    hole: S::Hole,
    seeds: std::ops::Range<u64>,
    case: &Case<S>,
    director: impl AsyncFn(&Director<S>) -> Result<(), CacheError> + Clone + 'static,
) {
    let run = |seed, hole| directed(&Case { hole, ..case.clone() }, seed, director.clone());
    for seed in seeds.clone() {
        if let Err(error) = run(seed, None) {
            panic!("{hole:?}, seed {seed}, no hole open: {error}");
        }
    }
    let shown: Vec<_> = seeds.clone().filter_map(|seed| run(seed, Some(hole)).err()).collect();
    println!("{hole:?}: shown by {} of {} seeds", shown.len(), seeds.count());
    let Some(error) = shown.first() else { panic!("{hole:?} is open and no seed shows it") };
    println!("  {}", error.lines().next().unwrap_or_default());
}
