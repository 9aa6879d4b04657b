//! Verbs on one word.

use atoll_fabric::{Address, Batch, Endpoint, VerbError};

pub(crate) use atoll_pool::read_word;

/// Adds, and returns the previous value.
pub(crate) async fn add<E: Endpoint>(endpoint: &E, at: Address, addend: u64) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let added = batch.fetch_and_add(at, addend);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(added))
}

/// Writes a word.
pub(crate) async fn write_word<E: Endpoint>(endpoint: &E, at: Address, word: u64) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.write_word(at, word);
    endpoint.post(&mut batch).await
}

/// Swaps, or returns the word that stands there instead.
pub(crate) async fn swap<E: Endpoint>(
    endpoint: &E,
    at: Address,
    expected: u64,
    desired: u64,
) -> Result<Result<(), u64>, VerbError> {
    let mut batch = Batch::new();
    let swapped = batch.compare_and_swap(at, expected, desired);
    endpoint.post(&mut batch).await?;
    Ok(if batch.swapped(swapped) { Ok(()) } else { Err(batch.word(swapped)) })
}
