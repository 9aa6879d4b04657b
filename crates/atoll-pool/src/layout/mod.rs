//! The layout of a pool's regions.
//!
//! ```text
//! node 0, the pool's home
//! 0        256     896   1024 up        signals firsts accounts protections chunk
//! +--------+-------+-----+-------+------+-------+------+-------+-----------+-------+------+------+
//! | header |control|nodes|sharers|reuses| 64 B a| 8 B a|128 B a| 1 KiB a   | table,|engine|heap: |
//! |        |words, |16 B |576 B  |512 B | client|client| client| client    | 32 B a|area  |chunks|
//! |        |a line |each |       |      |       |      |       |           | chunk |      |      |
//! +--------+-------+-----+-------+------+-------+------+-------+-----------+-------+------+------+
//!
//! the engine area is as large as the engine needs; chunks begin at lines
//!
//! firsts: for every 64 clients a word of notices, a bit a client, and their first protections
//!
//! a further node
//! 0        128                   heap
//! +--------+---------------------+-------------------------------+
//! | header | the engine's share  | chunks                        |
//! +--------+---------------------+-------------------------------+
//! ```
//!
//! Chunks are numbered across nodes: first the home's, then node 1's, and so on. The tables have
//! room for the most chunks and nodes that the pool may get. Nodes that existed when the pool was
//! created hold a share of the engine's words. A node that was added later holds chunks only.
//!
//! | control word | access |
//! |---|---|
//! | clock | atomics only |
//! | free chunks (a hint) | atomics only |
//! | resident objects (kept only where objects are limited) | atomics only |
//! | clients ever | atomics only |
//! | write tokens handed out | atomics only |
//! | clients shut out | atomics only |
//! | clients shut out, as the last recount saw them | atomics only |
//! | joins, and whether the pool was closed (see `boot`) | atomics only |
//! | the clock's offset (see `clock`) | data |
//! | the memory that is present (see `provision`) | atomics only |

mod describe;

use crate::chunk::{DESCRIPTOR_BYTES, descriptor_word};
use crate::known_nodes::KnownNodes;
use crate::registry::place::{ACCOUNT_BYTES, PROTECTIONS_BYTES, SIGNAL_BYTES, account_word, signal_word};
use crate::registry::protected::FirstWords;
use crate::{ChunkId, PoolError, PoolSettings, reuses, sharers};
use atoll_fabric::Address;
use std::sync::Arc;

const LINE: u64 = 64;
const CONTROL: u64 = 256;
/// First byte of the table of nodes.
pub(crate) const NODES: u64 = 896;
const NODES_END_MIN: u64 = 1024;
/// Bytes in front of what a further node holds; its header is the first half of them.
pub const MEMBER_HEADER_BYTES: u64 = 128;
/// Enough for the home's words that every pool has, besides those of chunks, clients and engine.
pub const FIXED_BYTES_MOST: u64 = 4096 + sharers::TABLE_BYTES + reuses::TABLE_BYTES;
/// A pool with fewer chunks is of no use.
pub const CHUNKS_MIN: u32 = 8;

/// What an engine needs for its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineArea {
    /// Bytes on the home.
    pub home_bytes: u64,
    /// Bytes on each further node that exists when the pool is created.
    pub share_bytes: u64,
}

/// Where everything is: derived from the settings alone, but for the nodes that have come since the
/// pool was made. Clones know the same nodes.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The most chunks that the pool may ever have.
    pub chunks_max: u32,
    /// Bytes of a chunk; a power of two.
    pub chunk_bytes: u64,
    /// The engine's words.
    pub engine_area: EngineArea,
    /// Chunks of the home.
    pub(crate) home_chunks: u32,
    /// Chunks that the pool was made with.
    first_chunks: u32,
    /// Nodes that have a share of the engine's words.
    first_nodes: u8,
    /// The most nodes that the pool may ever have.
    pub(crate) nodes_max: u8,
    sharers: u64,
    reuses: u64,
    registry: u64,
    firsts: u64,
    accounts: u64,
    protections: u64,
    table: u64,
    engine: u64,
    heap: u64,
    pub(crate) nodes: Arc<KnownNodes>,
}

/// Chunks of each further node that exists when the pool is created.
pub(crate) fn member_chunks(settings: &PoolSettings, area: EngineArea) -> u32 {
    let heap_bytes = settings.member_bytes.saturating_sub(member_heap(area.share_bytes, settings.chunk_bytes.into()));
    u32::try_from(heap_bytes / u64::from(settings.chunk_bytes)).unwrap_or(u32::MAX)
}

