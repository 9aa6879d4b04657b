//! A large value on its way from a peer into the pool. It is stored while it arrives, so the server
//! never has the whole of it in memory of its own.
//!
//! A protocol begins an upload once it knows key and length. It passes on what arrives, and sets
//! the key at the end. If the connection ends before, the pool has nothing of the value any more.
//!
//! | limit | why | beyond it |
//! |---|---|---|
//! | at least [`BYTES_MIN`] | a shorter value costs less in one step | it is collected in the server's memory |
//! | uploads and values that are kept for slow peers have at most half of the pool | without room for anything else, each would wait for the others | the same |
//! | a peer is silent for `SILENCE_S_MAX` at most | the upload keeps room of the pool meanwhile | its connection ends |
//! | it sends `RATE_BYTES_PER_S_MIN` in the mean, but for as long as that | the same, if it sends a byte now and then | its connection ends |
//!
//! The arguments behind a value belong to its upload: they do not take longer either.

use atoll_cache::{Cache, CacheError, Engine, SetOptions, SetOutcome, Staged, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A value of so many bytes is stored while it arrives.
pub const BYTES_MIN: usize = 1 << 20;
/// How long a peer may be silent within such a value, in seconds. Then its connection ends.
pub(super) const SILENCE_S_MAX: u64 = 60;
/// Bytes of such a value that a peer sends a second at the least, in the mean over the time for
/// which the server waits for it. So 512 MiB take at most 35 minutes.
const RATE_BYTES_PER_S_MIN: u64 = 256 << 10;
/// Bytes that are read and stored at a time. Others run in between, and the bytes stay in the
/// processor's cache from one copy to the next.
const STEP_BYTES: usize = 256 << 10;

/// How far the upload of a connection is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    is_under_way: AtomicBool,
    /// Bytes of the value that have arrived.
    bytes: AtomicU64,
    /// Seconds for which the server has waited for the peer, as far as it has looked.
    waited_s: AtomicU64,
}

impl Progress {
    /// An upload begins.
    pub(crate) fn begin(&self) {
        self.bytes.store(0, Relaxed);
        self.waited_s.store(0, Relaxed);
        self.is_under_way.store(true, Relaxed);
    }

    /// So many bytes of it have arrived.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// The upload has ended: its command has arrived.
    pub(crate) fn end(&self) {
        self.is_under_way.store(false, Relaxed);
    }

    /// Whether an upload is under way whose peer is too slow. The server looks once a second, and
    /// says whether it waits for the peer and for how long that has been silent.
    pub(super) fn is_too_slow(&self, is_waited_for: bool, silent_s: u64) -> bool {
        if !self.is_under_way.load(Relaxed) {
            return false;
        }
        let waited_s = self.waited_s.fetch_add(is_waited_for.into(), Relaxed) + u64::from(is_waited_for);
        let granted_s = SILENCE_S_MAX + self.bytes.load(Relaxed) / RATE_BYTES_PER_S_MIN;
        silent_s > SILENCE_S_MAX || waited_s > granted_s
    }
}

/// A value that arrives.
#[derive(Debug)]
pub(crate) struct Upload {
    /// As the cache knows it.
    key: Vec<u8>,
    bytes: usize,
    missing: usize,
    /// Or why the value cannot be stored. What arrives is passed over then.
    staged: Result<Staged, CacheError>,
}

impl Upload {
    /// Begins a value of so many bytes for a key, as the cache knows it. `None` if the value is to
    /// be collected first.
    pub(crate) fn begin<G: Engine>(cache: &Cache<G>, key: &[u8], bytes: usize) -> Option<Self> {
        if bytes < BYTES_MIN {
            return None;
        }
        let staged = cache.stage(key, bytes).transpose()?;
        Some(Self { key: key.to_vec(), bytes, missing: bytes, staged })
    }

    /// How long the value will be.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all of it has arrived.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing == 0
    }

    /// Bytes that one step takes at most.
    pub(crate) fn bytes_expected(&self) -> usize {
        self.missing.min(STEP_BYTES)
    }

    /// Stores a part of what has arrived; returns how many bytes that were. Others should run
    /// before the next one.
    pub(crate) async fn take<G: Engine>(&mut self, cache: &Cache<G>, arrived: &[u8]) -> usize {
        let part = &arrived[..arrived.len().min(self.bytes_expected())];
        if let Ok(staged) = &mut self.staged
            && let Err(error) = cache.append_staged(staged, part).await
        {
            self.staged = Err(error);
        }
        self.missing -= part.len();
        part.len()
    }

    /// Sets a key to the value, which has arrived, as [`Cache::set_returning`]. If databases were
    /// swapped meanwhile, the value is another key's: [`CacheError::Overtaken`].
    pub(crate) async fn set<G: Engine>(
        self,
        cache: &Cache<G>,
        key: &[u8],
        options: &SetOptions,
        old_value: Option<&mut Value>,
    ) -> Result<SetOutcome, CacheError> {
        if key != self.key {
            return Err(CacheError::Overtaken);
        }
        cache.set_staged(key, self.staged?, options, old_value).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_sends_a_byte_now_and_then_is_too_slow_and_one_that_the_server_does_not_wait_for_is_not() {
        let progress = Progress::default();
        assert!(!progress.is_too_slow(true, SILENCE_S_MAX + 1), "nothing is under way");
        let looks_until_slow = |rate: u64, is_waited_for: bool| {
            progress.begin();
            let slow = (1..=1000).find(|_| {
                progress.add(rate as usize);
                progress.is_too_slow(is_waited_for, 1)
            });
            progress.end();
            slow
        };
        assert_eq!(looks_until_slow(1, true), Some(SILENCE_S_MAX + 1));
        assert!(looks_until_slow(RATE_BYTES_PER_S_MIN / 2, true).is_some_and(|looks| looks > 2 * SILENCE_S_MAX - 2));
        assert_eq!(looks_until_slow(RATE_BYTES_PER_S_MIN, true), None);
        assert_eq!(looks_until_slow(0, false), None);
        progress.begin();
        assert!(!progress.is_too_slow(true, SILENCE_S_MAX) && progress.is_too_slow(true, SILENCE_S_MAX + 1));
    }
}
