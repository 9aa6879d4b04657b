//! A simulation: its tasks, its run, and how that ends.

use crate::client::ClientId;
use crate::control::Control;
use crate::fabric::SimFabric;
use crate::guided::Guided;
use crate::network::{Service, Traffic};
use crate::options::SimOptions;
use crate::presence::Presence;
use crate::shared::Shared;
use crate::world::{Next, World};
use crate::{SimEndpoint, Strategy, replay_command};
use atoll_fabric::Address;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

pub use crate::options::region;

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Steps since the simulation was made.
    pub steps: u64,
    /// Verbs that took effect since then.
    pub verbs: u64,
    /// Virtual time since then.
    pub virtual_ns: u64,
    /// A digest of all events since then: equal for equal seeds.
    pub digest: u64,
    /// The strategy that was used.
    pub strategy: Strategy,
}

/// Why a run did not end.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// All tasks wait, and no verb and no time can wake them.
    #[error("deadlock after {steps} steps with seed {seed} ({replay}):{lanes}")]
    Deadlock {
        /// The seed.
        seed: u64,
        /// Steps taken.
        steps: u64,
        /// The command that runs it again.
        replay: String,
        /// The state of every client.
        lanes: String,
    },
    /// The step bound is reached.
    #[error(
        "no end after {steps} steps with seed {seed} ({replay}): a livelock, or SimOptions::steps_max is too low:{lanes}"
    )]
    Livelock {
        /// The seed.
        seed: u64,
        /// Steps taken.
        steps: u64,
        /// The command that runs it again.
        replay: String,
        /// The state of every client.
        lanes: String,
    },
    /// A verb touched memory that had been returned to the host. On one host that kills the
    /// process.
    #[error(
        "seed {seed}: a verb at {at:?} touched memory that was given back to the host, before step {steps}; to replay: {replay}"
    )]
    Absent {
        /// The seed.
        seed: u64,
        /// Steps taken.
        steps: u64,
        /// The command that runs it again.
        replay: String,
        /// Where the verb was to take effect.
        at: Address,
    },
}

impl std::fmt::Debug for SimError {
    /// As for users: tests unwrap it, and the state of every client should be on its own line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// A simulation.
///
/// ```
/// use atoll_fabric::{Address, Batch, Endpoint};
/// use atoll_sim::{Sim, SimOptions};
///
/// let sim = Sim::new(SimOptions::new(7, 4096));
/// for name in ["anna", "bert"] {
///     let endpoint = sim.endpoint(name);
///     sim.spawn(name, async move {
///         let mut batch = Batch::new();
///         batch.fetch_and_add(Address::new(0, 0, 64), 1);
///         endpoint.post(&mut batch).await.unwrap();
///     });
/// }
/// sim.run().unwrap();
/// assert_eq!(sim.peek_word(Address::new(0, 0, 64)), 2);
/// ```
pub struct Sim {
    shared: Rc<Shared>,
    steps_max: u64,
}

impl Sim {
    /// A simulation with zero bytes in its regions and no task.
    pub fn new(mut options: SimOptions) -> Self {
        options.strict.apply(&mut options.relaxations, &mut options.faults);
        let world = RefCell::new(World::new(&options));
        let SimOptions { seed, epoch_ms, steps_max, .. } = options;
        let (wakers, wakes, tasks) = (RefCell::default(), Arc::default(), RefCell::default());
        Self {
            shared: Rc::new(Shared { world, seed, epoch_ms, presence: Presence::default(), wakers, wakes, tasks }),
            steps_max,
        }
    }

    /// As [`Sim::new`], with a guide that chooses the steps.
    pub(crate) fn guided(options: SimOptions, guided: Guided) -> Self {
        assert!(options.network.is_none(), "a case is explored without a network: time would decide its steps");
        let sim = Self::new(options);
        sim.shared.world.borrow_mut().guided = Some(Box::new(guided));
        sim
    }

