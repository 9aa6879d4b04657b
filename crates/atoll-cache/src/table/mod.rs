//! The table of objects: what all engines have in common that keep every object by itself.
//!
//! An index of buckets whose slots point to blocks of 64 bytes and more, cut from chunks by size
//! classes, with access information beside the slots; every operation of a cache on it; room made
//! by taking the block of an object that is to go. Which one goes is the engine's: its
//! [`Replacement`]. After Shen et al., "Ditto: An Elastic and Adaptive Memory-Disaggregated Caching
//! System" (SOSP 2023), section 4.2.
//!
//! | module | concept |
//! |---|---|
//! | [`settings`] | what clients of a pool agree on |
//! | [`layout`] | where the words are |
//! | [`slot`] | the index entry: one word |
//! | [`access`] | how the object of a slot is used |
//! | [`class`] | size classes of blocks |
//! | [`replacement`] | what an engine adds |
//! | `operations` | what every operation does first and last |
//! | `stock` | blocks in a client's hands |
//! | `slab` | chunks that a client cuts into blocks |
//! | `block` | what lies in a block |
//! | `lookup` | the way of a GET |
//! | `change` | the way of every change, by way of `search` (find the object), `insert` (a new key) and `unlink` (how an object is removed) |
//! | `room` | how room is made: samples, victims |
//! | `adopt` | what becomes of a chunk that was not cut to its end |
//! | `dead` | how much of the memory is dead |
//! | `drain` | how a whole chunk is emptied |
//! | [`gather`] | how what lives is gathered instead of evicted |
//! | `expiry` | how expired objects go without a request |
//! | `extent` | objects larger than half a chunk |
//! | `walk` | scan, flush, random key |
//! | `nodes` | several memory nodes |
//! | `pooled` | what every engine in a pool can do |
//! | [`repair`] | what a client that died held comes back |
//! | [`verify`] | every invariant of a quiet pool |
//! | [`holes`] | what the prototype gets wrong, switchable in tests |
//!
//! A client is one [`Objects`]: one thread's endpoint, its blocks, and its replacement. Clients of
//! one process share an [`TablePool`].

pub mod access;
mod adopt;
mod block;
mod change;
pub mod class;
mod dead;
mod drain;
mod expiry;
mod extent;
pub mod gather;
mod giving;
pub mod holes;
mod insert;
pub mod layout;
mod lookup;
mod nodes;
mod operation;
mod operations;
mod pooled;
pub mod repair;
pub mod replacement;
mod resize;
mod room;
mod sample;
mod search;
pub mod settings;
pub mod shelf;
mod slab;
pub mod slot;
pub mod stock;
mod tell;
mod unlink;
pub mod verify;
mod walk;

pub use holes::{Hole, OpenHoles};
pub use replacement::Replacement;
pub use settings::{TableOptions, TableSettings};

use crate::CacheError;
use crate::at_once::AtOnce;
use crate::audit::Audit;
use crate::extent::{LatelyBound, recheck_bound};
use crate::operation::Idle;
use crate::pooled::EnginePool;
use crate::record::Hasher;
use crate::spares::Spares;
use crate::stats::Counters;
use crate::sweep::Budget;
use atoll_fabric::{Address, Endpoint, Purpose};
use atoll_pool::loan::Lender;
use atoll_pool::loan::Loan;
use atoll_pool::{Client, EngineArea, Layout, Pool, PoolError, PoolSettings, Repaired};
use drain::Drains;
use layout::TableLayout;
use operation::Notes;
use sample::History;
use slab::Slabs;
use slot::Slot;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use stock::Stock;

/// A pool as one process has it open.
pub struct TablePool {
    pub(crate) pool: Arc<Pool>,
    pub(crate) settings: TableSettings,
    pub(crate) layout: TableLayout,
    hasher: Hasher,
}

impl TablePool {
    /// The pool's settings and layout.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The engine's settings.
    pub fn settings(&self) -> &TableSettings {
        &self.settings
    }

