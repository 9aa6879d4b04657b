//! The command `sim replay`.

use super::engine;
use atoll_cases::engine::SimulatedEngine;
use atoll_cases::swarm::Failure;
use clap::Args;
use std::error::Error;

/// Replay one drawn case
#[derive(Args, Clone, Debug)]
pub(crate) struct ReplayCommand {
    /// The engine
    #[arg(long, value_parser = engine(), default_value = SimulatedEngine::default().name())]
    engine: SimulatedEngine,
    /// The seed of the case
    #[arg(long)]
    seed: u64,
    /// Print the events, only this many of the last ones; by default all
    #[arg(long, num_args = 0..=1, default_missing_value = "18446744073709551615")]
    trace: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ReplayCommand {
    /// Runs the seed and prints the result.
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let (turmoil, ran, trace) = self.engine.replay_seed(self.seed, self.trace.unwrap_or(0));
        if !self.json {
            println!("{turmoil}");
        }
        if self.trace.is_some() {
            println!("{}", trace.trim_start_matches('\n'));
        }
        match ran {
            Ok(ran) if self.json => println!(
                "{}",
                serde_json::json!({ "runs": 1, "events": ran.steps, "failures": [], "digest": format!("{:016x}", ran.digest) })
            ),
            Ok(ran) => println!(
                "nothing is wrong: {} events, {} kills, {} operations, digest {:016x}",
                ran.steps, ran.kills, ran.checked.operations, ran.digest
            ),
            Err(what) => {
                if self.json {
                    let failure = Failure { seed: self.seed, what: what.clone() };
                    println!("{}", serde_json::json!({ "runs": 1, "failures": [failure] }));
                }
                return Err(format!("seed {}: {what}", self.seed).into());
            }
        }
        Ok(())
    }
}
