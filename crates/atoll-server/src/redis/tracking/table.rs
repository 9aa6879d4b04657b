//! The keys that are tracked, by the words that tell of their changes.
//!
//! | step | in this order |
//! |---|---|
//! | a key is about to be read | the mark of its word is taken; its slot is made to tell changes; the key is noted with the token and the expiry that it has; then it is read |
//! | a look | for each word whose mark is another one, or that has an expiry that is over: its keys are looked up again; those that have the same token and expiry stay, the others are told |
//!
//! So a key that is noted is told of after each change that takes effect after the read, and also
//! after one that came between the mark and the read. Until a word is settled, its keys may depend
//! on different marks: then it is unsure, and the next look settles it.
//!
//! A key of 16 bytes takes about 390, with what its connection takes, where a thousand have a
//! thousand each (`scripts/tracking-load`), and 8 more for each further client.

use atoll_cache::{CacheError, Engine, Mark, Meta};
use indexmap::IndexMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SHARDS: usize = 64;
/// How long a look looks keys up at most, the turns of others apart: about a hundred thousand on
/// one host.
const LOOKUPS_MAX: Duration = Duration::from_millis(100);
/// After how long other connections of the worker have their turn.
const STEP_MAX: Duration = Duration::from_micros(200);

/// Who has read a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// The client of this id.
    Client(u64),
    /// One of those that are told of all keys with a prefix.
    Broadcast,
}

/// A key that is not tracked any more, and who is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// The key as the cache knows it.
    pub(super) stored: Box<[u8]>,
    /// The ids of those that have read it; some may be gone.
    pub(super) clients: Vec<u64>,
    /// Whether those are to be told that are told of all keys with a prefix.
    pub(super) is_broadcast: bool,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// All changes so far have been told.
    Done,
    /// The client follows no words at present.
    Blind,
    /// Nothing that was noted before says anything any more.
    AllEnded,
}

/// What an object was like when its key was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    token: u64,
    expiry_ms: Option<u64>,
}

impl Found {
    fn of(Meta { token, expiry_ms, .. }: Meta) -> Self {
        Self { token, expiry_ms }
    }
}

struct Entry {
    told: Told,
    found: Found,
}

impl Entry {
    fn items(&self) -> u64 {
        self.told.clients.len() as u64 + u64::from(self.told.is_broadcast)
    }

    /// Whether the reader is new.
    fn add(&mut self, reader: Reader) -> bool {
        match reader {
            Reader::Client(id) => match self.told.clients.binary_search(&id) {
                Ok(_) => false,
                Err(place) => {
                    reserve(&mut self.told.clients);
                    self.told.clients.insert(place, id);
                    true
                }
            },
            Reader::Broadcast => !std::mem::replace(&mut self.told.is_broadcast, true),
        }
    }
}

/// The tracked keys of one word.
struct Word {
    mark: Mark,
    is_unsure: bool,
    /// Another one whenever a key of the word is noted.
    version: u64,
    /// When the first of them expires; `u64::MAX` if none does.
    first_expiry_ms: u64,
    entries: Vec<Entry>,
}

impl Word {
    fn new(mark: Mark) -> Self {
        Self { mark, is_unsure: false, version: 0, first_expiry_ms: u64::MAX, entries: Vec::new() }
    }

    fn find(&self, stored: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| *entry.told.stored == *stored)
    }

    fn push(&mut self, entry: Entry) {
        self.first_expiry_ms = self.first_expiry_ms.min(entry.found.expiry_ms.unwrap_or(u64::MAX));
        reserve(&mut self.entries);
        self.entries.push(entry);
    }
}

/// Makes room for one more: most have one, and there are millions.
fn reserve<T>(few: &mut Vec<T>) {
    if few.len() < 4 {
        few.reserve_exact(1);
    }
}

type Shard = IndexMap<u32, Word>;

/// The tracked keys of a server.
pub(super) struct Table {
    shards: [Mutex<Shard>; SHARDS],
    keys: AtomicU64,
    items: AtomicU64,
    /// How many keys were noted so far.
    noted: AtomicU64,
    /// How many words were drawn to be dropped so far.
    drawn: AtomicU64,
}

