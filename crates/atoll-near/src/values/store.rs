//! The copies that processes of a host share: an index of one-word slots, and segments of records,
//! in memory that they all have mapped.
//!
//! ```text
//! words   0 export | 1 id | 8 lookups | 16 cursor of segments | 24 copies | 32 cells of `worth`
//!         buckets x 8 slots
//!         segments x (owner, generation)
//!         segments
//! slot    fingerprint 16 | segment 14 | place 16, of 32 bytes | generation 14 | heat 3   0: empty
//! record  generation | lengths of key and value | hash | sample 3 | meta 3 | key | value
//! ```
//!
//! A client owns the segment that it fills; the owner word names it. A full segment has no owner.
//! Segments are filled again in the order of their numbers, and what was hit since it was written
//! is written again: the host evicts what it copied first and has not used since. A new owner adds
//! 1 to the segment's generation before it writes. Records never change once a slot names them.
//!
//! | step of a reader | what it shows |
//! |---|---|
//! | it loads a record that a slot with the key's fingerprint names | whether the record is of the slot's generation, and has the key |
//! | then it loads the segment's generation | if that is the record's, its bytes did not change while they were loaded |
//!
//! No reader waits, and none keeps a writer waiting. A process that is killed at any point leaves
//! segments with its clients' names at most, which others take over, and a count that is wrong by
//! what it had begun.

use super::META_WORDS;
use atoll_fabric::Identity;
use atoll_fabric::shm::{HostMemory, HostUser};
use atoll_pool::fields::Fields;
use atoll_pool::sharers;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The word that says who exports the words of the sharer: see `words`.
pub(super) const EXPORT: usize = 0;
/// What tells this memory from all other: see `words`.
pub(super) const ID: usize = 1;
/// Lookups that `worth` has counted.
pub(super) const LOOKUPS: usize = 8;
const CURSOR: usize = 16;
const COPIES: usize = 24;
/// The cells of `worth`.
pub(super) const CELLS: usize = 32;

const SLOT: Fields<5> = Fields::new([16, 14, 16, 14, 3]);
/// Hits that a slot counts up to.
pub(super) const HEAT_MAX: u64 = 4;
const HEAT_SHIFT: u32 = 60;
/// A record begins at a multiple of so many words.
const PLACE_WORDS: usize = 4;
const BUCKET_SLOTS: usize = 8;
const HEADER_WORDS: usize = 6 + META_WORDS;
/// Segments that a client tries before it does without a copy.
const SEGMENT_TRIES: u32 = 8;
/// Bytes of a segment, a power of two.
const SEGMENT_BYTES: RangeInclusive<u64> = 4 << 10..=2 << 20;
const SEGMENTS_MAX: u64 = 1 << 14;

/// Where everything is, by the size alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Words of the sharer, which are not in this memory, as a power of two.
    pub(super) words_log2: u32,
    /// Cells of `worth`: two to a word.
    pub(super) cells: usize,
    buckets: usize,
    segments: usize,
    segment_words: usize,
}

impl Layout {
    /// For a near cache of so many bytes, among them the words of the sharer.
    pub(super) fn of(bytes: u64) -> Self {
        // A word for every two copies of a value of a hundred bytes.
        let words_log2 = (bytes / 512).ilog2().clamp(6, 20);
        let cells = 1_usize << (bytes / 128).ilog2().clamp(8, 22);
        let buckets = 1_usize << (bytes / 128 / BUCKET_SLOTS as u64).ilog2();
        let segment_bytes = (1 << (bytes / 256).ilog2()).clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
        let mut layout = Self { words_log2, cells, buckets, segments: 0, segment_words: segment_bytes as usize / 8 };
        let fixed = sharers::region_bytes(words_log2) + 8 * layout.segment_words_at() as u64;
        let segments = bytes.saturating_sub(fixed) / (segment_bytes + 16);
        layout.segments = segments.min(SEGMENTS_MAX) as usize;
        layout
    }

