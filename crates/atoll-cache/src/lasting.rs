//! Operations that run to their end, whether their futures are awaited or dropped.
//!
//! Over a fabric that waits, an operation has verbs under way whose outcome is unknown until they
//! end. A client that forgot such an operation would leak what it holds. So the client owns the
//! operation, and the caller's future only observes it:
//!
//! | the caller | the operation |
//! |---|---|
//! | polls its future | continues, and so do those whose futures were dropped, once they are woken |
//! | drops the future before the first poll | never begins |
//! | drops the future later | continues with whatever the client does next, and ends before the client leaves |
//!
//! The same way a client works beside the operations of its caller (see [`Engine::work`]). It
//! begins when a change has ended, or with a call of `tend`, which waits for the work's end. It
//! goes on with what the client does next. An error that no operation would meet is reported by
//! `tend`, or when the client leaves.
//!
//! All other operations may wait for one that was left. So it wakes an awaited one, its *keeper*.
//! If the keeper ends, another awaited operation is woken and is the keeper. So a caller polls each
//! future that has begun when it is woken, or drops it.
//!
//! The operation has its own key, value and room for results, which costs a copy. Where memory is
//! near, an operation ends at its first poll. No operation can be dropped halfway there, so clients
//! do without this. A caller that never drops a future does without the copies: see
//! [`Lasting::set_awaited`].

use crate::audit::Audit;
use crate::{
    Accesses, Ahead, CacheError, Change, Engine, Flushed, Lookup, Mark, Meta, Pooled, Removals, Staged, Stats, Value,
};
use atoll_fabric::{Arrivals, Endpoint};
use atoll_pool::{Client, PoolError, Repaired};
use futures_util::stream::{FuturesUnordered, StreamExt};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// An engine whose operations run to their end.
pub struct Lasting<G> {
    /// First, so that operations are dropped before the engine.
    left: Left,
    engine: Rc<G>,
    /// Whether the caller awaits the end of every lookup and change.
    is_awaited: bool,
}

/// Operations that no caller awaits: those whose futures were dropped, by their numbers, and the
/// client's work beside all others.
#[derive(Default)]
struct Left {
    operations: RefCell<FuturesUnordered<Operation<Option<u64>>>>,
    /// The numbers of those that have not ended.
    pending: RefCell<BTreeSet<u64>>,
    /// The client's work.
    work: Rc<Work>,
    /// How many operations were dropped.
    count: Cell<u64>,
    /// The wakers of all futures that are pending.
    awaiting: RefCell<Slab<Waker>>,
    /// Which of those is woken for what is left.
    keeper: Cell<Option<usize>>,
}

/// An operation. The type does not name the engine, so that a crate does not compile an engine
/// again that another crate already uses.
type Operation<T> = Pin<Box<dyn Future<Output = T>>>;

impl Left {
    /// Continues with all that were woken.
    fn go_on(&self, context: &mut Context<'_>) {
        if self.operations.borrow().is_empty() {
            return;
        }
        // From now on they wake the task that polls here. It may have nothing more to wait for.
        self.keeper.set(None);
        let mut operations = self.operations.take();
        while let Poll::Ready(Some(ended)) = operations.poll_next_unpin(context) {
            if let Some(number) = ended {
                self.pending.borrow_mut().remove(&number);
            }
        }
        let dropped_meanwhile = self.operations.replace(operations);
        self.operations.borrow_mut().extend(dropped_meanwhile);
    }

    /// A future is pending; `key` is that of its waker.
    #[inline]
    fn awaits(&self, key: &mut Option<usize>, waker: &Waker) {
        let mut awaiting = self.awaiting.borrow_mut();
        match *key {
            Some(key) => awaiting[key].clone_from(waker),
            None => *key = Some(awaiting.insert(waker.clone())),
        }
        self.keeper.set(*key);
    }

    /// A future has ended or is dropped, after it was polled; `key` if it was pending.
    #[inline]
    fn awaits_no_more(&self, key: Option<usize>) {
        if let Some(key) = key {
            self.awaiting.borrow_mut().remove(key);
            if self.keeper.get() == Some(key) {
                self.keeper.set(None);
            }
        }
        if self.keeper.get().is_none() && !self.operations.borrow().is_empty() {
            self.wake_another();
        }
    }

