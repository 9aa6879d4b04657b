//! How long a client relies on the tag of a slot word that it has READ.
//!
//! The tag tells the records of one place apart until the chunk was reused 2^16 times. Each reuse
//! takes several atomics that wait for each other, so 20 ms are too short for so many reuses. But
//! where a round trip takes that long, no operation would end. So a client that was late measures a
//! round trip. Over a slow network it relies on a tag for as many round trips as an operation may
//! take, and at most for [`MOST_NS`].
//!
//! The clients of such a pool reuse a chunk over the network, too, which takes several round trips.
//! Only a process on a memory node's own host may be faster. For a wrong value it must reuse the
//! chunk a multiple of 2^16 times, and the same place must then have a record of the same key that
//! was never published.

use super::Forge;
use super::technique::Technique;
use atoll_fabric::{Batch, Endpoint, VerbError};
use std::cell::Cell;

/// What no fabric is too slow for that processes of one host share.
const LEAST_NS: u64 = 20_000_000;
/// What clients over any network keep to.
const MOST_NS: u64 = 4_000_000_000;
/// Round trips of an operation between the READ of a word and its last use, at most: a few, and as
/// much again for the processor.
const ROUND_TRIPS: u64 = 16;

/// For how long this client relies on a tag.
#[derive(Debug)]
pub(super) struct Reliance(Cell<u64>);

impl Default for Reliance {
    fn default() -> Self {
        Self(Cell::new(LEAST_NS))
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// For how many nanoseconds a client relies on the tag of a word.
    #[inline]
    pub(super) fn reliance_ns(&self) -> u64 {
        self.reliance.0.get()
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
        let round_trip_ns = self.client.endpoint.now_ns().wrapping_sub(posted_ns);
        self.reliance.0.set(round_trip_ns.saturating_mul(ROUND_TRIPS).clamp(LEAST_NS, MOST_NS));
        Ok(())
    }
}
