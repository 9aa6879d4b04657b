//! Everything that changes during a run.
//!
//! A **lane** is a client: a task with all batches that it has in flight. A step is one of a lane:
//! its task is polled, or one of its batches makes one effect, or a completion arrives. The
//! strategy chooses the lane, chance the step within it. A lane can run if its task was woken, or
//! if one of its batches is not held back.

use crate::distance::Distances;
use crate::fault::{Faults, Fencing};
use crate::flight::{Effect, Failure, Fate, Flight};
use crate::footprint::Process;
use crate::guided::Guided;
use crate::lane::Lane;
use crate::liberties::Temper;
use crate::memory::Memory;
use crate::messages::PostOffice;
use crate::network::timed::Timed;
use crate::port::{self, Port};
use crate::schedule::Scheduler;
use crate::sim::SimOptions;
use crate::timers::{Due, Timer};
use crate::trace::{Trace, What};
use crate::watch::Watch;
use crate::{Liberties, Random};
use atoll_fabric::Limits;
use atoll_fabric::batch::Verb;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::task::Waker;

pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) liberties: Liberties,
    pub(crate) limits: Limits,
    pub(crate) scheduler: Scheduler,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) ports: Vec<Port>,
    pub(crate) post: PostOffice,
    /// The lane whose task is being polled.
    pub(crate) polled: Option<u32>,
    /// Whether that one was killed during the poll, so that nothing may come of it any more.
    pub(crate) ghost: bool,
    /// Virtual nanoseconds since the run began.
    pub(crate) now_ns: u64,
    pub(crate) steps: u64,
    pub(crate) verbs: u64,
    pub(crate) digest: u64,
    pub(crate) trace: Trace,
    pub(crate) temper: Temper,
    pub(crate) random: Random,
    pub(crate) flights: Vec<Flight>,
    flights_free: Vec<u32>,
    /// The lanes that can run, in no order.
    runnable: Vec<u32>,
    pub(crate) timers: BinaryHeap<Reverse<Timer>>,
    pub(crate) timers_made: u64,
    /// Whether a waker was called, which the world does not see the effect of.
    pub(crate) woke: bool,
    /// Whether something is to be done before the next step: a waker was called, a fault is due, or
    /// a task is to be dropped.
    pub(crate) attention: bool,
    /// Lanes of which a fault is due.
    pub(crate) due: Vec<u32>,
    /// Killed lanes whose tasks are still there.
    pub(crate) doomed: VecDeque<u32>,
    /// Killed lanes whose tasks are gone, in order; and of how many of them
    /// [`Control`](crate::Control) has told.
    pub(crate) killed: Vec<u32>,
    pub(crate) killed_told: usize,
    /// Who waits for deaths.
    pub(crate) watchers: Vec<Waker>,
    /// Whether a task is being dropped whose client is dead.
    pub(crate) dropping: bool,
    pub(crate) fencing: Fencing,
    /// Words that a scenario watches.
    pub(crate) watch: Watch,
    /// Told of the lane of an endpoint of which nothing takes effect any more.
    pub(crate) on_shut_out: Option<Box<dyn Fn(u32)>>,
    distances: Distances,
    /// What the seed may still draw.
    pub(crate) faults: Faults,
    /// A stream of its own, so that faults do not change what chance decides elsewhere.
    pub(crate) fault_random: Random,
    /// The step at which the seed strikes next.
    pub(crate) fault_at: u64,
    /// Nodes that lost their bytes; endpoints below the number knew them before.
    pub(crate) losses: Vec<(u8, u32)>,
    /// Slow nodes, by how much.
    pub(crate) slow: Vec<(u8, u64)>,
    /// Whether a link is cut or a node slow.
    pub(crate) impaired: bool,
    pub(crate) deadline_ns: u64,
    /// In an explored run, who chooses its steps.
    pub(crate) guided: Option<Box<Guided>>,
    /// How far the agent's clock is ahead of virtual time.
    pub(crate) agent_ahead_ms: i64,
    /// Whether memory that is discarded goes back to the host.
    pub(crate) gives_back: bool,
    /// In a timed run, its network.
    pub(crate) timed: Option<Box<Timed>>,
}

