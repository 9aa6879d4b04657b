//! Ditto without one or the other of its techniques, to see what each is worth (section 5.6, Fig.
//! 24). For measurements only.
//!
//! All clients of a pool do without the same ones. What the cache promises stays what it is: a
//! variant adds verbs and round trips to the choice of victims. The paper does not say which verbs
//! its variants have; where it leaves a choice ours is that of the published prototype.
//!
//! | without | instead |
//! |---|---|
//! | the sample-friendly table | a sample READs slots alone, then the access information of [`SAMPLED_OBJECTS`] objects, one after the other; an insertion WRITEs each word of it by itself |
//! | the lightweight history | a ring of entries beside the pool, below; the slot of an evicted key names its entry |
//! | lazy weights | every regret is published at once, and every eviction READs the weights first |
//! | the frequency-counter cache | every access is a FAA |
//!
//! The ring has an entry for each eviction that the history lasts, in an area of its own that is
//! all zero when the first client comes, so that the format of pools knows nothing of variants:
//!
//! ```text
//! +--------------+--------+-------------+
//! | id + 1, or 0 | slot   | its word    |   data, 24 B an entry: that of history id i is at i modulo their number
//! +--------------+--------+-------------+
//! ```
//!
//! | step | lightweight | ring |
//! |---|---|---|
//! | eviction | the id's FAA is in the sample's batch | FAA; READ the entry that was there; not awaited: WRITE the entry, CAS the slot of the old entry from its word to empty |
//! | regret | the slot says it | READ the entry, which must be of this slot word; not awaited: WRITE its first word, 0 |
//!
//! The old entry is emptied although a lookup would see that it has expired. Without the paper's
//! lazy eviction the queue must do so.

use super::{Adaptive, Ditto, DittoOptions};
use crate::CacheError;
use crate::table::settings::TableSettings;
use crate::table::slot::Slot;
use crate::table::{Core, layout};
use arrayvec::ArrayVec;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Purpose};
use atoll_pool::{PoolError, PoolSettings};

/// Objects of a sample whose access information is READ one by one: the paper's five (section 5.1).
pub const SAMPLED_OBJECTS: usize = 5;
const ENTRY_WORDS: usize = 3;
const ENTRY_BYTES: u64 = 8 * ENTRY_WORDS as u64;

/// Which of Ditto's techniques a client does without. All off: the engine as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Without the frequency-counter cache (section 4.2.2).
    pub eager_counters: bool,
    /// Without lazy updates of weights (section 4.3.2).
    pub eager_weights: bool,
    /// Without the lightweight history (section 4.3.1).
    pub history_apart: bool,
    /// Without the sample-friendly table (section 4.2.1). The words stay where they are, and only
    /// how they are READ and WRITTEN changes: to the network they are as if each lay with its
    /// object.
    pub information_apart: bool,
}

impl Variant {
    /// Bytes of the area that variants of a pool with these settings need.
    pub fn area_bytes(settings: &PoolSettings) -> Result<u64, PoolError> {
        let objects = TableSettings::decode(settings)?;
        let ditto = DittoOptions::decode(&objects)?;
        let expected = match settings.objects_max {
            0 => u64::from(objects.buckets) * layout::BUCKET_SLOTS as u64 / 2,
            limit => limit,
        };
        Ok(u64::from(super::history_evictions(&ditto, expected)) * ENTRY_BYTES)
    }
}

impl<E: Endpoint> Ditto<E> {
    /// Lets this client do without some techniques; `area` is where the variants' area begins. To
    /// be called before its first operation, by all clients of the pool or by none.
    pub fn set_variant(&mut self, variant: Variant, area: Address) {
        let Some(mut replacement) = self.replacement() else { return };
        (replacement.variant, replacement.area) = (variant, area);
        if variant.eager_counters {
            replacement.counters = super::Counters::new(0, 1, replacement.settings.counter_age_us);
        }
    }
}

impl Adaptive {
    /// The entry of a history id.
    fn entry(&self, id: u64) -> Address {
        self.area.add(id % u64::from(self.history) * ENTRY_BYTES)
    }

    async fn read_entry<E: Endpoint>(&self, core: &Core<E>, id: u64) -> Result<[u64; ENTRY_WORDS], CacheError> {
        let entry = core.client.endpoint.read(self.entry(id), Buffer::sized(ENTRY_BYTES as usize)).await?;
        Ok(std::array::from_fn(|word| entry.words()[word]))
    }

    /// Puts the entry of a victim into the ring, in place of the oldest.
    #[cold]
    pub(super) async fn record_apart<E: Endpoint>(
        &self,
        core: &Core<E>,
        slot: u64,
        word: Slot,
    ) -> Result<(), CacheError> {
        let Some((_, id)) = word.any_history() else { return Ok(()) };
        let [named, old_slot, old_word] = self.read_entry(core, id).await?;
        let mut buffer = Buffer::sized(ENTRY_BYTES as usize);
        buffer.words_mut().copy_from_slice(&[id + 1, slot, word.0]);
        let mut batch = Batch::new();
        batch.write(self.entry(id), buffer);
        // Only a history entry, in a slot that there is.
        let slots = u64::from(core.shared.settings().buckets) * layout::BUCKET_SLOTS as u64;
        if named != 0 && old_slot < slots && Slot(old_word).any_history().is_some() {
            batch.compare_and_swap(core.shared.layout.slot(old_slot), old_word, Slot::EMPTY.0);
        }
        core.client.endpoint.post_unawaited(&mut batch);
        Ok(())
    }

    /// Whether the ring has the entry that a slot word names, which is then free.
    #[cold]
    pub(super) async fn consume_apart<E: Endpoint>(&self, core: &Core<E>, word: Slot) -> Result<bool, CacheError> {
        let Some((_, id)) = word.any_history() else { return Ok(false) };
        let before = core.client.endpoint.purpose(Purpose::Upkeep);
        let entry = self.read_entry(core, id).await;
        let is_there = entry.as_ref().is_ok_and(|[named, _, found]| (*named, *found) == (id + 1, word.0));
        if is_there {
            let mut batch = Batch::new();
            batch.write_word(self.entry(id), 0);
            core.client.endpoint.post_unawaited(&mut batch);
        }
        core.client.endpoint.purpose(before);
        entry.map(|_| is_there)
    }

    /// READs the weights that all clients' penalties come to.
    #[cold]
    pub(super) async fn read_weights<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        let sums = core
            .client
            .endpoint
            .read(core.shared.layout.replacement(), Buffer::sized(8 * self.settings.experts.len()))
            .await?;
        let sums: ArrayVec<u64, { crate::table::slot::EXPERTS_MAX }> = sums.words().iter().copied().collect();
        self.experts.merged(&sums);
        Ok(())
    }
}
