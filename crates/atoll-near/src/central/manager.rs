//! The manager: which nodes share an object, and one request of an object after the other.

use super::ask::{object_of, send};
use super::wire::{Gathered, Head, Kind, parts};
use crate::count::Counts;
use crate::directory::{Directory, MEMBERS_MAX, Stripe};
use crate::error::NearError;
use crate::hole::Hole;
use crate::members::MemberWord;
use crate::near::Near;
use crate::node::{Layout, NodeOptions};
use crate::object::Object;
use crate::stripe::{CHANGE, INVALIDATIONS};
use crate::verbs::{add, swap};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Mailbox, Message, Messenger, VerbError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// The manager has a member's place and copies nothing.
const NODE: NodeOptions = NodeOptions { bytes: 1024, segment_bytes: 64 };
/// Most requests that are handled at once; further ones wait in the mailbox.
const HANDLED_MAX: usize = 64;
/// How long the manager waits for messages before it looks whether it goes on.
const LOOK_NS: u64 = 10_000_000;

/// The central manager of a directory whose protocol is `cmcache`.
///
/// It is a member of the directory without a near cache, and one task: it handles many requests at
/// once. A directory has one manager, for good.
pub struct Manager<E> {
    near: Near<E>,
    /// By address, the objects that are shared or that a request is for.
    objects: RefCell<BTreeMap<u64, Sharing>>,
    /// By client, its latest change.
    changes: RefCell<BTreeMap<Mailbox, Change>>,
    answers: Cell<u64>,
}

/// An object.
#[derive(Debug, Default)]
struct Sharing {
    /// A bit for each place of a node that may have a copy.
    sharers: u64,
    /// While a request is handled, those that wait; `None` otherwise.
    waiting: Option<VecDeque<Request>>,
}

/// A request with all of its bytes.
#[derive(Debug)]
struct Request {
    from: Mailbox,
    head: Head,
    /// What a write writes.
    bytes: Buffer,
}

/// The latest change of a client.
#[derive(Debug)]
struct Change {
    session: u64,
    sequence: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Not all bytes have come.
    Gathering(Gathered, Buffer),
    Handling,
    Answered(Head),
}

/// A request that is being handled.
type Handling<'m> = Pin<Box<dyn Future<Output = Result<(), NearError>> + 'm>>;

/// What the manager does with a message of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// A change that is new: begins it.
    New,
    /// A part of a change that has begun to come: takes it.
    Part,
    /// A change that is done: answers it again.
    Again,
    /// A change that is being done, or that the client no longer waits for: nothing.
    Nothing,
}

impl<E: Endpoint + Messenger> Manager<E> {
    /// Becomes the manager of a directory.
    ///
    /// # Errors
    /// [`NearError::NoDirectory`] if its protocol needs none, or if it has or had a manager; else
    /// as [`Near::join`].
    pub async fn start(endpoint: E, directory: Directory) -> Result<Self, NearError> {
        if !directory.options().protocol.has_manager() {
            return Err(NearError::NoDirectory { what: "its protocol has no manager" });
        }
        let (mailbox, at) = (endpoint.mailbox(), directory.manager_at());
        let near = Near::join(endpoint, directory, NODE).await?;
        if swap(&near.endpoint, at, 0, mailbox.0).await?.is_err() {
            near.leave().await?;
            return Err(NearError::NoDirectory { what: "it has or had another manager" });
        }
        Ok(Self { near, objects: RefCell::default(), changes: RefCell::default(), answers: Cell::new(0) })
    }

    /// Handles requests for as long as `goes_on`, which is asked several times a second.
    ///
    /// # Errors
    /// A verb's error. Then the manager has ended, and the directory is lost.
    pub async fn serve(&self, goes_on: impl Fn() -> bool) -> Result<(), NearError> {
        let endpoint = &self.near.endpoint;
        let mut handled: Vec<Handling<'_>> = Vec::new();
        let mut arriving = Box::pin(endpoint.receive());
        let mut looking = Box::pin(endpoint.pause(LOOK_NS));
        poll_fn(|context| {
            loop {
                let mut has_room = handled.len() < HANDLED_MAX;
                while has_room && let Poll::Ready(message) = arriving.as_mut().poll(context) {
                    arriving.set(endpoint.receive());
                    if let Some(request) = self.admit(&message) {
                        handled.push(Box::pin(self.handle(request)));
                    }
                    has_room = handled.len() < HANDLED_MAX;
                }
                let mut failed = None;
                handled.retain_mut(|request| match request.as_mut().poll(context) {
                    Poll::Pending => true,
                    Poll::Ready(outcome) => {
                        failed = failed.take().or(outcome.err());
                        false
                    }
                });
                if let Some(error) = failed {
                    return Poll::Ready(Err(error));
                }
                // With room again, messages that have come meanwhile wait for a look.
                if has_room || handled.len() == HANDLED_MAX {
                    break;
                }
            }
            while looking.as_mut().poll(context).is_ready() {
                if handled.is_empty() && !goes_on() {
                    return Poll::Ready(Ok(()));
                }
                looking.set(endpoint.pause(LOOK_NS));
            }
            Poll::Pending
        })
        .await
    }