    #[cold]
    fn wake_another(&self) {
        let awaiting = self.awaiting.borrow();
        let next = awaiting.iter().next();
        self.keeper.set(next.map(|(key, _)| key));
        next.into_iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Keeps an operation whose future is dropped.
    fn keep<T: 'static>(&self, operation: Operation<T>) {
        let number = self.count.replace(self.count.get() + 1);
        // It still wakes the task of the dropped future.
        self.keeper.set(None);
        self.pending.borrow_mut().insert(number);
        self.operations.borrow_mut().push(Box::pin(async move {
            operation.await;
            Some(number)
        }));
    }

    /// Adds the client's work, and begins it.
    async fn begin_work(&self, what: impl Future<Output = Result<(), CacheError>> + 'static) {
        let work = self.work.clone();
        work.is_under_way.set(true);
        self.operations.borrow_mut().push(Box::pin(async move {
            work.end(what.await);
            None
        }));
        poll_fn(|context| {
            self.go_on(context);
            Poll::Ready(())
        })
        .await;
        // This task may have nothing more to wait for.
        self.awaits_no_more(None);
    }

    /// Awaits a future, and goes on with all that were woken meanwhile. It comes as a closure, as
    /// for [`Lasting::run`].
    #[inline(always)]
    async fn beside<F: Future>(&self, begin: impl FnOnce() -> F) -> F::Output {
        let mut future = pin!(begin());
        let mut awaiting = Awaiting { left: self, key: None };
        poll_fn(|context| {
            self.go_on(context);
            let polled = future.as_mut().poll(context);
            if polled.is_pending() {
                self.awaits(&mut awaiting.key, context.waker());
            }
            polled
        })
        .await
    }
}

/// A future that awaits something else, and that what was left may wake.
struct Awaiting<'l> {
    left: &'l Left,
    key: Option<usize>,
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.left.awaits_no_more(self.key);
        }
    }
}

/// What a client does beside the operations of its caller.
#[derive(Default)]
struct Work {
    is_under_way: Cell<bool>,
    /// How often it has ended.
    ended: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
    /// An error that no operation will meet.
    error: RefCell<Option<CacheError>>,
}