    /// How many clients there have been that are not spared.
    pub(crate) fn mortals(&self) -> u32 {
        self.shared.world.borrow().mortals()
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// A new client's endpoint; in a timed run on the first compute node.
    pub fn endpoint(&self, name: &str) -> SimEndpoint {
        self.endpoint_on(name, 0)
    }

    /// A new client's endpoint on a compute node of the network; in a run without one, anywhere.
    ///
    /// # Panics
    /// If the network has no such compute node.
    pub fn endpoint_on(&self, name: &str, compute_node: u16) -> SimEndpoint {
        SimEndpoint::new(self.shared.clone(), name, compute_node)
    }

    /// The control plane, as a process on a compute node has it.
    pub fn fabric(&self, compute_node: u16) -> SimFabric {
        SimFabric::new(self.shared.clone(), compute_node)
    }

    /// The endpoint of a memory node's own processor. `service` says how fast it serves messages.
    /// In a run without a network it is an ordinary endpoint.
    ///
    /// # Panics
    /// If the simulation has no such node.
    pub fn endpoint_at(&self, name: &str, node: u8, service: Service) -> SimEndpoint {
        let endpoint = self.endpoint(name);
        if let Some(timed) = &mut self.shared.world.borrow_mut().timed {
            timed.move_port(endpoint.number(), node, service);
        }
        endpoint
    }

    /// How busy the processor behind such an endpoint has been until now, per mille; `None` for
    /// endpoints without one.
    pub fn service_busy_per_mille(&self, endpoint: &SimEndpoint) -> Option<u64> {
        self.shared.world.borrow().timed.as_ref()?.service_busy_per_mille(endpoint.number())
    }

    /// Adds a client: `future` and all that it posts. The seed's faults may hit it. Tasks add
    /// clients through [`Control::spawn`].
    pub fn spawn(&self, name: &str, future: impl Future<Output = ()> + 'static) -> ClientId {
        self.shared.spawn(name, true, future)
    }

    /// As [`Sim::spawn`], for a task that drives or checks: the seed's faults do not hit it.
    pub fn spawn_spared(&self, name: &str, future: impl Future<Output = ()> + 'static) -> ClientId {
        self.shared.spawn(name, false, future)
    }

    /// A handle for tasks, which kills, pauses and spawns clients.
    pub fn control(&self) -> Control {
        Control { shared: self.shared.clone() }
    }

    /// Names addresses in the trace, as the layout has them: "slot 12", "ring small 3".
    pub fn name_addresses(&self, names: impl Fn(Address) -> Option<String> + 'static) {
        self.shared.world.borrow_mut().trace.names = Some(Box::new(names));
    }

    /// The last events, one a line: see [`SimOptions::trace_events`].
    pub fn trace(&self) -> String {
        self.shared.world.borrow().trace_described()
    }

    /// Runs until every task has ended and everything that was posted has taken effect. More tasks
    /// may be spawned and run then.
    pub fn run(&self) -> Result<RunReport, SimError> {
        let mut world = self.shared.world.borrow_mut();
        let steps_end = world.steps.saturating_add(self.steps_max);
        world.begin_run();
        drop(world);
        loop {
            let next = self.shared.world.borrow_mut().advance(steps_end);
            self.check_touched()?;
            match next {
                Next::Poll(lane) => self.poll(lane),
                Next::Bury(lane) => self.bury(lane),
                Next::Wakes => {}
                Next::Idle if self.shared.wakes.any.load(Ordering::Acquire) => {}
                Next::Idle => break,
                Next::Bound => return Err(self.livelock()),
            }
            if self.shared.wakes.any.load(Ordering::Acquire) {
                self.take_wakes();
            }
        }
        let world = self.shared.world.borrow();
        if world.lanes.iter().any(|lane| !lane.done) {
            drop(world);
            return Err(self.deadlock());
        }
        Ok(RunReport {
            steps: world.steps,
            verbs: world.tally.verbs,
            virtual_ns: world.now_ns,
            digest: world.tally.digest,
            strategy: world.scheduler.strategy(),
        })
    }

    /// In a timed run, as [`Sim::run`] until a virtual time, when what is still to happen is left
    /// for a later run. Gives whether all tasks have ended by then.
    ///
    /// # Panics
    /// If the run is not timed.
    pub fn run_until(&self, virtual_ns: u64) -> Result<bool, SimError> {
        self.set_end_ps(virtual_ns.saturating_mul(1000));
        let ran = self.run();
        self.set_end_ps(u64::MAX);
        match ran {
            Ok(_) => Ok(true),
            Err(SimError::Deadlock { .. }) if self.shared.world.borrow_mut().has_more() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn set_end_ps(&self, end_ps: u64) {
        let mut world = self.shared.world.borrow_mut();
        world.timed.as_mut().expect("only a timed run stops at a time: see SimOptions::timed").end_ps = end_ps;
    }

    /// In a timed run, what has passed the network until now.
    pub fn traffic(&self) -> Option<Traffic> {
        self.shared.world.borrow().timed.as_ref().map(|timed| timed.traffic())
    }

    /// Runs `future` as a client of its own beside all other clients, and gives its output.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Result<T, SimError> {
        let output = Rc::new(RefCell::new(None));
        let place = output.clone();
        self.spawn_spared("block_on", async move {
            let value = future.await;
            *place.borrow_mut() = Some(value);
        });
        self.run()?;
        Ok(output.take().expect("a run ends with its tasks"))
    }

    /// Drops the task of a killed client. What its destructors post ends at once.
    fn bury(&self, lane: u32) {
        self.shared.world.borrow_mut().deaths.dropping = true;
        let task = self.shared.tasks.borrow_mut()[lane as usize].take();
        drop(task);
        let mut world = self.shared.world.borrow_mut();
        world.deaths.dropping = false;
        world.bury(lane);
    }

    fn poll(&self, lane: u32) {
        let mut task = self.shared.tasks.borrow_mut()[lane as usize].take().expect("a lane that can run has a task");
        self.shared.world.borrow_mut().polled = Some(lane);
        let waker = self.shared.wakers.borrow()[lane as usize].clone();
        let poll = task.as_mut().poll(&mut Context::from_waker(&waker));
        match poll {
            Poll::Ready(()) => {
                let mut world = self.shared.world.borrow_mut();
                world.lanes[lane as usize].done = true;
                world.tell_watchers();
                drop(world);
                drop(task);
            }
            Poll::Pending => self.shared.tasks.borrow_mut()[lane as usize] = Some(task),
        }
        let mut world = self.shared.world.borrow_mut();
        (world.polled, world.ghost) = (None, false);
    }

    #[cold]
    fn take_wakes(&self) {
        self.shared.wakes.any.store(false, Ordering::Release);
        let lanes = std::mem::take(&mut *self.shared.wakes.lanes.lock().expect("no wake panics"));
        let mut world = self.shared.world.borrow_mut();
        lanes.into_iter().for_each(|lane| world.wake(lane));
    }

    fn deadlock(&self) -> SimError {
        let (seed, steps, replay, lanes) = self.state();
        SimError::Deadlock { seed, steps, replay, lanes }
    }

    fn livelock(&self) -> SimError {
        let (seed, steps, replay, lanes) = self.state();
        SimError::Livelock { seed, steps, replay, lanes }
    }

    /// An error if a verb has touched memory that is not there.
    fn check_touched(&self) -> Result<(), SimError> {
        let world = self.shared.world.borrow();
        let (seed, steps) = (self.seed(), world.steps);
        match world.memory.touched {
            Some(at) => Err(SimError::Absent { seed, steps, replay: replay_command(seed), at }),
            None => Ok(()),
        }
    }

    /// The memory of a span was never taken: a verb that touches it before it is provided is a
    /// fault.
    pub fn withhold(&self, at: Address, bytes: u64) {
        self.shared.world.borrow_mut().memory.discard(at, bytes);
    }

    fn state(&self) -> (u64, u64, String, String) {
        let world = self.shared.world.borrow();
        (self.seed(), world.steps, replay_command(self.seed()), world.lanes_described())
    }

    /// The word at `at`, past the fabric: for tests.
    ///
    /// # Panics
    /// If no region has it.
    pub fn peek_word(&self, at: Address) -> u64 {
        self.shared.world.borrow().memory.words(at, 8).expect("a word of a region")[0]
    }

    /// Sets the word at `at`, past the fabric: for tests with hostile bytes.
    ///
    /// # Panics
    /// If no region has it.
    pub fn poke_word(&self, at: Address, word: u64) {
        self.shared.world.borrow_mut().memory.words_mut(at, 8).expect("a word of a region")[0] = word;
    }

    /// Virtual nanoseconds since the simulation was made.
    pub fn now_ns(&self) -> u64 {
        self.shared.world.borrow().now_ns
    }

    /// Steps since the simulation was made: the time that histories are written in.
    pub fn steps(&self) -> u64 {
        self.shared.world.borrow().steps
    }
}

impl Drop for Sim {
    /// A test that fails prints how to run it again.
    fn drop(&mut self) {
        // Tasks may own endpoints, whose futures read the world when they are dropped. From here on
        // no task may post.
        let on_shut_out = self.shared.world.try_borrow_mut().ok().and_then(|mut world| {
            world.deaths.dropping = true;
            world.on_shut_out.take()
        });
        let tasks = std::mem::take(&mut *self.shared.tasks.borrow_mut());
        // Both may hold what holds them.
        drop((on_shut_out, tasks));
        if std::thread::panicking() {
            let seed = self.seed();
            let world = self.shared.world.try_borrow();
            let (steps, trace) = world.map_or((0, String::new()), |world| (world.steps, world.trace_described()));
            eprintln!("simulation with seed {seed} failed at step {steps}; to replay: {}{trace}", replay_command(seed));
        }
    }
}
