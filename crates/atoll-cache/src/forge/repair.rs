//! What a client of this engine may have held when it died, and how a repairer settles it: see
//! [`atoll_pool::repair`].
//!
//! No log says what the dead client was about to do. Every chunk names its owner, and the records
//! in it show what they are:
//!
//! | what is found | what the client may have been doing | what is done |
//! |---|---|---|
//! | Open or Leaving, owner dead | filling it, emptying it, keeping it in stock | own it (CAS -> Leaving), settle it |
//! | Queued by a dead client, no node in the rings | between Queued and the node | the same |
//! | Queued, its node behind the head | between the head's FAA and owning it | the same |
//! | Extent, owner dead | writing a large object, or publishing it | Bound if an object has it, else free |
//! | Bound, no object has it | freeing the extents of an object it made dead | free |
//! | a frozen slot | splitting a bucket of the index | the split is finished (see `index::split`) |
//! | Index, not in the directory, owner dead | about to list it there | free |
//! | a pending slot | inserting | cleared when the chunk that it points into is settled |
//! | a protection | changing something | ignored once its client is shut out |
//! | a slot that points to a record in a reused place of a group that had an owner | publishing it there (see `vacancies`) | unlinked by that owner, before it reuses the chunk |
//! | a ticket without a node | putting a group into a queue | the client that dequeues passes it (see `ring`) |
//! | an empty node that waits for a ticket behind the head | between the head's FAA and emptying it | emptied |
//! | a wrong count | anything | recounted by a client that finds all other clients gone or at rest |
//!
//! To settle a chunk, a repairer
//!
//! 1. empties every node that names it;
//! 2. parses its records from the first on, each with a checksum and the chunk's generation;
//! 3. looks in each record's bucket for a slot that points to the record;
//! 4. frees the chunk, if there is no such slot, as soon as no operation protects it. Otherwise it
//!    writes a new map and puts the group into its queue.
//!
//! If a client has protected the chunk before step 2, a repairer does not write the map, and takes
//! these steps again later: see `vacancies`.
//!
//! Every step is one compare-and-swap from the word that was seen. So several clients may repair at
//! once, and any of them may die.

use super::group::MapEntry;
use super::layout::{BUCKET_SLOTS, Queue};
use super::open_groups::OpenGroup;
use super::operation::Operation;
use super::ring::Standing;
use super::slot::{GHOST_MORE_MAX, KeyHash, Slot, UNIT_BYTES};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::extent::free_unlisted;
use crate::index::{Index, absent, extents, fence_suspect, split, walk};
use crate::record::{HEADER_BYTES, Header, Record};
use atoll_fabric::{Buffer, Endpoint, Purpose, VerbError};
use atoll_pool::registry::{Lookups, Place, Roll};
use atoll_pool::repair::{self, Estate, Seen};
use atoll_pool::{Chunk, ChunkId, ChunkState, Client, chunks};
use std::collections::HashSet;

/// Records of a chunk, from the first on.
pub struct Parsed {
    header: Header,
    offset_bytes: u64,
    /// Its key's hash.
    pub hash: KeyHash,
}

impl Parsed {
    pub(super) fn expiry_ms(&self) -> Option<u64> {
        self.header.expiry_ms
    }

    pub(super) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// The tag of the words that point to it.
    pub(super) fn tag(&self) -> u16 {
        self.header.generation
    }

    /// Its entry of a map, if its slot has this home number.
    pub fn map_entry(&self, slot: u64) -> MapEntry {
        let offset_units = (self.offset_bytes / UNIT_BYTES) as u16;
        let KeyHash { fingerprint, more, .. } = self.hash;
        MapEntry {
            slot,
            offset_units,
            carry: 0,
            large: self.header.large,
            fingerprint,
            reused: false,
            more: more & GHOST_MORE_MAX,
        }
    }
}

