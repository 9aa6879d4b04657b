//! Where a word is.
//!
//! ```text
//! 63      62        50 49      44 43                                            0
//! +-------+-----------+----------+-----------------------------------------------+
//! | class |   node    |  region  |                 offset, bytes                 |
//! +-------+-----------+----------+-----------------------------------------------+
//!  0 memory node, 1 compute node
//! ```
//!
//! Memory nodes and compute nodes are numbered apart: 64 memory nodes and 8192 compute nodes, each
//! of 64 regions of 16 TiB. Protocols that squeeze an address beside other fields into a CAS word
//! use a form of their own (see `atoll-cache`'s slot word); this one is for verbs.

use std::fmt;

const OFFSET_BITS: u32 = 44;
const REGION_BITS: u32 = 6;
const COMPUTE: u64 = 1 << 63;

/// Most compute nodes that an [`Address`] can tell apart.
pub const COMPUTE_NODES_MAX: u16 = 1 << 13;

/// The address of a byte in a region of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(u64);

impl Address {
    /// The address `offset` bytes into region `region` of memory node `node`.
    ///
    /// # Panics
    /// If `node` or `region` is 64 or more, or `offset` reaches 16 TiB: callers check what they
    /// read from elsewhere.
    #[inline]
    pub const fn new(node: u8, region: u8, offset: u64) -> Self {
        assert!(node < 64 && region < 64 && offset >> OFFSET_BITS == 0);
        Self((node as u64) << (OFFSET_BITS + REGION_BITS) | (region as u64) << OFFSET_BITS | offset)
    }

    /// The address `offset` bytes into region `region` of compute node `node`.
    ///
    /// # Panics
    /// If `node` is [`COMPUTE_NODES_MAX`] or more, `region` 64 or more, or `offset` reaches 16 TiB:
    /// callers check what they read from elsewhere.
    #[inline]
    pub const fn on_compute(node: u16, region: u8, offset: u64) -> Self {
        assert!(node < COMPUTE_NODES_MAX && region < 64 && offset >> OFFSET_BITS == 0);
        let place = (node as u64) << (OFFSET_BITS + REGION_BITS) | (region as u64) << OFFSET_BITS;
        Self(COMPUTE | place | offset)
    }

    /// The compute node that holds the byte; `None` if a memory node does.
    #[inline]
    pub const fn compute_node(self) -> Option<u16> {
        if self.0 & COMPUTE == 0 {
            None
        } else {
            Some((self.0 >> (OFFSET_BITS + REGION_BITS)) as u16 & (COMPUTE_NODES_MAX - 1))
        }
    }

    /// The memory node that holds the byte; `None` if a compute node does.
    #[inline]
    pub const fn memory_node(self) -> Option<u8> {
        if self.0 & COMPUTE == 0 { Some((self.0 >> (OFFSET_BITS + REGION_BITS)) as u8) } else { None }
    }

    /// Whether one node holds both bytes.
    #[inline]
    pub const fn is_on_node_of(self, other: Self) -> bool {
        (self.0 ^ other.0) >> (OFFSET_BITS + REGION_BITS) == 0
    }

    /// Whether both bytes are of one region.
    #[inline]
    pub const fn is_in_region_of(self, other: Self) -> bool {
        (self.0 ^ other.0) >> OFFSET_BITS == 0
    }

    /// Whether it is in the first region of memory node 0, where most addresses are.
    #[inline]
    pub const fn is_home(self) -> bool {
        self.0 >> OFFSET_BITS == 0
    }

    /// The memory node that holds the byte.
    ///
    /// # Panics
    /// If a compute node does, in a build with debug assertions.
    #[inline]
    pub const fn node(self) -> u8 {
        debug_assert!(self.0 & COMPUTE == 0, "a compute node's address: see Address::compute_node");
        (self.0 >> (OFFSET_BITS + REGION_BITS)) as u8
    }

    /// The region within the node.
    #[inline]
    pub const fn region(self) -> u8 {
        (self.0 >> OFFSET_BITS) as u8 & 63
    }

    /// Bytes from the region's start.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0 & ((1 << OFFSET_BITS) - 1)
    }

    /// The address as a word, which can be stored in a region.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The address that a word encodes. Every word encodes one; the verb finds out whether it
    /// exists.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The first byte of its word, and how many bytes of the word lie before this one.
    #[inline]
    pub const fn whole_word(self) -> (Self, usize) {
        (Self(self.0 & !7), (self.0 & 7) as usize)
    }

    /// The address `bytes` further on in the same region. The verb that uses it detects an overrun
    /// of the region.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.compute_node() {
            Some(node) => write!(f, "c{node}:{}+{:#x}", self.region(), self.offset()),
            None => write!(f, "{}:{}+{:#x}", self.node(), self.region(), self.offset()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_packing_at_their_edges() {
        for (node, region, offset) in [(0, 0, 0), (63, 63, (1 << 44) - 1), (1, 0, 8), (0, 1, 4096)] {
            let address = Address::new(node, region, offset);
            assert_eq!((address.node(), address.region(), address.offset()), (node, region, offset));
            assert_eq!(address.compute_node(), None);
        }
        for (node, region, offset) in [(0, 0, 0), (COMPUTE_NODES_MAX - 1, 63, (1 << 44) - 1), (7, 0, 8)] {
            let address = Address::on_compute(node, region, offset);
            assert_eq!((address.compute_node(), address.region(), address.offset()), (Some(node), region, offset));
            assert!(!address.is_home() && address.add(0) == address);
        }
    }
}
