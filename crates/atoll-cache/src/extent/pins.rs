//! Room of the pool that this process keeps for its peers, so that no client can evict it.
//!
//! | kept | as long as |
//! |---|---|
//! | the extents of an object that a reader has pinned | a reader reads them: see [`reading`](super::reading) |
//! | a value that arrives | it is neither published nor dropped: see [`staged`](super::staged) |
//!
//! A pinned object that is dead is an *orphan*. Clients can evict pinned objects, so orphans alone
//! and values that arrive keep room from other writers. One account limits both: with half of the
//! pool for each, nothing would be left for others.
//!
//! | limit | beyond it |
//! |---|---|
//! | pinned objects have at most `bytes_max` | a reader gets no pin |
//! | orphans and arriving values have at most `bytes_max` together | no further value is begun; readers of orphans are to end: see [`Orphaned::are_too_many`] |

use super::{Extent, Extents};
use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a process keeps of its pool for its peers.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    kept: Mutex<Kept>,
    /// Whether there are pinned objects, or orphans to be freed. Written under the lock.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    /// Pinned objects, by the first extent of each.
    objects: HashMap<Extent, Object>,
    /// Bytes of all these objects.
    pinned_bytes: usize,
    /// Bytes of those of them that are orphans.
    orphaned_bytes: usize,
    /// Bytes that the values will have that arrive.
    arriving_bytes: usize,
    /// Orphans that no reader has pinned any more.
    unpinned: Vec<Extents>,
}

#[derive(Debug)]
struct Object {
    readers: usize,
    bytes: usize,
    extents: Extents,
    /// Since when no object has them.
    orphaned: Option<Instant>,
}

/// What is known of an object that is read and is not in the cache any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphaned {
    /// How long it has not been there.
    pub since: Duration,
    /// Whether such objects and values that arrive have more of the pool together than they may.
    pub are_too_many: bool,
}

/// A reader's pin.
#[derive(Debug)]
pub(super) struct Pin {
    pins: Arc<Pins>,
    first: Extent,
    bytes_max: usize,
}

/// The room of a value that arrives.
#[derive(Debug)]
pub(crate) struct Share {
    pins: Arc<Pins>,
    bytes: usize,
}

impl Kept {
    /// Notes that no object has the extents of a pinned one any more.
    fn orphan(&mut self, first: Extent) {
        let object = self.objects.get_mut(&first).expect("an object that is pinned");
        if object.orphaned.is_none() {
            object.orphaned = Some(Instant::now());
            self.orphaned_bytes += object.bytes;
        }
    }
}

impl Pins {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins the extents of an object of so many bytes. `None` if more than `bytes_max` would be
    /// pinned.
    pub(super) fn pin(self: &Arc<Self>, extents: &Extents, bytes: usize, bytes_max: usize) -> Option<Pin> {
        let first = *extents.body.first()?;
        {
            let mut kept = self.kept();
            let Kept { objects, pinned_bytes, .. } = &mut *kept;
            match objects.get_mut(&first) {
                Some(object) => object.readers += 1,
                None if *pinned_bytes + bytes > bytes_max => return None,
                None => {
                    objects.insert(first, Object { readers: 1, bytes, extents: extents.clone(), orphaned: None });
                    *pinned_bytes += bytes;
                }
            }
            self.is_any.store(true, SeqCst);
        }
        // The reader READs the slot after this; a client that frees swaps the slot first. At least
        // one of them sees what the other has done.
        fence(SeqCst);
        Some(Pin { pins: self.clone(), first, bytes_max })
    }

    /// Takes over the extents of an object that is dead, if a reader has pinned them. Then the
    /// caller does not free them.
    pub(super) fn take_over(&self, extents: &Extents) -> bool {
        extents.body.first().is_some_and(|first| self.take_over_if(|other, _| other == first))
    }

    /// As [`take_over`](Self::take_over), of the object that has this extent.
    pub(crate) fn take_over_with(&self, extent: Extent) -> bool {
        self.take_over_if(|_, extents| extents.all().any(|other| other == extent))
    }

    fn take_over_if(&self, is_it: impl Fn(&Extent, &Extents) -> bool) -> bool {
        // Behind the swap that made the object dead.
        fence(SeqCst);
        if !self.is_any.load(SeqCst) {
            return false;
        }
        let mut kept = self.kept();
        let found = kept.objects.iter().find(|(first, object)| is_it(first, &object.extents)).map(|(first, _)| *first);
        found.map(|first| kept.orphan(first)).is_some()
    }

