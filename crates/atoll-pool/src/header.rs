//! The settings on which all processes agree, at the start of the region.
//!
//! ```text
//! word  0  magic "ATOLLPL" + format version (one byte)
//! word  1  capacity, bytes                  word  2  bytes of a chunk
//! word  3  chunks of the home               word  4  clients at most
//! word  5  objects at most (0: no limit)    word  6  objects of a group at most
//! word  7  engine                           word  8..16  the engine's settings
//! word 16  seed of the key hash             word 17  boot id of the host: see `boot`
//! word 18  bytes of the engine area         word 19  nodes 32 | nodes at most 32
//! word 20  bytes of each further node       word 21  bytes that may be added at most
//! word 22  bytes of a node's engine share   word 23  the pool's id
//! word 24  domain of the home's atomics (0 CPU, 1 NIC, 2 agent)
//! word 31  checksum of words 0..31, word 17 as zero
//! word 32.. the control words, each on a line of its own: see `layout`
//! ```
//!
//! Words 0..32 are data, written once but for word 17; the magic last, so that a region is a pool
//! only when it is whole. What is read is trusted only after the checksum and every bound have been
//! checked.

use crate::layout::EngineArea;
use crate::{Layout, Pool, boot, clock, nodes, provision};
use atoll_fabric::{Address, Batch, Buffer, Domain, Endpoint, VerbError};

/// The format that this version reads and writes.
pub const FORMAT_VERSION: u8 = 10;
const MAGIC: u64 = u64::from_le_bytes(*b"ATOLLPL\0") | (FORMAT_VERSION as u64) << 56;
const WORDS: usize = 32;

/// Smallest and largest chunk in bytes; a power of two.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 256..=(64 << 10);
/// Most clients of a pool.
pub const CLIENTS_MAX: u32 = 4000;
/// Most objects of a group: an object's number in its group has 12 bits.
pub const GROUP_OBJECTS_MAX: u32 = 4095;
/// Largest memory node: 4 TiB.
pub const CAPACITY_BYTES_MAX: u64 = 4 << 40;
/// Most memory nodes of a pool.
pub const NODES_MAX: u32 = 64;
/// Most memory nodes of a pool that may grow, if nothing else is said.
pub const NODES_MAX_DEFAULT: u32 = 16;

/// Why a region is no pool, or cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The region was never formatted, or not to its end.
    #[error("the region holds no pool: make one with `atoll pool create`")]
    NotAPool,
    /// Another version of Atoll formatted it.
    #[error("the pool has format {found}, this version reads {FORMAT_VERSION}: remove the pool and create it anew")]
    Version {
        /// The format found.
        found: u8,
    },
    /// The header is not what its checksum says, or not possible.
    #[error("the pool's header is damaged ({what}): remove the pool and create it anew")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// The settings are not possible.
    #[error("{what} is {found}: choose {wanted}")]
    Setting {
        /// Which one.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What is possible.
        wanted: String,
    },
    /// Another engine's pool.
    #[error("the pool was made for engine {found}, not {wanted}")]
    Engine {
        /// The engine in the header.
        found: u64,
        /// The engine that wants to use it.
        wanted: u64,
    },
    /// An engine's pool that this version does not know.
    #[error(
        "the pool was made for engine {found}, which this version does not have: open it with the version that made it, or remove the pool and create it anew"
    )]
    UnknownEngine {
        /// The engine in the header.
        found: u64,
    },
    /// All places of the registry are taken.
    #[error("the pool has its {clients_max} clients: end one, or create the pool anew with more (--clients-max)")]
    Full {
        /// Places in the registry.
        clients_max: u32,
    },
    /// A memory node's region is not the one that the pool has.
    #[error("the region of memory node {node} {what}: put the right one back, or remove the pool and create it anew")]
    Member {
        /// The node.
        node: u8,
        /// What the region is instead.
        what: String,
    },
    /// The region belongs to a pool whose home is another one.
    #[error("this is memory node {node} of a pool, not its home: open the pool by the name that it was created with")]
    NotTheHome {
        /// The node's number.
        node: u64,
    },
    /// Nothing more can be added.
    #[error("the pool cannot grow by {wanted_bytes} bytes: {why}")]
    Growth {
        /// What was wanted.
        wanted_bytes: u64,
        /// What is in the way, and what to do.
        why: String,
    },
    /// This process and those that have the pool open do not agree on the boot of the host.
    #[error(
        "this process reads another boot id than the pool has, but {proof}, so that the host was not restarted: let this process read the host's /proc/sys/kernel/random/boot_id (it has a /proc of its own), or remove the pool"
    )]
    OtherBoot {
        /// Why it cannot be another boot.
        proof: &'static str,
    },
    /// Whether the pool's file went through a crash of the host cannot be told.
    #[error(
        "the pool's file was not closed, and whether the host went down since cannot be told without its boot id: let this process read /proc/sys/kernel/random/boot_id (mount /proc), or remove the pool"
    )]
    UnknownBoot,
    /// The pool's clients change its words by the atomics of another agent.
    #[error(
        "the pool was made where atomics are of domain {found}, and this fabric's are of the {mine:?}, which do not exclude each other: open the pool by the fabric that it was made on"
    )]
    Domain {
        /// The number of the domain in the header.
        found: u64,
        /// The domain of the endpoint that opens it.
        mine: Domain,
    },
    /// The fabric failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
}

