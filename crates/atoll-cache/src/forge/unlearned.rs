//! What stands in the place of `learned` and `learning` where the feature `glcache` was not asked
//! for: no pool that such a build opens has the learned rule, and nothing of it is compiled.

use super::Forge;
use super::evict::Evicted;
use super::open_groups::OpenGroup;
use super::ring::Cursors;
use super::slot::KeyHash;
use super::technique::Technique;
use crate::CacheError;
use atoll_fabric::{Address, Buffer, Endpoint};
use atoll_pool::ChunkId;

/// Nobody learns.
pub(super) enum Learner {}

impl Learner {
    pub(super) fn new(_chunks_max: u32, _group_objects_max: u32) -> Self {
        unreachable!("settings with the learned rule are refused")
    }

    pub(super) fn touch(&self, _chunk: ChunkId, _generation: u16) {
        match *self {}
    }
}

/// Nothing to remember.
#[derive(Debug, Default)]
pub(super) struct Lesson;

impl Lesson {
    pub(super) fn note_cursors(&mut self, _cursors: [Cursors; 2]) {}
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    pub(super) fn counts_by_chunk(&self) -> bool {
        self.variant.eager_hotness
    }

    pub(super) async fn evict_learned(&self, _cursors: [Cursors; 2], _effort: u32) -> Result<Evicted, CacheError> {
        Ok(Evicted::Nothing)
    }

    pub(super) async fn flush_touched(&self) -> Result<(), CacheError> {
        Ok(())
    }

    pub(super) fn group_record(&self, _group: &OpenGroup) -> Option<(Address, Buffer)> {
        None
    }

    #[inline(always)]
    pub(super) fn observe(&self, _hash: KeyHash) {}
}
