//! Which object is worth least: eviction policies as pure functions of what a table knows of an
//! object.
//!
//! A sampled cache (Ditto, SOSP 2023, section 4.2) has no list and no heap. It looks at some
//! objects, asks a policy for the [`Priority`] of each, and evicts the lowest.
//!
//! | what a policy sees | where it is kept |
//! |---|---|
//! | [`Object`] | beside every slot |
//! | its extension, up to [`EXTENSION_WORDS_MAX`] words | beside the object |
//! | its global number | shared by all clients |
//!
//! A policy has no state of its own, no clock and no randomness. So every client computes the same.
//!
//! To add a policy, write its file here and add its line to [`POLICIES`]. No other list names it.
//!
//! The engine's duties towards every policy:
//!
//! - It calls [`Policy::accessed`] once for every insertion, hit and overwrite, and stores the
//!   resulting extension. If several clients write it, the last one wins. So an extension may miss
//!   accesses, and no policy may rely on having seen them all.
//! - It calls [`Policy::evicted`] for the victim before it evicts it. It keeps the larger of the
//!   old and the new global number.
//! - It merges the shared number by maximum. The numbers only ever grow, and a maximum may be
//!   merged late, twice or in any order. Before it merges, a client uses a smaller number, and so a
//!   somewhat older age.
//! - It may pass any words that it reads from the pool. A policy returns some priority for any of
//!   them, and never panics.

mod ageing;
mod fifo;
mod gds;
mod gdsf;
mod ghost;
mod hyperbolic;
mod hyperbolic_idle;
mod lfu;
mod lfuda;
mod lirs;
mod lrfu;
mod lru;
mod lru_k;
mod mru;
mod priority;
mod quick_demotion;
mod random;
mod size;

pub use ghost::{GHOST_EXPERTS_MAX, Ghost, HISTORY_ID_BITS, history_depth};
pub use priority::Priority;
pub(crate) use random::mix;

use std::fmt;
use std::str::FromStr;

/// Every policy, by the number that a pool's header keeps. New policies are appended, and no line
/// moves.
pub static POLICIES: &[Policy] = &[
    lru::LRU,
    lfu::LFU,
    fifo::FIFO,
    random::RANDOM,
    mru::MRU,
    gds::GDS,
    lirs::LIRS,
    size::SIZE,
    gdsf::GDSF,
    lrfu::LRFU,
    lru_k::LRU_K,
    lfuda::LFUDA,
    hyperbolic::HYPERBOLIC,
    quick_demotion::QUICK_DEMOTION,
    hyperbolic_idle::HYPERBOLIC_IDLE,
    quick_demotion::QUICK_DEMOTION_STRICT,
];

/// Most words beside an object, over all policies of a cache.
pub const EXTENSION_WORDS_MAX: usize = 4;

/// The access information beside the slot of an object, and the object's size. Every policy sees
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// When it was inserted, in microseconds of the pool's clock.
    pub inserted_us: u64,
    /// When it was last accessed, in the same unit. Its insertion is an access.
    pub accessed_us: u64,
    /// How often it was accessed since it was inserted. Its insertion counts as one access, or as
    /// [`Policy::frequency_at_insertion`] says.
    pub frequency: u64,
    /// Its record's size in bytes, at least one.
    pub bytes: u64,
}

impl Object {
    /// The same object after one more access.
    pub fn accessed_again(self, now_us: u64) -> Self {
        Self { accessed_us: now_us, frequency: self.frequency + 1, ..self }
    }

    /// How long ago it was last accessed.
    fn idle_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.accessed_us)
    }

    /// Its size in bytes, as a divisor.
    fn bytes(&self) -> f64 {
        self.bytes.max(1) as f64
    }
}

/// One access to an object.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The pool's clock in microseconds.
    pub now_us: u64,
    /// The information before this access; `None` if the access inserts the object.
    pub before: Option<&'a Object>,
    /// The information after this access.
    pub after: &'a Object,
    /// The key's ghost, if this access inserts the object and the table remembers the key.
    pub ghost: Option<Ghost>,
}

/// A policy. Each is a constant in a file of its own.
#[derive(Debug)]
pub struct Policy {
    /// The name that users type: lower case, with dashes.
    name: &'static str,
    /// The part of the history, in percent, in which a ghost proves a key: a key that returns later
    /// is like a new one.
    ghost_percent: u32,
    formula: Formula,
}