/// What the executor does next.
pub(crate) enum Next {
    /// Polls the task of a lane.
    Poll(u32),
    /// Drops the task of a killed lane.
    Bury(u32),
    /// Nothing can run and nothing will.
    Idle,
    /// Looks which tasks were woken through their wakers.
    Wakes,
    /// The step bound is reached.
    Bound,
}

impl World {
    pub(crate) fn new(options: &SimOptions) -> Self {
        let mut random = Random::stream(options.seed, 0);
        let scheduler = Scheduler::new(options.strategy, &mut random);
        let mut fault_random = Random::stream(options.seed, u64::MAX);
        Self {
            memory: Memory::new(&options.nodes),
            liberties: options.liberties,
            limits: options.limits,
            scheduler,
            lanes: Vec::new(),
            ports: Vec::new(),
            post: PostOffice::new(options.liberties, options.seed),
            polled: None,
            ghost: false,
            now_ns: 0,
            steps: 0,
            verbs: 0,
            digest: 0,
            trace: Trace::new(options.trace_events),
            temper: Temper::drawn(options.liberties, &mut random),
            random,
            flights: Vec::new(),
            flights_free: Vec::new(),
            runnable: Vec::new(),
            timers: BinaryHeap::new(),
            timers_made: 0,
            woke: false,
            attention: false,
            due: Vec::new(),
            doomed: VecDeque::new(),
            killed: Vec::new(),
            killed_told: 0,
            watchers: Vec::new(),
            dropping: false,
            fencing: options.fencing,
            watch: Watch::default(),
            on_shut_out: None,
            distances: Distances::new(options.distance, options.seed),
            fault_at: if options.faults.any() {
                fault_random.below(2 * options.faults.steps_between.max(1))
            } else {
                u64::MAX
            },
            faults: options.faults,
            fault_random,
            losses: Vec::new(),
            slow: Vec::new(),
            impaired: false,
            deadline_ns: options.deadline_ns,
            guided: None,
            agent_ahead_ms: port::AGENT_ORIGIN_MS,
            gives_back: options.gives_back,
            timed: options.network.as_ref().map(|network| Box::new(Timed::new(options, network))),
        }
    }

    pub(crate) fn add_lane(&mut self, name: &str, mortal: bool) -> u32 {
        let lane = self.lanes.len() as u32;
        self.lanes.push(Lane::new(name, mortal));
        if let Some(timed) = &mut self.timed {
            timed.add_lane();
        }
        self.scheduler.add_lane(self.steps, &mut self.random);
        self.wake(lane);
        lane
    }

    pub(crate) fn add_port(&mut self, name: &str, seed: u64, compute_node: u16) -> u32 {
        if let Some(timed) = &mut self.timed {
            timed.add_port(compute_node);
        }
        let drift_max = self.faults.clock_drift_per_mille_max.min(999);
        let drift_per_mille = self.fault_random.below(2 * u64::from(drift_max) + 1) as i64 - i64::from(drift_max);
        let number = self.ports.len() as u64;
        let random = Random::stream(seed, 1 + number);
        let has_agent_clock = !self.liberties.absent_agent_clocks || port::has_agent_clock(seed, number);
        let is_near = self.distances.next_is_near();
        self.ports.push(Port::new(name, random, drift_per_mille, has_agent_clock, is_near));
        self.ports.len() as u32 - 1
    }

    /// Takes steps until a task is to be polled.
    pub(crate) fn advance(&mut self, steps_end: u64) -> Next {
        if self.guided.is_some() {
            return self.advance_guided(steps_end);
        }
        if self.timed.is_some() {
            return self.advance_timed(steps_end);
        }
        loop {
            if self.attention
                && let Some(next) = self.attend()
            {
                return next;
            }
            if self.timers.peek().is_some_and(|Reverse(timer)| timer.at_ns <= self.now_ns) {
                self.fire();
            }
            if self.runnable.is_empty() {
                // Nothing happens until the next timer: the time passes at once.
                match self.timers.peek() {
                    None => return Next::Idle,
                    Some(Reverse(timer)) => self.now_ns = self.now_ns.max(timer.at_ns),
                }
                continue;
            }
            if self.steps >= steps_end {
                return Next::Bound;
            }
            self.steps += 1;
            // A step takes no time of its own, only so much that clocks move: what verbs cost is
            // for timed runs.
            self.now_ns += 1 + (self.random.word() >> 58);
            let lane = self.scheduler.pick(&self.runnable, self.steps, &mut self.random);
            if self.steps >= self.fault_at {
                self.strike_drawn(lane);
                if self.lanes[lane as usize].runnable_at.is_none() {
                    continue;
                }
            }
            if let Some(poll) = self.step(lane) {
                return poll;
            }
        }
    }

