//! Operations of which so many are in flight all the time.

use crate::latency::Latencies;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// What came of it.
pub(super) struct Flown {
    pub(super) latencies: Latencies,
    time: Duration,
    count: u64,
}

impl Flown {
    pub(super) fn count(&self) -> u64 {
        self.count.max(1)
    }

    pub(super) fn per_s(&self) -> f64 {
        self.count as f64 / self.time.as_secs_f64()
    }
}

/// Repeats `each` in so many lanes for a time. Each lane has what `own` gives it.
pub(super) async fn in_flight<T, E>(
    depth: usize,
    time: Duration,
    own: impl Fn() -> T,
    each: impl AsyncFn(usize, &mut T) -> Result<(), E>,
) -> Result<Flown, E> {
    let (begun, flown) = (Instant::now(), RefCell::new((Latencies::default(), 0)));
    let lane = async |lane: usize| {
        let mut own = own();
        while begun.elapsed() < time {
            let since = Instant::now();
            each(lane, &mut own).await?;
            let (latencies, count) = &mut *flown.borrow_mut();
            latencies.record(since.elapsed().as_nanos() as u64);
            *count += 1;
        }
        Ok(())
    };
    let mut lanes: Vec<_> = (0..depth).map(|number| Box::pin(lane(number))).collect();
    // All lanes end, whatever becomes of one: none is dropped with something in flight.
    let mut outcome = Ok(());
    poll_fn(|context| {
        lanes.retain_mut(|lane| match lane.as_mut().poll(context) {
            Poll::Ready(ended) => {
                outcome = std::mem::replace(&mut outcome, Ok(())).and(ended);
                false
            }
            Poll::Pending => true,
        });
        if lanes.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop(lanes);
    outcome?;
    let (latencies, count) = flown.into_inner();
    Ok(Flown { latencies, time: begun.elapsed(), count })
}
