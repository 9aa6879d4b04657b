//! Strict mode: each relaxation and each kind of fault has a switch that turns it off, to learn
//! which ones a failure needs.
//!
//! A seed with a switch off is another run than with it on, because the remaining draws differ. So
//! one run that passes says little. [`needs`] tries many seeds with each switch off, and counts
//! failures.

use crate::fault::Faults;
use crate::relaxations::Relaxations;
use std::fmt;
use std::str::FromStr;

/// A relaxation of [`Relaxations`] or a kind of fault of [`Faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "each stands for the field of its name")]
pub enum Switch {
    Interleave,
    Reorder,
    Tear,
    Delay,
    LateUnawaited,
    LateCompletion,
    LoseMessages,
    DoubleMessages,
    DelayMessages,
    WallClockSkew,
    AbsentAgentClocks,
    Kills,
    Pauses,
    Unknowns,
    LinkCuts,
    SlowNodes,
    NodeLosses,
    ClockJumps,
    ClockDrift,
}

impl Switch {
    /// All of them, with the names by which users know them.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::Interleave, "interleave"),
        (Self::Reorder, "reorder"),
        (Self::Tear, "tear"),
        (Self::Delay, "delay"),
        (Self::LateUnawaited, "late-unawaited"),
        (Self::LateCompletion, "late-completion"),
        (Self::LoseMessages, "lose-messages"),
        (Self::DoubleMessages, "double-messages"),
        (Self::DelayMessages, "delay-messages"),
        (Self::WallClockSkew, "wall-clock-skew"),
        (Self::AbsentAgentClocks, "absent-agent-clocks"),
        (Self::Kills, "kills"),
        (Self::Pauses, "pauses"),
        (Self::Unknowns, "unknowns"),
        (Self::LinkCuts, "link-cuts"),
        (Self::SlowNodes, "slow-nodes"),
        (Self::NodeLosses, "node-losses"),
        (Self::ClockJumps, "clock-jumps"),
        (Self::ClockDrift, "clock-drift"),
    ];

    fn is_on(self, relaxations: &Relaxations, faults: &Faults) -> bool {
        match self {
            Self::Interleave => relaxations.interleave,
            Self::Reorder => relaxations.reorder,
            Self::Tear => relaxations.tear,
            Self::Delay => relaxations.delay,
            Self::LateUnawaited => relaxations.late_unawaited,
            Self::LateCompletion => relaxations.late_completion,
            Self::LoseMessages => relaxations.lose_messages,
            Self::DoubleMessages => relaxations.double_messages,
            Self::DelayMessages => relaxations.delay_messages,
            Self::WallClockSkew => relaxations.wall_clock_skew_ms_max > 0,
            Self::AbsentAgentClocks => relaxations.absent_agent_clocks,
            Self::Kills => faults.kills_max > 0,
            Self::Pauses => faults.pauses_max > 0,
            Self::Unknowns => faults.unknowns_max > 0,
            Self::LinkCuts => faults.link_cuts_max > 0,
            Self::SlowNodes => faults.slow_nodes_max > 0,
            Self::NodeLosses => faults.node_losses_max > 0,
            Self::ClockJumps => faults.clock_jumps_max > 0,
            Self::ClockDrift => faults.clock_drift_per_mille_max > 0,
        }
    }

    fn turn_off(self, relaxations: &mut Relaxations, faults: &mut Faults) {
        match self {
            Self::Interleave => relaxations.interleave = false,
            Self::Reorder => relaxations.reorder = false,
            Self::Tear => relaxations.tear = false,
            Self::Delay => relaxations.delay = false,
            Self::LateUnawaited => relaxations.late_unawaited = false,
            Self::LateCompletion => relaxations.late_completion = false,
            Self::LoseMessages => relaxations.lose_messages = false,
            Self::DoubleMessages => relaxations.double_messages = false,
            Self::DelayMessages => relaxations.delay_messages = false,
            Self::WallClockSkew => relaxations.wall_clock_skew_ms_max = 0,
            Self::AbsentAgentClocks => relaxations.absent_agent_clocks = false,
            Self::Kills => faults.kills_max = 0,
            Self::Pauses => faults.pauses_max = 0,
            Self::Unknowns => faults.unknowns_max = 0,
            Self::LinkCuts => faults.link_cuts_max = 0,
            Self::SlowNodes => faults.slow_nodes_max = 0,
            Self::NodeLosses => faults.node_losses_max = 0,
            Self::ClockJumps => faults.clock_jumps_max = 0,
            Self::ClockDrift => faults.clock_drift_per_mille_max = 0,
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

/// Which switches are off. Faults that a scenario makes itself, through
/// [`Control`](crate::Control), are its own affair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strict(u32);

impl Strict {
    /// Nothing is off.
    pub const NONE: Self = Self(0);
    /// Everything is off: every batch takes effect at once and in order, and there are no faults.
    pub const ALL: Self = Self((1 << Switch::ALL.len()) - 1);

    /// This one off, too.
    pub const fn and(self, switch: Switch) -> Self {
        Self(self.0 | 1 << switch as u32)
    }

    /// Whether a switch is off.
    pub const fn has(self, switch: Switch) -> bool {
        self.0 >> switch as u32 & 1 == 1
    }

    /// What is left of relaxations and faults.
    pub fn apply(self, relaxations: &mut Relaxations, faults: &mut Faults) {
        for (switch, _) in Switch::ALL {
            if self.has(switch) {
                switch.turn_off(relaxations, faults);
            }
        }
    }

    /// What the environment says (`ATOLL_SIM_STRICT`).
    pub(crate) fn from_environment() -> Self {
        let Ok(text) = std::env::var("ATOLL_SIM_STRICT") else { return Self::NONE };
        text.parse().unwrap_or_else(|error| panic!("ATOLL_SIM_STRICT: {error}"))
    }
}

impl FromStr for Strict {
    type Err = String;

    /// `all`, or names of switches with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = |strict: Self, name: &str| match Switch::ALL.iter().find(|(_, known)| *known == name) {
            Some((switch, _)) => Ok(strict.and(*switch)),
            None if name == "all" => Ok(Self::ALL),
            None => Err(format!("`{name}` is none of all, {}", Switch::ALL.map(|(_, name)| name).join(", "))),
        };
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).try_fold(Self::NONE, named)
    }
}

