//! A pool of shared memory as one process has it open.

mod nodes;
mod options;
mod provider;
mod removal;
mod resize;

pub use nodes::{GrowError, NodeInfo};
pub use options::PoolOptions;
pub(crate) use removal::shown_processes;
pub use removal::{RemoveError, Removed};
pub use resize::{CHUNKS_LEAST, ResizeError, Resized};

use self::nodes::{endpoint, make_node, nodes_of};
use self::provider::{Provider, START_BYTES};
use crate::Cache;
use atoll_cache::audit::Audit;
use atoll_cache::experts::ExpertSet;
use atoll_cache::{CacheError, Chosen, ChosenPool, EngineId};
use atoll_fabric::region::Region;
use atoll_fabric::shm::host::Room;
use atoll_fabric::shm::{Holders, ProcessState, RegionLock, ShmEndpoint, ShmError, ShmNodes, ShmRegion};
use atoll_fabric::{Clock, Endpoint, Identity, Origin, run_ready};
use atoll_pool::boot::{self, Verdict};
use atoll_pool::chunks::Descriptor;
use atoll_pool::registry::{Place, Roll};
use atoll_pool::{
    ChunkId, ChunkState, Incarnation, PlaceState, PoolClock, PoolError, PoolSettings, Repaired, chunks, registry,
};
use std::collections::BTreeMap;
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

/// A killed process that is not dead after this time hangs in the kernel.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// What `pool info` tells.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// What the pool was made with: name and value.
    pub settings: Vec<(&'static str, String)>,
    /// Objects in it.
    pub objects: u64,
    /// The pool's time, by which objects expire, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
    /// How far this host's wall clock is ahead of the pool's time, in milliseconds; negative if it
    /// is behind.
    pub wall_clock_ahead_ms: i64,
    /// Free chunks, of all.
    pub chunks_free: u64,
    /// All chunks.
    pub chunks: u64,
    /// Bytes of the whole pool.
    pub capacity_bytes: u64,
    /// Those whose memory is there: see [`Pool::provided_bytes`].
    pub provided_bytes: u64,
    /// Those that are out of use, because the pool was made smaller.
    pub chunks_retired: u64,
    /// Of those, the ones whose memory the host does not have back yet: see
    /// [`Resized::held_bytes`].
    pub chunks_undiscarded: u64,
    /// The memory nodes that they are on, the pool's home first.
    pub nodes: Vec<NodeInfo>,
    /// The clients, and those that died and are not repaired yet.
    pub clients: Vec<ClientInfo>,
    /// Bytes of chunks that belong to clients which do not run, and may be reused only once those
    /// are dead and repaired.
    pub quarantined_bytes: u64,
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
    /// Its process is alive, but not shown by this one's `/proc`: it is in a container, or another
    /// user's. It may run or be stopped.
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
    /// Its process: by the pid that it has here, or else by the one that it has in its own
    /// namespace.
    pub pid: Option<u32>,
    /// What can be seen of it.
    pub state: ClientState,
}

impl ClientInfo {
    /// `None` for a place that is nobody's.
    fn of(place: &Place, origin: Option<Origin>, region: &ShmRegion, holders: &Holders) -> Option<Self> {
        let state = match (place.state, region.process_state(place.identity, holders)) {
            (PlaceState::Free, _) => return None,
            (PlaceState::Fenced, _) | (_, ProcessState::Dead) => ClientState::Dead,
            (_, ProcessState::Stopped) => ClientState::Stopped,
            (PlaceState::Joining, _) => ClientState::Joining,
            (_, ProcessState::Running) => ClientState::Running,
            (_, ProcessState::NotVisible) => ClientState::NotVisible,
        };
        let pid = holders.pid(place.identity).or(origin.map(|origin| origin.pid));
        Some(Self { incarnation: place.incarnation, pid, state })
    }
}

/// A pool that this process has open. Cheap to clone; threads share it and take clients of their
/// own.
#[derive(Clone)]
pub struct Pool(Arc<Opened>);

/// What all handles and clients of one process share.
struct Opened {
    /// The home.
    region: Arc<ShmRegion>,
    /// The other nodes.
    nodes: Arc<ShmNodes>,
    chosen: ChosenPool,
    clock: Clock,
    reformatted: bool,
    provider: Provider,
}

impl Opened {
    fn open(name: &str, region: ShmRegion) -> Result<Self, OpenError> {
        let (region, nodes, clock) = (Arc::new(region), nodes_of(Some(name)), Clock::host());
        let bytes = region.attributes().bytes;
        let chosen = run_ready(ChosenPool::open(&endpoint(&region, &nodes, &clock), bytes))?;
        Ok(Self { region, nodes, chosen, clock, reformatted: false, provider: Provider::default() })
    }

