//! How time passes in the world: timers fire, and tasks whose time has come are woken.

use crate::timers::{Due, Timer};
use crate::world::World;
use std::cmp::Reverse;

impl World {
    pub(crate) fn add_timer(&mut self, ns: u64, due: Due) {
        self.timers_made += 1;
        self.timers.push(Reverse(Timer { at_ns: self.now_ns.saturating_add(ns), number: self.timers_made, due }));
    }

    #[cold]
    pub(crate) fn fire(&mut self) {
        let Some(Reverse(timer)) = self.timers.pop() else { return };
        match timer.due {
            Due::Task(lane) => self.ring(lane),
            Due::Resume(lane) if self.lanes[lane as usize].pause.is_some_and(|pause| pause.timer == timer.number) => {
                self.resume(lane)
            }
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

    /// Sets an alarm for a lane, later than now; gives its number.
    pub(crate) fn set_alarm(&mut self, lane: u32, at_ns: u64) -> u64 {
        let (number, asks) = self.lanes[lane as usize].alarms.set(at_ns);
        if asks {
            self.ring_at(lane, at_ns);
        }
        number
    }

    pub(crate) fn ring_at(&mut self, lane: u32, at_ns: u64) {
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
        let agenda = &mut self.agenda;
        let (is_due, next_ns) = state.alarms.ring(self.now_ns, |waker| {
            agenda.wake();
            waker.wake_by_ref();
        });
        if let Some(at_ns) = next_ns {
            self.ring_at(lane, at_ns);
        }
        if is_due {
            self.wake(lane);
        }
    }
}
