//! Which endpoint it is.

/// The identity of a living endpoint of a fabric: 30 bits, so that it fits a word beside an epoch.
/// An endpoint keeps its identity for life. After its death a later endpoint may get the same
/// identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity(u32);

impl Identity {
    /// The identity of no endpoint, so it is dead. An endpoint that has it cannot prove that it
    /// lives, and must not be used.
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

/// The location of an endpoint, as its own process sees it: for display alone. No decision may
/// depend on it, since a pid has a meaning only in its namespace, and is reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The process, by its own pid.
    pub pid: u32,
    /// The namespace of that pid, or 0 if it is unknown.
    pub namespace: u64,
}
