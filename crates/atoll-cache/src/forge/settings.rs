//! What clients of a `forge` pool agree on, kept in the pool header's eight engine words.
//!
//! ```text
//! word 0   index buckets 32 | log2 of the ring length 8 | eviction window, groups 16
//! word 1   small queue, percent 8 | hits to promote 8 | frequency cap 8 | groups merged 8 | rule 8 | ghosts 8 | ghost age, percent 16
//! word 2   records of groups 32 | log2 of the samples kept 8         of the learned rule; else 0
//! ```

use crate::index::BUCKET_SLOTS;
use atoll_pool::{PoolError, PoolSettings};

/// The engine's number in the pool header.
pub const ENGINE_FORGE: u64 = 1;

/// Most buckets of an index: an entry of the two-way map has 34 bits for a slot's number.
pub const BUCKETS_MAX: u64 = 1 << 30;

/// Samples that a pool keeps to learn from: as many as it has groups, within these.
const SAMPLES_LOG2: std::ops::RangeInclusive<u32> = 6..=10;

/// How the objects of evicted groups are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Object by object: from the small queue an object with enough hits moves to a main group; in
    /// the main queue one that was hit stays, its frequency one less; what stays is regrouped.
    /// Default.
    Object = 0,
    /// As in the paper: eight groups at a time, the hottest objects merged into one group, groups
    /// mostly active put back whole, merged groups in virtual segments by their mean frequency.
    Paper = 1,
    /// As in GL-Cache: of sampled groups those go of which trees predict the least utility,
    /// whatever their place in a queue; what was asked for most in them is merged into one group
    /// (see [`glcache`](crate::glcache)).
    Learned = 2,
}

/// Choices of a `forge` pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeOptions {
    /// How evicted groups are judged.
    pub rule: Rule,
    /// The small queue's share of the groups, in percent.
    pub small_percent: u8,
    /// Accesses after which an object of the small queue is promoted ([`Rule::Object`]).
    pub promote_hits: u8,
    /// Accesses counted at most, for each process and group generation.
    pub frequency_max: u8,
    /// Groups that one eviction takes from a queue.
    pub merge_groups: u8,
    /// Whether evicted keys leave ghosts in the index, so that a returning key starts in the main
    /// queue.
    pub ghosts: bool,
    /// How long a ghost counts: evictions since, in percent of the groups in both queues.
    pub ghost_age_percent: u16,
    /// Expected bytes of an object (key, value and header), by which the index is sized.
    pub object_bytes_mean: u32,
}

