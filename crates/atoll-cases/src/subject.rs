//! The engines that cases are about.

use crate::case::{ForgePoolWords, Shared};
use crate::client::Hesitant;
use atoll_baselines::cliquemap::{self, CliqueMap, CliqueMapOptions, CliqueMapPool, Policy, Server};
use atoll_baselines::forge_ablations::{AblatedForge, Variant};
use atoll_baselines::glcache::{GlCacheDm, GlCacheKind, GlCacheOptions, GlCachePool};
use atoll_baselines::kvs::KvsKind;
use atoll_baselines::kvs::{self, Kvs};
use atoll_baselines::queues::QueuesKind;
use atoll_baselines::queues::{QueueOptions, QueuePolicy, Queued};
use atoll_cache::ditto::{Ditto, DittoKind, DittoOptions};
use atoll_cache::forge::{self, Forge, ForgeKind, ForgeOptions, Technique};
use atoll_cache::table::{self, TableOptions};
use atoll_cache::{EngineKind, EnginePool, Pooled};
use atoll_fabric::{Address, Endpoint, Kind, RegionAttributes};
use atoll_pool::{EngineArea, PoolSettings};
use atoll_sim::sim::region;
use atoll_sim::{Random, Sim};
use std::cell::Cell;
use std::fmt::Debug;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Adds to a simulation whoever has to be there while clients play, such as a memory node's
/// processor, until nobody has the other end any more. Called anew for every run, one after the
/// other.
pub type Attendant = Box<dyn Fn(&Sim, Weak<()>)>;

/// Opens a hole, if there is one to be opened. Without the feature `holes` nothing has any.
macro_rules! open_hole {
    ($of:expr, $hole:expr) => {{
        #[cfg(feature = "holes")]
        if let Some(hole) = $hole {
            $of.open_hole(hole);
        }
        #[cfg(not(feature = "holes"))]
        let _ = (&$of, $hole);
    }};
}

/// An engine, and its own choices in a case.
pub trait Subject: Clone + Debug + Default + 'static {
    /// What users call it.
    const NAME: &'static str;
    /// What can be wrong with it.
    type Hole: Copy + Debug + 'static;
    /// One client of it.
    type Engine: Pooled<Hesitant> + 'static;
    /// Sizes of chunks that a drawn case has.
    const CHUNK_BYTES: [u32; 3];
    /// Whether its pools have further nodes, and grow.
    const SPREADS: bool = true;
    /// Whether its clients count every eviction. Where a memory node evicts, they do not.
    const CLIENTS_EVICT: bool = true;
    /// Whether nothing of a client takes effect once it is shut out. Messages outlive that.
    const ENDS_WITH_FENCE: bool = true;
    /// Whether what dead clients held comes back while others make their rounds.
    const SETTLES_DOWN: bool = true;

    /// Choices from a stream; `paper` says whether they are to be a paper's.
    fn drawn(random: &mut Random, paper: bool) -> Self;

    /// The settings of a pool for an index of so many slots.
    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings;

    /// What a pool with these settings needs for the engine's words.
    fn engine_area(settings: &PoolSettings) -> EngineArea;

    /// A region of the home besides the pool, if it wants one.
    fn further_region(&self, settings: &PoolSettings) -> Result<Option<RegionAttributes>, String> {
        let _ = settings;
        Ok(None)
    }

    /// What is done to the pool before anybody joins.
    fn set_stage(&self, sim: &Sim, shared: &Arc<Shared<Self>>) {
        let _ = (sim, shared);
    }

    /// Whoever has to be there while clients play.
    fn attendant(&self, shared: &Arc<Shared<Self>>) -> Option<Attendant> {
        let _ = shared;
        None
    }

    /// The same, with clients that remember no addresses from operation to operation.
    fn forgetful(self) -> Self {
        self
    }

    /// Whether its clients remember no addresses, so that the memory of chunks that are out of use
    /// may go back to the host.
    fn is_forgetful(&self) -> bool {
        true
    }

    /// Makes a client's own choices, and opens a hole, which without the feature `holes` cannot be
    /// done.
    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>);
}

/// `forge`.
#[derive(Clone, Debug, Default)]
pub struct Forged {
    /// Its choices.
    pub options: ForgeOptions,
    /// Log2 of the rings' nodes, if it is not to follow from the chunks.
    pub ring_log2: Option<u32>,
    /// Where both cursors of both rings stand when the first client comes.
    pub ring_position: u32,
    /// Whether no client remembers addresses, or what it missed. Else every other one does.
    pub forgetful: bool,
}

/// Where variants of `forge` have what they need besides the pool.
const AREA: Address = Address::new(0, 1, 0);
/// Memory of an address cache of two sets, so that keys push each other out.
const ADDRESS_CACHE_BYTES: usize = 2 * 96;

