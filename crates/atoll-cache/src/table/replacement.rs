//! What an engine adds to the table of objects: which of them are evicted.

use super::access::insertion_words;
use super::slot::{KeyHash, Slot};
use super::{Core, TablePool};
use crate::CacheError;
use arrayvec::ArrayVec;
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::PoolError;
use atoll_pool::loan::{Lender, Loan};

/// An object that was accessed.
#[derive(Clone, Copy, Debug)]
pub struct Accessed<'b> {
    /// Its slot's number.
    pub slot: u64,
    /// Its slot's word.
    pub word: Slot,
    /// Its key's hash.
    pub hash: KeyHash,
    /// Bytes of its record.
    pub bytes: u64,
    /// The words of its extension, as they were READ; empty if it was just inserted, or there are
    /// none.
    pub extension: &'b [u64],
    /// Its access information as it was before, which is READ where there are extensions.
    pub information: Option<&'b [u64]>,
}

/// An object that was inserted.
#[derive(Clone, Copy, Debug)]
pub struct Inserted<'b> {
    /// The object.
    pub object: Accessed<'b>,
    /// What its slot was before.
    pub before: Slot,
    /// Word 0 of its slot's access information.
    pub counter: u64,
    /// When it expires.
    pub expiry_ms: Option<u64>,
}

impl Inserted<'_> {
    /// Its first access information, with so many accesses before its insertion.
    #[inline]
    pub fn information(&self, now_us: u64, accesses: u64) -> [u64; 4] {
        let base = self.counter.wrapping_sub(accesses);
        insertion_words(now_us, self.expiry_ms, self.object.bytes, base, self.object.hash.mark)
    }

    /// Publishes when it expires, by which samples find expired objects, without waiting: for a
    /// replacement that keeps no access information.
    pub fn publish_expiry<E: Endpoint>(&self, core: &Core<E>) {
        if self.expiry_ms.is_some() {
            core.tell_insertion(self.object.slot, self.information(core.client.about_us(), 0));
        }
    }
}

/// An object that is to be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its slot's number.
    pub slot: u64,
    /// Its slot's word.
    pub word: Slot,
    /// What the slot becomes: a history entry, or empty.
    pub then: Slot,
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Whether a history id comes along, because victims leave history entries.
    pub with_history: bool,
    /// Of how many live objects of a bucket access information is READ, each by a READ of its own,
    /// one after the other; `None`: of all, with their slots. For measurements.
    pub one_by_one: Option<usize>,
}

/// Most random buckets of a sample.
pub const SAMPLE_BUCKETS_MAX: usize = 4;
/// Most slots that a sample looks at besides.
pub const REMEMBERED_MAX: usize = 8;
/// Most objects of a sample.
pub const CANDIDATES_MAX: usize = SAMPLE_BUCKETS_MAX * super::layout::BUCKET_SLOTS + REMEMBERED_MAX;

/// One object that could be evicted, as a sample has it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its slot's number.
    pub slot: u64,
    /// Its slot's word, live.
    pub word: Slot,
    /// Its access information.
    pub access: super::access::Access,
    /// Its key's hash, as far as slot and access information tell; `None` if the information is not
    /// its own.
    pub hash: Option<KeyHash>,
}

/// Which objects are evicted: one client's side of it.
///
/// Everything here may be approximate: whatever a replacement does, lookups and changes stay right.
#[allow(async_fn_in_trait)]
pub trait Replacement<E: Endpoint>: Sized {
    /// Whether it has queues: then it is asked for a [`victim`](Self::victim) first, and samples
    /// look for what is free and for [unqueued objects](Self::unqueued) now and then, and whenever
    /// there is no victim.
    const QUEUES: bool = false;

    /// How samples are taken.
    fn sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// Random buckets that a sample looks at, at least one and at most [`SAMPLE_BUCKETS_MAX`].
    fn sample_buckets(&self) -> usize {
        1
    }

    /// Slots with the words that they had, at most [`REMEMBERED_MAX`], that a sample looks at
    /// besides.
    fn remembered(&self) -> &[(u64, Slot)] {
        &[]
    }

    /// For a new client of the pool.
    fn new(shared: &TablePool, endpoint: &E) -> Result<Self, PoolError>;