    fn endpoint(&self) -> ShmEndpoint {
        endpoint(&self.region, &self.nodes, &self.clock)
    }

    /// Brings everything to the disk, the home last.
    fn sync(&self) -> Result<(), ShmError> {
        self.nodes.mapped().try_for_each(|(_, region)| region.sync())?;
        self.region.sync()
    }

    /// Joins, and makes sure that a pool which had been closed is known not to be before anything
    /// else changes.
    fn join(&self) -> Result<Chosen<ShmEndpoint>, OpenError> {
        let client = run_ready(self.chosen.join(self.endpoint()))?;
        let layout = &self.chosen.pool().layout;
        if run_ready(boot::count_join(&client.client().endpoint, layout)).map_err(PoolError::Verb)? {
            self.sync()?;
        }
        Ok(client)
    }

    /// Closes the pool if nobody is in it: then it goes on after a reboot.
    fn close(&self) -> Result<(), OpenError> {
        let (endpoint, pool) = (self.endpoint(), self.chosen.pool());
        let closing = || run_ready(boot::closing(&endpoint, pool)).map_err(PoolError::Verb);
        if closing()?.is_none() {
            return Ok(());
        }
        // One that joins alone counts anew what the dead left miscounted.
        drop(run_ready(self.chosen.join(self.endpoint()))?);
        if let Some(word) = closing()? {
            self.sync()?;
            if run_ready(boot::close(&endpoint, &pool.layout, word)).map_err(PoolError::Verb)? {
                self.sync()?;
            }
        }
        Ok(())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.provider = Provider::default();
        if self.region.name().is_some() {
            // A pool that cannot be closed is made anew after a reboot, as after a crash.
            let _ = self.close();
        }
    }
}

/// An error if the host has no room for all regions of a new pool together.
fn check_room(name: Option<&str>, settings: &PoolSettings) -> Result<(), ShmError> {
    match Room::of_region(name) {
        Some(room) if room.usable_bytes() < settings.capacity_bytes => Err(ShmError::NoRoom {
            name: name.unwrap_or("a pool of this process").to_owned(),
            bytes: settings.capacity_bytes,
            why: room.to_string(),
        }),
        _ => Ok(()),
    }
}

impl Pool {
    /// A pool of this process alone. It can be used at once: see [`Pool::provided_bytes`].
    pub fn anonymous(options: &PoolOptions) -> Result<Self, OpenError> {
        // Settings that are not possible are told before any memory is taken.
        let settings = options.settings()?;
        check_room(None, &settings)?;
        Self::format(ShmRegion::anonymous_sparse(settings.home_bytes(), START_BYTES)?, settings)
    }

    /// A new pool that other processes can open, at once (see [`Pool::provided_bytes`]):
    /// `shm:/NAME`, which stays until it is removed or the host reboots; or the path of a file,
    /// which stays until it is removed. Memory nodes besides the first are regions with `+1`, `+2`
    /// and so on behind that.
    ///
    /// A process that dies while it makes a pool leaves names that hold no pool;
    /// [`Pool::remove_by_force`] removes them.
    pub fn create(name: &str, options: &PoolOptions) -> Result<Self, OpenError> {
        let settings = options.settings()?;
        if name.starts_with("shm:") && name.contains('+') {
            return Err(ShmError::BadName(name.to_owned()).into());
        }
        // Whoever makes the home alone makes the other nodes.
        check_room(Some(name), &settings)?;
        let home = ShmRegion::create_sparse(name, settings.home_bytes(), START_BYTES)?;
        let pool = Self::format(home, settings);
        if pool.is_err() {
            // What cannot be removed is told by the next that wants the name.
            let _ = Self::remove_by_force(name);
        }
        pool
    }

    fn format(region: ShmRegion, settings: PoolSettings) -> Result<Self, OpenError> {
        let (region, clock) = (Arc::new(region), Clock::host());
        let nodes = nodes_of(region.name());
        for node in 1..settings.nodes as u8 {
            let made = Arc::new(make_node(region.name(), node, settings.member_bytes, 0)?);
            nodes.insert(node, made).expect("nobody else knows of these nodes");
        }
        let chosen = run_ready(ChosenPool::format(&endpoint(&region, &nodes, &clock), settings))?;
        Self::opened(Opened { region, nodes, chosen, clock, reformatted: false, provider: Provider::default() })
    }

