//! Single operations: their latencies, and the throughput of two processes beside one.
//!
//! This process makes a named cache and others measure it, as processes share one. In-process
//! caches, a redis-server on a unix socket and plain copying loops are measured in the same run.
//! They take turns round by round, so all see the same machine. Figures are medians over rounds.
//! Nothing is subtracted from a latency. The cost of reading the clock is reported.
//!
//! The ratio of two processes to one is reported relative to that of two copying loops, since two
//! cores of a machine seldom give twice one.
//!
//! With an address it measures a pool that is there instead: see `pool`.

mod figures;
mod pool;
mod redis;
mod subject;
mod task;
mod workload;

use crate::LabError;
use crate::fleet::Fleet;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;
use atoll_deployment::{Bound, EngineName, Plan};
use figures::{Figures, MicroReport};
use redis::Server;
use subject::VALUE_BYTES;
pub(crate) use task::MicroTask;
use task::Target;
use workload::{Extent, Measured, Workload};

const KEY_BYTES: u64 = 16;
/// A cache without eviction gets this times the bytes of its keys and values.
const ROOM: f64 = 2.0;

/// Measure the latency of single operations and the throughput of two processes, beside moka,
/// quick_cache and redis-server
#[derive(Clone, Debug, clap::Args)]
pub struct MicroCommand {
    /// The engine
    #[arg(long, default_value_t)]
    engine: EngineName,
    /// Measure this pool instead, such as tcp:HOST:PORT: its verbs, GETs and SETs by how many are
    /// in flight, beside a bare ping-pong, with advice. It uses keys of its own, and removes them
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["engine", "objects"])]
    pool: Option<String>,
    /// Objects in the cache: 16-byte keys, 256-byte values
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1 << 31))]
    objects: u64,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds; figures are medians over them
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl MicroCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        if !(0.001..=3600.0).contains(&self.seconds) {
            return Err(LabError::Options("--seconds takes 0.001 to 3600".to_owned()));
        }
        if let Some(address) = &self.pool {
            let options = pool::Options { seconds: self.seconds, rounds: self.rounds };
            let report = pool::measure(address, &options)?;
            output::print(self.json, &report, |shown| shown.render());
            return Ok(());
        }
        let report = self.measure()?;
        output::print(self.json, &report, |shown| shown.render());
        Ok(())
    }

    fn measure(&self) -> Result<MicroReport, LabError> {
        // Its caches and the server are removed, however it ends.
        let interrupt = Interrupt::new()?;
        let measured = self.measure_until(&interrupt);
        // Ctrl-c also ends the processes of a round, which is an error of that round.
        interrupt.check()?;
        measured
    }

    fn measure_until(&self, interrupt: &Interrupt) -> Result<MicroReport, LabError> {
        let server = Server::start()?;
        let progress = Progress::new(4 * u64::from(self.rounds), "micro");
        let mut ours = Figures::new(&self.engine.to_string());
        let (mut moka, mut quick_cache) = (Figures::new("moka"), Figures::new("quick_cache"));
        let (mut redis, mut copying) = (Figures::new("redis-server, unix"), Figures::new("memory copy"));
        for round in 0..self.rounds {
            let extent = self.extent(round);
            EngineRound { command: self, extent, figures: &mut ours, copying: &mut copying }.run()?;
            interrupt.check()?;
            progress.advance(1);
            round_in_process(&extent, Target::Moka, &mut moka)?;
            interrupt.check()?;
            progress.advance(1);
            round_in_process(&extent, Target::QuickCache, &mut quick_cache)?;
            interrupt.check()?;
            progress.advance(1);
            if let Some(server) = &server {
                round_on_redis(&extent, server, &mut redis)?;
            }
            progress.advance(1);
        }
        let rows = vec![ours.row(), moka.row(), quick_cache.row(), redis.row(), copying.row()];
        Ok(MicroReport::new(self.objects, self.rounds, workload::timer_ns(), server.is_some(), rows))
    }

    fn extent(&self, round: u32) -> Extent {
        Extent { objects: self.objects, seconds: self.seconds, seed: 1_000_000 * u64::from(round) }
    }

    /// A cache with room for `objects`, if `room` says so, or for about as many.
    fn plan(&self, objects: u64, room: f64, which: &str) -> Plan {
        let object_bytes = KEY_BYTES + VALUE_BYTES as u64;
        let name = format!("shm:/atoll-micro-{}-{which}", std::process::id());
        let bytes = (objects as f64 * object_bytes as f64 * room) as u64;
        Plan {
            engine: self.engine.clone(),
            bound: Bound::Bytes(bytes),
            object_bytes,
            clients_max: 8,
            name: Some(name),
            evicts_ahead: false,
            secret_file: None,
        }
    }
}

