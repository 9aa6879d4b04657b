//! Making room: a slot in a bucket in which all slots are live.

use super::victim::Made;
use crate::CacheError;
use crate::table::Objects;
use crate::table::operation::Operation;
use crate::table::replacement::{Replacement, Victim};
use crate::table::slot::Slot;
use atoll_fabric::{Endpoint, Purpose};

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Evicts one of the objects of a bucket in which all slots are live.
    pub(in crate::table) async fn make_room_in(&self, op: &mut Operation, bucket: u32) -> Result<(), CacheError> {
        let _turn = self.turn_to_make_room(op).await?;
        let before = self.core.client.endpoint.purpose(Purpose::Eviction);
        let made = self.evict_from(op, bucket).await;
        self.core.client.endpoint.purpose(before);
        made
    }

    async fn evict_from(&self, op: &mut Operation, bucket: u32) -> Result<(), CacheError> {
        self.free_a_cell(op).await?;
        let sample = self.core.sample_of(&[bucket], &[], self.replacement.how_to_sample().await, None).await?;
        // If all have expired, there is no object to choose from.
        if self.take_expired_of(op, &sample).await?.is_some() {
            return Ok(());
        }
        let chosen = match sample.candidates.as_slice() {
            [] => None,
            candidates => self.replacement.choose(&self.core, candidates).await?,
        };
        // A replacement that does not choose among samples is asked about a random one.
        let random = self.core.client.endpoint.random() as usize % sample.candidates.len().max(1);
        let any = sample.candidates.get(random);
        let any = any.map(|any| Victim { slot: any.slot, word: any.word, then: Slot::EMPTY });
        let Some(victim) = chosen.or(any) else { return Ok(()) };
        if self.evict(op, victim).await? == Made::Room {
            self.core.stats.evictions_index.add(1);
            // A queue may still have it.
            if chosen.is_none() || R::QUEUES {
                self.replacement.removed(&self.core, victim.slot, victim.word).await?;
            }
        }
        Ok(())
    }
}
