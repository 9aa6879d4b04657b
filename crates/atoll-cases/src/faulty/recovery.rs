//! What must hold after the faults: the living reclaim all that dead clients held, one repair makes
//! the pool sound, and the pool takes as many objects as before.

use crate::faulty::state::{CountedCache, RunState};
use crate::subject::Subject;
use atoll_cache::{CacheError, Engine, EnginePool, Lasting, Pooled, SetOptions};
use atoll_fabric::Endpoint;
use atoll_pool::PoolError;
use atoll_pool::registry::{self, PlaceState};
use atoll_sim::Control;
use std::rc::Rc;

/// Looks of the last client at a pool that is not sound yet.
const LOOKS_MAX: u32 = 20;
/// Joins of the last client until the pool has all its memory nodes.
const JOINS_MAX: u32 = 50;
/// Rounds of the last client within which everything that dead clients held has come back by
/// itself.
const ROUNDS_MAX: u32 = 400;

/// The rounds of the last client reclaim all that dead clients held. Then the pool must be sound
/// before any repair that is asked for: such a repair would hide what the rounds forgot.
pub(crate) async fn settle_down<S: Subject>(run: &RunState<S>, engine: &Lasting<S::Engine>) -> Result<(), String> {
    let text = |error: CacheError| format!("after the faults: {error}");
    let times = run.faulty.times;
    let shared = engine.shared().clone();
    let pool = shared.pool();
    for round in 1.. {
        engine.tend().await.map_err(text)?;
        let places = registry::places(&engine.client().endpoint, pool).await.map_err(|error| text(error.into()))?;
        let others = places.iter().filter(|place| place.incarnation.slot != engine.client().me().slot);
        if others.filter(|place| place.state != PlaceState::Free).count() == 0 {
            break;
        }
        if round == ROUNDS_MAX {
            return Err("nobody came for what a dead client held".to_owned());
        }
        engine.client().endpoint.pause(times.look_ns.max(times.help_ns / 50)).await;
    }
    let faults = engine.verify().await.map_err(text)?.faults;
    faults.first().map_or(Ok(()), |fault| Err(format!("verify, before any repair that was asked for: {fault}")))
}

/// Joins a pool whose memory nodes are all there, until it uses all of them.
async fn join_whole<S: Subject>(
    run: &RunState<S>,
    control: &Control,
) -> Result<CountedCache<Lasting<S::Engine>>, PoolError> {
    for tried in 1.. {
        let joined = run.join(control, "last", true).await;
        let cache = match joined {
            Err(error) if run.explains_join_error(&error) && tried < JOINS_MAX => continue,
            joined => joined?,
        };
        let engine = cache.cache.engine();
        for _ in 0..ROUNDS_MAX {
            if engine.client().endpoint.absent() == 0 {
                return Ok(cache);
            }
            // It asks for the node, and then ends: the node comes back to clients that join.
            if engine.tend().await.is_err() {
                break;
            }
            engine.client().endpoint.pause(run.faulty.times.look_ns.max(1)).await;
        }
    }
    unreachable!("it ends after {JOINS_MAX} joins")
}

/// After everything: one repair, and the pool is as good as new.
pub(crate) async fn end<S: Subject>(run: Rc<RunState<S>>, control: Control, _present: Rc<()>) -> Result<(), String> {
    let text = |error: CacheError| format!("after the faults: {error}");
    let joined = match run.faulty.absences + run.faulty.faults.node_losses_max {
        0 => run.join(&control, "last", true).await,
        _ => join_whole(&run, &control).await,
    };
    let mut cache = match joined {
        // The pool went with the node's bytes.
        Err(error) if run.explains_join_error(&error) => return Ok(()),
        joined => joined.map_err(|error| format!("after the faults: {error}"))?,
    };
    if S::SETTLES_DOWN {
        settle_down(&run, cache.cache.engine()).await?;
    }
    let CountedCache { cache, has_left, .. } = &mut cache;
    *has_left = true;
    for look in 1.. {
        cache.engine().repair().await.map_err(text)?;
        let report = cache.engine().verify().await.map_err(text)?;
        match report.faults.first() {
            None if !report.counts_estimated => break,
            _ if look < LOOKS_MAX => cache.engine().client().endpoint.pause(run.faulty.times.suspect_ns).await,
            None => return Err("after the faults: the last client is never alone".to_owned()),
            Some(fault) => return Err(format!("verify: {fault}")),
        }
    }
    // What a resizer that died left out of use.
    while cache.engine().restore_chunk().await.map_err(text)? {}
    let growth_bytes = run.faulty.case.growth_bytes();
    let shared = cache.engine().shared().clone();
    let pool = shared.pool();
    if u32::from(pool.layout.nodes_known()) < pool.settings.nodes_max {
        // The grower died while it added the node, and left nothing in the way.
        let grown = cache.engine().grow(growth_bytes).await;
        grown.map_err(|error| format!("after the faults: {error}"))?;
    }
    for number in 0..2 * run.faulty.case.chunks {
        let key = format!("after all {number}");
        cache.set(key.as_bytes(), &[7; 40], &SetOptions::default()).await.map_err(text)?;
    }
    let faults = cache.engine().verify().await.map_err(text)?.faults;
    cache.engine().leave().await.map_err(text)?;
    faults.first().map_or(Ok(()), |fault| Err(format!("verify: {fault}")))
}
