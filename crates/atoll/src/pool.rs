//! A pool that this process has open.

mod evictor;
mod info;
mod joint;
mod nodes;
mod options;
mod provider;
mod recovery;
mod removal;
mod resize;
mod users;

pub use info::{ClientInfo, ClientState, PoolInfo};
pub use nodes::NodeInfo;
pub use options::PoolOptions;
pub use removal::{RemoveError, Removed};
pub use resize::{CHUNKS_LEAST, ResizeError, Resized};
pub use users::Users;

use self::evictor::Evictor;
use self::nodes::{Whose, make_node};
use self::provider::Provider;
use self::removal::{Home, remnant, remove_regions};
use crate::client::Client;
use crate::fabric::{self, AddressedFabric, EndpointOf, PoolFabric};
use atoll_cache::audit::Audit;
use atoll_cache::experts::ExpertSet;
use atoll_cache::{CacheError, Chosen, ChosenPool, Engine, EngineId, Near, NearCache, Words};
use atoll_fabric::fabric::START_BYTES;
use atoll_fabric::shm::host::Room;
use atoll_fabric::{
    CostClass, Endpoint, FabricError, Identity, Reach, Region, Sharing, VerbError, block_on, block_on_with,
};
use atoll_near::NearError;
use atoll_pool::boot::{self, Verdict};
use atoll_pool::repair::repair_watching;
use atoll_pool::{PoolError, PoolSettings, Repaired, chunks};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Why a pool could not be created, opened or joined.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The memory could not be had.
    #[error(transparent)]
    Region(#[from] FabricError),
    /// The contents are not a pool that this process can use.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// This process can have no near cache on it.
    #[error(transparent)]
    Near(#[from] NearError),
    /// No pool can be made, since a memory node has a region of one whose home is not there: it
    /// came back empty, or is at another address.
    #[error(
        "{why}: if that pool is gone, `atoll pool remove {address} --force`, or start that memory node anew; otherwise \
         name the addresses as that pool was created with them"
    )]
    Remnant {
        /// Which region it is.
        why: String,
        /// The address of the pool that was to be made.
        address: String,
    },
    /// The host has no memory for such a near cache.
    #[error("no room for a near cache of {bytes} bytes: {why}; choose a smaller one, or free memory")]
    NoRoomNear {
        /// Bytes requested.
        bytes: u64,
        /// The limit, and how to change it.
        why: String,
    },
}

/// Why a pool could not be repaired or enlarged. The pool is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// No client could join.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A client failed at it, or failed to reclaim first what dead clients held.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// How many clients try a repair, one after the other: a memory node that comes or goes ends each.
const REPAIRS_MAX: u32 = 4;
/// A killed process that is not dead after this time hangs in the kernel.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// A pool that this process has open. Cheap to clone; threads share it and join it with their own
/// clients.
///
/// If the home's memory node has ended and has come back empty, the next client that joins makes
/// the pool anew with the same settings: see [`Pool::client`].
pub struct Pool<F: PoolFabric = AddressedFabric>(Arc<Shared<F>>);

/// What all handles of one process share.
struct Shared<F: PoolFabric> {
    fabric: F,
    /// The pool as it was last opened or made.
    current: RwLock<Arc<Opened<F>>>,
    /// One thread at a time recovers.
    recovery: Mutex<()>,
    /// Bytes of the near cache; 0 for none.
    near_bytes: AtomicU64,
}

impl<F: PoolFabric> Clone for Pool<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A pool of which this process has the regions open.
struct Opened<F: PoolFabric> {
    fabric: F,
    reach: Arc<F::Reach>,
    chosen: ChosenPool,
    reformatted: bool,
    provider: Provider,
    evictor: Mutex<Evictor<F>>,
    near: OnceLock<Arc<NearCache>>,
    /// By these this process finds that objects change, where it has no near cache.
    words: Arc<Words>,
}

/// Words by which a process without a near cache finds that objects change, as a power of two:
/// 8 MiB, once they are used. Objects that share a word are all looked up once one has changed, so
/// there are as many as a server tracks keys at most by default.
const WORDS_LOG2: u32 = 20;

impl<F: PoolFabric> Opened<F> {
    fn open(fabric: &F, home: F::Region) -> Result<Self, OpenError> {
        let bytes = home.attributes().bytes;
        let reach = fabric.reach(home);
        let endpoint = reach.endpoint();
        let chosen = block_on(&endpoint, ChosenPool::open(&endpoint, bytes))?;
        Ok(Self::of(fabric, reach, chosen)?)
    }

