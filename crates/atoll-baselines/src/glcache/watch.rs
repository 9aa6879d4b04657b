//! The utility of a group: the process watches the group's objects for a while, even after they
//! were moved or evicted.
//!
//! A watched object is known by the parts of its key's hash that the group's map has. So a lookup
//! counts although the object was moved or evicted meanwhile. Each lookup of a process searches for
//! its key in one table:
//!
//! ```text
//! a word of the table   63                     24 23            8 7         0
//!                       +------------------------+---------------+-----------+
//!                       |  more of the hash  40  | size, units 16| place + 1 |
//!                       +------------------------+---------------+-----------+
//!                       0: nothing is watched here
//! ```
//!
//! The first lookup of an object adds 1 / (size x lookups since) to its group's utility, and
//! removes the object from the table. An object whose word another object has overwritten is no
//! longer watched. That happens to one in some dozens; only the sum of many matters.

use super::features::Features;
use super::sample::Sample;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Groups that a process watches at a time.
const GROUPS_MAX: usize = 128;
/// Words of the table for each object that may be watched.
const WORDS_PER_OBJECT: usize = 4;
/// The most objects that the table is made for. Larger groups leave room for fewer groups.
const OBJECTS_MAX: usize = 1 << 16;
/// A utility of 1 in the sums: the largest of a group fits 64 bits, the smallest is a few units.
const UTILITY_ONE: f64 = (1u64 << 40) as f64;
/// Utility is counted in units of sixteen bytes. An object of this size that is looked up at the
/// very end of the time counts one.
const SIZE_UNITS: f64 = 16.0;

const PLACE_MASK: u64 = 0xff;
const TAG_SHIFT: u32 = 24;

/// A group that is watched.
struct Watched {
    place: usize,
    /// The group's chunk and generation.
    group: (u32, u32),
    features: Features,
    /// Lookups of the process when the watch began.
    begun: u64,
    /// Where its objects are in the table.
    objects: Vec<usize>,
}

/// The groups that one process watches.
pub struct Watch {
    /// Lookups of the process so far.
    lookups: AtomicU64,
    table: Vec<AtomicU64>,
    /// For each place, when the watch of its group began, and the sum of its utility.
    begun: Vec<AtomicU64>,
    utility: Vec<AtomicU64>,
    watched: Mutex<Vec<Watched>>,
}

