//! The words of a near cache: by them its processes find that an object may have changed. They are
//! those of a [sharer](atoll_pool::sharers), which one of the processes exports and all follow.
//!
//! A client samples the word of an object's hash, looks at the object, and permits copies in its
//! slot. As long as the word is the same, no client has changed the object. The near cache
//! ([`values`](super)) keeps the object's value by that; a server tells its own clients by it.
//!
//! **One client exports** the words, the others follow them. When that client ends, another one
//! exports anew. Every export is a new *turn*: what was sampled in an earlier turn says nothing any
//! more. Who exports is written in the memory that the processes share, in a word (`export`).
//!
//! Numbers of compute nodes are lent again. So a client that follows an export looks for its nonce
//! there: no other region has it.

use super::store::{EXPORT, ID};
use crate::error::NearError;
use crate::export::{Attempt, Export, Exported};
use atoll_fabric::shm::{HostMemory, HostUser};
use atoll_fabric::{Address, Endpoint, Identity, Kind, Lifetime, RegionAttributes, VerbError};
use atoll_pool::Layout;
use atoll_pool::sharers::{self, Joined};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A region of fewer bytes is none on some fabrics: a page.
const REGION_BYTES_MIN: u64 = 4096;
/// How long a client waits before it tries again to follow or export.
const RETRY_NS: u64 = 10_000_000;
/// The same where the words that are exported cannot be had.
const RETRY_HERE_NS: u64 = 10 * RETRY_NS;
/// How long others wait for a client that is about to export.
const ATTEMPT_NS: u64 = 1_000_000_000;

/// The words of an object as they were at a moment: its own, and that of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Whose words: no other words of the process have the number.
    words: u64,
    export: Export,
    everything: u64,
    word: u64,
}

impl Sample {
    /// Whether it says nothing any more of what was found before, whichever object that was.
    pub fn ends_all_since(&self, before: &Self) -> bool {
        (self.words, self.export, self.everything) != (before.words, before.export, before.everything)
    }

    /// Whether it was taken in a later turn, or in the same.
    pub(super) fn is_not_before(&self, other: &Self) -> bool {
        self.export.is_not_before(other.export)
    }

    /// As it is kept with a copy, among those of the same words.
    pub(super) fn bits(&self) -> [u64; 3] {
        [self.export.bits(), self.everything, self.word]
    }
}

/// The words of a near cache, which its clients share.
#[derive(Debug)]
pub struct Words {
    words_log2: u32,
    memory: Arc<HostMemory>,
    /// No other words of this process have it.
    number: u64,
}

impl Words {
    /// So many words of this process alone, as a power of two. They take memory once a client
    /// follows them.
    ///
    /// # Errors
    /// [`NearError::Export`] if the host has no page of memory left.
    ///
    /// # Panics
    /// If no sharer can have so many: see [`sharers::WORDS_LOG2`].
    pub fn new(words_log2: u32) -> Result<Self, NearError> {
        Ok(Self::in_memory(Arc::new(HostMemory::of_process(ID + 1, ID + 1)?), words_log2))
    }

