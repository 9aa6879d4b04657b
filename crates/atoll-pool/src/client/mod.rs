//! A client of a pool, independent of what it uses the pool for.
//!
//! | part | concept |
//! |---|---|
//! | member | its place in the registry, with lease and protections ([`registry`]) |
//! | clock | the pool's time ([`clock`](crate::clock)) |
//! | watch, times | when another client is suspected ([`repair`](crate::repair)) |
//! | retirement | memory that it returns to the host ([`retirement`](crate::retirement)) |
//! | tokens | numbers that no other write has |
//! | lost | why it can no longer be used |
//! | in flight | its running operations ([`in_flight`](crate::in_flight)) |
//! | cut off | whether an operation was dropped halfway ([`cut_off`](crate::cut_off)) |
//! | sharers | who is told before an object with copies changes ([`sharers`](crate::sharers)) |
//!
//! Invariants:
//! - A client that is lost begins no operation, acknowledges no change, and does not free its
//!   place: a verb of it may still land.
//! - Between two rounds a client makes at most [`Client::operations_per_round`] operations.

mod operations;
mod size;

use crate::chunks::{self, Descriptor, FreeCount, Wanted};
use crate::cut_off::CutOff;
use crate::gate::Gate;
use crate::in_flight::InFlight;
use crate::loan::Lender;
use crate::nodes;
use crate::registry::{self, Lookups, Member, Neighbours, Observer, Reach, Times, Watch};
use crate::retirement::Retirement;
use crate::sharers::{Ending, Sharers};
use crate::upkeep::{Repaired, Upkeep};
use crate::{Chunk, ChunkId, ChunkState, Incarnation, Pool, PoolClock, PoolError};
use atoll_fabric::purpose::Scope;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Endpoint, Purpose, VerbError};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Operations between two rounds, unless a tenant sets fewer.
pub const OPERATIONS_PER_ROUND: u32 = 256;
/// Write tokens of one block.
const TOKENS_AT_ONCE: u64 = 1 << 20;
/// Descriptors READ at once.
const DESCRIPTORS_AT_ONCE: u32 = 1024;

/// A client of a pool: one thread's endpoint and its place among the clients.
pub struct Client<E: Endpoint> {
    /// Its endpoint.
    pub endpoint: Gate<E>,
    /// The pool, as its process has it open.
    pub pool: Arc<Pool>,
    /// `None` for an auditor.
    member: Option<Member>,
    /// Whether it has freed its place.
    has_left: Cell<bool>,
    clock: RefCell<PoolClock>,
    tokens: Cell<(u64, u64)>,
    operations_to_round: Cell<u32>,
    operations_per_round: Cell<u32>,
    times: Cell<Times>,
    /// When it last checked the other clients.
    looked_ns: Cell<u64>,
    /// The places that it monitors.
    pub(crate) neighbours: RefCell<Neighbours>,
    /// What it has seen of the other clients' leases.
    pub(crate) watch: RefCell<Watch>,
    /// Lent while memory is returned to the host: one operation does that at a time.
    retirement: Lender<Retirement>,
    /// Chunks out of use, by its last READ of them.
    out_of_use: Cell<u64>,
    /// What it reclaimed since it joined, until a requested repair reports it.
    pub(crate) unreported: Cell<Repaired>,
    /// Whether a client has died since the last recount.
    counts_estimated: Cell<bool>,
    /// Places that were ever taken, by the last READ.
    members_ever: Cell<u32>,
    upkeep: Cell<Upkeep>,
    in_flight: InFlight,
    cut_off: CutOff,
    sharers: Sharers,
    /// One operation at a time makes a round.
    pub(crate) round: Lender<()>,
}

impl<E: Endpoint> Client<E> {
    /// Joins the pool.
    ///
    /// # Errors
    /// [`PoolError::Full`] if all places belong to living clients.
    pub async fn join(pool: &Arc<Pool>, endpoint: E) -> Result<Self, PoolError> {
        let member = Member::join(&endpoint, pool).await?;
        let client = Self::new(pool, endpoint, Some(member));
        client.looked_ns.set(client.endpoint.now_ns());
        client.adopt_nodes().await?;
        Ok(client)
    }

