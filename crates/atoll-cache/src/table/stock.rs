//! The blocks that a client holds, and the use of its cells.
//!
//! Every block is named by exactly one slot (live, pending or dead) or one shelf (see `shelf`).
//! Otherwise one client holds it, or fills or empties its chunk. A client names a block in a cell
//! of its own before it takes the block (see `cell`, `taking`).

use super::cell::{CELLS, Cell, CellState};
use super::class::Class;
use super::held::Held;
use super::slot::Block;
use super::{Core, Hole};
use crate::CacheError;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::registry::Grace;

/// The use of a cell of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Unused; the word is 0.
    Clear,
    /// Unused; the word still names a former block.
    Stale,
    /// A block that an operation is about to take: the word says Trying.
    Taking,
    /// A held block whose word says Trying.
    Trying,
    /// A held block.
    Won,
    /// A word that the place's last client left there, until it is settled.
    Foreign,
}

/// A client's blocks.
#[derive(Debug)]
pub(super) struct Stock {
    held: Vec<Held>,
    /// Blocks whose tags have wrapped. They rest until no operation can remember their former tags.
    aging: Vec<(Held, Grace)>,
    cells: [Use; CELLS],
    words: [u64; CELLS],
    /// Whether [`Core::publish_cells`] is just WRITING each cell. Then no other WRITE may be under
    /// way.
    is_published: [bool; CELLS],
}

impl Stock {
    pub(super) fn new() -> Self {
        Self {
            held: Vec::new(),
            aging: Vec::new(),
            cells: [Use::Clear; CELLS],
            words: [0; CELLS],
            is_published: [false; CELLS],
        }
    }

    /// How many blocks of a class there are.
    pub(super) fn count(&self, class: Class) -> usize {
        self.held.iter().filter(|held| held.class == class).count()
    }

    /// All blocks that are not aging.
    pub(super) fn all(&self) -> &[Held] {
        &self.held
    }

