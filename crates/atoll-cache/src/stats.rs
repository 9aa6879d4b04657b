//! A client's counters. They are plain numbers of one thread; a caller adds them up for a process.

use crate::miniature::choice::{CURVE, ONCE};
use atoll_fabric::Traffic;
use atoll_pool::Upkeep;
use atoll_pool::registry::Lookups;
use std::cell::Cell;

/// Declares the counters once: as numbers, and as a client counts them.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters of one client since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        /// The counters, while they are counted.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// The counts so far, with the upkeep that the client of the pool has counted, and what
            /// its endpoint has sent.
            pub fn stats(&self, upkeep: Upkeep, traffic: Traffic) -> Stats {
                let Upkeep { clocks_refused, clients_fenced, repairs, chunks_repaired } = upkeep;
                let Traffic { round_trips: fabric_round_trips, verbs: fabric_verbs } = traffic;
                let counted = Stats { $($name: self.$name.0.get(),)* };
                Stats {
                    clocks_refused,
                    clients_fenced,
                    repairs,
                    chunks_repaired,
                    fabric_round_trips,
                    fabric_verbs,
                    ..counted
                }
            }
        }

        impl Counters {
            /// Takes the counts so far, for another client to [add](Self::add).
            pub(crate) fn take(&self) -> Stats {
                Stats { $($name: self.$name.0.take(),)* }
            }

            /// Adds what another client has counted for this one.
            pub(crate) fn add(&self, counted: &Stats) {
                $(self.$name.add(counted.$name);)*
            }
        }

        impl Stats {
            /// How many counters there are.
            pub const COUNT: usize = [$(stringify!($name),)*].len();

            /// What every counter counts, in the order of [`named`](Self::named).
            pub const MEANINGS: [&str; Self::COUNT] = [$(concat!($($doc),*).trim_ascii_start(),)*];

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
    /// Lookups that found no object with their key, and no record that one was evicted.
    misses_absent,
    /// Lookups that found that the object with their key was evicted, not long ago. A few of a
    /// thousand lookups that find nothing are counted here by mistake. Engines that keep no record
    /// of what they evict count none.
    misses_evicted,
    /// Lookups that found an expired object.
    misses_expired,
    /// Objects written.
    puts,
    /// Hits that a near cache answered.
    near_hits,
    /// Copies in near caches that were found outdated: their objects, or others that share a word
    /// with them, had changed.
    near_outdated,
    /// Those of them whose objects were the same in the pool.
    near_spurious,
    /// Copies that were made in near caches.
    near_copies,
    /// Changes of objects of which near caches may have had copies.
    copies_ended,
    /// Objects removed by request.
    removes,
    /// Objects evicted to make room.
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
    /// Records written in the place of one that had died.
    places_reused,
    /// Such records that were copied at once, because their group was leaving its queue.
    orphans,
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
    /// Lookups that a cache of a quarter of the capacity would have missed, by this client's
    /// miniatures.
    modelled_misses_quarter,
    /// The same, of a cache of half the capacity.
    modelled_misses_half,
    /// The same, of a cache of this capacity.
    modelled_misses_once,
    /// The same, of a cache of twice the capacity.
    modelled_misses_twice,
    /// The same, of a cache of four times the capacity.
    modelled_misses_fourfold,
    /// Clients found dead and shut out.
    clients_fenced,
    /// Searches for what dead clients held.
    repairs,
    /// Chunks reclaimed from dead clients.
    chunks_repaired,
    /// Round trips over the network that operations and upkeep waited for. None where memory is
    /// near.
    fabric_round_trips,
    /// Verbs that were sent over the network.
    fabric_verbs,
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

/// The counters of modelled misses, in the order of [`CURVE`].
pub const MODELLED_MISSES: [&str; CURVE.len()] = [
    "modelled_misses_quarter",
    "modelled_misses_half",
    "modelled_misses_once",
    "modelled_misses_twice",
    "modelled_misses_fourfold",
];

/// The hit ratio at each capacity of [`CURVE`], by the lookups that found their key, those that did
/// not, and the misses of the miniatures. What the miniatures miss too much or too little at the
/// pool's own capacity, where the hit ratio is known, they are taken to miss at the others, too.
/// `None` without lookups, or without miniatures.
pub fn curve(hits: u64, misses: u64, modelled_misses: [u64; CURVE.len()]) -> Option<[f64; CURVE.len()]> {
    let reads = hits as f64 + misses as f64;
    let too_many = modelled_misses[ONCE] as f64 - misses as f64;
    let ratio = |modelled: u64| (1.0 - (modelled as f64 - too_many) / reads).clamp(0.0, 1.0);
    (reads > 0.0 && modelled_misses[0] > 0).then(|| modelled_misses.map(ratio))
}

impl Counters {
    /// Counts a lookup that found no object.
    pub fn count_absent(&self, was_evicted: bool) {
        let counter = if was_evicted { &self.misses_evicted } else { &self.misses_absent };
        counter.add(1);
    }

    /// Lookups that found their key, those that did not, and the misses at each capacity of
    /// [`CURVE`].
    pub fn lookups(&self) -> Lookups {
        let misses = [&self.misses_absent, &self.misses_evicted, &self.misses_expired];
        let misses = misses.iter().map(|counter| counter.0.get()).sum();
        let modelled = (0..CURVE.len()).map(|point| self.modelled_misses(point).0.get());
        let mut all = [self.hits.0.get(), misses].into_iter().chain(modelled);
        std::array::from_fn(|_| all.next().expect("as many as the curve has points"))
    }

    /// The misses that the miniatures model at a capacity of [`CURVE`].
    pub(crate) fn modelled_misses(&self, point: usize) -> &Counter {
        [
            &self.modelled_misses_quarter,
            &self.modelled_misses_half,
            &self.modelled_misses_once,
            &self.modelled_misses_twice,
            &self.modelled_misses_fourfold,
        ][point]
    }
}

impl Stats {
    /// The modelled hit ratio at each capacity of [`CURVE`]; see [`curve`].
    pub fn curve(&self) -> Option<[f64; CURVE.len()]> {
        let misses = [
            self.modelled_misses_quarter,
            self.modelled_misses_half,
            self.modelled_misses_once,
            self.modelled_misses_twice,
            self.modelled_misses_fourfold,
        ];
        curve(self.hits, self.misses(), misses)
    }

    /// Adds the upkeep that the client of the pool has counted.
    pub fn with_upkeep(self, upkeep: Upkeep) -> Self {
        let Upkeep { clocks_refused, clients_fenced, repairs, chunks_repaired } = upkeep;
        Self { clocks_refused, clients_fenced, repairs, chunks_repaired, ..self }
    }

    /// Lookups that did not find their key, for any reason.
    pub fn misses(&self) -> u64 {
        self.misses_absent + self.misses_evicted + self.misses_expired
    }
}
