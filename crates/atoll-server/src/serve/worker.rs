//! One thread with one client of the cache, and its connections.
//!
//! The client is created on its thread and never leaves it, so it need not be `Send`. Over shared
//! memory an operation never waits, so batches of commands run one after the other. Where the
//! fabric waits, batches of different connections run at once. Each waits until its own verbs have
//! ended ([`Asking`]); the worker serves its other connections in between.
//!
//! A client that was shut out is replaced. Operations that still run on the old client return its
//! error. The old client is dropped with the last batch that uses it.
//!
//! Where the fabric waits, the client's engine is [`Lasting`](atoll_cache::Lasting): an operation
//! whose connection is dropped runs to its end.
//!
//! To stop the worker, the acceptor drops its end of the channel. Connections that wait for their
//! peer are woken and end. A connection that is being answered has [`STOP_GRACE`] to send its
//! replies. Operations that are under way then have as long to end. Then the client leaves. Other
//! clients repair what an operation had in its hands that was cut off.

use super::asking::{self, Asking, Waiters};
use super::buffers::{Buffers, Outputs, Scratches};
use super::connection::{Connection, unless_ended};
use super::counters::{Counters, Shared, Tally};
use super::handle::Handle;
use super::lives::Lives;
use super::protocol::{Client, Listener, Protocol};
use super::socket::{Socket, Stream};
use super::tasks::Tasks;
use super::watch::Watch;
use super::{apart, first};
use atoll_cache::{Cache, Engine};
use atoll_fabric::Pace;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Display;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long connections that are being answered may continue when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// How often the worker publishes its counters.
const PUBLISH_PERIOD: Duration = Duration::from_secs(1);

/// How often a worker checks the other clients of its pool, with or without requests.
pub(crate) const TEND_PERIOD: Duration = Duration::from_millis(100);

/// A connection on its way to its worker: its id, the listener that accepted it, the stream.
pub(crate) type Arrival = (u64, Listener, Stream);

/// A connection as its worker knows it, and how to wake it.
pub(super) struct Resident {
    handle: Arc<Handle>,
    waker: RefCell<Option<Waker>>,
    /// Whether it waits for its peer, and for nothing else.
    is_idle: Cell<bool>,
}

impl Resident {
    fn new(handle: Arc<Handle>) -> Self {
        Self { handle, waker: RefCell::new(None), is_idle: Cell::new(false) }
    }

    /// Whether the connection waits for its peer alone, from now on.
    #[inline]
    pub(super) fn set_idle(&self, is_idle: bool) {
        self.is_idle.set(is_idle);
    }

