//! Groups that an evictor READs whole, without FORGE's lightweight regrouping.
//!
//! | step | verbs |
//! |---|---|
//! | find the records and their keys | READ the chunk |
//! | find the slot of each object | READ the bucket of each key |
//!
//! A record has no place for the frequency that its object brings from an earlier group. The
//! evictor takes only that from the group's map, which it READ with the rest.

use atoll_cache::forge::Forge;
use atoll_cache::forge::group::MapEntry;
use atoll_cache::forge::layout::BUCKET_SLOTS;
use atoll_cache::forge::slot::Slot;
use atoll_cache::forge::technique::{LeavingParts, Technique};
use atoll_cache::{CacheError, Pooled};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;

/// READs a whole group that this client owns, and finds the slot of each of its objects by the
/// object's key. `None` if the chunk does not hold as many records as it should. Then the chunk is
/// damaged, and the map must serve.
pub(super) async fn read<E: Endpoint, T: Technique<E>>(
    forge: &Forge<E, T>,
    chunk: ChunkId,
    generation: u32,
    objects: usize,
) -> Result<Option<LeavingParts>, CacheError> {
    let client = forge.client();
    let layout = &client.pool.layout;
    let mut bytes = Buffer::new();
    bytes.resize(layout.chunk_bytes as usize);
    let mut bytes = client.endpoint.read(layout.chunk(chunk), bytes).await?;
    let mut records = forge.parse(&mut bytes, generation);
    if records.len() < objects {
        return Ok(None);
    }
    records.truncate(objects);
    let mut entries = Vec::with_capacity(objects);
    for part in records.chunks(BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        for record in part {
            let mut bucket = Buffer::new();
            bucket.resize(8 * BUCKET_SLOTS);
            batch.read(forge.bucket_at(forge.bucket_now(record.hash)), bucket);
        }
        client.endpoint.post(&mut batch).await?;
        for (index, record) in part.iter().enumerate() {
            let bucket = batch.take_nth(index);
            let map = &bytes.words()[bytes.words().len() - objects..];
            let MapEntry { carry, .. } = MapEntry::from_word(map[objects - 1 - entries.len()]);
            let first = forge.home_slot(record.hash, 0);
            let entry = MapEntry { carry, ..record.map_entry(first) };
            let words = bucket.words().iter().map(|word| Slot(*word));
            let mut here = words.enumerate().filter(|(_, word)| forge.points_to(*word, chunk, generation, &entry));
            let found = here.next();
            if found.is_some_and(|(_, word)| word.is_frozen()) {
                // The map finds the slot once its bucket has been split.
                return Ok(None);
            }
            entries.push(match found {
                Some((place, word)) => (MapEntry { slot: first + place as u64, ..entry }, Some(word)),
                None => (entry, None),
            });
        }
    }
    Ok(Some(LeavingParts { entries, is_known: true, bytes }))
}
