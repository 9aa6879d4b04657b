//! A client of a pool: what it is and does, whatever it uses the pool for.
//!
//! | part | concept |
//! |---|---|
//! | member | its place in the registry, with lease and protections ([`registry`]) |
//! | clock | the pool's time ([`clock`](crate::clock)) |
//! | watch, times | when another client is suspected ([`repair`](crate::repair)) |
//! | retirement | memory that it gives back to the host ([`retirement`]) |
//! | tokens | numbers that no other write has |
//! | lost | why it is of no use any more |
//! | in flight | its operations that are under way ([`in_flight`](crate::in_flight)) |
//!
//! Invariants:
//! - A client that is lost begins nothing more, acknowledges no change, and does not give up its
//!   place: a verb of it may still land.
//! - Between two rounds a client makes at most [`Client::operations_per_round`] operations.

use crate::chunks::{self, Descriptor};
use crate::gate::Gate;
use crate::in_flight::{Entry, InFlight};
use crate::loan::{Lender, Loan};
use crate::nodes::{self, Claim};
use crate::registry::{self, Member, Neighbours, Reach, Times, Watch};
use crate::repair::Repaired;
use crate::retirement::{self, Retirement};
use crate::{Chunk, ChunkId, Incarnation, Pool, PoolClock, PoolError};
use atoll_fabric::purpose::Scope;
use atoll_fabric::{Batch, Endpoint, Purpose, VerbError};
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
    /// Its way to the pool's memory.
    pub endpoint: Gate<E>,
    /// The pool, as its process has it open.
    pub pool: Arc<Pool>,
    /// `None` for an auditor.
    member: Option<Member>,
    /// Whether it has given up its place.
    has_left: Cell<bool>,
    clock: RefCell<PoolClock>,
    tokens: Cell<(u64, u64)>,
    operations_to_round: Cell<u32>,
    operations_per_round: Cell<u32>,
    times: Cell<Times>,
    /// When it last looked after the other clients.
    looked_ns: Cell<u64>,
    /// The places that it looks after.
    pub(crate) neighbours: RefCell<Neighbours>,
    /// What it has seen of the other clients' leases.
    pub(crate) watch: RefCell<Watch>,
    /// Lent while memory is given back: one operation does that at a time.
    retirement: Lender<Retirement>,
    /// Chunks out of use, by its last look.
    out_of_use: Cell<u64>,
    /// What it reclaimed when it joined, until a repair that was asked for reports it.
    pub(crate) unreported: Cell<Repaired>,
    /// Whether a client has died since everything was counted.
    counts_estimated: Cell<bool>,
    upkeep: Cell<Upkeep>,
    in_flight: InFlight,
    /// One operation at a time makes a round.
    pub(crate) round: Lender<()>,
}