/// Bytes of a page of memory on every host that we know of.
const PAGE_BYTES: u64 = 4096;

/// What a heap begins at a multiple of: chunks of whole pages share none with others, so that all
/// of their memory goes back to the host.
const fn heap_alignment(chunk_bytes: u64) -> u64 {
    if chunk_bytes < PAGE_BYTES { LINE } else { PAGE_BYTES }
}

/// Where the heap of a further node begins whose share of the engine's words has this many bytes.
fn member_heap(share_bytes: u64, chunk_bytes: u64) -> u64 {
    let words = MEMBER_HEADER_BYTES.saturating_add(share_bytes);
    words.checked_next_multiple_of(heap_alignment(chunk_bytes)).unwrap_or(u64::MAX)
}

impl Layout {
    /// The layout for this many chunks on the home; `None` if it overflows.
    pub(crate) fn new(settings: &PoolSettings, home_chunks: u32, engine_area: EngineArea) -> Option<Self> {
        let further = settings.nodes - 1;
        let member_chunks = if further > 0 { member_chunks(settings, engine_area) } else { 0 };
        let first_chunks = home_chunks.checked_add(member_chunks.checked_mul(further)?)?;
        let growth = u32::try_from(settings.growth_bytes_max / u64::from(settings.chunk_bytes)).ok()?;
        let chunks_max = first_chunks.checked_add(growth)?;
        if home_chunks == 0 || first_chunks < CHUNKS_MIN || (further > 0 && member_chunks == 0) {
            return None;
        }
        let clients = u64::from(settings.clients_max);
        let chunk_bytes = u64::from(settings.chunk_bytes);
        let sharers = (NODES + 16 * u64::from(settings.nodes_max)).next_multiple_of(LINE).max(NODES_END_MIN);
        let reuses = sharers + sharers::TABLE_BYTES;
        let registry = reuses + reuses::TABLE_BYTES;
        let firsts = registry + clients * SIGNAL_BYTES;
        let accounts = (firsts + FirstWords::bytes(settings.clients_max)).next_multiple_of(LINE);
        let protections = accounts + clients * ACCOUNT_BYTES;
        let table = protections + clients * PROTECTIONS_BYTES;
        let engine = (table + u64::from(chunks_max) * DESCRIPTOR_BYTES).next_multiple_of(LINE);
        let heap = engine.checked_add(engine_area.home_bytes)?.checked_next_multiple_of(heap_alignment(chunk_bytes))?;
        heap.checked_add(u64::from(home_chunks) * chunk_bytes)?;
        let nodes = Arc::new(KnownNodes::home(home_chunks));
        let (first_nodes, nodes_max) = (settings.nodes as u8, settings.nodes_max as u8);
        Some(Self {
            chunks_max,
            chunk_bytes,
            engine_area,
            home_chunks,
            first_chunks,
            first_nodes,
            nodes_max,
            sharers,
            reuses,
            registry,
            firsts,
            accounts,
            protections,
            table,
            engine,
            heap,
            nodes,
        })
    }

