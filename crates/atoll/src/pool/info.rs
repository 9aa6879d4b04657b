//! What a process can see of a pool and its clients.

use super::nodes::NodeInfo;
use super::{Pool, resize};
use crate::fabric::{EndpointOf, PoolFabric};
use atoll_cache::CacheError;
use atoll_cache::miniature::choice::CURVE;
use atoll_cache::stats::curve;
use atoll_fabric::{Endpoint, Origin, PeerState, Peers, Reach, Region, block_on};
use atoll_pool::chunks::Descriptor;
use atoll_pool::registry::{Place, Roll};
use atoll_pool::{ChunkId, ChunkState, Incarnation, PlaceState, PoolClock, chunks, registry, sharers};
use std::fmt;

/// What `pool info` shows.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// The settings that the pool was created with: name and value.
    pub settings: Vec<(&'static str, String)>,
    /// Objects in it.
    pub objects: u64,
    /// Lookups of all clients since the pool was made that found their key. A client tells its
    /// lookups after a second or so, and when it leaves. Those that a near cache answered do not
    /// count.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// The misses that the clients' miniatures model at a quarter, half, once, twice and four times
    /// the capacity.
    pub modelled_misses: [u64; 5],
    /// Processes that keep copies of its objects: see [`Pool::near`].
    pub near_caches: u64,
    /// The pool's time, in milliseconds since the Unix epoch. Objects expire by it.
    pub clock_ms: u64,
    /// How far this host's wall clock is ahead of the pool's time, in milliseconds. It is negative
    /// if the clock is behind.
    pub wall_clock_ahead_ms: i64,
    /// Free chunks, of all chunks.
    pub chunks_free: u64,
    /// All chunks.
    pub chunks: u64,
    /// Bytes of the whole pool.
    pub capacity_bytes: u64,
    /// Bytes of the metadata and of the chunks in use.
    pub used_bytes: u64,
    /// Bytes that are out of use, because the pool was made smaller.
    pub retired_bytes: u64,
    /// Bytes of the pool whose memory is present: see [`Pool::provided_bytes`].
    pub provided_bytes: u64,
    /// Chunks in use, by what they have: `open` ones are being filled, `queued` ones are full,
    /// `leaving` ones are being emptied, `large` ones have parts of large objects, and by those of
    /// the `index` it has grown since the pool was made.
    pub chunks_by_use: [(&'static str, u64); 5],
    /// Chunks that are out of use, because the pool was made smaller.
    pub chunks_retired: u64,
    /// Chunks out of use whose memory the host does not have back yet: see
    /// [`Resized::held_bytes`](super::Resized::held_bytes).
    pub chunks_undiscarded: u64,
    /// The pool's memory nodes, the home first.
    pub nodes: Vec<NodeInfo>,
    /// The clients, including dead ones that are not repaired yet.
    pub clients: Vec<ClientInfo>,
    /// Bytes of chunks whose owner does not run. They may be reused only after the owner is dead
    /// and repaired.
    pub quarantined_bytes: u64,
}

/// The state of a client, as far as another process can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// The process runs.
    Running,
    /// The process is stopped: a suspect that may be resumed, or killed ([`Pool::kill_stopped`]).
    Stopped,
    /// The process is dead, or the thread has panicked. What it held is not all reclaimed yet.
    Dead,
    /// The process is alive, but this process's `/proc` does not show it. It belongs to a container
    /// or another user. It may run or be stopped.
    NotVisible,
    /// The client is about to join.
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

/// A client of a pool, as another process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// The place in the registry, and how often it was occupied.
    pub incarnation: Incarnation,
    /// The process, by the pid that it has here; if it has none here, by the pid in its own
    /// namespace.
    pub pid: Option<u32>,
    /// The state of the client.
    pub state: ClientState,
}

impl ClientInfo {
    /// `None` for a place that no client has.
    fn of(place: &Place, origin: Option<Origin>, region: &impl Region, peers: &Peers) -> Option<Self> {
        let state = match (place.state, region.peer_state(place.identity, peers)) {
            (PlaceState::Free, _) => return None,
            (PlaceState::Fenced, _) | (_, PeerState::Dead) => ClientState::Dead,
            (_, PeerState::Stopped) => ClientState::Stopped,
            (PlaceState::Joining, _) => ClientState::Joining,
            (_, PeerState::Running) => ClientState::Running,
            (_, PeerState::NotVisible) => ClientState::NotVisible,
        };
        let pid = peers.pid(place.identity).or(origin.map(|origin| origin.pid));
        Some(Self { incarnation: place.incarnation, pid, state })
    }
}

impl PoolInfo {
    /// All lookups that clients have told.
    pub fn lookups(&self) -> u64 {
        // The pool may have any words.
        self.hits.saturating_add(self.misses)
    }

    /// The part of all lookups that found their key; `None` before the first.
    pub fn hit_ratio(&self) -> Option<f64> {
        let lookups = self.lookups();
        (lookups > 0).then(|| self.hits as f64 / lookups as f64)
    }

    /// The hit ratio that the miniatures model, by capacity: each as a multiple of the pool's
    /// capacity, with its ratio. `None` where the engine has no miniatures, or no lookup was told.
    pub fn hit_ratio_by_capacity(&self) -> Option<[(f64, f64); 5]> {
        let ratios = curve(self.hits, self.misses, self.modelled_misses)?;
        Some(std::array::from_fn(|point| (CURVE[point] as f64 / 4.0, ratios[point])))
    }
}

/// What these chunks have: see [`PoolInfo::chunks_by_use`].
fn by_use(descriptors: &[Descriptor]) -> [(&'static str, u64); 5] {
    let count = |states: &[ChunkState]| {
        descriptors.iter().filter_map(|each| each.chunk).filter(|chunk| states.contains(&chunk.state)).count() as u64
    };
    [
        ("open", count(&[ChunkState::Open])),
        ("queued", count(&[ChunkState::Queued])),
        ("leaving", count(&[ChunkState::Leaving])),
        ("large", count(&[ChunkState::Extent, ChunkState::Bound])),
        ("index", count(&[ChunkState::Index])),
    ]
}

impl<F: PoolFabric> Pool<F> {
    /// The pool's clients, and how full the pool is.
    pub fn info(&self) -> Result<PoolInfo, CacheError> {
        let opened = self.opened_now();
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool());
        // If a region cannot be opened, the operations that need it return the error.
        let _ = block_on(&endpoint, atoll_pool::nodes::learn(&endpoint, pool));
        let clients = self.clients(&endpoint)?.into_iter().map(|(_, client)| client).collect();
        let all = pool.layout.chunks();
        let descriptors = block_on(&endpoint, chunks::descriptors(&endpoint, &pool.layout, ChunkId(0), all))?;
        let (chunks_retired, chunks_undiscarded) = resize::out_of_use(&descriptors);
        let quarantined_bytes = self.quarantined_bytes(&endpoint, &descriptors)?;
        let (clock_ms, wall_clock_ahead_ms) = self.clock(&endpoint)?;
        let retired_bytes = chunks_retired * pool.layout.chunk_bytes;
        let used_bytes = self.used_bytes().min(self.capacity_bytes()).saturating_sub(retired_bytes);
        let [hits, misses, modelled_misses @ ..] = block_on(&endpoint, registry::lookups(&endpoint, pool))?;
        Ok(PoolInfo {
            settings: self.settings(),
            objects: block_on(&endpoint, registry::objects(&endpoint, pool))?,
            hits,
            misses,
            modelled_misses,
            near_caches: block_on(&endpoint, sharers::all(&endpoint, pool))?.len() as u64,
            clock_ms,
            wall_clock_ahead_ms,
            chunks_free: block_on(&endpoint, chunks::free_chunks(&endpoint, &pool.layout))?,
            chunks: all.into(),
            chunks_by_use: by_use(&descriptors),
            capacity_bytes: self.capacity_bytes(),
            used_bytes,
            retired_bytes,
            provided_bytes: self.provided_bytes(),
            chunks_retired,
            chunks_undiscarded,
            nodes: self.nodes(&descriptors)?,
            clients,
            quarantined_bytes,
        })
    }

    /// The pool's time, and how far this host's wall clock is ahead of it, both in milliseconds.
    fn clock(&self, endpoint: &EndpointOf<F>) -> Result<(u64, i64), CacheError> {
        let opened = self.opened_now();
        let (layout, mut clock) = (&opened.chosen.pool().layout, PoolClock::default());
        let ms = block_on(endpoint, clock.now_ms(endpoint, layout, endpoint.now_ns()))?;
        Ok((ms, clock.wall_ahead_ms()))
    }

    /// How far this host's wall clock is ahead of the pool's time, in milliseconds. It is negative
    /// if the clock is behind. Objects expire by the pool's time, which no wall clock moves.
    pub fn wall_clock_ahead_ms(&self) -> i64 {
        self.clock(&self.endpoint()).map_or(0, |(_, ahead_ms)| ahead_ms)
    }

    /// Bytes of chunks whose owners do not run.
    fn quarantined_bytes(&self, endpoint: &EndpointOf<F>, descriptors: &[Descriptor]) -> Result<u64, CacheError> {
        let opened = self.opened_now();
        let pool = opened.chosen.pool();
        // Clients are read after the chunks: an owner that is missing then is not alive.
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
    pub(super) fn clients(&self, endpoint: &EndpointOf<F>) -> Result<Vec<(Place, ClientInfo)>, CacheError> {
        let opened = self.opened_now();
        let places = block_on(endpoint, registry::places(endpoint, opened.chosen.pool()))?;
        let region = opened.reach.home();
        let peers = region.peers();
        let mut clients = Vec::new();
        for place in places {
            let origin = block_on(endpoint, registry::origin(endpoint, opened.chosen.pool(), place.incarnation))?;
            let known = ClientInfo::of(&place, origin, region, &peers);
            clients.extend(known.map(|client| (place, client)));
        }
        Ok(clients)
    }
}
