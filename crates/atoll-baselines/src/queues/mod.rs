//! Caches whose queues of objects lie in the pool: the baselines that Ditto and FORGE compare
//! themselves with, on [`table`](atoll_cache::table).
//!
//! | name | policy | queue | a hit costs, besides the two READs of the look-up |
//! |---|---|---|---|
//! | `shard-lru` | LRU (Shen et al., Ditto, SOSP 2023, sections 3.1 and 5.1) | 32 lists, each behind a lock; `shard-lru:1` has one, and so on | the lock, the neighbours, unlinking, linking, the lock: five round trips |
//! | `lru-dm` | the same lists (FORGE, section 2.2), with FORGE's batches and its batched hotness (section 6.1) | 32 lists | two round trips for eight objects |
//! | `sieve-dm` | SIEVE (Zhang et al., NSDI 2024) as FORGE's section 2.2 puts it into a pool | 32 lists | one CAS, not awaited |
//! | `s3fifo-dm` | S3-FIFO (Yang et al., SOSP 2023) with what FORGE's section 6.1 adds | two rings | one FAA for ten hits, not awaited |
//!
//! | module | concept |
//! |---|---|
//! | [`settings`] | what clients of a pool agree on |
//! | `area` | where the words are |
//! | `lock` | which client changes a list |
//! | `listed` | the common base of the policies on lists |
//! | `list` | a doubly linked list behind a lock |
//! | `lru` | the most recently used object is at the head |
//! | `sieve` | a hand that passes over visited objects |
//! | `ring` | a queue without a lock |
//! | `s3_fifo` | a small queue in front of the main one |
//!
//! All of them keep the promises of the table of objects, even if a queue is damaged. The choice of
//! the victim is approximate: a damaged queue costs hits and nothing else. If a client dies while
//! it holds a lock, or in the middle of a change, the next client resets the list to empty.
//!
//! An object that is in no queue is unqueued. Every now and then, and whenever no queue gives a
//! victim, a client samples a random bucket. It evicts dead blocks, expired and unqueued objects
//! there first. So no writer fails because of unqueued objects.
//!
//! A slot costs 32 bytes besides its access information where there are lists, and up to 48 where
//! there are rings. There are two slots for each object that the pool expects.
//!
//! | the papers | here |
//! |---|---|
//! | a client tries a lock until it has it | for 20 ms; then it continues without, and one look is enough as long as the same client has it |
//! | a client that dies while it holds a lock stops its list | the next client that finds it dead takes the lock over |
//! | lists sharded by the hash of the key | by the bucket, which is its hash: a slot is of one list whatever it holds |
//! | the list of the victim is not said | the list that is farthest behind, by this client's own victims: so all lists together are nearly one |
//! | a deleted object leaves its list | the same; its block waits in its slot for the next sample |

mod area;
mod kind;
mod list;
mod listed;
mod lock;
mod lru;
mod ring;
mod s3_fifo;
pub mod settings;
mod sieve;

pub use kind::QueuesKind;
pub use settings::{ENGINE_QUEUES, LISTS, QueueOptions, QueuePolicy, QueueSettings};

use atoll_cache::CacheError;
use atoll_cache::table::replacement::{Accessed, Candidate, Inserted, Replacement, Victim};
use atoll_cache::table::slot::Slot;
use atoll_cache::table::{Core, Objects, TablePool};
use atoll_fabric::{Endpoint, Purpose};
use atoll_pool::PoolError;
use listed::Listed;
use lru::Lru;
use s3_fifo::S3Fifo;
use sieve::Sieve;

/// A client of a pool with queues.
pub type Queued<E> = Objects<E, Queue>;

/// One client's side of the queues, for the policy in the pool's settings.
pub struct Queue(Policy);

enum Policy {
    Lru(Lru),
    Sieve(Sieve),
    S3Fifo(S3Fifo),
}

