//! The client's side: a request in flight, until it is answered.

use super::wire::{Gathered, Head, Kind, parts};
use crate::directory::Stripe;
use crate::error::NearError;
use crate::near::Near;
use crate::object::Object;
use crate::profit::Access;
use crate::read::Miss;
use crate::records::{HEADER_BYTES, Sample};
use crate::stripe::Validity;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Mailbox, MessageError, Messenger, VerbError};
use std::ops::Range;

/// How long a client waits for an answer.
const PATIENCE_NS: u64 = 20_000_000_000;
/// The first and the longest pause before a request is sent again. The pause doubles each time.
/// Both are longer than a busy manager's queue.
const RESEND_NS: u64 = 20_000_000;
const RESEND_NS_MAX: u64 = 320_000_000;

/// What a client remembers of its requests. One operation of the client asks at a time.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// The manager, once the client has looked for it.
    manager: Option<Mailbox>,
    session: u64,
    sequence: u64,
    outgoing: Vec<u8>,
}

impl<E: Endpoint + Messenger> Near<E> {
    /// Whether reads without a copy, and changes, are the manager's.
    pub(crate) fn has_manager(&self) -> bool {
        self.directory.options().protocol.has_manager()
    }

    /// Reads an object of which the node has no copy, and makes one.
    pub(crate) async fn read_from_manager(
        &self,
        miss: &Miss,
        mut buffer: Buffer,
        begun: Option<u64>,
    ) -> Result<Buffer, NearError> {
        let copying = miss.copying.as_ref().expect("an object that is cached");
        buffer.narrow(HEADER_BYTES, miss.object.bytes() as usize);
        self.ask_manager((Kind::Read, &miss.object, 0), [0; 2], &[], buffer.bytes_mut()).await?;
        self.keep(miss, copying, buffer, begun).await
    }

    /// Writes a part of an object, and keeps a copy if it is the whole object.
    pub(crate) async fn write_by_manager(
        &self,
        object: &Object,
        part: Range<u32>,
        (stripe, hash): (Stripe, u64),
        from: Buffer,
    ) -> Result<Buffer, NearError> {
        let begun = self.begun();
        let (line, losses, _) = self.read_line(stripe).await?;
        let bucket = if part == object.whole() { Some(self.read_bucket(hash).await?) } else { None };
        let asked = (Kind::Write, object, part.start);
        let invalidations = self.ask_manager(asked, [from.len() as u64, 0], from.bytes(), &mut []).await?;
        if let Some(bucket) = bucket {
            let mut copy = self.spare(HEADER_BYTES + from.len());
            copy.bytes_mut()[HEADER_BYTES..].copy_from_slice(from.bytes());
            let sample = Sample { validity: Validity { invalidations, ..line.validity }, losses };
            let copy = self.publish(object, hash, &bucket, sample, copy).await?;
            self.give_back(copy);
        }
        self.timed(Access::WriteInvalidating, begun);
        self.counting.add(|counts| counts.writes_invalidating += 1);
        Ok(from)
    }

    /// Swaps a word of an object, if it is as expected; the word before.
    pub(crate) async fn swap_by_manager(
        &self,
        object: &Object,
        offset: u32,
        operands: [u64; 2],
    ) -> Result<u64, NearError> {
        self.ask_manager((Kind::CompareAndSwap, object, offset), operands, &[], &mut []).await
    }

    /// Adds to a word of an object; the word before.
    pub(crate) async fn add_by_manager(&self, object: &Object, offset: u32, addend: u64) -> Result<u64, NearError> {
        self.ask_manager((Kind::FetchAndAdd, object, offset), [addend, 0], &[], &mut []).await
    }

