//! What each client of a run with faults does: it plays the load, adds a node, provides memory,
//! resizes the pool, makes room ahead, or replaces the clients that are killed.

use crate::endpoint::CaseEndpoint;
use crate::faulty::state::{CountedCache, RunState};
use crate::load;
use crate::play::GROWTH_NS_MAX;
use crate::subject::Subject;
use atoll_cache::{Ahead, CacheError, Engine, EnginePool, Lasting, Pooled};
use atoll_fabric::{Address, Endpoint, VerbError};
use atoll_pool::PoolError;
use atoll_pool::provision::{self, Step};
use atoll_sim::Control;
use std::future::Future;
use std::rc::Rc;
use std::task::Waker;

/// The longest time between two ends of a memory node, and the longest that it is away.
const ABSENCE_NS_MAX: u64 = 400_000;
/// Steps of an evictor, and the longest time after one that found nothing to do.
const AHEAD_STEPS: u32 = 100;
const AHEAD_NS_MAX: u64 = 20_000;

/// A client's life, if nothing cuts it short. While it lasts, the server_spawner has to be there.
pub(crate) async fn live<S: Subject>(run: Rc<RunState<S>>, control: Control, number: u32, present: Rc<()>) {
    let mut cache = match run.join(&control, &format!("client {number}"), true).await {
        Ok(cache) => cache,
        Err(error) if run.explains_join_error(&error) => return succeed(&run, &control, present),
        Err(error) => return run.errors.borrow_mut().push(format!("client {number}: {error}")),
    };
    let load = &run.faulty.case.load;
    let mut outcome = load::run(&cache.cache, number, run.seed, load, run.faulty.case.lanes, &run.history).await;
    if outcome.is_ok() {
        outcome = cache.leave().await;
    }
    let me = cache.cache.engine().client().endpoint.identity();
    match named(cache.cache.engine().client(), outcome) {
        // A client that stands still, and has not been shut out, may hold all there is.
        Ok(()) | Err(CacheError::OutOfMemory) => {}
        Err(CacheError::Verb(error)) if run.explains_error(&control, me, &error) => succeed(&run, &control, present),
        // The node was lost while it was being added.
        Err(CacheError::Damaged { .. }) if run.faulty.faults.node_losses_max > 0 => {}
        Err(error) => run.errors.borrow_mut().push(format!("client {number}: {error}")),
    }
}

/// Spawns a successor for a client that was lost with a memory node.
fn succeed<S: Subject>(run: &Rc<RunState<S>>, control: &Control, present: Rc<()>) {
    if run.faulty.absences > 0
        && let Some(number) = run.successor()
    {
        spawn(run, control, number, present);
    }
}

fn spawn<S: Subject>(run: &Rc<RunState<S>>, control: &Control, number: u32, present: Rc<()>) {
    // Boxed: a life may end with the next one's beginning.
    let life: std::pin::Pin<Box<dyn Future<Output = ()>>> =
        Box::pin(live(run.clone(), control.clone(), number, present));
    let client = control.spawn(&format!("client {number}"), life);
    run.numbers.borrow_mut().insert(client, number);
}

/// Lets a memory node other than the home end and come back empty, or be silent for a time, as
/// often as the case says.
pub(crate) async fn end_nodes<S: Subject>(run: Rc<RunState<S>>, control: Control) {
    let endpoint = control.endpoint("ender");
    let further = u64::from(run.faulty.case.nodes - 1);
    for _ in 0..run.faulty.absences {
        endpoint.pause(1 + endpoint.random() % ABSENCE_NS_MAX).await;
        let node = 1 + (endpoint.random() % further) as u8;
        if run.faulty.are_silent {
            control.silence_node(node)
        } else {
            control.take_node_away(node)
        }
        // Some nodes are back before any client has noticed.
        endpoint.pause(1 + endpoint.random() % [1_000, ABSENCE_NS_MAX][(endpoint.random() % 2) as usize]).await;
        if run.faulty.are_silent { control.hear_node(node) } else { control.return_node(node) }
    }
}

/// How a client ended, named after the failure that lost it. Its other operations only learn that
/// the client is shut out, and the future of the failed operation may have been dropped.
pub(crate) fn named(
    client: &atoll_pool::Client<CaseEndpoint>,
    outcome: Result<(), CacheError>,
) -> Result<(), CacheError> {
    outcome.map_err(|error| match error {
        CacheError::Verb(error) => cause_of(client, error).into(),
        error => error,
    })
}

fn cause_of(client: &atoll_pool::Client<CaseEndpoint>, error: VerbError) -> VerbError {
    match (error, client.cause_of_loss()) {
        (VerbError::Fenced, Some(cause)) => cause,
        (error, _) => error,
    }
}

/// Adds a memory node at some moment, if nothing cuts that short.
pub(crate) async fn grow<S: Subject>(run: Rc<RunState<S>>, control: Control) {
    let outcome = async {
        let mut cache = run.join(&control, "grower", false).await?;
        let engine = cache.cache.engine();
        let when_ns = engine.client().endpoint.random() % GROWTH_NS_MAX;
        engine.client().endpoint.pause(when_ns).await;
        engine.grow(run.faulty.case.growth_bytes()).await.map_err(|error| match error {
            PoolError::Verb(error) => PoolError::Verb(cause_of(engine.client(), error)),
            error => error,
        })?;
        // A failure on leaving does not concern the growth.
        drop(cache.leave().await);
        Ok(())
    };
    if let Err(error) = outcome.await
        && !run.explains_join_error(&error)
    {
        run.errors.borrow_mut().push(format!("the grower: {error}"));
    }
}

