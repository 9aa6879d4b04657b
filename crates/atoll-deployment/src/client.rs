//! A client of a cache, whatever its engine and its memory are.
//!
//! Operations end when they return: where the fabric waits, the thread waits. So the futures of
//! this [`Engine`] are ready when they are first polled.

use atoll_cache::{CacheError, Change, Engine, Flushed, Lookup, Meta, Old, Stats, Value, Verdict, Want};
use atoll_fabric::block_on_with;
use std::any::Any;
use std::ops::DerefMut;

/// A client: an [`Engine`] whose futures never wait.
pub struct Client {
    operations: Box<dyn Operations>,
    number: u64,
}

impl Client {
    /// A client that is this engine. No other client of the cache ever has the same `number`.
    /// `wait` waits until a pending future of the engine may make progress.
    pub(crate) fn new<G: Engine + 'static>(engine: G, number: u64, wait: fn(&G)) -> Self {
        Self { operations: Box::new(Waiting { engine, wait }), number }
    }

    /// Its number, which no other client of a cache in a pool ever has.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// It leaves, also where the fabric waits. If it cannot, its place is that of a dead client.
impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.operations.close();
    }
}

/// The methods of [`Engine`] that a client of the lab uses, each of which ends when it returns.
trait Operations {
    fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError>;
    fn get_many(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        found: &mut dyn FnMut(usize, Lookup, &mut Value),
    ) -> Result<(), CacheError>;
    fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError>;
    fn update(&self, key: &[u8], change: &mut dyn Decision) -> Result<Option<u64>, CacheError>;
    fn scan(&self, cursor: u64, count: usize, each: &mut dyn FnMut(&[u8])) -> Result<u64, CacheError>;
    fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError>;
    fn flush(&self, cursor: u64) -> Result<Flushed, CacheError>;
    fn objects(&self) -> Result<u64, CacheError>;
    fn now_ms(&self) -> Result<u64, CacheError>;
    fn tend(&self) -> Result<(), CacheError>;
    fn close(&self) -> Result<(), CacheError>;
    fn value_bytes_max(&self) -> usize;
    fn stats(&self) -> Stats;
}

struct Waiting<G> {
    engine: G,
    wait: fn(&G),
}

impl<G> Waiting<G> {
    #[inline]
    fn done<T>(&self, operation: impl Future<Output = T>) -> T {
        block_on_with(|| (self.wait)(&self.engine), operation)
    }
}

impl<G: Engine> Operations for Waiting<G> {
    fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        self.done(self.engine.get(key, into))
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        found: &mut dyn FnMut(usize, Lookup, &mut Value),
    ) -> Result<(), CacheError> {
        self.done(self.engine.get_many(keys, bytes_max, found))
    }

    fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        self.done(self.engine.peek(key))
    }

    fn update(&self, key: &[u8], change: &mut dyn Decision) -> Result<Option<u64>, CacheError> {
        self.done(self.engine.update(key, &mut Decided(change)))
    }

    fn scan(&self, cursor: u64, count: usize, each: &mut dyn FnMut(&[u8])) -> Result<u64, CacheError> {
        self.done(self.engine.scan(cursor, count, each))
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        self.done(self.engine.random_key())
    }

    fn flush(&self, cursor: u64) -> Result<Flushed, CacheError> {
        self.done(self.engine.flush(cursor))
    }

    fn objects(&self) -> Result<u64, CacheError> {
        self.done(self.engine.objects())
    }

    fn now_ms(&self) -> Result<u64, CacheError> {
        self.done(self.engine.now_ms())
    }

    fn tend(&self) -> Result<(), CacheError> {
        self.done(self.engine.tend())
    }

    fn close(&self) -> Result<(), CacheError> {
        self.done(self.engine.close())
    }

    fn value_bytes_max(&self) -> usize {
        self.engine.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }
}

impl Engine for Client {
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        self.operations.get(key, into)
    }

    async fn get_many<F: FnMut(usize, Lookup, &mut Value)>(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        mut found: F,
    ) -> Result<(), CacheError> {
        self.operations.get_many(keys, bytes_max, &mut found)
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        self.operations.peek(key)
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        self.operations.update(key, change)
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, mut each: F) -> Result<u64, CacheError> {
        self.operations.scan(cursor, count, &mut each)
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        self.operations.random_key()
    }

    async fn flush(&self, cursor: u64) -> Result<Flushed, CacheError> {
        self.operations.flush(cursor)
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        self.operations.objects()
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        self.operations.now_ms()
    }

    async fn tend(&self) -> Result<(), CacheError> {
        self.operations.tend()
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.operations.close()
    }

    fn value_bytes_max(&self) -> usize {
        self.operations.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.operations.stats()
    }
}

/// A [`Change`] of any type.
trait Decision {
    fn wants(&self) -> Want;
    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict;
    fn value(&self) -> &[u8];
    fn is_blind(&self) -> bool;
    fn lasting(&mut self) -> Box<dyn Lasted>;
    fn ended(&mut self, lasting: Box<dyn Lasted>);
}

/// A [`Decision`] that owns all that it needs.
trait Lasted: Decision + Any {}

impl<C: Change + 'static> Lasted for C {}

impl<C: Change> Decision for C {
    fn wants(&self) -> Want {
        Change::wants(self)
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        Change::decide(self, now_ms, old)
    }

    fn value(&self) -> &[u8] {
        Change::value(self)
    }

    fn is_blind(&self) -> bool {
        Change::is_blind(self)
    }

    fn lasting(&mut self) -> Box<dyn Lasted> {
        Box::new(Change::lasting(self))
    }

    fn ended(&mut self, lasting: Box<dyn Lasted>) {
        let lasting: Box<dyn Any> = lasting;
        Change::ended(self, *lasting.downcast().expect("it is the lasting form of this change"));
    }
}

/// What the engine is given: a change behind a pointer.
struct Decided<P>(P);

impl<P: DerefMut<Target: Decision>> Change for Decided<P> {
    fn wants(&self) -> Want {
        self.0.wants()
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.0.decide(now_ms, old)
    }

    fn value(&self) -> &[u8] {
        self.0.value()
    }

    fn is_blind(&self) -> bool {
        self.0.is_blind()
    }

    type Lasting = Decided<Box<dyn Lasted>>;

    fn lasting(&mut self) -> Self::Lasting {
        Decided(self.0.lasting())
    }

    fn ended(&mut self, lasting: Self::Lasting) {
        self.0.ended(lasting.0);
    }
}
