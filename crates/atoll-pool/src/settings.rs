//! The settings that all processes of a pool share, and their limits.

use crate::PoolError;

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
    /// Seed of the key hash, so that no client outside can choose keys that collide.
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

    /// The same, made so that nodes with up to this many bytes can be added.
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
