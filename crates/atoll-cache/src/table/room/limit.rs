//! Making room: a place for an object where the number of objects is limited.

use super::search::{TRIES_MAX, pause_ns};
use super::victim::Made;
use crate::CacheError;
use crate::limit::Limit;
use crate::table::Objects;
use crate::table::operation::Operation;
use crate::table::replacement::Replacement;
use atoll_fabric::{Endpoint, Purpose};

/// Samples that a client takes for a victim before it pauses once.
const SAMPLES_A_TRY: u32 = 16;

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
        let mut tried = 0;
        loop {
            if self.core.limit.reserve(&self.core.client, op).await? {
                return Ok(());
            }
            if self.evict_one(op).await? {
                continue;
            }
            // Where the index holds little, most samples are empty. So only one in so many costs a
            // pause.
            tried += 1;
            if tried >= SAMPLES_A_TRY * TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            if tried.is_multiple_of(SAMPLES_A_TRY) {
                // The operation holds no reservation meanwhile. Another client that waits recounts
                // only while all other clients are at rest.
                self.core.client.wait_aside(&mut op.entry, pause_ns(tried / SAMPLES_A_TRY)).await?;
                Box::pin(atoll_pool::repair::round(&self.core)).await?;
                // A client that died may have left an object counted that is not there. Such
                // objects may use up the limit.
                if self.core.client.are_counts_estimated() {
                    Box::pin(atoll_pool::repair::recount(&self.core)).await?;
                }
            }
        }
    }

    /// Evicts one object of any class; returns whether it did.
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

    /// Evicts until the resident objects are within the limit. A client that died may have left
    /// objects uncounted.
    pub(in crate::table) async fn evict_to_limit(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        for _ in 0..TRIES_MAX {
            if !Limit::is_exceeded(&self.core.client).await? {
                break;
            }
            self.evict_one(op).await?;
            self.core.client.endpoint.flush().await?;
        }
        Ok(())
    }
}
