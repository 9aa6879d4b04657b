//! What could be wrong with the engine, by name, so that a simulation can open each one and show what goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the questions cost nothing.

/// A hole that the engine closes. The doc says what closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hole {
    /// A lookup believes whatever lies where the entry says, if its key looks right (closed by checksum and version of the record).
    Validation,
    /// A change that comes twice is done twice (closed by its number, which the server remembers).
    Repeats,
    /// A change is done whatever is there (closed by the version that it names).
    LostUpdate,
    /// Whoever finds an object expired leaves it where it is (closed by having it removed first).
    UntakenExpiry,
}

/// The holes that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenHoles(#[cfg_attr(not(feature = "holes"), allow(dead_code))] u32);

impl OpenHoles {
    /// This one.
    #[cfg(feature = "holes")]
    pub(super) const fn only(hole: Hole) -> Self {
        Self(1 << hole as u32)
    }

    /// Whether `hole` is open.
    #[inline(always)]
    pub(super) const fn has(self, hole: Hole) -> bool {
        #[cfg(feature = "holes")]
        return self.0 & 1 << hole as u32 != 0;
        #[cfg(not(feature = "holes"))]
        {
            let _ = hole;
            false
        }
    }
}
