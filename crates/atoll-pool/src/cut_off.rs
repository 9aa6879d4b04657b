//! Operations whose futures were dropped halfway, so that nobody finishes what they had begun.
//!
//! An operation says when it waits with something of the pool in its hands ([`CutOff::begin`]), and
//! when it goes on ([`Unfinished::end`]). If its future is dropped in between, its client does not
//! know any more all that it owns. Such a client does not leave as if it had released everything:
//! other clients repair it.

use std::cell::Cell;

/// Whether an operation of a client was cut off.
#[derive(Debug, Default)]
pub struct CutOff(Cell<bool>);

impl CutOff {
    /// An operation waits, or goes on where it may wait.
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
    /// The operation has nothing in its hands any more, or goes on without a wait.
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
