//! A client's own place: how it acquires it, what it announces there, and how it frees it.

use super::fence::{count_death, fence_dead, fence_still};
use super::place::{
    ALIVE, AT_REST, EPOCH_MASK, Incarnation, LOOKUPS_BYTES, Lookups, ORIGIN_WORDS, PlaceState, RESTS_SHIFT,
    ROUNDS_SHIFT, sealed,
};
use super::places::all_places;
use super::protection::{Protection, Protections};
use super::times::Times;
use crate::in_flight::ROUNDS_PROVING;
use crate::loan::Lender;
use crate::words::{self, read_word, swap};
use crate::{ChunkId, Pool, PoolError};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, VerbError};
use std::cell::Cell;
use std::ops::Range;

/// A living incarnation, as it knows itself. Dropping it without [`Member::leave`] leaves its place
/// Taken, as a crash does.
#[derive(Debug)]
pub struct Member {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The words of its signal, for as long as it is a client.
    taken: u64,
    signal: Address,
    lease_at: Address,
    objects_at: Address,
    lookups_at: Address,
    /// What earlier clients of the place have told.
    lookups_before: Lookups,
    /// What this one has told.
    lookups_told: Cell<Lookups>,
    deaths: Address,
    lease: Cell<u64>,
    is_at_rest: Cell<bool>,
    /// Whether the last announcement of a rest, or of its end, has landed.
    is_rest_settled: Cell<bool>,
    /// One operation at a time announces it.
    resting: Lender<()>,
    protections: Protections,
    /// Objects added less objects removed.
    objects: Cell<u64>,
    /// The value of word 8 of its account, after all posted WRITEs have landed.
    objects_told: Cell<u64>,
    /// WRITEs of that word that were posted, and how many of those have landed.
    counts_posted: Cell<u64>,
    counts_landed: Cell<u64>,
    /// Whether the place's last client was shut out, and its chunks are still to be reclaimed.
    pub took_over: bool,
}

impl Member {
    /// Acquires a place that is free, or whose client was shut out. If there is none, dead clients
    /// are fenced at once, and stalled ones are checked.
    pub async fn join<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Self, PoolError> {
        if let Some(member) = Self::take_place(endpoint, pool).await? {
            return Ok(member);
        }
        for place in all_places(endpoint, pool).await? {
            fence_dead(endpoint, pool, &place).await?;
        }
        if let Some(member) = Self::take_place(endpoint, pool).await? {
            return Ok(member);
        }
        fence_still(endpoint, pool, Times::default().suspect_ns, u32::MAX).await?;
        let member = Self::take_place(endpoint, pool).await?;
        member.ok_or(PoolError::Full { clients_max: pool.settings.clients_max })
    }

    /// `None` if no place that it READ was free or Fenced.
    async fn take_place<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Option<Self>, PoolError> {
        let (layout, mut who) = (&pool.layout, endpoint.identity());
        for slot in 0..pool.settings.clients_max {
            let signal = layout.signal(slot);
            let found = read_word(endpoint, signal).await?;
            if PlaceState::of(found).is_alive() {
                continue;
            }
            if who == Identity::NOBODY {
                // Its death could never be proven. This swap changes nothing; a fork learns from it
                // that it is a fork, and an endpoint whose way to the home is cut, that it is.
                swap(endpoint, signal, found, found).await?;
                // The way may have been cut only while the endpoint asked for its identity.
                who = endpoint.identity();
                if who == Identity::NOBODY {
                    swap(endpoint, signal, found, found).await?;
                    return Err(VerbError::Unprovable.into());
                }
            }
            // A client that READs all signals READs this one from now on, whatever happens to the
            // joiner.
            let ever = u64::from(slot) + 1;
            words::change(endpoint, layout.members_ever(), |found| (found < ever).then_some(ever)).await?;
            let incarnation = Incarnation { slot, epoch: (found & EPOCH_MASK).wrapping_add(1) as u32 };
            let [joining, taken] =
                [PlaceState::Joining, PlaceState::Taken].map(|state| state.word(who, incarnation.epoch));
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(signal, found, joining);
            let left = batch.read_word(layout.lease(slot));
            endpoint.post(&mut batch).await?;
            if !batch.swapped(swap) {
                continue;
            }
            // The lease continues from the last client's value: an observer would take an old value
            // for a lease that has stood still since. The last client may also have been at rest.
            assert_ne!(incarnation.epoch, found as u32, "no incarnation comes again");
            let lease = (batch.word(left) & !AT_REST).wrapping_add(u64::from(ROUNDS_PROVING) << ROUNDS_SHIFT);
            let (account, deaths) = (layout.account(slot), layout.deaths());
            let mut batch = Batch::new();
            let mut origin = Buffer::sized(8 * ORIGIN_WORDS);
            origin.words_mut().copy_from_slice(&sealed(endpoint.origin(), incarnation.epoch));
            batch.write(account, origin);
            batch.write_word(layout.lease(slot), lease);
            if pool.settings.nodes_max > 1 {
                // Until the joiner has READ the table of nodes, it counts as a client of both
                // kinds.
                batch.write_word(layout.used_nodes(slot), u64::MAX);
                batch.write_word(layout.absent_nodes(slot), u64::MAX);
            }
            let swap = batch.compare_and_swap(signal, joining, taken);
            // After the swap: the place's last client has left it or is shut out. So only this
            // client writes the word from now on.
            let objects = batch.read_word(layout.objects_counted(slot));
            let lookups = batch.read(layout.lookups_told(slot), Buffer::sized(LOOKUPS_BYTES));
            endpoint.post(&mut batch).await?;
            if !batch.swapped(swap) {
                // It stood still, and was shut out.
                return Err(VerbError::Fenced.into());
            }
            let took_over = PlaceState::of(found) == PlaceState::Fenced;
            return Ok(Some(Self {
                incarnation,
                taken,
                signal,
                lease_at: layout.lease(slot),
                objects_at: layout.objects_counted(slot),
                lookups_at: layout.lookups_told(slot),
                lookups_before: *batch.take(lookups).words().first_chunk().expect("all of them were READ"),
                lookups_told: Cell::default(),
                deaths,
                lease: Cell::new(lease),
                is_at_rest: Cell::new(false),
                is_rest_settled: Cell::new(true),
                resting: Lender::new(()),
                protections: Protections::new(pool, incarnation, endpoint.is_near()),
                objects: Cell::new(batch.word(objects)),
                objects_told: Cell::new(batch.word(objects)),
                counts_posted: Cell::new(0),
                counts_landed: Cell::new(0),
                took_over,
            }));
        }
        Ok(None)
    }

