//! Verbs posted at once (one doorbell), and their results.
//!
//! A batch is a plain value on the caller's stack. Adding a verb returns a [`Ticket`]; after the
//! post, the ticket reads the verb's result. [`Endpoint`](crate::Endpoint) defines the order of the
//! verbs in one batch.

use crate::{Address, Buffer};
use smallvec::SmallVec;

/// The most verbs that one batch holds. A caller with more verbs posts several batches.
pub const BATCH_VERBS_MAX: usize = 32;
/// As many verbs as the batches of one key have. A longer batch has its verbs on the heap, so that
/// every future that holds a batch stays small.
const INLINE_VERBS: usize = 8;

/// One verb. `found` and `value` hold the result once the batch has been posted and awaited.
#[derive(Debug)]
pub enum Operation {
    /// Copies `into.len()` bytes, a multiple of 8, from `at` into the buffer.
    Read {
        /// The destination; lent to the fabric while the verb is in flight.
        into: Buffer,
    },
    /// Reads one word, inline.
    ReadWord {
        /// The word, when done.
        value: u64,
    },
    /// Copies the buffer's words to `at`.
    Write {
        /// The source, in whole words; lent to the fabric while the verb is in flight.
        from: Buffer,
    },
    /// Writes one word, inline.
    WriteWord {
        /// The word to write.
        value: u64,
    },
    /// Replaces the word at `at` with `desired` if it is `expected`.
    CompareAndSwap {
        /// The value that the word must have.
        expected: u64,
        /// The new value of the word.
        desired: u64,
        /// The previous value, when done. It equals `expected` exactly if the swap happened.
        found: u64,
    },
    /// Adds to the word at `at`, wrapping.
    FetchAndAdd {
        /// The addend.
        addend: u64,
        /// The previous value, when done.
        found: u64,
    },
}

/// A verb with its address and its fence flag.
#[derive(Debug)]
pub struct Verb {
    /// The first byte touched; a multiple of 8.
    pub at: Address,
    /// Whether the verb waits for all earlier verbs of its batch (a round trip, counted as one).
    pub fenced: bool,
    /// The verb.
    pub operation: Operation,
}

impl Verb {
    /// Bytes that the verb touches in its region.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.operation {
            Operation::Read { into } => into.len() as u64,
            Operation::Write { from } => from.len() as u64,
            _ => 8,
        }
    }

    /// Whether the verb touches no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The result of one verb of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u8);

/// Verbs posted together.
#[derive(Debug, Default)]
pub struct Batch {
    verbs: SmallVec<[Verb; INLINE_VERBS]>,
}

impl Batch {
    /// An empty batch.
    #[inline]
    pub fn new() -> Self {
        Self { verbs: SmallVec::new() }
    }

    #[inline]
    fn push(&mut self, at: Address, operation: Operation) -> Ticket {
        let ticket = Ticket(self.verbs.len() as u8);
        assert!(!self.is_full(), "a batch has at most {BATCH_VERBS_MAX} verbs");
        self.verbs.push(Verb { at, fenced: false, operation });
        ticket
    }

    /// READs `into.len()` bytes at `at` into a lent buffer; [`Batch::take`] returns the buffer.
    #[inline]
    pub fn read(&mut self, at: Address, into: Buffer) -> Ticket {
        self.push(at, Operation::Read { into })
    }

    /// READs one word; the result is [`Batch::word`].
    #[inline]
    pub fn read_word(&mut self, at: Address) -> Ticket {
        self.push(at, Operation::ReadWord { value: 0 })
    }

    /// WRITEs a lent buffer, rounded up to whole words, at `at`; [`Batch::take`] returns the
    /// buffer.
    #[inline]
    pub fn write(&mut self, at: Address, from: Buffer) -> Ticket {
        self.push(at, Operation::Write { from })
    }

    /// WRITEs one word.
    #[inline]
    pub fn write_word(&mut self, at: Address, value: u64) -> Ticket {
        self.push(at, Operation::WriteWord { value })
    }

    /// Compare-and-swap. The result is [`Batch::swapped`]; the word that it found is
    /// [`Batch::word`].
    #[inline]
    pub fn compare_and_swap(&mut self, at: Address, expected: u64, desired: u64) -> Ticket {
        self.push(at, Operation::CompareAndSwap { expected, desired, found: !expected })
    }

    /// Fetch-and-add, wrapping; the word that was found is [`Batch::word`].
    #[inline]
    pub fn fetch_and_add(&mut self, at: Address, addend: u64) -> Ticket {
        self.push(at, Operation::FetchAndAdd { addend, found: 0 })
    }

    /// Makes the last verb wait for all verbs before it.
    #[inline]
    pub fn fence(&mut self) {
        if let Some(verb) = self.verbs.last_mut() {
            verb.fenced = true;
        }
    }

