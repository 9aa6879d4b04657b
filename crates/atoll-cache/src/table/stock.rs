//! Blocks in a client's hands, and the cells that tell of them.
//!
//! Every block is named by exactly one slot (live, pending or dead) or shelf (see `shelf`), or is
//! in one client's hands, or belongs to a chunk that one client fills or empties. A client takes a
//! block from a slot by one compare-and-swap, and before it WRITEs the block into a cell of its
//! own, in the same batch:
//!
//! ```text
//! 63 62 61                      48 47        32 31                    0
//! +-----+-----------------------+-------------+------------------------+
//! | st  | settler + 1, or 0 14  | tag 16      | block 32               |    a cell: 0 none, 1 trying, 2 won
//! +-----+-----------------------+-------------+------------------------+
//! ```
//!
//! The settler is the place of the repairer that finds out what became of the block of a dead
//! client's cell (see `repair`).
//!
//! | moment | cell | slot | if the client dies here |
//! |---|---|---|---|
//! | before | | word | |
//! | taken | trying | swapped, or not | a repair looks whether the slot, or another's cell, still names the block; else it is free |
//! | held | won (written before its first use, or at the next round) | | the same |
//! | published elsewhere | still won | | the block is found in the index |
//! | given back as a dead block | still won | dead | the same |
//! | the next round | 0 | | |
//!
//! A cell that says trying of a dead client is that one's only if the block's record still has the
//! tag: whoever empties a chunk makes its records void, and a client that was slow may have written
//! a cell after that, whose compare-and-swap cannot succeed any more.
//!
//! A cell that names a block which its client has published, or given back, is out of date, perhaps
//! for long, and the block may be another's since. Nothing is decided by the cell of a client that
//! lives: whoever repairs or empties waits until that one has had its next round.

use super::class::Class;
use super::layout::CELLS;
use super::slot::{Block, Slot};
use super::{Core, Hole};
use crate::CacheError;
use crate::index::Index;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_pool::registry::Grace;

const STATE_SHIFT: u32 = 62;
const SETTLER_SHIFT: u32 = 48;
const SETTLER_MASK: u64 = 0x3fff;
const TAG_SHIFT: u32 = 32;

/// How far a client has come with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// It may have it.
    Trying = 1,
    /// It has, or had, it.
    Won = 2,
}

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// How far its client has come.
    pub state: CellState,
    /// The tag of the slot's word that named the block.
    pub tag: u16,
    /// The block.
    pub block: Block,
    /// The place of the repairer that settles it, if one does: the cell of a client that is dead.
    pub settler: Option<u32>,
}

impl Cell {
    /// What a client tells of itself.
    pub fn told(state: CellState, tag: u16, block: Block) -> Self {
        Self { state, tag, block, settler: None }
    }

    /// The same as a word.
    pub fn word(self) -> u64 {
        let settler = self.settler.map_or(0, |place| u64::from(place) + 1);
        debug_assert!(settler <= SETTLER_MASK);
        (self.state as u64) << STATE_SHIFT
            | settler << SETTLER_SHIFT
            | u64::from(self.tag) << TAG_SHIFT
            | u64::from(self.block.0)
    }

    /// What a word says; `None` if it names nothing.
    pub fn from_word(word: u64) -> Option<Self> {
        let state = match word >> STATE_SHIFT {
            1 => CellState::Trying,
            2 => CellState::Won,
            _ => return None,
        };
        let settler = ((word >> SETTLER_SHIFT & SETTLER_MASK) as u32).checked_sub(1);
        Some(Self { state, tag: (word >> TAG_SHIFT) as u16, block: Block(word as u32), settler })
    }
}

/// A block in this client's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) block: Block,
    pub(super) class: Class,
    /// How often it has been written, low 16 bits: the next record has the next one.
    pub(super) tag: u16,
    /// The cell that tells of it; `None` for one of this client's own slab.
    pub(super) cell: Option<u8>,
}

/// What a cell of this client's is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Nothing; the word is 0.
    Clear,
    /// Nothing any more; the word still names a block.
    Stale,
    /// A block that an operation is about to take: the word says Trying.
    Taking,
    /// A block in hands whose word says Trying.
    Trying,
    /// A block in hands.
    Won,
    /// What the place's last client left there, until that is settled.
    Foreign,
}

/// A client's blocks.
#[derive(Debug)]
pub(super) struct Stock {
    held: Vec<Held>,
    /// Blocks whose tags have wrapped, until no operation can remember the tags of before.
    aging: Vec<(Held, Grace)>,
    cells: [Use; CELLS],
    words: [u64; CELLS],
    /// Whether each is just WRITTEN by [`Core::tell_cells`], so that no other WRITE may be under
    /// way.
    is_told: [bool; CELLS],
}

