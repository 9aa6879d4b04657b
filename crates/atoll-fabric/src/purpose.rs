//! What verbs are sent for, so that a fabric that counts can say where its traffic comes from
//! (FORGE, Fig. 3).
//!
//! A protocol opens a [`Scope`] around its housekeeping; what its endpoint posts until the scope
//! ends is counted there. A fabric that does not count ([`Endpoint::purpose`] as it stands)
//! compiles all of it to nothing.

use crate::{Endpoint, Purpose};
use std::future::{Future, poll_fn};
use std::pin::pin;

/// While it lives, the endpoint's posts have its purpose. Dropping it restores the previous
/// purpose. Scopes nest.
#[must_use = "a scope ends where it is dropped"]
pub struct Scope<'e, E: Endpoint> {
    endpoint: &'e E,
    before: Purpose,
}

impl<'e, E: Endpoint> Scope<'e, E> {
    /// Begins here.
    #[inline]
    pub fn new(endpoint: &'e E, purpose: Purpose) -> Self {
        Self { endpoint, before: endpoint.purpose(purpose) }
    }
}

impl<E: Endpoint> Drop for Scope<'_, E> {
    #[inline]
    fn drop(&mut self) {
        self.endpoint.purpose(self.before);
    }
}

/// Runs a future whose posts have a purpose of their own, while other futures of the endpoint are
/// polled in between.
pub async fn apart<E: Endpoint, F: Future>(endpoint: &E, purpose: Purpose, future: F) -> F::Output {
    let (mut future, mut own) = (pin!(future), purpose);
    poll_fn(|context| {
        let others = endpoint.purpose(own);
        let polled = future.as_mut().poll(context);
        own = endpoint.purpose(others);
        polled
    })
    .await
}