impl PoolError {
    /// The engine's own settings in the header are not possible.
    pub const ENGINE_SETTINGS: Self = Self::Damaged { what: "the engine's settings" };
}

/// What all processes agree on, fixed when the pool is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Bytes of all regions that the pool is made with: the hard limit of everything in it until
    /// memory nodes are added.
    pub capacity_bytes: u64,
    /// Memory nodes that the pool is made with; the engine's index is spread over them.
    pub nodes: u32,
    /// Most memory nodes that there may ever be.
    pub nodes_max: u32,
    /// Of the capacity, bytes of each node but the home. 0 with one node.
    pub member_bytes: u64,
    /// Bytes that nodes may add at most; index, rings and tables are made for them.
    pub growth_bytes_max: u64,
    /// Bytes of a chunk, which holds a group of objects; a power of two.
    pub chunk_bytes: u32,
    /// Most clients (threads) at a time.
    pub clients_max: u32,
    /// Most objects, for experiments that count objects instead of bytes; 0 for no limit.
    pub objects_max: u64,
    /// Most objects of one group.
    pub group_objects_max: u32,
    /// Which engine the pool is for.
    pub engine: u64,
    /// What that engine's clients agree on.
    pub engine_settings: [u64; 8],
    /// Seed of the key hash, so that nobody outside can choose keys that collide.
    pub hash_seed: u64,
}

impl PoolSettings {
    /// The defaults for a capacity: chunks of 1/2048 of it between 4 and 32 KiB, 64 clients or an
    /// eighth of the chunks.
    pub fn for_capacity(capacity_bytes: u64) -> Self {
        let chunk_bytes = (capacity_bytes / 2048).clamp(4 << 10, 32 << 10) as u32;
        let chunk_bytes = 1 << (31 - chunk_bytes.leading_zeros());
        Self {
            capacity_bytes: capacity_bytes / 8 * 8,
            nodes: 1,
            nodes_max: 1,
            member_bytes: 0,
            growth_bytes_max: 0,
            chunk_bytes,
            clients_max: (capacity_bytes / u64::from(chunk_bytes) / 8).clamp(2, 64) as u32,
            objects_max: 0,
            group_objects_max: chunk_bytes / 64,
            engine: 0,
            engine_settings: [0; 8],
            hash_seed: 0,
        }
    }

    /// The same capacity over so many memory nodes of equal size.
    pub fn spread(self, nodes: u32) -> Self {
        let member_bytes = if nodes > 1 { self.capacity_bytes / u64::from(nodes) / 8 * 8 } else { 0 };
        Self { nodes, nodes_max: self.nodes_max.max(nodes), member_bytes, ..self }
    }

    /// The same, made so that nodes with up to so many bytes can be added.
    pub fn growing(self, growth_bytes_max: u64) -> Self {
        let growing = growth_bytes_max > 0;
        let nodes_max =
            if growing { self.nodes_max.max(self.nodes + 1).max(NODES_MAX_DEFAULT) } else { self.nodes_max };
        Self { growth_bytes_max, nodes_max, ..self }
    }

