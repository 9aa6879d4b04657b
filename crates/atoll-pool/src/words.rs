//! Verbs on one word of a pool.

use atoll_fabric::{Address, Batch, Endpoint, VerbError};

/// READs one word.
pub async fn read_word<E: Endpoint>(endpoint: &E, at: Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let word = batch.read_word(at);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(word))
}

/// Swaps a word from `from` to `to`, if it is still `from`; whether it was.
pub(crate) async fn swap<E: Endpoint>(endpoint: &E, at: Address, from: u64, to: u64) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let swap = batch.compare_and_swap(at, from, to);
    endpoint.post(&mut batch).await?;
    Ok(batch.swapped(swap))
}

/// Changes a word by swaps until `change` gives `None` for what is there; gives what is there then.
/// `change` is asked again after a swap that failed.
pub(crate) async fn change<E: Endpoint>(
    endpoint: &E,
    at: Address,
    change: impl Fn(u64) -> Option<u64>,
) -> Result<u64, VerbError> {
    let mut found = read_word(endpoint, at).await?;
    while let Some(wanted) = change(found) {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, found, wanted);
        endpoint.post(&mut batch).await?;
        if batch.swapped(swap) {
            return Ok(wanted);
        }
        found = batch.word(swap);
    }
    Ok(found)
}
