//! What a client that died held comes back.
//!
//! Every client now and then looks at the other clients' leases. One that stands still is asked after: if it is dead, or the fabric has shut it out, its
//! place becomes Fenced (see `atoll_pool::registry`). The client that did so reclaims what it held; if that dies, too, another client does, after a
//! while. Until then nothing that a suspect could still write is touched.
//!
//! There is no record of what the dead client was about to do. Every chunk names its owner, and the records in it tell what they are:
//!
//! | what is found | what the client may have been doing | what is done |
//! |---|---|---|
//! | Open or Leaving, owner dead | filling it, emptying it, keeping it in stock | own it (CAS -> Leaving), settle it |
//! | Queued by a dead client, no node in the rings | between Queued and the node | the same |
//! | Queued, its node behind the head | between the head's FAA and owning it | the same |
//! | Extent, owner dead | writing a large object, or publishing it | Bound if an object has it, else free |
//! | Bound, no object has it | freeing the extents of an object it made dead | free |
//! | a pending slot | inserting | cleared when the chunk that it points into is settled |
//! | a protection | changing something | does not count of a client that is shut out |
//! | a ticket without a node | putting a group into a queue | whoever dequeues comes by (see `ring`) |
//! | an empty node that waits for a ticket behind the head | between the head's FAA and emptying it | emptied |
//! | a wrong count | anything | counted anew by a client that finds all others gone or at rest |
//!
//! To settle a chunk: empty every node that names it; go through its records from the first on, which lie without a gap, each with a checksum and
//! the chunk's generation; look in each one's bucket for a slot that points to it. With none, the chunk is freed as soon as nobody
//! protects it; else a new map is written and the group goes into its queue.
//!
//! Every step is one compare-and-swap from what was seen, so that several may repair at once and any of them die.

use super::extent::Extent;
use super::group::{MapEntry, OpenGroup};
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS, Queue};
use super::ring::Standing;
use super::slot::{GHOST_MORE_MAX, KeyHash, Slot, UNIT_BYTES};
use super::{Forge, Hole};
use crate::CacheError;
use crate::extent;
use crate::record::{Header, Record};
use atoll_fabric::{Batch, Buffer, Endpoint, Purpose};
use atoll_pool::registry::{self, PlaceState, Roll};
use atoll_pool::retirement::DISCARDS_IN_ROUND;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks, read_word, retirement};
use std::collections::HashSet;

/// Descriptors READ at once.
const DESCRIPTORS_AT_ONCE: u32 = 1024;
/// Looks at a bucket whose objects change under the look.
const LOOKS_MAX: u32 = 1_000;

/// What a look at the other clients came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Clients that were shut out.
    pub clients: u64,
    /// Chunks that had belonged to a dead client, and were freed or put into a queue.
    pub chunks: u64,
    /// Of those, chunks with live objects.
    pub groups: u64,
    /// Extents that no object had.
    pub extents: u64,
    /// Insertions that were never decided.
    pub pending: u64,
    /// Whether everything was counted anew.
    pub recounted: bool,
}

/// Records of a chunk, from the first on.
pub(super) struct Parsed {
    header: Header,
    offset_bytes: u64,
    pub(super) hash: KeyHash,
}

impl Parsed {
    pub(super) fn expiry_ms(&self) -> Option<u64> {
        self.header.expiry_ms
    }

    pub(super) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    pub(super) fn bucket(&self) -> u32 {
        self.hash.bucket
    }

    /// Its entry of a map, if its slot is that one.
    pub(super) fn map_entry(&self, slot: u64) -> MapEntry {
        let offset_units = (self.offset_bytes / UNIT_BYTES) as u16;
        let KeyHash { fingerprint, more, .. } = self.hash;
        MapEntry { slot, offset_units, carry: 0, large: self.header.large, fingerprint, more: more & GHOST_MORE_MAX }
    }
}

/// What the index has for a record.
enum Indexed {
    Live(u64),
    Pending(u64, Slot),
    Dead,
}

impl<E: Endpoint> Forge<E> {
    /// Tells the others that this client is alive, and looks after those that may not be. Operations do this by themselves; a client that does
    /// nothing for long should be made to, every [`Times::look_ns`](registry::Times). Takes expired objects away, too.
    pub async fn tend(&mut self) -> Result<(), CacheError> {
        let before = self.endpoint.purpose(Purpose::Upkeep);
        let tended = self.renew_and_look().await;
        self.endpoint.purpose(before);
        tended?;
        Box::pin(self.sweep_expired()).await
    }

