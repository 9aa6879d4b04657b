//! Where a word is.
//!
//! ```text
//! 63        58 57      52 51                                                   0
//! +-----------+----------+------------------------------------------------------+
//! |   node    |  region  |                    offset, bytes                     |
//! +-----------+----------+------------------------------------------------------+
//! ```
//!
//! 64 nodes of 64 regions of 4 PiB. Protocols that squeeze an address beside other fields into a
//! CAS word use a form of their own (see `atoll-cache`'s slot word); this one is for verbs.

use std::fmt;

const OFFSET_BITS: u32 = 52;
const REGION_BITS: u32 = 6;

/// The address of a byte in a region of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(u64);

impl Address {
    /// The address `offset` bytes into region `region` of node `node`.
    ///
    /// # Panics
    /// If `node` or `region` is 64 or more, or `offset` reaches 4 PiB: callers check what they read
    /// from elsewhere.
    #[inline]
    pub const fn new(node: u8, region: u8, offset: u64) -> Self {
        assert!(node < 64 && region < 64 && offset >> OFFSET_BITS == 0);
        Self((node as u64) << (OFFSET_BITS + REGION_BITS) | (region as u64) << OFFSET_BITS | offset)
    }

    /// Whether it is in the first region of node 0, where most is.
    #[inline]
    pub const fn is_home(self) -> bool {
        self.0 >> OFFSET_BITS == 0
    }

    /// The node that holds the byte.
    #[inline]
    pub const fn node(self) -> u8 {
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

    /// The address `bytes` further on in the same region. An overrun of the region is caught by the
    /// verb that uses it.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}+{:#x}", self.node(), self.region(), self.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_packing_at_their_edges() {
        for (node, region, offset) in [(0, 0, 0), (63, 63, (1 << 52) - 1), (1, 0, 8), (0, 1, 4096)] {
            let address = Address::new(node, region, offset);
            assert_eq!((address.node(), address.region(), address.offset()), (node, region, offset));
        }
    }
}