    fn buckets_at(&self) -> usize {
        CELLS + self.cells / 2
    }

    fn segment_words_at(&self) -> usize {
        self.buckets_at() + BUCKET_SLOTS * self.buckets
    }

    /// Words before the segments.
    pub(super) fn fixed_words(&self) -> usize {
        (self.segment_words_at() + 2 * self.segments).next_multiple_of(8)
    }

    /// All words.
    pub(super) fn words(&self) -> usize {
        self.fixed_words() + self.segments * self.segment_words
    }

    /// Longest value that is kept, and longest key: so that a segment has two of them.
    pub(super) fn value_bytes_max(&self) -> usize {
        8 * (self.segment_words / 2 - HEADER_WORDS)
    }

    /// Bytes of the memory that are in use.
    pub(super) fn bytes_in_use(&self, memory: &HostMemory) -> u64 {
        let segments = self.segments.min(memory.word(CURSOR).load(Ordering::Relaxed) as usize);
        sharers::region_bytes(self.words_log2) + 8 * (self.fixed_words() + segments * self.segment_words) as u64
    }

    fn owner_at(&self, segment: usize) -> usize {
        self.segment_words_at() + 2 * segment
    }

    fn generation_at(&self, segment: usize) -> usize {
        self.owner_at(segment) + 1
    }

    fn segment_at(&self, segment: usize) -> usize {
        self.fixed_words() + segment * self.segment_words
    }
}

/// Copies that are kept, valid or not.
pub(super) fn copies(memory: &HostMemory) -> u64 {
    memory.word(COPIES).load(Ordering::Relaxed)
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    segment: usize,
    /// In words.
    offset: usize,
}

/// A copy that a lookup has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    slot_at: usize,
    slot: u64,
    place: Place,
    header: Header,
}

impl Found {
    /// The words that it depends on, as they were.
    pub(super) fn sample(&self) -> [u64; 3] {
        self.header.sample
    }

    /// What is known of the value besides its bytes.
    pub(super) fn meta(&self) -> [u64; META_WORDS] {
        self.header.meta
    }

    /// Bytes of the value.
    pub(super) fn value_bytes(&self) -> usize {
        self.header.value_bytes
    }

    /// Hits of it, up to [`HEAT_MAX`].
    pub(super) fn heat(&self) -> u64 {
        self.slot >> HEAT_SHIFT
    }
}

/// A record's words before its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    key_bytes: usize,
    value_bytes: usize,
    hash: u64,
    generation: u64,
    sample: [u64; 3],
    meta: [u64; META_WORDS],
}

impl Header {
    /// The header of the record that begins there in a segment, if it is of this generation.
    fn in_segment(words: &[u64], offset: usize, generation: u64) -> Option<Self> {
        let header = Self::of(words.get(offset..)?.first_chunk()?);
        let is_inside = offset + header.record_words() <= words.len();
        (is_inside && header.generation == generation).then_some(header)
    }

    fn of(words: &[u64; HEADER_WORDS]) -> Self {
        let [generation, lengths, hash, export, everything, word, meta @ ..] = *words;
        let (key_bytes, value_bytes) = (lengths as u32 as usize, (lengths >> 32) as usize);
        Self { key_bytes, value_bytes, hash, generation, sample: [export, everything, word], meta }
    }

    fn words(&self) -> [u64; HEADER_WORDS] {
        let lengths = self.key_bytes as u64 | (self.value_bytes as u64) << 32;
        let mut words = [0; HEADER_WORDS];
        words[..3].copy_from_slice(&[self.generation, lengths, self.hash]);
        words[3..6].copy_from_slice(&self.sample);
        words[6..].copy_from_slice(&self.meta);
        words
    }

    /// Words of the whole record, without what is left free behind it.
    fn record_words(&self) -> usize {
        HEADER_WORDS + self.key_bytes.div_ceil(8) + self.value_bytes.div_ceil(8)
    }
}

