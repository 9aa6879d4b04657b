//! What the contract says of fences: a client that is said to be shut out changes nothing any more.

use super::{Case, fetch_and_add, read, wait_for, word, write};
use crate::{Endpoint, Identity, VerbError};

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    vec![
        Case::new("a_client_that_is_shut_out_changes_nothing", 2, |e, c, _| match c {
            0 => Box::pin(change(e)),
            _ => Box::pin(shut_out(e)),
        }),
        Case::new("a_client_that_lives_is_not_dead_and_asking_does_no_harm", 2, |e, c, _| match c {
            0 => Box::pin(change(e)),
            _ => Box::pin(ask(e)),
        }),
    ]
}

const COUNTER: u64 = 0;
const STOP: u64 = 8;
const KNOWN: u64 = 16;
const IDENTITY: u64 = 24;

/// Asks whether a client that goes on is dead, and whether no client is.
async fn ask<E: Endpoint>(endpoint: E) {
    wait_for(&endpoint, word(KNOWN), 1).await;
    let who = Identity::from_bits(read(&endpoint, word(IDENTITY)).await as u32);
    for asked in 1..10 {
        assert!(!endpoint.is_dead(who).await.expect("nothing is wrong with the fabric"), "it lives");
        wait_for(&endpoint, word(COUNTER), 2 * asked).await;
    }
    assert!(endpoint.is_dead(Identity::NOBODY).await.expect("nothing is wrong with the fabric"), "it is nobody");
    write(&endpoint, word(STOP), 1).await;
}

/// Adds to the counter until another client stops it or shuts it out.
async fn change<E: Endpoint>(endpoint: E) {
    write(&endpoint, word(IDENTITY), endpoint.identity().bits().into()).await;
    write(&endpoint, word(KNOWN), 1).await;
    loop {
        let mut batch = crate::Batch::new();
        batch.fetch_and_add(word(COUNTER), 1);
        let stop = batch.read_word(word(STOP));
        match endpoint.post(&mut batch).await {
            Ok(()) if batch.word(stop) == 1 => return,
            Ok(()) => {}
            Err(VerbError::Fenced) => return,
            Err(error) => panic!("only a fence ends this client: {error}"),
        }
        endpoint.pause(10).await;
    }
}

async fn shut_out<E: Endpoint>(endpoint: E) {
    wait_for(&endpoint, word(KNOWN), 1).await;
    wait_for(&endpoint, word(COUNTER), 2).await;
    let who = Identity::from_bits(read(&endpoint, word(IDENTITY)).await as u32);
    assert_ne!(who, endpoint.identity(), "two that live have one identity");
    if endpoint.shut_out(who).await.expect("nothing is wrong with the fabric") {
        let before = read(&endpoint, word(COUNTER)).await;
        for _ in 0..20 {
            endpoint.pause(10_000).await;
            assert_eq!(read(&endpoint, word(COUNTER)).await, before, "a client that was shut out added to a word");
        }
        assert!(endpoint.shut_out(who).await.expect("asking again is harmless"), "a client was let in again");
        assert!(endpoint.is_dead(who).await.expect("nothing is wrong with the fabric"), "shut out, and not dead");
    }
    // A client that cannot be shut out is stopped, so that the case ends.
    write(&endpoint, word(STOP), 1).await;
    fetch_and_add(&endpoint, word(COUNTER), 0).await;
}
