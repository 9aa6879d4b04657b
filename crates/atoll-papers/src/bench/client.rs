//! A thread of a point: it does one request after the other, or several at a time, and counts the
//! outcomes.

use super::system::Subject;
use super::tally::Tally;
use atoll_cache::{Cache, CacheError, Condition, Expiry, SetOptions, Value};
use atoll_fabric::Endpoint;
use atoll_lab::load::{Kind, Request, Stream};
use atoll_lab::trace::Effect;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

/// A thread.
pub(crate) struct Client<G: Subject> {
    pub(crate) cache: Cache<G>,
    pub(crate) stream: Stream,
    pub(crate) miss_penalty_ns: u64,
    /// Operations that it has in flight.
    in_flight: u16,
    /// Between two arrivals of its requests in the mean, in an open loop.
    arrivals_ns: Option<f64>,
    buffers: Buffers,
    tally: Rc<RefCell<Tally>>,
}

/// When the requests of a thread are to begin, in an open loop: they arrive at random, as many in a
/// time as its rate says, whether or not earlier ones have ended.
struct Arrivals {
    /// When the next one arrives.
    next_ns: f64,
    /// Between two of them in the mean.
    mean_ns: f64,
}

impl Arrivals {
    /// When the next request is to begin; `random` is any number of 64 bits.
    fn next(&mut self, random: u64) -> u64 {
        let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
        self.next_ns -= (1.0 - share).ln() * self.mean_ns;
        self.next_ns as u64
    }
}

/// What one operation needs.
#[derive(Default)]
struct Buffers {
    key: Vec<u8>,
    value: Value,
    /// The bytes that values are prefixes of. It grows to the longest value.
    content: Vec<u8>,
}

/// A lane of a thread: it has one operation in flight.
struct Lane<'c, G: Subject> {
    cache: &'c Cache<G>,
    miss_penalty_ns: u64,
    tally: &'c RefCell<Tally>,
    buffers: &'c mut Buffers,
}

impl<G: Subject> Client<G> {
    pub(crate) fn new(cache: Cache<G>, stream: Stream, miss_penalty_ns: u64, tally: &Rc<RefCell<Tally>>) -> Self {
        let (buffers, tally) = (Buffers::default(), tally.clone());
        Self { cache, stream, miss_penalty_ns, in_flight: 1, arrivals_ns: None, buffers, tally }
    }

    /// The same in an open loop, with so many nanoseconds between two of its requests in the mean.
    pub(crate) fn with_arrivals(self, arrivals_ns: Option<f64>) -> Self {
        Self { arrivals_ns, ..self }
    }

    /// The same with this many operations in flight.
    pub(crate) fn with_in_flight(self, in_flight: u16) -> Self {
        Self { in_flight, ..self }
    }

    fn lane(&mut self) -> Lane<'_, G> {
        let Self { cache, miss_penalty_ns, buffers, tally, .. } = self;
        Lane { cache, miss_penalty_ns: *miss_penalty_ns, tally, buffers }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.cache.engine().client().endpoint.virtual_ns()
    }

    /// Does up to `requests` requests. It stops when counting ends.
    pub(crate) async fn play(&mut self, requests: u64) {
        if let Err(error) = self.try_play(requests).await {
            self.tally.borrow_mut().fail(error.into());
        }
        let now_ns = self.now_ns();
        self.tally.borrow_mut().end(now_ns);
        self.cache.engine().rest().await;
    }

    async fn try_play(&mut self, requests: u64) -> Result<(), CacheError> {
        let now_ns = self.now_ns() as f64;
        let mut arrivals = self.arrivals_ns.map(|mean_ns| Arrivals { next_ns: now_ns, mean_ns });
        if self.in_flight <= 1 {
            for _ in 0..requests {
                if self.tally.borrow().has_ended() {
                    break;
                }
                let Some(request) = self.stream.next() else { break };
                let mut lane = self.lane();
                let due_ns = arrivals.as_mut().map(|arrivals| arrivals.next(lane.random()));
                lane.request(&request, due_ns).await?;
            }
            return Ok(());
        }
        let arrivals = &RefCell::new(arrivals);
        let Self { cache, stream, miss_penalty_ns, in_flight, tally, .. } = self;
        let left = &RefCell::new(stream.by_ref().take(requests as usize));
        let (cache, miss_penalty_ns, tally) = (&*cache, *miss_penalty_ns, &**tally);
        let lane = |_| {
            Box::pin(async move {
                let mut buffers = Buffers::default();
                loop {
                    let next = left.borrow_mut().next().filter(|_| !tally.borrow().has_ended());
                    let Some(request) = next else { return Ok(()) };
                    let mut lane = Lane { cache, miss_penalty_ns, tally, buffers: &mut buffers };
                    let due_ns = arrivals.borrow_mut().as_mut().map(|arrivals| arrivals.next(lane.random()));
                    lane.request(&request, due_ns).await?;
                }
            })
        };
        let mut under_way: Vec<_> = (0..*in_flight).map(lane).collect();
        std::future::poll_fn(|context| {
            let mut outcome = Ok(());
            under_way.retain_mut(|lane| match lane.as_mut().poll(context) {
                Poll::Ready(ended) => {
                    if outcome.is_ok() {
                        outcome = ended;
                    }
                    false
                }
                Poll::Pending => true,
            });
            if outcome.is_err() || under_way.is_empty() { Poll::Ready(outcome) } else { Poll::Pending }
        })
        .await
    }

    /// Sets every key of `keys`, without counting.
    pub(crate) async fn preload(&mut self, keys: Stream) -> Result<(), CacheError> {
        let mut lane = self.lane();
        for request in keys {
            request.key(&mut lane.buffers.key);
            lane.set(&request, Condition::Always).await?;
        }
        self.cache.engine().rest().await;
        Ok(())
    }

    /// Looks every key of `keys` up, without counting.
    pub(crate) async fn look_up(&mut self, keys: Stream) -> Result<(), CacheError> {
        for request in keys {
            request.key(&mut self.buffers.key);
            self.cache.get(&self.buffers.key, &mut self.buffers.value).await?;
        }
        Ok(())
    }

    pub(crate) async fn request(&mut self, request: &Request) -> Result<(), CacheError> {
        self.lane().request(request, None).await
    }
}

