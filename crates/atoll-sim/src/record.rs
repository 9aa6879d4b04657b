//! What a step adds to the digest and to the trace of a run.

use crate::effect::Effect;
use crate::trace::What;
use crate::world::World;

impl World {
    #[inline]
    pub(crate) fn record(&mut self, lane: u32, flight: u32, effect: Option<Effect>) {
        let (what, word) = match effect {
            None => (u64::from(lane) << 32 | 1, 0),
            Some(effect) => {
                let what = u64::from(lane) << 32 | u64::from(effect.verb) << 8 | u64::from(effect.kind as u8);
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
    pub(crate) fn trace_step(&mut self, lane: u32, flight: u32, effect: Option<Effect>) {
        let what = effect.map_or(What::Polled, |effect| {
            let verb = self.flights[flight as usize].verb_described(effect.verb);
            What::Effect { flight, effect, verb }
        });
        self.trace.push(self.steps, self.now_ns, lane, what);
    }

    #[inline]
    pub(crate) fn mix(&mut self, what: u64, word: u64) {
        let mixed = (self.tally.digest ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ word ^ self.now_ns;
        self.tally.digest = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    /// What every lane is at, one line each.
    pub(crate) fn lanes_described(&self) -> String {
        let mut lines = String::new();
        for lane in self.lanes.iter().filter(|lane| !lane.done || lane.held > 0 || !lane.flights.is_empty()) {
            let task = match (lane.killed, lane.done, lane.pause.is_some(), lane.woken) {
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
        self.trace.described(lane_name, |port| self.ports[port as usize].name().to_owned())
    }
}
