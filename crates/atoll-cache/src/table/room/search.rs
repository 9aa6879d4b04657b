//! How far a search for room has come, and what it does next.
//!
//! | an attempt ended in | looks in vain | misfits in a row |
//! |---|---|---|
//! | room | none | none |
//! | begun | one more; of chunks only where it waits already, since several are emptied together | none |
//! | stale, nothing | one more | unchanged |
//! | a misfit | unchanged | one more |
//! | any of these, and there is a chunk more than before (of chunks) | none | as above |
//!
//! | then | if |
//! |---|---|
//! | give up | [`TRIES_MAX`] looks were in vain; of a block, as many misfits in a row count, too |
//! | wait for other clients | more than [`IDLE_TRIES`] looks were in vain; of chunks not after a misfit |
//! | try again | otherwise: an index that holds little has many empty buckets, and those cost no pause at first |
//!
//! After [`MISFITS_MAX`] misfits in a row a chunk is emptied, however much it holds.

use super::victim::Made;

/// Tries, each after a pause, before a writer gives up because it finds no room.
pub(in crate::table) const TRIES_MAX: u32 = 2_000;
/// Samples without a fitting block, after which a chunk is emptied.
const MISFITS_MAX: u32 = 12;
/// Tries before a writer waits for other clients.
pub(super) const IDLE_TRIES: u32 = 16;

/// How long a writer waits after so many tries. All waits together take two seconds. In that time
/// dead clients are found and repaired.
pub(in crate::table) fn pause_ns(tried: u32) -> u64 {
    1_000 * u64::from(tried.min(1_000))
}

/// The kind of room that is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// One block of a class.
    Block,
    /// Whole chunks.
    Chunks,
}

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It tries again.
    Again,
    /// It gives other clients what it can spare, and time, before it tries again.
    Wait {
        /// From one on.
        tried: u32,
    },
    /// Nothing can be had.
    GiveUp,
}

/// A search for room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    need: Need,
    in_vain: u32,
    misfits: u32,
    last: Option<Made>,
}

impl Search {
    pub(super) fn new(need: Need) -> Self {
        Self { need, in_vain: 0, misfits: 0, last: None }
    }

    /// Whether the next attempt is to empty a chunk, however much it holds.
    pub(super) fn drains(&self) -> bool {
        self.misfits >= MISFITS_MAX
    }

    /// Whether the last attempt began to empty a chunk, or may do so in the next one.
    pub(super) fn is_claiming(&self) -> bool {
        matches!(self.last, Some(Made::Begun | Made::Misfit))
    }

    /// Notes how an attempt ended, and whether there is a chunk more than before; returns the next
    /// step.
    pub(super) fn after(&mut self, made: Made, has_more: bool) -> Next {
        let is_block = self.need == Need::Block;
        self.last = Some(made);
        match made {
            Made::Room => (self.in_vain, self.misfits) = (0, 0),
            Made::Begun => {
                self.misfits = 0;
                self.in_vain += u32::from(is_block || self.in_vain > IDLE_TRIES);
            }
            Made::Misfit => self.misfits += 1,
            Made::Stale | Made::Nothing => self.in_vain += 1,
        }
        if has_more && !is_block {
            self.in_vain = 0;
        }
        if self.in_vain >= TRIES_MAX || is_block && self.misfits >= TRIES_MAX {
            return Next::GiveUp;
        }
        match self.in_vain > IDLE_TRIES && (is_block || made != Made::Misfit) {
            true => Next::Wait { tried: self.in_vain - IDLE_TRIES },
            false => Next::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next step after `times` attempts with the same ending.
    fn after(need: Need, made: Made, times: u32) -> Next {
        let mut search = Search::new(need);
        (0..times).map(|_| search.after(made, false)).last().unwrap()
    }

    #[test]
    fn looks_in_vain_are_tried_again_then_waited_for_and_given_up() {
        for need in [Need::Block, Need::Chunks] {
            for made in [Made::Stale, Made::Nothing] {
                assert_eq!(after(need, made, IDLE_TRIES), Next::Again);
                assert_eq!(after(need, made, IDLE_TRIES + 1), Next::Wait { tried: 1 });
                assert_eq!(after(need, made, TRIES_MAX - 1), Next::Wait { tried: TRIES_MAX - 1 - IDLE_TRIES });
                assert_eq!(after(need, made, TRIES_MAX), Next::GiveUp);
            }
            assert_eq!(after(need, Made::Room, 10 * TRIES_MAX), Next::Again);
        }
    }

    #[test]
    fn chunks_that_are_being_emptied_count_as_in_vain_for_a_block_and_for_chunks_once_it_waits() {
        assert_eq!(after(Need::Block, Made::Begun, IDLE_TRIES + 1), Next::Wait { tried: 1 });
        assert_eq!(after(Need::Chunks, Made::Begun, 10 * TRIES_MAX), Next::Again);
        let mut search = Search::new(Need::Chunks);
        for _ in 0..=IDLE_TRIES {
            search.after(Made::Stale, false);
        }
        assert_eq!(search.after(Made::Begun, false), Next::Wait { tried: 2 });
        assert!(search.is_claiming());
        assert_eq!(search.after(Made::Misfit, false), Next::Again);
        assert_eq!(search.after(Made::Stale, false), Next::Wait { tried: 3 });
        assert!(!search.is_claiming());
        assert_eq!(search.after(Made::Stale, true), Next::Again);
    }

    #[test]
    fn misfits_in_a_row_empty_a_chunk_and_a_block_is_given_up_for_too_many() {
        for need in [Need::Block, Need::Chunks] {
            let mut search = Search::new(need);
            for _ in 1..MISFITS_MAX {
                search.after(Made::Misfit, false);
            }
            assert!(!search.drains());
            search.after(Made::Misfit, false);
            assert!(search.drains());
            search.after(Made::Begun, false);
            assert!(!search.drains());
        }
        assert_eq!(after(Need::Block, Made::Misfit, TRIES_MAX), Next::GiveUp);
        assert_eq!(after(Need::Chunks, Made::Misfit, 10 * TRIES_MAX), Next::Again);
    }
}
