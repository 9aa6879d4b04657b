//! One client: what verbs do, and what becomes of bad ones.

use super::{Case, REGION_BYTES, fetch_and_add, read, wait_for, word, write};
use crate::{Address, Batch, Buffer, Endpoint, Intent, Ticket, VerbError};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    let one = |name, play| Case::new(name, 1, play);
    vec![
        one("what_was_written_is_read_at_every_place_and_length", |endpoint, _, _| Box::pin(lengths(endpoint))),
        one("bytes_of_the_callers_memory_are_written_and_read_from_any_byte_on", |endpoint, _, _| {
            Box::pin(own_memory(endpoint))
        }),
        one("a_verb_of_no_bytes_changes_nothing", |endpoint, _, _| Box::pin(no_bytes(endpoint))),
        one("a_hint_changes_nothing_wherever_it_points", |endpoint, _, _| Box::pin(hints(endpoint))),
        one("buffers_come_back_with_their_length", |endpoint, _, _| Box::pin(buffers(endpoint))),
        one("a_batch_takes_as_many_verbs_as_its_limit", |endpoint, _, rounds| Box::pin(big_batches(endpoint, rounds))),
        one("atomics_tell_what_they_found_and_wrap_around", |endpoint, _, _| Box::pin(atomics(endpoint))),
        one("a_failed_swap_stops_nothing_behind_it", |endpoint, _, rounds| Box::pin(failed_swap(endpoint, rounds))),
        one("a_write_is_seen_by_what_follows_it_in_its_batch", |endpoint, _, rounds| {
            Box::pin(write_then(endpoint, rounds))
        }),
        one("a_fenced_verb_waits_for_all_before_it", |endpoint, _, rounds| Box::pin(fenced(endpoint, rounds))),
        one("an_unreachable_verb_is_an_error_and_its_batch_changes_nothing", |endpoint, _, _| {
            Box::pin(unreachable(endpoint))
        }),
        one("what_was_posted_unawaited_takes_effect_before_a_flush_ends", |endpoint, _, rounds| {
            Box::pin(unawaited(endpoint, rounds))
        }),
        one("posts_of_a_fabric_that_keeps_their_order_do_not_overtake_each_other", |endpoint, _, rounds| {
            Box::pin(in_order(endpoint, rounds))
        }),
        one("an_error_of_an_unawaited_post_surfaces_at_the_next_flush", |endpoint, _, _| {
            Box::pin(unawaited_error(endpoint))
        }),
        one("a_batch_whose_future_is_dropped_takes_effect_whole", |endpoint, _, rounds| {
            Box::pin(dropped(endpoint, rounds))
        }),
        one("more_posts_than_fit_wait_and_none_is_lost", |endpoint, _, rounds| Box::pin(many_posts(endpoint, rounds))),
        one("time_does_not_go_back_and_randomness_varies", |endpoint, _, _| Box::pin(time(endpoint))),
    ]
}

/// A buffer of `bytes` bytes that depend on `salt`.
fn patterned(bytes: usize, salt: u64) -> Buffer {
    let mut buffer = Buffer::sized(bytes);
    for (index, byte) in buffer.bytes_mut().iter_mut().enumerate() {
        *byte = (salt.wrapping_mul(0x9e37_79b9).wrapping_add(index as u64 * 31) >> 3) as u8;
    }
    buffer
}

fn sized(bytes: usize) -> Buffer {
    Buffer::sized(bytes)
}

/// Words of which one was written are told from words around it.
const GUARD: u64 = 0x6775_6172_6421_2121;

