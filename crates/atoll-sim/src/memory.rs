//! The bytes: regions of words on nodes.

use atoll_fabric::batch::Verb;
use atoll_fabric::{Address, RegionAttributes, VerbError, prefer_huge_pages, prefetch};
use std::collections::BTreeMap;

/// Regions from this size on are brought under huge pages. Smaller ones, as tests make by the
/// thousand, the processor finds without them.
const HUGE_BYTES_MIN: u64 = 4 << 20;

struct Region {
    attributes: RegionAttributes,
    /// `attributes.bytes / 8` long.
    words: Vec<u64>,
    /// Whether its name is gone. Clients that have it open keep it.
    is_removed: bool,
}

impl Region {
    fn new(attributes: RegionAttributes) -> Self {
        assert!(attributes.bytes.is_multiple_of(8), "a region is a multiple of 8 bytes long");
        let mut words = vec![0; (attributes.bytes / 8) as usize];
        if attributes.bytes >= HUGE_BYTES_MIN {
            prefer_huge_pages(&mut words);
        }
        Self { attributes, words, is_removed: false }
    }
}

/// All regions of all nodes.
///
/// Memory that was given back to the host is **absent** until it is provided again: its bytes are
/// zero, and a verb that touches it is a fault of the protocol. On one host it would have killed
/// its process.
pub(crate) struct Memory {
    nodes: Vec<Vec<Region>>,
    /// What endpoints exported, by the number of the compute node. It stays when its owner is gone:
    /// no new verb reaches it then.
    exports: BTreeMap<u16, Vec<Region>>,
    /// Spans that are absent, disjoint, each of one region: its first byte, and how many there are.
    absent: Vec<(Address, u64)>,
    /// The first verb that touched one of them.
    pub(crate) touched: Option<Address>,
}

impl Memory {
    /// Regions of zero bytes, at `Address` node and region as they stand in the lists.
    pub(crate) fn new(nodes: &[Vec<RegionAttributes>]) -> Self {
        assert!(nodes.len() <= 64 && nodes.iter().all(|regions| regions.len() <= 64), "at most 64 nodes of 64 regions");
        let nodes = nodes.iter().map(|regions| regions.iter().copied().map(Region::new).collect()).collect();
        Self { nodes, exports: BTreeMap::new(), absent: Vec::new(), touched: None }
    }

    /// A region of zero bytes for a node that has none, of which the first `there` bytes are there.
    pub(crate) fn create(&mut self, node: u8, attributes: RegionAttributes, there: u64) {
        assert!(node < 64, "at most 64 nodes of 64 regions");
        let nodes = self.nodes.len().max(usize::from(node) + 1);
        self.nodes.resize_with(nodes, Vec::new);
        let regions = &mut self.nodes[usize::from(node)];
        assert!(regions.is_empty(), "a node's region is removed before another one is created");
        regions.push(Region::new(attributes));
        let there = there.min(attributes.bytes);
        if there < attributes.bytes {
            self.discard(Address::new(node, 0, there), attributes.bytes - there);
        }
    }

    /// A further region of a compute node; its number. `None` if it has 64.
    pub(crate) fn export(&mut self, node: u16, attributes: RegionAttributes) -> Option<u8> {
        let regions = self.exports.entry(node).or_default();
        let number = u8::try_from(regions.len()).ok().filter(|number| *number < 64)?;
        regions.push(Region::new(attributes));
        Some(number)
    }

    /// The attributes of a region that a compute node exported.
    pub(crate) fn exported(&self, at: Address) -> Option<RegionAttributes> {
        Some(self.exports.get(&at.compute_node()?)?.get(usize::from(at.region()))?.attributes)
    }

    /// The compute nodes that exported anything, in order.
    pub(crate) fn exporters(&self) -> impl Iterator<Item = u16> {
        self.exports.keys().copied()
    }

    /// Whether a compute node exported anything.
    pub(crate) fn has_exports(&self) -> bool {
        !self.exports.is_empty()
    }

    /// Removes the name of a node's region, and its bytes unless a client has it open.
    pub(crate) fn remove(&mut self, node: u8, is_open: bool) {
        if let Some(region) = self.nodes.get_mut(usize::from(node)).and_then(|regions| regions.first_mut()) {
            region.is_removed = true;
        }
        if !is_open {
            self.free_removed(node);
        }
    }

