//! What faults do to the world: see [`fault`](crate::fault).

use crate::client::ClientState;
use crate::fault::{Direction, Drawn, Fault, Faults, Fencing};
use crate::flight::{Failure, Fate, Flight};
use crate::lane::Pause;
use crate::timers::Due;
use crate::trace::{FaultEvent, NOBODY, What};
use crate::world::World;
use atoll_fabric::batch::Verb;
use atoll_fabric::{Address, Identity, RegionState, VerbError};
use std::cmp::Reverse;
use std::task::{Poll, Waker};

const SILENT: &str = "it does not answer";
/// Words at the beginning of a region by which it is known.
const FIRST_WORDS: u64 = 8;

impl World {
    /// Whether an endpoint may post.
    #[inline]
    pub(crate) fn standing(&self, port: u32) -> Result<(), VerbError> {
        let end = &self.ports[port as usize].end;
        if end.is_dead() || end.shut || self.deaths.dropping { Err(VerbError::Fenced) } else { Ok(()) }
    }

    /// Whether an endpoint knows all nodes of `verbs` as they are now.
    #[inline]
    pub(crate) fn check_losses(&self, port: u32, verbs: &[Verb]) -> Result<(), VerbError> {
        let lost =
            |verb: &Verb| self.losses.iter().any(|(node, ports)| Some(*node) == verb.at.memory_node() && port < *ports);
        if self.losses.is_empty() && self.silent == 0 {
            return Ok(());
        }
        let mut nodes = verbs.iter().filter_map(|verb| verb.at.memory_node());
        if let Some(node) = nodes.find(|node| self.silent >> node & 1 == 1) {
            return Err(VerbError::node_absent(node, SILENT));
        }
        if verbs.iter().any(lost) {
            return Err(VerbError::PeerDead);
        }
        let away = verbs.iter().filter_map(|verb| verb.at.memory_node()).find(|node| self.away >> node & 1 == 1);
        away.map_or(Ok(()), |node| Err(VerbError::node_absent(node, "it is away")))
    }

    /// What the control plane proves of a node's region. A region that was lost is gone until a
    /// client has written its first word.
    pub(crate) fn region_state(&self, node: u8) -> RegionState {
        if self.silent >> node & 1 == 1 {
            return RegionState::Silent;
        }
        let is_lost = self.losses.iter().any(|(lost, _)| *lost == node);
        let is_empty = || self.memory.words(Address::new(node, 0, 0), 8).is_some_and(|words| words[0] == 0);
        match is_lost && is_empty() {
            false => RegionState::Unknown,
            true if self.away >> node & 1 == 1 => RegionState::Away,
            true => RegionState::Gone,
        }
    }

    /// Whether an endpoint reaches the region that a node has now.
    pub(crate) fn reaches_anew(&self, port: u32, node: u8) -> Result<(), VerbError> {
        self.standing(port)?;
        if self.silent >> node & 1 == 1 {
            return Err(VerbError::node_absent(node, SILENT));
        }
        let is_old = self.losses.iter().any(|(lost, ports)| *lost == node && port < *ports);
        match is_old || self.away >> node & 1 == 1 {
            true => Err(VerbError::node_absent(node, "it is away, or this endpoint reached the region that is gone")),
            false => Ok(()),
        }
    }

    /// Whether an endpoint reached a region of this address's node that is gone: what it does there
    /// is done to no later region.
    pub(crate) fn reached_before_loss(&self, port: u32, at: Address) -> bool {
        self.losses.iter().any(|(lost, ports)| at.memory_node() == Some(*lost) && port < *ports)
    }

    /// Whether the endpoint that exported the region of an address is gone.
    pub(crate) fn is_exporter_gone(&self, at: Address) -> bool {
        let port = at.compute_node().and_then(|node| self.ports.get(usize::from(node)));
        port.is_some_and(|port| port.end.is_dead())
    }

    /// An error if an exporter of what `verbs` touch is gone.
    #[inline]
    pub(crate) fn check_exporters(&self, verbs: &[Verb]) -> Result<(), VerbError> {
        let is_gone = |verb: &Verb| self.is_exporter_gone(verb.at);
        if self.memory.has_exports() && verbs.iter().any(is_gone) { Err(VerbError::PeerDead) } else { Ok(()) }
    }

