//! The command `sim explore`.

use super::explored::{Bounds, SMALL_CASES, SmallCase};
use super::subject::{Dittoed, Forged, Learned, Queueing, Stored, Subject};
use super::swarm::SimulatedEngine;
use crate::LabError;
use atoll_sim::Distance;
use atoll_sim::explore::{self, Decisions, Explored};
use clap::Args;

/// Run every interleaving of a small case
#[derive(Args, Clone, Debug)]
pub struct ExploreCommand {
    /// Which case; `list` shows them, `all` runs them all
    case: String,
    /// The engine
    #[arg(long, value_enum, default_value_t)]
    engine: SimulatedEngine,
    /// Interleavings at most, of each case
    #[arg(long, default_value_t = 1_000_000)]
    runs_max: u64,
    /// Switches from a client that could go on to another one, at most; without it, all runs that differ in what matters
    #[arg(long)]
    preemptions: Option<u32>,
    /// Let verbs of a batch take effect in every order that the contract permits
    #[arg(long)]
    reorder: bool,
    /// Let READs and WRITEs of several words take effect in two halves
    #[arg(long)]
    tear: bool,
    /// Let memory be far from the clients, as over a network
    #[arg(long)]
    far: bool,
    /// Run only this one again, and print its events
    #[arg(long, value_name = "DECISIONS")]
    replay: Option<Decisions>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ExploreCommand {
    /// Explores and prints what came of it.
    pub fn run(self) -> Result<(), LabError> {
        match self.engine {
            SimulatedEngine::Forge => self.run_with::<Forged>(),
            SimulatedEngine::GlCacheDm => self.run_with::<Learned>(),
            SimulatedEngine::Ditto => self.run_with::<Dittoed>(),
            SimulatedEngine::Kvs => self.run_with::<Stored>(),
            SimulatedEngine::Queues => self.run_with::<Queueing>(),
        }
    }

    fn bounds(&self) -> Bounds {
        let Self { runs_max, preemptions, reorder, tear, far, .. } = *self;
        let distance = if far { Distance::Far } else { Distance::Near };
        Bounds { runs_max, preemptions_max: preemptions, reorder, tear, distance }
    }

    fn run_with<S: Subject>(self) -> Result<(), LabError> {
        if self.case == "list" {
            for SmallCase { name, what, .. } in SMALL_CASES {
                println!("{name:<26} {what}");
            }
            return Ok(());
        }
        let cases: Vec<&SmallCase> = match SmallCase::named(&self.case) {
            Some(case) => vec![case],
            None if self.case == "all" => SMALL_CASES.iter().collect(),
            None => {
                let what = format!("there is no case `{}`: `atoll sim explore list` shows them", self.case);
                return Err(LabError::Options(what));
            }
        };
        if let (Some(decisions), [case]) = (&self.replay, &cases[..]) {
            let options = case.options::<S>(&self.bounds());
            let (result, trace) = explore::replay(&options, decisions, |sim| case.run::<S>(sim));
            println!("{}", trace.trim_start_matches('\n'));
            return result.map_err(LabError::Failed);
        }
        let (mut failed, mut reports) = (0, Vec::new());
        for case in cases {
            let explored = case.explore::<S>(&self.bounds());
            failed += usize::from(explored.failure.is_some());
            if self.json {
                reports.push(report(case, &explored));
            } else {
                println!("{:<26} {explored}", case.name);
            }
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&reports).expect("reports are plain data"));
        }
        if failed == 0 { Ok(()) } else { Err(LabError::Failed(format!("{failed} case(s) failed"))) }
    }
}

fn report(case: &SmallCase, explored: &Explored) -> serde_json::Value {
    let failure = |failure: &explore::ExploredFailure| serde_json::json!({ "what": failure.what, "replay": failure.decisions.to_string() });
    let failures: Vec<_> = explored.failure.iter().map(failure).collect();
    serde_json::json!({
        "case": case.name, "runs": explored.runs, "runs_redundant": explored.runs_redundant, "events": explored.events,
        "exhausted": explored.exhausted, "preemptions_max": explored.preemptions_max, "deepest": explored.deepest,
        "failures": failures,
    })
}
