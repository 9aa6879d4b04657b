//! Futures of the cache on a worker's thread, and what they wait for.
//!
//! | the fabric | a future that is pending is polled again |
//! |---|---|
//! | has a descriptor ([`Arrivals`](atoll_fabric::Arrivals)) | once what it waits for has arrived there or its pause is over; and in its turn among [`LOOKS_MAX`] of a [`LOOK_PERIOD`], so that it continues with operations that others have left |
//! | has none | at the worker's next turn |
//!
//! A future that waits for its worker's other connections, not for the fabric, is woken by what it
//! waits for ([`woken_by_itself`]).
//!
//! Futures that begin to wait in one turn of the worker are sent together: the driver first lets
//! the others run.

use super::first;
use super::protocol::Protocol;
use super::worker::Worker;
use atoll_cache::Engine;
use atoll_fabric::BusyPolling;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// How long the driver waits at most until it polls some of the futures.
const LOOK_PERIOD: Duration = Duration::from_millis(1);
/// So many of them: a server of thousands of connections must not spend its time on this.
const LOOKS_MAX: usize = 64;
/// After so many waits without a command the worker does not look before it sleeps: what runs in
/// the background can wait.
const IDLE_WAITS_MAX: u32 = 64;

/// The futures that wait.
#[derive(Default)]
pub(super) struct Waiters {
    wakers: RefCell<Slab<Waker>>,
    /// The key of the next one in turn to be polled.
    next: Cell<usize>,
    /// Notified when one begins to wait.
    begun: Notify,
    /// Whether the driver runs.
    is_driven: Cell<bool>,
    /// Whether the driver waits for what arrives.
    is_waiting: Cell<bool>,
    /// Waits since a connection ran a batch.
    idle_waits: Cell<u32>,
}

impl Waiters {
    /// A future is pending. `key` is that of its waker, if it was pending before.
    fn note(&self, key: &mut Option<usize>, waker: &Waker) {
        if !self.is_driven.get() {
            return waker.wake_by_ref();
        }
        let mut wakers = self.wakers.borrow_mut();
        if wakers.is_empty() || self.is_waiting.get() {
            self.begun.notify_one();
        }
        match *key {
            Some(key) => wakers[key].clone_from(waker),
            None => *key = Some(wakers.insert(waker.clone())),
        }
    }

    /// A future has ended that was pending.
    fn forget(&self, key: usize) {
        self.wakers.borrow_mut().remove(key);
    }

    /// A connection runs a batch.
    #[inline]
    pub(super) fn note_batch(&self) {
        self.idle_waits.set(0);
    }

    /// The driver ends: futures are polled at every turn from now on.
    pub(super) fn end(&self) {
        self.is_driven.set(false);
        self.wake_all();
    }

    /// Waits until something has arrived, a future has begun to wait, or [`LOOK_PERIOD`] is over.
    /// Returns whether it was a future: what it has queued is not sent yet.
    async fn until_arrival(&self, descriptor: &AsyncFd<OwnedFd>, polling: &mut BusyPolling) -> bool {
        let has_begun = Cell::new(false);
        let arrived = async {
            if let Ok(mut ready) = descriptor.readable().await {
                ready.clear_ready();
            }
        };
        let begun = async {
            self.begun.notified().await;
            has_begun.set(true);
        };
        self.is_waiting.set(true);
        let mut event = std::pin::pin!(tokio::time::timeout(LOOK_PERIOD, first(arrived, begun)));
        let since = Instant::now();
        self.idle_waits.set(self.idle_waits.get().saturating_add(1));
        if self.idle_waits.get() > IDLE_WAITS_MAX || !found(event.as_mut(), polling).await {
            let has_come = event.await.is_ok();
            polling.waited(since.elapsed(), has_come);
        }
        self.is_waiting.set(false);
        has_begun.get()
    }

