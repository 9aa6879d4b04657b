//! Processes on one pool are killed, stopped and resumed at random; over a network, their links are
//! cut, and memory nodes killed and stopped, too. Nothing may be wrong, lost or slower afterwards.
//!
//! | module | concept |
//! |---|---|
//! | `ledger` | what is known of every key, and when a value is wrong |
//! | `value` | values that say what they are |
//! | `draw` | what a client does next, and on which key |
//! | `load` | one client's operations, each checked |
//! | `faulty` | tests of the checks: caches with faults are caught |
//! | `namespaces` | the namespaces that a process runs in, as in a container or on a host |
//! | `hosts` | network namespaces as hosts, and the links between them and the memory node |
//! | `node` | the memory nodes |
//! | `timings` | how long operations took |
//! | `task` | what one process does |
//! | `processes` | all processes, and their successors |
//! | `report` | the result |
//!
//! | share of the time | what happens |
//! |---|---|
//! | 10 %, at most 20 s | the pool fills |
//! | 15 %, at most 20 s | the workers' throughput before |
//! | the rest | kills, stops, partitions, deaths and stops of memory nodes; the throughput during |
//! | 1 s, over cut links 20 %, at most 12 s | the pool recovers |
//! | 15 %, at most 20 s | the throughput after |
//!
//! With near caches every hit is checked as every other read. Every second worker has a near cache
//! of its own, the others share one. A thread of each worker does nothing
//! but slowly reread, so that near caches also answer where the pool is cut off. The checker's
//! changes may take so long:
//!
//! | memory | at most | since a change |
//! |---|---|---|
//! | this host's | `CHANGE_MAX` | waits for no process |
//! | memory nodes | one and a quarter lease, `SILENT_MAX` times for each worker | waits for near caches that do not answer |
//!
//! At the end all clients leave, one pass of repair is made, and every invariant is checked. The
//! invariants are checked once more after everything was removed.

mod draw;
#[cfg(test)]
mod faulty;
mod hosts;
mod ledger;
mod load;
mod namespaces;
mod node;
mod processes;
mod report;
mod task;
mod timings;
mod value;

use crate::LabError;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;
use atoll::size::parse_bytes;
use atoll_deployment::random::Random;
use atoll_deployment::{Bound, Deployment, EngineName, NearPool, Plan, PoolClock};
use atoll_fabric::shm::ShmRegion;
use atoll_fabric::tcp::AgentOptions;
use atoll_fabric::{Clock, run_ready};
use atoll_pool::clock::SKEW_MS;
use hosts::{HOSTS_MAX, Hosts};
use ledger::Ledger;
use namespaces::Namespaces;
pub(crate) use node::NodeTask;
use node::{LOCALHOST, Nodes};
use processes::{Processes, Surroundings};
use report::{Counts, KillReport, Window};
use std::time::{Duration, Instant};
pub(crate) use task::KillTask;
use value::Keys;

/// How often the experiment looks at its processes.
const TICK: Duration = Duration::from_millis(2);
const SETTLING: Duration = Duration::from_secs(1);
/// The same of links that were cut: the agent takes a host that was silent so long for gone, and
/// what a link has lost is sent again.
const SETTLING_OF_LINKS_MAX: Duration = Duration::from_secs(12);
const WINDOW_MAX: Duration = Duration::from_secs(20);
/// A stop lasts between these, in milliseconds; short ones are as likely as long ones.
const STOP_MS: (f64, f64) = (1.0, 3000.0);
/// A link is cut for a time between these, likewise: from what goes unnoticed to more than the
/// deadline of a batch and the kernels' patience with a silent host.
const PARTITION_MS: (f64, f64) = (1.0, 15_000.0);
/// A memory node is away for a time between these, likewise.
const ABSENCE_MS: (f64, f64) = (1.0, 15_000.0);
/// A memory node is stopped for a time between these, likewise, and at most for a quarter of the
/// run: some for so long that the pool goes on without it.
const SILENCE_MS: (f64, f64) = (100.0, 40_000.0);

/// Workers with near caches, at most: each has up to three clients of the pool's 64, and those of
/// killed ones have places for a while.
const NEAR_WORKERS_MAX: u64 = 16;

/// With near caches, how long a change may take on this host besides for a core: it waits for no
/// process that has stopped.
const CHANGE_MAX: Duration = Duration::from_secs(1);
/// Over a network a change waits for a near cache that does not answer, until its lease has ended.
/// A change that evicts ends copies of many objects, so it may meet each worker so often.
const SILENT_MAX: u32 = 2;