/// Which switches a failure needs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Seeds that were tried for each row.
    pub seeds: u64,
    /// How many of them fail with everything on.
    pub failures: u64,
    /// How many fail in strict mode: a failure that needs no relaxation and no fault.
    pub failures_strict: u64,
    /// How many fail with only this one off.
    pub failures_without: Vec<(Switch, u64)>,
}

impl Needs {
    /// The switches without which no seed failed.
    pub fn needed(&self) -> impl Iterator<Item = Switch> {
        self.failures_without.iter().filter(|(_, failures)| *failures == 0).map(|(switch, _)| *switch)
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, failures, failures_strict, .. } = self;
        writeln!(f, "{failures} of {seeds} seeds fail; in strict mode {failures_strict}")?;
        for (switch, failures) in &self.failures_without {
            let needed = if *failures == 0 { ": needed" } else { "" };
            writeln!(f, "  without {switch}: {failures}{needed}")?;
        }
        Ok(())
    }
}

/// Runs a scenario that fails with `seed` again, also with the `seeds - 1` seeds behind it, with
/// each switch off that `relaxations` and `faults` have on. The scenario gives what it is told to
/// [`SimOptions::strict`](crate::SimOptions).
pub fn needs(
    seed: u64,
    seeds: u64,
    (relaxations, faults): (Relaxations, Faults),
    mut scenario: impl FnMut(u64, Strict) -> Result<(), String>,
) -> Needs {
    let mut failures = |strict: Strict| {
        let failing = (seed..seed.saturating_add(seeds)).filter(|seed| scenario(*seed, strict).is_err());
        failing.count() as u64
    };
    let on = Switch::ALL.iter().map(|(switch, _)| *switch).filter(|switch| switch.is_on(&relaxations, &faults));
    Needs {
        seeds,
        failures: failures(Strict::NONE),
        failures_strict: failures(Strict::ALL),
        failures_without: on.map(|switch| (switch, failures(Strict::NONE.and(switch)))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_switches_are_off() {
        assert_eq!("".parse(), Ok(Strict::NONE));
        assert_eq!("all".parse(), Ok(Strict::ALL));
        assert_eq!("tear, kills".parse(), Ok(Strict::NONE.and(Switch::Tear).and(Switch::Kills)));
        assert!("tear,bears".parse::<Strict>().unwrap_err().contains("`bears`"));
        assert!(Switch::ALL.iter().enumerate().all(|(index, (switch, _))| *switch as usize == index));
    }

    #[test]
    fn strict_mode_leaves_no_relaxation_and_no_fault() {
        let many = Faults {
            kills_max: 1,
            pauses_max: 1,
            unknowns_max: 1,
            link_cuts_max: 1,
            slow_nodes_max: 1,
            node_losses_max: 1,
            clock_jumps_max: 1,
            clock_drift_per_mille_max: 1,
            ..Faults::none()
        };
        let (mut relaxations, mut faults) = (Relaxations::all(), many);
        Strict::ALL.apply(&mut relaxations, &mut faults);
        assert_eq!((relaxations, faults), (Relaxations::none(), Faults::none()));
    }
}