impl Subject for Forged {
    const NAME: &'static str = <ForgeKind as EngineKind>::NAME;
    type Hole = forge::Hole;
    type Engine = Forge<Hesitant>;
    const CHUNK_BYTES: [u32; 3] = [256, 512, 1024];

    fn drawn(random: &mut Random, paper: bool) -> Self {
        let options = if paper { ForgeOptions::paper() } else { ForgeOptions::default() };
        let options = ForgeOptions { small_percent: random.pick(&[10, 20, 50]), ..options };
        Self { options, ..Self::default() }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        let mut settings = self.options.settings(base, slots);
        if let Some(ring_log2) = self.ring_log2 {
            settings.engine_settings[0] &= !(0xff << 32);
            settings.engine_settings[0] |= u64::from(ring_log2) << 32;
        }
        settings
    }

    fn engine_area(settings: &PoolSettings) -> EngineArea {
        forge::layout::engine_area(settings)
    }

    fn set_stage(&self, sim: &Sim, shared: &Arc<Shared<Self>>) {
        if self.ring_position != 0 {
            ForgePoolWords { pool: shared.clone() }.turn_rings(sim, self.ring_position);
        }
    }

    fn forgetful(self) -> Self {
        Self { forgetful: true, ..self }
    }

    fn is_forgetful(&self) -> bool {
        self.forgetful
    }

    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        prepare_forge(engine, self.forgetful, hole);
    }
}

/// Makes the choices of a client of any form of `forge`.
fn prepare_forge<T: Technique<Hesitant>>(engine: &mut Forge<Hesitant, T>, forgetful: bool, hole: Option<forge::Hole>) {
    // Where memory is near every other client remembers addresses all the same, unless memory goes
    // back to the host.
    let is_every_other = !engine.client().endpoint.identity().bits().is_multiple_of(2);
    let remembers = !forgetful && (!engine.client().endpoint.is_near() || is_every_other);
    engine.set_address_cache(if remembers { ADDRESS_CACHE_BYTES } else { 0 });
    engine.set_absence_memory(remembers);
    open_hole!(engine, hole);
}

/// `forge` without single techniques.
#[derive(Clone, Debug, Default)]
pub struct Ablated {
    /// The engine's choices.
    pub forge: Forged,
    /// What all clients do without.
    pub variant: Variant,
}

impl Subject for Ablated {
    const NAME: &'static str = Forged::NAME;
    type Hole = forge::Hole;
    type Engine = AblatedForge<Hesitant>;
    const CHUNK_BYTES: [u32; 3] = Forged::CHUNK_BYTES;

    fn drawn(random: &mut Random, paper: bool) -> Self {
        Self { forge: Forged::drawn(random, paper), ..Self::default() }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.forge.settings(base, slots)
    }

    fn engine_area(settings: &PoolSettings) -> EngineArea {
        Forged::engine_area(settings)
    }

    fn further_region(&self, settings: &PoolSettings) -> Result<Option<RegionAttributes>, String> {
        let bytes = Variant::area_bytes(settings).map_err(|error| error.to_string())?;
        Ok(Some(region(bytes, Kind::Host)))
    }

    fn set_stage(&self, sim: &Sim, shared: &Arc<Shared<Self>>) {
        self.forge.set_stage(sim, shared);
    }

    fn forgetful(self) -> Self {
        Self { forge: self.forge.forgetful(), ..self }
    }

    fn is_forgetful(&self) -> bool {
        self.forge.is_forgetful()
    }

    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        engine.technique_mut().set(self.variant, AREA);
        prepare_forge(engine, self.forge.forgetful, hole);
    }
}

/// `glcache-dm`.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Its choices.
    pub options: GlCacheOptions,
    /// Whether no client remembers addresses, or what it missed. Else every other one does.
    pub forgetful: bool,
}

impl Subject for Learned {
    const NAME: &'static str = <GlCacheKind as EngineKind>::NAME;
    type Hole = forge::Hole;
    type Engine = GlCacheDm<Hesitant>;
    const CHUNK_BYTES: [u32; 3] = Forged::CHUNK_BYTES;

    fn drawn(random: &mut Random, _paper: bool) -> Self {
        let mut options = GlCacheOptions::default();
        options.0.merge_groups = random.pick(&[1, 2, 8]);
        Self { options, ..Self::default() }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.options.settings(base, slots)
    }

    fn engine_area(settings: &PoolSettings) -> EngineArea {
        GlCachePool::engine_area(settings)
    }

    fn forgetful(self) -> Self {
        Self { forgetful: true, ..self }
    }

    fn is_forgetful(&self) -> bool {
        self.forgetful
    }

    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        prepare_forge(engine, self.forgetful, hole);
    }
}

/// `ditto`.
#[derive(Clone, Debug, Default)]
pub struct Dittoed {
    /// Its choices.
    pub options: DittoOptions,
}

impl Subject for Dittoed {
    const NAME: &'static str = <DittoKind as EngineKind>::NAME;
    type Hole = table::Hole;
    type Engine = Ditto<Hesitant>;
    const CHUNK_BYTES: [u32; 3] = [512, 1024, 2048];

