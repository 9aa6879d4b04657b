//! What an endpoint has sent to other hosts: by it a user sees what an operation costs.

/// Counts of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Batches and calls whose answers were awaited. A batch for several memory nodes counts once:
    /// it waits for all of them at the same time.
    pub round_trips: u64,
    /// Verbs of all batches, also of batches that are posted without waiting.
    pub verbs: u64,
}
