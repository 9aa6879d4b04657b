//! Lines of the log that peers cause: no peer can flood the log.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lets one line a second through, and counts those that it holds back.
#[derive(Debug, Default)]
pub struct Pace {
    /// The second of the last line.
    told_s: AtomicU64,
    held_back: AtomicU64,
}

/// How many lines were held back before one that is told: written behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack(u64);

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            lines => write!(f, " (and {lines} before)"),
        }
    }
}

impl Pace {
    /// At its first line.
    pub const fn new() -> Self {
        Self { told_s: AtomicU64::new(0), held_back: AtomicU64::new(0) }
    }

    /// Whether a line may be told now, and how many were held back before it.
    pub fn line(&self) -> Option<HeldBack> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.line_at(now_s)
    }

    fn line_at(&self, now_s: u64) -> Option<HeldBack> {
        if self.told_s.swap(now_s, Relaxed) == now_s {
            self.held_back.fetch_add(1, Relaxed);
            return None;
        }
        Some(HeldBack(self.held_back.swap(0, Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_is_told_and_the_others_are_counted() {
        let pace = Pace::new();
        assert_eq!([pace.line_at(7), pace.line_at(7), pace.line_at(7)], [Some(HeldBack(0)), None, None]);
        assert_eq!([pace.line_at(8), pace.line_at(9)], [Some(HeldBack(2)), Some(HeldBack(0))]);
        assert_eq!([0, 2].map(|lines| HeldBack(lines).to_string()), ["", " (and 2 before)"]);
    }
}
