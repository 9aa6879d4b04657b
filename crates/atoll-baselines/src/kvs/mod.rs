//! A key-value store that tracks no accesses and evicts at random. It is the baseline of Ditto
//! (section 3.1) that shows what tracking costs.
//!
//! It is [`table`](atoll_cache::table) alone. An object's expiry is kept beside its slot, so that
//! samples find expired objects.

mod kind;

pub use kind::{KvsKind, KvsOptions};

use atoll_cache::CacheError;
use atoll_cache::table::replacement::{Accessed, Candidate, Inserted, Replacement, Victim};
use atoll_cache::table::settings::{REPLACEMENT_WORDS, TableOptions};
use atoll_cache::table::slot::{Slot, TAG_BITS};
use atoll_cache::table::{Core, Objects, TablePool};
use atoll_fabric::Endpoint;
use atoll_pool::PoolError;

/// The engine's number in the pool header.
pub const ENGINE_KVS: u64 = 3;

/// A client of a `kvs` pool.
pub type Kvs<E> = Objects<E, AtRandom>;

/// Choices of a `kvs` pool.
pub fn options() -> TableOptions {
    TableOptions {
        engine: ENGINE_KVS,
        extension_words: 0,
        area_bytes: |_| 0,
        replacement: [0; REPLACEMENT_WORDS],
        tag_bits: TAG_BITS,
        object_bytes_mean: 320,
        slots_per_object: 2,
    }
}

/// Any object may go.
#[derive(Debug)]
pub struct AtRandom;

impl<E: Endpoint> Replacement<E> for AtRandom {
    fn new(shared: &TablePool, _endpoint: &E) -> Result<Self, PoolError> {
        shared.settings().replacement_words(ENGINE_KVS).map(|_| Self)
    }

    async fn accessed(&mut self, _core: &Core<E>, _object: Accessed<'_>) -> Result<(), CacheError> {
        Ok(())
    }

    async fn inserted(&mut self, core: &Core<E>, inserted: Inserted<'_>) -> Result<(), CacheError> {
        inserted.publish_expiry(core);
        Ok(())
    }

    async fn choose(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        let index = core.client.endpoint.random() as usize % candidates.len();
        let chosen = &candidates[index];
        Ok(Some(Victim { slot: chosen.slot, word: chosen.word, then: Slot::EMPTY }))
    }
}
