//! An object's mean share of a chunk, and how often a victim's chunk is emptied with it.

use crate::table::Core;
use crate::table::class::Class;
use crate::table::slot::Slot;
use atoll_fabric::Endpoint;
use std::cell::Cell;

/// A chunk is emptied once for the blocks of so many chunks.
const DRAIN_EVERY: u64 = 4;
/// When a chunk is wanted, one victim in so many empties its chunk.
pub(super) const WANTED_ONCE_FOR: u64 = 2;
/// The share of a whole chunk.
const WHOLE_SHARE: u64 = 1 << 32;
/// Objects over which the mean share of a chunk is computed.
const SHARES_REMEMBERED: u64 = 64;

/// The mean share of a chunk that an object has, over the objects that a client saw last; 0 before
/// the first.
#[derive(Debug, Default)]
pub(in crate::table) struct MeanShare(Cell<u64>);

impl MeanShare {
    fn note(&self, share: u64) {
        let mean = self.0.get();
        self.0.set(match mean {
            0 => share,
            _ => mean - mean / SHARES_REMEMBERED + share / SHARES_REMEMBERED,
        });
    }
}

impl<E: Endpoint> Core<E> {
    /// How much of a chunk is freed with an object: a whole chunk if it has its own, else its
    /// block's part.
    fn share(&self, word: Slot) -> u64 {
        let blocks = word.class(self.shared.settings.large_class).blocks(self.client.pool.layout.chunk_bytes);
        WHOLE_SHARE / if word.is_large() { 1 } else { blocks.max(1) }
    }

    /// Notes an object that was seen, as one of the possible victims.
    pub(in crate::table) fn note_share(&self, word: Slot) {
        self.mean_share.note(self.share(word));
    }

    /// Whether the chunk of a misfitting victim is to pass to the class now, by a random `draw`.
    /// Over all victims that happens once for the blocks of [`DRAIN_EVERY`] chunks, or once in two
    /// if a chunk is to be `drained`. A victim's chance is proportional to its block's share of a
    /// chunk.
    pub(in crate::table) fn passes_on(&self, word: Slot, class: Class, drained: bool, draw: u32) -> bool {
        let once_for = match drained {
            true => WANTED_ONCE_FOR,
            false => DRAIN_EVERY * class.blocks(self.client.pool.layout.chunk_bytes),
        };
        !self.fits(word, class) && self.gives_chunk(word, once_for, draw)
    }

    /// Whether a victim's chunk is emptied with it, by a random `draw`. Over all victims that
    /// happens once in `once_for`. A victim's chance is proportional to its block's share of a
    /// chunk.
    pub(in crate::table) fn gives_chunk(&self, word: Slot, once_for: u64, draw: u32) -> bool {
        let drawn = u128::from(draw) * u128::from(self.mean_share.0.get()) * u128::from(once_for);
        drawn < u128::from(self.share(word)) << u32::BITS
    }
}
