//! One connection of an agent: its bytes in and out.
//!
//! | memory of a connection | bytes at most |
//! |---|---|
//! | idle: this value, its session, its endpoint | a few KiB, with TLS some 40 KiB |
//! | a frame of which a part has arrived | [`FRAME_BYTES_MAX`], counted against a sum for all connections |
//! | answers that the peer does not take | [`ANSWERS_BYTES_MAX`] and one answer; the agent reads no more |
//! | answers that wait for a follower | as much again, and 1024 gates: see `held` |
//! | notices for a follower | one, beside the log of its watch |
//! | before the peer has proved itself | [`CALL_BYTES_MAX`] |
//!
//! A connection that has become a watch ([`Watch`]) answers no frames. It tells its peer what has
//! changed, and hears how far the peer has come.
//!
//! Whole frames are executed in the memory of the thread that reads them, which its connections
//! share.

use super::held::HeldBack;
use super::provide;
use super::session::Session;
use super::watch::{Gate, Watch};
use super::{Shared, Waiter};
use crate::shm::ShmRegion;
use crate::shm::lock::RegionLock;
use crate::shm::process::random_word;
use crate::tcp::call::{Answer, Call};
use crate::tcp::notice::decode_word;
use crate::tcp::secret;
use crate::tcp::tls::{Tunnel, read, write};
use crate::tcp::wire::{
    CALL_BYTES_MAX, FRAME_BYTES_MAX, HEAD_WORDS, Head, Kind, Status, decode_verbs, encode_greeting,
};
use crate::{Address, Identity, Pace, PeerState, Region, Sharing};
use mio::net::TcpStream;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Answers that wait for followers stop the connection when they have this many bytes.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How long a peer may take for its first call, for a frame, or for its answers, without any
/// progress.
const PATIENCE_MS: u64 = 10_000;
/// Notices in one turn at most.
const NOTICES_MAX: usize = 8;
/// Answers leave once they have this many bytes, if many frames are left to be executed.
const ANSWER_FROM_BYTES: usize = 32 << 10;
/// Answers leave once they have this many bytes.
const ANSWERS_BYTES_MAX: usize = 64 << 10;
/// Most compute nodes in one answer.
const NUMBERS_MAX: usize = 512;

/// Memory of a thread, for the connection that it serves at the moment.
pub(super) struct Scratch {
    /// What was read.
    input: Vec<u64>,
    /// Answers.
    output: Vec<u64>,
}

impl Scratch {
    const INPUT_WORDS: usize = 32 << 10;

    pub(super) fn new() -> Self {
        Self { input: vec![0; Self::INPUT_WORDS], output: Vec::new() }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Its peer.
    ForPeer,
    /// Its turn: there may be more to read.
    ForTurn,
    /// Nothing: it has ended.
    Ended,
}

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    tunnel: Option<Tunnel>,
    challenge: [u64; 4],
    /// From the peer's proof on.
    session: Option<Arc<Session>>,
    /// A frame of which a part has arrived: as long as the frame if that is long.
    input: Vec<u64>,
    input_bytes: usize,
    /// Whether `input` is as long as a long frame, and counts against their sum.
    is_counted: bool,
    /// Whether whole frames are left in `input`, because answers wait for the peer.
    has_frames: bool,
    /// Answers, of which `sent` bytes have been sent.
    output: Vec<u64>,
    sent: usize,
    /// Answers that wait for followers.
    held_back: HeldBack,
    /// Itself, for those that it waits for.
    waiter: Waiter,
    /// The watch that it has become, and the region.
    watching: Option<(Arc<Watch>, Arc<ShmRegion>)>,
    new_watch: Option<Arc<Watch>>,
    /// The region that it has open, and the node that it holds.
    opened: Option<u64>,
    held: Option<(u8, Option<RegionLock>)>,
    /// When it last got further.
    moved_ms: u64,
    /// The agent's clock then.
    clock: u32,
    /// Whether it ends once its answers are sent.
    is_ending: bool,
}

