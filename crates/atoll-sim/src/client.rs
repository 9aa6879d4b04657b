//! The names and states of a simulation's clients.

/// A client of a simulation: a task, and what it has in flight. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(crate) u32);

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// It runs, or waits for something.
    Running,
    /// It stands still.
    Paused,
    /// Its task has ended.
    Ended,
    /// It was killed.
    Killed,
}
