//! Telling every compute node that an object of a stripe has changed.

use crate::directory::Stripe;
use crate::error::NearError;
use crate::hole::Hole;
use crate::members::MemberWord;
use crate::near::Near;
use crate::node::Layout;
use crate::owners::OwnersWord;
use crate::stripe::{self, CHANGE};
use crate::verbs::{add, read_word};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Endpoint, VerbError};

impl<E: Endpoint> Near<E> {
    /// Adds [`CHANGE`](stripe::CHANGE) or [`GENERATION`](stripe::GENERATION) to the stripe of every
    /// compute node, this one included. When it ends, no node serves a copy that was made before,
    /// but for dead nodes, and nodes that joined too late to have one.
    pub(crate) async fn invalidate(&self, stripe: Stripe, addend: u64) -> Result<(), NearError> {
        if !self.open.lacks(Hole::OwnChanges) {
            self.invalidate_own(stripe, addend).await?;
        }
        if self.directory.options().protocol.is_decentralized() {
            self.invalidate_others(stripe, addend).await?;
        }
        Ok(())
    }

    /// The same on this compute node alone.
    pub(crate) async fn invalidate_own(&self, stripe: Stripe, addend: u64) -> Result<(), NearError> {
        add(&self.endpoint, self.layout.stripe_at(stripe).add(stripe::OWN_CHANGES), addend).await?;
        Ok(())
    }

    /// As [`Near::invalidate`] of a change, where the owners were READ behind the WRITE, and
    /// `losses` before it.
    pub(crate) async fn invalidate_owners(
        &self,
        stripe: Stripe,
        owners: OwnersWord,
        losses: u64,
    ) -> Result<(), NearError> {
        self.invalidate_own(stripe, CHANGE).await?;
        let joins = self.view.borrow().joins;
        let mut owning = self.others();
        owning.retain(|(place, _)| owners.has(*place));
        for members in owning.chunks(BATCH_VERBS_MAX) {
            self.tell(members, stripe, CHANGE).await?;
        }
        let mut batch = Batch::new();
        let joins_now = batch.read_word(Layout::joins_on(self.layout.base));
        let losses_now = batch.read_word(Layout::losses_on(self.layout.base));
        self.endpoint.post(&mut batch).await?;
        let is_same = (batch.word(joins_now), batch.word(losses_now)) == (joins, losses);
        if !is_same && !self.open.lacks(Hole::SecondLookForOwners) {
            self.refresh().await?;
            return self.invalidate_others(stripe, CHANGE).await;
        }
        self.clear_owners(stripe, owners);
        Ok(())
    }

    async fn invalidate_others(&self, stripe: Stripe, addend: u64) -> Result<(), NearError> {
        let mut told: Vec<(usize, MemberWord)> = Vec::new();
        loop {
            let joins = self.view.borrow().joins;
            let mut left = self.others();
            left.retain(|member| !told.contains(member));
            for members in left.chunks(BATCH_VERBS_MAX) {
                self.tell(members, stripe, addend).await?;
            }
            told.extend(left);
            // A node that joined meanwhile may have made a copy before this client knew of it.
            let present = read_word(&self.endpoint, Layout::joins_on(self.layout.base)).await?;
            if present == joins || self.open.lacks(Hole::Newcomers) {
                return Ok(());
            }
            self.refresh().await?;
        }
    }

    /// Tells these members in one round trip. If the region of one is gone, each is told by itself.
    async fn tell(&self, members: &[(usize, MemberWord)], stripe: Stripe, addend: u64) -> Result<(), NearError> {
        let at = |member: &MemberWord| Layout::stripe_on(member.base(), stripe).add(stripe::INVALIDATIONS);
        let mut batch = Batch::new();
        for (_, member) in members {
            batch.fetch_and_add(at(member), addend);
        }
        self.counting.add(|counts| counts.invalidations_sent += members.len() as u64);
        match self.endpoint.post(&mut batch).await {
            Ok(()) => return Ok(()),
            Err(error) if !error.is_of_ended_export() => return Err(error.into()),
            Err(_) => {}
        }
        let mut silent = Ok(());
        for (place, member) in members {
            if let Err(error) = add(&self.endpoint, at(member), addend).await {
                match self.after_silence(*place, *member, error).await {
                    // The others are told all the same.
                    Err(NearError::Silent { node }) => silent = Err(NearError::Silent { node }),
                    outcome => outcome?,
                }
            }
        }
        silent
    }

    /// Whether a compute node has, or may have, a WRITE under way that invalidates nothing. A node
    /// that was told before begins no further one.
    pub(crate) async fn has_bypasses(&self, stripe: Stripe) -> Result<bool, NearError> {
        let own = self.layout.stripe_at(stripe).add(stripe::BYPASSES);
        if read_word(&self.endpoint, own).await? != 0 {
            return Ok(true);
        }
        for (place, member) in self.others() {
            let mut batch = Batch::new();
            let bypasses = batch.read_word(Layout::stripe_on(member.base(), stripe).add(stripe::BYPASSES));
            // Another member's region may have the address by now.
            let named = batch.read_word(Layout::member_on(member.base()));
            match self.endpoint.post(&mut batch).await {
                Ok(()) if batch.word(named) != member.bits() => {
                    self.after_silence(place, member, VerbError::PeerDead).await?;
                }
                Ok(()) if batch.word(bypasses) == 0 => {}
                Ok(()) => return Ok(true),
                Err(error) => self.after_silence(place, member, error).await?,
            }
        }
        if !self.has_orphans() || self.open.lacks(Hole::BypassesOfOrphans) {
            return Ok(false);
        }
        // A client of an ended region has counted its WRITEs in that region, which others cannot
        // READ.
        if !self.may_clear_bits() {
            return Ok(true);
        }
        Box::pin(self.look_after_members()).await?;
        Ok(self.has_orphans())
    }
}
