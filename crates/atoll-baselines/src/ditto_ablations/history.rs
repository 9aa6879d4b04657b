//! A history in a ring of its own, for clients without the lightweight history.
//!
//! The ring has an entry for each eviction that the history lasts. It lies in a region of its own,
//! so the format of pools does not depend on variants. The region is zero when the first client
//! joins:
//!
//! ```text
//! +--------------+--------+-------------+
//! | id + 1, or 0 | slot   | its word    |   data, 24 B an entry; history id i is at i modulo their number
//! +--------------+--------+-------------+
//! ```
//!
//! | step | lightweight | ring |
//! |---|---|---|
//! | eviction | the id's FAA is in the batch of the sample | FAA; READ the entry that was there; not awaited: WRITE the entry, CAS the slot that the old one named from its word to empty |
//! | regret | the slot's word is the entry | READ the entry, which must be of this slot word; not awaited: WRITE its first word, 0 |
//!
//! A lookup would see that the old entry is over. It is emptied nevertheless: without the paper's
//! lazy eviction that is the queue's duty.

use atoll_cache::CacheError;
use atoll_cache::table::slot::Slot;
use atoll_cache::table::{Core, layout};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Purpose};

const ENTRY_WORDS: usize = 3;
/// Bytes of an entry.
pub(super) const ENTRY_BYTES: u64 = 8 * ENTRY_WORDS as u64;

/// The ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    area: Address,
    /// At least one.
    entries: u32,
}

impl Default for History {
    /// A history that is not used.
    fn default() -> Self {
        Self::new(Address::new(0, 0, 0), 1)
    }
}

impl History {
    pub(super) fn new(area: Address, entries: u32) -> Self {
        Self { area, entries }
    }

    /// The entry of a history id.
    fn entry(&self, id: u64) -> Address {
        self.area.add(id % u64::from(self.entries) * ENTRY_BYTES)
    }

    async fn read_entry<E: Endpoint>(&self, core: &Core<E>, id: u64) -> Result<[u64; ENTRY_WORDS], CacheError> {
        let mut buffer = Buffer::new();
        buffer.resize(ENTRY_BYTES as usize);
        let entry = core.client.endpoint.read(self.entry(id), buffer).await?;
        Ok(std::array::from_fn(|word| entry.words()[word]))
    }

    /// Puts the entry of a victim into the ring, in place of the oldest.
    pub(super) async fn record<E: Endpoint>(&self, core: &Core<E>, slot: u64, word: Slot) -> Result<(), CacheError> {
        let Some((_, id)) = word.any_history() else { return Ok(()) };
        let [told, old_slot, old_word] = self.read_entry(core, id).await?;
        let mut buffer = Buffer::new();
        buffer.resize(ENTRY_BYTES as usize);
        buffer.words_mut().copy_from_slice(&[id + 1, slot, word.0]);
        let mut batch = Batch::new();
        batch.write(self.entry(id), buffer);
        // Only a history entry, in an existing slot.
        let slots = u64::from(core.shared.settings().buckets) * layout::BUCKET_SLOTS as u64;
        if told != 0 && old_slot < slots && Slot(old_word).any_history().is_some() {
            batch.compare_and_swap(core.shared.layout().slot(old_slot), old_word, Slot::EMPTY.0);
        }
        core.client.endpoint.post_unawaited(&mut batch);
        Ok(())
    }

    /// Whether the ring has the entry that a slot word names, which is then free.
    pub(super) async fn consume<E: Endpoint>(&self, core: &Core<E>, word: Slot) -> Result<bool, CacheError> {
        let Some((_, id)) = word.any_history() else { return Ok(false) };
        let before = core.client.endpoint.purpose(Purpose::Upkeep);
        let entry = self.read_entry(core, id).await;
        let is_there = entry.as_ref().is_ok_and(|[told, _, found]| (*told, *found) == (id + 1, word.0));
        if is_there {
            let mut batch = Batch::new();
            batch.write_word(self.entry(id), 0);
            core.client.endpoint.post_unawaited(&mut batch);
        }
        core.client.endpoint.purpose(before);
        entry.map(|_| is_there)
    }
}
