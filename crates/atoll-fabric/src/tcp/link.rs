//! A connection for batches: many in flight, answered in order.
//!
//! Frames collect in `output` until the endpoint flushes, or until there are [`SEND_FROM_BYTES`].
//! So what is posted together leaves in one write, or a few. What arrives is read in one call, and
//! its frames go to their slots.
//!
//! [`SEND_FROM_BYTES`]: super::wire::SEND_FROM_BYTES
//!
//! Invariant: `flying` has a frame for each that was queued and is not answered, the oldest first.

use super::call::Answer;
use super::call::Call;
use super::flight::{Flights, SlotId};
use super::tls::Tunnel;
use super::wire::{HEAD_WORDS, Head, Kind, Status};
use crate::shm::NODES_MAX;
use crate::{Address, VerbError};
use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// The longest that a thread sleeps for one link without looking at anything else.
pub(super) const SLEEP_MAX: Duration = Duration::from_millis(10);
/// How long an agent's clock is reckoned by this host's clock.
const HEARD_MAX: Duration = Duration::from_secs(10);
/// Room for what arrives; a longer frame gets as much as it has.
const INPUT_WORDS: usize = 8 << 10;
/// Memory that an output keeps once all of it is sent, and an input once all of it is taken: as
/// much as a large value has in flight. The system would have to provide returned memory anew for
/// every such value.
const WORDS_KEPT: usize = 64 << 10;

/// A frame that is not answered.
#[derive(Clone, Copy, Debug)]
struct Frame {
    slot: SlotId,
    /// Its verbs, by their numbers in the batch.
    mask: u32,
    number: u32,
    posted_ns: u64,
}

/// By which numbers an agent knows memory nodes.
#[derive(Debug)]
pub(super) struct Attached {
    /// The attachment of each memory node, plus one.
    places: [u8; NODES_MAX],
    count: u8,
}

impl Attached {
    /// The attachment of a memory node, if it has one.
    #[inline]
    pub(super) fn attachment(&self, node: u8) -> Option<u8> {
        self.places.get(usize::from(node))?.checked_sub(1)
    }

    /// The address by which the agent knows a byte of a memory node that is attached.
    #[inline]
    pub(super) fn wire_address(&self, at: Address) -> Option<Address> {
        match at.memory_node() {
            Some(node) => Some(Address::new(self.attachment(node)?, at.region(), at.offset())),
            None => Some(at),
        }
    }
}

/// Whether a call to the system may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    No,
    /// For at most [`SLEEP_MAX`].
    Yes,
}

/// One.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// With it the socket never blocks.
    tunnel: Option<Tunnel>,
    output: Vec<u64>,
    /// Bytes of it that were sent.
    sent: usize,
    input: Vec<u64>,
    /// Bytes of it that have arrived.
    filled: usize,
    next: u32,
    flying: VecDeque<Frame>,
    /// Why it is of no use any more.
    broken: Option<VerbError>,
    attached: Attached,
    /// The agent's clock in milliseconds, and when it was heard: it is no earlier now than that and
    /// the time since. `None` if the agent has no clock.
    heard: Option<(u64, Instant)>,
    /// When the last question was asked that is answered.
    answered_ns: u64,
}

impl Link {
    /// Over a connection that has proved itself, whose next frame has this number, to an agent that
    /// told this time of its clock when it was asked at that time of the endpoint's.
    pub(super) fn new(
        stream: TcpStream,
        tunnel: Option<Tunnel>,
        next: u32,
        (clock_ms, asked_ns): (u64, u64),
    ) -> io::Result<Self> {
        stream.set_read_timeout(Some(SLEEP_MAX))?;
        stream.set_nonblocking(tunnel.is_some())?;
        Ok(Self {
            stream,
            tunnel,
            output: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_WORDS],
            filled: 0,
            next,
            flying: VecDeque::new(),
            broken: None,
            attached: Attached { places: [0; NODES_MAX], count: 0 },
            heard: (clock_ms > 0).then(|| (clock_ms, Instant::now())),
            answered_ns: asked_ns,
        })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// The agent's clock in milliseconds, or a little less, if it was heard lately: by then this
    /// host's clock has not gone wrong by much.
    pub(super) fn agent_ms(&self) -> Option<u64> {
        let (ms, heard) = self.heard?;
        let since = heard.elapsed();
        (since < HEARD_MAX).then(|| ms + since.as_millis() as u64)
    }

