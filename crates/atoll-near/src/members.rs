//! The compute nodes: how one joins and leaves.
//!
//! ```text
//! member word   compute node 13 | region 6 | identity 30 | epoch 15
//! free          0               | 0        | 0           | epoch
//! orphaned      8191            | 63       | 0           | epoch
//! client word   identity 30 | place of the member 6 | its epoch 15      free: 0
//! ```
//!
//! Each client remembers the table of members, and learns of a newcomer by a word of its own node.
//!
//! | step of a newcomer | from then on |
//! |---|---|
//! | it writes its word into the header of its region | the region is known as its own |
//! | it swaps the word into a free place of the table | clients that READ the table see it |
//! | it READs the table, and adds to the `joins` word of every other member | clients that remember an older table find their `joins` changed, and READ it again |
//! | it READs the modes (`newcomer`) | it knows the mode of every stripe |
//! | it opens its region | further clients attach to it |
//! | it reads and writes objects | |
//!
//! Two nodes that join at once: the one that swaps later finds the other in the table. A writer
//! compares `joins` after it has invalidated: what joined in the meantime is invalidated, too. A
//! newcomer that was not yet in any table has no copy, and READs the modes later.
//!
//! A further client of a compute node takes a place, too, before its first effect. It may be of
//! another process than the client that exports the region.
//!
//! What happens when clients die is in `burial`.

use crate::burial::ASK_PAUSE_NS;
use crate::directory::{CLIENTS_MAX, MEMBERS_MAX};
use crate::error::NearError;
use crate::mode::WRITERS_MAX;
use crate::near::Near;
use crate::node::Layout;
use crate::owners::Tracking;
use crate::protocol::Promise;
use crate::verbs::{add, read_word, swap, write_word};
use atoll_fabric::{Address, Buffer, Endpoint, Identity, VerbError};
use atoll_pool::fields::Fields;

const FIELDS: Fields<4> = Fields::new([13, 6, Identity::BITS, 15]);
/// A place in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberWord(u64);

impl MemberWord {
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn is_free(self) -> bool {
        let [node, region, identity, _] = FIELDS.unpack(self.0);
        [node, region, identity] == [0; 3]
    }

    /// Whether it is a member that others tell, and that tells others.
    pub(crate) fn is_present(self) -> bool {
        FIELDS.unpack(self.0)[2] != 0
    }

    /// Whether its region has ended, and further clients may live.
    pub(crate) fn is_orphan(self) -> bool {
        !self.is_free() && !self.is_present()
    }

    /// The first byte of the member's near region.
    pub(crate) fn base(self) -> Address {
        let [node, region, ..] = FIELDS.unpack(self.0);
        Address::on_compute(node as u16, region as u8, 0)
    }

    pub(crate) fn identity(self) -> Identity {
        Identity::from_bits(FIELDS.unpack(self.0)[2] as u32)
    }

    fn occupied(self, base: Address, identity: Identity) -> Self {
        let epoch = (FIELDS.unpack(self.0)[3] + 1) & FIELDS.max(3);
        let node = base.compute_node().expect("a near region is on a compute node");
        Self(FIELDS.pack([node.into(), base.region().into(), identity.bits().into(), epoch]))
    }

    pub(crate) fn orphaned(self) -> Self {
        Self(FIELDS.pack([FIELDS.max(0), FIELDS.max(1), 0, FIELDS.unpack(self.0)[3]]))
    }

    pub(crate) fn freed(self) -> Self {
        Self(FIELDS.pack([0, 0, 0, FIELDS.unpack(self.0)[3]]))
    }
}

/// A place of a further client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientWord(u64);

impl ClientWord {
    const FIELDS: Fields<3> = Fields::new([Identity::BITS, 6, 15]);

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    fn of(identity: Identity, place: usize, member: MemberWord) -> Self {
        Self(Self::FIELDS.pack([identity.bits().into(), place as u64, FIELDS.unpack(member.0)[3]]))
    }

