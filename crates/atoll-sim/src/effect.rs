//! What one step did to memory.

use atoll_fabric::Address;

/// What kind of effect a step had. The letters are part of the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EffectKind {
    /// A READ took effect.
    Read = b'R',
    /// Some words of a READ did.
    ReadPart = b'r',
    /// A WRITE took effect.
    Write = b'W',
    /// Some words of a WRITE did.
    WritePart = b'w',
    /// A compare-and-swap took effect.
    Swap = b'C',
    /// A fetch-and-add took effect.
    Add = b'F',
}

impl EffectKind {
    /// Whether all words of the verb have taken effect.
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Self::ReadPart | Self::WritePart)
    }

    /// The verb's name in a trace.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::ReadPart => "READ, some words,",
            Self::Write => "WRITE",
            Self::WritePart => "WRITE, some words,",
            Self::Swap => "CAS",
            Self::Add => "FAA",
        }
    }
}

/// What one step did, for the digest and the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    /// Number of the verb in its batch.
    pub(crate) verb: u8,
    pub(crate) kind: EffectKind,
    pub(crate) at: Address,
    /// The word found, read first, or written first.
    pub(crate) word: u64,
}
