//! How an object is unlinked from its slot: removed, expired, or damaged. The slot names the same
//! block afterwards, dead.

use super::operation::Operation;
use super::replacement::Replacement;
use super::slot::Slot;
use super::{Core, Hole, Objects};
use crate::CacheError;
use crate::extent::Extents;
use crate::index::{Index, Unlink, copies};
use crate::removals::{Cause, Removal, removal_of};
use atoll_fabric::Endpoint;

impl<E: Endpoint> Core<E> {
    /// Extents of a live slot's object, to be freed by the client that makes it dead. `None` if the
    /// slot has changed. A damaged object has none.
    pub(super) async fn extents_of(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
    ) -> Result<Option<Option<Extents>>, CacheError> {
        if !word.is_large() {
            return Ok(Some(None));
        }
        let listed = match self.read_record(op, word).await? {
            Some((header, Some(body))) => self.extent_io().extents(&header, &body).await?,
            _ => None,
        };
        if listed.is_none() && self.slot_word(slot).await? != word {
            return Ok(None);
        }
        Ok(Some(listed))
    }

    /// Makes a live slot's block dead if it still has this word; returns whether it did. Its
    /// extents are freed. A word that names no block leaves none. The object is noted under this
    /// cause, unless the caller does that.
    pub(super) async fn bury(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        cause: Option<Cause>,
    ) -> Result<bool, CacheError> {
        let Some(word) = copies::closed(self, slot, word).await? else { return Ok(false) };
        let Some(extents) = self.extents_of(op, slot, word).await? else { return Ok(false) };
        let then = match self.find_record(word).await? {
            Some(_) => word.buried(self.shared.settings.large_class),
            None => Slot::EMPTY,
        };
        let removal = self.removal_before(word, cause).await?;
        if !self.swap_slot(slot, word, then).await? {
            return Ok(false);
        }
        self.removals.note_read(removal);
        if then.is_dead() {
            self.note_dead(word.block(), word.class(self.shared.settings.large_class), 1);
        }
        self.count_removed(1).await?;
        if let Some(extents) = extents {
            self.extent_io().free_extents(&extents).await?;
        }
        Ok(true)
    }

    /// What is to be noted of an object that this client is about to remove, if the program asks
    /// for it. If the slot's word is swapped afterwards, this was the object's. While the slot
    /// names the block, no client writes to it.
    #[inline]
    pub(super) async fn removal_before(
        &self,
        word: Slot,
        cause: Option<Cause>,
    ) -> Result<Option<Box<Removal>>, CacheError> {
        match cause {
            Some(cause) if self.removals.notes(cause) && word.is_live() => {
                Box::pin(self.read_removal(word, cause)).await
            }
            _ => Ok(None),
        }
    }

    async fn read_removal(&self, word: Slot, cause: Cause) -> Result<Option<Box<Removal>>, CacheError> {
        let Some((at, bytes, _)) = self.find_record(word).await? else { return Ok(None) };
        let mut block = self.client.endpoint.read(at, self.spares.take(bytes)).await?;
        let removal = match self.judge(word, &mut block) {
            Some(record) => removal_of(self, &record, cause).await?,
            None => None,
        };
        self.spares.keep(block);
        Ok(removal)
    }
}

impl<E: Endpoint, R: Replacement<E>> Unlink for Objects<E, R> {
    type Index = Core<E>;

    fn index(&self) -> &Core<E> {
        &self.core
    }

    fn leaves_expired(&self) -> bool {
        self.core.is_open(Hole::UntakenExpiry)
    }

    /// Makes the block dead and notifies the replacement.
    async fn unlink(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        cause: Option<Cause>,
    ) -> Result<bool, CacheError> {
        let removed = self.core.bury(op, slot, word, cause).await?;
        if removed {
            self.replacement.removed(&self.core, slot, word).await?;
        }
        Ok(removed)
    }
}