impl Default for ForgeOptions {
    fn default() -> Self {
        Self {
            rule: Rule::Object,
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

    /// GLCache-DM, as FORGE's section 6.1 describes it: eight groups merged into one, with what
    /// FORGE's own techniques give it.
    pub fn glcache() -> Self {
        Self {
            rule: Rule::Learned,
            small_percent: 100,
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

    /// Settings for a pool of so many bytes, to which so many may be added: its index and rings are
    /// made for all of them.
    pub fn for_growth(&self, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings {
        // Half of the slots hold objects and the others their ghosts.
        let bytes_max = capacity_bytes.saturating_add(growth_bytes_max);
        let slots = bytes_max.saturating_mul(2) / u64::from(self.object_bytes_mean.max(48));
        self.settings(PoolSettings::for_capacity(capacity_bytes).growing(growth_bytes_max), slots)
    }

    /// Writes the choices into a pool's settings, for an index of `slots`.
    pub fn settings(&self, mut settings: PoolSettings, slots: u64) -> PoolSettings {
        let buckets = slots.div_ceil(BUCKET_SLOTS as u64).clamp(2, BUCKETS_MAX);
        let chunks = settings.capacity_bytes / u64::from(settings.chunk_bytes);
        let chunks_max = chunks + settings.growth_bytes_max / u64::from(settings.chunk_bytes);
        let ring_log2 =
            (4 * chunks_max + u64::from(settings.clients_max) + 64).next_power_of_two().trailing_zeros().min(29);
        let window = (chunks / 32).clamp(2, 16);
        settings.engine = ENGINE_FORGE;
        settings.engine_settings = [0; 8];
        settings.engine_settings[0] = buckets | u64::from(ring_log2) << 32 | window << 40;
        settings.engine_settings[1] = u64::from_le_bytes([
            self.small_percent,
            self.promote_hits,
            self.frequency_max,
            self.merge_groups,
            self.rule as u8,
            self.ghosts.into(),
            self.ghost_age_percent.to_le_bytes()[0],
            self.ghost_age_percent.to_le_bytes()[1],
        ]);
        if self.rule == Rule::Learned {
            // Metadata that is added later may make room for a few more chunks than the heap alone
            // has.
            let records = (chunks_max + chunks_max / 8 + 16).min(u32::MAX.into());
            let samples_log2 =
                chunks.next_power_of_two().trailing_zeros().clamp(*SAMPLES_LOG2.start(), *SAMPLES_LOG2.end());
            settings.engine_settings[2] = records | u64::from(samples_log2) << 32;
        }
        settings
    }
}

/// The choices of a pool, decoded and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeSettings {
    /// Buckets of the index, at least 2.
    pub buckets: u32,
    /// Log2 of a ring's nodes.
    pub ring_log2: u32,
    /// Groups of the eviction window.
    pub window: u32,
    /// Chunks whose groups have a record, from the first on ([`Rule::Learned`]; else 0).
    pub group_records: u32,
    /// Log2 of the samples that the pool keeps to learn from.
    pub samples_log2: u32,
    /// The rest.
    pub options: ForgeOptions,
}

impl ForgeSettings {
    /// What a pool's settings say.
    pub fn decode(settings: &PoolSettings) -> Result<Self, PoolError> {
        if settings.engine != ENGINE_FORGE {
            return Err(PoolError::Engine { found: settings.engine, wanted: ENGINE_FORGE });
        }
        let damaged = PoolError::Damaged { what: "the engine's settings" };
        let word = settings.engine_settings[0];
        let [small_percent, promote_hits, frequency_max, merge_groups, rule, ghosts, age_low, age_high] =
            settings.engine_settings[1].to_le_bytes();
        let rule = match rule {
            0 => Rule::Object,
            1 => Rule::Paper,
            2 if cfg!(feature = "glcache") => Rule::Learned,
            2 => {
                let wanted = "0 or 1: this build has no learned rule".to_owned();
                return Err(PoolError::Setting { what: "the rule of groups", found: 2, wanted });
            }
            _ => return Err(damaged),
        };
        let decoded = Self {
            buckets: word as u32,
            ring_log2: (word >> 32) as u32 & 0xff,
            window: (word >> 40) as u32 & 0xffff,
            group_records: settings.engine_settings[2] as u32,
            samples_log2: (settings.engine_settings[2] >> 32) as u32,
            options: ForgeOptions {
                rule,
                small_percent,
                promote_hits,
                frequency_max,
                merge_groups,
                ghosts: ghosts != 0,
                ghost_age_percent: u16::from_le_bytes([age_low, age_high]),
                ..ForgeOptions::default()
            },
        };
        let possible = (2..=BUCKETS_MAX).contains(&u64::from(decoded.buckets))
            && (3..=31).contains(&decoded.ring_log2)
            && (1..=1024).contains(&decoded.window)
            && small_percent <= 100
            && (1..=15).contains(&frequency_max)
            && (1..=16).contains(&merge_groups)
            && match rule {
                Rule::Learned => decoded.group_records > 0 && SAMPLES_LOG2.contains(&decoded.samples_log2),
                Rule::Object | Rule::Paper => settings.engine_settings[2] == 0,
            };
        if possible { Ok(decoded) } else { Err(damaged) }
    }
}
