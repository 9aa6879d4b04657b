//! The tasks that wait for a client's other operations, and are all woken together. A task that
//! polls often, or for several operations, is noted once. Where many may wait, they wait in
//! [`line`](crate::line).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Tasks that wait, each noted once.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    tasks: RefCell<Vec<Waker>>,
    any: Cell<bool>,
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self { tasks: RefCell::new(Vec::new()), any: Cell::new(false) }
    }

    /// Waits until `found` has something. It is asked again whenever all are woken.
    pub(crate) async fn until<T>(&self, mut found: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match found() {
            Some(found) => Poll::Ready(found),
            None => {
                self.note(context.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// Notes a task that is to be woken.
    fn note(&self, waker: &Waker) {
        let mut tasks = self.tasks.borrow_mut();
        if !tasks.iter().any(|noted| noted.will_wake(waker)) {
            tasks.push(waker.clone());
            self.any.set(true);
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Wakes all of them.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.any.get() {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        self.any.set(false);
        let tasks = self.tasks.take();
        tasks.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_polls_often_is_noted_once() {
        let waiters = Waiters::new();
        (0..3).for_each(|_| waiters.note(Waker::noop()));
        assert_eq!(waiters.count(), 1);
        waiters.wake();
        assert_eq!(waiters.count(), 0);
    }
}