async fn lengths<E: Endpoint>(endpoint: E) {
    let lengths = (0..=136_usize).chain([255, 256, 1000, 4096, 4097, 8192, 65536]);
    let lengths = lengths.filter(|bytes| *bytes as u64 <= endpoint.limits().verb_bytes_max);
    for (salt, bytes) in lengths.enumerate() {
        for start in [1, 2, 7, 8, 511] {
            let end = start + bytes.div_ceil(8) as u64;
            write(&endpoint, word(start - 1), GUARD).await;
            write(&endpoint, word(end), GUARD).await;
            let mut batch = Batch::new();
            batch.write(word(start), patterned(bytes, salt as u64));
            endpoint.post(&mut batch).await.expect("it is inside");
            let mut batch = Batch::new();
            let (before, after) = (batch.read_word(word(start - 1)), batch.read_word(word(end)));
            let ticket = batch.read(word(start), sized(bytes.next_multiple_of(8)));
            endpoint.post(&mut batch).await.expect("it is inside");
            assert_eq!((batch.word(before), batch.word(after)), (GUARD, GUARD), "{bytes} bytes at word {start}");
            assert!(batch.take(ticket).bytes()[..bytes] == *patterned(bytes, salt as u64).bytes(), "{bytes} bytes");
        }
    }
    // The very last bytes of the region.
    let mut batch = Batch::new();
    batch.write(word(REGION_BYTES / 8 - 4), patterned(32, 1));
    endpoint.post(&mut batch).await.expect("it is inside");
    let mut batch = Batch::new();
    let ticket = batch.read(word(REGION_BYTES / 8 - 4), sized(32));
    endpoint.post(&mut batch).await.expect("it is inside");
    assert_eq!(batch.take(ticket).bytes(), patterned(32, 1).bytes());
}

async fn own_memory<E: Endpoint>(endpoint: E) {
    let mut spare = Buffer::new();
    for (salt, bytes) in (0..=40_usize).chain([255, 4096, 4099]).enumerate() {
        let end = 5 + bytes.div_ceil(8) as u64;
        write(&endpoint, word(4), GUARD).await;
        write(&endpoint, word(end), GUARD).await;
        let written = patterned(bytes, salt as u64);
        endpoint.write_from(word(5), written.bytes(), &mut spare).await.expect("it is inside");
        assert_eq!((read(&endpoint, word(4)).await, read(&endpoint, word(end)).await), (GUARD, GUARD), "{bytes} bytes");
        for skip in 0..=bytes.min(17) {
            let mut into = vec![0xee; bytes - skip + 2];
            let part = &mut into[1..=bytes - skip];
            endpoint.read_into(word(5).add(skip as u64), part, &mut spare).await.expect("it is inside");
            assert!(into[1..=bytes - skip] == written.bytes()[skip..], "{bytes} bytes from {skip} on");
            assert_eq!((into[0], into[bytes - skip + 1]), (0xee, 0xee), "around {bytes} bytes from {skip} on");
        }
        if bytes > 0 {
            let last = read(&endpoint, word(end - 1)).await.to_le_bytes();
            let padding = &last[(bytes - 1) % 8 + 1..];
            assert!(padding.iter().all(|byte| *byte == 0), "the last word is padded");
        }
    }
    let beyond = word(REGION_BYTES / 8 - 1);
    let mut into = [7; 9];
    assert!(endpoint.read_into(beyond, &mut into, &mut spare).await.is_err());
    assert_eq!(into, [7; 9], "a READ that fails leaves the memory as it is");
    assert!(endpoint.write_from(beyond, &[1; 9], &mut Buffer::new()).await.is_err());
    write(&endpoint, beyond, GUARD).await;
    endpoint.read_into(beyond.add(3), &mut into[..5], &mut Buffer::new()).await.expect("it is inside");
    assert_eq!(into[..5], GUARD.to_ne_bytes()[3..]);
}

async fn no_bytes<E: Endpoint>(endpoint: E) {
    write(&endpoint, word(3), GUARD).await;
    let mut batch = Batch::new();
    endpoint.post(&mut batch).await.expect("an empty batch is no error");
    batch.write(word(3), Buffer::new());
    let ticket = batch.read(word(3), Buffer::new());
    endpoint.post(&mut batch).await.expect("it is inside");
    assert!(batch.take(ticket).is_empty());
    assert_eq!(read(&endpoint, word(3)).await, GUARD);
    endpoint.flush().await.expect("nothing was posted");
}

