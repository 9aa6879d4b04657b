//! Commands that run alone among all commands of the server.
//!
//! A batch runs beside the batches of other connections, and so do its commands. Where memory is
//! near, a batch ends after [`TURN_TIME`], so that the others of its worker run. A command on many
//! keys yields as often ([`Turn`]), and gives up its share meanwhile. So does an operation on a
//! large value, every megabyte ([`Passing`]). A transaction runs alone: the
//! connection that has it waits until no other batch runs, and none begins before the transaction
//! has ended. Other processes of the pool do not wait; see `transaction`. A script pauses as often
//! as a batch ends; those that wait for it may be told so, and those that end it need not wait
//! (`script`).
//!
//! Each worker has a lock of its own, which its batches share: so workers do not disturb each
//! other. What runs alone takes its turn among what runs alone, and then the locks of all workers,
//! in order.
//!
//! A command that runs alone and moves large values locks its keys, and lets the batches run again
//! ([`Alone::lock_keys`]). It keeps its turn:
//!
//! | a command of another connection | while keys are locked |
//! |---|---|
//! | has none of these keys | runs |
//! | has one of them | waits, and with it its connection alone |
//! | runs alone | waits for its turn, and blocks no batch meanwhile |
//!
//! The locks of keys begin while nothing else runs. So every command that runs beside has begun
//! after it, and has looked at them ([`Batch::until_unlocked`]).

use crate::serve::{pauses, woken_by_itself};
use atoll_cache::Engine;
use std::cell::Cell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a batch runs, where memory is near, before those of other connections do.
pub(super) const TURN_TIME: Duration = Duration::from_millis(1);
/// How long replies wait for what runs alone. Scripts and transactions of a pipeline that come in
/// turns with those of other connections end within it, and are answered together.
const SOON: Duration = Duration::from_millis(5);
/// Workers beyond this number share the locks of others.
const LOCKS: usize = 64;
/// Operations of a worker that wait at a time for what runs alone, at most. They are under way for
/// the cache, whose clients have at least 64 operations at once: what runs alone needs one, too.
const PASSINGS_MAX: u32 = 16;
/// Batches of a worker at a time, at most. What runs alone takes so many shares of a lock.
const SHARES: u32 = 1 << 24;

/// A lock in a cache line of its own; processors fetch two lines at a time.
#[repr(align(128))]
struct Lock(Semaphore, Passings);

/// Operations of a worker that let others run.
type Passings = AtomicU32;

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
pub(crate) struct Isolation {
    workers: Box<[Lock]>,
    /// What runs alone has it, or waits for it in order.
    turn: Semaphore,
    keys: LockedKeys,
}

impl Default for Isolation {
    fn default() -> Self {
        let workers = (0..LOCKS).map(|_| Lock(Semaphore::new(SHARES as usize), Passings::new(0))).collect();
        Self { workers, turn: Semaphore::new(1), keys: LockedKeys::default() }
    }
}

/// The keys that a command has locked: one command at a time, for it has the turn of what runs
/// alone.
#[derive(Default)]
struct LockedKeys {
    /// As the cache knows them.
    keys: Mutex<Vec<Vec<u8>>>,
    /// Whether there are any. It is set while nothing else runs.
    is_any: AtomicBool,
}

impl LockedKeys {
    fn keys(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, keys: Vec<Vec<u8>>) {
        let before = std::mem::replace(&mut *self.keys(), keys);
        assert!(before.is_empty(), "one command at a time has locked keys");
        self.is_any.store(true, SeqCst);
    }

    fn unlock(&self) {
        self.keys().clear();
        self.is_any.store(false, SeqCst);
    }
}

impl Isolation {
    /// Whether a command has locked keys. A command that has begun beside others need not look
    /// again before it ends.
    #[inline]
    pub(crate) fn has_locked_keys(&self) -> bool {
        self.keys.is_any.load(SeqCst)
    }

    /// Whether one of these keys is locked, as the cache knows them.
    #[cold]
    pub(crate) fn is_locked(&self, mut keys: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
        let locked = self.keys.keys();
        !locked.is_empty() && keys.any(|key| locked.iter().any(|locked| locked == key.as_ref()))
    }

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
        let lock = &self.workers[worker % LOCKS];
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

/// An operation of a command that runs beside others. While it lets others run, its batch has no
/// share: what is to run alone does not wait for the operation to end, and nothing waits with it.
pub(crate) struct Passing<'a, F> {
    operation: Pin<&'a mut F>,
    batch: &'a Batch<'a>,
    /// The batch enters again, before the operation goes on.
    entering: Option<Pin<Box<dyn Future<Output = ()> + 'a>>>,
}

