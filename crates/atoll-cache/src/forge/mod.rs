//! FORGE: a cache in the pool whose housekeeping is done by groups.
//!
//! After Yang et al., "FORGE: Mitigating Synchronization Amplification for Memory-Disaggregated
//! Caching Systems". A client writes new objects into its open group, one chunk. Full groups pass
//! through a small and a main FIFO queue. Clients count accesses locally and publish the counts
//! just before a group is evicted. The hot objects of an evicted group are regrouped.
//!
//! | module | concept |
//! |---|---|
//! | [`settings`] | what clients of a pool agree on |
//! | `sizing` | how large a pool is for so many objects |
//! | [`layout`] | where the words are |
//! | [`slot`] | the index entry: one word |
//! | `operations` | where each operation begins |
//! | `lookup` | the way of a GET; of many keys at once, `many` |
//! | [`addresses`] | remembered addresses of objects, for a GET in one round trip and a change in two |
//! | `blind` | a SET of a key whose object the client remembers, in one round trip |
//! | `absence` | the words that a miss saw, for the insertion that follows |
//! | `update` | the way of every change, with `search` (find the object), `insert` (a new key), `unlink` (remove an object) |
//! | `vacancies` | records in the places of dead ones |
//! | [`group`] | groups and the two-way index map |
//! | `open_groups` | the groups that a client fills |
//! | `filling` | how a client fills and closes them |
//! | [`ring`] | the FIFO of groups |
//! | [`hotness`] | counting accesses |
//! | `room` | how a client makes room: a free chunk, cleaning, eviction |
//! | `beside` | room that a client makes beside its operations, ahead of need |
//! | `ahead` | an evictor, which makes room ahead of need |
//! | `stock` | the free chunks that a client keeps |
//! | `growth` | when the index grows |
//! | `cleaning` | which groups have so much dead memory that their live objects move |
//! | `expiry` | expired objects that no client asks for |
//! | `evict` | which objects are evicted |
//! | [`rules`] | the rule that a client follows, chosen by its own requests |
//! | `ghosts` | what is kept of an evicted object, in case its key returns |
//! | `leaving` | a group that is being evicted |
//! | `moving` | copying the objects that stay, many at a time |
//! | `reuse` | how long the tag of a slot word is relied on |
//! | `nodes` | several memory nodes: the order of operations on them, and chunks that are added later |
//! | `pooled` | what every engine in a pool can do |
//! | `kind` | the descriptor of the engine |
//! | [`repair`] | how the pool regains what a dead client held |
//! | [`verify`] | every invariant of a quiet pool |
//! | [`technique`] | what another form of the engine does instead |
//! | [`annex`] | what such a form adds to the pool |
//! | [`holes`] | the mistakes of the prototypes, switchable in tests |
//!
//! | departure from the paper | explained in |
//! |---|---|
//! | the slot is one word | `slot` |
//! | the map is written when a group closes | `group` |
//! | counters have 16 bits, in the pool | `hotness` |
//! | tickets are published by compare-and-swap | `ring` |
//! | an insertion is pending until it is known to be the only insertion of its key | `update` |
//! | by default objects are judged one by one, with ghosts | [`settings::Rule`] |
//!
//! A client is one [`Forge`]: one thread's endpoint and its open groups. It has many operations
//! under way at once, each with its buffers and a protection (`operation`). One of them makes room
//! at a time. Clients of one process share a [`ForgePool`].

mod absence;
pub mod addresses;
mod ahead;
pub mod annex;
mod beside;
mod blind;
mod cleaning;
mod evict;
mod expiry;
mod filling;
mod ghosts;
pub mod group;
mod growth;
pub mod holes;
pub mod hotness;
mod index;
mod insert;
mod kind;
pub mod layout;
mod leaving;
mod lookup;
mod many;
mod moving;
mod nodes;
mod open_groups;
mod operation;
mod operations;
mod pooled;
pub mod repair;
mod resize;
mod reuse;
pub mod ring;
mod room;
pub mod rules;
mod search;
pub mod settings;
mod sizing;
pub mod slot;
mod stock;
pub mod technique;
mod unlink;
mod update;
mod vacancies;
pub mod verify;