/// Kill and stop processes of a pool under load at random, and check that nothing is wrong, lost or
/// slower
#[derive(Clone, Debug, clap::Args)]
pub struct KillCommand {
    /// Minutes of load
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Kills a minute while there are kills, and half as many stops, partitions, and deaths and
    /// stops of memory nodes
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
    /// The fabric of the pool. As root each worker over tcp gets a network namespace, whose link to
    /// the memory nodes is cut now and then; otherwise the workers reach them over loopback
    #[arg(long, value_enum, default_value_t = FabricName::Shm)]
    fabric: FabricName,
    /// Memory nodes over tcp. The home is a thread of this process; the others are processes, which
    /// are killed now and then
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=8))]
    nodes: u64,
    /// Give each process a near cache of this size. The load rereads few keys, so that near caches
    /// answer most lookups. A run in which none did fails, and one in which a change waited for a
    /// stopped process for too long
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    near: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A fabric of this experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FabricName {
    /// Memory of this host.
    Shm,
    /// Memory nodes.
    Tcp,
}

impl KillCommand {
    /// Does the experiment and prints its result; an error if anything is wrong.
    pub fn run(self) -> Result<(), LabError> {
        if !(0.05..=100_000.0).contains(&self.minutes) || !(1.0..=10_000.0).contains(&self.rate) {
            return Err(LabError::Options("--minutes takes 0.05 or more, --rate 1 to 10000".to_owned()));
        }
        self.check_near()?;
        let (mut nodes, surroundings) = match self.fabric {
            FabricName::Shm if self.namespaces => {
                Namespaces::check()?;
                (None, Surroundings::Mixed)
            }
            FabricName::Shm => (None, Surroundings::Here),
            FabricName::Tcp if self.namespaces => {
                let why = "--namespaces is for --fabric shm: over tcp an agent decides which client is dead";
                return Err(LabError::Options(why.to_owned()));
            }
            FabricName::Tcp => {
                let surroundings = self.hosts()?;
                let is_for_hosts = matches!(surroundings, Surroundings::Hosts(_));
                (Some(Nodes::start(self.nodes, self.capacity_mib << 20, is_for_hosts)?), surroundings)
            }
        };
        let plan = self.plan(nodes.as_ref());
        let report = Kills { command: &self, plan: &plan, nodes: nodes.as_mut(), surroundings }.run()?;
        output::print(self.json, &report, |shown| shown.render());
        if report.is_clean() { Ok(()) } else { Err(LabError::Unsound) }
    }

    /// Whether near caches are possible, if they are wanted. What only the pool can tell is found
    /// once it is made.
    fn check_near(&self) -> Result<(), LabError> {
        let refused = |why| Err(LabError::Options(why));
        match self.near {
            Some(_) if self.workers > NEAR_WORKERS_MAX => {
                refused(format!("with --near there are at most {NEAR_WORKERS_MAX} workers"))
            }
            Some(_) if !self.engine.is_served() => {
                refused(format!("programs do not open {} pools, so --near is not for them", self.engine))
            }
            _ => Ok(()),
        }
    }

    /// How long a change may take with near caches.
    fn change_max(&self) -> Duration {
        match self.fabric {
            FabricName::Shm => CHANGE_MAX,
            FabricName::Tcp => SILENT_MAX * self.workers as u32 * AgentOptions::default().watch_lease * 5 / 4,
        }
    }

    /// A host for each worker, if this user may make them.
    fn hosts(&self) -> Result<Surroundings, LabError> {
        if self.workers > HOSTS_MAX {
            return Err(LabError::Options(format!("over tcp there are at most {HOSTS_MAX} workers")));
        }
        match Hosts::make(self.workers) {
            Ok(hosts) => Ok(Surroundings::Hosts(hosts)),
            Err(error) => {
                eprintln!("no link is cut: {error}; run as root, with iproute2");
                Ok(Surroundings::Here)
            }
        }
    }

    /// The cache, on memory nodes or on this host.
    fn plan(&self, nodes: Option<&Nodes>) -> Plan {
        let name =
            nodes.map_or_else(|| format!("shm:/atoll-kill-{}", std::process::id()), |nodes| nodes.pool(LOCALHOST));
        Plan {
            engine: self.engine.clone(),
            bound: Bound::Bytes(self.capacity_mib << 20),
            object_bytes: 8192,
            clients_max: 64,
            name: Some(name),
            evicts_ahead: false,
            secret_file: nodes.and_then(Nodes::secret_file),
        }
    }

