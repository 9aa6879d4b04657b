//! Several clients: what the contract says of atomicity, of the order of messages, and of flushes.
//!
//! Every round has words of its own where that matters, so that a client which lags finds what it
//! left. Clients leave what they saw in the region, and the last look compares.

use super::{Case, Play, fetch_and_add, read, wait_for, word, write};
use crate::{Address, Batch, Buffer, Endpoint};

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    vec![
        Case::new("words_never_tear", 3, |e, c, r| Box::pin(words(e, c, r))),
        Case::new("atomics_exclude_each_other", 3, |e, c, r| Box::pin(counters(e, c, r)))
            .verified(|e, r| Box::pin(counted(e, r))),
        Case::new("a_write_is_before_a_write_behind_it", 2, |e, c, r| message(e, c, r, Flag::Write)),
        Case::new("a_write_is_before_a_swap_behind_it", 2, |e, c, r| message(e, c, r, Flag::Swap)),
        Case::new("a_write_is_before_an_addition_behind_it", 2, |e, c, r| message(e, c, r, Flag::Add)),
        Case::new("a_read_is_behind_the_swap_before_it", 3, |e, c, r| Box::pin(latch(e, c, r)))
            .verified(|e, r| Box::pin(latched(e, r))),
        Case::new("what_was_flushed_is_seen_by_whatever_is_posted_later", 2, |e, c, r| Box::pin(flushed(e, c, r))),
    ]
}

/// Words whose halves contradict each other unless one WRITE wrote both.
fn whole(value: u64) -> u64 {
    value << 32 | (!value & 0xffff_ffff)
}

async fn words<E: Endpoint>(endpoint: E, client: usize, rounds: u64) {
    const WORDS: usize = 40;
    let mut buffer = Buffer::new();
    for round in 0..rounds {
        buffer.resize(8 * WORDS);
        buffer.words_mut().fill(whole(2 * round + client as u64));
        let mut batch = Batch::new();
        let ticket = if client == 2 { batch.read(word(0), buffer) } else { batch.write(word(0), buffer) };
        endpoint.post(&mut batch).await.expect("it is inside");
        buffer = batch.take(ticket);
        let torn = buffer.words().iter().find(|found| **found != 0 && **found != whole(**found >> 32));
        assert_eq!(torn, None, "round {round}");
    }
}

const ADDED: Address = Address::new(0, 0, 0);
const SWAPPED: Address = Address::new(0, 0, 64);
const BOTH: Address = Address::new(0, 0, 128);
/// One word a ticket.
const TICKETS: u64 = 1024;

async fn counters<E: Endpoint>(endpoint: E, client: usize, rounds: u64) {
    let increment = async |at: Address, mut expected: u64| loop {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, expected, expected + 1);
        endpoint.post(&mut batch).await.expect("it is inside");
        if batch.swapped(swap) {
            break expected + 1;
        }
        expected = batch.word(swap);
    };
    let mut known = 0;
    for round in 0..rounds {
        let ticket = fetch_and_add(&endpoint, ADDED, 1).await;
        assert_eq!(fetch_and_add(&endpoint, word(TICKETS + ticket), 1).await, 0, "ticket {ticket} was dealt twice");
        known = increment(SWAPPED, known).await;
        // Additions and swaps of one word exclude each other too.
        if (round + client as u64).is_multiple_of(2) {
            fetch_and_add(&endpoint, BOTH, 1).await;
        } else {
            increment(BOTH, 0).await;
        }
    }
}

async fn counted<E: Endpoint>(endpoint: E, rounds: u64) {
    for at in [ADDED, SWAPPED, BOTH] {
        assert_eq!(read(&endpoint, at).await, 3 * rounds);
    }
}

/// How a message is announced.
#[derive(Clone, Copy)]
enum Flag {
    Write,
    Swap,
    Add,
}

/// Message passing: a reader that sees the flag sees the data that was written before it in the
/// same batch.
fn message<E: Endpoint + 'static>(endpoint: E, client: usize, rounds: u64, flag: Flag) -> Play {
    const WORDS: usize = 12;
    const FLAG: Address = Address::new(0, 0, 0);
    const ANSWER: Address = Address::new(0, 0, 64);
    let data = word(512);
    Box::pin(async move {
        let mut buffer = Buffer::new();
        for round in 1..=rounds {
            buffer.resize(8 * WORDS);
            let mut batch = Batch::new();
            if client == 0 {
                buffer.words_mut().fill(round);
                let ticket = batch.write(data, buffer);
                match flag {
                    Flag::Write => batch.write_word(FLAG, round),
                    Flag::Swap => batch.compare_and_swap(FLAG, round - 1, round),
                    Flag::Add => batch.fetch_and_add(FLAG, 1),
                };
                endpoint.post(&mut batch).await.expect("it is inside");
                buffer = batch.take(ticket);
                wait_for(&endpoint, ANSWER, round).await;
            } else {
                wait_for(&endpoint, FLAG, round).await;
                let ticket = batch.read(data, buffer);
                endpoint.post(&mut batch).await.expect("it is inside");
                buffer = batch.take(ticket);
                assert_eq!(buffer.words(), [round; WORDS]);
                write(&endpoint, ANSWER, round).await;
            }
        }
    })
}

const LATCH: Address = Address::new(0, 0, 0);
const LINE: Address = Address::new(0, 0, 64);
const LINE_WORDS: usize = 8;

/// A latch and what it protects, READ in the batch that takes it: a client that gets the latch has
/// read what the last holder wrote.
async fn latch<E: Endpoint>(endpoint: E, client: usize, rounds: u64) {
    let owner = client as u64 + 1;
    let mut buffer = Buffer::new();
    for _ in 0..rounds {
        loop {
            buffer.resize(8 * LINE_WORDS);
            let mut batch = Batch::new();
            let taken = batch.compare_and_swap(LATCH, 0, owner);
            let line = batch.read(LINE, buffer);
            endpoint.post(&mut batch).await.expect("it is inside");
            buffer = batch.take(line);
            if batch.swapped(taken) {
                break;
            }
            endpoint.pause(200).await;
        }
        let count = buffer.words()[0];
        assert_eq!(buffer.words(), [count; LINE_WORDS]);
        buffer.words_mut().fill(count + 1);
        let mut batch = Batch::new();
        let line = batch.write(LINE, buffer);
        let released = batch.compare_and_swap(LATCH, owner, 0);
        endpoint.post(&mut batch).await.expect("it is inside");
        assert!(batch.swapped(released));
        buffer = batch.take(line);
    }
}

async fn latched<E: Endpoint>(endpoint: E, rounds: u64) {
    assert_eq!(read(&endpoint, LINE).await, 3 * rounds);
}

/// Unawaited posts, a flush, then a flag: a reader that sees the flag sees the posts.
async fn flushed<E: Endpoint>(endpoint: E, client: usize, rounds: u64) {
    let mut batch = Batch::new();
    for round in 1..=rounds {
        if client == 0 {
            for index in 0..4 {
                batch.write_word(word(16 + index), round);
                endpoint.post_unawaited(&mut batch);
            }
            endpoint.flush().await.expect("it is inside");
            write(&endpoint, word(0), round).await;
            wait_for(&endpoint, word(8), round).await;
        } else {
            wait_for(&endpoint, word(0), round).await;
            for index in 0..4 {
                assert_eq!(read(&endpoint, word(16 + index)).await, round);
            }
            write(&endpoint, word(8), round).await;
        }
    }
}