/// Provides the memory of a sparse pool, if nothing cuts that short.
pub(crate) async fn provide<S: Subject>(run: Rc<RunState<S>>, control: Control) {
    let endpoint = CaseEndpoint::new(control.endpoint("provider"));
    // Why a pool cannot be opened is told by its clients.
    let Ok(shared) = S::Engine::open(&endpoint, run.bytes).await else { return };
    let (layout, mut tables_next) = (&shared.pool().layout, Address::new(0, 0, 0));
    while let Ok(Step::More) = provision::provide_next(&endpoint, layout, &mut tables_next).await {
        endpoint.pause(endpoint.random() % GROWTH_NS_MAX).await;
    }
}

/// Makes the pool smaller at some moment and larger again, if nothing cuts that short.
pub(crate) async fn resize<S: Subject>(run: Rc<RunState<S>>, control: Control, _present: Rc<()>) {
    let joined = run.join(&control, "resizer", true).await;
    let chunks = run.faulty.resized_chunks;
    let resize = async |engine: &Lasting<S::Engine>| {
        let when_ns = engine.client().endpoint.random() % GROWTH_NS_MAX;
        engine.client().endpoint.pause(when_ns).await;
        for _ in 0..1 + engine.client().endpoint.random() % 3 {
            shrink_and_restore(engine, chunks).await?;
        }
        Ok(())
    };
    play(&run, &control, "the resizer", joined, resize).await;
}

/// Makes room ahead while clients play, if nothing cuts that short.
pub(crate) async fn evict_ahead<S: Subject>(run: Rc<RunState<S>>, control: Control, number: u32) {
    let name = format!("evictor {number}");
    let is_of_first = number.is_multiple_of(2);
    let joined = match is_of_first {
        true => run.join_first(&control, &name).await,
        false => run.join(&control, &name, true).await,
    };
    let evict_ahead = async |engine: &Lasting<S::Engine>| {
        let reserve = engine.shared().reserve().filter(|_| is_of_first);
        let is_attended = reserve.is_some_and(|reserve| reserve.attend(Waker::noop().clone()));
        for _ in 0..AHEAD_STEPS {
            if engine.evict_ahead().await? != Ahead::Worked {
                let when_ns = engine.client().endpoint.random() % AHEAD_NS_MAX;
                engine.client().endpoint.pause(when_ns).await;
                engine.tend().await?;
            }
        }
        if is_attended {
            reserve.iter().for_each(|reserve| reserve.leave());
        }
        Ok(())
    };
    play(&run, &control, &name, joined, evict_ahead).await;
}

/// Lets a client play that has no load, and notes how it ended, unless the run's faults explain it.
async fn play<S: Subject>(
    run: &RunState<S>,
    control: &Control,
    name: &str,
    joined: Result<CountedCache<Lasting<S::Engine>>, PoolError>,
    part: impl AsyncFnOnce(&Lasting<S::Engine>) -> Result<(), CacheError>,
) {
    let mut cache = match joined {
        Ok(cache) => cache,
        Err(error) => {
            if !run.explains_join_error(&error) {
                run.errors.borrow_mut().push(format!("{name}: {error}"));
            }
            return;
        }
    };
    let mut outcome = part(cache.cache.engine()).await;
    if outcome.is_ok() {
        outcome = cache.leave().await;
    }
    let me = cache.cache.engine().client().endpoint.identity();
    match named(cache.cache.engine().client(), outcome) {
        Ok(()) => {}
        Err(CacheError::Verb(error)) if run.explains_error(control, me, &error) => {}
        Err(CacheError::Damaged { .. }) if run.faulty.faults.node_losses_max > 0 => {}
        Err(error) => run.errors.borrow_mut().push(format!("{name}: {error}")),
    }
}

/// Makes the pool smaller by this many chunks, and larger again some time later.
pub(crate) async fn shrink_and_restore<G: Pooled<CaseEndpoint>>(engine: &G, chunks: u64) -> Result<(), CacheError> {
    let mut left = chunks;
    while left > 0 {
        match engine.retire_chunks(left).await {
            // All chunks may be in the hands of a client that stands still.
            Err(CacheError::OutOfMemory) => break,
            retired => left -= retired?,
        }
    }
    // The memory of some chunks is given back to the host before the chunks are restored.
    for _ in 0..engine.client().endpoint.random() % 16 {
        engine.tend().await?;
        if engine.discard_retired().await? == 0 {
            break;
        }
        let ns = engine.client().endpoint.random() % (GROWTH_NS_MAX / 8);
        engine.client().endpoint.pause(ns).await;
    }
    let when_ns = engine.client().endpoint.random() % GROWTH_NS_MAX;
    engine.client().endpoint.pause(when_ns).await;
    while engine.restore_chunk().await? {}
    Ok(())
}

/// Spawns a successor for every client that is killed.
pub(crate) async fn keep<S: Subject>(run: Rc<RunState<S>>, control: Control, present: Rc<()>) {
    while control.next_killed().await.is_some() {
        if let Some(number) = run.successor() {
            spawn(&run, &control, number, present.clone());
        }
    }
}