    /// Switches a guard off.
    #[cfg(feature = "holes")]
    pub fn open_hole(&mut self, hole: Option<Hole>) {
        self.near.open_hole(hole);
    }

    /// What the manager has counted: the fetch-and-adds to sharers.
    pub fn counts(&self) -> Counts {
        self.near.counts()
    }

    /// The request that a message completes, if it is to be handled.
    fn admit(&self, message: &Message) -> Option<Request> {
        let (head, bytes) = Head::decode(&message.bytes)?;
        object_of(&head).filter(|_| head.place < MEMBERS_MAX)?;
        let from = message.from;
        match head.kind {
            Kind::Read => Some(Request { from, head, bytes: Buffer::new() }),
            Kind::Write | Kind::CompareAndSwap | Kind::FetchAndAdd if has_valid_range(&head) => {
                self.admit_change(from, head, bytes)
            }
            _ => None,
        }
    }

    fn admit_change(&self, from: Mailbox, head: Head, bytes: &[u8]) -> Option<Request> {
        let mut changes = self.changes.borrow_mut();
        let latest = changes
            .get(&from)
            .filter(|change| !self.near.open.lacks(Hole::ChangesOnce) || matches!(change.state, State::Gathering(..)));
        match admission(latest, &head) {
            Admission::Nothing => return None,
            Admission::Again => {
                if let Some(Change { state: State::Answered(answer), .. }) = changes.get(&from) {
                    self.answer(from, answer, &[]);
                }
                return None;
            }
            Admission::New => {
                let state = match head.kind {
                    Kind::Write => {
                        let bytes = head.operands[0] as usize;
                        State::Gathering(Gathered::none_of(bytes), Buffer::sized(bytes))
                    }
                    _ => State::Handling,
                };
                changes.insert(from, Change { session: head.session, sequence: head.sequence, state });
            }
            Admission::Part => {}
        }
        let change = changes.get_mut(&from).expect("it has begun");
        let State::Gathering(gathered, buffer) = &mut change.state else {
            return Some(Request { from, head, bytes: Buffer::new() });
        };
        gathered.add(&head, bytes, buffer.bytes_mut());
        if !gathered.is_whole() {
            return None;
        }
        let bytes = std::mem::take(buffer);
        change.state = State::Handling;
        Some(Request { from, head, bytes })
    }

    /// Handles a request, and those for the same object that come meanwhile.
    async fn handle(&self, request: Request) -> Result<(), NearError> {
        let at = request.head.at;
        let mut next = self.take_turn(request);
        while let Some(request) = next {
            if self.is_of_member(&request.head).await? {
                self.fulfil(request).await?;
            }
            next = self.end_turn(at);
        }
        Ok(())
    }

    /// The request, or nothing if another one for the object is handled: then it waits.
    fn take_turn(&self, request: Request) -> Option<Request> {
        let mut objects = self.objects.borrow_mut();
        let sharing = objects.entry(request.head.at).or_default();
        match &mut sharing.waiting {
            Some(_) if self.near.open.lacks(Hole::OneRequestAtATime) => Some(request),
            None => {
                sharing.waiting = Some(VecDeque::new());
                Some(request)
            }
            Some(waiting) => {
                waiting.push_back(request);
                None
            }
        }
    }

    /// The object's next request. An object without one, and without sharers, is forgotten.
    fn end_turn(&self, at: u64) -> Option<Request> {
        let mut objects = self.objects.borrow_mut();
        let sharing = objects.get_mut(&at)?;
        let next = sharing.waiting.as_mut()?.pop_front();
        if next.is_none() {
            sharing.waiting = None;
            if sharing.sharers == 0 {
                objects.remove(&at);
            }
        }
        next
    }