    /// Bytes of the home's region.
    pub fn home_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(u64::from(self.nodes.saturating_sub(1)).saturating_mul(self.member_bytes))
    }

    /// What the clients of engine `wanted` agree on; an error if the pool is for another engine.
    pub fn engine_words(&self, wanted: u64) -> Result<[u64; 8], PoolError> {
        if self.engine == wanted {
            Ok(self.engine_settings)
        } else {
            Err(PoolError::Engine { found: self.engine, wanted })
        }
    }

    /// The same settings for engine `engine`, whose clients agree on these words. The rest of the
    /// engine's words are 0.
    pub fn with_engine<const N: usize>(mut self, engine: u64, words: [u64; N]) -> Self {
        self.engine = engine;
        self.engine_settings = [0; 8];
        self.engine_settings[..N].copy_from_slice(&words);
        self
    }

    /// Checks every bound; the layout checks that it all fits.
    pub fn check(&self) -> Result<(), PoolError> {
        let bad = |what, found: u64, wanted: String| Err(PoolError::Setting { what, found, wanted });
        if !CHUNK_BYTES.contains(&self.chunk_bytes) || !self.chunk_bytes.is_power_of_two() {
            let wanted = format!("a power of two from {} to {}", CHUNK_BYTES.start(), CHUNK_BYTES.end());
            return bad("the chunk size", self.chunk_bytes.into(), wanted);
        }
        if !(1..=CLIENTS_MAX).contains(&self.clients_max) {
            return bad("the number of clients", self.clients_max.into(), format!("1 to {CLIENTS_MAX}"));
        }
        // Every process keeps a counter for every object that could be: no more of them than
        // records of a unit each.
        let group_objects_max = GROUP_OBJECTS_MAX.min(self.chunk_bytes / 16);
        if !(1..=group_objects_max).contains(&self.group_objects_max) {
            return bad("the objects of a group", self.group_objects_max.into(), format!("1 to {group_objects_max}"));
        }
        if !(1..=NODES_MAX).contains(&self.nodes_max) {
            return bad("the most memory nodes", self.nodes_max.into(), format!("1 to {NODES_MAX}"));
        }
        if !(1..=self.nodes_max).contains(&self.nodes) {
            return bad("the number of memory nodes", self.nodes.into(), format!("1 to {}", self.nodes_max));
        }
        let node_bytes = self.home_bytes().max(self.member_bytes);
        if node_bytes > CAPACITY_BYTES_MAX || !self.capacity_bytes.is_multiple_of(8) {
            let wanted = format!("a multiple of 8 up to {CAPACITY_BYTES_MAX} for each memory node");
            return bad("the capacity in bytes", self.capacity_bytes, wanted);
        }
        let further = u64::from(self.nodes - 1);
        let is_divided = match further {
            0 => self.member_bytes == 0,
            _ => self.member_bytes.is_multiple_of(8) && further * self.member_bytes < self.capacity_bytes,
        };
        if !is_divided {
            let wanted = "a multiple of 8 that leaves the home something of the capacity".to_owned();
            return bad("the bytes of a further memory node", self.member_bytes, wanted);
        }
        let growth_bytes_max = u64::from(self.nodes_max - self.nodes) * CAPACITY_BYTES_MAX;
        if self.growth_bytes_max > growth_bytes_max {
            let wanted = format!("at most {growth_bytes_max} for {} further memory nodes", self.nodes_max - self.nodes);
            return bad("the bytes that may be added", self.growth_bytes_max, wanted);
        }
        Ok(())
    }
}

fn checksum(words: &[u64]) -> u64 {
    let but_boot = words.iter().enumerate().map(|(index, word)| if index == BOOT_WORD { 0 } else { *word });
    let bytes: Vec<u8> = but_boot.flat_map(u64::to_le_bytes).collect();
    rapidhash::v3::rapidhash_v3(&bytes)
}
/// Which word is the boot id.
const BOOT_WORD: usize = 17;
/// Which word is the pool's id.
const ID_WORD: usize = 23;
/// Which word is the domain of the home's atomics.
const DOMAIN_WORD: usize = 24;
/// The boot id.
pub(crate) const BOOT: Address = Address::new(0, 0, 8 * BOOT_WORD as u64);
/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = 8 * WORDS as u64;
const HEADER: Address = Address::new(0, 0, 0);

pub(crate) async fn write<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<(), PoolError> {
    let settings = &pool.settings;
    let mut words = [0u64; WORDS];
    words[0] = MAGIC;
    words[1] = settings.capacity_bytes;
    words[2] = settings.chunk_bytes.into();
    words[3] = pool.layout.home_chunks.into();
    words[4] = settings.clients_max.into();
    words[5] = settings.objects_max;
    words[6] = settings.group_objects_max.into();
    words[7] = settings.engine;
    words[8..16].copy_from_slice(&settings.engine_settings);
    words[16] = settings.hash_seed;
    words[BOOT_WORD] = endpoint.boot().unwrap_or(boot::UNKNOWN);
    words[18] = pool.layout.engine_area.home_bytes;
    words[19] = u64::from(settings.nodes) | u64::from(settings.nodes_max) << 32;
    words[20] = settings.member_bytes;
    words[21] = settings.growth_bytes_max;
    words[22] = pool.layout.engine_area.share_bytes;
    words[ID_WORD] = pool.id;
    words[DOMAIN_WORD] = domain_of(endpoint).map_or(0, domain_word);
    words[31] = checksum(&words[..31]);
    let mut buffer = Buffer::sized(8 * (WORDS - 1));
    buffer.words_mut().copy_from_slice(&words[1..]);
    let mut batch = Batch::new();
    batch.write(HEADER.add(8), buffer);
    add_beginnings(&mut batch, endpoint, pool);
    batch.write_word(pool.layout.provided_word(), provision::first_word(endpoint, &pool.layout));
    endpoint.post(&mut batch).await?;
    let mut batch = Batch::new();
    batch.write_word(HEADER, MAGIC);
    endpoint.post(&mut batch).await?;
    Ok(())
}

