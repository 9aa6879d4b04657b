//! A connection as every thread sees it: its addresses, when its peer last sent or took something,
//! and how it is ended.
//!
//! The connection itself belongs to its worker. Another thread sets a mark in the handle and wakes
//! the worker, which looks at the mark. So a batch costs one relaxed load and one relaxed store
//! here, and a connection that no other thread addresses costs nothing more.
//!
//! Another thread may also have bytes for the peer, such as a message of a channel. It
//! [posts](Handle::post) them, and the worker sends them as soon as the connection runs no command.

use super::counters::Shared;
use super::limits::OutputLimit;
use super::outbox::{Outbox, Posted};
use super::output::{Output, Sizes};
use super::protocol::Listener;
use super::socket::Stream;
use super::upload::Progress;
use std::fmt::Display;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::sync::mpsc::UnboundedSender;

/// What a connection holds in memory of the server's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    /// Bytes that have arrived and whose commands have not ended, and the room behind them.
    pub(crate) input_bytes: usize,
    pub(crate) input_room: usize,
    /// Bytes of small replies that are sent, and the memory that they lie in.
    pub(crate) replies_bytes: usize,
    pub(crate) replies_memory: usize,
    /// Large values that are sent, each by itself, and what other threads have posted, which counts
    /// as one; and the memory of all of them.
    pub(crate) listed: usize,
    pub(crate) listed_memory: usize,
}

/// A connection as every thread sees it.
#[derive(Debug)]
pub struct Handle {
    /// Differs for every connection since the server started; counts from 1.
    pub id: u64,
    /// The listener that it was accepted by.
    pub listener: Listener,
    /// Where the peer is: `ADDRESS:PORT`, or `PATH:0` for a Unix socket.
    pub peer: String,
    /// Where the peer has connected to, in the same form.
    pub local: String,
    /// Whether it is a Unix socket.
    pub is_unix: bool,
    /// The number of its socket in this process.
    pub descriptor: i32,
    /// When it was accepted, in milliseconds since the server started.
    pub accepted_ms: u64,
    /// When its peer last sent or took something, in milliseconds since the server started; its
    /// worker writes it.
    active_ms: AtomicU64,
    /// Bytes that have arrived and whose commands have not ended, and the room behind them.
    input_bytes: AtomicUsize,
    input_room: AtomicUsize,
    /// Bytes that the worker sends and that the peer has not taken.
    output_bytes: AtomicUsize,
    /// What the worker sends them from: the bytes of small replies, the memory that these lie in,
    /// the number of large values and the memory of these.
    replies_bytes: AtomicUsize,
    replies_memory: AtomicUsize,
    values: AtomicUsize,
    values_memory: AtomicUsize,
    /// What other threads have for the peer.
    outbox: Outbox,
    /// Whether its peer has subscribed: then its silence is no sign, and another limit holds for
    /// what it is owed.
    is_subscriber: AtomicBool,
    /// Whether its peer sees the commands of other connections: then the same is true.
    is_monitor: AtomicBool,
    /// How far a large value of its peer is that is stored while it arrives.
    pub(crate) upload: Progress,
    /// Whether it is to end. Never unset.
    is_ending: AtomicBool,
    /// Wakes the connection of the id that is sent.
    wakes: UnboundedSender<u64>,
}

impl Handle {
    /// The handle of connection `id` over `stream`, which `wakes` wakes.
    pub(super) fn new(
        (id, listener): (u64, Listener),
        stream: &Stream,
        shared: &Shared,
        wakes: UnboundedSender<u64>,
    ) -> Self {
        fn shown<T: Display, E>(address: Result<T, E>) -> String {
            address.map_or_else(|_| "?:0".to_owned(), |address| address.to_string())
        }
        let (peer, local, is_unix, descriptor) = match stream {
            Stream::Tcp(stream, _) => {
                (shown(stream.peer_addr()), shown(stream.local_addr()), false, stream.as_raw_fd())
            }
            Stream::Unix(stream) => {
                let address = stream.local_addr();
                let path = address.as_ref().ok().and_then(|address| address.as_pathname());
                let path = format!("{}:0", path.map_or_else(String::new, |path| path.display().to_string()));
                (path.clone(), path, true, stream.as_raw_fd())
            }
        };
        let now_ms = shared.uptime_ms();
        Self {
            id,
            listener,
            peer,
            local,
            is_unix,
            descriptor,
            accepted_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            input_bytes: AtomicUsize::new(0),
            input_room: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            replies_bytes: AtomicUsize::new(0),
            replies_memory: AtomicUsize::new(0),
            values: AtomicUsize::new(0),
            values_memory: AtomicUsize::new(0),
            outbox: Outbox::default(),
            is_subscriber: AtomicBool::new(false),
            is_monitor: AtomicBool::new(false),
            upload: Progress::default(),
            is_ending: AtomicBool::new(false),
            wakes,
        }
    }

