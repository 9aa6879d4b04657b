//! What happens when clients of compute nodes die.
//!
//! A client **buries** a member once its exporter is dead, its region is proven to have ended, and
//! all its further clients are dead. Then no verb of theirs takes effect later.
//!
//! A member is **orphaned** when its exporter is dead and its region has ended, but a further
//! client lives or may live. No hit of that client succeeds any more, and no write that needs an
//! invalidation, because each ends with a verb to its own region. So a writer need not tell an
//! orphaned member. What its clients have posted may still land. Therefore its place is not freed,
//! and the bits of its writers stay. With [`Promise::Linearizable`](crate::Promise) no stripe is
//! switched on until it is buried: a WRITE may be under way that was posted because the stripe was
//! off, and that no client can see counted.
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
//! | the member | dead | dead, or it has none | buries it; during a read it may orphan it |
//! | the member | dead | not known to be dead | orphans it |
//! | the member | not known to be dead, asked few times | | asks again after a pause |
//! | the member | not known to be dead, asked often | | gives up: [`NearError::Silent`](crate::NearError) |
//!
//! An exporter's death is not enough: until its region has ended, a client may attach to it.
//! Addresses are used again. So each header holds its member's word. A region with another word
//! belongs to another exporter, and no client reaches it for this member's.
//!
//! A client that cannot reach a table of modes orphans the member, and leaves the last two steps of
//! the burial to another one. One client does these steps, because another node may use the place
//! afterwards. It writes its identity into the place's burial word first. Another client takes over
//! once it is dead. Until then the others orphan the member, so that no write waits for a client
//! that is stopped.
//!
//! **A further client may die while its node lives.** The client that finds it dead first adds to
//! the `losses` of all living members. Where writers set bits, it then marks the place as
//! reclaimed. A client of the dead one's node clears the bits and frees the place. A bypass that
//! the dead client counted stays counted: no client switches that stripe on until the node ends.
//!
//! An application that releases the locks of a dead process calls [`Near::look_after_members`]
//! first.

use crate::absence::Standing;
use crate::directory::{DirectoryOptions, Stripe};
use crate::error::NearError;
use crate::hole::Hole;
use crate::members::{ClientWord, MemberWord};
use crate::mode::ModeWord;
use crate::near::Near;
use crate::node::Layout;
use crate::protocol::Promise;
use crate::verbs::{add, read_word, swap};
use atoll_fabric::{Endpoint, Identity, VerbError};
use std::cell::Cell;

/// Bytes of a table of modes that a burial READs at once.
const WALK_BYTES: u64 = 4096;
/// How often a client asks whether a silent member is dead: for two seconds in all. An endpoint
/// that is dropped ends its regions first, and is dead a moment later.
const ASKS_MAX: u32 = 200;
pub(crate) const ASK_PAUSE_NS: u64 = 100_000;

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

fn silent(member: MemberWord) -> NearError {
    NearError::Silent { node: member.base().compute_node().unwrap_or_default() }
}

impl<E: Endpoint> Near<E> {
    /// What is known of a member's clients.
    async fn life(&self, place: usize, member: MemberWord) -> Result<Life, NearError> {
        // This client has the identity of an earlier one, perhaps.
        let own = self.endpoint.identity();
        let is_former = member.identity() == own && place != self.place.get();
        if !is_former && !member.is_orphan() && !self.endpoint.is_dead(member.identity()).await? {
            return Ok(Life::MayLive);
        }
        // Until its region has ended, a client may still attach to it, and hit.
        if !member.is_orphan() && !self.has_region_ended(member) {
            return Ok(Life::MayLive);
        }
        Ok(if self.has_further_clients(place, member).await? { Life::Orphaned } else { Life::Dead })
    }