/// Runs `workloads` on `target` in `processes` processes that begin together; gives what each
/// measured.
fn run_tasks(
    target: &Target,
    workloads: &[Workload],
    extent: &Extent,
    processes: u64,
) -> Result<Vec<Vec<Measured>>, LabError> {
    let task = |index| {
        let extent = Extent { seed: extent.seed + index, ..*extent };
        MicroTask { target: target.clone(), workloads: workloads.to_vec(), extent }
    };
    Fleet::start((0..processes).map(task))?.go(|_| ())
}

/// The latencies of one process on `target`, which is empty.
fn round_of_latencies(extent: &Extent, target: &Target, figures: &mut Figures) -> Result<(), LabError> {
    let workloads = [Workload::SetNew, Workload::GetZipf, Workload::GetUniform, Workload::SetOverwrite];
    figures.add_all(&workloads, &run_tasks(target, &workloads, extent, 1)?[0]);
    Ok(())
}

/// The throughput of one process and of two, of all `subjects` in turn, so that each pair of runs
/// meets the same machine.
fn round_of_processes(extent: &Extent, subjects: &mut [(&Target, &mut Figures)]) -> Result<(), LabError> {
    let workloads = [Workload::Throughput { threads: 1 }];
    for processes in [1, 2] {
        for (target, figures) in &mut *subjects {
            let parts = run_tasks(target, &workloads, extent, processes)?;
            figures.add_throughput(processes as usize, parts.iter().map(|part| part[0].operations_per_s).sum());
        }
    }
    Ok(())
}

fn round_of_evictions(extent: &Extent, target: &Target, figures: &mut Figures) -> Result<(), LabError> {
    let workloads = [Workload::SetEvicting];
    figures.add_all(&workloads, &run_tasks(target, &workloads, extent, 1)?[0]);
    Ok(())
}

/// A cache inside one process; two threads stand for two processes, which cannot share it.
fn round_in_process(extent: &Extent, target: fn(u64) -> Target, figures: &mut Figures) -> Result<(), LabError> {
    let mut workloads = vec![Workload::SetNew, Workload::GetZipf, Workload::GetUniform, Workload::SetOverwrite];
    workloads.extend([1, 2].map(|threads| Workload::Throughput { threads }));
    // Some caches evict before they are full: a tenth more keeps all objects resident.
    figures.add_all(&workloads, &run_tasks(&target(extent.objects * 11 / 10), &workloads, extent, 1)?[0]);
    round_of_evictions(extent, &target(extent.small()), figures)
}

fn round_on_redis(extent: &Extent, server: &Server, figures: &mut Figures) -> Result<(), LabError> {
    let target = Target::Redis(server.socket().to_owned());
    server.reset(None)?;
    round_of_latencies(extent, &target, figures)?;
    round_of_processes(extent, &mut [(&target, &mut *figures)])?;
    server.reset(Some(extent.small() * (KEY_BYTES + VALUE_BYTES as u64)))?;
    round_of_evictions(extent, &target, figures)
}

/// One round on two caches of an engine of ours: one with room for all objects, one that must
/// evict.
struct EngineRound<'r> {
    command: &'r MicroCommand,
    extent: Extent,
    figures: &'r mut Figures,
    copying: &'r mut Figures,
}

impl EngineRound<'_> {
    fn run(self) -> Result<(), LabError> {
        let Self { command, extent, figures, copying } = self;
        with_cache(&command.plan(command.objects, ROOM, "large"), |target| {
            round_of_latencies(&extent, target, figures)?;
            round_of_processes(&extent, &mut [(target, &mut *figures), (&Target::Copying, copying)])
        })?;
        let small = command.plan(extent.small(), 1.0, "small");
        with_cache(&small, |target| round_of_evictions(&extent, target, figures))
    }
}

/// Makes the cache of `plan` for the time of `measure`.
fn with_cache(plan: &Plan, measure: impl FnOnce(&Target) -> Result<(), LabError>) -> Result<(), LabError> {
    let deployment = plan.create(&atoll_fabric::Clock::host())?;
    let measured = measure(&Target::Engine(plan.clone()));
    drop(deployment);
    plan.remove()?;
    measured
}
