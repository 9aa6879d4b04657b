//! Lines of the log that peers cause: no peer can flood the log.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lets one line a second through, and counts those that it holds back.
#[derive(Debug, Default)]
pub struct Pace {
    /// The second of the last line.
    told_s: AtomicU64,
    held_back: AtomicU64,
}

impl Pace {
    /// At its first line.
    pub const fn new() -> Self {
        Self { told_s: AtomicU64::new(0), held_back: AtomicU64::new(0) }
    }

    /// Whether a line may be told now, and how many were held back before it.
    pub fn line(&self) -> Option<u64> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.line_at(now_s)
    }

    fn line_at(&self, now_s: u64) -> Option<u64> {
        if self.told_s.swap(now_s, Relaxed) == now_s {
            self.held_back.fetch_add(1, Relaxed);
            return None;
        }
        Some(self.held_back.swap(0, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_is_told_and_the_others_are_counted() {
        let pace = Pace::new();
        assert_eq!([pace.line_at(7), pace.line_at(7), pace.line_at(7)], [Some(0), None, None]);
        assert_eq!([pace.line_at(8), pace.line_at(9)], [Some(2), Some(0)]);
    }
}
