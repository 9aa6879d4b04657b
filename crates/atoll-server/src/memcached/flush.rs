//! `flush_all`: now, or at a moment that a request has set.
//!
//! Only the last request counts: one without a delay takes back a moment that was set. A worker
//! that looks after its pool begins the flush, at most a tenth of a second late. What is stored
//! after the moment and before the flush has ended may be removed, too. A server that stops forgets
//! the moment.

use super::time::expiry;
use crate::redis::command::keyspace;
use crate::redis::instance::Instance;
use crate::redis::isolation::{Batch, Turn};
use crate::serve::protocol::Client;
use atoll_cache::{CacheError, Engine, Expiry};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const NONE: u64 = u64::MAX;

/// When the keys are to be removed, in milliseconds of the pool's clock.
pub(super) struct Flush(AtomicU64);

impl Default for Flush {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Flush {
    /// Does what a request asks for.
    pub(super) async fn request<G: Engine>(
        &self,
        instance: &Instance,
        exptime: i32,
        batch: &Batch<'_>,
        client: Client<'_, G>,
    ) -> Result<(), CacheError> {
        match expiry(exptime) {
            Expiry::Never | Expiry::AtMs(0) => {
                self.0.store(NONE, Relaxed);
                keyspace::flush(client.cache, instance.databases.get(0), Turn::begin(Some(batch))).await
            }
            later => {
                let at_ms = later.at_ms(client.cache.now_ms().await?, None);
                self.0.store(at_ms.unwrap_or(NONE), Relaxed);
                Ok(())
            }
        }
    }

    /// Flushes, if the moment has come.
    pub(super) async fn tend<G: Engine>(&self, instance: &Instance, client: Client<'_, G>) {
        let at_ms = self.0.load(Relaxed);
        if at_ms == NONE || client.cache.now_ms().await.is_ok_and(|now_ms| now_ms < at_ms) {
            return;
        }
        let batch = instance.isolation.enter(client.worker).await;
        if self.0.compare_exchange(at_ms, NONE, Relaxed, Relaxed).is_err() {
            return;
        }
        let turn = Turn::begin(Some(&batch));
        if keyspace::flush(client.cache, instance.databases.get(0), turn).await.is_err() {
            // The next worker tries it, unless another request has come.
            let _ = self.0.compare_exchange(NONE, at_ms, Relaxed, Relaxed);
        }
    }
}