impl Default for Table {
    fn default() -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        let [keys, items, noted, drawn] = [const { AtomicU64::new(0) }; 4];
        Self { shards, keys, items, noted, drawn }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn shard(&self, number: u32) -> MutexGuard<'_, Shard> {
        lock(&self.shards[number as usize % SHARDS])
    }

    /// How many keys are tracked.
    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// The sum over all keys of how many readers they have.
    pub(super) fn items(&self) -> u64 {
        self.items.load(Relaxed)
    }

    fn count(&self, reader_is_new: bool) {
        self.items.fetch_add(u64::from(reader_is_new), Relaxed);
    }

    fn discount(&self, entry: Entry) -> Told {
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(entry.items(), Relaxed);
        entry.told
    }

    /// A key is about to be read. `false` if its changes cannot be told: it is not there, it is
    /// about to change, the client follows no words, or far more is tracked than so many keys.
    pub(super) async fn add<G: Engine>(
        &self,
        engine: &G,
        stored: &[u8],
        reader: Reader,
        keys_max: u64,
    ) -> Result<bool, CacheError> {
        let number = engine.word_number(stored);
        let mark = match engine.mark(number) {
            Some(mark) => mark,
            None => {
                engine.follow_changes().await?;
                let Some(mark) = engine.mark(number) else { return Ok(false) };
                mark
            }
        };
        if self.is_beyond(keys_max.saturating_mul(2)) {
            return Ok(false);
        }
        if let Some(word) = self.shard(number).get_mut(&number)
            && word.mark == mark
            && !word.is_unsure
            && let Some(index) = word.find(stored)
        {
            self.count(word.entries[index].add(reader));
            return Ok(true);
        }
        let Some(meta) = engine.tell_changes(stored).await? else { return Ok(false) };
        let mut shard = self.shard(number);
        let word = shard.entry(number).or_insert_with(|| Word::new(mark));
        word.is_unsure |= word.mark != mark;
        word.version = self.noted.fetch_add(1, Relaxed) + 1;
        match word.find(stored) {
            // What others have read may be another object.
            Some(index) => {
                word.is_unsure = true;
                self.count(word.entries[index].add(reader));
            }
            None => {
                let told = Told { stored: stored.into(), clients: Vec::new(), is_broadcast: false };
                let mut entry = Entry { told, found: Found::of(meta) };
                entry.add(reader);
                self.keys.fetch_add(1, Relaxed);
                self.count(true);
                word.push(entry);
            }
        }
        Ok(true)
    }

    /// Whether more is tracked than so many keys, or 16 times as many items.
    fn is_beyond(&self, keys_max: u64) -> bool {
        self.keys() > keys_max || self.items() > keys_max.saturating_mul(16)
    }

    /// Whether it is noted that this reader has read a key.
    pub(super) fn has<G: Engine>(&self, engine: &G, stored: &[u8], reader: Reader) -> bool {
        let number = engine.word_number(stored);
        self.shard(number).get(&number).and_then(|word| Some(&word.entries[word.find(stored)?])).is_some_and(|entry| {
            match reader {
                Reader::Client(id) => entry.told.clients.binary_search(&id).is_ok(),
                Reader::Broadcast => entry.told.is_broadcast,
            }
        })
    }

    /// Tracks a key no longer, which has changed.
    pub(super) fn take<G: Engine>(&self, engine: &G, stored: &[u8]) -> Option<Told> {
        if self.keys() == 0 {
            return None;
        }
        let number = engine.word_number(stored);
        let mut shard = self.shard(number);
        let word = shard.get_mut(&number)?;
        let entry = word.entries.swap_remove(word.find(stored)?);
        if word.entries.is_empty() {
            shard.swap_remove(&number);
        }
        Some(self.discount(entry))
    }

    /// Tracks nothing any more.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            for word in std::mem::take(&mut *lock(shard)).into_values() {
                word.entries.into_iter().for_each(|entry| _ = self.discount(entry));
            }
        }
    }

    /// Tracks the keys of a word no longer.
    fn drop_word(&self, number: u32, tell: &mut impl FnMut(Told)) {
        let Some(word) = self.shard(number).swap_remove(&number) else { return };
        word.entries.into_iter().for_each(|entry| tell(self.discount(entry)));
    }

    /// Tracks fewer keys, as long as there are more than so many, or 16 times as many items. Ends
    /// after so many words in any case. They are drawn, as Redis draws the keys.
    pub(super) fn shrink(&self, keys_max: u64, words_max: usize, mut tell: impl FnMut(Told)) {
        for _ in 0..words_max {
            if !self.is_beyond(keys_max) {
                return;
            }
            if let Some(word) = self.draw() {
                word.entries.into_iter().for_each(|entry| tell(self.discount(entry)));
            }
        }
    }

    /// Removes a word, any of them.
    fn draw(&self) -> Option<Word> {
        // Multiples of the golden ratio are spread evenly.
        let draw = self.drawn.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (draw >> 32) as usize;
        (0..SHARDS).find_map(|further| {
            let mut shard = lock(&self.shards[(first + further) % SHARDS]);
            let index = (draw as u32 as usize).checked_rem(shard.len())?;
            shard.swap_remove_index(index).map(|(_, word)| word)
        })
    }

    /// Finds the keys that have changed or expired, and tells of them. After [`LOOKUPS_MAX`] it
    /// tells of all keys of the changed words that are left.
    pub(super) async fn look<G: Engine>(&self, engine: &G, mut tell: impl FnMut(Told)) -> Looked {
        if self.keys() == 0 {
            return Looked::Done;
        }
        let Ok(now_ms) = engine.now_ms().await else { return Looked::Blind };
        let mut changed = Vec::new();
        for shard in &self.shards {
            for (number, word) in &*lock(shard) {
                let Some(mark) = engine.mark(*number) else { return Looked::Blind };
                if mark.ends_all_since(&word.mark) {
                    return Looked::AllEnded;
                }
                if mark != word.mark || word.is_unsure || word.first_expiry_ms <= now_ms {
                    changed.push(*number);
                }
            }
            // Other connections of the worker have their turn.
            tokio::task::yield_now().await;
        }
        let (mut spent, mut began) = (Duration::ZERO, Instant::now());
        for number in changed {
            let Some(mark) = engine.mark(number) else { return Looked::Blind };
            match spent > LOOKUPS_MAX {
                true => self.drop_word(number, &mut tell),
                false => self.settle(engine, number, mark, &mut tell).await,
            }
            let step = began.elapsed();
            if step > STEP_MAX {
                tokio::task::yield_now().await;
                (spent, began) = (spent + step, Instant::now());
            }
        }
        Looked::Done
    }

    /// Looks up the keys of a word, whose mark was taken just now. They stay meanwhile, so that
    /// others find them.
    async fn settle<G: Engine>(&self, engine: &G, number: u32, mark: Mark, tell: &mut impl FnMut(Told)) {
        let (version, known) = {
            let shard = self.shard(number);
            let Some(word) = shard.get(&number) else { return };
            let known = word.entries.iter().map(|entry| (entry.told.stored.clone(), entry.found));
            (word.version, known.collect::<Vec<_>>())
        };
        let mut changed = Vec::new();
        for (stored, found) in known {
            // What cannot be looked up counts as changed.
            let now = engine.tell_changes(&stored).await.ok().flatten();
            if now.is_none_or(|meta| Found::of(meta) != found) {
                changed.push((stored, found));
            }
        }
        let mut told = Vec::new();
        let mut shard = self.shard(number);
        let Some(word) = shard.get_mut(&number) else { return };
        for (stored, found) in changed {
            // Others may have told of it, or noted it anew.
            let index = word.find(&stored).filter(|index| word.entries[*index].found == found);
            if let Some(index) = index {
                told.push(self.discount(word.entries.swap_remove(index)));
            }
        }
        if word.version == version {
            (word.mark, word.is_unsure) = (mark, false);
            let expiries = word.entries.iter().filter_map(|entry| entry.found.expiry_ms);
            word.first_expiry_ms = expiries.min().unwrap_or(u64::MAX);
        }
        if word.entries.is_empty() {
            shard.swap_remove(&number);
        }
        drop(shard);
        told.into_iter().for_each(tell);
    }
}