async fn hints<E: Endpoint>(endpoint: E) {
    write(&endpoint, word(3), GUARD).await;
    for at in [
        word(3),
        word(REGION_BYTES / 8 - 1),
        word(REGION_BYTES / 8),
        Address::new(0, 63, 0),
        Address::new(63, 0, 8 << 40),
    ] {
        for bytes in [0, 1, 8, 100, 1000, u64::MAX - 7] {
            endpoint.expect(at, bytes, Intent::Read);
            endpoint.expect(at, bytes, Intent::Write);
        }
    }
    assert_eq!(read(&endpoint, word(3)).await, GUARD);
    endpoint.flush().await.expect("nothing was posted");
}

async fn buffers<E: Endpoint>(endpoint: E) {
    let mut batch = Batch::new();
    let written = batch.write(word(0), patterned(100, 5));
    let took = batch.read(word(1000), patterned(64, 5));
    endpoint.post(&mut batch).await.expect("it is inside");
    assert_eq!(batch.take(written).bytes(), patterned(100, 5).bytes(), "a WRITE leaves its buffer as it was");
    assert_eq!(batch.take(took).bytes(), [0; 64]);
    assert_eq!(batch.len(), 2);
}

async fn big_batches<E: Endpoint>(endpoint: E, rounds: u64) {
    let verbs = endpoint.limits().batch_verbs_max as u64;
    assert!(verbs >= 1 && verbs <= crate::BATCH_VERBS_MAX as u64);
    for round in 1..=rounds {
        let mut batch = Batch::new();
        for index in 0..verbs {
            batch.write_word(word(index), round * 1000 + index);
        }
        endpoint.post(&mut batch).await.expect("it is inside");
        batch.clear();
        let tickets: Vec<Ticket> = (0..verbs)
            .map(|index| match index % 3 {
                0 => batch.read_word(word(index)),
                1 => batch.fetch_and_add(word(index), 1),
                _ => batch.compare_and_swap(word(index), 0, 1),
            })
            .collect();
        endpoint.post(&mut batch).await.expect("it is inside");
        for (index, ticket) in (0..).zip(tickets) {
            assert_eq!(batch.word(ticket), round * 1000 + index, "verb {index} of {verbs}");
        }
    }
}

async fn atomics<E: Endpoint>(endpoint: E) {
    assert_eq!(fetch_and_add(&endpoint, word(1), u64::MAX).await, 0);
    assert_eq!(fetch_and_add(&endpoint, word(1), 3).await, u64::MAX);
    assert_eq!(fetch_and_add(&endpoint, word(1), 0).await, 2);
    let mut batch = Batch::new();
    for (expected, desired, found) in [(3, 9, 2), (2, u64::MAX, 2), (u64::MAX, 0, u64::MAX), (0, 0, 0)] {
        batch.clear();
        let ticket = batch.compare_and_swap(word(1), expected, desired);
        endpoint.post(&mut batch).await.expect("it is inside");
        assert_eq!((batch.word(ticket), batch.swapped(ticket)), (found, expected == found));
    }
    assert_eq!((read(&endpoint, word(0)).await, read(&endpoint, word(2)).await), (0, 0), "neighbours are left alone");
}

async fn failed_swap<E: Endpoint>(endpoint: E, rounds: u64) {
    for round in 1..=rounds {
        let mut batch = Batch::new();
        let failed = batch.compare_and_swap(word(0), 77, 78);
        batch.write_word(word(8), round);
        let added = batch.fetch_and_add(word(16), 1);
        let also = batch.compare_and_swap(word(24), round - 1, round);
        endpoint.post(&mut batch).await.expect("it is inside");
        assert!(!batch.swapped(failed) && batch.swapped(also));
        assert_eq!((batch.word(failed), batch.word(added)), (0, round - 1));
        assert_eq!((read(&endpoint, word(0)).await, read(&endpoint, word(8)).await), (0, round));
    }
}

