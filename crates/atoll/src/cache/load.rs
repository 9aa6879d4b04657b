//! One loader for each key, whoever misses it.
//!
//! Threads that miss the same key at the same time wait for the first of them, which loads it. A
//! loader that panics, or whose future is dropped, passes its turn to one that waits. No lock is
//! held while a loader runs, so that it may use the cache itself; but not for the key that it
//! loads: that would wait for itself.
//!
//! Across processes, whoever asks for it takes a **lease** first: a key of its own in the pool,
//! [`LEASE_PREFIX`] and the key, set if it is absent, for a limited time. Others look from time to
//! time whether the value has come. When the holder dies, or takes longer than the lease, the lease
//! expires, and another one takes it: two may load then, and both are right.

use super::{Cache, Error};
use crate::fabric::PoolFabric;
use atoll_cache::{Condition, Expiry, SetOptions};
use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The key of a lease is this and the key that is loaded.
pub const LEASE_PREFIX: &[u8] = b"\0atoll-lease\0";
/// How often one looks that waits for another process: at first, and at the longest.
const LOOK_FIRST: Duration = Duration::from_micros(100);
const LOOK_LONGEST: Duration = Duration::from_millis(20);
/// Parts of the map of loads, so that threads that load different keys meet seldom.
const PARTS: usize = 16;

/// Why a value could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError<E> {
    /// The cache could not be asked.
    #[error(transparent)]
    Cache(Error),
    /// The loader failed; all that waited for it share its error.
    #[error("the loader failed: {0}")]
    Loader(Arc<E>),
}

/// How a load ended.
#[derive(Clone)]
pub(super) enum Ending {
    Value(Arc<[u8]>),
    Error(Arc<dyn Any + Send + Sync>),
}

/// A load, for those who wait for it.
#[derive(Default)]
pub(super) struct Load {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// `Some(None)` if it was given up, so that another one takes the turn.
    ending: Option<Option<Ending>>,
    waiting: Vec<Waker>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Waits for its end; `None` if it was given up.
    fn wait(&self) -> Option<Ending> {
        let state = locked(&self.state);
        let state = self.ended.wait_while(state, |state| state.ending.is_none());
        state.unwrap_or_else(PoisonError::into_inner).ending.clone().flatten()
    }

    /// The same for a future.
    pub(super) fn poll_wait(&self, context: &mut Context<'_>) -> Poll<Option<Ending>> {
        let mut state = locked(&self.state);
        match &state.ending {
            Some(ending) => Poll::Ready(ending.clone()),
            None => {
                state.waiting.push(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The loads that are under way.
#[derive(Default)]
pub(super) struct Loads {
    hasher: RandomState,
    parts: [Mutex<HashMap<Vec<u8>, Arc<Load>>>; PARTS],
}

/// Whose turn it is to load a key.
pub(super) enum Turn<'l> {
    Mine(Loader<'l>),
    Another(Arc<Load>),
}

/// The turn of whoever loads. Dropped without an end, it passes to another.
pub(super) struct Loader<'l> {
    loads: &'l Loads,
    key: Vec<u8>,
    load: Arc<Load>,
    ending: Option<Ending>,
}

impl Loads {
    fn part(&self, key: &[u8]) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Load>>> {
        locked(&self.parts[self.hasher.hash_one(key) as usize % PARTS])
    }

    pub(super) fn enter(&self, key: &[u8]) -> Turn<'_> {
        match self.part(key).entry(key.to_vec()) {
            Entry::Occupied(load) => Turn::Another(load.get().clone()),
            Entry::Vacant(vacant) => {
                let load = vacant.insert(Arc::default()).clone();
                Turn::Mine(Loader { loads: self, key: key.to_vec(), load, ending: None })
            }
        }
    }
}

impl Loader<'_> {
    /// Ends with what all others shall have, too.
    pub(super) fn end(mut self, ending: Ending) {
        self.ending = Some(ending);
    }
}

impl Drop for Loader<'_> {
    fn drop(&mut self) {
        // Out of the map first: whoever comes now looks into the cache, which has the value.
        self.loads.part(&self.key).remove(&self.key);
        let mut state = locked(&self.load.state);
        state.ending = Some(self.ending.take());
        self.load.ended.notify_all();
        std::mem::take(&mut state.waiting).into_iter().for_each(Waker::wake);
    }
}

/// What somebody who waited makes of an end: nothing, if the turn passes to him, or if the error is
/// of another kind than his loader's.
pub(super) fn shared<E: Send + Sync + 'static>(ending: Option<Ending>) -> Option<Result<Vec<u8>, LoadError<E>>> {
    match ending? {
        Ending::Value(value) => Some(Ok(value.to_vec())),
        Ending::Error(error) => Some(Err(LoadError::Loader(error.downcast().ok()?))),
    }
}

