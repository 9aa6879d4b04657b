//! Groups that an evictor READs whole, without FORGE's lightweight regrouping.
//!
//! | step | verbs |
//! |---|---|
//! | find the records and their keys | READ the chunk |
//! | find the slot of each object | READ the bucket of each key |
//!
//! The map came with the rest. The evictor takes from it the frequency that an object brings from
//! an earlier group, for which a record has no place. It also takes the home slot of an object that
//! its bucket does not have: a split may just have moved the object, and then the evictor looks for
//! it once more by that number.

use atoll_cache::forge::Forge;
use atoll_cache::forge::group::MapEntry;
use atoll_cache::forge::layout::BUCKET_SLOTS;
use atoll_cache::forge::slot::Slot;
use atoll_cache::forge::technique::{LeavingParts, Technique};
use atoll_cache::{CacheError, Pooled};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;

/// READs a whole group that this client owns, and finds the slot of each of its objects by the
/// object's key. `None` if an object of the map has no record: it was never written, or is
/// damaged. Then the map must serve. A record that the map does not have is no object's: its
/// insertion withdrew.
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
    let mut parsed = forge.parse(&mut bytes, generation).into_iter();
    let map = bytes.words()[bytes.words().len() - objects..].iter().rev();
    let mut records = Vec::with_capacity(objects);
    for entry in map.map(|word| MapEntry::from_word(*word)) {
        // Both are in the order of their places.
        let Some(record) = parsed.find(|record| record.map_entry(0).offset_units == entry.offset_units) else {
            return Ok(None);
        };
        records.push((record, entry));
    }
    let mut entries = Vec::with_capacity(objects);
    for part in records.chunks(BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        for (record, _) in part {
            let mut bucket = Buffer::new();
            bucket.resize(8 * BUCKET_SLOTS);
            batch.read(forge.bucket_at(forge.bucket_now(record.hash)), bucket);
        }
        client.endpoint.post(&mut batch).await?;
        for (index, (record, of_map)) in part.iter().enumerate() {
            let bucket = batch.take_nth(index);
            let first = forge.home_slot(record.hash, 0);
            let entry = MapEntry { carry: of_map.carry, ..record.map_entry(of_map.slot) };
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
