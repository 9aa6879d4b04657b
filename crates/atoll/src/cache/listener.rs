//! Calls a program's listener with the objects that its cache has removed.
//!
//! A client records what an operation removes ([`Removals`]). The thread that ran the operation
//! takes the records before it returns the client. It calls the listener afterwards, and holds no
//! client and no lock then. So a listener may use the cache.
//!
//! | the listener | then |
//! |---|---|
//! | uses the cache | the records of that operation wait until the listener has returned, on the same thread |
//! | panics | the operation ends as it would have; this listener is not called again |
//!
//! [`Removals`]: atoll_cache::Removals

use atoll_cache::{Cause, Meta, Removal};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

type Listen = dyn Fn(&[u8], Meta, Cause) + Send + Sync;

/// A function that is called for each object that was removed. A clone is the same listener.
#[derive(Clone)]
pub(super) struct Listener(Arc<Told>);

struct Told {
    listen: Box<Listen>,
    /// Set when the listener panics, and never reset.
    has_panicked: AtomicBool,
}

thread_local! {
    /// Removals that this thread has not passed to the listener yet; `None` while it calls no
    /// listener.
    static UNTOLD: RefCell<Option<VecDeque<(Listener, Removal)>>> = const { RefCell::new(None) };
}

/// This thread calls listeners, until this is dropped: also by a panic of what a program's listener
/// owns.
struct Calls;

impl Drop for Calls {
    fn drop(&mut self) {
        // What is left is dropped after the borrow.
        drop(UNTOLD.take());
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("has_panicked", &self.0.has_panicked).finish_non_exhaustive()
    }
}

impl Listener {
    pub(super) fn new(listen: impl Fn(&[u8], Meta, Cause) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Told { listen: Box::new(listen), has_panicked: AtomicBool::new(false) }))
    }

    /// Passes these objects on now, or after the listener that this thread runs has returned.
    pub(super) fn tell(&self, removals: Vec<Removal>) {
        if removals.is_empty() {
            return;
        }
        let removals = removals.into_iter().map(|removal| (self.clone(), removal));
        let is_within = UNTOLD.try_with(|untold| {
            let mut untold = untold.borrow_mut();
            let is_within = untold.is_some();
            untold.get_or_insert_default().extend(removals);
            is_within
        });
        // A thread that ends has no place for records any more, and calls no listener.
        let Ok(false) = is_within else { return };
        let _calls = Calls;
        let next = || UNTOLD.with_borrow_mut(|untold| untold.as_mut().and_then(VecDeque::pop_front));
        while let Some((listener, removal)) = next() {
            listener.call(&removal);
        }
    }

    fn call(&self, removal: &Removal) {
        if self.0.has_panicked.load(Relaxed) {
            return;
        }
        // The program's hook has reported the panic. No operation of the cache is under way.
        let called = catch_unwind(AssertUnwindSafe(|| (self.0.listen)(&removal.key, removal.meta, removal.cause)));
        if called.is_err() {
            self.0.has_panicked.store(true, Relaxed);
        }
    }
}