    /// Opens a pool that exists; the engine is the one that it was created with.
    ///
    /// A file on a disk that was formatted before the host was restarted goes on if all clients had
    /// left it. Else it is unknown how much of it reached the disk, and it is made anew with the
    /// same settings: see [`Pool::was_reformatted`]. A pool that another process has open is never
    /// made anew, nor is one in memory: see [`boot::judge`].
    pub fn open(name: &str) -> Result<Self, OpenError> {
        let this_boot = atoll_fabric::shm::boot();
        let lock = RegionLock::shared(name)?;
        let opened = Opened::open(name, ShmRegion::open_sparse(name)?)?;
        let is_volatile = opened.region.is_volatile();
        let (endpoint, layout) = (opened.endpoint(), &opened.chosen.pool().layout);
        let looked = boot::look(&endpoint, layout, this_boot, is_volatile, false);
        let verdict = run_ready(looked).map_err(PoolError::Verb)?;
        if is_volatile || verdict == Verdict::GoesOn {
            run_ready(boot::settle(&endpoint, opened.chosen.pool(), this_boot, is_volatile, verdict))?;
            drop(endpoint);
            return Self::opened(opened);
        }
        drop((endpoint, opened, lock));
        Self::open_after_boot(name, this_boot)
    }

    /// Opens a file that may be from before a restart of the host, while no other process opens it.
    fn open_after_boot(name: &str, this_boot: Option<u64>) -> Result<Self, OpenError> {
        let _lock = RegionLock::alone(name)?;
        let (region, is_shared) = match ShmRegion::open_alone(name)? {
            Some(region) => (region, false),
            None => (ShmRegion::open_sparse(name)?, true),
        };
        let mut opened = Opened::open(name, region)?;
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool());
        let looked = boot::look(&endpoint, &pool.layout, this_boot, false, is_shared);
        let verdict = run_ready(looked).map_err(PoolError::Verb)?;
        let was_emptied = run_ready(boot::settle(&endpoint, pool, this_boot, false, verdict))?;
        drop(endpoint);
        opened.region.share()?;
        opened.reformatted = was_emptied;
        Self::opened(opened)
    }

    fn opened(mut opened: Opened) -> Result<Self, OpenError> {
        opened.provider = Provider::begin(&opened)?;
        Ok(Self(Arc::new(opened)))
    }

    /// Whether opening it found it in use before a reboot, and emptied it.
    pub fn was_reformatted(&self) -> bool {
        self.0.reformatted
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
        self.0.chosen.pool().capacity_bytes()
    }

    /// Bytes of chunks that are in use, and of the metadata.
    pub fn used_bytes(&self) -> u64 {
        let layout = &self.0.chosen.pool().layout;
        let free = run_ready(chunks::free_chunks(&self.endpoint(), layout)).unwrap_or(0);
        self.capacity_bytes() - free.min(layout.chunks().into()) * layout.chunk_bytes
    }

    /// The name under which other processes open it.
    pub fn name(&self) -> Option<&str> {
        self.0.region.name()
    }

    /// The engine that the pool was made for.
    pub fn engine(&self) -> EngineId {
        self.0.chosen.engine()
    }

    /// The policies that say what goes, if its engine has experts.
    pub fn experts(&self) -> Option<ExpertSet> {
        self.0.chosen.experts()
    }

    /// What the pool was made with: name and value, the engine first.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.0.chosen.describe_settings()
    }

    /// Who uses it, and how full it is.
    pub fn info(&self) -> Result<PoolInfo, CacheError> {
        let (endpoint, pool) = (self.endpoint(), self.0.chosen.pool());
        // A region that cannot be had shows itself to whoever uses it.
        let _ = run_ready(atoll_pool::nodes::learn(&endpoint, pool));
        let clients = self.clients(&endpoint)?.into_iter().map(|(_, client)| client).collect();
        let all = pool.layout.chunks();
        let descriptors = run_ready(chunks::descriptors(&endpoint, &pool.layout, ChunkId(0), all))?;
        let (chunks_retired, chunks_undiscarded) = resize::out_of_use(&descriptors);
        let quarantined_bytes = self.quarantined_bytes(&endpoint, &descriptors)?;
        let (clock_ms, wall_clock_ahead_ms) = self.clock(&endpoint)?;
        Ok(PoolInfo {
            settings: self.settings(),
            objects: run_ready(registry::objects(&endpoint, pool))?,
            clock_ms,
            wall_clock_ahead_ms,
            chunks_free: run_ready(chunks::free_chunks(&endpoint, &pool.layout))?,
            chunks: all.into(),
            capacity_bytes: self.capacity_bytes(),
            provided_bytes: self.provided_bytes(),
            chunks_retired,
            chunks_undiscarded,
            nodes: self.nodes(&descriptors),
            clients,
            quarantined_bytes,
        })
    }

    /// The pool's time, and how far this host's wall clock is ahead of it, both in milliseconds.
    fn clock(&self, endpoint: &ShmEndpoint) -> Result<(u64, i64), CacheError> {
        let (layout, mut clock) = (&self.0.chosen.pool().layout, PoolClock::default());
        let ms = run_ready(clock.now_ms(endpoint, layout, endpoint.now_ns()))?;
        Ok((ms, clock.wall_ahead_ms()))
    }

    /// How far this host's wall clock is ahead of the pool's time, in milliseconds; negative if it
    /// is behind. Objects expire by the pool's time, which no wall clock moves.
    pub fn wall_clock_ahead_ms(&self) -> i64 {
        self.clock(&self.endpoint()).map_or(0, |(_, ahead_ms)| ahead_ms)
    }

    /// Bytes of chunks whose owners do not run.
    fn quarantined_bytes(&self, endpoint: &ShmEndpoint, descriptors: &[Descriptor]) -> Result<u64, CacheError> {
        let pool = self.0.chosen.pool();
        // Looked at after the chunks: an owner that is not there now is not alive.
        let running: Vec<Place> = self
            .clients(endpoint)?
            .into_iter()
            .filter(|(_, client)| !matches!(client.state, ClientState::Stopped | ClientState::Dead))
            .map(|(place, _)| place)
            .collect();
        let roll = Roll::of(&running);
        let owned = descriptors.iter().filter_map(|descriptor| descriptor.chunk).filter(|chunk| {
            matches!(chunk.state, ChunkState::Open | ChunkState::Leaving | ChunkState::Extent)
                && !roll.has(chunk.owner_slot, chunk.owner_epoch)
        });
        Ok(owned.count() as u64 * pool.layout.chunk_bytes)
    }

    /// All clients, with their places.
    fn clients(&self, endpoint: &ShmEndpoint) -> Result<Vec<(Place, ClientInfo)>, CacheError> {
        let places = run_ready(registry::places(endpoint, self.0.chosen.pool()))?;
        // A pool of this process alone has no other one to look for.
        let holders = if self.name().is_some() { self.0.region.holders() } else { Holders::default() };
        let mut clients = Vec::new();
        for place in places {
            let origin = run_ready(registry::origin(endpoint, self.0.chosen.pool(), place.incarnation))?;
            let known = ClientInfo::of(&place, origin, &self.0.region, &holders);
            clients.extend(known.map(|client| (place, client)));
        }
        Ok(clients)
    }

    /// Reclaims now what clients that died held; clients that run do it by themselves.
    pub fn repair(&self) -> Result<Repaired, RepairError> {
        let client = self.0.join()?;
        let mended = run_ready(client.repair())?;
        run_ready(client.leave())?;
        Ok(mended)
    }

    /// Kills the processes of clients that are stopped, if this user may, and waits until they are
    /// dead; how many clients they had. What they held is then reclaimed by any client that looks.
    /// Only a process that is seen to hold a client's lock is killed.
    pub fn kill_stopped(&self) -> Result<u64, CacheError> {
        let (endpoint, region) = (self.endpoint(), &self.0.region);
        let clients = self.clients(&endpoint)?;
        let stopped = clients.iter().filter(|(_, client)| client.state == ClientState::Stopped);
        let holders = region.holders();
        let mut killed: Vec<Identity> = Vec::new();
        let mut pids = BTreeMap::<u32, Vec<Identity>>::new();
        for (place, _) in stopped {
            pids.entry(holders.pid(place.identity).unwrap_or(0)).or_default().push(place.identity);
        }
        // All clients of a process die by one signal.
        for clients in pids.into_values().filter(|clients| region.kill(clients[0], &holders)) {
            killed.extend(clients);
        }
        let deadline = Instant::now() + DEATH_PATIENCE;
        while !killed.iter().all(|who| run_ready(endpoint.is_dead(*who)) == Ok(true)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(killed.len() as u64)
    }

    /// The other processes that have the pool open, as far as this one sees them.
    pub fn users(&self) -> Vec<u32> {
        let mut pids = self.0.region.holders().pids();
        pids.retain(|pid| *pid != std::process::id());
        pids
    }

    /// Walks every invariant of the pool and says what is wrong. What other processes do meanwhile
    /// is shown as faults: see [`Pool::users`].
    pub fn verify(&self) -> Result<Audit, CacheError> {
        if !self.users().is_empty() {
            // A client that gives memory back to the host waits for other clients, and for nothing
            // else. A pool that cannot be joined is looked at all the same.
            if let Ok(client) = self.0.join() {
                let audit = run_ready(client.verify());
                run_ready(client.leave())?;
                return audit;
            }
        }
        let auditor = self.0.chosen.auditor(self.endpoint());
        run_ready(auditor.map_err(|_| CacheError::Damaged { what: "the engine's settings" })?.verify())
    }
}
