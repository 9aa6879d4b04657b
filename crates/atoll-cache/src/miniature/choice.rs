//! A client's rule, chosen among several by its own requests, and the curve of hit ratio by
//! capacity.
//!
//! Every rule has a miniature of the client's share, a lane of [`Queues`]. The client follows the
//! rule that misses least. Misses count half after `WINDOW_MISSES` later ones, so that a client
//! follows a load that changes. Another rule must be better by `MARGIN_PERMILLE` and by
//! `MARGIN_MISSES`, so that chance alone changes no rule. The first rule is the one that a client
//! begins with.
//!
//! Further lanes follow the chosen rule at the capacities of [`CURVE`]. A read that a lane misses
//! counts for all the reads that the sample stands for. The hit ratio is one less these misses over
//! *all* reads of the client: then a popular key distorts nothing, whether it is in the sample or
//! not (SHARDS-adj: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015).

use super::overlap::Overlap;
use super::queues::{LANES_MAX, Missed, QueueRule, Queues};
use super::sample::{Sample, Scale};
use arrayvec::ArrayVec;

/// The capacities of the curve, in quarters of the pool's.
pub const CURVE: [u64; 5] = [1, 2, 4, 8, 16];
/// The place of the pool's own capacity in [`CURVE`].
pub const ONCE: usize = 2;
const _: () = assert!(CURVE[ONCE] == 4, "four quarters");
/// Most rules of a choice.
pub const RULES_MAX: usize = LANES_MAX - CURVE.len();
/// Sampled misses after which an earlier miss counts half.
const WINDOW_MISSES: u32 = 1024;
/// How much less another rule must miss, in thousandths of the misses of the rule that is followed.
const MARGIN_PERMILLE: u32 = 10;
/// How much less it must miss besides, in sampled misses.
const MARGIN_MISSES: u32 = 5;

/// One client's miniatures, and the rule that it follows.
#[derive(Clone, Debug)]
pub struct Choice {
    rules: ArrayVec<QueueRule, RULES_MAX>,
    sample: Sample,
    overlap: Overlap,
    /// A lane for each rule, then one for each capacity of [`CURVE`]. `None` before the first
    /// sampled access.
    queues: Option<Queues>,
    /// Misses of each rule, old ones in part.
    misses: [u32; RULES_MAX],
    /// Sampled accesses that a rule missed, since the misses were halved.
    events: u32,
    leader: usize,
}

impl Choice {
    /// A choice among `rules`, one to [`RULES_MAX`] of them, in a pool of so many objects.
    pub fn new(rules: &[QueueRule], scale: Scale, objects_max: u64) -> Self {
        assert!((1..=RULES_MAX).contains(&rules.len()), "{} rules", rules.len());
        Self {
            rules: rules.iter().copied().collect(),
            sample: Sample::new(scale, objects_max),
            overlap: Overlap::default(),
            queues: None,
            misses: [0; RULES_MAX],
            events: 0,
            leader: 0,
        }
    }

    /// The rule that the client follows.
    pub fn rule(&self) -> QueueRule {
        self.rules[self.leader]
    }

    /// The number of the rule that the client follows.
    pub fn leader(&self) -> usize {
        self.leader
    }

    /// The sample.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    /// Notes a read of a sampled key. Returns the capacities of [`CURVE`] that missed it. A key
    /// that the pool did not have is inserted later, if the client inserts it.
    pub fn read(&mut self, key: u64, is_hit: bool) -> CurveMissed {
        let missed = self.queues().access(key, is_hit);
        if !missed.is_empty() {
            self.judge(missed);
        }
        let missed = CurveMissed { missed, first: self.rules.len() };
        if let Some(change) = self.overlap.note(is_hit, missed) {
            let before = self.sample;
            if change.apply(&mut self.sample) {
                self.rescale(before);
            }
        }
        missed
    }

    /// Notes that the client has written a sampled key: `overwrites` if the pool had it.
    pub fn written(&mut self, key: u64, overwrites: bool) {
        match overwrites {
            true => {
                self.queues().access(key, true);
            }
            false => self.queues().place(key),
        }
    }

    /// Notes an eviction of this client, which has that number among all of the pool's.
    pub fn evicted(&mut self, number: u64) {
        let before = self.sample;
        if self.sample.evicted(number) {
            self.rescale(before);
        }
    }

