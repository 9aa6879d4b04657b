//! A pool of shared memory as one process has it open.

use crate::Cache;
use atoll_cache::CacheError;
use atoll_cache::forge::repair::Repaired;
use atoll_cache::forge::verify::Report;
use atoll_cache::forge::{Forge, ForgeOptions, ForgePool};
use atoll_fabric::region::Region;
use atoll_fabric::shm::{ProcessState, RegionLock, ShmEndpoint, ShmError, ShmNodes, ShmRegion};
use atoll_fabric::{Address, Clock, run_ready};
use atoll_pool::boot::{self, Found};
use atoll_pool::chunks::Descriptor;
use atoll_pool::header::{CAPACITY_BYTES_MAX, NODES_MAX_DEFAULT};
use atoll_pool::registry::{Place, Roll};
use atoll_pool::{ChunkId, ChunkState, Incarnation, PlaceState, PoolError, PoolSettings, chunks, nodes, registry};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a pool could not be made, opened or joined.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The shared memory.
    #[error(transparent)]
    Region(#[from] ShmError),
    /// What is in it.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Why a pool could not be repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// No client could be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The repair itself.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Why a pool could not be given more memory. It is what it was.
#[derive(Debug, thiserror::Error)]
pub enum GrowError {
    /// No client could be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What clients that died left behind could not be looked after first.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl From<ShmError> for GrowError {
    fn from(error: ShmError) -> Self {
        Self::Open(error.into())
    }
}

impl From<PoolError> for GrowError {
    fn from(error: PoolError) -> Self {
        Self::Open(error.into())
    }
}

/// A killed process that is not dead after this time hangs in the kernel.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// What a new pool is to be like.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    capacity_bytes: u64,
    capacity_bytes_max: Option<u64>,
    nodes: u32,
    nodes_max: Option<u32>,
    clients_max: Option<u32>,
    forge: ForgeOptions,
}

impl Default for PoolOptions {
    /// 1 GiB on one memory node, the default engine settings.
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            capacity_bytes_max: None,
            nodes: 1,
            nodes_max: None,
            clients_max: None,
            forge: ForgeOptions::default(),
        }
    }
}

impl PoolOptions {
    /// Bytes of the whole pool, metadata included; the hard limit until it [grows](Pool::grow).
    pub fn capacity_bytes(self, capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..self }
    }

    /// The most bytes to which the pool may ever grow: the index and all tables are made for them. By default what it is made with, so that a pool that
    /// never grows pays nothing.
    pub fn capacity_bytes_max(self, capacity_bytes_max: u64) -> Self {
        Self { capacity_bytes_max: Some(capacity_bytes_max), ..self }
    }

    /// Memory nodes that the capacity is spread over, each a region of its own. By default 1.
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// Most memory nodes, those that will be added among them: up to 64. By default 16 in a pool that may grow.
    pub fn nodes_max(self, nodes_max: u32) -> Self {
        Self { nodes_max: Some(nodes_max), ..self }
    }

    /// Most clients (threads) at a time. By default 64, fewer in pools below 2 MiB.
    pub fn clients_max(self, clients_max: u32) -> Self {
        Self { clients_max: Some(clients_max), ..self }
    }

    /// Expected bytes of an object with its key, by which the index is sized (default 288). Objects much smaller than that fill the index
    /// before the memory.
    pub fn object_bytes_mean(mut self, bytes: u32) -> Self {
        self.forge.object_bytes_mean = bytes.saturating_add(atoll_cache::forge::object::HEADER_BYTES as u32);
        self
    }

    /// The engine's own choices.
    pub fn forge(self, forge: ForgeOptions) -> Self {
        Self { forge, ..self }
    }

    /// What the header will say, checked.
    fn settings(&self) -> Result<PoolSettings, PoolError> {
        // Beyond what is possible the check says so; nothing is computed from it before.
        let capacity_bytes_max = self.capacity_bytes_max.unwrap_or(self.capacity_bytes);
        let Some(growth_bytes_max) = capacity_bytes_max.checked_sub(self.capacity_bytes) else {
            let wanted = format!("at least the capacity, {}", self.capacity_bytes);
            return Err(PoolError::Setting { what: "the most bytes", found: capacity_bytes_max, wanted });
        };
        let bytes_max = u64::from(atoll_pool::header::NODES_MAX) * CAPACITY_BYTES_MAX;
        if capacity_bytes_max > bytes_max {
            let wanted = format!("at most {bytes_max}");
            return Err(PoolError::Setting { what: "the most bytes", found: capacity_bytes_max, wanted });
        }
        let mut settings = self.forge.for_growth(self.capacity_bytes, growth_bytes_max);
        settings.clients_max = self.clients_max.unwrap_or(settings.clients_max);
        if self.nodes > 0 {
            settings = settings.spread(self.nodes);
        }
        let nodes_max =
            if growth_bytes_max > 0 { NODES_MAX_DEFAULT.max(self.nodes.saturating_add(1)) } else { self.nodes };
        (settings.nodes, settings.nodes_max) = (self.nodes, self.nodes_max.unwrap_or(nodes_max));
        settings.check()?;
        Ok(settings)
    }
}

