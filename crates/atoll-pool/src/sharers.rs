//! Sharers: near caches, each of which keeps copies of the pool's objects for processes of a host.
//!
//! A sharer exports a region of words. It serves a copy only as long as the copy's word has not
//! changed since before the object was READ. A client that changes an object of which copies may
//! exist adds 1 to that word of every sharer **before** the change: then no copy outlives its
//! object. Whether copies may exist, the object's own word says: see the tenant.
//!
//! ```text
//! home     version | 64 x sharer                                      atomics only
//! sharer   compute node 13 | region 6 | identity 30 | log2 of words 5 | epoch 10   free: identity
//! 0 region   magic, identity, nonce                                   data
//! 64         everything         others' atomics: no copy of before is valid
//! 128        words              others' atomics, each for all objects whose hashes choose it
//! ```
//!
//! | step of a sharer that joins | from then on |
//! |---|---|
//! | it swaps its word into a free place | clients that READ the table find it |
//! | it adds 1 to the version | clients that remember an older table READ it again |
//! | it makes copies | |
//!
//! A client forbids copies of the object first (in the object's own word), then tells the sharers
//! that it remembers, and READs the version in the same batch. If that is another one, it READs the
//! table, and tells those that it has not told. A sharer that it misses has not made copies before
//! the version was READ, and finds them forbidden.
//!
//! **A sharer that has ended** is found by its export, which is gone: it answers nothing any more.
//! The client that finds it so frees its place. A client that cannot reach a sharer whose export is
//! there changes nothing, and returns the error.

use crate::words::{read_word, swap};
use crate::{Fields, Layout, Pool};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, VerbError};
use std::cell::RefCell;
#[cfg(feature = "holes")]
use std::sync::atomic::Ordering;

/// Most sharers of a pool at a time.
pub const SHARERS_MAX: usize = 64;
/// Bytes of the table on the home.
pub(crate) const TABLE_BYTES: u64 = 64 + 8 * SHARERS_MAX as u64;
/// The first word of a sharer's region: "shar" and a version.
pub const MAGIC: u64 = 0x0001_7261_6873_0001;
const IDENTITY: u64 = 8;
const NONCE: u64 = 16;
const EVERYTHING: u64 = 64;
const WORDS: u64 = 128;
/// Tries to tell a sharer whose export is there.
const TRIES: u32 = 3;
/// Fewest and most words of a sharer, as powers of two.
pub const WORDS_LOG2: std::ops::RangeInclusive<u32> = 4..=26;

const FIELDS: Fields<5> = Fields::new([13, 6, Identity::BITS, 5, 10]);

/// A guard of the protocol that a test switches off, to show the harm. The last two are used where
/// copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// Sharers are told before an object changes.
    ToldBeforeChange,
    /// A client looks for newcomers after it has told those that it knows.
    Newcomers,
    /// No copies of an object are made while a client ends them.
    NoneOfClosed,
    /// What a copy depends on is sampled before the slot is READ.
    SampleFirst,
}

impl Layout {
    /// Opens a hole for all clients of this process.
    #[cfg(feature = "holes")]
    pub fn open_hole_of_sharers(&self, hole: Option<Hole>) {
        self.nodes.sharers_hole.store(hole.map_or(0, |hole| hole as u32 + 1), Ordering::Relaxed);
    }

    /// Whether the guard is switched off.
    #[inline]
    pub fn lacks(&self, hole: Hole) -> bool {
        #[cfg(feature = "holes")]
        return self.nodes.sharers_hole.load(Ordering::Relaxed) == hole as u32 + 1;
        #[cfg(not(feature = "holes"))]
        {
            let _ = hole;
            false
        }
    }
}

/// A place in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharer(u64);

impl Sharer {
    fn new(at: Address, identity: Identity, words_log2: u32, before: Self) -> Self {
        let node = at.compute_node().expect("a sharer exports its region");
        let epoch = (FIELDS.unpack(before.0)[4] + 1) & FIELDS.max(4);
        Self(FIELDS.pack([node.into(), at.region().into(), identity.bits().into(), words_log2.into(), epoch]))
    }

