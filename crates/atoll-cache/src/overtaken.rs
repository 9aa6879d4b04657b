//! A change that was overtaken: its compare-and-swap found the change of another client.
//!
//! The change begins anew, on what is there then. But it is done if it is
//! [blind](crate::Change::is_blind) and another blind change put what is there since it looked. It
//! took place just before the other change: neither the outcome nor the value of that depends on it,
//! and no client has seen its own value. So of all clients that set a hot key at a time one
//! succeeds, and each other needs one more look. Else they would undo each other's attempts.
//!
//! Two facts tell it. The record has another token than the object that was to be replaced; a copy
//! of that object, or the same object with another expiry, keeps the token. And the record says that
//! it was put blindly.

use crate::record::Header;

/// What a change knows of the change that overtook it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overtaken<W> {
    /// Token of the object that it had found.
    pub(crate) token: u64,
    /// The object's slot and the word that was found there, if that may be the same key's and was
    /// not looked at yet.
    pub(crate) by: Option<(u64, W)>,
}

impl<W> Overtaken<W> {
    /// Whether a blind change of another client put the record with this header, since the last
    /// attempt of this change found what it was to replace. Holes count copies of that object too,
    /// or changes that are not blind.
    pub(crate) fn is_by(&self, header: &Header, counts_copies: bool, counts_all: bool) -> bool {
        (header.token != self.token || counts_copies) && (header.blind || counts_all)
    }
}
