//! How an endpoint sends and receives messages: see `mailbox`.
//!
//! **Wake-up.** The receiver notes `arrivals` and looks at all slots. If it finds no message, it
//! announces that it sleeps, and sleeps while `arrivals` is unchanged. A sender makes a slot full,
//! adds to `arrivals`, and wakes a receiver that has announced its sleep. A sender that is killed
//! in between wakes no receiver, so a receiver sleeps for at most [`SLEEP_MAX`].

use super::endpoint::ShmEndpoint;
use super::futex;
use super::mailbox::{
    IDENTITY_WORD, MAGIC, Ring, SLOT_HEADER_WORDS, SLOTS, Slot, TICKETS_WORD, WORDS, mailbox_of, place_of,
};
use crate::{
    Address, Domain, Endpoint, Identity, Kind, Lifetime, MESSAGE_BYTES_MAX, Mailbox, Message, MessageError, Messenger,
    RegionAttributes, Sender,
};
use std::future::{Future, poll_fn};
use std::sync::atomic::{Ordering, fence};
use std::task::Poll;
use std::time::Duration;

/// How long a receiver sleeps at most before it looks again.
const SLEEP_MAX: Duration = Duration::from_millis(10);
/// How long a slot is left to its sender before the kernel is asked whether that is dead.
const ASK_AGAIN_NS: u64 = 10_000_000;

impl ShmEndpoint {
    fn ring(&self, at: Address) -> Option<Ring> {
        self.words(at, 8 * WORDS).map(Ring)
    }

    /// This endpoint's mailbox, which is made now unless it is there.
    fn inbox_at(&self) -> Option<Address> {
        if self.is_fork() {
            return None;
        }
        *self.inbox.at.get_or_init(|| {
            let wanted = RegionAttributes {
                bytes: 8 * WORDS,
                kind: Kind::Host,
                domain: Domain::Cpu,
                lifetime: Lifetime::Process,
            };
            let at = self.export(wanted).ok().filter(|_| self.identity() != Identity::NOBODY)?;
            let ring = self.ring(at)?;
            ring.0.nth(IDENTITY_WORD).store(self.identity().bits().into(), Ordering::Relaxed);
            ring.0.nth(0).store(MAGIC, Ordering::SeqCst);
            Some(at)
        })
    }

    /// The mailbox of a receiver, unless that is gone.
    fn outbox(&self, to: Mailbox) -> Option<Ring> {
        let (at, receiver) = place_of(to)?;
        let reached = || self.ring(at).filter(|ring| ring.is_of(receiver));
        reached().or_else(|| {
            self.reach_exported(at).ok()?;
            reached()
        })
    }