async fn write_then<E: Endpoint>(endpoint: E, rounds: u64) {
    for round in 1..=rounds {
        let mut batch = Batch::new();
        batch.write(word(0), patterned(256, round));
        let whole = batch.read(word(0), sized(256));
        batch.write_word(word(40), round);
        let found = batch.read_word(word(40));
        batch.write_word(word(40), round + 1);
        let swap = batch.compare_and_swap(word(40), round + 1, round + 2);
        batch.write_word(word(41), 10 * round);
        let add = batch.fetch_and_add(word(41), 1);
        endpoint.post(&mut batch).await.expect("it is inside");
        assert_eq!(batch.take(whole).bytes(), patterned(256, round).bytes());
        // The second WRITE is behind the first, and the READ between them before neither of those
        // that follow it.
        assert!([round, round + 1, round + 2].contains(&batch.word(found)), "{} in round {round}", batch.word(found));
        assert!(batch.swapped(swap));
        assert_eq!(batch.word(add), 10 * round);
    }
}

async fn fenced<E: Endpoint>(endpoint: E, rounds: u64) {
    for round in 1..=rounds {
        let mut batch = Batch::new();
        let old = batch.read_word(word(0));
        batch.write_word(word(0), round);
        batch.fence();
        let add = batch.fetch_and_add(word(1), 1);
        batch.write_word(word(1), round);
        batch.fence();
        let swap = batch.compare_and_swap(word(2), round - 1, 0);
        let add_behind = batch.fetch_and_add(word(2), round);
        batch.fence();
        endpoint.post(&mut batch).await.expect("it is inside");
        assert_eq!((batch.word(old), batch.word(add)), (round - 1, round - 1));
        assert!(batch.swapped(swap));
        assert_eq!(batch.word(add_behind), 0);
    }
}

async fn unreachable<E: Endpoint>(endpoint: E) {
    let last = (1 << 44) - 8;
    let places = [
        (Address::new(0, 0, REGION_BYTES), 8),
        (Address::new(0, 0, REGION_BYTES - 8), 16),
        (Address::new(0, 0, REGION_BYTES - 8), 9),
        (Address::new(0, 0, REGION_BYTES - 4), 8),
        (Address::new(0, 0, 4), 8),
        (Address::new(0, 0, 1), 64),
        (Address::new(0, 0, last), 8),
        (Address::new(0, 0, last), 4096),
        (Address::new(0, 1, 0), 8),
        (Address::new(0, 63, last), 8),
        (Address::new(1, 0, 0), 8),
        (Address::new(63, 63, last), 64),
    ];
    for (at, bytes) in places {
        for kind in 0..6 {
            let mut batch = Batch::new();
            let good = batch.write(word(0), patterned(64, 3));
            batch.fetch_and_add(word(100), 1);
            match kind {
                0 => batch.write(at, patterned(bytes, 1)),
                1 => batch.read(at, sized(bytes.next_multiple_of(8))),
                2 if bytes == 8 => batch.write_word(at, 1),
                3 if bytes == 8 => batch.read_word(at),
                4 if bytes == 8 => batch.fetch_and_add(at, 1),
                5 if bytes == 8 => batch.compare_and_swap(at, 0, 1),
                _ => continue,
            };
            batch.write_word(word(101), 1);
            let wanted = if kind == 1 { bytes.next_multiple_of(8) } else { bytes } as u64;
            let error = VerbError::unreachable(at, wanted);
            assert_eq!(endpoint.post(&mut batch).await, Err(error), "{at:?} {bytes} kind {kind}");
            assert_eq!(batch.take(good).bytes(), patterned(64, 3).bytes(), "the buffers come back");
            for index in [0, 7, 100, 101, REGION_BYTES / 8 - 1] {
                assert_eq!(read(&endpoint, word(index)).await, 0, "nothing of the batch took effect");
            }
        }
    }
}

async fn unawaited<E: Endpoint>(endpoint: E, rounds: u64) {
    for round in 1..=rounds {
        let mut batch = Batch::new();
        batch.write(word(0), patterned(80, round));
        batch.fetch_and_add(word(20), 1);
        endpoint.post_unawaited(&mut batch);
        assert!(batch.is_empty());
        for index in 0..3 {
            batch.write_word(word(30 + index), round);
            endpoint.post_unawaited(&mut batch);
        }
        endpoint.flush().await.expect("all of it is inside");
        let ticket = batch.read(word(0), sized(80));
        let added = batch.read_word(word(20));
        endpoint.post(&mut batch).await.expect("it is inside");
        assert_eq!(batch.take(ticket).bytes(), patterned(80, round).bytes());
        assert_eq!(batch.word(added), round);
        for index in 0..3 {
            assert_eq!(read(&endpoint, word(30 + index)).await, round);
        }
    }
}

