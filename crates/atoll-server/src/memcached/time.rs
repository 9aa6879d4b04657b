//! When an item expires, as peers say it.
//!
//! | seconds | the item expires |
//! |---|---|
//! | 0 | never |
//! | up to 30 days | after so many |
//! | more | at so many since the Unix epoch |
//! | less than 0 | at once |

use atoll_cache::Expiry;
use atoll_cache::cache::left_ms;

/// The most seconds that are counted from now.
const RELATIVE_S_MAX: i32 = 30 * 24 * 60 * 60;

/// The expiry that a peer's number says.
pub(crate) fn expiry(exptime: i32) -> Expiry {
    match exptime {
        0 => Expiry::Never,
        ..0 => Expiry::AtMs(0),
        1..=RELATIVE_S_MAX => Expiry::InMs(exptime as u64 * 1000),
        _ => Expiry::AtMs(exptime as u64 * 1000),
    }
}

/// What listeners are told when a peer has set the expiry of a key to this number, in the words of
/// Redis.
pub(crate) fn event(exptime: i32) -> &'static str {
    match exptime {
        ..0 => "del",
        0 => "persist",
        _ => "expire",
    }
}

/// Seconds that an object still has, of which a begun one counts; -1 for one that never expires.
pub(crate) fn left_s(expiry_ms: Option<u64>, now_ms: u64) -> i64 {
    expiry_ms.map_or(-1, |expiry_ms| left_ms(expiry_ms, now_ms).div_ceil(1000) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_days_are_counted_from_now_and_a_second_more_from_the_epoch() {
        assert_eq!(expiry(0), Expiry::Never);
        assert_eq!(expiry(-1), Expiry::AtMs(0));
        assert_eq!(expiry(2_592_000), Expiry::InMs(2_592_000_000));
        assert_eq!(expiry(2_592_001), Expiry::AtMs(2_592_001_000));
        assert_eq!((left_s(None, 5), left_s(Some(1003), 0), left_s(Some(1), 5)), (-1, 2, 0));
    }
}
