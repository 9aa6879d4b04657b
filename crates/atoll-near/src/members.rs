//! The compute nodes: how one joins and leaves, and how a dead one is buried.
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
//! | it swaps its word into a free place of the table | clients that READ the table see it |
//! | it READs the table, and adds to the `joins` word of every other member | clients that remember an older table find their `joins` changed, and READ it again |
//! | it READs the modes (`newcomer`) | it knows the mode of every stripe |
//! | it reads and writes objects | |
//!
//! Two nodes that join at once: the one that swaps later finds the other in the table. A writer
//! compares `joins` after it has invalidated: what joined in the meantime is invalidated, too. A
//! newcomer that was not yet in any table has no copy, and READs the modes later.
//!
//! A further client of a compute node takes a place, too, before its first effect. It may be of
//! another process than the client that exports the region.
//!
//! A member whose region is gone is **buried** by the client that finds it so. Nothing is done
//! until the fabric says that all its clients are dead, so that none of their verbs takes effect
//! later.
//!
//! A member is **orphaned** whose region is gone with its exporter, while a further client lives
//! or may live. No operation of that client succeeds any more, since each looks at its own region
//! last: no hit, no write. So a writer need not tell an orphaned member. What its clients have
//! posted may still land. Therefore its place is not freed, and the bits of its writers stay. With
//! [`Promise::Linearizable`](crate::Promise) no stripe is switched on until it is buried: a WRITE
//! may be under way that was posted because the stripe was off, and that no client can see counted.
//!
//! | step of a burial | by | why |
//! |---|---|---|
//! | add to `losses` of every living member: no copy is valid any more | all that find it dead | the dead node may have changed an object without invalidating it |
//! | clear its bit in every mode word ([`Promise::Linearizable`](crate::Promise)) | one | it may have died while it wrote |
//! | free the places of its further clients, then its own | the same | they can be used again |
//!
//! | step of orphaning | by | why |
//! |---|---|---|
//! | add to `losses` of every living member | all that find it so | the dead exporter may have changed an object without invalidating it |
//! | swap the word of its place | one | no client tells it any more, or attaches to it |
//!
//! | the place has | its exporter is | its further clients are | a client that finds the region gone |
//! |---|---|---|---|
//! | another member, or none, or the member orphaned | | | READs the table again |
//! | the member | dead | dead, or it has none | buries it |
//! | the member | dead | not known to be dead | orphans it |
//! | the member | not known to be dead, asked few times | | asks again after a pause |
//! | the member | not known to be dead, asked often | | gives up: [`NearError::Silent`](crate::NearError) |
//!
//! An exporter counts as dead once its region is known to have ended, too: before, a client might
//! still attach to it. Numbers of compute nodes are lent again, and with them the addresses of
//! regions. So each region has its member's word in its header: one with another word is not the
//! member's, which has ended before.
//!
//! A further client that has died alone is **settled** before its place is used again: every
//! living member's `losses` are added to, for the client may have changed an object without
//! invalidating it. Then a client of its own node clears the bits that it has left as a writer;
//! until then its place keeps the member's, without its identity. A WRITE that it counted as a bypass stays counted: its stripe is not switched on any more, until
//! its node ends.
//!
//! A client that cannot reach a table of modes leaves the last two steps to another one. One client
//! does these steps, because another node may use the place afterwards. It writes
//! its identity into the place's burial word first. Another client takes over once it is dead.
//!
//! An application that releases the locks of a dead node calls [`Near::look_after_members`] first.

use crate::absence::Standing;
use crate::directory::{CLIENTS_MAX, DirectoryOptions, MEMBERS_MAX, Table};
use crate::error::NearError;
use crate::hole::Hole;
use crate::mode::{ModeWord, WRITERS_MAX};
use crate::near::Near;
use crate::node::Layout;
use crate::owners::Tracking;
use crate::protocol::Promise;
use crate::verbs::{add, is_of_ended_region, read_word, swap, write_word};
use atoll_fabric::{Address, Buffer, Endpoint, Identity, VerbError};
use atoll_pool::fields::Fields;
use std::cell::Cell;

