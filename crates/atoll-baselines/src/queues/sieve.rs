//! SIEVE: an access marks an object as visited and does not move it. A hand moves from the tail to
//! the head. It removes the mark of a visited object and passes it over. It evicts the first object
//! that was not visited.
//!
//! A hit is one CAS of the node's mark, not awaited and without a lock. An insertion puts its node
//! at the head, under the lock. The hand moves under the lock, and each object that it passes is a
//! round trip. FORGE's section 2.2 finds that slow.

use super::area::{Area, linked_us, node_word};
use super::list::Locked;
use super::listed::Listed;
use super::lock::{Lists, Seen};
use atoll_cache::CacheError;
use atoll_cache::table::Core;
use atoll_cache::table::replacement::Victim;
use atoll_cache::table::slot::Slot;
use atoll_fabric::{Batch, Endpoint};

/// The most nodes of removed objects that a search for a victim unlinks from a list.
pub(super) const POPPED_MAX: u32 = 8;
/// The most objects that the hand passes over under one lock. Then it evicts the next object.
const PASSED_MAX: u32 = 512;

/// One client's side.
pub(super) struct Sieve {
    lists: Lists,
}

impl Sieve {
    pub(super) fn new(area: Area) -> Self {
        Self { lists: Lists::new(area, false) }
    }

    pub(super) async fn accessed<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        let mut batch = Batch::new();
        batch.compare_and_swap(self.lists.area.at(self.lists.area.node_word(slot, node_word::VISITED)), 0, 1);
        core.client.endpoint.post_unawaited(&mut batch);
        Ok(())
    }

    pub(super) async fn inserted<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        let list = self.lists.area.list_of(slot);
        let Some(mut locked) = self.lists.lock(core, list, &[slot]).await? else { return Ok(()) };
        if locked.has(slot) && locked.unlink(&self.lists.area, slot).is_err() {
            locked.begin_anew(&self.lists.area);
        }
        let visited = locked.node(slot).word(node_word::VISITED);
        if visited != 0 {
            // The mark of the slot's last object.
            let mut batch = Batch::new();
            let at = self.lists.area.at(self.lists.area.node_word(slot, node_word::VISITED));
            batch.compare_and_swap(at, visited, 0);
            core.client.endpoint.post_unawaited(&mut batch);
        }
        locked.link(&self.lists.area, slot, false, core.client.about_us());
        self.lists.unlock(core, locked).await
    }

    /// Moves the hand; `None` if the list is broken, or empty.
    async fn move_hand<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        locked: &mut Locked,
    ) -> Result<Option<Option<Victim>>, CacheError> {
        let area = &self.lists.area;
        let (mut popped, mut passed, mut unmarked) = (0, 0, None);
        let Ok(mut hand) = locked.hand(area) else { return Ok(None) };
        loop {
            let Ok(tail) = locked.tail(area) else { return Ok(None) };
            let Some(slot) = hand.or(tail) else { return Ok(None) };
            if hand.is_none() {
                locked.begin_sweep(area);
            }
            let word = self.lists.read(core, locked, slot, unmarked.take()).await?;
            let node = locked.node(slot);
            let Ok(prev) = area.linked(locked.list, node.word(node_word::PREV)) else { return Ok(None) };
            if !locked.has(slot) {
                return Ok(None);
            }
            let is_object = word.is_live();
            if is_object && node.word(node_word::VISITED) != 0 && passed < PASSED_MAX {
                passed += 1;
                unmarked = Some((slot, node.word(node_word::VISITED)));
                hand = prev;
                continue;
            }
            if locked.unlink(area, slot).is_err() {
                return Ok(None);
            }
            hand = prev;
            locked.set_hand(area, hand);
            self.lists.progress.note(locked.list, (locked.sweeps(), linked_us(node.word(node_word::MARK))));
            if is_object || word.is_dead() && !word.is_pending() {
                return Ok(Some(Some(Victim { slot, word, then: Slot::EMPTY })));
            }
            popped += 1;
            if popped == POPPED_MAX {
                return Ok(Some(None));
            }
        }
    }

    pub(super) async fn round<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        self.lists.settle(core).await
    }
}

impl Listed for Sieve {
    fn lists(&mut self) -> &mut Lists {
        &mut self.lists
    }

    /// The oldest object that was not visited, else the oldest.
    fn rank(seen: &Seen) -> (bool, u64) {
        (seen.node.word(node_word::VISITED) != 0, linked_us(seen.node.word(node_word::MARK)))
    }

    /// Moves a list's hand until it finds a victim.
    async fn pop<E: Endpoint>(&mut self, core: &Core<E>, list: u32) -> Result<Option<Victim>, CacheError> {
        let Some(mut locked) = self.lists.lock(core, list, &[]).await? else { return Ok(None) };
        let found = self.move_hand(core, &mut locked).await?;
        if found.is_none() && locked.tail(&self.lists.area) != Ok(None) {
            locked.begin_anew(&self.lists.area);
        }
        self.lists.unlock(core, locked).await?;
        Ok(found.flatten())
    }
}