/// What `pool info` tells.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// What the pool was made with: name and value.
    pub settings: Vec<(&'static str, String)>,
    /// Objects in it.
    pub objects: u64,
    /// Free chunks, of all.
    pub chunks_free: u64,
    /// All chunks.
    pub chunks: u64,
    /// The memory nodes that they are on, the pool's home first.
    pub nodes: Vec<NodeInfo>,
    /// The clients, and those that died and are not repaired yet.
    pub clients: Vec<ClientInfo>,
    /// Bytes of chunks that belong to clients which do not run, and may be reused only once those are dead and repaired.
    pub quarantined_bytes: u64,
}

/// A memory node of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its number; 0 is the pool's home.
    pub number: u8,
    /// The name of its region; `None` for a pool of this process alone.
    pub region: Option<String>,
    /// Bytes of its region.
    pub bytes: u64,
    /// Its chunks.
    pub chunks: u64,
    /// Those of them that are free.
    pub chunks_free: u64,
}

/// What can be seen of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// Its process runs.
    Running,
    /// Its process is stopped: a suspect that may be resumed, or killed ([`Pool::kill_stopped`]).
    Stopped,
    /// Its process is dead, or its thread has panicked; what it held is not all reclaimed yet.
    Dead,
    /// Its process is of another pid namespace or of another user, so that nobody here can tell whether it is dead.
    NotVisible,
    /// It is about to join.
    Joining,
}

impl fmt::Display for ClientState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Dead => "dead",
            Self::NotVisible => "not visible",
            Self::Joining => "joining",
        })
    }
}

/// A client of a pool, as another one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// Its place in the registry, and how often that was taken.
    pub incarnation: Incarnation,
    /// Its process, if that is known.
    pub pid: Option<u32>,
    /// What can be seen of it.
    pub state: ClientState,
}

impl ClientInfo {
    /// `None` for a place that is nobody's.
    fn of(place: &Place) -> Option<Self> {
        let state = match (place.state, place.identity) {
            (PlaceState::Free, _) => return None,
            (PlaceState::Fenced, _) => ClientState::Dead,
            (PlaceState::Joining, _) => ClientState::Joining,
            (PlaceState::Taken, None) => ClientState::NotVisible,
            (PlaceState::Taken, Some(identity)) => match ShmEndpoint::process_state(identity) {
                ProcessState::Running => ClientState::Running,
                ProcessState::Stopped => ClientState::Stopped,
                ProcessState::Dead => ClientState::Dead,
                ProcessState::NotVisible => ClientState::NotVisible,
            },
        };
        let pid = place.identity.and_then(|identity| u32::try_from(identity.0[0]).ok());
        Some(Self { incarnation: place.incarnation, pid, state })
    }
}