    /// Notes that the pool has room for so many objects.
    pub fn resized(&mut self, objects_max: u64) {
        let before = self.sample;
        if self.sample.resized(objects_max) {
            self.rescale(before);
        }
    }

    fn rescale(&mut self, before: Sample) {
        self.overlap = Overlap::default();
        if self.sample.shift() != before.shift() {
            // Other keys are in the sample.
            (self.queues, self.misses, self.events) = (None, [0; RULES_MAX], 0);
        }
        let capacities: ArrayVec<u64, LANES_MAX> = self.capacities().collect();
        if let Some(queues) = &mut self.queues {
            capacities.into_iter().enumerate().for_each(|(lane, objects)| queues.resize(lane, objects));
        }
    }

    /// The capacity of every lane.
    fn capacities(&self) -> impl Iterator<Item = u64> {
        let objects = self.sample.objects();
        let curve = CURVE.into_iter().map(move |quarters| objects * quarters / 4);
        std::iter::repeat_n(objects, self.rules.len()).chain(curve)
    }

    fn queues(&mut self) -> &mut Queues {
        if self.queues.is_none() {
            let followed = std::iter::repeat_n(self.rule(), CURVE.len());
            let rules: ArrayVec<QueueRule, LANES_MAX> = self.rules.iter().copied().chain(followed).collect();
            self.queues = Some(Queues::new(rules.into_iter().zip(self.capacities())));
        }
        self.queues.as_mut().expect("they were made above")
    }

    /// Counts the misses of the rules whose miniatures are full, and follows the best rule.
    fn judge(&mut self, missed: Missed) {
        let Some(queues) = &self.queues else { return };
        let mut counts = false;
        for rule in 0..self.rules.len() {
            if missed.has(rule) && queues.is_full(rule) {
                self.misses[rule] += 1;
                counts = true;
            }
        }
        if !counts {
            return;
        }
        self.events += 1;
        if self.events >= WINDOW_MISSES {
            self.events = 0;
            self.misses.iter_mut().for_each(|misses| *misses /= 2);
        }
        let followed = self.misses[self.leader];
        let best = (0..self.rules.len()).min_by_key(|rule| self.misses[*rule]).unwrap_or(0);
        if self.misses[best] + followed * MARGIN_PERMILLE / 1000 + MARGIN_MISSES < followed {
            self.leader = best;
            let (rule, first) = (self.rule(), self.rules.len());
            if let Some(queues) = &mut self.queues {
                (first..first + CURVE.len()).for_each(|lane| queues.set_rule(lane, rule));
            }
        }
    }
}

/// The capacities of [`CURVE`] that missed a read.
#[derive(Clone, Copy, Debug)]
pub struct CurveMissed {
    missed: Missed,
    /// The lane of the first capacity.
    first: usize,
}

