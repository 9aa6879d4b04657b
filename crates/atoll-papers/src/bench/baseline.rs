//! The systems that FORGE is compared with.
//!
//! - **Ditto** has the experts and parameters of its own paper, and the history of 1024 entries
//!   that FORGE's section 6.1 gives it. It samples a bucket of sixteen slots, about half of which
//!   hold objects. The paper's samples have five objects.
//! - **S3FIFO-DM** is the engine `s3fifo-dm`: see [`queues`](atoll_baselines::queues). Its small
//!   queue has a tenth of the objects, and it counts to three, as FORGE's section 6.1 has it.
//! - **GLCache-DM** is a rule of FORGE's own groups: see [`glcache`](atoll_baselines::glcache).
//!
//! All caches have the same memory, metadata included. Ditto and S3FIFO-DM have more metadata: 48
//! to 96 bytes a slot, and two slots an object.

use super::setup::Setup;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::ditto::{DittoOptions, History};

/// Entries of Ditto's history (FORGE 6.1).
const HISTORY_OBJECTS: u32 = 1024;

/// A system that FORGE is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Baseline {
    /// Ditto with the parameters that FORGE's paper gives it.
    Ditto,
    /// S3-FIFO on queues in the pool.
    #[value(name = "s3fifo-dm")]
    S3Fifo,
    /// GLCache on FORGE's groups.
    #[value(name = "glcache-dm")]
    Glcache,
}

impl Baseline {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 3] = [Self::Ditto, Self::S3Fifo, Self::Glcache];

    /// What its lines are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ditto => "ditto",
            Self::S3Fifo => "s3fifo-dm",
            Self::Glcache => "glcache-dm",
        }
    }

    /// What its figures are called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ditto => "Ditto",
            Self::S3Fifo => "S3FIFO-DM",
            Self::Glcache => "GLCache-DM",
        }
    }

    /// The same point on it, in a cache of the same bytes on as many nodes.
    pub fn put(self, setup: &Setup) -> Setup {
        let (bytes, nodes, setup) = (setup.pool.capacity_bytes, setup.pool.nodes, setup.clone());
        let one = match self {
            Self::Ditto => setup.on_ditto(&ditto(), bytes),
            Self::S3Fifo => setup.on_queues(QueueOptions::new(QueuePolicy::S3Fifo), bytes),
            Self::Glcache => setup.on_glcache(bytes),
        };
        one.spread(nodes)
    }
}

/// Ditto as FORGE's section 6.1 has it.
fn ditto() -> DittoOptions {
    let experts = "lru+lfu".parse().expect("both are policies");
    DittoOptions { history: History::Objects(HISTORY_OBJECTS), ..DittoOptions::paper(experts) }
}
