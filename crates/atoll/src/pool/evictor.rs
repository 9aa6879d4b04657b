//! A thread that evicts ahead of need, so that a writer seldom has to.
//!
//! A handle from an open of the pool has at most one, if the program asks for it
//! ([`Pool::evict_ahead`](super::Pool::evict_ahead)). The thread begins when a writer of this
//! process finds few chunks free. Its client makes room for all writers of the process: see
//! [`Reserve`]. A writer never waits for it.
//!
//! | the evictor | when |
//! |---|---|
//! | steps | few chunks are free |
//! | looks again after [`POLL_PERIOD`] | enough are free, and were not [`POLLS`] looks ago |
//! | sleeps until a writer wakes it, and tends its client every [`TEND_PERIOD`] | otherwise |
//! | leaves the pool, and sleeps | no writer has woken it for [`IDLE_PERIOD`] |
//! | leaves the pool, and sleeps | the program asks for removals, or a client has died and the count of free chunks may be wrong |
//! | stays out of the pool for [`REFUSED_PERIOD`] | it could not join, or its client has failed |
//!
//! Its client takes a place of the pool. So that programs can use all places, it joins only while
//! less than half of them are in use, and leaves once more than three quarters are. A program that
//! finds no free place tries again for so long that evictors have left: see `recovery`.
//!
//! The thread runs at idle priority. Where all processors are busy it stands still, and writers
//! make room themselves, as without it. No client waits for a client that stands still.
//!
//! Over a network there is no evictor. There another client costs every client: more leases to
//! look at, and more protections to READ before a chunk is reused.

use super::{Opened, count_join};
use crate::fabric::{EndpointOf, ForkGuard, PoolFabric};
use atoll_cache::{Ahead, CacheError, Chosen, ChosenPool, Engine, Reserve};
use atoll_fabric::{CostClass, Endpoint, Reach, block_on, run_at_idle_priority};
use atoll_pool::registry::{self, PlaceState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks while writers use chunks. A writer uses a chunk in about this time.
const POLL_PERIOD: Duration = Duration::from_micros(50);
/// Looks without work after which the thread sleeps.
const POLLS: u32 = 40;
/// How often an idle evictor tends its client.
pub(super) const TEND_PERIOD: Duration = Duration::from_millis(100);
/// After so long without work an evictor leaves the pool.
const IDLE_PERIOD: Duration = Duration::from_secs(5);
/// After so long an evictor that was refused may try again.
const REFUSED_PERIOD: Duration = Duration::from_secs(1);
/// In a pool with fewer places there is no evictor.
pub(super) const PLACES_LEAST: u32 = 8;

/// The evictor of a pool that a process has open. Dropping it ends its thread.
pub(super) struct Evictor<F: PoolFabric>(Option<Arc<Driver<F>>>);

/// What the thread and those who wake it share.
struct Driver<F: PoolFabric> {
    reach: Arc<F::Reach>,
    chosen: ChosenPool,
    is_over: AtomicBool,
    /// `None` until the first wake.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Has `process` as its number in the process that made this, and in no fork of it.
    guard: ForkGuard,
    process: u64,
}

impl<F: PoolFabric> Evictor<F> {
    /// No evictor.
    pub(super) const NONE: Self = Self(None);

    /// Whether there is one.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// The evictor of a pool: its thread begins once a writer is short of chunks.
    pub(super) fn new(opened: &Opened<F>) -> Self {
        let (reach, chosen) = (opened.reach.clone(), opened.chosen.clone());
        let is_wanted = chosen.reserve().is_some() && chosen.pool().settings.clients_max >= PLACES_LEAST;
        let is_near = opened.fabric.cost_class() != CostClass::Network && opened.endpoint().is_near();
        if !is_wanted || !is_near {
            return Self::NONE;
        }
        let (guard, process) = ForkGuard::new();
        let (is_over, thread) = (AtomicBool::new(false), Mutex::default());
        let driver = Arc::new(Driver { reach, chosen, is_over, thread, guard, process });
        if !driver.reserve().attend(Waker::from(driver.clone())) {
            // This process is a fork, and the evictor is its parent's.
            return Self::NONE;
        }
        driver.reserve().sleep();
        Self(Some(driver))
    }
}

impl<F: PoolFabric> Drop for Evictor<F> {
    fn drop(&mut self) {
        let Some(driver) = self.0.take() else { return };
        if driver.is_inherited() {
            // The thread is the parent's. It may hold any lock.
            std::mem::forget(driver);
            return;
        }
        driver.is_over.store(true, Relaxed);
        let thread = driver.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // By now its panic, if any, was reported.
            let _ = thread.join();
        }
        // Not before: without a driver its last step hands over no counts.
        driver.reserve().leave();
    }
}

