//! A run in stages, one after the other: what was counted, by stage.
//!
//! All requests of the load, in the order in which a single client would make them, are dealt to
//! the stages and, within a stage, in turn to the clients that are there: what is asked depends
//! neither on the system nor on how many clients there are. A stage ends when all of its requests
//! have been made.
//!
//! Before a stage clients may join, and chunks of the pool go out of use or come back. Both happen
//! while nobody else does anything, and take no part of what is counted.

use super::super::client::Client;
use super::super::point::Point;
use super::super::setup::Setup;
use super::super::shape;
use super::super::system::{Subject, Work, on_system};
use crate::load::Request;
use crate::{LabError, report};
use atoll_cache::CacheError;
use atoll_cache::EnginePool;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// Clients that are there, at least those of the stage before.
    pub(super) clients: u16,
    /// Percent of the pool's chunks that are in use.
    pub(super) memory_percent: u64,
    /// Its part of the requests: this over the sum of all stages' parts.
    pub(super) part: u64,
}

/// What was counted in a stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    gets: u64,
    hits: u64,
    /// Of every client its requests in a microsecond, until it had made its own; added up.
    mops: f64,
    /// The weight of the first expert at the end, as the first client knows it; 1 where there are
    /// no experts.
    weight: f64,
}

impl Counted {
    /// Percent of the GETs that hit.
    pub(super) fn hit_percent(&self) -> f64 {
        self.hits as f64 * 100.0 / self.gets.max(1) as f64
    }

    /// Millions of requests a second. A client that waits for the others at the end of a stage does
    /// not count for less.
    pub(super) fn mops(&self) -> f64 {
        self.mops
    }

    /// The weight of the first expert at the end, from 0 to 1; 1 where nothing is learnt.
    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    /// Of these stages together.
    pub(super) fn sum(stages: &[Self]) -> Self {
        let (gets, hits) = stages.iter().fold((0, 0), |(gets, hits), one| (gets + one.gets, hits + one.hits));
        // Stages of equally many requests: the time of all is the sum of theirs.
        let mops = stages.len() as f64 / stages.iter().map(|one| 1.0 / one.mops.max(1e-9)).sum::<f64>();
        Self { gets, hits, mops, weight: stages.last().map_or(1.0, Self::weight) }
    }
}

/// The weight of LRU at the end of every stage, of each system that weighs it against another: why
/// it hits as it does. So many stages are 1 along.
pub(super) fn weights(names: &[String], lines: &[&[Counted]], stages: usize) -> report::Figure {
    let place = |stage: usize| (stage + 1) as f64 / stages as f64;
    let weighs = |line: &[Counted]| line.iter().any(|one| one.weight() != 1.0);
    let learning = names.iter().zip(lines).filter(|(_, line)| weighs(line));
    let line = |(name, line): (&String, &&[Counted])| {
        shape::series(name.clone(), line.iter().enumerate().map(|(stage, one)| (place(stage), one.weight())))
    };
    report::Figure {
        title: "Weight of LRU beside LFU, at the end of a stage".to_owned(),
        x: shape::axis("stages", ""),
        y: shape::axis("weight", ""),
        series: learning.map(line).collect(),
    }
}

/// Runs `setup`, whose pool has room for the most clients of a stage.
pub(super) fn measure(setup: &Setup, stages: &[Stage]) -> Result<Vec<Counted>, LabError> {
    struct One<'s>(&'s Setup, &'s [Stage]);
    impl Work for One<'_> {
        type Output = Vec<Counted>;

        fn run<G: Subject>(self) -> Result<Vec<Counted>, LabError> {
            measure_on::<G>(self.0, self.1)
        }
    }
    on_system(setup.system, One(setup, stages))
}

fn measure_on<G: Subject>(setup: &Setup, stages: &[Stage]) -> Result<Vec<Counted>, LabError> {
    let first = Setup { threads: stages[0].clients, ..setup.clone() };
    let mut point = Point::<G>::new(&first)?;
    let all: Arc<[Request]> = setup.load.stream(0, 1).collect();
    let parts: u64 = stages.iter().map(|stage| stage.part).sum();
    let (mut begun, mut retired, mut counted) = (0, 0, Vec::new());
    for stage in stages {
        while point.places.len() < usize::from(stage.clients) {
            point.join()?;
        }
        let chunks = u64::from(point.pools[0].pool().layout.chunks());
        resize(&point, &mut retired, chunks - chunks * stage.memory_percent / 100)?;
        let ended = begun + stage.part;
        let [from, to] = [begun, ended].map(|part| (all.len() as u64 * part / parts) as usize);
        counted.push(count(&point, &all, from..to)?);
        begun = ended;
    }
    point.leave()?;
    Ok(counted)
}

/// Lets all clients make these requests.
fn count<G: Subject>(
    point: &Point<'_, G>,
    all: &Arc<[Request]>,
    requests: std::ops::Range<usize>,
) -> Result<Counted, LabError> {
    let (clients, mops) = (point.places.len(), Rc::new(Cell::new(0.0)));
    point.phase(|thread, client| {
        let mine = requests.clone().skip(thread as usize).step_by(clients);
        play(client, all.clone(), mine, mops.clone())
    })?;
    let tally = point.tally.borrow();
    let place = point.places[0].borrow();
    let client = place.as_ref().expect("between phases every thread is at its place");
    let weight = client.cache.engine().weights().first().copied().unwrap_or(1.0);
    Ok(Counted { gets: tally.gets, hits: tally.hits, mops: mops.get(), weight })
}

async fn play<G: Subject>(
    mut client: Client<G>,
    all: Arc<[Request]>,
    mine: impl ExactSizeIterator<Item = usize>,
    mops: Rc<Cell<f64>>,
) -> (Client<G>, Result<(), CacheError>) {
    let (begun_ns, requests) = (client.now_ns(), mine.len());
    for number in mine {
        if let Err(error) = client.request(&all[number]).await {
            return (client, Err(error));
        }
    }
    let ns = (client.now_ns() - begun_ns).max(1);
    mops.set(mops.get() + requests as f64 * 1e3 / ns as f64);
    (client, Ok(()))
}

/// Lets all clients together take chunks out of use, or give them back, until so many are out of
/// use.
fn resize<G: Subject>(point: &Point<'_, G>, retired: &mut u64, wanted: u64) -> Result<(), LabError> {
    let (before, clients) = (std::mem::replace(retired, wanted), point.places.len());
    if before == wanted {
        return Ok(());
    }
    point.phase(|thread, client| async move {
        let mine = |chunks: std::ops::Range<u64>| chunks.skip(thread as usize).step_by(clients);
        let (engine, mut outcome) = (client.cache.engine(), Ok(()));
        let mut left = mine(before..wanted).count() as u64;
        while left > 0 && outcome.is_ok() {
            outcome = engine.retire_chunks(left).await.map(|retired| left -= retired);
        }
        for _ in mine(wanted..before) {
            outcome = outcome.and(engine.restore_chunk().await.map(drop));
        }
        (client, outcome)
    })?;
    Ok(())
}