impl<F: PoolFabric> Cache<F> {
    /// The value of `key`; where it is not there, what `load` gives, which is then set. Of threads
    /// that miss a key at the same time one loads it, and all have the value.
    pub fn get_with(&self, key: &[u8], load: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Error> {
        match self.try_get_with(key, || Ok::<_, Infallible>(load())) {
            Ok(value) => Ok(value),
            Err(LoadError::Cache(error)) => Err(error),
            Err(LoadError::Loader(never)) => match *never {},
        }
    }

    /// The same with a loader that may fail: nothing is set then, and all that waited have its
    /// error.
    pub fn try_get_with<E: Send + Sync + 'static>(
        &self,
        key: &[u8],
        load: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        loop {
            if let Some(value) = self.get(key).map_err(LoadError::Cache)? {
                return Ok(value);
            }
            match self.0.loads.enter(key) {
                Turn::Another(other) => {
                    if let Some(shared) = shared(other.wait()) {
                        return shared;
                    }
                }
                Turn::Mine(loader) => {
                    // Another one may have ended since the look.
                    if let Some(value) = self.get(key).map_err(LoadError::Cache)? {
                        loader.end(Ending::Value(value.as_slice().into()));
                        return Ok(value);
                    }
                    return self.loaded(loader, key, load());
                }
            }
        }
    }

    /// As [`Cache::try_get_with`], and of all processes that ask so, one loads: it holds a lease in
    /// the pool for at most so long. If its process dies, or the load takes longer, another one
    /// loads.
    pub fn try_get_with_lease<E: Send + Sync + 'static>(
        &self,
        key: &[u8],
        lease: Duration,
        load: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        let mut load = Some(load);
        let lease_key = [LEASE_PREFIX, key].concat();
        let options = SetOptions { condition: Condition::IfAbsent, expiry: Expiry::InMs(super::milliseconds(lease)) };
        let mut look = LOOK_FIRST;
        loop {
            let leased = |loader: Loader<'_>| -> Result<Option<Vec<u8>>, LoadError<E>> {
                let taken = self.set_with(&lease_key, b"", &options).map_err(LoadError::Cache)?;
                // Whoever had the lease before may have set the value before it gave the lease
                // back.
                let value = self.get(key).map_err(LoadError::Cache)?;
                if let Some(value) = value {
                    loader.end(Ending::Value(value.as_slice().into()));
                    return Ok(Some(value));
                }
                let Some(load) = load.take_if(|_| taken.stored) else { return Ok(None) };
                let loaded = self.loaded(loader, key, load());
                let condition = taken.token;
                self.give_back(&lease_key, condition);
                loaded.map(Some)
            };
            if let Some(value) = self.get(key).map_err(LoadError::Cache)? {
                return Ok(value);
            }
            match self.0.loads.enter(key) {
                Turn::Another(other) => {
                    if let Some(shared) = shared(other.wait()) {
                        return shared;
                    }
                }
                Turn::Mine(loader) => {
                    let mut leased = leased;
                    if let Some(value) = leased(loader)? {
                        return Ok(value);
                    }
                }
            }
            std::thread::sleep(look);
            look = (look * 2).min(LOOK_LONGEST);
        }
    }

    /// Gives a lease back, unless it has expired and is another's.
    fn give_back(&self, lease_key: &[u8], token: u64) {
        // A moment that is over removes the key. What cannot be given back expires.
        let over = SetOptions { condition: Condition::IfToken(token), expiry: Expiry::AtMs(0) };
        let _ = self.set_with(lease_key, b"", &over);
    }

    /// Sets what a loader gave, and tells those who wait.
    pub(super) fn loaded<E: Send + Sync + 'static>(
        &self,
        loader: Loader<'_>,
        key: &[u8],
        loaded: Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        match loaded {
            Ok(value) => {
                self.0.loaded.fetch_add(1, Relaxed);
                // A value that cannot be stored is a value all the same.
                let is_stored = self.set(key, &value).is_ok();
                self.0.load_failures.fetch_add((!is_stored).into(), Relaxed);
                loader.end(Ending::Value(value.as_slice().into()));
                Ok(value)
            }
            Err(error) => {
                self.0.load_failures.fetch_add(1, Relaxed);
                let error = Arc::new(error);
                loader.end(Ending::Error(error.clone()));
                Err(LoadError::Loader(error))
            }
        }
    }
}
