//! How the clients of a run are brought into an order.

use atoll_cache::EnginePool;
use atoll_cache::{CacheError, Pooled};
use atoll_cases::{Case, Client, Stop, Stops, Subject, load};
use atoll_fabric::Endpoint;
use atoll_pool::registry::{self, PlaceState, Times};
use atoll_pool::{Chunk, ChunkId, Pool, read_word};
use atoll_sim::{ClientId, Control, History, Sim};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::Rc;

pub(crate) const CLIENTS: usize = 4;

/// What the clients of a run share.
pub(crate) struct Scene {
    pub(crate) control: Control,
    /// Batches of the client that stops before it does.
    pub(crate) batches: u64,
    pub(crate) tasks: [Cell<Option<ClientId>>; CLIENTS],
    pub(crate) stop: OnceCell<Rc<Stop>>,
    /// Whether the client that stopped has ended what it did.
    pub(crate) is_over: Cell<bool>,
    /// How far the others have come.
    pub(crate) act: Cell<u32>,
}

impl Scene {
    pub(crate) fn new(sim: &Sim, batches: u64) -> Rc<Self> {
        Rc::new(Self {
            control: sim.control(),
            batches,
            tasks: Default::default(),
            stop: OnceCell::new(),
            is_over: Cell::new(false),
            act: Cell::new(0),
        })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.get().is_some_and(|stop| stop.is_reached())
    }

    pub(crate) fn is_dead(&self, number: usize) -> bool {
        self.tasks[number].get().is_some_and(|task| !self.control.is_alive(task))
    }

    /// Says who a client is; it has to post before that.
    pub(crate) async fn enter<S: Subject>(&self, client: &mut Client<S>) -> Result<ClientId, CacheError> {
        client.cache.tend().await?;
        let me = self.control.identified(client.cache.engine().client().endpoint.identity()).expect("it has posted");
        self.tasks[client.number as usize].set(Some(me));
        Ok(me)
    }

    /// The client does what `doing` is, and stops before its batch of the scene's number.
    pub(crate) async fn stopping<S: Subject, T>(
        &self,
        client: &mut Client<S>,
        doing: impl AsyncFnOnce(&mut Client<S>) -> T,
    ) -> T {
        let stop = client.stops.before_batch(self.batches);
        self.stop.set(stop.clone()).ok().expect("one client stops");
        let done = doing(client).await;
        stop.release();
        self.is_over.set(true);
        done
    }

    pub(crate) async fn die<S: Subject>(&self, client: &Client<S>) -> ! {
        self.control.kill(self.tasks[client.number as usize].get().expect("it has entered"));
        loop {
            client.cache.engine().client().endpoint.pause(1).await;
        }
    }

    pub(crate) fn release(&self) {
        self.stop.get().expect("it was made").release();
    }
}

pub(crate) async fn until<S: Subject>(client: &Client<S>, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_000_000 {
        if is_so() {
            return;
        }
        client.cache.engine().client().endpoint.pause(10_000).await;
    }
    panic!("client {} waits for ever", client.number);
}

pub(crate) fn pool_of<S: Subject>(client: &Client<S>) -> &Pool {
    client.cache.engine().shared().pool()
}

pub(crate) async fn set_some<S: Subject>(client: &mut Client<S>, name: &str, first: u64) -> Result<(), CacheError> {
    for step in first..first + 6 {
        let bytes = [10, 60, 100, 180, 30, 140][step as usize % 6];
        client.set(format!("{name}{step}").as_bytes(), load::unique_value(client.number, step, bytes)).await?;
    }
    Ok(())
}

/// Runs a scene with the stop before every batch that there is, one after the other, until the
/// client does not come to it any more.
pub(crate) fn at_every_batch(least: u64, mut run: impl FnMut(u64) -> Result<bool, String>) {
    for batches in 0.. {
        let is_reached = run(batches).unwrap_or_else(|error| panic!("stopped after {batches} batches: {error}"));
        if !is_reached {
            assert!(batches >= least, "only {batches} batches: this shows little");
            println!("stopped before each of {batches} batches");
            return;
        }
    }
}

/// What a director wants a client to do.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    None,
    Set(String, u64),
    Delete(String),
    Get(String),
    /// Makes a round.
    Tend,
    Repair,
    /// Leaves and comes anew.
    Rejoin,
}

/// A run with a director: the last client gives the others their cues, one after the other.
pub(crate) struct Script {
    pub(crate) errands: [RefCell<Errand>; CLIENTS],
    pub(crate) control: Control,
    pub(crate) tasks: [Cell<Option<ClientId>>; CLIENTS],
    pub(crate) stops: RefCell<Vec<Stops>>,
    /// Whether the director has come to its end.
    pub(crate) is_over: Cell<bool>,
    /// The last cue of each client, and the last that it has ended.
    pub(crate) cues: [(Cell<u32>, Cell<u32>); CLIENTS],
}

impl Script {
    pub(crate) fn new(sim: &Sim) -> Rc<Self> {
        let stops = RefCell::new(vec![Stops::default(); CLIENTS]);
        let errands = [const { RefCell::new(Errand::None) }; CLIENTS];
        let (tasks, cues, is_over) = (Default::default(), Default::default(), Cell::new(false));
        Rc::new(Self { errands, control: sim.control(), tasks, stops, is_over, cues })
    }

    pub(crate) async fn enter<S: Subject>(&self, client: &mut Client<S>) -> Result<(), CacheError> {
        client.cache.tend().await?;
        let me = self.control.identified(client.cache.engine().client().endpoint.identity()).expect("it has posted");
        self.tasks[client.number as usize].set(Some(me));
        self.stops.borrow_mut()[client.number as usize] = client.stops.clone();
        Ok(())
    }

