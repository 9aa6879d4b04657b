//! Models of `forge`'s two queues, which differ in rule and capacity, on one table of keys.
//!
//! ```text
//! key    hash 64 | lanes 64 | next key of its chain 32 | a stamp of 32 bits for each lane
//! lane   3  2      1  0
//!        +--------+--------+
//!        |accesses|  where |   where: 0 absent, 1 small queue, 2 main queue, 3 ghost
//!        +--------+--------+
//! ```
//!
//! Each model is a lane: four bits of every key. So one access costs one search, and a hit in all
//! lanes one addition. Only a lane that misses costs more. A key is one cache line.
//!
//! A stamp is the number of objects that had left the lane's small queue when the key became a
//! ghost. An object that is removed or expires stays in the models until it is evicted.

use std::collections::VecDeque;

/// Most lanes: a key fits a cache line.
pub const LANES_MAX: usize = 11;
const NONE: u32 = u32::MAX;
/// The lowest bit of every lane.
const LOW: u64 = 0x1111_1111_1111_1111;
const LANE_BITS: usize = 4;
const LANE: u64 = 0b1111;
const SMALL: u64 = 1;
const MAIN: u64 = 2;
const GHOST: u64 = 3;
const ONE_ACCESS: u64 = 1 << 2;
/// Keys that an insertion looks at, to find one that no lane needs.
const SWEEP_KEYS: usize = 4;

/// How the objects of both queues are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRule {
    /// The small queue's share of the objects, in percent.
    pub small_percent: u8,
    /// Accesses after which an object of the small queue is promoted.
    pub promote_hits: u8,
    /// For how many objects that leave the small queue a ghost is young, in percent of all objects.
    /// Zero: evicted keys leave no ghosts.
    pub ghost_age_percent: u16,
    /// A second limit of that age: the objects that left the small queue since the oldest object of
    /// the main queue entered it, in percent. `None`: no such limit.
    pub turnover_percent: Option<u16>,
    /// Whether keys that are evicted from the main queue leave ghosts too.
    pub main_ghosts: bool,
}

impl QueueRule {
    /// The longest age of a young ghost, with so many objects in the cache, of which `turnover`
    /// have left the small queue since the oldest object of the main queue entered it.
    #[inline]
    pub fn ghost_age(&self, objects: u32, turnover: u32) -> u32 {
        let age = u64::from(objects) * u64::from(self.ghost_age_percent) / 100;
        let limit = |percent: u16| u64::from(turnover) * u64::from(percent) / 100;
        age.min(self.turnover_percent.map_or(u64::MAX, limit)) as u32
    }
}

#[derive(Clone, Debug)]
struct Key {
    hash: u64,
    lanes: u64,
    /// The next key of its chain, or of the free keys.
    next: u32,
    stamps: [u32; LANES_MAX],
}

impl Key {
    fn place(&self, lane: usize) -> u64 {
        self.lanes >> (LANE_BITS * lane) & 0b11
    }

    fn accesses(&self, lane: usize) -> u64 {
        self.lanes >> (LANE_BITS * lane + 2) & 0b11
    }

    fn put(&mut self, lane: usize, place: u64, accesses: u64) {
        let shift = LANE_BITS * lane;
        self.lanes = self.lanes & !(LANE << shift) | (accesses << 2 | place) << shift;
    }
}

/// One model.
#[derive(Clone, Debug)]
struct Lane {
    rule: QueueRule,
    objects_max: usize,
    /// The keys in the small queue, the oldest first.
    small: VecDeque<u32>,
    /// The keys in the main queue, with the `departures` when each entered it.
    main: VecDeque<(u32, u32)>,
    /// Objects that have left the small queue.
    departures: u32,
}

impl Lane {
    fn is_full(&self) -> bool {
        self.small.len() + self.main.len() >= self.objects_max
    }

    fn ghost_age(&self) -> u32 {
        let since = |(_, entered): &(u32, u32)| self.departures.wrapping_sub(*entered);
        let turnover = if self.is_full() { self.main.front().map_or(u32::MAX, since) } else { u32::MAX };
        self.rule.ghost_age(self.objects_max as u32, turnover)
    }

    fn has_young_ghost(&self, lane: usize, key: &Key) -> bool {
        key.place(lane) == GHOST && self.departures.wrapping_sub(key.stamps[lane]) <= self.ghost_age()
    }

    /// Evicts one object. On the way it moves others.
    fn evict(&mut self, lane: usize, keys: &mut [Key]) {
        loop {
            let share = usize::from(self.rule.small_percent) * self.objects_max;
            let is_small = 100 * self.small.len() > share || self.main.is_empty();
            let popped = if is_small { self.small.pop_front() } else { self.main.pop_front().map(|(key, _)| key) };
            let Some(number) = popped else { return };
            let key = &mut keys[number as usize];
            let accesses = key.accesses(lane);
            self.departures = self.departures.wrapping_add(is_small.into());
            let stays = accesses >= if is_small { u64::from(self.rule.promote_hits) } else { 1 };
            if stays {
                key.put(lane, MAIN, if is_small { 0 } else { accesses - 1 });
                self.main.push_back((number, self.departures));
                continue;
            }
            let leaves_ghost = self.rule.ghost_age_percent > 0 && (is_small || self.rule.main_ghosts);
            key.put(lane, if leaves_ghost { GHOST } else { 0 }, 0);
            key.stamps[lane] = self.departures;
            return;
        }
    }