    async fn renew_and_look(&mut self) -> Result<(), CacheError> {
        if let Some(error) = &self.lost {
            return Err(CacheError::Verb(error.clone()));
        }
        self.check_membership().await?;
        let Some(member) = &mut self.member else { return Ok(()) };
        member.renew(&self.endpoint);
        // A client that sees this relies on it that what the next operation READs is READ later.
        self.endpoint.flush().await?;
        let now_ns = self.endpoint.now_ns();
        if now_ns.wrapping_sub(self.looked_ns) < self.times.look_ns {
            return Ok(());
        }
        self.looked_ns = now_ns;
        self.learn_nodes().await?;
        self.look(false).await?;
        let me = self.me();
        Box::pin(self.retirement.go_on(&self.endpoint, &self.shared.pool, me, DISCARDS_IN_ROUND)).await?;
        // Also a client that has nothing to update holds no chunk longer than it is protected.
        self.recheck_waiting(true).await
    }

    /// Looks after all other clients now, whether they stand still or not, and reclaims what the dead ones held. It harms no client whose lease moves.
    /// Tells also of what this client reclaimed when it joined.
    pub async fn repair(&mut self) -> Result<Repaired, CacheError> {
        let joining = std::mem::take(&mut self.untold);
        let now = self.look(true).await?;
        Ok(Repaired {
            clients: joining.clients + now.clients,
            chunks: joining.chunks + now.chunks,
            groups: joining.groups + now.groups,
            extents: joining.extents + now.extents,
            pending: joining.pending + now.pending,
            recounted: joining.recounted || now.recounted,
        })
    }

    async fn look(&mut self, everybody: bool) -> Result<Repaired, CacheError> {
        let mut repaired = Repaired::default();
        let (me, asked_ns) = (self.me(), self.endpoint.now_ns());
        let places = registry::places(&self.endpoint, &self.shared.pool).await?;
        let told_ns = self.endpoint.now_ns();
        let mut left_behind = everybody;
        for place in places.iter().filter(|place| place.incarnation.slot != me.slot) {
            let still_ns = self.watch.still_ns(place, asked_ns, told_ns);
            let pool = &self.shared.pool;
            match place.state {
                PlaceState::Taken | PlaceState::Joining => {
                    let is_suspect = still_ns >= self.times.suspect_ns;
                    let fenced = match is_suspect {
                        true if self.is_open(Hole::UnfencedRepair) => {
                            registry::declare_dead(&self.endpoint, pool, place).await?
                        }
                        true => registry::fence_suspect(&self.endpoint, pool, place).await?,
                        false if everybody => registry::fence_dead(&self.endpoint, pool, place).await?,
                        false => false,
                    };
                    if fenced {
                        repaired.clients += 1;
                        left_behind = true;
                    }
                }
                PlaceState::Fenced if everybody || still_ns >= self.times.help_ns => left_behind = true,
                _ => {}
            }
        }
        self.stats.clients_fenced += repaired.clients;
        repaired.extents += Box::pin(self.recheck_bound()).await?;
        if left_behind {
            Box::pin(self.reclaim(&mut repaired)).await?;
        } else {
            let (deaths, counted) = self.deaths().await?;
            self.distrust = deaths != counted;
        }
        Ok(repaired)
    }

    /// Reclaims what clients that are not alive own, and frees their places.
    pub(super) async fn reclaim(&mut self, repaired: &mut Repaired) -> Result<(), CacheError> {
        self.stats.repairs += 1;
        // A client that is shut out later may own what this look does not see: its place is left to the next one.
        let before = registry::places(&self.endpoint, &self.shared.pool).await?;
        let descriptors = self.all_descriptors().await?;
        let roll = Roll::of(&registry::places(&self.endpoint, &self.shared.pool).await?);
        retirement::reclaim(&self.endpoint, &self.shared.pool.layout, &descriptors, &roll).await?;
        self.take_back_tickets().await?;
        let nodes = self.all_nodes().await?;
        let stolen = self.steal(&descriptors, &roll, &nodes).await?;
        // Nobody but their owner puts nodes of these groups into a ring: those that are there now are all.
        let nodes = if stolen.is_empty() { Vec::new() } else { self.all_nodes().await? };
        let chunks: HashSet<ChunkId> = stolen.iter().map(|(chunk, _)| *chunk).collect();
        for standing in nodes.iter().filter(|standing| chunks.contains(&standing.head.node.chunk)) {
            self.empty_node(standing.queue, standing.head.position, standing.head.word).await?;
        }
        for (chunk, leaving) in stolen {
            repaired.chunks += 1;
            let settled = self.settle(chunk, leaving).await?;
            repaired.groups += u64::from(settled.objects > 0);
            repaired.pending += settled.pending;
        }
        repaired.extents += self.sweep_extents(extent::suspects(&descriptors, &roll)).await?;
        for place in before.iter().filter(|place| place.state == PlaceState::Fenced) {
            registry::free(&self.endpoint, &self.shared.pool, place).await?;
        }
        self.stats.chunks_repaired += repaired.chunks + repaired.extents;
        repaired.recounted = self.recount().await?;
        Ok(())
    }