async fn in_order<E: Endpoint>(endpoint: E, rounds: u64) {
    if !endpoint.keeps_order() {
        return;
    }
    for round in 0..rounds {
        let mut batch = Batch::new();
        for number in 1..=20 {
            batch.write(word(0), patterned(80, 20 * round + number));
            endpoint.post_unawaited(&mut batch);
        }
        let ticket = batch.read(word(0), sized(80));
        endpoint.post(&mut batch).await.expect("it is inside");
        assert_eq!(batch.take(ticket).bytes(), patterned(80, 20 * (round + 1)).bytes(), "the last one is there");
    }
    endpoint.flush().await.expect("all of it is inside");
}

async fn unawaited_error<E: Endpoint>(endpoint: E) {
    let mut batch = Batch::new();
    batch.write_word(word(0), 1);
    batch.write_word(Address::new(0, 0, REGION_BYTES), 1);
    endpoint.post_unawaited(&mut batch);
    assert!(batch.is_empty());
    batch.write_word(word(1), 1);
    endpoint.post_unawaited(&mut batch);
    let error = VerbError::unreachable(Address::new(0, 0, REGION_BYTES), 8);
    assert_eq!(endpoint.flush().await, Err(error));
    assert_eq!((read(&endpoint, word(0)).await, read(&endpoint, word(1)).await), (0, 1));
    assert_eq!(endpoint.flush().await, Ok(()), "an error is reported once");
}

async fn dropped<E: Endpoint>(endpoint: E, rounds: u64) {
    for round in 1..=rounds {
        let mut batch = Batch::new();
        batch.write(word(0), patterned(200, round));
        batch.fetch_and_add(word(50), 1);
        {
            let mut post = pin!(endpoint.post(&mut batch));
            poll_fn(|context| Poll::Ready(post.as_mut().poll(context).is_ready())).await;
        }
        drop(batch);
        // The WRITE is before the atomic, so that the atomic's effect proves both.
        assert_eq!(wait_for(&endpoint, word(50), round).await, round);
        let mut batch = Batch::new();
        let ticket = batch.read(word(0), sized(200));
        endpoint.post(&mut batch).await.expect("it is inside");
        assert_eq!(batch.take(ticket).bytes(), patterned(200, round).bytes());
    }
}

async fn many_posts<E: Endpoint>(endpoint: E, rounds: u64) {
    let posts = endpoint.limits().batches_max.min(40) + 5;
    for round in 1..=rounds.min(50) {
        let mut posting: Vec<Pin<Box<dyn Future<Output = u64> + '_>>> = Vec::new();
        for index in 0..posts {
            let endpoint = &endpoint;
            posting.push(Box::pin(async move { fetch_and_add(endpoint, word(index as u64 % 4), 1).await }));
        }
        poll_fn(|context| {
            posting.retain_mut(|post| post.as_mut().poll(context).is_pending());
            if posting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(posting);
        let mut sum = 0;
        for index in 0..4 {
            sum += read(&endpoint, word(index)).await;
        }
        assert_eq!(sum, round * posts as u64);
    }
}

async fn time<E: Endpoint>(endpoint: E) {
    let (mut last_ns, mut last_random) = (endpoint.now_ns(), endpoint.random());
    for _ in 0..100 {
        endpoint.pause(50).await;
        let (now_ns, random) = (endpoint.now_ns(), endpoint.random());
        assert!(now_ns >= last_ns && random != last_random);
        (last_ns, last_random) = (now_ns, random);
    }
    assert!(endpoint.unix_ms() > 1_000_000_000_000, "the wall clock shows a time of our days");
    assert!(!endpoint.fabric().is_empty());
}
