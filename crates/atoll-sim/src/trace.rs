//! The last events of a run, so that a person can follow it.

use crate::effect::Effect;
use crate::fault::Direction;
use atoll_fabric::{Address, Mailbox};
use std::collections::VecDeque;
use std::fmt::Write;

/// Names an address in the layout of what is simulated: "slot 12".
pub(crate) type AddressNames = Box<dyn Fn(Address) -> Option<String>>;

/// The last events.
pub(crate) struct Trace {
    events: VecDeque<Event>,
    events_max: usize,
    pub(crate) names: Option<AddressNames>,
}

struct Event {
    step: u64,
    now_ns: u64,
    lane: u32,
    what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The task was polled.
    Polled,
    /// A verb, or some words of one, took effect.
    Effect {
        /// The batch.
        flight: u32,
        /// What it did.
        effect: Effect,
        /// The verb in words, but for its address.
        verb: String,
    },
    /// Something went wrong.
    Fault(FaultEvent),
}

/// A fault as it happened. The event names the lane that it hit, or no lane for all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultEvent {
    Killed,
    Paused { ns: u64, frozen: bool },
    Resumed,
    Unknown { flight: u32 },
    Adrift { flight: u32, ns: u64 },
    Cut { flight: u32 },
    Fenced { port: u32, shut: bool },
    NodeLost { node: u8 },
    LinkCut { node: u8, direction: Direction, ns: u64 },
    NodeSilent { node: u8 },
    LinkHealed { node: u8 },
    Slow { node: u8, factor: u64, ns: u64 },
    Fast { node: u8 },
    ClockJumped { ms: i64 },
    MessagesCut { from: Mailbox, to: Mailbox, ns: u64 },
    Sent { message: u64, to: u32 },
    MessageLost { message: u64 },
    Arrived { message: u64, from: u32 },
}

/// No lane.
pub(crate) const NOBODY: u32 = u32::MAX;

impl FaultEvent {
    /// Two words for the digest.
    pub(crate) fn words(self) -> (u64, u64) {
        match self {
            Self::Killed => (1, 0),
            Self::Paused { ns, frozen } => (2, ns << 1 | u64::from(frozen)),
            Self::Resumed => (3, 0),
            Self::Unknown { flight } => (4, u64::from(flight)),
            Self::Adrift { flight, ns } => (5 | u64::from(flight) << 8, ns),
            Self::Cut { flight } => (6, u64::from(flight)),
            Self::Fenced { port, shut } => (7, u64::from(port) << 1 | u64::from(shut)),
            Self::NodeLost { node } => (8, u64::from(node)),
            Self::NodeSilent { node } => (18, u64::from(node)),
            Self::LinkCut { node, direction, ns } => (9 | u64::from(node) << 8 | (direction as u64) << 16, ns),
            Self::LinkHealed { node } => (10, u64::from(node)),
            Self::Slow { node, factor, ns } => (11 | u64::from(node) << 8 | factor << 16, ns),
            Self::Fast { node } => (12, u64::from(node)),
            Self::ClockJumped { ms } => (13, ms as u64),
            Self::MessagesCut { from, to, ns } => (17 | from.0 << 8 ^ to.0 << 36, ns),
            Self::Sent { message, to } => (14 | u64::from(to) << 8, message),
            Self::MessageLost { message } => (15, message),
            Self::Arrived { message, from } => (16 | u64::from(from) << 8, message),
        }
    }

    fn described(self, port_name: impl Fn(u32) -> String) -> String {
        match self {
            Self::Killed => "KILLED".to_owned(),
            Self::Paused { ns: u64::MAX, frozen } => format!("PAUSED{}", frozen_text(frozen)),
            Self::Paused { ns, frozen } => format!("PAUSED for {ns} ns{}", frozen_text(frozen)),
            Self::Resumed => "RESUMED".to_owned(),
            Self::Unknown { flight } => format!("OUTCOME UNKNOWN of batch {flight}"),
            Self::Adrift { flight, ns } => format!("batch {flight} lies still for {ns} ns"),
            Self::Cut { flight } => format!("batch {flight} CUT: nothing more of it takes effect"),
            Self::Fenced { port, shut: true } => format!("FENCES {}", port_name(port)),
            Self::Fenced { port, shut: false } => format!("cannot fence {}, which is alive", port_name(port)),
            Self::NodeLost { node } => format!("NODE {node} LOST"),
            Self::NodeSilent { node } => format!("node {node} SILENT"),
            Self::LinkCut { node, direction, ns } => format!("LINK to node {node} CUT for {ns} ns: {direction:?}"),
            Self::LinkHealed { node } => format!("link to node {node} healed"),
            Self::Slow { node, factor, ns } => format!("node {node} SLOW by {factor} for {ns} ns"),
            Self::Fast { node } => format!("node {node} no longer slow"),
            Self::ClockJumped { ms } => format!("WALL CLOCK JUMPED by {ms} ms"),
            Self::MessagesCut { from, to, ns } => format!("MESSAGES from {from:?} to {to:?} CUT for {ns} ns"),
            Self::Sent { message, to } => format!("sends message {message} to {}", port_name(to)),
            Self::MessageLost { message } => format!("message {message} LOST"),
            Self::Arrived { message, from } => format!("gets message {message} from {}", port_name(from)),
        }
    }
}

fn frozen_text(frozen: bool) -> &'static str {
    if frozen { ", with all that it has in flight" } else { "" }
}

impl Trace {
    pub(crate) fn new(events_max: usize) -> Self {
        Self { events: VecDeque::new(), events_max, names: None }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.events_max > 0
    }

    pub(crate) fn push(&mut self, step: u64, now_ns: u64, lane: u32, what: What) {
        if self.events.len() == self.events_max {
            self.events.pop_front();
        }
        self.events.push_back(Event { step, now_ns, lane, what });
    }

    /// One line an event.
    pub(crate) fn described(&self, lane_name: impl Fn(u32) -> String, port_name: impl Fn(u32) -> String) -> String {
        let mut lines = String::new();
        for event in &self.events {
            let who = if event.lane == NOBODY { "the fabric".to_owned() } else { lane_name(event.lane) };
            let what = match &event.what {
                What::Polled => "polled".to_owned(),
                What::Fault(record_fault) => record_fault.described(&port_name),
                What::Effect { flight, effect, verb } => {
                    let at = self.address(effect.at);
                    format!("{} {at} {verb} (batch {flight} verb {})", effect.kind.name(), effect.verb)
                }
            };
            let _ = write!(lines, "\n  step {} at {} ns: {who}: {what}", event.step, event.now_ns);
        }
        lines
    }

    fn address(&self, at: Address) -> String {
        match self.names.as_ref().and_then(|names| names(at)) {
            Some(name) => format!("{name} [{at:?}]"),
            None => format!("{at:?}"),
        }
    }
}
