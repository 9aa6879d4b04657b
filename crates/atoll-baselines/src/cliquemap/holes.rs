//! What could be wrong with the engine, by name, so that a simulation can open each one and show
//! what goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the questions cost nothing.

/// A hole that the engine closes. The doc says what closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hole {
    /// A lookup believes whatever lies where the entry says, if its key looks right (closed by
    /// checksum and version of the record).
    Validation,
    /// A change that comes twice is done twice (closed by its number, which the server remembers).
    Repeats,
    /// A change is done whatever is there (closed by the version that it names).
    LostUpdate,
    /// Whoever finds an object expired leaves it where it is (closed by having it removed first).
    UntakenExpiry,
}

/// What a history says that is none of a cache.
#[cfg(feature = "holes")]
const NO_ORDER: &str = "no order of the operations explains";

#[cfg(feature = "holes")]
impl Hole {
    /// Words of the failures that prove the hole. What fails otherwise proves nothing of it.
    pub fn harms(self) -> &'static [&'static str] {
        match self {
            Self::Validation | Self::Repeats | Self::LostUpdate | Self::UntakenExpiry => &[NO_ORDER],
        }
    }

    /// Whether a failure is the harm that this hole does.
    pub fn is_shown_by(self, failure: &str) -> bool {
        self.harms().iter().any(|harm| failure.contains(harm))
    }
}

impl atoll_cache::open_holes::Numbered for Hole {
    fn number(self) -> u32 {
        self as u32
    }
}

/// Those of them that are open.
pub(super) type OpenHoles = atoll_cache::open_holes::OpenHoles<Hole>;
