//! Messages on one host: a mailbox is a region that its receiver exports.
//!
//! ```text
//! word 0        magic "ATOLLMB" + version             data, written before the mailbox is told of
//! word 1        identity of the receiver              data, the same
//! word 8        arrivals, a futex in its lower half   atomics only
//! word 9        1 while the receiver sleeps           atomics only
//! word 10       tickets of messages                   atomics only
//! word 16..80   the slots' words                      atomics only
//! word 80..     64 slots of 515 words                 owned by the sender that the slot's word names, or
//!                                                     by the receiver while the word says full
//!
//! a slot's word     free 0 2 | 0 62        writing 1 2 | 0 32 | identity 30        full 2 2 | 0 17 | bytes 13 | ticket 32
//! a slot            word 0  mailbox of the sender    word 1  sender's place 32 | epoch 32    word 2  0
//!                   word 3..515  the bytes
//! ```
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | free | writing | a sender | it sends |
//! | writing | full | the same sender | all words are written |
//! | full | free | the receiver | it has copied the message |
//! | writing | free | the receiver | the sender is dead |
//! | any other word | free | the receiver | no sender of this version wrote it |
//!
//! Each transition is one compare-and-swap. So a process may be killed at any point: what it was
//! sending is lost, and its slot comes back once the kernel says that it is dead. A message that
//! finds no free slot is lost. The receiver takes the oldest ticket first.
//!
//! **Wake-up.** The receiver notes `arrivals` and looks at all slots. If no message is there it
//! says that it sleeps, and sleeps while `arrivals` is what it was. A sender makes a slot full,
//! adds to `arrivals`, and wakes the receiver if that says that it sleeps. A sender that is killed
//! in between wakes no receiver, so that a receiver sleeps for at most [`SLEEP_MAX`].
//!
//! A mailbox is named by its receiver's identity beside its place, so that what is sent to one that
//! is gone never arrives at the next endpoint with that number.

use super::endpoint::ShmEndpoint;
use super::futex;
use super::words::Words;
use crate::{
    Address, COMPUTE_NODES_MAX, Domain, Endpoint, Identity, Kind, Lifetime, MESSAGE_BYTES_MAX, Mailbox, Message,
    MessageError, Messenger, RegionAttributes, Sender,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::Poll;
use std::time::Duration;

const MAGIC: u64 = u64::from_le_bytes(*b"ATOLLMB\x01");
const IDENTITY_WORD: u64 = 1;
const ARRIVALS_WORD: u64 = 8;
const ASLEEP_WORD: u64 = 9;
const TICKETS_WORD: u64 = 10;
const SLOT_WORDS_FIRST: u64 = 16;
/// Messages that wait at a mailbox of this fabric, at most.
const SLOTS: u64 = 64;
const SLOTS_FIRST: u64 = SLOT_WORDS_FIRST + SLOTS;
const SLOT_HEADER_WORDS: u64 = 3;
const SLOT_WORDS: u64 = SLOT_HEADER_WORDS + MESSAGE_BYTES_MAX as u64 / 8;
const WORDS: u64 = SLOTS_FIRST + SLOTS * SLOT_WORDS;
const _: () = assert!(SLOTS <= crate::MAILBOX_MESSAGES_MAX as u64 && MESSAGE_BYTES_MAX < 1 << 13 && SLOT_WORDS == 515);

/// How long a receiver sleeps at most before it looks again.
const SLEEP_MAX: Duration = Duration::from_millis(10);
/// How long a slot is left to its sender before the kernel is asked whether that is dead.
const ASK_AGAIN_NS: u64 = 10_000_000;

/// What a slot's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Writing(Identity),
    Full { bytes: u32, ticket: u32 },
}

impl Slot {
    fn word(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Writing(sender) => 1 << 62 | u64::from(sender.bits()),
            Self::Full { bytes, ticket } => 2 << 62 | u64::from(bytes) << 32 | u64::from(ticket),
        }
    }

    /// `None` for a word that no sender of this version wrote.
    fn from_word(word: u64) -> Option<Self> {
        let slot = match word >> 62 {
            0 => Self::Free,
            1 => Self::Writing(Identity::from_bits(word as u32)),
            2 => Self::Full { bytes: (word >> 32) as u32 & 0x1fff, ticket: word as u32 },
            _ => return None,
        };
        let is_short = !matches!(slot, Self::Full { bytes, .. } if bytes as usize > MESSAGE_BYTES_MAX);
        (slot.word() == word && is_short).then_some(slot)
    }
}

/// A mailbox's place and its receiver's identity: identity 30 | place 19.
fn mailbox_of(at: Address, receiver: Identity) -> Mailbox {
    let place = u64::from(at.compute_node().unwrap_or(0)) << 6 | u64::from(at.region());
    Mailbox(u64::from(receiver.bits()) << 19 | place)
}

