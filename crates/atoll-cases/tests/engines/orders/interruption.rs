//! Runs in which one client stops before its first batch, then before its second, and so on, while
//! the other clients act.

use atoll_cache::CacheError;
use atoll_cases::{Case, Client, Stop, Subject};
use atoll_fabric::Endpoint;
use atoll_sim::{ClientId, Control, History, Sim};
use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::rc::Rc;

use super::script::{CLIENTS, identify, until};

/// What the clients of such a run share.
pub(crate) struct Interruption {
    control: Control,
    /// Batches of the interrupted client before its stop.
    batches: u64,
    tasks: [Cell<Option<ClientId>>; CLIENTS],
    stop: OnceCell<Rc<Stop>>,
    /// Whether another client saw the interrupted client at its stop.
    was_stopped: Cell<bool>,
    /// Whether the interrupted operation has ended.
    has_ended: Cell<bool>,
    /// Whether the client that ends last may end.
    pub(crate) may_end: Cell<bool>,
}

impl Interruption {
    fn new(sim: &Sim, batches: u64) -> Rc<Self> {
        Rc::new(Self {
            control: sim.control(),
            batches,
            tasks: Default::default(),
            stop: OnceCell::new(),
            was_stopped: Cell::new(false),
            has_ended: Cell::new(false),
            may_end: Cell::new(false),
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.get().is_some_and(|stop| stop.is_reached())
    }

    /// Waits until this many clients have joined.
    pub(crate) async fn all_joined<S: Subject>(&self, client: &Client<S>, clients: usize) {
        until(client, || self.tasks[..clients].iter().all(|task| task.get().is_some())).await;
    }

    /// Waits until this client has died.
    pub(crate) async fn died<S: Subject>(&self, client: &Client<S>, number: usize) {
        until(client, || self.tasks[number].get().is_some_and(|task| !self.control.is_alive(task))).await;
    }

    /// Runs `operation`, which stops before the batch of the run's number.
    pub(crate) async fn interrupt<S: Subject, T>(&self, client: &Client<S>, operation: impl Future<Output = T>) -> T {
        // What the client does beside its operations stops nowhere.
        client.cache.engine().finish().await;
        let stop = client.stops.before_batch(self.batches);
        self.stop.set(stop.clone()).ok().expect("one client stops");
        let done = operation.await;
        stop.release();
        self.has_ended.set(true);
        done
    }

    /// Waits until the interrupted client stops; false if its operation ends before that.
    pub(crate) async fn stopped<S: Subject>(&self, client: &Client<S>) -> bool {
        until(client, || self.is_stopped() || self.has_ended.get()).await;
        self.note_stop()
    }

    /// Whether the interrupted client stands at its stop now.
    pub(crate) fn note_stop(&self) -> bool {
        self.was_stopped.set(self.is_stopped());
        self.was_stopped.get()
    }

    /// Lets the interrupted client go on.
    pub(crate) fn release(&self) {
        self.stop.get().expect("a client stops").release();
    }

    /// Waits until the interrupted operation has ended.
    pub(crate) async fn ended<S: Subject>(&self, client: &Client<S>) {
        until(client, || self.has_ended.get()).await;
    }

    pub(crate) async fn die<S: Subject>(&self, client: &Client<S>) -> ! {
        self.control.kill(self.tasks[client.number as usize].get().expect("it has joined"));
        loop {
            client.endpoint().pause(1).await;
        }
    }
}

/// Runs a case under a seed, with a stop before the batch of this number, then walks the pool.
/// Tells whether the client was seen at its stop.
pub(crate) fn run_interrupted<S, F>(
    case: &Case<S>,
    seed: u64,
    batches: u64,
    history: &Rc<History>,
    part: impl Fn(Rc<Interruption>, Client<S>) -> F + Clone + 'static,
) -> Result<bool, String>
where
    S: Subject,
    F: Future<Output = Result<Client<S>, CacheError>> + 'static,
{
    let (sim, _) = case.formatted(seed)?;
    let run = Interruption::new(&sim, batches);
    case.play_ungrown(&sim, history, |client| {
        let (run, part) = (run.clone(), part.clone());
        async move {
            let me = identify(&run.control, &client).await?;
            run.tasks[client.number as usize].set(Some(me));
            part(run, client).await
        }
    })?;
    case.verify(&sim)?;
    Ok(run.was_stopped.get())
}

/// Runs an order with the stop before every batch that there is, one after the other, until the
/// client does not come to its stop any more.
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
