//! How a client inserts an absent key. An insertion is pending until its client has seen that no
//! other slot has the key: see [`crate::search`]. If another client empties the pending slot, the
//! block stays its inserter's.
//!
//! An inserter chooses a slot of the bucket in this order:
//!
//! | slot | then |
//! |---|---|
//! | its key's own history entry | |
//! | empty | |
//! | the oldest history entry | |
//! | a dead block | the inserter takes the block |
//! | all are live | the replacement evicts an object of the bucket first |

use super::change::New;
use super::held::Held;
use super::layout::BUCKET_SLOTS;
use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::{Core, Hole};
use crate::CacheError;
use crate::search::publish_pending;
use atoll_fabric::{Batch, Buffer, Endpoint};

/// The result of an insertion whose compare-and-swap succeeded.
pub(super) struct Inserted {
    pub(super) slot: u64,
    pub(super) word: Slot,
    /// The word that its slot had before.
    pub(super) before: Slot,
    /// Word 0 of the slot's access information.
    pub(super) counter: u64,
    /// Whether the slot is live, as the only one of its key.
    pub(super) published: bool,
}

impl<E: Endpoint> Core<E> {
    /// The place of the bucket that an inserter uses. `None` if all are live.
    fn choose_place(&self, op: &mut Operation, hash: KeyHash) -> Option<usize> {
        let places = || (0..BUCKET_SLOTS).map(|place| (place, op.seen(hash, place).0));
        if let Some((own, _)) = places().find(|(_, word)| word.history_of(hash).is_some()) {
            return Some(own);
        }
        let rank = |word: Slot| match word.any_history() {
            _ if word == Slot::EMPTY => (0, 0),
            // The oldest history entry ranks first: its id is farthest behind.
            Some((_, id)) => (1, u64::MAX - self.history_age(id)),
            None if word.is_dead() => (2, 0),
            None => (3, 0),
        };
        let (best, word) = places().min_by_key(|(_, word)| rank(*word)).expect("a bucket has slots");
        (rank(word).0 < 3).then_some(best)
    }

    /// Whether an inserter finds no place in the bucket that was READ.
    pub(super) fn is_crowded(&self, op: &mut Operation, hash: KeyHash) -> bool {
        self.choose_place(op, hash).is_none()
    }

    /// Inserts the record into the bucket that was READ. `None` if the chosen place has changed.
    pub(super) async fn insert(
        &self,
        op: &mut Operation,
        new: &New<'_>,
        held: Held,
        tag: u16,
    ) -> Result<Option<Inserted>, CacheError> {
        let hash = new.hash;
        let Some(place) = self.choose_place(op, hash) else { return Ok(None) };
        let (before, slot) = op.seen(hash, place);
        let word = self.encode_new(op, new, &[], held, tag);
        let address = self.shared.layout.slot(slot);
        let certain = self.is_open(Hole::DuplicateKey);
        let first = if certain { word } else { word.pending() };
        let Some((at, record)) = self.outgoing_record(op, held.block) else { return Ok(None) };
        let mut batch = Batch::new();
        self.publish_won(&mut batch, held, at).await?;
        let written = self.write_before(&mut batch, at, record, address).await?;
        let mut taking = None;
        if !before.is_free() {
            taking = self.begin_taking(&mut batch, slot, before).await?;
            if taking.is_none() {
                // The batch already has verbs for the new block, so it is posted.
                self.client.endpoint.post(&mut batch).await?;
                op.outgoing = written.take(&mut batch);
                return Ok(None);
            }
        }
        let swap = batch.compare_and_swap(address, before.0, first.0);
        let mut bucket: Buffer = std::mem::take(&mut op.bucket);
        bucket.resize(super::layout::SLOTS_BYTES as usize);
        let read = batch.read(self.shared.layout.bucket(hash.bucket), bucket);
        let counter = batch.read_word(self.shared.layout.access(slot));
        new.extents.begin();
        let posted = match taking {
            Some(taking) => self.post_taking(&mut batch, taking).await,
            None => self.client.endpoint.post(&mut batch).await,
        };
        new.extents.note_posted(&posted);
        posted?;
        op.outgoing = written.take(&mut batch);
        op.bucket = batch.take(read);
        let (swapped, counter) = (batch.swapped(swap), batch.word(counter));
        if let Some(taken) = taking.and_then(|taking| self.end_taking(taking, swapped)) {
            self.note_dead(taken.block, taken.class, -1);
            self.stock.borrow_mut().put(taken);
        }
        if !swapped {
            return Ok(None);
        }
        let published = certain || publish_pending(self, op, (hash, new.key), slot, (word.pending(), word), 0).await?;
        Ok(Some(Inserted { slot, word, before, counter, published }))
    }
}