/// The index's view of a record.
enum Indexed {
    Live(u64),
    Pending(u64, Slot),
    Dead,
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Announces that this client is alive, and looks after clients that may have died. Operations
    /// do this by themselves. An idle client should call it every
    /// [`Times::look_ns`](atoll_pool::registry::Times). It also removes expired objects.
    pub async fn tend(&self) -> Result<(), CacheError> {
        self.give_up_old_vacancies();
        let before = self.client.endpoint.purpose(Purpose::Upkeep);
        let tended = repair::round(self).await;
        self.client.endpoint.purpose(before);
        tended?;
        Box::pin(free_unlisted(self)).await?;
        Box::pin(self.sweep_expired()).await
    }

    /// Makes this client the owner of every group that its owner left behind.
    async fn steal(
        &self,
        descriptors: &[chunks::Descriptor],
        roll: &Roll,
        nodes: &[Standing],
    ) -> Result<Vec<(ChunkId, Chunk)>, CacheError> {
        let mut stolen = Vec::new();
        let mut in_a_ring = HashSet::new();
        let mut behind = HashSet::new();
        for Standing { head, between, .. } in nodes {
            let named = (head.node.chunk, head.node.generation);
            in_a_ring.insert(named);
            if !between {
                behind.insert(named);
            }
        }
        for (index, descriptor) in descriptors.iter().enumerate() {
            let (Some(found), chunk) = (descriptor.chunk, ChunkId(index as u32)) else { continue };
            let (dead, named) = (!roll.has(found.owner_slot, found.owner_epoch), (chunk, found.generation as u16));
            let left_behind = match found.state {
                ChunkState::Open | ChunkState::Leaving => dead && !self.is_open(Hole::LeakedChunks),
                ChunkState::Queued => {
                    dead && !in_a_ring.contains(&named) && !self.is_open(Hole::OrphanedGroup) || behind.contains(&named)
                }
                ChunkState::Free | ChunkState::Extent | ChunkState::Bound => false,
                ChunkState::Retired | ChunkState::Discarding | ChunkState::Discarded | ChunkState::Index => false,
            };
            if !left_behind {
                continue;
            }
            let leaving = Chunk::owned(ChunkState::Leaving, self.client.me(), found.generation);
            let layout = &self.client.pool.layout;
            if chunks::transition(&self.client.endpoint, layout, chunk, found.word(), leaving).await? {
                stolen.push((chunk, leaving));
            }
        }
        Ok(stolen)
    }

    /// Frees a chunk that this client owns as `leaving`, or queues it with a new map, according to
    /// its records. It queues the chunk later, if a client protects it: that client may be writing
    /// a record there, and the entry of its map.
    pub(super) async fn settle_chunk(&self, chunk: ChunkId, leaving: Chunk) -> Result<Settled, CacheError> {
        assert_eq!(leaving.state, ChunkState::Leaving, "a client settles only chunks that it owns");
        let op = &mut *self.operations.take(&self.client);
        let layout = self.client.pool.layout.clone();
        self.give_up_vacancies_in(chunk);
        let may_be_written = self.has_vacancies_in(chunk)
            && !self.is_open(Hole::OverwrittenEntry)
            && !self.client.protected_among(&[chunk]).await?.is_empty();
        let mut buffer = Buffer::new();
        buffer.resize(layout.chunk_bytes as usize);
        let mut buffer = self.client.endpoint.read(layout.chunk(chunk), buffer).await?;
        let records = self.parse(&mut buffer, leaving.generation);
        let mut group = OpenGroup::of(chunk, leaving.generation);
        let mut settled = Settled::default();
        for record in &records {
            let Parsed { header, offset_bytes, hash } = record;
            // Only the number of the records that were never written is known. No slot points to
            // their places, between the written records.
            let missing = usize::from(header.number) - group.map.len();
            let gap_units = (group.used_bytes / UNIT_BYTES) as u16..;
            group.map.extend(gap_units.take(missing).map(MapEntry::of_nothing));
            let slot = match self.indexed(op, chunk, *offset_bytes, leaving.generation, *hash).await? {
                Indexed::Live(slot) => {
                    settled.objects += 1;
                    group.expiries.extend(header.expiry_ms.map(|expiry_ms| (expiry_ms, header.held_bytes())));
                    group.extent_bytes += header.held_bytes() - header.record_bytes();
                    slot
                }
                Indexed::Pending(slot, word) => {
                    if !self.is_open(Hole::PendingForever) {
                        self.swap_slot(slot, word, word.emptied()).await?;
                    }
                    settled.pending += 1;
                    group.dead_bytes += header.record_bytes();
                    slot
                }
                Indexed::Dead => {
                    group.dead_bytes += header.record_bytes();
                    0
                }
            };
            let entry = record.map_entry(self.home_slot(*hash, slot));
            let reused = record.tag() != self.shared.format.tag(leaving.generation);
            group.map.push(MapEntry { reused, ..entry });
            group.used_bytes = offset_bytes + header.record_bytes();
        }
        // No frozen slot may point to the chunk either.
        split::learn(self).await?;
        split::thaw_last(self).await?;
        if settled.objects > 0 && may_be_written {
            self.stock.postpone(chunk);
            settled.is_postponed = true;
        } else if settled.objects > 0 {
            let queue = if records[0].header.main { Queue::Main } else { Queue::Small };
            self.queue_group(queue, 0, &mut group, leaving).await?;
        } else if !self.client.protected_among(&[chunk]).await?.is_empty() {
            self.stock.let_wait(chunk);
        } else {
            self.unlink_late(chunk, None).await?;
            self.client.free_own(chunk, leaving).await?;
        }
        Ok(settled)
    }

