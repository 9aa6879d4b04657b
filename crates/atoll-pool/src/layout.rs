//! Where everything is.
//!
//! ```text
//! 0        256                1024      signals       accounts     chunk table     engine area        heap
//! +--------+------------------+---------+-------------+------------+---------------+------------------+------------------+
//! | header | control words    |  (pad)  | 64 B a      | 128 B a    | 32 B a chunk  | as the engine    | chunks, aligned  |
//! |        | one a line       |         | client      | client     |               | needs            | to their size    |
//! +--------+------------------+---------+-------------+------------+---------------+------------------+------------------+
//! ```
//!
//! Control words: clock (atomics only), free chunks (atomics only; a hint), allocation cursor (atomics only), resident objects
//! (atomics only; kept only where objects are limited), clients ever (atomics only), write tokens handed out (atomics only), clients shut out
//! (atomics only), how many of those the last count of everything has seen (atomics only), joins and whether the pool was closed (atomics only;
//! see `boot`).

use crate::registry::{ACCOUNT_BYTES, SIGNAL_BYTES};
use crate::{ChunkId, PoolError, PoolSettings};
use atoll_fabric::Address;

const LINE: u64 = 64;
const CONTROL: u64 = 256;
const REGISTRY: u64 = 1024;
/// Bytes of a chunk's descriptor.
pub const DESCRIPTOR_BYTES: u64 = 32;
/// A pool with fewer chunks is of no use.
pub const CHUNKS_MIN: u32 = 8;

/// Offsets of everything, derived from the settings alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Chunks of the heap.
    pub chunks: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes of the engine area.
    pub engine_bytes: u64,
    accounts: u64,
    table: u64,
    engine: u64,
    heap: u64,
}

impl Layout {
    /// The layout for so many chunks; `None` if it overflows.
    pub(crate) fn new(settings: &PoolSettings, chunks: u32, engine_bytes: u64) -> Option<Self> {
        if chunks < CHUNKS_MIN {
            return None;
        }
        let clients = u64::from(settings.clients_max);
        let chunk_bytes = u64::from(settings.chunk_bytes);
        let accounts = REGISTRY + clients * SIGNAL_BYTES;
        let table = accounts + clients * ACCOUNT_BYTES;
        let engine = (table + u64::from(chunks) * DESCRIPTOR_BYTES).next_multiple_of(LINE);
        let heap = engine.checked_add(engine_bytes)?.checked_next_multiple_of(LINE)?;
        heap.checked_add(u64::from(chunks) * chunk_bytes)?;
        Some(Self { chunks, chunk_bytes, engine_bytes, accounts, table, engine, heap })
    }

