//! All interleavings of a small case, by running it again and again.
//!
//! A **case** builds its clients on a given simulation, runs it, and judges the outcome. Every
//! choice of the next step is enumerated, depth first. The case is run again for each choice
//! (stateless model checking). What is enumerated, and what is not:
//!
//! | | in an explored run |
//! |---|---|
//! | steps | every verb is one, whole and in the order of its batch; so is every poll |
//! | with `reorder` among the simulation's relaxations | the verbs of a batch take effect in every order that the contract permits |
//! | with `tear` | a READ or WRITE of several words has two steps, in either order: its words of even and of odd place. More pieces are for seeds |
//! | batches in flight | take effect at any time in any order among each other, unawaited ones too |
//! | time | passes only when no client can take a step but the dead and the paused, and then until the next timer: a client in a [`pause`](atoll_fabric::Endpoint::pause) waits for all other clients |
//! | a kill | one, of each client that is not spared in turn, between any two of its steps; of what it has in flight then every beginning takes effect, at any time |
//! | a pause | one, of each client in turn, between any two of its polls, ending at any time; its batches in flight continue |
//! | fences | take no time |
//!
//! Without [`ExploreOptions::preemptions_max`], runs count as one if they differ only in the order
//! of steps that do not conflict. Two steps conflict in three cases:
//!
//! - They touch a common word, and one changes it.
//! - One begins and the other ends an operation of a [`History`](crate::History).
//! - One does anything else that the other could see through the simulation.
//!
//! **Any other state that clients share** must not influence what they do, or they must report it
//! ([`Control::touch`](crate::Control::touch)). A loop that waits for another client must `pause`,
//! or it has endless runs. A client should take a [`turn`](crate::Control::turn) before each
//! operation that it records in a history.
//!
//! ```
//! use atoll_fabric::{Address, Batch, Endpoint};
//! use atoll_sim::{ExploreOptions, explore};
//!
//! let explored = explore(&ExploreOptions::new(64), |sim| {
//!     for name in ["anna", "bert"] {
//!         let endpoint = sim.endpoint(name);
//!         sim.spawn(name, async move {
//!             let mut batch = Batch::new();
//!             let found = batch.read_word(Address::new(0, 0, 0));
//!             endpoint.post(&mut batch).await.unwrap();
//!             let value = batch.word(found) + 1;
//!             batch.clear();
//!             batch.write_word(Address::new(0, 0, 0), value);
//!             endpoint.post(&mut batch).await.unwrap();
//!         });
//!     }
//!     sim.run().map_err(|error| error.to_string())?;
//!     let sum = sim.peek_word(Address::new(0, 0, 0));
//!     if sum == 2 { Ok(()) } else { Err(format!("the sum is {sum}")) }
//! });
//! assert_eq!(explored.failure.unwrap().what, "the sum is 1");
//! ```

use crate::fault::Fault;
use crate::guide::{Guide, Search};
use crate::guided::Guided;
use crate::{Distance, Relaxations, Sim, SimOptions, Strict};
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::str::FromStr;

/// The fault that every run of an exploration has, at a place of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExploredFault {
    /// None.
    #[default]
    None,
    /// A client dies.
    Kill,
    /// A client stands still.
    Pause,
}

/// What is explored.
#[derive(Clone, Debug)]
pub struct ExploreOptions {
    /// The simulation of each run. Of its relaxations only `reorder` and `tear` count: verbs of a
    /// batch take effect in every order that the contract permits, and the words of a READ or WRITE
    /// in two halves, those of even and those of odd place. Its faults and its strategy do not
    /// count.
    pub sim: SimOptions,
    /// The fault of the run.
    pub fault: ExploredFault,
    /// How many switches there may be from a client that could go on to another one; all runs
    /// within that are run, without reduction. `None`: every run that differs in what matters.
    pub preemptions_max: Option<u32>,
    /// Runs after which the exploration is given up.
    pub runs_max: u64,
    /// Steps of a run of which no alternatives are tried any more.
    pub depth_max: usize,
    /// How often time passes at most while a client is paused, or a dead client has something in
    /// flight. Other clients may wait for it for ever.
    pub jumps_max: u32,
}

impl ExploreOptions {
    /// One node with one region of `bytes` near all clients, no fault, reduction, up to a million
    /// runs.
    pub fn new(bytes: u64) -> Self {
        Self {
            sim: SimOptions {
                steps_max: 100_000,
                distance: Distance::Near,
                relaxations: Relaxations::none(),
                ..SimOptions::new(0, bytes)
            },
            fault: ExploredFault::None,
            preemptions_max: None,
            runs_max: 1_000_000,
            depth_max: 10_000,
            jumps_max: 16,
        }
    }

    fn guided(&self, guide: &Rc<RefCell<Guide>>, victim: u32) -> Sim {
        let fault = match self.fault {
            ExploredFault::None => None,
            ExploredFault::Kill => Some((Fault::Kill, victim)),
            ExploredFault::Pause => Some((Fault::Pause { ns: u64::MAX }, victim)),
        };
        let Relaxations { reorder, tear, .. } = self.sim.relaxations;
        let relaxations = Relaxations { interleave: true, reorder, tear, ..Relaxations::none() };
        let options = SimOptions { relaxations, ..self.sim.clone() };
        let (mut none, mut faults) = (Relaxations::none(), options.faults);
        Strict::ALL.apply(&mut none, &mut faults);
        let options = SimOptions { faults, strict: Strict::NONE, ..options };
        Sim::guided(options, Guided::new(guide.clone(), fault, self.jumps_max))
    }

