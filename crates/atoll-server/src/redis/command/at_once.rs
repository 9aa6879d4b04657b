//! What a command does with several keys. Where memory is far, operations on several of them are
//! under way at a time: all take a few round trips, not some for each key.

use crate::redis::isolation::Turn;
use atoll_cache::{Cache, CacheError, Engine};
use futures_util::stream::{self, StreamExt};
use std::cell::Cell;
use std::collections::HashSet;
use std::pin::pin;

/// Operations of a command that are under way at a time: a client has many connections.
const AT_ONCE_MAX: usize = 16;
/// Keys between two looks at the time.
const STEP: usize = 64;

/// Runs an operation for each of so many keys. `ended(nth, outcome)` is called once for each, in
/// order, unless it fails. After the first error no more begin; those that had begun end first.
pub(super) async fn each<G: Engine, T>(
    turn: Turn<'_>,
    cache: &Cache<G>,
    count: usize,
    begin: impl AsyncFn(usize) -> Result<T, CacheError>,
    mut ended: impl FnMut(usize, T),
) -> Result<(), CacheError> {
    // A transaction or script holds its changes back, one after the other.
    if count <= 1 || !is_far(cache) || cache.is_held() {
        return one_by_one(turn, count, begin, ended).await;
    }
    let (has_failed, mut failed) = (Cell::new(false), Ok(()));
    let begun = (0..count).take_while(|_| !has_failed.get()).map(|nth| begin(nth));
    let mut outcomes = pin!(stream::iter(begun).buffered(AT_ONCE_MAX).enumerate());
    while let Some((nth, outcome)) = outcomes.next().await {
        match outcome {
            Ok(outcome) => ended(nth, outcome),
            Err(error) => {
                has_failed.set(true);
                failed = failed.and(Err(error));
            }
        }
    }
    failed
}

/// The same for changes of these keys. If a key is there twice, its changes keep their order.
pub(super) async fn each_of<'k, G: Engine, T>(
    turn: Turn<'_>,
    cache: &Cache<G>,
    keys: impl ExactSizeIterator<Item = &'k [u8]>,
    begin: impl AsyncFn(usize) -> Result<T, CacheError>,
    ended: impl FnMut(usize, T),
) -> Result<(), CacheError> {
    let (count, mut seen) = (keys.len(), HashSet::new());
    if is_far(cache) && keys.into_iter().any(|key| !seen.insert(key)) {
        return one_by_one(turn, count, begin, ended).await;
    }
    each(turn, cache, count, begin, ended).await
}

/// Where memory is near. Other connections run in between.
async fn one_by_one<T>(
    mut turn: Turn<'_>,
    count: usize,
    begin: impl AsyncFn(usize) -> Result<T, CacheError>,
    mut ended: impl FnMut(usize, T),
) -> Result<(), CacheError> {
    for nth in 0..count {
        ended(nth, begin(nth).await?);
        if nth % STEP == STEP - 1 {
            turn.yield_if_over().await;
        }
    }
    Ok(())
}

fn is_far<G: Engine>(cache: &Cache<G>) -> bool {
    cache.engine().arrivals().is_some()
}
