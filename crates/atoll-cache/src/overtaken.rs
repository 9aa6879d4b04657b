//! A change that another client's change overtook: its compare-and-swap found another word.
//!
//! The client retries the change on the object that is there then. But the change is done if it is
//! [blind](crate::Change::is_blind) and another blind change has put that object since it READ the
//! slot. The overtaken change took place just before the other change. Neither the outcome nor the
//! value of the other change depends on it. No client has seen its value. So if many clients set a
//! hot key at once, one swap succeeds and every other client needs one more READ. Otherwise they
//! would undo each other's attempts.
//!
//! Two facts prove it. First, the record has another token than the object that was to be replaced.
//! A copy of that object, or the same object with another expiry, keeps the token. Second, the
//! record says that a blind change put it.

use crate::record::Header;

/// A change's knowledge of the change that overtook it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overtaken<W> {
    /// Token of the object that the overtaken change had found.
    pub(crate) token: u64,
    /// The object's slot and the word that the swap found there. `None` if the word cannot be the
    /// key's, or the change has followed it already.
    pub(crate) by: Option<(u64, W)>,
}

impl<W> Overtaken<W> {
    /// Whether a blind change of another client put the record with this header after the last
    /// attempt of this change found its object. Two holes also count copies of that object, or
    /// changes that are not blind.
    pub(crate) fn is_by(&self, header: &Header, counts_copies: bool, counts_all: bool) -> bool {
        (header.token != self.token || counts_copies) && (header.blind || counts_all)
    }
}
