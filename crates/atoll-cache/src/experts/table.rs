//! A sampled table in ordinary memory: it simulates a pool with a policy, on keys' hashes alone.
//!
//! ```text
//! bucket   16 slots: live objects and ghosts, on average eight of either; a key has one bucket
//! ghost    16 bits of the key's hash | experts | number of its eviction
//! ```
//!
//! - An eviction looks at all live objects of a few random buckets, and at more
//!   buckets while these have none.
//! - It also looks again at the [`REMEMBERED_MAX`] objects that came nearest to being evicted the
//!   last time. Redis 3.0 does so with its pool of candidates. That makes a small sample nearly as
//!   good as a large one.
//! - A new object takes its own ghost's slot, else a free slot, else the oldest ghost's. In a
//!   bucket of sixteen live objects one of them is evicted.
//!
//! The random numbers are a sequence that begins the same in every table, so runs repeat.

use super::{Candidate, EXPERTS_MAX, ExpertSet, Experts, Settings};
use crate::policy::{Access, EXTENSION_WORDS_MAX, Ghost, Object, mix};
use arrayvec::ArrayVec;

const BUCKET_SLOTS: usize = 16;
/// Most candidates of an eviction.
pub(super) const CANDIDATES_MAX: usize = SAMPLE_BUCKETS * BUCKET_SLOTS + REMEMBERED_MAX;
/// Slots for every object: half of the table is ghosts.
const SLOTS_PER_OBJECT: usize = 2;
/// Buckets that an eviction looks at.
pub const SAMPLE_BUCKETS: usize = 4;
/// The same in a miniature.
const MINIATURE_SAMPLE_BUCKETS: usize = 2;
/// Evictions that a ghost lasts, for every object: as many as there is room for. A new object
/// replaces a bucket's oldest ghost anyway. With 1, buckets with few objects would stand half
/// empty. Then loops a little longer than the cache would be forgotten.
pub const HISTORY_PER_OBJECT: u32 = 2;
/// Candidates that a client remembers from one eviction to the next.
pub const REMEMBERED_MAX: usize = 8;
const SEED: u64 = 0x0a70_5a3b_1e5d_0001;

