//! An engine in a pool, by its descriptor.

use super::memory::PoolMemory;
use super::name::EngineName;
use super::plan::{AuditSummary, Bound, Deployment, Plan};
use crate::LabError;
use atoll_cache::engines::{EngineChoices, PoolSize};
use atoll_cache::{Cache, CacheError, EngineKind, EnginePool, Pooled};
use atoll_fabric::shm::ShmRegion;
use atoll_fabric::{Batch, Clock, Endpoint, run_ready};
use atoll_pool::registry::Incarnation;
use atoll_pool::{PlaceState, PoolSettings, Repaired, registry};
use std::sync::Arc;

/// Seed of the keys' hash.
const SEED: u64 = 0x0a70_1100;
/// What a record has besides key and value.
const HEADER_BYTES: u32 = 32;

/// The settings of a plan's pool, but for the seed of the hash.
fn settings<K: EngineKind>(plan: &Plan) -> Result<PoolSettings, LabError> {
    let named = match &plan.engine {
        EngineName::Pooled(name) => name.options::<K>(),
        EngineName::Reference(_) | EngineName::Sampled(_) => None,
    };
    let options =
        named.ok_or_else(|| LabError::Options(format!("{} is no engine {}", plan.engine, K::Options::ENGINE.name)))?;
    let clients_max = plan.clients_max + 1;
    Ok(match plan.bound {
        Bound::Objects(objects) => options.of_objects(objects, clients_max, HEADER_BYTES + plan.object_bytes as u32),
        Bound::Bytes(bytes) => {
            let settings =
                options.of_size(PoolSize { body_bytes_mean: None, capacity_bytes: bytes, growth_bytes_max: 0 });
            PoolSettings { clients_max: settings.clients_max.max(clients_max), ..settings }
        }
    })
}

/// An engine's pool, over shared memory unless another is named.
pub(super) struct PooledCache<K: EngineKind, M = Arc<ShmRegion>> {
    memory: M,
    shared: Arc<K::Shared>,
    clock: Clock,
}

impl<K: EngineKind, M: PoolMemory> Deployment for PooledCache<K, M> {
    type Engine = K::Client<M::Endpoint>;

    fn create(plan: &Plan, clock: &Clock) -> Result<Self, LabError> {
        let settings = PoolSettings { hash_seed: SEED, ..settings::<K>(plan)? };
        let memory = M::create(plan, settings.capacity_bytes)?;
        let shared = run_ready(Self::Engine::format(&memory.endpoint(clock), settings))?;
        Ok(Self { memory, shared, clock: clock.clone() })
    }

    fn open(plan: &Plan, clock: &Clock) -> Result<Self, LabError> {
        let memory = M::open(plan)?;
        let shared = run_ready(Self::Engine::open(&memory.endpoint(clock), memory.bytes()))?;
        Ok(Self { memory, shared, clock: clock.clone() })
    }

    fn remove(plan: &Plan) -> Result<(), LabError> {
        M::remove(plan)
    }

    fn client(&self) -> Result<Cache<Self::Engine>, LabError> {
        Ok(Cache::new(run_ready(Self::Engine::join(&self.shared, self.memory.endpoint(&self.clock)))?))
    }

    fn number_of(client: &Cache<Self::Engine>) -> u64 {
        let Incarnation { slot, epoch } = client.engine().client().me();
        u64::from(epoch) << 32 | u64::from(slot)
    }

    fn has_ended(&self, client: u64) -> Result<bool, LabError> {
        let who = Incarnation { slot: client as u32, epoch: (client >> 32) as u32 };
        let endpoint = self.memory.endpoint(&self.clock);
        let places = run_ready(registry::places(&endpoint, self.shared.pool())).map_err(CacheError::Verb)?;
        Ok(!places.iter().any(|place| place.incarnation == who && place.state.is_alive()))
    }

    fn clock(&self) -> Result<impl Fn() -> Result<u64, LabError>, LabError> {
        let (endpoint, at) = (self.memory.endpoint(&self.clock), self.shared.pool().layout.clock());
        Ok(move || {
            let mut batch = Batch::new();
            let word = batch.read_word(at);
            run_ready(endpoint.post(&mut batch)).map_err(CacheError::Verb)?;
            Ok(batch.word(word))
        })
    }

    fn repair(&self) -> Result<Repaired, LabError> {
        let engine = run_ready(Self::Engine::join(&self.shared, self.memory.endpoint(&self.clock)))?;
        let repaired = run_ready(engine.repair())?;
        run_ready(engine.leave())?;
        Ok(repaired)
    }

    fn audit(&self) -> Result<AuditSummary, LabError> {
        let (endpoint, pool) = (self.memory.endpoint(&self.clock), self.shared.pool());
        let places = run_ready(registry::places(&endpoint, pool)).map_err(CacheError::Verb)?;
        let audit = run_ready(Self::Engine::auditor(&self.shared, endpoint)?.verify())?;
        let [_free, open, _queued, leaving, extent, bound, ..] = audit.chunks;
        Ok(AuditSummary {
            faults: audit.faults,
            objects: audit.objects,
            clients: places.iter().filter(|place| place.state != PlaceState::Free).count() as u64,
            lost_bytes: (open + leaving + extent + bound) * pool.layout.chunk_bytes,
        })
    }
}