    /// The engine's layout.
    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// The longest value that fits: a quarter of the heap, so that a new value fits beside the old
    /// one and what clients hold.
    pub fn value_bytes_max(&self) -> usize {
        let layout = &self.pool.layout;
        let listed = extent::body_bytes_max(layout.chunk_bytes);
        let quarter = usize::try_from((layout.heap_bytes() / 4).min(listed)).unwrap_or(usize::MAX);
        quarter.saturating_sub(crate::KEY_BYTES_MAX.min(quarter / 4)).min(crate::VALUE_BYTES_MAX)
    }

    /// Objects that the index is made for: half of its slots.
    pub fn objects_expected(&self) -> u64 {
        let limit = self.pool.settings.objects_max;
        if limit > 0 { limit } else { u64::from(self.settings.buckets) * layout::BUCKET_SLOTS as u64 / 2 }
    }
}

impl EnginePool for TablePool {
    fn engine_area(settings: &PoolSettings) -> EngineArea {
        layout::engine_area(settings)
    }

    fn check(settings: &PoolSettings) -> Result<(), PoolError> {
        TableSettings::decode(settings)?;
        check_heap(&Layout::plan(settings, layout::engine_area(settings))?)
    }

    fn opened(pool: Pool) -> Result<Arc<Self>, PoolError> {
        let settings = TableSettings::decode(&pool.settings)?;
        let layout = TableLayout::new(&pool, &settings)?;
        check_heap(&pool.layout)?;
        let hasher = Hasher::new(pool.settings.hash_seed);
        Ok(Arc::new(Self { pool: Arc::new(pool), settings, layout, hasher }))
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn describe_own(&self, at: Address) -> Option<String> {
        self.layout.describe(at)
    }

    fn describe_settings(&self) -> Vec<(&'static str, String)> {
        let (pool, objects) = (&self.pool.settings, &self.settings);
        vec![
            ("capacity_bytes", self.pool.capacity_bytes().to_string()),
            ("growth_bytes_max", pool.growth_bytes_max.to_string()),
            ("nodes", self.pool.layout.nodes_known().to_string()),
            ("nodes_max", pool.nodes_max.to_string()),
            ("chunk_bytes", pool.chunk_bytes.to_string()),
            ("chunks", self.pool.layout.chunks().to_string()),
            ("clients_max", pool.clients_max.to_string()),
            ("objects_max", pool.objects_max.to_string()),
            ("index_slots", (u64::from(objects.buckets) * layout::BUCKET_SLOTS as u64).to_string()),
            ("extension_bytes", objects.extension_bytes.to_string()),
        ]
    }
}

/// A slot has so many bits for the place of its block.
fn check_heap(layout: &Layout) -> Result<(), PoolError> {
    let found = layout.heap_bytes_max();
    if found <= slot::HEAP_BYTES_MAX {
        return Ok(());
    }
    let wanted = format!("at most {} of them for this engine, growth included, or engine forge", slot::HEAP_BYTES_MAX);
    Err(PoolError::Setting { what: "the capacity in bytes without the metadata", found, wanted })
}

/// Blocks of a class that a client keeps between operations.
const STOCK_KEPT: usize = 2;

/// What a client has, but for its replacement.
pub struct Core<E: Endpoint> {
    /// The pool, as this client's process has it open.
    pub shared: Arc<TablePool>,
    /// The client of the pool.
    pub client: Client<E>,
    stock: RefCell<Stock>,
    /// What it knows of dead blocks.
    dead: RefCell<dead::Dead>,
    /// The chunks that this client cuts into blocks.
    slabs: RefCell<Slabs>,
    /// Chunks that this client owns in state Open and has not begun to cut.
    chunks: RefCell<Vec<slab::FreshChunk>>,
    /// Chunks that this client owns in state Open and will not cut, with their states.
    orphans: RefCell<Vec<(atoll_pool::ChunkId, atoll_pool::Chunk)>>,
    /// The chunks that it empties.
    drains: Drains,
    /// Operations that are not under way.
    operations: Idle<Slot, Notes>,
    /// Objects that operations under way have counted against the limit and not yet inserted.
    reserved: Cell<u64>,
    spares: Spares,
    at_once: AtOnce,
    /// What it may spend on looking for expired objects.
    sweep: RefCell<Budget>,
    /// Cells of the dead that it could not settle yet, since cells of the living name the same
    /// blocks.
    doubts: RefCell<Vec<repair::Doubt>>,
    lately_bound: RefCell<LatelyBound>,
    /// Whether it has counted everything anew, and has not looked at the limit of objects since.
    recounted: Cell<bool>,
    history: History,
    /// Victims that a replacement with queues is asked for before the next sample, and how many it
    /// was asked for before the last.
    samples_left_out: Cell<(u32, u32)>,
    /// What part of a chunk an object has in the mean, of those that this client saw last; 0 before
    /// the first.
    mean_share: Cell<u64>,
    /// Searches for a free chunk that are left out, since the last one found none.
    searches_left_out: Cell<u32>,
    /// Whether this client puts back what it holds.
    is_leaving_pool: Cell<bool>,
    /// What it counts.
    pub stats: Counters,
    holes: OpenHoles,
}

/// A client of a pool.
pub struct Objects<E: Endpoint, R: Replacement<E>> {
    core: Core<E>,
    replacement: replacement::Shared<R>,
    /// Lent to the operation that makes room, tends or leaves: one at a time does. The others go on
    /// meanwhile, with what they have drawn.
    making_room: Lender<()>,
}

impl<E: Endpoint> Core<E> {
    fn new(shared: &Arc<TablePool>, client: Client<E>) -> Self {
        Self {
            sweep: RefCell::new(Budget::new(client.endpoint.now_ns())),
            shared: shared.clone(),
            client,
            stock: RefCell::new(Stock::new()),
            dead: RefCell::default(),
            slabs: RefCell::new(Slabs::new(shared.pool.layout.chunk_bytes)),
            chunks: RefCell::default(),
            orphans: RefCell::default(),
            operations: Idle::default(),
            reserved: Cell::default(),
            spares: Spares::default(),
            at_once: AtOnce::default(),
            drains: Drains::default(),
            doubts: RefCell::default(),
            lately_bound: RefCell::default(),
            recounted: Cell::default(),
            history: History::default(),
            samples_left_out: Cell::default(),
            mean_share: Cell::default(),
            searches_left_out: Cell::default(),
            is_leaving_pool: Cell::default(),
            stats: Counters::default(),
            holes: OpenHoles::NONE,
        }
    }