    fn drawn(random: &mut Random, paper: bool) -> Self {
        let experts =
            random.pick(&["lru", "lru+lfu", "lru-k+fifo", "gds+lirs+lfu", "quick-demotion+hyperbolic-idle+lfu"]);
        let experts = experts.parse().expect("all of them are policies");
        let mut options = if paper { DittoOptions::paper(experts) } else { DittoOptions::adaptive(experts) };
        if !paper {
            options.counters = random.pick(&[0, 2, 8]);
            options.tag_bits = random.pick(&[3, 4, 16]);
            options.learning.batch = random.pick(&[1, 3]);
        }
        Self { options }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.options.objects().settings(base, slots)
    }

    fn engine_area(settings: &PoolSettings) -> EngineArea {
        table::layout::engine_area(settings)
    }

    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}

/// `kvs`.
#[derive(Clone, Debug, Default)]
pub struct Stored;

impl Subject for Stored {
    const NAME: &'static str = <KvsKind as EngineKind>::NAME;
    type Hole = table::Hole;
    type Engine = Kvs<Hesitant>;
    const CHUNK_BYTES: [u32; 3] = Dittoed::CHUNK_BYTES;

    fn drawn(_random: &mut Random, _paper: bool) -> Self {
        Self
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        kvs::options().settings(base, slots)
    }

    fn engine_area(settings: &PoolSettings) -> EngineArea {
        table::layout::engine_area(settings)
    }

    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}

/// `shard-lru`, `lru-dm` and their like.
#[derive(Clone, Debug)]
pub struct Queueing {
    /// Which queues.
    pub options: QueueOptions,
    /// Bits of a block's tag.
    pub tag_bits: u32,
}

impl Default for Queueing {
    fn default() -> Self {
        Self { options: QueueOptions::default(), tag_bits: 16 }
    }
}

impl Subject for Queueing {
    const NAME: &'static str = <QueuesKind as EngineKind>::NAME;
    type Hole = table::Hole;
    type Engine = Queued<Hesitant>;
    const CHUNK_BYTES: [u32; 3] = Dittoed::CHUNK_BYTES;

    fn drawn(random: &mut Random, _paper: bool) -> Self {
        let options = QueueOptions::new(random.pick(&QueuePolicy::ALL));
        let lists = random.pick(&[1, 2, options.lists]);
        Self { options: QueueOptions { lists, ..options }, tag_bits: random.pick(&[4, 16]) }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        TableOptions { tag_bits: self.tag_bits, ..self.options.objects() }.settings(base, slots)
    }

    fn engine_area(settings: &PoolSettings) -> EngineArea {
        table::layout::engine_area(settings)
    }

    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}

/// `cliquemap-lru` and `cliquemap-lfu`.
#[derive(Clone, Debug, Default)]
pub struct Cliqued {
    /// Its choices.
    pub options: CliqueMapOptions,
    /// What is wrong with its server.
    pub server_hole: Option<cliquemap::Hole>,
}

impl Subject for Cliqued {
    const NAME: &'static str = "cliquemap";
    type Hole = cliquemap::Hole;
    type Engine = CliqueMap<Hesitant>;
    const CHUNK_BYTES: [u32; 3] = [256, 512, 1024];
    const SPREADS: bool = false;
    const CLIENTS_EVICT: bool = false;
    const ENDS_WITH_FENCE: bool = false;
    const SETTLES_DOWN: bool = false;

    fn drawn(random: &mut Random, _paper: bool) -> Self {
        let policy = random.pick(&[Policy::Lru, Policy::Lfu]);
        Self { options: CliqueMapOptions { policy, ..CliqueMapOptions::default() }, server_hole: None }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.options.settings(base, slots)
    }

    fn engine_area(settings: &PoolSettings) -> EngineArea {
        cliquemap::layout::engine_area(settings)
    }

    fn attendant(&self, shared: &Arc<CliqueMapPool>) -> Option<Attendant> {
        let (shared, place, hole) = (shared.clone(), Rc::new(Cell::new(None)), self.server_hole);
        Some(Box::new(move |sim, clients| {
            let (shared, place, server) = (shared.clone(), place.clone(), place.take());
            let server: Result<Server<Hesitant>, Hesitant> =
                server.ok_or_else(|| Hesitant::decided(sim.endpoint("server")));
            sim.spawn_spared("server", async move {
                let server = match server {
                    Ok(server) => Ok(server),
                    Err(endpoint) => Server::start(&shared, endpoint).await,
                };
                // The node may be lost before anything has begun.
                let Ok(mut server) = server else { return };
                open_hole!(server, hole);
                // One whose node is lost is over, and its clients find that out.
                if server.serve(|| clients.strong_count() > 0).await.is_ok() {
                    place.set(Some(server));
                }
            });
        }))
    }

    fn prepare(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}