/// A fork of this process may have a copy of the descriptor.
impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Connection {
    pub(super) fn new(
        (stream, peer): (TcpStream, SocketAddr),
        tunnel: Option<Tunnel>,
        waiter: Waiter,
        shared: &Shared,
    ) -> Self {
        let challenge = std::array::from_fn(|_| random_word());
        let output = encode_greeting(challenge, shared.options.secret.is_some()).to_vec();
        Self {
            stream,
            peer,
            tunnel,
            challenge,
            session: None,
            input: Vec::new(),
            input_bytes: 0,
            is_counted: false,
            has_frames: false,
            output,
            sent: 0,
            held_back: HeldBack::default(),
            waiter,
            watching: None,
            new_watch: None,
            opened: None,
            held: None,
            moved_ms: shared.now_ms(),
            clock: 0,
            is_ending: false,
        }
    }

    /// Logs why the agent ends the connection.
    #[cold]
    fn tell_refusal(&self, status: Status) {
        static REFUSALS: Pace = Pace::new();
        let why = match status {
            Status::Secret => "it does not know the secret",
            Status::Fenced => "its session was shut out",
            Status::Full => "the agent has as many connections or as much in flight as it takes",
            _ => "it breaks a rule of the protocol: another version of Atoll, or another program",
        };
        if let Some(more) = REFUSALS.line() {
            tracing::warn!("the connection of {} is ended: {why}{more}", self.peer);
        }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The watch that it has just become.
    pub(super) fn take_new_watch(&mut self) -> Option<Arc<Watch>> {
        self.new_watch.take()
    }

    /// Ends everything that it was.
    pub(super) fn end(&mut self, shared: &Shared) {
        if let Some((watch, _)) = self.watching.take() {
            watch.part();
        }
        if let Some(session) = self.session.take() {
            session.end(shared);
        }
        if let Some((node, lock)) = self.held.take() {
            drop(lock);
            shared.regions().release(node);
        }
        if let Some(id) = self.opened.take() {
            shared.regions().close(id, self.peer);
        }
        self.forget_input(shared);
    }

    fn forget_input(&mut self, shared: &Shared) {
        if std::mem::take(&mut self.is_counted) {
            shared.long_bytes.fetch_sub(8 * self.input.len(), Relaxed);
        }
        (self.input, self.input_bytes) = (Vec::new(), 0);
    }

    /// Whether its peer has kept it waiting too long.
    pub(super) fn is_overdue(&self, now_ms: u64) -> bool {
        let is_sending = !self.output.is_empty() || self.tunnel.as_ref().is_some_and(Tunnel::is_sending);
        // While followers keep it waiting, its peer does not.
        let is_receiving = self.input_bytes > 0 && self.held_back.is_empty();
        let is_waiting = self.session.is_none() || is_receiving || is_sending;
        is_waiting && now_ms.saturating_sub(self.moved_ms) > PATIENCE_MS
    }

    /// Its peer has sent or taken something.
    fn note_moved(&mut self, shared: &Shared) {
        self.moved_ms = shared.now_ms();
        if let Some(session) = &self.session {
            session.heard_ms.store(self.moved_ms, Relaxed);
        }
    }

    /// Reads, executes and answers what there is.
    pub(super) fn serve(&mut self, shared: &Shared, scratch: &mut Scratch) -> Waits {
        match self.try_serve(shared, scratch) {
            Ok(waits) => waits,
            // A connection that has failed is as one that its peer has closed.
            Err(_) => Waits::Ended,
        }
    }

    fn try_serve(&mut self, shared: &Shared, scratch: &mut Scratch) -> io::Result<Waits> {
        if !self.held_back.is_empty() {
            self.moved_ms = shared.now_ms();
            self.held_back.release(&self.waiter, &mut self.output);
        }
        let sent = self.sent;
        if !self.flush()? {
            if self.sent != sent {
                // A peer that takes its answers, slowly, is not silent.
                self.note_moved(shared);
            }
            return Ok(Waits::ForPeer);
        }
        if self.is_ending && self.held_back.is_empty() {
            return Ok(Waits::Ended);
        }
        if self.is_ending || self.held_back.is_full(WAITING_BYTES_MAX) {
            return Ok(Waits::ForPeer);
        }
        let waits = self.take_turn(shared, scratch)?;
        if self.watching.is_some() && waits != Waits::Ended {
            return self.tell_follower(scratch, waits);
        }
        if !self.held_back.is_empty() {
            // It is called once they are to be released, unless they are now.
            self.held_back.release(&self.waiter, &mut self.output);
            let is_going_on = match self.is_ending {
                true => self.held_back.is_empty(),
                false => self.has_frames && !self.held_back.is_full(WAITING_BYTES_MAX),
            };
            if self.flush()? && is_going_on {
                return Ok(Waits::ForTurn);
            }
        }
        Ok(waits)
    }

    /// Tells its peer what has changed.
    fn tell_follower(&mut self, scratch: &mut Scratch, waits: Waits) -> io::Result<Waits> {
        let Some((watch, region)) = self.watching.clone() else { return Ok(waits) };
        for _ in 0..NOTICES_MAX {
            if !self.flush()? {
                return Ok(Waits::ForPeer);
            }
            if watch.is_over() {
                return Ok(Waits::Ended);
            }
            scratch.output.clear();
            let has_more = watch.tell(&region, &mut scratch.output);
            self.send(&mut scratch.output)?;
            if !has_more {
                return Ok(waits);
            }
        }
        Ok(Waits::ForTurn)
    }

    /// Reads, executes and answers what has arrived.
    fn take_turn(&mut self, shared: &Shared, scratch: &mut Scratch) -> io::Result<Waits> {
        let is_long = self.is_counted;
        let mut is_drained = false;
        if is_long {
            let into = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.input)[self.input_bytes..];
            match read(&mut self.stream, &mut self.tunnel, into)? {
                Some(0) => return Ok(Waits::Ended),
                Some(bytes) => self.input_bytes += bytes,
                None => return Ok(Waits::ForPeer),
            }
        } else {
            let words = self.input_bytes.div_ceil(8);
            scratch.input[..words].copy_from_slice(&self.input[..words]);
            if !std::mem::take(&mut self.has_frames) {
                let into = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut scratch.input)[self.input_bytes..];
                match read(&mut self.stream, &mut self.tunnel, into)? {
                    Some(0) => return Ok(Waits::Ended),
                    Some(bytes) => {
                        // TLS gives a record at a time.
                        is_drained = bytes < into.len() && self.tunnel.is_none();
                        self.input_bytes += bytes;
                    }
                    None => return Ok(Waits::ForPeer),
                }
            }
        }
        self.note_moved(shared);
        self.clock = shared.clock.agent_ms().unwrap_or(0) as u32;
        let bytes = self.input_bytes;
        scratch.output.clear();
        let ended = if is_long {
            if bytes < 8 * self.input.len() {
                return Ok(Waits::ForTurn);
            }
            let input = std::mem::take(&mut self.input);
            let consumed = self.run(shared, &input, bytes, &mut scratch.output);
            self.input = input;
            self.forget_input(shared);
            consumed.map(drop)
        } else {
            let input = std::mem::take(&mut scratch.input);
            let consumed = self.run(shared, &input, bytes, &mut scratch.output);
            let ended = consumed.and_then(|consumed| self.keep(shared, &input, consumed, bytes));
            scratch.input = input;
            ended
        };
        if let Err(status) = ended {
            self.tell_refusal(status);
            let head = Head { status, ..Head::new(Kind::End, 0, 0) };
            let at = scratch.output.len();
            scratch.output.extend(head.encode());
            self.held_back.take(&mut scratch.output, at, &mut Vec::new());
            self.is_ending = true;
        }
        self.send(&mut scratch.output)?;
        Ok(match () {
            () if self.is_ending && self.output.is_empty() && self.held_back.is_empty() => Waits::Ended,
            () if !self.output.is_empty() => Waits::ForPeer,
            () if self.is_ending || self.held_back.is_full(WAITING_BYTES_MAX) => Waits::ForPeer,
            () if is_drained && !self.has_frames => Waits::ForPeer,
            () => Waits::ForTurn,
        })
    }

    /// Keeps the part of a frame behind the first `consumed` bytes.
    fn keep(&mut self, shared: &Shared, input: &[u64], consumed: usize, bytes: usize) -> Result<(), Status> {
        let rest = &input[consumed / 8..bytes.div_ceil(8)];
        let left = bytes - consumed;
        let mut words = rest.len();
        if left >= 8 * HEAD_WORDS && !self.has_frames {
            let head = Head::decode([rest[0], rest[1]]).ok_or(Status::Malformed)?;
            if HEAD_WORDS + head.words > Scratch::INPUT_WORDS / 2 {
                words = HEAD_WORDS + head.words;
                if shared.long_bytes.fetch_add(8 * words, Relaxed) + 8 * words > shared.options.long_bytes_max {
                    shared.long_bytes.fetch_sub(8 * words, Relaxed);
                    return Err(Status::Full);
                }
                self.is_counted = true;
            }
        }
        if left == 0 {
            self.input.clear();
            self.input.shrink_to(CALL_BYTES_MAX / 8);
        } else {
            self.input.clear();
            self.input.extend_from_slice(rest);
            self.input.resize(words, 0);
        }
        self.input_bytes = left;
        Ok(())
    }

    /// Runs the whole frames of the input; gives how many bytes they have.
    fn run(&mut self, shared: &Shared, input: &[u64], bytes: usize, output: &mut Vec<u64>) -> Result<usize, Status> {
        let (words, mut start) = (bytes / 8, 0);
        // Where the frames begin whose answers are in `output`.
        let mut unsent = 0;
        let mut gates = Vec::new();
        while words - start >= HEAD_WORDS {
            let head = Head::decode([input[start], input[start + 1]]).ok_or(Status::Malformed)?;
            let is_known = self.session.is_some();
            if 8 * head.words > CALL_BYTES_MAX && (head.kind == Kind::Call || !is_known) {
                return Err(Status::Malformed);
            }
            let (first, end) = (start + HEAD_WORDS, start + HEAD_WORDS + head.words);
            if end > words {
                break;
            }
            let body = &input[first..end];
            let at = output.len();
            match (head.kind, &self.session) {
                (kind, _) if self.watching.is_some() => self.hear_follower(kind, body)?,
                (Kind::Batch, Some(session)) => {
                    execute(session, Head { clock: self.clock, ..head }, body, output, &mut gates)?;
                }
                (Kind::Call, _) => {
                    let call = Call::decode(body).ok_or(Status::Malformed)?;
                    let answer = self.answer(shared, call)?;
                    output.extend([0; HEAD_WORDS]);
                    answer.encode(output);
                    let head = Head::new(Kind::Answer, head.number, output.len() - at - HEAD_WORDS);
                    let head = Head { clock: self.clock, ..head };
                    output[at..at + HEAD_WORDS].copy_from_slice(&head.encode());
                }
                _ => return Err(Status::Malformed),
            }
            start = end;
            self.held_back.take(output, at, &mut gates);
            if self.held_back.is_full(WAITING_BYTES_MAX) {
                // The rest is executed once followers have seen what was changed.
                self.has_frames = true;
                break;
            }
            // The peer works on these answers while the rest is executed. What is little more waits
            // for that.
            let are_many_left = 2 * (words - start) >= start - unsent;
            let answer_bytes = 8 * output.len();
            if answer_bytes >= ANSWER_FROM_BYTES && are_many_left || answer_bytes >= ANSWERS_BYTES_MAX {
                unsent = start;
                // What fails now fails again behind the frames.
                let is_sent = self.send(output).is_ok() && self.output.is_empty();
                if !is_sent {
                    // The rest is executed once the peer has taken these answers.
                    self.has_frames = true;
                    break;
                }
            }
        }
        Ok(8 * start)
    }

    fn answer(&mut self, shared: &Shared, call: Call) -> Result<Answer, Status> {
        let Some(session) = self.session.clone() else {
            let Call::Hello { proof0, proof1, proof2, proof3, nonce0, nonce1, nonce2, nonce3 } = call else {
                return Err(Status::Malformed);
            };
            return self.welcome(shared, [proof0, proof1, proof2, proof3], [nonce0, nonce1, nonce2, nonce3]);
        };
        if let Call::Hello { .. } = call {
            return Err(Status::Malformed);
        }
        if let Call::Watch { session, at } = call {
            return Ok(self.begin_watch(shared, session, Address::from_bits(at)));
        }
        Ok(self.control(shared, call).unwrap_or_else(|call| session.call(shared, call)))
    }

    /// Takes what its follower says.
    fn hear_follower(&self, kind: Kind, body: &[u64]) -> Result<(), Status> {
        let Some((watch, _)) = &self.watching else { return Err(Status::Malformed) };
        match (kind, decode_word(body)) {
            (Kind::Seen, Some(count)) => watch.hear_seen(count)?,
            (Kind::Ping, Some(time)) => watch.hear_ping(time),
            (Kind::Leave, None) if body.is_empty() => watch.hear_leave(),
            _ => return Err(Status::Malformed),
        }
        Ok(())
    }

    /// Becomes the watch of a region that a session exports. The peer knows the session's number,
    /// so it is of the same client.
    fn begin_watch(&mut self, shared: &Shared, session: u64, at: Address) -> Answer {
        let session = shared.sessions().by_id.get(&session).cloned();
        let Some(session) = session else { return Answer::Absent { why: b"the session has ended".to_vec() } };
        let lease = shared.options.watch_lease;
        match session.watch(at, lease, self.waiter.clone()) {
            Ok((watch, region)) => {
                let size = region.attributes().bytes;
                self.new_watch = Some(watch.clone());
                self.watching = Some((watch, region));
                Answer::Watching { lease_ms: lease.as_millis() as u64, size }
            }
            Err(refused) => refused,
        }
    }

    fn welcome(&mut self, shared: &Shared, proof: [u64; 4], nonce: [u64; 4]) -> Result<Answer, Status> {
        let secret = shared.options.secret.as_ref();
        if !secret::is_of_client(secret, self.challenge, nonce, proof) {
            return Err(Status::Secret);
        }
        let session = shared.begin_session();
        let id = session.id;
        self.session = Some(session);
        let [proof0, proof1, proof2, proof3] = secret::of_agent(secret, self.challenge, nonce);
        let boot = crate::shm::process::boot().unwrap_or(0);
        let clock = shared.clock.agent_ms().unwrap_or(0);
        Ok(Answer::Welcome { agent: shared.agent, session: id, boot, clock, proof0, proof1, proof2, proof3 })
    }

    /// Answers a call on regions; gives other calls back.
    fn control(&mut self, shared: &Shared, call: Call) -> Result<Answer, Call> {
        let node = |node: u64| u8::try_from(node).unwrap_or(u8::MAX);
        let mut regions = shared.regions();
        let opened = match call {
            Call::Create { .. } | Call::Open { .. } | Call::OpenAlone { .. } if self.opened.is_some() => {
                return Ok(Answer::Refused { why: b"the connection has a region open".to_vec() });
            }
            Call::Hold { .. } if self.held.is_some() => {
                return Ok(Answer::Refused { why: b"the connection holds a region".to_vec() });
            }
            Call::Create { node: at, .. } | Call::Open { node: at } if at >= crate::shm::NODES_MAX as u64 => {
                return Ok(Answer::Absent { why: b"there is no such node".to_vec() });
            }
            Call::Create { node: at, size, there } => regions.create(node(at), size, there.min(size), self.peer),
            Call::Open { node: at } => regions.open(node(at), self.peer),
            Call::OpenAlone { node: at } => regions.open_alone(node(at), self.peer),
            Call::Share {} => {
                self.opened.into_iter().for_each(|id| regions.share(id));
                return Ok(Answer::Number { number: 1 });
            }
            Call::Hold { node: at, alone } => {
                let sharing = if alone == 0 { Sharing::Shared } else { Sharing::Alone };
                return Ok(match regions.hold(node(at), sharing) {
                    Ok(lock) => {
                        self.held = Some((node(at), lock));
                        Answer::Number { number: 1 }
                    }
                    Err(refused) => refused,
                });
            }
            Call::InUse {} => {
                let Some((node, _)) = self.held else { return Ok(Answer::Absent { why: Vec::new() }) };
                return Ok(regions.in_use(node));
            }
            Call::Users {} => {
                let held = self.held.as_ref().map(|(node, _)| *node);
                return Ok(match self.opened.or_else(|| held.and_then(|node| regions.id(node))) {
                    Some(id) => regions.users(id, self.peer),
                    None => Answer::Absent { why: Vec::new() },
                });
            }
            Call::ProvideAll {} => {
                self.opened.and_then(|id| regions.take_unprovided(id)).into_iter().for_each(provide::begin);
                return Ok(Answer::Number { number: 1 });
            }
            Call::Beginning { node: at } => return Ok(regions.beginning(node(at)).unwrap_or_else(|refused| refused)),
            Call::Remove { node: at } => return Ok(regions.remove(node(at)).unwrap_or_else(|refused| refused)),
            Call::RemoveRegion { node: at, region } => {
                let removed = regions.forsake(node(at), region).unwrap_or_else(|refused| refused);
                drop(regions);
                shared.end_sessions_of(region);
                return Ok(removed);
            }
            Call::Room {} => return Ok(regions.room()),
            Call::ComputeNodes { first } => {
                let nodes = self.opened.and_then(|id| regions.opened_region(id)).map(|region| region.compute_nodes());
                let nodes = nodes.unwrap_or_default();
                let shown: Vec<u16> = nodes.into_iter().filter(|node| u64::from(*node) >= first).collect();
                let next = shown.get(NUMBERS_MAX).map_or(0, |node| u64::from(*node));
                let numbers = shown.iter().take(NUMBERS_MAX).flat_map(|node| node.to_ne_bytes()).collect();
                return Ok(Answer::Numbers { next, numbers });
            }
            Call::PeerState { who } => {
                let who = Identity::from_bits(who as u32);
                let Some(id) = self.opened else { return Ok(Answer::Absent { why: Vec::new() }) };
                let region = regions.opened_region(id);
                drop(regions);
                return Ok(Answer::Number { number: peer_state(shared, id, region.as_deref(), who) });
            }
            call => return Err(call),
        };
        Ok(match opened {
            Ok((id, answer)) => {
                self.opened = Some(id);
                answer
            }
            Err(refused) => refused,
        })
    }

    /// Sends answers behind those that wait; what the peer does not take now waits, too. The
    /// answers are empty then.
    fn send(&mut self, answers: &mut Vec<u64>) -> io::Result<()> {
        if !self.output.is_empty() {
            self.output.append(answers);
            return Ok(());
        }
        let bytes = bytemuck::cast_slice::<u64, u8>(answers);
        let sent = write(&mut self.stream, &mut self.tunnel, bytes)?;
        if sent < bytes.len() {
            self.output.extend_from_slice(&answers[sent / 8..]);
            self.sent = sent % 8;
        }
        answers.clear();
        answers.shrink_to(2 * WAITING_BYTES_MAX / 8);
        Ok(())
    }

    /// Sends what waits; whether nothing waits any more.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.output.is_empty() {
            let bytes = &bytemuck::cast_slice::<u64, u8>(&self.output)[self.sent..];
            let sent = write(&mut self.stream, &mut self.tunnel, bytes)?;
            self.sent += sent;
            if self.sent < 8 * self.output.len() {
                return Ok(false);
            }
            (self.output, self.sent) = (Vec::new(), 0);
        }
        match &mut self.tunnel {
            Some(tunnel) => tunnel.flush(&mut self.stream),
            None => Ok(true),
        }
    }
}

