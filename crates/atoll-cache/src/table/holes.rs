//! The holes of Ditto's published prototype, by name. A simulation can open each one and show what
//! goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the checks cost nothing.

crate::holes! {
    /// A hole of the notes that the table of objects closes. Its doc says how it is closed.
    pub enum Hole {
        /// A lookup does not check what it read (closed by checksum, key and tag of the record).
        Validation => [NO_ORDER],
        /// A lookup accepts a record of another tag (closed by the tag in the slot).
        Tag => [NO_ORDER],
        /// An insertion does not look again for its key (closed by pending slots).
        DuplicateKey => ["hold the same key", NO_ORDER],
        /// A change that loses its compare-and-swap reports success (closed by beginning again).
        LostUpdate => [NO_ORDER],
        /// A change that was overtaken mistakes a copy of the object that it was to replace for
        /// another client's change (closed by comparing tokens).
        OvertakenByCopy => [NO_ORDER],
        /// A change that was overtaken mistakes a change that depended on the old value for a blind
        /// one (closed by a mark in the record).
        OvertakenBySight => [NO_ORDER],
        /// A reader that finds an object expired leaves it where it is (closed by removing it
        /// first).
        UntakenExpiry => [NO_ORDER],
        /// Addresses and lengths from the pool are used unchecked (closed by checking them against
        /// the heap).
        TrustedBytes => ["are outside every region"],
        /// A client takes a block without naming it in a cell, so that it is lost if the client
        /// dies (closed by cells).
        UntoldTaking => ["nobody has block"],
        /// A client rewrites the cells that it found when it joined, although a repairer may have
        /// settled them (closed by leaving them alone).
        RewrittenCells => ["name the same block", "names a block", "a cell that was settled says that it is not", NO_ORDER],
        /// The cell of a living client is believed although it may be out of date (closed by
        /// waiting until that client publishes its cells).
        UntimelyCell => ["nobody has block"],
        /// A repairer dies while it releases a dead client's block, and leaves no sign whose it was
        /// (closed by writing it into the cell first).
        UntoldSettling => ["nobody has block"],
        /// The blocks that a dead client held stay lost (closed by repair).
        LeakedBlocks => ["nobody has block"],
        /// A chunk that a dead client filled or emptied stays lost (closed by owners in
        /// descriptors, and repair).
        LeakedChunks => ["its owner is not a client"],
        /// Extents that a dead client wrote, or was about to free, stay lost (closed by the sweep
        /// of a repair).
        LeakedExtents => ["is an extent of no object"],
        /// A chunk is reused although a client may hold a block of it (closed by reading all
        /// cells).
        EarlyReuse => ["name the same block", "names a block of chunk", "points to no record of its own", "dropped", NO_ORDER],
        /// The block of a pending slot counts as free although its inserter has it (closed by
        /// looking again for blocks that no other slot named).
        PendingName => ["name the same block", "names a block of chunk", "points to no record of its own", "dropped", NO_ORDER],
        /// A block's tags start over although a client may remember an earlier tag (closed by a
        /// rest).
        WrappedTag => [NO_ORDER],
        /// What a client held is reclaimed although it may still write (closed by the fence).
        UnfencedRepair => ["changed the state of", "changed a cell that", "name the same block", "names a", "nobody has block", "dropped", NO_ORDER],
        /// Verbs of one batch to several memory nodes are assumed to be in order (closed by
        /// awaiting the first verb).
        UnorderedNodes => ["points to no record of its own", "dropped", "nobody has block", NO_ORDER, "names a dead block", "name the same block"],
        /// A chunk is reused although a shelf names blocks of it (closed by taking it from its
        /// shelf first).
        KeptShelf => ["names chunk", "name the same block", "names a block", "dropped"],
        /// Two looks at a block that is being written count as equal (closed by comparing the
        /// bytes, and looking at the cells in between).
        TornLook => ["name the same block", "names a block of chunk", "points to no record of its own", "dropped", NO_ORDER],
        /// A chunk is reused although the words beside a former object may still be written (closed
        /// by a rest).
        StrayExtension => ["points to no record of its own", "dropped", NO_ORDER],
        /// A client announces that it is at rest while an operation is under way (closed by
        /// announcing the beginning, and waiting for that to land).
        UntoldOperation => ["points to no record of its own", "dropped", NO_ORDER],
        /// A chunk of a memory node that was added meanwhile is mistaken for a damaged word (closed
        /// by looking for new nodes first).
        UnknownNode => ["dropped"],
    }
}

/// The holes that are open.
pub type OpenHoles = crate::open_holes::OpenHoles<Hole>;