    /// An auditor: it only reads the pool, and has no place in it.
    pub fn auditor(pool: &Arc<Pool>, endpoint: E) -> Self {
        Self::new(pool, endpoint, None)
    }

    fn new(pool: &Arc<Pool>, endpoint: E, member: Option<Member>) -> Self {
        Self {
            endpoint: Gate::new(endpoint),
            pool: pool.clone(),
            member,
            has_left: Cell::new(false),
            clock: RefCell::default(),
            tokens: Cell::new((0, 0)),
            operations_to_round: Cell::new(OPERATIONS_PER_ROUND),
            operations_per_round: Cell::new(OPERATIONS_PER_ROUND),
            times: Cell::default(),
            looked_ns: Cell::new(0),
            neighbours: RefCell::default(),
            watch: RefCell::default(),
            retirement: Lender::new(Retirement::default()),
            out_of_use: Cell::new(0),
            unreported: Cell::default(),
            counts_estimated: Cell::new(false),
            members_ever: Cell::new(1),
            upkeep: Cell::default(),
            in_flight: InFlight::default(),
            cut_off: CutOff::default(),
            sharers: Sharers::default(),
            round: Lender::new(()),
        }
    }

    /// Its place among the clients.
    ///
    /// # Panics
    /// If it has left, or is an auditor.
    #[inline]
    pub fn member(&self) -> &Member {
        debug_assert!(!self.has_left.get(), "a client that has left does nothing any more");
        self.member.as_ref().expect("an auditor has no place")
    }

    /// The most clients that there were at a time, by the last READ.
    pub fn members_ever(&self) -> u32 {
        self.members_ever.get()
    }

    pub(crate) fn note_members(&self, count: u32) {
        self.members_ever.set(count.max(1));
    }

    /// Whether it has a place: it is no auditor, and has not left.
    pub fn is_member(&self) -> bool {
        self.member.is_some() && !self.has_left.get()
    }

    /// Its incarnation.
    ///
    /// # Panics
    /// If it has left, or is an auditor.
    #[inline]
    pub fn me(&self) -> Incarnation {
        self.member().incarnation
    }

    /// Sets how often this client checks other clients, and how long a client may stand still.
    pub fn set_times(&self, times: Times) {
        self.times.set(times);
    }

    /// How often it checks other clients, and how long a client may stand still.
    pub fn times(&self) -> Times {
        self.times.get()
    }

    /// Sets how many other clients this one monitors.
    pub fn set_reach(&self, reach: Reach) {
        self.neighbours.borrow_mut().set_reach(reach);
    }

    /// The counters of its upkeep.
    pub fn upkeep(&self) -> Upkeep {
        self.upkeep.get()
    }

    /// Adds to the counters of its upkeep.
    pub fn count_upkeep(&self, count: impl FnOnce(&mut Upkeep)) {
        let mut upkeep = self.upkeep.get();
        count(&mut upkeep);
        self.upkeep.set(upkeep);
    }