    /// When its peer last sent or took something, in milliseconds since the server started: exact
    /// but for a tenth of a second.
    pub fn active_ms(&self) -> u64 {
        self.active_ms.load(Relaxed)
    }

    /// Bytes that have arrived and whose commands have not ended.
    pub fn input_bytes(&self) -> usize {
        self.input_bytes.load(Relaxed)
    }

    /// What it holds at this moment.
    pub(crate) fn holds(&self) -> Holds {
        let posted_bytes = self.outbox.bytes();
        Holds {
            input_bytes: self.input_bytes(),
            input_room: self.input_room.load(Relaxed),
            replies_bytes: self.replies_bytes.load(Relaxed),
            replies_memory: self.replies_memory.load(Relaxed),
            listed: self.values.load(Relaxed) + usize::from(posted_bytes > 0),
            listed_memory: self.values_memory.load(Relaxed) + posted_bytes,
        }
    }

    /// Bytes for the peer that it has not taken, posted ones among them.
    pub fn output_bytes(&self) -> usize {
        self.output_bytes.load(Relaxed) + self.outbox.bytes()
    }

    /// Sends bytes to the peer, behind those that were posted before. If the connection would owe
    /// more than `limit` permits, it ends. From any thread; it never waits.
    pub fn post(&self, message: &[u8], limit: OutputLimit) {
        if self.is_ending() {
            return;
        }
        match self.outbox.post(message, self.output_bytes.load(Relaxed), limit) {
            Posted::First => self.wake(),
            Posted::Behind => {}
            Posted::OverLimit => _ = self.end(),
        }
    }

    /// Moves what was posted into `output`. Its worker alone calls this.
    #[inline]
    pub fn take_posted(&self, output: &mut Output) {
        self.outbox.take(output);
    }

    /// Whether something was posted that its worker has not taken.
    #[inline]
    pub(super) fn has_posted(&self) -> bool {
        self.outbox.bytes() > 0
    }

    /// Ends the connection if it has owed more than `limit` permits for too long.
    pub(super) fn end_over(&self, limit: OutputLimit) {
        if self.has_posted() && !self.outbox.is_within(self.output_bytes.load(Relaxed), limit) {
            self.end();
        }
    }

    /// Ends the connection: a command that runs now is its last one, and its replies are not sent.
    /// Returns whether it was not to end before.
    pub fn end(&self) -> bool {
        let is_first = !self.is_ending.swap(true, Relaxed);
        if is_first {
            self.wake();
        }
        is_first
    }

    /// Whether it is to end.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Whether its peer has subscribed.
    pub fn is_subscriber(&self) -> bool {
        self.is_subscriber.load(Relaxed)
    }

    /// Says whether its peer has subscribed.
    pub fn set_subscriber(&self, is_subscriber: bool) {
        self.is_subscriber.store(is_subscriber, Relaxed);
    }

    /// Whether its peer sees the commands of other connections.
    pub fn is_monitor(&self) -> bool {
        self.is_monitor.load(Relaxed)
    }

    /// Says whether its peer sees the commands of other connections.
    pub fn set_monitor(&self, is_monitor: bool) {
        self.is_monitor.store(is_monitor, Relaxed);
    }

    /// Whether its peer listens to what other connections do.
    pub(super) fn is_listener(&self) -> bool {
        self.is_subscriber() || self.is_monitor()
    }

    /// Lets its worker look at it.
    fn wake(&self) {
        // Without a worker the connection has ended.
        let _ = self.wakes.send(self.id);
    }

    /// Its peer has sent or taken something.
    #[inline]
    pub(super) fn heard(&self, now_ms: u64) {
        self.active_ms.store(now_ms, Relaxed);
    }

    /// It has these bytes of its peer; commands that lie before `start` have ended.
    #[inline]
    pub(super) fn has_input(&self, input: &Vec<u8>, start: usize) {
        self.input_bytes.store(input.len() - start, Relaxed);
        self.input_room.store(input.capacity() - input.len(), Relaxed);
    }

    /// Its worker sends this, which may be nothing.
    #[inline]
    pub(super) fn owes(&self, output: &Output) {
        let output_bytes = output.len();
        self.output_bytes.store(output_bytes, Relaxed);
        let Sizes { replies_bytes, replies_memory, values, values_memory } = match output_bytes {
            0 => Sizes::default(),
            _ => output.sizes(),
        };
        self.replies_bytes.store(replies_bytes, Relaxed);
        self.replies_memory.store(replies_memory, Relaxed);
        self.values.store(values, Relaxed);
        self.values_memory.store(values_memory, Relaxed);
    }
}