const FIELDS: Fields<4> = Fields::new([13, 6, Identity::BITS, 15]);
/// Bytes of a table of modes that a burial READs at once.
pub(crate) const WALK_BYTES: u64 = 4096;
/// How often a client asks whether a silent member is dead, and how long it waits between.
const ASKS_MAX: u32 = 64;
const ASK_PAUSE_NS: u64 = 100_000;

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
    fn is_present(self) -> bool {
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

    fn identity(self) -> Identity {
        Identity::from_bits(FIELDS.unpack(self.0)[2] as u32)
    }

    fn occupied(self, base: Address, identity: Identity) -> Self {
        let epoch = (FIELDS.unpack(self.0)[3] + 1) & FIELDS.max(3);
        let node = base.compute_node().expect("a near region is on a compute node");
        Self(FIELDS.pack([node.into(), base.region().into(), identity.bits().into(), epoch]))
    }

    fn orphaned(self) -> Self {
        Self(FIELDS.pack([FIELDS.max(0), FIELDS.max(1), 0, FIELDS.unpack(self.0)[3]]))
    }

    fn freed(self) -> Self {
        Self(FIELDS.pack([0, 0, 0, FIELDS.unpack(self.0)[3]]))
    }
}

/// A place of a further client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientWord(u64);

impl ClientWord {
    const FIELDS: Fields<3> = Fields::new([Identity::BITS, 6, 15]);

    fn of(identity: Identity, place: usize, member: MemberWord) -> Self {
        Self(Self::FIELDS.pack([identity.bits().into(), place as u64, FIELDS.unpack(member.0)[3]]))
    }

    fn identity(self) -> Identity {
        Identity::from_bits(Self::FIELDS.unpack(self.0)[0] as u32)
    }

    /// The same without its client, whose bits as a writer a client of its node clears.
    fn settled(self) -> Self {
        let [_, place, epoch] = Self::FIELDS.unpack(self.0);
        Self(Self::FIELDS.pack([0, place, epoch]))
    }

    fn is_settled(self) -> bool {
        self.0 != 0 && self.settled() == self
    }

    fn is_of(self, place: usize, member: MemberWord) -> bool {
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

/// What is known of a member's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Nothing of any of them takes effect any more.
    Dead,
    /// That is known of the exporter, and its region has ended; it is not known of all further
    /// clients.
    Orphaned,
    /// Less is known.
    MayLive,
}

/// What a client does about a member whose region is gone: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnSilence {
    Refresh,
    Bury,
    Orphan,
    AskAgain,
    GiveUp,
}

impl OnSilence {
    fn of(is_member: bool, life: Life, asked: u32) -> Self {
        match life {
            _ if !is_member => Self::Refresh,
            Life::Dead => Self::Bury,
            Life::Orphaned => Self::Orphan,
            _ if asked < ASKS_MAX => Self::AskAgain,
            _ => Self::GiveUp,
        }
    }
}