    fn insert(&mut self, lane: usize, number: u32, keys: &mut [Key]) {
        let returns = self.has_young_ghost(lane, &keys[number as usize]);
        while self.is_full() {
            self.evict(lane, keys);
        }
        keys[number as usize].put(lane, if returns { MAIN } else { SMALL }, 0);
        match returns {
            true => self.main.push_back((number, self.departures)),
            false => self.small.push_back(number),
        }
    }
}

/// The lanes that missed an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed(u64);

impl Missed {
    /// Whether this lane missed.
    #[inline]
    pub fn has(self, lane: usize) -> bool {
        self.0 >> (LANE_BITS * lane) & 1 == 1
    }

    /// Whether none missed.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the lanes.
    pub fn lanes(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let lane = (left != 0).then(|| left.trailing_zeros() as usize / LANE_BITS)?;
            left &= left - 1;
            Some(lane)
        })
    }
}

/// Up to [`LANES_MAX`] models.
///
/// Invariant: a key is in the queue of a lane that its four bits say, once, and in no other. A key
/// that is absent from every lane is free.
#[derive(Clone, Debug)]
pub struct Queues {
    keys: Vec<Key>,
    /// The first key of every chain; a power of two of them.
    chains: Vec<u32>,
    /// The first free key.
    free: u32,
    /// Keys that are not free.
    used: usize,
    /// The next key that an insertion looks at.
    hand: usize,
    lanes: Vec<Lane>,
}

impl Queues {
    /// Models with these rules and capacities in objects.
    pub fn new(lanes: impl IntoIterator<Item = (QueueRule, u64)>) -> Self {
        let lane = |(rule, objects_max): (QueueRule, u64)| Lane {
            rule,
            objects_max: objects_max.max(2) as usize,
            small: VecDeque::new(),
            main: VecDeque::new(),
            departures: 0,
        };
        let lanes: Vec<Lane> = lanes.into_iter().map(lane).collect();
        assert!((1..=LANES_MAX).contains(&lanes.len()), "{} lanes", lanes.len());
        Self { keys: Vec::new(), chains: vec![NONE; 64], free: NONE, used: 0, hand: 0, lanes }
    }

    /// Whether an insertion into this lane evicts.
    pub fn is_full(&self, lane: usize) -> bool {
        self.lanes[lane].is_full()
    }

    /// Changes a lane's rule.
    pub fn set_rule(&mut self, lane: usize, rule: QueueRule) {
        self.lanes[lane].rule = rule;
    }

    /// Changes a lane's capacity.
    pub fn resize(&mut self, lane: usize, objects_max: u64) {
        self.lanes[lane].objects_max = objects_max.max(2) as usize;
        while self.lanes[lane].small.len() + self.lanes[lane].main.len() > self.lanes[lane].objects_max {
            self.lanes[lane].evict(lane, &mut self.keys);
        }
    }

    /// Notes an access to a key. The lanes that do not have it insert it if `inserts` is set.
    pub fn access(&mut self, hash: u64, inserts: bool) -> Missed {
        let found = self.find(hash);
        let missed = found.map_or(self.all(), |key| {
            let lanes = &mut self.keys[key as usize].lanes;
            let resident = (*lanes ^ *lanes >> 1) & LOW;
            let is_most = *lanes >> 2 & *lanes >> 3;
            *lanes += (resident & !is_most) * ONE_ACCESS;
            self.all() & !resident
        });
        if inserts && missed != 0 {
            self.insert(hash, found, Missed(missed));
        }
        Missed(missed)
    }

    /// Inserts a key into the lanes that do not have it, which is no access for the others.
    pub fn place(&mut self, hash: u64) {
        let found = self.find(hash);
        let lanes = found.map_or(0, |key| self.keys[key as usize].lanes);
        let missed = self.all() & !(lanes ^ lanes >> 1);
        if missed != 0 {
            self.insert(hash, found, Missed(missed));
        }
    }

    fn insert(&mut self, hash: u64, found: Option<u32>, missed: Missed) {
        let number = found.unwrap_or_else(|| self.add(hash));
        for lane in missed.lanes() {
            self.lanes[lane].insert(lane, number, &mut self.keys);
        }
    }

    /// The lowest bit of each lane that there is.
    fn all(&self) -> u64 {
        LOW & ((1 << (LANE_BITS * self.lanes.len())) - 1)
    }

