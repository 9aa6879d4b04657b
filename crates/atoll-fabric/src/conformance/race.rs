//! Races of two clients: in every round each makes its mark, looks for the other's, and notes what
//! it saw.
//!
//! ```text
//! word 0            how often a client has begun a round                     atomics only
//! a round's words   the two marks, and what each client saw + 1; a line each
//! ```

use super::{fetch_and_add, read, wait_for, word, write};
use crate::{Address, Endpoint};
use std::ops::Range;

/// Rounds have words of their own, as far as the region has them.
const ROUNDS_MAX: u64 = 1000;

/// The rounds that are played of this many.
pub(super) fn rounds(rounds: u64) -> Range<u64> {
    0..rounds.min(ROUNDS_MAX)
}

/// A client's mark of a round.
pub(super) fn mark(round: u64, client: usize) -> Address {
    word(64 + 32 * round + 8 * client as u64)
}

/// What a client saw in a round.
fn saw(round: u64, client: usize) -> Address {
    mark(round, client + 2)
}

/// Waits until both clients begin the round: on threads they would never race otherwise.
pub(super) async fn begin<E: Endpoint>(endpoint: &E, round: u64) {
    fetch_and_add(endpoint, word(0), 1).await;
    wait_for(endpoint, word(0), 2 * (round + 1)).await;
}

/// Notes what the other client's mark was.
pub(super) async fn note<E: Endpoint>(endpoint: &E, round: u64, client: usize, found: u64) {
    write(endpoint, saw(round, client), 1 + found).await;
}

/// Checks what both clients saw + 1 in every round against the `allowed` pairs.
pub(super) async fn check<E: Endpoint>(endpoint: E, played: u64, allowed: &[(u64, u64)], fault: &str) {
    for round in rounds(played) {
        let saw = (read(&endpoint, saw(round, 0)).await, read(&endpoint, saw(round, 1)).await);
        assert!(allowed.contains(&saw), "round {round}: {fault}: {saw:?}");
    }
}