/// [`Policy::ghost_percent`] of a policy to which every ghost proves its key.
const GHOSTS_ALL: u32 = 100;

/// How a policy values an object. Of the sampled objects, the one with the lowest priority is
/// evicted.
///
/// | formula | word beside the object | number that all clients share |
/// |---|---|---|
/// | plain | none | none |
/// | with a word | the result of `accessed`; 0 before the object's insertion | none |
/// | ageing ([`ageing`]) | H = L + worth | L |
#[derive(Debug)]
enum Formula {
    /// By the access information alone.
    Plain(fn(now_us: u64, object: &Object) -> Priority),
    /// By a word beside the object too, which every access updates.
    Word {
        accessed: fn(access: &Access<'_>, word: u64) -> u64,
        priority: fn(now_us: u64, object: &Object, word: u64) -> Priority,
    },
    /// By the object's worth when it was last accessed, which is positive, and by its age.
    Ageing(fn(object: &Object) -> f64),
}

impl Policy {
    /// The name that users type.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The frequency of an object at its insertion, if its key has this ghost. A key that returns
    /// soon has proven itself: S3-FIFO would insert it into the main queue.
    pub fn frequency_at_insertion(&self, ghost: Option<Ghost>) -> u64 {
        let proves =
            |ghost: Ghost| u64::from(ghost.depth) * 100 < u64::from(ghost.history) * u64::from(self.ghost_percent);
        if ghost.is_some_and(proves) { ghost::FREQUENCY_RETURNED } else { 1 }
    }

    /// How many words it keeps beside an object, at most [`EXTENSION_WORDS_MAX`].
    pub fn extension_words(&self) -> usize {
        match self.formula {
            Formula::Plain(_) => 0,
            Formula::Word { .. } | Formula::Ageing(_) => 1,
        }
    }

    /// Updates the object's `extension` after `access`. It has [`Self::extension_words`] words; at
    /// an insertion they are zero. `global` is the shared number as this client knows it.
    pub fn accessed(&self, access: &Access<'_>, global: u64, extension: &mut [u64]) {
        match self.formula {
            Formula::Plain(_) => {}
            Formula::Word { accessed, .. } => extension[0] = accessed(access, extension[0]),
            Formula::Ageing(worth) => extension[0] = ageing::value(global, worth(access.after)),
        }
    }

    /// The object's priority at `now_us`.
    pub fn priority(&self, now_us: u64, object: &Object, extension: &[u64]) -> Priority {
        match self.formula {
            Formula::Plain(priority) => priority(now_us, object),
            Formula::Word { priority, .. } => priority(now_us, object, extension[0]),
            Formula::Ageing(_) => ageing::priority(object, extension[0]),
        }
    }

    /// The shared number after the eviction of an object with this `extension`; starts at zero. The
    /// caller keeps the larger of this and the old one.
    pub fn evicted(&self, global: u64, extension: &[u64]) -> u64 {
        match self.formula {
            Formula::Plain(_) | Formula::Word { .. } => global,
            Formula::Ageing(_) => ageing::evicted(global, extension[0]),
        }
    }

    /// Whether [`Self::evicted`] ever changes the shared number. If not, no client merges it.
    pub fn has_global(&self) -> bool {
        matches!(self.formula, Formula::Ageing(_))
    }
}

/// A policy of [`POLICIES`], by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(u8);

impl PolicyId {
    /// The policy of that number; `None` if there is none, as when a newer version wrote the
    /// number.
    pub fn from_number(number: u8) -> Option<Self> {
        (usize::from(number) < POLICIES.len()).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The policy.
    pub fn policy(self) -> &'static Policy {
        &POLICIES[usize::from(self.0)]
    }

    /// All policies, in the order of the list.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..POLICIES.len() as u8).map(Self)
    }
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.policy().name())
    }
}

impl fmt::Debug for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy().name())
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy {name:?}; the policies are {}", names())]
pub struct UnknownPolicy {
    /// The name.
    pub name: String,
}

fn names() -> String {
    POLICIES.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for PolicyId {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::all().find(|id| id.policy().name() == name).ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests;
