//! How a client takes a block from a slot or a shelf.
//!
//! | step | verbs |
//! |---|---|
//! | name the block in a free cell, as trying | WRITE the cell, in the same batch before the next |
//! | take it | CAS the word that names it |
//! | mark it as won, before the first record is written into it | WRITE the cell |

use super::cell::{Cell, CellState};
use super::held::Held;
use super::slot::Slot;
use super::{Core, Hole};
use crate::CacheError;
use crate::index::{Index, copies};
use atoll_fabric::{Address, Batch, Endpoint, VerbError};

impl<E: Endpoint> Core<E> {
    /// Takes the block of a slot that has `word`, live or dead, and makes the slot `then`; `None`
    /// if the slot has changed.
    pub(super) async fn take_block(&self, slot: u64, word: Slot, then: Slot) -> Result<Option<Held>, CacheError> {
        let Some(word) = copies::closed(self, slot, word).await? else { return Ok(None) };
        let mut batch = Batch::new();
        let Some(taking) = self.begin_taking(&mut batch, slot, word).await? else { return Ok(None) };
        let swap = batch.compare_and_swap(self.shared.layout.slot(slot), word.0, then.0);
        self.post_taking(&mut batch, taking).await?;
        Ok(self.end_taking(taking, batch.swapped(swap)))
    }

    /// Adds the WRITE of the cell to a batch, in front of the compare-and-swap that takes the block
    /// of a slot. `None` if the word is damaged or this client has as many blocks as it may.
    pub(super) async fn begin_taking(
        &self,
        batch: &mut Batch,
        slot: u64,
        word: Slot,
    ) -> Result<Option<Held>, CacheError> {
        if self.find_record(word).await?.is_none() {
            return Ok(None);
        }
        let Some(class) = word.checked_class(self.shared.settings.large_class) else { return Ok(None) };
        let held = Held { block: word.block(), class, tag: word.tag(), cell: None };
        self.begin_taking_at(batch, self.shared.layout.slot(slot), held).await
    }

    /// As [`Self::begin_taking`], for any word at `named_at` that names the block.
    pub(super) async fn begin_taking_at(
        &self,
        batch: &mut Batch,
        named_at: Address,
        held: Held,
    ) -> Result<Option<Held>, CacheError> {
        let trying = Cell::told(CellState::Trying, held.tag, held.block).word();
        let Some(cell) = self.stock.borrow_mut().begin_taking(trying) else { return Ok(None) };
        let taking = Held { cell: Some(cell), ..held };
        if !self.is_open(Hole::UntoldTaking) {
            let at = self.cell(cell);
            if self.is_in_order(at, named_at) {
                batch.write_word(at, trying);
            } else {
                let mut first = Batch::new();
                first.write_word(at, trying);
                self.post_taking(&mut first, taking).await?;
            }
        }
        Ok(Some(taking))
    }

    /// Posts a batch in which a block is taken.
    pub(super) async fn post_taking(&self, batch: &mut Batch, taking: Held) -> Result<(), VerbError> {
        let posted = self.client.endpoint.post(batch).await;
        if posted.as_ref().is_err_and(VerbError::took_no_effect) {
            self.end_taking(taking, false);
        }
        posted
    }

    /// Notes whether the block was taken.
    pub(super) fn end_taking(&self, taking: Held, taken: bool) -> Option<Held> {
        self.stock.borrow_mut().end_taking(taking.cell?, taken);
        taken.then_some(taking)
    }

    /// Adds a WRITE to a batch that marks the block as won, before the client writes a record into
    /// it at `then`.
    pub(super) async fn publish_won(&self, batch: &mut Batch, held: Held, then: Address) -> Result<(), CacheError> {
        let won = self.stock.borrow_mut().win(held);
        let Some((cell, won)) = won else { return Ok(()) };
        let at = self.cell(cell);
        batch.write_word(at, won);
        if !self.is_in_order(at, then) {
            self.client.endpoint.post(batch).await?;
            batch.clear();
        }
        Ok(())
    }

    /// Notes that this client does not hold a block any more: a slot names it.
    pub(super) fn let_go(&self, held: Held) {
        if let Some(cell) = held.cell {
            self.stock.borrow_mut().let_go(cell);
        }
    }
}
