//! What happens when clients of compute nodes die.
//!
//! A client **buries** a member once its exporter is dead, its region is proven to have ended, and
//! all its further clients are dead. Then no verb of theirs takes effect later.
//!
//! A member is **orphaned** whose region has ended with its exporter, while a further client lives
//! or may live. No hit of that client succeeds any more, and no write that needs an invalidation,
//! because each ends with a verb to its own region. So a writer need not tell an orphaned member.
//! What its clients have posted may still land. Therefore its place is not freed, and the bits of
//! its writers stay. With [`Promise::Linearizable`](crate::Promise) no stripe is switched on until
//! it is buried: a WRITE may be under way that was posted because the stripe was off, and that no
//! client can see counted.
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
//! An exporter's death is not enough: until its region has ended, a client may attach to it.
//! Addresses are used again. So each header holds its member's word. A region with another word
//! belongs to another exporter.
//!
//! A client that cannot reach a table of modes orphans the member, and leaves the last two steps of
//! the burial to another one. One client does these steps, because another node may use the place
//! afterwards. It writes its identity into the place's burial word first. Another client takes over
//! once it is dead.
//!
//! **A further client may die while its node lives.** The client that finds it dead first adds to
//! the `losses` of all living members. Where writers set bits, it then marks the place as
//! reclaimed. A client of the dead one's node clears the bits and frees the place. A bypass that
//! the dead client counted stays counted: no client switches that stripe on until the node ends.
//!
//! An application that releases the locks of a dead process calls [`Near::look_after_members`]
//! first.

use crate::absence::Standing;
use crate::directory::{DirectoryOptions, Table};
use crate::error::NearError;
use crate::hole::Hole;
use crate::members::{ClientWord, MemberWord};
use crate::mode::ModeWord;
use crate::near::Near;
use crate::node::Layout;
use crate::protocol::Promise;
use crate::verbs::{add, is_of_ended_region, read_word, swap};
use atoll_fabric::{Buffer, Endpoint, Identity, VerbError};
use std::cell::Cell;

/// Bytes of a table of modes that a burial READs at once.
pub(crate) const WALK_BYTES: u64 = 4096;
/// How often a client asks whether a silent member is dead, and how long it waits between.
const ASKS_MAX: u32 = 64;
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
        if !member.is_orphan() && !self.has_region_ended(member).await {
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

    /// Whether the region of a member whose exporter is dead is known to have ended. Its number may
    /// have been lent again: then another region is there.
    async fn has_region_ended(&self, member: MemberWord) -> bool {
        match self.endpoint.reach_export(member.base()) {
            Ok(_) => {}
            Err(error) => return matches!(error, VerbError::ExportAbsent(_)),
        }
        match read_word(&self.endpoint, Layout::member_on(member.base())).await {
            Ok(found) => found != member.bits(),
            Err(error) => is_of_ended_region(&error),
        }
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
            let is_member = read_word(&self.endpoint, self.directory.member_at(place)).await? == member.bits();
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
            if other == self.place.get() {
                match add(&self.endpoint, Layout::losses_on(living.base()), 1).await {
                    Err(error) if is_of_ended_region(&error) => {}
                    added => drop(added?),
                }
                continue;
            }
            match self.endpoint.reach_export(living.base()) {
                // A second dead member has no copies either; its own burial follows.
                Err(VerbError::ExportAbsent(_)) => continue,
                reached => drop(reached?),
            }
            if let Err(error) = add(&self.endpoint, Layout::losses_on(living.base()), 1).await
                && !self.has_region_ended(*living).await
            {
                return Err(error.into());
            }
        }
        Ok(())
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
            if !is_freed && member.is_present() {
                // It is told nothing any more, and buried later.
                let at = self.directory.member_at(place);
                let _ = swap(&self.endpoint, at, member.bits(), member.orphaned().bits()).await?;
            }
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
        let is_freed = swap(&self.endpoint, at, member.bits(), member.freed().bits()).await?.is_ok();
        self.counting.add(|counts| counts.burials += u64::from(is_freed));
        Ok(is_freed)
    }

    /// Whether writers set bits in modes.
    pub(crate) fn has_bits(&self) -> bool {
        let DirectoryOptions { protocol, promise, .. } = self.directory.options();
        promise == Promise::Linearizable && protocol.is_adaptive()
    }

    /// Clears the bits of a place of which no client lives; whether none is left.
    pub(crate) async fn clear_bits(&self, place: usize) -> Result<bool, NearError> {
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
}