pub use holes::{Hole, OpenHoles};
pub use kind::ForgeKind;
pub use layout::Queue;
pub use settings::{ENGINE_FORGE, ForgeOptions, ForgeSettings, Rule};
pub use technique::{Shipped, Technique};

use crate::CacheError;
use crate::at_once::AtOnce;
use crate::extent::pins::Pins;
use crate::extent::unlisted::Abandoned;
use crate::extent::{LatelyBound, free_unlisted, value_bytes_max};
use crate::limit::Limit;
use crate::operation::Idle;
use crate::pooled::{EnginePool, check_heap, describe_pool};
use crate::record::Hasher;
use crate::removals::Removals;
use crate::reserve::Reserve;
use crate::spares::Spares;
use crate::stats::Counters;
use absence::Absences;
use addresses::Addresses;
use ahead::Effort;
use annex::Annex;
use atoll_fabric::{Address, Endpoint};
use atoll_pool::client::OPERATIONS_PER_ROUND;
use atoll_pool::{ChunkId, Client, EngineArea, Layout, Pool, PoolError, PoolSettings};
use cleaning::Cleaning;
use expiry::Sweep;
use ghosts::Ghosts;
use growth::Growth;
use hotness::HotnessMap;
use layout::ForgeLayout;
use open_groups::OpenGroups;
use operation::{Notes, Operation};
use reuse::Reliance;
use rules::Rules;
use slot::{Slot, SlotFormat};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use stock::Stock;
use vacancies::Vacancies;

/// A `forge` pool as one process has it open.
pub type ForgePool = ForgePoolWith<()>;

/// A pool of a form of `forge` with this annex, as one process has it open.
pub struct ForgePoolWith<A> {
    pub(crate) pool: Arc<Pool>,
    pub(crate) settings: ForgeSettings,
    pub(crate) layout: ForgeLayout,
    format: SlotFormat,
    hasher: Hasher,
    hotness: HotnessMap,
    reserve: Reserve,
    pins: Arc<Pins>,
    annex: A,
}

impl<A> ForgePoolWith<A> {
    /// The pool's settings and layout.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The engine's settings.
    pub fn settings(&self) -> &ForgeSettings {
        &self.settings
    }

    /// Where the engine's words are.
    pub fn layout(&self) -> &ForgeLayout {
        &self.layout
    }

    /// The state that the form of the engine adds.
    pub fn annex(&self) -> &A {
        &self.annex
    }

    /// The longest value that fits: half of the heap, so that a new value fits beside the old one.
    pub fn value_bytes_max(&self) -> usize {
        value_bytes_max(&self.pool.layout, 2)
    }
}

impl<A: Annex> EnginePool for ForgePoolWith<A> {
    fn engine_area(settings: &PoolSettings) -> EngineArea {
        layout::engine_area_with::<A>(settings)
    }

    fn check(settings: &PoolSettings) -> Result<(), PoolError> {
        ForgeSettings::decode_with::<A>(settings)?;
        check_heap(&Layout::plan(settings, Self::engine_area(settings))?, slot::HEAP_BYTES_MAX)
    }

