//! Arguments as values.

use super::CommandError;
use atoll_cache::Expiry;
use atoll_cache::cache::parse_integer;

/// An integer, as Redis takes it.
pub fn integer(arg: &[u8]) -> Result<i64, CommandError> {
    parse_integer(arg).ok_or(CommandError::NotAnInteger)
}

/// Whether `arg` is `word` (in lower case), in whatever case.
#[inline]
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// How a moment is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Milliseconds of one.
    pub ms: i64,
    /// Whether it is counted from now, or from the Unix epoch.
    pub relative: bool,
}

impl Unit {
    /// Seconds from now.
    pub const EX: Self = Self { ms: 1000, relative: true };
    /// Milliseconds from now.
    pub const PX: Self = Self { ms: 1, relative: true };
    /// Seconds since the epoch.
    pub const EXAT: Self = Self { ms: 1000, relative: false };
    /// Milliseconds since the epoch.
    pub const PXAT: Self = Self { ms: 1, relative: false };

    /// When something expires after or at `amount` of the unit, unless that is beyond all moments.
    pub fn expiry(self, amount: i64, now_ms: u64) -> Option<Expiry> {
        let ms = amount.checked_mul(self.ms)?;
        if !self.relative {
            return Some(Expiry::AtMs(u64::try_from(ms).unwrap_or(0)));
        }
        ms.checked_add(now_ms as i64)?;
        Some(Expiry::InMs(u64::try_from(ms).unwrap_or(0)))
    }
}
