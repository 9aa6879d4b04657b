//! The engines that a user names, each with the choices of its paper.

use super::setup::Setup;
use atoll_baselines::cliquemap::Policy;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::ditto::DittoOptions;
use clap::ValueEnum;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum System {
    /// Atoll's default engine
    Forge,
    /// FORGE as in its paper
    ForgePaper,
    /// Ditto with Atoll's default experts
    Ditto,
    /// Ditto as in its paper, with LRU and LFU
    DittoPaper,
    /// S3-FIFO on queues in the pool
    #[value(name = "s3fifo-dm")]
    S3Fifo,
    /// SIEVE on a queue in the pool
    SieveDm,
    /// LRU lists in the pool, with batches
    LruDm,
    /// LRU lists in the pool, as in Ditto's baseline
    ShardLru,
    /// GLCache on groups
    GlcacheDm,
    /// CliqueMap with LRU at the memory node's processor, one core
    CliquemapLru,
    /// CliqueMap with LFU
    CliquemapLfu,
}

impl System {
    /// What it is called.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The same point, which is on FORGE, on this engine in a cache of the same bytes; groups of
    /// FORGE have at most this many objects.
    pub fn put(self, base: Setup, group_objects: u32) -> Setup {
        let bytes = base.pool.capacity_bytes;
        let queues = |base: Setup, policy| base.on_queues(QueueOptions::new(policy), bytes);
        match self {
            Self::Forge => base.with_groups(group_objects, bytes),
            Self::ForgePaper => base.on_forge_paper(bytes).with_groups(group_objects, bytes),
            Self::Ditto => base.on_ditto(&DittoOptions::default(), bytes),
            Self::DittoPaper => {
                let experts = "lru+lfu".parse().expect("both are policies");
                base.on_ditto(&DittoOptions::paper(experts), bytes)
            }
            Self::S3Fifo => queues(base, QueuePolicy::S3Fifo),
            Self::SieveDm => queues(base, QueuePolicy::Sieve),
            Self::LruDm => queues(base, QueuePolicy::Lru),
            Self::ShardLru => queues(base, QueuePolicy::ShardLru),
            Self::GlcacheDm => base.on_glcache(bytes),
            Self::CliquemapLru => base.on_cliquemap(Policy::Lru, bytes),
            Self::CliquemapLfu => base.on_cliquemap(Policy::Lfu, bytes),
        }
    }
}
