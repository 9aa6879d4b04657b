//! A verb's future as an endpoint around another endpoint returns it: with a look at its outcome.
//!
//! An `async` block would do the same, but costs some thirty instructions a verb: the compiler
//! keeps its states apart from its caller. Where memory is near, that is a tenth of a GET.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A future whose outcome is checked before its caller sees it.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Checked<F, C> {
    /// `None` if nothing was posted.
    future: Option<F>,
    check: C,
}

impl<F: Future, C: FnMut(Option<F::Output>) -> F::Output> Checked<F, C> {
    /// Waits for `future`, and gives what `check` makes of its outcome. Without a future `check`
    /// gives the outcome by itself.
    #[inline(always)]
    pub fn new(future: Option<F>, check: C) -> Self {
        Self { future, check }
    }
}

impl<F: Future, C: FnMut(Option<F::Output>) -> F::Output> Future for Checked<F, C> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with the whole: nothing moves it out of here, and the type has
        // neither a `Drop` nor an `Unpin` of its own. `check` is never pinned.
        let (future, check) = unsafe {
            let this = self.get_unchecked_mut();
            (this.future.as_mut().map(|future| Pin::new_unchecked(future)), &mut this.check)
        };
        Poll::Ready(match future {
            Some(future) => {
                let outcome = ready!(future.poll(context));
                check(Some(outcome))
            }
            None => check(None),
        })
    }
}

/// One of two futures, of which the second is rare and lies apart: the usual one's caller gets no
/// larger by it.
#[must_use = "futures do nothing unless they are polled"]
#[derive(Debug)]
pub enum Either<F, R> {
    /// The usual one.
    Usual(F),
    /// The rare one.
    Rare(Pin<Box<R>>),
}

impl<F: Future, R: Future<Output = F::Output>> Future for Either<F, R> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the usual future is pinned with the whole: nothing moves it out of here, and the
        // type has no `Drop` of its own. The rare one is pinned in its box wherever that is.
        match unsafe { self.get_unchecked_mut() } {
            Self::Usual(future) => unsafe { Pin::new_unchecked(future) }.poll(context),
            Self::Rare(future) => future.as_mut().poll(context),
        }
    }
}
