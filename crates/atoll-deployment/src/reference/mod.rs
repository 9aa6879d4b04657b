//! Exact eviction policies in ordinary memory: engines are compared with them, and tests hold the
//! lab against them.
//!
//! | module | policy |
//! |---|---|
//! | [`one_queue`] | first in, first out; least recently used |
//! | [`ranked`] | LFU, MRU, SIZE, GDS, GDSF, LFUDA, LRFU, LRU-2: an ordered tree |
//! | [`lirs`] | LIRS with its stack and queue |
//! | [`scanned`] | hyperbolic over all objects; random |
//! | [`s3_fifo`] | S3-FIFO (Yang et al., SOSP 2023), as the oracle has it |
//! | [`sieve`] | SIEVE (Zhang et al., NSDI 2024) |
//! | [`sampled`] | not exact: any policy or experts of `atoll_cache`, from samples of a table |
//! | [`engine`] | an engine of one process that evicts by such a policy |

pub mod engine;
pub mod lirs;
pub mod one_queue;
mod order;
pub mod ranked;
pub mod s3_fifo;
pub mod sampled;
pub mod scanned;
pub mod sieve;

use std::fmt;
use std::str::FromStr;

/// Decides which of at most this many objects stay.
///
/// The caller calls `insert` only for a key that is not resident, and removes from its memory the
/// key that `insert` returns.
pub trait Policy<K> {
    /// Whether `key` is resident; counts as no access.
    fn contains(&self, key: &K) -> bool;

    /// Notes an access to `key`, which is resident.
    fn touch(&mut self, key: &K);

    /// Makes `key` resident with an object of `bytes`, and returns the key that is evicted for it.
    /// The bytes matter only to policies that look at sizes.
    fn insert(&mut self, key: K, bytes: u64) -> Option<K>;

    /// Removes `key`, if it is resident.
    fn remove(&mut self, key: &K);

    /// How many keys are resident.
    fn resident(&self) -> usize;
}

/// Makes the list of the exact policies, each with its name.
macro_rules! policies {
    ($($(#[$doc:meta])* $Policy:ident: $name:literal,)*) => {
        /// The exact policies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PolicyName {
            $($(#[$doc])* $Policy,)*
        }

        /// The exact policies by name. Where there is a sampled form, its name is the same.
        const NAMES: &[(PolicyName, &str)] = &[$((PolicyName::$Policy, $name),)*];
    };
}

policies! {
    /// [`one_queue::Fifo`].
    Fifo: "fifo",
    /// [`one_queue::Lru`].
    Lru: "lru",
    /// [`s3_fifo`].
    S3Fifo: "s3-fifo",
    /// [`sieve`].
    Sieve: "sieve",
    /// [`ranked::lfu`].
    Lfu: "lfu",
    /// [`ranked::mru`].
    Mru: "mru",
    /// [`ranked::size`].
    Size: "size",
    /// [`ranked::gds`].
    Gds: "gds",
    /// [`ranked::gdsf`].
    Gdsf: "gdsf",
    /// [`ranked::lfuda`].
    Lfuda: "lfuda",
    /// [`ranked::lrfu`].
    Lrfu: "lrfu",
    /// [`ranked::lru_2`].
    LruK: "lru-k",
    /// [`lirs`].
    Lirs: "lirs",
    /// [`scanned::Scanned::hyperbolic`].
    Hyperbolic: "hyperbolic",
    /// [`scanned::Scanned::random`].
    Random: "random",
}

impl PolicyName {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(policy, _)| *policy)
    }

    /// The policy for `objects_max` objects.
    pub fn make<K: std::hash::Hash + Eq + Clone + 'static>(self, objects_max: usize) -> Box<dyn Policy<K>> {
        fn ranked<K, R>(rank: R, objects_max: usize) -> Box<dyn Policy<K>>
        where
            K: std::hash::Hash + Eq + Clone + 'static,
            R: ranked::Rank + 'static,
        {
            Box::new(ranked::Ranked::new(rank, objects_max))
        }
        match self {
            Self::Fifo => Box::new(one_queue::Fifo::new(objects_max)),
            Self::Lru => Box::new(one_queue::Lru::new(objects_max)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(objects_max)),
            Self::Sieve => Box::new(sieve::Sieve::new(objects_max)),
            Self::Lfu => ranked(ranked::lfu, objects_max),
            Self::Mru => ranked(ranked::mru, objects_max),
            Self::Size => ranked(ranked::size, objects_max),
            Self::Gds => ranked(ranked::gds, objects_max),
            Self::Gdsf => ranked(ranked::gdsf, objects_max),
            Self::Lfuda => ranked(ranked::lfuda, objects_max),
            Self::Lrfu => ranked(ranked::lrfu, objects_max),
            Self::LruK => ranked(ranked::lru_2, objects_max),
            Self::Lirs => Box::new(lirs::Lirs::new(objects_max)),
            Self::Hyperbolic => Box::new(scanned::Scanned::hyperbolic(objects_max)),
            Self::Random => Box::new(scanned::Scanned::random(objects_max)),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(policy, _)| policy == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || NAMES.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        let found = NAMES.iter().find(|(_, other)| *other == name).map(|(policy, _)| *policy);
        found.ok_or_else(|| format!("there is no exact policy {name:?}; there are {}", names()))
    }
}