/// Spreads the bits of a key's identity.
fn mixed(object: u64) -> u64 {
    let word = (object ^ object >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (word ^ word >> 32).wrapping_mul(0x94d0_49bb_1331_11eb)
}

impl Watch {
    /// A watch for groups of at most so many objects.
    pub fn new(group_objects_max: u32) -> Self {
        let objects = (GROUPS_MAX * group_objects_max as usize).min(OBJECTS_MAX);
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            lookups: AtomicU64::new(0),
            table: zeros((WORDS_PER_OBJECT * objects).next_power_of_two().max(2)),
            begun: zeros(GROUPS_MAX),
            utility: zeros(GROUPS_MAX),
            watched: Mutex::new(Vec::new()),
        }
    }

    /// Where an object is in the table, and its word there without size and place.
    fn found(&self, object: u64) -> (usize, u64) {
        let hash = mixed(object);
        let index = hash >> (64 - self.table.len().trailing_zeros());
        (index as usize, hash << TAG_SHIFT)
    }

    /// Lookups of the process so far.
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Counts a lookup of the object with this identity.
    #[inline]
    pub fn observe(&self, object: u64) {
        let lookups = self.lookups.fetch_add(1, Ordering::Relaxed) + 1;
        let (index, tag) = self.found(object);
        let word = self.table[index].load(Ordering::Relaxed);
        if word == 0 || (word ^ tag) >> TAG_SHIFT != 0 {
            return;
        }
        if self.table[index].compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let place = ((word & PLACE_MASK) as usize).wrapping_sub(1);
        let (Some(begun), Some(utility)) = (self.begun.get(place), self.utility.get(place)) else { return };
        let units = (word >> 8 & 0xffff).max(1);
        let since = lookups.saturating_sub(begun.load(Ordering::Relaxed)).max(1);
        utility.fetch_add((UTILITY_ONE / (units as f64 * since as f64)) as u64, Ordering::Relaxed);
    }

    /// How many more groups can be watched.
    pub fn room(&self) -> usize {
        GROUPS_MAX - self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Watched>> {
        self.watched.lock().expect("no holder of the lock panics")
    }

    /// Whether this group is watched: chunk and generation.
    pub fn watches(&self, group: (u32, u32)) -> bool {
        self.lock().iter().any(|watched| watched.group == group)
    }

    /// Begins to watch a group with these features. Its objects come with their sizes in units of
    /// sixteen bytes.
    pub fn begin(&self, group: (u32, u32), features: Features, objects: impl Iterator<Item = (u64, u16)>) {
        let mut watched = self.lock();
        let Some(place) = (0..GROUPS_MAX).find(|place| watched.iter().all(|other| other.place != *place)) else {
            return;
        };
        let begun = self.lookups();
        self.begun[place].store(begun, Ordering::Relaxed);
        self.utility[place].store(0, Ordering::Relaxed);
        let put = |(object, units): (u64, u16)| {
            let (index, tag) = self.found(object);
            let word = tag | u64::from(units.max(1)) << 8 | (place as u64 + 1);
            self.table[index].store(word, Ordering::Relaxed);
            index
        };
        let objects = objects.map(put).collect();
        watched.push(Watched { place, group, features, begun, objects });
    }

    /// Stops watching the groups that have been watched for so many lookups. Returns their samples.
    pub fn finish(&self, interval: u64) -> Vec<Sample> {
        let lookups = self.lookups();
        let mut watched = self.lock();
        let mut samples = Vec::new();
        watched.retain(|group| {
            if lookups.saturating_sub(group.begun) < interval {
                return true;
            }
            for index in &group.objects {
                let word = self.table[*index].load(Ordering::Relaxed);
                if word & PLACE_MASK == group.place as u64 + 1 {
                    self.table[*index].store(0, Ordering::Relaxed);
                }
            }
            let utility = self.utility[group.place].load(Ordering::Relaxed) as f64 / UTILITY_ONE;
            let utility_log = libm::log1p(utility * interval as f64 * SIZE_UNITS) as f32;
            samples.push(Sample { features: group.features, utility_log });
            false
        });
        samples
    }
}

const _: () = assert!((GROUPS_MAX as u64) < PLACE_MASK);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_counts_once_the_more_the_sooner_and_the_smaller_it_is() {
        let watch = Watch::new(8);
        let group = |first: u64, units: u16| (first..first + 4).map(move |object| (object, units));
        watch.begin((1, 0), Features::default(), group(100, 16));
        watch.begin((2, 0), Features::default(), group(200, 16));
        watch.begin((3, 0), Features::default(), group(300, 1));
        watch.begin((4, 0), Features::default(), group(400, 16));
        assert!(watch.watches((2, 0)) && !watch.watches((2, 1)) && watch.room() == GROUPS_MAX - 4);
        watch.observe(100);
        (0..20).for_each(|_| watch.observe(5));
        watch.observe(200);
        watch.observe(300);
        (0..20).for_each(|_| watch.observe(100));
        assert!(watch.finish(1000).is_empty());
        let utility: Vec<f32> = watch.finish(40).iter().map(|sample| sample.utility_log).collect();
        assert!(utility[0] > utility[1] && utility[2] > utility[1] && utility[3] == 0.0, "{utility:?}");
        assert_eq!(watch.room(), GROUPS_MAX);
        assert!(watch.table.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn no_more_groups_are_watched_than_there_are_places() {
        let watch = Watch::new(2);
        for chunk in 0..2 * GROUPS_MAX as u32 {
            watch.begin((chunk, 1), Features::default(), [(u64::from(chunk), u16::MAX)].into_iter());
        }
        assert_eq!((watch.room(), watch.watches((300, 1))), (0, false));
        watch.observe(GROUPS_MAX as u64 - 1);
        assert_eq!(watch.finish(0).len(), GROUPS_MAX);
    }
}
