//! Which lanes can run: tasks are woken, and the list of runnable lanes is kept.

use crate::footprint::Process;
use crate::world::World;

impl World {
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
        let can_run = state.is_ready() || !state.flights.is_empty() && !state.is_frozen();
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
}
