//! Where the lab meets an engine: how a cache is made, opened by another process, and given
//! clients.
//!
//! An engine takes part in every experiment by implementing [`Deployment`] here and having a line
//! in [`EngineName`] and in [`on_engine`]. Nothing else of this crate names an engine.

use crate::LabError;
use crate::reference::engine::{ReferenceEngine, Shared};
use crate::reference::sampled::Sampled;
use crate::reference::{Policy, PolicyName};
use atoll_baselines::glcache::{GlCacheDm, GlCacheKind, GlCacheOptions};
use atoll_baselines::kvs::kind::KvsKind;
use atoll_baselines::kvs::{self, Kvs};
use atoll_baselines::queues::{QueueOptions, Queued};
use atoll_cache::ditto::{Ditto, DittoOptions};
use atoll_cache::experts::{DEFAULT_SET, ExpertSet, ExpertSetError, Settings};
use atoll_cache::forge::{Forge, ForgeOptions};
use atoll_cache::table::TableOptions;
use atoll_cache::{Cache, CacheError, Engine, Pooled};
use atoll_cache::{EngineKind, EnginePool};
use atoll_fabric::region::Region;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Clock, run_ready};
use atoll_pool::{PlaceState, PoolSettings, registry};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What limits a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// Never more than so many objects are resident; bytes are to be no limit for the plan's
    /// objects.
    Objects(u64),
    /// So many bytes of pool, whatever they are used for.
    Bytes(u64),
}

/// The cache that an experiment wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Which engine.
    pub engine: EngineName,
    /// What limits it.
    pub bound: Bound,
    /// Key and value bytes of a typical object.
    pub object_bytes: u64,
    /// The most clients that will ever be joined at a time, over all processes.
    pub clients_max: u32,
    /// The name under which other processes open it, such as `shm:/NAME`; `None` for a cache of
    /// this process alone.
    pub name: Option<String>,
}

/// What came back from clients that died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Clients that were shut out.
    pub clients: u64,
    /// Chunks that they had held.
    pub chunks: u64,
}

/// What a walk over a quiet cache found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// What is wrong, in words.
    pub faults: Vec<String>,
    /// Objects in the cache.
    pub objects: u64,
    /// Clients that have not left, and places of dead ones that nobody has finished.
    pub clients: u64,
    /// Bytes of chunks that neither are free nor belong to a queued group: in an empty cache that
    /// everybody has left, they are lost.
    pub lost_bytes: u64,
}

/// A cache that is there, as one process sees it.
///
/// It may be bound to the thread that made it; every thread of an experiment makes or opens its
/// own.
pub trait Deployment: Sized {
    /// One client's engine. Its futures never wait, since every experiment of the lab runs on one
    /// host.
    type Engine: Engine;

    /// Makes an empty cache. `clock` is the clock of all its clients in this process.
    fn create(plan: &Plan, clock: &Clock) -> Result<Self, LabError>;

    /// Opens the named cache of `plan` that another process made.
    fn open(plan: &Plan, clock: &Clock) -> Result<Self, LabError>;

    /// Removes the name of `plan`'s cache, so that its memory goes with the last process that has
    /// it open.
    fn remove(plan: &Plan) -> Result<(), LabError>;

    /// Another client, with an endpoint of its own.
    fn client(&self) -> Result<Cache<Self::Engine>, LabError>;

    /// Reclaims now what clients that died held.
    fn repair(&self) -> Result<Mended, LabError> {
        Err(LabError::ReferenceOnly)
    }

    /// Walks every invariant of the cache, which nobody uses meanwhile.
    fn audit(&self) -> Result<Audit, LabError> {
        Err(LabError::ReferenceOnly)
    }

    /// The most objects that were ever resident at a time, if the engine keeps count of it. The lab
    /// also looks for itself.
    fn objects_max(&self) -> Option<u64> {
        None
    }
}

