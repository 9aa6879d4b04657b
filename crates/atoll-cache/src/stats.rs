//! A client's counters. They are plain numbers of one thread; a caller adds them up for a process.

use atoll_pool::Upkeep;
use std::cell::Cell;

/// Declares the counters once: as numbers, and as a client counts them.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one client since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters, while they are counted.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// The counts so far, with the upkeep that the client of the pool has counted.
            pub fn stats(&self, upkeep: Upkeep) -> Stats {
                let Upkeep { clocks_refused, clients_fenced, repairs, chunks_repaired } = upkeep;
                let counted = Stats { $($name: self.$name.0.get(),)* };
                Stats { clocks_refused, clients_fenced, repairs, chunks_repaired, ..counted }
            }
        }

        impl Stats {
            /// How many counters there are.
            pub const COUNT: usize = [$(stringify!($name),)*].len();

            /// Adds another client's counters.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Name and number of every counter, to print them.
            pub fn named(&self) -> [(&'static str, u64); Self::COUNT] {
                [$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Lookups that found their key.
    hits,
    /// Lookups that found no object with their key.
    misses_absent,
    /// Lookups that found an expired object.
    misses_expired,
    /// Objects written.
    puts,
    /// Objects removed by request.
    removes,
    /// Objects evicted to make room. The next counters are parts of it.
    evictions,
    /// Objects evicted because the bucket of a key was full.
    evictions_index,
    /// Expired objects whose room was reclaimed.
    expirations,
    /// Groups taken from the queues.
    groups_evicted,
    /// Groups put back into a queue whole.
    groups_reinserted,
    /// Groups cleaned because much of them was dead.
    groups_cleaned,
    /// Objects copied into another group.
    regroups,
    /// Changes retried because another client was faster.
    conflicts,
    /// Lookups retried because the bytes that they read were being reused.
    rereads,
    /// Objects found at the remembered address.
    addresses_right,
    /// Remembered objects that were no longer there.
    addresses_stale,
    /// Objects dropped because their bytes were damaged.
    damaged,
    /// Clocks that this client refused as its own: its host's wall clock was a second or more off
    /// the pool's time.
    clocks_refused,
    /// Clients found dead and shut out.
    clients_fenced,
    /// Searches for what dead clients held.
    repairs,
    /// Chunks reclaimed from dead clients.
    chunks_repaired,
}

/// A counter of one thread.
#[derive(Debug, Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// Counts `by` more.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.set(self.0.get() + by);
    }
}

impl Stats {
    /// Adds the upkeep that the client of the pool has counted.
    pub fn with_upkeep(self, upkeep: Upkeep) -> Self {
        let Upkeep { clocks_refused, clients_fenced, repairs, chunks_repaired } = upkeep;
        Self { clocks_refused, clients_fenced, repairs, chunks_repaired, ..self }
    }

    /// Lookups that did not find their key, for any reason.
    pub fn misses(&self) -> u64 {
        self.misses_absent + self.misses_expired
    }
}