    /// Notes a hit or an overwriting. What it tells the pool it does not wait for.
    async fn accessed(&mut self, core: &Core<E>, object: Accessed<'_>) -> Result<(), CacheError>;

    /// Notes that a key was looked up and is absent. `seen` has the slots of its bucket.
    async fn missed(&mut self, core: &Core<E>, hash: KeyHash, seen: &Buffer) -> Result<(), CacheError> {
        let _ = (core, hash, seen);
        Ok(())
    }

    /// Notes an insertion.
    async fn inserted(&mut self, core: &Core<E>, inserted: Inserted<'_>) -> Result<(), CacheError>;

    /// Notes that an object is gone that was not this client's victim: removed, expired, or
    /// dropped.
    async fn removed(&mut self, core: &Core<E>, slot: u64, word: Slot) -> Result<(), CacheError> {
        let _ = (core, slot, word);
        Ok(())
    }

    /// Chooses among the objects of a sample, which are not empty. `None` if it does not choose by
    /// samples.
    async fn choose(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError>;

    /// Chooses a victim without a sample; `None` if there is none, or it chooses by samples. It may
    /// be a slot with a dead block. The replacement takes it for gone, until it is told that it was
    /// [spared](Self::spared).
    async fn victim(&mut self, core: &Core<E>) -> Result<Option<Victim>, CacheError> {
        let _ = core;
        Ok(None)
    }

    /// Notes that a victim that was not chosen from a sample was not evicted: its block is of no
    /// use, or another client changed its slot.
    async fn spared(&mut self, core: &Core<E>, victim: Victim) -> Result<(), CacheError> {
        let _ = (core, victim);
        Ok(())
    }

    /// An object of a sample that no queue has, so that no client would choose it as a victim, if
    /// there is one.
    async fn unqueued(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        let _ = (core, candidates);
        Ok(None)
    }

    /// Says in words what is wrong with what it keeps in a quiet pool.
    async fn verify(&mut self, core: &Core<E>, faults: &mut Vec<String>) -> Result<(), CacheError> {
        let _ = (core, faults);
        Ok(())
    }

    /// What is due now and then: telling the pool what was counted at home.
    async fn round(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        let _ = core;
        Ok(())
    }
}

/// A client's replacement, which one operation asks at a time: another one waits.
pub(super) struct Shared<R>(Lender<Box<R>>);

impl<R> Shared<R> {
    pub(super) fn new(replacement: R) -> Self {
        Self(Lender::new(Box::new(replacement)))
    }

    /// Gives the replacement to a caller while no operation is under way; `None` if one is.
    pub(super) fn idle(&self) -> Option<Loan<'_, Box<R>>> {
        self.0.lend()
    }

    pub(super) async fn how_to_sample<E: Endpoint>(&self) -> Sampling
    where
        R: Replacement<E>,
    {
        self.0.lent().await.sampling()
    }

    pub(super) async fn where_to_sample<E: Endpoint>(&self) -> (usize, ArrayVec<(u64, Slot), REMEMBERED_MAX>)
    where
        R: Replacement<E>,
    {
        let replacement = self.0.lent().await;
        (replacement.sample_buckets(), replacement.remembered().iter().copied().collect())
    }

    pub(super) async fn accessed<E: Endpoint>(&self, core: &Core<E>, object: Accessed<'_>) -> Result<(), CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.accessed(core, object).await
    }

    pub(super) async fn missed<E: Endpoint>(
        &self,
        core: &Core<E>,
        hash: KeyHash,
        seen: &Buffer,
    ) -> Result<(), CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.missed(core, hash, seen).await
    }

    pub(super) async fn inserted<E: Endpoint>(&self, core: &Core<E>, inserted: Inserted<'_>) -> Result<(), CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.inserted(core, inserted).await
    }

    pub(super) async fn removed<E: Endpoint>(&self, core: &Core<E>, slot: u64, word: Slot) -> Result<(), CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.removed(core, slot, word).await
    }

    pub(super) async fn choose<E: Endpoint>(
        &self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<Victim>, CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.choose(core, candidates).await
    }

    pub(super) async fn victim<E: Endpoint>(&self, core: &Core<E>) -> Result<Option<Victim>, CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.victim(core).await
    }

    pub(super) async fn spared<E: Endpoint>(&self, core: &Core<E>, victim: Victim) -> Result<(), CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.spared(core, victim).await
    }

    pub(super) async fn unqueued<E: Endpoint>(
        &self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<Victim>, CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.unqueued(core, candidates).await
    }

    pub(super) async fn verify<E: Endpoint>(&self, core: &Core<E>, faults: &mut Vec<String>) -> Result<(), CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.verify(core, faults).await
    }

    pub(super) async fn round<E: Endpoint>(&self, core: &Core<E>) -> Result<(), CacheError>
    where
        R: Replacement<E>,
    {
        self.0.lent().await.round(core).await
    }
}
