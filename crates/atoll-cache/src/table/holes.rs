//! The holes of Ditto's published prototype, by name, so that a simulation can open each one and
//! show what goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the questions cost nothing.

crate::holes! {
    /// A hole of the notes that the table of objects closes. The doc says what closes it.
    pub enum Hole {
        /// A lookup checks nothing of what it read (closed by checksum, key and tag of the record).
        Validation => [NO_ORDER],
        /// A lookup takes a record of another tag for its own (closed by the tag in the slot).
        Tag => [NO_ORDER],
        /// An insertion does not look again for its key (closed by pending slots).
        DuplicateKey => ["hold the same key", NO_ORDER],
        /// A change that loses its compare-and-swap reports success (closed by beginning anew).
        LostUpdate => [NO_ORDER],
        /// A change that was overtaken takes a copy of what it was to replace for another's change
        /// (closed by comparing tokens).
        OvertakenByCopy => [NO_ORDER],
        /// A change that was overtaken takes what depended on the value before for what did not
        /// (closed by a mark in the record).
        OvertakenBySight => [NO_ORDER],
        /// Whoever finds an object expired leaves it where it is (closed by taking it away first).
        UntakenExpiry => [NO_ORDER],
        /// Addresses and lengths from the pool are used unchecked (closed by checking them against
        /// the heap).
        TrustedBytes => ["are outside every region"],
        /// A client takes a block without telling of it, so that it is lost if that one dies
        /// (closed by cells).
        UntoldTaking => ["nobody has block"],
        /// A client writes the cells anew that it found when it came, although somebody may have
        /// settled them (closed by leaving them alone).
        RewrittenCells => ["name the same block", "names a block", "a cell that was settled says that it is not", NO_ORDER],
        /// The cell of a client that lives is believed that may be out of date (closed by asking
        /// again once that one has told anew what it has).
        UntimelyCell => ["nobody has block"],
        /// Whoever puts a dead client's block back and dies at it leaves the next one nothing by
        /// which to tell that it was that client's (closed by writing it into the cell first).
        UntoldSettling => ["nobody has block"],
        /// What a dead client had in its hands stays lost (closed by repair).
        LeakedBlocks => ["nobody has block"],
        /// A chunk that a dead client filled or emptied stays lost (closed by owners in
        /// descriptors, and repair).
        LeakedChunks => ["its owner is not a client"],
        /// Extents that a dead client wrote, or was about to free, stay lost (closed by the sweep
        /// of a repair).
        LeakedExtents => ["is an extent of no object"],
        /// A chunk is used anew although a block of it may be in somebody's hands (closed by
        /// reading all cells).
        EarlyReuse => ["name the same block", "names a block of chunk", "points to no record of its own", "dropped", NO_ORDER],
        /// The block of a pending slot that is made empty is taken for nobody's although its
        /// inserter has it (closed by looking again for blocks that no other slot named).
        PendingName => ["name the same block", "names a block of chunk", "points to no record of its own", "dropped", NO_ORDER],
        /// A block's tags begin anew although somebody may remember one of before (closed by a
        /// rest).
        WrappedTag => [NO_ORDER],
        /// What a client held is reclaimed although it may still write (closed by the fence).
        UnfencedRepair => ["changed the state of", "changed a cell that", "name the same block", "names a", "nobody has block", "dropped", NO_ORDER],
        /// Verbs of one batch to several memory nodes are taken to be in order (closed by awaiting
        /// what comes first).
        UnorderedNodes => ["points to no record of its own", "dropped", "nobody has block", NO_ORDER, "names a dead block", "name the same block"],
        /// A chunk is used anew although a shelf names blocks of it (closed by taking it from its
        /// shelf first).
        KeptShelf => ["names chunk", "name the same block", "names a block", "dropped"],
        /// Two looks at a block that is being written are taken for the same (closed by comparing
        /// what was seen, and looking between looks at the cells).
        TornLook => ["name the same block", "names a block of chunk", "points to no record of its own", "dropped", NO_ORDER],
        /// A chunk is used anew although the words beside an object of before may still be written
        /// (closed by a rest).
        StrayExtension => ["points to no record of its own", "dropped", NO_ORDER],
        /// A client says that it is at rest while an operation is under way (closed by saying that
        /// it begins, and waiting for that to land).
        UntoldOperation => ["points to no record of its own", "dropped", NO_ORDER],
        /// A chunk of a memory node that was added meanwhile is taken for a damaged word (closed by
        /// looking for new nodes first).
        UnknownNode => ["dropped"],
    }
}

/// Those of them that are open.
pub type OpenHoles = crate::open_holes::OpenHoles<Hole>;
