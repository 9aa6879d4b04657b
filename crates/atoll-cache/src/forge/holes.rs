//! The holes of the published prototypes, by name. A simulation can open each one and show what
//! goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the checks cost nothing.

crate::holes! {
    /// A hole of the notes that `forge` closes. Its doc says how it is closed.
    pub enum Hole {
        /// A lookup does not check what it read (closed by checksum, key and generation of the
        /// record).
        Validation => [NO_ORDER],
        /// A lookup accepts a record of another generation (closed by the tag in the slot).
        Generation => [NO_ORDER],
        /// An insertion does not look again for its key (closed by pending slots).
        DuplicateKey => ["hold the same key", NO_ORDER],
        /// A change trusts a slot's word although the chunk behind it may have been reused (closed
        /// by protections).
        Protection => [NO_ORDER, "dropped"],
        /// A client that wants to reuse a chunk looks for first protections alone (closed by
        /// notices of further protections).
        FirstsAlone => [NO_ORDER, "dropped"],
        /// A change that loses its compare-and-swap reports success (closed by beginning again).
        LostUpdate => [NO_ORDER],
        /// A chunk is reused before its hot objects were copied and its slots unlinked (closed by
        /// unlinking first).
        EarlyReuse => [NO_ORDER, "is an extent of no object", "holds no group of its time", "points to no record of its own"],
        /// A dequeuer stops at a node that was never filled, and leaves it (closed by taking the
        /// ticket back).
        UnfilledNode => ["queue outside its cursors"],
        /// A writer without room drops its object silently (closed by evicting).
        DroppedSet => [NO_ORDER],
        /// Only one client evicts (closed by letting any).
        IdleEvictor => ["the pool is full and nothing in it can be evicted"],
        /// A stale node counts for its chunk's new group (closed by the generation in the node).
        StaleNode => ["is queued and has 2 nodes", NO_ORDER],
        /// A change that was overtaken mistakes a copy of the object that it was to replace for
        /// another client's change (closed by comparing tokens).
        OvertakenByCopy => [NO_ORDER],
        /// A change that was overtaken mistakes a change that depended on the old value for a blind
        /// one (closed by a mark in the record).
        OvertakenBySight => [NO_ORDER],
        /// A reader that finds an object expired leaves it where it is (closed by removing it
        /// first).
        UntakenExpiry => [NO_ORDER],
        /// A lookup trusts the address that it remembers (closed by a READ of the slot in the same
        /// batch).
        UncheckedAddress => [NO_ORDER],
        /// A SET swaps from a word that it remembers, however old, and does not look whose object
        /// it has replaced (closed by counts of reuses, and by a READ of the old record).
        UncheckedSwap => ["hold the same key", NO_ORDER],
        /// Addresses and lengths from the pool are used unchecked (closed by checking them against
        /// the heap).
        TrustedBytes => ["are outside every region"],
        /// The chunks that a dead client held stay lost (closed by owners in descriptors, and
        /// repair).
        LeakedChunks => ["its owner is not a client"],
        /// Extents that a dead client wrote, or was about to free, stay lost (closed by the sweep
        /// of a repair).
        LeakedExtents => ["is an extent of no object"],
        /// A group that a dead client was putting into a queue is in none (closed by the owner in
        /// its descriptor, and repair).
        OrphanedGroup => ["is queued and has 0 nodes"],
        /// A ticket that a dead dequeuer held is filled behind the head (closed by taking it back
        /// in a repair).
        KeptTicket => ["queue outside its cursors"],
        /// A late dequeuer owns a group by a node that the group no longer has (closed by READING
        /// the node behind the descriptor).
        LateDequeuer => ["is queued and has 2 nodes"],
        /// A slot that a dead client has not decided stays blocked (closed by clearing it in a
        /// repair).
        PendingForever => ["is pending"],
        /// What a client held is reclaimed although it may still write (closed by the fence).
        UnfencedRepair => ["changed the state of", NO_ORDER, "its owner is not a client", "hold no group of its time"],
        /// Verbs of one batch to several memory nodes are assumed to be in order (closed by
        /// awaiting the first verb).
        UnorderedNodes => ["points to no record of its own", "dropped", NO_ORDER],
        /// A chunk of a memory node that was added meanwhile is mistaken for a damaged word (closed
        /// by looking for new nodes first).
        UnknownNode => ["dropped"],
        /// The slots of a bucket are thawed before its split counts (closed by the order of the
        /// steps).
        EarlyThaw => [NO_ORDER, "dropped", "hold the same key", "holds a key that does not belong there"],
        /// Memory returns to the host while operations under way may READ it (closed by waiting for
        /// their end).
        HastyDiscard => ["touched memory that was given back to the host"],
        /// An evictor evicts although enough chunks are free (closed by a READ of their count).
        NeedlessEviction => [NO_ORDER],
        /// An evictor frees a chunk that an operation still protects (closed by letting the chunk
        /// wait).
        ProtectedRoom => [NO_ORDER, "dropped"],
        /// A client writes a record in the place of one that it has replaced, and does not protect
        /// the chunk any more (closed by keeping the protection).
        HastyVacancy => [NO_ORDER, "points to no record of its own", "holds no group of its time", "dropped"],
        /// A record in a place that was used anew has the tag of the record before it (closed by
        /// editions).
        SameEdition => [NO_ORDER],
        /// A client does not look whether a group had an owner while it published a record there
        /// (closed by a READ of the descriptor behind the swap).
        UncheckedVacancy => ["holds no group of its time", "points to no record of its own", NO_ORDER, "dropped"],
        /// An owner reuses a chunk without a look for records that a client published there
        /// meanwhile, which has died since (closed by READING the map once more).
        ForgottenOrphans => ["holds no group of its time", "points to no record of its own"],
        /// An owner that queues a group again writes over the map's entry of a record that a client
        /// has published there meanwhile, which has died since (closed by READING the protections
        /// and the map first).
        OverwrittenEntry => ["holds no group of its time", "points to no record of its own"],
    }
}

/// The holes that are open.
pub type OpenHoles = crate::open_holes::OpenHoles<Hole>;