    /// So many words, whose export is told in this memory.
    pub(super) fn in_memory(memory: Arc<HostMemory>, words_log2: u32) -> Self {
        assert!(sharers::WORDS_LOG2.contains(&words_log2), "words of a sharer");
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self { words_log2, memory, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    /// The memory in which the export is told.
    pub(super) fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// The number of the word for objects of this hash.
    #[inline]
    pub fn number(&self, hash: u64) -> u32 {
        (hash & ((1 << self.words_log2) - 1)) as u32
    }

    /// The sample of these words with these [bits](Sample::bits).
    #[inline]
    pub(super) fn sample_of(&self, [export, everything, word]: [u64; 3]) -> Sample {
        Sample { words: self.number, export: Export::from_bits(export), everything, word }
    }

    #[inline]
    fn export(&self) -> Export {
        Export::of(self.memory.word(EXPORT))
    }

    /// The nonce of an export. `random` becomes the memory's id if it has none.
    fn nonce(&self, export: Export, random: u64) -> u64 {
        export.nonce(self.memory.word(ID), random)
    }

    /// Changes who exports, if that is still as it was at `before`; what is there then.
    fn change(&self, before: Export, exported: Exported) -> Option<Export> {
        before.change(self.memory.word(EXPORT), exported)
    }
}

/// One client's way to the words.
#[derive(Debug)]
pub struct Follower {
    words: Arc<Words>,
    user: HostUser,
    /// What its endpoint follows; [`Export::NONE`] if nothing.
    followed: Cell<(Export, Address)>,
    /// What it exports itself.
    joined: Cell<Option<(Export, Joined)>>,
    /// A region that it exports and that is not in the table.
    unused: Cell<Option<Address>>,
    /// When it may try again.
    retry_ns: Cell<u64>,
    attempt: Attempt,
}

impl Follower {
    /// A client of these words. It follows, or exports, when it first needs one.
    pub fn new(words: Arc<Words>) -> Self {
        let user = HostUser::new(words.memory.clone());
        Self {
            words,
            user,
            followed: Cell::new(Self::NOTHING),
            joined: Cell::new(None),
            unused: Cell::new(None),
            retry_ns: Cell::new(0),
            attempt: Attempt::default(),
        }
    }

    const NOTHING: (Export, Address) = (Export::NONE, Address::on_compute(0, 0, 0));

    /// The words.
    pub fn words(&self) -> &Arc<Words> {
        &self.words
    }

    /// The words now, for objects of this hash. `None` if this client follows none.
    #[inline]
    pub fn sample<E: Endpoint>(&self, endpoint: &E, hash: u64) -> Option<Sample> {
        let (export, at) = self.followed.get();
        if export == Export::NONE {
            return None;
        }
        let word = endpoint.own_word(sharers::word(at, self.words.words_log2, hash))?;
        let everything = endpoint.own_word(sharers::everything(at))?;
        // Last: before its client gives its place back, a turn ends.
        let is_present = self.words.export() == export;
        is_present.then_some(Sample { words: self.words.number, export, everything, word })
    }

    /// The same; a client that follows none tries to first.
    #[inline]
    pub async fn sample_now<E: Endpoint>(&self, endpoint: &E, layout: &Layout, hash: u64) -> Option<Sample> {
        match self.sample(endpoint, hash) {
            Some(sample) => Some(sample),
            None => {
                // Boxed, as every rare step: its state would enlarge every lookup.
                let _ = Box::pin(self.follow(endpoint, layout)).await;
                self.sample(endpoint, hash)
            }
        }
    }

    /// Makes sure that this client follows the words, and exports them if no client does. Whether
    /// it follows them.
    ///
    /// # Errors
    /// [`NearError::Export`] if the fabric has no regions that can be followed,
    /// [`NearError::Sharers`] if the pool has as many sharers as it can have, or a verb's error.
    pub async fn follow<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<bool, NearError> {
        let now_ns = endpoint.now_ns();
        if now_ns < self.retry_ns.get() {
            return Ok(false);
        }
        let followed = self.follow_now(endpoint, layout).await;
        if !matches!(followed, Ok(true)) {
            let is_here = matches!(self.words.export().exported(), Exported::Here(_));
            self.retry_ns.set(now_ns.saturating_add(if is_here { RETRY_HERE_NS } else { RETRY_NS }));
        }
        followed
    }

    async fn follow_now<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<bool, NearError> {
        if endpoint.is_over() || self.user.identity() == Identity::NOBODY {
            // That it follows nothing says nothing of the export.
            return Ok(false);
        }
        let before = self.words.export();
        match before.exported() {
            Exported::Soon(who) if !self.has_given_up(endpoint, who, before) => return Ok(false),
            Exported::Here(at) if self.follow_here(endpoint, before, at) => {
                if self.joined.get().is_some_and(|(export, _)| export != before) {
                    // Its own export has lost its turn.
                    self.leave(endpoint, layout).await?;
                }
                return Ok(true);
            }
            // Only what has ended is replaced: others may follow it.
            Exported::Here(at) if self.is_there(endpoint, before, at) => return Ok(false),
            Exported::Here(_) | Exported::Soon(_) | Exported::Nobody => {}
        }
        let Some(soon) = self.words.change(before, Exported::Soon(self.user.identity())) else { return Ok(false) };
        let exporting = Exporting(self, soon);
        self.leave(endpoint, layout).await?;
        let (at, joined) = self.export_and_join(endpoint, layout, soon).await?;
        let Some(here) = self.words.change(exporting.1, Exported::Here(at)) else {
            // It took too long, and another client was quicker.
            self.leave(endpoint, layout).await?;
            return Ok(false);
        };
        self.joined.set(Some((here, joined)));
        self.followed.set((here, at));
        Ok(true)
    }

    /// Whether the client that was about to export does so no more.
    fn has_given_up<E: Endpoint>(&self, endpoint: &E, who: Identity, attempt: Export) -> bool {
        if who == self.user.identity() {
            // Another operation of this client is about to.
            return false;
        }
        self.attempt.has_given_up(&self.words.memory, who, attempt, (endpoint.now_ns(), ATTEMPT_NS))
    }

    /// Follows the export that is said to be here, if its words can be had.
    fn follow_here<E: Endpoint>(&self, endpoint: &E, export: Export, at: Address) -> bool {
        // At the same address may be another region by now.
        self.followed.set(Self::NOTHING);
        let is_followed = endpoint.follow(at).is_ok()
            && endpoint.own_word(sharers::nonce(at)) == Some(self.words.nonce(export, endpoint.random()))
            && self.words.export() == export;
        if is_followed {
            self.followed.set((export, at));
        }
        is_followed
    }

    /// Whether the latest export is still there, or may be.
    fn is_there<E: Endpoint>(&self, endpoint: &E, export: Export, at: Address) -> bool {
        let nonce = self.words.nonce(export, endpoint.random());
        match endpoint.reach_export_if(sharers::nonce(at), nonce) {
            Ok(is_its) => is_its,
            Err(error) => !matches!(error, VerbError::ExportAbsent(_)),
        }
    }

    /// Exports words of its own, and enters them into the table of sharers. Until the export is
    /// told of, this client has joined with it in no turn.
    async fn export_and_join<E: Endpoint>(
        &self,
        endpoint: &E,
        layout: &Layout,
        soon: Export,
    ) -> Result<(Address, Joined), NearError> {
        let domain = endpoint.region_attributes(0).map(|home| home.domain);
        let domain = domain.ok_or(NearError::NoDirectory { what: "the pool's home is not reached" })?;
        let words_log2 = self.words.words_log2;
        let bytes = sharers::region_bytes(words_log2).max(REGION_BYTES_MIN);
        let wanted = RegionAttributes { bytes, kind: Kind::Host, domain, lifetime: Lifetime::Process };
        let at = match self.unused.take() {
            Some(at) if endpoint.follow(at).is_ok() => at,
            _ => endpoint.export(wanted)?,
        };
        self.unused.set(Some(at));
        endpoint.follow(at)?;
        let nonce = self.words.nonce(soon.followed_by(Exported::Here(at)), endpoint.random());
        let joined = sharers::join(endpoint, layout, at, words_log2, nonce).await?.ok_or(NearError::Sharers)?;
        self.unused.set(None);
        self.joined.set(Some((Export::NONE, joined)));
        Ok((at, joined))
    }

    /// Gives back the place of an export that has lost its turn, or has had none. Its region is
    /// used at the next attempt.
    async fn leave<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<(), NearError> {
        let Some((_, joined)) = self.joined.take() else { return Ok(()) };
        sharers::leave(endpoint, layout, joined).await?;
        self.unused.set(Some(joined.at()));
        Ok(())
    }

    /// Before this client ends: it exports nothing any more.
    ///
    /// # Errors
    /// A verb's error; then others find that the export is gone.
    pub async fn end<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<(), NearError> {
        match self.withdraw() {
            Some(joined) => Ok(sharers::leave(endpoint, layout, joined).await?),
            None => Ok(()),
        }
    }

    /// No client follows what this one exports. What it had joined as.
    fn withdraw(&self) -> Option<Joined> {
        self.followed.set(Self::NOTHING);
        let (export, joined) = self.joined.take()?;
        if self.user.identity() == Identity::NOBODY {
            // A fork withdraws nothing of its parent's.
            return None;
        }
        // Copies of the turn are not valid from now on, whatever the words say. If it has changed
        // meanwhile, they are not either.
        self.words.change(export, Exported::Nobody);
        Some(joined)
    }
}

impl Drop for Follower {
    /// Its endpoint is dropped later.
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// A client that is about to export. If its future is dropped, or it cannot, another one tries.
struct Exporting<'f>(&'f Follower, Export);

impl Drop for Exporting<'_> {
    fn drop(&mut self) {
        if self.0.user.identity() != Identity::NOBODY {
            self.0.words.change(self.1, Exported::Nobody);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
    use atoll_fabric::{Clock, run_ready};
    use atoll_pool::{EngineArea, Pool, PoolSettings};

    /// A client stands still while it is about to export, and another one exports, and is killed.
    /// The first goes on: what it exports has the number that the other one had.
    #[test]
    fn what_an_overtaken_attempt_exports_is_not_taken_for_an_earlier_export_of_its_number() {
        let settings = PoolSettings::for_capacity(1 << 20);
        let home = Arc::new(ShmRegion::anonymous(settings.home_bytes()).unwrap());
        let (clock, now_ns) = Clock::manual(1);
        let [first, second, third] = [(); 3].map(|()| ShmEndpoint::with_regions(vec![home.clone()], clock.clone()));
        let pool = run_ready(Pool::format(&first, settings, EngineArea::default())).unwrap();
        let words = Arc::new(Words::new(4).unwrap());
        let [slow, killed, later] = [(); 3].map(|()| Follower::new(words.clone()));
        let follow = |follower: &Follower, endpoint: &ShmEndpoint| {
            now_ns.fetch_add(RETRY_HERE_NS, Ordering::Relaxed);
            run_ready(follower.follow(endpoint, &pool.layout))
        };
        let attempt = words.change(words.export(), Exported::Soon(slow.user.identity())).unwrap();
        assert!(matches!(follow(&killed, &second), Ok(false)), "an attempt is under way");
        now_ns.fetch_add(ATTEMPT_NS, Ordering::Relaxed);
        assert!(matches!(follow(&killed, &second), Ok(true)));
        let before = killed.sample(&second, 7).unwrap();
        let Exported::Here(at) = words.export().exported() else { panic!("{:?}", words.export()) };
        std::mem::forget(killed);
        drop(second);
        let (again, _) = run_ready(slow.export_and_join(&first, &pool.layout, attempt)).unwrap();
        assert_eq!(again, at, "the number was lent again");
        assert!(words.change(attempt, Exported::Here(again)).is_none());
        assert!(matches!(follow(&later, &third), Ok(true)));
        let after = later.sample(&third, 7).unwrap();
        assert!(after.ends_all_since(&before) && after.is_not_before(&before), "{before:?}, {after:?}");
        assert_ne!(words.export().exported(), Exported::Here(at));
        // The first leaves the table, and follows.
        assert!(matches!(follow(&slow, &first), Ok(true)));
        assert_eq!(slow.sample(&first, 7), Some(after));
        assert_eq!(run_ready(sharers::all(&third, &pool)).unwrap().len(), 1);
    }

    #[test]
    fn samples_of_other_words_are_other_samples() {
        let samples = [(); 2].map(|()| Words::new(4).unwrap().sample_of([1, 2, 3]));
        assert!(samples[0] != samples[1] && samples[0].ends_all_since(&samples[1]));
        assert_eq!(samples[0].bits(), [1, 2, 3]);
    }
}
