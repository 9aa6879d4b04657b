//! A case: a pool on the simulated fabric, and the clients that use it.
//!
//! The pools are so small that evictions, retries and conflicts happen all the time.

use crate::load::Load;
use crate::subject::{Shared, Subject};
use crate::subjects::ForgeSubject;
use atoll_cache::EnginePool;
use atoll_fabric::{Kind, RegionAttributes};
use atoll_pool::PoolSettings;
use atoll_pool::layout::{FIXED_BYTES_MOST, MEMBER_HEADER_BYTES};
use atoll_sim::history::Evictions;
use atoll_sim::sim::region;
use atoll_sim::{Distance, Random, Strategy};

/// A pool, its clients, and the simulation's options.
#[derive(Clone, Debug)]
pub struct Case<S: Subject = ForgeSubject> {
    /// The engine, and its own choices.
    pub subject: S,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Chunks of the heap that the pool is made with.
    pub chunks: u64,
    /// Memory nodes that it is made with; the chunks are spread over them.
    pub nodes: u32,
    /// Chunks of a memory node that is added at some moment of the run; 0 for none.
    pub growth_chunks: u64,
    /// Most objects of a group.
    pub group_objects_max: u32,
    /// Most objects; 0 for no limit.
    pub objects_max: u64,
    /// Slots of the index.
    pub slots: u64,
    /// Clients that play.
    pub clients: u32,
    /// What each does, if it plays no part of its own.
    pub load: Load,
    /// Operations that each client has under way at once.
    pub lanes: u64,
    /// Which evictions the history may show.
    pub evictions: Evictions,
    /// How the next step is chosen.
    pub strategy: Strategy,
    /// How far memory is from the clients.
    pub distance: Distance,
    /// A run of more steps is a livelock.
    pub steps_max: u64,
    /// How often a client may leave and come back.
    pub rejoins: usize,
    /// How long client 0 waits at most before it publishes a record.
    pub publish_delay_ns_max: u64,
    /// Whether the pool is walked afterwards; not where a test has poked what that looks at.
    pub verified: bool,
    /// The hole that is open.
    pub hole: Option<S::Hole>,
}

impl<S: Subject> Default for Case<S> {
    fn default() -> Self {
        Self {
            subject: S::default(),
            chunk_bytes: 512,
            chunks: 24,
            nodes: 1,
            growth_chunks: 0,
            group_objects_max: 6,
            objects_max: 0,
            slots: 64,
            clients: 3,
            load: Load {
                keys: 5,
                operations: 60,
                value_bytes_max: 300,
                lookups: 40,
                mixed: true,
                expiring: false,
                dropped: 0,
            },
            lanes: 1,
            evictions: Evictions::Anytime,
            strategy: Strategy::FromSeed,
            distance: Distance::FromSeed,
            steps_max: 30_000_000,
            rejoins: 0,
            publish_delay_ns_max: 0,
            verified: true,
            hole: None,
        }
    }
}

impl<S: Subject> Case<S> {
    /// A case whose every number comes from the seed.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::stream(seed, 7);
        let paper = random.below(4) == 0;
        let clients = 2 + random.below(3) as u32;
        let mut spread = Random::stream(seed, 12);
        Self {
            nodes: if S::SPREADS { spread.pick(&[1, 1, 1, 2, 3]) } else { 1 },
            growth_chunks: if S::SPREADS { spread.pick(&[0, 0, 8, 20]) } else { 0 },
            subject: S::drawn(&mut random, paper),
            chunk_bytes: random.pick(&S::CHUNK_BYTES),
            chunks: random.pick(&[18, 24, 40]),
            group_objects_max: random.pick(&[1, 2, 4, 12]),
            objects_max: random.pick(&[0, 0, 0, 4, 12]),
            slots: random.pick(&[32, 64]),
            clients,
            load: Load {
                keys: random.pick(&[1, 2, 4, 8]),
                operations: 60,
                value_bytes_max: random.pick(&[40, 200, 900]),
                lookups: random.pick(&[20, 50]),
                mixed: random.below(4) > 0,
                expiring: random.below(3) == 0,
                dropped: 0,
            },
            ..Self::default()
        }
    }

    /// The pool's settings: as much capacity as the wanted chunks and the metadata need.
    pub fn settings(&self) -> PoolSettings {
        let heap = self.chunks * u64::from(self.chunk_bytes);
        let growth_bytes_max = self.growth_chunks * u64::from(self.chunk_bytes);
        let base = PoolSettings {
            capacity_bytes: heap,
            nodes: self.nodes,
            nodes_max: self.nodes + u32::from(growth_bytes_max > 0),
            growth_bytes_max,
            chunk_bytes: self.chunk_bytes,
            clients_max: self.clients + 2,
            objects_max: self.objects_max,
            group_objects_max: self.group_objects_max,
            ..PoolSettings::for_capacity(1 << 20)
        };
        let mut settings = self.subject.settings(base, self.slots);
        let area = <Shared<S>>::engine_area(&settings);
        let metadata = area.home_bytes + FIXED_BYTES_MOST + (self.chunks + self.growth_chunks) * 32;
        let further = u64::from(self.nodes - 1);
        let member_heap = self.chunks / u64::from(self.nodes) * u64::from(self.chunk_bytes);
        let home_bytes = heap - further * member_heap + metadata + u64::from(self.clients) * 1280;
        settings.member_bytes =
            if further > 0 { (MEMBER_HEADER_BYTES + area.share_bytes + member_heap).next_multiple_of(64) } else { 0 };
        PoolSettings { capacity_bytes: home_bytes.next_multiple_of(8) + further * settings.member_bytes, ..settings }
    }

    /// Bytes of the memory node that is added.
    pub fn growth_bytes(&self) -> u64 {
        MEMBER_HEADER_BYTES + self.growth_chunks * u64::from(self.chunk_bytes)
    }

    /// The regions that a pool with these settings needs, the one of a node that will be added
    /// among them.
    pub fn regions(&self, settings: &PoolSettings) -> Vec<Vec<RegionAttributes>> {
        let further = (1..self.nodes).map(|_| settings.member_bytes);
        let added = (self.growth_chunks > 0).then(|| self.growth_bytes());
        let bytes = std::iter::once(settings.home_bytes()).chain(further).chain(added);
        bytes.map(|bytes| vec![region(bytes, Kind::Host)]).collect()
    }
}
