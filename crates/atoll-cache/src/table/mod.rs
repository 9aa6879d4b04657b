//! The table of objects: the common base of all engines that evict objects one by one.
//!
//! | part | what it is |
//! |---|---|
//! | the index | buckets whose slots point to blocks, with access information beside the slots |
//! | a block | 64 bytes or more, cut from a chunk by size classes |
//! | making room | a client takes the block of an object that it evicts |
//! | the engine | its [`Replacement`] chooses the object to evict |
//!
//! After Shen et al., "Ditto: An Elastic and Adaptive Memory-Disaggregated Caching System" (SOSP
//! 2023), section 4.2.
//!
//! | module | concept |
//! |---|---|
//! | [`settings`] | what clients of a pool agree on |
//! | `sizing` | how large a pool is for so many objects |
//! | [`layout`] | where the words are |
//! | [`slot`] | the index entry: one word |
//! | [`access`] | how the object of a slot is used |
//! | [`class`] | size classes of blocks |
//! | [`replacement`] | what an engine adds |
//! | `pool` | the pool, as one process has it open |
//! | `member` | how a client joins, tends and leaves |
//! | `operations` | what every operation does first and last |
//! | `held`, `stock` | the blocks that a client holds |
//! | [`cell`] | the words that name those blocks |
//! | `taking` | how a client allocates a block |
//! | `release` | how a client releases what it holds |
//! | `fresh` | chunks that a client owns and does not cut |
//! | `slab` | chunks that a client cuts into blocks |
//! | `block` | the layout of a block |
//! | `lookup` | the way of a GET; of many keys at once, `many` |
//! | `change` | the way of every change, with `search` (find the object), `insert` (a new key) and `unlink` (remove it) |
//! | `room` | how a client makes room: samples, victims |
//! | `reclaim` | chunks that were not cut to their end |
//! | `dead` | how much of the memory is dead |
//! | `drain` | how a whole chunk is emptied |
//! | [`gather`] | how live objects are moved together instead of evicted |
//! | `publish` | what a client publishes of objects beside their slots |
//! | `expiry` | how expired objects are removed without a request |
//! | `nodes` | several memory nodes |
//! | `pooled` | what every engine in a pool can do |
//! | [`repair`] | how the pool regains what a dead client held, with `settle` (its cells) and `suspicion` (living clients' cells) |
//! | [`verify`] | every invariant of a quiet pool |
//! | [`holes`] | the mistakes of the prototype, switchable in tests |
//!
//! A client is one [`Objects`]: one thread's endpoint, its blocks, and its replacement. Clients of
//! one process share a [`TablePool`].

mod absent;
pub mod access;
mod block;
pub mod cell;
mod change;
pub mod class;
mod dead;
mod drain;
mod expiry;
mod fresh;
pub mod gather;
mod held;
pub mod holes;
mod index;
mod insert;
pub mod layout;
mod lookup;
mod many;
mod member;
mod nodes;
mod operation;
mod operations;
mod pool;
mod pooled;
mod publish;
mod reclaim;
mod release;
pub mod repair;
pub mod replacement;
mod resize;
mod room;
mod sample;
mod search;
pub mod settings;
mod settle;
pub mod shelf;
mod sizing;
mod slab;
pub mod slot;
mod stock;
mod suspicion;
mod taking;
mod unlink;
pub mod verify;

pub use holes::{Hole, OpenHoles};
pub use pool::TablePool;
pub use replacement::Replacement;
pub use settings::{TableOptions, TableSettings};

use crate::at_once::AtOnce;
use crate::extent::LatelyBound;
use crate::extent::unlisted::Abandoned;
use crate::limit::Limit;
use crate::operation::Idle;
use crate::removals::Removals;
use crate::spares::Spares;
use crate::stats::Counters;
use crate::sweep::Budget;
use arrayvec::ArrayVec;
use atoll_fabric::Endpoint;
use atoll_pool::Client;
use atoll_pool::loan::{Lender, Loan};
use drain::Drains;
use fresh::FreshChunks;
use operation::Notes;
use replacement::SAMPLE_BUCKETS_MAX;
use room::MeanShare;
use sample::History;
use slab::Slabs;
use slot::Slot;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use stock::Stock;

/// Blocks of a class that a client keeps between operations.
const STOCK_KEPT: usize = 2;

/// A client without its replacement.
pub struct Core<E: Endpoint> {
    /// The pool, as this client's process has it open.
    pub shared: Arc<TablePool>,
    /// The client of the pool.
    pub client: Client<E>,
    stock: RefCell<Stock>,
    /// Its estimate of dead blocks.
    dead: RefCell<dead::Dead>,
    /// The chunks that this client cuts into blocks.
    slabs: RefCell<Slabs>,
    /// The chunks that it owns in state Open and does not cut.
    fresh: FreshChunks,
    /// The chunks that it empties.
    drains: Drains,
    /// Operations that are not under way.
    operations: Idle<Slot, Notes>,
    limit: Limit,
    spares: Spares,
    at_once: AtOnce,
    /// Its budget for looking for expired objects.
    sweep: RefCell<Budget>,
    /// Cells of dead clients that it could not settle yet, since cells of living clients name the
    /// same blocks.
    suspicions: RefCell<Vec<suspicion::Suspicion>>,
    lately_bound: RefCell<LatelyBound>,
    abandoned: Arc<Abandoned>,
    history: History,
    /// The buckets that the next sample looks at, and how many were to be drawn. They are drawn
    /// early where they can be prefetched.
    next_sample: Cell<Option<(usize, ArrayVec<u32, SAMPLE_BUCKETS_MAX>)>>,
    /// The victims that a replacement with queues chooses until the next sample, and how many it
    /// chose before the last.
    samples_left_out: Cell<(u32, u32)>,
    mean_share: MeanShare,
    /// Whether this client is leaving, and releases what it holds.
    is_leaving_pool: Cell<bool>,
    /// Its counters.
    pub stats: Counters,
    removals: Removals,
    holes: OpenHoles,
}

/// A client of a pool.
pub struct Objects<E: Endpoint, R: Replacement<E>> {
    core: Core<E>,
    replacement: replacement::Shared<E, R>,
    /// Lent to the operation that makes room, tends or leaves, one at a time. Other operations
    /// continue meanwhile with the blocks that they have drawn.
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
            fresh: FreshChunks::default(),
            operations: Idle::default(),
            limit: Limit::default(),
            spares: Spares::default(),
            at_once: AtOnce::default(),
            drains: Drains::default(),
            suspicions: RefCell::default(),
            lately_bound: RefCell::default(),
            abandoned: Arc::default(),
            history: History::default(),
            next_sample: Cell::default(),
            samples_left_out: Cell::default(),
            mean_share: MeanShare::default(),
            is_leaving_pool: Cell::default(),
            stats: Counters::default(),
            removals: Removals::default(),
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

    /// Opens a hole, to show its effect in a simulation.
    #[cfg(feature = "holes")]
    pub fn open_hole(&mut self, hole: Hole) {
        self.core.holes = OpenHoles::only(hole);
    }

    /// The pool, as this process has it open.
    pub fn pool(&self) -> &Arc<TablePool> {
        &self.core.shared
    }

    /// The replacement, while no operation is under way; `None` otherwise.
    pub fn replacement(&self) -> Option<Loan<'_, Box<R>>> {
        self.replacement.idle()
    }
}
