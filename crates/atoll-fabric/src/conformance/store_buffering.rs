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

use super::race::{self, mark};
use super::{Case, Play};
use crate::{Batch, Endpoint};

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
    let case = |name, play| {
        Case::new(name, 2, play)
            .verified(|e, r| Box::pin(race::check(e, r, &[(1, 2), (2, 1), (2, 2)], "neither saw the other's mark")))
    };
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

fn play<E: Endpoint + 'static>(endpoint: E, client: usize, rounds: u64, how: Mark, look: Look) -> Play {
    Box::pin(async move {
        for round in race::rounds(rounds) {
            race::begin(&endpoint, round).await;
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
            race::note(&endpoint, round, client, batch.word(looked)).await;
        }
    })
}
