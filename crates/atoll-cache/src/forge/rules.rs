//! Which rule a client follows when it evicts: the pool's, or the one that fits the client's own
//! requests best.
//!
//! With [`Rule::Chosen`] each client has a miniature for every rule of [`RULES`]
//! ([`miniature`](crate::miniature)), on a sample of the keys that it reads and writes. It follows
//! the rule that misses least. That is its own choice: no word of the pool changes, and clients of
//! one pool may follow different rules. The rule says how long the small queue is, which of its
//! objects are promoted, how old a ghost may be, and whether the main queue leaves ghosts.
//!
//! | client | what it tells the miniatures |
//! |---|---|
//! | reads a sampled key | a hit or a miss; an operation on another key costs one test of hash bits |
//! | writes a sampled key | an insertion or an overwrite |
//! | evicts a group, or allocates a chunk that an evictor has emptied | its number among all evicted groups, and how many objects live in a group |
//!
//! An evictor (`ahead`) makes no requests. It follows the rule of the writer that was short of
//! chunks last.
//!
//! | rule of [`RULES`] | loads |
//! |---|---|
//! | S3-FIFO's queues, with ghosts no older than the main queue | most |
//! | a tiny small queue, and promotion at the first hit | scans; loops longer than the cache |
//! | a large small queue | recency decides |
//! | a tiny small queue and old ghosts | large loops with a popular part |
//! | ghosts of the main queue too | popularity that returns |
//! | nearly all objects in the small queue, without ghosts | each key is asked for a few times in a row |

use super::Forge;
use super::layout::Queue;
use super::leaving::LeavingGroup;
use super::ring::Cursors;
use super::settings::{ForgeOptions, ForgeSettings, Rule};
use super::slot::KeyHash;
use super::technique::Technique;
use crate::miniature::choice::{CURVE, Choice};
use crate::miniature::queues::QueueRule;
use crate::miniature::sample::Scale;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;
use std::cell::{Cell, RefCell};

/// The rules among which a client chooses. It begins with the first.
pub const RULES: [QueueRule; 6] = [
    QueueRule { turnover_percent: Some(100), ..ruled(10, 2, 200) },
    QueueRule { turnover_percent: Some(100), ..ruled(1, 1, 200) },
    QueueRule { turnover_percent: Some(100), ..ruled(40, 1, 400) },
    ruled(1, 1, 200),
    QueueRule { turnover_percent: Some(100), main_ghosts: true, ..ruled(10, 2, 400) },
    ruled(80, 1, 0),
];

const fn ruled(small_percent: u8, promote_hits: u8, ghost_age_percent: u16) -> QueueRule {
    QueueRule { small_percent, promote_hits, ghost_age_percent, turnover_percent: None, main_ghosts: false }
}

/// Objects of a miniature.
const MINIATURE_OBJECTS: u64 = 1024;
/// At most one key in four is in the sample where an operation costs less than a microsecond.
const NEAR_SHIFT_MIN: u32 = 2;
/// [`Sampled::wanted`] of a client without miniatures: no key has these bits.
const NO_KEY: u16 = u16::MAX;

impl ForgeOptions {
    /// The rule of a pool whose clients choose none.
    fn fixed_rule(&self) -> QueueRule {
        let ghost_age_percent = if self.ghosts { self.ghost_age_percent } else { 0 };
        ruled(self.small_percent, self.promote_hits, ghost_age_percent)
    }
}

/// The test of a key's hash: whether the key is in the sample.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    mask: u16,
    wanted: u16,
}

/// One client's rule, and how it chooses it.
pub(super) struct Rules {
    rule: Cell<QueueRule>,
    sampled: Cell<Sampled>,
    /// `None` if the pool's rule has no miniature.
    choice: RefCell<Option<Choice>>,
    /// Mean of the objects that live in a group that leaves its queue, in sixteenths; zero before
    /// the first.
    live_objects: Cell<u64>,
}

impl Rules {
    /// The rule with which a client of a pool with these settings begins.
    pub(super) fn new(pool: &PoolSettings, forge: &ForgeSettings, is_near: bool) -> Self {
        let scale = Scale { objects: MINIATURE_OBJECTS, shift_min: if is_near { NEAR_SHIFT_MIN } else { 0 } };
        let objects_expected = match pool.objects_max {
            0 => pool.capacity_bytes / u64::from(forge.options.object_bytes_mean),
            objects_max => objects_max,
        };
        let fixed = forge.options.fixed_rule();
        let choice = match forge.options.rule {
            Rule::Chosen => Some(Choice::new(&RULES, scale, objects_expected)),
            Rule::Object => Some(Choice::new(&[fixed], scale, objects_expected)),
            Rule::Paper => None,
        };
        let rule = choice.as_ref().map_or(fixed, Choice::rule);
        let rules = Self {
            rule: Cell::new(rule),
            sampled: Cell::new(Sampled { mask: 0, wanted: NO_KEY }),
            choice: RefCell::new(choice),
            live_objects: Cell::default(),
        };
        rules.note_sample();
        rules
    }

