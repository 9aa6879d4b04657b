//! The engines that a point can run on: all whose cache lives in a pool. The pool's settings say
//! which one.

use crate::LabError;
use atoll_baselines::cliquemap::{CliqueMap, ENGINE_CLIQUEMAP};
use atoll_baselines::engines;
use atoll_cache::Pooled;
use atoll_cache::engines::{EngineKind, KindVisitor};
use atoll_pool::{PoolError, PoolSettings};
use atoll_sim::SimEndpoint;

/// An engine on the simulated network.
pub(crate) trait Subject: Pooled<SimEndpoint> + 'static {}

impl<G: Pooled<SimEndpoint> + 'static> Subject for G {}

/// Something to do with the engine of a point.
pub(crate) trait Work {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<G: Subject>(self) -> Result<Self::Output, LabError>;
}

/// Does `work` with the engine that the settings of a pool name.
pub(crate) fn on_system<W: Work>(pool: &PoolSettings, work: W) -> Result<W::Output, LabError> {
    struct Numbered<W> {
        number: u64,
        work: Option<W>,
    }
    impl<W: Work> KindVisitor for Numbered<W> {
        type Output = Result<W::Output, LabError>;

        fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output> {
            let is_it = K::NUMBER == self.number;
            self.work.take_if(|_| is_it).map(|work| work.run::<K::Client<SimEndpoint>>())
        }
    }
    let found = pool.engine;
    // Its clients need messages, which not every fabric has yet, so it is in no list of engines.
    if found == ENGINE_CLIQUEMAP {
        return work.run::<CliqueMap<SimEndpoint>>();
    }
    engines::visit(&mut Numbered { number: found, work: Some(work) })
        .unwrap_or_else(|| Err(PoolError::UnknownEngine { found }.into()))
}