impl<E: Endpoint> Near<E> {
    async fn read_table(&self) -> Result<[MemberWord; MEMBERS_MAX], VerbError> {
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
                // A region that is gone is found by the verbs that need it.
                let _ = self.endpoint.reach_export(member.base());
            }
        }
        let mut view = self.view.borrow_mut();
        // Another operation of this client may have READ a later table.
        if view.joins == View::EMPTY.joins || joins >= view.joins {
            (view.joins, view.members) = (joins, members);
        }
        Ok(())
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
            if swap(&self.endpoint, self.directory.member_at(place), table[place].0, wanted.0).await?.is_ok() {
                self.place.set(place);
                self.member.set(wanted);
                self.layout.name_member(&self.endpoint, wanted.0).await?;
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
        self.place.set(place);
        self.member.set(table[place]);
        self.be_client_of(place, table[place]).await?;
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

    async fn read_clients(&self) -> Result<[ClientWord; CLIENTS_MAX], VerbError> {
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
            if free.is_none() && self.settle_clients().await? > 0 {
                continue;
            }
            free = free.or_else(|| clients.iter().position(|client| client.is_settled()));
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

    /// What is known of a member's clients.
    async fn life(&self, place: usize, member: MemberWord) -> Result<Life, NearError> {
        // This client has the identity of an earlier one, perhaps.
        let own = self.endpoint.identity();
        let is_former = member.identity() == own && place != self.place.get();
        if !is_former && !member.is_orphan() && !self.endpoint.is_dead(member.identity()).await? {
            return Ok(Life::MayLive);
        }
        // Until its region has ended, a client may still attach to it, and hit.
        if !member.is_orphan() && !self.has_region_ended(member).await {
            return Ok(Life::MayLive);
        }
        Ok(if self.has_further_clients(place, member).await? { Life::Orphaned } else { Life::Dead })
    }

    /// Whether a further client of a member lives, or may.
    async fn has_further_clients(&self, place: usize, member: MemberWord) -> Result<bool, NearError> {
        let own = self.endpoint.identity();
        for client in self.read_clients().await?.iter().filter(|client| client.is_of(place, member)) {
            let is_former = client.identity() == own && place != self.place.get();
            if !is_former && !self.endpoint.is_dead(client.identity()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the region of a member whose exporter is dead is known to have ended. Its number may
    /// have been lent again: then another region is there.
    async fn has_region_ended(&self, member: MemberWord) -> bool {
        match self.endpoint.reach_export(member.base()) {
            Ok(_) => {}
            Err(error) => return matches!(error, VerbError::ExportAbsent(_)),
        }
        match read_word(&self.endpoint, Layout::member_on(member.base())).await {
            Ok(found) => found != member.0,
            Err(error) => is_of_ended_region(&error),
        }
    }

    /// The other members that this client remembers, but those that are orphaned.
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
        if !self.has_further_clients(place, member).await? && self.clear_bits(place).await? {
            let _ = swap(&self.endpoint, self.directory.member_at(place), member.0, member.freed().0).await?;
        }
        Ok(())
    }

    /// After a verb to a member's region has failed: buries the member if it is dead.
    pub(crate) async fn after_silence(
        &self,
        place: usize,
        member: MemberWord,
        error: VerbError,
    ) -> Result<(), NearError> {
        if !is_of_ended_region(&error) {
            return Err(error.into());
        }
        for asked in 1.. {
            // It may have left, or another client may have buried it.
            let is_member = read_word(&self.endpoint, self.directory.member_at(place)).await? == member.0;
            let life = if is_member { self.life(place, member).await? } else { Life::MayLive };
            match OnSilence::of(is_member, life, asked) {
                OnSilence::Refresh => break,
                OnSilence::Bury => {
                    self.bury(place, member).await?;
                    break;
                }
                OnSilence::Orphan => {
                    self.orphan(place, member).await?;
                    break;
                }
                OnSilence::AskAgain => self.endpoint.pause(ASK_PAUSE_NS).await,
                OnSilence::GiveUp => {
                    let node = member.base().compute_node().unwrap_or_default();
                    return Err(NearError::Silent { node });
                }
            }
        }
        self.refresh().await
    }

    /// Ends the copies of all members but that of a place: a dead client may have changed an object
    /// without invalidating it.
    async fn end_copies_after_death(&self, place: Option<usize>) -> Result<(), NearError> {
        for (other, living) in self.read_table().await?.iter().enumerate() {
            if Some(other) == place || !living.is_present() || self.open.lacks(Hole::LossesAtBurial) {
                continue;
            }
            if other != self.place.get() {
                match self.endpoint.reach_export(living.base()) {
                    // A second dead member has no copies either; its own burial follows.
                    Err(VerbError::ExportAbsent(_)) => continue,
                    reached => drop(reached?),
                }
            }
            match add(&self.endpoint, Layout::losses_on(living.base()), 1).await {
                Err(VerbError::PeerDead | VerbError::ExportAbsent(_)) => {}
                added => drop(added?),
            }
        }
        Ok(())
    }

    /// Orphans a member whose region has ended with its exporter.
    async fn orphan(&self, place: usize, member: MemberWord) -> Result<(), NearError> {
        self.end_copies_after_death(Some(place)).await?;
        let at = self.directory.member_at(place);
        let is_orphaned = swap(&self.endpoint, at, member.0, member.orphaned().0).await?.is_ok();
        self.counting.add(|counts| counts.orphans += u64::from(is_orphaned));
        Ok(())
    }

    /// Buries a dead member, as far as no other client does; whether its place was freed.
    async fn bury(&self, place: usize, member: MemberWord) -> Result<bool, NearError> {
        self.end_copies_after_death(Some(place)).await?;
        let mut is_freed = false;
        if !self.is_burying.get() && self.begin_burial(place).await? {
            let burying = Burying::begin(&self.is_burying);
            let freed = self.free_place(place, member).await;
            drop(burying);
            let own = u64::from(self.endpoint.identity().bits());
            let _ = swap(&self.endpoint, self.directory.burial_at(place), own, 0).await?;
            is_freed = freed?;
        }
        Ok(is_freed)
    }

    /// Becomes the one client that frees a place, unless a living client is that.
    async fn begin_burial(&self, place: usize) -> Result<bool, NearError> {
        let (at, own) = (self.directory.burial_at(place), u64::from(self.endpoint.identity().bits()));
        match swap(&self.endpoint, at, 0, own).await? {
            Ok(()) => Ok(true),
            // An earlier client of the same identity died.
            Err(found) if found == own => Ok(true),
            Err(found) => {
                let is_dead = self.endpoint.is_dead(Identity::from_bits(found as u32)).await?;
                Ok(is_dead && swap(&self.endpoint, at, found, own).await?.is_ok())
            }
        }
    }

    /// Frees the place of a dead member; whether this client did it.
    async fn free_place(&self, place: usize, member: MemberWord) -> Result<bool, NearError> {
        let at = self.directory.member_at(place);
        if read_word(&self.endpoint, at).await? != member.0 {
            return Ok(false);
        }
        if !self.clear_bits(place).await? {
            return Ok(false);
        }
        for (number, client) in self.read_clients().await?.iter().enumerate() {
            if client.is_of(place, member) {
                let _ = swap(&self.endpoint, self.directory.client_at(number), client.0, 0).await?;
            }
        }
        let is_freed = swap(&self.endpoint, at, member.0, member.freed().0).await?.is_ok();
        self.counting.add(|counts| counts.burials += u64::from(is_freed));
        Ok(is_freed)
    }

    /// Whether writers set bits in modes.
    fn has_bits(&self) -> bool {
        let DirectoryOptions { protocol, promise, .. } = self.directory.options();
        promise == Promise::Linearizable && protocol.is_adaptive()
    }

    /// Clears the bits of a place of which no client lives; whether none is left.
    async fn clear_bits(&self, place: usize) -> Result<bool, NearError> {
        Ok(!self.has_bits() || self.clear_writer(place).await?)
    }

    /// Clears the bit of a dead writer wherever it stands; whether no bit is left.
    async fn clear_writer(&self, place: usize) -> Result<bool, NearError> {
        for table in self.directory.tables() {
            let is_clear = match self.look_at_table(table).await? {
                Standing::Used(_) => self.clear_writer_in(table, place).await?,
                // With the region its bits are gone, and a dead writer sets none in the next one.
                Standing::Absent(_) | Standing::Gone(_) => true,
                // Another client reaches it.
                Standing::Unknown => false,
            };
            if !is_clear {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same in one table; `false` if its memory node has ended meanwhile.
    async fn clear_writer_in(&self, table: Table, place: usize) -> Result<bool, NearError> {
        for part in self.directory.parts(table, WALK_BYTES) {
            let words = match self.endpoint.read(part.at, Buffer::sized(part.bytes as usize)).await {
                Ok(words) => words,
                Err(VerbError::PeerDead) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            for (stripe, word) in part.modes(words.words()) {
                let mut word = ModeWord::from_bits(word);
                while word.is_writer(place) {
                    let cleared = word.bits() - ModeWord::writer(place);
                    match swap(&self.endpoint, stripe.mode_at, word.bits(), cleared).await? {
                        Ok(()) => break,
                        Err(found) => word = ModeWord::from_bits(found),
                    }
                }
            }
        }
        Ok(true)
    }

    /// Buries every member that is dead, settles what dead clients of living members have left, and
    /// returns how many places of members that has freed. Copies of this compute node that a dead
    /// client may have failed to invalidate are not served afterwards. An application calls it
    /// before it releases locks of a dead process, and now and then besides.
    ///
    /// # Errors
    /// [`NearError::Ended`], or a verb's error; then a later call goes on.
    pub async fn look_after_members(&self) -> Result<usize, NearError> {
        self.told(self.look_after_all().await).await
    }

    async fn look_after_all(&self) -> Result<usize, NearError> {
        let table = self.read_table().await?;
        let mut buried = 0;
        for (place, member) in table.iter().enumerate() {
            // The exporter of this node's own region may be dead, too.
            let is_own_export = place == self.place.get() && self.client_place.get().is_none();
            if member.is_free() || is_own_export {
                continue;
            }
            match self.life(place, *member).await? {
                Life::Dead => buried += usize::from(self.bury(place, *member).await?),
                Life::Orphaned if member.is_present() => self.orphan(place, *member).await?,
                Life::Orphaned | Life::MayLive => {}
            }
        }
        self.settle_clients().await?;
        self.refresh().await?;
        Ok(buried)
    }

    fn is_of_this_node(&self, client: ClientWord) -> bool {
        client.is_of(self.place.get(), self.member.get())
    }

    /// Settles what further clients have left that died alone; of how many. Where writers set bits,
    /// the place of another node's client is kept for that node's.
    async fn settle_clients(&self) -> Result<usize, NearError> {
        let own = self.endpoint.identity();
        let mut dead = Vec::new();
        for (number, client) in self.read_clients().await?.into_iter().enumerate() {
            let is_former = client.identity() == own && self.client_place.get() != Some(number);
            let is_known = client.0 == 0 || client.is_settled() && !self.is_of_this_node(client);
            if !is_known && (is_former || self.endpoint.is_dead(client.identity()).await?) {
                dead.push((number, client));
            }
        }
        if dead.iter().any(|(_, client)| !client.is_settled()) {
            self.end_copies_after_death(None).await?;
        }
        if dead.iter().any(|(_, client)| self.is_of_this_node(*client)) {
            self.settle_writers().await?;
        }
        let mut settled = 0;
        for (number, client) in dead {
            let is_left = self.has_bits() && !self.is_of_this_node(client);
            let left = if is_left { client.settled().0 } else { 0 };
            settled +=
                usize::from(swap(&self.endpoint, self.directory.client_at(number), client.0, left).await?.is_ok());
        }
        self.counting.add(|counts| counts.settled += settled as u64);
        Ok(settled)
    }
}

/// An operation that buries a member. If its future is dropped, another operation begins again.
struct Burying<'n>(&'n Cell<bool>);

impl<'n> Burying<'n> {
    fn begin(is_burying: &'n Cell<bool>) -> Self {
        is_burying.set(true);
        Self(is_burying)
    }
}

impl Drop for Burying<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, follow};

    #[test]
    fn one_row_of_the_table_matches_every_silence() {
        type Case = (bool, Life, u32);
        let rows: [Row<Case, OnSilence>; 5] = [
            ("another member", |(is_member, ..)| !is_member, OnSilence::Refresh),
            ("dead", |(is_member, life, _)| *is_member && *life == Life::Dead, OnSilence::Bury),
            ("orphaned", |(is_member, life, _)| *is_member && *life == Life::Orphaned, OnSilence::Orphan),
            (
                "asked few times",
                |(is_member, life, asked)| *is_member && *life == Life::MayLive && *asked < ASKS_MAX,
                OnSilence::AskAgain,
            ),
            (
                "asked often",
                |(is_member, life, asked)| *is_member && *life == Life::MayLive && *asked >= ASKS_MAX,
                OnSilence::GiveUp,
            ),
        ];
        let asked = [1, ASKS_MAX - 1, ASKS_MAX, u32::MAX];
        let lives = [Life::Dead, Life::Orphaned, Life::MayLive];
        let cases = [false, true]
            .into_iter()
            .flat_map(|is_member| lives.into_iter().flat_map(move |life| asked.map(|asked| (is_member, life, asked))));
        follow(&rows, cases, |(is_member, life, asked)| OnSilence::of(*is_member, *life, *asked));
    }

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
        assert!(client.settled().is_settled() && client.settled().is_of(3, member) && !client.is_settled());
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