    pub(crate) fn stops(&self, number: usize) -> Stops {
        self.stops.borrow()[number].clone()
    }

    pub(crate) fn kill(&self, number: usize) {
        self.control.kill(self.tasks[number].get().expect("it has entered"));
    }

    /// The client waits for its cue of that number, does what `doing` is, and says so.
    pub(crate) async fn on_cue<S: Subject>(
        &self,
        number: u32,
        client: &mut Client<S>,
        doing: impl AsyncFnOnce(&mut Client<S>) -> Result<(), CacheError>,
    ) -> Result<(), CacheError> {
        let (cue, ended) = &self.cues[client.number as usize];
        until(client, || cue.get() >= number).await;
        doing(client).await?;
        ended.set(number);
        Ok(())
    }

    /// The director gives a client its next cue.
    pub(crate) fn cue(&self, number: usize) {
        self.cues[number].0.set(self.cues[number].0.get() + 1);
    }

    /// The same, and waits until the client has done what it was to do.
    pub(crate) async fn played<S: Subject>(&self, number: usize, director: &Client<S>) {
        self.cue(number);
        self.ended(number, director).await;
    }

    /// The director has a client begin an errand.
    pub(crate) fn begin(&self, number: usize, errand: Errand) {
        *self.errands[number].borrow_mut() = errand;
        self.cue(number);
    }

    /// The director has a client run an errand, and waits for its end.
    pub(crate) async fn errand<S: Subject>(&self, number: usize, errand: Errand, director: &Client<S>) {
        *self.errands[number].borrow_mut() = errand;
        self.played(number, director).await;
    }

    /// The client does nothing until the director has come to its end, or it is killed.
    pub(crate) async fn wait<S: Subject>(&self, client: Client<S>) -> Result<Client<S>, CacheError> {
        until(&client, || self.is_over.get()).await;
        Ok(client)
    }

    /// The client runs errands until the director has come to its end.
    pub(crate) async fn serve<S: Subject>(&self, mut client: Client<S>) -> Result<Client<S>, CacheError> {
        let number = client.number;
        for cue in 1.. {
            until(&client, || self.is_over.get() || self.cues[number as usize].0.get() >= cue).await;
            if self.is_over.get() {
                break;
            }
            let run = async |client: &mut Client<S>| {
                let errand = self.errands[number as usize].borrow().clone();
                match errand {
                    Errand::None => Ok(()),
                    Errand::Set(key, bytes) => {
                        let value = load::unique_value(number, cue.into(), bytes);
                        client.set(key.as_bytes(), value).await
                    }
                    Errand::Delete(key) => client.delete(key.as_bytes()).await,
                    Errand::Get(key) => client.get(key.as_bytes()).await.map(drop),
                    Errand::Tend => client.cache.tend().await,
                    Errand::Repair => client.cache.engine().repair().await.map(drop),
                    Errand::Rejoin => client.rejoin().await,
                }
            };
            self.on_cue(cue, &mut client, run).await?;
        }
        Ok(client)
    }

    pub(crate) fn has_ended(&self, number: usize) -> bool {
        let (cue, ended) = &self.cues[number];
        ended.get() >= cue.get()
    }

    pub(crate) async fn ended<S: Subject>(&self, number: usize, director: &Client<S>) {
        until(director, || self.has_ended(number)).await;
    }
}

/// Plays a script, which must go well, then walks the pool.
pub(crate) fn direct<S, F>(case: &Case<S>, seed: u64, part: impl Fn(Rc<Script>, Client<S>) -> F + Clone + 'static)
where
    S: Subject,
    F: Future<Output = Result<Client<S>, CacheError>> + 'static,
{
    directed(case, seed, part).unwrap();
}

/// The same; what went wrong, if anything did.
pub(crate) fn directed<S, F>(
    case: &Case<S>,
    seed: u64,
    part: impl Fn(Rc<Script>, Client<S>) -> F + Clone + 'static,
) -> Result<(), String>
where
    S: Subject,
    F: Future<Output = Result<Client<S>, CacheError>> + 'static,
{
    let (sim, _) = case.formatted(seed)?;
    let (script, history, clients) = (Script::new(&sim), Rc::new(History::new()), case.clients as usize);
    let played = case.play(&sim, &history, |mut client| {
        let (script, part) = (script.clone(), part.clone());
        async move {
            script.enter(&mut client).await?;
            until(&client, || script.tasks[..clients].iter().all(|task| task.get().is_some())).await;
            let number = client.number as usize;
            let played = part(script.clone(), client).await;
            if number + 1 == clients || played.is_err() {
                script.is_over.set(true);
            }
            played
        }
    });
    played?;
    case.verify(&sim)?;
    history.check_with(case.evictions).map(drop).map_err(|violation| violation.to_string())
}

pub(crate) async fn state_of<S: Subject>(client: &Client<S>, chunk: ChunkId) -> Result<Chunk, CacheError> {
    let word = read_word(&client.cache.engine().client().endpoint, pool_of(client).layout.descriptor(chunk)).await?;
    Ok(Chunk::from_word(word).expect("a client wrote it"))
}

/// Makes rounds until every place of a client that was shut out is free.
pub(crate) async fn settle<S: Subject>(client: &mut Client<S>) -> Result<(), CacheError> {
    for _ in 0..20 {
        let places = registry::places(&client.cache.engine().client().endpoint, pool_of(client)).await?;
        if places.iter().all(|place| place.state != PlaceState::Fenced) {
            return Ok(());
        }
        client.cache.engine().client().endpoint.pause(Times::default().help_ns).await;
        client.cache.tend().await?;
    }
    panic!("a client's place is never free again");
}