    /// # Panics
    /// In a timed run, which has no faults.
    pub(crate) fn assert_untimed(&self) {
        assert!(self.timed.is_none(), "a timed run has no faults: leave SimOptions::network as it is");
    }

    pub(crate) fn fault_after_steps(&mut self, lane: u32, fault: Fault, steps: u64) {
        let state = &mut self.lanes[lane as usize];
        state.faults.push((state.steps.saturating_add(steps), fault));
        state.settle_faults();
        if steps == 0 {
            self.agenda.due.push(lane);
            self.agenda.attention = true;
        }
    }

    pub(crate) fn fault_after_ns(&mut self, lane: u32, fault: Fault, ns: u64) {
        self.add_timer(ns, Due::Fault(lane, fault));
    }

    /// Sees to it that what begins now ends after `ns`; whether it does.
    fn add_end(&mut self, ns: u64, due: Due) -> bool {
        let ends = ns < u64::MAX;
        if ends {
            self.add_timer(ns, due);
        }
        ends
    }

    /// The faults of a lane whose step has come.
    pub(crate) fn strike_due(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let steps = state.steps;
        let due = state.faults.extract_if(.., |(at, _)| *at <= steps);
        let due: Vec<Fault> = due.map(|(_, fault)| fault).collect();
        state.settle_faults();
        due.into_iter().for_each(|fault| self.strike(lane, fault));
    }

    /// A fault hits a lane now.
    pub(crate) fn strike(&mut self, lane: u32, fault: Fault) {
        if self.lanes[lane as usize].done {
            return;
        }
        match fault {
            Fault::Kill => self.kill(lane),
            Fault::Pause { ns } => self.pause(lane, ns),
            Fault::OutcomeUnknown => {
                let is_awaited = |id: &u32| {
                    let flight = &self.flights[*id as usize];
                    let counts = matches!(flight.fate, Fate::Awaited(_) | Fate::Unawaited);
                    flight.afloat && flight.lane == lane && counts && !flight.lost
                };
                match (0..self.flights.len() as u32).find(is_awaited) {
                    Some(id) => self.forget(id),
                    None => self.fault_after_steps(lane, fault, 1),
                }
            }
        }
    }

    /// The seed strikes, if it can: `lane` is about to take a step.
    #[cold]
    pub(crate) fn strike_drawn(&mut self, lane: u32) {
        if !self.lanes[lane as usize].mortal {
            return;
        }
        let Some(drawn) = self.faults.draw(&mut self.fault_random) else {
            self.fault_at = u64::MAX;
            return;
        };
        self.fault_at = self.steps + 1 + self.fault_random.below(2 * self.faults.steps_between.max(1));
        let node = self.fault_random.below(self.memory.nodes() as u64) as u8;
        let ns = self.lasting_ns();
        match drawn {
            Drawn::Kill => self.strike(lane, Fault::Kill),
            Drawn::Pause => self.strike(lane, Fault::Pause { ns }),
            Drawn::Unknown => self.strike(lane, Fault::OutcomeUnknown),
            Drawn::NodeLoss => self.lose_node(node),
            Drawn::LinkCut => {
                let direction = self.fault_random.pick(&[Direction::Requests, Direction::Responses, Direction::Both]);
                self.cut_link(lane, node, direction, ns);
            }
            Drawn::SlowNode => {
                let factor = self.fault_random.spread(10);
                self.slow_node(node, factor, ns);
            }
            Drawn::ClockJump => {
                let max = self.faults.clock_jump_ms_max;
                let ms = self.fault_random.below(2 * max + 1) as i64 - max as i64;
                self.jump_clock(lane, ms);
            }
        }
    }

    /// From a microsecond to the longest time that faults last.
    fn lasting_ns(&mut self) -> u64 {
        let max_us = (self.faults.ns_max / 1000).max(1);
        1000 * self.fault_random.spread(max_us.ilog2() + 1).min(max_us)
    }

