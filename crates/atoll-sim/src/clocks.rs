//! What the clocks of endpoints, and the agent's clock, show.

use crate::world::World;

impl World {
    /// The agent's clock.
    pub(crate) fn agent_clock_ms(&self) -> u64 {
        (self.now_ns / 1_000_000).saturating_add_signed(self.agent_ahead_ms)
    }

    /// The same, if an endpoint can ask it.
    pub(crate) fn agent_ms(&self, endpoint: u32) -> Option<u64> {
        self.ports[endpoint as usize].host.clock.has_agent_clock.then(|| self.agent_clock_ms())
    }

    /// The wall clock of an endpoint.
    pub(crate) fn unix_ms(&mut self, endpoint: u32, epoch_ms: u64) -> u64 {
        let max = self.relaxations.wall_clock_skew_ms_max;
        let host = &mut self.ports[endpoint as usize].host;
        let wall = &mut host.clock.wall;
        if max > 0 && (wall.skew_ms == 0 || host.random.chance(16)) {
            wall.skew_ms = host.random.below(2 * max + 1) as i64 - max as i64;
        }
        (epoch_ms + self.now_ns / 1_000_000).saturating_add_signed(wall.skew_ms + wall.jumped_ms)
    }

    /// The monotone clock of an endpoint.
    pub(crate) fn monotone_ns(&self, endpoint: u32) -> u64 {
        let clock = &self.ports[endpoint as usize].host.clock.monotone;
        clock.origin_ns
            + self.now_ns / 1000 * (1000 + clock.drift_per_mille) as u64
            + self.now_ns % 1000 * (1000 + clock.drift_per_mille) as u64 / 1000
    }

    /// How much virtual time passes while `ns` pass on the monotone clock of an endpoint; rounded
    /// up.
    pub(crate) fn true_ns(&self, endpoint: u32, ns: u64) -> u64 {
        let rate = (1000 + self.ports[endpoint as usize].host.clock.monotone.drift_per_mille) as u128;
        u64::try_from((u128::from(ns) * 1000).div_ceil(rate)).unwrap_or(u64::MAX)
    }
}