    /// The layout with the most chunks that fit the capacity.
    pub fn plan(settings: &PoolSettings, engine_area: impl Fn(u32) -> u64) -> Result<Self, PoolError> {
        settings.check()?;
        let fits = |chunks: u32| {
            Self::new(settings, chunks, engine_area(chunks)).filter(|layout| layout.end() <= settings.capacity_bytes)
        };
        let (mut low, mut high) =
            (CHUNKS_MIN, (settings.capacity_bytes / u64::from(settings.chunk_bytes)).min(u32::MAX.into()) as u32);
        let Some(mut best) = fits(low) else {
            let wanted = format!("more: {CHUNKS_MIN} chunks of {} bytes must fit", settings.chunk_bytes);
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

    /// First byte behind the heap.
    pub fn end(&self) -> u64 {
        self.heap + u64::from(self.chunks) * self.chunk_bytes
    }

    const fn control(index: u64) -> Address {
        Address::new(0, 0, CONTROL + index * LINE)
    }

    /// The pool's clock.
    pub const fn clock(&self) -> Address {
        Self::control(0)
    }

    /// How many chunks are free: a hint, exact when nobody allocates.
    pub const fn free_chunks(&self) -> Address {
        Self::control(1)
    }

    /// Where the next search for a free chunk starts.
    pub const fn allocation_cursor(&self) -> Address {
        Self::control(2)
    }

    /// Resident objects, where they are limited.
    pub const fn resident_objects(&self) -> Address {
        Self::control(3)
    }

    /// One more than the highest place of the registry that was ever taken.
    pub const fn members_ever(&self) -> Address {
        Self::control(4)
    }

    /// Write tokens handed out so far.
    pub const fn tokens(&self) -> Address {
        Self::control(5)
    }

    /// Clients that were shut out, ever.
    pub const fn deaths(&self) -> Address {
        Self::control(6)
    }

    /// How many of those had been shut out when everything was counted anew.
    pub const fn deaths_counted(&self) -> Address {
        Self::control(7)
    }

    /// Joins so far, and whether the pool was closed: see [`boot`](crate::boot).
    pub const fn closing(&self) -> Address {
        Self::control(8)
    }

    /// A client's signal: its state, protection and lease.
    pub fn signal(&self, slot: u32) -> Address {
        Address::new(0, 0, REGISTRY + u64::from(slot) * SIGNAL_BYTES)
    }

    /// A client's account: its identity and what it has counted.
    pub fn account(&self, slot: u32) -> Address {
        Address::new(0, 0, self.accounts + u64::from(slot) * ACCOUNT_BYTES)
    }

    /// A chunk's descriptor.
    pub fn descriptor(&self, chunk: ChunkId) -> Address {
        Address::new(0, 0, self.table + u64::from(chunk.0) * DESCRIPTOR_BYTES)
    }

    /// First byte of the engine area.
    pub fn engine(&self) -> Address {
        Address::new(0, 0, self.engine)
    }

    /// First byte of a chunk.
    #[inline]
    pub fn chunk(&self, chunk: ChunkId) -> Address {
        Address::new(0, 0, self.heap + u64::from(chunk.0) * self.chunk_bytes)
    }

    /// Bytes of the heap.
    pub fn heap_bytes(&self) -> u64 {
        u64::from(self.chunks) * self.chunk_bytes
    }

    /// What is at an address, for whoever follows a trace. The engine area is the engine's to name.
    pub fn describe(&self, at: Address) -> Option<String> {
        const CONTROLS: [&str; 9] = [
            "clock",
            "free chunks",
            "allocation cursor",
            "resident objects",
            "members ever",
            "tokens",
            "deaths",
            "deaths counted",
            "closing",
        ];
        let offset = at.offset();
        let within = |start: u64, end: u64, bytes: u64, name: &str, words: &[&str]| {
            (start..end).contains(&offset).then(|| {
                let (index, word) = ((offset - start) / bytes, (offset - start) % bytes / 8);
                let word = words.get(word as usize).map_or_else(|| format!("+{}", 8 * word), |word| (*word).to_owned());
                format!("{name} {index} {word}")
            })
        };
        if offset < CONTROL {
            return Some(format!("header word {}", offset / 8));
        }
        if offset < REGISTRY {
            return CONTROLS.get(((offset - CONTROL) / LINE) as usize).map(|name| (*name).to_owned());
        }
        within(REGISTRY, self.accounts, SIGNAL_BYTES, "signal", &["state", "protection", "lease"])
            .or_else(|| within(self.accounts, self.table, ACCOUNT_BYTES, "account", &[]))
            .or_else(|| {
                within(
                    self.table,
                    self.engine,
                    DESCRIPTOR_BYTES,
                    "chunk",
                    &["state", "contents", "dead bytes", "expired"],
                )
            })
            .or_else(|| within(self.heap, self.end(), self.chunk_bytes, "in chunk", &[]))
    }

    /// The chunk with this number, if there is one.
    pub fn checked_chunk(&self, number: u32) -> Option<ChunkId> {
        (number < self.chunks).then_some(ChunkId(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_fills_the_capacity_and_never_passes_it() {
        for capacity in [1 << 20, 3_000_000, 64 << 20, 1 << 30, 1 << 40] {
            let settings = PoolSettings::for_capacity(capacity);
            let layout = Layout::plan(&settings, |chunks| u64::from(chunks) * 1000).unwrap();
            assert!(layout.end() <= capacity);
            assert!(capacity - layout.end() < 2 * layout.chunk_bytes + 2000, "{capacity}");
        }
    }

    #[test]
    fn a_capacity_below_the_least_is_refused_with_what_to_do() {
        let settings = PoolSettings { capacity_bytes: 4096, ..PoolSettings::for_capacity(1 << 20) };
        assert!(matches!(Layout::plan(&settings, |_| 0), Err(PoolError::Setting { .. })));
    }
}
