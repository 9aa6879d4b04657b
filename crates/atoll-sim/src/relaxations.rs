//! Which relaxations of the contract a run takes, and how often.
//!
//! [`Relaxations`] are switches: a test turns one off to learn whether a failure needs it. How
//! often each is taken (`Frequencies`) comes from the seed, because no single frequency finds every
//! error. Some errors need every READ torn; others need a single delay in a run without any other.

use crate::Random;

/// Switches for what the contract permits. The default takes everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relaxations {
    /// Verbs of other clients come between the verbs of one batch. Off: a batch takes effect in one
    /// step.
    pub interleave: bool,
    /// Verbs of one batch take effect in any order that the contract does not exclude. Off: in
    /// program order.
    pub reorder: bool,
    /// The words of a READ or WRITE take effect in any order, and other effects come between them.
    /// Off: all at once.
    pub tear: bool,
    /// A batch takes effect long after its post, or pauses in the midst of it, while its client may
    /// post other batches.
    pub delay: bool,
    /// What was posted unawaited is held back, and overtaken by what was posted later.
    pub late_unawaited: bool,
    /// A completion arrives long after the effects.
    pub late_completion: bool,
    /// Messages are lost.
    pub lose_messages: bool,
    /// Messages arrive more than once.
    pub double_messages: bool,
    /// Messages take long, each by itself, so that they overtake each other.
    pub delay_messages: bool,
    /// Every endpoint's wall clock is wrong by up to so many milliseconds, and jumps within that; 0
    /// for right ones. The monotone clocks of endpoints have different origins in any case.
    pub wall_clock_skew_ms_max: u64,
    /// Some endpoints cannot ask the clock of the region's agent, by the seed: none, all, or some
    /// of a run's.
    pub absent_agent_clocks: bool,
}

/// How wrong a wall clock is at most: three years. A host without a battery, or with a wrong time
/// zone set, is that wrong.
const WALL_CLOCK_SKEW_MS_MAX: u64 = 3 * 365 * 86_400_000;

impl Relaxations {
    /// Takes everything that the contract permits.
    pub const fn all() -> Self {
        Self {
            interleave: true,
            reorder: true,
            tear: true,
            delay: true,
            late_unawaited: true,
            late_completion: true,
            lose_messages: true,
            double_messages: true,
            delay_messages: true,
            wall_clock_skew_ms_max: WALL_CLOCK_SKEW_MS_MAX,
            absent_agent_clocks: true,
        }
    }

    /// Takes none: every batch takes effect at once, in program order, in a step of its own.
    pub const fn none() -> Self {
        Self {
            interleave: false,
            reorder: false,
            tear: false,
            delay: false,
            late_unawaited: false,
            late_completion: false,
            lose_messages: false,
            double_messages: false,
            delay_messages: false,
            wall_clock_skew_ms_max: 0,
            absent_agent_clocks: false,
        }
    }
}

impl Default for Relaxations {
    fn default() -> Self {
        Self::all()
    }
}

/// How often a run takes each relaxation, in 1024ths; 0 where it is switched off.
pub(crate) struct Frequencies {
    /// Per choice of a batch's next verb: not the first one that could be next.
    pub(crate) reorder: u32,
    /// Per READ or WRITE of several words.
    pub(crate) tear: u32,
    pub(crate) delays: Delays,
}

impl Frequencies {
    pub(crate) fn drawn(relaxations: Relaxations, random: &mut Random) -> Self {
        let reorder = random.pick_if(relaxations.reorder, &[64, 512, 1024]);
        let tear = random.pick_if(relaxations.tear, &[16, 128, 512, 1024]);
        let delays = Delays {
            post: random.pick_if(relaxations.delay, &[0, 8, 64, 256]),
            within: random.pick_if(relaxations.delay, &[0, 4, 32, 128]),
            unawaited: random.pick_if(relaxations.late_unawaited, &[128, 512, 1024]),
            completion: random.pick_if(relaxations.late_completion, &[0, 16, 128]),
            bits_max: random.pick(&[10, 14, 18, 21]),
        };
        Self { reorder, tear, delays }
    }
}

/// How often a run holds batches back, in 1024ths, and for how long.
pub(crate) struct Delays {
    /// Per awaited post.
    pub(crate) post: u32,
    /// Per effect of a batch that has more to come.
    pub(crate) within: u32,
    /// Per unawaited post.
    pub(crate) unawaited: u32,
    /// Per completion.
    pub(crate) completion: u32,
    /// The longest delay is two to the power of this, in nanoseconds.
    bits_max: u64,
}

impl Delays {
    /// How long a batch is held back.
    pub(crate) fn ns(&self, random: &mut Random) -> u64 {
        let ns = 32_u64 << random.below(self.bits_max - 4);
        ns + random.below(ns)
    }
}
