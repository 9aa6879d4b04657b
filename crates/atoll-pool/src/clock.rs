//! The pool's clock, which judges expiry: one word of milliseconds since the Unix epoch that only ever grows.
//!
//! Clients advance it to their own wall clock. Each keeps the word's last value and lets it run on with its monotone clock for at
//! most [`REFRESH_NS`] before it looks again, so that one client sees an object expire at most [`SKEW_MS`] before another. Whoever is
//! about to tell somebody that an object has expired first advances the word to that moment, so that nobody who looks at the word
//! afterwards can find it live.

use crate::{Layout, read_word};
use atoll_fabric::{Batch, Endpoint, VerbError};

/// How long a client trusts its own running copy.
pub const REFRESH_NS: u64 = 1_000_000;
/// How much earlier one client may see an object expire than another, in milliseconds.
pub const SKEW_MS: u64 = 2;

/// One client's running copy of the pool's clock.
#[derive(Clone, Debug, Default)]
pub struct PoolClock {
    /// The largest value of the word that this client knows; the word is at least this.
    known_ms: u64,
    /// When it was read, on the endpoint's monotone clock.
    read_ns: u64,
    fresh: bool,
}

impl PoolClock {
    /// The time by the running copy, if that is young enough.
    #[inline]
    pub fn running_ms(&self, now_ns: u64) -> Option<u64> {
        let age_ns = now_ns.wrapping_sub(self.read_ns);
        (self.fresh && age_ns < REFRESH_NS).then_some(self.known_ms.saturating_add(age_ns / 1_000_000))
    }

    /// The time by the running copy in microseconds, however old that is: for what need not be exact. Of two clients of one host it may differ by
    /// [`SKEW_MS`].
    #[inline]
    pub fn about_us(&self, now_ns: u64) -> u64 {
        self.known_ms.saturating_mul(1000).saturating_add(now_ns.wrapping_sub(self.read_ns) / 1000)
    }

    /// The time, reading the word if the copy is older than [`REFRESH_NS`]. `now_ns` is the endpoint's monotone clock.
    #[inline]
    pub async fn now_ms<E: Endpoint>(&mut self, endpoint: &E, layout: &Layout, now_ns: u64) -> Result<u64, VerbError> {
        if let Some(ms) = self.running_ms(now_ns) {
            return Ok(ms);
        }
        self.refresh(endpoint, layout, endpoint.unix_ms()).await?;
        self.read_ns = now_ns;
        Ok(self.known_ms)
    }

    /// Advances the word to at least `ms`.
    pub async fn advance<E: Endpoint>(&mut self, endpoint: &E, layout: &Layout, ms: u64) -> Result<(), VerbError> {
        if ms > self.known_ms { self.refresh(endpoint, layout, ms).await } else { Ok(()) }
    }

    async fn refresh<E: Endpoint>(&mut self, endpoint: &E, layout: &Layout, at_least_ms: u64) -> Result<(), VerbError> {
        let mut word = read_word(endpoint, layout.clock()).await?;
        while word < at_least_ms {
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(layout.clock(), word, at_least_ms);
            endpoint.post(&mut batch).await?;
            word = if batch.swapped(swap) { at_least_ms } else { batch.word(swap) };
        }
        self.known_ms = self.known_ms.max(word);
        self.fresh = true;
        Ok(())
    }
}
