//! Futures of batches and calls. All wait in the same way ([`Flying`]). They differ in what they
//! queue, and in what they take.

use super::call::{Answer, Call};
use super::endpoint::{Core, TcpEndpoint};
use super::flight::{Place, SlotId};
use super::wire::{Action, FRAME_BYTES_MAX, Kind, SEND_FROM_BYTES, WireVerb, encode_verb};
use crate::batch::{Operation, Verb};
use crate::{Address, Batch, Buffer, VerbError};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// How far a batch or a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was not posted.
    New,
    Flying(SlotId),
    /// Its outcome was taken.
    Ended,
}

/// What a verb is in a frame.
#[inline]
fn action_of(verb: &Verb) -> Action<'_> {
    match &verb.operation {
        Operation::Read { into } => Action::Read(into.len().div_ceil(8)),
        Operation::ReadWord { .. } => Action::ReadWord,
        Operation::Write { from } => Action::Write(from.words()),
        Operation::WriteWord { value } => Action::WriteWord(*value),
        Operation::CompareAndSwap { expected, desired, .. } => Action::Swap(*expected, *desired),
        Operation::FetchAndAdd { addend, .. } => Action::Add(*addend),
    }
}

/// Where its result goes. The buffer of a READ goes there, too.
#[inline]
fn place_of(verb: &mut Verb) -> Place {
    match &mut verb.operation {
        Operation::Read { into } => Place::Bytes(std::mem::take(into)),
        Operation::Write { .. } | Operation::WriteWord { .. } => Place::Nothing,
        _ => Place::Word(0),
    }
}

/// Gives the result to the verb.
#[inline]
fn take_result(verb: &mut Verb, place: Place) {
    match (&mut verb.operation, place) {
        (Operation::Read { into }, Place::Bytes(buffer)) => *into = buffer,
        (Operation::ReadWord { value }, Place::Word(word)) => *value = word,
        (Operation::CompareAndSwap { found, .. } | Operation::FetchAndAdd { found, .. }, Place::Word(word)) => {
            *found = word;
        }
        _ => {}
    }
}

/// The verbs of a batch that go to one agent, a bit each.
struct Share {
    agent: usize,
    verbs: u32,
}

type Shares = arrayvec::ArrayVec<Share, { crate::BATCH_VERBS_MAX }>;

/// Queues the verbs for one agent: one frame, or more if their bytes do not fit. The agent executes
/// frames in order. Sends what is queued once that is [`SEND_FROM_BYTES`].
fn queue_frames(core: &mut Core, slot: SlotId, verbs: &[Verb], share: Share, now_ns: u64) {
    let link = core.links[share.agent].as_mut().expect("it is prepared");
    let mut left = share.verbs;
    while left != 0 {
        let mask = first_frame(verbs, left);
        assert!(mask != 0, "a frame has room for any verb");
        left &= !mask;
        core.flights.add_frame(slot);
        link.queue(Kind::Batch, (slot, mask), now_ns, |attached, output| {
            for verb in chosen(verbs, mask) {
                let at = attached.wire_address(verb.at).unwrap_or(verb.at);
                encode_verb(&WireVerb { at, fenced: verb.fenced, action: action_of(verb) }, output);
            }
        });
    }
    if link.queued_bytes() >= SEND_FROM_BYTES {
        link.flush(&mut core.flights);
    }
}

