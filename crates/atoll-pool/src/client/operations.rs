//! A client's operations: how they begin and end, and when a round is due.

use super::Client;
use crate::in_flight::{Entry, InFlight};
use crate::loan::{Lender, Loan};
use crate::registry::Member;
use atoll_fabric::{Endpoint, VerbError};

impl<E: Endpoint> Client<E> {
    /// The running operations.
    pub fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Begins an operation: from now on it may READ the pool. It waits while the most operations
    /// run. If this client is at rest, it announces the end of the rest.
    pub async fn begin(&self, entry: &mut Entry) -> Result<(), VerbError> {
        if !self.in_flight.try_enter(entry) {
            self.in_flight.enter(entry).await;
            if self.member.is_some() && self.has_left.get() {
                // The client left meanwhile.
                return Err(VerbError::Fenced);
            }
        }
        match self.is_at_rest() {
            true => Box::pin(self.end_rest()).await,
            false => Ok(()),
        }
    }

    /// Begins an operation, unless it would have to wait; returns whether it did.
    #[inline(always)]
    pub fn try_begin(&self, entry: &mut Entry) -> bool {
        !self.is_at_rest() && self.in_flight.try_enter(entry)
    }

    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_at_rest)
    }

    async fn end_rest(&self) -> Result<(), VerbError> {
        match self.is_member() {
            true => self.member().begin(&self.endpoint).await,
            false => Ok(()),
        }
    }

    /// Announces that this client is at rest, if no operation runs any more.
    pub async fn rest(&self) -> Result<(), VerbError> {
        let nothing_is = || self.in_flight.count() == 0;
        match self.is_member() && nothing_is() {
            true => self.member().rest(&self.endpoint, nothing_is).await,
            false => Ok(()),
        }
    }

    /// Lets an operation wait for other clients. Meanwhile it relies on nothing that it has READ.
    /// If all operations of the client wait like this, the client is at rest.
    pub async fn wait_aside(&self, entry: &mut Entry, ns: u64) -> Result<(), VerbError> {
        self.in_flight.leave(entry);
        self.rest().await?;
        self.endpoint.pause(ns).await;
        self.begin(entry).await
    }

    /// Lends a value to one operation at a time. An operation that has to wait stands aside: it
    /// relies on nothing that it has READ.
    pub async fn lent_aside<'l, T>(&self, lender: &'l Lender<T>, entry: &mut Entry) -> Result<Loan<'l, T>, VerbError> {
        self.in_flight.leave(entry);
        let loan = lender.lent().await;
        self.begin(entry).await?;
        Ok(loan)
    }

    /// Runs work that is no operation of a tenant as if it were one.
    pub async fn as_operation<T, F: From<VerbError>>(&self, work: impl Future<Output = Result<T, F>>) -> Result<T, F> {
        struct Counted<'c>(&'c InFlight, Entry);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.leave(&mut self.1);
            }
        }
        let mut counted = Counted(&self.in_flight, Entry::default());
        self.begin(&mut counted.1).await?;
        work.await
    }

    /// Sets the number of operations between two rounds; at least one.
    pub fn set_operations_per_round(&self, operations: u32) {
        debug_assert!(operations > 0, "a round is due after at least one operation");
        self.operations_per_round.set(operations);
        self.operations_to_round.set(operations);
    }

    /// Counts an operation; returns whether a round is due before it.
    #[inline]
    pub fn count_operation(&self) -> bool {
        let left = self.operations_to_round.get().saturating_sub(1);
        self.operations_to_round.set(left);
        left == 0
    }

    /// Whether a round becomes due within the next `operations`.
    pub fn is_round_due_within(&self, operations: u32) -> bool {
        self.operations_to_round.get() <= operations
    }

    /// Makes sure that no round becomes due within the next `operations`.
    pub fn put_off_round(&self, operations: u32) {
        self.operations_to_round.set(self.operations_to_round.get().max(operations + 1));
    }

    /// The number of operations between two rounds.
    pub fn operations_per_round(&self) -> u32 {
        self.operations_per_round.get()
    }

    /// Begins a round: the next one is due after the set number of operations.
    ///
    /// # Errors
    /// Why the client is lost, if it is. The next operation checks again.
    pub fn begin_round(&self) -> Result<(), VerbError> {
        self.operations_to_round.set(self.operations_per_round.get());
        self.usable().inspect_err(|_| self.operations_to_round.set(1))
    }

    /// Whether the check of the other clients is due. If so, the period begins anew.
    pub(crate) fn is_look_due(&self) -> bool {
        let now_ns = self.endpoint.now_ns();
        let is_due = now_ns.wrapping_sub(self.looked_ns.get()) >= self.times.get().look_ns;
        if is_due {
            self.looked_ns.set(now_ns);
        }
        is_due
    }
}
