//! What one process of the experiment does.

use super::draw::{Rereads, Writer};
use super::ledger::{Ledger, Total};
use super::load::Load;
use super::timings::{Measured, Timings};
use super::value::Keys;
use crate::LabError;
use crate::fleet::{Post, Task};
use crate::scheduled::Scheduled;
use atoll_cache::{Cache, CacheError, Stats};
use atoll_deployment::{Client, Deployment, DeploymentError, NearPool, Plan};
use atoll_fabric::{Clock, FabricError, VerbError};
use atoll_pool::PoolError;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// Operations between two additions to the totals.
const STRETCH: u64 = 64;
/// A client leaves and a new one joins in its place after about so many operations.
const CLIENT_OPERATIONS: u64 = 100_000;
/// After so many looks at a client that has not ended, this one repairs it.
const LOOKS_PER_REPAIR: u32 = 25;
/// Between two lookups of a watcher.
const WATCHER_PAUSE: Duration = Duration::from_millis(10);
/// Between two tries over a network.
const PAUSE: Duration = Duration::from_millis(20);

/// What a process of the experiment is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KillTask {
    pub(super) plan: Plan,
    /// The region of the ledger.
    pub(super) ledger: String,
    /// The places of its writers: one for each thread.
    pub(super) places: Range<u64>,
    /// Places of writers over all processes.
    pub(super) writers: u64,
    /// The place of its watcher, behind those of all writers. A watcher slowly rereads keys that
    /// the near cache has. It seldom needs the pool. So it goes on for a while where a link is cut
    /// and the writers of its process wait.
    pub(super) watcher: Option<u64>,
    /// No other process ever had the same.
    pub(super) serial: u64,
    /// Whether it is the checker, which mostly reads and measures.
    pub(super) checks: bool,
    /// Bytes of the near cache that the threads of the process use; `None` for none.
    pub(super) near_bytes: Option<u64>,
}

impl Task for KillTask {
    const NAME: &'static str = "kill";

    fn run(self, post: Post) -> Result<(), LabError> {
        post.end_with_parent()?;
        let (task, post) = (&self, &post);
        post.stand_by()?;
        let near = near_pool(task)?;
        let near = near.as_ref();
        let measured: Vec<Option<Measured>> = std::thread::scope(|scope| {
            let work = |(index, place)| scope.spawn(move || work(task, post, near, (index as u64, place)));
            let threads: Vec<_> = task.places.clone().chain(task.watcher).enumerate().map(work).collect();
            threads.into_iter().map(|thread| thread.join().expect("a worker has a bug")).collect::<Result<_, _>>()
        })?;
        post.report(&measured.into_iter().flatten().next());
        Ok(())
    }
}

/// The pool with the near cache of this process, if it is to have one. `None` also if the load ends
/// first.
fn near_pool(task: &KillTask) -> Result<Option<NearPool>, LabError> {
    let Some(bytes) = task.near_bytes else { return Ok(None) };
    let ledger = Ledger::open(&task.ledger)?;
    while !ledger.is_ending() {
        match NearPool::open(&task.plan, bytes).map_err(LabError::from) {
            Err(error) if task.plan.is_over_network() && is_loss(&error) => std::thread::sleep(PAUSE),
            opened => return opened.map(Some),
        }
    }
    Ok(None)
}

/// What one thread does until the load ends.
fn work(
    task: &KillTask,
    post: &Post,
    near: Option<&NearPool>,
    (index, place): (u64, u64),
) -> Result<Option<Measured>, LabError> {
    let ledger = Ledger::open(&task.ledger)?;
    let mut timings = if task.checks { Timings::of_this_thread() } else { Timings::none() };
    let scheduled = Scheduled::this_thread();
    let mut core_ns = 0;
    let mut nonce = task.serial << 32 | index << 24;
    let rereads = match near {
        _ if task.watcher == Some(place) => Rereads::All,
        Some(_) => Rereads::Much,
        None => Rereads::Nothing,
    };
    let mut opened = None;
    while let Some(cache) = joined(task, &ledger, near, place, &mut opened)? {
        nonce += 1;
        let writer = Writer { place: (place, task.writers), nonce, reads: task.checks, rereads };
        let mut wrong = |what: String| post.note(&what);
        let keys = Keys::for_bound(task.plan.bound);
        let mut load =
            Load::new(cache, &ledger, keys, writer, &mut timings, &mut wrong).over_network(task.plan.is_over_network());
        let mut told = Stats::default();
        let operations_max = if task.checks { u64::MAX } else { CLIENT_OPERATIONS };
        let mut operations = 0;
        while operations < operations_max && !ledger.is_ending() {
            let step = |_| {
                if rereads == Rereads::All {
                    std::thread::sleep(WATCHER_PAUSE);
                }
                load.step()
            };
            match (0..STRETCH).try_for_each(step) {
                Err(error) if task.plan.is_over_network() && is_loss(&error) => {
                    // What it had under way may happen yet, as with a client that is killed.
                    ledger.count(Total::Lost, 1);
                    break;
                }
                done => done.inspect_err(|error| tell_failure(&ledger, post, error))?,
            }
            operations += STRETCH;
            if !task.checks {
                let core_ns_before = std::mem::replace(&mut core_ns, scheduled.ns().0);
                ledger.count(Total::Operations, STRETCH);
                ledger.count(Total::CoreNs, core_ns - core_ns_before);
            }
            ledger.count(Total::Checked, load.take_checked());
            told = tell_stats(&ledger, load.cache().stats(), &told);
        }
    }
    Ok(timings.into_measured())
}

