//! The chunks that a client empties, and the stage of each.

use crate::backoff::Backoff;
use atoll_pool::registry::Grace;
use atoll_pool::{Chunk, ChunkId};
use std::cell::{self, RefCell};

/// Chunks that one client empties at a time. It may empty more while it finds no other room and not
/// all of them rest. Some may wait for an idle client that holds blocks of them.
pub(in crate::table) const DRAINS_MAX: usize = 4;
/// Attempts after which a chunk does not count any more as memory that will be free soon.
const ATTEMPTS_OF_USE: u32 = 16;

/// What happens to the objects of a chunk that is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Keeps {
    /// They are evicted.
    Nothing,
    /// They are moved into other blocks. Objects for which there is no room are evicted.
    Objects,
}

/// A chunk that this client empties.
#[derive(Debug)]
pub(in crate::table) struct Emptied {
    pub(in crate::table) chunk: ChunkId,
    pub(super) keeps: Keeps,
    /// Its state: Open until the drain is announced to other clients, then Leaving.
    pub(super) owned: Chunk,
    /// How often this client has worked on it.
    pub(super) attempts: u32,
    /// How often there was no room for objects that should move.
    pub(super) crowded: u32,
    /// When this client works on it again, if no writer waits for chunks.
    pub(super) backoff: Backoff,
    pub(super) stage: Stage,
}

/// Which of the chunks that it empties a client looks at, and the state that empty ones get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum DrainLook {
    /// Chunks that are due; they become fresh chunks. The longer a chunk waits, the more rarely it
    /// is due: the client that holds blocks of it may stand still.
    ForRoom,
    /// Chunks that are due; they become free. In a client's rounds.
    InRound,
    /// All; they become free.
    All,
}

/// How far a chunk is from being empty.
#[derive(Debug)]
pub(super) enum Stage {
    /// Slots may name, or clients may hold, blocks of it.
    InUse,
    /// No slot names a block of it and no client has one, but it rests until operations under way
    /// have ended. Its next life continues from this tag.
    Resting(Grace, u16),
    /// It is empty. Its next life continues from this tag.
    Empty(u16),
}

impl Emptied {
    /// Begins with a chunk that this client owns.
    pub(in crate::table) fn begun(chunk: ChunkId, owned: Chunk, keeps: Keeps) -> Self {
        let (backoff, stage) = (Backoff::default(), Stage::InUse);
        Self { chunk, keeps, owned, attempts: 0, crowded: 0, backoff, stage }
    }

    /// Whether it waits for operations that are under way.
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.stage, Stage::Resting(..))
    }

    /// Whether it waits for a client that holds one of its blocks and may stand still.
    pub(super) fn is_stuck(&self) -> bool {
        !self.is_resting() && self.attempts > ATTEMPTS_OF_USE
    }
}

/// The chunks that a client empties, and its view of the chunks that other clients empty.
#[derive(Debug, Default)]
pub(in crate::table) struct Drains {
    pub(super) under_way: RefCell<Vec<Emptied>>,
    /// How many more than usual may be emptied, since this client has waited in vain.
    pub(in crate::table) more: cell::Cell<usize>,
    /// How many drains had begun in the pool when this client last looked.
    pub(super) seen: cell::Cell<u64>,
}

impl Drains {
    pub(in crate::table) fn push(&self, emptied: Emptied) {
        self.under_way.borrow_mut().push(emptied);
    }

    pub(in crate::table) fn len(&self) -> usize {
        self.under_way.borrow().len()
    }

    pub(in crate::table) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of the chunks rest.
    pub(super) fn resting(&self) -> usize {
        self.under_way.borrow().iter().filter(|emptied| emptied.is_resting()).count()
    }
}
