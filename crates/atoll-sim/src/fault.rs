//! The faults: what can go wrong, for which client, and how often.
//!
//! | fault | effect |
//! |---|---|
//! | kill | the task is dropped and never polled again; any permitted subset of its batches in flight takes effect, now or much later |
//! | pause | the task, and by chance its batches in flight, stand still for a time while all other clients continue |
//! | outcome unknown | a post ends at its deadline; any permitted subset of its effects still takes place, now or much later |
//! | node loss | the bytes of a memory node are zero, and every verb to it by older endpoints ends in "peer dead" |
//! | link cut | for a time, requests of a client to a node are lost (no effect), or the responses (effect, outcome unknown) |
//! | messages cut | for a time, messages from one client to another are lost; from a scenario only |
//! | slow node | for a time, batches to a node take long |
//! | clock | monotone clocks run at different rates; a wall clock jumps |
//!
//! A batch is **adrift** if it was in flight when its client died or its outcome became unknown. It
//! ends in one of three ways, by chance: it is cut before its next effect, it continues, or it
//! continues after a rest of up to seconds. A client that learns of the death
//! ([`Endpoint::is_dead`](atoll_fabric::Endpoint::is_dead)), or shuts the owner out, cuts it.
//!
//! Faults come from the seed ([`Faults`]), or from a scenario: at a given step of a client
//! ([`Control::fault`](crate::Control::fault)), or when a task says so
//! ([`Control`](crate::Control)). All faults are events of the trace and of the digest. They draw
//! from their own random stream, so a run without faults does not depend on which faults exist.
//!
//! Lost, doubled, late and reordered messages are no faults. The contract permits them, so they are
//! [relaxations](crate::Relaxations), and happen in runs without any fault too.

use crate::Random;

/// What hits a client at one of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It dies.
    Kill,
    /// It stands still for this long, or until [`Control::resume`](crate::Control::resume).
    Pause {
        /// Virtual nanoseconds; `u64::MAX` for ever.
        ns: u64,
    },
    /// A post of its that is in flight, the first one from then on, ends in "outcome unknown".
    OutcomeUnknown,
}

/// When a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Once the client has taken so many more steps of its own. A step is a poll of its task (which
    /// may post), an effect of one of its verbs, or of some of the words of one, or the arrival of
    /// a completion: every point between and inside its verbs is one.
    Steps(u64),
    /// Once so many nanoseconds have passed.
    Ns(u64),
}

/// What [`Endpoint::shut_out`](atoll_fabric::Endpoint::shut_out) can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// As on one host: only the dead are shut out (killed, or gone with their endpoint dropped); of
    /// the living, a paused one included, it says `false`.
    #[default]
    Observed,
    /// As over a network: a living client is shut out too; its posts end in "fenced" from then on.
    Forced,
}

/// Which way of a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Verbs do not arrive: no effect, outcome unknown.
    Requests,
    /// Results do not arrive: all effects, outcome unknown.
    Responses,
    /// Neither arrives.
    Both,
}

/// Faults that the seed draws: how many of each kind at most, and how often. They hit clients that
/// were [spawned](crate::Sim::spawn), not those that were [spared](crate::Sim::spawn_spared). The
/// default is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Clients killed.
    pub kills_max: u32,
    /// Clients paused.
    pub pauses_max: u32,
    /// Posts whose outcome stays unknown.
    pub unknowns_max: u32,
    /// Links cut for a time.
    pub link_cuts_max: u32,
    /// Times that a node is slow.
    pub slow_nodes_max: u32,
    /// Memory nodes that lose their bytes.
    pub node_losses_max: u32,
    /// Jumps of wall clocks.
    pub clock_jumps_max: u32,
    /// How far a wall clock jumps at most, either way.
    pub clock_jump_ms_max: u64,
    /// By how much an endpoint's monotone clock is too fast or too slow at most; below 1000.
    pub clock_drift_per_mille_max: u32,
    /// Steps between two faults, on average.
    pub steps_between: u64,
    /// How long a pause, a cut, slowness, and what is adrift last at most; small times are as
    /// likely as large ones.
    pub ns_max: u64,
}

impl Faults {
    /// No fault happens.
    pub const fn none() -> Self {
        Self {
            kills_max: 0,
            pauses_max: 0,
            unknowns_max: 0,
            link_cuts_max: 0,
            slow_nodes_max: 0,
            node_losses_max: 0,
            clock_jumps_max: 0,
            clock_jump_ms_max: 0,
            clock_drift_per_mille_max: 0,
            steps_between: 1000,
            ns_max: 4_000_000_000,
        }
    }

    /// What processes of one host suffer: up to `kills_max` deaths and `pauses_max` pauses, about
    /// every `steps_between` steps one.
    pub const fn host(kills_max: u32, pauses_max: u32, steps_between: u64) -> Self {
        Self { kills_max, pauses_max, steps_between, ..Self::none() }
    }

    /// Up to as much of everything as there is here, about half of the kinds of faults not at all:
    /// for a swarm of runs, of which each has faults of its own.
    pub fn drawn(self, random: &mut Random) -> Self {
        let mut count = |max: u32| if random.chance(512) { 0 } else { random.below(u64::from(max) + 1) as u32 };
        let drawn = Self {
            kills_max: count(self.kills_max),
            pauses_max: count(self.pauses_max),
            unknowns_max: count(self.unknowns_max),
            link_cuts_max: count(self.link_cuts_max),
            slow_nodes_max: count(self.slow_nodes_max),
            node_losses_max: count(self.node_losses_max),
            clock_jumps_max: count(self.clock_jumps_max),
            clock_drift_per_mille_max: count(self.clock_drift_per_mille_max),
            ..self
        };
        let mut up_to = |max: u64| random.spread(max.max(1).ilog2()).min(max);
        Self { steps_between: up_to(self.steps_between), ns_max: up_to(self.ns_max), ..drawn }
    }

    /// Whether the seed draws a fault of any kind.
    pub(crate) fn any(&self) -> bool {
        self.kinds().iter().any(|left| *left > 0)
    }

    /// How many are left of each kind, in the order of [`Drawn`].
    fn kinds(&self) -> [u32; 7] {
        [
            self.kills_max,
            self.pauses_max,
            self.unknowns_max,
            self.link_cuts_max,
            self.slow_nodes_max,
            self.node_losses_max,
            self.clock_jumps_max,
        ]
    }

    /// One of the kinds of which some are left, which are one fewer then.
    pub(crate) fn draw(&mut self, random: &mut Random) -> Option<Drawn> {
        let kinds = self.kinds();
        let left = kinds.iter().filter(|left| **left > 0).count() as u64;
        if left == 0 {
            return None;
        }
        let nth = random.below(left) as usize;
        let kind = (0..kinds.len()).filter(|kind| kinds[*kind] > 0).nth(nth)?;
        let (count, drawn) = match kind {
            0 => (&mut self.kills_max, Drawn::Kill),
            1 => (&mut self.pauses_max, Drawn::Pause),
            2 => (&mut self.unknowns_max, Drawn::Unknown),
            3 => (&mut self.link_cuts_max, Drawn::LinkCut),
            4 => (&mut self.slow_nodes_max, Drawn::SlowNode),
            5 => (&mut self.node_losses_max, Drawn::NodeLoss),
            _ => (&mut self.clock_jumps_max, Drawn::ClockJump),
        };
        *count -= 1;
        Some(drawn)
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

/// A kind of fault that the seed draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    Kill,
    Pause,
    Unknown,
    LinkCut,
    SlowNode,
    NodeLoss,
    ClockJump,
}
