//! How many keys each database has, and how many of them expire.
//!
//! In a small cache every key is looked at. In a large one it is a sample of random keys, scaled to
//! the number of all objects: exact but for some percent.

use super::database::{DATABASES, Database, Databases};
use super::isolation::Turn;
use atoll_cache::cache::left_ms;
use atoll_cache::record::HEADER_BYTES;
use atoll_cache::{Cache, CacheError, Engine};

/// Up to so many objects, every key is looked at.
const EXACT_MAX: u64 = 10_000;
/// Keys of a sample.
const SAMPLE: u64 = 1000;
/// Keys of a sample between two looks at the time.
const SAMPLE_STEP: u64 = 64;
/// Keys that one step of a scan reads.
const STEP: usize = 256;

/// What is known of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) keys: u64,
    pub(crate) expires: u64,
    /// Bytes of their records: header, key and value.
    pub(crate) bytes: u64,
    /// The time that keys that expire have left, on average.
    pub(crate) ttl_mean_ms: u64,
}

/// The databases by the numbers that peers use.
pub(crate) type Census = [Count; DATABASES as usize];

/// Counts the keys of all databases.
pub(crate) async fn take<G: Engine>(
    cache: &Cache<G>,
    databases: &Databases,
    mut turn: Turn<'_>,
) -> Result<Census, CacheError> {
    let (objects, now_ms) = (cache.objects().await?, cache.now_ms().await?);
    let (mut census, mut seen) = (Census::default(), 0);
    // The index of a large pool that is empty is not walked.
    if objects == 0 {
        return Ok(census);
    }
    if objects <= EXACT_MAX {
        let mut cursor = 0;
        loop {
            let mut keys = Vec::new();
            cursor = cache.scan(cursor, STEP, |stored| keys.push(stored.to_vec())).await?;
            for stored in keys {
                count(cache, databases, &stored, now_ms, &mut census).await?;
            }
            if cursor == 0 {
                break;
            }
            turn.yield_if_over().await;
        }
    } else {
        while seen < SAMPLE {
            let Some(stored) = cache.random_key().await? else { break };
            count(cache, databases, &stored, now_ms, &mut census).await?;
            seen += 1;
        }
    }
    for count in &mut census {
        count.ttl_mean_ms = count.ttl_mean_ms.checked_div(count.expires).unwrap_or(0);
        if seen > 0 {
            let scaled = |keys: u64| (u128::from(keys) * u128::from(objects) / u128::from(seen)) as u64;
            (count.keys, count.expires, count.bytes) = (scaled(count.keys), scaled(count.expires), scaled(count.bytes));
        }
    }
    Ok(census)
}

/// The number of all objects, if a sample of a large cache finds keys of this database alone: then
/// it is that of the database's keys, but for less than a hundredth of other databases. As in Redis
/// it has the keys that have expired and that no client has found yet. It takes the same time
/// whatever the number. Otherwise `None`.
pub(crate) async fn all_of_large<G: Engine>(
    cache: &Cache<G>,
    database: Database,
    mut turn: Turn<'_>,
) -> Result<Option<u64>, CacheError> {
    let objects = cache.objects().await?;
    if objects <= EXACT_MAX {
        return Ok(None);
    }
    for seen in 0..SAMPLE {
        let key = cache.random_key().await?;
        if key.is_none_or(|stored| database.key(&stored).is_none()) {
            return Ok(None);
        }
        if seen % SAMPLE_STEP == SAMPLE_STEP - 1 {
            turn.yield_if_over().await;
        }
    }
    Ok(Some(objects))
}

async fn count<G: Engine>(
    cache: &Cache<G>,
    databases: &Databases,
    stored: &[u8],
    now_ms: u64,
    census: &mut Census,
) -> Result<(), CacheError> {
    let Some(database) = Database::of(stored) else { return Ok(()) };
    let Some(meta) = cache.peek(stored).await? else { return Ok(()) };
    let count = &mut census[databases.number_of(database) as usize];
    count.keys += 1;
    count.bytes += (HEADER_BYTES + stored.len() + meta.value_bytes) as u64;
    if let Some(expiry_ms) = meta.expiry_ms {
        count.expires += 1;
        count.ttl_mean_ms += left_ms(expiry_ms, now_ms);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_cache::{Expiry, SetOptions, model::Model};
    use atoll_fabric::Clock;

    #[test]
    fn the_only_database_of_a_large_cache_has_all_objects() {
        let (clock, _) = Clock::manual(1_000_000_000);
        let (cache, databases) = (Cache::new(Model::new(clock)), Databases::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let set = async |number, keys: std::ops::Range<u64>| {
                for key in keys {
                    let key = databases.get(number).stored(&key.to_be_bytes()).into_owned();
                    cache.set(&key, b"", &SetOptions::default()).await.unwrap();
                }
            };
            let all = async |number| all_of_large(&cache, databases.get(number), Turn::begin(None)).await.unwrap();
            set(0, 0..EXACT_MAX).await;
            assert_eq!(all(0).await, None);
            set(0, EXACT_MAX..EXACT_MAX + 5).await;
            assert_eq!((all(0).await, all(1).await), (Some(EXACT_MAX + 5), None));
        });
    }

    #[test]
    fn every_key_of_a_small_cache_is_counted_under_the_number_that_its_database_has() {
        let (clock, _) = Clock::manual(1_000_000_000);
        let (cache, databases) = (Cache::new(Model::new(clock)), Databases::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for key in 0..8000_u32 {
                let database = databases.get(if key % 4 == 0 { 3 } else { 0 });
                let expiry = if key % 8 == 0 { Expiry::InMs(5000) } else { Expiry::Never };
                let options = SetOptions { expiry, ..SetOptions::default() };
                cache.set(&database.stored(&key.to_be_bytes()), b"", &options).await.unwrap();
            }
            let (many, few) = (
                Count { keys: 6000, bytes: 6000 * (16 + 4), ..Count::default() },
                Count { keys: 2000, bytes: 2000 * (16 + 6), expires: 1000, ttl_mean_ms: 5000 },
            );
            let census = take(&cache, &databases, Turn::begin(None)).await.unwrap();
            assert_eq!((census[0], census[3]), (many, few));
            databases.swap(0, 3);
            let census = take(&cache, &databases, Turn::begin(None)).await.unwrap();
            assert_eq!((census[0], census[3]), (few, many));
        });
    }
}