    /// A task for each worker, and the checker's.
    fn tasks(&self, plan: &Plan, ledger: &str, nodes: Option<&Nodes>, surroundings: &Surroundings) -> Vec<KillTask> {
        let threads = |worker: u64| if worker == self.workers { 1 } else { 1 + worker % 2 };
        let writers = (0..=self.workers).map(threads).sum();
        let mut writer = 0;
        let task = |worker| {
            let name = nodes.zip(surroundings.host(worker as usize)).map(|(nodes, host)| nodes.pool(host.node()));
            let task = KillTask {
                plan: Plan { name: name.or_else(|| plan.name.clone()), ..plan.clone() },
                ledger: ledger.to_owned(),
                places: writer..writer + threads(worker),
                writers,
                watcher: (self.near.is_some() && worker < self.workers).then_some(writers + worker),
                serial: worker + 1,
                checks: worker == self.workers,
                // Every second worker has a near cache of its own, the others share one.
                near_bytes: self.near.map(|bytes| bytes + 4096 * (worker % 2) * worker),
            };
            writer = task.places.end;
            task
        };
        (0..=self.workers).map(task).collect()
    }
}

/// Removes the names of the experiment's regions, however it ends.
struct Names {
    plan: Plan,
    ledger: String,
}

impl Drop for Names {
    fn drop(&mut self) {
        // What is not there need not be removed.
        let _ = self.plan.remove();
        let _ = ShmRegion::remove(&self.ledger);
    }
}

struct Kills<'c> {
    command: &'c KillCommand,
    plan: &'c Plan,
    nodes: Option<&'c mut Nodes>,
    surroundings: Surroundings,
}

impl Kills<'_> {
    fn run(self) -> Result<KillReport, LabError> {
        let Self { command, plan, nodes, surroundings } = self;
        let name = format!("shm:/atoll-kill-{}-ledger", std::process::id());
        let names = Names { plan: plan.clone(), ledger: name };
        let deployment = names.plan.create(&Clock::host())?;
        // What allows no near cache is told at once.
        command.near.map(|size| NearPool::open(plan, size)).transpose()?;
        let keys = Keys::for_bound(names.plan.bound);
        let ledger = Ledger::create(&names.ledger, keys.count())?;
        let interrupted = Interrupt::new()?;
        let tasks = command.tasks(&names.plan, &names.ledger, nodes.as_deref(), &surroundings);
        let processes = Processes::start(tasks, surroundings)?;
        let pool_time = nodes.as_ref().map(|_| PoolTime::new(&*deployment)).transpose()?;
        let counts = Counts::default();
        let mut course = Course { command, ledger: &ledger, interrupted, processes, nodes, pool_time, counts };
        let windows = course.run()?;
        let counts = course.counts;
        ledger.end();
        let (notes, told) = course.processes.end()?;
        // A process that had a memory node's last region open reaches no later one.
        let deployment = names.plan.open(&Clock::host())?;
        let mended = deployment.repair()?;
        let full = deployment.audit()?;
        run_ready(deployment.client()?.flush())?;
        deployment.repair()?;
        let empty = deployment.audit()?;
        drop(names);
        let report = KillReport::new(counts, &ledger, &windows, notes, told, &[full, empty], mended);
        Ok(if command.near.is_some() { report.with_near(&ledger, command.change_max()) } else { report })
    }
}

/// Tells the workers the pool's time.
struct PoolTime<'c> {
    look: PoolClock<'c>,
    /// What a look found, and when it began.
    found: (u64, Instant),
}

impl<'c> PoolTime<'c> {
    fn new(deployment: &'c dyn Deployment) -> Result<Self, LabError> {
        Ok(Self { look: deployment.clock()?, found: (0, Instant::now()) })
    }

    /// What a look found that is older than the pool's skew, if there is one.
    fn settled_ms(&mut self) -> Result<Option<u64>, LabError> {
        let (ms, since) = self.found;
        if since.elapsed() <= Duration::from_millis(SKEW_MS) {
            return Ok(None);
        }
        self.found = ((self.look)()?, Instant::now());
        Ok(Some(ms))
    }
}

/// What is done to the pool's surroundings.
#[derive(Clone, Copy)]
enum Blow {
    /// A worker is killed.
    Kill,
    /// A worker is stopped for a while.
    Stop,
    /// A worker's link is cut for a while.
    Cut,
    /// A memory node is killed, and comes back empty after a while.
    NodeKill,
    /// A memory node does not answer for a while.
    NodeStop,
}

/// The load's time.
struct Course<'c> {
    command: &'c KillCommand,
    ledger: &'c Ledger,
    interrupted: Interrupt,
    processes: Processes,
    /// Over a network.
    nodes: Option<&'c mut Nodes>,
    /// Over a network.
    pool_time: Option<PoolTime<'c>>,
    counts: Counts,
}