    fn chain(&self, hash: u64) -> usize {
        let bits = self.chains.len().trailing_zeros();
        (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    fn find(&self, hash: u64) -> Option<u32> {
        let mut at = self.chains[self.chain(hash)];
        while at != NONE && self.keys[at as usize].hash != hash {
            at = self.keys[at as usize].next;
        }
        (at != NONE).then_some(at)
    }

    /// Adds a key that is in no lane yet.
    fn add(&mut self, hash: u64) -> u32 {
        for _ in 0..SWEEP_KEYS.min(self.keys.len()) {
            self.sweep_one();
        }
        if self.used >= self.chains.len() {
            self.chains = vec![NONE; 2 * self.chains.len()];
            for number in 0..self.keys.len() as u32 {
                if self.keys[number as usize].lanes != 0 {
                    self.link(number);
                }
            }
        }
        let key = Key { hash, lanes: 0, next: NONE, stamps: [0; LANES_MAX] };
        let number = self.free;
        let number = if number == NONE {
            self.keys.push(key);
            (self.keys.len() - 1) as u32
        } else {
            self.free = self.keys[number as usize].next;
            self.keys[number as usize] = key;
            number
        };
        self.link(number);
        self.used += 1;
        number
    }

    fn link(&mut self, number: u32) {
        let chain = self.chain(self.keys[number as usize].hash);
        self.keys[number as usize].next = self.chains[chain];
        self.chains[chain] = number;
    }

    /// Frees the key at the hand if it is only an old ghost.
    fn sweep_one(&mut self) {
        self.hand = (self.hand + 1) % self.keys.len();
        let key = &mut self.keys[self.hand];
        if key.lanes == 0 || (key.lanes ^ key.lanes >> 1) & LOW != 0 {
            return;
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            if key.place(number) == GHOST && !lane.has_young_ghost(number, key) {
                key.put(number, 0, 0);
            }
        }
        if key.lanes == 0 {
            self.unlink(self.hand as u32);
        }
    }

    fn unlink(&mut self, number: u32) {
        let (chain, next) = (self.chain(self.keys[number as usize].hash), self.keys[number as usize].next);
        if self.chains[chain] == number {
            self.chains[chain] = next;
        } else {
            let mut at = self.chains[chain];
            while self.keys[at as usize].next != number {
                at = self.keys[at as usize].next;
            }
            self.keys[at as usize].next = next;
        }
        self.keys[number as usize].next = self.free;
        self.free = number;
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: QueueRule = QueueRule {
        small_percent: 10,
        promote_hits: 2,
        ghost_age_percent: 200,
        turnover_percent: Some(100),
        main_ghosts: true,
    };

    /// Every key is in the queue that its four bits say, and used keys are in their chains.
    fn check(queues: &Queues) {
        for (number, lane) in queues.lanes.iter().enumerate() {
            assert!(lane.small.len() + lane.main.len() <= lane.objects_max);
            let placed = |place: u64| queues.keys.iter().filter(|key| key.place(number) == place).count();
            assert_eq!([placed(SMALL), placed(MAIN)], [lane.small.len(), lane.main.len()]);
            assert!(lane.small.iter().all(|key| queues.keys[*key as usize].place(number) == SMALL));
            assert!(lane.main.iter().all(|(key, _)| queues.keys[*key as usize].place(number) == MAIN));
        }
        let used = queues.keys.iter().filter(|key| key.lanes != 0);
        assert!(used.clone().all(|key| queues.find(key.hash).is_some()));
        assert_eq!(used.count(), queues.used);
    }

    #[test]
    fn lanes_do_not_disturb_each_other_and_keys_are_freed() {
        let lanes = [(RULE, 50), (QueueRule { small_percent: 1, promote_hits: 1, ..RULE }, 50), (RULE, 200)];
        let mut together = Queues::new(lanes);
        let mut alone = lanes.map(|lane| Queues::new([lane]));
        let mut state = 1_u64;
        for step in 0..60_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = if step % 3 == 0 { step } else { (state >> 33) % 300 };
            let missed = together.access(key, step % 7 != 0);
            for (lane, alone) in alone.iter_mut().enumerate() {
                assert_eq!(missed.has(lane), alone.access(key, step % 7 != 0).has(0), "step {step}, lane {lane}");
            }
            if step % 1000 == 0 {
                check(&together);
            }
        }
        assert!(together.keys.len() < 2_000, "{} keys", together.keys.len());
        together.resize(2, 20);
        check(&together);
    }

    /// As S3-FIFO: a scan passes through the small queue, and what is asked for again stays.
    #[test]
    fn a_scan_evicts_no_object_of_the_main_queue() {
        let mut queues = Queues::new([(RULE, 100)]);
        for _ in 0..3 {
            for key in 0..50 {
                queues.access(key, true);
            }
        }
        for key in 1000..2000 {
            queues.access(key, true);
        }
        assert!((0..50).all(|key| queues.access(key, false).is_empty()));
    }
}
