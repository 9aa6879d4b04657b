//! Everything that changes during a run.
//!
//! A **lane** is a client: a task with all batches that it has in flight. A step is one of a lane: its task is polled, or one of its
//! batches makes one effect, or a completion arrives. The strategy chooses the lane, chance the step within it. A lane can run
//! if its task was woken, or if one of its batches is not held back.

use crate::flight::{Effect, Fate, Flight};
use crate::liberties::Temper;
use crate::memory::Memory;
use crate::schedule::Scheduler;
use crate::sim::SimOptions;
use crate::{Liberties, Random};
use atoll_fabric::batch::Verb;
use atoll_fabric::{Limits, VerbError};
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
    /// The lane whose task is being polled.
    pub(crate) polled: Option<u32>,
    /// Virtual nanoseconds since the run began.
    pub(crate) now_ns: u64,
    pub(crate) steps: u64,
    pub(crate) verbs: u64,
    pub(crate) digest: u64,
    pub(crate) trace: Trace,
    temper: Temper,
    random: Random,
    flights: Vec<Flight>,
    flights_free: Vec<u32>,
    /// The lanes that can run, in no order.
    runnable: Vec<u32>,
    timers: BinaryHeap<Reverse<Timer>>,
    timers_made: u64,
    /// Whether a waker was called, which the world does not see the effect of.
    woke: bool,
}

/// One client.
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) done: bool,
    /// Whether the task was woken since it was last polled.
    woken: bool,
    /// Its batches that are not held back.
    flights: Vec<u32>,
    /// Its batches that are.
    held: u32,
    /// Where it is in the list of runnable lanes.
    runnable_at: Option<u32>,
}

/// One endpoint's part of the world.
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) random: Random,
    /// What this host's monotone clock showed when the run began.
    pub(crate) origin_ns: u64,
    /// How far ahead the wall clock is.
    pub(crate) skew_ms: i64,
    pub(crate) in_flight: usize,
    pub(crate) unawaited: usize,
    pub(crate) error: Option<VerbError>,
    /// Posts that wait for room, and flushes.
    pub(crate) waiters: Vec<Waker>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at_ns: u64,
    /// Breaks ties in the order in which timers were made.
    number: u64,
    due: Due,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Flight(u32),
    Task(u32),
}

/// What the executor does next.
pub(crate) enum Next {
    /// Polls the task of a lane.
    Poll(u32),
    /// Nothing can run and nothing will.
    Idle,
    /// Looks which tasks were woken through their wakers.
    Wakes,
    /// The step bound is reached.
    Bound,
}

/// The last events, for whoever debugs a failing seed.
pub(crate) struct Trace {
    events: VecDeque<Event>,
    events_max: usize,
}

struct Event {
    step: u64,
    now_ns: u64,
    lane: u32,
    flight: u32,
    effect: Option<Effect>,
}

impl World {
    pub(crate) fn new(options: &SimOptions) -> Self {
        let mut random = Random::stream(options.seed, 0);
        let scheduler = Scheduler::new(options.strategy, &mut random);
        Self {
            memory: Memory::new(&options.nodes),
            liberties: options.liberties,
            limits: options.limits,
            scheduler,
            lanes: Vec::new(),
            ports: Vec::new(),
            polled: None,
            now_ns: 0,
            steps: 0,
            verbs: 0,
            digest: 0,
            trace: Trace { events: VecDeque::new(), events_max: options.trace_events },
            temper: Temper::drawn(options.liberties, &mut random),
            random,
            flights: Vec::new(),
            flights_free: Vec::new(),
            runnable: Vec::new(),
            timers: BinaryHeap::new(),
            timers_made: 0,
            woke: false,
        }
    }

    pub(crate) fn add_lane(&mut self, name: &str) -> u32 {
        let lane = self.lanes.len() as u32;
        self.lanes.push(Lane {
            name: name.to_owned(),
            done: false,
            woken: false,
            flights: Vec::new(),
            held: 0,
            runnable_at: None,
        });
        self.scheduler.add_lane(self.steps, &mut self.random);
        self.wake(lane);
        lane
    }

