//! A chunk: its state and its owner.
//!
//! | a descriptor, 32 B | fields | access |
//! |---|---|---|
//! | word 0 | state 4, owner's slot 12, owner's epoch (low bits) 16, generation 32 | atomics only |
//! | word 1 | tenant's word: what the chunk holds | owned by the owner |
//! | word 2 | dead bytes in it | atomics only |
//! | word 3 | tenant's word | owned by the owner |
//!
//! Words 1 and 3 are written before the swap of word 0 that makes them valid. So a client that has
//! seen the state READs valid words after it. One READ of a whole descriptor may return a newer
//! state with older words 1 and 3.
//!
//! | from | to | by | meaning |
//! |---|---|---|---|
//! | Free | Open | the client that allocates it | it fills the chunk; the swap itself names the owner, so a crash leaks nothing |
//! | Open | Queued | owner | it is full, and is in (or on its way into) a queue of the tenant |
//! | Queued | Leaving | the client that found it in the queue | it empties the chunk |
//! | Open | Leaving | owner | the same, for a chunk that it took over from a dead client |
//! | Leaving | Queued | owner | it puts the chunk back into a queue; if the chunk is empty, the generation goes up |
//! | Open | Extent | owner | it holds a part of a large object that its owner is about to publish |
//! | Extent | Bound | owner | the object is published |
//! | Extent, Bound | Free | the client that removed the object | the generation goes up |
//! | Open, Leaving | Free | owner | nothing points to it; the generation goes up |
//! | Leaving | Open | owner | the same, and the owner fills it at once; the generation goes up |
//! | Open | Open | a repairer | its owner was shut out; the repairer owns it now |
//! | Open, Leaving, Queued | Leaving | a repairer | the same |
//! | Extent | Bound | a repairer | its owner was shut out, and a published object has it |
//! | Extent, Bound | Free | a repairer | no object has it, and the owner of an Extent was shut out |
//! | Open | Retired | owner | the pool becomes smaller: see [`retirement`](crate::retirement) |
//! | Retired, Discarding, Discarded | | | the same |
//! | Open | Index | owner | it holds buckets of the tenant's index from now on, for as long as the tenant lists it |
//! | Index | Free | owner, or a repairer | the tenant does not list it; the generation goes up |
//!
//! Every transition is one compare-and-swap of word 0. The generation counts the reuses of a chunk.

use crate::Incarnation;

/// Bytes of a chunk's descriptor.
pub const DESCRIPTOR_BYTES: u64 = 32;
/// Its words.
pub(crate) const DESCRIPTOR_WORDS: usize = DESCRIPTOR_BYTES as usize / 8;

/// Words of a descriptor behind its first, by their numbers.
pub(crate) mod descriptor_word {
    pub(crate) const CONTENTS: usize = 1;
    pub(crate) const DEAD_BYTES: usize = 2;
    pub(crate) const NOTE: usize = 3;
}

const _: () = assert!(8 * (descriptor_word::NOTE as u64 + 1) == DESCRIPTOR_BYTES);

/// A chunk's number, below the layout's `chunks_max`. Chunks of all nodes are numbered through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u32);

/// The state of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkState {
    /// It is unused.
    Free = 0,
    /// Its owner fills it.
    Open = 1,
    /// In a queue.
    Queued = 2,
    /// Its owner empties it.
    Leaving = 3,
    /// A part of a large object that is not published yet.
    Extent = 4,
    /// A part of a large object that was published.
    Bound = 5,
    /// Out of use: the pool was made smaller by it. Its memory may still be present.
    Retired = 6,
    /// Out of use, and its owner is returning its memory to the host.
    Discarding = 7,
    /// Out of use, and its memory was returned to the host.
    Discarded = 8,
    /// A part of the tenant's index.
    Index = 9,
}

/// A chunk's state, as word 0 of its descriptor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What it is used for.
    pub state: ChunkState,
    /// Its owner's place; without meaning while the chunk is free.
    pub owner_slot: u32,
    /// Low 16 bits of the owner's epoch.
    pub owner_epoch: u16,
    /// How often it was reused, wrapping. What points into a chunk names the low 16 bits; the
    /// others also count how often it was put [back](Chunk::back).
    pub generation: u32,
}

