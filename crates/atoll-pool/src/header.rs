//! The settings on which all processes agree, at the start of the region.
//!
//! ```text
//! word  0  magic "ATOLLPL" + format version (one byte)
//! word  1  capacity, bytes                  word  2  bytes of a chunk
//! word  3  chunks                           word  4  clients at most
//! word  5  objects at most (0: no limit)    word  6  objects of a group at most
//! word  7  engine                           word  8..16  the engine's settings
//! word 16  seed of the key hash             word 17  boot id of the host: see `boot`
//! word 18  bytes of the engine area
//! word 31  checksum of words 0..31, word 17 as zero
//! word 32.. the control words, each on a line of its own: see `layout`
//! ```
//!
//! Words 0..32 are data, written once but for word 17; the magic last, so that a region is a pool only when it is whole. What is read is trusted only
//! after the checksum and every bound have been checked.

use crate::{Layout, Pool};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};

/// The format that this version reads and writes.
pub const FORMAT_VERSION: u8 = 2;
const MAGIC: u64 = u64::from_le_bytes(*b"ATOLLPL\0") | (FORMAT_VERSION as u64) << 56;
const WORDS: usize = 32;

/// Smallest and largest chunk in bytes; a power of two.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 256..=(64 << 10);
/// Most clients of a pool.
pub const CLIENTS_MAX: u32 = 4000;
/// Most objects of a group: an object's number in its group has 12 bits.
pub const GROUP_OBJECTS_MAX: u32 = 4095;
/// Largest pool: 4 TiB a node.
pub const CAPACITY_BYTES_MAX: u64 = 4 << 40;

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
    /// All places of the registry are taken.
    #[error("the pool has its {clients_max} clients: end one, or create the pool anew with more (--clients-max)")]
    Full {
        /// Places in the registry.
        clients_max: u32,
    },
    /// The fabric failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
}

/// What all processes agree on, fixed when the pool is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Bytes of the whole region: the hard limit of everything in it.
    pub capacity_bytes: u64,
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
    /// The defaults for a capacity: chunks of 1/2048 of it between 4 and 32 KiB, 64 clients or an eighth of the chunks.
    pub fn for_capacity(capacity_bytes: u64) -> Self {
        let chunk_bytes = (capacity_bytes / 2048).clamp(4 << 10, 32 << 10) as u32;
        let chunk_bytes = 1 << (31 - chunk_bytes.leading_zeros());
        Self {
            capacity_bytes: capacity_bytes / 8 * 8,
            chunk_bytes,
            clients_max: (capacity_bytes / u64::from(chunk_bytes) / 8).clamp(2, 64) as u32,
            objects_max: 0,
            group_objects_max: chunk_bytes / 64,
            engine: 0,
            engine_settings: [0; 8],
            hash_seed: 0,
        }
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
        // Every process keeps a counter for every object that could be: no more of them than records of a unit each.
        let group_objects_max = GROUP_OBJECTS_MAX.min(self.chunk_bytes / 16);
        if !(1..=group_objects_max).contains(&self.group_objects_max) {
            return bad("the objects of a group", self.group_objects_max.into(), format!("1 to {group_objects_max}"));
        }
        if self.capacity_bytes > CAPACITY_BYTES_MAX || !self.capacity_bytes.is_multiple_of(8) {
            let wanted = format!("a multiple of 8 up to {CAPACITY_BYTES_MAX}");
            return bad("the capacity in bytes", self.capacity_bytes, wanted);
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
    words[3] = pool.layout.chunks.into();
    words[4] = settings.clients_max.into();
    words[5] = settings.objects_max;
    words[6] = settings.group_objects_max.into();
    words[7] = settings.engine;
    words[8..16].copy_from_slice(&settings.engine_settings);
    words[16] = settings.hash_seed;
    words[BOOT_WORD] = atoll_fabric::shm::boot();
    words[18] = pool.layout.engine_bytes;
    words[31] = checksum(&words[..31]);
    let mut buffer = Buffer::new();
    buffer.resize(8 * (WORDS - 1));
    buffer.words_mut().copy_from_slice(&words[1..]);
    let mut batch = Batch::new();
    batch.write(HEADER.add(8), buffer);
    add_beginnings(&mut batch, endpoint, pool);
    endpoint.post(&mut batch).await?;
    let mut batch = Batch::new();
    batch.write_word(HEADER, MAGIC);
    endpoint.post(&mut batch).await?;
    Ok(())
}

/// Adds the WRITEs of the words that are not zero in a new pool, besides the header.
pub(crate) fn add_beginnings<E: Endpoint>(batch: &mut Batch, endpoint: &E, pool: &Pool) {
    batch.write_word(pool.layout.free_chunks(), pool.layout.chunks.into());
    batch.write_word(pool.layout.clock(), endpoint.unix_ms());
}

pub(crate) async fn read<E: Endpoint>(endpoint: &E, region_bytes: u64) -> Result<Pool, PoolError> {
    if region_bytes < 8 * WORDS as u64 {
        return Err(PoolError::NotAPool);
    }
    let mut batch = Batch::new();
    let mut buffer = Buffer::new();
    buffer.resize(8 * WORDS);
    let ticket = batch.read(HEADER, buffer);
    endpoint.post(&mut batch).await?;
    decode(batch.take(ticket).words(), region_bytes)
}

/// Sets magic and checksum of a header's words right: for tests that want what lies behind those checked.
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
        chunk_bytes: small(words[2])?,
        clients_max: small(words[4])?,
        objects_max: words[5],
        group_objects_max: small(words[6])?,
        engine: words[7],
        engine_settings: words[8..16].try_into().expect("eight words"),
        hash_seed: words[16],
    };
    settings.check().map_err(|_| damaged("a setting out of range"))?;
    let layout = Layout::new(&settings, small(words[3])?, words[18]).ok_or(damaged("layout"))?;
    if layout.end() > settings.capacity_bytes || settings.capacity_bytes > region_bytes {
        return Err(damaged("the region is smaller than its pool"));
    }
    Ok(Pool { settings, layout })
}
