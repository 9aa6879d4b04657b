//! The engines on the table of objects under test: `ditto`, `kvs`, and the queues.

use crate::endpoint::CaseEndpoint;
use crate::engine::Simulated;
use crate::subject::Subject;
use atoll_baselines::kvs::{self, Kvs, KvsKind, KvsOptions};
use atoll_baselines::queues::{QueueOptions, QueuePolicy, Queued, QueuesKind};
use atoll_cache::ditto::{Ditto, DittoKind, DittoOptions};
use atoll_cache::engines::EngineChoices;
use atoll_cache::table::{self, TableOptions};
use atoll_pool::PoolSettings;
use atoll_sim::Random;

/// The engine `ditto`.
#[derive(Clone, Debug, Default)]
pub struct DittoSubject {
    /// Its options.
    pub options: DittoOptions,
}

impl Simulated for DittoKind {
    type Subject = DittoSubject;
}

impl Subject for DittoSubject {
    const NAME: &'static str = DittoOptions::ENGINE.name;
    type Hole = table::Hole;
    type Engine = Ditto<CaseEndpoint>;

    fn drawn(random: &mut Random, paper: bool) -> Self {
        let experts = random.pick(&[
            "lru",
            "lru+lfu",
            "lru-k+fifo",
            "gds+lirs+lfu",
            "quick-demotion+quick-demotion-strict+hyperbolic-idle+lfu",
        ]);
        let experts = experts.parse().expect("all of them are policies");
        let mut options = if paper { DittoOptions::paper(experts) } else { DittoOptions::adaptive(experts) };
        if !paper {
            options.counters = random.pick(&[0, 2, 8]);
            options.tag_bits = random.pick(&[3, 4, 14]);
            options.learning.batch = random.pick(&[1, 3]);
        }
        Self { options }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.options.objects().settings(base, slots)
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}

/// The engine `kvs`: the table alone, which evicts at random.
#[derive(Clone, Debug, Default)]
pub struct KvsSubject;

impl Simulated for KvsKind {
    type Subject = KvsSubject;
}

impl Subject for KvsSubject {
    const NAME: &'static str = KvsOptions::ENGINE.name;
    type Hole = table::Hole;
    type Engine = Kvs<CaseEndpoint>;

    fn drawn(_random: &mut Random, _paper: bool) -> Self {
        Self
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        kvs::options().settings(base, slots)
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}

/// The engines with queues in the pool: `shard-lru`, `lru-dm`, `sieve-dm`, `s3fifo-dm`.
#[derive(Clone, Debug)]
pub struct QueuesSubject {
    /// The policy and its lists.
    pub options: QueueOptions,
    /// Bits of a block's tag.
    pub tag_bits: u32,
}

impl Default for QueuesSubject {
    fn default() -> Self {
        Self { options: QueueOptions::default(), tag_bits: 14 }
    }
}

impl Simulated for QueuesKind {
    type Subject = QueuesSubject;
}

impl Subject for QueuesSubject {
    const NAME: &'static str = QueueOptions::ENGINE.name;
    type Hole = table::Hole;
    type Engine = Queued<CaseEndpoint>;

    fn drawn(random: &mut Random, _paper: bool) -> Self {
        let options = QueueOptions::new(random.pick(&QueuePolicy::ALL));
        let lists = random.pick(&[1, 2, options.lists]);
        Self { options: QueueOptions { lists, ..options }, tag_bits: random.pick(&[4, 14]) }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        TableOptions { tag_bits: self.tag_bits, ..self.options.objects() }.settings(base, slots)
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}
