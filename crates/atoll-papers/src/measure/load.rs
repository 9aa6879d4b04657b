//! Clients that keep a number of equal batches outstanding, over any fabric, and count what ends.

use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_lab::latency::Latencies;
use atoll_sim::network::traffic::VerbKind;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

/// Bytes of the region that verbs touch.
pub(crate) const REGION_BYTES: u64 = 1 << 24;

/// Where verbs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// All to the first bytes of the region.
    One,
    /// Each to a place drawn at random.
    Random,
}

/// What clients post.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The verbs of every batch.
    pub(crate) batch: Vec<VerbKind>,
    /// Bytes of a READ or WRITE.
    pub(crate) bytes: u64,
    /// Where they go.
    pub(crate) words: Words,
    /// Clients, each a thread with an endpoint.
    pub(crate) clients: u16,
    /// Batches that each client has outstanding.
    pub(crate) outstanding: u16,
}

impl Load {
    /// One client with one verb outstanding.
    pub(crate) fn one(verb: VerbKind, bytes: u64) -> Self {
        Self { batch: vec![verb], bytes, words: Words::Random, clients: 1, outstanding: 1 }
    }
}

/// How long a client posts, by its endpoint's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Nanoseconds in which nothing counts.
    pub(crate) warm_up_ns: u64,
    /// Nanoseconds in which every batch that ends counts.
    pub(crate) counted_ns: u64,
}

/// What ended within the window.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Batches.
    pub(crate) batches: u64,
    /// From the post of each to its result.
    pub(crate) latencies: Latencies,
    /// Nanoseconds of the window.
    pub(crate) ns: u64,
}

impl Done {
    /// Adds what another client did in a window of the same length.
    pub(crate) fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.latencies.add(&other.latencies);
        self.ns = other.ns;
    }

    /// Nanoseconds from one batch to the next, of all clients together.
    pub(crate) fn batch_ns(&self) -> f64 {
        self.ns as f64 / self.batches.max(1) as f64
    }

    /// The median latency in nanoseconds.
    pub(crate) fn median_ns(&self) -> f64 {
        self.latencies.quantile(0.5) as f64
    }
}

/// Something that runs loads: a fabric, or a simulated network.
pub(crate) trait Network {
    /// Runs all clients of a load.
    ///
    /// # Errors
    /// If a verb fails.
    fn run(&mut self, load: &Load) -> Result<Done, atoll_lab::LabError>;
}

/// One client of a load, from its first post until the window has ended and nothing is outstanding.
///
/// # Errors
/// The first error of a verb.
pub(crate) async fn post<E: Endpoint>(endpoint: &E, load: &Load, window: Window) -> Result<Done, VerbError> {
    let begun_ns = endpoint.now_ns();
    let counted = begun_ns + window.warm_up_ns..begun_ns + window.warm_up_ns + window.counted_ns;
    let done = RefCell::new(Done { ns: window.counted_ns, ..Done::default() });
    let lane = async || {
        let (mut batch, mut buffers) = (Batch::new(), Vec::new());
        loop {
            let posted_ns = endpoint.now_ns();
            if posted_ns >= counted.end {
                return Ok::<(), VerbError>(());
            }
            fill(&mut batch, load, endpoint, &mut buffers);
            endpoint.post(&mut batch).await?;
            take(&mut batch, load, &mut buffers);
            let ended_ns = endpoint.now_ns();
            if counted.contains(&ended_ns) {
                let mut done = done.borrow_mut();
                done.batches += 1;
                done.latencies.record(ended_ns - posted_ns);
            }
        }
    };
    let mut lanes: Vec<_> = (0..load.outstanding).map(|_| Box::pin(lane())).collect();
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
    outcome.map(|()| done.into_inner())
}

fn fill<E: Endpoint>(batch: &mut Batch, load: &Load, endpoint: &E, buffers: &mut Vec<Buffer>) {
    batch.clear();
    for verb in &load.batch {
        let places = (REGION_BYTES - load.bytes) / 8 + 1;
        let place = if load.words == Words::One { 0 } else { endpoint.random() % places };
        let at = Address::new(0, 0, place * 8);
        let mut buffer = || {
            let mut buffer = buffers.pop().unwrap_or_default();
            buffer.resize(load.bytes as usize);
            buffer
        };
        match verb {
            VerbKind::Read => batch.read(at, buffer()),
            VerbKind::Write => batch.write(at, buffer()),
            VerbKind::CompareAndSwap => batch.compare_and_swap(at, 0, 0),
            VerbKind::FetchAndAdd => batch.fetch_and_add(at, 1),
        };
    }
}

fn take(batch: &mut Batch, load: &Load, buffers: &mut Vec<Buffer>) {
    for (index, verb) in load.batch.iter().enumerate() {
        if matches!(verb, VerbKind::Read | VerbKind::Write) {
            buffers.push(batch.take_nth(index));
        }
    }
}