/// Executes a batch, and appends its answer, and the gates that the answer waits for.
#[inline]
fn execute(
    session: &Session,
    head: Head,
    body: &[u64],
    output: &mut Vec<u64>,
    gates: &mut Vec<Gate>,
) -> Result<(), Status> {
    let verbs = decode_verbs(body, head.verbs).ok_or(Status::Malformed)?;
    let at = output.len();
    output.extend([0; HEAD_WORDS]);
    let status = session.execute(&verbs, output, gates);
    match status {
        Status::Good => {}
        Status::Fenced => {
            output.truncate(at);
            return Err(status);
        }
        _ => output.truncate(at + HEAD_WORDS),
    }
    let words = output.len() - at - HEAD_WORDS;
    let head = Head { status, clock: head.clock, ..Head::new(Kind::Done, head.number, words) };
    output[at..at + HEAD_WORDS].copy_from_slice(&head.encode());
    Ok(())
}

/// What is known of an endpoint of a region: the number of a `PeerState`.
fn peer_state(shared: &Shared, id: u64, region: Option<&crate::shm::ShmRegion>, who: Identity) -> u64 {
    /// A session that was silent for longer may stand still.
    const SILENT_MS: u64 = 3_000;
    let Some(region) = region else { return PeerState::NotVisible as u64 };
    if region.is_endpoint_dead(who) {
        return PeerState::Dead as u64;
    }
    let state = match shared.session_of((id, who)) {
        Some(session) if shared.now_ms().saturating_sub(session.heard_ms.load(Relaxed)) < SILENT_MS => {
            PeerState::Running
        }
        Some(_) => PeerState::NotVisible,
        None => region.peer_state(who, &region.peers()),
    };
    state as u64
}

const _: () = assert!(CALL_BYTES_MAX < 4 * Scratch::INPUT_WORDS && FRAME_BYTES_MAX > 8 * Scratch::INPUT_WORDS);