    /// Whether the request is of a node that is a member still.
    async fn is_of_member(&self, head: &Head) -> Result<bool, NearError> {
        let is_known = || self.near.view.borrow().members[head.place].bits() == head.member_or_answers;
        if !is_known() {
            self.near.refresh().await?;
        }
        Ok(is_known() && head.place != self.near.place.get())
    }

    /// Does what a request asks for, and answers it.
    async fn fulfil(&self, request: Request) -> Result<(), NearError> {
        let Request { from, head, bytes } = request;
        let object = object_of(&head).expect("it was admitted");
        let Some((stripe, _)) = self.near.stripe(&object) else { return Ok(()) };
        let answer = |kind, word| Head { kind, operands: [word, 0], ..head };
        let outcome = match head.kind {
            Kind::Read => return self.read(from, &head, &object).await,
            _ => self.change(&head, stripe, bytes).await,
        };
        let answer = match outcome {
            Ok(word) => answer(Kind::Done, word),
            Err(NearError::Silent { node }) => answer(Kind::Silent, node.into()),
            Err(NearError::Verb(VerbError::Unreachable(_))) => answer(Kind::Unreachable, 0),
            Err(error) => return Err(error),
        };
        let mut changes = self.changes.borrow_mut();
        if let Some(change) = changes.get_mut(&from)
            && (change.session, change.sequence) == (head.session, head.sequence)
        {
            change.state = State::Answered(answer);
            self.answer(from, &answer, &[]);
        }
        Ok(())
    }