    /// Sends a request until it is answered; the word of the answer. `into` gets the bytes of a
    /// read.
    async fn ask_manager(
        &self,
        (kind, object, start): (Kind, &Object, u32),
        operands: [u64; 2],
        bytes: &[u8],
        into: &mut [u8],
    ) -> Result<u64, NearError> {
        let mut asking = self.asking.lent().await;
        let manager = self.reach_manager(&mut asking).await?;
        asking.sequence += 1;
        let place = self.place.get();
        let head = Head {
            kind,
            place,
            session: asking.session,
            sequence: asking.sequence,
            member_or_answers: self.view.borrow().members[place].bits(),
            at: object.at().to_bits(),
            bytes: object.bytes(),
            start,
            operands,
        };
        let mut answer = Answer { head, gathered: None };
        let (begun_ns, mut wait_ns) = (self.endpoint.now_ns(), RESEND_NS);
        while self.endpoint.now_ns().saturating_sub(begun_ns) < PATIENCE_NS {
            // The manager answers no client of a region that has ended.
            self.look_at_own_region().await?;
            self.send_request(manager, &head, bytes, &mut asking.outgoing)?;
            let sent_ns = self.endpoint.now_ns();
            while let Some(left_ns) = wait_ns.checked_sub(self.endpoint.now_ns().saturating_sub(sent_ns)) {
                let Some(message) = self.endpoint.receive_within(left_ns).await else { break };
                let Some((found, bytes)) = Head::decode(&message.bytes).filter(|_| message.from == manager) else {
                    continue;
                };
                match answer.hear(&found, bytes, into) {
                    None => {}
                    Some(Kind::Silent) => return Err(NearError::Silent { node: found.operands[0] as u16 }),
                    Some(Kind::Unreachable) => {
                        return Err(VerbError::unreachable(object.at(), object.bytes().into()).into());
                    }
                    Some(_) => return Ok(found.operands[0]),
                }
            }
            wait_ns = (2 * wait_ns).min(RESEND_NS_MAX);
        }
        asking.manager = None;
        Err(NearError::NoManager)
    }

    fn send_request(
        &self,
        manager: Mailbox,
        head: &Head,
        bytes: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(), NearError> {
        if bytes.is_empty() {
            head.encode(&[], outgoing);
            return send(&self.endpoint, manager, outgoing);
        }
        for part in parts(bytes.len()) {
            let head = Head { operands: [head.operands[0], part.start as u64], ..*head };
            head.encode(&bytes[part], outgoing);
            send(&self.endpoint, manager, outgoing)?;
        }
        Ok(())
    }

    /// The manager. The client's first request begins its session.
    async fn reach_manager(&self, asking: &mut Asking) -> Result<Mailbox, NearError> {
        if let Some(manager) = asking.manager {
            return Ok(manager);
        }
        let mut batch = Batch::new();
        let session = batch.fetch_and_add(self.directory.sessions_at(), 1);
        let manager = batch.read_word(self.directory.manager_at());
        self.endpoint.post(&mut batch).await?;
        let manager = Mailbox(batch.word(manager));
        if manager == Mailbox::NOBODY {
            return Err(NearError::NoManager);
        }
        (asking.session, asking.sequence, asking.manager) = (batch.word(session) + 1, 0, Some(manager));
        Ok(manager)
    }
}

/// Sends a message, without waiting.
pub(super) fn send<E: Messenger>(endpoint: &E, to: Mailbox, message: &[u8]) -> Result<(), NearError> {
    match endpoint.send(to, message) {
        Ok(()) => Ok(()),
        Err(MessageError::Fenced) => Err(VerbError::Fenced.into()),
        Err(MessageError::Forked) => Err(VerbError::Forked.into()),
        Err(error @ MessageError::TooLong { .. }) => unreachable!("{error}"),
    }
}

/// An answer that comes.
struct Answer {
    /// The request.
    head: Head,
    /// Of the latest answer with bytes its number, and which bytes have come. Two answers to one
    /// read may have different bytes.
    gathered: Option<(u64, Gathered)>,
}

impl Answer {
    /// Takes a message; the kind of the answer, once it is there.
    fn hear(&mut self, found: &Head, bytes: &[u8], into: &mut [u8]) -> Option<Kind> {
        if (found.session, found.sequence) != (self.head.session, self.head.sequence) {
            return None;
        }
        let is_read = self.head.kind == Kind::Read;
        match found.kind {
            Kind::Silent | Kind::Unreachable => Some(found.kind),
            Kind::Done => (!is_read).then_some(Kind::Done),
            Kind::Bytes if is_read => {
                let (number, gathered) = match &mut self.gathered {
                    Some((number, gathered)) if *number >= found.member_or_answers => (*number, gathered),
                    later => {
                        let fresh = later.insert((found.member_or_answers, Gathered::none_of(into.len())));
                        (fresh.0, &mut fresh.1)
                    }
                };
                if number == found.member_or_answers {
                    gathered.add(found, bytes, into);
                }
                gathered.is_whole().then_some(Kind::Bytes)
            }
            Kind::Bytes | Kind::Read | Kind::Write | Kind::CompareAndSwap | Kind::FetchAndAdd => None,
        }
    }
}

/// The object that a request names, if there can be one.
pub(super) fn object_of(head: &Head) -> Option<Object> {
    let (at, bytes) = (Address::from_bits(head.at), head.bytes);
    let is_object = at.memory_node().is_some()
        && at.offset().is_multiple_of(8)
        && bytes.is_multiple_of(8)
        && (1..=super::OBJECT_BYTES_MAX).contains(&bytes);
    is_object.then(|| Object::new(at, bytes))
}
