//! A run in which clients join and leave, or memory is retired and restored: throughput in every
//! millisecond of virtual time.
//!
//! | phase | [`Change::Clients`] | [`Change::Memory`] |
//! |---|---|---|
//! | 1 | those of the setup | the whole pool |
//! | 2 | as many again, all of which join at its beginning | a part of its chunks is retired from its beginning on |
//! | 3 | the first ones again: the others leave at its beginning | those chunks are restored |
//!
//! All phases are of the same length. Operations count where they end.

use crate::bench::client::Client;
use crate::bench::point::{Point, ran};
use crate::bench::setup::Setup;
use crate::bench::system::{Subject, Work, on_system};
use crate::bench::tally::Tally;
use atoll_cache::EnginePool;
use atoll_cache::{Cache, CacheError};
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::Endpoint;
use atoll_lab::LabError;
use atoll_lab::latency::Latencies;
use atoll_lab::load::Stream;
use std::cell::RefCell;
use std::rc::Rc;

/// Phases of a run.
pub(super) const PHASES: usize = 3;
const WINDOW_NS: u64 = 1_000_000;
/// How near to a phase's later throughput a window must be, and all that follow in the phase, to be
/// at its level, in percent.
const LEVEL_PERCENT: f64 = 5.0;

/// What changes in the middle phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// As many clients again come and go.
    Clients,
    /// So many percent of the pool's chunks are retired and restored.
    Memory {
        /// The percentage.
        percent: u32,
    },
}

/// What came of a run.
#[derive(Default)]
pub(super) struct Elastic {
    /// Operations that ended in each millisecond.
    pub(super) windows: Vec<u64>,
    /// Milliseconds of a phase.
    pub(super) phase_ms: usize,
    /// Latencies of each phase.
    latencies: [Latencies; PHASES],
    /// How long the beginning of the middle phase's change took, and its end, in nanoseconds. Of
    /// clients it is the slowest join, from its begin to the first operation, and the slowest
    /// leave. Of memory it lasts until the last chunk is out of use, and until the last is back.
    pub(super) change_ns_max: [u64; 2],
    /// Chunks that were retired.
    pub(super) retired_chunks: u64,
    /// GETs that missed.
    pub(super) misses: u64,
    /// Objects that the first clients' engines wrote, evicted or moved.
    pub(super) objects_moved: u64,
    /// Objects that the operators wrote or moved who retired and restored memory.
    pub(super) objects_moved_by_operators: u64,
}

impl Elastic {
    fn new(phase_ms: usize) -> Self {
        Self { windows: vec![0; phase_ms * PHASES], phase_ms, ..Self::default() }
    }

    fn record(&mut self, since_ns: u64, begun_ns: u64, ended_ns: u64) {
        let window = ((ended_ns - since_ns) / WINDOW_NS) as usize;
        if let Some(count) = self.windows.get_mut(window) {
            *count += 1;
            self.latencies[window / self.phase_ms].record(ended_ns - begun_ns);
        }
    }

    /// The change took so long for one client or operator.
    fn changed(&mut self, ns: [u64; 2]) {
        self.change_ns_max = std::array::from_fn(|end| self.change_ns_max[end].max(ns[end]));
    }

    /// Millions of operations a second in the second half of a phase.
    pub(super) fn level_mops(&self, phase: usize) -> f64 {
        let half = &self.windows[phase * self.phase_ms + self.phase_ms / 2..(phase + 1) * self.phase_ms];
        half.iter().sum::<u64>() as f64 / half.len() as f64 / 1e3
    }

    /// Milliseconds from the beginning of a phase until throughput is at the level of its second
    /// half, and stays there; at least 1, a window.
    pub(super) fn settled_ms(&self, phase: usize) -> usize {
        let level = self.level_mops(phase) * 1e3;
        let windows = &self.windows[phase * self.phase_ms..(phase + 1) * self.phase_ms];
        let far = |count: &u64| (*count as f64 - level).abs() > level * LEVEL_PERCENT / 100.0;
        windows.iter().rposition(far).map_or(1, |last| last + 2)
    }

