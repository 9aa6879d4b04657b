//! Messages on one host: a mailbox is a region that its receiver exports.
//!
//! ```text
//! word 0        magic "ATOLLMB" + version             data, written before the mailbox is known
//! word 1        identity of the receiver              data, the same
//! word 8        arrivals, a futex in its lower half   atomics only
//! word 9        1 while the receiver sleeps           atomics only
//! word 10       tickets of messages                   atomics only
//! word 16..80   the slots' words                      atomics only
//! word 80..     64 slots of 515 words                 owned by the sender in the slot's word,
//!                                                     or by the receiver while it says full
//!
//! a slot's word     free     0 2 | 0 62
//!                   writing  1 2 | 0 32 | identity 30
//!                   full     2 2 | 0 17 | bytes 13 | ticket 32
//! a slot            word 0   mailbox of the sender
//!                   word 1   sender's place 32 | epoch 32
//!                   word 2   0
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
//! Each transition is one compare-and-swap. So a process may be killed at any point. Its unsent
//! message is lost, and its slot becomes free once the kernel says that the process is dead. A
//! message that finds no free slot is lost. The receiver takes the oldest ticket first.
//!
//! A mailbox is named by its receiver's identity and place. So a message to an endpoint that has
//! ended never arrives at the next endpoint with that number.

use super::words::Words;
use crate::{Address, COMPUTE_NODES_MAX, Identity, MESSAGE_BYTES_MAX, Mailbox, Sender};
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ATOLLMB\x01");
pub(super) const IDENTITY_WORD: u64 = 1;
const ARRIVALS_WORD: u64 = 8;
const ASLEEP_WORD: u64 = 9;
pub(super) const TICKETS_WORD: u64 = 10;
const SLOT_WORDS_FIRST: u64 = 16;
/// Messages that wait at a mailbox of this fabric, at most.
pub(super) const SLOTS: u64 = 64;
const SLOTS_FIRST: u64 = SLOT_WORDS_FIRST + SLOTS;
pub(super) const SLOT_HEADER_WORDS: u64 = 3;
const SLOT_WORDS: u64 = SLOT_HEADER_WORDS + MESSAGE_BYTES_MAX as u64 / 8;
pub(super) const WORDS: u64 = SLOTS_FIRST + SLOTS * SLOT_WORDS;
const _: () = assert!(SLOTS <= crate::MAILBOX_MESSAGES_MAX as u64 && MESSAGE_BYTES_MAX < 1 << 13 && SLOT_WORDS == 515);

/// What a slot's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    Writing(Identity),
    Full { bytes: u32, ticket: u32 },
}

impl Slot {
    pub(super) fn word(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Writing(sender) => 1 << 62 | u64::from(sender.bits()),
            Self::Full { bytes, ticket } => 2 << 62 | u64::from(bytes) << 32 | u64::from(ticket),
        }
    }

    /// `None` for a word that no sender of this version wrote.
    pub(super) fn from_word(word: u64) -> Option<Self> {
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
pub(super) fn mailbox_of(at: Address, receiver: Identity) -> Mailbox {
    let place = u64::from(at.compute_node().unwrap_or(0)) << 6 | u64::from(at.region());
    Mailbox(u64::from(receiver.bits()) << 19 | place)
}

/// The same in parts; `None` if it can be no endpoint's.
pub(super) fn place_of(mailbox: Mailbox) -> Option<(Address, Identity)> {
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
    pub(super) at: OnceCell<Option<Address>>,
    pub(super) sender: Cell<Sender>,
    /// What `arrivals` was before the last look that found nothing.
    pub(super) seen: Cell<Option<u32>>,
    /// The ticket that the next message should have.
    pub(super) next: Cell<u32>,
    /// When the kernel was last asked about senders.
    pub(super) asked_ns: Cell<u64>,
    /// A slot's words, copied.
    pub(super) scratch: RefCell<Vec<u64>>,
}

/// The words of a mailbox that an endpoint reaches. They stay mapped until it reaches another
/// region in their place, so that no value of this type is kept.
#[derive(Clone, Copy)]
pub(super) struct Ring(pub(super) Words);

impl Ring {
    pub(super) fn slot(&self, slot: u64) -> &AtomicU64 {
        self.0.nth(SLOT_WORDS_FIRST + slot)
    }

    pub(super) fn change(&self, slot: u64, from: u64, to: Slot) -> bool {
        self.slot(slot).compare_exchange(from, to.word(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(super) fn contents(&self, slot: u64, count: usize) -> Words {
        self.0.part(SLOTS_FIRST + slot * SLOT_WORDS, count)
    }

    pub(super) fn is_of(&self, receiver: Identity) -> bool {
        let found = |word| self.0.nth(word).load(Ordering::Acquire);
        found(0) == MAGIC && found(IDENTITY_WORD) == u64::from(receiver.bits())
    }

    pub(super) fn arrivals(&self) -> &AtomicU64 {
        self.0.nth(ARRIVALS_WORD)
    }

    pub(super) fn asleep(&self) -> &AtomicU64 {
        self.0.nth(ASLEEP_WORD)
    }

    /// The slot of the oldest message, of which the next should have the ticket `next`, and its
    /// word; and whether a sender is writing. Slots with words that no sender wrote are free from
    /// then on.
    pub(super) fn oldest(&self, next: u32) -> (Option<(u64, u64)>, bool) {
        let mut oldest: Option<(u32, u64, u64)> = None;
        let mut is_writing = false;
        for slot in 0..SLOTS {
            let word = self.slot(slot).load(Ordering::Acquire);
            match Slot::from_word(word) {
                Some(Slot::Free) => {}
                Some(Slot::Writing(_)) => is_writing = true,
                Some(Slot::Full { ticket, .. }) => {
                    // A late message has a ticket before the next one.
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
