//! Each client's counters of its upkeep of the pool.

/// What a client counts of its upkeep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Clocks of its own that it refused: its host's wall clock came to be a second off the pool's
    /// time, or more.
    pub clocks_refused: u64,
    /// Clients that it found dead and shut out.
    pub clients_fenced: u64,
    /// Times that it looked for what dead clients had held.
    pub repairs: u64,
    /// Chunks that it got back from dead clients.
    pub chunks_repaired: u64,
}

/// What a repair came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Clients that were shut out.
    pub clients: u64,
    /// Chunks that they had held, large objects' among them.
    pub chunks: u64,
    /// Whether everything was counted anew.
    pub recounted: bool,
}

impl std::ops::AddAssign for Repaired {
    fn add_assign(&mut self, more: Self) {
        self.clients += more.clients;
        self.chunks += more.chunks;
        self.recounted |= more.recounted;
    }
}
