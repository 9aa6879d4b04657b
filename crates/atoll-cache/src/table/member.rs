//! The life of a client in the pool: it joins, tends, repairs, and leaves.
//!
//! | step | what the client does |
//! |---|---|
//! | join | reads the clock, gives up blocks of drained chunks, inherits the cells of its place, reclaims what the place's last client held |
//! | tend | makes a round, compares with the limit of objects, sweeps expired objects |
//! | leave | releases all that it holds; if it cannot, it leaves the rest to a repairer |

use super::replacement::Replacement;
use super::{Objects, TablePool};
use crate::CacheError;
use crate::audit::Audit;
use crate::extent::free_unlisted;
use crate::index::extents::recheck_bound;
use atoll_fabric::{Endpoint, Purpose};
use atoll_pool::{Client, PoolError, Repaired};
use std::sync::Arc;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Joins the pool as a new client. The caller checks that the pool is for this engine.
    pub async fn join(shared: &Arc<TablePool>, endpoint: E) -> Result<Self, PoolError> {
        let replacement = R::new(shared, &endpoint)?;
        let client = Client::join(&shared.pool, endpoint).await?;
        let objects = Self::new(shared, client, replacement);
        let joined = objects.settle_in().await.map_err(|error| match error {
            CacheError::Verb(error) => PoolError::Verb(error),
            _ => PoolError::Damaged { what: "what a client that died left behind" },
        });
        joined.map(|()| objects)
    }

    async fn settle_in(&self) -> Result<(), CacheError> {
        self.work_in_turn(self.look_for_what_is_left()).await
    }

    /// Runs this work as an operation that has the turn to make room.
    async fn work_in_turn(&self, work: impl Future<Output = Result<(), CacheError>>) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        let begun = self.enter(op).await;
        self.noted(begun)?;
        let _turn = self.turn_to_make_room(op).await?;
        let done = work.await;
        self.end(op, done).await
    }

    async fn look_for_what_is_left(&self) -> Result<(), CacheError> {
        let core = &self.core;
        let now_ns = core.client.endpoint.now_ns();
        core.client.pool_ms(now_ns).await?;
        core.look_for_drains().await?;
        core.inherit_cells().await?;
        atoll_pool::repair::settle_in(core).await?;
        Box::pin(self.hold_limit()).await
    }

    /// Evicts the excess once this client has recounted everything: clients that died had not
    /// counted all of it.
    async fn hold_limit(&self) -> Result<(), CacheError> {
        if self.core.limit.take_recounted() {
            self.evict_to_limit().await?;
        }
        Ok(())
    }

    /// A client that only looks at the pool, without a place in it: for [`Objects::verify`].
    pub fn auditor(shared: &Arc<TablePool>, endpoint: E) -> Result<Self, PoolError> {
        let replacement = R::new(shared, &endpoint)?;
        let client = Client::auditor(&shared.pool, endpoint);
        Ok(Self::new(shared, client, replacement))
    }

    /// Releases everything that this client holds and gives up its place.
    pub async fn leave(&self) -> Result<(), CacheError> {
        if !self.core.client.is_member() {
            return Ok(());
        }
        if self.core.client.is_lost() {
            self.core.client.forget();
            return Ok(());
        }
        let left = self.put_back_and_leave().await;
        self.noted(left)
    }

    async fn put_back_and_leave(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.enter(op).await?;
        let _turn = self.turn_to_make_room(op).await?;
        let _closed = self.core.client.in_flight().closed().await;
        self.replacement.round(&self.core).await?;
        free_unlisted(&self.core).await?;
        let mut is_done = self.core.release_all().await?;
        if self.core.limit.is_recounted() {
            Box::pin(self.hold_limit()).await?;
            is_done = self.core.release_all().await?;
        }
        recheck_bound(&self.core).await?;
        self.core.publish_dead();
        self.core.client.tell_lookups(self.core.stats.lookups());
        self.core.client.endpoint.flush().await?;
        // What an operation had in its hands that was dropped halfway is left to a repairer.
        match is_done && !self.core.client.cut_off().has_happened() {
            true => Ok(self.core.client.leave().await?),
            false => Ok(self.core.client.abandon().await?),
        }
    }

    /// Passes the outcome on. After a failure of the fabric this client does nothing any more, and
    /// does not leave as if it had released everything.
    pub(super) fn noted<T>(&self, outcome: Result<T, CacheError>) -> Result<T, CacheError> {
        if let Err(CacheError::Verb(error)) = &outcome {
            self.core.client.note_failure(error);
        }
        outcome
    }

    /// Renews this client's lease, repairs what dead clients held, and removes expired objects.
    /// Operations do this by themselves. An idle client should call it every
    /// [`Times::look_ns`](atoll_pool::registry::Times).
    pub async fn tend(&self) -> Result<(), CacheError> {
        self.work_in_turn(self.tend_and_hold_limit()).await
    }

    pub(super) async fn tend_and_hold_limit(&self) -> Result<(), CacheError> {
        let before = self.core.client.endpoint.purpose(Purpose::Upkeep);
        let tended = self.tend_first().await;
        self.core.client.endpoint.purpose(before);
        tended
    }

    async fn tend_first(&self) -> Result<(), CacheError> {
        atoll_pool::repair::round(&self.core).await?;
        Box::pin(free_unlisted(&self.core)).await?;
        Box::pin(self.hold_limit()).await?;
        Box::pin(self.sweep_expired()).await
    }

    /// Looks after all clients now, as [`tend`](Self::tend) does when one stands still.
    pub async fn repair(&self) -> Result<Repaired, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.enter(op).await?;
        let _turn = self.turn_to_make_room(op).await?;
        let repaired = atoll_pool::repair::repair(&self.core).await?;
        Box::pin(self.hold_limit()).await?;
        self.end(op, Ok(repaired)).await
    }

    /// Walks the pool. No other client may use it meanwhile, since operations under way would be
    /// reported as faults.
    pub async fn verify(&self) -> Result<Audit, CacheError> {
        let mut audit = self.core.audit().await?;
        self.replacement.verify(&self.core, &mut audit.faults).await?;
        Ok(audit)
    }
}

impl<E: Endpoint, R: Replacement<E>> Drop for Objects<E, R> {
    /// Leaves the pool if the fabric needs no waiting. Over another fabric, call [`Objects::leave`]
    /// before. While its thread panics, it does not touch what it holds, which may be half done. A
    /// repairer takes that over.
    fn drop(&mut self) {
        self.core.client.leave_now(self.leave());
    }
}