    fn opened(pool: Pool) -> Result<Arc<Self>, PoolError> {
        let settings = ForgeSettings::decode_with::<A>(&pool.settings)?;
        let layout = ForgeLayout::with_annex(&pool, &settings, A::area_bytes(&pool.settings)?)?;
        let annex = A::opened(&pool, layout.annex())?;
        check_heap(&pool.layout, slot::HEAP_BYTES_MAX)?;
        let format = SlotFormat::new(pool.layout.heap_bytes_max());
        let hasher = Hasher::new(pool.settings.hash_seed);
        let hotness = HotnessMap::new(pool.layout.chunks_max, pool.settings.group_objects_max, format);
        let (pool, reserve, pins) = (Arc::new(pool), Reserve::default(), Arc::default());
        Ok(Arc::new(Self { pool, settings, layout, format, hasher, hotness, reserve, pins, annex }))
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn reserve(&self) -> Option<&Reserve> {
        Some(&self.reserve)
    }

    fn describe_own(&self, at: Address) -> Option<String> {
        match self.layout.annex_offset(at) {
            Some(offset) => Some(self.annex.describe(offset)),
            None => self.layout.describe(at),
        }
    }

    fn describe_settings(&self) -> Vec<(&'static str, String)> {
        let (pool, forge) = (&self.pool.settings, &self.settings);
        let mut described = describe_pool(&self.pool);
        described.extend([
            ("group_objects_max", pool.group_objects_max.to_string()),
            ("index_slots", (u64::from(forge.buckets) * layout::BUCKET_SLOTS as u64).to_string()),
            (
                "index_slots_max",
                ((u64::from(forge.buckets) * layout::BUCKET_SLOTS as u64) << forge.index_rounds).to_string(),
            ),
            ("rule", format!("{:?}", forge.options.rule).to_lowercase()),
            ("ghosts", forge.options.ghosts.to_string()),
        ]);
        if forge.options.rule != Rule::Chosen {
            described.push(("small_percent", forge.options.small_percent.to_string()));
        }
        described
    }
}

/// A client of a `forge` pool.
pub struct Forge<E: Endpoint, T: Technique<E> = Shipped> {
    shared: Arc<ForgePoolWith<T::Annex>>,
    client: Client<E>,
    /// The groups that this client fills.
    groups: RefCell<OpenGroups>,
    /// Its stock of free chunks.
    stock: Stock,
    /// Whether its caller lets it work beside its operations: see `beside`.
    is_attended: Cell<bool>,
    /// What it has done for the next chunk, if it is an evictor.
    effort: Cell<Effort>,
    /// Operations that are not under way.
    operations: Idle<Slot, Notes>,
    limit: Limit,
    spares: Spares,
    at_once: AtOnce,
    cleaning: RefCell<Cleaning>,
    sweep: RefCell<Sweep>,
    ghosts: Ghosts,
    rules: Rules,
    /// Mean frequency of recently merged groups, in sixteenths ([`Rule::Paper`]).
    merged_mean: Cell<u64>,
    reliance: Reliance,
    /// The steps that this form of the engine changes.
    technique: T,
    vacancies: Vacancies,
    lately_bound: RefCell<LatelyBound>,
    abandoned: Arc<Abandoned>,
    absences: Absences,
    growth: Growth,
    /// Remembered addresses of objects, if this client keeps them.
    addresses: RefCell<Addresses>,
    stats: Counters,
    removals: Removals,
    holes: OpenHoles,
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Joins the pool as a new client.
    pub async fn join(shared: &Arc<ForgePoolWith<T::Annex>>, endpoint: E) -> Result<Self, PoolError> {
        let forge = Self::new(shared, Client::join(&shared.pool, endpoint).await?);
        atoll_pool::repair::settle_in(&forge).await.map_err(|error| match error {
            CacheError::Verb(error) => PoolError::Verb(error),
            _ => PoolError::Damaged { what: "what a client that died left behind" },
        })?;
        Ok(forge)
    }

    /// A client that only looks at the pool, without a place in it: for
    /// [`Pooled::verify`](crate::Pooled::verify).
    pub fn auditor(shared: &Arc<ForgePoolWith<T::Annex>>, endpoint: E) -> Self {
        Self::new(shared, Client::auditor(&shared.pool, endpoint))
    }

    fn new(shared: &Arc<ForgePoolWith<T::Annex>>, client: Client<E>) -> Self {
        let capacity_bytes = shared.pool.settings.capacity_bytes;
        let window_objects = shared.settings.window * shared.pool.settings.group_objects_max;
        let is_near = client.endpoint.is_near();
        client.set_operations_per_round((window_objects / 8).clamp(1, OPERATIONS_PER_ROUND));
        let first = ChunkId((client.endpoint.random() % u64::from(shared.pool.layout.chunks())) as u32);
        let sweep = Sweep::new(client.endpoint.now_ns());
        Self {
            shared: shared.clone(),
            client,
            groups: RefCell::default(),
            stock: Stock::new(),
            is_attended: Cell::default(),
            effort: Cell::default(),
            operations: Idle::default(),
            limit: Limit::default(),
            spares: Spares::default(),
            at_once: AtOnce::default(),
            cleaning: RefCell::new(Cleaning::from(first)),
            sweep: RefCell::new(sweep),
            ghosts: Ghosts::default(),
            rules: Rules::new(&shared.pool.settings, &shared.settings, is_near),
            merged_mean: Cell::default(),
            reliance: Reliance::default(),
            technique: T::default(),
            vacancies: Vacancies::default(),
            lately_bound: RefCell::default(),
            abandoned: Arc::default(),
            absences: Absences::new(!is_near),
            growth: Growth::new(&shared.layout, &shared.pool.layout),
            addresses: RefCell::new(if is_near { Addresses::default() } else { Addresses::of_pool(capacity_bytes) }),
            stats: Counters::default(),
            removals: Removals::default(),
            holes: OpenHoles::NONE,
        }
    }