/// A pool that this process has open. Cheap to clone; threads share it and take clients of their own.
#[derive(Clone)]
pub struct Pool(Arc<Opened>);

/// What all handles and clients of one process share.
struct Opened {
    /// The home.
    region: Arc<ShmRegion>,
    /// The other nodes.
    nodes: Arc<ShmNodes>,
    forge: Arc<ForgePool>,
    clock: Clock,
    reformatted: bool,
}

impl Opened {
    fn endpoint(&self) -> ShmEndpoint {
        endpoint(&self.region, &self.nodes, &self.clock)
    }

    /// Brings everything to the disk, the home last.
    fn sync(&self) -> Result<(), ShmError> {
        self.nodes.mapped().try_for_each(|(_, region)| region.sync())?;
        self.region.sync()
    }

    /// Joins, and makes sure that a pool which had been closed is known not to be before anything else changes.
    fn join(&self) -> Result<Forge<ShmEndpoint>, OpenError> {
        let forge = run_ready(Forge::join(&self.forge, self.endpoint()))?;
        let layout = &self.forge.pool().layout;
        if run_ready(boot::count_join(forge.endpoint(), layout)).map_err(PoolError::Verb)? {
            self.sync()?;
        }
        Ok(forge)
    }

    /// Closes the pool if nobody is in it: then it goes on after a reboot.
    fn close(&self) -> Result<(), OpenError> {
        let (endpoint, pool) = (self.endpoint(), self.forge.pool());
        let closing = || run_ready(boot::closing(&endpoint, pool)).map_err(PoolError::Verb);
        if closing()?.is_none() {
            return Ok(());
        }
        // One that joins alone counts anew what the dead left miscounted.
        drop(run_ready(Forge::join(&self.forge, self.endpoint()))?);
        if let Some(word) = closing()? {
            self.sync()?;
            if run_ready(boot::close(&endpoint, &pool.layout, word)).map_err(PoolError::Verb)? {
                self.sync()?;
            }
        }
        Ok(())
    }
}

fn endpoint(home: &Arc<ShmRegion>, nodes: &Arc<ShmNodes>, clock: &Clock) -> ShmEndpoint {
    ShmEndpoint::with_regions(vec![home.clone()], clock.clone()).with_nodes(nodes.clone())
}

/// The nodes of a pool whose home is `name`, none of them mapped yet.
fn nodes_of(name: Option<&str>) -> Arc<ShmNodes> {
    Arc::new(match name {
        Some(name) => ShmNodes::named(name),
        None => ShmNodes::new(|_| Err(ShmError::Absent("a memory node of another process".to_owned()))),
    })
}

/// The region of a node that this process makes, and which nobody else may be making. What another left there that died at it goes.
fn make_node(home: Option<&str>, node: u8, bytes: u64) -> Result<ShmRegion, ShmError> {
    let Some(home) = home else { return ShmRegion::anonymous(bytes) };
    let name = ShmNodes::name(home, node);
    remove_node(&name)?;
    ShmRegion::create(&name, bytes)
}

/// Removes the region of a node, if that is what has this name; whether it was there.
fn remove_node(name: &str) -> Result<bool, ShmError> {
    let region = match ShmRegion::open(name) {
        Err(ShmError::Absent(_)) => return Ok(false),
        // Its maker had not come to giving it a size.
        Err(ShmError::BadSize { bytes: 0, .. }) => return ShmRegion::remove(name).map(|()| true),
        region => Arc::new(region?),
    };
    let first = run_ready(atoll_pool::read_word(&ShmEndpoint::new(region), Address::new(0, 0, 0)));
    match first {
        Ok(word) if nodes::is_member_or_empty(word) => ShmRegion::remove(name).map(|()| true),
        _ => Err(ShmError::Exists(name.to_owned())),
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.region.name().is_some() {
            // A pool that cannot be closed is made anew after a reboot, as after a crash.
            let _ = self.close();
        }
    }
}