    fn is_free(self) -> bool {
        FIELDS.unpack(self.0)[2] == 0
    }

    fn freed(self) -> Self {
        Self(FIELDS.pack([0, 0, 0, 0, FIELDS.unpack(self.0)[4]]))
    }

    /// Its region.
    pub fn at(self) -> Address {
        let [node, region, ..] = FIELDS.unpack(self.0);
        Address::on_compute(node as u16, region as u8, 0)
    }

    fn identity(self) -> u64 {
        FIELDS.unpack(self.0)[2]
    }

    fn words_log2(self) -> u32 {
        FIELDS.unpack(self.0)[3] as u32
    }

    /// Whether the word is one that a sharer has written.
    fn is_sound(self) -> bool {
        WORDS_LOG2.contains(&self.words_log2())
    }
}

/// Bytes of a region with so many words.
pub const fn region_bytes(words_log2: u32) -> u64 {
    WORDS + (8 << words_log2)
}

/// The word of a sharer's region that says whether any copy is valid.
pub fn everything(at: Address) -> Address {
    at.add(EVERYTHING)
}

/// The word of a sharer's region that tells it from every other one that was or will be there.
pub fn nonce(at: Address) -> Address {
    at.add(NONCE)
}

/// The word of a sharer's region for objects with this hash.
pub fn word(at: Address, words_log2: u32, hash: u64) -> Address {
    at.add(WORDS + 8 * (hash & ((1 << words_log2) - 1)))
}

/// Which copies end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Those of objects with this hash.
    Of(u64),
    /// All.
    Everything,
}

impl Ending {
    fn word_of(self, sharer: Sharer) -> Address {
        match self {
            Self::Of(hash) => word(sharer.at(), sharer.words_log2(), hash),
            Self::Everything => everything(sharer.at()),
        }
    }
}

/// The sharers, as one client remembers them.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The version before the table was READ; `None` before the first READ.
    version: Option<u64>,
    sharers: Vec<(usize, Sharer)>,
}

/// What one client knows of the sharers.
#[derive(Debug, Default)]
pub struct Sharers {
    known: RefCell<Known>,
}

impl Sharers {
    /// Ends copies on all sharers. When it returns, no sharer serves a copy that was made before.
    ///
    /// # Errors
    /// A verb's error: some sharers may not have been told.
    pub async fn end<E: Endpoint>(&self, endpoint: &E, layout: &Layout, ending: Ending) -> Result<(), VerbError> {
        let mut told: Vec<(usize, Sharer)> = Vec::new();
        if layout.lacks(Hole::ToldBeforeChange) && matches!(ending, Ending::Of(_)) {
            return Ok(());
        }
        loop {
            let Known { version, mut sharers } = self.known.borrow().clone();
            sharers.retain(|sharer| !told.contains(sharer));
            let mut batch = Batch::new();
            let now = batch.read_word(layout.sharers_version());
            let most = endpoint.limits().batch_verbs_max - 1;
            let (first, rest) = sharers.split_at(sharers.len().min(most));
            for (_, sharer) in first {
                batch.fetch_and_add(ending.word_of(*sharer), 1);
            }
            let posted = endpoint.post(&mut batch).await;
            let (now, left) = match posted {
                Ok(()) => (batch.word(now), rest),
                Err(error) if error.is_of_ended_export() => {
                    (read_word(endpoint, layout.sharers_version()).await?, &*sharers)
                }
                Err(error) => return Err(error),
            };
            for (place, sharer) in left {
                self.tell(endpoint, layout, (*place, *sharer), ending).await?;
            }
            told.append(&mut sharers);
            if version == Some(now) || version.is_some() && layout.lacks(Hole::Newcomers) {
                return Ok(());
            }
            self.learn(endpoint, layout).await?;
        }
    }

