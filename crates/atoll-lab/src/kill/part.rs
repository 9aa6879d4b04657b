//! What one process of the experiment does.

use super::authority::{Authority, Total};
use super::load::{Load, Writer};
use super::value::Keys;
use super::waits::{Measured, Waits};
use crate::LabError;
use crate::deployment::{Deployment, Experiment, Plan, on_engine};
use crate::fleet::Post;
use crate::scheduled::Scheduled;
use atoll_cache::{CacheError, Stats};
use atoll_fabric::Clock;
use serde::{Deserialize, Serialize};

/// Operations between two additions to the totals.
const STRETCH: u64 = 64;
/// A client leaves and a new one joins in its place after about so many operations.
const CLIENT_OPERATIONS: u64 = 100_000;

/// What a process of the experiment is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(super) plan: Plan,
    /// The region of the authority.
    pub(super) authority: String,
    pub(super) capacity_bytes: u64,
    /// The first of its writers' places; it has as many as threads.
    pub(super) writer: u64,
    pub(super) threads: u64,
    /// Places of writers over all processes.
    pub(super) writers: u64,
    /// Differs from that of every other process that ever was.
    pub(super) serial: u64,
    /// Whether it is the checker, which mostly reads and measures.
    pub(super) checks: bool,
}

/// What a process that was not killed tells at its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) measured: Option<Measured>,
}

impl Part {
    /// Does the part, in the process that it is for.
    pub(crate) fn run(self, post: Post) -> Result<(), LabError> {
        // A killed parent takes its children with it: none goes on for ever.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|error| LabError::System { what: "ask to end with the parent process", source: error.into() })?;
        let engine = self.plan.engine;
        on_engine(engine, Opened { part: &self, post: &post })
    }
}

struct Opened<'p> {
    part: &'p Part,
    post: &'p Post,
}

impl Experiment for Opened<'_> {
    type Output = ();

    fn run<D: Deployment>(self) -> Result<(), LabError> {
        let Self { part, post } = self;
        post.stand_by()?;
        let measured: Vec<Option<Measured>> = std::thread::scope(|scope| {
            let work = |thread| scope.spawn(move || work::<D>(part, post, thread));
            let threads: Vec<_> = (0..part.threads).map(work).collect();
            threads.into_iter().map(|thread| thread.join().expect("a worker has a bug")).collect::<Result<_, _>>()
        })?;
        post.report(&Told { measured: measured.into_iter().flatten().next() });
        Ok(())
    }
}

/// What one thread does until the load ends.
fn work<D: Deployment>(part: &Part, post: &Post, thread: u64) -> Result<Option<Measured>, LabError> {
    let deployment = D::open(&part.plan, &Clock::host())?;
    let authority = Authority::open(&part.authority)?;
    let mut waits = if part.checks { Waits::of_this_thread() } else { Waits::none() };
    let scheduled = Scheduled::this_thread();
    let mut core_ns = 0;
    let mut nonce = part.serial << 32 | thread << 24;
    while !authority.is_ending() {
        nonce += 1;
        let writer = Writer { index: part.writer + thread, writers: part.writers, nonce, reads: part.checks };
        let mut wrong = |what: String| post.note(&what);
        let keys = Keys::for_capacity(part.capacity_bytes);
        let mut load = Load::new(deployment.client()?, &authority, keys, writer, &mut waits, &mut wrong);
        let mut told = Stats::default();
        let operations_max = if part.checks { u64::MAX } else { CLIENT_OPERATIONS };
        let mut operations = 0;
        while operations < operations_max && !authority.is_ending() {
            for _ in 0..STRETCH {
                load.step().inspect_err(|error| tell_failure(&authority, post, error))?;
            }
            operations += STRETCH;
            if !part.checks {
                let core_ns_before = std::mem::replace(&mut core_ns, scheduled.ns().0);
                authority.count(Total::Operations, STRETCH);
                authority.count(Total::CoreNs, core_ns - core_ns_before);
            }
            authority.count(Total::Checked, load.take_checked());
            let stats = load.cache().stats();
            authority.count(Total::Fenced, stats.clients_fenced - told.clients_fenced);
            authority.count(Total::Repaired, stats.chunks_repaired - told.chunks_repaired);
            told = stats;
        }
    }
    Ok(waits.into_measured())
}

/// A cache that fails is as wrong as one that answers wrongly.
fn tell_failure(authority: &Authority, post: &Post, error: &LabError) {
    authority.count(Total::Wrong, 1);
    let what = match error {
        LabError::Cache(CacheError::Verb(error)) => format!("the fabric failed: {error}"),
        error => error.to_string(),
    };
    post.note(&what);
}