    #[inline(always)]
    fn is_open(&self, hole: Hole) -> bool {
        self.holes.has(hole)
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    fn new(shared: &Arc<TablePool>, client: Client<E>, replacement: R) -> Self {
        let replacement = replacement::Shared::new(replacement);
        Self { core: Core::new(shared, client), replacement, making_room: Lender::new(()) }
    }

    /// Joins the pool as a new client. That the pool is for this engine is the caller's to check.
    pub async fn join(shared: &Arc<TablePool>, endpoint: E) -> Result<Self, PoolError> {
        let replacement = R::new(shared, &endpoint)?;
        let client = Client::join(&shared.pool, endpoint).await?;
        let objects = Self::new(shared, client, replacement);
        let joined = objects.settle_in().await.map_err(|error| match error {
            CacheError::Verb(error) => PoolError::Verb(error),
            _ => PoolError::Damaged { what: "what a client that died left behind" },
        });
        joined.map(|()| objects)
    }

    async fn settle_in(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        let begun = self.enter(op).await;
        self.noted(begun)?;
        let _turn = self.turn_to_make_room(op).await?;
        let settled = self.look_for_what_is_left().await;
        self.end(op, settled).await
    }

    async fn look_for_what_is_left(&self) -> Result<(), CacheError> {
        let core = &self.core;
        let now_ns = core.client.endpoint.now_ns();
        core.client.pool_ms(now_ns).await?;
        core.look_for_drains().await?;
        core.inherit_cells().await?;
        atoll_pool::repair::settle_in(core).await?;
        Box::pin(self.hold_limit()).await
    }

    /// Evicts what is too much once this client has counted everything anew: those that died had
    /// not counted all of it.
    async fn hold_limit(&self) -> Result<(), CacheError> {
        if self.core.recounted.take() {
            self.evict_to_limit().await?;
        }
        Ok(())
    }

    /// One that only looks at the pool, without a place in it: for [`Objects::verify`].
    pub fn auditor(shared: &Arc<TablePool>, endpoint: E) -> Result<Self, PoolError> {
        let replacement = R::new(shared, &endpoint)?;
        let client = Client::auditor(&shared.pool, endpoint);
        Ok(Self::new(shared, client, replacement))
    }

    /// Opens a hole, to show in a simulation what it does.
    #[cfg(feature = "holes")]
    pub fn open_hole(&mut self, hole: Hole) {
        self.core.holes = OpenHoles::only(hole);
    }

    /// The pool, as this process has it open.
    pub fn pool(&self) -> &Arc<TablePool> {
        &self.core.shared
    }

    /// Which objects go, while no operation is under way; `None` if one is.
    pub fn replacement(&self) -> Option<Loan<'_, Box<R>>> {
        self.replacement.idle()
    }