impl<F: PoolFabric> Wake for Driver<F> {
    fn wake(self: Arc<Self>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        match &*thread {
            Some(thread) => thread.thread().unpark(),
            None if self.is_over.load(Relaxed) => {}
            None => {
                let driver = self.clone();
                let builder = std::thread::Builder::new().name("atoll-evictor".to_owned());
                // Without a thread writers make all room themselves.
                *thread = builder.spawn(move || driver.drive()).ok();
            }
        }
    }
}

impl<F: PoolFabric> Driver<F> {
    fn reserve(&self) -> &Reserve {
        self.chosen.reserve().expect("it was there when the evictor was made")
    }

    fn is_inherited(&self) -> bool {
        self.guard.number() != self.process
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Sleeps until a writer is short of chunks, the time is over, or the thread is to end.
    fn sleep(&self, time: Duration) {
        if !self.is_over() {
            std::thread::park_timeout(time);
        }
    }

    /// The thread.
    fn drive(&self) {
        // On a busy host it would take a processor from the writers, which make room as fast.
        run_at_idle_priority();
        while !self.is_over() {
            match self.join() {
                Some(client) => {
                    let attended = self.attend(&client);
                    let left = block_on(&client.client().endpoint, client.leave());
                    if attended.and(left).is_err() {
                        self.sleep(REFUSED_PERIOD);
                    }
                }
                None => self.sleep(REFUSED_PERIOD),
            }
            self.reserve().sleep();
            if !self.is_over() {
                std::thread::park();
            }
        }
    }

    /// Joins the pool, if enough places are free.
    fn join(&self) -> Option<Chosen<EndpointOf<F>>> {
        let endpoint = self.reach.endpoint();
        if self.places_used(&endpoint)? * 2 >= self.places() {
            return None;
        }
        let client = block_on(&endpoint, self.chosen.join(self.reach.endpoint())).ok()?;
        count_join::<F>(&self.reach, &self.chosen, &client).ok()?;
        Some(client)
    }

    fn places(&self) -> u32 {
        self.chosen.pool().settings.clients_max
    }

    fn places_used(&self, endpoint: &impl Endpoint) -> Option<u32> {
        let places = block_on(endpoint, registry::places(endpoint, self.chosen.pool())).ok()?;
        Some(places.iter().filter(|place| place.state != PlaceState::Free).count() as u32)
    }

    /// Makes room as long as writers need it.
    fn attend(&self, client: &Chosen<EndpointOf<F>>) -> Result<(), CacheError> {
        let endpoint = &client.client().endpoint;
        let (mut looks, mut worked) = (0, Instant::now());
        let mut tended = worked;
        while !self.is_over() {
            let stepped = block_on(endpoint, client.evict_ahead())?;
            if self.reserve().is_refused() || client.client().are_counts_estimated() {
                break;
            }
            let now = Instant::now();
            if stepped == Ahead::Worked {
                (looks, worked) = (0, now);
            } else if looks < POLLS {
                looks += 1;
                std::thread::sleep(POLL_PERIOD);
            } else if looks == POLLS {
                // It looks once more: a writer that was short before did not wake it.
                looks += 1;
                self.reserve().sleep();
            } else {
                self.sleep(TEND_PERIOD);
                looks = if self.reserve().is_asleep() { looks } else { 0 };
            }
            if now - tended >= TEND_PERIOD {
                tended = now;
                block_on(endpoint, Engine::tend(client))?;
                let is_crowded = self.places_used(endpoint).is_none_or(|used| used * 4 > self.places() * 3);
                if is_crowded || now - worked >= IDLE_PERIOD {
                    break;
                }
            }
        }
        Ok(())
    }
}
