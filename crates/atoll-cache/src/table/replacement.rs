//! What an engine adds to the table of objects: which objects are evicted.

use super::access::insertion_words;
use super::slot::{KeyHash, Slot};
use super::{Core, TablePool};
use crate::CacheError;
use arrayvec::ArrayVec;
use atoll_fabric::Endpoint;
use atoll_pool::PoolError;
use atoll_pool::loan::{Lender, Loan};
use std::marker::PhantomData;

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
    /// Its access information before the access, which is READ where there are extensions.
    pub information: Option<&'b [u64]>,
}

/// An object that was inserted.
#[derive(Clone, Copy, Debug)]
pub struct Inserted<'b> {
    /// The object.
    pub object: Accessed<'b>,
    /// The word that its slot had before.
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

    /// Publishes when it expires, without waiting, for a replacement that keeps no access
    /// information. Samples find expired objects by it.
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
    /// The slot's next word: a history entry, or empty.
    pub then: Slot,
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Whether a sample brings a history id, because victims leave history entries.
    pub with_history: bool,
    /// The number of live objects of a bucket whose access information is READ, one READ after the
    /// other. `None`: all of it is READ with the slots. For measurements.
    pub one_by_one: Option<usize>,
}

/// Most random buckets of a sample.
pub const SAMPLE_BUCKETS_MAX: usize = 4;
/// Most remembered slots that a sample also looks at.
pub const REMEMBERED_MAX: usize = 8;
/// Most objects of a sample.
pub const CANDIDATES_MAX: usize = SAMPLE_BUCKETS_MAX * super::layout::BUCKET_SLOTS + REMEMBERED_MAX;

/// One object of a sample that could be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its slot's number.
    pub slot: u64,
    /// Its slot's word, live.
    pub word: Slot,
    /// Its access information.
    pub access: super::access::Access,
    /// Its key's hash, as far as slot and access information have it; `None` if the information is
    /// another key's.
    pub hash: Option<KeyHash>,
}

/// Chooses which objects are evicted: one client's side of it.
///
/// All of it may be approximate. Lookups and changes stay right, however a replacement chooses.
#[allow(async_fn_in_trait)]
pub trait Replacement<E: Endpoint>: Sized {
    /// Whether it has queues. Then the table asks it for a [`victim`](Self::victim) first. It
    /// samples for free blocks and for [unqueued objects](Self::unqueued) now and then, and
    /// whenever there is no victim.
    const QUEUES: bool = false;

    /// How samples are taken.
    fn sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// Random buckets that a sample looks at, at least one and at most [`SAMPLE_BUCKETS_MAX`].
    fn sample_buckets(&self) -> usize {
        1
    }

    /// Slots with the words that they had, at most [`REMEMBERED_MAX`], that a sample also looks at.
    fn remembered(&self) -> &[(u64, Slot)] {
        &[]
    }

    /// The replacement of a new client of the pool.
    fn new(shared: &TablePool, endpoint: &E) -> Result<Self, PoolError>;

    /// Notes a hit or an overwrite. It does not wait for what it publishes.
    async fn accessed(&mut self, core: &Core<E>, object: Accessed<'_>) -> Result<(), CacheError>;

    /// Notes an insertion.
    async fn inserted(&mut self, core: &Core<E>, inserted: Inserted<'_>) -> Result<(), CacheError>;

    /// Notes that an object has left that was not this client's victim: removed, expired, or
    /// dropped.
    async fn removed(&mut self, core: &Core<E>, slot: u64, word: Slot) -> Result<(), CacheError> {
        let _ = (core, slot, word);
        Ok(())
    }

    /// Chooses among the objects of a sample, which are not empty. `None` if it does not choose by
    /// samples.
    async fn choose(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError>;

    /// Chooses a victim without a sample; `None` if there is none, or if it chooses by samples. It
    /// may be a slot with a dead block. The replacement counts it as evicted, until the table calls
    /// [spared](Self::spared).
    async fn victim(&mut self, core: &Core<E>) -> Result<Option<Victim>, CacheError> {
        let _ = core;
        Ok(None)
    }

    /// Notes that a victim which was not chosen from a sample was not evicted. Its block is of no
    /// use, or another client changed its slot.
    async fn spared(&mut self, core: &Core<E>, victim: Victim) -> Result<(), CacheError> {
        let _ = (core, victim);
        Ok(())
    }

    /// An object of a sample that no queue has, if there is one. Without this, no queue would ever
    /// evict it.
    async fn unqueued(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        let _ = (core, candidates);
        Ok(None)
    }

    /// Describes the faults in its own words of a quiet pool.
    async fn verify(&mut self, core: &Core<E>, faults: &mut Vec<String>) -> Result<(), CacheError> {
        let _ = (core, faults);
        Ok(())
    }

    /// The work of a round: publishing what was counted locally.
    async fn round(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        let _ = core;
        Ok(())
    }
}

/// A client's replacement. One operation uses it at a time; others wait.
pub(super) struct Shared<E, R> {
    lender: Lender<Box<R>>,
    /// The replacement is one for this endpoint.
    endpoint: PhantomData<fn(E)>,
}

impl<E: Endpoint, R: Replacement<E>> Shared<E, R> {
    pub(super) fn new(replacement: R) -> Self {
        Self { lender: Lender::new(Box::new(replacement)), endpoint: PhantomData }
    }

    /// Lends the replacement to a caller while no operation is under way; `None` otherwise.
    pub(super) fn idle(&self) -> Option<Loan<'_, Box<R>>> {
        self.lender.lend()
    }

    pub(super) async fn how_to_sample(&self) -> Sampling {
        self.lender.lent().await.sampling()
    }

    pub(super) async fn where_to_sample(&self) -> (usize, ArrayVec<(u64, Slot), REMEMBERED_MAX>) {
        let replacement = self.lender.lent().await;
        (replacement.sample_buckets(), replacement.remembered().iter().copied().collect())
    }

    pub(super) async fn accessed(&self, core: &Core<E>, object: Accessed<'_>) -> Result<(), CacheError> {
        self.lender.lent().await.accessed(core, object).await
    }

    pub(super) async fn inserted(&self, core: &Core<E>, inserted: Inserted<'_>) -> Result<(), CacheError> {
        self.lender.lent().await.inserted(core, inserted).await
    }

    pub(super) async fn removed(&self, core: &Core<E>, slot: u64, word: Slot) -> Result<(), CacheError> {
        self.lender.lent().await.removed(core, slot, word).await
    }

    pub(super) async fn choose(&self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        self.lender.lent().await.choose(core, candidates).await
    }

    pub(super) async fn victim(&self, core: &Core<E>) -> Result<Option<Victim>, CacheError> {
        self.lender.lent().await.victim(core).await
    }

    pub(super) async fn spared(&self, core: &Core<E>, victim: Victim) -> Result<(), CacheError> {
        self.lender.lent().await.spared(core, victim).await
    }

    pub(super) async fn unqueued(
        &self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<Victim>, CacheError> {
        self.lender.lent().await.unqueued(core, candidates).await
    }

    pub(super) async fn verify(&self, core: &Core<E>, faults: &mut Vec<String>) -> Result<(), CacheError> {
        self.lender.lent().await.verify(core, faults).await
    }

    pub(super) async fn round(&self, core: &Core<E>) -> Result<(), CacheError> {
        self.lender.lent().await.round(core).await
    }
}