impl Stock {
    pub(super) fn new() -> Self {
        Self {
            held: Vec::new(),
            aging: Vec::new(),
            cells: [Use::Clear; CELLS],
            words: [0; CELLS],
            is_told: [false; CELLS],
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

    /// Takes the one out that has been there longest, of those of some class.
    pub(super) fn pop(&mut self, is_wanted: impl Fn(Class) -> bool) -> Option<Held> {
        let index = self.held.iter().position(|held| is_wanted(held.class))?;
        Some(self.held.remove(index))
    }

    /// A block, which is not of a slab, of a class with more than `of_class` of them, or any if
    /// there are more than `in_all`.
    pub(super) fn surplus(&self, of_class: usize, in_all: usize) -> Option<usize> {
        if self.held.len() <= of_class.min(in_all) {
            return None;
        }
        let is_too_many = self.held.len() > in_all;
        let is_surplus = |held: &Held| held.cell.is_some() && (is_too_many || self.count(held.class) > of_class);
        self.held.iter().position(is_surplus)
    }

    /// Takes the first block of a [surplus](Self::surplus) out.
    pub(super) fn pop_surplus(&mut self, of_class: usize, in_all: usize) -> Option<Held> {
        let index = self.surplus(of_class, in_all)?;
        Some(self.held.remove(index))
    }

    /// Forgets blocks of slabs, which are in some place.
    pub(super) fn forget(&mut self, is_there: impl Fn(Block) -> bool) {
        let is_gone = |held: &Held| held.cell.is_none() && is_there(held.block);
        self.held.retain(|held| !is_gone(held));
        self.aging.retain(|(held, _)| !is_gone(held));
    }

    /// Lets a block rest whose tags begin anew.
    pub(super) fn rest(&mut self, held: Held, grace: Grace) {
        self.aging.push((held, grace));
    }

    /// Puts resting blocks back, to be given away: as dead blocks they keep their tags.
    pub(super) fn end_aging(&mut self) {
        self.held.extend(self.aging.drain(..).map(|(held, _)| held));
    }

    pub(super) fn put(&mut self, held: Held) {
        self.held.push(held);
    }

    fn free_cell(&self) -> Option<u8> {
        // One that names something is better used again than cleared.
        let is_free = |want: Use| (0..CELLS).find(|cell| self.cells[*cell] == want && !self.is_told[*cell]);
        is_free(Use::Stale).or_else(|| is_free(Use::Clear)).map(|cell| cell as u8)
    }

    /// Whether a cell will be free before long: an operation is about to take a block, or cells are
    /// just told.
    pub(super) fn may_have_cell_soon(&self) -> bool {
        self.cells.contains(&Use::Taking) || self.is_told.contains(&true)
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

    /// Notes that what was left in a cell is settled, and its word 0.
    pub(super) fn disinherit(&mut self, cell: usize) {
        (self.cells[cell], self.words[cell]) = (Use::Clear, 0);
    }

    /// Those that were taken, resting ones among them, and are not of a slab.
    fn taken_blocks(&self) -> Vec<Block> {
        let all = self.held.iter().chain(self.aging.iter().map(|(held, _)| held));
        all.filter(|held| held.cell.is_some()).map(|held| held.block).collect()
    }

    /// Takes those out that are in some place.
    pub(super) fn take_out(&mut self, is_there: impl Fn(Block) -> bool) -> Vec<Held> {
        let mut out: Vec<Held> = self.held.extract_if(.., |held| is_there(held.block)).collect();
        out.extend(self.aging.extract_if(.., |(held, _)| is_there(held.block)).map(|(held, _)| held));
        out
    }

    fn is_quiet(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell, Use::Clear | Use::Taking | Use::Won | Use::Foreign))
    }

    /// What a cell is to say of what is in hands; `None` if that is not to be told: an operation
    /// does so, or it is what the place's last client left.
    fn telling(&self, cell: usize) -> Option<u64> {
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
    fn cell(&self, cell: u8) -> Address {
        self.shared.layout.cells(self.client.me().slot).add(8 * u64::from(cell))
    }

    /// Takes the block of a slot that has `word`, live or dead, making the slot `then`; `None` if
    /// the slot has changed.
    pub(super) async fn take_block(&self, slot: u64, word: Slot, then: Slot) -> Result<Option<Held>, CacheError> {
        let mut batch = Batch::new();
        let Some(taking) = self.begin_taking(&mut batch, slot, word).await? else { return Ok(None) };
        let swap = batch.compare_and_swap(self.shared.layout.slot(slot), word.0, then.0);
        self.post_taking(&mut batch, taking).await?;
        Ok(self.end_taking(taking, batch.swapped(swap)))
    }

    /// Adds to a batch, in front of the compare-and-swap that takes the block of a slot, what tells
    /// of that. `None` if the word is damaged or this client has as many blocks as it may.
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

    /// The same for whatever word names the block, which is at `named_at`.
    pub(super) async fn begin_taking_at(
        &self,
        batch: &mut Batch,
        named_at: Address,
        held: Held,
    ) -> Result<Option<Held>, CacheError> {
        let Some(cell) = self.stock.borrow().free_cell() else { return Ok(None) };
        let trying = Cell::told(CellState::Trying, held.tag, held.block).word();
        self.stock.borrow_mut().words[usize::from(cell)] = trying;
        self.stock.borrow_mut().cells[usize::from(cell)] = Use::Taking;
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
    pub(super) async fn post_taking(&self, batch: &mut Batch, taking: Held) -> Result<(), CacheError> {
        let posted = self.client.endpoint.post(batch).await;
        if posted.as_ref().is_err_and(VerbError::took_no_effect) {
            self.end_taking(taking, false);
        }
        Ok(posted?)
    }

    /// What came of it.
    pub(super) fn end_taking(&self, taking: Held, taken: bool) -> Option<Held> {
        let cell = usize::from(taking.cell?);
        self.stock.borrow_mut().cells[cell] = if taken { Use::Trying } else { Use::Stale };
        taken.then_some(taking)
    }

    /// Adds to a batch the WRITE which tells that this client has won the block, before it writes a
    /// record into it at `then`.
    pub(super) async fn tell_won(&self, batch: &mut Batch, held: Held, then: Address) -> Result<(), CacheError> {
        let is_trying = |cell: &u8| self.stock.borrow().cells[usize::from(*cell)] == Use::Trying;
        let Some(cell) = held.cell.filter(is_trying) else { return Ok(()) };
        let index = usize::from(cell);
        let won = Cell::told(CellState::Won, held.tag, held.block);
        let told = Cell::from_word(self.stock.borrow().words[index]);
        let won = told.map_or(won, |told| Cell { state: CellState::Won, ..told });
        {
            let mut stock = self.stock.borrow_mut();
            (stock.cells[index], stock.words[index]) = (Use::Won, won.word());
        }
        let at = self.cell(cell);
        batch.write_word(at, won.word());
        if !self.is_in_order(at, then) {
            self.client.endpoint.post(batch).await?;
            batch.clear();
        }
        Ok(())
    }

    /// Notes that a block is not in this client's hands any more: it is named by a slot.
    pub(super) fn let_go(&self, held: Held) {
        if let Some(cell) = held.cell {
            self.stock.borrow_mut().cells[usize::from(cell)] = Use::Stale;
        }
    }

    /// Puts blocks back into the stock that have rested long enough.
    pub(super) async fn recheck_aging(&self) -> Result<(), CacheError> {
        let aging = std::mem::take(&mut self.stock.borrow_mut().aging);
        for (held, mut grace) in aging {
            if grace.is_over(&self.client).await? {
                // One below the first tag, so that the next is taken for no wrap.
                self.stock.borrow_mut().put(Held { tag: 0, ..held });
            } else {
                self.stock.borrow_mut().aging.push((held, grace));
            }
        }
        Ok(())
    }

    /// Finds out what the place's last client left in its cells.
    pub(super) async fn inherit_cells(&self) -> Result<(), CacheError> {
        let mut words = Buffer::new();
        words.resize(8 * CELLS);
        let words = self.client.endpoint.read(self.cell(0), words).await?;
        self.stock.borrow_mut().inherit(words.words());
        Ok(())
    }

    /// Makes this client's cells say what is in its hands, and nothing else. Those that it found
    /// when it came are left alone: somebody else may just settle what they say, and a word that is
    /// written back after that would be settled once more, when its block has another life. So are
    /// those of blocks that operations are about to take: they tell of these themselves.
    ///
    /// No cell that is told here is used for another block until that has landed.
    pub(super) async fn tell_cells(&self) -> Result<(), CacheError> {
        if self.stock.borrow().is_quiet() {
            return Ok(());
        }
        let words: [Option<u64>; CELLS] = {
            let stock = &mut *self.stock.borrow_mut();
            let words = std::array::from_fn(|cell| stock.telling(cell));
            for (cell, word) in words.iter().enumerate().filter_map(|(cell, word)| Some((cell, (*word)?))) {
                (stock.is_told[cell], stock.words[cell]) = (true, word);
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
            stock.is_told[cell] = false;
            // An operation may have let it go meanwhile.
            if stock.cells[cell] == Use::Trying && posted.is_ok() {
                stock.cells[cell] = Use::Won;
            }
        }
        Ok(posted?)
    }

    /// Forgets blocks of chunks that somebody empties: they are that one's.
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

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_pool::header::CLIENTS_MAX;

    #[test]
    fn a_cell_says_what_was_put_in_and_no_other_word_is_one() {
        for state in [CellState::Trying, CellState::Won] {
            for settler in [None, Some(0), Some(CLIENTS_MAX - 1)] {
                let cell = Cell { settler, ..Cell::told(state, 0xfffe, Block(u32::MAX)) };
                assert_eq!(Cell::from_word(cell.word()), Some(cell));
            }
        }
        assert_eq!((Cell::from_word(0), Cell::from_word(u64::MAX)), (None, None));
    }
}