    /// Whether the compare-and-swap of `ticket` took place.
    #[inline]
    pub fn swapped(&self, ticket: Ticket) -> bool {
        matches!(self.verbs[ticket.0 as usize].operation,
            Operation::CompareAndSwap { expected, found, .. } if expected == found)
    }

    /// The word that the verb of `ticket` found: of a word READ, a compare-and-swap or a
    /// fetch-and-add.
    ///
    /// # Panics
    /// If the verb is of another kind.
    #[inline]
    pub fn word(&self, ticket: Ticket) -> u64 {
        match self.verbs[ticket.0 as usize].operation {
            Operation::ReadWord { value } => value,
            Operation::CompareAndSwap { found, .. } | Operation::FetchAndAdd { found, .. } => found,
            _ => panic!("the verb has no word as its result"),
        }
    }

    /// Takes the buffer of a READ or WRITE back from the batch.
    #[inline]
    pub fn take(&mut self, ticket: Ticket) -> Buffer {
        match &mut self.verbs[ticket.0 as usize].operation {
            Operation::Read { into: buffer } | Operation::Write { from: buffer } => std::mem::take(buffer),
            _ => panic!("the verb has no buffer"),
        }
    }

    /// Takes the buffer of the `index`th verb back, for a batch whose verbs are alike.
    #[inline]
    pub fn take_nth(&mut self, index: usize) -> Buffer {
        self.take(Ticket(index as u8))
    }

    /// Empties the batch for another use. It drops the buffers that are still in it.
    #[inline]
    pub fn clear(&mut self) {
        self.verbs.clear();
    }

    /// How many verbs the batch holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.verbs.len()
    }

    /// Whether the batch holds no verb.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.verbs.is_empty()
    }

    /// Whether no further verb fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.verbs.len() == BATCH_VERBS_MAX
    }

    /// Moves the chosen verbs to a batch of their own, in their order, and returns it with their
    /// numbers as the bits of a mask. [`Batch::put_back`] moves them back. A verb that stays behind
    /// passes its fence on to the next chosen one.
    pub fn take_out(&mut self, is_chosen: impl Fn(&Verb) -> bool) -> (Self, u32) {
        const { assert!(BATCH_VERBS_MAX <= 32, "a mask has a bit for each verb") };
        let (mut chosen, mut mask, mut is_fenced) = (Self::new(), 0, false);
        for (number, verb) in self.verbs.iter_mut().enumerate() {
            is_fenced |= verb.fenced;
            if is_chosen(verb) {
                let left = Verb { at: verb.at, fenced: verb.fenced, operation: Operation::ReadWord { value: 0 } };
                let verb = std::mem::replace(verb, left);
                chosen.verbs.push(Verb { fenced: std::mem::take(&mut is_fenced), ..verb });
                mask |= 1 << number;
            }
        }
        (chosen, mask)
    }

    /// Moves verbs back that [`Batch::take_out`] moved out, with their results.
    ///
    /// # Panics
    /// If these are not as many verbs as the mask has bits.
    pub fn put_back(&mut self, taken: Self, mask: u32) {
        assert_eq!(taken.len(), mask.count_ones() as usize, "the verbs that were taken out");
        let mut taken = taken.verbs.into_iter();
        for (number, verb) in self.verbs.iter_mut().enumerate().filter(|(number, _)| mask >> number & 1 == 1) {
            debug_assert!(number < BATCH_VERBS_MAX, "a verb of this batch");
            if let Some(back) = taken.next() {
                verb.operation = back.operation;
            }
        }
    }

    /// The verbs, for a fabric.
    #[inline]
    pub fn verbs(&self) -> &[Verb] {
        &self.verbs
    }

    /// The verbs, for a fabric to fill results in.
    #[inline]
    pub fn verbs_mut(&mut self) -> &mut [Verb] {
        &mut self.verbs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_that_are_taken_out_come_back_to_their_places_with_their_results() {
        let (near, far) = (Address::new(0, 0, 8), Address::new(1, 0, 8));
        let mut batch = Batch::new();
        let first = batch.read_word(near);
        let second = batch.read_word(far);
        batch.fence();
        let third = batch.compare_and_swap(near, 3, 4);
        let is_near = |verb: &Verb| verb.at == near;
        let (mut taken, mask) = batch.take_out(is_near);
        assert_eq!((taken.len(), mask), (2, 0b101));
        assert_eq!(taken.verbs().iter().map(|verb| verb.fenced).collect::<Vec<_>>(), [false, true], "a fence stays");
        for verb in taken.verbs_mut() {
            match &mut verb.operation {
                Operation::ReadWord { value } => *value = 7,
                Operation::CompareAndSwap { found, .. } => *found = 3,
                _ => unreachable!("no other verb was added"),
            }
        }
        batch.put_back(taken, mask);
        assert_eq!((batch.word(first), batch.word(second), batch.swapped(third)), (7, 0, true));
        assert!(!batch.verbs()[2].fenced, "the batch is what its caller made");
    }
}
