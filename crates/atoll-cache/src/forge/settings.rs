//! What clients of a `forge` pool agree on, kept in the pool header's eight engine words.
//!
//! ```text
//! word 0   buckets of the new index 32 | log2 of the ring length 8 | eviction window, groups 16
//!          | rounds in which the index may grow 8
//! word 1   small queue, percent 8 | hits to promote 8 | frequency cap 8 | groups merged 8
//!          | rule 8 | ghosts 8 | ghost age, percent 16
//! word 2   of the annex of another form of the engine; else 0
//! ```

use super::annex::Annex;
use crate::choices::{Described, EngineChoices, EngineIdentity, EngineOption, PoolSize};
use crate::index::directory::ROUNDS_MAX;
use crate::index::{BUCKET_SLOTS, SLOTS_BYTES};
use crate::record::OVERHEAD_BYTES;
use atoll_pool::{Fields, PoolError, PoolSettings};

/// The engine's number in the pool header.
pub const ENGINE_FORGE: u64 = 1;

const WORD_0: Fields<4> = Fields::new([32, 8, 16, 8]);
const WORD_1: Fields<7> = Fields::new([8, 8, 8, 8, 8, 8, 16]);

/// Most buckets of an index: an entry of the two-way map has 34 bits for a slot's number.
pub const BUCKETS_MAX: u64 = 1 << 30;

/// Rounds after which a growing index has the size for objects of the expected bytes. An index that
/// cannot grow is made as large at once.
const ROUNDS_EXPECTED: u32 = 2;
/// One chunk in so many may become part of the index.
const CHUNKS_PER_INDEX_CHUNK: u64 = 4;

/// Bytes of the smallest object in a group, with its entry of the map. Groups of such objects fill
/// their chunks.
const GROUP_OBJECT_BYTES_MIN: u32 = 40;

/// How the objects of evicted groups are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each object by itself. From the small queue an object with enough hits moves to a main
    /// group. In the main queue an object that was hit stays, and its frequency becomes one less.
    /// Objects that stay are regrouped.
    Object = 0,
    /// As in the paper: eight groups at a time. The hottest objects are merged into one group.
    /// Groups that are mostly active are put back whole. Merged groups have virtual segments by
    /// their mean frequency.
    Paper = 1,
    /// As [`Self::Object`]. By its own requests, each client chooses the length of the small queue,
    /// the age of ghosts and the rest among [`RULES`](super::rules::RULES). Default.
    Chosen = 2,
}

/// Choices of a `forge` pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeOptions {
    /// How evicted groups are judged.
    pub rule: Rule,
    /// The small queue's share of the groups, in percent (not [`Rule::Chosen`]).
    pub small_percent: u8,
    /// Accesses after which an object of the small queue is promoted ([`Rule::Object`]).
    pub promote_hits: u8,
    /// The most accesses counted, for each process and group generation.
    pub frequency_max: u8,
    /// Groups that one eviction takes from a queue.
    pub merge_groups: u8,
    /// Whether evicted keys leave ghosts in the index, so that a returning key starts in the main
    /// queue.
    pub ghosts: bool,
    /// How long a ghost counts: the evictions since, in percent of the groups in both queues
    /// ([`Rule::Object`]).
    pub ghost_age_percent: u16,
    /// Expected bytes of an object (key, value and header). The new index is sized by it. If
    /// objects are smaller, the index grows.
    pub object_bytes_mean: u32,
}

impl Default for ForgeOptions {
    fn default() -> Self {
        Self {
            rule: Rule::Chosen,
            small_percent: 10,
            promote_hits: 2,
            frequency_max: 3,
            merge_groups: 1,
            ghosts: true,
            ghost_age_percent: 200,
            object_bytes_mean: 320,
        }
    }
}

impl ForgeOptions {
    /// One rule for all loads: the clients choose none.
    pub fn fixed() -> Self {
        Self { rule: Rule::Object, ..Self::default() }
    }

    /// The paper's configuration, without our improvements.
    pub fn paper() -> Self {
        Self {
            rule: Rule::Paper,
            small_percent: 20,
            frequency_max: 15,
            merge_groups: 8,
            ghosts: false,
            ..Self::default()
        }
    }

    /// Settings for a pool of so many bytes.
    pub fn for_capacity(&self, capacity_bytes: u64) -> PoolSettings {
        self.for_growth(capacity_bytes, 0)
    }

