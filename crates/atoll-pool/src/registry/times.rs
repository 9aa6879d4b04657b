//! How long a client may stand still, and how often other clients check it.

/// How long something may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The shortest time between two checks of the other clients.
    pub look_ns: u64,
    /// A client whose lease stands still this long, by the observer's clock, is suspected.
    pub suspect_ns: u64,
    /// Other clients repair a place, too, if it stays Fenced this long.
    pub help_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { look_ns: 100_000_000, suspect_ns: 200_000_000, help_ns: 1_000_000_000 }
    }
}