    pub(crate) fn identity(self) -> Identity {
        Identity::from_bits(Self::FIELDS.unpack(self.0)[0] as u32)
    }

    /// The same without its client, whose bits as a writer a client of its node clears.
    pub(crate) fn reclaimed(self) -> Self {
        let [_, place, epoch] = Self::FIELDS.unpack(self.0);
        Self(Self::FIELDS.pack([0, place, epoch]))
    }

    pub(crate) fn is_reclaimed(self) -> bool {
        self.0 != 0 && self.reclaimed() == self
    }

    pub(crate) fn is_of(self, place: usize, member: MemberWord) -> bool {
        self.0 != 0 && Self::FIELDS.unpack(self.0)[1..] == [place as u64, FIELDS.unpack(member.0)[3]]
    }
}

/// The table, as a client remembers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// The node's `joins` before the table was READ.
    pub(crate) joins: u64,
    /// The node's `losses` before `tracking` was READ.
    pub(crate) losses: u64,
    pub(crate) tracking: Tracking,
    pub(crate) members: [MemberWord; MEMBERS_MAX],
}

impl View {
    pub(crate) const EMPTY: Self =
        Self { joins: u64::MAX, losses: u64::MAX, tracking: Tracking::Both, members: [MemberWord(0); MEMBERS_MAX] };
}

impl<E: Endpoint> Near<E> {
    pub(crate) async fn read_table(&self) -> Result<[MemberWord; MEMBERS_MAX], VerbError> {
        let table = self.endpoint.read(self.directory.member_at(0), Buffer::sized(8 * MEMBERS_MAX)).await?;
        Ok(std::array::from_fn(|place| MemberWord(table.words()[place])))
    }

    /// READs the table again, and reaches the regions of members that are new in it.
    pub(crate) async fn refresh(&self) -> Result<(), NearError> {
        let joins = read_word(&self.endpoint, Layout::joins_on(self.layout.base)).await?;
        let members = self.read_table().await?;
        for (place, member) in members.iter().enumerate() {
            let is_new = member.is_present() && self.view.borrow().members[place] != *member;
            if is_new && place != self.place.get() {
                self.check_own_region(place, *member)?;
                // A region that is gone is found by the verbs that need it.
                let _ = self.reach_region(*member);
            }
        }
        let mut view = self.view.borrow_mut();
        // Another operation of this client may have READ a later table.
        if view.joins == View::EMPTY.joins || joins >= view.joins {
            (view.joins, view.members) = (joins, members);
        }
        Ok(())
    }

    /// Reaches the region of a member; `false` if another one has its address by now, which this
    /// client does not reach then.
    pub(crate) fn reach_region(&self, member: MemberWord) -> Result<bool, VerbError> {
        self.endpoint.reach_export_if(Layout::member_on(member.base()), member.bits())
    }

    /// Another present member has the address of this node's region only once that has ended. A
    /// client of the node must not reach the other one: it would use it for its own.
    pub(crate) fn check_own_region(&self, place: usize, member: MemberWord) -> Result<(), NearError> {
        let is_joined = self.place.get() < MEMBERS_MAX;
        let is_replaced = is_joined && place != self.place.get() && member.base() == self.layout.base;
        if is_replaced { Err(NearError::Ended) } else { Ok(()) }
    }