    /// The latency in microseconds that this many of a hundred operations of a phase did not pass.
    pub(super) fn latency_us(&self, phase: usize, percent: f64) -> f64 {
        self.latencies[phase].quantile(percent / 100.0) as f64 / 1e3
    }
}

/// Runs `setup` with its threads and a change in the middle phase; its pool must have room for
/// twice as many clients. Its keys are loaded before. Phases are of this many milliseconds.
pub(super) fn measure(setup: &Setup, phase_ms: usize, change: Change) -> Result<Elastic, LabError> {
    struct One<'s>(&'s Setup, usize, Change);
    impl Work for One<'_> {
        type Output = Elastic;

        fn run<G: Subject>(self) -> Result<Elastic, LabError> {
            measure_on::<G>(self.0, self.1, self.2)
        }
    }
    on_system(setup, One(setup, phase_ms, change))
}

fn measure_on<G: Subject>(setup: &Setup, phase_ms: usize, change: Change) -> Result<Elastic, LabError> {
    let mut point = Point::<G>::new(setup)?;
    point.preload()?;
    let run = Rc::new(RefCell::new(Elastic::new(phase_ms)));
    let moved_before = objects_moved(&point.stats());
    let since_ns = point.sim.now_ns();
    let phase_ns = phase_ms as u64 * WINDOW_NS;
    let all = 2 * u64::from(setup.threads);
    for (thread, place) in point.places.iter().enumerate() {
        let (place, run, tally) = (place.clone(), run.clone(), point.tally.clone());
        let mut client = place.take().expect("nothing runs yet");
        client.stream = setup.load.stream(thread as u64, all);
        point.sim.spawn("client", async move {
            if let Err(error) = play(&mut client, since_ns, since_ns + PHASES as u64 * phase_ns, &run).await {
                tally.borrow_mut().fail(error.into());
            }
            *place.borrow_mut() = Some(client);
        });
    }
    let guests = if change == Change::Clients { setup.threads } else { 0 };
    for thread in setup.threads..setup.threads + guests {
        let node = thread % setup.compute_nodes;
        let guest = Guest::<G> {
            pool: point.pools[usize::from(node)].clone(),
            endpoint: CaseEndpoint::new(point.sim.endpoint_on("guest", node)),
            stream: setup.load.stream(thread.into(), all),
            miss_penalty_ns: setup.miss_penalty_ns,
        };
        let (run, tally) = (run.clone(), point.tally.clone());
        point.sim.spawn("guest", async move {
            if let Err(error) = guest.visit(since_ns, phase_ns, &run, &tally).await {
                tally.borrow_mut().fail(error);
            }
        });
    }
    if let Change::Memory { percent } = change {
        let chunks = u64::from(point.pools[0].pool().layout.chunks()) * u64::from(percent) / 100;
        // As many operators as clients make the pool smaller together.
        let operators = u32::from(setup.threads);
        for operator in 0..operators {
            let node = operator as u16 % setup.compute_nodes;
            let (pool, endpoint) =
                (point.pools[usize::from(node)].clone(), CaseEndpoint::new(point.sim.endpoint_on("operator", node)));
            let share = chunks / u64::from(operators) + u64::from(u64::from(operator) < chunks % u64::from(operators));
            let (run, tally) = (run.clone(), point.tally.clone());
            point.sim.spawn("operator", async move {
                if let Err(error) = resize::<G>(pool, endpoint, share, since_ns, phase_ns, &run).await {
                    tally.borrow_mut().fail(error);
                }
            });
        }
    }
    ran(point.sim.run())?;
    let moved = objects_moved(&point.stats()) - moved_before;
    let (misses, failed) = {
        let mut tally = point.tally.borrow_mut();
        (tally.counted().gets - tally.counted().hits, tally.take_failure())
    };
    if let Some(error) = failed {
        return Err(error);
    }
    point.leave()?;
    drop(point);
    let run = Rc::into_inner(run).expect("all tasks have ended").into_inner();
    Ok(Elastic { misses, objects_moved: moved, ..run })
}

