//! An engine under the near caches of its clients' processes.

use crate::compiled::Compiled;
use crate::endpoint::CaseEndpoint;
use crate::subject::{ServerSpawner, Shared, Subject};
use crate::subjects::{DittoSubject, ForgeSubject};
use atoll_cache::{Copied, Near, NearCache};
use atoll_fabric::RegionAttributes;
use atoll_pool::PoolSettings;
use atoll_pool::sharers::Hole;
use atoll_sim::{Random, Sim};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a near cache: so few that copies are evicted.
const BYTES: u64 = 1 << 16;

/// An engine whose clients have near caches. They make copies of all that they look up.
#[derive(Clone, Debug)]
pub struct NearSubject<S> {
    /// The engine.
    pub engine: S,
    /// Clients of one process.
    pub process_clients: usize,
    /// A guard that is switched off.
    pub hole: Option<Hole>,
    /// Of the present pool: the near caches by their processes, and how many clients have joined.
    caches: Rc<RefCell<(Vec<Arc<NearCache>>, usize)>>,
}

impl<S: Default> Default for NearSubject<S> {
    fn default() -> Self {
        Self { engine: S::default(), process_clients: 1, hole: None, caches: Rc::default() }
    }
}

/// An engine of which copies can be kept.
pub trait CopiedSubject: Subject<Engine: Copied<Endpoint = CaseEndpoint>> {
    /// Its name with near caches.
    const NEAR_NAME: &'static str;
}

impl CopiedSubject for ForgeSubject {
    const NEAR_NAME: &'static str = "forge, near";
}

impl CopiedSubject for DittoSubject {
    const NEAR_NAME: &'static str = "ditto, near";
}

impl<S: CopiedSubject> Subject for NearSubject<S> {
    const NAME: &'static str = S::NEAR_NAME;
    type Hole = S::Hole;
    type Engine = Near<Compiled<S::Engine>>;
    const CHUNK_BYTES: [u32; 3] = S::CHUNK_BYTES;
    const SPREADS: bool = S::SPREADS;
    const CLIENTS_EVICT: bool = S::CLIENTS_EVICT;
    const ENDS_WITH_FENCE: bool = S::ENDS_WITH_FENCE;
    const SETTLES_DOWN: bool = S::SETTLES_DOWN;

    fn drawn(random: &mut Random, paper: bool) -> Self {
        let engine = S::drawn(random, paper);
        Self { engine, process_clients: random.pick(&[1, 1, 2]), ..Self::default() }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.engine.settings(base, slots)
    }

    fn further_region(&self, settings: &PoolSettings) -> Result<Option<RegionAttributes>, String> {
        self.engine.further_region(settings)
    }

    fn prepare_pool(&self, sim: &Sim, shared: &Arc<Shared<Self>>) {
        self.caches.take();
        self.engine.prepare_pool(sim, shared);
    }

    fn server_spawner(&self, shared: &Arc<Shared<Self>>) -> Option<ServerSpawner> {
        self.engine.server_spawner(shared)
    }

    fn without_address_cache(self) -> Self {
        Self { engine: self.engine.without_address_cache(), ..self }
    }

    fn caches_no_addresses(&self) -> bool {
        self.engine.caches_no_addresses()
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        self.engine.configure(engine.engine_mut(), hole);
        #[cfg(feature = "holes")]
        engine.pool_client().pool.layout.open_hole_of_sharers(self.hole);
        let (caches, joined) = &mut *self.caches.borrow_mut();
        if joined.is_multiple_of(self.process_clients) {
            caches.push(Arc::new(NearCache::of_process(BYTES).expect("enough bytes").eager()));
        }
        *joined += 1;
        engine.attach(caches.last().expect("the first of each process makes one").clone());
    }
}