    /// Takes a place in the table for the near region of this client.
    pub(crate) async fn occupy(&self) -> Result<(), NearError> {
        let (own, places) = (self.layout.base, self.places());
        // A number is lent to one living endpoint: the region of another member with it has ended.
        // No client may take this one for that.
        for (place, member) in self.read_table().await?.iter().enumerate() {
            if member.is_present() && member.base().compute_node() == own.compute_node() {
                self.after_silence(place, *member, VerbError::PeerDead).await?;
            }
        }
        loop {
            let table = self.read_table().await?;
            let Some(place) = table[..places].iter().position(|member| member.is_free()) else {
                if self.look_after_members().await? == 0 {
                    return Err(NearError::Full { members_max: places });
                }
                self.endpoint.pause(ASK_PAUSE_NS).await;
                continue;
            };
            let wanted = table[place].occupied(own, self.endpoint.identity());
            // A member's region is named as long as it is a member.
            self.layout.name_member(&self.endpoint, wanted.0).await?;
            if swap(&self.endpoint, self.directory.member_at(place), table[place].0, wanted.0).await?.is_ok() {
                self.place.set(place);
                self.member.set(wanted);
                break;
            }
        }
        self.refresh().await?;
        for (place, member) in self.others() {
            if let Err(error) = add(&self.endpoint, Layout::joins_on(member.base()), 1).await {
                self.after_silence(place, member, error).await?;
            }
        }
        self.adjust_tracking().await
    }

    /// How many compute nodes there can be.
    fn places(&self) -> usize {
        match self.directory.options().promise {
            Promise::Regular => MEMBERS_MAX,
            Promise::Linearizable => WRITERS_MAX,
        }
    }

    /// Finds the place of the near region, which has this member's word.
    pub(crate) async fn find_place(&self, member: u64) -> Result<(), NearError> {
        let table = self.read_table().await?;
        let is_own = |found: &MemberWord| found.0 == member && found.is_present();
        let place = table[..self.places()].iter().position(is_own);
        let place = place.ok_or(NearError::NoDirectory { what: "the near region is not a member" })?;
        self.be_client_of(place, table[place]).await?;
        self.place.set(place);
        self.member.set(table[place]);
        let attached = self.look_at_node().await;
        if attached.is_err() {
            self.vacate_client().await?;
        }
        attached
    }

    /// A client that attaches looks at its node after it has entered itself: the node may have been
    /// buried before, or its exporter has not joined yet, or leaves.
    async fn look_at_node(&self) -> Result<(), NearError> {
        self.refresh().await?;
        let is_closed = read_word(&self.endpoint, self.layout.closed_at()).await? != 0;
        if is_closed || self.view.borrow().members[self.place.get()] != self.member.get() {
            return Err(NearError::NoDirectory { what: "the near region's node has ended, or has not joined yet" });
        }
        Ok(())
    }

    pub(crate) async fn read_clients(&self) -> Result<[ClientWord; CLIENTS_MAX], VerbError> {
        let table = self.endpoint.read(self.directory.client_at(0), Buffer::sized(8 * CLIENTS_MAX)).await?;
        Ok(std::array::from_fn(|place| ClientWord(table.words()[place])))
    }

    /// Takes a place for a further client.
    async fn be_client_of(&self, place: usize, member: MemberWord) -> Result<(), NearError> {
        let wanted = ClientWord::of(self.endpoint.identity(), place, member);
        loop {
            let clients = self.read_clients().await?;
            let mut free = clients.iter().position(|client| client.0 == 0);
            // What clients have left that ended without a word.
            if free.is_none() && self.reclaim_clients().await? > 0 {
                continue;
            }
            // As the last resort: bits of a node's dead client then stay until the node ends.
            free = free.or_else(|| clients.iter().position(|client| client.is_reclaimed()));
            let free = free.ok_or(NearError::Crowded { clients_max: CLIENTS_MAX })?;
            if swap(&self.endpoint, self.directory.client_at(free), clients[free].0, wanted.0).await?.is_ok() {
                self.client_place.set(Some(free));
                return Ok(());
            }
        }
    }

    /// Gives the place of a further client back.
    pub(crate) async fn vacate_client(&self) -> Result<(), NearError> {
        if let Some(place) = self.client_place.get() {
            let own = ClientWord::of(self.endpoint.identity(), self.place.get(), self.member.get());
            let _ = swap(&self.endpoint, self.directory.client_at(place), own.0, 0).await?;
        }
        Ok(())
    }