    /// Whether it still is a client.
    ///
    /// # Errors
    /// [`VerbError::Fenced`] if it was shut out: it must not write or acknowledge anything any
    /// more.
    pub async fn check<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        if read_word(endpoint, self.signal).await? == self.taken { Ok(()) } else { Err(VerbError::Fenced) }
    }

    /// Frees the place. The caller has released everything that it owned.
    pub async fn leave<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        self.end(endpoint, PlaceState::Free).await
    }

    /// Ends a client that makes no operation any more and has not released what it owned. Other
    /// clients repair it.
    pub async fn abandon<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        count_death(endpoint, self.deaths).await?;
        self.end(endpoint, PlaceState::Fenced).await
    }

    async fn end<E: Endpoint>(&self, endpoint: &E, state: PlaceState) -> Result<(), VerbError> {
        assert!(!state.is_alive(), "a client that ends is not alive");
        // Unawaited verbs must not land after the place has its next client.
        endpoint.flush().await?;
        let ended = state.word(Identity::NOBODY, self.incarnation.epoch);
        let mut batch = Batch::new();
        batch.compare_and_swap(self.signal, self.taken, ended);
        endpoint.post(&mut batch).await
    }

    /// Makes a protection ready to name a chunk.
    #[inline]
    pub async fn prepare<E: Endpoint>(&self, endpoint: &E, protection: &mut Protection) -> Result<(), VerbError> {
        self.protections.prepare(endpoint, protection).await
    }

    /// Adds to `batch` the WRITE by which a ready protection names `chunk`. Later READs of the
    /// batch are under the protection.
    #[inline]
    pub fn protect(&self, batch: &mut Batch, protection: &mut Protection, chunk: ChunkId) {
        self.protections.hold(batch, protection, chunk);
    }

    /// Ends a protection, if it names a chunk, without waiting.
    #[inline]
    pub fn unprotect<E: Endpoint>(&self, endpoint: &E, protection: &mut Protection) {
        self.protections.release(endpoint, protection);
    }

    /// Opens a hole of its protections, so that a simulation shows the harm.
    #[cfg(feature = "holes")]
    pub fn open_hole(&self, hole: super::protection::Hole) {
        self.protections.open(hole);
    }

    pub(super) fn looks_beyond_firsts(&self) -> bool {
        self.protections.looks_beyond_firsts()
    }

    /// The chunks that operations of this client protect.
    pub fn protected(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.protections.own()
    }

    /// Announces rounds without waiting. With no rounds it announces that the client is alive.
    pub fn renew<E: Endpoint>(&self, endpoint: &E, rounds: u32) {
        assert!(rounds <= ROUNDS_PROVING, "no more rounds than prove that operations have ended");
        match rounds {
            0 => self.move_lease(ALIVE, ALIVE..1 << RESTS_SHIFT),
            _ => self.lease.set(self.lease.get().wrapping_add(u64::from(rounds) << ROUNDS_SHIFT)),
        }
        endpoint.post_unawaited(&mut self.lease_written());
    }

    /// Announces that an operation runs, if the client is at rest. Later READs are covered by this.
    /// Earlier READs must not be relied on.
    #[inline]
    pub async fn begin<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        if self.is_at_rest.get() || !self.is_rest_settled.get() {
            Box::pin(self.end_rest(endpoint)).await?;
        }
        Ok(())
    }

    async fn end_rest<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        let _turn = self.resting.lent().await;
        if !self.is_rest_settled.replace(false) {
            // The WRITE of a future that was dropped.
            endpoint.flush().await?;
        }
        self.move_lease(1 << RESTS_SHIFT, 1 << RESTS_SHIFT..1 << ROUNDS_SHIFT);
        let mut batch = self.lease_saying(false);
        endpoint.post(&mut batch).await?;
        assert!(!self.is_rest_settled.get(), "one operation at a time ends a rest");
        self.is_at_rest.set(false);
        self.is_rest_settled.set(true);
        Ok(())
    }

    /// Announces that no operation runs, after the unawaited verbs have landed, if `nothing_is`
    /// still confirms it then.
    pub async fn rest<E: Endpoint>(&self, endpoint: &E, nothing_is: impl Fn() -> bool) -> Result<(), VerbError> {
        let _turn = self.resting.lent().await;
        endpoint.flush().await?;
        if !nothing_is() {
            return Ok(());
        }
        // Set before the announcement: an operation that begins from here on waits for its turn.
        self.is_at_rest.set(true);
        self.is_rest_settled.set(false);
        self.move_lease(1 << RESTS_SHIFT, 1 << RESTS_SHIFT..1 << ROUNDS_SHIFT);
        let mut batch = self.lease_saying(true);
        endpoint.post(&mut batch).await?;
        self.is_rest_settled.set(true);
        Ok(())
    }

    /// Whether it has announced that no operation runs.
    pub fn is_at_rest(&self) -> bool {
        self.is_at_rest.get()
    }

    /// Adds to a field of the lease, whose bits lie from one position up to the other.
    fn move_lease(&self, by: u64, bits: Range<u64>) {
        let (mask, lease) = (bits.end - bits.start, self.lease.get());
        self.lease.set(lease & !mask | (lease & mask).wrapping_add(by) & mask);
    }

    /// The WRITE of the lease.
    fn lease_written(&self) -> Batch {
        self.lease_saying(self.is_at_rest.get())
    }

    fn lease_saying(&self, is_at_rest: bool) -> Batch {
        let mut batch = Batch::new();
        batch.write_word(self.lease_at, self.lease.get() & !AT_REST | u64::from(is_at_rest));
        batch
    }

    /// Counts objects added (or, if negative, removed) by this client. It waits until the previous
    /// count has landed, which it mostly has, and not for this one. A WRITE of the client's own
    /// word costs a NIC a fraction of an atomic.
    #[inline]
    pub async fn count_objects<E: Endpoint>(&self, endpoint: &E, by: i64) -> Result<(), VerbError> {
        self.objects.set(self.objects.get().wrapping_add(by as u64));
        // A WRITE must not be overtaken by the next one.
        while self.counts_posted.get() != self.counts_landed.get() {
            let posted = self.counts_posted.get();
            endpoint.flush().await?;
            self.counts_landed.set(self.counts_landed.get().max(posted));
        }
        // Another operation may have written this one's count.
        if self.objects.get() != self.objects_told.get() {
            self.objects_told.set(self.objects.get());
            debug_assert_eq!(self.counts_posted.get(), self.counts_landed.get(), "no count overtakes another");
            self.counts_posted.set(self.counts_posted.get() + 1);
            let mut batch = Batch::new();
            batch.write_word(self.objects_at, self.objects.get());
            endpoint.post_unawaited(&mut batch);
        }
        Ok(())
    }

    /// Tells of this client's lookups, without waiting.
    pub fn tell_lookups<E: Endpoint>(&self, endpoint: &E, lookups: Lookups) {
        if self.lookups_told.replace(lookups) == lookups {
            return;
        }
        let mut told = Buffer::sized(LOOKUPS_BYTES);
        for (word, (before, count)) in told.words_mut().iter_mut().zip(self.lookups_before.iter().zip(lookups)) {
            *word = before.wrapping_add(count);
        }
        let mut batch = Batch::new();
        batch.write(self.lookups_at, told);
        endpoint.post_unawaited(&mut batch);
    }
}