impl Work {
    fn end(&self, outcome: Result<(), CacheError>) {
        // That a client is lost, or has no room, its operations learn, too.
        if let Err(error @ CacheError::Damaged { .. }) = outcome {
            *self.error.borrow_mut() = Some(error);
        }
        self.is_under_way.set(false);
        self.ended.set(self.ended.get() + 1);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until the work that is under way has ended. It goes on by other polls.
    async fn over(&self) {
        let begun = self.ended.get();
        poll_fn(|context| {
            if !self.is_under_way.get() || self.ended.get() != begun {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// This outcome, or else the error.
    fn or_error(&self, outcome: Result<(), CacheError>) -> Result<(), CacheError> {
        outcome.and_then(|()| self.error.take().map_or(Ok(()), Err))
    }
}

/// The caller's end of an operation.
struct Attended<'c, T: 'static> {
    left: &'c Left,
    /// `None` once the operation has ended.
    operation: Option<Operation<T>>,
    has_begun: bool,
    /// Of its waker, once it was pending.
    key: Option<usize>,
}

impl<T: 'static> Future for Attended<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Self { left, operation, has_begun, key } = &mut *self;
        left.go_on(context);
        *has_begun = true;
        let polled = operation.as_mut().expect("nothing is polled after its end").as_mut().poll(context);
        if polled.is_ready() {
            *operation = None;
        } else {
            left.awaits(key, context.waker());
        }
        polled
    }
}

impl<T: 'static> Drop for Attended<'_, T> {
    fn drop(&mut self) {
        // While its thread panics, a client may have stopped halfway through anything.
        if std::thread::panicking() || !self.has_begun {
            return;
        }
        if let Some(operation) = self.operation.take() {
            self.left.keep(operation);
        }
        self.left.awaits_no_more(self.key);
    }
}

impl<G: 'static> Lasting<G> {
    /// Runs an operation to its end. It comes as a closure, so that its future is made where it
    /// stays: a copy of that of a change would take longer than the change.
    #[inline(always)]
    fn run<T: 'static, F: Future<Output = T> + 'static>(&self, begin: impl FnOnce() -> F) -> Attended<'_, T> {
        let operation = Box::into_pin(Box::write(Box::new_uninit(), begin()));
        Attended { left: &self.left, operation: Some(operation), has_begun: false, key: None }
    }

    /// The engine, before its first operation.
    ///
    /// # Panics
    /// If an operation is under way.
    pub fn engine_mut(&mut self) -> &mut G {
        Rc::get_mut(&mut self.engine).expect("no operation is under way")
    }

    /// From now on the caller awaits the end of every lookup and change. If it drops the future of
    /// one earlier, that is as if its client died.
    pub fn set_awaited(&mut self) {
        self.is_awaited = true;
    }

    /// How many operations have been left so far: their futures were dropped after they had begun.
    pub fn left(&self) -> u64 {
        self.left.count.get()
    }

    /// How many of the operations that were left have ended: those from the first one on without a
    /// gap.
    pub fn left_and_ended(&self) -> u64 {
        self.left.pending.borrow().first().copied().unwrap_or(self.left.count.get())
    }

    /// Waits for the operations whose futures were dropped, and for the client's work.
    pub async fn finish(&self) {
        let is_over = |_: &mut Context<'_>| {
            if self.left.operations.borrow().is_empty() { Poll::Ready(()) } else { Poll::Pending }
        };
        self.left.beside(|| poll_fn(is_over)).await;
    }

    /// Awaits what is none of this client's operations, while those that were left and the client's
    /// work go on.
    pub async fn beside<F: Future>(&self, future: F) -> F::Output {
        self.left.beside(|| future).await
    }
}

impl<G: Engine + 'static> Lasting<G> {
    /// Wraps an engine: its operations last.
    pub fn new(engine: G) -> Self {
        engine.attend();
        Self { left: Left::default(), engine: Rc::new(engine), is_awaited: false }
    }

    /// A change has ended: the client works beside what its caller does next, if it has work.
    #[inline]
    async fn let_work(&self) {
        if !self.left.work.is_under_way.get() && self.engine.has_work() {
            let engine = self.engine.clone();
            self.left.begin_work(async move { engine.work().await }).await;
        }
    }
}

/// Operations with a callback, as far as they do not depend on it.
impl<G: Engine + 'static> Lasting<G> {
    async fn values_of(&self, keys: &[&[u8]], bytes_max: usize) -> Result<Vec<(Lookup, Value)>, CacheError> {
        let engine = self.engine.clone();
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let got = self.run(move || async move {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut all = Vec::with_capacity(keys.len());
            let each = |_, lookup, value: &mut Value| all.push((lookup, std::mem::take(value)));
            engine.get_many(&keys, bytes_max, each).await.map(|()| all)
        });
        got.await
    }

    async fn keys_from(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), CacheError> {
        let engine = self.engine.clone();
        let scanned = self.run(move || async move {
            let mut keys = Vec::new();
            let next = engine.scan(cursor, count, |key| keys.push(key.to_vec())).await;
            next.map(|next| (next, keys))
        });
        scanned.await
    }
}

/// Methods that only this engine has.
impl<G> std::ops::Deref for Lasting<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.engine
    }
}

/// Writes operations that borrow nothing from their callers.
macro_rules! run_to_their_end {
    ($($name:ident($($by:ident: $type:ty)?) -> $output:ty,)*) => {$(
        async fn $name(&self $(, $by: $type)?) -> $output {
            let engine = self.engine.clone();
            self.run(move || async move { engine.$name($($by)?).await }).await
        }
    )*};
}