    /// Whether there is no block, resting or not.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.aging.is_empty()
    }

    /// Takes out the block that has been there longest, among those of some classes.
    pub(super) fn pop(&mut self, is_wanted: impl Fn(Class) -> bool) -> Option<Held> {
        let index = self.held.iter().position(|held| is_wanted(held.class))?;
        Some(self.held.remove(index))
    }

    /// A block of a class with more than `of_class` of them, or any block if there are more than
    /// `in_all`. Blocks of slabs do not count.
    pub(super) fn surplus(&self, of_class: usize, in_all: usize) -> Option<usize> {
        if self.held.len() <= of_class.min(in_all) {
            return None;
        }
        let is_too_many = self.held.len() > in_all;
        let is_surplus = |held: &Held| held.cell.is_some() && (is_too_many || self.count(held.class) > of_class);
        self.held.iter().position(is_surplus)
    }

    /// Takes out the first block of a [surplus](Self::surplus).
    pub(super) fn pop_surplus(&mut self, of_class: usize, in_all: usize) -> Option<Held> {
        let index = self.surplus(of_class, in_all)?;
        Some(self.held.remove(index))
    }

    /// Forgets the blocks of slabs that `is_there` selects.
    pub(super) fn forget(&mut self, is_there: impl Fn(Block) -> bool) {
        let is_gone = |held: &Held| held.cell.is_none() && is_there(held.block);
        self.held.retain(|held| !is_gone(held));
        self.aging.retain(|(held, _)| !is_gone(held));
    }

    /// Lets a block rest because its tags start over.
    pub(super) fn rest(&mut self, held: Held, grace: Grace) {
        self.aging.push((held, grace));
    }

    /// Puts resting blocks back, so that they are released: as dead blocks they keep their tags.
    pub(super) fn end_aging(&mut self) {
        self.held.extend(self.aging.drain(..).map(|(held, _)| held));
    }

    pub(super) fn put(&mut self, held: Held) {
        self.held.push(held);
    }

    fn free_cell(&self) -> Option<u8> {
        // A cell that names a block is better used again than cleared.
        let is_free = |want: Use| (0..CELLS).find(|cell| self.cells[*cell] == want && !self.is_published[*cell]);
        is_free(Use::Stale).or_else(|| is_free(Use::Clear)).map(|cell| cell as u8)
    }

    /// Notes in a free cell that an operation is about to take the block which the word names;
    /// returns the cell. `None` if none is free.
    pub(super) fn begin_taking(&mut self, word: u64) -> Option<u8> {
        let cell = self.free_cell()?;
        (self.cells[usize::from(cell)], self.words[usize::from(cell)]) = (Use::Taking, word);
        Some(cell)
    }

    /// Notes whether the block was taken.
    pub(super) fn end_taking(&mut self, cell: u8, taken: bool) {
        let cell = &mut self.cells[usize::from(cell)];
        assert_eq!(*cell, Use::Taking, "an operation ends only what it has begun");
        *cell = if taken { Use::Trying } else { Use::Stale };
    }

    /// Notes that the block is won, if its cell says trying; returns the cell and its new word.
    pub(super) fn win(&mut self, held: Held) -> Option<(u8, u64)> {
        let cell = held.cell.filter(|cell| self.cells[usize::from(*cell)] == Use::Trying)?;
        let index = usize::from(cell);
        let won = Cell::told(CellState::Won, held.tag, held.block);
        let published = Cell::from_word(self.words[index]);
        let won = published.map_or(won, |published| Cell { state: CellState::Won, ..published }).word();
        (self.cells[index], self.words[index]) = (Use::Won, won);
        Some((cell, won))
    }

    /// Notes that this client does not hold the block of a cell any more.
    pub(super) fn let_go(&mut self, cell: u8) {
        self.cells[usize::from(cell)] = Use::Stale;
    }

    /// Whether a cell will be free soon: an operation is about to take a block, or cells are just
    /// being published.
    pub(super) fn may_have_cell_soon(&self) -> bool {
        self.cells.contains(&Use::Taking) || self.is_published.contains(&true)
    }

    /// Whether another block can be taken.
    pub(super) fn has_cell(&self) -> bool {
        self.free_cell().is_some()
    }

    /// Notes what the place's last client left in its cells.
    pub(super) fn inherit(&mut self, words: &[u64]) {
        for (index, word) in words.iter().enumerate().take(CELLS).filter(|(_, word)| **word != 0) {
            (self.cells[index], self.words[index]) = (Use::Foreign, *word);
        }
    }

    /// Whether a cell has what the place's last client left there.
    pub(super) fn is_foreign(&self, cell: usize) -> bool {
        self.cells[cell] == Use::Foreign
    }

    /// Whether any cell has.
    pub(super) fn has_foreign(&self) -> bool {
        self.cells.contains(&Use::Foreign)
    }

    /// Notes that an inherited cell is settled and its word is 0.
    pub(super) fn disinherit(&mut self, cell: usize) {
        (self.cells[cell], self.words[cell]) = (Use::Clear, 0);
    }

    /// The blocks that were taken, including resting ones. Blocks of slabs do not count.
    fn taken_blocks(&self) -> Vec<Block> {
        let all = self.held.iter().chain(self.aging.iter().map(|(held, _)| held));
        all.filter(|held| held.cell.is_some()).map(|held| held.block).collect()
    }

    /// Takes out the blocks that `is_there` selects.
    pub(super) fn take_out(&mut self, is_there: impl Fn(Block) -> bool) -> Vec<Held> {
        let mut out: Vec<Held> = self.held.extract_if(.., |held| is_there(held.block)).collect();
        out.extend(self.aging.extract_if(.., |(held, _)| is_there(held.block)).map(|(held, _)| held));
        out
    }

    fn is_quiet(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell, Use::Clear | Use::Taking | Use::Won | Use::Foreign))
    }

    /// The word that a cell is to have; `None` if it is not to be published. An operation publishes
    /// it itself, or the place's last client left it.
    fn to_publish(&self, cell: usize) -> Option<u64> {
        match self.cells[cell] {
            Use::Clear | Use::Stale => Some(0),
            Use::Trying | Use::Won => {
                let told = Cell::from_word(self.words[cell]);
                Some(told.map_or(0, |cell| Cell { state: CellState::Won, ..cell }.word()))
            }
            Use::Taking | Use::Foreign => None,
        }
    }
}