impl Pool {
    /// A pool of this process alone.
    pub fn anonymous(options: &PoolOptions) -> Result<Self, OpenError> {
        // Settings that are not possible are told before any memory is taken.
        let settings = options.settings()?;
        Self::format(ShmRegion::anonymous(settings.home_bytes())?, settings)
    }

    /// A new pool that other processes can open: `shm:/NAME`, which stays until it is removed or the host reboots; or the path of a file, which
    /// stays until it is removed. Memory nodes besides the first are regions with `+1`, `+2` and so on behind that.
    ///
    /// A process that dies while it makes a pool leaves names that hold no pool; [`Pool::remove`] removes them.
    pub fn create(name: &str, options: &PoolOptions) -> Result<Self, OpenError> {
        let settings = options.settings()?;
        if name.starts_with("shm:") && name.contains('+') {
            return Err(ShmError::BadName(name.to_owned()).into());
        }
        // Whoever makes the home alone makes the other nodes.
        let home = ShmRegion::create(name, settings.home_bytes())?;
        let pool = Self::format(home, settings);
        if pool.is_err() {
            Self::remove(name)?;
        }
        pool
    }

    fn format(region: ShmRegion, settings: PoolSettings) -> Result<Self, OpenError> {
        let (region, clock) = (Arc::new(region), Clock::host());
        let nodes = nodes_of(region.name());
        for node in 1..settings.nodes as u8 {
            let made = Arc::new(make_node(region.name(), node, settings.member_bytes)?);
            nodes.insert(node, made).expect("nobody else knows of these nodes");
        }
        let forge = run_ready(ForgePool::format(&endpoint(&region, &nodes, &clock), settings))?;
        Ok(Self(Arc::new(Opened { region, nodes, forge, clock, reformatted: false })))
    }

    /// Opens a pool that somebody created.
    ///
    /// A file that was formatted before the host was rebooted goes on if everybody had left it; else nobody knows how much of it reached the
    /// disk, and it is made anew with the same settings: see [`Pool::was_reformatted`].
    pub fn open(name: &str) -> Result<Self, OpenError> {
        let this_boot = atoll_fabric::shm::boot();
        // Whoever makes a pool anew is alone with it.
        let lock = RegionLock::shared(name)?;
        let (region, nodes, clock) = (Arc::new(ShmRegion::open(name)?), nodes_of(Some(name)), Clock::host());
        let endpoint = endpoint(&region, &nodes, &clock);
        let forge = run_ready(ForgePool::open(&endpoint, region.attributes().bytes))?;
        drop(lock);
        let mut found = Found::Present;
        if !run_ready(boot::is_present(&endpoint, this_boot)).map_err(PoolError::Verb)? {
            let _lock = RegionLock::alone(name)?;
            found = run_ready(boot::take_over(&endpoint, forge.pool(), this_boot))?;
        }
        Ok(Self(Arc::new(Opened { region, nodes, forge, clock, reformatted: found == Found::Reformatted })))
    }

    /// Whether opening it found it in use before a reboot, and emptied it.
    pub fn was_reformatted(&self) -> bool {
        self.0.reformatted
    }

