//! Which process of an explored run is next. Of runs with equal effects only one is executed.
//!
//! A run is a path through a tree. **Reduction** is source-DPOR with sleep sets (Abdulla, Aronsson,
//! Jonsson and Sagonas, POPL 2014). Two steps of different processes are a race if they conflict
//! and no other step orders them. The reversal of a race is scheduled at the node of its first
//! step. A process sleeps where it was tried, until a step conflicts with its next one.
//!
//! A node of the tree holds the steps that are still to be tried there. The stack of nodes is the
//! present path.
//!
//! By default the step of the fault and the step of time come last. So every step that they could
//! prevent has been seen, and races with them.

use crate::footprint::{Footprint, Process};
use std::collections::BTreeMap;

/// How a guide finds the next run.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// By reduction.
    Races,
    /// All runs with at most so many switches away from a lane that could go on, without reduction.
    Preemptions(u32),
    /// Only one: where several processes can take a step, the one of this number among them.
    Replay(Vec<u8>),
}

/// A step that was taken, and those that come before it in every equivalent run.
#[derive(Clone, Debug)]
struct Step {
    process: Process,
    footprint: Footprint,
    /// A bit for each step since the barrier that happens before it.
    before: Vec<u64>,
}

struct Node {
    enabled: Vec<Process>,
    chosen: Process,
    /// To be tried here, or tried.
    wanted: Vec<Process>,
    /// What need not be tried here (again), with the footprint that its step would have.
    sleep: BTreeMap<Process, Footprint>,
    /// Preemptions so far.
    preemptions: u32,
    /// Once taken.
    step: Option<Step>,
}

/// The tree of a case, and where the present run is in it.
pub(crate) struct Guide {
    search: Search,
    nodes: Vec<Node>,
    /// Steps of this run. Nodes below `known` were there before it, but for the choice of the last
    /// of them.
    depth: usize,
    known: usize,
    depth_max: usize,
    /// Steps before it come before all others.
    barrier: usize,
    /// Whether a step was chosen of which it is not known yet what it touched.
    open: bool,
    /// Whether the run is only brought to its end: everything from here on was seen, or is too
    /// deep.
    free: bool,
    turn: usize,
    /// Steps that made a process able to take its next one.
    enablers: BTreeMap<Process, Vec<usize>>,
    /// Which of several processes was chosen, for a replay.
    pub(crate) choices: Vec<u8>,
    /// Whether this run came upon nothing but what sleeps.
    pub(crate) blocked: bool,
    /// Whether some run was too deep.
    pub(crate) truncated: bool,
    pub(crate) deepest: usize,
    pub(crate) events: u64,
}

impl Guide {
    pub(crate) fn new(search: Search, depth_max: usize) -> Self {
        Self {
            search,
            nodes: Vec::new(),
            depth: 0,
            known: 0,
            depth_max,
            barrier: 0,
            open: false,
            free: false,
            turn: 0,
            enablers: BTreeMap::new(),
            choices: Vec::new(),
            blocked: false,
            truncated: false,
            deepest: 0,
            events: 0,
        }
    }

    /// What comes from now on comes behind all that came before.
    pub(crate) fn barrier(&mut self) {
        self.barrier = self.depth;
    }

    /// The present step has made a process able to take its next one.
    pub(crate) fn enables(&mut self, process: Process) {
        if let Some(step) = self.depth.checked_sub(1).filter(|step| *step >= self.barrier) {
            self.enablers.entry(process).or_default().push(step);
        }
    }

    /// One of `enabled`, which is not empty and has the fault and time last.
    pub(crate) fn choose(&mut self, enabled: &[Process]) -> Process {
        let chosen = self.pick(enabled);
        if enabled.len() > 1 {
            let index = enabled.iter().position(|process| *process == chosen).expect("it is one of them");
            self.choices.push(u8::try_from(index).expect("few processes are explored"));
        }
        (self.open, self.events) = (true, self.events + 1);
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        chosen
    }

    fn pick(&mut self, enabled: &[Process]) -> Process {
        if let Search::Replay(choices) = &self.search {
            let next = choices.get(self.choices.len()).filter(|_| enabled.len() > 1);
            return next.and_then(|index| enabled.get(usize::from(*index))).copied().unwrap_or(enabled[0]);
        }
        if let Some(node) = self.nodes.get(self.depth)
            && !self.free
        {
            assert_eq!(node.enabled, enabled, "a case must repeat: it may depend on nothing but its simulation");
            return node.chosen;
        }
        if !self.free && self.depth >= self.depth_max {
            (self.free, self.truncated) = (true, true);
        }
        if !self.free {
            match self.new_node(enabled) {
                Some(chosen) => return chosen,
                None => (self.free, self.blocked) = (true, true),
            }
        }
        // Fair, so that it ends; the fault comes last.
        let lanes = enabled.iter().filter(|process| process.lane().is_some()).count();
        self.turn += 1;
        enabled[if lanes > 0 { self.turn % lanes } else { 0 }]
    }

