//! How an object leaves its slot: removed, expired, or damaged. The slot names the same block
//! afterwards, dead.

use super::operation::Operation;
use super::replacement::Replacement;
use super::slot::Slot;
use super::{Core, Hole, Objects};
use crate::CacheError;
use crate::extent::Extents;
use crate::index::{Index, Removal};
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

    /// Makes a live slot's block dead if it still has this word; whether it did. Its extents are
    /// freed. A word that names no block leaves none.
    pub(super) async fn bury(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        let Some(extents) = self.extents_of(op, slot, word).await? else { return Ok(false) };
        let then = match self.find_record(word).await? {
            Some(_) => word.buried(self.shared.settings.large_class),
            None => Slot::EMPTY,
        };
        if !self.swap_slot(slot, word, then).await? {
            return Ok(false);
        }
        if then.is_dead() {
            self.note_dead(word.block(), word.class(self.shared.settings.large_class), 1);
        }
        self.count_removed(1).await?;
        if let Some(extents) = extents {
            self.extent_io().free_extents(&extents).await?;
        }
        Ok(true)
    }
}

impl<E: Endpoint, R: Replacement<E>> Removal for Objects<E, R> {
    type Index = Core<E>;

    fn index(&self) -> &Core<E> {
        &self.core
    }

    fn leaves_expired(&self) -> bool {
        self.core.is_open(Hole::UntakenExpiry)
    }

    /// Makes the block dead and tells the replacement.
    async fn unlink(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        let removed = self.core.bury(op, slot, word).await?;
        if removed {
            self.replacement.removed(&self.core, slot, word).await?;
        }
        Ok(removed)
    }
}