    /// The connection waits for its peer.
    #[inline]
    pub(super) fn waits(&self, waker: &Waker) {
        let mut present = self.waker.borrow_mut();
        if !present.as_ref().is_some_and(|present| present.will_wake(waker)) {
            *present = Some(waker.clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// The state that the connections of one thread share.
pub(crate) struct Worker<P: Protocol, G: Engine> {
    pub(super) protocol: P,
    cache: RefCell<Rc<Cache<G>>>,
    pub(super) tally: RefCell<Tally>,
    pub(super) shared: Arc<Shared>,
    pub(super) buffers: Buffers,
    pub(super) outputs: Outputs,
    pub(super) scratches: Scratches<P::Scratch>,
    /// Futures that wait for the fabric.
    pub(super) waiters: Waiters,
    /// Bytes of the replies that wait until other connections have run their batches.
    pub(super) replies_bytes: Cell<usize>,
    /// Whether connections must end as soon as they wait for their peer.
    pub(super) stopping: Cell<bool>,
    /// Milliseconds since the server started, as of the last look at the clock.
    pub(super) now_ms: Cell<u64>,
    index: usize,
    /// Wakes the connection whose id is sent, from any thread.
    wakes: UnboundedSender<u64>,
    woken: RefCell<UnboundedReceiver<u64>>,
    residents: RefCell<HashMap<u64, Rc<Resident>>>,
    /// Notified whenever a connection has ended while the worker stops.
    ended: Notify,
    /// Batches and rounds that have begun and not ended.
    under_way: Cell<u32>,
}

/// A batch or a round that is under way until this is dropped.
pub(super) struct UnderWay<'w>(&'w Cell<u32>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<P: Protocol, G: Engine + 'static> Worker<P, G> {
    /// Worker `index` of the server, with the client `cache`.
    pub(crate) fn new(protocol: P, cache: Cache<G>, shared: Arc<Shared>, index: usize) -> Self {
        let (wakes, woken) = unbounded_channel();
        Self {
            protocol,
            cache: RefCell::new(Rc::new(cache)),
            tally: RefCell::new(Tally::new(shared.commands.len())),
            now_ms: Cell::new(shared.uptime_ms()),
            shared,
            buffers: Buffers::default(),
            outputs: Outputs::default(),
            scratches: Scratches::new(),
            waiters: Waiters::default(),
            replies_bytes: Cell::new(0),
            stopping: Cell::new(false),
            index,
            wakes,
            woken: RefCell::new(woken),
            residents: RefCell::default(),
            ended: Notify::new(),
            under_way: Cell::new(0),
        }
    }

    /// The client, for a batch.
    #[inline]
    pub(super) fn cache(&self) -> Rc<Cache<G>> {
        self.cache.borrow().clone()
    }

    /// A batch or a round begins.
    #[inline]
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.under_way.set(self.under_way.get() + 1);
        UnderWay(&self.under_way)
    }

    /// A future of the cache, which is polled until it ends.
    #[inline]
    pub(super) fn asking<'a, F>(&'a self, future: std::pin::Pin<&'a mut F>) -> Asking<'a, F> {
        Asking::new(future, &self.waiters)
    }

    /// What a batch has of it.
    #[inline]
    pub(super) fn client<'a>(&'a self, cache: &'a Cache<G>) -> Client<'a, G> {
        Client { cache, tally: &self.tally, shared: &self.shared, worker: self.index, first_command: 0 }
    }

    /// Serves the connections that come through the channel until it ends, with clients that `join`
    /// makes if the pool shuts one out. Runs within a `LocalSet`.
    pub(crate) async fn run<E: Display>(
        self: Rc<Self>,
        streams: UnboundedReceiver<Arrival>,
        join: impl Fn() -> Result<Cache<G>, E>,
    ) {
        first(self.clone().serve(streams), self.tend_regularly(join)).await;
    }

    async fn serve(self: Rc<Self>, mut streams: UnboundedReceiver<Arrival>) {
        // A task that panics takes the worker with it: it may have left anything half done.
        let tasks = Tasks::default();
        tasks.spawn(self.clone().publish_regularly());
        if self.index == 0 {
            tasks.spawn(self.clone().tell_nodes_regularly());
        }
        tasks.spawn(self.clone().wake_residents());
        tasks.spawn(asking::drive(self.clone()));
        tasks.spawn(self.clone().watch_regularly());
        let attending = async {
            while let Some((id, listener, stream)) = streams.recv().await {
                let handle = Arc::new(Handle::new((id, listener), &stream, &self.shared, self.wakes.clone()));
                let resident = Rc::new(Resident::new(handle.clone()));
                self.residents.borrow_mut().insert(id, resident.clone());
                tasks.spawn(self.clone().attend(handle, stream, resident));
            }
        };
        first(attending, tasks.watch()).await;
        self.stopping.set(true);
        self.residents.borrow().values().for_each(|resident| resident.wake());
        let all_ended = async {
            while !self.residents.borrow().is_empty() {
                self.ended.notified().await;
            }
        };
        // A peer that has not taken its replies by now is cut off.
        let _ = tokio::time::timeout(STOP_GRACE, first(all_ended, tasks.watch())).await;
        let nothing_is_under_way = async {
            while self.under_way.get() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let _ = tokio::time::timeout(STOP_GRACE, first(nothing_is_under_way, tasks.watch())).await;
        drop(tasks);
        self.waiters.end();
    }

    async fn attend(self: Rc<Self>, handle: Arc<Handle>, stream: Stream, resident: Rc<Resident>) {
        // An error of the network ends the connection as its peer's leaving does.
        let id = handle.id;
        tracing::debug!("connection {id} from {} begins", handle.peer);
        match unless_ended(&handle, &resident, Socket::open(stream)).await {
            Ok(Ok(mut socket)) if !self.stopping.get() => {
                let _ = Connection::new(&self.protocol, &mut socket, handle).serve(&self, &resident).await;
                socket.say_end();
            }
            Ok(Err(error)) => tracing::debug!("connection {id} is not opened: {error}"),
            _ => {}
        }
        tracing::debug!("connection {id} has ended");
        self.residents.borrow_mut().remove(&id);
        self.shared.clients.fetch_sub(1, Relaxed);
        self.ended.notify_one();
    }

    /// Ends operations of connections that were cut off, and lets the client leave. Other clients
    /// repair what takes longer than [`STOP_GRACE`].
    pub(crate) async fn close(&self) {
        let cache = self.cache();
        let _ = tokio::time::timeout(STOP_GRACE, self.asking(pin!(cache.engine().close()))).await;
    }

    /// Never ends. A client that was shut out, or that the fabric has failed, is of no use any
    /// more; until another one has joined, commands end in its error.
    async fn tend_regularly<E: Display>(&self, join: impl Fn() -> Result<Cache<G>, E>) {
        static REJOINS: Pace = Pace::new();
        let (mut told, mut lives) = (String::new(), Lives::default());
        loop {
            tokio::time::sleep(TEND_PERIOD).await;
            self.now_ms.set(self.shared.uptime_ms());
            let _under_way = self.begin();
            let cache = self.cache();
            if self.asking(pin!(cache.tend())).await.is_err_and(|error| error.is_shut_out()) {
                tokio::time::sleep(lives.pause(Instant::now())).await;
                // Where the pool cannot be joined, that may take long to find out.
                let shared = self.shared.clone();
                let tried = apart(move || (shared.facts.try_join)()).await;
                // If there is no place now, there may be one the next time.
                match tried.and_then(|()| join().map_err(|error| error.to_string())) {
                    Ok(cache) => {
                        if let Some(more) = REJOINS.line() {
                            tracing::warn!(
                                "worker {} was shut out of the pool, and has joined it again{more}",
                                self.index
                            );
                        }
                        lives.begin(Instant::now());
                        *self.cache.borrow_mut() = Rc::new(cache);
                        told.clear();
                    }
                    Err(error) if error == told => {}
                    Err(error) => {
                        tracing::error!("the pool cannot be joined again: {error}");
                        told = error;
                    }
                }
            }
            self.asking(pin!(self.protocol.tend(self.client(&cache)))).await;
        }
    }

    /// Never ends. No client is held while there is nothing to watch for.
    async fn watch_regularly(self: Rc<Self>) {
        loop {
            self.protocol.until_watched(self.index).await;
            let cache = self.cache();
            let pause = self.asking(pin!(self.protocol.watch(self.client(&cache)))).await;
            drop(cache);
            tokio::time::sleep(pause).await;
        }
    }

    /// Wakes the connections that other threads have set a mark for. Never ends.
    async fn wake_residents(self: Rc<Self>) {
        loop {
            // The sender is this worker's own.
            let Some(id) = std::future::poll_fn(|cx| self.woken.borrow_mut().poll_recv(cx)).await else { return };
            if let Some(resident) = self.residents.borrow().get(&id) {
                resident.wake();
            }
        }
    }

    /// Ends the connections whose peers have been silent for too long or are too slow, and those
    /// that owe too much of what was posted.
    fn end_idle(&self) {
        let limits = &self.shared.limits;
        let (idle_s_max, posted_max) = (limits.idle_s_max(), limits.output(true));
        let now_ms = self.shared.uptime_ms();
        for resident in self.residents.borrow().values() {
            let handle = &resident.handle;
            handle.end_over(posted_max);
            let silent_s = now_ms.saturating_sub(handle.active_ms()) / 1000;
            let is_idle = resident.is_idle.get();
            let is_too_slow = handle.upload.is_too_slow(is_idle, silent_s);
            let is_silent = idle_s_max > 0 && silent_s > idle_s_max;
            if (is_silent || is_too_slow) && is_idle && !handle.is_listener() {
                handle.end();
            }
        }
    }

    /// The first worker logs when memory nodes end and come back. It never ends.
    async fn tell_nodes_regularly(self: Rc<Self>) {
        let mut watch = Watch::default();
        loop {
            let shared = self.shared.clone();
            watch.tell_nodes(apart(move || (shared.facts.nodes_absent)()).await);
            tokio::time::sleep(PUBLISH_PERIOD).await;
        }
    }

    async fn publish_regularly(self: Rc<Self>) {
        let counters: &Counters = &self.shared.workers[self.index];
        let mut watch = Watch::default();
        loop {
            let cache = self.cache();
            if let Ok(objects) = self.asking(pin!(cache.objects())).await {
                counters.publish(&self.tally.borrow(), &cache.stats(), objects);
            }
            watch.tell_repairs(&cache.stats());
            drop(cache);
            if self.index == 0 {
                self.shared.rates.measure(&self.shared.totals());
            }
            self.end_idle();
            tokio::time::sleep(PUBLISH_PERIOD).await;
        }
    }
}
