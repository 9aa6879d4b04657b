//! A block that this client holds.

use super::class::Class;
use super::slot::Block;

/// A block that this client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) block: Block,
    pub(super) class: Class,
    /// How often it has been written, low 16 bits. The next record has the next number.
    pub(super) tag: u16,
    /// The cell that names it; `None` for a block of this client's own slab.
    pub(super) cell: Option<u8>,
}