/// The engines, as users name them.
///
/// | name | engine |
/// |---|---|
/// | `forge` | FORGE in a pool of shared memory; the default |
/// | `forge-paper` | FORGE as the paper has it, without our improvements |
/// | `glcache-dm` | groups of FORGE of which those go that trees say are worth least: the baseline of its section 6.1 |
/// | `ditto` | Ditto in a pool of shared memory; `ditto:lru+lfu` with those experts instead of the shipped ones |
/// | `ditto-paper:lru+lfu` | Ditto with those experts and the paper's parameters |
/// | `kvs` | a table of objects that tracks nothing and evicts at random |
/// | `shard-lru`, `lru-dm`, `sieve-dm`, `s3fifo-dm` | a table of objects with queues in the pool; `shard-lru:1` has one list in place of 32, and so on |
/// | `reference:lru` | an exact policy in ordinary memory; `fifo`, `lru` and `s3-fifo` may be said without `reference:` |
/// | `sampled:lru+lfu` | policies, or experts, from samples of a hash table in ordinary memory |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineName {
    /// FORGE in a pool of shared memory.
    #[default]
    Forge,
    /// FORGE as the paper has it, without our improvements.
    ForgePaper,
    /// Groups of FORGE, of which those go that trees say are worth least.
    GlCacheDm,
    /// Ditto with these experts, learning as is best on real traces.
    Ditto(ExpertSet),
    /// Ditto with these experts and the paper's parameters.
    DittoPaper(ExpertSet),
    /// A table of objects that tracks nothing and evicts at random.
    Kvs,
    /// A table of objects with queues in the pool.
    Queues(QueueOptions),
    /// An exact policy in ordinary memory, for comparison.
    Reference(PolicyName),
    /// Experts that see samples of a table, in ordinary memory.
    Sampled(ExpertSet),
}

/// Policies that are asked for so often that they need no `reference:`.
const SHORT: [PolicyName; 3] = [PolicyName::Fifo, PolicyName::Lru, PolicyName::S3Fifo];

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forge => f.write_str("forge"),
            Self::ForgePaper => f.write_str("forge-paper"),
            Self::GlCacheDm => f.write_str(<GlCacheKind as EngineKind>::NAME),
            Self::Ditto(set) if set.to_string() == DEFAULT_SET => f.write_str("ditto"),
            Self::Ditto(set) => write!(f, "ditto:{set}"),
            Self::DittoPaper(set) => write!(f, "ditto-paper:{set}"),
            Self::Kvs => f.write_str(<KvsKind as EngineKind>::NAME),
            Self::Queues(options) => write!(f, "{options}"),
            Self::Reference(policy) if SHORT.contains(policy) => write!(f, "{policy}"),
            Self::Reference(policy) => write!(f, "reference:{policy}"),
            Self::Sampled(set) => write!(f, "sampled:{set}"),
        }
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match (name, name.split_once(':')) {
            ("forge", _) => Ok(Self::Forge),
            ("forge-paper", _) => Ok(Self::ForgePaper),
            (<GlCacheKind as EngineKind>::NAME, _) => Ok(Self::GlCacheDm),
            ("ditto", _) => Ok(Self::Ditto(experts(DEFAULT_SET)?)),
            (_, Some(("ditto", set))) => Ok(Self::Ditto(experts(set)?)),
            ("ditto-paper", _) => Ok(Self::DittoPaper(experts("lru+lfu")?)),
            (_, Some(("ditto-paper", set))) => Ok(Self::DittoPaper(experts(set)?)),
            (<KvsKind as EngineKind>::NAME, _) => Ok(Self::Kvs),
            (_, Some(("reference", policy))) => Ok(Self::Reference(policy.parse()?)),
            (_, Some(("sampled", set))) => Ok(Self::Sampled(experts(set)?)),
            _ => {
                let short = name.parse().ok().filter(|policy| SHORT.contains(policy));
                let unknown = || {
                    format!(
                        "there is no engine {name:?}; there are forge, forge-paper, glcache-dm, ditto, ditto:POLICY+POLICY, ditto-paper:POLICY+POLICY, kvs, shard-lru, lru-dm, sieve-dm (with :LISTS if not 32), s3fifo-dm, fifo, lru, s3-fifo, reference:POLICY and sampled:POLICY+POLICY"
                    )
                };
                let queues = || name.parse().ok().map(Self::Queues);
                short.map(Self::Reference).or_else(queues).ok_or_else(unknown)
            }
        }
    }
}

