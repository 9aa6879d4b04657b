//! What a step of an explored run depends on. Two steps of different processes that do not conflict
//! can be exchanged without a difference.

use atoll_fabric::Address;

/// What takes steps in an explored run. Each has at most one next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Process {
    /// The task of a lane: a step is a poll.
    Task(u32),
    /// A piece of the batch that a lane posted as its so manieth: a step is an effect, with the
    /// last one the completion arrives. Where verbs take effect whole and in order a batch is one
    /// piece, number 0; else each half of a verb is one (see `flight`).
    Batch(u32, u32, u8),
    /// Time: a step brings the next timers, when no other process can take one.
    Clock,
    /// The fault of the run: see [`explore`](mod@crate::explore).
    Fault,
}

impl Process {
    /// The process that took the step.
    pub(crate) fn lane(self) -> Option<u32> {
        match self {
            Self::Task(lane) | Self::Batch(lane, ..) => Some(lane),
            Self::Clock | Self::Fault => None,
        }
    }
}

/// Words that a step touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    at: Address,
    bytes: u64,
    /// Whether it changes them. A compare-and-swap that failed only reads.
    writes: bool,
    /// Which of them: bit 0 for those of even address, bit 1 for those of odd address, counted in
    /// words.
    places: u8,
}

impl Words {
    pub(crate) fn new(at: Address, bytes: u64, writes: bool, places: u8) -> Self {
        Self { at, bytes, writes, places }
    }

    /// The same words, but those of some places alone.
    pub(crate) fn at_places(self, places: u8) -> Self {
        Self { places, ..self }
    }

    fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes)
            && self.places & other.places != 0
            && self.at < other.at.add(other.bytes)
            && other.at < self.at.add(self.bytes)
    }
}

/// What a step touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    /// Words of the pool.
    pub(crate) words: Option<Words>,
    /// Whether an operation of a history began. Only what begins and what ends are in an order that
    /// counts.
    pub(crate) begins: bool,
    /// Whether one ended.
    pub(crate) ends: bool,
    /// The lane whose task was polled, or was told of a completion.
    pub(crate) task: Option<u32>,
    /// The lane whose task was stopped, or continues.
    pub(crate) halts: Option<u32>,
    /// The lane of whose batches one took effect.
    pub(crate) batch_of: Option<u32>,
    /// The lane whose batches were cut.
    pub(crate) cuts: Option<u32>,
    /// Whether it did something that any process might see.
    pub(crate) everything: bool,
}

impl Footprint {
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        let same = |one: Option<u32>, two: Option<u32>| one.is_some() && one == two;
        let words = match (&self.words, &other.words) {
            (Some(words), Some(others)) => words.conflicts(others),
            _ => false,
        };
        words
            || self.everything
            || other.everything
            || self.begins && other.ends
            || self.ends && other.begins
            || same(self.task, other.task)
            || same(self.task, other.halts)
            || same(self.halts, other.task)
            || same(self.batch_of, other.cuts)
            || same(self.cuts, other.batch_of)
    }
}