    /// Does what is to be done before the next step.
    #[cold]
    pub(crate) fn attend(&mut self) -> Option<Next> {
        while let Some(lane) = self.due.pop() {
            self.strike_due(lane);
        }
        if let Some(lane) = self.doomed.pop_front() {
            return Some(Next::Bury(lane));
        }
        self.attention = false;
        std::mem::take(&mut self.woke).then_some(Next::Wakes)
    }

    #[inline]
    fn step(&mut self, lane: u32) -> Option<Next> {
        let state = &mut self.lanes[lane as usize];
        if state.counts_step() {
            self.due.push(lane);
            self.attention = true;
        }
        let batches = if state.frozen { 0 } else { state.flights.len() };
        let choice = match batches + usize::from(state.woken && !state.paused) {
            1 => 0,
            choices => self.random.below(choices as u64) as usize,
        };
        if choice == batches {
            state.woken = false;
            self.settle(lane);
            self.record(lane, u32::MAX, None);
            return Some(Next::Poll(lane));
        }
        let id = state.flights[choice];
        let flight = &self.flights[id as usize];
        if flight.is_done() {
            self.land(id);
        } else if !flight.adrift || self.drifts_on(id) {
            self.fly(lane, id);
        }
        None
    }

    /// Lets one effect of a batch happen, or all without interleaving.
    #[inline]
    pub(crate) fn fly(&mut self, lane: u32, id: u32) {
        loop {
            let flight = &mut self.flights[id as usize];
            let effect = flight.step(&mut self.memory, &self.temper, &mut self.random);
            let done = flight.is_done();
            self.verbs += u64::from(effect.kind.is_ascii_uppercase());
            self.record(lane, id, Some(effect));
            if self.watch.is_on() {
                self.note_watched(id, effect);
            }
            if done {
                break self.complete(id);
            }
            if self.liberties.interleave {
                if self.random.chance(self.temper.delay_within) {
                    self.hold(id);
                }
                break;
            }
        }
    }

    #[cold]
    fn note_watched(&mut self, id: u32, effect: Effect) {
        let flight = &self.flights[id as usize];
        let (from, bytes) = ((flight.endpoint, (flight.lane, flight.number)), flight.verb(effect.verb.into()).len());
        self.watch.note(&self.memory, self.now_ns, from, effect, bytes);
    }

    /// All effects are made; the completion arrives now, or takes its time.
    #[inline]
    fn complete(&mut self, id: u32) {
        if self.flights[id as usize].lost || self.impaired && self.loses_completion(id) {
            self.flights[id as usize].lost = true;
            self.hold_for(id, self.deadline_ns);
        } else if self.random.chance(self.temper.late_completion) {
            self.hold(id);
        } else {
            self.land(id);
        }
    }

    /// The completion of a batch arrives.
    #[inline]
    pub(crate) fn land(&mut self, id: u32) {
        let error = self.flights[id as usize].lost.then_some(Failure::OutcomeUnknown);
        self.unmoor(id);
        self.arrive(id, error);
    }

    /// A batch leaves the list of its lane.
    #[inline]
    pub(crate) fn unmoor(&mut self, id: u32) {
        let flight = &mut self.flights[id as usize];
        let state = &mut self.lanes[flight.lane as usize];
        if flight.held != 0 {
            flight.held = 0;
            state.held -= 1;
            return;
        }
        let at =
            state.flights.iter().position(|flight| *flight == id).expect("a batch that is not held is in the list");
        state.flights.swap_remove(at);
    }