    /// Settles the chunks that clients protected before, and do not now. Returns how many.
    async fn settle_postponed(&self) -> Result<u64, CacheError> {
        let mut postponed = self.stock.take_postponed();
        let mut settled = 0;
        if postponed.chunks.is_empty() {
            return Ok(settled);
        }
        let protected = self.client.protected_among(&postponed.chunks).await?;
        while let Some(next) = postponed.chunks.iter().position(|chunk| !protected.contains(chunk)) {
            let chunk = postponed.chunks[next];
            // If an earlier call was dropped halfway, the chunk may be settled.
            if let Some(leaving) = self.leaving_now(chunk).await? {
                settled += u64::from(!self.settle_chunk(chunk, leaving).await?.is_postponed);
            }
            postponed.chunks.swap_remove(next);
        }
        Ok(settled)
    }

    /// The records of a chunk of this generation.
    pub fn parse(&self, chunk: &mut Buffer, generation: u32) -> Vec<Parsed> {
        let (settings, buckets) = (&self.client.pool.settings, self.shared.settings.buckets);
        let chunk_bytes = chunk.len();
        let (mut records, mut offset, mut next) = (Vec::new(), 0, 0);
        while next < settings.group_objects_max as usize && offset + HEADER_BYTES <= chunk_bytes {
            chunk.narrow(offset, chunk_bytes - offset);
            // Bytes of an earlier group, or of an abandoned record, may lie between two records and
            // behind the last. Of several concurrent operations one may not have reached its WRITE.
            let header = Record::unchecked_header(chunk);
            // A brief record's generation is in its checksum alone.
            let is_of_group = (!header.tagged || self.shared.format.is_of_generation(header.generation, generation))
                && (next..settings.group_objects_max as usize).contains(&usize::from(header.number))
                && offset + header.record_bytes() as usize + 8 * (usize::from(header.number) + 1) <= chunk_bytes;
            let mut tags = self.shared.format.editions(generation).filter(|_| is_of_group);
            let decoded = tags.find_map(|tag| {
                let record = Record::decode(chunk, &self.shared.hasher, self.sealed_tag(tag))?;
                Some((record.header, record.large(), record.key))
            });
            let Some((header, large, key)) = decoded else {
                offset += UNIT_BYTES as usize;
                continue;
            };
            let hash = large.map_or_else(|| self.shared.hasher.hash(key), |body| body.key_hash);
            records.push(Parsed { header, offset_bytes: offset as u64, hash: KeyHash::new(hash, buckets) });
            offset += header.record_bytes() as usize;
            next = usize::from(header.number) + 1;
        }
        chunk.narrow(0, chunk_bytes);
        records
    }

