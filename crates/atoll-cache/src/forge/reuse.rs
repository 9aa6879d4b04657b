//! How long a client relies on the tag of a slot word that it has READ.
//!
//! The tag tells the records of one place apart until the chunk was reused as often as the tag has
//! values: 2^13 in a pool of up to 1 GiB, 2^9 in one of 64 GiB.
//!
//! | a client | relies on a tag |
//! |---|---|
//! | within an operation | for 20 ms: each reuse takes several atomics that wait for each other, so that is too short for so many reuses |
//! | the same over a slow network | for as many round trips as an operation may take, and at most for [`MOST_NS`] |
//! | across operations: a blind SET | until a quarter of so many reuses were counted, with a count that is no older than the rows above say |
//!
//! Where a round trip takes 20 ms, no operation would end in that time. So a client that was late
//! measures a round trip. The clients of such a pool reuse a chunk over the network, too, which
//! takes several round trips. Only a process on a memory node's own host may be faster. For a wrong
//! value it must reuse the chunk a multiple of the tag's values, and the same place must then have
//! a record of the same key that was never published.
//!
//! The counts are the pool's ([`atoll_pool::reuses`]). A client READs them with what it posts
//! anyway, now and then, and alone if it has not for long. The rest of the tag's values is for
//! reuses since that READ, and for those that clients that died have not counted.
//!
//! Many chunks share a count. In a pool of 1 GiB a word is of use until 130 000 chunks were
//! reused, in one of 64 GiB until 8000 were. The counts are too coarse for the tags of pools
//! beyond 2 TiB: there no SET is blind.

use super::Forge;
use super::addresses::Known;
use super::technique::Technique;
use atoll_fabric::{Batch, Buffer, Endpoint, Ticket, VerbError};
use atoll_pool::ChunkId;
use atoll_pool::reuses::{self, Reuses};
use std::cell::{Cell, RefCell};

/// What no fabric is too slow for that processes of one host share.
const LEAST_NS: u64 = 20_000_000;
/// What clients over any network keep to.
const MOST_NS: u64 = 4_000_000_000;
/// Round trips of an operation between the READ of a word and its last use, at most: a few, and as
/// much again for the processor.
const ROUND_TRIPS: u64 = 16;
/// A client that uses the counts READs them anew so many times before they are too old.
const LOOKS: u64 = 4;
/// One part in so many of a tag's values may be counted before a client relies on it no more.
const COUNTED_ONE_IN: u64 = 4;

/// For how long this client relies on a tag, and how often it knows that chunks were reused.
#[derive(Debug)]
pub(super) struct Reliance {
    for_ns: Cell<u64>,
    reuses: RefCell<Reuses>,
    /// When the READ of the counts began, on the endpoint's clock; before the first: never.
    read_ns: Cell<Option<u64>>,
    /// The same of the READ that was posted last.
    posted_ns: Cell<Option<u64>>,
}

impl Default for Reliance {
    fn default() -> Self {
        let (reuses, read_ns, posted_ns) = Default::default();
        Self { for_ns: Cell::new(LEAST_NS), reuses, read_ns, posted_ns }
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// For how many nanoseconds a client relies on the tag of a word.
    #[inline]
    fn reliance_ns(&self) -> u64 {
        self.reliance.for_ns.get()
    }

    /// Whether what was READ at that time is too old to rely on its tag.
    #[inline]
    pub(super) fn is_outdated(&self, read_ns: u64) -> bool {
        self.client.endpoint.now_ns().wrapping_sub(read_ns) > self.reliance_ns()
    }

    /// An attempt took too long: the client measures how far away the memory is.
    pub(super) async fn measure_round_trip(&self) -> Result<(), VerbError> {
        if self.client.endpoint.is_near() {
            return Ok(());
        }
        let posted_ns = self.client.endpoint.now_ns();
        let mut batch = Batch::new();
        batch.read_word(self.client.pool.layout.clock());
        self.client.endpoint.post(&mut batch).await?;
        self.reliance.for_ns.set(self.reliance_by(posted_ns));
        Ok(())
    }

    /// For how long a client relies on a tag, by a round trip that began at that time.
    fn reliance_by(&self, posted_ns: u64) -> u64 {
        let round_trip_ns = self.client.endpoint.now_ns().wrapping_sub(posted_ns);
        round_trip_ns.saturating_mul(ROUND_TRIPS).clamp(LEAST_NS, MOST_NS)
    }

    /// How often chunks of this one's word were reused, as far as this client knows: no more than
    /// they were.
    #[inline]
    pub(super) fn reuses_of(&self, chunk: ChunkId) -> u64 {
        self.reliance.reuses.borrow().of(chunk)
    }

    /// Whether the chunk of a remembered word may have been reused so often since that its tag has
    /// come back, by the counts that this client has READ.
    pub(super) fn may_have_come_back(&self, known: &Known, chunk: ChunkId) -> bool {
        self.reuses_of(chunk).saturating_sub(known.reuses) >= self.reuses_max()
    }

    /// How many reuses may be counted before a client relies on a tag no more. Zero if the tags are
    /// too coarse for the counts.
    pub(super) fn reuses_max(&self) -> u64 {
        (self.shared.format.generations() / COUNTED_ONE_IN).saturating_sub(reuses::STEP - 1)
    }

    /// Whether the counts are too old to rely on a tag.
    pub(super) fn are_reuses_outdated(&self) -> bool {
        self.reliance.read_ns.get().is_none_or(|read_ns| self.is_outdated(read_ns))
    }

    /// READs the counts.
    pub(super) async fn look_at_reuses(&self) -> Result<(), VerbError> {
        let begun_ns = self.client.endpoint.now_ns();
        self.reliance.posted_ns.set(Some(begun_ns));
        let words = reuses::read(&self.client.endpoint, &self.client.pool.layout).await?;
        self.note_reuses(words.words(), begun_ns);
        if self.is_outdated(begun_ns) {
            self.measure_round_trip().await?;
        }
        Ok(())
    }

    /// Adds a READ of the counts to a batch that is posted at that time, if it is time for one.
    pub(super) fn add_look_at_reuses(&self, batch: &mut Batch, now_ns: u64) -> Option<Ticket> {
        let is_soon = |posted_ns: u64| now_ns.wrapping_sub(posted_ns) < self.reliance_ns() / LOOKS;
        if self.reliance.posted_ns.get().is_some_and(is_soon) {
            return None;
        }
        self.reliance.posted_ns.set(Some(now_ns));
        Some(batch.read(self.client.pool.layout.reuses(), Buffer::sized(Reuses::BYTES)))
    }

    /// Notes the counts as a READ that began at that time found them.
    pub(super) fn note_reuses(&self, words: &[u64], begun_ns: u64) {
        let is_older = |read_ns: u64| (begun_ns.wrapping_sub(read_ns) as i64) < 0;
        if !self.reliance.read_ns.get().is_some_and(is_older) {
            self.reliance.reuses.borrow_mut().note(words);
            self.reliance.read_ns.set(Some(begun_ns));
        }
        // Without this, a client that stood still during a measurement would rely on tags for long.
        self.reliance.for_ns.set(self.reliance_ns().min(self.reliance_by(begun_ns)));
    }
}
