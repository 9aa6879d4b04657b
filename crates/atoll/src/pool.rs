//! A pool as one process has it open.

mod info;
mod nodes;
mod options;
mod provider;
mod removal;
mod resize;

pub use info::{ClientInfo, ClientState, PoolInfo};
pub use nodes::NodeInfo;
pub use options::PoolOptions;
pub use removal::shown_processes;
pub use removal::{RemoveError, Removed};
pub use resize::{CHUNKS_LEAST, ResizeError, Resized};

use self::nodes::make_node;
use self::provider::{Provider, START_BYTES};
use crate::client::Client;
use crate::fabric::{self, AddressedFabric, EndpointOf, PoolFabric};
use atoll_cache::audit::Audit;
use atoll_cache::experts::ExpertSet;
use atoll_cache::{CacheError, Chosen, ChosenPool, EngineId};
use atoll_fabric::{Endpoint, FabricError, Identity, Reach, Region, Sharing, block_on, block_on_with};
use atoll_pool::boot::{self, Verdict};
use atoll_pool::{PoolError, PoolSettings, Repaired, chunks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a pool could not be made, opened or joined.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The memory.
    #[error(transparent)]
    Region(#[from] FabricError),
    /// What is in it.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Why a pool could not be repaired, or be given more memory. It is what it was.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// No client could be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A client could not do it, or could not look before that after what dead clients held.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// A killed process that is not dead after this time hangs in the kernel.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// A pool that this process has open. Cheap to clone; threads share it and take clients of their
/// own.
pub struct Pool<F: PoolFabric = AddressedFabric>(Arc<Opened<F>>);

impl<F: PoolFabric> Clone for Pool<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What all handles and clients of one process share.
struct Opened<F: PoolFabric> {
    fabric: F,
    reach: F::Reach,
    chosen: ChosenPool,
    reformatted: bool,
    provider: Provider,
}

impl<F: PoolFabric> Opened<F> {
    fn open(fabric: &F, home: F::Region) -> Result<Self, OpenError> {
        let bytes = home.attributes().bytes;
        let reach = fabric.reach(home);
        let endpoint = reach.endpoint();
        let chosen = block_on(&endpoint, ChosenPool::open(&endpoint, bytes))?;
        Ok(Self { fabric: fabric.clone(), reach, chosen, reformatted: false, provider: Provider::default() })
    }

    fn endpoint(&self) -> EndpointOf<F> {
        self.reach.endpoint()
    }

    /// Brings everything to the disk, the home last.
    fn sync(&self) -> Result<(), FabricError> {
        let nodes = self.reach.memory_nodes();
        nodes.into_iter().rev().filter_map(|node| self.reach.region(node)).try_for_each(|region| region.sync())
    }

    /// Joins, and counts nothing.
    fn join_uncounted(&self) -> Result<Chosen<EndpointOf<F>>, PoolError> {
        block_on_with(|| self.reach.wait(), self.chosen.join(self.endpoint()))
    }

    /// Joins, and makes sure that a pool which had been closed is known not to be before anything
    /// else changes.
    fn join(&self) -> Result<Chosen<EndpointOf<F>>, OpenError> {
        let client = self.join_uncounted()?;
        let (endpoint, layout) = (&client.client().endpoint, &self.chosen.pool().layout);
        if block_on(endpoint, boot::count_join(endpoint, layout)).map_err(PoolError::Verb)? {
            self.sync()?;
        }
        Ok(client)
    }

    /// Closes the pool if no client is in it. A pool that was closed outlives a reboot.
    fn close(&self) -> Result<(), OpenError> {
        let (endpoint, pool) = (self.endpoint(), self.chosen.pool());
        let closing = || block_on(&endpoint, boot::closing(&endpoint, pool)).map_err(PoolError::Verb);
        if closing()?.is_none() {
            return Ok(());
        }
        // A client that joins alone counts anew what dead clients had miscounted.
        drop(self.join_uncounted()?);
        if let Some(word) = closing()? {
            self.sync()?;
            if block_on(&endpoint, boot::close(&endpoint, &pool.layout, word)).map_err(PoolError::Verb)? {
                self.sync()?;
            }
        }
        Ok(())
    }
}

impl<F: PoolFabric> Drop for Opened<F> {
    fn drop(&mut self) {
        self.provider = Provider::default();
        if self.fabric.address().is_some() {
            // A pool that cannot be closed is made anew after a reboot, as after a crash.
            let _ = self.close();
        }
    }
}

impl Pool {
    /// A pool of this process alone. It can be used at once: see [`Pool::provided_bytes`].
    pub fn anonymous(options: &PoolOptions) -> Result<Self, OpenError> {
        Self::create_on(&fabric::private(), options)
    }

    /// A new pool that other processes can open, at once (see [`Pool::provided_bytes`]):
    /// `shm:/NAME`, which stays until it is removed or the host reboots; or the path of a file,
    /// which stays until it is removed. Memory nodes besides the first are regions with `+1`, `+2`
    /// and so on behind that.
    ///
    /// A process that dies while it makes a pool leaves names that hold no pool;
    /// [`Pool::remove_by_force`] removes them.
    pub fn create(name: &str, options: &PoolOptions) -> Result<Self, OpenError> {
        Self::create_on(&fabric::addressed(name)?, options)
    }

    /// Opens a pool that exists, with the engine that it was created with.
    ///
    /// A file on a disk may be from before a restart of the host. If all clients had left it, its
    /// objects are there. Else it is unknown how much of it reached the disk, and it is formatted
    /// anew with the same settings: see [`Pool::was_reformatted`]. A pool that another process has
    /// open is never formatted anew, nor is a pool in memory: see [`boot::judge`].
    pub fn open(name: &str) -> Result<Self, OpenError> {
        Self::open_on(&fabric::addressed(name)?)
    }
}

impl<F: PoolFabric> Pool<F> {
    /// As [`Pool::create`] or [`Pool::anonymous`], on a fabric of choice.
    pub fn create_on(fabric: &F, options: &PoolOptions) -> Result<Self, OpenError> {
        // Settings that are not possible are told before any memory is taken.
        let settings = options.settings()?;
        fabric.check_room(settings.capacity_bytes)?;
        let home = fabric.create(0, settings.home_bytes(), START_BYTES)?;
        let pool = Self::format(fabric, home, settings);
        if pool.is_err() && fabric.address().is_some() {
            // What cannot be removed is told by the next that wants the name.
            let _ = Self::remove_on(fabric, true);
        }
        pool
    }

    /// Makes the other nodes: the process that has made the home is alone at that.
    fn format(fabric: &F, home: F::Region, settings: PoolSettings) -> Result<Self, OpenError> {
        let reach = fabric.reach(home);
        for node in 1..settings.nodes as u8 {
            let made = make_node(fabric, node, settings.member_bytes, 0)?;
            assert!(reach.admit(node, made), "nobody else knows of these nodes");
        }
        let endpoint = reach.endpoint();
        let chosen = block_on(&endpoint, ChosenPool::format(&endpoint, settings))?;
        let fabric = fabric.clone();
        Self::opened(Opened { fabric, reach, chosen, reformatted: false, provider: Provider::default() })
    }

    /// As [`Pool::open`], on a fabric of choice.
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

    /// Opens a file that may be from before a restart of the host, while no other process opens it.
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

    fn opened(mut opened: Opened<F>) -> Result<Self, OpenError> {
        opened.provider = Provider::begin(&opened)?;
        Ok(Self(Arc::new(opened)))
    }

    /// Whether opening it found it in use before a reboot, and emptied it.
    pub fn was_reformatted(&self) -> bool {
        self.0.reformatted
    }

    fn endpoint(&self) -> EndpointOf<F> {
        self.0.endpoint()
    }

    /// A new client, for one thread at a time: the quickest way to the pool. See
    /// [`Cache`](crate::Cache) for many threads.
    pub fn client(&self) -> Result<Client<F>, OpenError> {
        Ok(Client::new(atoll_cache::Cache::new(self.0.join()?), self.clone()))
    }

    /// Bytes of the whole pool, with the memory nodes that this process knows of.
    pub fn capacity_bytes(&self) -> u64 {
        self.0.chosen.pool().capacity_bytes()
    }

    /// Bytes of chunks that are in use, and of the metadata.
    pub fn used_bytes(&self) -> u64 {
        let (endpoint, layout) = (self.endpoint(), &self.0.chosen.pool().layout);
        let free = block_on(&endpoint, chunks::free_chunks(&endpoint, layout)).unwrap_or(0);
        self.capacity_bytes() - free.min(layout.chunks().into()) * layout.chunk_bytes
    }

    /// The name under which other processes open it.
    pub fn name(&self) -> Option<&str> {
        self.0.fabric.address()
    }

    /// Whether its memory answers at once, so that no operation waits for it.
    pub fn is_near(&self) -> bool {
        self.endpoint().is_near()
    }

    /// The name of the fabric that its memory is reached by, as users write it: `shm`.
    pub fn fabric(&self) -> &'static str {
        self.0.fabric.name()
    }

    /// The engine that the pool was made for.
    pub fn engine(&self) -> EngineId {
        self.0.chosen.engine()
    }

    /// The policies that choose what is evicted, if its engine has experts.
    pub fn experts(&self) -> Option<ExpertSet> {
        self.0.chosen.experts()
    }

    /// What the pool was made with: name and value, the engine first.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.0.chosen.describe_settings()
    }

    /// Reclaims now what clients that died held; clients that run do it by themselves.
    pub fn repair(&self) -> Result<Repaired, UpkeepError> {
        let client = self.0.join()?;
        let endpoint = &client.client().endpoint;
        let mended = block_on(endpoint, client.repair())?;
        block_on(endpoint, client.leave())?;
        Ok(mended)
    }

    /// Kills the processes of clients that are stopped, if this user may, and waits until they are
    /// dead; how many clients they had. What they held is then reclaimed by any client that looks.
    /// Only a process that is seen to hold a client's lock is killed.
    pub fn kill_stopped(&self) -> Result<u64, CacheError> {
        let (endpoint, region) = (self.endpoint(), self.0.reach.home());
        let clients = self.clients(&endpoint)?;
        let stopped = clients.iter().filter(|(_, client)| client.state == ClientState::Stopped);
        let peers = region.peers();
        let mut killed: Vec<Identity> = Vec::new();
        let mut pids = BTreeMap::<u32, Vec<Identity>>::new();
        for (place, _) in stopped {
            pids.entry(peers.pid(place.identity).unwrap_or(0)).or_default().push(place.identity);
        }
        // All clients of a process die by one signal.
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

    /// The other processes that have the pool open, as far as this one sees them.
    pub fn users(&self) -> Vec<u32> {
        let mut pids = self.0.reach.home().peers().pids();
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
                let endpoint = &client.client().endpoint;
                let audit = block_on(endpoint, client.verify());
                block_on(endpoint, client.leave())?;
                return audit;
            }
        }
        let auditor = self.0.chosen.auditor(self.endpoint());
        let auditor = auditor.map_err(|_| CacheError::Damaged { what: "the engine's settings" })?;
        block_on(&auditor.client().endpoint, auditor.verify())
    }
}