/// Objects that were written or copied, by the counters of the engines.
fn objects_written(stats: &[(&'static str, u64)]) -> u64 {
    count(stats, &["puts", "regroups"])
}

/// The same with those that were evicted.
fn objects_moved(stats: &[(&'static str, u64)]) -> u64 {
    objects_written(stats) + count(stats, &["evictions"])
}

fn count(stats: &[(&'static str, u64)], names: &[&str]) -> u64 {
    stats.iter().filter(|(name, _)| names.contains(name)).map(|(_, count)| count).sum()
}

/// Does one request after the other until that time.
async fn play<G: Subject>(
    client: &mut Client<G>,
    since_ns: u64,
    until_ns: u64,
    run: &Rc<RefCell<Elastic>>,
) -> Result<(), CacheError> {
    while client.now_ns() < until_ns {
        let Some(request) = client.stream.next() else { break };
        let begun_ns = client.now_ns();
        client.request(&request).await?;
        run.borrow_mut().record(since_ns, begun_ns, client.now_ns());
    }
    client.cache.engine().rest().await;
    Ok(())
}

/// A client of the middle phase.
struct Guest<G: Subject> {
    pool: std::sync::Arc<G::Shared>,
    endpoint: CaseEndpoint,
    stream: Stream,
    miss_penalty_ns: u64,
}

impl<G: Subject> Guest<G> {
    async fn visit(
        self,
        since_ns: u64,
        phase_ns: u64,
        run: &Rc<RefCell<Elastic>>,
        tally: &Rc<RefCell<Tally>>,
    ) -> Result<(), LabError> {
        self.endpoint.pause(phase_ns).await;
        let engine = G::join(&self.pool, self.endpoint).await?;
        let joined_ns = engine.client().endpoint.virtual_ns() - since_ns - phase_ns;
        let mut client = Client::new(Cache::new(engine), self.stream, self.miss_penalty_ns, tally);
        play(&mut client, since_ns, since_ns + 2 * phase_ns, run).await?;
        let before_ns = client.now_ns();
        client.cache.engine().leave().await?;
        let left_ns = client.now_ns() - before_ns;
        let mut run = run.borrow_mut();
        run.changed([joined_ns, left_ns]);
        Ok(())
    }
}

/// Retires chunks at the beginning of the middle phase, and restores them at its end.
async fn resize<G: Subject>(
    pool: std::sync::Arc<G::Shared>,
    endpoint: CaseEndpoint,
    chunks: u64,
    since_ns: u64,
    phase_ns: u64,
    run: &Rc<RefCell<Elastic>>,
) -> Result<(), LabError> {
    let mut engine = G::join(&pool, endpoint).await?;
    // A client that does not renew its lease for long is suspected.
    let wait_until = async |engine: &mut G, until_ns: u64| -> Result<(), CacheError> {
        while engine.client().endpoint.virtual_ns() < until_ns {
            engine.client().endpoint.pause(WINDOW_NS.min(until_ns - engine.client().endpoint.virtual_ns())).await;
            engine.tend().await?;
        }
        Ok(())
    };
    wait_until(&mut engine, since_ns + phase_ns).await?;
    let mut retired = 0;
    while retired < chunks {
        retired += engine.retire_chunks(chunks - retired).await?;
    }
    run.borrow_mut().retired_chunks += retired;
    let retired_ns = engine.client().endpoint.virtual_ns() - since_ns - phase_ns;
    wait_until(&mut engine, since_ns + 2 * phase_ns).await?;
    let mut restored = 0;
    while restored < chunks && engine.restore_chunk().await? {
        restored += 1;
    }
    let restored_ns = engine.client().endpoint.virtual_ns() - since_ns - 2 * phase_ns;
    engine.leave().await?;
    let mut run = run.borrow_mut();
    run.objects_moved_by_operators += objects_written(&engine.stats().named());
    run.changed([retired_ns, restored_ns]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_at_its_level_when_no_later_window_is_far_from_it() {
        let mut run = Elastic::new(4);
        run.windows = vec![10, 100, 100, 100, 100, 50, 200, 200, 100, 100, 100, 100];
        assert_eq!((run.settled_ms(0), run.settled_ms(1), run.settled_ms(2)), (2, 3, 1));
        assert_eq!(run.level_mops(1), 0.2);
    }
}
