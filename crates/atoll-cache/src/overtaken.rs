//! A change that was overtaken: its compare-and-swap found that somebody else's had been there.
//!
//! It begins anew, on what is there then. But if it is [blind](crate::Change::is_blind), and what
//! is there was put by another blind change since it looked, then it is done: it took place just
//! before that one, of which neither outcome nor value depends on it, and nobody has seen its own
//! value. So of all that set a hot key at a time one succeeds and the others need one more look,
//! where each would else undo the others' tries.
//!
//! Two things tell it: the record there has another token than the object had that was to be
//! replaced (a copy of that object, or one with another expiry, has the same), and says that it was
//! put blindly.

/// What a change knows of whom it was overtaken by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overtaken<W> {
    /// Token of the object that it had found.
    pub(crate) token: u64,
    /// The object's slot and the word that was found there, if that may be the same key's and was
    /// not looked at yet.
    pub(crate) by: Option<(u64, W)>,
}