#[derive(Clone, Copy, Debug)]
enum Slot {
    Free,
    Live(Live),
    Ghost { hash: u16, experts: u16, id: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Live {
    hash: u64,
    object: Object,
    extension: [u64; EXTENSION_WORDS_MAX],
}

/// A table of at most so many objects, and its one client's experts.
#[derive(Clone, Debug)]
pub struct Table {
    /// Whole buckets.
    slots: Vec<Slot>,
    experts: Experts,
    /// The experts' shared numbers.
    globals: [u64; EXPERTS_MAX],
    /// The slots, and the object or ghost in each.
    remembered: ArrayVec<(usize, u64), REMEMBERED_MAX>,
    objects: usize,
    objects_max: usize,
    /// Buckets that an eviction looks at.
    sample_buckets: usize,
    /// Evictions so far: the number of the next.
    evictions: u64,
    draws: u64,
}

impl Table {
    /// Room for `objects_max` objects, at least one.
    pub fn new(set: ExpertSet, settings: Settings, objects_max: usize) -> Self {
        let objects_max = objects_max.max(1);
        let buckets = (objects_max * SLOTS_PER_OBJECT).div_ceil(BUCKET_SLOTS);
        Self {
            slots: vec![Slot::Free; buckets * BUCKET_SLOTS],
            experts: Experts::new(set, settings, objects_max as u64),
            globals: [0; EXPERTS_MAX],
            remembered: ArrayVec::new(),
            objects: 0,
            objects_max,
            sample_buckets: SAMPLE_BUCKETS,
            evictions: 0,
            draws: 0,
        }
    }

    /// The same, as a miniature: an eviction costs less and looks at fewer objects.
    pub(super) fn miniature(self) -> Self {
        Self { sample_buckets: MINIATURE_SAMPLE_BUCKETS, ..self }
    }

    /// The experts, with their learnt weights.
    pub fn experts(&self) -> &Experts {
        &self.experts
    }

    /// Objects in it.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Whether an insertion has to evict.
    pub fn is_full(&self) -> bool {
        self.objects == self.objects_max
    }

    fn bucket(&self, hash: u64) -> std::ops::Range<usize> {
        let buckets = (self.slots.len() / BUCKET_SLOTS) as u64;
        let first = (hash % buckets) as usize * BUCKET_SLOTS;
        first..first + BUCKET_SLOTS
    }

    fn find(&self, hash: u64) -> Option<usize> {
        self.bucket(hash).find(|&slot| matches!(self.slots[slot], Slot::Live(live) if live.hash == hash))
    }

    /// Whether the object of that hash is there. It does not count as an access.
    pub fn contains(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    /// Notes an access at `now_us`; false if the object is not there.
    pub fn touch(&mut self, hash: u64, now_us: u64) -> bool {
        let Some(slot) = self.find(hash) else { return false };
        let Slot::Live(live) = &mut self.slots[slot] else { return false };
        let before = live.object;
        live.object = before.accessed_again(now_us);
        let access = Access { now_us, before: Some(&before), after: &live.object, ghost: None };
        let set = self.experts.set();
        set.accessed(&access, &self.globals, &mut live.extension[..set.extension_words()]);
        self.experts.observe(hash, live.object.bytes, now_us);
        true
    }

    /// Inserts an object that is not there, at `now_us`, and returns the hash of the victim.
    pub fn insert(&mut self, hash: u64, bytes: u64, now_us: u64) -> Option<u64> {
        let bucket = self.bucket(hash);
        let own =
            bucket.clone().find(|&slot| matches!(self.slots[slot], Slot::Ghost { hash: of, .. } if of == tag(hash)));
        let ghost = own.and_then(|slot| self.ghost(slot));
        if let Some(ghost) = ghost
            && self.experts.regret(ghost)
        {
            // This client is the only one. The pool's words are those that it sends, and it learns
            // nothing from them.
            self.experts.penalties();
        }
        self.experts.observe(hash, bytes, now_us);
        let age = |slot: usize| match self.slots[slot] {
            Slot::Free => Some(0),
            Slot::Ghost { id, .. } => Some(id + 1),
            Slot::Live(_) => None,
        };
        let room = own.or_else(|| bucket.clone().filter(|&slot| age(slot).is_some()).min_by_key(|&slot| age(slot)));
        let mut evicted = None;
        let slot = match room {
            Some(slot) => {
                if self.is_full() {
                    evicted = self.evict_anywhere(now_us);
                }
                slot
            }
            None => {
                let (slot, victim) = self.evict(&bucket.collect::<Vec<_>>(), now_us)?;
                evicted = Some(victim);
                slot
            }
        };
        let frequency = self.experts.frequency_at_insertion(ghost);
        let object = Object { inserted_us: now_us, accessed_us: now_us, frequency, bytes };
        let mut live = Live { hash, object, extension: [0; EXTENSION_WORDS_MAX] };
        let access = Access { now_us, before: None, after: &object, ghost };
        let set = self.experts.set();
        set.accessed(&access, &self.globals, &mut live.extension[..set.extension_words()]);
        self.slots[slot] = Slot::Live(live);
        self.objects += 1;
        evicted
    }

    /// Removes an object, if it is there.
    pub fn remove(&mut self, hash: u64) {
        if let Some(slot) = self.find(hash) {
            self.slots[slot] = Slot::Free;
            self.objects -= 1;
        }
    }

    /// The ghost in `slot`, while it lives.
    fn ghost(&self, slot: usize) -> Option<Ghost> {
        let Slot::Ghost { experts, id, .. } = self.slots[slot] else { return None };
        Ghost::live(experts, self.evictions, id, HISTORY_PER_OBJECT * self.objects_max as u32)
    }

    /// Evicts one of the live objects in `slots`, and leaves its ghost there. Returns the slot and
    /// the hash.
    fn evict(&mut self, slots: &[usize], now_us: u64) -> Option<(usize, u64)> {
        let set = *self.experts.set();
        let words = set.extension_words();
        let random = mix(SEED ^ mix(self.draws));
        let (slot, hash, experts) = {
            let mut found: ArrayVec<(usize, u64), CANDIDATES_MAX> = ArrayVec::new();
            let mut candidates: ArrayVec<Candidate<'_>, CANDIDATES_MAX> = ArrayVec::new();
            for &slot in slots {
                if let Slot::Live(live) = &self.slots[slot]
                    && !found.is_full()
                {
                    found.push((slot, live.hash));
                    candidates.push(Candidate { object: live.object, extension: &live.extension[..words] });
                }
            }
            let (choice, next) = self.experts.choose_and_rank::<REMEMBERED_MAX>(now_us, &candidates, random)?;
            self.remembered = next.into_iter().map(|place| found[place]).collect();
            set.evicted(&mut self.globals[..set.len()], candidates[choice.victim].extension);
            let (slot, hash) = found[choice.victim];
            (slot, hash, choice.experts)
        };
        self.slots[slot] = Slot::Ghost { hash: tag(hash), experts, id: self.evictions };
        self.evictions += 1;
        self.objects -= 1;
        Some((slot, hash))
    }

    fn evict_anywhere(&mut self, now_us: u64) -> Option<u64> {
        let buckets = (self.slots.len() / BUCKET_SLOTS) as u64;
        let mut sample: Vec<usize> = Vec::with_capacity(CANDIDATES_MAX);
        for draw in 0.. {
            if draw >= self.sample_buckets && sample.iter().any(|&slot| matches!(self.slots[slot], Slot::Live(_))) {
                break;
            }
            self.draws += 1;
            let first = (mix(SEED ^ self.draws) % buckets) as usize * BUCKET_SLOTS;
            if !sample.contains(&first) {
                sample.extend(first..first + BUCKET_SLOTS);
            }
        }
        for &(slot, hash) in &self.remembered {
            let still = matches!(self.slots[slot], Slot::Live(live) if live.hash == hash);
            if still && !sample.contains(&slot) {
                sample.push(slot);
            }
        }
        self.evict(&sample, now_us).map(|(_, hash)| hash)
    }
}

/// The bits of a hash that a ghost keeps. They do not choose the bucket, up to 2^48 buckets.
fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16
}
