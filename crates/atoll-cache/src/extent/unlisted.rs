//! Extents that no object lists: those of a value that is not published yet, and those of an object
//! that is dead. If their client forgot them, they would never be free while it lives.
//!
//! | a client | the extents |
//! |---|---|
//! | fills chunks for a new value | are unlisted |
//! | posts the batch that may publish the record | may be an object's: nobody frees them as unlisted |
//! | learns that the batch has published nothing | are unlisted again |
//! | makes their object dead | are unlisted until they are free |
//!
//! A client drops unlisted extents when a connection breaks off, when a verb fails, and when the
//! future of an operation is dropped. Then they are noted, and the client frees them at its next
//! step. Extents that are free already are not freed again: their chunks have other generations.

use super::Extents;
use atoll_fabric::VerbError;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Unlisted extents that were dropped. Their client frees them.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    extents: Mutex<Vec<Extents>>,
    is_any: AtomicBool,
}

impl Abandoned {
    fn note(&self, extents: Extents) {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner).push(extents);
        self.is_any.store(true, Relaxed);
    }

    pub(super) fn take(&self) -> Vec<Extents> {
        let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_any.store(false, Relaxed);
        std::mem::take(&mut extents)
    }

    /// Whether there may be any.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
    }
}

/// Extents that no object lists. If they are dropped, their client frees them at its next step.
#[derive(Debug)]
pub(crate) struct Unlisted {
    extents: Extents,
    /// Whether a record that lists them may be published.
    may_be_listed: Cell<bool>,
    /// Of the client that frees them.
    abandoned: Arc<Abandoned>,
}

impl Unlisted {
    pub(crate) fn new(extents: Extents, abandoned: &Arc<Abandoned>) -> Self {
        Self { extents, may_be_listed: Cell::new(false), abandoned: abandoned.clone() }
    }

    pub(crate) fn extents(&self) -> &Extents {
        &self.extents
    }

    pub(super) fn extents_mut(&mut self) -> &mut Extents {
        assert!(!self.may_be_listed.get(), "the extents of an object do not change");
        &mut self.extents
    }

    /// Whether the client that frees them is the one with this list.
    pub(super) fn are_of(&self, abandoned: &Arc<Abandoned>) -> bool {
        Arc::ptr_eq(&self.abandoned, abandoned)
    }

    /// Takes all of them, and leaves none.
    pub(super) fn taken(&mut self) -> Self {
        let (may_be_listed, abandoned) = (self.may_be_listed.clone(), self.abandoned.clone());
        Self { extents: std::mem::take(&mut self.extents), may_be_listed, abandoned }
    }

    /// They are free, or an object's.
    pub(super) fn forget(mut self) {
        self.extents = Extents::default();
    }
}

impl Drop for Unlisted {
    fn drop(&mut self) {
        if !self.may_be_listed.get() && self.extents.all().next().is_some() {
            self.abandoned.note(std::mem::take(&mut self.extents));
        }
    }
}

/// The unlisted extents of a new record, if it has any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing<'u>(pub(crate) Option<&'u Unlisted>);

impl Listing<'_> {
    /// The client posts a batch that may publish the record.
    #[inline]
    pub(crate) fn begin(self) {
        if let Some(unlisted) = self.0 {
            unlisted.may_be_listed.set(true);
        }
    }

    /// The batch was posted. If that took no effect, the record is not published.
    #[inline]
    pub(crate) fn note_posted(self, posted: &Result<(), VerbError>) {
        if posted.as_ref().is_err_and(VerbError::took_no_effect) {
            self.end();
        }
    }

    /// The record was not published, and never will be.
    #[inline]
    pub(crate) fn end(self) {
        if let Some(unlisted) = self.0 {
            unlisted.may_be_listed.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Extent;
    use super::*;
    use atoll_pool::ChunkId;

    fn unlisted(abandoned: &Arc<Abandoned>) -> Unlisted {
        let body = vec![Extent { chunk: ChunkId(1), generation: 2 }];
        Unlisted::new(Extents { body, lists: Vec::new() }, abandoned)
    }

    #[test]
    fn extents_are_noted_unless_a_record_may_list_them() {
        let abandoned = Arc::default();
        drop(Unlisted::new(Extents::default(), &abandoned));
        unlisted(&abandoned).forget();
        let listed = unlisted(&abandoned);
        Listing(Some(&listed)).begin();
        Listing(Some(&listed)).note_posted(&Err(VerbError::OutcomeUnknown));
        drop(listed);
        assert!(!abandoned.is_any());
        let refused = unlisted(&abandoned);
        Listing(Some(&refused)).begin();
        Listing(Some(&refused)).note_posted(&Err(VerbError::no_memory(0)));
        drop(refused);
        drop(unlisted(&abandoned).taken());
        assert!(abandoned.is_any());
        assert_eq!(abandoned.take().len(), 2);
        assert!(!abandoned.is_any());
    }
}