    /// The last client has closed a region: what was removed is freed.
    pub(crate) fn free_removed(&mut self, node: u8) {
        let Some(regions) = self.nodes.get_mut(usize::from(node)) else { return };
        if regions.first().is_some_and(|region| region.is_removed) {
            regions.clear();
            self.absent.retain(|(at, _)| at.memory_node() != Some(node));
        }
    }

    /// The attributes of a node's region that has a name.
    pub(crate) fn named(&self, node: u8) -> Option<RegionAttributes> {
        let region = self.nodes.get(usize::from(node))?.first()?;
        (!region.is_removed).then_some(region.attributes)
    }

    /// Gives the memory of a span back to the host; how many bytes.
    pub(crate) fn discard(&mut self, at: Address, bytes: u64) -> u64 {
        let Some(words) = self.words_mut(at, bytes) else { return 0 };
        words.fill(0);
        self.provide(at, bytes);
        self.absent.push((at, bytes));
        bytes
    }

    /// The memory of a span is there again.
    pub(crate) fn provide(&mut self, at: Address, bytes: u64) {
        for (start, length) in std::mem::take(&mut self.absent) {
            if !overlap((start, length), (at, bytes)) {
                self.absent.push((start, length));
                continue;
            }
            let (first, end) = (start.offset(), start.offset() + length);
            if first < at.offset() {
                self.absent.push((start, at.offset() - first));
            }
            if at.offset() + bytes < end {
                self.absent.push((at.add(bytes), end - at.offset() - bytes));
            }
        }
    }

    /// How many bytes of a region are there, from its first on without a gap.
    pub(crate) fn provided(&self, node: u8, region: u8) -> u64 {
        let of_region = |at: &Address| at.is_in_region_of(Address::new(node, region, 0));
        let absent = self.absent.iter().filter(|(at, _)| of_region(at)).map(|(at, _)| at.offset()).min();
        absent.unwrap_or_else(|| self.attributes(node, region).map_or(0, |attributes| attributes.bytes))
    }

    /// Notes that a verb takes effect.
    #[inline]
    pub(crate) fn touch(&mut self, at: Address, bytes: u64) {
        if !self.absent.is_empty() && self.touched.is_none() {
            let is_absent = self.absent.iter().any(|span| overlap(*span, (at, bytes)));
            self.touched = is_absent.then_some(at);
        }
    }

    pub(crate) fn attributes(&self, node: u8, region: u8) -> Option<RegionAttributes> {
        Some(self.nodes.get(node as usize)?.get(region as usize)?.attributes)
    }

    /// The words that `bytes` bytes at `at` are in, if they are words of a region.
    #[inline]
    pub(crate) fn words(&self, at: Address, bytes: u64) -> Option<&[u64]> {
        let regions = match at.memory_node() {
            Some(node) => self.nodes.get(usize::from(node))?,
            None => self.exports.get(&at.compute_node()?)?,
        };
        regions.get(usize::from(at.region()))?.words.get(Self::range(at, bytes)?)
    }

    /// As [`Memory::words`], for writing.
    #[inline]
    pub(crate) fn words_mut(&mut self, at: Address, bytes: u64) -> Option<&mut [u64]> {
        let regions = match at.memory_node() {
            Some(node) => self.nodes.get_mut(usize::from(node))?,
            None => self.exports.get_mut(&at.compute_node()?)?,
        };
        regions.get_mut(usize::from(at.region()))?.words.get_mut(Self::range(at, bytes)?)
    }

    /// Has the first lines of what a verb will touch brought near: in a large region every verb
    /// would wait for them.
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
        self.absent.retain(|(at, _)| at.memory_node() != Some(node));
        for region in self.nodes.get_mut(node as usize).into_iter().flatten() {
            region.words.fill(0);
        }
    }

    /// The error of the first verb that reaches outside.
    #[inline]
    pub(crate) fn check(&self, verbs: &[Verb]) -> Result<(), VerbError> {
        match verbs.iter().find(|verb| self.words(verb.at, verb.len()).is_none()) {
            None => Ok(()),
            Some(verb) => Err(VerbError::unreachable(verb.at, verb.len())),
        }
    }
}

fn overlap((a, a_bytes): (Address, u64), (b, b_bytes): (Address, u64)) -> bool {
    a.is_in_region_of(b) && a.offset() < b.offset() + b_bytes && b.offset() < a.offset() + a_bytes
}
