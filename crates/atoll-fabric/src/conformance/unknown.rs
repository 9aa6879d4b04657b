//! Unknown outcomes: what may have taken effect, and when it is over.
//!
//! Every post ends: in a result, or in an error at its deadline. A batch whose outcome is unknown
//! may take effect late, but each verb once at most, and no more once its client is shut out.

use super::{Case, word};
use crate::{Address, Batch, Endpoint, Identity, Ticket, VerbError};

/// Clients that add; one more shuts them out afterwards.
const CLIENTS: usize = 2;

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    const NAME: &str = "a_verb_of_an_unknown_outcome_takes_effect_once_at_most_and_never_after_the_fence";
    vec![Case::new(NAME, CLIENTS + 1, |e, c, r| match c {
        CLIENTS => Box::pin(account(e)),
        _ => Box::pin(add(e, c, r)),
    })]
}

/// A client's words: what it adds to, how many additions completed, how many may have taken place,
/// and its identity.
fn of(client: usize, field: u64) -> Address {
    word(128 + 16 * client as u64 + field)
}

const COUNTER: u64 = 0;
const SURE: u64 = 1;
const POSSIBLE: u64 = 2;
const IDENTITY: u64 = 3;

/// Posts a batch of one verb, again and again until its outcome is known; gives the word that it
/// found. For verbs that do no harm when they land twice, or late.
async fn surely<E: Endpoint>(endpoint: &E, add: impl Fn(&mut Batch) -> Ticket, has_word: bool) -> u64 {
    loop {
        let mut batch = Batch::new();
        let ticket = add(&mut batch);
        match endpoint.post(&mut batch).await {
            Ok(()) if has_word => return batch.word(ticket),
            Ok(()) => return 0,
            Err(VerbError::OutcomeUnknown) => {}
            Err(error) => panic!("nothing but an unknown outcome is expected: {error}"),
        }
    }
}

async fn surely_write<E: Endpoint>(endpoint: &E, at: Address, value: u64) {
    surely(endpoint, |batch| batch.write_word(at, value), false).await;
}

async fn surely_read<E: Endpoint>(endpoint: &E, at: Address) -> u64 {
    surely(endpoint, |batch| batch.read_word(at), true).await
}

async fn surely_fence<E: Endpoint>(endpoint: &E, who: Identity) {
    loop {
        match endpoint.shut_out(who).await {
            Ok(true) => return,
            Ok(false) | Err(VerbError::OutcomeUnknown) => endpoint.pause(1_000).await,
            Err(error) => panic!("nothing but an unknown outcome is expected: {error}"),
        }
    }
}

async fn add<E: Endpoint>(endpoint: E, client: usize, rounds: u64) {
    surely_write(&endpoint, of(client, IDENTITY), endpoint.identity().bits().into()).await;
    let (mut sure, mut possible) = (0, 0);
    for _ in 0..rounds {
        let mut batch = Batch::new();
        let before = batch.fetch_and_add(of(client, COUNTER), 1);
        match endpoint.post(&mut batch).await {
            Ok(()) => {
                let before = batch.word(before);
                assert!((sure..=possible).contains(&before), "found {before}, completed {sure}, begun {possible}");
                sure += 1;
            }
            Err(VerbError::OutcomeUnknown) => {}
            Err(error) => panic!("nothing but an unknown outcome is expected: {error}"),
        }
        possible += 1;
        endpoint.pause(10).await;
    }
    surely_write(&endpoint, of(client, SURE), sure).await;
    surely_write(&endpoint, of(client, POSSIBLE), possible).await;
}

async fn account<E: Endpoint>(endpoint: E) {
    for client in 0..CLIENTS {
        while surely_read(&endpoint, of(client, POSSIBLE)).await == 0 {
            endpoint.pause(100).await;
        }
        let who = Identity::from_bits(surely_read(&endpoint, of(client, IDENTITY)).await as u32);
        surely_fence(&endpoint, who).await;
        let counter = surely_read(&endpoint, of(client, COUNTER)).await;
        let sure = surely_read(&endpoint, of(client, SURE)).await;
        let possible = surely_read(&endpoint, of(client, POSSIBLE)).await;
        assert!((sure..=possible).contains(&counter), "counted {counter}, completed {sure}, begun {possible}");
        for pause_ns in [10, 10_000, 10_000_000] {
            endpoint.pause(pause_ns).await;
            let later = surely_read(&endpoint, of(client, COUNTER)).await;
            assert_eq!(later, counter, "an addition of a client that was shut out took effect");
        }
    }
}
