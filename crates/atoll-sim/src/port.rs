//! One endpoint's part of the world: its limits, its errors, its clocks.

use crate::Random;
use crate::trace::NOBODY;
use atoll_fabric::{Message, Sender, VerbError};
use std::collections::VecDeque;
use std::task::Waker;

/// One endpoint's part of the world.
pub(crate) struct Port {
    name: String,
    /// The lane that posted last.
    pub(crate) lane: u32,
    pub(crate) end: PortEnd,
    pub(crate) host: Host,
    /// Batches that it posted and that have not landed.
    pub(crate) posts: Posts,
    pub(crate) mail: Mail,
}

impl Port {
    pub(crate) fn new(name: &str, host: Host) -> Self {
        let (end, posts, mail) = Default::default();
        Self { name: name.to_owned(), lane: NOBODY, end, host, posts, mail }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Why an endpoint can do nothing more.
#[derive(Default)]
pub(crate) struct PortEnd {
    /// Whether its client was killed.
    pub(crate) killed: bool,
    /// Whether the endpoint was dropped.
    pub(crate) dropped: bool,
    /// Whether it was fenced.
    pub(crate) shut: bool,
}

impl PortEnd {
    /// Whether its client is there no more.
    pub(crate) fn is_dead(&self) -> bool {
        self.killed || self.dropped
    }
}

/// An endpoint's batches that have not landed.
#[derive(Default)]
pub(crate) struct Posts {
    pub(crate) in_flight: usize,
    pub(crate) unawaited: usize,
    /// What an unawaited one came to, for the next flush.
    pub(crate) error: Option<VerbError>,
    /// Posts that wait for room, and flushes.
    pub(crate) waiters: Vec<Waker>,
}

/// An endpoint's messages.
#[derive(Default)]
pub(crate) struct Mail {
    /// As which client it sends messages.
    pub(crate) sender: Sender,
    /// Messages that have arrived.
    pub(crate) inbox: VecDeque<Message>,
    /// Tasks that wait for one.
    pub(crate) receivers: Vec<Waker>,
}

/// The host of an endpoint: its chance, its clocks, its memory.
pub(crate) struct Host {
    pub(crate) random: Random,
    pub(crate) clock: HostClock,
    /// Whether memory is near it.
    pub(crate) is_near: bool,
}

impl Host {
    pub(crate) fn new(mut random: Random, drift_per_mille: i64, has_agent_clock: bool, is_near: bool) -> Self {
        let origin_ns = random.below(1 << 40);
        let monotone = MonotoneClock { drift_per_mille, origin_ns };
        Self { random, clock: HostClock { monotone, wall: WallClock::default(), has_agent_clock }, is_near }
    }
}

/// The clocks of an endpoint's host.
pub(crate) struct HostClock {
    pub(crate) monotone: MonotoneClock,
    pub(crate) wall: WallClock,
    /// Whether it can ask the agent's clock.
    pub(crate) has_agent_clock: bool,
}

/// A monotone clock.
pub(crate) struct MonotoneClock {
    /// How much too fast it is, per mille.
    pub(crate) drift_per_mille: i64,
    /// What it showed when the run began.
    pub(crate) origin_ns: u64,
}

/// A wall clock.
#[derive(Default)]
pub(crate) struct WallClock {
    /// How far it is ahead.
    pub(crate) skew_ms: i64,
    /// How far it has jumped.
    pub(crate) jumped_ms: i64,
}

/// What the agent's clock shows when a run begins.
pub(crate) const AGENT_ORIGIN_MS: i64 = 86_400_000;

/// The stream from which a run draws which endpoints can ask the agent's clock.
const AGENT_CLOCK_STREAM: u64 = 1 << 33;

/// Whether endpoint `number` of a run can ask the agent's clock, if some cannot: in a third of the
/// runs all can, in a third none.
pub(crate) fn has_agent_clock(seed: u64, number: u64) -> bool {
    match Random::stream(seed, AGENT_CLOCK_STREAM).below(3) {
        0 => true,
        1 => false,
        _ => Random::stream(seed, AGENT_CLOCK_STREAM + 1 + number).below(2) == 0,
    }
}