    /// The rule that the client follows now.
    #[inline]
    pub(super) fn rule(&self) -> QueueRule {
        self.rule.get()
    }

    #[inline(always)]
    fn has(&self, hash: KeyHash) -> bool {
        let Sampled { mask, wanted } = self.sampled.get();
        hash.more & mask == wanted
    }

    /// Takes over the sample that the miniatures have now.
    fn note_sample(&self) {
        if let Some(choice) = &*self.choice.borrow() {
            let mask = (1_u32 << choice.sample().shift()) - 1;
            self.sampled.set(Sampled { mask: mask as u16, wanted: 0 });
        }
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// The number in [`RULES`] of the rule that this client follows. `None` if the pool's settings
    /// name the rule.
    pub fn chosen_rule(&self) -> Option<usize> {
        let is_chosen = self.shared.settings.options.rule == Rule::Chosen;
        self.rules.choice.borrow().as_ref().filter(|_| is_chosen).map(Choice::leader)
    }

    /// Tells the evictor of this process which rule this client follows.
    pub(super) fn announce_rule(&self) {
        if let Some(number) = self.chosen_rule() {
            self.shared.reserve.note_rule(number);
        }
    }

    /// Follows the rule of a writer of this process: an evictor has no requests of its own.
    pub(super) fn adopt_rule(&self) {
        let is_chosen = self.shared.settings.options.rule == Rule::Chosen;
        if let Some(rule) = self.shared.reserve.rule().filter(|_| is_chosen) {
            self.rules.rule.set(RULES[rule]);
        }
    }

    /// Objects that live in a group which leaves its queue, on the mean, in sixteenths. Zero before
    /// the first.
    pub(super) fn live_objects(&self) -> u64 {
        self.rules.live_objects.get()
    }

    /// Notes a read of a key. `is_hit`: the pool had it.
    #[inline(always)]
    pub(super) fn note_read(&self, hash: KeyHash, is_hit: bool) {
        if self.rules.has(hash) {
            self.note_sampled_read(hash, is_hit);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_sampled_read(&self, hash: KeyHash, is_hit: bool) {
        let mut choice = self.rules.choice.borrow_mut();
        let Some(choice) = &mut *choice else { return };
        let missed = choice.read(hash.identity(), is_hit);
        let reads = 1 << choice.sample().shift();
        for point in (0..CURVE.len()).filter(|point| missed.has(*point)) {
            self.stats.modelled_misses(point).add(reads);
        }
        self.rules.rule.set(choice.rule());
    }

    /// Notes that this client has written a key. `overwrites`: the pool had it.
    #[inline]
    pub(super) fn note_written(&self, hash: KeyHash, overwrites: bool) {
        if self.rules.has(hash)
            && let Some(choice) = &mut *self.rules.choice.borrow_mut()
        {
            choice.written(hash.identity(), overwrites);
        }
    }

    /// Notes a group that this client has taken from a queue to evict it. `cursors` were READ just
    /// before.
    pub(super) fn note_evicted_group(&self, cursors: [Cursors; 2], group: &LeavingGroup) {
        let live = 16 * group.live().count() as u64;
        let before = self.rules.live_objects.get();
        let mean = if before == 0 { live } else { (15 * before + live) / 16 };
        self.rules.live_objects.set(mean.max(1));
        self.note_share(cursors, mean);
    }

    /// Notes a group that was evicted for this client. `mean` objects live in a group, in
    /// sixteenths.
    pub(super) fn note_share(&self, cursors: [Cursors; 2], mean: u64) {
        {
            let Some(choice) = &mut *self.rules.choice.borrow_mut() else { return };
            let [small, main] = cursors;
            choice.evicted(u64::from(small.head) + u64::from(main.head));
            if self.client.pool.settings.objects_max == 0 {
                let groups = u64::from(small.len()) + u64::from(main.len());
                choice.resized((groups * mean / 16).max(1));
            }
        }
        self.rules.note_sample();
    }

    /// The share of the small queue that this client leaves there, in percent.
    pub(super) fn small_percent(&self) -> u64 {
        match self.shared.settings.options.rule {
            Rule::Paper => self.shared.settings.options.small_percent.into(),
            Rule::Object | Rule::Chosen => self.rules.rule().small_percent.into(),
        }
    }

    /// Whether the keys that are evicted from this queue leave ghosts.
    pub(super) fn leaves_ghosts(&self, queue: Queue) -> bool {
        self.shared.settings.options.ghosts && (queue == Queue::Small || self.rules.rule().main_ghosts)
    }
}
