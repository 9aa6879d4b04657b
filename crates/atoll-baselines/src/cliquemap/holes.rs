//! What could be wrong with the engine, by name, so that a simulation can open each one and show
//! what goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the questions cost nothing.

atoll_cache::holes! {
    /// A hole that the engine closes. The doc says what closes it.
    pub enum Hole {
        /// A lookup believes whatever lies where the entry says, if its key looks right (closed by
        /// checksum and version of the record).
        Validation => [NO_ORDER],
        /// A change that comes twice is done twice (closed by its number, which the server
        /// remembers).
        Repeats => [NO_ORDER],
        /// A change is done whatever is there (closed by the version that it names).
        LostUpdate => [NO_ORDER],
        /// A client that finds an object expired leaves it where it is (closed by having it removed
        /// first).
        UntakenExpiry => [NO_ORDER],
    }
}

/// Those of them that are open.
pub(super) type OpenHoles = atoll_cache::open_holes::OpenHoles<Hole>;
