//! What kind a value is, for the commands of Redis.
//!
//! | [`Attributes::kind_of_bytes`] | the bytes are |
//! |---|---|
//! | 0 | a string |
//! | 1 | a hash: [`hash`](super::hash) |
//! | others | for another program of the pool; no command here reads or changes a part of them |

use super::command::CommandError;
use atoll_cache::{Attributes, Meta};

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(u8);

impl Kind {
    pub(crate) const STRING: Self = Self(Attributes::NONE.kind);
    pub(crate) const HASH: Self = Self(1);

    /// That of a present value.
    #[inline]
    pub(crate) fn of(meta: Meta) -> Self {
        Self(meta.attributes.kind_of_bytes())
    }

    /// What TYPE calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::STRING => "string",
            Self::HASH => "hash",
            _ => "unknown",
        }
    }

    /// What a new value of this kind is stored with.
    pub(crate) fn attributes(self) -> Attributes {
        Attributes { kind: self.0, ..Attributes::NONE }
    }

    /// Refuses a present value of another kind.
    #[inline]
    pub(crate) fn check(self, meta: Meta) -> Result<(), CommandError> {
        if Self::of(meta) == self { Ok(()) } else { Err(CommandError::WrongKind) }
    }
}
