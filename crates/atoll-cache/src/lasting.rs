//! Operations that run to their end, whether their futures are awaited or dropped.
//!
//! Over a fabric that waits, an operation has verbs under way whose outcome nobody knows before
//! they end: whoever forgot it there would have to find out, or leak what it holds. So the
//! operation is its client's, and the future that a caller has only looks on:
//!
//! | the caller | the operation |
//! |---|---|
//! | polls its future | goes on, and with it all others whose futures were dropped |
//! | drops it before the first poll | never begins |
//! | drops it later | goes on whenever the client does anything, and ends before the client leaves |
//!
//! The operation has a key, a value and room for results of its own, which cost a copy. Where
//! memory is near an operation ends at its first poll, nothing can be dropped on the way, and
//! clients do without this.

use crate::audit::Audit;
use crate::{CacheError, Change, Engine, Lookup, Meta, Pooled, Stats, Value};
use atoll_fabric::Endpoint;
use atoll_pool::{Client, PoolError, Repaired};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An engine whose operations run to their end.
pub struct Lasting<G> {
    /// First, so that operations go before the engine does.
    left: Left,
    engine: Rc<G>,
}

/// Operations whose futures were dropped.
#[derive(Default)]
struct Left {
    /// In the order in which they were dropped.
    operations: RefCell<Vec<Dropped>>,
    /// How many there have been.
    count: Cell<u64>,
}

struct Dropped {
    number: u64,
    operation: Pin<Box<dyn Future<Output = ()>>>,
}

impl Left {
    /// Goes on with all of them.
    fn go_on(&self, context: &mut Context<'_>) {
        if self.operations.borrow().is_empty() {
            return;
        }
        let mut operations = self.operations.take();
        operations.retain_mut(|dropped| dropped.operation.as_mut().poll(context).is_pending());
        self.operations.borrow_mut().append(&mut operations);
    }
}

/// What a caller has of an operation.
struct Attended<'c, F: Future + 'static> {
    left: &'c Left,
    /// `None` once it has ended.
    operation: Option<Pin<Box<F>>>,
    has_begun: bool,
}

impl<F: Future + 'static> Future for Attended<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
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

impl<F: Future + 'static> Drop for Attended<'_, F> {
    fn drop(&mut self) {
        // In a thread that panics the client may be half done with anything.
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
    /// The same engine, with operations that last.
    pub fn new(engine: G) -> Self {
        Self { left: Left::default(), engine: Rc::new(engine) }
    }

    /// Does what an operation does, to its end.
    fn run<F: Future + 'static>(&self, operation: F) -> impl Future<Output = F::Output> {
        Attended { left: &self.left, operation: Some(Box::pin(operation)), has_begun: false }
    }

    /// How many operations have been left so far: their futures were dropped after they had begun.
    pub fn left(&self) -> u64 {
        self.left.count.get()
    }

    /// How many of them, from the first one on, have ended.
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

/// What only this engine offers.
impl<G> std::ops::Deref for Lasting<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.engine
    }
}

impl<G: Engine + 'static> Engine for Lasting<G> {
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let (engine, key, mut value) = (self.engine.clone(), key.to_vec(), std::mem::take(into));
        let got = self.run(async move {
            let lookup = engine.get(&key, &mut value).await;
            (lookup, value)
        });
        let (lookup, value) = got.await;
        *into = value;
        lookup
    }

    async fn get_many<F: FnMut(usize, Lookup, &Value)>(&self, keys: &[&[u8]], mut found: F) -> Result<(), CacheError> {
        let engine = self.engine.clone();
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let got = self.run(async move {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut all = Vec::with_capacity(keys.len());
            let each = |_, lookup, value: &Value| {
                let mut copy = Value::new();
                copy.assign(value.bytes(), value.meta());
                all.push((lookup, copy));
            };
            engine.get_many(&keys, each).await.map(|()| all)
        });
        for (index, (lookup, value)) in got.await?.iter().enumerate() {
            found(index, *lookup, value);
        }
        Ok(())
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let (engine, key) = (self.engine.clone(), key.to_vec());
        self.run(async move { engine.peek(&key).await }).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let (engine, key, mut lasting) = (self.engine.clone(), key.to_vec(), change.lasting());
        let changed = self.run(async move {
            let token = engine.update(&key, &mut lasting).await;
            (token, lasting)
        });
        let (token, lasting) = changed.await;
        change.ended(lasting);
        token
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, mut each: F) -> Result<u64, CacheError> {
        let engine = self.engine.clone();
        let scanned = self.run(async move {
            let mut keys = Vec::new();
            let next = engine.scan(cursor, count, |key| keys.push(key.to_vec())).await;
            next.map(|next| (next, keys))
        });
        let (next, keys) = scanned.await?;
        keys.iter().for_each(|key| each(key));
        Ok(next)
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.random_key().await }).await
    }

    async fn flush(&self) -> Result<u64, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.flush().await }).await
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.objects().await }).await
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.now_ms().await }).await
    }

    async fn tend(&self) -> Result<(), CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.tend().await }).await
    }

    fn value_bytes_max(&self) -> usize {
        self.engine.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
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

    fn shared(&self) -> &Arc<G::Shared> {
        self.engine.shared()
    }

    fn client(&self) -> &Client<E> {
        self.engine.client()
    }

    async fn leave(&self) -> Result<(), CacheError> {
        self.finish().await;
        let engine = self.engine.clone();
        self.run(async move { engine.leave().await }).await
    }

    async fn repair(&self) -> Result<Repaired, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.repair().await }).await
    }

    async fn verify(&self) -> Result<Audit, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.verify().await }).await
    }

    async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.retire_chunks(most).await }).await
    }

    async fn discard_retired(&self) -> Result<u64, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.discard_retired().await }).await
    }

    async fn restore_chunk(&self) -> Result<bool, CacheError> {
        let engine = self.engine.clone();
        self.run(async move { engine.restore_chunk().await }).await
    }

    async fn grow(&self, bytes: u64) -> Result<u8, PoolError> {
        let engine = self.engine.clone();
        self.run(async move { engine.grow(bytes).await }).await
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
        async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
            self.model.get(key, into).await
        }

        async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
            self.model.peek(key).await
        }

        async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
            self.wait().await;
            self.model.update(key, change).await
        }

        crate::forward_engine!(model);
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
        // Each look goes on with it.
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
