//! A cell: the word in which a client names a block that it holds, or is about to take.
//!
//! ```text
//! 63 62 61                      48 47        32 31                    0
//! +-----+-----------------------+-------------+------------------------+
//! | st  | settler + 1, or 0 14  | tag 16      | block 32               |
//! +-----+-----------------------+-------------+------------------------+
//!  st: 0 none, 1 trying, 2 won
//! ```
//!
//! The settler is the place of the repairer that settles a dead client's cell (see `settle`).
//!
//! | moment | cell | slot | if the client dies here |
//! |---|---|---|---|
//! | before | | word | |
//! | taken | trying | swapped, or not | a repairer looks whether the slot, or another cell, still names the block; otherwise the block is free |
//! | held | won (written before its first use, or at the next round) | | the same |
//! | published elsewhere | still won | | the block is found in the index |
//! | released as a dead block | still won | dead | the same |
//! | the next round | 0 | | |
//!
//! A dead client's cell in state trying is valid only if the block's record still has the cell's
//! tag. A drainer makes the records of a chunk void. A slow client may have written its cell after
//! that, and its compare-and-swap cannot succeed any more.
//!
//! A cell whose client has published or released the block is out of date, perhaps for long.
//! Another client may have the block since. So the cell of a living client decides nothing: a
//! repairer or a drainer waits until that client has finished its next round.

use super::Core;
use super::slot::Block;
use crate::CacheError;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_pool::{ChunkId, read_word};
use std::collections::HashSet;

/// Cells of a client: the most blocks that it may have taken and not used yet.
pub const CELLS: usize = 32;
/// Clients whose cells are READ at once.
const CLIENTS_AT_ONCE: u32 = 64;
const STATE_SHIFT: u32 = 62;
const SETTLER_SHIFT: u32 = 48;
const SETTLER_MASK: u64 = 0x3fff;
const TAG_SHIFT: u32 = 32;

/// The state of a block that a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// It may have it.
    Trying = 1,
    /// The client has, or had, the block.
    Won = 2,
}

/// The content of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The state of the block.
    pub state: CellState,
    /// The tag of the slot's word that named the block.
    pub tag: u16,
    /// The block.
    pub block: Block,
    /// The place of the repairer that settles it, if one does. Then the cell's client is dead.
    pub settler: Option<u32>,
}

impl Cell {
    /// The cell in which a client names a block of its own.
    pub fn told(state: CellState, tag: u16, block: Block) -> Self {
        Self { state, tag, block, settler: None }
    }

    /// The cell as a word.
    pub fn word(self) -> u64 {
        let settler = self.settler.map_or(0, |place| u64::from(place) + 1);
        debug_assert!(settler <= SETTLER_MASK);
        (self.state as u64) << STATE_SHIFT
            | settler << SETTLER_SHIFT
            | u64::from(self.tag) << TAG_SHIFT
            | u64::from(self.block.0)
    }

    /// Decodes a word; `None` if it names no block.
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

impl<E: Endpoint> Core<E> {
    pub(super) fn cell(&self, cell: u8) -> Address {
        self.shared.layout.cell(self.client.me().slot, cell.into())
    }

    /// The chunks that have a block which a cell of any client names.
    pub(super) async fn chunks_in_hands(&self) -> Result<HashSet<ChunkId>, CacheError> {
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        let cells = self.all_cells().await?;
        let chunk = |cell: Cell| ChunkId((cell.block.heap_offset() / chunk_bytes) as u32);
        Ok(cells.iter().filter_map(|word| Cell::from_word(*word).map(chunk)).collect())
    }

    /// The cells of all clients that ever joined.
    pub(super) async fn all_cells(&self) -> Result<Vec<u64>, CacheError> {
        let ever = read_word(&self.client.endpoint, self.client.pool.layout.members_ever()).await?;
        let clients = ever.min(self.client.pool.settings.clients_max.into()) as u32;
        let mut words = Vec::with_capacity(clients as usize * CELLS);
        for first in (0..clients).step_by(CLIENTS_AT_ONCE as usize) {
            let count = (clients - first).min(CLIENTS_AT_ONCE) as usize;
            let mut buffer = Buffer::new();
            buffer.resize(8 * CELLS * count);
            let buffer = self.client.endpoint.read(self.shared.layout.cells(first), buffer).await?;
            words.extend_from_slice(buffer.words());
        }
        Ok(words)
    }

    pub(super) async fn swap_cell(&self, at: Address, from: u64, to: u64) -> Result<bool, VerbError> {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, from, to);
        self.client.endpoint.post(&mut batch).await?;
        Ok(batch.swapped(swap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_pool::settings::CLIENTS_MAX;

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
