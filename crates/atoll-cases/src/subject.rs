//! The engine under test: what a case needs to know of it.

use crate::endpoint::CaseEndpoint;
use atoll_cache::Pooled;
use atoll_fabric::RegionAttributes;
use atoll_pool::PoolSettings;
use atoll_sim::{Random, Sim};
use std::fmt::Debug;
use std::rc::Weak;
use std::sync::Arc;

/// Spawns the server that a memory node of this engine needs. The server ends when no client holds
/// the other end of the `Weak`. Called once a run; runs follow each other.
pub type ServerSpawner = Box<dyn Fn(&Sim, Weak<()>)>;

/// An engine under test, and its options in a case.
pub trait Subject: Clone + Debug + Default + 'static {
    /// The engine's name for users.
    const NAME: &'static str;
    /// The holes that can be opened in it.
    type Hole: Copy + Debug + 'static;
    /// One client of the engine.
    type Engine: Pooled<CaseEndpoint> + 'static;
    /// Sizes of chunks that a drawn case has.
    const CHUNK_BYTES: [u32; 3] = [512, 1024, 2048];
    /// Whether its pools can have several memory nodes, and grow.
    const SPREADS: bool = true;
    /// Whether its clients count every eviction. Where a memory node evicts, they do not.
    const CLIENTS_EVICT: bool = true;
    /// Whether nothing of a client takes effect once it is shut out. Messages outlive that.
    const ENDS_WITH_FENCE: bool = true;
    /// Whether the rounds of living clients reclaim all that dead clients held.
    const SETTLES_DOWN: bool = true;

    /// Draws options from a stream; `paper` asks for the options of the engine's paper.
    fn drawn(random: &mut Random, paper: bool) -> Self;

    /// The settings of a pool for an index of this many slots.
    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings;

    /// A region of the home node beside the pool, if the engine wants one.
    fn further_region(&self, settings: &PoolSettings) -> Result<Option<RegionAttributes>, String> {
        let _ = settings;
        Ok(None)
    }

    /// Changes the new pool before the first client joins.
    fn prepare_pool(&self, sim: &Sim, shared: &Arc<Shared<Self>>) {
        let _ = (sim, shared);
    }

    /// Spawns the server that the memory node needs while clients run.
    fn server_spawner(&self, shared: &Arc<Shared<Self>>) -> Option<ServerSpawner> {
        let _ = shared;
        None
    }

    /// The same with clients that cache no addresses from operation to operation.
    fn without_address_cache(self) -> Self {
        self
    }

    /// Whether its clients cache no addresses. Only then may the memory of retired chunks be given
    /// back to the host.
    fn caches_no_addresses(&self) -> bool {
        true
    }

    /// Configures a client, and opens a hole. Holes need the feature `holes`.
    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>);
}

/// A subject's pool, as the process that made it has it open.
pub type Shared<S> = <<S as Subject>::Engine as Pooled<CaseEndpoint>>::Shared;
