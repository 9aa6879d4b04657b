//! What an endpoint waits for, for a thread that waits for other things, too.

use std::os::fd::OwnedFd;

/// An endpoint whose results arrive by the kernel.
///
/// A thread that has polled its futures calls [`send`](Arrivals::send), waits until the descriptor
/// is readable (or for a millisecond, since futures may pause), and calls
/// [`receive`](Arrivals::receive). That wakes the tasks of the futures that can go on, and those
/// that pause. [`Endpoint::wait`] is all of that for a thread that has nothing else to wait for.
///
/// [`Endpoint::wait`]: crate::Endpoint::wait
pub trait Arrivals {
    /// A descriptor of the caller's own that is readable once something has arrived; `None` if the
    /// system has none left.
    fn descriptor(&self) -> Option<OwnedFd>;

    /// Sends what waits to be sent, without blocking.
    fn send(&self);

    /// Receives what has arrived, without blocking. Wakes the tasks whose futures it was for, and
    /// those that pause.
    fn receive(&self);
}