impl Course<'_> {
    fn run(&mut self) -> Result<[Window; 3], LabError> {
        let whole = Duration::from_secs_f64(self.command.minutes * 60.0);
        let window = (whole * 3 / 20).min(WINDOW_MAX);
        let filling = (whole / 10).min(WINDOW_MAX);
        let settling = if self.processes.has_links() { (whole / 5).min(SETTLING_OF_LINKS_MAX) } else { SETTLING };
        let killing = whole.saturating_sub(2 * window + filling + settling);
        let progress = Progress::new(whole.as_millis() as u64, "kill");
        let since = Instant::now();
        let tick = || progress.set(since.elapsed().as_millis() as u64);
        self.pass(filling, tick)?;
        let before = self.pass(window, tick)?;
        let during = self.kill(killing, tick)?;
        self.processes.resume()?;
        self.tend_nodes(None)?;
        self.pass(settling, tick)?;
        let after = self.pass(window, tick)?;
        Ok([before, during, after])
    }

    fn wait(&mut self, until: Instant, tick: impl Fn()) -> Result<(), LabError> {
        loop {
            self.interrupted.check()?;
            self.processes.tend()?;
            self.tend_nodes(Some(Instant::now()))?;
            if let Some(ms) = self.pool_time.as_mut().map_or(Ok(None), PoolTime::settled_ms)? {
                self.ledger.set_pool_ms(ms);
            }
            tick();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    fn tend_nodes(&mut self, now: Option<Instant>) -> Result<(), LabError> {
        self.nodes.as_mut().map_or(Ok(()), |nodes| nodes.tend(now))
    }

    /// Further memory nodes, which can be killed.
    fn members(&self) -> u64 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.members())
    }

    /// Lets the load run for this long.
    fn pass(&mut self, time: Duration, tick: impl Fn()) -> Result<Window, LabError> {
        let begun = Window::begin(self.ledger);
        self.wait(Instant::now() + time, tick)?;
        Ok(begun.end(self.ledger))
    }

    /// The same, with kills, stops, partitions and deaths of nodes. Their times are independent (a
    /// Poisson process), so some hit a repairer.
    fn kill(&mut self, time: Duration, tick: impl Fn() + Copy) -> Result<Window, LabError> {
        let begun = Window::begin(self.ledger);
        let seed = self.command.seed.unwrap_or_else(|| self.ledger.now_ns() ^ u64::from(std::process::id()) << 32);
        let mut random = Random::new(seed);
        let end = Instant::now() + time;
        let mut blows = vec![Blow::Kill, Blow::Kill, Blow::Stop];
        blows.extend(self.processes.has_links().then_some(Blow::Cut));
        if self.members() > 0 {
            blows.extend([Blow::NodeKill, Blow::NodeStop]);
        }
        let mean_s = 60.0 * 2.0 / (blows.len() as f64 * self.command.rate);
        // Each is drawn as often as it stands there, so that none is missing from a short run.
        let mut left = Vec::new();
        loop {
            let next = Instant::now() + Duration::from_secs_f64(-mean_s * (1.0 - random.unit()).ln());
            self.wait(next.min(end), tick)?;
            if next >= end {
                return Ok(begun.end(self.ledger));
            }
            let worker = random.below(self.processes.workers()) as usize;
            if left.is_empty() {
                left.clone_from(&blows);
            }
            let blow = left.swap_remove(random.below(left.len() as u64) as usize);
            let member = random.below(self.members().max(1)) as usize;
            let mut some = |(least, most): (f64, f64)| {
                Duration::from_secs_f64(least * (most / least).powf(random.unit()) / 1000.0)
            };
            match blow {
                Blow::Kill => {
                    self.processes.kill(worker)?;
                    self.counts.kills += 1;
                }
                Blow::Stop => self.counts.stops += u64::from(self.processes.stop(worker, some(STOP_MS))?),
                Blow::Cut => self.counts.partitions += u64::from(self.processes.cut(worker, some(PARTITION_MS))?),
                Blow::NodeKill => {
                    let was_there = self.nodes.as_mut().is_some_and(|nodes| nodes.kill(member, some(ABSENCE_MS)));
                    self.counts.node_kills += u64::from(was_there);
                }
                Blow::NodeStop => {
                    let silence = some(SILENCE_MS).min(time / 4);
                    let was_there = match &mut self.nodes {
                        Some(nodes) => nodes.stop(member, silence)?,
                        None => false,
                    };
                    self.counts.node_stops += u64::from(was_there);
                }
            }
        }
    }
}
