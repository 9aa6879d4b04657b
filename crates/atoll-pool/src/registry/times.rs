//! How long a client may stand still, and how often the others look.

/// How long something may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A client looks at the others this often, at most.
    pub look_ns: u64,
    /// A client whose lease stands still so long, by the observer's clock, is asked after.
    pub suspect_ns: u64,
    /// Other clients repair a Fenced place, too, if it stays Fenced for so long.
    pub help_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { look_ns: 100_000_000, suspect_ns: 200_000_000, help_ns: 1_000_000_000 }
    }
}