fn experts(set: &str) -> Result<ExpertSet, String> {
    set.parse().map_err(|error: ExpertSetError| error.to_string())
}

impl Serialize for EngineName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EngineName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Something to do with whatever engine was chosen.
pub trait Experiment {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<D: Deployment>(self) -> Result<Self::Output, LabError>;
}

/// Runs `experiment` with the deployment of that engine.
pub fn on_engine<E: Experiment>(engine: EngineName, experiment: E) -> Result<E::Output, LabError> {
    match engine {
        EngineName::Forge | EngineName::ForgePaper => experiment.run::<PooledCache<Forge<ShmEndpoint>>>(),
        EngineName::GlCacheDm => experiment.run::<PooledCache<GlCacheDm<ShmEndpoint>>>(),
        EngineName::Ditto(_) | EngineName::DittoPaper(_) => experiment.run::<PooledCache<Ditto<ShmEndpoint>>>(),
        EngineName::Kvs => experiment.run::<PooledCache<Kvs<ShmEndpoint>>>(),
        EngineName::Queues(_) => experiment.run::<PooledCache<Queued<ShmEndpoint>>>(),
        EngineName::Reference(_) | EngineName::Sampled(_) => experiment.run::<ReferenceCache>(),
    }
}

/// Seed of everything random in an experiment.
const SEED: u64 = 0x0a70_1100;

/// How an engine's pool is made for a plan.
trait Planned: Pooled<ShmEndpoint> {
    /// The settings of a pool, but for the seed of the hash.
    fn settings(plan: &Plan) -> PoolSettings;
}

impl Planned for Forge<ShmEndpoint> {
    fn settings(plan: &Plan) -> PoolSettings {
        let options = match plan.engine {
            EngineName::ForgePaper => ForgeOptions::paper(),
            _ => ForgeOptions::default(),
        };
        bounded(
            plan,
            |objects, clients, bytes| options.for_objects(objects, clients, bytes),
            |bytes| options.for_capacity(bytes),
        )
    }
}

impl Planned for GlCacheDm<ShmEndpoint> {
    fn settings(plan: &Plan) -> PoolSettings {
        let options = GlCacheOptions::default();
        bounded(
            plan,
            |objects, clients, bytes| options.for_objects(objects, clients, bytes),
            |bytes| options.for_capacity(bytes),
        )
    }
}

/// The settings of a pool for so many objects, clients and bytes of a record, or for so many bytes,
/// whichever the plan names.
fn bounded(
    plan: &Plan,
    for_objects: impl Fn(u64, u32, u32) -> PoolSettings,
    for_capacity: impl Fn(u64) -> PoolSettings,
) -> PoolSettings {
    let clients_max = plan.clients_max + 1;
    match plan.bound {
        Bound::Objects(objects) => for_objects(objects, clients_max, 32 + plan.object_bytes as u32),
        Bound::Bytes(bytes) => {
            let settings = for_capacity(bytes);
            PoolSettings { clients_max: settings.clients_max.max(clients_max), ..settings }
        }
    }
}

/// The settings of a pool with a table of objects.
fn objects_settings(options: &TableOptions, plan: &Plan) -> PoolSettings {
    bounded(
        plan,
        |objects, clients, bytes| options.for_objects(objects, clients, bytes),
        |bytes| options.for_growth(bytes, 0),
    )
}

impl Planned for Ditto<ShmEndpoint> {
    fn settings(plan: &Plan) -> PoolSettings {
        let options = match plan.engine {
            EngineName::Ditto(set) => DittoOptions::adaptive(set),
            EngineName::DittoPaper(set) => DittoOptions::paper(set),
            _ => DittoOptions::default(),
        };
        objects_settings(&options.objects(), plan)
    }
}

impl Planned for Kvs<ShmEndpoint> {
    fn settings(plan: &Plan) -> PoolSettings {
        objects_settings(&kvs::options(), plan)
    }
}

impl Planned for Queued<ShmEndpoint> {
    fn settings(plan: &Plan) -> PoolSettings {
        let options = match plan.engine {
            EngineName::Queues(options) => options,
            _ => QueueOptions::default(),
        };
        objects_settings(&options.objects(), plan)
    }
}