    fn search(&self) -> Search {
        self.preemptions_max.map_or(Search::Races, Search::Preemptions)
    }
}

/// One run: the client that the fault hit, and the process that took each step where several could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    victim: u32,
    choices: Vec<u8>,
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<String> = self.choices.iter().map(u8::to_string).collect();
        write!(f, "{}:{}", self.victim, choices.join("."))
    }
}

impl FromStr for Decisions {
    type Err = String;

    /// As they are printed: `1:0.0.2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` names no run: expected a victim and choices, as in `1:0.0.2`");
        let (victim, choices) = text.split_once(':').ok_or_else(wrong)?;
        let choices = choices.split('.').filter(|choice| !choice.is_empty()).map(|choice| choice.parse().ok());
        let choices = choices.collect::<Option<Vec<u8>>>().ok_or_else(wrong)?;
        Ok(Self { victim: victim.parse().map_err(|_| wrong())?, choices })
    }
}

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExploredFailure {
    /// What the case said.
    pub what: String,
    /// How to [`replay`] it.
    pub decisions: Decisions,
}

/// What an exploration came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Runs that differ in what matters.
    pub runs: u64,
    /// Runs that turned out to be equivalent to others, and were brought to an end without looking
    /// further.
    pub runs_redundant: u64,
    /// Whether there are no others, within the bound on preemptions if there is one.
    pub exhausted: bool,
    /// The bound on preemptions.
    pub preemptions_max: Option<u32>,
    /// Steps of the longest run.
    pub deepest: usize,
    /// Steps of all runs.
    pub events: u64,
    /// The first run that went wrong; the exploration ends there.
    pub failure: Option<ExploredFailure>,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, runs_redundant, deepest, events, .. } = self;
        write!(f, "{runs} runs, {events} events, {deepest} in the longest run, {runs_redundant} redundant runs; ")?;
        let exhausted = if self.exhausted { "exhausted" } else { "NOT exhausted" };
        match self.preemptions_max {
            Some(max) => write!(f, "{exhausted} up to {max} preemptions")?,
            None => write!(f, "{exhausted}")?,
        }
        match &self.failure {
            Some(ExploredFailure { what, decisions }) => write!(f, "; FAILED: {what}\nreplay: {decisions}"),
            None => Ok(()),
        }
    }
}

/// Runs all interleavings of a case, for each client that the fault may hit.
pub fn explore(options: &ExploreOptions, case: impl Fn(&Sim) -> Result<(), String>) -> Explored {
    let mut explored = Explored { preemptions_max: options.preemptions_max, exhausted: true, ..Explored::default() };
    let (mut victim, mut victims) = (0, 1);
    while victim < victims && explored.failure.is_none() && explored.exhausted {
        let mortals = explore_victim(options, victim, &case, &mut explored);
        if options.fault != ExploredFault::None {
            victims = mortals;
        }
        victim += 1;
    }
    explored
}

/// How many clients there are that the fault may hit.
fn explore_victim(
    options: &ExploreOptions,
    victim: u32,
    case: &impl Fn(&Sim) -> Result<(), String>,
    explored: &mut Explored,
) -> u32 {
    let guide = Rc::new(RefCell::new(Guide::new(options.search(), options.depth_max)));
    let mut mortals = 0;
    loop {
        let sim = options.guided(&guide, victim);
        let result = judged(case, &sim);
        mortals = mortals.max(sim.mortals());
        drop(sim);
        let mut guide = guide.borrow_mut();
        explored.runs += u64::from(!guide.blocked);
        explored.runs_redundant += u64::from(guide.blocked);
        if let Err(what) = result {
            let decisions = Decisions { victim, choices: guide.choices.clone() };
            explored.failure = Some(ExploredFailure { what, decisions });
            explored.exhausted = false;
        }
        let more = explored.failure.is_none() && guide.next_run();
        let given_up = explored.runs + explored.runs_redundant >= options.runs_max;
        if !more || given_up {
            explored.exhausted &= !more && !guide.truncated;
            explored.deepest = explored.deepest.max(guide.deepest);
            explored.events += guide.events;
            return mortals;
        }
    }
}

/// Runs a case once more as it ran when it failed; what it says then, and the trace.
pub fn replay(
    options: &ExploreOptions,
    decisions: &Decisions,
    case: impl Fn(&Sim) -> Result<(), String>,
) -> (Result<(), String>, String) {
    let search = Search::Replay(decisions.choices.clone());
    let guide = Rc::new(RefCell::new(Guide::new(search, options.depth_max)));
    let sim = SimOptions { trace_events: options.sim.trace_events.max(10_000), ..options.sim.clone() };
    let sim = ExploreOptions { sim, ..options.clone() }.guided(&guide, decisions.victim);
    let result = judged(&case, &sim);
    (result, sim.trace())
}

/// What a case says, a panic included.
fn judged(case: &impl Fn(&Sim) -> Result<(), String>, sim: &Sim) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| case(sim))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned())
    })
}
