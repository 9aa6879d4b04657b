//! LRU: an accessed object moves to the head of its list, and the object at the tail is evicted.
//!
//! | | `shard-lru` | `lru-dm` |
//! |---|---|---|
//! | a hit | lock; READ the list and the node; WRITE the neighbours; WRITE the node and the old head; unlock: each waited for | noted locally; eight hits of one list are moved under one lock, and the rest when a client makes its round |
//! | the same under one lock | | lock and READ in one batch; WRITE and unlock in one, not awaited |
//! | an insertion | as a hit | at once, with the hits of its list that were noted |
//!
//! A hit on the object at the head changes nothing. A client that does not get the lock leaves the
//! object where it is.

use super::area::{Area, linked_us, node_word};
use super::list::TOGETHER_MAX;
use super::listed::Listed;
use super::lock::{Lists, Seen};
use super::sieve::POPPED_MAX;
use atoll_cache::CacheError;
use atoll_cache::table::Core;
use atoll_cache::table::replacement::Victim;
use atoll_cache::table::slot::Slot;
use atoll_fabric::Endpoint;

/// One client's side.
pub(super) struct Lru {
    lists: Lists,
    /// By list: slots that were accessed and not moved yet, the last access last.
    noted: Vec<Vec<u64>>,
}

impl Lru {
    pub(super) fn new(area: Area, is_straight: bool) -> Self {
        let noted = vec![Vec::new(); area.lists() as usize];
        Self { lists: Lists::new(area, is_straight), noted }
    }

    pub(super) async fn accessed<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        if self.lists.is_straight() || self.note(slot) == TOGETHER_MAX {
            return self.promote(core, slot).await;
        }
        Ok(())
    }

    pub(super) async fn inserted<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        self.promote(core, slot).await
    }

    /// Notes an access; returns how many of the list are noted now.
    fn note(&mut self, slot: u64) -> usize {
        let noted = &mut self.noted[self.lists.area.list_of(slot) as usize];
        noted.retain(|other| *other != slot);
        noted.push(slot);
        noted.len()
    }

    /// Moves a node to the head of its list, after the noted nodes of the list.
    async fn promote<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        self.note(slot);
        self.move_noted(core, self.lists.area.list_of(slot)).await
    }

    /// Moves the noted objects of a list to its head.
    async fn move_noted<E: Endpoint>(&mut self, core: &Core<E>, list: u32) -> Result<(), CacheError> {
        let mut slots = std::mem::take(&mut self.noted[list as usize]);
        let moved = self.move_to_head(core, list, &slots).await;
        slots.clear();
        self.noted[list as usize] = slots;
        moved
    }

    async fn move_to_head<E: Endpoint>(&mut self, core: &Core<E>, list: u32, slots: &[u64]) -> Result<(), CacheError> {
        let Some(mut locked) = self.lists.lock(core, list, slots).await? else { return Ok(()) };
        let now_us = core.client.about_us();
        for slot in slots {
            if locked.has(*slot) {
                if locked.head(&self.lists.area) == Ok(Some(*slot)) {
                    continue;
                }
                if locked.unlink(&self.lists.area, *slot).is_err() {
                    locked.begin_anew(&self.lists.area);
                }
                self.lists.step(core, &mut locked).await?;
            }
            locked.link(&self.lists.area, *slot, false, now_us);
            self.lists.step(core, &mut locked).await?;
        }
        self.lists.unlock(core, locked).await
    }

    pub(super) async fn round<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        self.lists.settle(core).await?;
        for list in 0..self.lists.area.lists() {
            if !self.noted[list as usize].is_empty() {
                self.move_noted(core, list).await?;
            }
        }
        Ok(())
    }
}

impl Listed for Lru {
    fn lists(&mut self) -> &mut Lists {
        &mut self.lists
    }

    /// The least recently used.
    fn rank(seen: &Seen) -> (bool, u64) {
        (false, linked_us(seen.node.word(node_word::MARK)))
    }

    /// Takes the object at the tail of a list out of it.
    async fn pop<E: Endpoint>(&mut self, core: &Core<E>, list: u32) -> Result<Option<Victim>, CacheError> {
        let Some(mut locked) = self.lists.lock(core, list, &[]).await? else { return Ok(None) };
        let mut victim = None;
        for _ in 0..POPPED_MAX {
            let slot = match locked.tail(&self.lists.area) {
                Ok(None) => break,
                Ok(Some(slot)) => slot,
                Err(_) => {
                    locked.begin_anew(&self.lists.area);
                    break;
                }
            };
            let word = self.lists.read(core, &mut locked, slot, None).await?;
            let linked = locked.node(slot).word(node_word::MARK);
            if !locked.has(slot) || locked.unlink(&self.lists.area, slot).is_err() {
                locked.begin_anew(&self.lists.area);
                break;
            }
            self.lists.progress.note(list, (0, linked_us(linked)));
            if !word.is_free() && !word.is_pending() {
                victim = Some(Victim { slot, word, then: Slot::EMPTY });
                break;
            }
        }
        self.lists.unlock(core, locked).await?;
        Ok(victim)
    }
}
