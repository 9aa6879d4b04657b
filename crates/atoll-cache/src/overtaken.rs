//! A change that was overtaken: its compare-and-swap failed, since another client's change was
//! faster.
//!
//! It begins again with the object that is there then. But it may be
//! [blind](crate::Change::is_blind), and the other change since its look, too. Then it is done: it
//! took place just before the other change. The other's outcome and value do not depend on it, and
//! no reader has seen its value. So of many clients that set a hot key at once, one succeeds, and
//! the others need one more look. Otherwise each would undo the others' tries.
//!
//! Two facts prove it. The record there has another token than the object that was to be replaced;
//! a copy of that object, or a record with another expiry, has the same. And the record says that
//! it was put blindly.

/// What a change knows of the change that overtook it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overtaken<W> {
    /// Token of the object that it had found.
    pub(crate) token: u64,
    /// The object's slot and the word that was found there, if that may be the same key's and was
    /// not looked at yet.
    pub(crate) by: Option<(u64, W)>,
}
