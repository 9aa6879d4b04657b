//! The few clients of a pool that the threads of a process share.
//!
//! A thread tries the client of its own number first, so that threads seldom meet. If that client
//! is busy, the thread takes a free client. If none is free, one more client joins, within the
//! limits of the cache and the pool. If none can join, the thread waits for the client of its
//! number.
//!
//! | the client was | then |
//! |---|---|
//! | shut out, and an operation that changes nothing found it | another client joins, and repeats the operation |
//! | shut out, and a change found it | the change returns the error, because it may have happened; another client joins for the next operation |

use super::Error;
use super::listener::Listener;
use crate::client::Client;
use crate::fabric::{ForkGuard, PoolFabric};
use crate::{OpenError, Pool};
use atoll_cache::{CacheError, Removal, Stats};
use atoll_pool::PoolError;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// How often the pool is tended.
const TEND_PERIOD: Duration = Duration::from_millis(100);
/// Replacement clients that may join for one operation.
const JOINS_MAX: u32 = 3;

thread_local! {
    /// The number of this thread, by which it chooses its client.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if NUMBER.get() == usize::MAX {
        NUMBER.set(NEXT.fetch_add(1, Relaxed));
    }
    NUMBER.get()
}

/// A client on cache lines of its own.
#[repr(align(128))]
struct Slot<F: PoolFabric>(Mutex<Option<Client<F>>>);

type Locked<'a, F> = MutexGuard<'a, Option<Client<F>>>;

impl<F: PoolFabric> Slot<F> {
    fn lock(&self) -> Locked<'_, F> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn try_lock(&self) -> Option<Locked<'_, F>> {
        match self.0.try_lock() {
            Ok(locked) => Some(locked),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The clients.
pub(super) struct Clients<F: PoolFabric> {
    slots: Box<[Slot<F>]>,
    /// Slots whose client has joined: the first ones.
    joined: AtomicUsize,
    /// Whether one more client may join.
    may_join: Mutex<bool>,
    /// What the clients that have left have counted.
    before: Mutex<Stats>,
    listener: Option<Listener>,
    pool: Pool<F>,
    /// Has `process` as its number in the process that made this, and in no fork of it.
    guard: ForkGuard,
    process: u64,
}

impl<F: PoolFabric> Clients<F> {
    pub(super) fn new(pool: &Pool<F>, most: usize, listener: Option<Listener>) -> Result<Self, OpenError> {
        let first = joined(pool, listener.is_some())?;
        let rest = (1..most).map(|_| Slot(Mutex::new(None)));
        let slots = std::iter::once(Slot(Mutex::new(Some(first)))).chain(rest).collect();
        let (joined, may_join) = (AtomicUsize::new(1), Mutex::new(true));
        let (before, pool) = (Mutex::default(), pool.clone());
        let (guard, process) = ForkGuard::new();
        Ok(Self { slots, joined, may_join, before, listener, pool, guard, process })
    }

    pub(super) fn pool(&self) -> &Pool<F> {
        &self.pool
    }

    #[inline]
    pub(super) fn is_inherited(&self) -> bool {
        self.guard.number() != self.process
    }

    fn join(&self) -> Result<Client<F>, OpenError> {
        joined(&self.pool, self.listener.is_some())
    }

    /// A client for this thread. The slot is empty only if its client was shut out and none could
    /// join.
    #[inline]
    fn claim(&self) -> Locked<'_, F> {
        let own = thread_number() % self.joined.load(Relaxed);
        match self.slots[own].try_lock() {
            Some(locked) => locked,
            None => self.claim_another(own),
        }
    }

    #[cold]
    fn claim_another(&self, own: usize) -> Locked<'_, F> {
        let joined = self.joined.load(Relaxed);
        let free = (own..own + joined).find_map(|index| self.slots[index % joined].try_lock());
        free.or_else(|| self.join_another()).unwrap_or_else(|| self.slots[own].lock())
    }

    /// Joins one more client, if the cache may have one and the pool has a place for it. One thread
    /// tries at a time. After a refusal no thread tries again, because a refusal takes long.
    fn join_another(&self) -> Option<Locked<'_, F>> {
        let mut may_join = self.may_join.try_lock().ok().filter(|may_join| **may_join)?;
        let next = self.joined.load(Relaxed);
        let slot = self.slots.get(next)?;
        let client = self.join().ok();
        *may_join = client.is_some();
        let mut locked = slot.lock();
        *locked = Some(client?);
        self.joined.store(next + 1, Relaxed);
        Some(locked)
    }

