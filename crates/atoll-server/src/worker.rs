//! One thread with one client of the cache, and the connections that live on it.
//!
//! The client is made on its thread and never leaves it, so it need not be `Send`. Its operations
//! run one at a time: a connection locks it for a batch of commands. Over shared memory an
//! operation never waits, and so the lock is never found taken.
//!
//! To stop, the acceptor drops its end of the channel. Connections that wait for their peer are
//! woken and end; one that is being answered has [`STOP_GRACE`] to take its replies.

use crate::ahead::Ahead;
use crate::command::Client;
use crate::connection::Connection;
use crate::counters::{Counters, Shared, Tally};
use crate::resp::Output;
use crate::serve::first;
use atoll_cache::{Cache, Engine, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, Notify};

/// How long connections that are being answered may go on when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// How often what the worker counts is published.
const PUBLISH_PERIOD: Duration = Duration::from_secs(1);

/// How often a worker looks after the other clients of its pool, whether there are requests or not.
const TEND_PERIOD: Duration = Duration::from_millis(100);

/// A connection on its way to its worker.
pub(crate) enum Stream {
    /// Over TCP.
    Tcp(std::net::TcpStream),
    /// Over a Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

/// Memory for input that is not in use.
#[derive(Default)]
pub(crate) struct Buffers(RefCell<Vec<Vec<u8>>>);

impl Buffers {
    /// What a new buffer has room for.
    const BYTES: usize = 64 << 10;
    /// A buffer that has grown beyond this is not kept.
    const BYTES_KEPT: usize = 256 << 10;
    /// Buffers kept.
    const COUNT: usize = 64;

    /// An empty buffer, the one that was used last.
    #[inline]
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(Self::BYTES))
    }

    /// Takes a buffer back.
    #[inline]
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.0.borrow_mut();
        if (1..=Self::BYTES_KEPT).contains(&buffer.capacity()) && buffers.len() < Self::COUNT {
            buffer.clear();
            buffers.push(buffer);
        }
    }
}

/// Outputs that are not in use.
#[derive(Default)]
pub(crate) struct Outputs(RefCell<Vec<Output>>);

impl Outputs {
    /// Outputs kept, whatever memory they have. One that waits for its peer is not here, and seldom
    /// do many large ones come back at once.
    const COUNT: usize = 8;
    /// Outputs kept if they have little memory: as many as wait to be sent together.
    const COUNT_SMALL: usize = 64;

    /// An empty output, the one that was used last.
    #[inline]
    pub(crate) fn take(&self) -> Output {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes an output back.
    #[inline]
    pub(crate) fn give(&self, mut output: Output) {
        let mut outputs = self.0.borrow_mut();
        output.clear();
        if outputs.len() < if output.is_small() { Self::COUNT_SMALL } else { Self::COUNT } {
            outputs.push(output);
        }
    }
}

/// A connection as its worker knows it: how to wake it.
#[derive(Default)]
pub(crate) struct Resident(RefCell<Option<Waker>>);

impl Resident {
    /// The connection waits for its peer.
    #[inline]
    pub(crate) fn waits(&self, waker: &Waker) {
        let mut present = self.0.borrow_mut();
        if !present.as_ref().is_some_and(|present| present.will_wake(waker)) {
            *present = Some(waker.clone());
        }
    }
}

/// What the connections of one thread share.
pub(crate) struct Worker<G: Engine> {
    pub(crate) client: Mutex<Client<G>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) buffers: Buffers,
    pub(crate) outputs: Outputs,
    /// Bytes of the replies that wait until other connections have run their batches.
    pub(crate) replies_bytes: Cell<usize>,
    /// Whether connections are to end as soon as they wait for their peer.
    pub(crate) stopping: Cell<bool>,
    index: usize,
    residents: RefCell<HashMap<u64, Rc<Resident>>>,
    /// Told whenever a connection has ended while the worker stops.
    ended: Notify,
}

impl<G: Engine + 'static> Worker<G> {
    /// Worker `index` of the server, with the client `cache`.
    pub(crate) fn new(cache: Cache<G>, shared: Arc<Shared>, index: usize) -> Self {
        let client =
            Client { cache, value: Value::new(), tally: Tally::default(), worker: index, ahead: Ahead::default() };
        Self {
            client: Mutex::new(client),
            shared,
            buffers: Buffers::default(),
            outputs: Outputs::default(),
            replies_bytes: Cell::new(0),
            stopping: Cell::new(false),
            index,
            residents: RefCell::default(),
            ended: Notify::new(),
        }
    }

    /// Serves the connections that come through the channel until it ends, with clients that `join`
    /// makes if the pool shuts one out. Runs within a `LocalSet`.
    pub(crate) async fn run<E>(
        self: Rc<Self>,
        streams: UnboundedReceiver<(u64, Stream)>,
        join: impl Fn() -> Result<Cache<G>, E>,
    ) {
        first(self.clone().serve(streams), self.tend_regularly(join)).await;
    }

    async fn serve(self: Rc<Self>, mut streams: UnboundedReceiver<(u64, Stream)>) {
        let publishing = tokio::task::spawn_local(self.clone().publish_regularly());
        while let Some((id, stream)) = streams.recv().await {
            let resident = Rc::new(Resident::default());
            self.residents.borrow_mut().insert(id, resident.clone());
            tokio::task::spawn_local(self.clone().attend(id, stream, resident));
        }
        self.stopping.set(true);
        for resident in self.residents.borrow().values() {
            if let Some(waker) = &*resident.0.borrow() {
                waker.wake_by_ref();
            }
        }
        let all_ended = async {
            while !self.residents.borrow().is_empty() {
                self.ended.notified().await;
            }
        };
        // Who has not taken its replies by now is cut off.
        let _ = tokio::time::timeout(STOP_GRACE, all_ended).await;
        publishing.abort();
    }

    async fn attend(self: Rc<Self>, id: u64, stream: Stream, resident: Rc<Resident>) {
        // An error of the network ends the connection as its peer's leaving does.
        let _ = match stream {
            Stream::Tcp(stream) => match tokio::net::TcpStream::from_std(stream) {
                Ok(stream) => Connection::new(stream, id).serve(&self, &resident).await,
                Err(error) => Err(error),
            },
            Stream::Unix(stream) => match tokio::net::UnixStream::from_std(stream) {
                Ok(stream) => Connection::new(stream, id).serve(&self, &resident).await,
                Err(error) => Err(error),
            },
        };
        self.residents.borrow_mut().remove(&id);
        self.shared.clients.fetch_sub(1, Relaxed);
        self.ended.notify_one();
    }

    /// Never ends. A client that was shut out, or that the fabric has failed, is of no use any
    /// more; until another one has joined, commands end in its error.
    async fn tend_regularly<E>(&self, join: impl Fn() -> Result<Cache<G>, E>) {
        loop {
            tokio::time::sleep(TEND_PERIOD).await;
            let mut client = self.client.lock().await;
            if client.cache.tend().await.is_err_and(|error| error.is_shut_out()) {
                // If there is no place now, there may be one the next time.
                if let Ok(cache) = join() {
                    client.cache = cache;
                }
            }
        }
    }

    async fn publish_regularly(self: Rc<Self>) {
        let counters: &Counters = &self.shared.workers[self.index];
        loop {
            let client = self.client.lock().await;
            if let Ok(objects) = client.cache.objects().await {
                counters.publish(&client.tally, &client.cache.stats(), objects);
            }
            drop(client);
            tokio::time::sleep(PUBLISH_PERIOD).await;
        }
    }
}
