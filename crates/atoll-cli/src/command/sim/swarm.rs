//! The command `sim swarm`.

use super::engine;
use atoll_cases::engine::SimulatedEngine;
use atoll_cases::swarm::{Failure, swarm};
use atoll_lab::Progress;
use clap::Args;
use std::error::Error;
use std::time::Duration;

/// Draw pools, loads, relaxations and failures from seeds, and look for faults
#[derive(Args, Clone, Debug)]
pub(crate) struct SwarmCommand {
    /// The engine
    #[arg(long, value_parser = engine(), default_value = SimulatedEngine::default().name())]
    engine: SimulatedEngine,
    /// Minutes that the swarm runs
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// Most runs
    #[arg(long)]
    runs: Option<u64>,
    /// The first seed; by default a new one, from the wall clock
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if minutes > 0.0 && minutes <= 100_000.0 => Ok(minutes),
        _ => Err("write a number of minutes above 0, such as 0.5".to_owned()),
    }
}

impl SwarmCommand {
    /// Runs the swarm and prints what it found.
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // Swarms that start in different seconds try different seeds, a million each.
        let first = self.seed.unwrap_or(since_epoch.as_secs() * 1_000_000);
        let time = Duration::from_secs_f64(60.0 * self.minutes);
        let progress = Progress::new(time.as_millis() as u64, "seeds");
        let at = |elapsed: Duration| progress.set(elapsed.as_millis() as u64);
        let (runs_max, threads) = (self.runs.unwrap_or(u64::MAX), self.threads.unwrap_or(cores));
        let report = swarm(self.engine, first, runs_max, time, threads, at);
        drop(progress);
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report).expect("a report is plain data"));
        } else {
            println!("{} runs from seed {first}: {} events, {} kills", report.runs, report.events, report.kills);
            println!("{} operations checked, {} of them hits", report.operations, report.hits);
            println!("{} verbs a second and thread, joins, walks and checks included", report.verbs_per_s);
            for Failure { seed, what } in &report.failures {
                let engine = self.engine.name();
                println!("seed {seed}: {what}\n  replay: atoll sim replay --engine {engine} --seed {seed} --trace");
            }
        }
        match report.failures.len() {
            0 => Ok(()),
            failures => Err(format!("{failures} of {} runs failed", report.runs).into()),
        }
    }
}
