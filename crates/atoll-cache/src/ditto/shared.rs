//! Words that all clients' experts share, in the replacement's area.
//!
//! ```text
//! words 0..12    sums of penalties, one an expert: added to, atomics only
//! words 12..24   shared numbers of the policies: raised, atomics only
//! ```

use super::{Adaptive, Technique};
use crate::CacheError;
use crate::table::Core;
use crate::table::slot::EXPERTS_MAX;
use arrayvec::ArrayVec;
use atoll_fabric::{Address, Batch, Endpoint, Purpose};

/// Bytes of the area.
pub(super) const AREA_BYTES: u64 = 16 * EXPERTS_MAX as u64;

/// The sum of an expert's penalties.
fn penalties_of<E: Endpoint>(core: &Core<E>, expert: usize) -> Address {
    assert!(expert < EXPERTS_MAX);
    core.shared.layout.replacement().add(8 * expert as u64)
}

/// The shared number of an expert's policy.
fn global_of<E: Endpoint>(core: &Core<E>, expert: usize) -> Address {
    assert!(expert < EXPERTS_MAX);
    core.shared.layout.replacement().add(8 * (EXPERTS_MAX + expert) as u64)
}

impl<T: Technique> Adaptive<T> {
    /// Adds this client's penalties to the pool's sums, and computes the weights from those.
    pub(super) async fn merge_weights<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        let before = core.client.endpoint.purpose(Purpose::Upkeep);
        let penalties = self.experts.penalties();
        let mut batch = Batch::new();
        let tickets: ArrayVec<_, EXPERTS_MAX> = penalties
            .iter()
            .enumerate()
            .map(|(expert, penalty)| batch.fetch_and_add(penalties_of(core, expert), *penalty))
            .collect();
        let posted = core.client.endpoint.post(&mut batch).await;
        core.client.endpoint.purpose(before);
        posted?;
        let sums = tickets.iter().zip(&penalties).map(|(ticket, penalty)| batch.word(*ticket).wrapping_add(*penalty));
        self.experts.merged(&sums.collect::<ArrayVec<u64, EXPERTS_MAX>>());
        Ok(())
    }

    /// Raises the pool's numbers to this client's, and this client's to the pool's.
    pub(super) async fn merge_globals<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        let before = core.client.endpoint.purpose(Purpose::Upkeep);
        let merged = self.raise_globals(core).await;
        core.client.endpoint.purpose(before);
        merged
    }

    async fn raise_globals<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        let mut batch = Batch::new();
        let count = self.globals.len();
        let tickets: ArrayVec<_, EXPERTS_MAX> =
            (0..count).map(|expert| batch.read_word(global_of(core, expert))).collect();
        core.client.endpoint.post(&mut batch).await?;
        let found: ArrayVec<u64, EXPERTS_MAX> = tickets.iter().map(|ticket| batch.word(*ticket)).collect();
        let mut batch = Batch::new();
        for (expert, (known, found)) in self.globals.iter_mut().zip(found).enumerate() {
            if *known > found && self.unpublished {
                // A swap that fails is retried in the next round.
                batch.compare_and_swap(global_of(core, expert), found, *known);
            }
            *known = (*known).max(found);
        }
        self.unpublished = false;
        if !batch.is_empty() {
            core.client.endpoint.post_unawaited(&mut batch);
        }
        Ok(())
    }
}
