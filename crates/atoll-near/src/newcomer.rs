//! What a newcomer knows of the modes.
//!
//! A stripe's line of zeros says that the stripe is in its first mode. So an operation on an object
//! that its node has not seen yet READs no mode. A newcomer makes the zeros true before its first
//! operation:
//!
//! | step of a newcomer | from then on |
//! |---|---|
//! | it becomes a member, and adds to `joins` of every other one (`members`) | a client that switches a stripe tells it |
//! | it READs the modes of all stripes | |
//! | it adds a generation of its own to each stripe that is not in its first mode | it believes nothing of these stripes |
//! | it reads and writes objects | |
//!
//! | the mode that it READs | what happens to the stripe later | the newcomer |
//! |---|---|---|
//! | the first one | nothing | is right |
//! | the first one | a client switches it | is told in the transition, before another mode is set |
//! | another one, a transition, a writer's bit while On | | asks when it needs the mode |
//!
//! **Why it is told.** The client that switches swaps the mode, tells the members that it
//! remembers, and READs `joins` of its node. It swapped after the newcomer's READ, and so after the
//! newcomer's addition to `joins`. Therefore it remembers the newcomer, or finds `joins` changed.
//!
//! A stripe that is Off again counts as one in its first mode: the newcomer was not there when it
//! was On. So a directory that has lasted long costs its newcomers nothing more.

use crate::directory::Stripe;
use crate::error::NearError;
use crate::hole::Hole;
use crate::near::Near;
use crate::stripe::{Belief, GENERATION, OWN_CHANGES};
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint};

/// Bytes of a table of modes that a newcomer READs at once.
const WALK_BYTES: u64 = 64 << 10;

impl<E: Endpoint> Near<E> {
    /// READs the modes of all stripes; the node then believes the first mode of those alone that
    /// are in it.
    pub(crate) async fn learn_modes(&self) -> Result<(), NearError> {
        if !self.directory.options().protocol.is_adaptive() || self.open.lacks(Hole::ModesOfNewcomers) {
            return Ok(());
        }
        let bytes = self.directory.options().table_bytes();
        for (first, table) in self.directory.numbered_tables() {
            for start in (0..bytes).step_by(WALK_BYTES as usize) {
                let part_bytes = WALK_BYTES.min(bytes - start);
                self.learn_part(table.add(start), part_bytes, first + self.directory.stripes_in(start)).await?;
            }
        }
        Ok(())
    }

    /// The same for a part of a table, whose first stripe has this number.
    async fn learn_part(&self, at: Address, bytes: u64, first: u64) -> Result<(), NearError> {
        let words = self.endpoint.read(at, Buffer::sized(bytes as usize)).await?;
        let mut others: Vec<Stripe> = Vec::new();
        for (stripe, word) in self.directory.stripes_of(at, first, words.words()) {
            if Belief::of(self.directory.mode_of(word)) != self.directory.first_belief() {
                others.push(stripe);
            }
        }
        for stripes in others.chunks(BATCH_VERBS_MAX) {
            let mut batch = Batch::new();
            for stripe in stripes {
                batch.fetch_and_add(self.layout.stripe_at(*stripe).add(OWN_CHANGES), GENERATION);
            }
            self.endpoint.post(&mut batch).await?;
        }
        Ok(())
    }
}
