//! The header at the start of the home's region: how a pool is formatted and opened.
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
//! Words 0..32 are data. All but word 17 are written once. The magic is written last, so that a
//! region is a pool only when it is whole. An opener trusts the words only after it has checked the
//! checksum and every bound.

use crate::error::FORMAT_VERSION;
use crate::{EngineArea, Layout, Pool, PoolError, PoolSettings, clock, loss, nodes, provision};
use atoll_fabric::{Address, Batch, Buffer, Domain, Endpoint, VerbError};

const MAGIC: u64 = u64::from_le_bytes(*b"ATOLLPL\0") | (FORMAT_VERSION as u64) << 56;
const WORDS: usize = 32;

fn checksum(words: &[u64]) -> u64 {
    let but_boot = words.iter().enumerate().map(|(index, word)| if index == BOOT_WORD { 0 } else { *word });
    let bytes: Vec<u8> = but_boot.flat_map(u64::to_le_bytes).collect();
    rapidhash::v3::rapidhash_v3(&bytes)
}
/// The word that holds the boot id.
const BOOT_WORD: usize = 17;
/// The boot id of a pool whose creator could not read one.
pub(crate) const BOOT_UNKNOWN: u64 = 0;
/// The word that holds the pool's id.
const ID_WORD: usize = 23;
/// The id of a pool by the first words of its home, also if its creator has not come to the end.
pub fn id_of(words: &[u64]) -> Option<u64> {
    words.get(ID_WORD).copied().filter(|id| *id != 0)
}

/// The word that holds the domain of the home's atomics.
const DOMAIN_WORD: usize = 24;
/// The boot id.
pub(crate) const BOOT: Address = Address::new(0, 0, 8 * BOOT_WORD as u64);
/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = 8 * WORDS as u64;
const HEADER: Address = Address::new(0, 0, 0);

impl Pool {
    /// Formats all-zero regions that the endpoint reaches.
    pub async fn format<E: Endpoint>(
        endpoint: &E,
        settings: PoolSettings,
        engine_area: EngineArea,
    ) -> Result<Self, PoolError> {
        let layout = Layout::plan(&settings, engine_area)?;
        let pool = Self { settings, layout, id: endpoint.random() };
        if pool.settings.nodes > 1 {
            // If its creator dies before the end, what it left on other nodes is known by this.
            let mut batch = Batch::new();
            batch.write_word(HEADER.add(8 * ID_WORD as u64), pool.id);
            endpoint.post(&mut batch).await?;
        }
        nodes::write_first(endpoint, &pool).await?;
        write(endpoint, &pool).await?;
        Ok(pool)
    }

    /// Opens a pool that was formatted, and checks every word of all headers. `home_bytes` is the
    /// size of node 0's region.
    pub async fn open<E: Endpoint>(endpoint: &E, home_bytes: u64) -> Result<Self, PoolError> {
        let pool = read(endpoint, home_bytes).await?;
        nodes::learn(endpoint, &pool).await?;
        provision::provided(endpoint, &pool.layout).await?;
        Ok(pool)
    }

    /// The user says that the region of a memory node is gone for good and that the node may be
    /// made anew where this endpoint would make it: see [`loss`](crate::loss). Clients that join
    /// from now on use the pool without it. Another client that still used it ends. `home_bytes` is
    /// the size of node 0's region.
    ///
    /// # Errors
    /// [`PoolError::Present`] if this endpoint reaches the node, there is no such node, or clients
    /// use it; `force` gives up one that clients use.
    pub async fn give_up<E: Endpoint>(endpoint: &E, home_bytes: u64, node: u8, force: bool) -> Result<(), PoolError> {
        loss::give_up(endpoint, &read(endpoint, home_bytes).await?, node, force).await
    }
}

async fn write<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<(), PoolError> {
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
    words[BOOT_WORD] = endpoint.boot().unwrap_or(BOOT_UNKNOWN);
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

async fn read<E: Endpoint>(endpoint: &E, region_bytes: u64) -> Result<Pool, PoolError> {
    if region_bytes < 8 * WORDS as u64 {
        return Err(PoolError::NotAPool);
    }
    let mut found = read_words(endpoint).await?;
    let mut decoded = decode(found.words(), region_bytes);
    if let Err(PoolError::Damaged { .. }) = decoded {
        // One READ may return the magic of a pool that is being formatted together with older
        // words. The magic is written last, so a READ after it was seen returns whole words.
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

/// The domain that a word of the header names.
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

/// Corrects magic and checksum of a header's words, for tests of the checks behind those.
///
/// # Panics
/// If the number of words is not a header's.
pub fn seal(words: &mut [u64]) {
    assert_eq!(words.len(), WORDS);
    words[0] = MAGIC;
    words[WORDS - 1] = checksum(&words[..WORDS - 1]);
}

/// The only way from remote bytes to a pool.
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
