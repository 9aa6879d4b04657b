//! A client whose process has an evictor.
//!
//! The evictor steps after each change until enough chunks are free. So a replay is the same each
//! time, and the writer never evicts itself: the product's thread at its best.

use atoll_cache::{Ahead, CacheError, Change, Engine, EnginePool, Pooled, Removals, pass_on_operations};
use atoll_fabric::Endpoint;
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::Waker;

/// An engine's client, and the evictor that it shares with the other clients of its process.
pub(crate) struct EvictedAhead<E, G> {
    engine: G,
    evictor: Rc<G>,
    endpoint: PhantomData<E>,
}

impl<E: Endpoint, G: Pooled<E>> EvictedAhead<E, G> {
    pub(crate) fn new(engine: G, evictor: Rc<G>) -> Self {
        if let Some(reserve) = evictor.shared().reserve() {
            // The first client of the process does this for all.
            reserve.attend(Waker::noop().clone());
        }
        Self { engine, evictor, endpoint: PhantomData }
    }

    /// The client.
    pub(crate) fn engine(&self) -> &G {
        &self.engine
    }
}

impl<E: Endpoint, G: Pooled<E>> Engine for EvictedAhead<E, G> {
    pass_on_operations!(engine, get, stats);

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let updated = self.engine.update(key, change).await?;
        while self.evictor.evict_ahead().await? == Ahead::Worked {}
        Ok(updated)
    }

    async fn tend(&self) -> Result<(), CacheError> {
        Engine::tend(&*self.evictor).await?;
        self.engine.tend().await
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.engine.close().await
    }

    fn removals(&self) -> Option<&Removals> {
        self.engine.removals()
    }
}