impl<G: Engine + 'static> Engine for Lasting<G> {
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        if self.is_awaited {
            return self.left.beside(|| self.engine.get(key, into)).await;
        }
        let (engine, key, mut value) = (self.engine.clone(), key.to_vec(), std::mem::take(into));
        let got = self.run(move || async move {
            let lookup = engine.get(&key, &mut value).await;
            (lookup, value)
        });
        let (lookup, value) = got.await;
        *into = value;
        lookup
    }

    async fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError> {
        let (engine, key, mut value) = (self.engine.clone(), key.to_vec(), vec![0; into.len()]);
        let got = self.run(move || async move {
            let found = engine.get_to(&key, &mut value).await;
            (found, value)
        });
        let (found, value) = got.await;
        into.copy_from_slice(&value);
        found
    }

    async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<(Lookup, Meta), CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        let (engine, key, mut value) = (self.engine.clone(), key.to_vec(), std::mem::take(into));
        let got = self.run(move || async move {
            let found = engine.get_part(&key, part, &mut value).await;
            (found, value)
        });
        let (found, value) = got.await;
        *into = value;
        found
    }

    async fn get_many<F>(&self, keys: &[&[u8]], bytes_max: usize, mut found: F) -> Result<(), CacheError>
    where
        F: FnMut(usize, Lookup, &mut Value),
    {
        for (index, (lookup, value)) in self.values_of(keys, bytes_max).await?.iter_mut().enumerate() {
            found(index, *lookup, value);
        }
        Ok(())
    }

    async fn expect(&self, keys: &[&[u8]]) {
        if !self.engine.is_worth_expecting(keys) {
            return;
        }
        let engine = self.engine.clone();
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let expected = self.run(move || async move {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            engine.expect(&keys).await;
        });
        expected.await;
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let (engine, key) = (self.engine.clone(), key.to_vec());
        self.run(move || async move { engine.peek(&key).await }).await
    }

    async fn accesses(&self, key: &[u8]) -> Result<Option<Accesses>, CacheError> {
        let (engine, key) = (self.engine.clone(), key.to_vec());
        self.run(move || async move { engine.accesses(&key).await }).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        if self.is_awaited {
            let token = self.left.beside(|| self.engine.update(key, change)).await;
            self.let_work().await;
            return token;
        }
        let (engine, key, mut lasting) = (self.engine.clone(), key.to_vec(), change.lasting());
        let changed = self.run(move || async move {
            let token = engine.update(&key, &mut lasting).await;
            (token, lasting)
        });
        let (token, lasting) = changed.await;
        change.ended(lasting);
        self.let_work().await;
        token
    }

    // Engines open values where memory is near. There an operation that only reads may be dropped.
    crate::pass_on_operations!(@open engine);

    fn stage(&self, key: &[u8], value_bytes: usize) -> Option<Staged> {
        self.engine.stage(key, value_bytes)
    }

    async fn append_staged(&self, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        let (engine, mut taken, bytes) = (self.engine.clone(), staged.taken(), bytes.to_vec());
        let appended = self.run(move || async move {
            let appended = engine.append_staged(&mut taken, &bytes).await;
            (appended, taken)
        });
        let (appended, taken) = appended.await;
        *staged = taken;
        self.let_work().await;
        appended
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, mut each: F) -> Result<u64, CacheError> {
        let (next, keys) = self.keys_from(cursor, count).await?;
        keys.iter().for_each(|key| each(key));
        Ok(next)
    }

    run_to_their_end! {
        random_key() -> Result<Option<Vec<u8>>, CacheError>,
        flush(cursor: u64) -> Result<Flushed, CacheError>,
        objects() -> Result<u64, CacheError>,
        now_ms() -> Result<u64, CacheError>,
        follow_changes() -> Result<bool, CacheError>,
    }

    async fn tend(&self) -> Result<(), CacheError> {
        self.let_work().await;
        let (engine, work) = (self.engine.clone(), self.left.work.clone());
        let tended = self.run(move || async move {
            let tended = engine.tend().await;
            // An idle client does nothing next that its work could go on with.
            work.over().await;
            work.or_error(tended)
        });
        tended.await
    }

    fn word_number(&self, key: &[u8]) -> u32 {
        self.engine.word_number(key)
    }

    fn mark(&self, word_number: u32) -> Option<Mark> {
        self.engine.mark(word_number)
    }

    async fn tell_changes(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let (engine, key) = (self.engine.clone(), key.to_vec());
        self.run(move || async move { engine.tell_changes(&key).await }).await
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.finish().await;
        let engine = self.engine.clone();
        let closed = self.run(move || async move { engine.close().await }).await;
        self.left.work.or_error(closed)
    }

    fn value_bytes_max(&self) -> usize {
        self.engine.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn arrivals(&self) -> Option<&dyn Arrivals> {
        self.engine.arrivals()
    }

    #[inline]
    fn removals(&self) -> Option<&Removals> {
        self.engine.removals()
    }
}