    /// The present members that this client remembers, without its own node.
    pub(crate) fn others(&self) -> Vec<(usize, MemberWord)> {
        let view = self.view.borrow();
        let is_other = |(place, member): &(usize, MemberWord)| member.is_present() && *place != self.place.get();
        view.members.iter().copied().enumerate().filter(is_other).collect()
    }

    /// Whether a member that this client remembers is orphaned.
    pub(crate) fn has_orphans(&self) -> bool {
        self.view.borrow().members.iter().any(|member| member.is_orphan())
    }

    /// Gives the place of this near region back, unless clients are attached to it. Then others
    /// find that the region has ended.
    pub(crate) async fn vacate(&self) -> Result<(), NearError> {
        let (place, member) = (self.place.get(), self.member.get());
        // A client that attaches looks at this after it has entered itself.
        write_word(&self.endpoint, self.layout.closed_at(), 1).await?;
        // A client of this node that died may have left its bit.
        if !self.has_further_clients(place, member).await? {
            let is_clear = self.clear_bits(place).await?;
            // Where a table is not reached, another client buries the place.
            let left = if is_clear { member.freed() } else { member.orphaned() };
            let _ = swap(&self.endpoint, self.directory.member_at(place), member.0, left.0).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::DirectoryOptions;

    #[test]
    fn no_client_attaches_to_a_region_whose_exporter_has_not_joined_to_its_end() {
        use crate::{Directory, NodeOptions};
        use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
        use atoll_fabric::{Clock, run_ready};
        let region = std::sync::Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
        let endpoint = || ShmEndpoint::with_regions(vec![region.clone()], Clock::host());
        run_ready(async {
            let options = DirectoryOptions { stripes: 1, ..DirectoryOptions::default() };
            let table = Address::new(0, 0, 8192);
            let directory = Directory::create(&endpoint(), Address::new(0, 0, 0), &[table], options).await.unwrap();
            let layout = Layout::of(&NodeOptions { bytes: 1 << 14, segment_bytes: 1024 }, &directory).unwrap();
            let exporter = endpoint();
            let layout = layout.export(&exporter, &directory, |_| 0).await.unwrap();
            let near = Near::new(exporter, directory.clone(), layout);
            let attach = || Near::attach(endpoint(), directory.clone(), near.region());
            assert!(matches!(attach().await, Err(NearError::NoDirectory { .. })), "it is no member");
            near.occupy().await.unwrap();
            assert!(matches!(attach().await, Err(NearError::NoDirectory { .. })), "it has not read the modes");
            assert!(!near.has_further_clients(near.place.get(), near.member.get()).await.unwrap());
            write_word(&near.endpoint, near.layout.closed_at(), 0).await.unwrap();
            attach().await.unwrap();
        });
    }

    #[test]
    fn an_orphaned_member_keeps_its_epoch_and_is_neither_free_nor_present() {
        let base = Address::on_compute(0, 0, 0);
        let member = MemberWord::default().occupied(base, Identity::from_bits(1));
        let orphan = member.orphaned();
        assert!(orphan.is_orphan() && !orphan.is_free() && !orphan.is_present() && !member.is_orphan());
        let client = ClientWord::of(Identity::from_bits(7), 3, member);
        assert!(client.is_of(3, orphan) && orphan.freed() == member.freed() && orphan.freed().is_free());
        assert!(!MemberWord::default().is_orphan());
        assert!(client.reclaimed().is_reclaimed() && client.reclaimed().is_of(3, member) && !client.is_reclaimed());
    }

    #[test]
    fn a_place_that_is_used_again_has_another_word() {
        let base = Address::on_compute(8191, 63, 0);
        let first = MemberWord::default().occupied(base, Identity::from_bits(9));
        assert!(!first.is_free() && first.base() == base && first.identity() == Identity::from_bits(9));
        let again = first.freed().occupied(base, Identity::from_bits(9));
        assert!(first.freed().is_free() && again != first && again.base() == base);
    }
}
