//! The rules by which an evictor judges the groups at the heads of the queues.
//!
//! A client that needs room evicts by itself (`room`) and waits for no other client. How it empties
//! a judged group is in `leaving`.

use super::layout::Queue;
use super::leaving::{LeavingGroup, Slots};
use super::ring::Cursors;
use super::technique::Technique;
use super::{Forge, Rule};
use crate::CacheError;
use atoll_fabric::Endpoint;

/// Groups that an evictor judges for one need of room before it keeps only hot objects.
const EFFORT_HOT: u32 = 16;
/// Groups that an evictor judges for one need of room before it keeps nothing.
pub const EFFORT_ALL: u32 = 48;

/// The result of an attempt to evict.
pub enum Evicted {
    /// A group was judged.
    Progress,
    /// The evictor found no group: only nodes of cleaned groups, or cursors that it had to move.
    Stale,
    /// Both queues were empty.
    Nothing,
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// The queue to evict from: the small queue if it exceeds its share, otherwise the main queue.
    fn choose_queue(&self, lengths: [u32; 2]) -> Option<Queue> {
        let [small, main] = lengths.map(u64::from);
        let share = self.small_percent();
        match (small, main) {
            (0, 0) => None,
            (_, 0) => Some(Queue::Small),
            (0, _) => Some(Queue::Main),
            _ if small * 100 > share * (small + main) => Some(Queue::Small),
            _ => Some(Queue::Main),
        }
    }

    /// Evicts groups: judges their objects, and moves or unlinks each.
    pub(super) fn evict(&self, effort: u32) -> impl Future<Output = Result<Evicted, CacheError>> {
        self.technique.evict(self, effort)
    }

    /// Evicts from the queue that the pool's rule chooses.
    pub async fn evict_from_queues(&self, effort: u32) -> Result<Evicted, CacheError> {
        let cursors = self.cursors().await?;
        self.note_cursors(cursors);
        let lengths = cursors.map(Cursors::len);
        let Some(queue) = self.choose_queue(lengths) else { return Ok(Evicted::Nothing) };
        if lengths[queue as usize] > 1 << self.shared.settings.ring_log2 {
            self.catch_up(queue, cursors[queue as usize]).await?;
            return Ok(Evicted::Stale);
        }
        let take = u32::from(self.shared.settings.options.merge_groups).min(lengths[queue as usize].div_ceil(2)).max(1);
        let mut groups = Vec::with_capacity(take as usize);
        for _ in 0..take {
            let Some(head) = self.dequeue(queue).await? else { continue };
            if let Some(group) = self.take_group(queue, head, Slots::IfManyDead).await? {
                self.stats.groups_evicted.add(1);
                self.note_evicted_group(cursors, &group);
                groups.push(group);
            }
        }
        if groups.is_empty() {
            return Ok(Evicted::Stale);
        }
        if self.shared.settings.options.rule == Rule::Paper {
            self.evict_by_merging(groups, effort).await?;
            return Ok(Evicted::Progress);
        }
        for group in groups {
            self.evict_by_object(group, effort).await?;
        }
        Ok(Evicted::Progress)
    }

    /// Counts a group that a form of FORGE has taken from a queue to evict it.
    pub fn count_evicted_group(&self) {
        self.stats.groups_evicted.add(1);
    }

    /// Notes the cursors, from which the client knows the age of ghosts.
    pub fn note_cursors(&self, cursors: [Cursors; 2]) {
        self.ghosts.note_cursors(cursors, &self.rules.rule());
        self.technique.note_cursors(cursors);
    }

    /// Our rule judges each object by itself.
    async fn evict_by_object(&self, mut group: LeavingGroup, effort: u32) -> Result<(), CacheError> {
        let promote_hits = u16::from(self.rules.rule().promote_hits);
        for leaver in &mut group.objects {
            let least = match group.queue {
                Queue::Small => promote_hits,
                Queue::Main => 1,
            };
            let least = if effort > EFFORT_HOT { least + 1 } else { least };
            leaver.stays = leaver.frequency >= least && effort <= EFFORT_ALL;
            leaver.carry = match group.queue {
                Queue::Small => 0,
                Queue::Main => (leaver.frequency.min(3) as u8).saturating_sub(1),
            };
        }
        let all_stay =
            group.queue == Queue::Main && group.is_alive() && group.objects.iter().all(|leaver| leaver.stays);
        if all_stay && effort <= EFFORT_HOT {
            return self.put_back(group, Queue::Main, 0).await;
        }
        self.empty_group(group, self.queue_of_hot()).await
    }

    /// The paper's rule: the hottest objects of all groups become one group.
    async fn evict_by_merging(&self, groups: Vec<LeavingGroup>, effort: u32) -> Result<(), CacheError> {
        let mut merged = Vec::with_capacity(groups.len());
        for group in groups {
            let active = group.live().filter(|leaver| leaver.frequency > 0).count();
            if 2 * active > group.objects.len() && effort <= EFFORT_HOT && !self.technique.has_one_queue() {
                self.put_back(group, Queue::Main, 0).await?;
            } else {
                merged.push(group);
            }
        }
        let mut frequencies: Vec<u16> = merged
            .iter()
            .flat_map(LeavingGroup::live)
            .map(|leaver| leaver.frequency)
            .filter(|hits| *hits > 0)
            .collect();
        frequencies.sort_unstable_by(|a, b| b.cmp(a));
        let room = self.client.pool.settings.group_objects_max as usize;
        let mut places = frequencies.len().min(room);
        let least = frequencies.get(places.wrapping_sub(1)).copied().unwrap_or(u16::MAX);
        let sum: u64 = frequencies[..places].iter().map(|hits| u64::from(*hits)).sum();
        for leaver in merged.iter_mut().flat_map(|group| &mut group.objects) {
            leaver.stays = effort <= EFFORT_ALL && leaver.word.is_some() && leaver.frequency >= least && places > 0;
            places -= usize::from(leaver.stays);
            leaver.carry = 0;
        }
        let stays = merged.iter().flat_map(|group| &group.objects).filter(|leaver| leaver.stays).count() as u64;
        // A merged group contains no other objects: the open group of its queue is closed first.
        let to = self.queue_of_hot();
        self.close_group(to, 0).await?;
        for group in merged {
            self.empty_group(group, to).await?;
        }
        let segment = match self.technique.has_one_queue() {
            true => 0,
            false => self.segment(16 * sum / stays.max(1), stays),
        };
        self.close_group(to, segment).await
    }

    /// The queue of objects that stay.
    fn queue_of_hot(&self) -> Queue {
        if self.technique.has_one_queue() { Queue::Small } else { Queue::Main }
    }

    /// The virtual segment of a merged group with this mean frequency, in sixteenths, against the
    /// running mean of such groups.
    fn segment(&self, mean: u64, objects: u64) -> u8 {
        let before = self.merged_mean.get();
        if objects > 0 {
            self.merged_mean.set(if before == 0 { mean } else { (7 * before + mean) / 8 });
        }
        match mean {
            0 => 0,
            mean if mean > 2 * before && before > 0 => 3,
            mean if 2 * mean < before => 1,
            _ => 2,
        }
    }
}
