//! Objects in the pool and lookups, as each client counts its own.

use super::place::{ACCOUNT_BYTES, Lookups, account_word};
use super::places::read_places;
use crate::Pool;
use atoll_fabric::{Endpoint, VerbError};

/// Looks at the counts of objects after the first, while they change.
const COUNT_LOOKS_MAX: u32 = 8;

/// Objects in the pool: what all clients added less what all removed. A client that was shut out
/// may have left it wrong by the objects of one batch, until a client that is alone counts anew.
///
/// A READ of many words is not one moment: what one client removed may be missing in it, and what
/// another inserted in its stead be there. So the words are looked at until they stand still, or a
/// few times, of which the lowest sum counts.
pub async fn objects<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    let mut counts = object_counts(endpoint, pool).await?;
    let mut lowest = sum(&counts);
    for _ in 0..COUNT_LOOKS_MAX {
        let again = object_counts(endpoint, pool).await?;
        lowest = lowest.min(sum(&again));
        if std::mem::replace(&mut counts, again) == counts {
            return Ok(sum(&counts).max(0) as u64);
        }
    }
    Ok(lowest.max(0) as u64)
}

/// The same as it is counted, wrapping.
pub async fn objects_exact<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    Ok(sum(&object_counts(endpoint, pool).await?) as u64)
}

/// What each client counted.
async fn object_counts<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<u64>, VerbError> {
    let accounts = read_places(endpoint, pool, |layout| layout.account(0), ACCOUNT_BYTES).await?;
    Ok(accounts.words().chunks(ACCOUNT_BYTES as usize / 8).map(|account| account[account_word::OBJECTS]).collect())
}

/// The lookups of all clients since the pool was made. Clients tell them now and then. What a
/// client that died had not told is missing.
pub async fn lookups<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Lookups, VerbError> {
    let accounts = read_places(endpoint, pool, |layout| layout.account(0), ACCOUNT_BYTES).await?;
    let mut all = Lookups::default();
    for account in accounts.words().chunks(ACCOUNT_BYTES as usize / 8) {
        for (sum, told) in all.iter_mut().zip(&account[account_word::LOOKUPS..]) {
            *sum = sum.wrapping_add(*told);
        }
    }
    Ok(all)
}

fn sum(counts: &[u64]) -> i64 {
    counts.iter().fold(0u64, |sum, count| sum.wrapping_add(*count)) as i64
}
