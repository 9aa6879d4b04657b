//! The steps of an explored run: a guide chooses each step, and is told what it touched.

use crate::fault::Fault;
use crate::flight::{Failure, Fate};
use crate::footprint::{Footprint, Process};
use crate::history;
use crate::timers::Due;
use crate::world::{Next, World};
use std::cmp::Reverse;

impl World {
    /// Something happens that any process might see.
    #[inline]
    pub(crate) fn touch(&mut self) {
        if let Some(guided) = &mut self.guided {
            guided.footprint.everything = true;
        }
    }

    /// A process can take a step from now on.
    #[inline]
    pub(crate) fn enables(&mut self, process: Process) {
        if let Some(guided) = &self.guided {
            guided.guide.borrow_mut().enables(process);
        }
    }

    /// The steps from now on come behind all before.
    pub(crate) fn begin_run(&mut self) {
        if let Some(guided) = &self.guided {
            guided.guide.borrow_mut().barrier();
        }
    }

    /// How many clients there are that a fault may hit.
    pub(crate) fn mortals(&self) -> u32 {
        self.lanes.iter().filter(|lane| lane.mortal).count() as u32
    }

    /// Takes steps until a task is to be polled.
    pub(crate) fn advance_guided(&mut self, steps_end: u64) -> Next {
        loop {
            if self.agenda.attention
                && let Some(next) = self.attend()
            {
                return next;
            }
            self.end_step();
            let enabled = self.enabled();
            if enabled.is_empty() {
                return Next::Idle;
            }
            if self.steps >= steps_end {
                return Next::Bound;
            }
            self.steps += 1;
            let guided = self.guided.as_ref().expect("the run is guided");
            let process = guided.guide.borrow_mut().choose(&enabled);
            if let Some(lane) = process.lane().filter(|lane| self.lanes[*lane as usize].counts_step()) {
                self.agenda.due.push(lane);
                self.agenda.attention = true;
            }
            if let Some(next) = self.take(process) {
                return next;
            }
        }
    }

    fn end_step(&mut self) {
        let guided = self.guided.as_mut().expect("the run is guided");
        let told = history::told();
        let mut footprint = std::mem::take(&mut guided.footprint);
        (footprint.begins, footprint.ends) = (told.0 != guided.told.0, told.1 != guided.told.1);
        guided.told = told;
        guided.guide.borrow_mut().taken(footprint);
    }

    /// The processes that can take a step, in an order that repeats.
    fn enabled(&mut self) -> Vec<Process> {
        let mut enabled = Vec::new();
        for (lane, state) in (0..).zip(&self.lanes) {
            if state.is_ready() {
                enabled.push(Process::Task(lane));
            }
            let first = enabled.len();
            for flight in state.flights.iter().map(|id| &self.flights[*id as usize]) {
                let piece = |piece| Process::Batch(lane, flight.number, piece);
                match self.takes_pieces() && !flight.is_done() {
                    true => enabled.extend(flight.pieces(self.relaxations).map(piece)),
                    false => enabled.push(piece(0)),
                }
            }
            enabled[first..].sort_unstable();
        }
        let is_stale = |due: &Due| matches!(due, Due::Task(lane) if self.lanes[*lane as usize].done);
        while self.timers.peek().is_some_and(|Reverse(timer)| is_stale(&timer.due)) {
            self.timers.pop();
        }
        let victim = self.victim();
        let guided = self.guided.as_ref().expect("the run is guided");
        let paused = victim.is_some_and(|lane| self.lanes[lane as usize].pause.is_some());
        // What the dead and the paused have in flight may be slower than any timer.
        let holds_time = |process: &Process| process.lane() != victim || !self.is_slow(victim);
        let waits_long_enough = self.is_slow(victim) && guided.jumps_left == 0;
        if !enabled.iter().any(holds_time) && !self.timers.is_empty() && !waits_long_enough {
            enabled.push(Process::Clock);
        }
        // Cutting comes after every death, even where nothing is left to cut: every effect races
        // with it.
        let settles = paused || matches!(guided.fault, Some((Fault::Kill, _)));
        if victim.is_some() && (!guided.struck || !guided.settled && settles) {
            enabled.push(Process::Fault);
        }
        enabled
    }

    /// Whether a lane may be slower than any timer: it is paused, or dead and has something in
    /// flight.
    fn is_slow(&self, lane: Option<u32>) -> bool {
        let state = lane.map(|lane| &self.lanes[lane as usize]);
        state.is_some_and(|state| state.pause.is_some() || state.killed && !state.flights.is_empty())
    }

    /// The lane that the fault hits, once it is there.
    fn victim(&self) -> Option<u32> {
        let (_, number) = self.guided.as_ref()?.fault?;
        let mortal = (0..).zip(&self.lanes).filter(|(_, lane)| lane.mortal);
        mortal.map(|(lane, _)| lane).nth(number as usize)
    }