    /// Tells one sharer, and frees its place if its export is gone.
    async fn tell<E: Endpoint>(
        &self,
        endpoint: &E,
        layout: &Layout,
        (place, sharer): (usize, Sharer),
        ending: Ending,
    ) -> Result<(), VerbError> {
        let mut tried = Ok(());
        for _ in 0..TRIES {
            let mut batch = Batch::new();
            batch.fetch_and_add(ending.word_of(sharer), 1);
            tried = endpoint.post(&mut batch).await;
            if !tried.as_ref().is_err_and(VerbError::is_of_ended_export) {
                return tried;
            }
            match reach(endpoint, sharer) {
                // This client did not reach it any more, or never did.
                Ok(true) if is_its(endpoint, sharer).await? => {}
                // In the other case the number was lent to an endpoint that exports something else.
                Ok(_) | Err(VerbError::ExportAbsent(_) | VerbError::PeerDead) => {
                    return self.free(endpoint, layout, (place, sharer)).await;
                }
                Err(error) => return Err(error),
            }
        }
        tried
    }

    /// Frees the place of a sharer that has ended.
    async fn free<E: Endpoint>(
        &self,
        endpoint: &E,
        layout: &Layout,
        (place, sharer): (usize, Sharer),
    ) -> Result<(), VerbError> {
        swap(endpoint, layout.sharer(place), sharer.0, sharer.freed().0).await?;
        self.known.borrow_mut().sharers.retain(|known| *known != (place, sharer));
        Ok(())
    }

    /// READs the table, and reaches the regions of sharers that are new in it.
    async fn learn<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<(), VerbError> {
        let version = read_word(endpoint, layout.sharers_version()).await?;
        let mut sharers = table(endpoint, layout).await?;
        let before = self.known.borrow().sharers.clone();
        sharers.retain(|(_, sharer)| !sharer.is_free() && sharer.is_sound());
        for index in (0..sharers.len()).rev().filter(|index| !before.contains(&sharers[*index])).collect::<Vec<_>>() {
            let (place, sharer) = sharers[index];
            // One that cannot be reached is found when it is told.
            let is_gone = match reach(endpoint, sharer) {
                Ok(is_reached) => !is_reached || !is_its(endpoint, sharer).await?,
                Err(_) => false,
            };
            if is_gone {
                self.free(endpoint, layout, (place, sharer)).await?;
                sharers.remove(index);
            }
        }
        let mut known = self.known.borrow_mut();
        // Another operation of this client may have READ a later table.
        if known.version.is_none_or(|known| version >= known) {
            *known = Known { version: Some(version), sharers };
        }
        Ok(())
    }
}

/// Reaches a sharer's region, unless one of another endpoint has its address by now.
fn reach<E: Endpoint>(endpoint: &E, sharer: Sharer) -> Result<bool, VerbError> {
    endpoint.reach_export_if(sharer.at().add(IDENTITY), sharer.identity())
}

/// Whether the region that is reached at a sharer's place is the sharer's own.
async fn is_its<E: Endpoint>(endpoint: &E, sharer: Sharer) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let (magic, identity) = (batch.read_word(sharer.at()), batch.read_word(sharer.at().add(IDENTITY)));
    // It has all its words.
    batch.read_word(sharer.at().add(region_bytes(sharer.words_log2()) - 8));
    match endpoint.post(&mut batch).await {
        Ok(()) => Ok(batch.word(magic) == MAGIC && batch.word(identity) == sharer.identity()),
        Err(error) if error.is_of_ended_export() => Ok(false),
        Err(error) => Err(error),
    }
}

async fn table<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<Vec<(usize, Sharer)>, VerbError> {
    let words = endpoint.read(layout.sharer(0), Buffer::sized(8 * SHARERS_MAX)).await?;
    Ok(words.words().iter().map(|word| Sharer(*word)).enumerate().collect())
}