    pub(super) async fn all_descriptors(&mut self) -> Result<Vec<chunks::Descriptor>, CacheError> {
        self.learn_nodes().await?;
        let layout = self.shared.pool.layout.clone();
        let all = layout.chunks();
        let mut descriptors = Vec::with_capacity(all as usize);
        while (descriptors.len() as u32) < all {
            let first = ChunkId(descriptors.len() as u32);
            descriptors.extend(chunks::descriptors(&self.endpoint, &layout, first, DESCRIPTORS_AT_ONCE).await?);
        }
        Ok(descriptors)
    }

    /// Makes this client the owner of every group that its owner left behind.
    async fn steal(
        &mut self,
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
                ChunkState::Retired | ChunkState::Discarding | ChunkState::Discarded => false,
            };
            if !left_behind {
                continue;
            }
            let leaving = Chunk::owned(ChunkState::Leaving, self.me(), found.generation);
            let layout = &self.shared.pool.layout;
            if chunks::transition(&self.endpoint, layout, chunk, found.word(), leaving).await? {
                stolen.push((chunk, leaving));
            }
        }
        Ok(stolen)
    }

    /// Frees a chunk that this client owns as `leaving`, or puts it into its queue with a new map, as its records say.
    pub(super) async fn settle(&mut self, chunk: ChunkId, leaving: Chunk) -> Result<Settled, CacheError> {
        let layout = self.shared.pool.layout.clone();
        let mut buffer = Buffer::new();
        buffer.resize(layout.chunk_bytes as usize);
        let mut buffer = self.endpoint.read(layout.chunk(chunk), buffer).await?;
        let records = self.parse(&mut buffer, leaving.generation);
        let mut group = OpenGroup { chunk, generation: leaving.generation, ..OpenGroup::default() };
        let mut settled = Settled::default();
        for record in &records {
            let Parsed { header, offset_bytes, hash } = record;
            let slot = match self.indexed(chunk, *offset_bytes, leaving.generation, *hash).await? {
                Indexed::Live(slot) => {
                    settled.objects += 1;
                    group.expiries.extend(header.expiry_ms.map(|expiry_ms| (expiry_ms, header.held_bytes())));
                    group.extent_bytes += header.held_bytes() - header.record_bytes();
                    slot
                }
                Indexed::Pending(slot, word) => {
                    let mut batch = Batch::new();
                    if !self.is_open(Hole::PendingForever) {
                        batch.compare_and_swap(self.shared.layout.slot(slot), word.0, 0);
                        self.endpoint.post(&mut batch).await?;
                    }
                    settled.pending += 1;
                    group.dead_bytes += header.record_bytes();
                    slot
                }
                Indexed::Dead => {
                    group.dead_bytes += header.record_bytes();
                    u64::from(hash.bucket) * BUCKET_SLOTS as u64
                }
            };
            group.map.push(record.map_entry(slot));
            group.used_bytes = offset_bytes + header.record_bytes();
        }
        if settled.objects > 0 {
            let queue = if records[0].header.main { Queue::Main } else { Queue::Small };
            self.queue_group(queue, 0, &mut group, leaving).await?;
        } else if self.protected_by_others().await?.contains(&chunk) {
            self.let_wait(chunk);
        } else {
            self.free_own(chunk, leaving).await?;
        }
        Ok(settled)
    }

    /// The records of a chunk of this generation.
    pub(super) fn parse(&self, chunk: &mut Buffer, generation: u32) -> Vec<Parsed> {
        let (settings, buckets) = (&self.shared.pool.settings, self.shared.settings.buckets);
        let chunk_bytes = chunk.len();
        let (mut records, mut offset) = (Vec::new(), 0);
        while records.len() < settings.group_objects_max as usize && offset < chunk_bytes {
            chunk.narrow(offset, chunk_bytes - offset);
            let Some(record) = Record::decode(chunk, &self.shared.hasher) else { break };
            let header = record.header;
            let map_bytes = 8 * (records.len() + 1);
            let fits = offset + header.record_bytes() as usize + map_bytes <= chunk_bytes;
            // Behind the last record may lie what an earlier group left, or one that was given up.
            if header.generation != generation as u16 || usize::from(header.number) != records.len() || !fits {
                break;
            }
            let hash = record.large().map_or_else(|| self.shared.hasher.hash(record.key), |body| body.key_hash);
            records.push(Parsed { header, offset_bytes: offset as u64, hash: KeyHash::new(hash, buckets) });
            offset += header.record_bytes() as usize;
        }
        chunk.narrow(0, chunk_bytes);
        records
    }

    /// What the index has for the record at this place.
    async fn indexed(
        &mut self,
        chunk: ChunkId,
        offset_bytes: u64,
        generation: u32,
        hash: KeyHash,
    ) -> Result<Indexed, CacheError> {
        self.read_bucket(hash).await?;
        let heap_offset = u64::from(chunk.0) * self.shared.pool.layout.chunk_bytes + offset_bytes;
        for place in 0..BUCKET_SLOTS {
            let (word, slot) = self.seen(hash, place);
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

    /// Frees what this client has bound lately and no object has: see [`crate::extent`].
    pub(super) async fn recheck_bound(&mut self) -> Result<u64, CacheError> {
        if self.lately_bound.is_empty() {
            return Ok(0);
        }
        self.endpoint.flush().await?;
        let (deaths, _) = self.deaths().await?;
        let extents = self.lately_bound.take(deaths);
        let bound = self.extent_io().still_bound(&extents).await?;
        self.sweep_extents(bound).await
    }

    /// Frees extents that no object has, and binds those of dead owners that one has.
    async fn sweep_extents(&mut self, suspects: Vec<(ChunkId, Chunk)>) -> Result<u64, CacheError> {
        if self.is_open(Hole::LeakedExtents) {
            return Ok(0);
        }
        let mut freed = 0;
        for (bucket, extents) in self.extent_io().by_bucket(suspects).await? {
            let had = match u32::try_from(bucket).ok().filter(|bucket| *bucket < self.shared.settings.buckets) {
                Some(bucket) => self.extents_of_bucket(bucket).await?,
                // A damaged word: no object is there.
                None => Some(HashSet::new()),
            };
            let Some(had) = had else { continue };
            for (extent, found) in extents {
                let layout = &self.shared.pool.layout;
                if !had.contains(&extent) {
                    freed += u64::from(chunks::free(&self.endpoint, layout, extent.chunk, found).await?);
                } else if found.state == ChunkState::Extent {
                    let bound = Chunk { state: ChunkState::Bound, ..found };
                    chunks::transition(&self.endpoint, layout, extent.chunk, found.word(), bound).await?;
                }
            }
        }
        Ok(freed)
    }

    /// The extents that objects of a bucket have at one moment; `None` if the bucket does not stand still for that.
    async fn extents_of_bucket(&mut self, bucket: u32) -> Result<Option<HashSet<Extent>>, CacheError> {
        let hash = KeyHash { bucket, fingerprint: 0, more: 0 };
        'look: for _ in 0..LOOKS_MAX {
            self.read_bucket(hash).await?;
            let large = |forge: &Self| -> Vec<(Slot, u64)> {
                let seen = (0..BUCKET_SLOTS).map(|place| forge.seen(hash, place));
                seen.filter(|(word, _)| word.is_live() && word.is_large()).collect()
            };
            let slots = large(self);
            let mut extents = HashSet::new();
            let mut damaged = Vec::new();
            for (word, slot) in &slots {
                let Some((at, bytes, _)) = self.find_record(*word).await? else {
                    damaged.push((*slot, *word));
                    continue;
                };
                let mut buffer = std::mem::take(&mut self.record);
                buffer.resize(bytes);
                self.record = self.endpoint.read(at, buffer).await?;
                let body = self.judge(*word, &self.record).and_then(|record| Some((record.header, record.large()?)));
                let Some((header, body)) = body else {
                    damaged.push((*slot, *word));
                    continue;
                };
                match self.extents(&header, &body).await? {
                    Some(listed) => extents.extend(listed.all()),
                    None => damaged.push((*slot, *word)),
                }
            }
            self.read_bucket(hash).await?;
            if large(self) != slots {
                continue 'look;
            }
            if damaged.is_empty() {
                return Ok(Some(extents));
            }
            for (slot, word) in damaged {
                self.unlink(slot, word).await?;
                self.unprotect();
            }
        }
        Ok(None)
    }

    /// Counts everything anew if all other clients are gone or at rest, and a client has died since the last time; whether it did.
    pub(super) async fn recount(&mut self) -> Result<bool, CacheError> {
        let layout = self.shared.pool.layout.clone();
        let (deaths, counted) = self.deaths().await?;
        let before = registry::places(&self.endpoint, &self.shared.pool).await?;
        self.distrust = deaths != counted;
        if !self.distrust || !registry::is_quiet(&before, self.me()) {
            return Ok(false);
        }
        self.endpoint.flush().await?;
        let objects = self.count_live_slots().await?;
        let free = self.all_descriptors().await?;
        let is_free = |each: &&chunks::Descriptor| each.chunk.is_some_and(|chunk| chunk.state == ChunkState::Free);
        let free = free.iter().filter(is_free).count() as u64;
        let counted_objects = registry::objects_exact(&self.endpoint, &self.shared.pool).await?;
        let counted_free = read_word(&self.endpoint, layout.free_chunks()).await?;
        let resident = read_word(&self.endpoint, layout.resident_objects()).await?;
        let after = registry::places(&self.endpoint, &self.shared.pool).await?;
        if !registry::was_quiet(&before, &after, self.me()) {
            return Ok(false);
        }
        // Added, not written: another client may have come just now.
        let mut batch = Batch::new();
        batch.fetch_and_add(layout.free_chunks(), free.wrapping_sub(counted_free));
        if self.shared.pool.settings.objects_max > 0 {
            // The operation under way may have counted an object that it is yet to insert.
            let promised = objects + u64::from(self.reserved);
            batch.fetch_and_add(layout.resident_objects(), promised.wrapping_sub(resident));
        }
        batch.compare_and_swap(layout.deaths_counted(), counted, deaths);
        self.endpoint.post(&mut batch).await?;
        self.distrust = false;
        self.count_objects(objects.wrapping_sub(counted_objects) as i64).await?;
        self.endpoint.flush().await?;
        self.evict_to_limit().await?;
        Ok(true)
    }

    /// Clients shut out so far, and how many of those the last count has seen.
    pub(super) async fn deaths(&mut self) -> Result<(u64, u64), CacheError> {
        let mut batch = Batch::new();
        let deaths = batch.read_word(self.shared.pool.layout.deaths());
        let counted = batch.read_word(self.shared.pool.layout.deaths_counted());
        self.endpoint.post(&mut batch).await?;
        Ok((batch.word(deaths), batch.word(counted)))
    }

    async fn count_live_slots(&mut self) -> Result<u64, CacheError> {
        let buckets = self.shared.settings.buckets;
        let (mut first, mut live) = (0, 0);
        while first < buckets {
            let count = 1024.min(self.shared.layout.buckets_in_a_piece(first));
            let mut buffer = Buffer::new();
            buffer.resize(BUCKET_BYTES as usize * count as usize);
            let words = self.endpoint.read(self.shared.layout.bucket(first), buffer).await?;
            live += words.words().iter().filter(|word| Slot(**word).is_live()).count() as u64;
            first += count;
        }
        Ok(live)
    }
}