    /// The first choice at a place where no run has been; none if all has been seen.
    fn new_node(&mut self, enabled: &[Process]) -> Option<Process> {
        let parent = self.nodes.last();
        let (mut sleep, mut preemptions, mut wanted) = (BTreeMap::new(), 0, Vec::new());
        let last_lane = parent.and_then(|parent| parent.chosen.lane());
        let goes_on = |process: &&Process| last_lane.is_some() && process.lane() == last_lane;
        let preempted = enabled.iter().any(|process| goes_on(&process));
        if let Some(parent) = parent {
            let step = parent.step.as_ref().expect("a run goes on from a step that was taken");
            let awake = |footprint: &Footprint| footprint.conflicts(&step.footprint);
            sleep = parent.sleep.clone();
            sleep.retain(|process, footprint| *process != step.process && !awake(footprint));
            preemptions = parent.preemptions;
        }
        let chosen = match self.search {
            Search::Preemptions(max) => {
                sleep.clear();
                let may = |process: &&Process| {
                    !preempted || preemptions < max || goes_on(process) || process.lane().is_none()
                };
                wanted.extend(enabled.iter().filter(may));
                *enabled.iter().find(goes_on).unwrap_or(&enabled[0])
            }
            _ => *enabled.iter().find(|process| !sleep.contains_key(process))?,
        };
        if wanted.is_empty() {
            wanted.push(chosen);
        }
        preemptions += u32::from(preempted && chosen.lane().is_some() && chosen.lane() != last_lane);
        let enabled = enabled.to_vec();
        self.nodes.push(Node { enabled, chosen, wanted, sleep, preemptions, step: None });
        Some(chosen)
    }

    /// The present step has been taken.
    pub(crate) fn taken(&mut self, footprint: Footprint) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let number = self.depth - 1;
        let Some(node) = self.nodes.get(number).filter(|_| !self.free) else { return };
        let process = node.chosen;
        let enablers = self.enablers.remove(&process).unwrap_or_default();
        if number + 1 < self.known {
            return;
        }
        let mut before = vec![0; (number - self.barrier).div_ceil(64)];
        let mut races = Vec::new();
        for earlier in (self.barrier..number).rev() {
            if has(&before, earlier - self.barrier) {
                continue;
            }
            let step = self.nodes[earlier].step.as_ref().expect("it was taken");
            let ordered = step.process == process || enablers.contains(&earlier) || is_ordered(step.process, process);
            if !ordered && !step.footprint.conflicts(&footprint) {
                continue;
            }
            for (word, bits) in before.iter_mut().zip(&step.before) {
                *word |= bits;
            }
            before[(earlier - self.barrier) / 64] |= 1 << ((earlier - self.barrier) % 64);
            if !ordered {
                races.push(earlier);
            }
        }
        self.nodes[number].step = Some(Step { process, footprint, before });
        if matches!(self.search, Search::Races) {
            races.into_iter().for_each(|earlier| self.reverse(earlier, number));
        }
    }

    /// Sees to it that some run has the later of two racing steps before the earlier one.
    fn reverse(&mut self, earlier: usize, later: usize) {
        let step = |number: usize| self.nodes[number].step.as_ref().expect("it was taken");
        let (barrier, mut between, mut first) = (self.barrier, Vec::new(), Vec::new());
        let independent = (earlier + 1..later).filter(|number| !has(&step(*number).before, earlier - barrier));
        for number in independent.chain([later]) {
            let Step { process, before, .. } = step(number);
            if !between.iter().any(|other: &usize| has(before, other - barrier)) {
                first.push(*process);
            }
            between.push(number);
        }
        let process = step(later).process;
        let node = &mut self.nodes[earlier];
        // Time cannot pass where a process can take a step.
        first.retain(|process| node.enabled.contains(process));
        if first.iter().any(|process| node.wanted.contains(process)) {
            return;
        }
        let wanted = if first.contains(&process) { Some(&process) } else { first.first() };
        match wanted {
            Some(wanted) => node.wanted.push(*wanted),
            None if process == Process::Clock => {}
            None => node.wanted = node.enabled.clone(),
        }
    }

    /// Turns to the next run; `false` if there is none.
    pub(crate) fn next_run(&mut self) -> bool {
        (self.depth, self.barrier, self.turn) = (0, 0, 0);
        (self.open, self.free, self.blocked) = (false, false, false);
        self.enablers.clear();
        self.choices.clear();
        while let Some(node) = self.nodes.last_mut() {
            let footprint = node.step.take().map_or_else(Footprint::default, |step| step.footprint);
            node.sleep.insert(node.chosen, footprint);
            if let Some(next) = node.wanted.iter().find(|process| !node.sleep.contains_key(process)) {
                node.chosen = *next;
                let chosen = *next;
                self.recount(chosen);
                self.known = self.nodes.len();
                return true;
            }
            self.nodes.pop();
        }
        false
    }

    /// Counts the preemptions again once the choice of the last node is another.
    fn recount(&mut self, chosen: Process) {
        let (before, last_lane) = match self.nodes.len() {
            0 | 1 => (0, None),
            nodes => (self.nodes[nodes - 2].preemptions, self.nodes[nodes - 2].chosen.lane()),
        };
        let node = self.nodes.last_mut().expect("there is one");
        let goes_on = last_lane.is_some() && node.enabled.iter().any(|process| process.lane() == last_lane);
        node.preemptions = before + u32::from(goes_on && chosen.lane().is_some() && chosen.lane() != last_lane);
    }
}

fn has(bits: &[u64], bit: usize) -> bool {
    bits.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

/// Time passes behind all that tasks could do before, and before all that they do then. Only what
/// the dead and the paused have in flight, and the fault itself, may come on either side.
fn is_ordered(earlier: Process, later: Process) -> bool {
    let is_bound_to_time = |process: Process| matches!(process, Process::Task(_) | Process::Clock);
    (earlier == Process::Clock && is_bound_to_time(later)) || (later == Process::Clock && is_bound_to_time(earlier))
}
