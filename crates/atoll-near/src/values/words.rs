//! The words of a process: by them it finds that an object may have changed. They are those of a
//! [sharer](atoll_pool::sharers), which the process exports and follows.
//!
//! A client samples the word of an object's hash, looks at the object, and permits copies in its
//! slot. As long as the word is the same, no client has changed the object. The near cache
//! ([`values`](super)) keeps the object's value by that; a server tells its own clients by it.
//!
//! **One client of the process exports** the words, the others follow them. When that client ends,
//! another one exports anew. Every export is a new *turn*: what was sampled in an earlier turn says
//! nothing any more.

use crate::error::NearError;
use atoll_fabric::{Address, Endpoint, Kind, Lifetime, RegionAttributes};
use atoll_pool::Layout;
use atoll_pool::sharers::{self, Joined};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A region of fewer bytes is none on some fabrics: a page.
const REGION_BYTES_MIN: u64 = 4096;
/// How long a client waits before it tries again to follow or export.
const RETRY_NS: u64 = 10_000_000;

/// The words of an object as they were at a moment: its own, and that of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    turn: u64,
    at: Address,
    everything: u64,
    word: u64,
}

impl Sample {
    /// Whether it says nothing any more of what was found before, whichever object that was.
    pub fn ends_all_since(&self, before: &Self) -> bool {
        (self.turn, self.at, self.everything) != (before.turn, before.at, before.everything)
    }

    /// Whether it was taken in a later turn, or in the same.
    pub(super) fn is_not_before(&self, other: &Self) -> bool {
        self.turn >= other.turn
    }
}

/// Who exports the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exported {
    /// No client does.
    Nobody,
    /// A client is about to.
    Soon,
    /// A client does, here.
    Here(Address),
}

/// The latest export, and how often that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Export {
    exported: Exported,
    turn: u64,
}

/// The words of a process, which its clients share.
#[derive(Debug)]
pub struct Words {
    words_log2: u32,
    exported: Mutex<Export>,
    /// The turn of `exported`. It is written with that.
    turn: AtomicU64,
}

impl Words {
    /// So many words, as a power of two. They take memory once a client follows them.
    ///
    /// # Panics
    /// If no sharer can have so many: see [`sharers::WORDS_LOG2`].
    pub fn new(words_log2: u32) -> Self {
        assert!(sharers::WORDS_LOG2.contains(&words_log2), "words of a sharer");
        // A process that opens a pool anew has other words, and no turn of these is one of those.
        static FIRST_TURN: AtomicU64 = AtomicU64::new(0);
        let turn = FIRST_TURN.fetch_add(1 << 32, Ordering::Relaxed);
        Self {
            words_log2,
            exported: Mutex::new(Export { exported: Exported::Nobody, turn }),
            turn: AtomicU64::new(turn),
        }
    }

    /// The number of the word for objects of this hash.
    #[inline]
    pub fn number(&self, hash: u64) -> u32 {
        (hash & ((1 << self.words_log2) - 1)) as u32
    }

    fn export(&self) -> std::sync::MutexGuard<'_, Export> {
        self.exported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes who exports, if that is still as it was at `before`; whether it was. Only another
    /// region begins a turn.
    fn change(&self, before: Export, exported: Exported) -> bool {
        let mut export = self.export();
        if *export != before {
            return false;
        }
        if before.exported != Exported::Soon || exported != Exported::Nobody {
            export.turn += 1;
        }
        export.exported = exported;
        self.turn.store(export.turn, Ordering::Release);
        true
    }
}

/// One client's way to the words of its process.
#[derive(Debug)]
pub struct Follower {
    words: Arc<Words>,
    /// The turn that its endpoint follows, and where; turn 0 if it follows none.
    followed: Cell<(u64, Address)>,
    /// What it exports itself.
    joined: Cell<Option<(u64, Joined)>>,
    /// A region that it has exported and not entered into the table.
    unused: Cell<Option<Address>>,
    /// When it may try again.
    retry_ns: Cell<u64>,
}

impl Follower {
    /// A client of these words. It follows, or exports, when it first needs one.
    pub fn new(words: Arc<Words>) -> Self {
        let followed = Cell::new((0, Address::on_compute(0, 0, 0)));
        Self { words, followed, joined: Cell::new(None), unused: Cell::new(None), retry_ns: Cell::new(0) }
    }

    /// The words.
    pub fn words(&self) -> &Arc<Words> {
        &self.words
    }

