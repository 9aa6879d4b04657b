//! The words of an exported region, in memory of the host, and the thread that keeps them the same
//! as the agent's.
//!
//! ```text
//! word 0  the end of the lease    1  the mark that it is over    8  the words of the region
//! ```
//!
//! | | by |
//! |---|---|
//! | words stored, leases begun | the thread ([`Keeper`]) of the process that exports the region, as the agent tells |
//! | the mark that it is over | the thread when its connection ends, or the owner when it is dropped |
//! | words loaded | every endpoint of the process, and of those processes that find the mirror |
//!
//! If the process of the thread is killed, the lease ends. The agent waits for that: to it, a
//! broken connection proves nothing. So a mirror is as good to other processes as to its own.
//!
//! A word counts if the lease and the mark are looked at after it was loaded. The lease is three
//! quarters of the agent's, from the ping on: so it has ended here before it ends there, though
//! both clocks run at different rates. The clock counts while the host sleeps. It does not while a
//! virtual machine is paused, unless its host says so.

use super::TcpOptions;
use super::call::{Answer, Call};
use super::control::Control;
use super::notice::{NOTICE_WORDS_MAX, decode_notice, decode_word, push_frame};
use super::tls::{Tunnel, read, write};
use super::wire::{HEAD_WORDS, Head, Kind};
use crate::clock::awake_or_asleep_ns;
use crate::shm::HostMemory;
use crate::{Address, FabricError};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the agent may take to tell the present words.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the agent may take to hear that the process leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest lease that an agent may give.
const LEASE_MAX: Duration = Duration::from_secs(3600);
/// Most words of a region that an agent exports.
const WORDS_MAX: u64 = 8 << 20;
const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);

/// The kind of the host's memory that mirrors are in, with the version of their words.
const KIND: &str = "mirror1";
/// The end of the lease, by the clock that counts while the host sleeps.
const TOLD_UNTIL_NS: usize = 0;
/// Set once.
const IS_OVER: usize = 1;
/// The words of the region.
const WORDS: usize = 8;

/// The words, and whether they are the agent's.
pub(super) struct Mirror {
    memory: HostMemory,
    /// Whether this process keeps it.
    is_kept: bool,
}

impl Mirror {
    /// A mirror of so many words that processes of the host can find by its name, if the host has
    /// room for it.
    fn new(name: &str, words: usize) -> Result<Self, FabricError> {
        let shared = HostMemory::of_host_anew(KIND, name, WORDS + words);
        shared
            .or_else(|_| HostMemory::of_process(WORDS + words, WORDS + words))
            .map(|memory| Self { memory, is_kept: true })
    }

    /// The mirror that a process of the host keeps under this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        let found = HostMemory::find(KIND, name).ok().flatten()?;
        Some(Self { memory: found, is_kept: false }).filter(|mirror| !mirror.is_over())
    }

    /// How many words of the region it has.
    fn words(&self) -> usize {
        self.memory.len() - WORDS
    }

    fn at(&self, number: usize) -> &AtomicU64 {
        self.memory.word(WORDS + number)
    }

    /// The word at an offset, if it is the agent's.
    #[inline]
    pub(super) fn word(&self, offset: u64) -> Option<u64> {
        let number = (offset / 8) as usize;
        if !offset.is_multiple_of(8) || number >= self.words() {
            return None;
        }
        let word = self.at(number).load(Ordering::Acquire);
        // Looked at after the load: until then every completed change was stored before.
        self.is_told().then_some(word)
    }

    /// Whether its words are the agent's.
    #[inline]
    pub(super) fn is_told(&self) -> bool {
        let until_ns = self.memory.word(TOLD_UNTIL_NS).load(Ordering::Acquire);
        self.memory.word(IS_OVER).load(Ordering::Acquire) == 0 && awake_or_asleep_ns() < until_ns
    }

    /// Whether it may be had again without a look for another one by its name: that of an earlier
    /// exporter never is.
    pub(super) fn is_present(&self) -> bool {
        !self.is_over() && (self.is_kept || self.is_told())
    }

    pub(super) fn is_over(&self) -> bool {
        self.memory.word(IS_OVER).load(Ordering::SeqCst) != 0
    }

    /// From now on it gives no word.
    fn end(&self) {
        self.memory.word(IS_OVER).store(1, Ordering::SeqCst);
    }
}