/// The verbs whose bits are set, in order.
fn chosen(verbs: &[Verb], mut mask: u32) -> impl Iterator<Item = &Verb> {
    std::iter::from_fn(move || {
        let verb = verbs.get(mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(verb)
    })
}

/// Those of the first verbs that fit into one frame.
fn first_frame(verbs: &[Verb], mask: u32) -> u32 {
    let (mut sent, mut found, mut left) = (0, 0, mask);
    for verb in chosen(verbs, mask) {
        let action = action_of(verb);
        (sent, found) = (sent + 8 * action.sent(), found + 8 * action.found());
        if sent > FRAME_BYTES_MAX || found > FRAME_BYTES_MAX {
            break;
        }
        left &= left - 1;
    }
    mask & !left
}

impl TcpEndpoint {
    /// Queues a batch; `None` if there is no room at the moment. Nothing is queued of a batch with
    /// a verb that reaches nothing.
    fn launch(&self, batch: &mut Batch, is_unawaited: bool) -> Result<Option<SlotId>, VerbError> {
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        let mut shares = Shares::new();
        for (number, verb) in batch.verbs().iter().enumerate() {
            let agent = self.agent_of(core, verb.at, verb.len())?;
            match shares.iter_mut().find(|share| share.agent == agent) {
                Some(share) => share.verbs |= 1 << number,
                None => shares.push(Share { agent, verbs: 1 << number }),
            }
        }
        let mut prepared = None;
        for verb in batch.verbs() {
            let node = verb.at.memory_node();
            if prepared.replace(node) != Some(node) {
                self.prepare(core, verb.at)?;
            }
        }
        if !shares.iter().all(|share| core.has_room(share.agent)) {
            return Ok(None);
        }
        let slot = core.flights.begin(is_unawaited);
        let now_ns = self.clock_ns();
        for share in shares {
            queue_frames(core, slot, batch.verbs(), share, now_ns);
        }
        let places = core.flights.places(slot);
        batch.verbs_mut().iter_mut().for_each(|verb| places.push(place_of(verb)));
        self.count(batch.len(), !is_unawaited);
        Ok(Some(slot))
    }

    /// Queues a batch whose results its caller does not read. It blocks while there is no room.
    pub(super) fn post_without_waiting(&self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        loop {
            match self.launch(batch, true) {
                Ok(Some(_)) => return,
                Ok(None) => crate::Endpoint::wait(self),
                Err(error) => return self.core.borrow_mut().flights.note_unawaited(error),
            }
        }
    }
}

/// A batch or a call on its way: what its futures have in common.
struct Flying<'e> {
    endpoint: &'e TcpEndpoint,
    state: State,
}

impl<'e> Flying<'e> {
    fn new(endpoint: &'e TcpEndpoint) -> Self {
        Self { endpoint, state: State::New }
    }

    /// Its slot, once that is done: its outcome is to be taken now. `launch` queues it, at the
    /// first poll that finds room.
    fn poll(
        &mut self,
        context: &Context<'_>,
        launch: impl FnOnce(&'e TcpEndpoint) -> Result<Option<SlotId>, VerbError>,
    ) -> Poll<Result<SlotId, VerbError>> {
        match self.state {
            State::New => match launch(self.endpoint) {
                Ok(Some(slot)) => {
                    self.state = State::Flying(slot);
                    self.endpoint.core.borrow_mut().flights.wait(slot, context.waker());
                }
                Ok(None) => {
                    self.endpoint.progress();
                    self.endpoint.core.borrow_mut().flights.note(context.waker());
                }
                Err(error) => {
                    self.state = State::Ended;
                    return Poll::Ready(Err(error));
                }
            },
            State::Flying(slot) if self.endpoint.is_done(slot) => {
                self.state = State::Ended;
                return Poll::Ready(Ok(slot));
            }
            State::Flying(slot) => self.endpoint.core.borrow_mut().flights.wait(slot, context.waker()),
            State::Ended => panic!("a future that has ended is not polled"),
        }
        Poll::Pending
    }
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        if let State::Flying(slot) = self.state {
            self.endpoint.core.borrow_mut().flights.abandon(slot);
        }
    }
}

/// A batch on its way.
pub(super) struct Posting<'e, 'b> {
    flying: Flying<'e>,
    batch: &'b mut Batch,
}

