//! Operations whose futures were dropped halfway: no client finishes what they had begun.
//!
//! An operation says when it begins to own what its client does not know of ([`CutOff::begin`]),
//! and when it owns nothing of that kind any more ([`Unfinished::end`]). If its future is dropped
//! in between, the client does not leave as if it had released everything: other clients repair it.

use std::cell::Cell;

/// Whether an operation of a client was cut off.
#[derive(Debug, Default)]
pub struct CutOff(Cell<bool>);

impl CutOff {
    /// An operation begins to own what its client does not know of.
    pub fn begin(&self) -> Unfinished<'_> {
        Unfinished { of: self, has_ended: false }
    }

    /// Whether an operation was cut off.
    pub fn has_happened(&self) -> bool {
        self.0.get()
    }
}

/// An operation that is cut off if this is dropped.
#[derive(Debug)]
pub struct Unfinished<'c> {
    of: &'c CutOff,
    has_ended: bool,
}

impl Unfinished<'_> {
    /// The operation owns nothing any more that its client does not know of.
    pub fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.of.0.set(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_cut_off_if_it_does_not_end() {
        let cut_off = CutOff::default();
        cut_off.begin().end();
        assert!(!cut_off.has_happened());
        drop(cut_off.begin());
        assert!(cut_off.has_happened());
    }
}