    /// A pool whose threads have not begun.
    fn of(fabric: &F, reach: F::Reach, chosen: ChosenPool) -> Result<Self, NearError> {
        let (fabric, reach, provider) = (fabric.clone(), Arc::new(reach), Provider::default());
        let (evictor, near) = (Mutex::new(Evictor::NONE), OnceLock::new());
        let words = Arc::new(Words::new(WORDS_LOG2)?);
        Ok(Self { fabric, reach, chosen, reformatted: false, provider, evictor, near, words })
    }

    /// What tells its near caches on this host from those of other pools, and of copies of its
    /// files; `None` if no other process has the pool.
    fn near_name(&self) -> Option<String> {
        let path = rapidhash::v3::rapidhash_v3(self.reach.home().name()?.as_bytes());
        Some(format!("{:016x}-{path:016x}", self.chosen.pool().id))
    }

    /// Ends the evictor that there is, and begins another one if it is wanted.
    fn evict_ahead(&self, is_wanted: bool) {
        let mut evictor = self.evictor.lock().unwrap_or_else(PoisonError::into_inner);
        *evictor = Evictor::NONE;
        if is_wanted {
            *evictor = Evictor::new(self);
        }
    }

    fn endpoint(&self) -> EndpointOf<F> {
        self.reach.endpoint()
    }

    /// Writes all nodes to the disk, the home last.
    fn sync(&self) -> Result<(), FabricError> {
        sync::<F>(&self.reach)
    }

    /// Joins, and does not count the join.
    fn join_uncounted(&self) -> Result<Chosen<EndpointOf<F>>, PoolError> {
        block_on_with(|| self.reach.wait(), self.chosen.join(self.endpoint()))
    }

    /// Joins, and marks a closed pool as open before anything else changes.
    fn join(&self) -> Result<Chosen<EndpointOf<F>>, OpenError> {
        let client = self.join_uncounted()?;
        count_join::<F>(&self.reach, &self.chosen, &client)?;
        Ok(client)
    }

    /// Does something while this process has no evictor.
    fn without_evictor<T>(&self, done: impl FnOnce() -> T) -> T {
        let mut evictor = self.evictor.lock().unwrap_or_else(PoisonError::into_inner);
        let was_there = evictor.is_there();
        *evictor = Evictor::NONE;
        let outcome = done();
        if was_there {
            *evictor = Evictor::new(self);
        }
        outcome
    }

    /// Closes the pool if no client is in it. A pool that was closed outlives a reboot.
    fn close(&self) -> Result<(), OpenError> {
        let (endpoint, pool) = (self.endpoint(), self.chosen.pool());
        let closing = || block_on(&endpoint, boot::closing(&endpoint, pool)).map_err(PoolError::Verb);
        if closing()?.is_none() {
            return Ok(());
        }
        // A client that joins alone corrects counts which dead clients left wrong.
        let client = self.join_uncounted()?;
        let left = block_on(&client.client().endpoint, client.leave());
        // Then the pool stays open, as after a crash.
        if left.is_err() {
            return Ok(());
        }
        drop(client);
        if let Some(word) = closing()? {
            self.sync()?;
            if block_on(&endpoint, boot::close(&endpoint, &pool.layout, word)).map_err(PoolError::Verb)? {
                self.sync()?;
            }
        }
        Ok(())
    }
}

/// Writes all nodes to the disk, the home last.
fn sync<F: PoolFabric>(reach: &F::Reach) -> Result<(), FabricError> {
    let nodes = reach.memory_nodes();
    nodes.into_iter().rev().filter_map(|node| reach.region(node)).try_for_each(|region| region.sync())
}

/// Marks a closed pool as open, for a client that has joined and changed nothing yet.
fn count_join<F: PoolFabric>(
    reach: &F::Reach,
    chosen: &ChosenPool,
    client: &Chosen<EndpointOf<F>>,
) -> Result<(), OpenError> {
    let (endpoint, layout) = (&client.client().endpoint, &chosen.pool().layout);
    if block_on(endpoint, boot::count_join(endpoint, layout)).map_err(PoolError::Verb)? {
        sync::<F>(reach)?;
    }
    Ok(())
}