    /// A batch has ended: whoever waits for it is told.
    #[inline]
    pub(crate) fn arrive(&mut self, id: u32, error: Option<Failure>) {
        let flight = &mut self.flights[id as usize];
        flight.afloat = false;
        let (lane, port) = (flight.lane, &mut self.ports[flight.endpoint as usize]);
        port.in_flight -= 1;
        let room = port.in_flight + 1 == self.limits.batches_max;
        let fate = std::mem::replace(&mut flight.fate, Fate::Landed);
        let flushed = matches!(fate, Fate::Unawaited) && {
            if let Some(error) = error {
                port.error.get_or_insert(error.into());
            }
            port.unawaited -= 1;
            port.unawaited == 0
        };
        if room || flushed {
            self.woke |= !port.waiters.is_empty();
            self.attention |= self.woke;
            port.waiters.drain(..).for_each(Waker::wake);
        }
        if let Some(error) = error {
            flight.fate = Fate::Failed(error);
        }
        match fate {
            Fate::Awaited(None) => self.wake(lane),
            Fate::Awaited(Some(waker)) => {
                (self.woke, self.attention) = (true, true);
                waker.wake();
            }
            Fate::Unawaited | Fate::Abandoned => self.release(id),
            // Its future was woken when this became known.
            Fate::Unknown => flight.fate = Fate::Failed(Failure::OutcomeUnknown),
            Fate::Landed | Fate::Failed(_) => unreachable!("a batch lands once"),
        }
        if self.timed.is_none() {
            self.settle(lane);
        }
    }

    /// Keeps a batch back for a while.
    #[cold]
    fn hold(&mut self, id: u32) {
        let ns = 32_u64 << self.random.below(u64::from(self.temper.delay_bits_max) - 4);
        let ns = ns + self.random.below(ns);
        self.hold_for(id, ns);
    }

    /// Keeps a batch back for `ns`, whatever held it back before.
    #[cold]
    pub(crate) fn hold_for(&mut self, id: u32, ns: u64) {
        let lane = self.flights[id as usize].lane;
        self.unmoor(id);
        self.lanes[lane as usize].held += 1;
        self.add_timer(ns, Due::Flight(id));
        self.flights[id as usize].held = self.timers_made;
        self.settle(lane);
    }

    pub(crate) fn add_timer(&mut self, ns: u64, due: Due) {
        self.timers_made += 1;
        self.timers.push(Reverse(Timer { at_ns: self.now_ns.saturating_add(ns), number: self.timers_made, due }));
    }

    #[cold]
    pub(crate) fn fire(&mut self) {
        let Some(Reverse(timer)) = self.timers.pop() else { return };
        match timer.due {
            Due::Task(lane) => self.ring(lane),
            Due::Resume(lane) if self.lanes[lane as usize].paused_by == timer.number => self.resume(lane),
            Due::Resume(_) => {}
            Due::Fault(lane, fault) => self.strike(lane, fault),
            Due::Heal(lane, node) => self.heal_link(lane, node),
            Due::Fast(node) => self.fasten_node(node),
            Due::Mail(id) => self.deliver(id),
            Due::Flight(id) => {
                let flight = &mut self.flights[id as usize];
                if flight.held != timer.number {
                    // It was cut, or is held back by another timer.
                    return;
                }
                flight.held = 0;
                let lane = flight.lane;
                self.lanes[lane as usize].held -= 1;
                self.lanes[lane as usize].flights.push(id);
                self.settle(lane);
            }
        }
    }

    /// Sets an alarm for the task of a lane, later than now; gives its number.
    pub(crate) fn set_alarm(&mut self, lane: u32, at_ns: u64) -> u64 {
        let (number, asks) = self.lanes[lane as usize].alarms.set(at_ns);
        if asks {
            self.ring_at(lane, at_ns);
        }
        number
    }

    fn ring_at(&mut self, lane: u32, at_ns: u64) {
        match &mut self.timed {
            Some(timed) => timed.ring_at(lane, at_ns),
            None => self.add_timer(at_ns - self.now_ns, Due::Task(lane)),
        }
    }

    /// A ring comes for the alarms of a lane.
    pub(crate) fn ring(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if state.done {
            return;
        }
        let (is_due, next_ns) = state.alarms.ring(self.now_ns);
        if let Some(at_ns) = next_ns {
            self.ring_at(lane, at_ns);
        }
        if is_due {
            self.wake(lane);
        }
    }

    /// The task of a lane is to be polled.
    pub(crate) fn wake(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if !state.done {
            let enabled = !std::mem::replace(&mut state.woken, true);
            if self.timed.is_some() {
                if enabled {
                    self.wake_timed(lane);
                }
                return;
            }
            self.settle(lane);
            if enabled {
                self.enables(Process::Task(lane));
            }
        }
    }