    fn wake_all(&self) {
        self.wakers.borrow().iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Wakes those whose turn it is.
    fn wake_some(&self) {
        let wakers = self.wakers.borrow();
        let (mut key, mut left) = (self.next.get(), LOOKS_MAX);
        while left > 0 && key < wakers.capacity() {
            if let Some(waker) = wakers.get(key) {
                waker.wake_by_ref();
                left -= 1;
            }
            key += 1;
        }
        self.next.set(if key < wakers.capacity() { key } else { 0 });
    }
}

/// Polls a future, and lets the worker look at its sockets, until that is ready or the worker is to
/// sleep. Returns whether it is ready.
async fn found<F: Future>(mut event: Pin<&mut F>, polling: &mut BusyPolling) -> bool {
    let Some(looks) = polling.begin(LOOK_PERIOD) else { return false };
    loop {
        tokio::task::yield_now().await;
        let is_ready = poll_fn(|context| Poll::Ready(event.as_mut().poll(context).is_ready())).await;
        if is_ready || !polling.goes_on(looks) {
            return is_ready;
        }
    }
}

thread_local! {
    /// Whether the future that was polled last is pending in [`woken_by_itself`].
    static IS_WOKEN: Cell<bool> = const { Cell::new(false) };
    /// Whether an operation has paused since this was asked last.
    static PAUSES: Cell<bool> = const { Cell::new(false) };
}

/// Within an operation of the cache that takes long where memory is near, or waits for room: lets
/// the worker's other connections run, for so many nanoseconds at least.
pub(super) async fn pause(ns: u64) {
    PAUSES.set(true);
    match ns {
        0 => woken_by_itself(tokio::task::yield_now()).await,
        _ => woken_by_itself(tokio::time::sleep(Duration::from_nanos(ns))).await,
    }
}

/// Whether an operation of this thread has [paused](pause) since this was asked last: the one that
/// has been polled since.
#[inline]
pub(crate) fn pauses() -> bool {
    PAUSES.take()
}

/// Waits within a future of the cache for what wakes it, as all of tokio does. To poll it in turns
/// would keep the worker busy for as long as it waits. Nothing else of that future may be under
/// way.
pub(crate) async fn woken_by_itself<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        IS_WOKEN.set(polled.is_pending());
        polled
    })
    .await
}

/// A future of the cache.
pub(super) struct Asking<'a, F> {
    future: Pin<&'a mut F>,
    waiters: &'a Waiters,
    /// Of its waker, once it was pending.
    key: Option<usize>,
}

impl<'a, F> Asking<'a, F> {
    pub(super) fn new(future: Pin<&'a mut F>, waiters: &'a Waiters) -> Self {
        Self { future, waiters, key: None }
    }
}

impl<F> Drop for Asking<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.waiters.forget(key);
        }
    }
}

impl<F: Future> Future for Asking<'_, F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, waiters, key } = &mut *self;
        IS_WOKEN.set(false);
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            match IS_WOKEN.take() {
                true => _ = key.take().map(|key| waiters.forget(key)),
                false => waiters.note(key, context.waker()),
            }
        }
        polled
    }
}

/// The call is deprecated for values that may close their descriptor, or give another one, while
/// they are waited for. This one owns its descriptor, and its successor is for code with `unsafe`.
#[allow(deprecated)]
fn waited_for(own: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(own, Interest::READABLE).ok()
}

/// Sends and receives for the waiting futures of a worker, and polls them again from time to time.
/// It never ends.
pub(super) async fn drive<P: Protocol, G: Engine + 'static>(worker: Rc<Worker<P, G>>) {
    let waiters = &worker.waiters;
    waiters.is_driven.set(true);
    let mut cache = worker.cache();
    let mut descriptor: Option<AsyncFd<OwnedFd>> = None;
    let mut looked = Instant::now();
    let mut polling = BusyPolling::default();
    loop {
        while waiters.wakers.borrow().is_empty() {
            waiters.begun.notified().await;
        }
        // The other futures of this turn are sent together with these.
        tokio::task::yield_now().await;
        let now = worker.cache();
        if !Rc::ptr_eq(&now, &cache) {
            // The descriptor goes with the client.
            descriptor = None;
            cache = now;
        }
        let Some(arrivals) = cache.engine().arrivals() else {
            waiters.wake_all();
            continue;
        };
        arrivals.send();
        if descriptor.is_none() {
            let own = arrivals.descriptor();
            descriptor = own.and_then(waited_for);
        }
        let has_begun = match &descriptor {
            Some(descriptor) => waiters.until_arrival(descriptor, &mut polling).await,
            None => {
                tokio::task::yield_now().await;
                false
            }
        };
        if !has_begun {
            arrivals.receive();
        }
        if descriptor.is_none() {
            waiters.wake_all();
        } else if looked.elapsed() >= LOOK_PERIOD {
            looked = Instant::now();
            waiters.wake_some();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_is_woken_by_what_it_waits_for_is_not_polled_in_turns() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (waiters, event, polls) = (Waiters::default(), Notify::new(), Cell::new(0));
            waiters.is_driven.set(true);
            // It waits for the fabric first.
            let both = async {
                tokio::task::yield_now().await;
                woken_by_itself(event.notified()).await;
                tokio::task::yield_now().await;
            };
            let mut both = std::pin::pin!(both);
            let mut asking = Asking::new(both.as_mut(), &waiters);
            let noted = [1, 0, 1, 1];
            poll_fn(|context| {
                let polled = Pin::new(&mut asking).poll(context);
                assert_eq!(waiters.wakers.borrow().len(), noted[polls.get()]);
                polls.set(polls.get() + 1);
                if polls.get() == 2 {
                    event.notify_one();
                }
                polled
            })
            .await;
            assert_eq!(polls.get(), 4);
        });
    }
}
