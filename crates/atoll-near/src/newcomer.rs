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
//! | none: the memory node has ended, or is not reached | | forgets all before its first use: `absence` |
//!
//! **Why it is told.** The client that switches swaps the mode, tells the members that it
//! remembers, and READs `joins` of its node. It swapped after the newcomer's READ, and so after the
//! newcomer's addition to `joins`. Therefore it remembers the newcomer, or finds `joins` changed.
//!
//! A stripe that is Off again counts as one in its first mode: the newcomer was not there when it
//! was On. So a directory that has lasted long costs its newcomers nothing more.

use crate::absence::Standing;
use crate::directory::{Part, Stripe, Table};
use crate::error::NearError;
use crate::hole::Hole;
use crate::near::Near;
use crate::stripe::{Belief, GENERATION, OWN_CHANGES};
use crate::verbs::swap;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, VerbError};

/// Bytes of a table of modes that a newcomer READs at once.
pub(crate) const WALK_BYTES: u64 = 64 << 10;

impl<E: Endpoint> Near<E> {
    /// READs the modes of all stripes; the node then believes the first mode of those alone that
    /// are in it.
    pub(crate) async fn learn_modes(&self) -> Result<(), NearError> {
        let protocol = self.directory.options().protocol;
        if !protocol.is_decentralized() || self.open.lacks(Hole::ModesOfNewcomers) {
            return Ok(());
        }
        for table in self.directory.tables() {
            // Without its modes the node forgets before it uses the memory node.
            if let Standing::Used(number) = self.look_at_table(table).await?
                && (!protocol.is_adaptive() || self.learn_table(table).await?)
            {
                let _ = swap(&self.endpoint, self.layout.incarnation_at(table.node()), 0, number).await?;
                self.begin_use(table.node());
            }
        }
        Ok(())
    }

    /// The same for one table; whether its memory node was there all the time.
    async fn learn_table(&self, table: Table) -> Result<bool, NearError> {
        for part in self.directory.parts(table, WALK_BYTES) {
            let Some(words) = self.read_modes(&part).await? else { return Ok(false) };
            let is_other = |word| Belief::of(self.directory.mode_of(word)) != self.directory.first_belief();
            let others = part.modes(words.words()).filter(|(_, word)| is_other(*word));
            self.believe_nothing(others.map(|(stripe, _)| stripe)).await?;
        }
        Ok(true)
    }

    /// The modes of a part of a table; none if its memory node has ended.
    pub(crate) async fn read_modes(&self, part: &Part) -> Result<Option<Buffer>, NearError> {
        match self.endpoint.read(part.at, Buffer::sized(part.bytes as usize)).await {
            Ok(words) => Ok(Some(words)),
            Err(VerbError::PeerDead | VerbError::NodeAbsent(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What the node believed of these stripes counts no more.
    pub(crate) async fn believe_nothing(&self, stripes: impl Iterator<Item = Stripe>) -> Result<(), NearError> {
        let mut stripes = stripes.peekable();
        while stripes.peek().is_some() {
            let mut batch = Batch::new();
            for stripe in stripes.by_ref().take(BATCH_VERBS_MAX) {
                batch.fetch_and_add(self.layout.stripe_at(stripe).add(OWN_CHANGES), GENERATION);
            }
            self.endpoint.post(&mut batch).await?;
        }
        Ok(())
    }
}
