//! How a case is run: its pool is made, its clients join and run, the pool is walked, and the
//! history is checked.

use crate::case::Case;
use crate::client::Client;
use crate::compiled::{Boxed, boxed};
use crate::endpoint::CaseEndpoint;
use crate::load;
use crate::stops::Stops;
use crate::subject::{Shared, Subject};
use atoll_cache::{Cache, CacheError, Engine, EnginePool, Lasting, Pooled};
use atoll_fabric::Endpoint;
use atoll_pool::clock::{ESTIMATE_NS, SKEW_MS};
use atoll_sim::history::{Checked, Now};
use atoll_sim::{Control, History, Sim, SimOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What each client does.
type Part<'a, S> = &'a dyn Fn(Client<S>) -> Boxed<'static, Result<Client<S>, CacheError>>;

impl<S: Subject> Case<S> {
    /// A simulation with the case's pool in it.
    pub fn formatted(&self, seed: u64) -> Result<(Sim, Arc<Shared<S>>), String> {
        let settings = self.settings();
        let mut options = SimOptions::with_nodes(seed, self.regions(&settings));
        (options.steps_max, options.strategy) = (self.steps_max, self.strategy);
        options.distance = self.distance;
        options.nodes[0].extend(self.subject.further_region(&settings)?);
        let sim = Sim::new(options);
        let endpoint = CaseEndpoint::new(sim.endpoint("maker"));
        let pool = sim.block_on(async move { S::Engine::format(&endpoint, settings).await });
        let pool = pool.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        self.subject.prepare_pool(&sim, &pool);
        Ok((sim, pool))
    }

    /// Lets every client play its part in `sim`, each a process of its own with its own map of
    /// hotness. The first error is the case's.
    pub fn play<F>(&self, sim: &Sim, history: &Rc<History>, part: impl Fn(Client<S>) -> F) -> Result<(), String>
    where
        F: Future<Output = Result<Client<S>, CacheError>> + 'static,
        Self: Sized,
    {
        self.play_with(sim, history, self.growth_chunks > 0, &|client| boxed(part(client)))
    }

    /// The same without the client that adds the memory node: a part does.
    pub fn play_ungrown<F>(&self, sim: &Sim, history: &Rc<History>, part: impl Fn(Client<S>) -> F) -> Result<(), String>
    where
        F: Future<Output = Result<Client<S>, CacheError>> + 'static,
        Self: Sized,
    {
        self.play_with(sim, history, false, &|client| boxed(part(client)))
    }

    fn play_with(&self, sim: &Sim, history: &Rc<History>, grows: bool, part: Part<'_, S>) -> Result<(), String> {
        let errors = Rc::new(RefCell::new(Vec::new()));
        // Joined one after the other, so that client n has place n.
        let mut clients = Vec::new();
        for number in 0..self.clients {
            match self.join(sim, number, history) {
                Ok(client) => clients.push(client),
                Err(error) => {
                    // Outside a task they cannot leave.
                    clients.into_iter().for_each(std::mem::forget);
                    return Err(error);
                }
            }
        }
        if grows {
            let mut grower = match self.join(sim, self.clients, history) {
                Ok(grower) => grower,
                Err(error) => {
                    clients.into_iter().for_each(std::mem::forget);
                    return Err(error);
                }
            };
            let (errors, bytes) = (errors.clone(), self.growth_bytes());
            sim.spawn("grower", async move {
                if let Err(error) = grow(&mut grower, bytes).await {
                    errors.borrow_mut().push(format!("the grower: {error}"));
                }
            });
        }
        let present = Rc::new(());
        if let Some(spawn_server) =
            clients.first().and_then(|first| self.subject.server_spawner(first.cache.engine().shared()))
        {
            spawn_server(sim, Rc::downgrade(&present));
        }
        for client in clients {
            let (errors, number, present) = (errors.clone(), client.number, present.clone());
            let part = part(client);
            sim.spawn(&format!("client {number}"), async move {
                let _present = present;
                let outcome = match part.await {
                    Ok(client) => client.cache.engine().leave().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = outcome {
                    errors.borrow_mut().push(format!("client {number}: {error}"));
                }
            });
        }
        drop(present);
        sim.run().map_err(|error| error.to_string())?;
        errors.take().into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn join(&self, sim: &Sim, number: u32, history: &Rc<History>) -> Result<Client<S>, String> {
        let publish_delay_ns_max = if number == 0 { self.publish_delay_ns_max } else { 0 };
        let stops = Stops::default();
        let slow = |name: String| CaseEndpoint::with_stops(sim.endpoint(&name), publish_delay_ns_max, stops.clone());
        let endpoint = slow(format!("client {number}"));
        let (bytes, hole, history, seed) = (self.settings().home_bytes(), self.hole, history.clone(), sim.seed());
        let subject = self.subject.clone();
        let (origin_ns, epoch_ms) = (endpoint.now_ns() - sim.now_ns(), SimOptions::new(0, 8).epoch_ms);
        let spares = (0..self.rejoins).map(|time| slow(format!("client {number}, {time} to go"))).collect();
        let joined = sim.block_on(async move {
            let pool = S::Engine::open(&endpoint, bytes).await?;
            let mut engine = S::Engine::join(&pool, endpoint).await?;
            subject.configure(&mut engine, hole);
            Ok::<_, atoll_pool::PoolError>(Client {
                number,
                seed,
                cache: Cache::new(Lasting::new(engine)),
                history,
                stops,
                subject,
                hole,
                epoch_ms,
                origin_ns,
                spares,
            })
        });
        joined.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// The first fault that a walk over the idle pool finds.
    pub fn verify(&self, sim: &Sim) -> Result<(), String> {
        let Client { cache, .. } = Self { hole: None, ..self.clone() }.join(sim, u32::MAX, &Rc::default())?;
        let report = sim.block_on(async move {
            let report = cache.engine().verify().await?;
            cache.engine().leave().await?;
            Ok::<_, CacheError>(report)
        });
        let report = report.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        report.faults.first().map_or(Ok(()), |fault| Err(format!("verify: {fault}")))
    }

    /// Plays the case's load under a seed; returns the fault, if there was one.
    pub fn run(&self, seed: u64) -> Result<Checked, String> {
        let (load, lanes) = (self.load.clone(), self.lanes);
        self.run_part(seed, move |client| {
            let load = load.clone();
            async move {
                load::run(&client.cache, client.number, client.seed, &load, lanes, &client.history).await?;
                Ok(client)
            }
        })
    }

    /// Plays a part of one's own under a seed, then walks the pool and checks the history.
    pub fn run_part<F>(&self, seed: u64, part: impl Fn(Client<S>) -> F) -> Result<Checked, String>
    where
        F: Future<Output = Result<Client<S>, CacheError>> + 'static,
    {
        self.run_with(seed, &|client| boxed(part(client)))
    }

    fn run_with(&self, seed: u64, part: Part<'_, S>) -> Result<Checked, String> {
        let (sim, shared) = self.formatted(seed)?;
        let history = Rc::new(timed_history::<S>(sim.control(), &shared, 0));
        self.play(&sim, &history, |client| {
            let played = part(client);
            async move {
                let client = played.await?;
                // Only clients write to this pool: what a client drops as damaged was sound.
                match client.cache.engine().stats().damaged {
                    0 => Ok(client),
                    _ => Err(CacheError::Damaged { what: "a sound object was dropped" }),
                }
            }
        })?;
        if self.verified {
            self.verify(&sim)?;
        }
        drop(sim);
        history.check_with(self.evictions).map_err(|violation| violation.to_string())
    }
}

/// A history that knows the pool's clock, which it looks at past the fabric, and how far the rates
/// of clocks differ at most.
pub(crate) fn timed_history<S: Subject>(control: Control, shared: &Shared<S>, drift_per_mille: u32) -> History {
    let layout = &shared.pool().layout;
    let (clock, offset) = (layout.clock(), control.peek_word(layout.clock_offset()));
    let drift_ms = (ESTIMATE_NS * u64::from(drift_per_mille)).div_ceil(1_000_000_000);
    History::with_clock(SKEW_MS, ESTIMATE_NS / 1_000_000, move || Now {
        ns: control.now_ns(),
        // A pool's clock shows zero only after its node was lost.
        pool_ms: Some(control.peek_word(clock)).filter(|ms| *ms > 0),
        reckoned_ms: control.agent_ms().wrapping_add(offset) + drift_ms,
    })
}

/// A run's growth comes within so many nanoseconds of its clients' start.
pub(crate) const GROWTH_NS_MAX: u64 = 200_000;

/// Adds a memory node at some moment.
async fn grow<S: Subject>(grower: &mut Client<S>, bytes: u64) -> Result<(), String> {
    let when_ns = grower.random().below(GROWTH_NS_MAX);
    let engine = grower.cache.engine();
    grower.endpoint().pause(when_ns).await;
    let pool = engine.shared().pool();
    // It is there when the case's clients come a second time.
    if u32::from(pool.layout.nodes_known()) < pool.settings.nodes_max {
        engine.grow(bytes).await.map_err(|error| error.to_string())?;
    }
    engine.leave().await.map_err(|error| error.to_string())
}
