//! The coherence protocols, and what each promises.
//!
//! | protocol | reads | writes | switches modes |
//! |---|---|---|---|
//! | `difache` | cached while that pays | invalidate copies of what is cached | by profit |
//! | `difache-noac` | always cached | always invalidate | never |
//! | `nocc` | always cached | invalidate nothing | never |
//! | `cmcache` | always cached; misses ask a central manager | the manager invalidates copies: [`central`](crate::central) | never |
//! | `none` | never cached | | |
//!
//! `nocc` is incoherent. It bounds what a cache can bring, and is there to compare with.
//!
//! **The promise of the default mode**, [`Promise::Regular`]: a read returns what the latest
//! completed write has written, or what a write wrote that is under way. While a write is under
//! way, one compute node may still return the old value after another has returned the new one.
//! Applications that serialise conflicting accesses by locks or versions, as DiFache assumes, see
//! no difference. The litmus test is
//! `a_write_under_way_may_be_seen_by_one_node_and_not_yet_by_another`: in the regular mode it finds
//! that order, with [`Promise::Linearizable`] it finds none.
//!
//! With **[`Promise::Linearizable`]** a write to a cached object removes all copies before it
//! changes the object, and no copy is made until it has. So hits are as linearizable as READs of
//! the memory node. A write to a cached object takes three round trips instead of two. `cmcache`
//! keeps this promise in either mode.

use atoll_pool::fields::Numbers;

/// A coherence protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// DiFache with adaptive caching.
    #[default]
    Difache,
    /// DiFache without adaptive caching: everything is cached.
    DifacheNoAc,
    /// Caches without coherence.
    NoCc,
    /// CMCache: a central manager keeps caches coherent.
    CmCache,
    /// No caches.
    None,
}

impl Protocol {
    /// All protocols, with their numbers in the directory.
    pub(crate) const NUMBERS: Numbers<Self, 5> =
        Numbers([(1, Self::Difache), (2, Self::DifacheNoAc), (3, Self::NoCc), (4, Self::None), (5, Self::CmCache)]);

    /// Whether anything is cached.
    pub(crate) const fn caches(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether writers themselves invalidate copies.
    pub(crate) const fn is_decentralized(self) -> bool {
        matches!(self, Self::Difache | Self::DifacheNoAc)
    }

    /// Whether a manager invalidates copies.
    pub(crate) const fn has_manager(self) -> bool {
        matches!(self, Self::CmCache)
    }

    /// Whether each stripe has a mode.
    pub(crate) const fn is_adaptive(self) -> bool {
        matches!(self, Self::Difache)
    }
}

/// What reads promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Regular: see the module.
    #[default]
    Regular,
    /// Linearizable, as the memory node's words are.
    Linearizable,
}

#[cfg(test)]
impl Promise {
    pub(crate) const ALL: [Self; 2] = [Self::Regular, Self::Linearizable];
}
