//! The bytes: regions of words on nodes.

use atoll_fabric::batch::Verb;
use atoll_fabric::{Address, RegionAttributes, VerbError, prefer_huge_pages, prefetch};

/// Regions from this size on are brought under huge pages. Smaller ones, as tests make by the thousand, the processor finds without them.
const HUGE_BYTES_MIN: u64 = 4 << 20;

struct Region {
    attributes: RegionAttributes,
    /// `attributes.bytes / 8` long.
    words: Vec<u64>,
}

/// All regions of all nodes.
pub(crate) struct Memory {
    nodes: Vec<Vec<Region>>,
}

impl Memory {
    /// Regions of zero bytes, at `Address` node and region as they stand in the lists.
    pub(crate) fn new(nodes: &[Vec<RegionAttributes>]) -> Self {
        let region = |attributes: &RegionAttributes| {
            assert!(attributes.bytes.is_multiple_of(8), "a region is a multiple of 8 bytes long");
            let mut words = vec![0; (attributes.bytes / 8) as usize];
            if attributes.bytes >= HUGE_BYTES_MIN {
                prefer_huge_pages(&mut words);
            }
            Region { attributes: *attributes, words }
        };
        assert!(nodes.len() <= 64 && nodes.iter().all(|regions| regions.len() <= 64), "at most 64 nodes of 64 regions");
        Self { nodes: nodes.iter().map(|regions| regions.iter().map(region).collect()).collect() }
    }

    pub(crate) fn attributes(&self, node: u8, region: u8) -> Option<RegionAttributes> {
        Some(self.nodes.get(node as usize)?.get(region as usize)?.attributes)
    }

    /// The words that `bytes` bytes at `at` are in, if they are words of a region.
    #[inline]
    pub(crate) fn words(&self, at: Address, bytes: u64) -> Option<&[u64]> {
        let region = self.nodes.get(at.node() as usize)?.get(at.region() as usize)?;
        region.words.get(Self::range(at, bytes)?)
    }

    /// As [`Memory::words`], for writing.
    #[inline]
    pub(crate) fn words_mut(&mut self, at: Address, bytes: u64) -> Option<&mut [u64]> {
        let region = self.nodes.get_mut(at.node() as usize)?.get_mut(at.region() as usize)?;
        region.words.get_mut(Self::range(at, bytes)?)
    }

    /// Has the first lines of what a verb will touch brought near: in a large region every verb would wait for them.
    #[inline]
    pub(crate) fn expect(&self, at: Address, bytes: u64) {
        const LINE_WORDS: usize = 8;
        const LINES_MAX: usize = 8;
        if let Some(words) = self.words(at, bytes) {
            words.iter().step_by(LINE_WORDS).take(LINES_MAX).for_each(prefetch);
        }
    }

    #[inline]
    fn range(at: Address, bytes: u64) -> Option<std::ops::Range<usize>> {
        if !at.offset().is_multiple_of(8) {
            return None;
        }
        let first = (at.offset() / 8) as usize;
        Some(first..first.checked_add(bytes.div_ceil(8) as usize)?)
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// All bytes of a node become zero.
    pub(crate) fn zero(&mut self, node: u8) {
        for region in self.nodes.get_mut(node as usize).into_iter().flatten() {
            region.words.fill(0);
        }
    }

    /// The error of the first verb that reaches outside.
    #[inline]
    pub(crate) fn check(&self, verbs: &[Verb]) -> Result<(), VerbError> {
        match verbs.iter().find(|verb| self.words(verb.at, verb.len()).is_none()) {
            None => Ok(()),
            Some(verb) => Err(VerbError::Unreachable { at: format!("{:?}", verb.at), bytes: verb.len() }),
        }
    }
}
