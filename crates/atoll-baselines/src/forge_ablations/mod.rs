//! FORGE without single techniques, to measure what each is worth (FORGE 6.7, Fig. 18); and FORGE
//! with the verbs that its paper has and the shipped engine has not.
//!
//! All clients of a pool do without the same techniques. Then the engine's promises hold: a variant
//! adds locks, round trips or bytes to steps that are sound without them. The exception is death: a
//! lock that a dead client held stays locked, so variants with locks are for runs without faults.
//!
//! The words of a variant lie in a region of their own, so the format of pools does not depend on
//! variants. That region is zero when the first client joins:
//!
//! ```text
//! 0                 64                128                  128 + 8 B a bucket
//! +-----------------+-----------------+--------------------+---------------------------------+
//! | lock of the     | lock of the     | locks of buckets,  | counters: 16 bits an object of  |
//! | small queue     | main queue      | 8 B each           | every chunk, four to a word     |
//! +-----------------+-----------------+--------------------+---------------------------------+
//! | group words: 8 B a bucket                                                                |
//! +------------------------------------------------------------------------------------------+
//! ```
//!
//! The paper's verbs ([`Ablated::follow_paper`]) are these:
//!
//! | step | the paper | the shipped engine |
//! |---|---|---|
//! | SET | WRITEs the slot's second word, the group word, after its CAS and does not wait (FORGE 4.2) | has a slot of one word |
//! | insertion after a miss | READs the bucket again (FORGE 4.2) | may use the bucket that the miss READ |
//! | flush of hotness | to counters in the NIC's own memory (FORGE 5.2) | to counters in host memory |
//!
//! A client WRITEs the group word of its key's bucket after each try at a change. Nothing reads it:
//! it costs what the paper's costs. Where the NIC has no memory of its own, counters stay in host
//! memory, as in the paper.
//!
//! | module | concept |
//! |---|---|
//! | `lock` | locks of buckets and queues |
//! | `whole_group` | groups that an evictor READs whole |
//!
//! Counters: atomics only. Group words: data, last writer wins.

mod lock;
mod whole_group;

use atoll_cache::forge::layout::ForgeLayout;
use atoll_cache::forge::ring::Cursors;
use atoll_cache::forge::technique::{LeavingParts, Section, Technique};
use atoll_cache::forge::{Forge, ForgeSettings, Queue};
use atoll_cache::{CacheError, Pooled};
use atoll_fabric::purpose::Scope;
use atoll_fabric::{Address, Batch, Endpoint, Purpose};
use atoll_pool::{ChunkId, PoolError, PoolSettings};

const LINE: u64 = 64;

/// A client of FORGE without some of its techniques.
pub type AblatedForge<E> = Forge<E, Ablated>;

/// Which of FORGE's techniques a client does without. All off: the engine as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Without the lock-free index (FORGE 4.2). There a slot of two words is updated without a
    /// lock, by versions. Our slot is one word and needs neither. Here a change holds its bucket's
    /// lock from its first look at the bucket to its last effect. That serializes writers as slots
    /// with locks do.
    pub locked_index: bool,
    /// Without the contention-free queue (FORGE 5.1), where fetch-and-add hands out tickets. Here a
    /// client that adds or removes a group holds the queue's lock meanwhile. It READs the cursors,
    /// then moves them.
    pub locked_queues: bool,
    /// Without lightweight regrouping (FORGE 5.3), where a two-way index map names objects and
    /// slots. Here an evictor READs the whole group, parses its records for their keys, and READs
    /// the bucket of each.
    pub whole_groups: bool,
    /// Without the hotness-aware queue (FORGE 5.4, 5.5: two queues, virtual segments, groups that
    /// are mostly active put back). Here all groups pass through one queue. The hot objects of
    /// evicted groups enter it again at the tail, in a new group, like new objects. Ghosts are an
    /// option of the pool.
    pub plain_queue: bool,
    /// Without lazy synchronization of hotness (FORGE 5.2), where clients count accesses locally
    /// until the group nears the queue's head. Here every hit adds one to the object's counter in
    /// the pool at once, by a fetch-and-add that the client does not await.
    pub eager_hotness: bool,
}