    /// Removes a pool's names. Processes that have it open keep using its memory until they close it.
    pub fn remove(name: &str) -> Result<(), OpenError> {
        // The home last: whoever dies in between leaves something that can be removed by its name.
        let mut removed = false;
        for node in 1..atoll_pool::header::NODES_MAX as u8 {
            match remove_node(&ShmNodes::name(name, node)) {
                Ok(was_there) => removed |= was_there,
                // A name like that which is somebody else's, or no name at all.
                Err(ShmError::Exists(_) | ShmError::BadSize { .. } | ShmError::BadName(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match ShmRegion::remove(name) {
            Err(ShmError::Absent(_)) if removed => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// Adds a memory node of at most so many bytes, while others use the pool; gives the node. They begin to use it as they come to look for room, within a
    /// tenth of a second. Dies the process meanwhile, the pool is what it was, or has the node; what is left of a region goes with the next call,
    /// or with the pool.
    pub fn grow(&self, bytes: u64) -> Result<NodeInfo, GrowError> {
        let mut forge = self.0.join()?;
        // One that died while it added a node still has its claim until it is known to be dead.
        run_ready(forge.repair())?;
        let (pool, me) = (self.0.forge.pool(), forge.me());
        let claim = run_ready(nodes::claim(forge.endpoint(), pool, me, bytes))?;
        if let Err(error) = self.add_node(forge.endpoint(), &claim) {
            run_ready(claim.release(forge.endpoint(), pool)).map_err(PoolError::Verb)?;
            return Err(error);
        }
        run_ready(forge.leave())?;
        let number = claim.node;
        let region = self.name().map(|home| ShmNodes::name(home, number));
        let chunks = claim.chunks.into();
        Ok(NodeInfo { number, region, bytes: claim.bytes, chunks, chunks_free: chunks })
    }

    fn add_node(&self, forge: &ShmEndpoint, claim: &nodes::Claim) -> Result<(), GrowError> {
        let (home, pool) = (self.name(), self.0.forge.pool());
        let region = Arc::new(make_node(home, claim.node, claim.bytes)?);
        let prepared = || -> Result<u32, GrowError> {
            // By an endpoint that has this region alone: should this fail, the process has no mapping of a region that nobody has.
            let alone = nodes_of(None);
            alone.insert(claim.node, region.clone()).expect("it has no node yet");
            let identity = run_ready(claim.prepare(&endpoint(&self.0.region, &alone, &self.0.clock), pool))?;
            // On a disk, what the home names is there before the home names it.
            region.sync()?;
            Ok(identity)
        };
        let identity = prepared().inspect_err(|_| {
            if let Some(home) = home {
                let _ = ShmRegion::remove(&ShmNodes::name(home, claim.node));
            }
        })?;
        // Threads of this process that learn of the node find it mapped.
        let _ = self.0.nodes.insert(claim.node, region.clone());
        run_ready(claim.publish(forge, pool, identity))?;
        self.0.region.sync()?;
        Ok(())
    }

    fn endpoint(&self) -> ShmEndpoint {
        self.0.endpoint()
    }

    /// A new client, for one thread.
    pub fn client(&self) -> Result<Cache, OpenError> {
        Ok(Cache::new(atoll_cache::Cache::new(self.0.join()?), self.clone()))
    }

    /// Bytes of the whole pool, with the memory nodes that this process knows of.
    pub fn capacity_bytes(&self) -> u64 {
        self.0.forge.pool().capacity_bytes()
    }

    /// Bytes of chunks that are in use, and of the metadata.
    pub fn used_bytes(&self) -> u64 {
        let layout = &self.0.forge.pool().layout;
        let free = run_ready(chunks::free_chunks(&self.endpoint(), layout)).unwrap_or(0);
        self.capacity_bytes() - free.min(layout.chunks().into()) * layout.chunk_bytes
    }

    /// The name under which other processes open it.
    pub fn name(&self) -> Option<&str> {
        self.0.region.name()
    }

    /// What the pool was made with: name and value.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.0.forge.describe_settings()
    }

    /// Who uses it, and how full it is.
    pub fn info(&self) -> Result<PoolInfo, CacheError> {
        let (endpoint, pool) = (self.endpoint(), self.0.forge.pool());
        // A region that cannot be had shows itself to whoever uses it.
        let _ = run_ready(nodes::learn(&endpoint, pool));
        let clients = run_ready(registry::places(&endpoint, pool))?.iter().filter_map(ClientInfo::of).collect();
        let all = pool.layout.chunks();
        let descriptors = run_ready(chunks::descriptors(&endpoint, &pool.layout, ChunkId(0), all))?;
        let quarantined_bytes = self.quarantined_bytes(&endpoint, &descriptors)?;
        Ok(PoolInfo {
            settings: self.settings(),
            objects: run_ready(registry::objects(&endpoint, pool))?,
            chunks_free: run_ready(chunks::free_chunks(&endpoint, &pool.layout))?,
            chunks: all.into(),
            nodes: self.nodes(&descriptors),
            clients,
            quarantined_bytes,
        })
    }

    fn nodes(&self, descriptors: &[Descriptor]) -> Vec<NodeInfo> {
        let layout = &self.0.forge.pool().layout;
        let is_free = |descriptor: &&Descriptor| descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Free);
        let node = |number: u8| {
            let chunks = layout.chunks_of(number)?;
            let of_node = descriptors.get(chunks.start as usize..chunks.end as usize)?;
            let region = if number == 0 { &self.0.region } else { self.0.nodes.region(number)? };
            Some(NodeInfo {
                number,
                region: region.name().map(str::to_owned),
                bytes: region.attributes().bytes,
                chunks: chunks.len() as u64,
                chunks_free: of_node.iter().filter(is_free).count() as u64,
            })
        };
        (0..layout.nodes_known()).filter_map(node).collect()
    }

    /// Bytes of chunks whose owners do not run.
    fn quarantined_bytes(&self, endpoint: &ShmEndpoint, descriptors: &[Descriptor]) -> Result<u64, CacheError> {
        let pool = self.0.forge.pool();
        // Looked at after the chunks: an owner that is not there now is not alive.
        let running: Vec<Place> = run_ready(registry::places(endpoint, pool))?
            .into_iter()
            .filter(|place| {
                let state = ClientInfo::of(place).map(|client| client.state);
                matches!(state, Some(ClientState::Running | ClientState::Joining))
            })
            .collect();
        let roll = Roll::of(&running);
        let owned = descriptors.iter().filter_map(|descriptor| descriptor.chunk).filter(|chunk| {
            matches!(chunk.state, ChunkState::Open | ChunkState::Leaving | ChunkState::Extent)
                && !roll.has(chunk.owner_slot, chunk.owner_epoch)
        });
        Ok(owned.count() as u64 * pool.layout.chunk_bytes)
    }

    /// Reclaims now what clients that died held; clients that run do it by themselves.
    pub fn repair(&self) -> Result<Repaired, RepairError> {
        let mut forge = self.0.join()?;
        let repaired = run_ready(forge.repair())?;
        run_ready(forge.leave())?;
        Ok(repaired)
    }

    /// Kills the processes of clients that are stopped, if this user may, and waits until they are dead; how many clients they had. What they held is then
    /// reclaimed by whoever looks.
    pub fn kill_stopped(&self) -> Result<u64, CacheError> {
        let places = run_ready(registry::places(&self.endpoint(), self.0.forge.pool()))?;
        let is_stopped =
            |place: &Place| ClientInfo::of(place).is_some_and(|client| client.state == ClientState::Stopped);
        let stopped: Vec<_> =
            places.iter().filter(|place| is_stopped(place)).filter_map(|place| place.identity).collect();
        let killed: Vec<_> = stopped.into_iter().filter(|who| ShmEndpoint::kill(*who)).collect();
        let deadline = Instant::now() + DEATH_PATIENCE;
        let is_dead = |who| ShmEndpoint::process_state(who) == ProcessState::Dead;
        while !killed.iter().all(|who| is_dead(*who)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(killed.len() as u64)
    }

    /// Walks every invariant of the pool and says what is wrong. Nobody may use the pool meanwhile.
    pub fn verify(&self) -> Result<Report, CacheError> {
        run_ready(Forge::auditor(&self.0.forge, self.endpoint()).verify())
    }
}
