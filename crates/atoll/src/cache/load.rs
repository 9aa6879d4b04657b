//! One loader for each key, however many threads miss it.
//!
//! The first thread that misses a key loads it. Other threads that miss it wait for the value. If a
//! loader panics, or its future is dropped, its turn passes to a thread that waits. No lock is held
//! while a loader runs, so it may use the cache. A loader must not load its own key: it would wait
//! for itself.
//!
//! If the caller asks for it, a loader holds a **lease** between processes. The lease is a key in
//! the pool: [`LEASE_PREFIX`], then the key that is loaded. A process acquires it by setting it if
//! absent, with an expiry.
//!
//! | another process | then |
//! |---|---|
//! | holds the lease | this process looks for the value from time to time |
//! | dies, or loads for longer than the lease | the lease expires and this process loads; two may load then, and both values are right |

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

/// A lease's key is this prefix and the key that is loaded.
pub const LEASE_PREFIX: &[u8] = b"\0atoll-lease\0";
/// The first and the longest pause between two looks of a process that waits for another process.
const LOOK_FIRST: Duration = Duration::from_micros(100);
const LOOK_LONGEST: Duration = Duration::from_millis(20);
/// Parts of the map of loads, so that threads which load different keys seldom meet.
const PARTS: usize = 16;

/// How long a process that waits for another one sleeps before each further look.
pub(super) fn looks() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(LOOK_FIRST), |look| Some((*look * 2).min(LOOK_LONGEST)))
}

fn lease_key(key: &[u8]) -> Vec<u8> {
    [LEASE_PREFIX, key].concat()
}

/// The result of [`Cache::lease`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lease {
    /// No lease was acquired, because the key is present.
    Value(Vec<u8>),
    /// The caller holds the lease.
    Held {
        /// Releases it: see [`Cache::release_lease`].
        token: u64,
    },
    /// Another caller holds it, in this process or in another.
    Another,
}

/// The result of a lookup of a key that is loaded if absent.
enum Missed<'l, E> {
    /// The key's value, or an error.
    Ended(Result<Vec<u8>, LoadError<E>>),
    /// The turn to load it.
    Mine(Loader<'l>),
}

/// Why a key's value could not be obtained.
#[derive(Debug, thiserror::Error)]
pub enum LoadError<E> {
    /// The operation on the cache failed.
    #[error(transparent)]
    Cache(Error),
    /// The loader failed. All threads that waited for it share its error.
    #[error("the loader failed: {0}")]
    Loader(Arc<E>),
}

/// How a load ended.
#[derive(Clone)]
pub(super) enum Ending {
    Value(Arc<[u8]>),
    Error(Arc<dyn Any + Send + Sync>),
}

/// A load, shared with the threads that wait for it.
#[derive(Default)]
pub(super) struct Load {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// `Some(None)` if the load was given up, so that a waiting thread gets the turn.
    ending: Option<Option<Ending>>,
    waiting: Vec<Waker>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Waits for the end of the load; `None` if it was given up.
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

/// Which thread loads a key.
pub(super) enum Turn<'l> {
    Mine(Loader<'l>),
    Another(Arc<Load>),
}

/// The turn to load a key. If it is dropped before the load has ended, it passes to a waiting
/// thread.
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
    /// Ends the load with the result that the waiting threads get, too.
    pub(super) fn end(mut self, ending: Ending) {
        self.ending = Some(ending);
    }
}

impl Drop for Loader<'_> {
    fn drop(&mut self) {
        // Removed from the map first: a thread that comes now finds the value in the cache.
        self.loads.part(&self.key).remove(&self.key);
        let mut state = locked(&self.load.state);
        state.ending = Some(self.ending.take());
        self.load.ended.notify_all();
        std::mem::take(&mut state.waiting).into_iter().for_each(Waker::wake);
    }
}

/// What a waiting thread gets from the end of a load. Nothing, if the turn passes to that thread,
/// or if the error has another type than its own loader's.
pub(super) fn shared<E: Send + Sync + 'static>(ending: Option<Ending>) -> Option<Result<Vec<u8>, LoadError<E>>> {
    match ending? {
        Ending::Value(value) => Some(Ok(value.to_vec())),
        Ending::Error(error) => Some(Err(LoadError::Loader(error.downcast().ok()?))),
    }
}