    /// Notes the lower half of the agent's clock, which has just arrived.
    fn hear(&mut self, clock: u32) {
        let Some((ms, heard)) = &mut self.heard else { return };
        // A half lasts for weeks. A value that seems that far ahead is older: the clock never
        // goes back.
        let ahead = clock.wrapping_sub(*ms as u32);
        if ahead < 1 << 31 {
            *ms += u64::from(ahead);
            *heard = Instant::now();
        }
    }

    /// When the last question was asked that is answered.
    pub(super) fn answered_ns(&self) -> u64 {
        self.answered_ns
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    #[inline]
    pub(super) fn broken(&self) -> Option<&VerbError> {
        self.broken.as_ref()
    }

    /// Whether a frame is to be sent or answered.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Bytes that are to be sent; of those that are encrypted already, one.
    #[inline]
    pub(super) fn queued_bytes(&self) -> usize {
        self.plain_bytes() + usize::from(self.tunnel.as_ref().is_some_and(Tunnel::is_sending))
    }

    #[inline]
    fn plain_bytes(&self) -> usize {
        8 * self.output.len() - self.sent
    }

    /// Whether it is TLS, so that no call may block for what arrives.
    #[inline]
    pub(super) fn is_encrypted(&self) -> bool {
        self.tunnel.is_some()
    }

    /// The memory nodes that the agent knows.
    #[inline]
    pub(super) fn attached(&self) -> &Attached {
        &self.attached
    }

    /// The next attachment, for a memory node.
    pub(super) fn attach(&mut self, node: u8) -> u8 {
        let attachment = self.attached.count;
        self.attached.count += 1;
        self.attached.places[usize::from(node)] = attachment + 1;
        attachment
    }

    /// Queues a frame whose body `encode` appends.
    #[inline]
    pub(super) fn queue(
        &mut self,
        kind: Kind,
        (slot, mask): (SlotId, u32),
        now_ns: u64,
        encode: impl FnOnce(&Attached, &mut Vec<u64>),
    ) {
        let at = self.output.len();
        self.output.extend([0; HEAD_WORDS]);
        encode(&self.attached, &mut self.output);
        let head = Head::new(kind, self.next, self.output.len() - at - HEAD_WORDS);
        let head = Head { verbs: mask.count_ones() as u8, ..head };
        self.output[at..at + HEAD_WORDS].copy_from_slice(&head.encode());
        self.flying.push_back(Frame { slot, mask, number: self.next, posted_ns: now_ns });
        self.next = self.next.wrapping_add(1);
    }

    /// Queues a call.
    pub(super) fn queue_call(&mut self, slot: SlotId, call: &Call, now_ns: u64) {
        self.queue(Kind::Call, (slot, 0), now_ns, |_, output| call.encode(output));
    }

    /// Sends what is queued, as far as the kernel takes it now.
    pub(super) fn flush(&mut self, flights: &mut Flights) {
        while self.plain_bytes() > 0 && self.broken.is_none() {
            let bytes = &bytemuck::cast_slice::<u64, u8>(&self.output)[self.sent..];
            let sent = match &mut self.tunnel {
                Some(tunnel) => tunnel.write(&self.stream, bytes),
                None => send(&self.stream, bytes),
            };
            match sent {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.fail(flights, VerbError::OutcomeUnknown),
            }
        }
        if self.plain_bytes() == 0 {
            self.output.clear();
            self.output.shrink_to(WORDS_KEPT);
            self.sent = 0;
        }
        if let Some(tunnel) = &mut self.tunnel
            && self.broken.is_none()
            && tunnel.flush(&self.stream).is_err()
        {
            self.fail(flights, VerbError::OutcomeUnknown);
        }
    }

    /// Receives what has arrived; whether anything has.
    pub(super) fn receive(&mut self, flights: &mut Flights, blocking: Blocking) -> bool {
        if self.tunnel.is_none() {
            return self.receive_once(flights, blocking);
        }
        // What TLS has taken from the socket wakes no thread: nothing is left there.
        let mut has_received = false;
        while self.receive_once(flights, Blocking::No) {
            has_received = true;
        }
        has_received
    }

    fn receive_once(&mut self, flights: &mut Flights, blocking: Blocking) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let into = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.input)[self.filled..];
        let received = match &mut self.tunnel {
            Some(tunnel) => tunnel.read(&self.stream, into),
            None => receive(&self.stream, into, blocking),
        };
        match received {
            Ok(0) => {
                self.fail(flights, VerbError::OutcomeUnknown);
                false
            }
            Ok(bytes) => {
                self.filled += bytes;
                if self.take_frames(flights).is_none() {
                    self.fail(flights, VerbError::OutcomeUnknown);
                }
                true
            }
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) {
                    self.fail(flights, VerbError::OutcomeUnknown);
                }
                false
            }
        }
    }

    /// Gives the whole frames that have arrived to their slots. `None` if the agent broke a rule.
    fn take_frames(&mut self, flights: &mut Flights) -> Option<()> {
        let (words, mut start) = (self.filled / 8, 0);
        let mut clock = None;
        while words - start >= HEAD_WORDS {
            let head = Head::decode([self.input[start], self.input[start + 1]])?;
            let (first, end) = (start + HEAD_WORDS, start + HEAD_WORDS + head.words);
            if end > words {
                if end - start > self.input.len() {
                    self.input.resize(end - start, 0);
                }
                break;
            }
            if head.kind == Kind::End {
                let told = if head.status == Status::Fenced { VerbError::Fenced } else { VerbError::OutcomeUnknown };
                self.fail(flights, told);
                return Some(());
            }
            let frame = self.flying.pop_front().filter(|frame| frame.number == head.number)?;
            let body = &self.input[first..end];
            match (head.kind, head.status) {
                (Kind::Done, Status::Good) => flights.found(frame.slot, frame.mask, body)?,
                (Kind::Answer, Status::Good) => flights.answered(frame.slot, Answer::decode(body)?),
                (Kind::Done, status) => flights.failed(frame.slot, error_of(status)),
                _ => return None,
            }
            clock = Some(head.clock);
            self.answered_ns = frame.posted_ns;
            start = end;
        }
        clock.into_iter().for_each(|clock| self.hear(clock));
        let (from, to) = (8 * start, self.filled);
        let bytes = bytemuck::cast_slice_mut::<u64, u8>(&mut self.input);
        bytes.copy_within(from..to, 0);
        self.filled = to - from;
        if self.filled == 0 && self.input.len() > WORDS_KEPT {
            self.input = vec![0; INPUT_WORDS];
        }
        Some(())
    }

    /// Breaks it, if its oldest frame is not answered within the deadline. It is for a link that
    /// has just received nothing.
    pub(super) fn check_deadline(&mut self, flights: &mut Flights, now_ns: u64, deadline_ns: u64) {
        let is_late = |frame: &Frame| now_ns.saturating_sub(frame.posted_ns) > deadline_ns;
        if self.flying.front().is_some_and(is_late) {
            self.fail(flights, VerbError::OutcomeUnknown);
        }
    }

    /// Nothing more is sent or received. What is in flight ends in the error: of verbs that may
    /// have been sent nothing is known, unless the agent has said that it shut the client out.
    pub(super) fn fail(&mut self, flights: &mut Flights, error: VerbError) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        for frame in self.flying.drain(..) {
            flights.failed(frame.slot, error.clone());
        }
        (self.output, self.input, self.sent, self.filled) = (Vec::new(), vec![0; HEAD_WORDS], 0, 0);
        self.tunnel = None;
        let later = if error == VerbError::Fenced { error } else { VerbError::PeerDead };
        self.broken.get_or_insert(later);
    }
}

/// Sends as much as the kernel takes now.
#[inline]
fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the descriptor is open while the stream is; the call only reads the span.
    let sent = unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[inline]
fn receive(stream: &TcpStream, into: &mut [u8], blocking: Blocking) -> io::Result<usize> {
    let flags = if blocking == Blocking::Yes { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the descriptor is open while the stream is; the call writes to the span alone.
    let received = unsafe { libc::recv(stream.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

fn error_of(status: Status) -> VerbError {
    match status {
        Status::NoMemory => VerbError::no_memory(0),
        Status::Detached => VerbError::PeerDead,
        Status::Fenced => VerbError::Fenced,
        // The client has checked all addresses: the agent's region is not what the client opened.
        _ => VerbError::unreachable("a word of the memory node", 8),
    }
}
