//! A list of policies, as users write it: `lru+lfu`.
//!
//! Each policy gets its words beside an object in the order of the list.

use super::EXPERTS_MAX;
use crate::policy::{Access, EXTENSION_WORDS_MAX, Object, PolicyId, Priority, UnknownPolicy};
use std::fmt;
use std::str::FromStr;

/// Between the names of a set.
const SEPARATOR: char = '+';

/// At least one policy, none twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExpertSet {
    /// The first `len` count; the rest repeats the first.
    policies: [PolicyId; EXPERTS_MAX],
    len: u8,
    /// Where the words of each policy begin beside an object; they end within
    /// [`EXTENSION_WORDS_MAX`].
    extension_starts: [u8; EXPERTS_MAX],
}

/// Why a list of policies is no set of experts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpertSetError {
    /// No policy has the name.
    #[error(transparent)]
    Unknown(#[from] UnknownPolicy),
    /// The list is empty.
    #[error("a set of experts needs at least one policy, such as lru or lru+lfu")]
    Empty,
    /// It has more than [`EXPERTS_MAX`].
    #[error("a set has at most {EXPERTS_MAX} policies; name fewer")]
    TooMany,
    /// The list has a policy twice.
    #[error("{policy} stands twice in the set; name it once")]
    Twice {
        /// The policy.
        policy: PolicyId,
    },
    /// Its policies keep more words beside an object than [`EXTENSION_WORDS_MAX`].
    #[error(
        "the policies of the set keep {words} words beside each object, and there are {EXTENSION_WORDS_MAX}; name fewer of them"
    )]
    Extension {
        /// How many words.
        words: usize,
    },
}

impl ExpertSet {
    /// A set of these policies, in this order.
    pub fn new(policies: impl IntoIterator<Item = PolicyId>) -> Result<Self, ExpertSetError> {
        let mut policies = policies.into_iter();
        let first = policies.next().ok_or(ExpertSetError::Empty)?;
        let mut set = Self::alone(first);
        let mut words = first.policy().extension_words();
        for policy in policies {
            if set.policies().contains(&policy) {
                return Err(ExpertSetError::Twice { policy });
            }
            if set.len() == EXPERTS_MAX {
                return Err(ExpertSetError::TooMany);
            }
            (set.policies[set.len()], set.extension_starts[set.len()]) = (policy, words as u8);
            set.len += 1;
            words += policy.policy().extension_words();
        }
        if words > EXTENSION_WORDS_MAX { Err(ExpertSetError::Extension { words }) } else { Ok(set) }
    }

    /// The set of one policy.
    pub fn alone(policy: PolicyId) -> Self {
        Self { policies: [policy; EXPERTS_MAX], len: 1, extension_starts: [0; EXPERTS_MAX] }
    }

    /// The policies, in the set's order.
    pub fn policies(&self) -> &[PolicyId] {
        &self.policies[..self.len()]
    }

    /// How many policies; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// How many words all policies together keep beside an object.
    pub fn extension_words(&self) -> usize {
        self.policies().iter().map(|id| id.policy().extension_words()).sum()
    }

    fn words(&self, expert: usize) -> std::ops::Range<usize> {
        let start = usize::from(self.extension_starts[expert]);
        start..start + self.policies[expert].policy().extension_words()
    }

    /// Updates the words beside an object after `access`. `globals` has one number a policy.
    pub fn accessed(&self, access: &Access<'_>, globals: &[u64], extension: &mut [u64]) {
        for (expert, id) in self.policies().iter().enumerate() {
            id.policy().accessed(access, globals[expert], &mut extension[self.words(expert)]);
        }
    }

    /// The priority of an object to one of the policies. `extension` has the words of all policies.
    pub fn priority(&self, expert: usize, now_us: u64, object: &Object, extension: &[u64]) -> Priority {
        self.policies[expert].policy().priority(now_us, object, &extension[self.words(expert)])
    }

    /// Updates the shared numbers before a victim with this `extension` is evicted. No number
    /// decreases.
    pub fn evicted(&self, globals: &mut [u64], extension: &[u64]) {
        assert!(globals.len() == self.len(), "one shared number for each expert");
        for (expert, id) in self.policies().iter().enumerate() {
            let global = id.policy().evicted(globals[expert], &extension[self.words(expert)]);
            globals[expert] = globals[expert].max(global);
        }
    }

    /// Whether any of the policies has a shared number.
    pub fn has_globals(&self) -> bool {
        self.policies().iter().any(|id| id.policy().has_global())
    }
}

impl fmt::Display for ExpertSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.policies().iter().map(PolicyId::to_string).collect();
        f.pad(&names.join("+"))
    }
}

impl fmt::Debug for ExpertSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ExpertSet {
    type Err = ExpertSetError;

    fn from_str(names: &str) -> Result<Self, ExpertSetError> {
        if names.is_empty() {
            return Err(ExpertSetError::Empty);
        }
        Self::new(names.split(SEPARATOR).map(str::parse).collect::<Result<Vec<PolicyId>, _>>()?)
    }
}