/// What a client counts of its upkeep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Clocks of its own that it refused: its host's wall clock came to be a second off the pool's
    /// time, or more.
    pub clocks_refused: u64,
    /// Clients that it found dead and shut out.
    pub clients_fenced: u64,
    /// Times that it looked for what dead clients had held.
    pub repairs: u64,
    /// Chunks that it got back from dead clients.
    pub chunks_repaired: u64,
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
        Ok(client)
    }

    /// One that only looks at the pool, without a place in it.
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
            upkeep: Cell::default(),
            in_flight: InFlight::default(),
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

    /// Whether it has a place: it is no auditor, and has not left.
    pub fn is_member(&self) -> bool {
        self.member.is_some() && !self.has_left.get()
    }

    /// Which incarnation it is.
    ///
    /// # Panics
    /// If it has left, or is an auditor.
    #[inline]
    pub fn me(&self) -> Incarnation {
        self.member().incarnation
    }

    /// Sets how often this client looks after the others, and how long one may stand still.
    pub fn set_times(&self, times: Times) {
        self.times.set(times);
    }

    /// How often it looks after the others, and how long one may stand still.
    pub fn times(&self) -> Times {
        self.times.get()
    }

    /// Sets how many other clients this one looks after.
    pub fn set_reach(&self, reach: Reach) {
        self.neighbours.borrow_mut().set_reach(reach);
    }

    /// What it has counted of its upkeep.
    pub fn upkeep(&self) -> Upkeep {
        self.upkeep.get()
    }

    /// Adds to what it has counted of its upkeep.
    pub fn count_upkeep(&self, count: impl FnOnce(&mut Upkeep)) {
        let mut upkeep = self.upkeep.get();
        count(&mut upkeep);
        self.upkeep.set(upkeep);
    }

    // Operations.

    /// The operations that are under way.
    pub fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Begins an operation: from now on it may look at the pool. It waits while as many are under
    /// way as may be, and says so if this client is at rest.
    pub async fn begin(&self, entry: &mut Entry) -> Result<(), VerbError> {
        if !self.in_flight.try_enter(entry) {
            self.in_flight.enter(entry).await;
            if self.member.is_some() && self.has_left.get() {
                // It left meanwhile.
                return Err(VerbError::Fenced);
            }
        }
        match self.is_at_rest() {
            true => Box::pin(self.end_rest()).await,
            false => Ok(()),
        }
    }

    /// Begins an operation, unless it has to wait for anything; whether it did.
    #[inline(always)]
    pub fn try_begin(&self, entry: &mut Entry) -> bool {
        !self.is_at_rest() && self.in_flight.try_enter(entry)
    }

    #[inline]
    fn is_at_rest(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_at_rest)
    }

    async fn end_rest(&self) -> Result<(), VerbError> {
        match self.is_member() {
            true => self.member().begin(&self.endpoint).await,
            false => Ok(()),
        }
    }

    /// Says that this client is at rest, if no operation is under way any more.
    pub async fn rest(&self) -> Result<(), VerbError> {
        let nothing_is = || self.in_flight.count() == 0;
        match self.is_member() && nothing_is() {
            true => self.member().rest(&self.endpoint, nothing_is).await,
            false => Ok(()),
        }
    }

    /// Lets an operation wait for what others must do. Meanwhile it relies on nothing that it has
    /// seen, and the client is at rest if all its operations wait so.
    pub async fn wait_aside(&self, entry: &mut Entry, ns: u64) -> Result<(), VerbError> {
        self.in_flight.leave(entry);
        self.rest().await?;
        self.endpoint.pause(ns).await;
        self.begin(entry).await
    }

    /// Lends what one operation has at a time. One that has to wait for it stands aside: it relies
    /// on nothing that it has seen.
    pub async fn lent_aside<'l, T>(&self, lender: &'l Lender<T>, entry: &mut Entry) -> Result<Loan<'l, T>, VerbError> {
        self.in_flight.leave(entry);
        let loan = lender.lent().await;
        self.begin(entry).await?;
        Ok(loan)
    }

    /// Does what is no operation of a tenant as if it was one.
    pub async fn as_operation<T, F: From<VerbError>>(&self, work: impl Future<Output = Result<T, F>>) -> Result<T, F> {
        struct Counted<'c>(&'c InFlight, Entry);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.leave(&mut self.1);
            }
        }
        let mut counted = Counted(&self.in_flight, Entry::default());
        self.begin(&mut counted.1).await?;
        work.await
    }

    // Rounds.

    /// Sets after how many operations a round is due; at least one.
    pub fn set_operations_per_round(&self, operations: u32) {
        debug_assert!(operations > 0, "a round is due after at least one operation");
        self.operations_per_round.set(operations);
        self.operations_to_round.set(operations);
    }

    /// Counts an operation; whether a round is due before it.
    #[inline]
    pub fn count_operation(&self) -> bool {
        let left = self.operations_to_round.get().saturating_sub(1);
        self.operations_to_round.set(left);
        left == 0
    }

    /// Whether a round becomes due within the next `operations`.
    pub fn is_round_due_within(&self, operations: u32) -> bool {
        self.operations_to_round.get() <= operations
    }

    /// Makes sure that no round becomes due within the next `operations`.
    pub fn put_off_round(&self, operations: u32) {
        self.operations_to_round.set(self.operations_to_round.get().max(operations + 1));
    }

    /// After how many operations a round is due.
    pub fn operations_per_round(&self) -> u32 {
        self.operations_per_round.get()
    }

    /// Begins a round: the next one is due after as many operations as are set.
    ///
    /// # Errors
    /// Why the client is lost, if it is. The next operation asks again.
    pub fn begin_round(&self) -> Result<(), VerbError> {
        self.operations_to_round.set(self.operations_per_round.get());
        self.usable().inspect_err(|_| self.operations_to_round.set(1))
    }

    /// Whether it is time to look after the other clients; if so, the next time is counted from
    /// now.
    pub(crate) fn is_look_due(&self) -> bool {
        let now_ns = self.endpoint.now_ns();
        let is_due = now_ns.wrapping_sub(self.looked_ns.get()) >= self.times.get().look_ns;
        if is_due {
            self.looked_ns.set(now_ns);
        }
        is_due
    }

    // Loss.

    /// Whether it can be used.
    ///
    /// # Errors
    /// Why not, once it is lost.
    pub fn usable(&self) -> Result<(), VerbError> {
        self.endpoint.pass()
    }

    /// The failure by which it was lost, which one operation met, if it is: the others are told
    /// that it was shut out.
    pub fn cause_of_loss(&self) -> Option<VerbError> {
        self.endpoint.cause()
    }

    /// Whether the fabric has failed it, or it was shut out.
    pub fn is_lost(&self) -> bool {
        self.endpoint.is_shut()
    }

    /// After most failures of the fabric a verb of this client may still land, and what it holds is
    /// not its own any more: the client is lost.
    #[cold]
    pub fn note_failure(&self, error: &VerbError) {
        if !error.took_no_effect() {
            self.endpoint.note(error);
            self.operations_to_round.set(1);
        }
    }

    /// Whether this client still is one; else it is lost. A client asks in every round, before an
    /// operation whose copy of the pool's clock is too old (so that no operation on one host begins
    /// more than a millisecond after the last answer), and after a word that it did not expect.
    pub async fn check_membership(&self) -> Result<(), VerbError> {
        if !self.is_member() {
            return Ok(());
        }
        let checked = self.member().check(&self.endpoint).await;
        checked.inspect_err(|error| self.note_failure(error))
    }

    // Leaving.

    /// Gives up the place. The caller has put back everything that this client owned.
    pub async fn leave(&self) -> Result<(), VerbError> {
        match self.last_member() {
            Some(member) => member.leave(&self.endpoint).await,
            None => Ok(()),
        }
    }

    /// Gives up the place of a client that has not put back what it owned: others repair that.
    pub async fn abandon(&self) -> Result<(), VerbError> {
        match self.last_member() {
            Some(member) => member.abandon(&self.endpoint).await,
            None => Ok(()),
        }
    }

    /// Forgets the place of a client that is lost: others repair it once it is shut out.
    pub fn forget(&self) {
        self.has_left.set(true);
    }

    /// Its place, if it has one, which it gives up.
    fn last_member(&self) -> Option<&Member> {
        let member = self.member.as_ref().filter(|_| !self.has_left.get());
        self.has_left.set(true);
        member
    }

    /// Gives up the place in a destructor, where nothing can be awaited, as [`Client::abandon`].
    pub fn abandon_now(&self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = std::pin::pin!(self.abandon()).as_mut().poll(&mut context);
    }

    // Words of the pool.

    /// The pool's time. `now_ns` is the endpoint's monotone clock.
    #[inline]
    pub async fn pool_ms(&self, now_ns: u64) -> Result<u64, VerbError> {
        let running_ms = self.clock.borrow().running_ms(now_ns);
        match running_ms {
            Some(ms) => Ok(ms),
            // Boxed, as all that is rare: its state would make every operation's larger.
            None => Box::pin(self.look_at_clock(now_ns)).await,
        }
    }

    #[cold]
    async fn look_at_clock(&self, now_ns: u64) -> Result<u64, VerbError> {
        if self.endpoint.is_near() {
            // Over a network the next verb tells whether this client is shut out.
            self.check_membership().await?;
        }
        let _scope = Scope::new(&self.endpoint, Purpose::Upkeep);
        // A copy, and not a borrow across the look; of two looks at once the later copy stands.
        let mut clock = self.clock.borrow().clone();
        let looked = clock.now_ms(&self.endpoint, &self.pool.layout, now_ns).await;
        let refused = clock.outliers();
        *self.clock.borrow_mut() = clock;
        self.count_upkeep(|upkeep| upkeep.clocks_refused = refused);
        looked
    }

    /// Microseconds of the pool's clock by the last look: for what need not be exact.
    #[inline]
    pub fn about_us(&self) -> u64 {
        self.clock.borrow().about_us(self.endpoint.now_ns())
    }

    /// A token that no other write has: the pool gives them out in blocks.
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
        // Zero stands for no token.
        let first = batch.word(block).saturating_add(1);
        self.tokens.set((first.saturating_add(1), first.saturating_add(TOKENS_AT_ONCE)));
        Ok(first)
    }

    /// Counts objects added (or, if negative, removed) by this client.
    #[inline]
    pub async fn count_objects(&self, by: i64) -> Result<(), VerbError> {
        self.member().count_objects(&self.endpoint, by).await
    }

    /// Looks for memory nodes that this process does not know; whether there were any.
    pub async fn learn_nodes(&self) -> Result<bool, PoolError> {
        if !self.pool.layout.may_grow() {
            return Ok(false);
        }
        // Boxed, as all that is rare: its state would make every operation's larger.
        Box::pin(nodes::learn(&self.endpoint, &self.pool)).await
    }

    /// The descriptors of all chunks, those of new memory nodes among them.
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

    /// Frees a chunk that this client owns as `owned`. If another client has changed the word, this
    /// client is shut out.
    pub async fn free_own(&self, chunk: ChunkId, owned: Chunk) -> Result<(), VerbError> {
        if !chunks::free(&self.endpoint, &self.pool.layout, chunk, owned).await? {
            self.check_membership().await?;
        }
        Ok(())
    }

    /// Chunks that operations must not see used anew, those of this client among them.
    pub async fn protected_chunks(&self) -> Result<Vec<ChunkId>, VerbError> {
        let mut chunks = registry::protected_chunks(&self.endpoint, &self.pool, self.me()).await?;
        // After the READ: one of this client's may have begun to protect something meanwhile.
        chunks.extend(self.member().protected());
        Ok(chunks)
    }

    /// Clients shut out so far, and how many of those the last count has seen.
    pub async fn deaths(&self) -> Result<(u64, u64), VerbError> {
        let mut batch = Batch::new();
        let deaths = batch.read_word(self.pool.layout.deaths());
        let counted = batch.read_word(self.pool.layout.deaths_counted());
        self.endpoint.post(&mut batch).await?;
        let (deaths, counted) = (batch.word(deaths), batch.word(counted));
        self.counts_estimated.set(deaths != counted);
        Ok((deaths, counted))
    }

    /// Whether a client has died since everything was counted, by the last look: the pool's counts
    /// may be off by a few.
    #[inline]
    pub fn are_counts_estimated(&self) -> bool {
        self.counts_estimated.get()
    }

    pub(crate) fn note_counts_exact(&self) {
        self.counts_estimated.set(false);
    }

    // Growing and shrinking.

    /// Adds a memory node with at most so many bytes, on a fabric whose regions are all there;
    /// gives its number. Elsewhere the region is made between [`nodes::claim`] and
    /// [`Claim::prepare`].
    pub async fn grow(&self, bytes: u64) -> Result<u8, PoolError> {
        let grown = self.add_node(bytes).await;
        // The node may be there and its chunks not be counted: if this client left as if nothing
        // had happened, no client would count them.
        if let Err(PoolError::Verb(error)) = &grown {
            self.note_failure(error);
        }
        grown
    }

    async fn add_node(&self, bytes: u64) -> Result<u8, PoolError> {
        let claim = nodes::claim(&self.endpoint, &self.pool, self.me(), bytes).await?;
        let identity = claim.prepare(&self.endpoint, &self.pool).await?;
        self.publish_node(&claim, identity).await?;
        Ok(claim.node)
    }

    /// Makes the chunks of a node that this client has claimed and prepared the pool's.
    pub async fn publish_node(&self, claim: &Claim, identity: u32) -> Result<(), PoolError> {
        // Between the node's word and the count of free chunks, nobody may count anew.
        let was_at_rest = self.is_at_rest();
        self.as_operation(claim.publish(&self.endpoint, &self.pool, identity)).await?;
        if was_at_rest {
            self.rest().await?;
        }
        Ok(())
    }

    /// Takes a chunk out of use that this client owns as Open.
    pub async fn retire(&self, open: (ChunkId, u32)) -> Result<bool, VerbError> {
        let retired = retirement::retire(&self.endpoint, &self.pool.layout, self.me(), open).await?;
        // While another operation gives memory back, the next look at the chunks finds this one.
        if let (Some(retired), Some(mut retirement)) = (retired, self.retirement.lend()) {
            retirement.note_retired(&self.endpoint, (open.0, retired));
        }
        Ok(retired.is_some())
    }

    /// Gives one chunk back that is out of use; whether there was one, and memory for it.
    pub async fn restore(&self) -> Result<bool, PoolError> {
        self.learn_nodes().await?;
        let restored = retirement::restore(&self.endpoint, &self.pool.layout).await;
        Ok(restored.inspect_err(|error| self.note_failure(error))?)
    }

    /// Goes on giving back the memory of chunks out of use, of at most so many at a time; how many
    /// are left. The caller relies on nothing that it READ before.
    pub async fn discard_retired(&self, most: usize) -> Result<u64, VerbError> {
        // Another operation of this client is at it.
        let Some(mut retirement) = self.retirement.lend() else { return Ok(1) };
        let gone_on = retirement.go_on(self, most).await;
        self.out_of_use.set(retirement.out_of_use(self.pool.layout.chunks()));
        gone_on.inspect_err(|error| self.note_failure(error)).map(|()| retirement.left() as u64)
    }

    /// Chunks out of use, by its last look: see [`Retirement::out_of_use`].
    pub fn chunks_out_of_use(&self) -> u64 {
        self.out_of_use.get()
    }

    /// Does not wait for operations before it gives memory back, to show in a simulation what that
    /// does.
    #[cfg(feature = "holes")]
    pub fn discard_hastily(&self) {
        if let Some(mut retirement) = self.retirement.lend() {
            *retirement = Retirement::hasty();
        }
    }
}