/// What a client says of a copy.
pub(super) struct Entry<'e> {
    pub(super) key: &'e [u8],
    pub(super) hash: u64,
    pub(super) sample: [u64; 3],
    pub(super) meta: [u64; META_WORDS],
    pub(super) value: &'e [u8],
}

/// The segment that a client fills.
#[derive(Clone, Copy, Debug)]
struct Filling {
    segment: usize,
    generation: u64,
    used: usize,
}

/// One client's way to the copies.
#[derive(Debug)]
pub(super) struct Store {
    user: HostUser,
    layout: Layout,
    filling: Cell<Option<Filling>>,
    /// For slots that are replaced by turns.
    turn: Cell<usize>,
}

fn fingerprint(hash: u64) -> u64 {
    (hash >> 48).max(1)
}

impl Store {
    pub(super) fn new(user: HostUser, layout: Layout) -> Self {
        Self { user, layout, filling: Cell::new(None), turn: Cell::new(0) }
    }

    fn memory(&self) -> &HostMemory {
        self.user.memory()
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        self.user.memory().word(at)
    }

    fn bucket_at(&self, hash: u64) -> usize {
        let bucket = hash as usize & (self.layout.buckets - 1);
        self.layout.buckets_at() + BUCKET_SLOTS * bucket
    }

    /// The place that a slot names, unless it is outside.
    fn place(&self, slot: u64) -> Option<Place> {
        let [_, segment, place, ..] = SLOT.unpack(slot);
        let (segment, offset) = (segment as usize, place as usize * PLACE_WORDS);
        let is_inside = segment < self.layout.segments && offset + HEADER_WORDS <= self.layout.segment_words;
        is_inside.then_some(Place { segment, offset })
    }

    fn record_at(&self, place: Place) -> usize {
        self.layout.segment_at(place.segment) + place.offset
    }

    /// The header of the record that a slot names, if it is of the slot's generation. It counts
    /// once its segment has been seen to be [kept](Self::is_kept).
    #[inline]
    fn header(&self, slot: u64, place: Place) -> Option<Header> {
        // First: it is written last.
        let generation = self.word(self.record_at(place)).load(Ordering::Acquire);
        if generation & SLOT.max(3) != SLOT.unpack(slot)[3] {
            return None;
        }
        let mut words = [generation; HEADER_WORDS];
        self.memory().load(self.record_at(place) + 1, &mut words[1..]);
        let header = Header::of(&words);
        let is_inside = place.offset + header.record_words() <= self.layout.segment_words;
        is_inside.then_some(header)
    }

    /// Whether what was loaded from a record before is what its client wrote.
    #[inline]
    fn is_kept(&self, place: Place, header: &Header) -> bool {
        fence(Ordering::Acquire);
        self.word(self.layout.generation_at(place.segment)).load(Ordering::Relaxed) == header.generation
    }

    /// Whether these words begin with a key.
    #[inline]
    fn has_key(&self, first: usize, key: &[u8]) -> bool {
        let (whole, rest) = key.as_chunks::<8>();
        let is_word = |(number, bytes): (usize, &[u8; 8])| {
            self.word(first + number).load(Ordering::Relaxed) == u64::from_ne_bytes(*bytes)
        };
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        whole.iter().enumerate().all(is_word) && (rest.is_empty() || is_word((whole.len(), &last)))
    }

    /// Looks for a copy of the key's value. It may have been evicted by now, and be none: see
    /// [`Store::load`].
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Found> {
        let (bucket_at, fingerprint) = (self.bucket_at(hash), fingerprint(hash));
        (bucket_at..bucket_at + BUCKET_SLOTS).find_map(|slot_at| {
            let slot = self.word(slot_at).load(Ordering::Acquire);
            if slot & SLOT.max(0) != fingerprint {
                return None;
            }
            let place = self.place(slot)?;
            let header = self.header(slot, place)?;
            let is_its = header.hash == hash && header.key_bytes == key.len();
            let is_its = is_its && self.has_key(self.record_at(place) + HEADER_WORDS, key);
            is_its.then_some(Found { slot_at, slot, place, header })
        })
    }

