//! The common base of the policies on lists. A victim is taken from a list's tail end. An object
//! that is in no list is unqueued.

use super::lock::{Lists, Seen};
use atoll_cache::CacheError;
use atoll_cache::table::Core;
use atoll_cache::table::replacement::{Candidate, Victim};
use atoll_fabric::Endpoint;

/// A policy whose objects are in lists, as one client runs it.
pub(super) trait Listed {
    /// The client's way to the lists.
    fn lists(&mut self) -> &mut Lists;

    /// The rank of a candidate that is in its list: the lowest is evicted.
    fn rank(seen: &Seen) -> (bool, u64);

    /// Takes the next victim out of a list; `None` if the list gives none.
    async fn pop<E: Endpoint>(&mut self, core: &Core<E>, list: u32) -> Result<Option<Victim>, CacheError>;

    /// Takes a victim from the list that is farthest behind, else from another list.
    async fn victim<E: Endpoint>(&mut self, core: &Core<E>) -> Result<Option<Victim>, CacheError> {
        let list = self.lists().progress.last();
        if let Some(victim) = self.pop(core, list).await? {
            return Ok(Some(victim));
        }
        self.lists().progress.skip(list);
        match self.lists().other_list(core, list).await? {
            Some(list) => self.pop(core, list).await,
            None => Ok(None),
        }
    }

    /// Puts a victim that was not evicted back. The list would give the same victim next, so it is
    /// passed over.
    async fn spared<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        let list = self.lists().area.list_of(slot);
        self.lists().progress.skip(list);
        self.lists().put_back(core, slot).await
    }

    /// Unlinks an object that was removed from its list.
    async fn removed<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        self.lists().take_out(core, slot).await
    }

    /// Chooses an unqueued candidate, else the candidate of the lowest rank.
    async fn choose<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<usize>, CacheError> {
        let seen = self.lists().look(core, candidates).await?;
        Ok((0..seen.len()).min_by_key(|index| (seen[*index].is_linked, Self::rank(&seen[*index]))))
    }

    /// Finds an unqueued object among the candidates.
    async fn unqueued<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<usize>, CacheError> {
        Ok(self.lists().look(core, candidates).await?.iter().position(|seen| !seen.is_linked))
    }
}