impl<F: PoolFabric> Drop for Opened<F> {
    fn drop(&mut self) {
        self.provider = Provider::default();
        *self.evictor.get_mut().unwrap_or_else(PoisonError::into_inner) = Evictor::NONE;
        if self.fabric.address().is_some() {
            // After a reboot a pool that could not be closed is formatted anew, as after a crash.
            let _ = self.close();
        }
    }
}

// Inline, so that this crate compiles no engine: a program compiles those over the fabrics that it
// opens.
impl Pool {
    /// Creates a pool for this process alone. It can be used at once: see [`Pool::provided_bytes`].
    #[inline]
    pub fn anonymous(options: &PoolOptions) -> Result<Self, OpenError> {
        Self::create_on(&fabric::private(), options)
    }

    /// Creates a pool that other processes can open. It can be used at once: see
    /// [`Pool::provided_bytes`].
    ///
    /// `shm:/NAME` stays until it is removed or the host reboots. The path of a file stays until it
    /// is removed. Each further memory node is a region whose name ends in `+1`, `+2` and so on.
    ///
    /// A process that dies while it creates a pool may leave names that hold no pool;
    /// [`Pool::remove_by_force`] removes them.
    #[inline]
    pub fn create(name: &str, options: &PoolOptions) -> Result<Self, OpenError> {
        Self::create_on(&fabric::addressed(name)?, options)
    }

    /// Opens an existing pool, with the engine that it was created with.
    ///
    /// A file on a disk may be older than the last restart of its host. If all clients had left it,
    /// its objects are present. Otherwise it is unknown which writes reached the disk, so the pool
    /// is formatted anew with the same settings: see [`Pool::was_reformatted`]. A pool that another
    /// process has open is never formatted anew, nor is a pool in memory: see [`boot::judge`].
    #[inline]
    pub fn open(name: &str) -> Result<Self, OpenError> {
        Self::open_on(&fabric::addressed(name)?)
    }
}

/// Pools on other hosts. The shared secret is in the file that the environment variable
/// [`SECRET_FILE`](atoll_fabric::tcp::SECRET_FILE) names, if it is set.
#[cfg(feature = "tcp")]
impl Pool<fabric::TcpFabric> {
    /// Opens the pool of memory nodes: `tcp:HOST:PORT[,HOST:PORT...]`.
    #[inline]
    pub fn connect(address: &str) -> Result<Self, OpenError> {
        Self::open_on(&fabric::TcpFabric::named(address)?)
    }

    /// Creates a pool on memory nodes that have none. With more than one address, give the pool as
    /// many [nodes](PoolOptions::nodes).
    #[inline]
    pub fn create_remote(address: &str, options: &PoolOptions) -> Result<Self, OpenError> {
        Self::create_on(&fabric::TcpFabric::named(address)?, options)
    }
}

impl<F: PoolFabric> Pool<F> {
    /// As [`Pool::create`] or [`Pool::anonymous`], on a given fabric.
    pub fn create_on(fabric: &F, options: &PoolOptions) -> Result<Self, OpenError> {
        // Impossible settings are reported before any memory is allocated.
        Self::create_with(fabric, options.settings()?)
    }

    fn create_with(fabric: &F, settings: PoolSettings) -> Result<Self, OpenError> {
        if fabric.cost_class() == CostClass::Network
            && let Some(why) = remnant(fabric, settings.nodes_max as u8)
        {
            return Err(OpenError::Remnant { why, address: fabric.address().unwrap_or_default().to_owned() });
        }
        fabric.check_room(settings.capacity_bytes)?;
        let home = fabric.create(0, settings.home_bytes(), START_BYTES)?;
        let pool = Self::format(fabric, home, settings);
        if pool.is_err()
            && fabric.address().is_some()
            && let Ok((words, bytes)) = fabric.beginning(0)
        {
            // The next process that uses the name reports what cannot be removed here.
            let _ = remove_regions(fabric, true, &Home::unformatted(&words, bytes), &mut Removed::default());
        }
        pool
    }

