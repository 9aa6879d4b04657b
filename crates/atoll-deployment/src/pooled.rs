//! An engine in a pool, by its descriptor.

use crate::DeploymentError;
use crate::ahead::EvictedAhead;
use crate::client::Client;
use crate::memory::PoolMemory;
use crate::name::EngineName;
use crate::plan::{AuditSummary, Bound, Deployment, Made, Plan, PoolClock};
use atoll_cache::engines::{EngineChoices, PoolSize};
use atoll_cache::{Cache, CacheError, Engine as _, EngineKind, EnginePool, Pooled};
use atoll_fabric::{Batch, Clock, Endpoint, block_on, block_on_with};
use atoll_pool::registry::Incarnation;
use atoll_pool::repair::repair_watching;
use atoll_pool::{PlaceState, PoolSettings, Repaired, registry};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// Seed of the keys' hash.
const SEED: u64 = 0x0a70_1100;
/// What a record has besides key and value.
const HEADER_BYTES: u32 = 32;

/// The settings of a plan's pool, but for the seed of the hash.
fn settings<K: EngineKind>(plan: &Plan) -> Result<PoolSettings, DeploymentError> {
    let named = match &plan.engine {
        EngineName::Pooled(name) => name.options::<K>(),
        EngineName::Reference(_) | EngineName::Sampled(_) => None,
    };
    let options = named
        .ok_or_else(|| DeploymentError::Plan(format!("{} is no engine {}", plan.engine, K::Options::ENGINE.name)))?;
    let clients_max = plan.clients_max + 1 + u32::from(plan.evicts_ahead);
    Ok(match plan.bound {
        Bound::Objects(objects) => options.of_objects(objects, clients_max, HEADER_BYTES + plan.object_bytes as u32),
        Bound::Bytes(bytes) => {
            let settings =
                options.of_size(PoolSize { body_bytes_mean: None, capacity_bytes: bytes, growth_bytes_max: 0 });
            PoolSettings { clients_max: settings.clients_max.max(clients_max), ..settings }
        }
    })
}

/// The number of a client: no other client of the pool ever has the same.
pub(crate) fn number_of(client: Incarnation) -> u64 {
    u64::from(client.epoch) << 32 | u64::from(client.slot)
}

/// An engine's pool, on that memory.
pub(crate) struct PooledCache<K: EngineKind, M: PoolMemory> {
    memory: M,
    shared: Arc<K::Shared>,
    clock: Clock,
    evicts_ahead: bool,
    /// Joins with the first client.
    evictor: OnceCell<Rc<K::Client<M::Endpoint>>>,
}

impl<K: EngineKind + 'static, M: PoolMemory + 'static> PooledCache<K, M> {
    fn new(plan: &Plan, clock: &Clock, memory: M, shared: Arc<K::Shared>) -> Self {
        let (clock, evicts_ahead, evictor) = (clock.clone(), plan.evicts_ahead, OnceCell::new());
        Self { memory, shared, clock, evicts_ahead, evictor }
    }

    fn join(&self) -> Result<K::Client<M::Endpoint>, DeploymentError> {
        let joined = K::Client::join(&self.shared, self.memory.endpoint(&self.clock));
        Ok(block_on_with(|| self.memory.wait(), joined)?)
    }

    fn evictor(&self) -> Result<Rc<K::Client<M::Endpoint>>, DeploymentError> {
        if let Some(evictor) = self.evictor.get() {
            return Ok(evictor.clone());
        }
        let joined = Rc::new(self.join()?);
        Ok(self.evictor.get_or_init(|| joined).clone())
    }
}

impl<K: EngineKind + 'static, M: PoolMemory + 'static> Deployment for PooledCache<K, M> {
    fn client(&self) -> Result<Cache<Client>, DeploymentError> {
        let engine = self.join()?;
        let number = number_of(engine.client().me());
        if self.evicts_ahead {
            let engine = EvictedAhead::<M::Endpoint, _>::new(engine, self.evictor()?);
            return Ok(Cache::new(Client::new(engine, number, |ahead| ahead.engine().client().endpoint.wait())));
        }
        Ok(Cache::new(Client::new(engine, number, |engine| engine.client().endpoint.wait())))
    }

    fn has_ended(&self, client: u64) -> Result<bool, DeploymentError> {
        let who = Incarnation { slot: client as u32, epoch: (client >> 32) as u32 };
        let endpoint = self.memory.endpoint(&self.clock);
        let places = block_on(&endpoint, registry::places(&endpoint, self.shared.pool())).map_err(CacheError::Verb)?;
        Ok(!places.iter().any(|place| place.incarnation == who && place.state.is_alive()))
    }

    fn clock(&self) -> Result<PoolClock<'_>, DeploymentError> {
        let (endpoint, at) = (self.memory.endpoint(&self.clock), self.shared.pool().layout.clock());
        Ok(Box::new(move || {
            let mut batch = Batch::new();
            let word = batch.read_word(at);
            block_on(&endpoint, endpoint.post(&mut batch)).map_err(CacheError::Verb)?;
            Ok(batch.word(word))
        }))
    }

    fn repair(&self) -> Result<Repaired, DeploymentError> {
        let engine = self.join()?;
        let endpoint = &engine.client().endpoint;
        let repaired = repair_watching(engine.client(), async || engine.repair().await, async || engine.tend().await);
        let repaired = block_on(endpoint, repaired)?;
        block_on(endpoint, engine.leave())?;
        Ok(repaired)
    }

    fn audit(&self) -> Result<AuditSummary, DeploymentError> {
        let (endpoint, pool) = (self.memory.endpoint(&self.clock), self.shared.pool());
        let places = block_on(&endpoint, registry::places(&endpoint, pool)).map_err(CacheError::Verb)?;
        let auditor = K::Client::auditor(&self.shared, endpoint)?;
        let audit = block_on(&auditor.client().endpoint, auditor.verify())?;
        let [_free, open, _queued, leaving, extent, bound, ..] = audit.chunks;
        Ok(AuditSummary {
            faults: audit.faults,
            objects: audit.objects,
            clients: places.iter().filter(|place| place.state != PlaceState::Free).count() as u64,
            lost_bytes: (open + leaving + extent + bound) * pool.layout.chunk_bytes,
        })
    }
}

impl<K: EngineKind + 'static, M: PoolMemory + 'static> Made for PooledCache<K, M> {
    fn create(plan: &Plan, clock: &Clock) -> Result<Self, DeploymentError> {
        let settings = PoolSettings { hash_seed: SEED, ..settings::<K>(plan)?.spread(plan.nodes()) };
        let memory = M::create(plan, &settings)?;
        let endpoint = memory.endpoint(clock);
        let shared = block_on(&endpoint, K::Client::format(&endpoint, settings))?;
        Ok(Self::new(plan, clock, memory, shared))
    }

    fn open(plan: &Plan, clock: &Clock) -> Result<Self, DeploymentError> {
        let memory = M::open(plan)?;
        let endpoint = memory.endpoint(clock);
        let shared = block_on(&endpoint, K::Client::open(&endpoint, memory.bytes()))?;
        Ok(Self::new(plan, clock, memory, shared))
    }

    fn remove(plan: &Plan) -> Result<(), DeploymentError> {
        M::remove(plan)
    }
}