    /// The layout with the most chunks that fit the capacity.
    pub fn plan(settings: &PoolSettings, engine_area: EngineArea) -> Result<Self, PoolError> {
        settings.check()?;
        let home_bytes = settings.home_bytes();
        let fits = |chunks: u32| Self::new(settings, chunks, engine_area).filter(|layout| layout.end() <= home_bytes);
        let further = (settings.nodes - 1).saturating_mul(member_chunks(settings, engine_area));
        let (mut low, mut high) = (
            CHUNKS_MIN.saturating_sub(further).max(1),
            (home_bytes / u64::from(settings.chunk_bytes)).min(u32::MAX.into()) as u32,
        );
        let Some(mut best) = fits(low) else {
            let growth = if settings.growth_bytes_max > 0 { ", or less to grow by" } else { "" };
            let wanted = format!("more{growth}: {CHUNKS_MIN} chunks of {} bytes must fit", settings.chunk_bytes);
            return Err(PoolError::Setting { what: "the capacity in bytes", found: settings.capacity_bytes, wanted });
        };
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match fits(middle) {
                Some(layout) => (low, best) = (middle, layout),
                None => high = middle - 1,
            }
        }
        Ok(best)
    }

    /// First byte behind the home's heap.
    pub fn end(&self) -> u64 {
        self.heap + u64::from(self.home_chunks) * self.chunk_bytes
    }

    /// Bytes of a further node's region in front of its heap.
    pub fn member_heap(&self, node: u8) -> u64 {
        member_heap(if node < self.first_nodes { self.engine_area.share_bytes } else { 0 }, self.chunk_bytes)
    }

    /// Bytes of a further node's region with this many chunks.
    pub fn member_end(&self, node: u8, chunks: u32) -> u64 {
        self.member_heap(node).saturating_add(u64::from(chunks) * self.chunk_bytes)
    }

    /// Chunks that this process knows. These are all chunks, unless a node was added since it last
    /// looked ([`nodes::learn`](crate::nodes::learn)).
    #[inline]
    pub fn chunks(&self) -> u32 {
        self.nodes.chunks()
    }

    /// Chunks that the pool was made with.
    pub(crate) fn first_chunks(&self) -> u32 {
        self.first_chunks
    }

    /// Nodes that the pool was made with.
    pub(crate) fn nodes_first(&self) -> u8 {
        self.first_nodes
    }

    /// Nodes that this process knows, the home among them.
    pub fn nodes_known(&self) -> u8 {
        self.nodes.count()
    }

    /// Whether there may be nodes that this process does not know.
    #[inline]
    pub fn may_grow(&self) -> bool {
        self.chunks() < self.chunks_max && self.nodes_known() < self.nodes_max
    }

    /// First byte of a node's heap.
    pub(crate) fn heap_of(&self, node: u8) -> u64 {
        if node == 0 { self.heap } else { self.member_heap(node) }
    }

    /// Of the chunks that the pool was made with, the first so many have memory, as far as this
    /// process knows.
    pub(crate) fn note_provided(&self, chunks: u32) {
        self.nodes.note_provided(chunks);
    }

    /// Chunks that have no memory yet, as far as this process knows; the count of free chunks
    /// counts them, too. See [`provision`](crate::provision).
    #[inline]
    pub fn absent_chunks(&self) -> u32 {
        self.first_chunks.saturating_sub(self.nodes.provided())
    }

    /// Chunks, from the first on, that may be used: of those that this process knows, those that
    /// have memory.
    #[inline]
    pub fn usable_chunks(&self) -> u32 {
        let provided = self.nodes.provided();
        if provided < self.first_chunks { provided } else { self.chunks() }
    }

    /// Chunks that a further node brought, if this process knows it; of node 0 the home's.
    pub fn chunks_of(&self, node: u8) -> Option<std::ops::Range<u32>> {
        self.nodes.chunks_of(node)
    }

    /// The node of a chunk.
    pub fn node_of(&self, chunk: ChunkId) -> u8 {
        if chunk.0 < self.home_chunks { 0 } else { self.nodes.find(chunk).0 }
    }

    const fn control(index: u64) -> Address {
        Address::new(0, 0, CONTROL + index * LINE)
    }

    /// The pool's clock.
    pub const fn clock(&self) -> Address {
        Self::control(0)
    }

    /// How many chunks are free: a hint, exact while no client allocates.
    pub const fn free_chunks(&self) -> Address {
        Self::control(1)
    }

    /// Resident objects, where they are limited.
    pub const fn resident_objects(&self) -> Address {
        Self::control(2)
    }

    /// One more than the highest place of the registry that was ever taken.
    pub const fn members_ever(&self) -> Address {
        Self::control(3)
    }

    /// Write tokens handed out so far.
    pub const fn tokens(&self) -> Address {
        Self::control(4)
    }

    /// Clients that were shut out, ever.
    pub const fn deaths(&self) -> Address {
        Self::control(5)
    }

    /// How many of those had been shut out when everything was counted anew.
    pub const fn deaths_counted(&self) -> Address {
        Self::control(6)
    }

    /// Joins so far, and whether the pool was closed: see [`boot`](crate::boot).
    pub const fn closing(&self) -> Address {
        Self::control(7)
    }

    /// The pool's time less the agent's clock: see [`clock`](crate::clock).
    pub const fn clock_offset(&self) -> Address {
        Self::control(8)
    }

    /// How much of the pool's memory is present: see [`provision`](crate::provision).
    pub const fn provided_word(&self) -> Address {
        Self::control(9)
    }

    /// What is known of a memory node: see [`nodes`](crate::nodes).
    pub const fn node(&self, node: u8) -> Address {
        Address::new(0, 0, NODES + 8 * node as u64)
    }

    /// Where a memory node is made: see [`nodes`](crate::nodes).
    pub(crate) const fn place(&self, node: u8) -> Address {
        self.node(self.nodes_max).add(8 * node as u64)
    }

    /// How often chunks began a new life: see [`reuses`].
    pub const fn reuses(&self) -> Address {
        Address::new(0, 0, self.reuses)
    }

    /// The version of the table of sharers: see [`sharers`](crate::sharers).
    pub(crate) fn sharers_version(&self) -> Address {
        Address::new(0, 0, self.sharers)
    }

    /// A place in the table of sharers.
    pub(crate) fn sharer(&self, place: usize) -> Address {
        debug_assert!(place < sharers::SHARERS_MAX, "a place of the table");
        self.sharers_version().add(LINE + 8 * place as u64)
    }

    /// First byte behind the table of sharers.
    pub(crate) fn registry(&self) -> u64 {
        self.registry
    }

    /// A client's signal; its first word is the state.
    pub fn signal(&self, slot: u32) -> Address {
        Address::new(0, 0, self.registry + u64::from(slot) * SIGNAL_BYTES)
    }

    /// A client's lease.
    #[inline]
    pub fn lease(&self, slot: u32) -> Address {
        self.signal(slot).add(8 * signal_word::LEASE as u64)
    }

    /// How many protections a client has had at once.
    pub(crate) fn protections_announced(&self, slot: u32) -> Address {
        self.signal(slot).add(8 * signal_word::PROTECTIONS as u64)
    }

    /// The first protections of all clients, with their notices: [`FirstWords`] says how.
    pub(crate) fn firsts(&self) -> Address {
        Address::new(0, 0, self.firsts)
    }

    /// The first protection of a client that is far from the pool.
    #[inline]
    pub(crate) fn first_protection(&self, slot: u32) -> Address {
        self.firsts().add(8 * FirstWords::first(slot) as u64)
    }

    /// The word with a client's notice.
    pub(crate) fn notices(&self, slot: u32) -> Address {
        self.firsts().add(8 * FirstWords::notices(slot) as u64)
    }

    /// The first protection of a client that is near the pool.
    #[inline]
    pub(crate) fn near_protection(&self, slot: u32) -> Address {
        self.signal(slot).add(8 * signal_word::PROTECTION as u64)
    }

    /// A further protection of a client, by its number.
    #[inline]
    pub(crate) fn further_protection(&self, slot: u32, number: u32) -> Address {
        assert!(number > 0, "the first is elsewhere");
        Address::new(0, 0, self.protections + u64::from(slot) * PROTECTIONS_BYTES + 8 * u64::from(number))
    }

    /// A client's account; its process comes first.
    pub fn account(&self, slot: u32) -> Address {
        Address::new(0, 0, self.accounts + u64::from(slot) * ACCOUNT_BYTES)
    }

    /// The memory nodes that a client may use.
    pub(crate) fn used_nodes(&self, slot: u32) -> Address {
        self.account(slot).add(8 * account_word::USED_NODES as u64)
    }

    /// The memory nodes without which a client uses the pool.
    pub(crate) fn absent_nodes(&self, slot: u32) -> Address {
        self.account(slot).add(8 * account_word::ABSENT_NODES as u64)
    }

    /// What a client has counted of objects.
    pub(crate) fn objects_counted(&self, slot: u32) -> Address {
        self.account(slot).add(8 * account_word::OBJECTS as u64)
    }

    /// What a client has told of its lookups: hits, then misses.
    pub(crate) fn lookups_told(&self, slot: u32) -> Address {
        self.account(slot).add(8 * account_word::LOOKUPS as u64)
    }

    /// A chunk's descriptor; its first word is state and owner.
    #[inline]
    pub fn descriptor(&self, chunk: ChunkId) -> Address {
        Address::new(0, 0, self.table + u64::from(chunk.0) * DESCRIPTOR_BYTES)
    }

    /// What a chunk holds, in its tenant's word.
    #[inline]
    pub fn contents(&self, chunk: ChunkId) -> Address {
        self.descriptor(chunk).add(8 * descriptor_word::CONTENTS as u64)
    }

    /// Dead bytes of a chunk.
    #[inline]
    pub fn dead_bytes(&self, chunk: ChunkId) -> Address {
        self.descriptor(chunk).add(8 * descriptor_word::DEAD_BYTES as u64)
    }

    /// The other word of a chunk's tenant.
    #[inline]
    pub fn note(&self, chunk: ChunkId) -> Address {
        self.descriptor(chunk).add(8 * descriptor_word::NOTE as u64)
    }

    /// First byte of the engine area.
    pub fn engine(&self) -> Address {
        Address::new(0, 0, self.engine)
    }

    /// First byte of a further node's share of the engine's words.
    #[inline]
    pub const fn engine_share(node: u8) -> Address {
        Address::new(node, 0, MEMBER_HEADER_BYTES)
    }

    /// First byte of a chunk.
    #[inline(always)]
    pub fn chunk(&self, chunk: ChunkId) -> Address {
        if chunk.0 < self.home_chunks {
            return Address::new(0, 0, self.heap + u64::from(chunk.0) * self.chunk_bytes);
        }
        self.further_chunk(chunk)
    }

    /// Out of the way of the one-node case, which it would slow down if it were inlined.
    #[cold]
    #[inline(never)]
    fn further_chunk(&self, chunk: ChunkId) -> Address {
        let (node, index) = self.nodes.find(chunk);
        Address::new(node, 0, self.heap_of(node) + u64::from(index) * self.chunk_bytes)
    }

    /// The number of the chunk that this many bytes of heap are in front of, unchecked, and how far
    /// into it they reach.
    #[inline(always)]
    pub fn divide(&self, heap_offset: u64) -> (u64, u64) {
        (heap_offset >> self.chunk_bytes.trailing_zeros(), heap_offset & (self.chunk_bytes - 1))
    }

    /// Bytes of all heaps that this process knows of.
    pub fn heap_bytes(&self) -> u64 {
        u64::from(self.chunks()) * self.chunk_bytes
    }

    /// Bytes of all heaps that the pool may ever have.
    pub fn heap_bytes_max(&self) -> u64 {
        u64::from(self.chunks_max) * self.chunk_bytes
    }

    /// The chunk with this number, if this process knows of it.
    #[inline]
    pub fn checked_chunk(&self, number: u32) -> Option<ChunkId> {
        (number < self.home_chunks || number < self.chunks()).then_some(ChunkId(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_fills_the_capacity_and_never_passes_it() {
        for capacity in [1 << 20, 3_000_000, 64 << 20, 1 << 30, 1 << 40] {
            let settings = PoolSettings::for_capacity(capacity);
            let area = EngineArea { home_bytes: capacity / 10, share_bytes: 0 };
            let layout = Layout::plan(&settings, area).unwrap();
            assert!(layout.end() <= capacity);
            assert!(capacity - layout.end() < 2 * layout.chunk_bytes + 2000, "{capacity}");
            assert_eq!(layout.chunks(), layout.chunks_max);
        }
    }

    #[test]
    fn every_chunk_of_a_spread_pool_is_inside_its_node_and_nobody_elses() {
        for nodes in 2..5u32 {
            let settings = PoolSettings::for_capacity(3_000_000).spread(nodes);
            let area = EngineArea { home_bytes: 100_000, share_bytes: 20_000 };
            let layout = Layout::plan(&settings, area).unwrap();
            assert!(layout.end() <= settings.home_bytes());
            let members = member_chunks(&settings, area);
            for node in 1..nodes as u8 {
                layout.nodes.add(node, members);
                assert!(layout.member_end(node, members) <= settings.member_bytes);
            }
            assert_eq!(layout.chunks(), layout.chunks_max);
            let mut before = Address::new(0, 0, 0);
            for chunk in (0..layout.chunks()).map(ChunkId) {
                let at = layout.chunk(chunk);
                assert_eq!((at.node(), at.region()), (layout.node_of(chunk), 0));
                assert!(layout.chunks_of(at.node()).unwrap().contains(&chunk.0));
                let room = if at.node() == before.node() { layout.chunk_bytes } else { layout.member_heap(at.node()) };
                assert!(
                    at.offset() >= room
                        && (before.offset() == 0 || at.node() > before.node() || at == before.add(room))
                );
                before = at;
            }
        }
    }

    #[test]
    fn a_capacity_below_the_least_is_refused_with_what_to_do() {
        let settings = PoolSettings { capacity_bytes: 4096, ..PoolSettings::for_capacity(1 << 20) };
        assert!(matches!(Layout::plan(&settings, EngineArea::default()), Err(PoolError::Setting { .. })));
    }
}