/// What was in a chunk that was settled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    /// Live objects.
    pub(super) objects: u64,
    /// Insertions that were never decided.
    pub(super) pending: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pooled;
    use crate::forge::ForgeOptions;
    use atoll_pool::PoolSettings;
    use atoll_sim::{Sim, SimEndpoint, SimOptions};

    /// An operation that has counted the object that it is to insert, and waits for memory, counts
    /// everything anew: the object stays counted.
    #[test]
    fn counting_anew_keeps_what_the_operation_under_way_has_counted() {
        let base = PoolSettings { chunk_bytes: 1024, objects_max: 10, ..PoolSettings::for_capacity(200 << 10) };
        let settings = ForgeOptions::default().settings(base, 64);
        let sim = Sim::new(SimOptions::new(1, settings.capacity_bytes));
        let endpoint = sim.endpoint("operator");
        let done = sim.block_on(async move {
            let shared = Forge::<SimEndpoint>::format(&endpoint, settings).await.unwrap();
            let mut client = Forge::<SimEndpoint>::join(&shared, endpoint).await.unwrap();
            let layout = shared.pool.layout.clone();
            client.reserve_object().await.unwrap();
            // Somebody died.
            let mut batch = Batch::new();
            batch.fetch_and_add(layout.deaths(), 1);
            client.endpoint.post(&mut batch).await.unwrap();
            assert!(client.recount().await.unwrap());
            assert_eq!(read_word(&client.endpoint, layout.resident_objects()).await.unwrap(), 1);
            client.release_reservation();
            client.leave().await.unwrap();
        });
        done.unwrap();
    }
}
