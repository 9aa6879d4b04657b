//! Large values piece by piece: they are stored while they arrive, and read while they are used.

use super::{Cache, SetOptions, SetOutcome, checked};
use crate::{CacheError, Engine, Lookup, Reading, Staged, Value};
use std::borrow::Cow;

/// What a [`Cache::get_or_open`] has found.
#[derive(Debug)]
pub enum Got {
    /// The key is not there.
    Absent,
    /// The value is in the caller's place.
    Value,
    /// The value is open.
    Open(Box<Reading>),
}

impl<G: Engine> Cache<G> {
    /// As [`get`](Self::get), but a value of at least `bytes_min` bytes may come open: its bytes
    /// are still to be read, by [`read_on`](Self::read_on), and it is not copied as a whole.
    #[inline]
    pub async fn get_or_open(&self, key: &[u8], into: &mut Value, bytes_min: usize) -> Result<Got, CacheError> {
        if self.is_held() || !self.engine.opens_values() {
            return Ok(if self.get(key, into).await? { Got::Value } else { Got::Absent });
        }
        into.defers_from = bytes_min;
        let looked = self.engine.get(checked(key)?, into).await;
        into.defers_from = usize::MAX;
        match looked? {
            Lookup::Hit if into.deferred.is_some() => Box::pin(self.open_left(key, into)).await,
            Lookup::Hit => Ok(Got::Value),
            _ => Ok(Got::Absent),
        }
    }

    async fn open_left(&self, key: &[u8], into: &mut Value) -> Result<Got, CacheError> {
        let opened = self.engine.open_value(key, into).await?;
        into.clear();
        match opened {
            Some(reading) => Ok(Got::Open(Box::new(reading))),
            None => Ok(if self.get(key, into).await? { Got::Value } else { Got::Absent }),
        }
    }

    /// Reads the next bytes of an open value, as many as `into` has: a multiple of 4 KiB, or all
    /// that are missing. `false` if they are not the object's: another process of the pool has
    /// replaced or evicted it meanwhile, and the value is to be dropped.
    ///
    /// # Panics
    /// If `into` has another number of bytes.
    pub async fn read_on(&self, reading: &mut Reading, into: &mut [u8]) -> Result<bool, CacheError> {
        self.engine.read_on(reading, into).await
    }

    /// Begins a value of so many bytes for `key` that is stored while it arrives:
    /// [`append_staged`](Self::append_staged) appends its bytes, and
    /// [`set_staged`](Self::set_staged) sets the key to it. Until then it is no object's. Dropped
    /// before, it leaves nothing behind. `None` if a value of this length is stored in one step
    /// only, or if such values and those that are kept for slow readers would have too much of the
    /// pool.
    pub fn stage(&self, key: &[u8], value_bytes: usize) -> Result<Option<Staged>, CacheError> {
        self.checked_length(value_bytes)?;
        Ok(self.engine.stage(checked(key)?, value_bytes))
    }

    /// Appends bytes to a value that this client has begun. After an error the value is to be
    /// dropped.
    ///
    /// # Panics
    /// If there are more bytes than the value is missing.
    pub async fn append_staged(&self, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        assert!(bytes.len() <= staged.missing_bytes(), "a value has as many bytes as were announced");
        self.engine.append_staged(staged, bytes).await
    }

    /// As [`set_returning`](Self::set_returning), to a value that was staged for `key` and has all
    /// its bytes.
    ///
    /// # Panics
    /// If it has not, or was staged for another key.
    pub async fn set_staged(
        &self,
        key: &[u8],
        staged: Staged,
        options: &SetOptions,
        old_value: Option<&mut Value>,
    ) -> Result<SetOutcome, CacheError> {
        self.let_go_if_held().await?;
        self.put(key, (Cow::Borrowed(&[]), Some(staged)), options, old_value).await
    }
}