    pub(crate) fn add_port(&mut self, name: &str, seed: u64) -> u32 {
        let mut random = Random::stream(seed, 1 + self.ports.len() as u64);
        self.ports.push(Port {
            name: name.to_owned(),
            origin_ns: random.below(1 << 40),
            skew_ms: 0,
            random,
            in_flight: 0,
            unawaited: 0,
            error: None,
            waiters: Vec::new(),
        });
        self.ports.len() as u32 - 1
    }

    /// Takes steps until a task is to be polled.
    pub(crate) fn advance(&mut self, steps_end: u64) -> Next {
        loop {
            if std::mem::take(&mut self.woke) {
                return Next::Wakes;
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
            // The place where costs will come in: a step takes no time of its own yet, only so much that clocks move.
            self.now_ns += 1 + (self.random.word() >> 58);
            let lane = self.scheduler.pick(&self.runnable, self.steps, &mut self.random);
            if let Some(poll) = self.step(lane) {
                return poll;
            }
        }
    }

    #[inline]
    fn step(&mut self, lane: u32) -> Option<Next> {
        let state = &mut self.lanes[lane as usize];
        let batches = state.flights.len();
        let choice = match batches + usize::from(state.woken) {
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
        if self.flights[id as usize].is_done() {
            self.land(id);
        } else {
            self.fly(lane, id);
        }
        None
    }

    /// Lets one effect of a batch happen, or all without interleaving.
    #[inline]
    fn fly(&mut self, lane: u32, id: u32) {
        loop {
            let flight = &mut self.flights[id as usize];
            let effect = flight.step(&mut self.memory, &self.temper, &mut self.random);
            let done = flight.is_done();
            self.verbs += u64::from(effect.kind.is_ascii_uppercase());
            self.record(lane, id, Some(effect));
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

    /// All effects are made; the completion arrives now, or takes its time.
    #[inline]
    fn complete(&mut self, id: u32) {
        if self.random.chance(self.temper.late_completion) {
            self.hold(id);
        } else {
            self.land(id);
        }
    }

    /// The completion of a batch arrives.
    #[inline]
    fn land(&mut self, id: u32) {
        let flight = &mut self.flights[id as usize];
        let (lane, port) = (flight.lane, &mut self.ports[flight.endpoint as usize]);
        port.in_flight -= 1;
        let room = port.in_flight + 1 == self.limits.batches_max;
        let fate = std::mem::replace(&mut flight.fate, Fate::Landed);
        let flushed = matches!(fate, Fate::Unawaited) && {
            port.unawaited -= 1;
            port.unawaited == 0
        };
        if room || flushed {
            self.woke |= !port.waiters.is_empty();
            port.waiters.drain(..).for_each(Waker::wake);
        }
        let state = &mut self.lanes[lane as usize];
        let at = state.flights.iter().position(|flight| *flight == id).expect("a batch that lands is not held");
        state.flights.swap_remove(at);
        match fate {
            Fate::Awaited(None) => self.wake(lane),
            Fate::Awaited(Some(waker)) => {
                self.woke = true;
                waker.wake();
            }
            Fate::Unawaited | Fate::Abandoned => self.release(id),
            Fate::Landed => unreachable!("a batch lands once"),
        }
        self.settle(lane);
    }

    /// Keeps a batch back for a while.
    #[cold]
    fn hold(&mut self, id: u32) {
        let ns = 32_u64 << self.random.below(u64::from(self.temper.delay_bits_max) - 4);
        let ns = ns + self.random.below(ns);
        let flight = &mut self.flights[id as usize];
        flight.held = true;
        let lane = flight.lane;
        let state = &mut self.lanes[lane as usize];
        state.flights.retain(|flight| *flight != id);
        state.held += 1;
        self.add_timer(ns, Due::Flight(id));
        self.settle(lane);
    }

    fn add_timer(&mut self, ns: u64, due: Due) {
        self.timers_made += 1;
        self.timers.push(Reverse(Timer { at_ns: self.now_ns.saturating_add(ns), number: self.timers_made, due }));
    }

    #[cold]
    fn fire(&mut self) {
        let Some(Reverse(timer)) = self.timers.pop() else { return };
        match timer.due {
            Due::Task(lane) => self.wake(lane),
            Due::Flight(id) => {
                let flight = &mut self.flights[id as usize];
                flight.held = false;
                let lane = flight.lane;
                self.lanes[lane as usize].held -= 1;
                self.lanes[lane as usize].flights.push(id);
                self.settle(lane);
            }
        }
    }

    /// Wakes the task of a lane after `ns`.
    pub(crate) fn wake_in(&mut self, lane: u32, ns: u64) {
        self.add_timer(ns, Due::Task(lane));
    }

    /// The task of a lane is to be polled.
    pub(crate) fn wake(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if !state.done {
            state.woken = true;
            self.settle(lane);
        }
    }

    /// Brings the list of runnable lanes up to date.
    #[inline]
    fn settle(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let can_run = state.woken || !state.flights.is_empty();
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
        let port = &mut self.ports[endpoint as usize];
        port.in_flight += 1;
        port.unawaited += usize::from(unawaited);
        self.lanes[lane as usize].flights.push(id);
        self.settle(lane);
        let late = if unawaited { self.temper.late_unawaited } else { self.temper.delay };
        if self.random.chance(late) {
            self.hold(id);
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

    /// The wall clock of an endpoint.
    pub(crate) fn unix_ms(&mut self, endpoint: u32, epoch_ms: u64) -> u64 {
        let max = self.liberties.wall_clock_skew_ms_max;
        let port = &mut self.ports[endpoint as usize];
        if max > 0 && (port.skew_ms == 0 || port.random.chance(16)) {
            port.skew_ms = port.random.below(2 * max + 1) as i64 - max as i64;
        }
        (epoch_ms + self.now_ns / 1_000_000).saturating_add_signed(port.skew_ms)
    }

    #[inline]
    fn record(&mut self, lane: u32, flight: u32, effect: Option<Effect>) {
        let (what, word) = match effect {
            None => (u64::from(lane) << 32 | 1, 0),
            Some(effect) => {
                let what = u64::from(lane) << 32 | u64::from(effect.verb) << 8 | u64::from(effect.kind);
                (what ^ effect.at.offset() << 16, effect.word)
            }
        };
        let mixed = (self.digest ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ word ^ self.now_ns;
        self.digest = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
        if self.trace.events_max > 0 {
            self.trace.push(Event { step: self.steps, now_ns: self.now_ns, lane, flight, effect });
        }
    }

    /// What every lane is at, one line each.
    pub(crate) fn lanes_described(&self) -> String {
        let mut lines = String::new();
        for lane in self.lanes.iter().filter(|lane| !lane.done || lane.held > 0 || !lane.flights.is_empty()) {
            let task = match (lane.done, lane.woken) {
                (true, _) => "task done",
                (false, true) => "task ready",
                (false, false) => "task waiting",
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
        let mut lines = String::new();
        for event in &self.trace.events {
            let name = &self.lanes[event.lane as usize].name;
            let what = match event.effect {
                None => "polled".to_owned(),
                Some(Effect { verb, kind, at, word }) => {
                    format!("batch {} verb {verb} {} {at:?} = {word:#x}", event.flight, kind as char)
                }
            };
            lines += &format!("\n  step {} at {} ns: {name}: {what}", event.step, event.now_ns);
        }
        lines
    }
}

impl Trace {
    fn push(&mut self, event: Event) {
        if self.events.len() == self.events_max {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