    /// Runs an operation with a client, and passes what the client has removed to the listener, if
    /// there is one. An operation `is_harmless` if it changes nothing, or if running it twice does
    /// no harm.
    #[inline]
    pub(super) fn with<T>(
        &self,
        mut operation: impl FnMut(&mut Client<F>) -> Result<T, CacheError>,
        is_harmless: bool,
    ) -> Result<T, Error> {
        match &self.listener {
            None => self.with_quiet(operation, is_harmless),
            Some(listener) => self.with_told(listener, &mut operation, is_harmless),
        }
    }

    #[cold]
    fn with_told<T>(
        &self,
        listener: &Listener,
        operation: &mut dyn FnMut(&mut Client<F>) -> Result<T, CacheError>,
        is_harmless: bool,
    ) -> Result<T, Error> {
        let mut removals = Vec::new();
        let noting = |client: &mut Client<F>| {
            let done = operation(client);
            removals.append(&mut client.take_removals());
            done
        };
        let done = self.with_quiet(noting, is_harmless);
        listener.tell(removals);
        done
    }

    /// The same without a listener.
    #[inline]
    pub(super) fn with_quiet<T>(
        &self,
        mut operation: impl FnMut(&mut Client<F>) -> Result<T, CacheError>,
        is_harmless: bool,
    ) -> Result<T, Error> {
        for joined in 0.. {
            let mut locked = self.claim();
            let Some(client) = &mut *locked else {
                *locked = Some(self.join()?);
                continue;
            };
            match operation(client) {
                Err(error) if error.is_shut_out() => {
                    self.replace(&mut locked);
                    if !is_harmless || joined >= JOINS_MAX {
                        return Err(error.into());
                    }
                }
                done => return Ok(done?),
            }
        }
        unreachable!("it ends after {JOINS_MAX} clients")
    }

    /// Drops a client that was shut out, and joins another one if the pool has a place.
    #[cold]
    fn replace(&self, locked: &mut Locked<'_, F>) {
        if let Some(lost) = locked.take() {
            self.before.lock().unwrap_or_else(PoisonError::into_inner).add(&lost.stats());
        }
        **locked = self.join().ok();
    }

    pub(super) fn stats(&self) -> Stats {
        let mut all = *self.before.lock().unwrap_or_else(PoisonError::into_inner);
        self.slots.iter().filter_map(|slot| slot.lock().as_ref().map(Client::stats)).for_each(|stats| all.add(&stats));
        all
    }

    /// Starts the thread that tends the pool. It ends when only the thread holds the clients.
    pub(super) fn tend_regularly(self: Arc<Self>) -> std::io::Result<Turns> {
        let clients: Weak<Self> = Arc::downgrade(&self);
        let turns = Turns::default();
        let lock = turns.0.clone();
        let listener = self.listener.clone();
        let tend = move || {
            loop {
                std::thread::sleep(TEND_PERIOD);
                let turn = lock.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(clients) = clients.upgrade() else { return };
                let removals = clients.tend();
                drop(clients);
                drop(turn);
                // After the turn: a listener may drop the cache, or wait for a thread that does.
                if let Some(listener) = &listener {
                    listener.tell(removals);
                }
            }
        };
        std::thread::Builder::new().name("atoll-tend".to_owned()).spawn(tend)?;
        Ok(turns)
    }

    /// Tends the pool. Gives what its clients have removed, if there is a listener.
    fn tend(&self) -> Vec<Removal> {
        let mut removals = Vec::new();
        for slot in &self.slots {
            // A thread that uses this client tends the pool through its operations.
            let Some(mut locked) = slot.try_lock() else { continue };
            let tended = locked.as_mut().map(Client::tend);
            if let Some(client) = locked.as_ref().filter(|_| self.listener.is_some()) {
                removals.append(&mut client.take_removals());
            }
            if tended.is_some_and(|tended| tended.is_err_and(|error| error.is_shut_out())) {
                self.replace(&mut locked);
            }
        }
        removals
    }
}

/// The turns of the thread that tends the pool, which holds the lock as long as it holds the
/// clients. A cache drops its clients first, and this next: then they have left the pool.
#[derive(Default)]
pub(super) struct Turns(Arc<Mutex<()>>);

impl Drop for Turns {
    /// Waits until a turn that has begun is over.
    fn drop(&mut self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<F: PoolFabric> Drop for Clients<F> {
    /// Waits for the fabric until the clients have left.
    fn drop(&mut self) {
        for Slot(client) in &mut self.slots {
            let client = client.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            // Other clients find out that a client which cannot leave is dead.
            let _ = client.map(Client::leave);
        }
    }
}

/// Joins a new client, which records its removals if there is a listener.
fn joined<F: PoolFabric>(pool: &Pool<F>, notes: bool) -> Result<Client<F>, OpenError> {
    let client = pool.client()?;
    if notes {
        client.note_removals();
    }
    Ok(client)
}

impl Error {
    /// Whether the pool has no place for another client.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Open(OpenError::Pool(PoolError::Full { .. })))
    }
}
