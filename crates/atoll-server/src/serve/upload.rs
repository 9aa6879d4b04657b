//! A large value on its way from a peer into the pool. It is stored while it arrives, so the server
//! never has the whole of it in memory of its own.
//!
//! A protocol begins an upload once it knows key and length. It passes on what arrives, and sets
//! the key at the end. If the connection ends before, the pool has nothing of the value any more.
//!
//! | limit | why |
//! |---|---|
//! | [`BYTES_MIN`] | a shorter value costs less in one step |
//! | all uploads of a server have at most half of the pool | without room for anything else, each would wait for the others |
//! | `SILENCE_S_MAX` | a peer that is silent keeps room of the pool meanwhile |
//!
//! Beyond the second limit a value is collected in the server's memory, as a short one is.

use atoll_cache::{Cache, CacheError, Engine, SetOptions, SetOutcome, Staged, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A value of so many bytes is stored while it arrives.
pub const BYTES_MIN: usize = 1 << 20;
/// How long a peer may be silent within such a value, in seconds. Then its connection ends.
pub(super) const SILENCE_S_MAX: u64 = 60;
/// Bytes that are read and stored at a time. Others run in between, and the bytes stay in the
/// processor's cache from one copy to the next.
const STEP_BYTES: usize = 256 << 10;

/// The bytes that all uploads of a server will have.
#[derive(Clone, Debug, Default)]
pub struct Uploads(Arc<AtomicUsize>);

/// A part of [`Uploads`], until it is dropped.
#[derive(Debug)]
struct Share(Uploads, usize);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Relaxed);
    }
}

impl Uploads {
    /// The bytes that the uploads under way will have.
    pub fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn share(&self, bytes: usize, most: usize) -> Option<Share> {
        let added = |sum: usize| sum.checked_add(bytes).filter(|sum| *sum <= most);
        self.0.fetch_update(Relaxed, Relaxed, added).ok().map(|_| Share(self.clone(), bytes))
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
    _share: Option<Share>,
}

impl Upload {
    /// Begins a value of so many bytes for a key, as the cache knows it. `None` if the value is to
    /// be collected first.
    pub(crate) fn begin<G: Engine>(cache: &Cache<G>, uploads: &Uploads, key: &[u8], bytes: usize) -> Option<Self> {
        if bytes < BYTES_MIN {
            return None;
        }
        let (staged, share) = match cache.stage(key, bytes) {
            Ok(staged) => (Ok(staged?), Some(uploads.share(bytes, cache.value_bytes_max())?)),
            Err(error) => (Err(error), None),
        };
        Some(Self { key: key.to_vec(), bytes, missing: bytes, staged, _share: share })
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
    fn uploads_have_a_part_of_the_pool_together_and_give_it_back() {
        let uploads = Uploads::default();
        let first = uploads.share(60, 100).unwrap();
        assert!(uploads.share(41, 100).is_none() && uploads.share(usize::MAX, 100).is_none());
        let second = uploads.share(40, 100).unwrap();
        assert_eq!(uploads.bytes(), 100);
        drop(first);
        assert!(uploads.share(60, 100).is_some());
        drop(second);
        assert_eq!(uploads.bytes(), 0);
    }
}