    /// The words now, for objects of this hash. `None` if this client follows none.
    #[inline]
    pub fn sample<E: Endpoint>(&self, endpoint: &E, hash: u64) -> Option<Sample> {
        let (turn, at) = self.followed.get();
        if turn == 0 {
            return None;
        }
        let word = endpoint.own_word(sharers::word(at, self.words.words_log2, hash))?;
        let everything = endpoint.own_word(sharers::everything(at))?;
        // Last: before its client gives its place back, a turn ends.
        let is_present = self.words.turn.load(Ordering::Acquire) == turn;
        is_present.then_some(Sample { turn, at, everything, word })
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

    /// Makes sure that this client follows the words of its process, and exports them if no client
    /// of the process does. Whether it follows them.
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
            self.retry_ns.set(now_ns.saturating_add(RETRY_NS));
        }
        followed
    }

    async fn follow_now<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<bool, NearError> {
        if endpoint.is_over() {
            // That it follows nothing says nothing of the export.
            return Ok(false);
        }
        let before = *self.words.export();
        match before.exported {
            Exported::Soon => return Ok(false),
            Exported::Here(at) if endpoint.follow(at).is_ok() => {
                // A word that cannot be had now may be had again: the export has not ended.
                let is_followed = endpoint.own_word(sharers::everything(at)).is_some();
                if is_followed && *self.words.export() == before {
                    self.followed.set((before.turn, at));
                    return Ok(true);
                }
                return Ok(false);
            }
            // It has ended.
            Exported::Here(_) | Exported::Nobody => {}
        }
        if !self.words.change(before, Exported::Soon) {
            return Ok(false);
        }
        let exporting = Exporting(&self.words, Export { exported: Exported::Soon, turn: before.turn + 1 });
        self.leave(endpoint, layout).await?;
        let at = self.export_and_join(endpoint, layout).await?;
        if !self.words.change(exporting.1, Exported::Here(at)) {
            return Ok(false);
        }
        let turn = exporting.1.turn + 1;
        self.joined.set(self.joined.get().map(|(_, joined)| (turn, joined)));
        self.followed.set((turn, at));
        Ok(true)
    }

    /// Exports words of its own, and enters them into the table of sharers. No other client of the
    /// process does meanwhile.
    async fn export_and_join<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<Address, NearError> {
        let domain = endpoint.region_attributes(0).map(|home| home.domain);
        let domain = domain.ok_or(NearError::NoDirectory { what: "the pool's home is not reached" })?;
        let words_log2 = self.words.words_log2;
        let bytes = sharers::region_bytes(words_log2).max(REGION_BYTES_MIN);
        let wanted = RegionAttributes { bytes, kind: Kind::Host, domain, lifetime: Lifetime::Process };
        // A region that could not be entered is used at the next attempt.
        let at = match self.unused.take() {
            Some(at) if endpoint.follow(at).is_ok() => at,
            _ => endpoint.export(wanted)?,
        };
        self.unused.set(Some(at));
        endpoint.follow(at)?;
        let joined = sharers::join(endpoint, layout, at, words_log2).await?.ok_or(NearError::Sharers)?;
        self.unused.set(None);
        self.joined.set(Some((0, joined)));
        Ok(at)
    }

    /// Gives back the place of an export that has ended.
    async fn leave<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<(), NearError> {
        match self.joined.take() {
            Some((_, joined)) => Ok(sharers::leave(endpoint, layout, joined).await?),
            None => Ok(()),
        }
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
    /// No client of the process follows what this one exports. What it had joined as.
    fn withdraw(&self) -> Option<Joined> {
        self.followed.set((0, Address::on_compute(0, 0, 0)));
        let (turn, joined) = self.joined.take()?;
        let before = *self.words.export();
        if before.turn == turn {
            // Copies of the turn are not valid from now on, whatever the words say. If it has
            // changed meanwhile, they are not either.
            self.words.change(before, Exported::Nobody);
        }
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
struct Exporting<'w>(&'w Words, Export);

impl Drop for Exporting<'_> {
    fn drop(&mut self) {
        self.0.change(self.1, Exported::Nobody);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_turn_of_words_is_one_of_earlier_words() {
        let turns = [(); 3].map(|()| {
            let words = Words::new(4);
            for exported in [Exported::Soon, Exported::Here(Address::on_compute(0, 0, 0)), Exported::Nobody] {
                let before = *words.export();
                assert!(words.change(before, exported));
            }
            (words.turn.load(Ordering::Relaxed), words.export().turn)
        });
        assert!(turns.windows(2).all(|two| two[0].0 < two[1].0) && turns.iter().all(|(one, other)| one == other));
    }
}