    /// Opens a hole, to show its effect in a simulation.
    #[cfg(feature = "holes")]
    pub fn open_hole(&mut self, hole: Hole) {
        self.holes = OpenHoles::only(hole);
        if hole == Hole::HastyDiscard {
            self.client.discard_hastily();
        }
        if hole == Hole::FirstsAlone {
            self.client.member().open_hole(atoll_pool::registry::protection::Hole::FirstsAlone);
        }
    }

    #[inline(always)]
    fn is_open(&self, hole: Hole) -> bool {
        self.holes.has(hole)
    }

    /// The pool, as this process has it open.
    pub fn pool(&self) -> &Arc<ForgePoolWith<T::Annex>> {
        &self.shared
    }

    /// The steps that this form of the engine changes.
    pub fn technique(&self) -> &T {
        &self.technique
    }

    /// As [`Self::technique`], mutable: for use before the client's first operation.
    pub fn technique_mut(&mut self) -> &mut T {
        &mut self.technique
    }

    /// Releases everything that this client holds and gives up its place.
    pub async fn leave(&self) -> Result<(), CacheError> {
        if !self.client.is_member() {
            return Ok(());
        }
        if self.client.is_lost() {
            self.client.forget();
            return Ok(());
        }
        let left = self.put_back_and_leave().await;
        if let Err(CacheError::Verb(error)) = &left {
            // It must not leave a second time as if it had released everything.
            self.client.note_failure(error);
        }
        left
    }

    async fn put_back_and_leave(&self) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        let _closed = self.client.in_flight().closed().await;
        for queue in Queue::ALL {
            self.close_group(queue, 0).await?;
        }
        self.give_up_vacancies();
        self.free_waiting().await?;
        free_unlisted(self).await?;
        self.free_stock_beyond(0).await?;
        self.flush_hotness().await?;
        crate::index::extents::recheck_bound(self).await?;
        self.client.tell_lookups(self.stats.lookups());
        self.client.endpoint.flush().await?;
        // A group with an unsettled place is left to a repairer, and so is what this client has not
        // repaired, and what an operation had in its hands that was dropped halfway.
        let is_left = self.groups.borrow().is_closing() || self.stock.has_postponed();
        let is_done = !is_left && !self.client.cut_off().has_happened() && !self.vacancies.are_in_use();
        match is_done {
            true => Ok(self.client.leave().await?),
            false => Ok(self.client.abandon().await?),
        }
    }

    /// Passes the outcome of an operation on. An unexpected word that was read because this client
    /// was shut out becomes that error.
    #[inline]
    async fn judged<V>(&self, outcome: Result<V, CacheError>) -> Result<V, CacheError> {
        if matches!(outcome, Err(CacheError::Damaged { .. } | CacheError::OutOfMemory)) {
            Box::pin(self.client.check_membership()).await?;
        }
        outcome
    }

    /// What an operation does first now and then. It publishes accesses to groups that are about to
    /// be evicted, and tends.
    #[cold]
    async fn make_round(&self) -> Result<(), CacheError> {
        self.client.begin_round()?;
        self.flush_hotness().await?;
        self.tend().await
    }

    /// What every operation that writes does first.
    #[inline]
    async fn begin(&self, op: &mut Operation) -> Result<(), CacheError> {
        if !self.client.try_begin(&mut op.entry) {
            Box::pin(self.client.begin(&mut op.entry)).await?;
        }
        if self.client.count_operation() {
            Box::pin(self.make_round()).await?;
        }
        Ok(())
    }
}

impl<E: Endpoint, T: Technique<E>> Drop for Forge<E, T> {
    /// Leaves the pool if the fabric needs no waiting. Over another fabric, call [`Forge::leave`]
    /// before. While its thread panics, it does not touch what it holds, which may be half done. A
    /// repairer takes that over.
    fn drop(&mut self) {
        self.client.leave_now(self.leave());
    }
}