/// The same in parts; `None` if it can be no endpoint's.
fn place_of(mailbox: Mailbox) -> Option<(Address, Identity)> {
    let (place, identity) = (mailbox.0 & ((1 << 19) - 1), mailbox.0 >> 19);
    let receiver = Identity::from_bits(identity as u32);
    let is_one = identity >> Identity::BITS == 0 && receiver != Identity::NOBODY;
    let (node, region) = ((place >> 6) as u16, (place & 63) as u8);
    (is_one && node < COMPUTE_NODES_MAX).then(|| (Address::on_compute(node, region, 0), receiver))
}

/// What an endpoint knows of its own mailbox.
#[derive(Default)]
pub(super) struct Inbox {
    /// `None` if it could not be made.
    at: OnceCell<Option<Address>>,
    sender: Cell<Sender>,
    /// What `arrivals` was before the last look that found nothing.
    seen: Cell<Option<u32>>,
    /// The ticket that the next message should have.
    next: Cell<u32>,
    /// When the kernel was last asked about senders.
    asked_ns: Cell<u64>,
    /// A slot's words, copied.
    scratch: RefCell<Vec<u64>>,
}

/// The words of a mailbox that an endpoint reaches. They stay mapped until it is told to reach
/// another region in their place, so that no value of this type is kept.
#[derive(Clone, Copy)]
struct Ring(Words);

impl Ring {
    fn slot(&self, slot: u64) -> &AtomicU64 {
        self.0.nth(SLOT_WORDS_FIRST + slot)
    }

    fn change(&self, slot: u64, from: u64, to: Slot) -> bool {
        self.slot(slot).compare_exchange(from, to.word(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn contents(&self, slot: u64, count: usize) -> Words {
        self.0.part(SLOTS_FIRST + slot * SLOT_WORDS, count)
    }

    fn is_of(&self, receiver: Identity) -> bool {
        let found = |word| self.0.nth(word).load(Ordering::Acquire);
        found(0) == MAGIC && found(IDENTITY_WORD) == u64::from(receiver.bits())
    }

    fn arrivals(&self) -> &AtomicU64 {
        self.0.nth(ARRIVALS_WORD)
    }

    fn asleep(&self) -> &AtomicU64 {
        self.0.nth(ASLEEP_WORD)
    }

    /// The slot of the oldest message, of which the next should have the ticket `next`, and its
    /// word; and whether a sender is writing. Slots with words that no sender wrote are free from
    /// then on.
    fn oldest(&self, next: u32) -> (Option<(u64, u64)>, bool) {
        let mut oldest: Option<(u32, u64, u64)> = None;
        let mut is_writing = false;
        for slot in 0..SLOTS {
            let word = self.slot(slot).load(Ordering::Acquire);
            match Slot::from_word(word) {
                Some(Slot::Free) => {}
                Some(Slot::Writing(_)) => is_writing = true,
                Some(Slot::Full { ticket, .. }) => {
                    // One that comes late has a ticket before the next one.
                    let age = ticket.wrapping_sub(next).wrapping_add(1 << 31);
                    if oldest.is_none_or(|(least, ..)| age < least) {
                        oldest = Some((age, slot, word));
                    }
                }
                None => drop(self.change(slot, word, Slot::Free)),
            }
        }
        (oldest.map(|(_, slot, word)| (slot, word)), is_writing)
    }
}

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
    fn take_message(&self) -> Option<Message> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_slot_is_what_it_was_made_of_and_others_are_none() {
        let slots = [
            Slot::Free,
            Slot::Writing(Identity::from_bits(u32::MAX)),
            Slot::Full { bytes: MESSAGE_BYTES_MAX as u32, ticket: u32::MAX },
            Slot::Full { bytes: 0, ticket: 0 },
        ];
        for slot in slots {
            assert_eq!(Slot::from_word(slot.word()), Some(slot));
        }
        for word in [1, 3 << 62, 2 << 62 | 1 << 50, 1 << 62 | 1 << 31, 2 << 62 | 4097 << 32] {
            assert_eq!(Slot::from_word(word), None, "{word:x}");
        }
    }

    #[test]
    fn a_mailbox_names_its_place_and_its_receiver() {
        let at = Address::on_compute(COMPUTE_NODES_MAX - 1, 63, 0);
        let who = Identity::from_bits(u32::MAX);
        assert_eq!(place_of(mailbox_of(at, who)), Some((at, who)));
        assert_eq!((place_of(Mailbox::NOBODY), place_of(Mailbox(u64::MAX))), (None, None));
    }
}