impl<'e, 'b> Posting<'e, 'b> {
    pub(super) fn new(endpoint: &'e TcpEndpoint, batch: &'b mut Batch) -> Self {
        Self { flying: Flying::new(endpoint), batch }
    }
}

impl Future for Posting<'_, '_> {
    type Output = Result<(), VerbError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { flying, batch } = &mut *self;
        if batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let slot = ready!(flying.poll(context, |endpoint| endpoint.launch(batch, false)))?;
        let verbs = batch.verbs_mut();
        Poll::Ready(flying.endpoint.core.borrow_mut().flights.finish(slot, |places| {
            verbs.iter_mut().zip(places.drain(..)).for_each(|(verb, place)| take_result(verb, place));
        }))
    }
}

impl TcpEndpoint {
    /// Whether a slot's frames are answered, after a look at the links if need be.
    #[inline]
    fn is_done(&self, slot: SlotId) -> bool {
        let is_done = || self.core.borrow().flights.is_done(slot);
        is_done() || {
            self.progress();
            is_done()
        }
    }

    /// Queues a batch of one READ, and takes its buffer; nothing if there is no room at the moment.
    fn launch_read(&self, at: Address, into: &mut Buffer) -> Result<Option<SlotId>, VerbError> {
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        let agent = self.agent_of(core, at, into.len() as u64)?;
        self.prepare(core, at)?;
        if !core.has_room(agent) {
            return Ok(None);
        }
        let slot = core.flights.begin(false);
        core.flights.add_frame(slot);
        let action = Action::Read(into.words().len());
        core.flights.places(slot).push(Place::Bytes(std::mem::take(into)));
        let link = core.links[agent].as_mut().expect("it is prepared");
        link.queue(Kind::Batch, (slot, 1), self.clock_ns(), |attached, output| {
            let at = attached.wire_address(at).expect("it is attached");
            encode_verb(&WireVerb { at, fenced: false, action }, output);
        });
        self.count(1, true);
        Ok(Some(slot))
    }
}

/// A batch of one READ on its way.
pub(super) struct Reading<'a> {
    flying: Flying<'a>,
    at: Address,
    into: Buffer,
}

impl<'a> Reading<'a> {
    pub(super) fn new(endpoint: &'a TcpEndpoint, at: Address, into: Buffer) -> Self {
        Self { flying: Flying::new(endpoint), at, into }
    }
}

impl Future for Reading<'_> {
    type Output = Result<Buffer, VerbError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { flying, at, into } = &mut *self;
        let slot = ready!(flying.poll(context, |endpoint| endpoint.launch_read(*at, into)))?;
        let mut read = Buffer::new();
        let outcome = flying.endpoint.core.borrow_mut().flights.finish(slot, |places| {
            if let Some(Place::Bytes(buffer)) = places.pop() {
                read = buffer;
            }
        });
        Poll::Ready(outcome.map(|()| read))
    }
}

/// A call on its way.
pub(super) struct Calling<'a, C> {
    flying: Flying<'a>,
    at: Address,
    call: C,
}

impl<'a, C: Fn(Address) -> Call + Unpin> Calling<'a, C> {
    /// A call to the agent of an address; `call` gets the address by which that agent knows it.
    pub(super) fn new(endpoint: &'a TcpEndpoint, at: Address, call: C) -> Self {
        Self { flying: Flying::new(endpoint), at, call }
    }
}

impl<C: Fn(Address) -> Call + Unpin> Future for Calling<'_, C> {
    type Output = Result<Answer, VerbError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { flying, at, call } = &mut *self;
        let launch = |endpoint: &TcpEndpoint| {
            endpoint.prepare(&mut endpoint.core.borrow_mut(), *at)?;
            endpoint.begin_call(*at, &call(endpoint.wire_address(*at))).map(Some)
        };
        let slot = ready!(flying.poll(context, launch))?;
        Poll::Ready(flying.endpoint.core.borrow_mut().flights.finish_call(slot))
    }
}
