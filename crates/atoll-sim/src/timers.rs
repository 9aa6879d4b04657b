//! What happens at a time.

use crate::fault::Fault;
use crate::world::World;
use std::cmp::Ordering;
use std::cmp::Reverse;

/// Ordered by time, and at the same time as they were made.
pub(crate) struct Timer {
    pub(crate) at_ns: u64,
    /// From 1 on; no two are the same.
    pub(crate) number: u64,
    pub(crate) due: Due,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

/// What a timer brings.
pub(crate) enum Due {
    /// A message arrives.
    Mail(u32),
    /// A batch that was held back goes on.
    Flight(u32),
    /// A ring comes for the alarms of a lane.
    Task(u32),
    /// A paused lane goes on.
    Resume(u32),
    /// A fault hits a lane.
    Fault(u32, Fault),
    /// A lane's link to a node is whole again.
    Heal(u32, u8),
    /// A node is no longer slow.
    Fast(u8),
}

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
}