    /// Whether a further client of a member lives, or may.
    pub(crate) async fn has_further_clients(&self, place: usize, member: MemberWord) -> Result<bool, NearError> {
        let own = self.endpoint.identity();
        for client in self.read_clients().await?.iter().filter(|client| client.is_of(place, member)) {
            let is_former = client.identity() == own && place != self.place.get();
            if !is_former && !self.endpoint.is_dead(client.identity()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the region of a member whose exporter is dead is known to have ended.
    fn has_region_ended(&self, member: MemberWord) -> bool {
        match self.reach_region(member) {
            Ok(is_its) => !is_its,
            Err(error) => matches!(error, VerbError::ExportAbsent(_)),
        }
    }

    /// After a verb to a member's region has failed: buries the member if it is dead.
    pub(crate) async fn after_silence(
        &self,
        place: usize,
        member: MemberWord,
        error: VerbError,
    ) -> Result<(), NearError> {
        if !error.is_of_ended_export() {
            return Err(error.into());
        }
        for asked in 1.. {
            // It may have left, or another client may have buried it.
            let is_member = read_word(&self.endpoint, self.directory.member_at(place)).await? == member.bits();
            let mut life = if is_member { self.life(place, member).await? } else { Life::MayLive };
            if life == Life::Dead && !self.may_clear_bits() {
                life = Life::Orphaned;
            }
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
                OnSilence::AskAgain => self.pause_before_asking(asked).await,
                OnSilence::GiveUp => return Err(silent(member)),
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
            if other == self.place.get() {
                match add(&self.endpoint, Layout::losses_on(living.base()), 1).await {
                    Err(error) if error.is_of_ended_export() => {}
                    added => drop(added?),
                }
                continue;
            }
            self.check_own_region(other, *living)?;
            self.end_copies_of(*living).await?;
        }
        Ok(())
    }

    /// Ends the copies of another member, which may die meanwhile.
    async fn end_copies_of(&self, living: MemberWord) -> Result<(), NearError> {
        for asked in 1..ASKS_MAX {
            match self.reach_region(living) {
                Ok(true) => {}
                // A second dead member has no copies either; its own burial follows.
                Ok(false) | Err(VerbError::ExportAbsent(_)) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            match add(&self.endpoint, Layout::losses_on(living.base()), 1).await {
                Err(error) if error.is_of_ended_export() => self.pause_before_asking(asked).await,
                Err(error) if !self.has_region_ended(living) => return Err(error.into()),
                Ok(_) | Err(_) => return Ok(()),
            }
        }
        Err(silent(living))
    }

    /// Waits longer each time, so that few verbs are spent on a member that is slow to die.
    async fn pause_before_asking(&self, asked: u32) {
        self.endpoint.pause(ASK_PAUSE_NS * u64::from(asked)).await;
    }

    /// Orphans a member whose region has ended with its exporter.
    async fn orphan(&self, place: usize, member: MemberWord) -> Result<(), NearError> {
        self.end_copies_after_death(Some(place)).await?;
        let at = self.directory.member_at(place);
        let is_orphaned = swap(&self.endpoint, at, member.bits(), member.orphaned().bits()).await?.is_ok();
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
        if !is_freed && member.is_present() {
            // It is told nothing any more. This client buries it later, or another one does, which
            // may be stopped.
            let at = self.directory.member_at(place);
            let _ = swap(&self.endpoint, at, member.bits(), member.orphaned().bits()).await?;
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
        if read_word(&self.endpoint, at).await? != member.bits() {
            return Ok(false);
        }
        if !self.clear_bits(place).await? {
            return Ok(false);
        }
        for (number, client) in self.read_clients().await?.iter().enumerate() {
            if client.is_of(place, member) {
                let _ = swap(&self.endpoint, self.directory.client_at(number), client.bits(), 0).await?;
            }
        }
        let mut freed = swap(&self.endpoint, at, member.bits(), member.freed().bits()).await?;
        if freed == Err(member.orphaned().bits()) {
            // Another client has not waited for this one.
            freed = swap(&self.endpoint, at, member.orphaned().bits(), member.freed().bits()).await?;
        }
        let is_freed = freed.is_ok();
        self.counting.add(|counts| counts.burials += u64::from(is_freed));
        Ok(is_freed)
    }

    /// Whether writers set bits in modes.
    pub(crate) fn has_bits(&self) -> bool {
        let DirectoryOptions { protocol, promise, .. } = self.directory.options();
        promise == Promise::Linearizable && protocol.is_adaptive()
    }

    /// Whether no operation that may find a dead member may be dropped. What it had posted could
    /// clear the bit of a later writer.
    pub(crate) fn may_clear_bits(&self) -> bool {
        !self.has_bits() || self.may_be_dropped.get() == 0
    }

    /// Clears the bits of a place of which no client lives; whether none is left.
    pub(crate) async fn clear_bits(&self, place: usize) -> Result<bool, NearError> {
        Ok(!self.has_bits() || self.clear_writer(place).await?)
    }

    /// Clears the bit of a dead writer wherever it stands; whether no bit is left.
    async fn clear_writer(&self, place: usize) -> Result<bool, NearError> {
        let clear = async |stripe: Stripe, mut word: ModeWord| {
            while word.is_writer(place) {
                let cleared = word.bits() - ModeWord::writer(place);
                match swap(&self.endpoint, stripe.mode_at, word.bits(), cleared).await? {
                    Ok(()) => break,
                    Err(found) => word = ModeWord::from_bits(found),
                }
            }
            Ok(())
        };
        self.for_each_bit(place, clear).await
    }

    /// Calls `clear` for each stripe in whose word of the table the bit of a place is set; whether
    /// every table was READ that is still there.
    pub(crate) async fn for_each_bit(
        &self,
        place: usize,
        mut clear: impl AsyncFnMut(Stripe, ModeWord) -> Result<(), NearError>,
    ) -> Result<bool, NearError> {
        let mut is_all = true;
        for table in self.directory.tables() {
            match self.look_at_table(table).await? {
                Standing::Used(_) => {}
                // With the region its bits are gone, and a dead writer sets none in the next one.
                Standing::Absent(_) | Standing::Gone(_) => continue,
                // Another client reaches it.
                Standing::Unknown => {
                    is_all = false;
                    continue;
                }
            }
            for part in self.directory.parts(table, WALK_BYTES) {
                let Some(words) = self.read_modes(&part).await? else {
                    is_all = false;
                    break;
                };
                for (stripe, word) in part.modes(words.words()) {
                    let word = ModeWord::from_bits(word);
                    if word.is_writer(place) {
                        clear(stripe, word).await?;
                    }
                }
            }
        }
        Ok(is_all)
    }

    /// Buries every member that is dead, reclaims what dead clients of living members have left,
    /// and returns how many places of members that has freed. Copies of this compute node that a
    /// dead client may have failed to invalidate are not served afterwards. An application calls it
    /// before it releases locks of a dead process, and now and then besides.
    ///
    /// # Errors
    /// [`NearError::Ended`]: the region of this node has ended. Enter again, and call this before
    /// locks are released. A verb's error: call again.
    pub async fn look_after_members(&self) -> Result<usize, NearError> {
        self.or_ended(self.look_after_all().await).await
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
        self.reclaim_clients().await?;
        self.refresh().await?;
        Ok(buried)
    }

    fn is_of_this_node(&self, client: ClientWord) -> bool {
        client.is_of(self.place.get(), self.member.get())
    }

    /// Reclaims what further clients have left that died alone; the places of how many. Where
    /// writers set bits, the place of another node's client is only marked, for that node.
    pub(crate) async fn reclaim_clients(&self) -> Result<usize, NearError> {
        let own = self.endpoint.identity();
        let mut dead = Vec::new();
        // A member that comes later has another epoch.
        let members = self.read_table().await?;
        let has_node = |client: ClientWord| {
            members.iter().enumerate().any(|(place, member)| !member.is_free() && client.is_of(place, *member))
        };
        for (number, client) in self.read_clients().await?.into_iter().enumerate() {
            let is_former = client.identity() == own && self.client_place.get() != Some(number);
            let is_others = has_node(client) && !self.is_of_this_node(client);
            let is_known = client.bits() == 0 || client.is_reclaimed() && is_others;
            if !is_known && (is_former || self.endpoint.is_dead(client.identity()).await?) {
                dead.push((number, client));
            }
        }
        if dead.iter().any(|(_, client)| !client.is_reclaimed()) {
            self.end_copies_after_death(None).await?;
        }
        let is_own_clear =
            !dead.iter().any(|(_, client)| self.is_of_this_node(*client)) || self.clear_left_bits().await?;
        let mut reclaimed = 0;
        for (number, client) in dead {
            let is_cleared = if self.is_of_this_node(client) { is_own_clear } else { !has_node(client) };
            let is_left = self.has_bits() && !is_cleared;
            let left = if is_left { client.reclaimed().bits() } else { 0 };
            reclaimed +=
                usize::from(swap(&self.endpoint, self.directory.client_at(number), client.bits(), left).await?.is_ok());
        }
        self.counting.add(|counts| counts.reclaimed += reclaimed as u64);
        Ok(reclaimed)
    }
}

/// An operation that may be dropped, and may find a dead member.
pub(crate) struct MayBeDropped<'n>(&'n Cell<u32>);

impl<'n> MayBeDropped<'n> {
    pub(crate) fn begin(operations: &'n Cell<u32>) -> Self {
        operations.update(|operations| operations + 1);
        Self(operations)
    }
}

impl Drop for MayBeDropped<'_> {
    fn drop(&mut self) {
        self.0.update(|operations| operations - 1);
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
    use crate::directory::Directory;
    use crate::node::{LINE_BYTES, NodeOptions};
    use crate::object::Object;
    use crate::rows::{Row, follow};
    use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
    use atoll_fabric::{Address, Buffer, Clock, run_ready};
    use std::sync::Arc;

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

    /// A home, and directories in it.
    struct Stage {
        home: Arc<ShmRegion>,
    }

    impl Stage {
        fn new() -> Self {
            Self { home: Arc::new(ShmRegion::anonymous(1 << 16).unwrap()) }
        }

        fn endpoint(&self) -> ShmEndpoint {
            ShmEndpoint::with_regions(vec![self.home.clone()], Clock::host())
        }

        async fn directory(&self, number: u64) -> Directory {
            let options = DirectoryOptions { stripes: 1, cached_at_first: true, ..DirectoryOptions::default() };
            let at = |offset: u64| Address::new(0, 0, (number << 14) + offset);
            Directory::create(&self.endpoint(), at(0), &[at(8192)], options).await.unwrap()
        }

        async fn join(&self, directory: &Directory) -> Near<ShmEndpoint> {
            let options = NodeOptions { bytes: 1 << 14, segment_bytes: 1024 };
            Near::join(self.endpoint(), directory.clone(), options).await.unwrap()
        }

        async fn attach(&self, near: &Near<ShmEndpoint>) -> Near<ShmEndpoint> {
            Near::attach(self.endpoint(), near.directory.clone(), near.region()).await.unwrap()
        }
    }

    fn object() -> Object {
        Object::new(Address::new(0, 0, 1 << 15), 8)
    }

    async fn header<E: Endpoint>(near: &Near<E>) -> Vec<u64> {
        near.endpoint.read(near.region(), Buffer::sized(LINE_BYTES as usize)).await.unwrap().words().to_vec()
    }

    #[test]
    fn a_client_of_an_ended_region_does_not_use_the_next_one_that_has_its_address() {
        run_ready(async {
            for is_of_same_directory in [true, false] {
                let stage = Stage::new();
                let directories = [stage.directory(0).await, stage.directory(1).await];
                let former = stage.join(&directories[0]).await;
                let (client, dead) = (stage.attach(&former).await, stage.attach(&former).await);
                drop((former, dead));
                let later = stage.join(&directories[usize::from(!is_of_same_directory)]).await;
                assert_eq!(later.region(), client.region(), "the number is lent again");
                let before = header(&later).await;
                for _ in 0..2 {
                    let looked = client.look_after_members().await;
                    assert!(matches!(looked, Err(NearError::Ended)), "{looked:?}");
                }
                assert!(matches!(client.read(&object(), Buffer::new()).await, Err(NearError::Ended)));
                assert!(matches!(client.write(&object(), Buffer::sized(8)).await, Err(NearError::Ended)));
                client.detach().await.unwrap();
                assert_eq!(header(&later).await, before);
            }
        });
    }

    #[test]
    fn a_region_of_another_directory_is_not_told_in_place_of_a_dead_member() {
        run_ready(async {
            let stage = Stage::new();
            let directories = [stage.directory(0).await, stage.directory(1).await];
            let former = stage.join(&directories[0]).await;
            let region = former.region();
            drop(former);
            let other = stage.join(&directories[1]).await;
            assert_eq!(other.region(), region, "the number is lent again");
            let before = header(&other).await;
            let near = stage.join(&directories[0]).await;
            near.write(&object(), Buffer::sized(8)).await.unwrap();
            assert_eq!((near.counts().burials, header(&other).await), (1, before));
        });
    }

    #[test]
    fn a_client_that_is_stopped_as_it_buries_a_member_does_not_keep_copies_from_others() {
        run_ready(async {
            let stage = Stage::new();
            let directory = stage.directory(0).await;
            let (former, near, stopped) =
                (stage.join(&directory).await, stage.join(&directory).await, stage.endpoint());
            let place = former.place.get();
            let stopped_is = u64::from(stopped.identity().bits());
            swap(&near.endpoint, directory.burial_at(place), 0, stopped_is).await.unwrap().unwrap();
            drop(former);
            near.write(&object(), Buffer::sized(8)).await.unwrap();
            let losses = read_word(&near.endpoint, Layout::losses_on(near.region())).await.unwrap();
            near.write(&object(), Buffer::sized(8)).await.unwrap();
            let losses_then = read_word(&near.endpoint, Layout::losses_on(near.region())).await.unwrap();
            assert_eq!((losses, losses_then), (1, 1), "copies end once");
            // It goes on where it was stopped, and frees the place.
            swap(&near.endpoint, directory.burial_at(place), stopped_is, 0).await.unwrap().unwrap();
            assert_eq!(near.look_after_members().await.unwrap(), 1);
        });
    }

    #[test]
    fn a_client_that_has_attached_leaves_without_its_node() {
        run_ready(async {
            let stage = Stage::new();
            let near = stage.join(&stage.directory(0).await).await;
            stage.attach(&near).await.leave().await.unwrap();
            stage.attach(&near).await;
        });
    }
}