impl Variant {
    /// Without any of the techniques: groups, and a FIFO of them (the baseline of FORGE 6.7).
    pub const BASELINE: Self =
        Self { locked_index: true, locked_queues: true, whole_groups: true, plain_queue: true, eager_hotness: true };

    /// Bytes of the region that variants of a pool with these settings need.
    pub fn area_bytes(settings: &PoolSettings) -> Result<u64, PoolError> {
        let bytes = settings.capacity_bytes.saturating_add(settings.growth_bytes_max);
        let chunks = bytes / u64::from(settings.chunk_bytes.max(1));
        let forge = ForgeSettings::decode(settings)?;
        let group_words = 8 * u64::from(forge.buckets);
        Ok(counters_offset(&forge) + chunks * counter_bytes(settings) + group_words)
    }

    /// Bytes of a NIC's own memory in which the counters of the eviction windows have room.
    pub fn device_bytes(settings: &PoolSettings) -> Result<u64, PoolError> {
        Ok(ForgeLayout::window_counter_bytes(settings, &ForgeSettings::decode(settings)?))
    }
}

fn counters_offset(settings: &ForgeSettings) -> u64 {
    2 * LINE + 8 * u64::from(settings.buckets)
}

/// Bytes of one chunk's counters.
fn counter_bytes(settings: &PoolSettings) -> u64 {
    u64::from(2 * settings.group_objects_max).next_multiple_of(8)
}

/// One client's side of a variant.
#[derive(Clone, Copy, Debug)]
pub struct Ablated {
    without: Variant,
    /// Where the variants' region begins.
    area: Address,
    /// The verbs of the paper, if the client has them.
    paper: Option<PaperVerbs>,
}

/// What a client needs for the paper's verbs.
#[derive(Clone, Copy, Debug)]
struct PaperVerbs {
    /// Where group words begin.
    group_words: Address,
    /// Where counters of the eviction windows begin in the NIC's own memory, if it has any.
    device: Option<Address>,
}

impl Default for Ablated {
    /// The engine as it is.
    fn default() -> Self {
        Self { without: Variant::default(), area: Address::new(0, 0, 0), paper: None }
    }
}

impl Ablated {
    /// Lets the client do without some techniques, before its first operation; `area` is where the
    /// variants' region begins. All clients of the pool must call it, or none.
    pub fn set(&mut self, without: Variant, area: Address) {
        *self = Self { without, area, paper: None };
    }

    /// Lets the client also have the paper's verbs, in a pool with these settings. `device` is
    /// where [`Variant::device_bytes`] of the NIC's own memory begin; without them counters stay in
    /// host memory. All clients of the pool must call it, or none.
    pub fn follow_paper(&mut self, settings: &PoolSettings, device: Option<Address>) -> Result<(), PoolError> {
        let group_words_bytes = 8 * u64::from(ForgeSettings::decode(settings)?.buckets);
        let group_words = self.area.add(Variant::area_bytes(settings)? - group_words_bytes);
        self.paper = Some(PaperVerbs { group_words, device });
        Ok(())
    }

    /// The lock of a section, if such sections are locked.
    fn lock_of(&self, section: Section) -> Option<Address> {
        let (is_locked, at) = match section {
            Section::Queue(queue) => (self.without.locked_queues, queue as u64 * LINE),
            Section::Bucket(hash) => (self.without.locked_index, 2 * LINE + 8 * u64::from(hash.bucket)),
        };
        is_locked.then(|| self.area.add(at))
    }

    /// The counters of a chunk's objects.
    fn chunk_counters<E: Endpoint>(&self, forge: &AblatedForge<E>, chunk: ChunkId) -> Address {
        let bytes = counter_bytes(&forge.client().pool.settings);
        self.area.add(counters_offset(forge.pool().settings()) + u64::from(chunk.0) * bytes)
    }

