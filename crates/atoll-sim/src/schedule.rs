//! How the lane of the next step is chosen.
//!
//! | strategy | a run is | finds |
//! |---|---|---|
//! | uniform | every step of a random lane | races of few instructions |
//! | bursts | one lane for long, then another; now and then one lane starves | ABA, late readers, what outlives its owner |
//! | priorities | the lane of the highest priority, which falls at random points (Burckhardt et al., PCT, ASPLOS 2010) | bugs of few ordering constraints, with a known chance |
//!
//! The contract promises no fairness, but a run needs some: a client that spins on a latch could
//! keep its holder from ever releasing it. So a lane that has waited for the run's bound comes
//! first.

use crate::Random;

/// How a run chooses whose step is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// One of the strategies below, by the seed.
    #[default]
    FromSeed,
    /// Every step a random lane's.
    Uniform,
    /// One lane for long, while other lanes starve.
    Bursts,
    /// The lane of the highest priority, with random falls.
    Priorities,
}

/// The state of a strategy.
pub(crate) struct Scheduler {
    strategy: Strategy,
    current: u32,
    /// Steps until the current burst ends, or until priorities change.
    left: u64,
    /// Bursts last, and priorities hold, up to two to the power of this steps.
    left_bits_max: u32,
    /// A lane that runs only if no other can, until a step.
    starved: u32,
    starved_until: u64,
    /// By lane; the highest runs.
    priorities: Vec<i64>,
    priority_lowest: i64,
    priority_highest: i64,
    /// A lane that can run waits at most about so many steps.
    wait_steps_max: u64,
    /// By lane, the last step at which it ran or could not run.
    waiting_since: Vec<u64>,
    /// When waits are looked at next.
    wait_check_at: u64,
}

const NOBODY: u32 = u32::MAX;

impl Scheduler {
    pub(crate) fn new(strategy: Strategy, random: &mut Random) -> Self {
        let drawn = random.pick(&[Strategy::Uniform, Strategy::Bursts, Strategy::Priorities]);
        Self {
            strategy: if strategy == Strategy::FromSeed { drawn } else { strategy },
            current: NOBODY,
            left: 0,
            left_bits_max: random.pick(&[5, 9, 13]),
            starved: NOBODY,
            starved_until: 0,
            priorities: Vec::new(),
            priority_lowest: 0,
            priority_highest: 1 << 32,
            wait_steps_max: 1 << random.pick(&[10, 13, 16]),
            waiting_since: Vec::new(),
            wait_check_at: 0,
        }
    }

    pub(crate) fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Makes room for one more lane.
    pub(crate) fn add_lane(&mut self, step: u64, random: &mut Random) {
        self.priorities.push(random.below(1 << 32) as i64);
        self.waiting_since.push(step);
    }

    /// A lane can run from now on.
    #[inline]
    pub(crate) fn can_run(&mut self, lane: u32, step: u64) {
        self.waiting_since[lane as usize] = step;
    }

    /// One of `runnable`, which is not empty.
    #[inline]
    pub(crate) fn pick(&mut self, runnable: &[u32], step: u64, random: &mut Random) -> u32 {
        let lane = match self.strategy {
            Strategy::Uniform | Strategy::FromSeed => runnable[random.below(runnable.len() as u64) as usize],
            Strategy::Bursts => self.burst(runnable, step, random),
            Strategy::Priorities => self.highest(runnable, random),
        };
        let lane = if step >= self.wait_check_at { self.fair(lane, runnable, step) } else { lane };
        self.waiting_since[lane as usize] = step;
        lane
    }

    #[inline]
    fn burst(&mut self, runnable: &[u32], step: u64, random: &mut Random) -> u32 {
        if self.left > 0 && runnable.contains(&self.current) {
            self.left -= 1;
            return self.current;
        }
        if self.left == 0 {
            self.left = random.spread(self.left_bits_max);
            if step >= self.starved_until && random.chance(128) {
                self.starved = runnable[random.below(runnable.len() as u64) as usize];
                self.starved_until = step + random.spread(self.left_bits_max + 3);
            }
        }
        for _ in 0..4 {
            self.current = runnable[random.below(runnable.len() as u64) as usize];
            if self.current != self.starved || step >= self.starved_until {
                break;
            }
        }
        self.current
    }

    #[inline]
    fn highest(&mut self, runnable: &[u32], random: &mut Random) -> u32 {
        if self.left == 0 {
            self.left = random.spread(self.left_bits_max);
            if random.chance(768) && self.current != NOBODY {
                self.priority_lowest -= 1;
                self.priorities[self.current as usize] = self.priority_lowest;
            } else {
                self.raise(runnable[random.below(runnable.len() as u64) as usize]);
            }
        }
        self.left -= 1;
        let highest = runnable.iter().max_by_key(|lane| self.priorities[**lane as usize]);
        self.current = *highest.expect("somebody can run");
        self.current
    }

    fn raise(&mut self, lane: u32) {
        self.priority_highest += 1;
        self.priorities[lane as usize] = self.priority_highest;
    }

    /// Gives way to the lane that has waited longest, if that is too long.
    #[cold]
    fn fair(&mut self, lane: u32, runnable: &[u32], step: u64) -> u32 {
        self.wait_check_at = step + self.wait_steps_max / 4;
        let longest = runnable.iter().min_by_key(|lane| self.waiting_since[**lane as usize]);
        let longest = *longest.expect("somebody can run");
        if step - self.waiting_since[longest as usize] < self.wait_steps_max {
            return lane;
        }
        self.raise(longest);
        (self.current, self.left, self.starved) = (longest, self.wait_steps_max / 4, NOBODY);
        longest
    }
}