impl<G: Subject> Lane<'_, G> {
    fn now_ns(&self) -> u64 {
        self.cache.engine().client().endpoint.virtual_ns()
    }

    fn random(&self) -> u64 {
        self.cache.engine().client().endpoint.random()
    }

    /// Does a request that is to begin at a time, or at once. Its latency counts from there.
    async fn request(&mut self, request: &Request, due_ns: Option<u64>) -> Result<(), CacheError> {
        let early_ns = due_ns.map_or(0, |due_ns| due_ns.saturating_sub(self.now_ns()));
        if early_ns > 0 {
            self.cache.engine().pause(early_ns).await;
        }
        let begun_ns = due_ns.unwrap_or_else(|| self.now_ns());
        if request.kind == Kind::Scan {
            for step in 0..u64::from(request.keys) {
                let one = Request { key: request.key + step, ..*request };
                let begun_ns = if step == 0 { begun_ns } else { self.now_ns() };
                one.key(&mut self.buffers.key);
                self.get_or_fill(&one).await?;
                self.count(begun_ns);
            }
            return Ok(());
        }
        request.key(&mut self.buffers.key);
        match request.kind {
            Kind::Plain(operation) => match operation.effect() {
                Effect::Look => self.get_or_fill(request).await?,
                Effect::Write => self.set(request, Condition::Always).await?,
                Effect::WriteIfAbsent => self.set(request, Condition::IfAbsent).await?,
                Effect::Remove => drop(self.cache.delete(&self.buffers.key).await?),
            },
            Kind::Insert => self.set(request, Condition::Always).await?,
            Kind::ReadModifyWrite => {
                self.get_or_fill(request).await?;
                self.set(request, Condition::Always).await?;
            }
            Kind::Scan => unreachable!("done above"),
        }
        self.count(begun_ns);
        Ok(())
    }

    fn count(&self, begun_ns: u64) {
        let now_ns = self.now_ns();
        self.tally.borrow_mut().count_request(now_ns.saturating_sub(begun_ns));
    }

    async fn get_or_fill(&mut self, request: &Request) -> Result<(), CacheError> {
        let hit = self.cache.get(&self.buffers.key, &mut self.buffers.value).await?;
        self.tally.borrow_mut().count_get(hit);
        if hit {
            return Ok(());
        }
        if self.miss_penalty_ns > 0 {
            self.cache.engine().pause(self.miss_penalty_ns).await;
        }
        self.set(request, Condition::Always).await
    }

    async fn set(&mut self, request: &Request, condition: Condition) -> Result<(), CacheError> {
        let expiry = match request.ttl_s {
            0 => Expiry::Never,
            ttl_s => Expiry::InMs(u64::from(ttl_s) * 1000),
        };
        let bytes = request.value_bytes as usize;
        if bytes > self.cache.value_bytes_max() {
            // It cannot be cached; what the key had before is not its value any more.
            self.cache.delete(&self.buffers.key).await?;
            return Ok(());
        }
        if self.buffers.content.len() < bytes {
            self.buffers.content.resize(bytes, b'v');
        }
        self.cache
            .set(
                &self.buffers.key,
                &self.buffers.content[..bytes],
                &SetOptions { condition, expiry, ..SetOptions::default() },
            )
            .await?;
        Ok(())
    }
}