    /// Loads the value of a copy into as many bytes as it has; whether it is that of the key.
    #[inline]
    pub(super) fn load(&self, found: &Found, into: &mut [u8]) -> bool {
        let Found { place, header, .. } = found;
        let value_at = self.record_at(*place) + HEADER_WORDS + header.key_bytes.div_ceil(8);
        self.memory().load_bytes(value_at, into);
        self.is_kept(*place, header)
    }

    /// Counts a hit.
    #[inline]
    pub(super) fn note_hit(&self, found: &Found) {
        if found.heat() < HEAT_MAX {
            // Of hits at the same time some are not counted.
            let _ = self.swap(found.slot_at, found.slot, found.slot + (1 << HEAT_SHIFT));
        }
    }

    /// Forgets a copy.
    pub(super) fn remove(&self, found: &Found) {
        self.empty(found.slot_at, found.slot);
    }

    fn swap(&self, at: usize, from: u64, to: u64) -> bool {
        self.word(at).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn empty(&self, slot_at: usize, slot: u64) {
        if self.swap(slot_at, slot, 0) {
            // What a killed process did not count is not counted down either.
            let count = |copies: u64| copies.checked_sub(1);
            let _ = self.word(COPIES).fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        }
    }

    /// Whether a slot names no record that is left.
    fn is_over(&self, slot: u64) -> bool {
        let generation = |place: Place| self.word(self.layout.generation_at(place.segment)).load(Ordering::Relaxed);
        self.place(slot).is_none_or(|place| generation(place) & SLOT.max(3) != SLOT.unpack(slot)[3])
    }

    /// Makes a copy; whether there was room.
    pub(super) fn keep(&self, entry: &Entry<'_>) -> bool {
        let Entry { key, hash, sample, meta, value } = *entry;
        if key.len().max(value.len()) > self.layout.value_bytes_max() {
            return false;
        }
        let header = Header { key_bytes: key.len(), value_bytes: value.len(), hash, generation: 0, sample, meta };
        let Some((place, generation)) = self.room(header.record_words()) else { return false };
        let key_at = self.record_at(place) + HEADER_WORDS;
        self.memory().store_bytes(key_at, key);
        self.memory().store_bytes(key_at + key.len().div_ceil(8), value);
        self.store_header(place, &Header { generation, ..header }.words());
        self.publish(hash, slot_of(hash, place, generation));
        true
    }

    /// Stores the header of a record, whose generation says that all of it is there.
    fn store_header(&self, place: Place, words: &[u64; HEADER_WORDS]) {
        self.memory().store(self.record_at(place) + 1, &words[1..]);
        self.word(self.record_at(place)).store(words[0], Ordering::Release);
    }

    /// Puts a slot into its bucket: in place of the key's own, one that names nothing, or one that
    /// was hit least.
    fn publish(&self, hash: u64, new: u64) {
        let bucket_at = self.bucket_at(hash);
        let slots: [u64; BUCKET_SLOTS] =
            std::array::from_fn(|index| self.word(bucket_at + index).load(Ordering::Relaxed));
        let is_same = |slot: &u64| slot & SLOT.max(0) == fingerprint(hash);
        let same = slots.iter().position(is_same);
        let free = || slots.iter().position(|slot| *slot == 0 || self.is_over(*slot));
        let index = same.or_else(free).unwrap_or_else(|| {
            let turn = self.turn.replace(self.turn.get().wrapping_add(1));
            let in_turn = (0..BUCKET_SLOTS).map(|step| turn.wrapping_add(step) % BUCKET_SLOTS);
            in_turn.min_by_key(|index| slots[*index] >> HEAT_SHIFT).expect("a bucket has slots")
        });
        // Another client may have used the slot since. Then this copy is lost, and nothing else.
        if self.swap(bucket_at + index, slots[index], new) && slots[index] == 0 {
            self.word(COPIES).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Room for a record in the segment that this client fills, or in another one.
    fn room(&self, words: usize) -> Option<(Place, u64)> {
        for _ in 0..2 {
            let Filling { segment, generation, used } = self.filling.get().or_else(|| self.next_segment(words))?;
            let end = used + words;
            if end <= self.layout.segment_words {
                self.filling.set(Some(Filling { segment, generation, used: end.next_multiple_of(PLACE_WORDS) }));
                return Some((Place { segment, offset: used }, generation));
            }
            self.filling.set(Some(Filling { segment, generation, used }));
            self.release();
        }
        None
    }

    /// Gives up the segment that this client fills.
    fn release(&self) {
        if let Some(Filling { segment, .. }) = self.filling.take() {
            self.swap(self.layout.owner_at(segment), self.user.identity().bits().into(), 0);
        }
    }

    /// Becomes the owner of the segment that was filled first, and begins it with room for so many
    /// words.
    fn next_segment(&self, words: usize) -> Option<Filling> {
        let own = u64::from(self.user.identity().bits());
        if self.user.identity() == Identity::NOBODY {
            return None;
        }
        for _ in 0..SEGMENT_TRIES {
            let segment = self.word(CURSOR).fetch_add(1, Ordering::Relaxed) as usize % self.layout.segments;
            let owner = self.word(self.layout.owner_at(segment)).load(Ordering::Acquire);
            // What has this client's name is what an earlier one of its identity has left.
            let is_free = owner == 0 || owner == own || self.memory().is_dead(Identity::from_bits(owner as u32));
            if !is_free || !self.swap(self.layout.owner_at(segment), owner, own) {
                continue;
            }
            let before = self.word(self.layout.generation_at(segment)).load(Ordering::Relaxed);
            if before > 0 || self.memory().provide(self.layout.segment_at(segment), self.layout.segment_words) {
                return Some(self.begin_segment(segment, before, words));
            }
            self.swap(self.layout.owner_at(segment), own, 0);
        }
        None
    }

    /// Empties a segment that this client owns, and writes again what was hit, as long as a quarter
    /// of it stays free, and so many words.
    fn begin_segment(&self, segment: usize, before: u64, words: usize) -> Filling {
        let end_max = (self.layout.segment_words / 4 * 3).min(self.layout.segment_words.saturating_sub(words));
        let generation = before + 1;
        let mut records = vec![0; if before > 0 { self.layout.segment_words } else { 0 }];
        self.memory().load(self.layout.segment_at(segment), &mut records);
        self.word(self.layout.generation_at(segment)).store(generation, Ordering::Relaxed);
        // Who loads a word that is stored from here on sees this generation later.
        fence(Ordering::Release);
        let (mut offset, mut used) = (0, 0);
        while let Some(header) = Header::in_segment(&records, offset, before) {
            let end = offset + header.record_words();
            let end_again = (used + header.record_words()).next_multiple_of(PLACE_WORDS);
            let from = slot_of(header.hash, Place { segment, offset }, before);
            let to = (end_again <= end_max).then_some(Place { segment, offset: used });
            let header = Header { generation, ..header };
            if self.write_again(from, &header, &records[offset + HEADER_WORDS..end], to) {
                used = end_again;
            }
            offset = end.next_multiple_of(PLACE_WORDS);
        }
        Filling { segment, generation, used }
    }

    /// Writes a record again if it was hit, and there is a place for it; whether it has. Otherwise
    /// its slot is empty, which is `from` but for its heat.
    fn write_again(&self, from: u64, header: &Header, rest: &[u64], to: Option<Place>) -> bool {
        let bucket_at = self.bucket_at(header.hash);
        let found = (bucket_at..bucket_at + BUCKET_SLOTS)
            .map(|slot_at| (slot_at, self.word(slot_at).load(Ordering::Relaxed)))
            .find(|(_, slot)| slot & !(SLOT.max(4) << HEAT_SHIFT) == from);
        let Some((slot_at, slot)) = found else { return false };
        let Some(to) = to.filter(|_| slot != from) else {
            self.empty(slot_at, slot);
            return false;
        };
        self.memory().store(self.record_at(to) + HEADER_WORDS, rest);
        self.store_header(to, &header.words());
        // A reader that counts a hit just now loses the copy.
        self.swap(slot_at, slot, slot_of(header.hash, to, header.generation))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.release();
    }
}

/// The slot of a record.
fn slot_of(hash: u64, place: Place, generation: u64) -> u64 {
    let [segment, offset] = [place.segment, place.offset / PLACE_WORDS].map(|number| number as u64);
    SLOT.pack([fingerprint(hash), segment, offset, generation & SLOT.max(3), 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    const BYTES: u64 = 1 << 16;

    fn memory(bytes: u64) -> (Arc<HostMemory>, Layout) {
        let layout = Layout::of(bytes);
        (Arc::new(HostMemory::of_process(layout.words(), layout.fixed_words()).unwrap()), layout)
    }

    fn store((memory, layout): &(Arc<HostMemory>, Layout)) -> Store {
        Store::new(HostUser::new(memory.clone()), *layout)
    }

    fn hash(number: u64) -> u64 {
        number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn keep(store: &Store, number: u64, value: &[u8]) -> bool {
        let key = number.to_le_bytes();
        store.keep(&Entry { key: &key, hash: hash(number), sample: [1, 2, 3], meta: [number, 5, 6], value })
    }

    fn found(store: &Store, number: u64) -> Option<Vec<u8>> {
        let found = store.find(hash(number), &number.to_le_bytes())?;
        assert_eq!((found.sample(), found.meta()), ([1, 2, 3], [number, 5, 6]));
        let mut value = vec![0; found.value_bytes()];
        let is_whole = store.load(&found, &mut value);
        store.note_hit(&found);
        is_whole.then_some(value)
    }

    #[test]
    fn a_near_cache_of_any_size_keeps_its_limit_and_uses_it() {
        for bytes in [1 << 16, 100_000, 1 << 20, 12_345_678, 256 << 20, 32 << 30] {
            let layout = Layout::of(bytes);
            let used = 8 * layout.words() as u64 + sharers::region_bytes(layout.words_log2);
            assert!(used <= bytes && used + 2 * 8 * layout.segment_words as u64 + 64 > bytes, "{bytes}: {layout:?}");
            assert!((8..=SEGMENTS_MAX as usize).contains(&layout.segments), "{bytes}: {layout:?}");
            assert!(layout.segment_words / PLACE_WORDS <= 1 << 16);
        }
    }

    #[test]
    fn a_copy_is_found_by_all_clients_until_it_is_removed_or_replaced() {
        let memory = memory(BYTES);
        let [one, other] = [(); 2].map(|()| store(&memory));
        assert!(keep(&one, 7, b"a value of some bytes") && keep(&one, 8, b""));
        assert_eq!(found(&other, 7).as_deref(), Some(&b"a value of some bytes"[..]));
        assert_eq!(found(&other, 8).as_deref(), Some(&b""[..]));
        assert!(found(&other, 9).is_none() && copies(&memory.0) == 2);
        assert!(keep(&other, 7, b"another"));
        assert_eq!((found(&one, 7).as_deref(), copies(&memory.0)), (Some(&b"another"[..]), 2));
        let copy = one.find(hash(7), &7_u64.to_le_bytes()).unwrap();
        assert_eq!(copy.heat(), 1);
        one.remove(&copy);
        assert!(found(&other, 7).is_none() && copies(&memory.0) == 1);
        let most = memory.1.value_bytes_max();
        assert!(keep(&one, 7, &vec![1; most]) && !keep(&one, 7, &vec![1; most + 1]));
        assert_eq!(found(&other, 7), Some(vec![1; most]));
    }

    #[test]
    fn what_was_hit_stays_and_the_rest_goes_in_order() {
        let memory = memory(BYTES);
        let store = store(&memory);
        let mut kept = 0;
        for number in 0..2000 {
            assert!(keep(&store, number, &[number as u8; 100]));
            // The first ten are looked up again and again.
            (0..10).for_each(|hot| _ = found(&store, hot));
            kept = kept.max(copies(&memory.0));
        }
        let left: Vec<u64> = (0..2000).filter(|number| found(&store, *number).is_some()).collect();
        let hot = left.iter().filter(|number| **number < 10).count();
        assert!(hot >= 9, "{hot} of ten that were hit are left");
        // A slot may be taken by another key before its turn.
        let latest = left.iter().filter(|number| **number >= 1900).count();
        assert!(latest >= 95 && left.len() > 200, "{latest} of the latest hundred, {} in all", left.len());
        let first_cold = left.iter().find(|number| **number >= 10).unwrap();
        assert!(*first_cold > 1000, "{first_cold} is cold and old");
        assert!(copies(&memory.0) as usize >= left.len() && kept < 512, "{} are counted", copies(&memory.0));
    }

    #[test]
    fn no_reader_takes_what_writers_overwrite_for_a_copy() {
        let memory = memory(BYTES);
        let has_ended = AtomicBool::new(false);
        let value = |number: u64| -> Vec<u8> {
            (0..number % 300).flat_map(|place| (number ^ place).to_le_bytes()).take(number as usize % 1000).collect()
        };
        let hits: u64 = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2_u64)
                .map(|reader| {
                    let (memory, has_ended) = (&memory, &has_ended);
                    scope.spawn(move || {
                        let (store, mut hits, mut number) = (store(memory), 0, reader);
                        while !has_ended.load(Ordering::Relaxed) {
                            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let key = number >> 33 & 1023;
                            if let Some(found) = found(&store, key) {
                                assert_eq!(found, value(key));
                                hits += 1;
                            }
                        }
                        hits
                    })
                })
                .collect();
            for writer in 0..2_u64 {
                let (memory, has_ended) = (&memory, &has_ended);
                scope.spawn(move || {
                    let store = store(memory);
                    for number in 0..100_000_u64 {
                        let key = hash(number + writer) >> 20 & 1023;
                        keep(&store, key, &value(key));
                    }
                    has_ended.store(true, Ordering::Relaxed);
                });
            }
            readers.into_iter().map(|reader| reader.join().unwrap()).sum()
        });
        assert!(hits > 100, "{hits} hits");
    }

    #[test]
    fn segments_of_clients_that_are_gone_are_filled_by_others() {
        let memory = memory(BYTES);
        // As many clients as segments, which end without a word.
        for number in 0..memory.1.segments as u64 {
            let client = store(&memory);
            assert!(keep(&client, number, b"of a client that was killed"));
            client.filling.set(None);
        }
        let owners =
            || (0..memory.1.segments).map(|segment| memory.0.word(memory.1.owner_at(segment)).load(Ordering::Relaxed));
        assert!(owners().all(|owner| owner != 0));
        let client = store(&memory);
        assert!(found(&client, 3).is_some(), "their copies are left");
        assert!((100..1100).all(|number| keep(&client, number, &[1; 200])));
        assert_eq!(owners().filter(|owner| *owner != 0).count(), 1);
        drop(client);
        assert_eq!(owners().collect::<HashSet<_>>(), HashSet::from([0]));
        // Those of clients that live are their own.
        let clients: Vec<_> = (0..memory.1.segments).map(|_| store(&memory)).collect();
        assert!(clients.iter().enumerate().all(|(number, client)| keep(client, number as u64, b"mine")));
        assert!(!keep(&store(&memory), 1, b"no segment is left"));
    }
}
