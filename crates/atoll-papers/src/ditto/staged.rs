//! A run in stages, one after the other: what was counted, by stage.
//!
//! The requests of the load are divided among the stages, in the order in which a single client
//! would make them. Within a stage the clients get them in turn. What is asked depends neither on
//! the system nor on the number of clients. A stage ends when all of its requests have been made.
//!
//! Before a stage clients may join, and chunks of the pool are retired or restored. No client
//! makes a request meanwhile, and nothing of it is counted.

use super::systems::{System, names};
use crate::bench::Options;
use crate::bench::client::Client;
use crate::bench::measured::run_all;
use crate::bench::point::Point;
use crate::bench::setup::Setup;
use crate::bench::system::{Subject, Work, on_system};
use atoll_cache::ditto::Ditto;
use atoll_cache::{CacheError, EnginePool};
use atoll_cases::endpoint::CaseEndpoint;
use atoll_lab::LabError;
use atoll_lab::load::Request;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// Clients, at least as many as in the stage before.
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
    /// The sum over all clients of their requests in a microsecond. A client's time ends with its
    /// last request.
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
    fn weight(&self) -> f64 {
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

/// What was counted of each system, stage by stage.
pub(super) struct Staged {
    pub(super) names: Vec<String>,
    pub(super) lines: Vec<Vec<Counted>>,
}

/// Runs every system's setup in these stages.
pub(super) fn measure_all(
    systems: &[System],
    setups: Vec<Setup>,
    stages: &[Stage],
    options: &Options,
) -> Result<Staged, LabError> {
    let setups: Vec<Setup> = setups.iter().map(|setup| options.networked(setup)).collect();
    let (lines, _) = run_all(&setups, options.workers, |setup| setup.load.requests(), |setup| measure(setup, stages))?;
    Ok(Staged { names: names(systems), lines })
}

/// The weight of LRU at the end of every stage, of each system that weighs it against another. It
/// explains the hit ratios. So many stages are 1 along.
pub(super) fn weights(names: &[String], lines: &[Vec<Counted>], stages: usize) -> Figure {
    let count = lines.first().map_or(0, Vec::len);
    let places = Places::numbers("stages", "", (0..count).map(|stage| (stage + 1) as f64 / stages as f64));
    let weighs = |line: &[Counted]| line.iter().any(|one| one.weight() != 1.0);
    let learning = names.iter().zip(lines).filter(|(_, line)| weighs(line));
    let lines = learning.map(|(name, line)| places.line(name.clone(), line.iter().map(Counted::weight)));
    places.figure("Weight of LRU beside LFU, at the end of a stage", ("weight", ""), lines)
}

/// Runs `setup`, whose pool has room for the most clients of a stage.
fn measure(setup: &Setup, stages: &[Stage]) -> Result<Vec<Counted>, LabError> {
    struct One<'s>(&'s Setup, &'s [Stage]);
    impl Work for One<'_> {
        type Output = Vec<Counted>;

        fn run<G: Subject>(self) -> Result<Vec<Counted>, LabError> {
            measure_on::<G>(self.0, self.1)
        }
    }
    on_system(setup, One(setup, stages))
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
    let counted = tally.counted();
    let place = point.places[0].borrow();
    let client = place.as_ref().expect("between phases every thread is at its place");
    let ditto = client.cache.engine().itself().downcast_ref::<Ditto<CaseEndpoint>>();
    let weight = ditto.and_then(|ditto| Some(*ditto.replacement()?.weights().first()?)).unwrap_or(1.0);
    Ok(Counted { gets: counted.gets, hits: counted.hits, mops: mops.get(), weight })
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
    client.cache.engine().rest().await;
    mops.set(mops.get() + requests as f64 * 1e3 / ns as f64);
    (client, Ok(()))
}

/// Lets all clients together retire chunks, or restore them, until so many are out of use.
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