/// Adds the WRITEs of the words that are not zero in a new pool, besides the header.
pub(crate) fn add_beginnings<E: Endpoint>(batch: &mut Batch, endpoint: &E, pool: &Pool) {
    batch.write_word(pool.layout.free_chunks(), pool.layout.chunks().into());
    clock::add_beginning(batch, endpoint, &pool.layout, 0);
}

pub(crate) async fn read<E: Endpoint>(endpoint: &E, region_bytes: u64) -> Result<Pool, PoolError> {
    if region_bytes < 8 * WORDS as u64 {
        return Err(PoolError::NotAPool);
    }
    let mut found = read_words(endpoint).await?;
    let mut decoded = decode(found.words(), region_bytes);
    if let Err(PoolError::Damaged { .. }) = decoded {
        // One READ may bring the magic of a pool that is being formatted with older words. The
        // magic is WRITTEN last: what is READ after it has been seen is whole.
        found = read_words(endpoint).await?;
        decoded = decode(found.words(), region_bytes);
    }
    let pool = decoded?;
    check_domain(endpoint, found.words())?;
    Ok(pool)
}

/// The agent whose atomics exclude each other on the home.
fn domain_of<E: Endpoint>(endpoint: &E) -> Option<Domain> {
    endpoint.region_attributes(0).map(|attributes| attributes.domain)
}

/// A domain as the header has it.
fn domain_word(domain: Domain) -> u64 {
    match domain {
        Domain::Cpu => 0,
        Domain::Nic => 1,
        Domain::Agent => 2,
    }
}

/// An error if this endpoint's atomics and those of the pool's clients do not exclude each other.
fn check_domain<E: Endpoint>(endpoint: &E, words: &[u64]) -> Result<(), PoolError> {
    let found = words.get(DOMAIN_WORD).copied().unwrap_or(0);
    match domain_of(endpoint) {
        Some(mine) if domain_word(mine) != found => Err(PoolError::Domain { found, mine }),
        _ => Ok(()),
    }
}

async fn read_words<E: Endpoint>(endpoint: &E) -> Result<Buffer, VerbError> {
    endpoint.read(HEADER, Buffer::sized(8 * WORDS)).await
}

/// Sets magic and checksum of a header's words right: for tests that want what lies behind those
/// checked.
///
/// # Panics
/// If they are not as many as a header has.
pub fn seal(words: &mut [u64]) {
    assert_eq!(words.len(), WORDS);
    words[0] = MAGIC;
    words[WORDS - 1] = checksum(&words[..WORDS - 1]);
}

/// The one way from remote bytes to a pool.
pub fn decode(words: &[u64], region_bytes: u64) -> Result<Pool, PoolError> {
    let damaged = |what| PoolError::Damaged { what };
    let words: &[u64; WORDS] = words.try_into().map_err(|_| PoolError::NotAPool)?;
    if let Some(node) = nodes::member_number(&words[..]) {
        return Err(PoolError::NotTheHome { node });
    }
    if words[0] << 8 != MAGIC << 8 {
        return Err(PoolError::NotAPool);
    }
    if words[0] != MAGIC {
        return Err(PoolError::Version { found: (words[0] >> 56) as u8 });
    }
    if words[31] != checksum(&words[..31]) {
        return Err(damaged("checksum"));
    }
    let small = |word: u64| u32::try_from(word).map_err(|_| damaged("a number out of range"));
    let settings = PoolSettings {
        capacity_bytes: words[1],
        nodes: words[19] as u32,
        nodes_max: (words[19] >> 32) as u32,
        member_bytes: words[20],
        growth_bytes_max: words[21],
        chunk_bytes: small(words[2])?,
        clients_max: small(words[4])?,
        objects_max: words[5],
        group_objects_max: small(words[6])?,
        engine: words[7],
        engine_settings: words[8..16].try_into().expect("eight words"),
        hash_seed: words[16],
    };
    settings.check().map_err(|_| damaged("a setting out of range"))?;
    let area = EngineArea { home_bytes: words[18], share_bytes: words[22] };
    let layout = Layout::new(&settings, small(words[3])?, area).ok_or(damaged("layout"))?;
    if layout.end() > settings.home_bytes() || settings.home_bytes() > region_bytes {
        return Err(damaged("the region is smaller than its pool"));
    }
    Ok(Pool { settings, layout, id: words[ID_WORD] })
}
