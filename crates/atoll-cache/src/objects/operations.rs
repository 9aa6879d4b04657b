//! The operations of a client: what each does first, which way it goes, and what it does last.
//!
//! | step | why |
//! |---|---|
//! | now and then a round: tell of accesses, renew the lease, look after others | see `repair` |
//! | where there are extensions and WRITEs are cheap: say that an operation is under way | whoever empties a chunk waits for WRITEs of extensions (see `drain`) |
//! | the operation | |
//! | in such a case: say that nothing is under way any more | so that nobody waits for a client that does nothing |
//! | after a failure of the fabric: do nothing any more | |
//!
//! Over a network the two WRITEs and the wait for them would cost more than what they are good for: there a client that does nothing makes rounds
//! ([`Engine::tend`]), or chunks are emptied only when it comes back.

use super::replacement::Replacement;
use super::{Core, Hole, Objects, STOCK_KEPT};
use crate::{CacheError, Change, Engine, Lookup, Meta, Stats, Value};
use atoll_fabric::{Endpoint, VerbError};
use atoll_pool::registry;

impl<E: Endpoint> Core<E> {
    /// Whether this client says when it is at rest.
    #[inline]
    pub(super) fn tells_rest(&self) -> bool {
        self.extension_bytes() > 0 && self.client.endpoint.is_near()
    }

    /// Says that an operation begins.
    pub(super) async fn leave_rest(&mut self) -> Result<(), VerbError> {
        let is_told = !self.is_open(Hole::UntoldOperation);
        match self.client.is_member() && is_told {
            true => self.client.member().begin(&self.client.endpoint).await,
            false => Ok(()),
        }
    }

    /// Says that no operation is under way.
    pub(super) async fn rest(&mut self) -> Result<(), VerbError> {
        match self.client.is_member() {
            true => self.client.member().rest(&self.client.endpoint).await,
            false => Ok(()),
        }
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    #[inline]
    pub(super) async fn begin(&mut self) -> Result<(), CacheError> {
        if self.core.client.count_operation() {
            Box::pin(self.make_round()).await?;
        }
        if self.core.tells_rest() {
            let begun = self.core.leave_rest().await;
            self.noted(begun.map_err(CacheError::from))?;
        }
        Ok(())
    }

    #[cold]
    async fn make_round(&mut self) -> Result<(), CacheError> {
        self.core.client.begin_round()?;
        let told = self.replacement.round(&mut self.core).await;
        self.noted(told)?;
        self.tend().await
    }

    #[inline]
    pub(super) async fn end<T>(&mut self, mut outcome: Result<T, CacheError>) -> Result<T, CacheError> {
        if matches!(outcome, Err(CacheError::Damaged { .. } | CacheError::OutOfMemory)) {
            // The client may have come to an unexpected word because it was shut out.
            Box::pin(self.core.client.check_membership()).await?;
        }
        if self.core.tells_rest()
            && !self.core.client.is_lost()
            && !matches!(outcome, Err(CacheError::Verb(_)))
            && let Err(error) = self.core.rest().await
        {
            outcome = Err(error.into());
        }
        self.noted(outcome)
    }

    /// Gives others what this client does not need between operations.
    async fn give_back_surplus(&mut self) -> Result<(), CacheError> {
        self.core.give_back_beyond(STOCK_KEPT).await?;
        if !self.core.chunks.is_empty() && self.core.slabs_max() == 0 {
            self.core.free_fresh_chunks().await?;
        }
        Ok(())
    }
}

impl<E: Endpoint, R: Replacement<E>> Engine for Objects<E, R> {
    async fn get(&mut self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        self.begin().await?;
        let found = self.lookup(key, into).await;
        self.end(found).await
    }

    async fn get_many<F: FnMut(usize, Lookup, &Value)>(&mut self, keys: &[&[u8]], found: F) -> Result<(), CacheError> {
        self.begin().await?;
        let looked = self.lookup_many(keys, found).await;
        self.end(looked).await
    }

    async fn peek(&mut self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        self.begin().await?;
        let found = self.present(key).await;
        self.end(found).await
    }

    async fn update<C: Change>(&mut self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        self.begin().await?;
        let mut outcome = self.apply(key, change).await;
        self.core.old.shrink_beyond(1 << 20);
        self.core.outgoing.shrink_beyond(1 << 20);
        if outcome.is_ok()
            && let Err(error) = self.give_back_surplus().await
        {
            outcome = Err(error);
        }
        self.end(outcome).await
    }

    async fn scan<F: FnMut(&[u8])>(&mut self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        self.begin().await?;
        let walked = self.walk_keys(cursor, count, each).await;
        self.end(walked).await
    }

    async fn random_key(&mut self) -> Result<Option<Vec<u8>>, CacheError> {
        self.begin().await?;
        let found = self.some_key().await;
        self.end(found).await
    }

    async fn flush(&mut self) -> Result<u64, CacheError> {
        self.begin().await?;
        let removed = self.remove_all().await;
        self.end(removed).await
    }

    async fn objects(&mut self) -> Result<u64, CacheError> {
        Ok(registry::objects(&self.core.client.endpoint, &self.core.client.pool).await?)
    }

    async fn now_ms(&mut self) -> Result<u64, CacheError> {
        let now_ns = self.core.client.endpoint.now_ns();
        Ok(self.core.client.pool_ms(now_ns).await?)
    }

    async fn tend(&mut self) -> Result<(), CacheError> {
        Objects::tend(self).await
    }

    fn value_bytes_max(&self) -> usize {
        self.core.shared.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.core.stats.with_upkeep(self.core.client.upkeep())
    }
}
