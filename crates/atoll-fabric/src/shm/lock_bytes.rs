//! Which byte of a region's file is locked for what.
//!
//! | byte of the file | lock | held by | while |
//! |---|---|---|---|
//! | 2^62 | shared | a process that opens the region | it finds out whether the region is usable |
//! | 2^62 | alone | a process that formats it anew, or removes it | it does so |
//! | 2^62 + 1 | shared | a process that has the region open | it has it open |
//! | 2^62 + 1 | alone | a process that formats it anew, or removes it | it does so |
//! | 2^62 + 2^33 + number | alone | the endpoint that is this compute node | it exports regions |
//! | 2^62 + 2^32 + identity | alone | the endpoint with this identity | it exists |
//!
//! The bytes lie beyond every file's end.

use crate::Identity;

/// The byte of those that open a region.
pub(super) const OPENING: i64 = 1 << 62;
/// The byte of those that have it open.
pub(super) const PRESENCE: i64 = OPENING + 1;
/// The byte of identity 0, which no endpoint has.
const IDENTITIES: i64 = OPENING + (1 << 32);
/// The byte of compute node 0.
pub(super) const COMPUTE_NODES: i64 = OPENING + (1 << 33);
pub(super) fn byte_of(identity: Identity) -> i64 {
    IDENTITIES + i64::from(identity.bits())
}

pub(super) fn byte_of_node(number: u16) -> i64 {
    COMPUTE_NODES + i64::from(number)
}

/// What a span of locked bytes stands for: identities, and whether it has the byte of those that
/// have the region open.
pub(super) fn locked_span(first: i64, last: i64) -> (Option<std::ops::RangeInclusive<u32>>, bool) {
    let (least, most) = ((first - IDENTITIES).max(1), (last - IDENTITIES).min((1 << Identity::BITS) - 1));
    let identities = (least <= most).then_some(least as u32..=most as u32);
    (identities, (first..=last).contains(&PRESENCE))
}