    /// This client, as the watcher of other clients.
    ///
    /// # Panics
    /// If it has left, or is an auditor.
    pub fn observer(&self) -> Observer<'_, Gate<E>> {
        Observer { endpoint: &self.endpoint, pool: &self.pool, me: self.me(), in_flight: &self.in_flight }
    }

    // Loss.

    /// Whether it can be used.
    ///
    /// # Errors
    /// The reason, once it is lost.
    pub fn usable(&self) -> Result<(), VerbError> {
        self.endpoint.pass()
    }

    /// The failure by which it was lost, if it is lost. The operation that met the failure returns
    /// it; all other operations return that the client was shut out.
    pub fn cause_of_loss(&self) -> Option<VerbError> {
        self.endpoint.cause()
    }

    /// Whether the fabric has failed it, or it was shut out.
    pub fn is_lost(&self) -> bool {
        self.endpoint.is_shut()
    }

    /// After most failures of the fabric a verb of this client may still land. What the client
    /// holds is then no longer its own: it is lost.
    #[cold]
    pub fn note_failure(&self, error: &VerbError) {
        if !error.took_no_effect() {
            self.endpoint.note(error);
            self.operations_to_round.set(1);
        }
    }

    /// Checks that this client was not shut out; if it was, it is lost. A client checks in every
    /// round, and after an unexpected word. It also checks before an operation whose copy of the
    /// pool's clock is too old. So no operation on one host begins more than a millisecond after
    /// the last check.
    pub async fn check_membership(&self) -> Result<(), VerbError> {
        if !self.is_member() {
            return Ok(());
        }
        let checked = self.member().check(&self.endpoint).await;
        checked.inspect_err(|error| self.note_failure(error))
    }

    // Leaving.

    /// Whether an operation was dropped halfway. Then this client is to be
    /// [abandoned](Self::abandon).
    pub fn cut_off(&self) -> &CutOff {
        &self.cut_off
    }

    /// Frees the place. The caller has released everything that this client owned.
    pub async fn leave(&self) -> Result<(), VerbError> {
        match self.last_member() {
            Some(member) => member.leave(&self.endpoint).await,
            None => Ok(()),
        }
    }

    /// Frees the place of a client that has not released what it owned: other clients repair it.
    pub async fn abandon(&self) -> Result<(), VerbError> {
        match self.last_member() {
            Some(member) => member.abandon(&self.endpoint).await,
            None => Ok(()),
        }
    }

    /// Forgets the place of a lost client: other clients repair it once it is shut out.
    pub fn forget(&self) {
        self.has_left.set(true);
    }

    /// Takes out its place, if it has one.
    fn last_member(&self) -> Option<&Member> {
        let member = self.member.as_ref().filter(|_| !self.has_left.get());
        self.has_left.set(true);
        member
    }

    /// Frees the place in a destructor, which cannot await, as [`Client::abandon`].
    pub fn abandon_now(&self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = std::pin::pin!(self.abandon()).as_mut().poll(&mut context);
    }

    /// Ends the client in a destructor, which cannot await: `leave` leaves the pool if the fabric
    /// needs no waiting. While the thread panics, what the client holds may be half done, so it
    /// frees only its place.
    pub fn leave_now<T>(&self, leave: impl Future<Output = T>) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if !std::thread::panicking() {
            let _ = std::pin::pin!(leave).as_mut().poll(&mut context);
        } else {
            self.abandon_now();
        }
    }

    // Words of the pool.

    /// The pool's time. `now_ns` is the endpoint's monotone clock.
    #[inline]
    pub async fn pool_ms(&self, now_ns: u64) -> Result<u64, VerbError> {
        let running_ms = self.clock.borrow().running_ms(now_ns);
        match running_ms {
            Some(ms) => Ok(ms),
            // Boxed, as all rare paths are: its state would make every operation's larger.
            None => Box::pin(self.look_at_clock(now_ns)).await,
        }
    }

    /// Whether a time of the pool's clock has come. Where memory is far, most often a look at the
    /// clock is not needed for a time that is more than a second ahead.
    #[inline]
    pub async fn has_come(&self, time_ms: u64, now_ns: u64) -> Result<bool, VerbError> {
        if !self.endpoint.is_near() && self.clock.borrow().is_far_ahead(&self.endpoint, time_ms, now_ns) {
            return Ok(false);
        }
        Ok(time_ms <= self.pool_ms(now_ns).await?)
    }

    /// The pool's time for what is to expire after a while. Where memory is far, it takes a look
    /// less often than [`Client::pool_ms`].
    #[inline]
    pub async fn estimated_ms(&self, now_ns: u64) -> Result<u64, VerbError> {
        if self.endpoint.is_near() {
            return self.pool_ms(now_ns).await;
        }
        let estimated_ms = self.clock.borrow().estimated_ms(&self.endpoint, now_ns);
        match estimated_ms {
            Some(ms) => Ok(ms),
            None => Box::pin(self.look_at_clock(now_ns)).await,
        }
    }

    #[cold]
    async fn look_at_clock(&self, now_ns: u64) -> Result<u64, VerbError> {
        if self.endpoint.is_near() {
            // Over a network the next verb shows whether this client is shut out.
            self.check_membership().await?;
        }
        let _scope = Scope::new(&self.endpoint, Purpose::Upkeep);
        // A copy, not a borrow across the READ. Of two concurrent READs the later copy stands.
        let mut clock = self.clock.borrow().clone();
        let looked = clock.now_ms(&self.endpoint, &self.pool.layout, now_ns).await;
        let refused = clock.outliers();
        *self.clock.borrow_mut() = clock;
        self.count_upkeep(|upkeep| upkeep.clocks_refused = refused);
        looked
    }

    /// Microseconds of the pool's clock by the last READ: for uses that need no exact time.
    #[inline]
    pub fn about_us(&self) -> u64 {
        self.clock.borrow().about_us(self.endpoint.now_ns())
    }

    /// A token that no other write has. The pool hands tokens out in blocks.
    #[inline]
    pub async fn next_token(&self) -> Result<u64, VerbError> {
        let (next, end) = self.tokens.get();
        if next < end {
            self.tokens.set((next + 1, end));
            return Ok(next);
        }
        let mut batch = Batch::new();
        let block = batch.fetch_and_add(self.pool.layout.tokens(), TOKENS_AT_ONCE);
        self.endpoint.post(&mut batch).await?;
        let first = batch.word(block).saturating_add(1);
        assert!(first > 0, "zero stands for no token");
        self.tokens.set((first.saturating_add(1), first.saturating_add(TOKENS_AT_ONCE)));
        Ok(first)
    }

    /// Counts objects added (or, if negative, removed) by this client.
    #[inline]
    pub async fn count_objects(&self, by: i64) -> Result<(), VerbError> {
        self.member().count_objects(&self.endpoint, by).await
    }

    /// Tells how many lookups of this client have found their key, and how many have not, without
    /// waiting.
    pub fn tell_lookups(&self, lookups: Lookups) {
        self.member().tell_lookups(&self.endpoint, lookups);
    }

    /// Ends the copies that other processes, or this one, have of objects with this hash: see
    /// [`sharers`](crate::sharers). The caller has forbidden new ones.
    ///
    /// # Errors
    /// A verb's error: then copies may be left, and the object must not change.
    pub async fn end_copies(&self, hash: u64) -> Result<(), VerbError> {
        self.usable()?;
        // Not through the gate: that another process has ended is no failure of this client.
        let ended = self.sharers.end(&*self.endpoint, &self.pool.layout, Ending::Of(hash)).await;
        ended.inspect_err(|error| self.note_failure(error))
    }

    /// Looks for memory nodes that this process does not know; returns whether it found any.
    pub async fn learn_nodes(&self) -> Result<bool, PoolError> {
        if !self.pool.layout.may_grow() {
            return Ok(false);
        }
        // Boxed, as all rare paths are: its state would make every operation's larger.
        Box::pin(nodes::learn(&self.endpoint, &self.pool)).await
    }

    /// The descriptors of all chunks, including those of new memory nodes.
    pub async fn all_descriptors(&self) -> Result<Vec<Descriptor>, PoolError> {
        self.learn_nodes().await?;
        let all = self.pool.layout.chunks();
        let mut descriptors = Vec::with_capacity(all as usize);
        while (descriptors.len() as u32) < all {
            let first = ChunkId(descriptors.len() as u32);
            descriptors
                .extend(chunks::descriptors(&self.endpoint, &self.pool.layout, first, DESCRIPTORS_AT_ONCE).await?);
        }
        Ok(descriptors)
    }

    /// Allocates a free chunk, which this client owns as Open: see [`chunks::allocate`]. Returns
    /// its number and generation.
    pub async fn allocate(&self, count: FreeCount, kept: u64) -> Result<Option<(ChunkId, u32)>, VerbError> {
        Ok(chunks::allocate(&self.endpoint, &self.pool.layout, self.wanted(1, count, kept)).await?.pop())
    }

    /// The same of several chunks, `most` at most. Where memory is near it is one: there a batch
    /// saves no time.
    pub fn allocate_several(
        &self,
        most: usize,
        count: FreeCount,
        kept: u64,
    ) -> impl Future<Output = Result<Vec<(ChunkId, u32)>, VerbError>> {
        let at_once = if self.endpoint.is_near() { 1 } else { self.batch_verbs_max() - 1 };
        chunks::allocate(&self.endpoint, &self.pool.layout, self.wanted(most.min(at_once), count, kept))
    }

    /// Verbs of a batch, at most.
    pub fn batch_verbs_max(&self) -> usize {
        self.endpoint.limits().batch_verbs_max.min(BATCH_VERBS_MAX)
    }

    fn wanted(&self, most: usize, count: FreeCount, kept: u64) -> Wanted {
        Wanted { most, owner: self.me(), state: ChunkState::Open, count, kept, absent: self.endpoint.absent() }
    }

    /// Allocates a chunk that was free in this generation, as Open: see
    /// [`chunks::allocate_known`]. Returns whether it still was free.
    pub fn allocate_known(&self, known: (ChunkId, u32)) -> impl Future<Output = Result<bool, VerbError>> {
        chunks::allocate_known(&self.endpoint, &self.pool.layout, self.wanted(1, FreeCount::Trusted, 0), known)
    }

    /// Free chunks that have memory: see [`chunks::usable_free_chunks`].
    pub fn usable_free_chunks(&self) -> impl Future<Output = Result<u64, VerbError>> {
        chunks::usable_free_chunks(&self.endpoint, &self.pool.layout, self.endpoint.absent())
    }

    /// Frees a chunk that this client owns as `owned`. If another client has changed the word, this
    /// client is shut out.
    pub async fn free_own(&self, chunk: ChunkId, owned: Chunk) -> Result<(), VerbError> {
        debug_assert_eq!(owned, Chunk::owned(owned.state, self.me(), owned.generation), "a client frees its own");
        if !chunks::free(&self.endpoint, &self.pool.layout, chunk, owned).await? {
            self.check_membership().await?;
        }
        Ok(())
    }

    /// Frees chunks that this client owns as Open, by their numbers and generations: as many in one
    /// batch as it has verbs. If another client has changed a word, this client is shut out.
    pub async fn free_open(&self, open: &[(ChunkId, u32)]) -> Result<(), VerbError> {
        for some in open.chunks(self.batch_verbs_max()) {
            let owned = |generation| Chunk::owned(ChunkState::Open, self.me(), generation);
            let some: Vec<_> = some.iter().map(|(chunk, generation)| (*chunk, owned(*generation))).collect();
            if chunks::free_together(&self.endpoint, &self.pool.layout, &some).await?.contains(&false) {
                self.check_membership().await?;
            }
        }
        Ok(())
    }

    /// Which of these chunks must not be reused yet: operations of clients, this one included,
    /// protect them.
    pub async fn protected_among(&self, chunks: &[ChunkId]) -> Result<Vec<ChunkId>, VerbError> {
        let me = (self.member(), self.members_ever());
        let (protected, members) = registry::protected_among(&self.endpoint, &self.pool, me, chunks).await?;
        self.note_members(members);
        Ok(protected)
    }

    /// Clients shut out so far, and how many of those the last recount has seen.
    pub async fn deaths(&self) -> Result<(u64, u64), VerbError> {
        let mut batch = Batch::new();
        let deaths = batch.read_word(self.pool.layout.deaths());
        let counted = batch.read_word(self.pool.layout.deaths_counted());
        self.endpoint.post(&mut batch).await?;
        let (deaths, counted) = (batch.word(deaths), batch.word(counted));
        self.counts_estimated.set(deaths != counted);
        Ok((deaths, counted))
    }

    /// Whether a client has died since the last recount, by the last READ. The pool's counts may
    /// then be wrong by a few.
    #[inline]
    pub fn are_counts_estimated(&self) -> bool {
        self.counts_estimated.get()
    }

    pub(crate) fn note_counts_exact(&self) {
        self.counts_estimated.set(false);
    }
}