/// Adds to the totals what a client has counted since it had `told`; gives what it has told now.
fn tell_stats(ledger: &Ledger, stats: Stats, told: &Stats) -> Stats {
    ledger.count(Total::Fenced, stats.clients_fenced - told.clients_fenced);
    ledger.count(Total::Repaired, stats.chunks_repaired - told.chunks_repaired);
    ledger.count(Total::NearHits, stats.near_hits - told.near_hits);
    ledger.count(Total::NearOutdated, stats.near_outdated - told.near_outdated);
    ledger.count(Total::NearCopies, stats.near_copies - told.near_copies);
    ledger.count(Total::CopiesEnded, stats.copies_ended - told.copies_ended);
    stats
}

/// A new client of the place, once the last one has ended; `None` if the load ends first.
fn joined(
    task: &KillTask,
    ledger: &Ledger,
    near: Option<&NearPool>,
    place: u64,
    opened: &mut Option<Box<dyn Deployment>>,
) -> Result<Option<Cache<Client>>, LabError> {
    let (last, mut looks) = (ledger.last_client(place), 0);
    while !ledger.is_ending() {
        match try_join(task, near, last, &mut looks, opened) {
            Ok(Some(client)) => {
                if task.plan.is_over_network() {
                    ledger.set_last_client(place, client.engine().number());
                }
                return Ok(Some(client));
            }
            Ok(None) => {}
            Err(error) if task.plan.is_over_network() && is_loss(&error) => {}
            Err(error) => return Err(error),
        }
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// A new client, if the last one has ended. Over a network each try opens the pool: what has a
/// memory node's last region open reaches no later one.
fn try_join(
    task: &KillTask,
    near: Option<&NearPool>,
    last: u64,
    looks: &mut u32,
    opened: &mut Option<Box<dyn Deployment>>,
) -> Result<Option<Cache<Client>>, LabError> {
    let deployment = match opened.take().filter(|_| !task.plan.is_over_network()) {
        Some(deployment) => deployment,
        None => task.plan.open(&Clock::host())?,
    };
    let deployment = opened.insert(deployment);
    if last > 0 && !deployment.has_ended(last)? {
        *looks += 1;
        // The end of a memory node ends all clients. Then no client is left that finds them dead.
        if looks.is_multiple_of(LOOKS_PER_REPAIR) {
            deployment.repair()?;
        }
        return Ok(None);
    }
    Ok(Some(near.map_or_else(|| deployment.client(), NearPool::client)?))
}

/// Whether the fabric has failed a client, or another client had it shut out while its process was
/// stopped. On one host neither happens.
fn is_loss(error: &LabError) -> bool {
    match error {
        LabError::Deployment(
            DeploymentError::Cache(CacheError::Verb(error)) | DeploymentError::Pool(PoolError::Verb(error)),
        ) => matches!(
            error,
            VerbError::Fenced | VerbError::OutcomeUnknown | VerbError::PeerDead | VerbError::NodeAbsent(_)
        ),
        LabError::Deployment(DeploymentError::Region(FabricError::System { .. })) => true,
        _ => false,
    }
}

/// A failure of the cache counts as a wrong answer.
fn tell_failure(ledger: &Ledger, post: &Post, error: &LabError) {
    ledger.count(Total::Wrong, 1);
    let what = match error {
        LabError::Deployment(DeploymentError::Cache(CacheError::Verb(error))) => format!("the fabric failed: {error}"),
        error => error.to_string(),
    };
    post.note(&what);
}