/// Ends all copies of all sharers, for a client that knows none of them.
pub(crate) async fn end_everything<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<(), VerbError> {
    Sharers::default().end(endpoint, &pool.layout, Ending::Everything).await
}

/// A place in the table that a sharer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    place: usize,
    sharer: Sharer,
}

impl Joined {
    /// The sharer's region.
    pub fn at(&self) -> Address {
        self.sharer.at()
    }
}

/// Enters the region at `at`, which the endpoint has exported, into the table, and gives it its
/// [nonce]. `None` if the pool has as many sharers as it can have. From now on copies may be made.
///
/// # Errors
/// A verb's error: then no copy may be made.
pub async fn join<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    at: Address,
    words_log2: u32,
    nonce: u64,
) -> Result<Option<Joined>, VerbError> {
    assert!(WORDS_LOG2.contains(&words_log2), "words of a sharer");
    let mut batch = Batch::new();
    batch.write_word(at.add(NONCE), nonce);
    batch.write_word(at.add(IDENTITY), endpoint.identity().bits().into());
    batch.write_word(at, MAGIC);
    endpoint.post(&mut batch).await?;
    for _ in 0..SHARERS_MAX {
        let mut free = None;
        for (place, sharer) in table(endpoint, layout).await? {
            // One that ended without a word still has its place.
            let is_gone = || matches!(reach(endpoint, sharer), Ok(false) | Err(VerbError::ExportAbsent(_)));
            if sharer.is_free() || sharer.at() == at {
                free = Some((place, sharer));
                break;
            }
            if !sharer.is_sound() || free.is_none() && is_gone() {
                free = Some((place, sharer));
            }
        }
        let Some((place, before)) = free else { return Ok(None) };
        let sharer = Sharer::new(at, endpoint.identity(), words_log2, before);
        if swap(endpoint, layout.sharer(place), before.0, sharer.0).await? {
            let mut batch = Batch::new();
            batch.fetch_and_add(layout.sharers_version(), 1);
            endpoint.post(&mut batch).await?;
            return Ok(Some(Joined { place, sharer }));
        }
    }
    Ok(None)
}

/// Gives the place back. The process serves no copy any more.
///
/// # Errors
/// A verb's error; then another client frees the place.
pub async fn leave<E: Endpoint>(endpoint: &E, layout: &Layout, joined: Joined) -> Result<(), VerbError> {
    swap(endpoint, layout.sharer(joined.place), joined.sharer.0, joined.sharer.freed().0).await.map(drop)
}

/// The sharers of a pool whose exports are there: their regions. One that was killed has its place
/// until another process needs it.
///
/// # Errors
/// A verb's error.
pub async fn all<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<Address>, VerbError> {
    let table = table(endpoint, &pool.layout).await?;
    let is_there = |sharer: &Sharer| !sharer.is_free() && reach(endpoint, *sharer) == Ok(true);
    Ok(table.into_iter().map(|(_, sharer)| sharer).filter(is_there).map(Sharer::at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_has_another_word_and_a_zero_is_free() {
        let at = Address::on_compute(8191, 63, 0);
        let first = Sharer::new(at, Identity::from_bits(9), 20, Sharer::default());
        assert!(Sharer::default().is_free() && !first.is_free() && first.is_sound());
        assert_eq!((first.at(), first.words_log2()), (at, 20));
        let again = Sharer::new(at, Identity::from_bits(9), 20, first.freed());
        assert!(first.freed().is_free() && again != first);
    }

    #[test]
    fn every_hash_has_a_word_of_the_region() {
        let at = Address::on_compute(3, 0, 0);
        for hash in [0, 1, 15, 16, u64::MAX] {
            let offset = word(at, 4, hash).offset();
            assert!((WORDS..region_bytes(4)).contains(&offset) && offset.is_multiple_of(8), "{offset}");
        }
        assert!(everything(at).offset() < WORDS);
    }
}