impl CurveMissed {
    /// Whether the capacity with this number missed it.
    pub fn has(self, point: usize) -> bool {
        self.missed.has(self.first + point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::rules::RULES;
    use crate::policy::mix;

    /// All keys are in the sample.
    const ALL: Scale = Scale { objects: 1 << 20, shift_min: 0 };

    /// The rule that is followed after so many requests.
    fn chosen(objects_max: u64, requests: u64, key_of: impl Fn(u64) -> u64) -> usize {
        let mut choice = Choice::new(&RULES, ALL, objects_max);
        (0..requests).for_each(|step| drop_missed(choice.read(mix(key_of(step)), true)));
        choice.leader()
    }

    fn drop_missed(_: CurveMissed) {}

    /// Popularity falls with the square root of the rank: a skewed load whose keys keep their rank.
    fn skewed(step: u64, keys: f64) -> u64 {
        let uniform = (mix(step) >> 11) as f64 / (1_u64 << 53) as f64;
        (uniform * uniform * uniform * keys) as u64
    }

    #[test]
    fn the_rule_follows_the_load() {
        // A loop that is half as long again as the cache: a small queue that promotes at the first
        // hit keeps a part of it.
        let scans = chosen(1000, 60_000, |step| step % 1500);
        let popular = chosen(1000, 60_000, |step| skewed(step, 20_000.0));
        // Each key is asked for three times, 600 requests apart, and never again.
        let recent = chosen(1000, 60_000, |step| step / 1800 * 600 + step % 600);
        assert_ne!(scans, popular);
        assert_ne!(recent, scans);
    }

    #[test]
    fn the_sampled_curve_is_within_two_points_of_the_curve_of_all_keys() {
        let curve = |scale: Scale| {
            let mut choice = Choice::new(&RULES[..1], scale, 8_000);
            let (mut misses, reads) = ([0_u64; CURVE.len()], 400_000);
            for step in 0..reads {
                let hash = mix(skewed(step, 100_000.0) + 1);
                if choice.sample().has(hash) {
                    let missed = choice.read(hash, true);
                    let stands_for = 1 << choice.sample().shift();
                    misses
                        .iter_mut()
                        .enumerate()
                        .for_each(|(point, misses)| *misses += stands_for * u64::from(missed.has(point)));
                }
            }
            misses.map(|misses| 100.0 * (1.0 - misses as f64 / reads as f64))
        };
        let (all, sampled) = (curve(ALL), curve(Scale { objects: 1024, shift_min: 2 }));
        for (exact, sampled) in all.into_iter().zip(sampled) {
            assert!((exact - sampled).abs() < 2.0, "{exact} {sampled}");
        }
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    }

    /// The hit ratios in percent of a pool of so many objects, and those that its clients model,
    /// with eight clients that read `key_of` their number and their step in turn.
    fn modelled(objects: u64, key_of: impl Fn(u64, u64) -> u64) -> (f64, [f64; CURVE.len()]) {
        const CLIENTS: u64 = 8;
        let mut pool = Queues::new([(RULES[0], objects)]);
        let scale = Scale { objects: 1024, shift_min: 2 };
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| Choice::new(&RULES[..1], scale, objects)).collect();
        let (mut evictions, mut hits, mut misses, mut reads) = (0, 0, [0; CURVE.len()], 0);
        for step in 0..4_000_000 {
            let (client, hash) = (step % CLIENTS, mix(key_of(step % CLIENTS, step / CLIENTS) + 1));
            let choice = &mut clients[client as usize];
            let is_hit = pool.access(hash, true).is_empty();
            if !is_hit {
                evictions += 1;
                choice.evicted(evictions);
            }
            // The first reads teach the clients how many they are, and fill the miniatures.
            let counts = step > 3_000_000;
            reads += u64::from(counts);
            hits += u64::from(counts && is_hit);
            if choice.sample().has(hash) {
                let stands_for = 1 << choice.sample().shift();
                let missed = choice.read(hash, is_hit);
                if !is_hit {
                    choice.written(hash, false);
                }
                for (point, misses) in misses.iter_mut().enumerate().filter(|_| counts) {
                    *misses += stands_for * u64::from(missed.has(point));
                }
            }
        }
        (100.0 * hits as f64 / reads as f64, misses.map(|misses| 100.0 * (1.0 - misses as f64 / reads as f64)))
    }

    #[test]
    fn clients_that_share_their_keys_model_the_whole_pool_and_others_their_part() {
        let shared = |_: u64, step: u64| skewed(step, 100_000.0);
        let own = |client: u64, step: u64| skewed(step, 12_500.0) + client * 12_500;
        for (name, key_of) in [("shared", &shared as &dyn Fn(u64, u64) -> u64), ("own", &own)] {
            let curve = [2, 4, 8, 16].map(|quarters| {
                modelled(8_000 * quarters / 4, |client, step| key_of(client, mix(step) ^ client << 40))
            });
            for (point, pair) in curve.windows(2).enumerate() {
                let [(half, _), (once, modelled)] = [pair[0], pair[1]];
                println!("{name} {point}: half {half:.1}, once {once:.1}, modelled {modelled:.1?}");
                assert!((modelled[ONCE] - once).abs() < 4.0, "{name}: {once} where {modelled:?}");
                assert!((modelled[ONCE - 1] - half).abs() < 4.0, "{name}: {half} where {modelled:?}");
            }
        }
    }

    #[test]
    fn a_pool_that_grows_or_is_shared_changes_the_miniatures() {
        let scale = Scale { objects: 1000, shift_min: 2 };
        let mut choice = Choice::new(&RULES, scale, 4000);
        (0..3000).for_each(|key| drop_missed(choice.read(mix(key), true)));
        choice.resized(2000);
        assert_eq!((choice.sample().shift(), choice.sample().objects()), (2, 500));
        choice.resized(16_000);
        assert_eq!((choice.sample().shift(), choice.sample().objects()), (4, 1000));
        (0..200).for_each(|eviction| choice.evicted(4 * eviction));
        assert_eq!((choice.sample().shift(), choice.sample().objects()), (2, 1000));
        drop_missed(choice.read(7, true));
    }
}
