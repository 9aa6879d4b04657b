//! Locks of buckets and queues, for clients without the lock-free index or the contention-free
//! queue.
//!
//! A lock is 0 or 1. A client acquires it by a compare-and-swap from 0 to 1, and releases it by a
//! WRITE of 0, which it does not await. No other verb changes a lock that is held.
//!
//! A client never makes room while it holds a bucket's lock, and locks nothing while it holds a
//! queue's. So a bucket's lock always comes before a queue's, and there is no deadlock.

use atoll_cache::CacheError;
use atoll_cache::forge::ring::Cursors;
use atoll_fabric::{Address, Batch, Endpoint};
use atoll_pool::read_word;

const LOCKED: u64 = 1;
/// Longest pause after the first failure to acquire a lock; it doubles with each further failure.
const LOCK_PAUSE_NS: u64 = 1_000;
/// Doublings of that pause.
const LOCK_DOUBLINGS: u32 = 5;

/// Acquires a lock, with pauses of random length between looks at a held lock.
pub(super) async fn lock<E: Endpoint>(endpoint: &E, at: Address) -> Result<(), CacheError> {
    let mut tried = 0;
    loop {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, 0, LOCKED);
        endpoint.post(&mut batch).await?;
        if batch.swapped(swap) {
            return Ok(());
        }
        loop {
            endpoint.pause(endpoint.random() % (LOCK_PAUSE_NS << tried)).await;
            tried = LOCK_DOUBLINGS.min(tried + 1);
            if read_word(endpoint, at).await? == 0 {
                break;
            }
        }
    }
}

/// Releases a lock that this client holds. Until the WRITE lands, no client can acquire it,
/// including this one.
pub(super) fn unlock<E: Endpoint>(endpoint: &E, at: Address) {
    let mut batch = Batch::new();
    batch.write_word(at, 0);
    endpoint.post_unawaited(&mut batch);
}

/// Adds `by` to the cursors of a queue whose lock this client holds, and returns the old cursors.
pub(super) async fn move_cursors<E: Endpoint>(endpoint: &E, at: Address, by: u64) -> Result<Cursors, CacheError> {
    loop {
        // Only a client that moves a head which fell a ring behind changes them meanwhile.
        let before = read_word(endpoint, at).await?;
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, before, before.wrapping_add(by));
        endpoint.post(&mut batch).await?;
        if batch.swapped(swap) {
            return Ok(Cursors::from_word(before));
        }
    }
}