    fn take(&mut self, process: Process) -> Option<Next> {
        match process {
            Process::Task(lane) => {
                self.lanes[lane as usize].woken = false;
                self.settle(lane);
                self.record(lane, u32::MAX, None);
                self.leaves(Footprint { task: Some(lane), ..Footprint::default() });
                return Some(Next::Poll(lane));
            }
            Process::Batch(lane, number, piece) => self.take_effect(lane, number, piece),
            Process::Clock => {
                let Reverse(timer) = self.timers.peek()?;
                self.now_ns = self.now_ns.max(timer.at_ns);
                while self.timers.peek().is_some_and(|Reverse(timer)| timer.at_ns <= self.now_ns) {
                    self.fire();
                }
                self.touch();
                if self.is_slow(self.victim()) {
                    self.guided.as_mut().expect("the run is guided").jumps_left -= 1;
                }
            }
            Process::Fault => self.take_fault(),
        }
        None
    }

    /// Whether verbs take effect in pieces and out of order.
    fn takes_pieces(&self) -> bool {
        self.relaxations.reorder || self.relaxations.tear
    }

    /// A batch sets off.
    pub(crate) fn enables_batch(&mut self, id: u32, number: u32) {
        if !self.is_guided() {
            return;
        }
        let (lane, verbs) = (self.flights[id as usize].lane, self.flights[id as usize].verbs().len());
        let pieces = if self.takes_pieces() { 2 * verbs as u8 } else { 1 };
        (0..pieces.max(1)).for_each(|piece| self.enables(Process::Batch(lane, number, piece)));
    }

    /// Lets a piece of a batch take effect, whole verbs in any order among them.
    fn take_piece(&mut self, lane: u32, id: u32, piece: u8) {
        let flight = &self.flights[id as usize];
        let (is_told, number) = (matches!(flight.fate, Fate::Awaited(_)), flight.number);
        let words = Some(flight.piece_words(piece, self.relaxations, &self.memory));
        let task = (is_told && flight.is_last_piece(self.relaxations)).then_some(lane);
        self.leaves(Footprint { words, task, batch_of: Some(lane), ..Footprint::default() });
        let flight = &mut self.flights[id as usize];
        let effect = flight.step_piece(piece, self.relaxations, &mut self.memory);
        let is_done = flight.is_done();
        self.tally.verbs += u64::from(effect.kind.is_whole());
        self.record(lane, id, Some(effect));
        // What had to wait for it comes behind it, and so does the task once the batch has landed.
        let pieces = self.flights[id as usize].pieces(self.relaxations);
        let behind: Vec<u8> = pieces.filter(|other| self.waits_for(id, *other, piece)).collect();
        behind.into_iter().for_each(|other| self.enables(Process::Batch(lane, number, other)));
        if is_told {
            self.enables(Process::Task(lane));
        }
        if is_done {
            self.land(id);
        }
    }

    /// Whether the contract has a piece behind another one of its batch.
    fn waits_for(&self, id: u32, later: u8, earlier: u8) -> bool {
        !self.relaxations.reorder && later / 2 != earlier / 2 || self.flights[id as usize].is_behind(later, earlier)
    }

    fn take_effect(&mut self, lane: u32, number: u32, piece: u8) {
        let is_it = |id: &&u32| self.flights[**id as usize].number == number;
        let id = *self.lanes[lane as usize].flights.iter().find(is_it).expect("it can take a step");
        if self.takes_pieces() && !self.flights[id as usize].is_done() {
            return self.take_piece(lane, id, piece);
        }
        let flight = &self.flights[id as usize];
        let is_told = flight.is_last() && matches!(flight.fate, Fate::Awaited(_));
        let words = flight.next_words(&self.memory);
        let task = is_told.then_some(lane);
        self.leaves(Footprint { words, task, batch_of: Some(lane), ..Footprint::default() });
        if words.is_some() {
            self.fly(lane, id);
        } else {
            self.land(id);
        }
    }

    fn take_fault(&mut self) {
        let lane = self.victim().expect("the fault can take a step");
        let guided = self.guided.as_mut().expect("the run is guided");
        let (fault, _) = guided.fault.expect("the run has a fault");
        let first = !std::mem::replace(&mut guided.struck, true);
        guided.settled = !first;
        let mut footprint = Footprint { halts: Some(lane), ..Footprint::default() };
        match fault {
            _ if first => self.strike(lane, fault),
            Fault::Kill => {
                footprint = Footprint { cuts: Some(lane), ..Footprint::default() };
                self.cut_all(Failure::OutcomeUnknown, |world, id| world.flights[id as usize].lane == lane);
            }
            _ => self.resume(lane),
        }
        self.leaves(footprint);
    }

    fn leaves(&mut self, footprint: Footprint) {
        self.guided.as_mut().expect("the run is guided").footprint = footprint;
    }

    /// Whether nothing is left to chance.
    pub(crate) fn is_guided(&self) -> bool {
        self.guided.is_some()
    }
}
