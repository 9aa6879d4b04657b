//! The engines that a point can run on: all whose cache lives in a pool. The pool's settings say
//! which one, and the setup's tuning whether it is an ablation.

use super::setup::Setup;
use atoll_baselines::cliquemap::{CliqueMap, ENGINE_CLIQUEMAP};
use atoll_baselines::ditto_ablations::AblatedDitto;
use atoll_baselines::engines;
use atoll_baselines::forge_ablations::AblatedForge;
use atoll_cache::ditto::ENGINE_DITTO;
use atoll_cache::engines::{EngineChoices, EngineKind, KindVisitor};
use atoll_cache::forge::ENGINE_FORGE;
use atoll_cache::{Copied, Lasting, Near, NearCache, Pooled};
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::Endpoint;
use atoll_lab::LabError;
use atoll_pool::PoolError;
use std::any::Any;
use std::sync::Arc;

/// An engine on the simulated network. Its endpoint is that of the simulated cases, although no
/// client of a point stops: so an engine is compiled once for both.
#[allow(async_fn_in_trait)]
pub(crate) trait Subject: Pooled<CaseEndpoint> + 'static {
    /// The engine itself, for the setup's tuning.
    fn own(&mut self) -> &mut dyn Any;

    /// The same, to look at.
    fn itself(&self) -> &dyn Any;

    /// Its client uses the near cache of its compute node.
    ///
    /// # Errors
    /// If no copies of its objects can be kept.
    fn attach(&mut self, cache: Arc<NearCache>) -> Result<(), LabError> {
        let _ = cache;
        Err(LabError::Options("only the engines that are served can have near caches".to_owned()))
    }

    /// Its client awaits each request's end.
    fn set_awaited(&mut self) {}

    /// What its client does beside its requests goes on until it has ended: the client will ask
    /// for nothing for a while.
    async fn rest(&self) {}

    /// Its client asks for nothing for so long.
    async fn pause(&self, ns: u64) {
        self.client().endpoint.pause(ns).await;
    }
}

/// An engine that makes room beside its client's requests.
impl<G: Subject> Subject for Lasting<G> {
    fn own(&mut self) -> &mut dyn Any {
        self.engine_mut().own()
    }

    fn itself(&self) -> &dyn Any {
        (**self).itself()
    }

    fn attach(&mut self, cache: Arc<NearCache>) -> Result<(), LabError> {
        self.engine_mut().attach(cache)
    }

    fn set_awaited(&mut self) {
        Lasting::set_awaited(self);
    }

    async fn rest(&self) {
        self.finish().await;
    }

    async fn pause(&self, ns: u64) {
        self.beside(self.client().endpoint.pause(ns)).await;
    }
}

/// The engines of the list.
impl<G: Pooled<CaseEndpoint> + Copied<Endpoint = CaseEndpoint> + 'static> Subject for Near<G> {
    fn own(&mut self) -> &mut dyn Any {
        self.engine_mut()
    }

    fn itself(&self) -> &dyn Any {
        self.engine()
    }

    fn attach(&mut self, cache: Arc<NearCache>) -> Result<(), LabError> {
        Near::attach(self, cache);
        Ok(())
    }
}

impl Subject for CliqueMap<CaseEndpoint> {
    fn own(&mut self) -> &mut dyn Any {
        self
    }

    fn itself(&self) -> &dyn Any {
        self
    }
}

impl Subject for AblatedForge<CaseEndpoint> {
    fn own(&mut self) -> &mut dyn Any {
        self
    }

    fn itself(&self) -> &dyn Any {
        self
    }
}

impl Subject for AblatedDitto<CaseEndpoint> {
    fn own(&mut self) -> &mut dyn Any {
        self
    }

    fn itself(&self) -> &dyn Any {
        self
    }
}

/// Something to do with the engine of a point.
pub(crate) trait Work {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<G: Subject>(self) -> Result<Self::Output, LabError>;
}

/// Does `work` with the engine of a setup.
pub(crate) fn on_system<W: Work>(setup: &Setup, work: W) -> Result<W::Output, LabError> {
    struct Numbered<W> {
        number: u64,
        work: Option<W>,
    }
    impl<W: Work> KindVisitor for Numbered<W> {
        type Output = Result<W::Output, LabError>;

        fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output> {
            let is_it = K::Options::ENGINE.number == self.number;
            self.work.take_if(|_| is_it).map(|work| work.run::<Lasting<Near<K::Client<CaseEndpoint>>>>())
        }
    }
    let found = setup.pool.engine;
    if setup.tuning.as_ref().is_some_and(|tuning| tuning.is_ablated()) {
        return match found {
            ENGINE_FORGE => work.run::<Lasting<AblatedForge<CaseEndpoint>>>(),
            ENGINE_DITTO => work.run::<AblatedDitto<CaseEndpoint>>(),
            _ => Err(PoolError::UnknownEngine { found }.into()),
        };
    }
    // Its clients need messages, which not every fabric has yet, so it is in no list of engines.
    if found == ENGINE_CLIQUEMAP {
        return work.run::<CliqueMap<CaseEndpoint>>();
    }
    engines::visit(&mut Numbered { number: found, work: Some(work) })
        .unwrap_or_else(|| Err(PoolError::UnknownEngine { found }.into()))
}
