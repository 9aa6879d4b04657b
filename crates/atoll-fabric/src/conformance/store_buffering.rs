//! Store buffering: two clients each make a mark of their own and then look at the other's mark.
//!
//! Where the contract has the look behind the mark, at least one of the two sees the other's mark.
//! A processor that delays stores, or a fabric that completes a verb before its effect, lets
//! neither see it.
//!
//! | mark | look | in order because |
//! |---|---|---|
//! | WRITE | READ, next batch | the WRITE has completed |
//! | WRITE | READ, same batch | everything behind a WRITE is in order |
//! | WRITE | swap that fails, same batch | the same |
//! | swap, addition | READ, next batch | the atomic has completed |
//! | swap, addition | READ, same batch | a READ behind an atomic is in order |
//! | swap | fenced swap that fails, same batch | the fence |

use super::{Case, Play, fetch_and_add, read, wait_for, word, write};
use crate::{Address, Batch, Endpoint};

/// How a client makes its mark.
#[derive(Clone, Copy)]
enum Mark {
    Write,
    Swap,
    Add,
}

/// How it looks at the other's.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    Read,
    ReadNextBatch,
    FailingSwap,
    FencedFailingSwap,
}

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    let case = |name, play| Case { name, clients: 2, nodes: 1, play, verify: |e, r| Box::pin(decided(e, r)) };
    vec![
        case("a_completed_write_is_seen_by_whatever_is_posted_later", |e, c, r| {
            play(e, c, r, Mark::Write, Look::ReadNextBatch)
        }),
        case("a_read_behind_a_write_of_its_batch_is_behind_it_for_all", |e, c, r| {
            play(e, c, r, Mark::Write, Look::Read)
        }),
        case("a_failing_swap_behind_a_write_of_its_batch_is_behind_it_for_all", |e, c, r| {
            play(e, c, r, Mark::Write, Look::FailingSwap)
        }),
        case("a_completed_swap_is_seen_by_whatever_is_posted_later", |e, c, r| {
            play(e, c, r, Mark::Swap, Look::ReadNextBatch)
        }),
        case("a_completed_addition_is_seen_by_whatever_is_posted_later", |e, c, r| {
            play(e, c, r, Mark::Add, Look::ReadNextBatch)
        }),
        case("a_read_behind_a_swap_of_its_batch_is_behind_it_for_all", |e, c, r| play(e, c, r, Mark::Swap, Look::Read)),
        case("a_read_behind_an_addition_of_its_batch_is_behind_it_for_all", |e, c, r| {
            play(e, c, r, Mark::Add, Look::Read)
        }),
        case("a_fenced_swap_behind_a_swap_of_its_batch_is_behind_it_for_all", |e, c, r| {
            play(e, c, r, Mark::Swap, Look::FencedFailingSwap)
        }),
    ]
}

/// Rounds have words of their own, as far as the region has them.
const ROUNDS_MAX: u64 = 1000;

/// The words of a round: the two clients' marks, each on a line of its own, and what each saw.
fn mark(round: u64, client: usize) -> Address {
    word(64 + 32 * (round % ROUNDS_MAX) + 8 * client as u64)
}

fn saw(round: u64, client: usize) -> Address {
    mark(round, client + 2)
}

fn play<E: Endpoint + 'static>(endpoint: E, client: usize, rounds: u64, how: Mark, look: Look) -> Play {
    Box::pin(async move {
        for round in 0..rounds.min(ROUNDS_MAX) {
            // Both begin a round together, or they would never race on threads.
            fetch_and_add(&endpoint, word(0), 1).await;
            wait_for(&endpoint, word(0), 2 * (round + 1)).await;
            let mine = mark(round, client);
            let mut batch = Batch::new();
            match how {
                Mark::Write => batch.write_word(mine, 1),
                Mark::Swap => batch.compare_and_swap(mine, 0, 1),
                Mark::Add => batch.fetch_and_add(mine, 1),
            };
            if look == Look::ReadNextBatch {
                endpoint.post(&mut batch).await.expect("it is inside");
                batch.clear();
            }
            let other = mark(round, 1 - client);
            let looked = match look {
                Look::Read | Look::ReadNextBatch => batch.read_word(other),
                Look::FailingSwap | Look::FencedFailingSwap => batch.compare_and_swap(other, 2, 3),
            };
            if look == Look::FencedFailingSwap {
                batch.fence();
            }
            endpoint.post(&mut batch).await.expect("it is inside");
            write(&endpoint, saw(round, client), 1 + batch.word(looked)).await;
        }
    })
}

async fn decided<E: Endpoint>(endpoint: E, rounds: u64) {
    for round in 0..rounds.min(ROUNDS_MAX) {
        let saw = (read(&endpoint, saw(round, 0)).await, read(&endpoint, saw(round, 1)).await);
        assert!([(1, 2), (2, 1), (2, 2)].contains(&saw), "round {round}: neither saw the other's mark: {saw:?}");
    }
}
