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
    begun: Option<Instant>,
    short: u32,
}

impl Lives {
    /// A client has joined.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
    }

    /// The last one has ended: how long to wait before the next one joins.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        let lived = self.begun.map_or(LIFE_MIN, |begun| now.saturating_duration_since(begun));
        self.short = if lived < LIFE_MIN { self.short + 1 } else { 0 };
        if self.short > SHORT_LIVES_MAX { LIFE_MIN.saturating_sub(lived) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_three_short_lives_in_a_row_the_next_client_waits() {
        let (mut lives, mut now) = (Lives::default(), Instant::now());
        let mut live = |ms| {
            let pause = lives.pause(now);
            lives.begin(now);
            now += Duration::from_millis(ms);
            pause.as_millis()
        };
        let pauses = [100, 100, 100, 100, 1000, 100, 100].map(&mut live);
        assert_eq!(pauses, [0, 0, 0, 0, 900, 0, 0]);
    }
}
