//! The command `sim explore`.

use super::engine;
use atoll_cases::engine::SimulatedEngine;
use atoll_cases::small_case::{Bounds, SMALL_CASES, SmallCase};
use atoll_sim::Distance;
use atoll_sim::explore::{Decisions, Explored, ExploredFailure};
use clap::Args;
use std::error::Error;

/// Run every interleaving of a small case
#[derive(Args, Clone, Debug)]
pub(crate) struct ExploreCommand {
    /// The case; `list` shows all cases, `all` runs all
    case: String,
    /// The engine
    #[arg(long, value_parser = engine(), default_value = SimulatedEngine::default().name())]
    engine: SimulatedEngine,
    /// Most interleavings of each case
    #[arg(long, default_value_t = 1_000_000)]
    runs_max: u64,
    /// Most switches away from a client that could continue; without it, all runs that differ in
    /// their effects
    #[arg(long)]
    preemptions: Option<u32>,
    /// Let verbs of a batch take effect in every order that the contract permits
    #[arg(long)]
    reorder: bool,
    /// Let READs and WRITEs of several words take effect in two halves
    #[arg(long)]
    tear: bool,
    /// Simulate memory that is far from the clients, as over a network
    #[arg(long)]
    far: bool,
    /// Replay only this run, and print its events
    #[arg(long, value_name = "DECISIONS")]
    replay: Option<Decisions>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ExploreCommand {
    fn bounds(&self) -> Bounds {
        let Self { runs_max, preemptions, reorder, tear, far, .. } = *self;
        let distance = if far { Distance::Far } else { Distance::Near };
        Bounds { runs_max, preemptions_max: preemptions, reorder, tear, distance }
    }

    /// Explores and prints the result.
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
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
                return Err(what.into());
            }
        };
        if let (Some(decisions), [case]) = (&self.replay, &cases[..]) {
            let (result, trace) = self.engine.replay_decisions(case, &self.bounds(), decisions);
            println!("{}", trace.trim_start_matches('\n'));
            return result.map_err(Into::into);
        }
        let (mut failed, mut reports) = (0, Vec::new());
        for case in cases {
            let explored = self.engine.explore(case, &self.bounds());
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
        if failed == 0 { Ok(()) } else { Err(format!("{failed} case(s) failed").into()) }
    }
}

fn report(case: &SmallCase, explored: &Explored) -> serde_json::Value {
    let failure = |failure: &ExploredFailure| serde_json::json!({ "what": failure.what, "replay": failure.decisions.to_string() });
    let failures: Vec<_> = explored.failure.iter().map(failure).collect();
    serde_json::json!({
        "case": case.name, "runs": explored.runs, "runs_redundant": explored.runs_redundant, "events": explored.events,
        "exhausted": explored.exhausted, "preemptions_max": explored.preemptions_max, "deepest": explored.deepest,
        "failures": failures,
    })
}
