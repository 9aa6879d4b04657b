//! How a client unlinks an object that was deleted, has expired, is evicted by itself, or is
//! damaged.

use super::operation::Operation;
use super::search::Found;
use super::slot::Slot;
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::index::{Index, Unlink, copies};
use crate::removals::{Cause, Removal, removal_of};
use crate::search::Large;
use atoll_fabric::{Buffer, Endpoint};

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// What is to be noted of the object with this record, if the client's swap takes the object
    /// out of its slot afterwards. Until then nothing reuses record and extents.
    pub(super) async fn removal_in(
        &self,
        word: Slot,
        record: &Buffer,
        cause: Cause,
    ) -> Result<Option<Box<Removal>>, CacheError> {
        match self.judge(word, record) {
            Some(record) => removal_of(self, &record, cause).await,
            None => Ok(None),
        }
    }

    /// Accounts for an object that this client has just made dead. Frees its extents, unless
    /// `extents_live_on`.
    pub(super) async fn bury(&self, found: Found, extents_live_on: bool) -> Result<(), CacheError> {
        self.count_dead(found.beside, found.header.record_bytes());
        match &found.large {
            Some(large) if !extents_live_on => self.extent_io().free_extents(&large.extents).await,
            _ => Ok(()),
        }
    }
}

impl<E: Endpoint, T: Technique<E>> Unlink for Forge<E, T> {
    type Index = Self;

    fn index(&self) -> &Self {
        self
    }

    fn leaves_expired(&self) -> bool {
        self.is_open(Hole::UntakenExpiry)
    }

    async fn unlink(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        cause: Option<Cause>,
    ) -> Result<bool, CacheError> {
        let begun_ns = self.client.endpoint.now_ns();
        let Some((now, chunk)) = self.read_protected(op, slot, word).await? else { return Ok(false) };
        let record: Buffer = std::mem::take(&mut op.record);
        let judged = self.judge(word, &record).map(|record| (record.header, record.large()));
        op.record = record;
        if now != word || now.is_frozen() {
            return Ok(false);
        }
        if self.is_outdated(begun_ns) {
            Box::pin(self.measure_round_trip()).await?;
            return Ok(false);
        }
        let large = match judged {
            Some((header, Some(body))) => {
                let extents = self.extent_io().extents(&header, &body).await?;
                extents.map(|extents| Some(Box::new(Large { body, extents })))
            }
            Some((_, None)) => Some(None),
            None => None,
        };
        let (Some((header, _)), Some(large)) = (judged, large) else {
            // Extents are not protected, so unsound extents do not prove damage. If the slot has
            // changed meanwhile, the swap to drop the object fails.
            self.drop_damaged(slot, word).await?;
            return Ok(false);
        };
        let removal = match cause.filter(|cause| self.removals.notes(*cause)) {
            Some(cause) => Box::pin(self.removal_in(word, &op.record, cause)).await?,
            None => None,
        };
        let removed = match copies::closed(self, slot, word).await? {
            Some(closed) => self.swap_slot(slot, closed, closed.emptied()).await?,
            None => false,
        };
        if removed {
            self.removals.note_read(removal);
            self.count_removed(1).await?;
            self.bury(Found { slot, word, header, large, beside: chunk }, false).await?;
        }
        self.unprotect(op);
        Ok(removed)
    }
}
