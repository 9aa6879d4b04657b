//! The operations of the engine: what each does before and after the way that it takes, which has a module of its own.

use super::Forge;
use super::room::STOCK_KEPT;
use crate::{CacheError, Change, Engine, Lookup, Meta, Stats, Value};
use atoll_fabric::Endpoint;
use atoll_pool::registry;

impl<E: Endpoint> Engine for Forge<E> {
    #[inline]
    async fn get(&mut self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        self.lookup(key, into, true).await
    }

    async fn get_many<F: FnMut(usize, Lookup, &Value)>(&mut self, keys: &[&[u8]], found: F) -> Result<(), CacheError> {
        self.lookup_many(keys, found).await
    }

    async fn expect(&mut self, keys: &[&[u8]]) {
        self.expect_keys(keys).await;
    }

    async fn peek(&mut self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        self.begin().await?;
        self.present(key).await
    }

    async fn update<C: Change>(&mut self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        self.begin().await?;
        let outcome = self.apply(key, change).await;
        let outcome = self.judged(outcome).await;
        if let Err(CacheError::Verb(error)) = &outcome {
            self.client.note_failure(error);
        }
        self.old.shrink_beyond(1 << 20);
        self.outgoing.shrink_beyond(1 << 20);
        if outcome.is_ok() {
            let closed = self.close_full_groups().await;
            self.judged(closed).await?;
        }
        // What this client does not need now is better in everybody's hands.
        self.free_stock_beyond(STOCK_KEPT).await?;
        if !self.waiting.is_empty() {
            Box::pin(self.recheck_waiting(false)).await?;
        }
        outcome
    }

    async fn scan<F: FnMut(&[u8])>(&mut self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        self.walk_keys(cursor, count, each).await
    }

    async fn random_key(&mut self) -> Result<Option<Vec<u8>>, CacheError> {
        self.some_key().await
    }

    async fn flush(&mut self) -> Result<u64, CacheError> {
        self.remove_all().await
    }

    async fn objects(&mut self) -> Result<u64, CacheError> {
        Ok(registry::objects(&self.client.endpoint, &self.client.pool).await?)
    }

    async fn now_ms(&mut self) -> Result<u64, CacheError> {
        let now_ns = self.client.endpoint.now_ns();
        Ok(self.client.pool_ms(now_ns).await?)
    }

    async fn tend(&mut self) -> Result<(), CacheError> {
        self.close_expired_groups().await?;
        Forge::tend(self).await
    }

    fn value_bytes_max(&self) -> usize {
        self.shared.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.stats.with_upkeep(self.client.upkeep())
    }
}