/// Calls the same method on every policy.
macro_rules! on_policy {
    ($queue:expr, $policy:ident => $done:expr) => {
        match &mut $queue.0 {
            Policy::Lru($policy) => $done,
            Policy::Sieve($policy) => $done,
            Policy::S3Fifo($policy) => $done,
        }
    };
}

/// Runs an action under a purpose.
macro_rules! for_purpose {
    ($core:expr, $purpose:expr, $done:expr) => {{
        let before = $core.client.endpoint.purpose($purpose);
        let done = $done;
        $core.client.endpoint.purpose(before);
        done
    }};
}

impl<E: Endpoint> Replacement<E> for Queue {
    const QUEUES: bool = true;

    fn new(shared: &TablePool, endpoint: &E) -> Result<Self, PoolError> {
        let QueueSettings { policy, lists, slots } = QueueSettings::decode(shared.settings())?;
        let base = shared.layout().replacement();
        let lists = || area::Area::new(base, lists, slots);
        Ok(Self(match policy {
            QueuePolicy::ShardLru => Policy::Lru(Lru::new(lists(), true)),
            QueuePolicy::Lru => Policy::Lru(Lru::new(lists(), false)),
            QueuePolicy::Sieve => Policy::Sieve(Sieve::new(lists())),
            QueuePolicy::S3Fifo => Policy::S3Fifo(S3Fifo::new(area::RingsArea::new(base, slots), endpoint.is_near())),
        }))
    }

    async fn accessed(&mut self, core: &Core<E>, object: Accessed<'_>) -> Result<(), CacheError> {
        for_purpose!(core, Purpose::Hotness, on_policy!(self, policy => policy.accessed(core, object.slot).await))
    }

    async fn inserted(&mut self, core: &Core<E>, inserted: Inserted<'_>) -> Result<(), CacheError> {
        inserted.publish_expiry(core);
        let slot = inserted.object.slot;
        for_purpose!(
            core,
            Purpose::Eviction,
            match &mut self.0 {
                Policy::Lru(lru) => lru.inserted(core, slot).await,
                Policy::Sieve(sieve) => sieve.inserted(core, slot).await,
                Policy::S3Fifo(s3_fifo) => s3_fifo.inserted(core, &inserted).await,
            }
        )
    }

    async fn removed(&mut self, core: &Core<E>, slot: u64, _word: Slot) -> Result<(), CacheError> {
        for_purpose!(core, Purpose::Eviction, on_policy!(self, policy => policy.removed(core, slot).await))
    }

    async fn choose(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        let chosen = Box::pin(async { on_policy!(self, policy => policy.choose(core, candidates).await) }).await?;
        let chosen = chosen.and_then(|index| candidates.get(index));
        Ok(chosen.map(|chosen| Victim { slot: chosen.slot, word: chosen.word, then: Slot::EMPTY }))
    }

    async fn unqueued(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        let unqueued = Box::pin(async { on_policy!(self, policy => policy.unqueued(core, candidates).await) }).await?;
        let unqueued = unqueued.and_then(|index| candidates.get(index));
        Ok(unqueued.map(|unqueued| Victim { slot: unqueued.slot, word: unqueued.word, then: Slot::EMPTY }))
    }

    async fn victim(&mut self, core: &Core<E>) -> Result<Option<Victim>, CacheError> {
        on_policy!(self, policy => policy.victim(core).await)
    }

    async fn spared(&mut self, core: &Core<E>, victim: Victim) -> Result<(), CacheError> {
        on_policy!(self, policy => policy.spared(core, victim.slot).await)
    }

    async fn verify(&mut self, core: &Core<E>, faults: &mut Vec<String>) -> Result<(), CacheError> {
        match &mut self.0 {
            Policy::Lru(lru) => lru.lists().verify(core, faults).await,
            Policy::Sieve(sieve) => sieve.lists().verify(core, faults).await,
            // An impossible entry is passed over.
            Policy::S3Fifo(_) => Ok(()),
        }
    }

    async fn round(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        for_purpose!(core, Purpose::Hotness, on_policy!(self, policy => policy.round(core).await))
    }
}
