//! Operations that run to their end, whether their futures are awaited or dropped.
//!
//! Over a fabric that waits, an operation has verbs under way whose outcome is unknown until they
//! end. A client that forgot such an operation would leak what it holds. So the client owns the
//! operation, and the caller's future only observes it:
//!
//! | the caller | the operation |
//! |---|---|
//! | polls its future | continues, and with it all operations whose futures were dropped |
//! | drops the future before the first poll | never begins |
//! | drops the future later | continues with whatever the client does next, and ends before the client leaves |
//!
//! The operation has its own key, value and room for results, which costs a copy. Where memory is
//! near, an operation ends at its first poll. No operation can be dropped halfway there, so clients
//! do without this.

use crate::audit::Audit;
use crate::{Ahead, CacheError, Change, Engine, Flushed, Lookup, Mark, Meta, Pooled, Removals, Stats, Value};
use atoll_fabric::{Arrivals, Endpoint};
use atoll_pool::{Client, PoolError, Repaired};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An engine whose operations run to their end.
pub struct Lasting<G> {
    /// First, so that operations are dropped before the engine.
    left: Left,
    engine: Rc<G>,
}

/// Operations whose futures were dropped.
#[derive(Default)]
struct Left {
    /// In the order in which they were dropped.
    operations: RefCell<Vec<Dropped>>,
    /// How many operations were dropped.
    count: Cell<u64>,
}

/// An operation. The type does not name the engine, so that a crate does not compile an engine
/// again that another crate already uses.
type Operation<T> = Pin<Box<dyn Future<Output = T>>>;

struct Dropped {
    number: u64,
    operation: Operation<()>,
}

impl Left {
    /// Continues with all of them.
    fn go_on(&self, context: &mut Context<'_>) {
        if self.operations.borrow().is_empty() {
            return;
        }
        let mut operations = self.operations.take();
        operations.retain_mut(|dropped| dropped.operation.as_mut().poll(context).is_pending());
        self.operations.borrow_mut().append(&mut operations);
    }
}

/// The caller's end of an operation.
struct Attended<'c, T: 'static> {
    left: &'c Left,
    /// `None` once the operation has ended.
    operation: Option<Operation<T>>,
    has_begun: bool,
}

impl<T: 'static> Future for Attended<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.left.go_on(context);
        self.has_begun = true;
        let operation = self.operation.as_mut().expect("nothing is polled after its end");
        let polled = operation.as_mut().poll(context);
        if polled.is_ready() {
            self.operation = None;
        }
        polled
    }
}

impl<T: 'static> Drop for Attended<'_, T> {
    fn drop(&mut self) {
        // While its thread panics, a client may have stopped halfway through anything.
        if self.has_begun
            && !std::thread::panicking()
            && let Some(operation) = self.operation.take()
        {
            let operation = Box::pin(async move {
                operation.await;
            });
            let number = self.left.count.replace(self.left.count.get() + 1);
            self.left.operations.borrow_mut().push(Dropped { number, operation });
        }
    }
}

impl<G: 'static> Lasting<G> {
    /// Wraps an engine: its operations last.
    pub fn new(engine: G) -> Self {
        Self { left: Left::default(), engine: Rc::new(engine) }
    }

    /// Runs an operation to its end. It comes as a closure, so that its future is made where it
    /// stays: a copy of that of a change would take longer than the change.
    #[inline(always)]
    fn run<T: 'static, F: Future<Output = T> + 'static>(&self, begin: impl FnOnce() -> F) -> Attended<'_, T> {
        let operation = Box::into_pin(Box::write(Box::new_uninit(), begin()));
        Attended { left: &self.left, operation: Some(operation), has_begun: false }
    }

    /// How many operations have been left so far: their futures were dropped after they had begun.
    pub fn left(&self) -> u64 {
        self.left.count.get()
    }

    /// How many of the operations that were left have ended: those from the first one on without a
    /// gap.
    pub fn left_and_ended(&self) -> u64 {
        self.left.operations.borrow().first().map_or(self.left.count.get(), |oldest| oldest.number)
    }

    /// Waits for the operations whose futures were dropped.
    pub async fn finish(&self) {
        poll_fn(|context| {
            self.left.go_on(context);
            if self.left.operations.borrow().is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Operations with a callback, as far as they do not depend on it.
impl<G: Engine + 'static> Lasting<G> {
    async fn values_of(&self, keys: &[&[u8]]) -> Result<Vec<(Lookup, Value)>, CacheError> {
        let engine = self.engine.clone();
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let got = self.run(move || async move {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut all = Vec::with_capacity(keys.len());
            let each = |_, lookup, value: &mut Value| all.push((lookup, std::mem::take(value)));
            engine.get_many(&keys, each).await.map(|()| all)
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

    async fn get_many<F>(&self, keys: &[&[u8]], mut found: F) -> Result<(), CacheError>
    where
        F: FnMut(usize, Lookup, &mut Value),
    {
        for (index, (lookup, value)) in self.values_of(keys).await?.iter_mut().enumerate() {
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

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let (engine, key, mut lasting) = (self.engine.clone(), key.to_vec(), change.lasting());
        let changed = self.run(move || async move {
            let token = engine.update(&key, &mut lasting).await;
            (token, lasting)
        });
        let (token, lasting) = changed.await;
        change.ended(lasting);
        token
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
        tend() -> Result<(), CacheError>,
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
        self.run(move || async move { engine.close().await }).await
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
        verify() -> Result<Audit, CacheError>,
        retire_chunks(most: u64) -> Result<u64, CacheError>,
        discard_retired() -> Result<u64, CacheError>,
        restore_chunk() -> Result<bool, CacheError>,
        evict_ahead() -> Result<Ahead, CacheError>,
        grow(bytes: u64) -> Result<u8, PoolError>,
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
        self.run(move || async move { engine.leave().await }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::{Cache, SetOptions};
    use atoll_fabric::{Clock, run_ready};
    use std::task::Waker;

    /// Waits once before every change.
    struct Slow {
        model: Model,
        waits: Rc<Cell<u32>>,
    }

    impl Slow {
        async fn wait(&self) {
            let mut left = self.waits.get();
            poll_fn(|_| {
                left = left.saturating_sub(1);
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    impl Engine for Slow {
        crate::pass_on_operations!(model, get, stats);

        async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
            self.wait().await;
            self.model.update(key, change).await
        }
    }

    #[test]
    fn an_operation_whose_future_is_dropped_runs_to_its_end() {
        let waits = Rc::new(Cell::new(3));
        let slow = Slow { model: Model::new(Clock::manual(1_000_000_000).0), waits: waits.clone() };
        let cache = Cache::new(Lasting::new(slow));
        let (mut context, options) = (Context::from_waker(Waker::noop()), SetOptions::default());
        {
            drop(cache.set(b"never", b"polled", &options));
            let mut dropped = Box::pin(cache.set(b"dropped", b"value", &options));
            assert!(dropped.as_mut().poll(&mut context).is_pending());
        }
        let mut value = Value::new();
        // Each look continues with it.
        assert!(!run_ready(cache.get(b"dropped", &mut value)).unwrap());
        assert!(run_ready(cache.get(b"dropped", &mut value)).unwrap());
        assert_eq!(value.bytes(), b"value");
        assert!(!run_ready(cache.get(b"never", &mut value)).unwrap());
        waits.set(1);
        let mut old = Value::new();
        let replaced = run_ready(cache.set_returning(b"dropped", b"more", &options, Some(&mut old))).unwrap();
        assert!(replaced.stored);
        assert_eq!(old.bytes(), b"value", "what the change saw is told");
        run_ready(cache.engine().finish());
    }
}
