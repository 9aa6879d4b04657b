//! Commands that run alone among all commands of the server.
//!
//! A batch runs beside the batches of other connections, and so do its commands. Where memory is
//! near, a batch ends after [`TURN_TIME`], so that the others of its worker run. A command that
//! goes through all keys yields as often. A transaction runs alone: the connection that has it
//! waits until no other batch runs, and none begins before the transaction has ended. Other
//! processes of the pool do not wait; see `transaction`.
//!
//! Each worker has a lock of its own, which its batches share: so workers do not disturb each
//! other. What runs alone takes the locks of all workers, in order.

use atoll_cache::Engine;
use std::time::{Duration, Instant};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How long a batch runs, where memory is near, before those of other connections do.
const TURN_TIME: Duration = Duration::from_millis(1);
/// Workers beyond this number share the locks of others.
const LOCKS: usize = 64;

/// A lock in a cache line of its own; processors fetch two lines at a time.
#[derive(Default)]
#[repr(align(128))]
struct Lock(RwLock<()>);

/// The locks of a server.
pub(crate) struct Isolation(Box<[Lock]>);

impl Default for Isolation {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Lock::default()).collect())
    }
}

impl Isolation {
    /// A batch of that worker begins, once nothing runs alone.
    #[inline]
    pub(crate) async fn enter(&self, worker: usize) -> Batch<'_> {
        let lock = &self.0[worker % LOCKS].0;
        let shares = match lock.try_read() {
            Ok(shares) => shares,
            Err(_) => lock.read().await,
        };
        Batch { isolation: self, lock, shares: Some(shares), turn: None }
    }
}

/// A batch that runs beside others.
pub(crate) struct Batch<'a> {
    isolation: &'a Isolation,
    lock: &'a RwLock<()>,
    shares: Option<RwLockReadGuard<'a, ()>>,
    /// It begins when it is first asked for.
    turn: Option<Turn>,
}

/// The time in which a worker's other connections wait.
#[derive(Debug)]
pub(crate) struct Turn(Instant);

impl Turn {
    /// It begins now.
    #[inline]
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Whether others should run.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.0.elapsed() > TURN_TIME
    }

    /// Lets others run if they should, and begins anew then.
    pub(crate) async fn yield_if_over(&mut self) {
        if self.is_over() {
            tokio::task::yield_now().await;
            *self = Self::begin();
        }
    }
}

impl<'a> Batch<'a> {
    /// Whether it has run so long that others should run. Where the fabric waits, they run
    /// meanwhile.
    #[inline]
    pub(crate) fn has_had_its_turn(&mut self, engine: &impl Engine) -> bool {
        engine.arrivals().is_none() && self.turn.get_or_insert_with(Turn::begin).is_over()
    }

    /// Lets this batch run alone until [`go_on`](Self::go_on). Between the command before and the
    /// one that runs alone, other batches may run.
    pub(crate) async fn be_alone(&mut self) -> Alone<'a> {
        self.shares = None;
        let mut locks = Vec::with_capacity(LOCKS);
        for lock in &self.isolation.0 {
            locks.push(lock.0.write().await);
        }
        Alone { _locks: locks }
    }

    /// Runs beside others again.
    pub(crate) async fn go_on(&mut self, alone: Alone<'a>) {
        drop(alone);
        self.shares = Some(self.lock.read().await);
    }
}

/// Nothing else runs.
pub(crate) struct Alone<'a> {
    _locks: Vec<RwLockWriteGuard<'a, ()>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::time::Duration;

    #[test]
    fn what_runs_alone_meets_no_batch_of_any_worker() {
        let (isolation, running, alone) = (Isolation::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (isolation, running, alone) = (&isolation, &running, &alone);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async {
                        for round in 0..2000 {
                            let mut batch = isolation.enter(worker).await;
                            running.fetch_add(1, SeqCst);
                            assert_eq!(alone.load(SeqCst), 0);
                            running.fetch_sub(1, SeqCst);
                            if round % 7 == worker {
                                let held = batch.be_alone().await;
                                assert_eq!(alone.fetch_add(1, SeqCst), 0);
                                assert_eq!(running.load(SeqCst), 0);
                                if round % 70 == worker {
                                    tokio::time::sleep(Duration::from_micros(50)).await;
                                }
                                alone.fetch_sub(1, SeqCst);
                                batch.go_on(held).await;
                            }
                        }
                    });
                });
            }
        });
    }
}