    /// Whether there may be orphans to be freed.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(SeqCst)
    }

    /// The orphans that no reader has pinned any more: the caller frees them.
    pub(super) fn take_unpinned(&self) -> Vec<Extents> {
        let mut kept = self.kept();
        self.is_any.store(!kept.objects.is_empty(), SeqCst);
        std::mem::take(&mut kept.unpinned)
    }

    /// Keeps room for a value of so many bytes that arrives. `None` if such values and orphans
    /// would have more than `bytes_max` together.
    pub(crate) fn share(self: &Arc<Self>, bytes: usize, bytes_max: usize) -> Option<Share> {
        let mut kept = self.kept();
        let sum = (kept.arriving_bytes + kept.orphaned_bytes).checked_add(bytes).filter(|sum| *sum <= bytes_max);
        sum.map(|_| {
            kept.arriving_bytes += bytes;
            Share { pins: self.clone(), bytes }
        })
    }
}

impl Pin {
    /// What is known of the object, if it is an orphan.
    pub(super) fn orphaned(&self) -> Option<Orphaned> {
        let kept = self.pins.kept();
        let since = kept.objects.get(&self.first)?.orphaned?.elapsed();
        Some(Orphaned { since, are_too_many: kept.arriving_bytes + kept.orphaned_bytes > self.bytes_max })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut kept = self.pins.kept();
        let object = kept.objects.get_mut(&self.first).expect("an object stays pinned while it has readers");
        object.readers -= 1;
        if object.readers == 0 {
            let object = kept.objects.remove(&self.first).expect("it has just been there");
            kept.pinned_bytes -= object.bytes;
            if object.orphaned.is_some() {
                kept.orphaned_bytes -= object.bytes;
                kept.unpinned.push(object.extents);
            }
            self.pins.is_any.store(!kept.objects.is_empty() || !kept.unpinned.is_empty(), SeqCst);
        }
    }
}

impl Share {
    /// Bytes that the value will have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pins.kept().arriving_bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_pool::ChunkId;

    fn extents(chunks: std::ops::Range<u32>) -> Extents {
        let body = chunks.map(|chunk| Extent { chunk: ChunkId(chunk), generation: 1 }).collect();
        Extents { body, lists: Vec::new() }
    }

    #[test]
    fn orphans_and_values_that_arrive_have_one_part_of_the_pool_together() {
        let pins = Arc::new(Pins::default());
        let first = pins.share(60, 100).unwrap();
        assert!(pins.share(41, 100).is_none() && pins.share(usize::MAX, 100).is_none());
        let pin = pins.pin(&extents(0..3), 50, 100).unwrap();
        assert!(pins.pin(&extents(3..6), 51, 100).is_none(), "pinned objects have a limit of their own");
        // An object that is still there can be evicted.
        let second = pins.share(40, 100).unwrap();
        assert_eq!(pin.orphaned(), None);
        assert!(pins.take_over(&extents(0..3)) && !pins.take_over(&extents(3..6)));
        assert!(pin.orphaned().unwrap().are_too_many);
        drop(first);
        assert!(!pin.orphaned().unwrap().are_too_many);
        assert!(pins.share(11, 100).is_none());
        let third = pins.share(10, 100).unwrap();
        drop((pin, second, third));
        assert_eq!(pins.take_unpinned(), [extents(0..3)]);
        assert!(pins.share(100, 100).is_some() && !pins.is_any());
    }

    #[test]
    fn an_object_is_freed_once_by_the_last_of_its_readers_and_not_by_a_repairer() {
        let pins = Arc::new(Pins::default());
        let readers: Vec<Pin> = (0..2).map(|_| pins.pin(&extents(0..3), 50, 100).unwrap()).collect();
        let [of_it, of_another] = [2, 3].map(|chunk| Extent { chunk: ChunkId(chunk), generation: 1 });
        assert!(!pins.take_over_with(of_another));
        assert!(pins.take_over_with(of_it) && pins.take_over(&extents(0..3)));
        for reader in readers {
            assert!(pins.take_unpinned().is_empty());
            assert!(!reader.orphaned().unwrap().are_too_many);
        }
        assert_eq!(pins.take_unpinned(), [extents(0..3)]);
        assert!(!pins.take_over(&extents(0..3)), "nobody has pinned it any more");
    }
}
