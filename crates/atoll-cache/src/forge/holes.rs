//! The holes of the published prototypes, by name, so that a simulation can open each one and show
//! what goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the questions cost nothing.

/// A hole of the notes that `forge` closes. The doc says what closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hole {
    /// A lookup checks nothing of what it read (closed by checksum, key and generation of the
    /// record).
    Validation,
    /// A lookup takes a record of another generation for its own (closed by the tag in the slot).
    Generation,
    /// An insertion does not look again for its key (closed by pending slots).
    DuplicateKey,
    /// A change trusts a slot's word although the chunk behind it may have been reused (closed by
    /// protections).
    Protection,
    /// A change that loses its compare-and-swap reports success (closed by beginning anew).
    LostUpdate,
    /// A chunk is reused before its hot objects were copied and its slots unlinked (closed by
    /// unlinking first).
    EarlyReuse,
    /// A dequeuer stops at a node that was never filled and leaves it so (closed by taking the
    /// ticket back).
    UnfilledNode,
    /// A writer without room drops its object silently (closed by evicting).
    DroppedSet,
    /// One client alone evicts (closed by letting any).
    IdleEvictor,
    /// A stale node is taken for its chunk's new group (closed by the generation in the node).
    StaleNode,
    /// A change that was overtaken takes a copy of what it was to replace for another's change
    /// (closed by comparing tokens).
    OvertakenByCopy,
    /// A change that was overtaken takes what depended on the value before for what did not (closed
    /// by a mark in the record).
    OvertakenBySight,
    /// Whoever finds an object expired leaves it where it is (closed by taking it away first).
    UntakenExpiry,
    /// A lookup believes the address that it remembers (closed by a READ of the slot in the same
    /// batch).
    UncheckedAddress,
    /// Addresses and lengths from the pool are used unchecked (closed by checking them against the
    /// heap).
    TrustedBytes,
    /// What a dead client had in its hands stays lost (closed by owners in descriptors, and
    /// repair).
    LeakedChunks,
    /// Extents that a dead client wrote, or was about to free, stay lost (closed by the sweep of a
    /// repair).
    LeakedExtents,
    /// A group that a dead client was putting into a queue is in none (closed by the owner in its
    /// descriptor, and repair).
    OrphanedGroup,
    /// A ticket that a dead dequeuer had is filled behind the head (closed by taking it back in a
    /// repair).
    KeptTicket,
    /// A dequeuer that comes late owns a group by a node that the group has no more (closed by a
    /// READ of the node behind that of the descriptor).
    LateDequeuer,
    /// A slot that a dead client has not decided is never taken again (closed by clearing it in a
    /// repair).
    PendingForever,
    /// What a client held is reclaimed although it may still write (closed by the fence).
    UnfencedRepair,
    /// Verbs of one batch to several memory nodes are taken to be in order (closed by awaiting what
    /// comes first).
    UnorderedNodes,
    /// A chunk of a memory node that was added meanwhile is taken for a damaged word (closed by
    /// looking for new nodes first).
    UnknownNode,
    /// Memory goes back to the host while operations are under way that may READ it (closed by
    /// waiting for their end).
    HastyDiscard,
}

/// What a history says that is none of a cache.
#[cfg(feature = "holes")]
const NO_ORDER: &str = "no order of the operations explains";

#[cfg(feature = "holes")]
impl Hole {
    /// Words of the failures that prove the hole. What fails otherwise proves nothing of it.
    pub fn harms(self) -> &'static [&'static str] {
        match self {
            Self::Validation | Self::Generation | Self::Protection | Self::LostUpdate | Self::UncheckedAddress => {
                &[NO_ORDER]
            }
            Self::OvertakenByCopy | Self::OvertakenBySight | Self::UntakenExpiry | Self::DroppedSet => &[NO_ORDER],
            Self::DuplicateKey => &["hold the same key", NO_ORDER],
            Self::EarlyReuse => {
                &[NO_ORDER, "is an extent of no object", "holds no group of its time", "points to no record of its own"]
            }
            Self::UnfilledNode | Self::KeptTicket => &["queue outside its cursors"],
            Self::IdleEvictor => &["the pool is full and nothing in it can be evicted"],
            Self::StaleNode => &["is queued and has 2 nodes", NO_ORDER],
            Self::TrustedBytes => &["are outside every region"],
            Self::LeakedChunks => &["its owner is not a client"],
            Self::LeakedExtents => &["is an extent of no object"],
            Self::OrphanedGroup => &["is queued and has 0 nodes"],
            Self::LateDequeuer => &["is queued and has 2 nodes"],
            Self::PendingForever => &["is pending"],
            Self::UnfencedRepair => &[
                "somebody else changed the state of",
                NO_ORDER,
                "its owner is not a client",
                "hold no group of its time",
            ],
            Self::UnorderedNodes => &["points to no record of its own", "dropped", NO_ORDER],
            Self::UnknownNode => &["dropped"],
            Self::HastyDiscard => &["touched memory that was given back to the host"],
        }
    }

    /// Whether a failure is the harm that this hole does.
    pub fn is_shown_by(self, failure: &str) -> bool {
        self.harms().iter().any(|harm| failure.contains(harm))
    }
}

impl crate::open_holes::Numbered for Hole {
    fn number(self) -> u32 {
        self as u32
    }
}

/// Those of them that are open.
pub type OpenHoles = crate::open_holes::OpenHoles<Hole>;