/// One of the operations that let others run, until it is dropped.
struct Passed<'a>(&'a Passings);

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl<F: Future> Future for Passing<'_, F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { operation, batch, entering } = &mut *self;
        if let Some(again) = entering {
            ready!(again.as_mut().poll(context));
            *entering = None;
        }
        pauses();
        let polled = operation.as_mut().poll(context);
        if polled.is_pending() && pauses() {
            *entering = batch.pass_within();
        }
        polled
    }
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

    /// Before a command changes keys that its arguments do not name: waits until none is locked.
    pub(crate) async fn until_all_unlocked(&self) {
        if let Some(batch) = self.batch {
            batch.until_all_unlocked().await;
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
        // What the command does next may be about any key.
        self.until_all_unlocked().await;
    }

    /// An operation of this batch, which may let others run.
    #[inline]
    pub(crate) fn passing<F: Future>(&'a self, operation: Pin<&'a mut F>) -> Passing<'a, F> {
        Passing { operation, batch: self, entering: None }
    }

    /// Lets others run while an operation is under way; gives what the operation waits for then.
    fn pass_within(&'a self) -> Option<Pin<Box<dyn Future<Output = ()> + 'a>>> {
        let passings = &self.lock.1;
        if !self.has_share.get() {
            return None;
        }
        let is_one_too_many = passings.fetch_add(1, SeqCst) >= PASSINGS_MAX;
        let passed = Passed(passings);
        if is_one_too_many {
            return None;
        }
        self.give_back();
        Some(Box::pin(async move {
            let _passed = passed;
            self.enter().await;
            self.until_all_unlocked().await;
        }))
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

    /// Waits while one of these keys is locked, as the cache knows them. Other batches, and what
    /// runs alone, run meanwhile. The keys are not locked until the batch lets others run.
    pub(crate) async fn until_unlocked(&self, keys: &[impl AsRef<[u8]>]) {
        self.until(|| !self.isolation.is_locked(keys.iter())).await;
    }

    /// The same, until no key is locked.
    pub(crate) async fn until_all_unlocked(&self) {
        if self.isolation.has_locked_keys() {
            Box::pin(self.until(|| !self.isolation.has_locked_keys())).await;
        }
    }

    /// Waits until keys have been unlocked so that something `is_so`: for the turn of what runs
    /// alone, so that no later command locks them before.
    async fn until(&self, is_so: impl Fn() -> bool) {
        while !is_so() {
            self.give_back();
            let turn = woken_by_itself(self.isolation.turn.acquire()).await.expect(OPEN);
            self.enter().await;
            drop(turn);
        }
    }

    /// Lets this batch run alone until [`go_on`](Self::go_on). Between the command before and the
    /// one that runs alone, other batches may run.
    pub(crate) async fn be_alone(&mut self) -> Alone<'a> {
        self.give_back();
        // What has locked keys may have this for long: batches do not wait with this one.
        let turn = woken_by_itself(self.isolation.turn.acquire()).await.expect(OPEN);
        let mut locks = Vec::with_capacity(LOCKS);
        for lock in &self.isolation.workers {
            locks.push(lock.0.acquire_many(SHARES).await.expect(OPEN));
        }
        Alone::new(self.isolation, turn, locks)
    }

    /// The same, if nothing else runs or waits to run alone.
    pub(crate) fn try_be_alone(&mut self) -> Option<Alone<'a>> {
        self.give_back();
        let turn = self.isolation.turn.try_acquire().ok()?;
        let locks = self.isolation.workers.iter().map(|lock| lock.0.try_acquire_many(SHARES).ok());
        Some(Alone::new(self.isolation, turn, locks.collect::<Option<Vec<_>>>()?))
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

/// Nothing else runs, or what runs has none of the keys that were locked.
pub(crate) struct Alone<'a> {
    isolation: &'a Isolation,
    /// Whether it has the locks of all workers; otherwise it has locked keys.
    has_workers: Cell<bool>,
    /// Given back last.
    _turn: SemaphorePermit<'a>,
}

impl<'a> Alone<'a> {
    fn new(isolation: &'a Isolation, turn: SemaphorePermit<'a>, workers: Vec<SemaphorePermit<'a>>) -> Self {
        assert!(!isolation.has_locked_keys(), "keys are locked by what has the turn");
        workers.into_iter().for_each(SemaphorePermit::forget);
        Self { isolation, has_workers: Cell::new(true), _turn: turn }
    }

    fn give_workers_back(&self) {
        self.isolation.workers.iter().for_each(|lock| lock.0.add_permits(SHARES as usize));
    }

    /// Locks these keys, as the cache knows them, and lets commands run that have none of them. For
    /// a command that takes long. What it has looked at before is as it was, as far as other
    /// connections of this server are concerned.
    pub(crate) fn lock_keys(&self, keys: Vec<Vec<u8>>) {
        if self.has_workers.replace(false) {
            self.isolation.keys.lock(keys);
            self.give_workers_back();
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        match self.has_workers.get() {
            true => self.give_workers_back(),
            false => self.isolation.keys.unlock(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::atomic::AtomicU64;

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

    #[test]
    fn a_command_that_has_locked_keys_runs_beside_all_but_those_with_its_keys_and_those_alone() {
        let isolation = Isolation::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut mover, mut alone) = (isolation.batch(0), isolation.batch(1));
            let moving = mover.be_alone().await;
            assert!(!isolation.batch(2).try_enter());
            moving.lock_keys(vec![b"from".to_vec(), b"to".to_vec()]);
            assert!(isolation.has_locked_keys());
            let order = RefCell::new(Vec::new());
            let others = async {
                let batch = isolation.enter(2).await;
                assert!(isolation.is_locked([b"from"].into_iter()) && !isolation.is_locked([b"other"].into_iter()));
                batch.until_unlocked(&[b"other"]).await;
                order.borrow_mut().push("another key");
                batch.until_unlocked(&[&b"other"[..], b"to"]).await;
                assert!(batch.has_begun() && !isolation.is_locked([b"to"].into_iter()));
                order.borrow_mut().push("its key");
            };
            let alone = async {
                assert!(alone.try_be_alone().is_none());
                let held = alone.be_alone().await;
                order.borrow_mut().push("alone");
                drop(held);
            };
            let moved = async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                // What waits to run alone is in no batch's way.
                assert!(isolation.batch(3).try_enter());
                order.borrow_mut().push("moved");
                drop(moving);
            };
            futures_util::future::join3(others, alone, moved).await;
            assert_eq!(order.borrow()[..2], ["another key", "moved"]);
            assert_eq!(order.borrow().len(), 4);
            assert!(!isolation.has_locked_keys());
        });
    }
}