impl<E: Endpoint> Core<E> {
    /// Puts blocks back into the stock that have rested long enough.
    pub(super) async fn recheck_aging(&self) -> Result<(), CacheError> {
        let aging = std::mem::take(&mut self.stock.borrow_mut().aging);
        for (held, mut grace) in aging {
            if grace.is_over(&self.client.observer()).await? {
                // One below the first tag, so that the next tag is not mistaken for a wrap.
                self.stock.borrow_mut().put(Held { tag: 0, ..held });
            } else {
                self.stock.borrow_mut().aging.push((held, grace));
            }
        }
        Ok(())
    }

    /// READs what the place's last client left in its cells.
    pub(super) async fn inherit_cells(&self) -> Result<(), CacheError> {
        let mut words = Buffer::new();
        words.resize(8 * CELLS);
        let words = self.client.endpoint.read(self.cell(0), words).await?;
        self.stock.borrow_mut().inherit(words.words());
        Ok(())
    }

    /// Makes this client's cells name the blocks that it holds, and nothing else. Two kinds of
    /// cells are left alone:
    ///
    /// - Inherited cells: another client may just settle them. A word that is written back
    ///   afterwards would be settled again, when its block has another life.
    /// - Cells of blocks that operations are about to take: the operations write them.
    ///
    /// No cell that is published here is used for another block until the WRITE has landed.
    pub(super) async fn publish_cells(&self) -> Result<(), CacheError> {
        if self.stock.borrow().is_quiet() {
            return Ok(());
        }
        let words: [Option<u64>; CELLS] = {
            let stock = &mut *self.stock.borrow_mut();
            let words = std::array::from_fn(|cell| stock.to_publish(cell));
            for (cell, word) in words.iter().enumerate().filter_map(|(cell, word)| Some((cell, (*word)?))) {
                (stock.is_published[cell], stock.words[cell]) = (true, word);
                if word == 0 {
                    stock.cells[cell] = Use::Clear;
                }
            }
            words
        };
        let (mut batch, mut first) = (Batch::new(), 0);
        for words in words.chunk_by(|a, b| a.is_some() == b.is_some()) {
            if words[0].is_some() || self.is_open(Hole::RewrittenCells) {
                let mut written = Buffer::new();
                written.resize(8 * words.len());
                for (index, word) in words.iter().enumerate() {
                    written.words_mut()[index] = word.unwrap_or(self.stock.borrow().words[first + index]);
                }
                batch.write(self.cell(first as u8), written);
            }
            first += words.len();
        }
        let posted = self.client.endpoint.post(&mut batch).await;
        if posted.as_ref().is_err_and(|error| !error.took_no_effect()) {
            return Ok(posted?);
        }
        let stock = &mut *self.stock.borrow_mut();
        for (cell, _) in words.iter().enumerate().filter(|(_, word)| word.is_some()) {
            stock.is_published[cell] = false;
            // An operation may have released the cell meanwhile.
            if stock.cells[cell] == Use::Trying && posted.is_ok() {
                stock.cells[cell] = Use::Won;
            }
        }
        Ok(posted?)
    }

    /// Forgets blocks of chunks that another client empties: they are the drainer's.
    pub(super) async fn give_up_drained(&self) -> Result<(), CacheError> {
        let mut given_up = Vec::new();
        let blocks = self.stock.borrow().taken_blocks();
        for block in blocks {
            if self.is_leaving(block).await? {
                given_up.append(&mut self.stock.borrow_mut().take_out(|held| held == block));
            }
        }
        given_up.into_iter().for_each(|held| self.let_go(held));
        Ok(())
    }
}
