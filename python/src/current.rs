//! The pool as this process has it open.
//!
//! | the process | an operation |
//! |---|---|
//! | opened the pool | uses what it has open |
//! | is a fork of one that did | forgets what it inherited and opens the pool itself, then goes on |
//! | closed the cache | is an error, also in its forks |
//!
//! What is inherited is never dropped: to drop it would wait for threads that a fork does not have,
//! and it is the parent's. It costs address space and no memory. The check is one load of a word
//! that the kernel wipes in a fork, so that it also sees a fork that no Python code made.

use crate::error::{of_opening, raise};
use crate::opened::{Opened, Opening};
use arc_swap::{ArcSwapOption, Guard};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The pool as this process has it open; see the module.
pub(crate) struct Current {
    opening: Opening,
    /// `None` if it is closed.
    opened: ArcSwapOption<Opened>,
    is_closed: AtomicBool,
}

/// A cache for one operation.
pub(crate) struct Use(Guard<Option<Arc<Opened>>>);

impl std::ops::Deref for Use {
    type Target = Opened;

    #[inline]
    fn deref(&self) -> &Opened {
        self.0.as_ref().expect("a use is made of an open cache")
    }
}

impl Current {
    pub(crate) fn open(py: Python<'_>, opening: Opening) -> PyResult<Self> {
        let opened = py.detach(|| opening.open()).map_err(|error| of_opening(py, &error))?;
        Ok(Self { opening, opened: ArcSwapOption::from_pointee(opened), is_closed: AtomicBool::new(false) })
    }

    pub(crate) fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The cache, for one operation.
    #[inline]
    pub(crate) fn cache(&self, py: Python<'_>) -> PyResult<Use> {
        let opened = self.opened.load();
        match &*opened {
            Some(cache) if !cache.is_inherited() => Ok(Use(opened)),
            _ => self.reopened(py, opened),
        }
    }

    #[cold]
    fn reopened(&self, py: Python<'_>, mut found: Guard<Option<Arc<Opened>>>) -> PyResult<Use> {
        loop {
            match &*found {
                None => return Err(raise(py, "Closed", "the cache is closed: make a new one")),
                Some(cache) if !cache.is_inherited() => return Ok(Use(found)),
                Some(_) => {}
            }
            let own = py.detach(|| self.opening.open()).map_err(|error| of_opening(py, &error))?;
            // Another thread may have been faster. Then this thread's own is dropped.
            let before = self.opened.compare_and_swap(&*found, Some(Arc::new(own)));
            if let Some(inherited) = before.as_ref().filter(|cache| cache.is_inherited()) {
                std::mem::forget(inherited.clone());
            }
            if self.is_closed.load(SeqCst) {
                self.close();
            }
            found = self.opened.load();
        }
    }

    /// Closes it. Operations under way end first.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, SeqCst);
        if let Some(cache) = self.opened.swap(None)
            && cache.is_inherited()
        {
            std::mem::forget(cache);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.close();
    }
}
