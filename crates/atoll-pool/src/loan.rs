//! What a client lends to one operation at a time. The loan ends when the operation ends or its
//! future is dropped.

use crate::line::Line;
use std::cell::Cell;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::task::Poll;

/// Lends a value to one operation at a time, in the order in which they ask.
pub struct Lender<T> {
    /// `None` while it is lent.
    value: Cell<Option<T>>,
    /// Operations that wait for the value. The one that was let in takes it.
    line: Line,
}

impl<T> Lender<T> {
    /// Lends `value` from now on.
    pub const fn new(value: T) -> Self {
        Self { value: Cell::new(Some(value)), line: Line::new() }
    }

    /// The value, unless another operation has it or is to have it next.
    pub fn lend(&self) -> Option<Loan<'_, T>> {
        if self.line.let_in() > 0 {
            return None;
        }
        self.take()
    }

    /// Whether an operation has the value.
    pub fn is_lent(&self) -> bool {
        let value = self.value.take();
        let is_lent = value.is_none();
        self.value.set(value);
        is_lent
    }

    fn take(&self) -> Option<Loan<'_, T>> {
        self.value.take().map(|value| Loan { lender: self, value: Some(value) })
    }

    /// Waits until no other operation has the value, and borrows it.
    pub async fn lent(&self) -> Loan<'_, T> {
        if let Some(loan) = self.lend() {
            return loan;
        }
        let place = PlaceInLine { number: self.line.join(), of: self };
        poll_fn(|context| {
            let loan = if self.line.is_let_in(place.number, context.waker()) { self.take() } else { None };
            loan.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// An operation's place in line.
struct PlaceInLine<'l, T> {
    of: &'l Lender<T>,
    number: u64,
}

impl<T> Drop for PlaceInLine<'_, T> {
    /// The operation has the value, or its future is dropped.
    fn drop(&mut self) {
        let (of, value) = (self.of, self.of.value.take());
        of.line.leave(self.number);
        // One that was let in, and has not been polled, has it next.
        if value.is_some() && of.line.let_in() == 0 {
            of.line.let_next_in();
        }
        of.value.set(value);
    }
}

impl<T> std::fmt::Debug for Lender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lender").field("line", &self.line).finish_non_exhaustive()
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
        self.lender.line.let_next_in();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[test]
    fn a_value_is_lent_to_one_at_a_time_and_keeps_its_changes() {
        let lender = Lender::new(1);
        let mut first = lender.lend().unwrap();
        assert!(lender.lend().is_none());
        *first += 1;
        drop(first);
        assert_eq!(*lender.lend().unwrap(), 2);
    }

    #[test]
    fn those_who_wait_have_it_in_their_order_and_one_that_is_dropped_passes_it_on() {
        let mut context = Context::from_waker(Waker::noop());
        let lender = Lender::new(());
        let first = lender.lend().unwrap();
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(lender.lent())).collect();
        assert!(waiting.iter_mut().all(|each| each.as_mut().poll(&mut context).is_pending()));
        drop(first);
        assert!(lender.lend().is_none(), "it is the first one's in line");
        drop(waiting.remove(0));
        let polled: Vec<_> = waiting.iter_mut().map(|each| each.as_mut().poll(&mut context)).collect();
        assert!(polled[0].is_ready() && polled[1].is_pending() && polled[2].is_pending());
        // One that is not the next one's turn is dropped, then the loan ends.
        drop(waiting.pop());
        assert!(waiting[1].as_mut().poll(&mut context).is_pending());
        drop(polled);
        assert!(matches!(waiting[1].as_mut().poll(&mut context), Poll::Ready(_)));
        assert!(lender.lend().is_some(), "nobody waits any more");
    }

    #[test]
    fn one_that_is_dropped_while_another_is_let_in_lets_no_second_one_in() {
        let mut context = Context::from_waker(Waker::noop());
        let lender = Lender::new(());
        let first = lender.lend().unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(lender.lent())).collect();
        assert!(waiting.iter_mut().all(|each| each.as_mut().poll(&mut context).is_pending()));
        drop(first);
        drop(waiting.pop());
        let second = waiting[0].as_mut().poll(&mut context);
        assert!(second.is_ready() && waiting[1].as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(waiting[1].as_mut().poll(&mut context).is_ready());
        assert!(lender.lend().is_some(), "nobody waits any more");
    }
}
