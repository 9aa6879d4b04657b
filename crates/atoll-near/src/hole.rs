//! Guards of the protocol that a test switches off, to show that each is needed.
//!
//! Without the feature `holes` (tests only) no hole can be opened, and the questions cost nothing.

/// A guard that a test switches off. Numbers are those of the hazards in DiFache's prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hole {
    /// 1: what a copy depends on is looked at before the object is READ.
    SampleFirst,
    /// 2: a write ends the validity of the copies of its own node.
    OwnChanges,
    /// 5: a record names its object.
    RecordNamesObject,
    /// 6: a reader looks at the segment's generation after it has copied the record.
    SegmentGeneration,
    /// 7: every node is told before a transition ends.
    ToldInTransition,
    /// 7: a write that found the mode off looks again after it has landed.
    SecondLookOfWrites,
    /// 8: a transition that its client does not end is ended by another.
    HelpedTransition,
    /// 9: a burial ends the validity of all copies.
    LossesAtBurial,
    /// 11: a write looks for newcomers after it has told the members.
    Newcomers,
    /// 11: a newcomer READs the modes of all stripes before its first operation.
    ModesOfNewcomers,
    /// 11: a newcomer is a member before it READs the modes.
    MemberBeforeModes,
    /// 12: a node is an owner before it READs what it copies.
    OwnerBits,
    /// 12: a writer that has told the owners looks whether all are to be told.
    SecondLookForOwners,
    /// 15: an atomic switches caching off.
    PinnedAtomics,
    /// Memory nodes that end: no copy outlives the region.
    CopiesOfLostNode,
    /// Memory nodes that end: a compute node forgets the modes before it uses the new region.
    ModesOfLostNode,
    /// Memory nodes that end: every node may be an owner of a stripe of the new region.
    OwnersOfLostNode,
    /// Memory nodes that end: a client uses no region that is not known to be in use.
    UnmarkedRegions,
    /// Linearizable reads: a writer's bit forbids copies.
    WriterBits,
    /// Linearizable reads: a switch waits for WRITEs that invalidate nothing.
    Bypasses,
    /// The same: WRITEs of clients whose near region has ended, too.
    BypassesOfOrphans,
    /// A hit looks at what the copy depends on, after it has copied.
    LookOfHits,
    /// Central manager: it handles one request of an object at a time.
    OneRequestAtATime,
    /// Central manager: it does a change once, however often the request comes.
    ChangesOnce,
}

/// The hole that is open.
#[derive(Debug, Default)]
pub(crate) struct Open {
    #[cfg(feature = "holes")]
    hole: Option<Hole>,
}

impl Open {
    /// Whether the guard is switched off.
    #[inline]
    pub(crate) fn lacks(&self, hole: Hole) -> bool {
        #[cfg(feature = "holes")]
        return self.hole == Some(hole);
        #[cfg(not(feature = "holes"))]
        {
            let _ = hole;
            false
        }
    }

    /// Switches a guard off.
    #[cfg(feature = "holes")]
    pub(crate) fn open(&mut self, hole: Option<Hole>) {
        self.hole = hole;
    }
}