    fn kill(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        (state.done, state.killed, state.woken, state.pause) = (true, true, false, None);
        self.record_fault(lane, FaultEvent::Killed);
        self.ports.iter_mut().filter(|port| port.lane == lane).for_each(|port| port.end.killed = true);
        for id in 0..self.flights.len() as u32 {
            if self.flights[id as usize].afloat && self.flights[id as usize].lane == lane {
                self.set_adrift(id);
            }
        }
        self.settle(lane);
        // No task waits for its time to come.
        self.timers.retain(|Reverse(timer)| !matches!(timer.due, Due::Task(of) | Due::Resume(of) if of == lane));
        self.ghost = self.polled == Some(lane);
        self.deaths.doomed.push_back(lane);
        self.agenda.attention = true;
    }

    /// The task of a killed lane has been dropped.
    pub(crate) fn bury(&mut self, lane: u32) {
        self.deaths.killed.push(lane);
        self.tell_watchers();
    }

    /// Watchers may wait for the end of this lane.
    pub(crate) fn tell_watchers(&mut self) {
        if !self.deaths.watchers.is_empty() {
            self.agenda.wake();
            self.deaths.watchers.drain(..).for_each(Waker::wake);
        }
    }

    /// The next killed lane that was not told yet; none once all lanes that can be killed have
    /// ended.
    pub(crate) fn next_killed(&mut self) -> Poll<Option<u32>> {
        self.touch();
        match self.deaths.killed.get(self.deaths.killed_told) {
            Some(lane) => {
                self.deaths.killed_told += 1;
                Poll::Ready(Some(*lane))
            }
            None if self.deaths.doomed.is_empty() && self.lanes.iter().all(|lane| lane.done || !lane.mortal) => {
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }

    fn pause(&mut self, lane: u32, ns: u64) {
        let frozen = !self.is_guided() && self.fault_random.chance(512);
        self.record_fault(lane, FaultEvent::Paused { ns, frozen });
        let number = if self.add_end(ns, Due::Resume(lane)) { self.timers_made } else { 0 };
        let state = &mut self.lanes[lane as usize];
        state.pause = Some(Pause { timer: number, frozen });
        self.settle(lane);
    }

    pub(crate) fn resume(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if state.pause.take().is_some() {
            self.record_fault(lane, FaultEvent::Resumed);
            self.settle(lane);
        }
    }

    pub(crate) fn state(&self, lane: u32) -> ClientState {
        let state = &self.lanes[lane as usize];
        match (state.killed, state.done, state.pause.is_some()) {
            (true, _, _) => ClientState::Killed,
            (_, true, _) => ClientState::Ended,
            (_, _, true) => ClientState::Paused,
            _ => ClientState::Running,
        }
    }

    /// The client that posted a batch learns that its outcome is unknown.
    fn forget(&mut self, id: u32) {
        let flight = &mut self.flights[id as usize];
        let (lane, posts) = (flight.lane, &mut self.ports[flight.endpoint as usize].posts);
        match std::mem::replace(&mut flight.fate, Fate::Unknown) {
            Fate::Awaited(None) => self.wake(lane),
            Fate::Awaited(Some(waker)) => {
                self.agenda.wake();
                waker.wake();
            }
            Fate::Unawaited => {
                flight.fate = Fate::Abandoned;
                posts.error.get_or_insert(VerbError::OutcomeUnknown);
                posts.unawaited -= 1;
                self.agenda.wake();
                posts.waiters.drain(..).for_each(Waker::wake);
            }
            _ => unreachable!("somebody waits for it"),
        }
        self.record_fault(lane, FaultEvent::Unknown { flight: id });
        self.set_adrift(id);
    }

    fn set_adrift(&mut self, id: u32) {
        if self.is_guided() {
            // What becomes of it is for the guide to choose.
            return;
        }
        self.flights[id as usize].adrift = true;
        match self.fault_random.below(3) {
            0 => self.cut(id, Failure::OutcomeUnknown),
            1 => self.lie_still(id),
            _ => {}
        }
    }

    /// A batch that is adrift would make an effect: whether it may.
    #[cold]
    pub(crate) fn drifts_on(&mut self, id: u32) -> bool {
        match self.fault_random.below(8) {
            0 => self.cut(id, Failure::OutcomeUnknown),
            1 => self.lie_still(id),
            _ => return true,
        }
        false
    }

    fn lie_still(&mut self, id: u32) {
        let ns = self.lasting_ns();
        let lane = self.flights[id as usize].lane;
        self.record_fault(lane, FaultEvent::Adrift { flight: id, ns });
        self.hold_for(id, ns);
    }

    /// Nothing more of a batch takes effect; the task that waits for it learns why.
    pub(crate) fn cut(&mut self, id: u32, error: Failure) {
        let flight = &mut self.flights[id as usize];
        flight.cut();
        let lane = flight.lane;
        self.record_fault(lane, FaultEvent::Cut { flight: id });
        self.unmoor(id);
        self.arrive(id, Some(error));
    }

    pub(crate) fn cut_all(&mut self, error: Failure, is_hit: impl Fn(&Self, u32) -> bool) {
        for id in 0..self.flights.len() as u32 {
            if self.flights[id as usize].afloat && is_hit(self, id) {
                self.cut(id, error);
            }
        }
    }

    /// The endpoint of an identity.
    pub(crate) fn identified(&self, who: Identity) -> Option<u32> {
        let number = who.bits().checked_sub(1)?;
        (number < self.ports.len() as u32).then_some(number)
    }

    /// Whether an endpoint was shut out.
    pub(crate) fn is_shut_out(&self, who: Identity) -> bool {
        self.identified(who).is_some_and(|number| self.ports[number as usize].end.shut)
    }

    /// The lane that posted last by the endpoint of an identity.
    pub(crate) fn owner(&self, who: Identity) -> Option<u32> {
        let lane = self.ports[self.identified(who)? as usize].lane;
        (lane != NOBODY).then_some(lane)
    }

    /// The endpoint `by` asks whether another one is dead, or shuts it out: which, and how long
    /// that takes; `None` if it lives on.
    pub(crate) fn begin_fence(
        &mut self,
        by: u32,
        who: Identity,
        by_force: bool,
    ) -> Result<Option<(u32, u64)>, VerbError> {
        self.standing(by)?;
        let Some(number) = self.identified(who) else { return Ok(None) };
        let port = &mut self.ports[number as usize];
        let end = &mut port.end;
        let shut = end.is_dead() || end.shut || by_force && self.fencing == Fencing::Forced;
        let forced = shut && !(end.is_dead() || end.shut);
        end.shut |= shut;
        if forced && self.watch.is_on() {
            self.watch.note_forced(by, who);
        }
        self.record_fault(self.polled.unwrap_or(NOBODY), FaultEvent::Fenced { port: number, shut });
        Ok(shut.then(|| (number, self.fault_random.spread(14))))
    }

    /// Nothing of a fenced endpoint takes effect any more.
    pub(crate) fn end_fence(&mut self, port: u32) {
        if self.timed.is_some() {
            // Batches on their way continue, and take no effect any more.
            let of_port = |flight: &&mut Flight| flight.afloat && flight.endpoint == port;
            return self.flights.iter_mut().filter(of_port).for_each(Flight::cut);
        }
        self.cut_all(Failure::Fenced, |world, id| world.flights[id as usize].endpoint == port);
        if let Some(tell) = &self.on_shut_out {
            tell(self.ports[port as usize].lane);
        }
    }

    pub(crate) fn lose_node(&mut self, node: u8) {
        self.record_fault(NOBODY, FaultEvent::NodeLost { node });
        self.losses.retain(|(lost, _)| *lost != node);
        self.losses.push((node, self.ports.len() as u32));
        self.memory.zero(node);
        if self.timed.is_some() {
            // Its batches on their way continue, take no effect any more, and fail at their ends.
            return;
        }
        self.cut_all(Failure::PeerDead, |world, id| world.flights[id as usize].nodes() >> node & 1 == 1);
    }

    pub(crate) fn silence_node(&mut self, node: u8) {
        self.record_fault(NOBODY, FaultEvent::NodeSilent { node });
        self.silent |= 1 << node;
        self.cut_all(Failure::OutcomeUnknown, |world, id| world.flights[id as usize].nodes() >> node & 1 == 1);
    }

    /// Removes the region of a node, if its first words show that it is the right one.
    pub(crate) fn remove_forsaken(&mut self, node: u8, is_it: &dyn Fn(&[u64]) -> bool) -> bool {
        let found = self.memory.words(Address::new(node, 0, 0), 8 * FIRST_WORDS);
        let removes = self.silent >> node & 1 == 0 && found.is_some_and(is_it);
        if removes {
            self.lose_node(node);
        }
        removes
    }

    pub(crate) fn cut_link(&mut self, lane: u32, node: u8, direction: Direction, ns: u64) {
        self.record_fault(lane, FaultEvent::LinkCut { node, direction, ns });
        let state = &mut self.lanes[lane as usize];
        state.cut.requests |= u64::from(direction != Direction::Responses) << node;
        state.cut.responses |= u64::from(direction != Direction::Requests) << node;
        self.impaired = true;
        self.add_end(ns, Due::Heal(lane, node));
    }

    pub(crate) fn heal_link(&mut self, lane: u32, node: u8) {
        self.record_fault(lane, FaultEvent::LinkHealed { node });
        let state = &mut self.lanes[lane as usize];
        state.cut.requests &= !(1 << node);
        state.cut.responses &= !(1 << node);
        self.settle_impaired();
    }

    pub(crate) fn slow_node(&mut self, node: u8, factor: u64, ns: u64) {
        self.record_fault(NOBODY, FaultEvent::Slow { node, factor, ns });
        self.slow.push((node, factor));
        self.impaired = true;
        self.add_end(ns, Due::Fast(node));
    }

    pub(crate) fn fasten_node(&mut self, node: u8) {
        self.record_fault(NOBODY, FaultEvent::Fast { node });
        if let Some(at) = self.slow.iter().position(|(slow, _)| *slow == node) {
            self.slow.swap_remove(at);
        }
        self.settle_impaired();
    }

    fn settle_impaired(&mut self) {
        self.impaired =
            !self.slow.is_empty() || self.lanes.iter().any(|lane| lane.cut.requests | lane.cut.responses != 0);
    }

    pub(crate) fn calm(&mut self) {
        (self.faults, self.fault_at) = (Faults { ns_max: self.faults.ns_max, ..Faults::none() }, u64::MAX);
        self.timers.retain(|Reverse(timer)| !matches!(timer.due, Due::Fault(..) | Due::Heal(..) | Due::Fast(_)));
        for lane in 0..self.lanes.len() as u32 {
            let state = &mut self.lanes[lane as usize];
            state.faults.clear();
            state.settle_faults();
            (state.cut.requests, state.cut.responses) = (0, 0);
            self.resume(lane);
        }
        self.slow.clear();
        self.heal_messages();
        self.impaired = false;
    }

    /// A batch sets off while links are cut or nodes slow.
    #[cold]
    pub(crate) fn set_off_impaired(&mut self, id: u32) {
        let flight = &mut self.flights[id as usize];
        let nodes = flight.nodes();
        let cut = self.lanes[flight.lane as usize].cut.requests & nodes;
        if cut != 0 {
            flight.lost = true;
            flight.cut_nodes(cut);
            if flight.is_done() {
                return self.hold_for(id, self.deadline_ns);
            }
        }
        let factor = self.slow.iter().filter(|(node, _)| nodes >> node & 1 == 1).map(|(_, factor)| *factor).max();
        if let Some(factor) = factor {
            let ns = factor.max(1) * self.fault_random.spread(10);
            self.hold_for(id, ns);
        }
    }

    /// Whether the completion of a batch that has taken effect cannot arrive.
    #[cold]
    pub(crate) fn loses_completion(&self, id: u32) -> bool {
        let flight = &self.flights[id as usize];
        self.lanes[flight.lane as usize].cut.responses & flight.nodes() != 0
    }

    pub(crate) fn jump_clock(&mut self, lane: u32, ms: i64) {
        self.record_fault(lane, FaultEvent::ClockJumped { ms });
        self.ports.iter_mut().filter(|port| port.lane == lane).for_each(|port| port.host.clock.wall.jumped_ms += ms);
    }

    pub(crate) fn record_fault(&mut self, lane: u32, record_fault: FaultEvent) {
        self.touch();
        let (what, word) = record_fault.words();
        self.mix(u64::from(lane) << 32 ^ what.rotate_left(40), word);
        if self.trace.is_on() {
            self.trace.push(self.steps, self.now_ns, lane, What::Fault(record_fault));
        }
    }
}
