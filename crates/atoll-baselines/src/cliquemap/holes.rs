//! Checks that the engine could miss, by name. A simulation can open each hole and show what goes
//! wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the checks cost nothing.

atoll_cache::holes! {
    /// A hole that the engine closes. Its doc says how it is closed.
    pub enum Hole {
        /// A lookup accepts any bytes where the entry points, if the key is right (closed by
        /// checksum and version of the record).
        Validation => [NO_ORDER],
        /// A change that arrives twice is done twice (closed by its number, which the server
        /// remembers).
        Repeats => [NO_ORDER],
        /// A change is done on any version (closed by the version that it names).
        LostUpdate => [NO_ORDER],
        /// A client that finds an object expired leaves it where it is (closed by having the server
        /// remove it first).
        UntakenExpiry => [NO_ORDER],
    }
}

/// The holes that are open.
pub(super) type OpenHoles = atoll_cache::open_holes::OpenHoles<Hole>;