/// An engine's pool over shared memory.
struct PooledCache<G: Pooled<ShmEndpoint>> {
    region: Arc<ShmRegion>,
    shared: Arc<G::Shared>,
    clock: Clock,
}

/// Every experiment runs from the same seeds: one process's run repeats to the miss.
fn endpoint(region: &Arc<ShmRegion>, clock: &Clock) -> ShmEndpoint {
    ShmEndpoint::with_regions(vec![region.clone()], clock.clone()).seeded(SEED)
}

impl<G: Planned> Deployment for PooledCache<G> {
    type Engine = G;

    fn create(plan: &Plan, clock: &Clock) -> Result<Self, LabError> {
        let settings = PoolSettings { hash_seed: SEED, ..G::settings(plan) };
        let region = Arc::new(match &plan.name {
            Some(name) => ShmRegion::create(name, settings.capacity_bytes)?,
            None => ShmRegion::anonymous(settings.capacity_bytes)?,
        });
        let shared = run_ready(G::format(&endpoint(&region, clock), settings))?;
        Ok(Self { region, shared, clock: clock.clone() })
    }

    fn open(plan: &Plan, clock: &Clock) -> Result<Self, LabError> {
        let name = plan.name.as_deref().ok_or(LabError::ReferenceOnly)?;
        let region = Arc::new(ShmRegion::open(name)?);
        let shared = run_ready(G::open(&endpoint(&region, clock), region.attributes().bytes))?;
        Ok(Self { region, shared, clock: clock.clone() })
    }

    fn remove(plan: &Plan) -> Result<(), LabError> {
        plan.name.as_deref().map_or(Ok(()), |name| Ok(ShmRegion::remove(name)?))
    }

    fn client(&self) -> Result<Cache<G>, LabError> {
        Ok(Cache::new(run_ready(G::join(&self.shared, endpoint(&self.region, &self.clock)))?))
    }

    fn repair(&self) -> Result<Mended, LabError> {
        let engine = run_ready(G::join(&self.shared, endpoint(&self.region, &self.clock)))?;
        let mended = run_ready(engine.repair())?;
        run_ready(engine.leave())?;
        Ok(Mended { clients: mended.clients, chunks: mended.chunks })
    }

    fn audit(&self) -> Result<Audit, LabError> {
        let (endpoint, pool) = (endpoint(&self.region, &self.clock), self.shared.pool());
        let places = run_ready(registry::places(&endpoint, pool)).map_err(CacheError::Verb)?;
        let audit = run_ready(G::auditor(&self.shared, endpoint)?.verify())?;
        let [_free, open, _queued, leaving, extent, bound, ..] = audit.chunks;
        Ok(Audit {
            faults: audit.faults,
            objects: audit.objects,
            clients: places.iter().filter(|place| place.state != PlaceState::Free).count() as u64,
            lost_bytes: (open + leaving + extent + bound) * pool.layout.chunk_bytes,
        })
    }
}

/// A cache of one process under an exact or a sampled policy.
struct ReferenceCache(Shared);

impl Deployment for ReferenceCache {
    type Engine = ReferenceEngine;

    fn create(plan: &Plan, clock: &Clock) -> Result<Self, LabError> {
        let (Bound::Objects(objects_max), None) = (plan.bound, &plan.name) else { return Err(LabError::ReferenceOnly) };
        let objects_max = objects_max as usize;
        let policy: Box<dyn Policy<Vec<u8>>> = match plan.engine {
            EngineName::Reference(policy) => policy.make(objects_max),
            EngineName::Sampled(set) => Box::new(Sampled::new(set, Settings::default(), objects_max)),
            _ => return Err(LabError::ReferenceOnly),
        };
        Ok(Self(Shared::new(policy, clock.clone())))
    }

    fn open(_plan: &Plan, _clock: &Clock) -> Result<Self, LabError> {
        Err(LabError::ReferenceOnly)
    }

    fn remove(_plan: &Plan) -> Result<(), LabError> {
        Ok(())
    }

    fn client(&self) -> Result<Cache<ReferenceEngine>, LabError> {
        Ok(Cache::new(ReferenceEngine::new(&self.0)))
    }
}