    /// Creates the other nodes. No other process does so: this one created the home.
    fn format(fabric: &F, home: F::Region, settings: PoolSettings) -> Result<Self, OpenError> {
        let reach = fabric.reach(home);
        for node in 1..settings.nodes as u8 {
            let region = make_node(fabric, (node, Whose::Nobody), settings.member_bytes, 0)?;
            assert!(reach.admit(node, region), "nobody else knows of these nodes");
        }
        let endpoint = reach.endpoint();
        let chosen = block_on(&endpoint, ChosenPool::format(&endpoint, settings))?;
        Self::opened(Opened::of(fabric, reach, chosen)?)
    }

    /// As [`Pool::open`], on a given fabric.
    pub fn open_on(fabric: &F) -> Result<Self, OpenError> {
        let lock = fabric.hold(0, Sharing::Shared)?;
        let opened = Opened::open(fabric, fabric.open(0)?)?;
        let is_volatile = opened.reach.home().is_volatile();
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool());
        let this_boot = endpoint.boot();
        let looked = boot::look(&endpoint, &pool.layout, this_boot, is_volatile, false);
        let verdict = block_on(&endpoint, looked).map_err(PoolError::Verb)?;
        if is_volatile || verdict == Verdict::GoesOn {
            block_on(&endpoint, boot::settle(&endpoint, pool, this_boot, is_volatile, verdict))?;
            drop(endpoint);
            return Self::opened(opened);
        }
        drop((endpoint, opened, lock));
        Self::open_after_boot(fabric)
    }

    /// Opens a file that may be older than a restart of the host. No other process opens it
    /// meanwhile.
    fn open_after_boot(fabric: &F) -> Result<Self, OpenError> {
        let _lock = fabric.hold(0, Sharing::Alone)?;
        let (home, is_shared) = match fabric.open_alone(0)? {
            Some(home) => (home, false),
            None => (fabric.open(0)?, true),
        };
        let mut opened = Opened::open(fabric, home)?;
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool());
        let this_boot = endpoint.boot();
        let looked = boot::look(&endpoint, &pool.layout, this_boot, false, is_shared);
        let verdict = block_on(&endpoint, looked).map_err(PoolError::Verb)?;
        let was_emptied = block_on(&endpoint, boot::settle(&endpoint, pool, this_boot, false, verdict))?;
        drop(endpoint);
        opened.reach.home().share()?;
        opened.reformatted = was_emptied;
        Self::opened(opened)
    }

    /// Says that a memory node other than the home is gone for good, with what was stored on it,
    /// although nothing proves it: its host is broken, or the node has moved to another address.
    /// Clients go on without it. The agent that this address names for it gets a new, empty node.
    /// Processes that name another one must be ended before.
    ///
    /// # Errors
    /// [`PoolError::Present`] if this process reaches the node, or clients use it; `force` gives up
    /// one that clients use.
    pub fn give_up_on(fabric: &F, node: u8, force: bool) -> Result<(), OpenError> {
        let _lock = fabric.hold(0, Sharing::Shared)?;
        let home = fabric.open(0)?;
        let bytes = home.attributes().bytes;
        let endpoint = fabric.reach(home).endpoint();
        Ok(block_on(&endpoint, atoll_pool::Pool::give_up(&endpoint, bytes, node, force))?)
    }

    fn opened(mut opened: Opened<F>) -> Result<Self, OpenError> {
        opened.provider = Provider::begin(&opened)?;
        let fabric = opened.fabric.clone();
        let current = RwLock::new(Arc::new(opened));
        let (recovery, near_bytes) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self(Arc::new(Shared { fabric, current, recovery, near_bytes })))
    }

    /// The pool as it was last opened or made.
    fn opened_now(&self) -> Arc<Opened<F>> {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this process found the pool in use before a reboot, and emptied it on opening.
    pub fn was_reformatted(&self) -> bool {
        let opened = self.opened_now();
        opened.reformatted
    }

    fn endpoint(&self) -> EndpointOf<F> {
        let opened = self.opened_now();
        opened.endpoint()
    }

    /// A new client, for one thread at a time: the fastest access to the pool. See
    /// [`Cache`](crate::Cache) for many threads.
    ///
    /// If the pool's memory is gone, this opens the pool that is there now. If there is none, since
    /// the home's memory node came back empty, it makes the pool anew with the same settings.
    pub fn client(&self) -> Result<Client<F>, OpenError> {
        let engine = recovery::join(self)?;
        let engine = match self.near_cache()? {
            Some(cache) => Near::with(engine, cache),
            None => Near::telling(engine, self.opened_now().words.clone()),
        };
        Ok(Client::new(atoll_cache::Cache::new(engine), self.clone()))
    }

    /// From now on the clients that join through this handle, or a clone of it, use a near cache:
    /// at most `bytes` of this host's memory for copies of what is looked up often. The processes
    /// of the host that give the same size and name of the pool, and run as the same user, share
    /// one. A hit costs no access to the pool. Before an object changes, whichever process changes
    /// it ends all copies first, so lookups stay linearizable. Keys that are written much get no
    /// copies.
    ///
    /// It pays where the pool is on another host. Of objects that have copies, a change takes two
    /// round trips more. Up to [`SHARERS_MAX`](atoll_pool::sharers::SHARERS_MAX) near caches can be
    /// on a pool.
    ///
    /// The memory is in `/dev/shm`, of which it takes more as it fills, and the last process that
    /// uses it removes it. Where there can be no such file, or the file system is too small for it,
    /// a process has memory of its own ([`NearCache::is_of_host`]).
    ///
    /// # Errors
    /// [`OpenError::NoRoomNear`] if the host lacks the memory. [`OpenError::Near`] if it is too
    /// small or too large, or the fabric or the pool lets this process have none; then it has none.
    pub fn near(&self, bytes: u64) -> Result<(), OpenError> {
        let is_there = self.opened_now().near_name().is_some_and(|name| NearCache::is_there(&name, bytes));
        // Its memory is allocated as it fills, so that nothing else refuses what the host lacks.
        if let Some(room) = Room::of_memory(None).filter(|room| !is_there && room.usable_bytes() < bytes) {
            return Err(OpenError::NoRoomNear { bytes, why: room.to_string() });
        }
        NearCache::check(bytes)?;
        self.0.near_bytes.store(bytes, Ordering::Release);
        let followed = self.client().and_then(|client| client.follow());
        if followed.is_err() {
            self.0.near_bytes.store(0, Ordering::Release);
        }
        followed
    }

    /// The near cache that clients of this process use, if there is one.
    pub fn near_cache(&self) -> Result<Option<Arc<NearCache>>, OpenError> {
        let bytes = self.0.near_bytes.load(Ordering::Acquire);
        if bytes == 0 {
            return Ok(None);
        }
        let opened = self.opened_now();
        if let Some(cache) = opened.near.get() {
            return Ok(Some(cache.clone()));
        }
        let made = match opened.near_name() {
            Some(name) => NearCache::of_host(&name, bytes)?,
            None => NearCache::of_process(bytes)?,
        };
        Ok(Some(opened.near.get_or_init(|| Arc::new(made)).clone()))
    }

    /// Whether a thread of this process evicts ahead of need, so that a set seldom has to. The
    /// default is no.
    ///
    /// With a processor to spare, the slowest sets of a full pool take less than half of the time.
    /// Up to sixteen chunks are kept free for them. Without one the thread stands still, and all is
    /// as without it.
    ///
    /// The thread begins when a client of this process finds few chunks free for the first time. It
    /// needs a place of the pool, which it leaves once three quarters of them are in use. There is
    /// none over a network, in a pool with fewer than eight places, or for another engine than
    /// `forge`. Clients whose program asks for removals, such as a cache with a listener, make all
    /// room themselves.
    pub fn evict_ahead(&self, evicts_ahead: bool) {
        self.opened_now().evict_ahead(evicts_ahead);
    }

    /// Bytes of the whole pool, including the memory nodes that this process knows of.
    pub fn capacity_bytes(&self) -> u64 {
        let opened = self.opened_now();
        opened.chosen.pool().capacity_bytes()
    }

    /// Bytes of the metadata and of the chunks in use.
    pub fn used_bytes(&self) -> u64 {
        let opened = self.opened_now();
        let (endpoint, layout) = (opened.endpoint(), &opened.chosen.pool().layout);
        let free = block_on(&endpoint, chunks::free_chunks(&endpoint, layout)).unwrap_or(0);
        self.capacity_bytes() - free.min(layout.chunks().into()) * layout.chunk_bytes
    }

    /// The name under which other processes open it.
    pub fn name(&self) -> Option<&str> {
        self.0.fabric.address()
    }

    /// Whether its memory answers at once, so that no operation waits.
    pub fn is_near(&self) -> bool {
        self.endpoint().is_near()
    }

    /// The name of the fabric that reaches its memory, as users write it: `shm`.
    pub fn fabric(&self) -> &'static str {
        self.0.fabric.name()
    }

    /// The engine that the pool was created with.
    pub fn engine(&self) -> EngineId {
        let opened = self.opened_now();
        opened.chosen.engine()
    }

    /// The policies that choose victims, if the engine has experts.
    pub fn experts(&self) -> Option<ExpertSet> {
        let opened = self.opened_now();
        opened.chosen.experts()
    }

    /// The settings that the pool was created with: name and value, the engine first.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let opened = self.opened_now();
        opened.chosen.describe_settings()
    }

    /// Reclaims what dead clients held. Running clients do the same in the background.
    ///
    /// Over a network, whether a client is dead cannot always be seen: its host may have vanished.
    /// So this call watches the other clients for a fifth of a second, and shuts those out that
    /// stand still and that the home's agent has not heard for its lease. A [`Cache`](crate::Cache)
    /// that was only cut off or stopped joins anew by itself; a [`Client`] must be made anew.
    pub fn repair(&self) -> Result<Repaired, UpkeepError> {
        for _ in 1..REPAIRS_MAX {
            match self.repair_once() {
                // A memory node was lost or came back meanwhile, which ends every client.
                Err(
                    UpkeepError::Cache(CacheError::Verb(VerbError::Fenced))
                    | UpkeepError::Open(OpenError::Pool(PoolError::Verb(VerbError::Fenced))),
                ) => {}
                done => return done,
            }
        }
        self.repair_once()
    }

    fn repair_once(&self) -> Result<Repaired, UpkeepError> {
        let client = recovery::join(self)?;
        let endpoint = &client.client().endpoint;
        let repaired = repair_watching(client.client(), async || client.repair().await, async || client.tend().await);
        let mended = block_on(endpoint, repaired)?;
        block_on(endpoint, client.leave())?;
        Ok(mended)
    }

    /// Kills the processes of stopped clients, if this user may, and waits until they are dead.
    /// Returns how many clients they had. Any client that checks on others reclaims what they held.
    /// It kills only a process that visibly holds a client's lock.
    pub fn kill_stopped(&self) -> Result<u64, CacheError> {
        let opened = self.opened_now();
        let (endpoint, region) = (opened.endpoint(), opened.reach.home());
        let clients = self.clients(&endpoint)?;
        let stopped = clients.iter().filter(|(_, client)| client.state == ClientState::Stopped);
        let peers = region.peers();
        let mut killed: Vec<Identity> = Vec::new();
        let mut pids = BTreeMap::<u32, Vec<Identity>>::new();
        for (place, _) in stopped {
            pids.entry(peers.pid(place.identity).unwrap_or(0)).or_default().push(place.identity);
        }
        // One signal kills all clients of a process.
        for clients in pids.into_values().filter(|clients| region.kill(clients[0], &peers)) {
            killed.extend(clients);
        }
        let deadline = Instant::now() + DEATH_PATIENCE;
        while !killed.iter().all(|who| block_on(&endpoint, endpoint.is_dead(*who)) == Ok(true))
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(killed.len() as u64)
    }

    /// The other processes that have the pool open, as far as this one can see them.
    pub fn users(&self) -> Users {
        let opened = self.opened_now();
        let mut users = Users::of(&opened.reach.home().peers());
        users.pids.retain(|pid| *pid != std::process::id());
        users
    }

    /// Checks every invariant of the pool and returns the faults. Concurrent changes by other
    /// processes appear as faults: see [`Pool::users`].
    pub fn verify(&self) -> Result<Audit, CacheError> {
        let opened = self.opened_now();
        opened.without_evictor(|| self.walk(&opened))
    }

    fn walk(&self, opened: &Opened<F>) -> Result<Audit, CacheError> {
        if !self.users().is_empty() {
            // A client that returns memory to the host waits only for other clients. A pool that
            // cannot be joined is verified all the same.
            if let Ok(client) = opened.join() {
                let endpoint = &client.client().endpoint;
                let audit = block_on(endpoint, client.verify());
                block_on(endpoint, client.leave())?;
                return audit;
            }
        }
        let auditor = opened.chosen.auditor(self.endpoint());
        let auditor = auditor.map_err(|_| CacheError::Damaged { what: "the engine's settings" })?;
        block_on(&auditor.client().endpoint, auditor.verify())
    }
}