/// Keeps a mirror until it is ended.
pub(super) struct Keeping {
    mirror: Arc<Mirror>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Keeping {
    /// Begins to keep a mirror of the region that a session of the agent exports at an address,
    /// under this name. Blocks until the mirror has the present words.
    ///
    /// # Errors
    /// The agent's refusal as an [`Answer`], or [`FabricError::System`].
    pub(super) fn begin(
        agent: &str,
        options: &TcpOptions,
        session: u64,
        at: Address,
        name: &str,
    ) -> Result<Result<(Self, Arc<Mirror>), Answer>, FabricError> {
        let mut control = Control::connect(agent, options)?;
        let (lease_ms, size) = match control.ask_once(&Call::Watch { session, at: at.to_bits() })? {
            Answer::Watching { lease_ms, size } => (lease_ms, size),
            refused => return Ok(Err(refused)),
        };
        let system = |source| FabricError::System { name: format!("tcp:{agent}"), what: "follow a region", source };
        let lease = Duration::from_millis(lease_ms);
        if lease > LEASE_MAX || size / 8 > WORDS_MAX || !size.is_multiple_of(8) {
            return Err(system(strange()));
        }
        let mirror = Arc::new(Mirror::new(name, (size / 8) as usize)?);
        let (live, is_live) = sync_channel(1);
        let (keeper, waker) = Keeper::new(control, mirror.clone(), lease, live).map_err(system)?;
        let builder = std::thread::Builder::new().name("atoll-follow".to_owned());
        let thread = builder.spawn(move || keeper.run()).map_err(system)?;
        let keeping = Self { mirror: mirror.clone(), waker, thread: Some(thread) };
        match is_live.recv_timeout(BEGIN_TIMEOUT) {
            Ok(()) => Ok(Ok((keeping, mirror))),
            Err(_) => Err(system(io::Error::new(io::ErrorKind::TimedOut, "the agent does not tell its words"))),
        }
    }
}

impl Drop for Keeping {
    /// The mirror gives no word any more, and then the agent knows it, if it can be reached.
    fn drop(&mut self) {
        self.mirror.end();
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn strange() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the memory node tells strange bytes")
}

/// The thread's part.
struct Keeper {
    mirror: Arc<Mirror>,
    poll: Poll,
    stream: TcpStream,
    tunnel: Option<Tunnel>,
    lease: Duration,
    input: Vec<u64>,
    /// Bytes of it that have arrived.
    filled: usize,
    output: Vec<u64>,
    /// Bytes of it that were sent.
    sent: usize,
    /// Changes that are stored.
    seen: u64,
    /// When the last ping was queued, by the lease's clock.
    pinged_ns: u64,
    /// Told once the mirror has its first lease.
    live: Option<SyncSender<()>>,
}

impl Keeper {
    fn new(control: Control, mirror: Arc<Mirror>, lease: Duration, live: SyncSender<()>) -> io::Result<(Self, Waker)> {
        let (stream, tunnel, _) = control.into_stream();
        stream.set_nonblocking(true)?;
        let (poll, mut stream) = (Poll::new()?, TcpStream::from_std(stream));
        poll.registry().register(&mut stream, SOCKET, Interest::READABLE | Interest::WRITABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let input = vec![0; HEAD_WORDS + NOTICE_WORDS_MAX];
        let keeper = Self {
            mirror,
            poll,
            stream,
            tunnel,
            lease,
            input,
            filled: 0,
            output: Vec::new(),
            sent: 0,
            seen: 0,
            pinged_ns: 0,
            live: Some(live),
        };
        Ok((keeper, waker))
    }

    fn run(mut self) {
        let kept = self.keep();
        // The mark comes first: the agent lets writers go on when it hears that the process leaves.
        self.mirror.end();
        self.live = None;
        if kept.is_ok() {
            let _ = self.leave();
        }
    }

    /// Keeps the mirror until it is ended here, or by the agent.
    fn keep(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(8);
        let period_ns = (self.lease / 4).as_nanos() as u64;
        while !self.mirror.is_over() {
            let since_ns = awake_or_asleep_ns().saturating_sub(self.pinged_ns);
            if since_ns >= period_ns {
                self.pinged_ns = awake_or_asleep_ns();
                push_frame(&mut self.output, Kind::Ping, &[self.pinged_ns]);
            }
            // TLS may have bytes that the socket has no more.
            if self.receive()? {
                return Ok(());
            }
            self.send()?;
            let since_ns = awake_or_asleep_ns().saturating_sub(self.pinged_ns);
            self.wait(&mut events, Duration::from_nanos(period_ns.saturating_sub(since_ns)))?;
        }
        Ok(())
    }

    /// Tells the agent that the mirror gives no word any more, and waits until the agent has heard
    /// it.
    fn leave(&mut self) -> io::Result<()> {
        push_frame(&mut self.output, Kind::Leave, &[]);
        let mut events = Events::with_capacity(8);
        let begun = Instant::now();
        let mut rest = [0; 4096];
        while begun.elapsed() < LEAVE_TIMEOUT {
            self.send()?;
            while let Some(bytes) = read(&mut self.stream, &mut self.tunnel, &mut rest)? {
                if bytes == 0 {
                    return Ok(());
                }
            }
            self.wait(&mut events, LEAVE_TIMEOUT.saturating_sub(begun.elapsed()))?;
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Events, longest: Duration) -> io::Result<()> {
        match self.poll.poll(events, Some(longest)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Receives what has arrived, and answers it; whether the agent closes the watch.
    fn receive(&mut self) -> io::Result<bool> {
        let seen = self.seen;
        let mut is_closing = false;
        while !is_closing {
            let into = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.input)[self.filled..];
            match read(&mut self.stream, &mut self.tunnel, into)? {
                None => break,
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(bytes) => self.filled += bytes,
            }
            is_closing = self.take_frames()?;
        }
        if self.seen > seen {
            push_frame(&mut self.output, Kind::Seen, &[self.seen]);
        }
        Ok(is_closing)
    }

    /// Takes the whole frames that have arrived; whether the end is one of them.
    fn take_frames(&mut self) -> io::Result<bool> {
        let (words, mut start) = (self.filled / 8, 0);
        while words - start >= HEAD_WORDS {
            let head = Head::decode([self.input[start], self.input[start + 1]]).ok_or_else(strange)?;
            if head.words > NOTICE_WORDS_MAX {
                return Err(strange());
            }
            let (first, end) = (start + HEAD_WORDS, start + HEAD_WORDS + head.words);
            if end > words {
                break;
            }
            let body = &self.input[first..end];
            match head.kind {
                Kind::Notice => {
                    let store = |at: usize, word| self.mirror.at(at).store(word, Ordering::Release);
                    let told = decode_notice(body, self.mirror.words(), store).ok_or_else(strange)?;
                    self.seen = told.max(self.seen);
                }
                Kind::Pong => {
                    let pinged_ns = decode_word(body).filter(|pinged_ns| *pinged_ns <= self.pinged_ns);
                    self.begin_lease(pinged_ns.ok_or_else(strange)?);
                }
                Kind::End => return Ok(true),
                _ => return Err(strange()),
            }
            start = end;
        }
        let (from, to) = (8 * start, self.filled);
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.input).copy_within(from..to, 0);
        self.filled = to - from;
        Ok(false)
    }

    fn begin_lease(&mut self, pinged_ns: u64) {
        let until_ns = pinged_ns.saturating_add((self.lease * 3 / 4).as_nanos() as u64);
        self.mirror.memory.word(TOLD_UNTIL_NS).fetch_max(until_ns, Ordering::SeqCst);
        if let Some(live) = self.live.take() {
            let _ = live.try_send(());
        }
    }

    /// Sends what is queued, as far as the agent takes it now.
    fn send(&mut self) -> io::Result<()> {
        let bytes = &bytemuck::cast_slice::<u64, u8>(&self.output)[self.sent..];
        self.sent += write(&mut self.stream, &mut self.tunnel, bytes)?;
        if self.sent == 8 * self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        Ok(())
    }
}