impl<F: PoolFabric> Cache<F> {
    /// The value of `key`. If it is absent, `load` makes the value, which is then set. If several
    /// threads miss the key at once, one loads it and all get the value.
    pub fn get_with(&self, key: &[u8], load: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Error> {
        match self.try_get_with(key, || Ok::<_, Infallible>(load())) {
            Ok(value) => Ok(value),
            Err(LoadError::Cache(error)) => Err(error),
            Err(LoadError::Loader(never)) => match *never {},
        }
    }

    /// The same with a loader that may fail. After a failure nothing is set, and all waiting
    /// threads get the error.
    pub fn try_get_with<E: Send + Sync + 'static>(
        &self,
        key: &[u8],
        load: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        match self.missed(key) {
            Missed::Ended(ended) => ended,
            Missed::Mine(loader) => {
                // Another load may have ended since the lookup.
                if let Some(value) = self.get(key).map_err(LoadError::Cache)? {
                    loader.end(Ending::Value(value.as_slice().into()));
                    return Ok(value);
                }
                self.loaded(loader, key, load())
            }
        }
    }

    /// As [`Cache::try_get_with`], but only one process loads the key at a time, among those that
    /// call this. It holds a lease in the pool for at most this long. If that process dies, or
    /// loads for longer, another process loads.
    pub fn try_get_with_lease<E: Send + Sync + 'static>(
        &self,
        key: &[u8],
        lease: Duration,
        load: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        for look in looks() {
            match self.missed(key) {
                Missed::Ended(ended) => return ended,
                Missed::Mine(loader) => match self.lease(key, lease).map_err(LoadError::Cache)? {
                    Lease::Value(value) => {
                        loader.end(Ending::Value(value.as_slice().into()));
                        return Ok(value);
                    }
                    Lease::Held { token } => {
                        let loaded = self.loaded(loader, key, load());
                        self.release_lease(key, token);
                        return loaded;
                    }
                    Lease::Another => {}
                },
            }
            std::thread::sleep(look);
        }
        unreachable!("there is always another look")
    }

    /// The value of a key, or this thread's turn to load it.
    fn missed<E: Send + Sync + 'static>(&self, key: &[u8]) -> Missed<'_, E> {
        loop {
            match self.get(key) {
                Ok(None) => {}
                found => return Missed::Ended(found.map(Option::unwrap_or_default).map_err(LoadError::Cache)),
            }
            match self.0.loads.enter(key) {
                Turn::Mine(loader) => return Missed::Mine(loader),
                Turn::Another(other) => {
                    if let Some(shared) = shared(other.wait()) {
                        return Missed::Ended(shared);
                    }
                }
            }
        }
    }

    /// Tries to acquire the lease of a key, and looks the key up after that. It is for a program
    /// that loads in its own way: the holder sets the key, then releases the lease. If the holder
    /// dies, or holds the lease for longer than `time`, the lease expires.
    ///
    /// [`Cache::try_get_with_lease`] does all of this.
    pub fn lease(&self, key: &[u8], time: Duration) -> Result<Lease, Error> {
        let expiry = Expiry::InMs(super::milliseconds(time));
        let options = SetOptions { condition: Condition::IfAbsent, expiry, ..SetOptions::default() };
        let leased = self.set_with(&lease_key(key), b"", &options)?;
        match self.get(key)? {
            Some(value) => {
                if leased.stored {
                    self.release_lease(key, leased.token);
                }
                Ok(Lease::Value(value))
            }
            None if leased.stored => Ok(Lease::Held { token: leased.token }),
            None => Ok(Lease::Another),
        }
    }

    /// Releases a lease, unless it has expired and another caller holds it.
    pub fn release_lease(&self, key: &[u8], token: u64) {
        // An expiry in the past removes the key. A lease that cannot be released expires.
        let condition = Condition::IfToken(token);
        let over = SetOptions { condition, expiry: Expiry::AtMs(0), ..SetOptions::default() };
        let _ = self.set_with(&lease_key(key), b"", &over);
    }

    /// Sets the loader's value, and ends the load.
    fn loaded<E: Send + Sync + 'static>(
        &self,
        loader: Loader<'_>,
        key: &[u8],
        loaded: Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        // A value that cannot be stored is still returned.
        let is_stored = loaded.as_ref().is_ok_and(|value| self.set(key, value).is_ok());
        self.ended(loader, loaded, is_stored)
    }

    /// Counts the result of a loader, and passes it to the waiting threads.
    pub(super) fn ended<E: Send + Sync + 'static>(
        &self,
        loader: Loader<'_>,
        loaded: Result<Vec<u8>, E>,
        is_stored: bool,
    ) -> Result<Vec<u8>, LoadError<E>> {
        self.0.load_failures.fetch_add((!is_stored).into(), Relaxed);
        match loaded {
            Ok(value) => {
                self.0.loaded.fetch_add(1, Relaxed);
                loader.end(Ending::Value(value.as_slice().into()));
                Ok(value)
            }
            Err(error) => {
                let error = Arc::new(error);
                loader.end(Ending::Error(error.clone()));
                Err(LoadError::Loader(error))
            }
        }
    }
}