    /// Sends; `None` if the message is lost.
    fn deliver(&self, to: Mailbox, bytes: &[u8]) -> Option<()> {
        let (me, mailbox) = (self.identity(), self.mailbox());
        // A sender that cannot prove its life would be taken for dead while it writes.
        if me == Identity::NOBODY {
            return None;
        }
        let ring = self.outbox(to)?;
        let ticket = ring.0.nth(TICKETS_WORD).fetch_add(1, Ordering::SeqCst) as u32;
        let turn = |offset: u64| (u64::from(ticket) + offset) % SLOTS;
        let is_free = |slot: &u64| ring.slot(*slot).load(Ordering::Relaxed) == Slot::Free.word();
        let mut free = (0..SLOTS).map(turn).filter(is_free);
        let slot = free.find(|slot| ring.change(*slot, Slot::Free.word(), Slot::Writing(me)))?;
        let mut words = self.inbox.scratch.borrow_mut();
        let sender = self.inbox.sender.get();
        words.clear();
        words.extend([mailbox.0, u64::from(sender.slot) << 32 | u64::from(sender.epoch), 0]);
        let (whole, rest) = bytes.as_chunks::<8>();
        words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            words.push(u64::from_ne_bytes(last));
        }
        // No word before the slot is this sender's, and none behind the word that says full.
        fence(Ordering::SeqCst);
        ring.contents(slot, words.len()).store_from(&words);
        fence(Ordering::SeqCst);
        if !ring.change(slot, Slot::Writing(me).word(), Slot::Full { bytes: bytes.len() as u32, ticket }) {
            return None;
        }
        ring.arrivals().fetch_add(1, Ordering::SeqCst);
        if ring.asleep().load(Ordering::SeqCst) != 0 {
            futex::wake(ring.arrivals());
        }
        Some(())
    }

    /// The oldest message that has arrived.
    pub(crate) fn take_message(&self) -> Option<Message> {
        let ring = self.ring(self.inbox_at()?)?;
        let arrivals = ring.arrivals().load(Ordering::SeqCst) as u32;
        // A bound, should a hostile process fill slots all the time.
        for _ in 0..SLOTS {
            let (oldest, is_writing) = ring.oldest(self.inbox.next.get());
            let Some((slot, word)) = oldest else {
                if is_writing {
                    self.reclaim(ring);
                }
                break;
            };
            let message = self.copy_message(ring, slot, word);
            let is_mine = ring.change(slot, word, Slot::Free);
            if let Some(message) = message.filter(|_| is_mine) {
                return Some(message);
            }
        }
        self.inbox.seen.set(Some(arrivals));
        None
    }

    /// Frees the slots of senders that died.
    #[cold]
    fn reclaim(&self, ring: Ring) {
        let now_ns = self.now_ns();
        if now_ns.saturating_sub(self.inbox.asked_ns.get()) < ASK_AGAIN_NS {
            return;
        }
        self.inbox.asked_ns.set(now_ns);
        for slot in 0..SLOTS {
            let word = ring.slot(slot).load(Ordering::Acquire);
            if let Some(Slot::Writing(sender)) = Slot::from_word(word)
                && self.regions[0].presence.is_dead(sender)
            {
                ring.change(slot, word, Slot::Free);
            }
        }
    }

    /// The message of a full slot.
    fn copy_message(&self, ring: Ring, slot: u64, word: u64) -> Option<Message> {
        let Some(Slot::Full { bytes, ticket }) = Slot::from_word(word) else { return None };
        let count = (SLOT_HEADER_WORDS + u64::from(bytes).div_ceil(8)) as usize;
        let mut words = self.inbox.scratch.borrow_mut();
        words.clear();
        words.resize(count, 0);
        ring.contents(slot, count).load_into(&mut words);
        fence(Ordering::SeqCst);
        self.inbox.next.set(ticket.wrapping_add(1));
        let mut body: Vec<u8> =
            words[SLOT_HEADER_WORDS as usize..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.truncate(bytes as usize);
        let sender = Sender { slot: (words[1] >> 32) as u32, epoch: words[1] as u32 };
        Some(Message { from: Mailbox(words[0]), sender, bytes: body })
    }

    /// Sleeps until a message has arrived since the last look that found none, or for a short time.
    /// `false` if no look was made.
    pub(super) fn sleep_for_message(&self) -> bool {
        let (Some(Some(at)), Some(seen)) = (self.inbox.at.get().copied(), self.inbox.seen.take()) else { return false };
        let Some(ring) = self.ring(at).filter(|_| !self.is_fork()) else { return false };
        ring.asleep().store(1, Ordering::SeqCst);
        // A sender that did not see this has added to the arrivals by now.
        if ring.arrivals().load(Ordering::SeqCst) as u32 == seen {
            futex::sleep_while(ring.arrivals(), seen, SLEEP_MAX);
        }
        ring.asleep().store(0, Ordering::SeqCst);
        true
    }
}

impl Messenger for ShmEndpoint {
    fn mailbox(&self) -> Mailbox {
        self.inbox_at().map_or(Mailbox::NOBODY, |at| mailbox_of(at, self.identity()))
    }

    fn sign(&self, sender: Sender) {
        self.inbox.sender.set(sender);
    }

    fn send(&self, to: Mailbox, bytes: &[u8]) -> Result<(), MessageError> {
        if self.is_fork() {
            return Err(MessageError::Forked);
        }
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong { bytes: bytes.len() });
        }
        // What is not delivered is lost, which every sender allows for.
        let _ = self.deliver(to, bytes);
        Ok(())
    }

    fn receive(&self) -> impl Future<Output = Message> {
        poll_fn(|_| self.take_message().map_or(Poll::Pending, Poll::Ready))
    }

    fn receive_within(&self, ns: u64) -> impl Future<Output = Option<Message>> {
        let mut end_ns = None;
        poll_fn(move |_| match self.take_message() {
            Some(message) => Poll::Ready(Some(message)),
            None if self.now_ns() >= *end_ns.get_or_insert_with(|| self.now_ns().saturating_add(ns)) => {
                Poll::Ready(None)
            }
            None => Poll::Pending,
        })
    }
}
