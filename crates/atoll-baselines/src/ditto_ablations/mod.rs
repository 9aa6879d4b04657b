//! Ditto without single techniques, to measure what each is worth (section 5.6, Fig. 24).
//!
//! All clients of a pool do without the same techniques. The cache's promises stay the same: a
//! variant adds verbs and round trips to the choice of a victim. The paper does not say which verbs
//! its variants have. Where it leaves a choice, ours is that of the published prototype.
//!
//! | without | instead |
//! |---|---|
//! | the sample-friendly table | a sample READs slots alone, then the access information of [`SAMPLED_OBJECTS`] objects, one after the other; an insertion WRITEs each word of it by itself |
//! | the lightweight history | a ring of entries beside the pool (`history`); the slot of an evicted key names its entry |
//! | lazy weights | every regret is published at once, and every eviction READs the weights first |
//! | the frequency-counter cache | every access is a FAA |

mod history;

use arrayvec::ArrayVec;
use atoll_cache::CacheError;
use atoll_cache::ditto::{Adaptive, DittoOptions, Technique};
use atoll_cache::experts::Experts;
use atoll_cache::table::replacement::Sampling;
use atoll_cache::table::settings::TableSettings;
use atoll_cache::table::slot::{EXPERTS_MAX, Slot};
use atoll_cache::table::{Core, Objects, layout};
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::{PoolError, PoolSettings};
use history::History;

/// Objects of a sample whose access information is READ one by one: the paper's five (section 5.1).
pub const SAMPLED_OBJECTS: usize = 5;

/// A client of Ditto without some of its techniques.
pub type AblatedDitto<E> = Objects<E, Adaptive<Ablated>>;

/// Which of Ditto's techniques a client does without. All off: the engine as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Without the frequency-counter cache (section 4.2.2).
    pub eager_counters: bool,
    /// Without lazy updates of weights (section 4.3.2).
    pub eager_weights: bool,
    /// Without the lightweight history (section 4.3.1).
    pub history_apart: bool,
    /// Without the sample-friendly table (section 4.2.1). The words stay where they are; only how
    /// they are READ and WRITTEN changes. The network sees the same verbs as if each word lay with
    /// its object.
    pub information_apart: bool,
}

/// Entries of the ring of a pool with these settings.
fn history_entries(settings: &PoolSettings) -> Result<u32, PoolError> {
    let objects = TableSettings::decode(settings)?;
    let ditto = DittoOptions::decode(&objects)?;
    let expected = match settings.objects_max {
        0 => u64::from(objects.buckets) * layout::BUCKET_SLOTS as u64 / 2,
        limit => limit,
    };
    Ok(ditto.history_evictions(expected))
}

impl Variant {
    /// Bytes of the region that variants of a pool with these settings need.
    pub fn area_bytes(settings: &PoolSettings) -> Result<u64, PoolError> {
        Ok(u64::from(history_entries(settings)?) * history::ENTRY_BYTES)
    }
}

/// One client's side of a variant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ablated {
    without: Variant,
    /// The ring of history entries, which [`Variant::history_apart`] uses.
    history: History,
}

impl Ablated {
    /// The side of a client that does without some techniques. `area` is where the variants' region
    /// begins.
    pub fn new(without: Variant, settings: &PoolSettings, area: Address) -> Result<Self, PoolError> {
        Ok(Self { without, history: History::new(area, history_entries(settings)?) })
    }
}

impl Technique for Ablated {
    fn sampling(&self) -> Sampling {
        let Variant { history_apart, information_apart, .. } = self.without;
        Sampling { with_history: !history_apart, one_by_one: information_apart.then_some(SAMPLED_OBJECTS) }
    }

    fn counts_at_home(&self) -> bool {
        !self.without.eager_counters
    }

    fn tells_each_regret(&self) -> bool {
        self.without.eager_weights
    }

    fn tell_insertion<E: Endpoint>(&self, core: &Core<E>, slot: u64, words: [u64; 4]) {
        match self.without.information_apart {
            false => core.tell_insertion(slot, words),
            true => tell_words_one_by_one(core, slot, words),
        }
    }

    async fn begin_choice<E: Endpoint>(&self, core: &Core<E>, experts: &mut Experts) -> Result<(), CacheError> {
        match self.without.eager_weights {
            true => Box::pin(read_weights(core, experts)).await,
            false => Ok(()),
        }
    }

    async fn record_entry<E: Endpoint>(&self, core: &Core<E>, slot: u64, entry: Slot) -> Result<(), CacheError> {
        match self.without.history_apart {
            true => Box::pin(self.history.record(core, slot, entry)).await,
            false => Ok(()),
        }
    }

    async fn consume_entry<E: Endpoint>(&self, core: &Core<E>, entry: Slot) -> Result<bool, CacheError> {
        match self.without.history_apart {
            true => Box::pin(self.history.consume(core, entry)).await,
            false => Ok(true),
        }
    }
}

/// Publishes an object that was just inserted by a WRITE for each word, without waiting.
fn tell_words_one_by_one<E: Endpoint>(core: &Core<E>, slot: u64, words: [u64; 4]) {
    let mut batch = Batch::new();
    for (place, word) in (1..).zip(words) {
        batch.write_word(core.shared.layout().access(slot).add(8 * place), word);
    }
    core.client.endpoint.post_unawaited(&mut batch);
}

/// READs the sums of all clients' penalties, and computes the weights from them.
async fn read_weights<E: Endpoint>(core: &Core<E>, experts: &mut Experts) -> Result<(), CacheError> {
    let mut buffer = Buffer::new();
    buffer.resize(8 * experts.set().len());
    let sums = core.client.endpoint.read(core.shared.layout().replacement(), buffer).await?;
    let sums: ArrayVec<u64, EXPERTS_MAX> = sums.words().iter().copied().collect();
    experts.merged(&sums);
    Ok(())
}
