//! What a client counts. Plain numbers of one thread; whoever wants a process's sum adds them up.

use atoll_pool::Upkeep;

/// Counters of one client since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Lookups that found their key.
    pub hits: u64,
    /// Lookups that found no object with their key.
    pub misses_absent: u64,
    /// Lookups that found an object whose time was over.
    pub misses_expired: u64,
    /// Objects written.
    pub puts: u64,
    /// Objects removed by request.
    pub removes: u64,
    /// Objects evicted to make room, of which the next ones are parts.
    pub evictions: u64,
    /// Objects evicted because the bucket of a key was full.
    pub evictions_index: u64,
    /// Expired objects whose room was taken back.
    pub expirations: u64,
    /// Groups taken from the queues.
    pub groups_evicted: u64,
    /// Groups put back into a queue whole.
    pub groups_reinserted: u64,
    /// Groups cleaned because much of them was dead.
    pub groups_cleaned: u64,
    /// Objects copied into another group.
    pub regroups: u64,
    /// Changes begun anew because another client was faster.
    pub conflicts: u64,
    /// Lookups begun anew because what they read was being reused.
    pub rereads: u64,
    /// Objects found where the address cache said.
    pub addresses_right: u64,
    /// Objects that were not there any more.
    pub addresses_stale: u64,
    /// Objects dropped because their bytes were not what was written.
    pub damaged: u64,
    /// Clocks of this client's own that were refused: its host's wall clock came to be a second off the pool's time or more.
    pub clocks_refused: u64,
    /// Clients found dead and shut out.
    pub clients_fenced: u64,
    /// Times that what dead clients held was looked for.
    pub repairs: u64,
    /// Chunks that came back from dead clients.
    pub chunks_repaired: u64,
}

impl Stats {
    /// How many counters there are.
    pub const COUNT: usize = 21;

    /// The same, with what the client of the pool has counted of its upkeep.
    pub fn with_upkeep(self, upkeep: Upkeep) -> Self {
        let Upkeep { clocks_refused, clients_fenced, repairs, chunks_repaired } = upkeep;
        Self { clocks_refused, clients_fenced, repairs, chunks_repaired, ..self }
    }

    /// Lookups that did not find their key, for whatever reason.
    pub fn misses(&self) -> u64 {
        self.misses_absent + self.misses_expired
    }

    /// Name and number of every counter, for whoever prints them.
    pub fn named(&self) -> [(&'static str, u64); Self::COUNT] {
        [
            ("hits", self.hits),
            ("misses_absent", self.misses_absent),
            ("misses_expired", self.misses_expired),
            ("puts", self.puts),
            ("removes", self.removes),
            ("evictions", self.evictions),
            ("evictions_index", self.evictions_index),
            ("expirations", self.expirations),
            ("groups_evicted", self.groups_evicted),
            ("groups_reinserted", self.groups_reinserted),
            ("groups_cleaned", self.groups_cleaned),
            ("regroups", self.regroups),
            ("conflicts", self.conflicts),
            ("rereads", self.rereads),
            ("addresses_right", self.addresses_right),
            ("addresses_stale", self.addresses_stale),
            ("damaged", self.damaged),
            ("clocks_refused", self.clocks_refused),
            ("clients_fenced", self.clients_fenced),
            ("repairs", self.repairs),
            ("chunks_repaired", self.chunks_repaired),
        ]
    }
}
