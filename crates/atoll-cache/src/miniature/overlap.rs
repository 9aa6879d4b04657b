//! Whether a client shares its keys with others.
//!
//! A client that has keys of its own gets its part of the pool. Clients that ask for the same keys
//! find each other's objects: each gets more, up to the whole pool. Which of the two holds shows in
//! the hits. The client counts how many of its sampled reads the pool hits, and how many its
//! miniatures hit at half, once and twice its share. If the pool is nearer to twice the share than
//! to once, the client models twice the share from then on; the same with half.

use super::choice::{CurveMissed, ONCE};
use super::sample::Sample;

/// Sampled reads that are counted before a client decides.
const WINDOW_READS: u32 = 512;
/// How much nearer another share must be, as one part in so many of the reads. Chance alone does
/// not make it so.
const MARGIN_ONE_IN: u32 = 32;

/// What a client counts since its share changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlap {
    /// Whether the miniatures have had a window to fill.
    is_warm: bool,
    reads: u32,
    /// Reads that the pool hit.
    hits: u32,
    /// Reads that the miniatures hit at half, once and twice the share.
    modelled: [u32; 3],
}

/// Another share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Twice as much.
    Wider,
    /// Half as much.
    Narrower,
}

impl Change {
    /// Changes the share of the sample. False if it has its limit already.
    pub fn apply(self, sample: &mut Sample) -> bool {
        match self {
            Self::Wider => sample.widen(),
            Self::Narrower => sample.narrow(),
        }
    }
}

impl Overlap {
    /// Notes a sampled read. At the end of a window, how the share should change.
    pub fn note(&mut self, is_hit: bool, missed: CurveMissed) -> Option<Change> {
        self.reads += 1;
        self.hits += u32::from(is_hit);
        for (step, hits) in self.modelled.iter_mut().enumerate() {
            *hits += u32::from(!missed.has(ONCE - 1 + step));
        }
        if self.reads < WINDOW_READS {
            return None;
        }
        let window = std::mem::replace(self, Self { is_warm: true, ..Self::default() });
        let [half, once, twice] = window.modelled.map(|hits| hits.abs_diff(window.hits));
        let is_nearer = |other: u32| window.is_warm && other + WINDOW_READS / MARGIN_ONE_IN < once;
        if is_nearer(twice) {
            return Some(Change::Wider);
        }
        is_nearer(half).then_some(Change::Narrower)
    }
}
