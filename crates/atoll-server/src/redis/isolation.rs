//! Commands that run alone among all commands of the server.
//!
//! A batch runs beside the batches of other connections, and so do its commands. Where memory is
//! near, a batch ends after [`TURN_TIME`], so that the others of its worker run. A command on many
//! keys yields as often ([`Turn`]), and gives up its share meanwhile. A transaction runs alone: the
//! connection that has it waits until no other batch runs, and none begins before the transaction
//! has ended. Other processes of the pool do not wait; see `transaction`. A script pauses as often
//! as a batch ends; those that wait for it may be told so, and those that end it need not wait
//! (`script`).
//!
//! Each worker has a lock of its own, which its batches share: so workers do not disturb each
//! other. What runs alone takes the locks of all workers, in order.

use crate::serve::woken_by_itself;
use atoll_cache::Engine;
use std::cell::Cell;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a batch runs, where memory is near, before those of other connections do.
pub(super) const TURN_TIME: Duration = Duration::from_millis(1);
/// How long replies wait for what runs alone. Scripts and transactions of a pipeline that come in
/// turns with those of other connections end within it, and are answered together.
const SOON: Duration = Duration::from_millis(5);
/// Workers beyond this number share the locks of others.
const LOCKS: usize = 64;
/// Batches of a worker at a time, at most. What runs alone takes so many shares of a lock.
const SHARES: u32 = 1 << 24;

/// A lock in a cache line of its own; processors fetch two lines at a time.
#[repr(align(128))]
struct Lock(Semaphore);

impl Lock {
    /// Takes a share. Its owner gives it back.
    #[inline]
    async fn share(&self) {
        match self.0.try_acquire() {
            Ok(share) => share.forget(),
            Err(_) => woken_by_itself(self.0.acquire()).await.expect(OPEN).forget(),
        }
    }
}

const OPEN: &str = "a lock is never closed";

/// The locks of a server.
pub(crate) struct Isolation(Box<[Lock]>);

impl Default for Isolation {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Lock(Semaphore::new(SHARES as usize))).collect())
    }
}

impl Isolation {
    /// A batch of that worker begins, once nothing runs alone.
    #[inline]
    pub(crate) async fn enter(&self, worker: usize) -> Batch<'_> {
        let batch = self.batch(worker);
        batch.enter().await;
        batch
    }

    /// A batch of that worker, which [enters](Batch::enter) before it does anything for which it
    /// matters whether something runs alone.
    #[inline]
    pub(crate) fn batch(&self, worker: usize) -> Batch<'_> {
        let lock = &self.0[worker % LOCKS];
        Batch { isolation: self, lock, has_share: Cell::new(false), is_refused: false, began: None }
    }
}

/// A batch that runs beside others.
pub(crate) struct Batch<'a> {
    isolation: &'a Isolation,
    lock: &'a Lock,
    has_share: Cell<bool>,
    /// Whether its command is told of a script that has run for long, and does not run.
    pub(super) is_refused: bool,
    /// When its turn began, once that was asked for.
    began: Option<Instant>,
}

/// The time in which a worker's other connections wait for a command that takes long.
pub(crate) struct Turn<'a> {
    began: Instant,
    /// Of a command that does not run alone.
    batch: Option<&'a Batch<'a>>,
}

impl<'a> Turn<'a> {
    /// It begins now, for a command of this batch, or for one that runs alone.
    pub(crate) fn begin(batch: Option<&'a Batch<'a>>) -> Self {
        Self { began: Instant::now(), batch }
    }

    /// Lets others run if they have waited for long. In between, there may be commands that run
    /// alone.
    pub(crate) async fn yield_if_over(&mut self) {
        if self.began.elapsed() > TURN_TIME {
            self.pass().await;
        }
    }

    /// Lets others run.
    async fn pass(&mut self) {
        match self.batch {
            Some(batch) => batch.pass().await,
            None => tokio::task::yield_now().await,
        }
        self.began = Instant::now();
    }
}

impl<'a> Batch<'a> {
    /// Whether it has run so long that others should run. Where the fabric waits, they run
    /// meanwhile.
    #[inline]
    pub(crate) fn has_had_its_turn(&mut self, engine: &impl Engine) -> bool {
        engine.arrivals().is_none() && self.began.get_or_insert_with(Instant::now).elapsed() > TURN_TIME
    }

    /// Lets others run, those too that run alone. Without that, all others would wait with one that
    /// is to run alone.
    async fn pass(&self) {
        self.give_back();
        tokio::task::yield_now().await;
        self.enter().await;
    }

    /// Begins once nothing runs alone.
    #[inline]
    pub(crate) async fn enter(&self) {
        if !self.has_share.get() {
            self.lock.share().await;
            self.has_share.set(true);
        }
    }

    /// Begins if nothing runs alone, or waits to; returns whether it has begun.
    #[inline]
    pub(crate) fn try_enter(&self) -> bool {
        if !self.has_share.get()
            && let Ok(share) = self.lock.0.try_acquire()
        {
            share.forget();
            self.has_share.set(true);
        }
        self.has_share.get()
    }

    /// Whether it has begun, and nothing runs alone.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.has_share.get()
    }

    /// Begins soon, or not at all: replies that wait to be sent wait no longer. Returns whether it
    /// has begun.
    pub(crate) async fn enter_soon(&self) -> bool {
        self.try_enter() || woken_by_itself(tokio::time::timeout(SOON, self.enter())).await.is_ok()
    }

    fn give_back(&self) {
        if self.has_share.replace(false) {
            self.lock.0.add_permits(1);
        }
    }

    /// Lets this batch run alone until [`go_on`](Self::go_on). Between the command before and the
    /// one that runs alone, other batches may run.
    pub(crate) async fn be_alone(&mut self) -> Alone<'a> {
        self.give_back();
        let mut locks = Vec::with_capacity(LOCKS);
        for lock in &self.isolation.0 {
            locks.push(lock.0.acquire_many(SHARES).await.expect(OPEN));
        }
        Alone { _locks: locks }
    }

    /// The same, if nothing else runs or waits to run alone.
    pub(crate) fn try_be_alone(&mut self) -> Option<Alone<'a>> {
        self.give_back();
        let locks = self.isolation.0.iter().map(|lock| lock.0.try_acquire_many(SHARES).ok());
        Some(Alone { _locks: locks.collect::<Option<Vec<_>>>()? })
    }

    /// Runs beside others again, if nothing waits to run alone. Otherwise it has to
    /// [enter](Self::enter) before its next command: the replies so far need not wait for that.
    pub(crate) fn go_on(&mut self, alone: Alone<'a>) {
        drop(alone);
        self.try_enter();
    }
}

impl Drop for Batch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Nothing else runs.
pub(crate) struct Alone<'a> {
    _locks: Vec<SemaphorePermit<'a>>,
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
                            if round % 5 == worker {
                                Turn::begin(Some(&batch)).pass().await;
                            }
                            if round % 7 == worker {
                                let held = match batch.try_be_alone() {
                                    Some(held) => held,
                                    None => batch.be_alone().await,
                                };
                                assert_eq!(alone.fetch_add(1, SeqCst), 0);
                                assert_eq!(running.load(SeqCst), 0);
                                if round % 70 == worker {
                                    tokio::time::sleep(Duration::from_micros(50)).await;
                                }
                                alone.fetch_sub(1, SeqCst);
                                batch.go_on(held);
                                batch.enter().await;
                            }
                        }
                    });
                });
            }
        });
    }
}