impl ChunkState {
    /// All states, by their numbers.
    pub const ALL: [Self; 10] = [
        Self::Free,
        Self::Open,
        Self::Queued,
        Self::Leaving,
        Self::Extent,
        Self::Bound,
        Self::Retired,
        Self::Discarding,
        Self::Discarded,
        Self::Index,
    ];

    /// Whether a transition leads from this state to `next`: a row of the table above.
    pub const fn may_become(self, next: Self) -> bool {
        use ChunkState::{Bound, Discarded, Discarding, Extent, Free, Index, Leaving, Open, Queued, Retired};
        matches!(
            (self, next),
            (Free, Open)
                | (Open, Open | Queued | Leaving | Extent | Free | Retired | Index)
                | (Queued, Leaving)
                | (Leaving, Leaving | Queued | Open | Free)
                | (Extent, Bound | Free)
                | (Bound | Index, Free)
                | (Retired, Discarding | Free)
                | (Discarding, Discarded | Retired)
                | (Discarded, Free)
        )
    }

    /// Whether the chunk is a part of a large object.
    pub fn is_extent(self) -> bool {
        matches!(self, Self::Extent | Self::Bound)
    }

    /// Whether the chunk is out of use.
    pub fn is_out_of_use(self) -> bool {
        matches!(self, Self::Retired | Self::Discarding | Self::Discarded)
    }
}

impl Chunk {
    /// A chunk owned by `owner`.
    pub fn owned(state: ChunkState, owner: Incarnation, generation: u32) -> Self {
        Self { state, owner_slot: owner.slot, owner_epoch: owner.epoch as u16, generation }
    }

    /// The same life of the chunk in an earlier state. The word differs from the word that it had
    /// then, so that a swap from that word fails.
    pub fn back(self, state: ChunkState) -> Self {
        Self { state, generation: self.generation.wrapping_add(1 << 16), ..self }
    }

    /// The same as a word.
    pub fn word(self) -> u64 {
        (self.state as u64) << 60
            | u64::from(self.owner_slot & 0xfff) << 48
            | u64::from(self.owner_epoch) << 32
            | u64::from(self.generation)
    }

    /// What a word says; `None` if no client wrote it.
    pub fn from_word(word: u64) -> Option<Self> {
        let state = *ChunkState::ALL.get((word >> 60) as usize)?;
        Some(Self {
            state,
            owner_slot: (word >> 48) as u32 & 0xfff,
            owner_epoch: (word >> 32) as u16,
            generation: word as u32,
        })
    }
}

/// A chunk's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// State and owner; `None` if the word is damaged.
    pub chunk: Option<Chunk>,
    /// The tenant's word of contents.
    pub contents: u64,
    /// Dead bytes.
    pub dead_bytes: u64,
    /// The tenant's other word.
    pub engine: u64,
}

impl Descriptor {
    /// Bytes in the table; those of neighbours lie side by side.
    pub const BYTES: u64 = DESCRIPTOR_BYTES;

    /// What four words say.
    pub fn from_words(words: &[u64]) -> Self {
        let word = |nth: usize| words.get(nth).copied().unwrap_or(0);
        Self {
            chunk: Chunk::from_word(word(0)),
            contents: word(descriptor_word::CONTENTS),
            dead_bytes: word(descriptor_word::DEAD_BYTES),
            engine: word(descriptor_word::NOTE),
        }
    }

    /// Whether the chunk was taken out of use, so that the pool became smaller.
    pub fn is_out_of_use(&self) -> bool {
        self.chunk.is_some_and(|chunk| chunk.state.is_out_of_use())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_entered_and_left() {
        for state in ChunkState::ALL {
            let others = ChunkState::ALL.into_iter().filter(|other| *other != state);
            assert!(others.clone().any(|other| state.may_become(other)), "{state:?} is left");
            assert!(others.clone().any(|other| other.may_become(state)), "{state:?} is entered");
        }
        assert!(!ChunkState::Free.may_become(ChunkState::Queued), "only an owner queues a chunk");
    }

    #[test]
    fn a_chunk_word_says_what_was_put_in() {
        let owner = Incarnation { slot: 0xfff, epoch: 0xdead_beef };
        for (number, state) in ChunkState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
            let chunk = Chunk::owned(state, owner, u32::MAX);
            assert_eq!(Chunk::from_word(chunk.word()), Some(chunk));
        }
        assert_eq!(Chunk::from_word(u64::MAX), None);
    }
}