    /// Brings the list of runnable lanes up to date.
    #[inline]
    pub(crate) fn settle(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let can_run = state.woken && !state.paused || !state.flights.is_empty() && !state.frozen;
        match state.runnable_at {
            None if can_run => {
                state.runnable_at = Some(self.runnable.len() as u32);
                self.runnable.push(lane);
                self.scheduler.can_run(lane, self.steps);
            }
            Some(at) if !can_run => {
                state.runnable_at = None;
                self.runnable.swap_remove(at as usize);
                if let Some(moved) = self.runnable.get(at as usize) {
                    self.lanes[*moved as usize].runnable_at = Some(at);
                }
            }
            _ => {}
        }
    }

    /// Sends checked verbs off.
    pub(crate) fn launch(&mut self, endpoint: u32, verbs: &mut [Verb], fate: Fate) -> u32 {
        let lane = self.polled.expect("a batch is posted by a spawned task: see Sim::spawn");
        let unawaited = matches!(fate, Fate::Unawaited);
        let id = self.flights_free.pop().unwrap_or_else(|| {
            self.flights.push(Flight::empty());
            self.flights.len() as u32 - 1
        });
        let flight = &mut self.flights[id as usize];
        flight.board(verbs, self.liberties);
        (flight.lane, flight.endpoint, flight.fate) = (lane, endpoint, fate);
        let state = &mut self.lanes[lane as usize];
        flight.number = state.launches;
        state.launches += 1;
        let port = &mut self.ports[endpoint as usize];
        port.lane = lane;
        port.in_flight += 1;
        port.unawaited += usize::from(unawaited);
        if self.timed.is_some() {
            self.launch_timed(lane, endpoint, id);
            return id;
        }
        state.flights.push(id);
        let number = state.launches - 1;
        self.settle(lane);
        self.enables_batch(id, number);
        let late = if unawaited { self.temper.late_unawaited } else { self.temper.delay };
        if self.random.chance(late) {
            self.hold(id);
        }
        if self.impaired {
            self.set_off_impaired(id);
        }
        id
    }

    /// A batch that its future waits for, or was dropped with.
    pub(crate) fn flight_mut(&mut self, id: u32) -> &mut Flight {
        &mut self.flights[id as usize]
    }

    /// The slot of a batch that has landed is free again.
    pub(crate) fn release(&mut self, id: u32) {
        self.flights[id as usize].clear();
        self.flights_free.push(id);
    }

    #[inline]
    pub(crate) fn record(&mut self, lane: u32, flight: u32, effect: Option<Effect>) {
        let (what, word) = match effect {
            None => (u64::from(lane) << 32 | 1, 0),
            Some(effect) => {
                let what = u64::from(lane) << 32 | u64::from(effect.verb) << 8 | u64::from(effect.kind);
                (what ^ effect.at.offset() << 16, effect.word)
            }
        };
        self.mix(what, word);
        if self.trace.is_on() {
            self.trace_step(lane, flight, effect);
        }
    }

    #[cold]
    #[inline(never)]
    fn trace_step(&mut self, lane: u32, flight: u32, effect: Option<Effect>) {
        let what = effect.map_or(What::Polled, |effect| {
            let verb = self.flights[flight as usize].verb_described(effect.verb);
            What::Effect { flight, effect, verb }
        });
        self.trace.push(self.steps, self.now_ns, lane, what);
    }

    #[inline]
    pub(crate) fn mix(&mut self, what: u64, word: u64) {
        let mixed = (self.digest ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ word ^ self.now_ns;
        self.digest = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    /// What every lane is at, one line each.
    pub(crate) fn lanes_described(&self) -> String {
        let mut lines = String::new();
        for lane in self.lanes.iter().filter(|lane| !lane.done || lane.held > 0 || !lane.flights.is_empty()) {
            let task = match (lane.killed, lane.done, lane.paused, lane.woken) {
                (true, ..) => "killed",
                (_, true, ..) => "task done",
                (_, _, true, _) => "task paused",
                (.., true) => "task ready",
                _ => "task waiting",
            };
            lines += &format!(
                "\n  {}: {task}, {} batches in flight, {} held back",
                lane.name,
                lane.flights.len(),
                lane.held
            );
        }
        lines
    }

    /// The last events, one line each.
    pub(crate) fn trace_described(&self) -> String {
        let lane_name = |lane: u32| self.lanes[lane as usize].name.clone();
        self.trace.described(lane_name, |port| self.ports[port as usize].name.clone())
    }
}
