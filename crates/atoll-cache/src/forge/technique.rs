//! What another form of FORGE does instead of the shipped engine.
//!
//! The paper measures FORGE without single techniques (FORGE 6.7), and compares it with groups that
//! trees judge (FORGE 6.1). Each such form is a type that implements [`Technique`]. The default of
//! every method is what the shipped engine does. All calls are static, so the shipped engine
//! carries no code and no state of another form. The forms are in the crate `atoll-baselines`.
//!
//! | step | hooks |
//! |---|---|
//! | change of the index | [`lock`](Technique::lock), [`unlock`](Technique::unlock), [`recalls_misses`](Technique::recalls_misses) |
//! | queue | [`lock`](Technique::lock), [`unlock`](Technique::unlock), [`take_ticket`](Technique::take_ticket), [`has_one_queue`](Technique::has_one_queue) |
//! | lookup | [`looked_up`](Technique::looked_up), [`counted_hit`](Technique::counted_hit) |
//! | hotness | [`flush_hotness`](Technique::flush_hotness), [`counters`](Technique::counters), [`counts_by_chunk`](Technique::counts_by_chunk), [`counts_at_once`](Technique::counts_at_once) |
//! | closing a group | [`group_record`](Technique::group_record) |
//! | eviction | [`evict`](Technique::evict), [`read_group`](Technique::read_group), [`note_cursors`](Technique::note_cursors) |
//!
//! A form may use the public methods of [`Forge`]. Those that concern groups are meant for forms
//! alone:
//!
//! | method | what it does |
//! |---|---|
//! | `cursors`, `note_cursors`, `advance_heads` | READ the cursors; note the age of ghosts by them; dequeue nodes of a ring that is half full |
//! | `group_objects`, `own_group` | check a group's size; make a queued group this client's and READ its map |
//! | `take_frequencies`, `flush_group` | take a group's counters from the pool; add this process's counts to them |
//! | `close_group`, `empty_group` | queue the group that is filled; move what stays and unlink the rest |
//! | `parse`, `points_to` | find the records of a chunk; compare a slot's word with an entry of a map |
//! | `evict_from_queues`, `flush_windows`, `add_to_cursors` | what the shipped engine does in the hook of that step |

use super::Forge;
use super::annex::Annex;
pub use super::evict::{EFFORT_ALL, Evicted};
use super::layout::Queue;
pub use super::leaving::{Leaver, LeavingGroup, LeavingParts, Slots};
pub use super::open_groups::OpenGroup;
pub use super::repair::Parsed;
use super::ring::Cursors;
use super::slot::KeyHash;
use crate::CacheError;
use atoll_fabric::{Address, Buffer, Endpoint};
use atoll_pool::ChunkId;
use std::future::ready;

/// A part of the pool that a form may let one client change at a time.
#[derive(Clone, Copy, Debug)]
pub enum Section {
    /// The bucket of a key with this hash.
    Bucket(KeyHash),
    /// A queue of groups.
    Queue(Queue),
}

/// One form of FORGE, as one client of the pool has it. All clients of a pool have the same form.
pub trait Technique<E: Endpoint>: Default {
    /// The state that the form adds to the pool and to a process.
    type Annex: Annex;

    /// Called before each try at a change, with the bucket of its key, and before a group enters or
    /// leaves a queue.
    #[inline(always)]
    fn lock(&self, forge: &Forge<E, Self>, section: Section) -> impl Future<Output = Result<(), CacheError>> {
        let _ = (forge, section);
        ready(Ok(()))
    }

    /// Called after each try at a change that began, and after a group has entered or left a queue.
    #[inline(always)]
    fn unlock(&self, forge: &Forge<E, Self>, section: Section) {
        let _ = (forge, section);
    }

    /// Whether an insertion may use the bucket that an earlier miss READ.
    #[inline(always)]
    fn recalls_misses(&self) -> bool {
        true
    }

    /// Whether a client may write a record in the place of one that it has replaced.
    #[inline(always)]
    fn reuses_places(&self) -> bool {
        true
    }

    /// Adds `by` to a queue's cursors and returns the old cursors.
    #[inline(always)]
    fn take_ticket(
        &self,
        forge: &Forge<E, Self>,
        queue: Queue,
        by: u64,
    ) -> impl Future<Output = Result<Cursors, CacheError>> {
        forge.add_to_cursors(queue, by)
    }

    /// Whether regrouped objects return to the small queue, so that all groups pass through one
    /// queue.
    #[inline(always)]
    fn has_one_queue(&self) -> bool {
        false
    }

    /// Called for each lookup of a key.
    #[inline(always)]
    fn looked_up(&self, forge: &Forge<E, Self>, hash: KeyHash) {
        let _ = (forge, hash);
    }

    /// Called for each hit, after this process has counted it: the object with this number in the
    /// group of this generation.
    #[inline(always)]
    fn counted_hit(&self, forge: &Forge<E, Self>, chunk: ChunkId, number: u16, generation: u16) {
        let _ = (forge, chunk, number, generation);
    }

    /// Adds this process's counts to the pool, where that is due. Called in every round of a
    /// client, and before it leaves.
    #[inline(always)]
    fn flush_hotness(&self, forge: &Forge<E, Self>) -> impl Future<Output = Result<(), CacheError>> {
        forge.flush_windows()
    }

    /// Where the pool's counters are of a group that is in a chunk, and at a position of a queue.
    #[inline(always)]
    fn counters(&self, forge: &Forge<E, Self>, chunk: ChunkId, queue: Queue, position: u32) -> Address {
        let _ = chunk;
        forge.pool().layout().frequencies(queue, position)
    }

    /// Whether each chunk has counters of its own. Otherwise only the groups near the heads of the
    /// queues have counters.
    #[inline(always)]
    fn counts_by_chunk(&self) -> bool {
        false
    }

    /// Whether the pool's counters already include every access that this process has counted.
    #[inline(always)]
    fn counts_at_once(&self) -> bool {
        false
    }

    /// The words that are written beside a group when it is queued, and where they are written.
    #[inline(always)]
    fn group_record(&self, forge: &Forge<E, Self>, group: &OpenGroup) -> Option<(Address, Buffer)> {
        let _ = (forge, group);
        None
    }

    /// Evicts groups. `effort` counts the groups that this search for room has examined.
    #[inline(always)]
    fn evict(&self, forge: &Forge<E, Self>, effort: u32) -> impl Future<Output = Result<Evicted, CacheError>> {
        forge.evict_from_queues(effort)
    }

    /// READs a group of so many objects that this client owns, if the form does not use the group's
    /// map.
    #[inline(always)]
    fn read_group(
        &self,
        forge: &Forge<E, Self>,
        chunk: ChunkId,
        generation: u32,
        objects: usize,
    ) -> impl Future<Output = Result<Option<LeavingParts>, CacheError>> {
        let _ = (forge, chunk, generation, objects);
        ready(Ok(None))
    }

    /// Called with the cursors whenever this client has READ them to evict or to flush.
    #[inline(always)]
    fn note_cursors(&self, cursors: [Cursors; 2]) {
        let _ = cursors;
    }
}

/// The engine as it is shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shipped;

impl<E: Endpoint> Technique<E> for Shipped {
    type Annex = ();
}
