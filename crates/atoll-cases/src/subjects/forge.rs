//! The engine `forge` under test.

use crate::endpoint::CaseEndpoint;
use crate::engine::Simulated;
use crate::forge_words::ForgePoolWords;
use crate::subject::{Shared, Subject};
use atoll_baselines::forge_ablations::{AblatedForge, Variant};
use atoll_cache::Pooled;
use atoll_cache::engines::EngineChoices;
use atoll_cache::forge::{self, Forge, ForgeKind, ForgeOptions, Rule, Technique};
use atoll_fabric::{Address, Endpoint, Kind, RegionAttributes};
use atoll_pool::PoolSettings;
use atoll_sim::sim::region;
use atoll_sim::{Random, Sim};
use std::sync::Arc;

/// The engine `forge`.
#[derive(Clone, Debug, Default)]
pub struct ForgeSubject {
    /// Its options.
    pub options: ForgeOptions,
    /// Log2 of the nodes of a ring; `None` derives it from the chunks.
    pub ring_log2: Option<u32>,
    /// The position of both cursors of both rings when the first client joins.
    pub ring_position: u32,
    /// Whether the index grows as soon as a bucket has an object.
    pub growing: bool,
    /// Whether no client caches addresses or misses. Otherwise every other client does.
    pub without_address_cache: bool,
}

/// The region beside the pool that variants of `forge` use.
const AREA: Address = Address::new(0, 1, 0);
/// Memory of an address cache of two sets, so small that keys replace each other.
const ADDRESS_CACHE_BYTES: usize = 2 * 96;

impl Simulated for ForgeKind {
    type Subject = ForgeSubject;
}

impl Subject for ForgeSubject {
    const NAME: &'static str = ForgeOptions::ENGINE.name;
    type Hole = forge::Hole;
    type Engine = Forge<CaseEndpoint>;
    const CHUNK_BYTES: [u32; 3] = [256, 512, 1024];

    fn drawn(random: &mut Random, paper: bool) -> Self {
        let options = if paper { ForgeOptions::paper() } else { ForgeOptions::default() };
        let small_percent = random.pick(&[10, 20, 50]);
        // Clients that choose their rule do not look at the share.
        let rule = if options.rule == Rule::Chosen && small_percent != 10 { Rule::Object } else { options.rule };
        let options = ForgeOptions { small_percent, rule, ..options };
        // Of a copy, so that the other choices are the same as without it.
        let growing = random.clone().below(2) == 0;
        Self { options, growing, ..Self::default() }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        let mut settings = match self.growing {
            true => self.options.growing(base, slots),
            false => self.options.settings(base, slots),
        };
        if let Some(ring_log2) = self.ring_log2 {
            settings.engine_settings[0] &= !(0xff << 32);
            settings.engine_settings[0] |= u64::from(ring_log2) << 32;
        }
        settings
    }

    fn prepare_pool(&self, sim: &Sim, shared: &Arc<Shared<Self>>) {
        if self.ring_position != 0 {
            ForgePoolWords { pool: shared.clone() }.turn_rings(sim, self.ring_position);
        }
    }

    fn without_address_cache(self) -> Self {
        Self { without_address_cache: true, ..self }
    }

    fn caches_no_addresses(&self) -> bool {
        self.without_address_cache
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        self.configure_client(engine, hole);
    }
}

impl ForgeSubject {
    /// Configures a client of the engine, or of one of its ablations.
    fn configure_client<T: Technique<CaseEndpoint>>(
        &self,
        engine: &mut Forge<CaseEndpoint, T>,
        hole: Option<forge::Hole>,
    ) {
        configure_forge(engine, self.without_address_cache, hole);
        if self.growing {
            engine.set_index_load_max(0);
        }
    }
}

/// Configures a client of any form of `forge`.
pub(super) fn configure_forge<T: Technique<CaseEndpoint>>(
    engine: &mut Forge<CaseEndpoint, T>,
    without_address_cache: bool,
    hole: Option<forge::Hole>,
) {
    // Where memory is near every other client caches addresses too, unless memory is given back to
    // the host.
    let is_every_other = !engine.client().endpoint.identity().bits().is_multiple_of(2);
    let remembers = !without_address_cache && (!engine.client().endpoint.is_near() || is_every_other);
    engine.set_address_cache(if remembers { ADDRESS_CACHE_BYTES } else { 0 });
    engine.set_absence_memory(remembers);
    open_hole!(engine, hole);
}

/// The engine `forge` without single techniques.
#[derive(Clone, Debug, Default)]
pub struct AblatedSubject {
    /// The engine's own choices.
    pub forge: ForgeSubject,
    /// The techniques that all clients do without.
    pub variant: Variant,
}

impl Subject for AblatedSubject {
    const NAME: &'static str = ForgeSubject::NAME;
    type Hole = forge::Hole;
    type Engine = AblatedForge<CaseEndpoint>;
    const CHUNK_BYTES: [u32; 3] = ForgeSubject::CHUNK_BYTES;

    fn drawn(random: &mut Random, paper: bool) -> Self {
        Self { forge: ForgeSubject::drawn(random, paper), ..Self::default() }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.forge.settings(base, slots)
    }

    fn further_region(&self, settings: &PoolSettings) -> Result<Option<RegionAttributes>, String> {
        let bytes = Variant::area_bytes(settings).map_err(|error| error.to_string())?;
        Ok(Some(region(bytes, Kind::Host)))
    }

    fn without_address_cache(self) -> Self {
        Self { forge: self.forge.without_address_cache(), ..self }
    }

    fn caches_no_addresses(&self) -> bool {
        self.forge.caches_no_addresses()
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        engine.technique_mut().set(self.variant, AREA);
        self.forge.configure_client(engine, hole);
    }
}