    /// The index's view of the record at this place.
    async fn indexed(
        &self,
        op: &mut Operation,
        chunk: ChunkId,
        offset_bytes: u64,
        generation: u32,
        hash: KeyHash,
    ) -> Result<Indexed, CacheError> {
        self.read_bucket(op, hash).await?;
        let heap_offset = u64::from(chunk.0) * self.client.pool.layout.chunk_bytes + offset_bytes;
        for place in 0..BUCKET_SLOTS {
            let (word, slot) = op.seen(place);
            let here = !word.is_free()
                && self.shared.format.heap_offset(word) == heap_offset
                && self.shared.format.has_generation(word, generation);
            match here {
                true if word.is_pending() => return Ok(Indexed::Pending(slot, word)),
                true => return Ok(Indexed::Live(slot)),
                false => {}
            }
        }
        Ok(Indexed::Dead)
    }
}

impl<E: Endpoint, T: Technique<E>> Estate for Forge<E, T> {
    type Endpoint = E;
    type Error = CacheError;

    fn client(&self) -> &Client<E> {
        &self.client
    }

    async fn settle(&self, seen: &Seen) -> Result<(u64, Vec<Place>), CacheError> {
        split::finish(self).await?;
        self.take_back_tickets().await?;
        let nodes = self.all_nodes().await?;
        let stolen = self.steal(&seen.descriptors, &seen.roll, &nodes).await?;
        // Only their owner puts nodes of these groups into a ring, so no more nodes can appear.
        let nodes = if stolen.is_empty() { Vec::new() } else { self.all_nodes().await? };
        let chunks: HashSet<ChunkId> = stolen.iter().map(|(chunk, _)| *chunk).collect();
        for standing in nodes.iter().filter(|standing| chunks.contains(&standing.head.node.chunk)) {
            self.empty_node(standing.queue, standing.head.position, standing.head.word).await?;
        }
        let mut settled = 0;
        for (chunk, leaving) in stolen {
            settled += u64::from(!self.settle_chunk(chunk, leaving).await?.is_postponed);
        }
        settled += split::free_unlisted(self, seen).await?;
        if !self.is_open(Hole::LeakedExtents) {
            settled += extents::sweep(self, extents::suspects(seen)).await?;
        }
        Ok((settled, seen.fenced()))
    }

    async fn forget_absent(&self) -> Result<bool, CacheError> {
        // A queue may still name a chunk of the node. Its generation has gone up since.
        absent::forget(self).await?;
        Ok(true)
    }

    async fn settle_own(&self) -> Result<u64, CacheError> {
        Ok(self.settle_postponed().await? + extents::recheck_bound(self).await?)
    }

    async fn count_objects(&self) -> Result<u64, CacheError> {
        walk::count_live(self).await
    }

    fn lookups(&self) -> Lookups {
        self.stats.lookups()
    }

    fn objects_reserved(&self) -> u64 {
        self.limit().reserved()
    }

    async fn counted_anew(&self) -> Result<(), CacheError> {
        self.evict_to_limit().await
    }

    async fn end_look(&self) -> Result<(), CacheError> {
        // A client with nothing to update, too, holds a chunk only as long as it is protected.
        self.recheck_waiting(true).await
    }

    async fn fence_suspect(&self, place: &Place) -> Result<bool, VerbError> {
        fence_suspect(&self.client, place, self.is_open(Hole::UnfencedRepair)).await
    }
}

/// The contents of a chunk that was settled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    /// Live objects.
    pub(super) objects: u64,
    /// Insertions that were never decided.
    pub(super) pending: u64,
    /// Whether the chunk is settled later, because a client protects it.
    pub(super) is_postponed: bool,
}
