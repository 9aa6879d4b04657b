//! Fenced verbs: a verb with the fence flag waits for all earlier ones of its batch, for all
//! clients.
//!
//! | case | client 0 | client 1 |
//! |---|---|---|
//! | message passing | changes the data, then the count | looks at the count, then at the data: no older than the count |
//! | load buffering | looks at the other's mark, then makes its own | the same: not both see the other's |
//!
//! Only the verb that the case names has a fence, and only where nothing else orders it.

use super::race::{self, mark};
use super::{Case, Play};
use crate::{Address, Batch, Buffer, Endpoint};

/// The verbs of client 0, of which the second has to be behind the first.
#[derive(Clone, Copy)]
enum Change {
    /// WRITE, WRITE: in order without a fence.
    Writes,
    /// Addition, fenced WRITE.
    AddWrite,
    /// Addition, fenced addition.
    Adds,
}

/// The verbs of client 1.
#[derive(Clone, Copy)]
enum Look {
    /// READ, fenced READ of this many words of data.
    Reads(usize),
    /// READ, fenced addition of nothing.
    ReadAdd,
    /// Addition of nothing, READ: in order without a fence.
    AddRead,
}

/// How a client makes its mark in load buffering.
#[derive(Clone, Copy)]
enum Mark {
    Write,
    Swap,
}

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    let passing = |name, play| Case::new(name, 2, play);
    let buffering = |name, play| {
        Case::new(name, 2, play)
            .verified(|e, r| Box::pin(race::check(e, r, &[(1, 1), (1, 2), (2, 1)], "each saw the other's later mark")))
    };
    vec![
        passing("a_fenced_read_is_behind_the_read_before_it", |e, c, r| {
            pass(e, c, r, Change::Writes, Look::Reads(DATA_WORDS))
        }),
        passing("a_fenced_atomic_is_behind_the_read_before_it", |e, c, r| pass(e, c, r, Change::Adds, Look::ReadAdd)),
        passing("a_fenced_write_is_behind_the_atomic_before_it", |e, c, r| {
            pass(e, c, r, Change::AddWrite, Look::Reads(1))
        }),
        passing("a_fenced_atomic_is_behind_the_atomic_before_it", |e, c, r| pass(e, c, r, Change::Adds, Look::AddRead)),
        buffering("a_fenced_write_is_behind_the_read_before_it", |e, c, r| buffer(e, c, r, Mark::Write)),
        buffering("a_fenced_swap_is_behind_the_read_before_it", |e, c, r| buffer(e, c, r, Mark::Swap)),
    ]
}

const COUNT: Address = Address::new(0, 0, 0);
const DATA: Address = Address::new(0, 0, 512);
const DATA_WORDS: usize = 12;

fn pass<E: Endpoint + 'static>(endpoint: E, client: usize, rounds: u64, change: Change, look: Look) -> Play {
    Box::pin(async move {
        if client == 0 {
            count_up(&endpoint, rounds, change).await;
        } else {
            follow(&endpoint, rounds, look).await;
        }
    })
}

/// Makes data and count as high as each round, in this order.
async fn count_up<E: Endpoint>(endpoint: &E, rounds: u64, change: Change) {
    let mut buffer = Buffer::new();
    for round in 1..=rounds {
        let mut batch = Batch::new();
        let data = match change {
            Change::Writes => {
                buffer.resize(8 * DATA_WORDS);
                buffer.words_mut().fill(round);
                Some(batch.write(DATA, std::mem::take(&mut buffer)))
            }
            Change::AddWrite | Change::Adds => {
                batch.fetch_and_add(DATA, 1);
                None
            }
        };
        match change {
            Change::Writes => batch.write_word(COUNT, round),
            Change::AddWrite => batch.write_word(COUNT, round),
            Change::Adds => batch.fetch_and_add(COUNT, 1),
        };
        if !matches!(change, Change::Writes) {
            batch.fence();
        }
        endpoint.post(&mut batch).await.expect("it is inside");
        if let Some(data) = data {
            buffer = batch.take(data);
        }
    }
}

/// Looks at the count and then at the data until the count is complete.
async fn follow<E: Endpoint>(endpoint: &E, rounds: u64, look: Look) {
    let mut buffer = Buffer::new();
    let mut last = 0;
    while last < rounds {
        let mut batch = Batch::new();
        let count = match look {
            Look::Reads(_) | Look::ReadAdd => batch.read_word(COUNT),
            Look::AddRead => batch.fetch_and_add(COUNT, 0),
        };
        let oldest = match look {
            Look::Reads(words) => {
                buffer.resize(8 * words);
                let data = batch.read(DATA, std::mem::take(&mut buffer));
                batch.fence();
                endpoint.post(&mut batch).await.expect("it is inside");
                buffer = batch.take(data);
                buffer.words().iter().copied().min().unwrap_or(0)
            }
            Look::ReadAdd => {
                let data = batch.fetch_and_add(DATA, 0);
                batch.fence();
                endpoint.post(&mut batch).await.expect("it is inside");
                batch.word(data)
            }
            Look::AddRead => {
                let data = batch.read_word(DATA);
                endpoint.post(&mut batch).await.expect("it is inside");
                batch.word(data)
            }
        };
        let count = batch.word(count);
        assert!(oldest >= count, "the count says {count}, and behind it the data is of {oldest}");
        assert!(count >= last, "the count goes back from {last} to {count}");
        if count == last {
            endpoint.pause(20).await;
        }
        last = count;
    }
}

fn buffer<E: Endpoint + 'static>(endpoint: E, client: usize, rounds: u64, how: Mark) -> Play {
    Box::pin(async move {
        for round in race::rounds(rounds) {
            race::begin(&endpoint, round).await;
            let mut batch = Batch::new();
            let other = batch.read_word(mark(round, 1 - client));
            match how {
                Mark::Write => batch.write_word(mark(round, client), 1),
                Mark::Swap => batch.compare_and_swap(mark(round, client), 0, 1),
            };
            batch.fence();
            endpoint.post(&mut batch).await.expect("it is inside");
            race::note(&endpoint, round, client, batch.word(other)).await;
        }
    })
}