    /// Settings for a pool of `capacity_bytes` that may grow by more bytes. Its index and rings are
    /// made for all of them.
    pub fn for_growth(&self, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings {
        // Half of the slots hold objects and the other half their ghosts.
        let bytes_max = capacity_bytes.saturating_add(growth_bytes_max);
        let slots = bytes_max.saturating_mul(2) / u64::from(self.object_bytes_mean.max(48));
        let mut settings = PoolSettings::for_capacity(capacity_bytes).growing(growth_bytes_max);
        settings.group_objects_max = settings.chunk_bytes / GROUP_OBJECT_BYTES_MIN;
        self.growing(settings, slots)
    }

    /// Writes the choices into a pool's settings, for an index of about `slots` that grows with
    /// what is stored. It begins with a quarter of the slots. In a pool that is made with several
    /// memory nodes it keeps its size.
    pub fn growing(&self, settings: PoolSettings, slots: u64) -> PoolSettings {
        let first = (slots.div_ceil(BUCKET_SLOTS as u64) >> ROUNDS_EXPECTED).clamp(2, BUCKETS_MAX >> ROUNDS_EXPECTED);
        let chunks = settings.capacity_bytes / u64::from(settings.chunk_bytes) / CHUNKS_PER_INDEX_CHUNK;
        let added_max = chunks * (u64::from(settings.chunk_bytes) / SLOTS_BYTES);
        let is_possible = |rounds: &u32| first << rounds <= BUCKETS_MAX && (first << rounds) - first <= added_max;
        match (ROUNDS_EXPECTED..=ROUNDS_MAX).rfind(is_possible) {
            Some(rounds) => self.with_index(settings, first, rounds),
            None => self.settings(settings, slots),
        }
    }

    /// Writes the choices into a pool's settings, for an index of `slots` that keeps its size.
    pub fn settings(&self, settings: PoolSettings, slots: u64) -> PoolSettings {
        self.with_index(settings, slots.div_ceil(BUCKET_SLOTS as u64).clamp(2, BUCKETS_MAX), 0)
    }

    fn with_index(&self, settings: PoolSettings, buckets: u64, rounds: u32) -> PoolSettings {
        let chunks = settings.capacity_bytes / u64::from(settings.chunk_bytes);
        let chunks_max = chunks + settings.growth_bytes_max / u64::from(settings.chunk_bytes);
        let ring_log2 =
            (4 * chunks_max + u64::from(settings.clients_max) + 64).next_power_of_two().trailing_zeros().min(29);
        let window = (chunks / 32).clamp(2, 16);
        let judging = WORD_1.pack([
            self.small_percent.into(),
            self.promote_hits.into(),
            self.frequency_max.into(),
            self.merge_groups.into(),
            self.rule as u64,
            self.ghosts.into(),
            self.ghost_age_percent.into(),
        ]);
        settings.with_engine(ENGINE_FORGE, [WORD_0.pack([buckets, ring_log2.into(), window, rounds.into()]), judging])
    }
}

/// The choices of a pool, decoded and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeSettings {
    /// Buckets of the new index, at least 2.
    pub buckets: u32,
    /// Rounds in which the index may grow: each doubles it.
    pub index_rounds: u32,
    /// Log2 of a ring's nodes.
    pub ring_log2: u32,
    /// Groups of the eviction window.
    pub window: u32,
    /// The rest.
    pub options: ForgeOptions,
}

impl ForgeSettings {
    /// Decodes a pool's settings.
    pub fn decode(settings: &PoolSettings) -> Result<Self, PoolError> {
        Self::decode_with::<()>(settings)
    }