    /// Makes the reader's node a sharer, and sends it the object.
    async fn read(&self, from: Mailbox, head: &Head, object: &Object) -> Result<(), NearError> {
        self.share(head.at, |sharers| sharers | 1 << head.place);
        let number = self.answers.get() + 1;
        self.answers.set(number);
        match self.near.endpoint.read(object.at(), self.near.spare(object.bytes() as usize)).await {
            Ok(buffer) => {
                for part in parts(buffer.len()) {
                    let operands = [buffer.len() as u64, part.start as u64];
                    let answer = Head { kind: Kind::Bytes, member_or_answers: number, operands, ..*head };
                    self.answer(from, &answer, &buffer.bytes()[part]);
                }
                self.near.give_back(buffer);
            }
            Err(VerbError::Unreachable(_)) => {
                let answer = Head { kind: Kind::Unreachable, operands: [0; 2], ..*head };
                self.answer(from, &answer, &[]);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Changes an object of which no copy is valid; the word of the answer.
    async fn change(&self, head: &Head, stripe: Stripe, bytes: Buffer) -> Result<u64, NearError> {
        let is_whole = head.kind == Kind::Write && bytes.len() == head.bytes as usize;
        let writer = if is_whole { 1 << head.place } else { 0 };
        let mut sharers = 0;
        self.share(head.at, |present| {
            sharers = present;
            present
        });
        let left = self.end_copies(stripe, sharers | writer, head.place).await?;
        let object = object_of(head).expect("it was admitted");
        let at = object.at().add(head.start.into());
        let mut batch = Batch::new();
        let word = match head.kind {
            Kind::Write => {
                batch.write(at, bytes);
                None
            }
            Kind::CompareAndSwap => Some(batch.compare_and_swap(at, head.operands[0], head.operands[1])),
            _ => Some(batch.fetch_and_add(at, head.operands[0])),
        };
        self.near.endpoint.post(&mut batch).await?;
        self.share(head.at, |_| writer);
        Ok(word.map_or(left, |word| batch.word(word)))
    }

    /// Changes the sharers of an object whose request is handled.
    fn share(&self, at: u64, change: impl FnOnce(u64) -> u64) {
        let mut objects = self.objects.borrow_mut();
        let sharing = objects.entry(at).or_default();
        sharing.sharers = change(sharing.sharers);
    }

    /// Ends the validity of the copies of these places; the invalidation word that this has left on
    /// the writer's node.
    async fn end_copies(&self, stripe: Stripe, places: u64, writer: usize) -> Result<u64, NearError> {
        let mut members = self.near.others();
        members.retain(|(place, _)| places >> place & 1 == 1);
        let mut left = 0;
        for members in members.chunks(BATCH_VERBS_MAX) {
            let mut batch = Batch::new();
            let added: Vec<_> =
                members.iter().map(|(_, member)| batch.fetch_and_add(word_of(*member, stripe), CHANGE)).collect();
            self.near.counting.add(|counts| counts.invalidations_sent += members.len() as u64);
            match self.near.endpoint.post(&mut batch).await {
                Ok(()) => {
                    let found = members.iter().zip(added).find(|((place, _), _)| *place == writer);
                    left = found.map_or(left, |(_, added)| batch.word(added).wrapping_add(CHANGE));
                }
                Err(error) if error.is_of_ended_export() => {
                    for (place, member) in members {
                        match add(&self.near.endpoint, word_of(*member, stripe), CHANGE).await {
                            Ok(found) if *place == writer => left = found.wrapping_add(CHANGE),
                            Ok(_) => {}
                            Err(error) => self.near.after_silence(*place, *member, error).await?,
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(left)
    }

    /// Sends an answer. One that cannot be sent is as one that is lost.
    fn answer(&self, to: Mailbox, head: &Head, bytes: &[u8]) {
        let mut message = Vec::new();
        head.encode(bytes, &mut message);
        let _ = send(&self.near.endpoint, to, &message);
    }
}

/// What the manager does with a message of a change, given the client's latest change.
fn admission(latest: Option<&Change>, head: &Head) -> Admission {
    let Some(change) = latest else { return Admission::New };
    match (head.session, head.sequence).cmp(&(change.session, change.sequence)) {
        std::cmp::Ordering::Greater => Admission::New,
        std::cmp::Ordering::Less => Admission::Nothing,
        std::cmp::Ordering::Equal => match change.state {
            State::Gathering(..) => Admission::Part,
            State::Handling => Admission::Nothing,
            State::Answered(_) => Admission::Again,
        },
    }
}

/// Whether a change is to words of its object.
fn has_valid_range(head: &Head) -> bool {
    let bytes = if head.kind == Kind::Write { head.operands[0] } else { 8 };
    let end = bytes.saturating_add(head.start.into());
    bytes > 0 && bytes.is_multiple_of(8) && head.start.is_multiple_of(8) && end <= head.bytes.into()
}

fn word_of(member: MemberWord, stripe: Stripe) -> atoll_fabric::Address {
    Layout::stripe_on(member.base(), stripe).add(INVALIDATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, follow};

    const HEAD: Head = Head {
        kind: Kind::FetchAndAdd,
        place: 0,
        session: 2,
        sequence: 2,
        member_or_answers: 0,
        at: 8,
        bytes: 16,
        start: 8,
        operands: [1, 0],
    };

    /// How far the latest change is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Done {
        Partly,
        Underway,
        Wholly,
    }

    /// The number of the latest change against that of the message, and how far it is.
    type Case = Option<((u64, u64), Done)>;

    fn is_latest(case: &Case, done: Done) -> bool {
        *case == Some(((2, 2), done))
    }

    #[test]
    fn one_row_of_the_table_matches_every_change_that_comes() {
        let rows: [Row<Case, Admission>; 5] = [
            ("later, or the first", |case| case.is_none_or(|(latest, _)| latest < (2, 2)), Admission::New),
            ("bytes are missing", |case| is_latest(case, Done::Partly), Admission::Part),
            ("being done", |case| is_latest(case, Done::Underway), Admission::Nothing),
            ("done", |case| is_latest(case, Done::Wholly), Admission::Again),
            ("earlier", |case| case.is_some_and(|(latest, _)| latest > (2, 2)), Admission::Nothing),
        ];
        let mut cases: Vec<Case> = vec![None];
        for latest in [(1, 9), (2, 1), (2, 2), (2, 3), (3, 0)] {
            cases.extend([Done::Partly, Done::Underway, Done::Wholly].map(|done| Some((latest, done))));
        }
        follow(&rows, cases, |case| {
            let latest = case.map(|((session, sequence), done)| {
                let state = match done {
                    Done::Partly => State::Gathering(Gathered::none_of(8), Buffer::sized(8)),
                    Done::Underway => State::Handling,
                    Done::Wholly => State::Answered(HEAD),
                };
                Change { session, sequence, state }
            });
            admission(latest.as_ref(), &HEAD)
        });
    }

    #[test]
    fn a_change_beyond_its_object_is_refused() {
        assert!(has_valid_range(&HEAD));
        assert!(!has_valid_range(&Head { start: 16, ..HEAD }) && !has_valid_range(&Head { start: 4, ..HEAD }));
        let write = |bytes| has_valid_range(&Head { kind: Kind::Write, operands: [bytes, 0], ..HEAD });
        assert!(write(8) && !write(0) && !write(12) && !write(16) && !write(u64::MAX));
    }
}
