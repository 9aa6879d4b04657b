//! How long a client waits before it looks again at what another client holds up.
//!
//! A client that stands still may hold something up for ever, and each look costs READs. So the
//! looks become rarer: every call looks at first, then one of two, of four, and so on to one of
//! [`CALLS_MAX`]. A change that lost its compare-and-swap pauses, too: see [`pause_ns`].

use atoll_fabric::Endpoint;

/// Calls between two looks, at most.
const CALLS_MAX: u32 = 1024;
/// Attempts of a change that lost its compare-and-swap, after which it pauses before the next one.
const ATTEMPTS_WITHOUT_PAUSE: u32 = 4;

/// How long a change pauses after this attempt, from 0 on, lost its compare-and-swap. Two clients
/// that undo each other's steps part after pauses of different lengths.
#[inline]
pub(crate) fn pause_ns<E: Endpoint>(endpoint: &E, attempt: u32) -> Option<u64> {
    (attempt >= ATTEMPTS_WITHOUT_PAUSE).then(|| endpoint.random() % (100 << attempt.min(10)))
}

/// When the next look is due, in calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    /// Calls left that do not look.
    left: u32,
    /// Calls that did not look before the last look.
    last: u32,
}

impl Backoff {
    /// Whether this call looks. If it does, the next look is farther away. After a look that
    /// changed something, the caller starts with a new [`Backoff`].
    pub(crate) fn is_due(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.last = (2 * self.last + 1).min(CALLS_MAX - 1);
        self.left = self.last;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_and_never_end() {
        let mut backoff = Backoff::default();
        let looks: Vec<u32> = (0..8000).filter(|_| backoff.is_due()).collect();
        assert_eq!(looks[..5], [0, 2, 6, 14, 30]);
        let last = looks.windows(2).map(|pair| pair[1] - pair[0]).next_back();
        assert_eq!((last, looks.len()), (Some(CALLS_MAX), 16));
    }
}
