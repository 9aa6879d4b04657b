//! A place for an object where the number of objects is limited.

use super::search::{TRIES_MAX, pause_ns};
use super::victim::Made;
use crate::CacheError;
use crate::table::operation::Operation;
use crate::table::replacement::Replacement;
use crate::table::{Core, Objects};
use atoll_fabric::{Batch, Endpoint, Purpose};
use atoll_pool::read_word;

/// Samples for an object that may go, of which one costs a pause.
const SAMPLES_A_TRY: u32 = 16;

impl<E: Endpoint> Core<E> {
    /// Gives a reservation back that the operation did not use.
    pub(in crate::table) fn release_reservation(&self, op: &mut Operation) {
        if op.has_reserved() {
            op.set_reserved(&self.reserved, false);
            let mut batch = Batch::new();
            batch.fetch_and_add(self.client.pool.layout.resident_objects(), u64::MAX);
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Counts an object against the limit, evicting until there is room.
    pub(in crate::table) async fn reserve_object(&self, op: &mut Operation) -> Result<(), CacheError> {
        let _turn = self.turn_to_make_room(op).await?;
        let before = self.core.client.endpoint.purpose(Purpose::Eviction);
        let reserved = self.make_room_for_object(op).await;
        self.core.client.endpoint.purpose(before);
        reserved
    }

    async fn make_room_for_object(&self, op: &mut Operation) -> Result<(), CacheError> {
        let at = self.core.client.pool.layout.resident_objects();
        let max = self.core.client.pool.settings.objects_max;
        let mut tried = 0;
        loop {
            let mut batch = Batch::new();
            let resident = batch.fetch_and_add(at, 1);
            self.core.client.endpoint.post(&mut batch).await?;
            if batch.word(resident) < max {
                op.set_reserved(&self.core.reserved, true);
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.fetch_and_add(at, u64::MAX);
            self.core.client.endpoint.post(&mut batch).await?;
            if self.evict_one(op).await? {
                continue;
            }
            // Where the index holds little, most samples are empty: only every so manieth costs a
            // pause.
            tried += 1;
            if tried >= SAMPLES_A_TRY * TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            if tried.is_multiple_of(SAMPLES_A_TRY) {
                // It holds no reservation meanwhile: another client that waits counts anew only
                // while all others are at rest.
                self.core.client.wait_aside(&mut op.entry, pause_ns(tried / SAMPLES_A_TRY)).await?;
                Box::pin(atoll_pool::repair::round(&self.core)).await?;
                // Each client that died may have left an object counted that is not there: the
                // limit may be used up by those.
                if self.core.client.are_counts_estimated() {
                    Box::pin(atoll_pool::repair::recount(&self.core)).await?;
                }
            }
        }
    }

    /// Evicts one object, whatever its class; whether it did.
    async fn evict_one(&self, op: &mut Operation) -> Result<bool, CacheError> {
        self.free_a_cell(op).await?;
        if R::QUEUES {
            return self.evict_one_by_queue(op).await;
        }
        let sample = self.look_at_some(None).await?;
        if let Some(taken) = self.take_expired_of(op, &sample).await? {
            return Ok(taken);
        }
        let Some(victim) = self.choose(&sample.candidates).await? else { return Ok(false) };
        Ok(self.evict(op, victim).await? == Made::Room)
    }

    /// Evicts until no more objects are resident than may be: what a client that died had not
    /// counted may have been too many.
    pub(in crate::table) async fn evict_to_limit(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        let max = self.core.client.pool.settings.objects_max;
        for _ in 0..TRIES_MAX {
            let resident =
                read_word(&self.core.client.endpoint, self.core.client.pool.layout.resident_objects()).await?;
            if max == 0 || resident <= max {
                break;
            }
            self.evict_one(op).await?;
            self.core.client.endpoint.flush().await?;
        }
        Ok(())
    }
}
