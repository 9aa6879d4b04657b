//! One run of a case with faults, from the new pool to the judgement.

use crate::endpoint::CaseEndpoint;
use crate::faulty::case::FaultyCase;
use crate::faulty::recovery;
use crate::faulty::roles;
use crate::faulty::state::RunState;
use crate::play::timed_history;
use crate::subject::{Shared, Subject};
use atoll_cache::{EnginePool, Pooled};
use atoll_fabric::Address;
use atoll_pool::{ChunkId, Layout, PoolSettings};
use atoll_sim::history::{Checked, Evictions};
use atoll_sim::{Sim, SimOptions};
use std::rc::Rc;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunSummary {
    /// The history.
    pub checked: Checked,
    /// Steps of the simulation.
    pub steps: u64,
    /// Verbs that took effect.
    pub verbs: u64,
    /// Clients killed.
    pub kills: u64,
    /// A digest of all events.
    pub digest: u64,
}

/// Chunks that have memory when a sparse pool is made; fewer than its home has.
const CHUNKS_THERE: u32 = 2;

impl<S: Subject> FaultyCase<S> {
    /// Plays the case's load under a seed; returns the fault, if there was one. Prints the last
    /// events then, as many as `ATOLL_SIM_TRACE` says.
    pub fn run(&self, seed: u64) -> Result<RunSummary, String> {
        let sim = Sim::new(self.options(seed));
        self.run_on(&sim).inspect_err(|_| eprint!("{}", sim.trace()))
    }

    /// The same with the last events in words.
    pub fn run_traced(&self, seed: u64, events: usize) -> (Result<RunSummary, String>, String) {
        let sim = Sim::new(SimOptions { trace_events: events, ..self.options(seed) });
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_on(&sim)));
        let trace = if events > 0 { sim.trace() } else { String::new() };
        (ran.unwrap_or_else(|_| Err("the run panicked".to_owned())), trace)
    }

    /// Takes the memory of all chunks but a few away before the pool is made.
    fn withhold(&self, sim: &Sim, settings: &PoolSettings) -> Result<(), String> {
        let layout = Layout::plan(settings, <Shared<S>>::engine_area(settings)).map_err(|error| error.to_string())?;
        let first = layout.chunk(ChunkId(CHUNKS_THERE));
        sim.withhold(first, settings.home_bytes().saturating_sub(first.offset()));
        for node in 1..settings.nodes as u8 {
            let heap = layout.member_heap(node);
            sim.withhold(Address::new(node, 0, heap), settings.member_bytes - heap);
        }
        Ok(())
    }

    fn run_on(&self, sim: &Sim) -> Result<RunSummary, String> {
        let settings = self.settings();
        let bytes = settings.home_bytes();
        if self.sparse {
            self.withhold(sim, &settings)?;
        }
        let endpoint = CaseEndpoint::new(sim.endpoint("maker"));
        let made = sim.block_on(async move { S::Engine::format(&endpoint, settings).await });
        let pool = made.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let control = sim.control();
        let layout = pool.pool().layout.clone();
        let places = pool.pool().settings.clients_max;
        let words = (0..places).flat_map(|place| [layout.signal(place), layout.lease(place)]);
        words.for_each(|word| control.watch_word(word));
        let server_spawner = self.case.subject.server_spawner(&pool);
        let spawn_server =
            |present: &Rc<()>| server_spawner.iter().for_each(|spawn| spawn(sim, Rc::downgrade(present)));
        let drift = self.faults.clock_drift_per_mille_max;
        let history = Rc::new(timed_history::<S>(sim.control(), &pool, drift));
        sim.name_addresses(move |at| pool.describe(at));
        let run = RunState::new(self.clone(), sim.seed(), bytes, history);
        if S::ENDS_WITH_FENCE {
            let (history, numbers) = (run.history.clone(), run.numbers.clone());
            control.on_shut_out(move |client| {
                if let Some(number) = numbers.borrow().get(&client) {
                    history.shut_out(*number);
                }
            });
        }
        let present = Rc::new(());
        spawn_server(&present);
        for number in 0..self.case.clients {
            let (run, control, present) = (run.clone(), sim.control(), present.clone());
            let client = sim.spawn(&format!("client {number}"), roles::live(run.clone(), control, number, present));
            run.numbers.borrow_mut().insert(client, number);
        }
        if self.case.growth_chunks > 0 {
            sim.spawn("grower", roles::grow(run.clone(), sim.control()));
        }
        if self.resized_chunks > 0 {
            sim.spawn("resizer", roles::resize(run.clone(), sim.control(), present.clone()));
        }
        for number in 0..self.evictors {
            sim.spawn(&format!("evictor {number}"), roles::evict_ahead(run.clone(), sim.control(), number));
        }
        if self.sparse {
            sim.spawn("provider", roles::provide(run.clone(), sim.control()));
        }
        if self.absences > 0 {
            sim.spawn_spared("ender", roles::end_nodes(run.clone(), sim.control()));
        }
        sim.spawn_spared("keeper", roles::keep(run.clone(), sim.control(), present));
        sim.run().map_err(|error| error.to_string())?;
        if let Some(error) = run.errors.take().into_iter().next() {
            return Err(error);
        }
        let present = Rc::new(());
        spawn_server(&present);
        sim.block_on(recovery::end(run.clone(), sim.control(), present)).map_err(|error| error.to_string())??;
        // What was on a node that lost its bytes is evicted.
        let evictions = if self.faults.node_losses_max > 0 { Evictions::Anytime } else { self.case.evictions };
        let checked = run.history.check_with(evictions).map_err(|violation| violation.to_string())?;
        run.judge_counts()?;
        run.judge_fences(&control)?;
        let report = sim.run().map_err(|error| error.to_string())?;
        let kills = sim.control().killed().len() as u64;
        Ok(RunSummary { checked, steps: report.steps, verbs: report.verbs, kills, digest: report.digest })
    }
}
