//! What another form of Ditto does instead of the shipped engine.
//!
//! Ditto's paper measures Ditto without single techniques (section 5.6). Such a form is a type that
//! implements [`Technique`]. The default of every method is what the shipped engine does. All calls
//! are static, so the shipped engine carries no code and no state of another form. The forms are in
//! the crate `atoll-baselines`.
//!
//! | step | hooks |
//! |---|---|
//! | hit | [`counts_at_home`](Technique::counts_at_home) |
//! | insertion | [`tell_insertion`](Technique::tell_insertion) |
//! | regret | [`consume_entry`](Technique::consume_entry), [`tells_each_regret`](Technique::tells_each_regret) |
//! | eviction | [`sampling`](Technique::sampling), [`begin_choice`](Technique::begin_choice), [`record_entry`](Technique::record_entry) |

use crate::CacheError;
use crate::experts::Experts;
use crate::table::Core;
use crate::table::replacement::Sampling;
use crate::table::slot::Slot;
use atoll_fabric::Endpoint;
use std::future::ready;

/// One form of Ditto, as one client of the pool has it. All clients of a pool have the same form.
pub trait Technique: Default {
    /// How samples are taken.
    #[inline(always)]
    fn sampling(&self) -> Sampling {
        Sampling { with_history: true, one_by_one: None }
    }

    /// Whether a client adds up accesses locally. Otherwise it publishes each at once.
    #[inline(always)]
    fn counts_at_home(&self) -> bool {
        true
    }

    /// Whether a client publishes each regret at once. Otherwise it publishes them in batches.
    #[inline(always)]
    fn tells_each_regret(&self) -> bool {
        false
    }

    /// WRITEs the access information of an object that was inserted. The client does not await it.
    #[inline(always)]
    fn tell_insertion<E: Endpoint>(&self, core: &Core<E>, slot: u64, words: [u64; 4]) {
        core.tell_insertion(slot, words);
    }

    /// Called before a victim is chosen.
    #[inline(always)]
    fn begin_choice<E: Endpoint>(
        &self,
        core: &Core<E>,
        experts: &mut Experts,
    ) -> impl Future<Output = Result<(), CacheError>> {
        let _ = (core, experts);
        ready(Ok(()))
    }

    /// Called with the history entry that will take the victim's place in a slot.
    #[inline(always)]
    fn record_entry<E: Endpoint>(
        &self,
        core: &Core<E>,
        slot: u64,
        entry: Slot,
    ) -> impl Future<Output = Result<(), CacheError>> {
        let _ = (core, slot, entry);
        ready(Ok(()))
    }

    /// Called with the history entry in whose slot its key was inserted again. Returns whether the
    /// entry counts.
    #[inline(always)]
    fn consume_entry<E: Endpoint>(
        &self,
        core: &Core<E>,
        entry: Slot,
    ) -> impl Future<Output = Result<bool, CacheError>> {
        let _ = (core, entry);
        ready(Ok(true))
    }
}

/// The engine as it is shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shipped;

impl Technique for Shipped {}
