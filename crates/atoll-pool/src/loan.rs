//! What a client lends to one operation at a time. The loan ends when the operation ends or its
//! future is dropped.

use crate::waiters::Waiters;
use std::cell::Cell;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::task::Poll;

/// Lends a value to one operation at a time.
pub struct Lender<T> {
    /// `None` while it is lent.
    value: Cell<Option<T>>,
    /// Operations that wait for the value.
    waiting: Waiters,
}

impl<T> Lender<T> {
    /// Lends `value` from now on.
    pub const fn new(value: T) -> Self {
        Self { value: Cell::new(Some(value)), waiting: Waiters::new() }
    }

    /// The value, unless another operation has it.
    pub fn lend(&self) -> Option<Loan<'_, T>> {
        self.value.take().map(|value| Loan { lender: self, value: Some(value) })
    }

    /// Waits until no other operation has the value, and borrows it.
    pub async fn lent(&self) -> Loan<'_, T> {
        if let Some(loan) = self.lend() {
            return loan;
        }
        poll_fn(|context| match self.lend() {
            Some(loan) => Poll::Ready(loan),
            None => {
                self.waiting.note(context.waker());
                Poll::Pending
            }
        })
        .await
    }
}

impl<T> std::fmt::Debug for Lender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lender").field("waiting", &self.waiting.count()).finish_non_exhaustive()
    }
}

/// A borrowed value.
pub struct Loan<'l, T> {
    lender: &'l Lender<T>,
    /// `Some` until it is returned.
    value: Option<T>,
}

impl<T> Deref for Loan<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is given back at the end")
    }
}

impl<T> DerefMut for Loan<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is given back at the end")
    }
}

impl<T> Drop for Loan<'_, T> {
    fn drop(&mut self) {
        self.lender.value.set(self.value.take());
        self.lender.waiting.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_lent_to_one_at_a_time_and_keeps_its_changes() {
        let lender = Lender::new(1);
        let mut first = lender.lend().unwrap();
        assert!(lender.lend().is_none());
        *first += 1;
        drop(first);
        assert_eq!(*lender.lend().unwrap(), 2);
    }
}
