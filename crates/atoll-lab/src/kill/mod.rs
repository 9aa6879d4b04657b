//! Processes on one pool are killed, stopped and resumed at random. Nothing may be wrong, lost or
//! slower afterwards.
//!
//! | module | concept |
//! |---|---|
//! | `ledger` | what is known of every key, and when a value is wrong |
//! | `value` | values that say what they are |
//! | `draw` | what a client does next, and on which key |
//! | `load` | one client's operations, each checked |
//! | `faulty` | tests of the checks: caches with faults are caught |
//! | `namespaces` | the namespaces that a process runs in, as in a container |
//! | `timings` | how long operations took |
//! | `task` | what one process does |
//! | `processes` | all processes, and their successors |
//! | `report` | the result |
//!
//! | share of the time | what happens |
//! |---|---|
//! | 10 %, at most 20 s | the pool fills |
//! | 15 %, at most 20 s | the workers' throughput before |
//! | the rest | kills, stops; the throughput during |
//! | 1 s | the pool recovers |
//! | 15 %, at most 20 s | the throughput after |
//!
//! At the end all clients leave, one pass of repair is made, and every invariant is checked. The
//! invariants are checked once more after everything was removed.

mod draw;
#[cfg(test)]
mod faulty;
mod ledger;
mod load;
mod namespaces;
mod processes;
mod report;
mod task;
mod timings;
mod value;

use crate::LabError;
use crate::deployment::{Bound, Deployment, EngineName, Experiment, Plan, on_plan};
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;
use crate::random::Random;
use atoll_fabric::shm::ShmRegion;
use atoll_fabric::tcp::{Agent, AgentOptions};
use atoll_fabric::{Clock, run_ready};
use ledger::Ledger;
use namespaces::Namespaces;
use processes::Processes;
use report::{Counts, KillReport, Window};
use std::time::{Duration, Instant};
pub(crate) use task::KillTask;
use value::Keys;

/// How often the experiment looks at its processes.
const TICK: Duration = Duration::from_millis(2);
const SETTLING: Duration = Duration::from_secs(1);
const WINDOW_MAX: Duration = Duration::from_secs(20);
/// A stop lasts between these, in milliseconds; short ones are as likely as long ones.
const STOP_MS: (f64, f64) = (1.0, 3000.0);

/// Kill and stop processes of a pool under load at random, and check that nothing is wrong, lost or
/// slower
#[derive(Clone, Debug, clap::Args)]
pub struct KillCommand {
    /// Minutes of load
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Kills a minute while there are kills, and half as many stops
    #[arg(long, default_value_t = 60.0)]
    rate: f64,
    /// Worker processes, of one and two threads in turn
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    workers: u64,
    /// MiB of the pool
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    capacity_mib: u64,
    /// The engine
    #[arg(long, default_value_t)]
    engine: EngineName,
    /// Seed of the kills and stops; their moments on a real machine do not repeat
    #[arg(long)]
    seed: Option<u64>,
    /// Run two of three processes in their own pid namespaces, and half of those with the `/proc`
    /// of this process, as containers that share the pool; needs the privilege for namespaces
    #[arg(long)]
    namespaces: bool,
    /// The fabric of the pool; of tcp the memory node is a thread of this process, and its clients
    /// are the workers
    #[arg(long, value_enum, default_value_t = FabricName::Shm)]
    fabric: FabricName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A fabric of this experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FabricName {
    /// Memory of this host.
    Shm,
    /// A memory node, over loopback.
    Tcp,
}

impl KillCommand {
    /// Does the experiment and prints its result; an error if anything is wrong.
    pub fn run(self) -> Result<(), LabError> {
        if !(0.05..=100_000.0).contains(&self.minutes) || !(1.0..=10_000.0).contains(&self.rate) {
            return Err(LabError::Options("--minutes takes 0.05 or more, --rate 1 to 10000".to_owned()));
        }
        if self.namespaces {
            Namespaces::check()?;
        }
        let capacity_bytes = self.capacity_mib << 20;
        let agent = match self.fabric {
            FabricName::Shm => None,
            FabricName::Tcp => {
                let options = AgentOptions { capacity_bytes, ..AgentOptions::default() };
                Some(Agent::bind("127.0.0.1:0", options)?.start()?)
            }
        };
        let address = agent.as_ref().map(|agent| format!("tcp:{}", agent.address()));
        let plan = self.plan(address);
        let report = on_plan(&plan, Kills { command: &self, plan: &plan })?;
        output::print(self.json, &report, |shown| shown.render());
        if report.is_clean() { Ok(()) } else { Err(LabError::Unsound) }
    }

    /// The cache, at the address of a memory node or on this host.
    fn plan(&self, address: Option<String>) -> Plan {
        let name = address.unwrap_or_else(|| format!("shm:/atoll-kill-{}", std::process::id()));
        let bound = Bound::Bytes(self.capacity_mib << 20);
        Plan { engine: self.engine.clone(), bound, object_bytes: 8192, clients_max: 64, name: Some(name) }
    }