    /// Puts everything that this client holds back into the pool and gives up its place.
    pub async fn leave(&self) -> Result<(), CacheError> {
        if !self.core.client.is_member() {
            return Ok(());
        }
        if self.core.client.is_lost() {
            self.core.client.forget();
            return Ok(());
        }
        let left = self.put_back_and_leave().await;
        self.noted(left)
    }

    async fn put_back_and_leave(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.enter(op).await?;
        let _turn = self.turn_to_make_room(op).await?;
        let _closed = self.core.client.in_flight().closed().await;
        self.replacement.round(&self.core).await?;
        let mut is_done = self.core.put_everything_back().await?;
        if self.core.recounted.get() {
            Box::pin(self.hold_limit()).await?;
            is_done = self.core.put_everything_back().await?;
        }
        recheck_bound(&self.core).await?;
        self.core.tell_dead();
        self.core.client.endpoint.flush().await?;
        match is_done {
            true => Ok(self.core.client.leave().await?),
            false => Ok(self.core.client.abandon().await?),
        }
    }

    /// The same outcome. After a failure of the fabric this client does nothing any more, and does
    /// not leave as if it had put everything back.
    fn noted<T>(&self, outcome: Result<T, CacheError>) -> Result<T, CacheError> {
        if let Err(CacheError::Verb(error)) = &outcome {
            self.core.client.note_failure(error);
        }
        outcome
    }

    /// Renews this client's lease, repairs what dead clients held, and removes expired objects.
    /// Operations do this by themselves. An idle client should call it every
    /// [`Times::look_ns`](atoll_pool::registry::Times).
    pub async fn tend(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        let begun = self.enter(op).await;
        self.noted(begun)?;
        let _turn = self.turn_to_make_room(op).await?;
        let tended = self.tend_and_hold_limit().await;
        self.end(op, tended).await
    }

    async fn tend_and_hold_limit(&self) -> Result<(), CacheError> {
        let before = self.core.client.endpoint.purpose(Purpose::Upkeep);
        let tended = self.tend_first().await;
        self.core.client.endpoint.purpose(before);
        tended
    }

    async fn tend_first(&self) -> Result<(), CacheError> {
        atoll_pool::repair::round(&self.core).await?;
        Box::pin(self.hold_limit()).await?;
        Box::pin(self.sweep_expired()).await
    }

    /// Looks after everybody now, as [`tend`](Self::tend) does when somebody stands still.
    pub async fn repair(&self) -> Result<Repaired, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.enter(op).await?;
        let _turn = self.turn_to_make_room(op).await?;
        let repaired = atoll_pool::repair::repair(&self.core).await?;
        Box::pin(self.hold_limit()).await?;
        self.end(op, Ok(repaired)).await
    }

    /// Walks the pool. Nobody else may use it meanwhile, or what is under way is reported as
    /// faults.
    pub async fn verify(&self) -> Result<Audit, CacheError> {
        let mut audit = self.core.audit().await?;
        self.replacement.verify(&self.core, &mut audit.faults).await?;
        Ok(audit)
    }
}

impl<E: Endpoint, R: Replacement<E>> Drop for Objects<E, R> {
    /// Leaves the pool if the fabric needs no waiting; over one that does, call [`Objects::leave`]
    /// before. In a thread that panics it does not touch what it holds, which may be half done, and
    /// leaves that to a repair.
    fn drop(&mut self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if !std::thread::panicking() {
            let _ = std::pin::pin!(self.leave()).as_mut().poll(&mut context);
        } else {
            self.core.client.abandon_now();
        }
    }
}
