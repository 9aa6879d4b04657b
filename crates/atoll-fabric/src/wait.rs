//! Blocking a thread until a future over an endpoint has ended.
//!
//! Where memory is near, a future ends at its first poll. Over a network it is polled again each
//! time that its endpoint may have got further ([`Endpoint::wait`]).

use crate::Endpoint;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Runs a future over `endpoint` to its end. Polls it once; while it is pending, waits for the
/// endpoint and polls it again.
#[inline]
pub fn block_on<E: Endpoint, F: Future>(endpoint: &E, future: F) -> F::Output {
    block_on_with(|| endpoint.wait(), future)
}

/// As [`block_on`] where `wait` finds the endpoint and waits for it. It is called only while the
/// future is pending, so that a future that ends at once costs nothing more.
#[inline]
pub fn block_on_with<F: Future>(mut wait: impl FnMut(), mut future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    // SAFETY: `future` is this function's own. It is not moved from here on, and dropped where it
    // is. The macro `pin!` would copy it first, kilobytes for each operation.
    let mut future = unsafe { Pin::new_unchecked(&mut future) };
    // In one place, so that it is inlined there: a second one would cost every operation a call.
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        cold(&mut wait);
    }
}

/// Out of the way of a future that ends at its first poll.
#[cold]
#[inline(never)]
fn cold(wait: &mut impl FnMut()) {
    wait();
}

/// Runs a future that has nothing to wait for, as every future over shared memory is, to its end.
///
/// # Panics
/// If the future waits: it was built over a fabric whose endpoints are to be driven.
#[inline]
pub fn run_ready<F: Future>(future: F) -> F::Output {
    block_on_with(|| panic!("this fabric waits: give the future to block_on"), future)
}
