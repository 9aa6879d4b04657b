//! One endpoint's part of the world: its limits, its errors, its clocks.

use crate::Random;
use crate::trace::NOBODY;
use atoll_fabric::{Message, Sender, VerbError};
use std::collections::VecDeque;
use std::task::Waker;

/// One endpoint's part of the world.
pub(crate) struct Port {
    pub(crate) name: String,
    /// The lane that posted last.
    pub(crate) lane: u32,
    /// Whether its client was killed.
    pub(crate) dead: bool,
    /// Whether the endpoint was dropped.
    pub(crate) dropped: bool,
    /// Whether it was fenced.
    pub(crate) shut: bool,
    /// Whether memory is near its client.
    pub(crate) is_near: bool,
    pub(crate) random: Random,
    /// Its host's clocks.
    pub(crate) clock: HostClock,
    pub(crate) in_flight: usize,
    pub(crate) unawaited: usize,
    pub(crate) error: Option<VerbError>,
    /// As which client it sends messages.
    pub(crate) sender: Sender,
    /// Messages that have arrived.
    pub(crate) inbox: VecDeque<Message>,
    /// Tasks that wait for one.
    pub(crate) receivers: Vec<Waker>,
    /// Posts that wait for room, and flushes.
    pub(crate) waiters: Vec<Waker>,
}

impl Port {
    pub(crate) fn new(
        name: &str,
        mut random: Random,
        drift_per_mille: i64,
        has_agent_clock: bool,
        is_near: bool,
    ) -> Self {
        Self {
            name: name.to_owned(),
            lane: NOBODY,
            dead: false,
            dropped: false,
            shut: false,
            is_near,
            clock: HostClock {
                drift_per_mille,
                jumped_ms: 0,
                origin_ns: random.below(1 << 40),
                skew_ms: 0,
                has_agent_clock,
            },
            random,
            in_flight: 0,
            unawaited: 0,
            error: None,
            sender: Sender::default(),
            inbox: VecDeque::new(),
            receivers: Vec::new(),
            waiters: Vec::new(),
        }
    }
}

/// The clocks of an endpoint's host.
pub(crate) struct HostClock {
    /// How much too fast its monotone clock is, per mille.
    pub(crate) drift_per_mille: i64,
    /// How far its wall clock has jumped.
    pub(crate) jumped_ms: i64,
    /// What its monotone clock showed when the run began.
    pub(crate) origin_ns: u64,
    /// How far ahead its wall clock is.
    pub(crate) skew_ms: i64,
    /// Whether it can ask the agent's clock.
    pub(crate) has_agent_clock: bool,
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
