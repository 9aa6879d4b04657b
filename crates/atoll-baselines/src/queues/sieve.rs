//! SIEVE: what is accessed is marked as visited and stays where it is; a hand goes from the tail to
//! the head, passes over what was visited and takes the mark away, and takes the first object that
//! was not.
//!
//! A hit is one CAS of the node's mark, which nobody waits for and which needs no lock. An
//! insertion puts its node at the head, under the lock. The hand moves under the lock, and each
//! object that it passes is a round trip: what FORGE's section 2.2 finds to be slow.

use super::area::{Area, linked_us, node_word};
use super::list::Locked;
use super::lock::{Lists, Progress};
use atoll_cache::CacheError;
use atoll_cache::table::Core;
use atoll_cache::table::replacement::{Candidate, Victim};
use atoll_cache::table::slot::Slot;
use atoll_fabric::{Batch, Endpoint};

/// Nodes of objects that are gone which a search for a victim takes out of a list, at most.
pub(super) const POPPED_MAX: u32 = 8;
/// Objects that the hand passes over under one lock, at most: it takes what comes then.
const PASSED_MAX: u32 = 512;

/// One client's side.
pub(super) struct Sieve {
    lists: Lists,
    progress: Progress,
}

impl Sieve {
    pub(super) fn new(area: Area) -> Self {
        let progress = Progress::new(area.lists());
        Self { lists: Lists::new(area, false), progress }
    }

    pub(super) fn lists(&self) -> &Lists {
        &self.lists
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
        let visited = locked.node(slot).visited;
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

    pub(super) async fn removed<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        self.lists.take_out(core, slot).await
    }

    pub(super) async fn victim<E: Endpoint>(&mut self, core: &Core<E>) -> Result<Option<Victim>, CacheError> {
        let list = self.progress.last();
        if let Some(victim) = self.search(core, list).await? {
            return Ok(Some(victim));
        }
        self.progress.skip(list);
        match self.lists.other_list(core, list).await? {
            Some(list) => self.search(core, list).await,
            None => Ok(None),
        }
    }

    /// Moves a list's hand until it finds an object that goes.
    async fn search<E: Endpoint>(&mut self, core: &Core<E>, list: u32) -> Result<Option<Victim>, CacheError> {
        let Some(mut locked) = self.lists.lock(core, list, &[]).await? else { return Ok(None) };
        let found = self.move_hand(core, &mut locked).await?;
        if found.is_none() && locked.tail(&self.lists.area) != Ok(None) {
            locked.begin_anew(&self.lists.area);
        }
        self.lists.unlock(core, locked).await?;
        Ok(found.flatten())
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
            let Ok(prev) = area.linked(locked.list, node.prev) else { return Ok(None) };
            if !locked.has(slot) {
                return Ok(None);
            }
            let is_object = word.is_live();
            if is_object && node.visited != 0 && passed < PASSED_MAX {
                passed += 1;
                unmarked = Some((slot, node.visited));
                hand = prev;
                continue;
            }
            if locked.unlink(area, slot).is_err() {
                return Ok(None);
            }
            hand = prev;
            locked.set_hand(area, hand);
            self.progress.note(locked.list, (locked.sweeps(), linked_us(node.mark)));
            if is_object || word.is_dead() && !word.is_pending() {
                return Ok(Some(Some(Victim { slot, word, then: Slot::EMPTY })));
            }
            popped += 1;
            if popped == POPPED_MAX {
                return Ok(Some(None));
            }
        }
    }

    pub(super) async fn spared<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        // The next one of this list would be the same.
        self.progress.skip(self.lists.area.list_of(slot));
        self.lists.put_back(core, slot).await
    }

    /// One that was not visited, of those the one that is there longest, if not an unqueued one.
    pub(super) async fn choose<E: Endpoint>(
        &self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<usize>, CacheError> {
        let seen = self.lists.look(core, candidates).await?;
        Ok((0..seen.len()).min_by_key(|index| {
            let (is_linked, node) = (seen[*index].is_linked, seen[*index].node);
            (is_linked, node.visited != 0, linked_us(node.mark))
        }))
    }

    pub(super) async fn unqueued<E: Endpoint>(
        &self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<usize>, CacheError> {
        Ok(self.lists.look(core, candidates).await?.iter().position(|seen| !seen.is_linked))
    }

    pub(super) async fn round<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        self.lists.settle(core).await
    }
}
