//! Which endpoint it is.

/// Which endpoint of a fabric it is, of those that live: 30 bits, so that it fits a word beside an
/// epoch. An endpoint keeps its identity for life; a later one may be given the same after its
/// death.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity(u32);

impl Identity {
    /// No endpoint's, so that it is dead. An endpoint that has it cannot prove its life, and takes
    /// no part.
    pub const NOBODY: Self = Self(0);
    /// Bits of an identity.
    pub const BITS: u32 = 30;

    /// The identity of the lowest [`Identity::BITS`] bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// Where an endpoint is, in the eyes of its own process: for display alone. Nothing may be
/// concluded from it, since a pid means something only in its namespace, and is used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The process, as it calls itself.
    pub pid: u32,
    /// The namespace of that pid, 0 where it is not known.
    pub namespace: u64,
}
