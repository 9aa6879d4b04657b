//! A queue in the pool without a lock: a ring array with two counters (FORGE, section 4.2, for
//! objects in place of groups).
//!
//! ```text
//! 63              36 35                                   0
//! +-----------------+--------------------------------------+
//! | lap 28          | slot + 1, or 0: empty                |     an entry: atomics only
//! +-----------------+--------------------------------------+
//! ```
//!
//! FAA on the tail or the head hands out tickets. Ticket `t` is of entry `t` modulo the entries, in
//! lap `t` divided by the entries. An enqueuer has a ticket of the tail, a dequeuer one of the
//! head.
//!
//! | client | finds | then |
//! |---|---|---|
//! | enqueuer | an empty entry of the lap | CAS to the slot, of the lap |
//! | enqueuer | any entry of an earlier lap | the same: a slot that is still queued after a whole lap is the oldest of a full ring |
//! | enqueuer | any other entry | a dequeuer was faster: another ticket, a few times |
//! | dequeuer | a slot, of the lap | CAS to empty, of the next lap |
//! | dequeuer | any entry of an earlier lap | the enqueuer is late or dead: CAS to empty, of the next lap |
//! | dequeuer | any entry of a later lap | another client has done that |
//!
//! So no client waits for another. A client that dies between a ticket and its swap costs one entry
//! its turn. An entry that names a slot is a hint: the node of the slot says of which ticket it is
//! (see `s3_fifo`).

use super::area::RingAt;
use atoll_cache::CacheError;
use atoll_cache::table::Core;
use atoll_fabric::{Batch, Endpoint};

const SLOT_BITS: u32 = 36;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const LAPS: u64 = 1 << (64 - SLOT_BITS);

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    lap: u64,
    slot: Option<u64>,
}

impl Entry {
    fn of(word: u64) -> Self {
        Self { lap: word >> SLOT_BITS, slot: (word & SLOT_MASK).checked_sub(1) }
    }

    fn word(self) -> u64 {
        (self.lap % LAPS) << SLOT_BITS | self.slot.map_or(0, |slot| slot + 1)
    }

    /// By how many laps this entry is behind `lap`; negative if it is ahead.
    fn behind(self, lap: u64) -> i64 {
        let behind = lap.wrapping_sub(self.lap) % LAPS;
        if behind < LAPS / 2 { behind as i64 } else { behind as i64 - LAPS as i64 }
    }
}

/// One ring, with this client's view of its counters.
#[derive(Debug)]
pub(super) struct Ring {
    at: RingAt,
    /// The next ticket to take, as of the last look.
    pub(super) head: u64,
    /// The next ticket to put, as of the last look.
    pub(super) tail: u64,
}

/// A ticket to put, with the words for the swap that follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    pub(super) ticket: u64,
    expected: u64,
}

impl Ring {
    pub(super) fn new(at: RingAt) -> Self {
        Self { at, head: 0, tail: 0 }
    }

    /// Entries that are queued, about.
    pub(super) fn len(&self) -> u64 {
        let len = self.tail.wrapping_sub(self.head);
        // After a dequeuer has taken a ticket of an empty ring, the head is ahead until an enqueuer
        // puts.
        if len > u64::MAX / 2 { 0 } else { len.min(self.at.entries()) }
    }

    /// Adds READs of both counters to a batch.
    pub(super) fn add_look(&self, batch: &mut Batch) -> [atoll_fabric::batch::Ticket; 2] {
        [batch.read_word(self.at.head()), batch.read_word(self.at.tail())]
    }

    /// Notes the counters that were READ.
    pub(super) fn looked(&mut self, batch: &Batch, [head, tail]: [atoll_fabric::batch::Ticket; 2]) {
        (self.head, self.tail) = (batch.word(head), batch.word(tail));
    }

    fn entry(&self, ticket: u64) -> (atoll_fabric::Address, u64) {
        (self.at.entry(ticket), ticket / self.at.entries() % LAPS)
    }

    /// A ticket to put.
    pub(super) async fn ticket<E: Endpoint>(&mut self, core: &Core<E>) -> Result<Put, CacheError> {
        let mut batch = Batch::new();
        let tail = batch.fetch_and_add(self.at.tail(), 1);
        core.client.endpoint.post(&mut batch).await?;
        let ticket = batch.word(tail);
        self.tail = ticket.wrapping_add(1);
        Ok(Put { ticket, expected: Entry { lap: self.entry(ticket).1, slot: None }.word() })
    }

    /// Adds the swap that puts a slot under a ticket to a batch.
    pub(super) fn add_put(&self, batch: &mut Batch, put: Put, slot: u64) -> atoll_fabric::batch::Ticket {
        let (at, lap) = self.entry(put.ticket);
        batch.compare_and_swap(at, put.expected, Entry { lap, slot: Some(slot) }.word())
    }

    /// The next step after a swap that found `found`: the same swap again from `found`, or another
    /// ticket (`None`).
    pub(super) fn again(&self, put: Put, found: u64) -> Option<Put> {
        let (_, lap) = self.entry(put.ticket);
        (Entry::of(found).behind(lap) > 0).then_some(Put { expected: found, ..put })
    }

    /// Takes the next ticket and the slot that is queued under it. The outer `None`: the ring is
    /// empty. The inner `None`: no slot is queued under this ticket.
    pub(super) async fn take<E: Endpoint>(&mut self, core: &Core<E>) -> Result<Option<Option<(u64, u64)>>, CacheError> {
        if self.len() == 0 {
            return Ok(None);
        }
        let mut batch = Batch::new();
        let head = batch.fetch_and_add(self.at.head(), 1);
        core.client.endpoint.post(&mut batch).await?;
        let ticket = batch.word(head);
        self.head = ticket.wrapping_add(1);
        let (at, lap) = self.entry(ticket);
        let after = Entry { lap: lap + 1, slot: None }.word();
        let mut found = atoll_pool::read_word(&core.client.endpoint, at).await?;
        for _ in 0..SWAPS_MAX {
            let entry = Entry::of(found);
            if entry.behind(lap) < 0 {
                break;
            }
            if entry.lap == lap
                && let Some(slot) = entry.slot
            {
                // The next client at this entry finds it so or makes it so.
                let mut batch = Batch::new();
                batch.compare_and_swap(at, found, after);
                core.client.endpoint.post_unawaited(&mut batch);
                return Ok(Some(Some((ticket, slot))));
            }
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(at, found, after);
            core.client.endpoint.post(&mut batch).await?;
            if batch.swapped(swap) {
                break;
            }
            found = batch.word(swap);
        }
        Ok(Some(None))
    }
}

/// Swaps of one entry before it is left as it is.
const SWAPS_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_packing_and_laps_are_compared_across_their_turn() {
        for entry in [
            Entry { lap: 0, slot: None },
            Entry { lap: LAPS - 1, slot: Some(SLOT_MASK - 1) },
            Entry { lap: 7, slot: Some(0) },
        ] {
            assert_eq!(Entry::of(entry.word()), entry);
        }
        let last = Entry { lap: LAPS - 1, slot: None };
        assert_eq!((last.behind(0), last.behind(LAPS - 1), Entry::of(0).behind(LAPS - 1)), (1, 0, -1));
    }
}