    /// As [`Self::decode`], for a form with this annex, whose own settings are checked too.
    pub fn decode_with<A: Annex>(settings: &PoolSettings) -> Result<Self, PoolError> {
        let [index, judging, ..] = settings.engine_words(A::ENGINE)?;
        let [buckets, ring_log2, window, index_rounds] = WORD_0.unpack(index).map(|field| field as u32);
        let is_possible = buckets >= 2
            && index_rounds <= ROUNDS_MAX
            && u64::from(buckets) << index_rounds.max(if index_rounds > 0 { ROUNDS_EXPECTED } else { 0 })
                <= BUCKETS_MAX;
        if !is_possible {
            return Err(PoolError::ENGINE_SETTINGS);
        }
        // Chunks of the index are on the home, so that no bucket is lost without the pool. Other
        // forms of the engine know where a bucket is by its key alone.
        let may_grow = settings.nodes == 1 && A::ENGINE == ENGINE_FORGE;
        let (buckets, index_rounds) = match index_rounds > 0 && !may_grow {
            true => (buckets << ROUNDS_EXPECTED, 0),
            false => (buckets, index_rounds),
        };
        let [small_percent, promote_hits, frequency_max, merge_groups, rule, ghosts, ghost_age_percent] =
            WORD_1.unpack(judging);
        let [small_percent, promote_hits, frequency_max, merge_groups] =
            [small_percent, promote_hits, frequency_max, merge_groups].map(|field| field as u8);
        let rule = match rule {
            0 => Rule::Object,
            1 => Rule::Paper,
            2 => Rule::Chosen,
            _ => return Err(PoolError::ENGINE_SETTINGS),
        };
        let decoded = Self {
            buckets,
            index_rounds,
            ring_log2,
            window,
            options: ForgeOptions {
                rule,
                small_percent,
                promote_hits,
                frequency_max,
                merge_groups,
                ghosts: ghosts != 0,
                ghost_age_percent: ghost_age_percent as u16,
                ..ForgeOptions::default()
            },
        };
        let possible = (3..=31).contains(&decoded.ring_log2)
            && (1..=1024).contains(&decoded.window)
            && small_percent <= 100
            && (1..=15).contains(&frequency_max)
            && (1..=16).contains(&merge_groups);
        if !possible {
            return Err(PoolError::ENGINE_SETTINGS);
        }
        A::area_bytes(settings)?;
        Ok(decoded)
    }
}

/// Choices with a name of their own.
type Named = (&'static str, fn() -> ForgeOptions);

/// The choices that have a name of their own.
const NAMED: [Named; 3] = [
    (FORMS[0].name, ForgeOptions::default),
    (FORMS[1].name, ForgeOptions::fixed),
    (FORMS[2].name, ForgeOptions::paper),
];
const FORMS: [Described; 3] = [
    Described {
        name: "forge",
        what: "Groups of objects in two queues, with ghosts; each client chooses the rule that fits its requests",
    },
    Described { name: "forge-fixed", what: "The same with one rule for all loads" },
    Described {
        name: "forge-paper",
        what: "FORGE as in the paper: eight groups merged into one, virtual segments, no ghosts",
    },
];
const SMALL_PERCENT: &str = "small-percent";
const NO_GHOSTS: &str = "no-ghosts";
const OPTIONS: [EngineOption; 2] = [
    EngineOption {
        described: Described {
            name: SMALL_PERCENT,
            what: "The small queue's share of the pool, in percent (forge: each client chooses; \
                   forge-fixed: 10; forge-paper: 20)",
        },
        value: Some("PERCENT"),
    },
    EngineOption {
        described: Described { name: NO_GHOSTS, what: "Keep no ghosts of evicted keys in the index of forge" },
        value: None,
    },
];

impl EngineChoices for ForgeOptions {
    const ENGINE: EngineIdentity =
        EngineIdentity { name: FORMS[0].name, forms: &FORMS, options: &OPTIONS, number: ENGINE_FORGE };

    fn named(name: &str) -> Option<Result<Self, String>> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, options)| Ok(options()))
    }

    fn name(&self) -> String {
        let found = NAMED.iter().find(|(_, known)| known() == *self);
        found.map_or(Self::ENGINE.name, |(name, _)| name).to_owned()
    }

    fn choose(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            SMALL_PERCENT => {
                let percent = value.parse().ok().filter(|percent| *percent <= 100);
                self.small_percent = percent.ok_or_else(|| format!("{value:?} is not a number from 0 to 100"))?;
            }
            NO_GHOSTS => self.ghosts = false,
            _ => return Err(format!("{} has no option {option}", Self::ENGINE.name)),
        }
        // Clients that choose their rule would choose this too.
        if self.rule == Rule::Chosen {
            self.rule = Rule::Object;
        }
        Ok(())
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        let mut options = self.clone();
        if let Some(bytes) = size.body_bytes_mean {
            options.object_bytes_mean = bytes.saturating_add(OVERHEAD_BYTES);
        }
        options.for_growth(size.capacity_bytes, size.growth_bytes_max)
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.for_objects(objects_max, clients_max, record_bytes)
    }
}