    /// Counts an access in the pool. A counter of 16 bits holds the accesses until its group is
    /// evicted. A counter that overflows adds one to the next object; all counts are hints.
    #[cold]
    fn count_in_pool<E: Endpoint>(&self, forge: &AblatedForge<E>, chunk: ChunkId, number: u16) {
        if u32::from(number) >= forge.client().pool.settings.group_objects_max {
            return;
        }
        let mut batch = Batch::new();
        let word = self.chunk_counters(forge, chunk).add(8 * u64::from(number / 4));
        batch.fetch_and_add(word, 1 << (16 * (number % 4)));
        let _scope = Scope::new(&forge.client().endpoint, Purpose::Hotness);
        forge.client().endpoint.post_unawaited(&mut batch);
    }
}

impl<E: Endpoint> Technique<E> for Ablated {
    type Annex = ();

    async fn lock(&self, forge: &AblatedForge<E>, section: Section) -> Result<(), CacheError> {
        match self.lock_of(section) {
            Some(at) => Box::pin(lock::lock(&forge.client().endpoint, at)).await,
            None => Ok(()),
        }
    }

    fn unlock(&self, forge: &AblatedForge<E>, section: Section) {
        if let (Some(paper), Section::Bucket(hash)) = (&self.paper, section) {
            let mut batch = Batch::new();
            batch.write_word(paper.group_words.add(8 * u64::from(hash.bucket)), u64::from(hash.more));
            forge.client().endpoint.post_unawaited(&mut batch);
        }
        if let Some(at) = self.lock_of(section) {
            lock::unlock(&forge.client().endpoint, at);
        }
    }

    fn reuses_places(&self) -> bool {
        self.without == Variant::default() && self.paper.is_none()
    }

    fn recalls_misses(&self) -> bool {
        !self.without.locked_index && self.paper.is_none()
    }

    async fn take_ticket(&self, forge: &AblatedForge<E>, queue: Queue, by: u64) -> Result<Cursors, CacheError> {
        match self.without.locked_queues {
            true => lock::move_cursors(&forge.client().endpoint, forge.pool().layout().cursors(queue), by).await,
            false => forge.add_to_cursors(queue, by).await,
        }
    }

    fn has_one_queue(&self) -> bool {
        self.without.plain_queue
    }

    fn counted_hit(&self, forge: &AblatedForge<E>, chunk: ChunkId, number: u16, _generation: u16) {
        if self.without.eager_hotness {
            self.count_in_pool(forge, chunk, number);
        }
    }

    async fn flush_hotness(&self, forge: &AblatedForge<E>) -> Result<(), CacheError> {
        match self.without.eager_hotness {
            true => Ok(()),
            false => forge.flush_windows().await,
        }
    }

    fn counters(&self, forge: &AblatedForge<E>, chunk: ChunkId, queue: Queue, position: u32) -> Address {
        let layout = forge.pool().layout();
        match self.paper.and_then(|paper| paper.device) {
            _ if self.without.eager_hotness => self.chunk_counters(forge, chunk),
            Some(device) => {
                let first = layout.frequencies(Queue::Small, 0);
                device.add(layout.frequencies(queue, position).offset() - first.offset())
            }
            None => layout.frequencies(queue, position),
        }
    }

    fn counts_by_chunk(&self) -> bool {
        self.without.eager_hotness
    }

    fn counts_at_once(&self) -> bool {
        self.without.eager_hotness
    }

    async fn read_group(
        &self,
        forge: &AblatedForge<E>,
        chunk: ChunkId,
        generation: u32,
        objects: usize,
    ) -> Result<Option<LeavingParts>, CacheError> {
        match self.without.whole_groups {
            true => Box::pin(whole_group::read(forge, chunk, generation, objects)).await,
            false => Ok(None),
        }
    }
}