impl<E: Endpoint, G: Pooled<E> + 'static> Pooled<E> for Lasting<G> {
    type Shared = G::Shared;

    async fn join(shared: &Arc<G::Shared>, endpoint: E) -> Result<Self, PoolError> {
        G::join(shared, endpoint).await.map(Self::new)
    }

    fn auditor(shared: &Arc<G::Shared>, endpoint: E) -> Result<Self, PoolError> {
        G::auditor(shared, endpoint).map(Self::new)
    }

    run_to_their_end! {
        repair() -> Result<Repaired, CacheError>,
        retire_chunks(most: u64) -> Result<u64, CacheError>,
        discard_retired() -> Result<u64, CacheError>,
        restore_chunk() -> Result<bool, CacheError>,
        evict_ahead() -> Result<Ahead, CacheError>,
        grow(bytes: u64) -> Result<u8, PoolError>,
    }

    async fn verify(&self) -> Result<Audit, CacheError> {
        // The walk is over an idle pool.
        self.finish().await;
        let engine = self.engine.clone();
        self.run(move || async move { engine.verify().await }).await
    }

    fn shared(&self) -> &Arc<G::Shared> {
        self.engine.shared()
    }

    fn client(&self) -> &Client<E> {
        self.engine.client()
    }

    async fn leave(&self) -> Result<(), CacheError> {
        self.finish().await;
        let engine = self.engine.clone();
        let left = self.run(move || async move { engine.leave().await }).await;
        self.left.work.or_error(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::{Cache, SetOptions};
    use atoll_fabric::{Clock, run_ready};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::task::Wake;

    /// Changes wait at it.
    #[derive(Default)]
    struct Gate {
        is_open: Cell<bool>,
        waiting: RefCell<Vec<Waker>>,
    }

    impl Gate {
        async fn pass(&self) {
            poll_fn(|context| {
                if self.is_open.get() {
                    return Poll::Ready(());
                }
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            })
            .await;
        }

        fn open(&self) {
            self.is_open.set(true);
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// A change of `first` waits at the first gate, and opens the second, where others wait. A
    /// change of `at once` waits for nothing, and leaves work that does the same as `first`.
    struct Slow {
        model: Model,
        gates: Rc<[Gate; 2]>,
        has_work: Cell<bool>,
    }

    impl Engine for Slow {
        crate::pass_on_operations!(model, get, stats);

        async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
            if key == b"at once" {
                self.has_work.set(true);
                return self.model.update(key, change).await;
            }
            let is_first = key == b"first";
            self.gates[usize::from(!is_first)].pass().await;
            let updated = self.model.update(key, change).await;
            if is_first {
                self.gates[1].open();
            }
            updated
        }

        fn has_work(&self) -> bool {
            self.has_work.get()
        }

        async fn work(&self) -> Result<(), CacheError> {
            self.has_work.set(false);
            self.gates[0].pass().await;
            self.gates[1].open();
            Ok(())
        }
    }

    fn slow() -> (Cache<Lasting<Slow>>, Rc<[Gate; 2]>) {
        let (model, gates) = (Model::new(Clock::manual(1_000_000_000).0), Rc::default());
        (Cache::new(Lasting::new(Slow { model, gates: Rc::clone(&gates), has_work: Cell::default() })), gates)
    }

    /// A task that was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn an_operation_whose_future_is_dropped_runs_to_its_end() {
        let (cache, gates) = slow();
        let (mut context, options) = (Context::from_waker(Waker::noop()), SetOptions::default());
        {
            drop(cache.set(b"never", b"polled", &options));
            let mut dropped = Box::pin(cache.set(b"first", b"value", &options));
            assert!(dropped.as_mut().poll(&mut context).is_pending());
        }
        let mut value = Value::new();
        assert!(!run_ready(cache.get(b"first", &mut value)).unwrap());
        gates[0].open();
        // What the client does next continues with it.
        assert!(run_ready(cache.get(b"first", &mut value)).unwrap());
        assert_eq!(value.bytes(), b"value");
        assert!(!run_ready(cache.get(b"never", &mut value)).unwrap());
        let mut old = Value::new();
        let replaced = run_ready(cache.set_returning(b"first", b"more", &options, Some(&mut old))).unwrap();
        assert!(replaced.stored);
        assert_eq!(old.bytes(), b"value", "what the change saw is told");
        run_ready(cache.engine().finish());
    }

    #[test]
    fn an_operation_that_was_left_wakes_one_that_waits_for_it() {
        let (cache, gates) = slow();
        let options = SetOptions::default();
        let tasks: [Arc<Woken>; 3] = std::array::from_fn(|_| Arc::default());
        let wakers = tasks.clone().map(Waker::from);
        let is_woken = |task: usize| tasks[task].0.swap(false, Relaxed);
        let set = |key| Box::pin(cache.set(key, b"value", &options));
        let mut waits = [set(b"second"), set(b"third")];
        let mut poll = |task: usize| waits[task].as_mut().poll(&mut Context::from_waker(&wakers[task])).is_ready();
        assert!(!poll(0) && !poll(1));
        let mut dropped = set(b"first");
        assert!(dropped.as_mut().poll(&mut Context::from_waker(&wakers[2])).is_pending());
        drop(dropped);
        let keeper = usize::from(is_woken(1));
        assert!(keeper == 1 || is_woken(0));
        assert!(!poll(keeper));
        // An operation that ends at once was the last one to be polled.
        assert!(!run_ready(cache.get(b"fourth", &mut Value::new())).unwrap());
        let keeper = usize::from(is_woken(1));
        assert!(keeper == 1 || is_woken(0));
        assert!(!poll(keeper));
        gates[0].open();
        assert!(is_woken(keeper) && !is_woken(1 - keeper));
        assert!(poll(keeper));
        assert!(is_woken(1 - keeper) && poll(1 - keeper));
    }

    fn work_beside(is_awaited: bool) {
        let gates: Rc<[Gate; 2]> = Rc::default();
        let model = Model::new(Clock::manual(1_000_000_000).0);
        let mut lasting = Lasting::new(Slow { model, gates: Rc::clone(&gates), has_work: Cell::default() });
        if is_awaited {
            lasting.set_awaited();
        }
        let (cache, options) = (Cache::new(lasting), SetOptions::default());
        let tasks: [Arc<Woken>; 2] = std::array::from_fn(|_| Arc::default());
        let wakers = tasks.clone().map(Waker::from);
        let is_woken = |task: usize| tasks[task].0.swap(false, Relaxed);
        let mut waits = Box::pin(cache.set(b"second", b"value", &options));
        let mut poll = || waits.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_ready();
        assert!(!poll());
        // The change has ended, and its task will poll nothing more.
        run_ready(cache.set(b"at once", b"value", &options)).unwrap();
        assert!(is_woken(0) && !poll(), "another task goes on with the work");
        // A client that tends is idle otherwise.
        let mut tend = Box::pin(cache.tend());
        assert!(tend.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
        gates[0].open();
        assert!(is_woken(1) && tend.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_ready());
        assert!(is_woken(0) && poll(), "the work has ended");
    }

    #[test]
    fn a_client_works_beside_what_its_caller_does_and_wakes_one_that_waits_for_that() {
        work_beside(false);
        work_beside(true);
    }
}