    /// A task for each worker, and the checker's.
    fn tasks(&self, plan: &Plan, ledger: &str) -> Vec<KillTask> {
        let threads = |worker: u64| if worker == self.workers { 1 } else { 1 + worker % 2 };
        let writers = (0..=self.workers).map(threads).sum();
        let mut writer = 0;
        let task = |worker| {
            let task = KillTask {
                plan: plan.clone(),
                ledger: ledger.to_owned(),
                places: writer..writer + threads(worker),
                writers,
                serial: worker + 1,
                checks: worker == self.workers,
            };
            writer = task.places.end;
            task
        };
        (0..=self.workers).map(task).collect()
    }
}

/// Removes the names of the experiment's regions, however it ends.
struct Names<D: Deployment> {
    plan: Plan,
    ledger: String,
    deployment: std::marker::PhantomData<D>,
}

impl<D: Deployment> Drop for Names<D> {
    fn drop(&mut self) {
        // What is not there need not be removed.
        let _ = D::remove(&self.plan);
        let _ = ShmRegion::remove(&self.ledger);
    }
}

struct Kills<'c> {
    command: &'c KillCommand,
    plan: &'c Plan,
}

impl Experiment for Kills<'_> {
    type Output = KillReport;

    fn run<D: Deployment>(self) -> Result<KillReport, LabError> {
        let Self { command, plan } = self;
        let name = format!("shm:/atoll-kill-{}-ledger", std::process::id());
        let names = Names::<D> { plan: plan.clone(), ledger: name, deployment: std::marker::PhantomData };
        let deployment = D::create(&names.plan, &Clock::host())?;
        let keys = Keys::for_bound(names.plan.bound);
        let ledger = Ledger::create(&names.ledger, keys.count())?;
        let interrupted = Interrupt::new()?;
        let processes = Processes::start(command.tasks(&names.plan, &names.ledger), command.namespaces)?;
        let mut course = Course { command, ledger: &ledger, interrupted, processes, counts: Counts::default() };
        let windows = course.run()?;
        let counts = course.counts;
        ledger.end();
        let (notes, told) = course.processes.end()?;
        let mended = deployment.repair()?;
        let full = deployment.audit()?;
        run_ready(deployment.client()?.flush())?;
        deployment.repair()?;
        let empty = deployment.audit()?;
        drop(names);
        Ok(KillReport::new(counts, &ledger, &windows, notes, told, &[full, empty], mended))
    }
}

/// The load's time.
struct Course<'c> {
    command: &'c KillCommand,
    ledger: &'c Ledger,
    interrupted: Interrupt,
    processes: Processes,
    counts: Counts,
}

impl Course<'_> {
    fn run(&mut self) -> Result<[Window; 3], LabError> {
        let whole = Duration::from_secs_f64(self.command.minutes * 60.0);
        let window = (whole * 3 / 20).min(WINDOW_MAX);
        let filling = (whole / 10).min(WINDOW_MAX);
        let killing = whole.saturating_sub(2 * window + filling + SETTLING);
        let progress = Progress::new(whole.as_millis() as u64, "kill");
        let since = Instant::now();
        let tick = || progress.set(since.elapsed().as_millis() as u64);
        self.pass(filling, tick)?;
        let before = self.pass(window, tick)?;
        let during = self.kill(killing, tick)?;
        self.processes.resume()?;
        self.pass(SETTLING, tick)?;
        let after = self.pass(window, tick)?;
        Ok([before, during, after])
    }

    fn wait(&mut self, until: Instant, tick: impl Fn()) -> Result<(), LabError> {
        loop {
            self.interrupted.check()?;
            self.processes.tend()?;
            tick();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    /// Lets the load run for this long.
    fn pass(&mut self, time: Duration, tick: impl Fn()) -> Result<Window, LabError> {
        let begun = Window::begin(self.ledger);
        self.wait(Instant::now() + time, tick)?;
        Ok(begun.end(self.ledger))
    }

    /// The same, with kills and stops. Their times are independent (a Poisson process), so some hit
    /// a repairer.
    fn kill(&mut self, time: Duration, tick: impl Fn() + Copy) -> Result<Window, LabError> {
        let begun = Window::begin(self.ledger);
        let seed = self.command.seed.unwrap_or_else(|| self.ledger.now_ns() ^ u64::from(std::process::id()) << 32);
        let mut random = Random::new(seed);
        let end = Instant::now() + time;
        let mean_s = 60.0 / (1.5 * self.command.rate);
        loop {
            let next = Instant::now() + Duration::from_secs_f64(-mean_s * (1.0 - random.unit()).ln());
            self.wait(next.min(end), tick)?;
            if next >= end {
                return Ok(begun.end(self.ledger));
            }
            let worker = random.below(self.processes.workers()) as usize;
            if random.below(3) > 0 {
                self.processes.kill(worker)?;
                self.counts.kills += 1;
            } else {
                let ms = STOP_MS.0 * (STOP_MS.1 / STOP_MS.0).powf(random.unit());
                let stopped = self.processes.stop(worker, Duration::from_secs_f64(ms / 1000.0))?;
                self.counts.stops += u64::from(stopped);
            }
        }
    }
}
