//! How long the last clients of a worker lived, and when the next one joins.
//!
//! A client that cannot reach a memory node is shut out as soon as it has joined. Each new one is
//! work for the pool's other clients.

use std::time::{Duration, Instant};

/// A client that lives shorter has a short life.
const LIFE_MIN: Duration = Duration::from_secs(1);
/// After so many short lives in a row the next client joins no sooner than [`LIFE_MIN`] after the
/// last one has.
const SHORT_LIVES_MAX: u32 = 3;

/// The last clients.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// When the present client joined; `None` once its end is counted.
    begun: Option<Instant>,
    /// Short lives in a row.
    short: u32,
    /// When the next client may join.
    next: Option<Instant>,
}

impl Lives {
    /// A client has joined.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
    }

    /// The client has ended: how long to wait before the next one joins.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        if let Some(begun) = self.begun.take() {
            let is_short = now.saturating_duration_since(begun) < LIFE_MIN;
            self.short = if is_short { self.short + 1 } else { 0 };
            self.next = (self.short > SHORT_LIVES_MAX).then_some(begun + LIFE_MIN);
        }
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_three_short_lives_in_a_row_the_next_client_waits() {
        let (mut lives, mut now) = (Lives::default(), Instant::now());
        let mut live = |ms| {
            lives.begin(now);
            now += Duration::from_millis(ms);
            // A join that fails is tried again.
            let pauses = [lives.pause(now), lives.pause(now)];
            assert_eq!(pauses[0], pauses[1]);
            now += pauses[0];
            pauses[0].as_millis()
        };
        assert_eq!([100, 100, 100, 100, 300, 1100, 100, 100].map(&mut live), [0, 0, 0, 900, 700, 0, 0, 0]);
    }
}
