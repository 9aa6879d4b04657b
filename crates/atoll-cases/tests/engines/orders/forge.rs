//! Orders that matter to `forge`.

use super::script::{Command, Director, count, direct, pool_of, show_order, state_of};
use atoll_cache::forge::slot::{KeyHash, Slot, SlotFormat};
use atoll_cache::forge::{ForgeOptions, Hole, Queue};
use atoll_cache::record::{self, Hasher, Record};
use atoll_cache::{CacheError, Engine, Pooled};
use atoll_cases::{Case, Client, ForgePoolWords, ForgeSubject, Stop, load};
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::registry::Protection;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks, read_word};
use atoll_sim::Distance;
use std::collections::HashMap;
use std::rc::Rc;

fn words_of(client: &Client) -> ForgePoolWords {
    ForgePoolWords { pool: client.cache.engine().shared().clone() }
}

fn is_swap_of(verb: &Verb, slots: &[Address], becomes: impl Fn(Slot) -> bool) -> bool {
    let Operation::CompareAndSwap { desired, .. } = verb.operation else { return false };
    becomes(Slot(desired)) && slots.contains(&verb.at)
}

/// A writer dies when the slot has changed on one node, and its record has not reached the other.
#[test]
fn what_one_node_says_of_another_was_there_before() {
    let case = Case { clients: 3, nodes: 3, chunks: 24, ..Case::default() };
    show_order(Hole::UnorderedNodes, 1..2, &case, async |director| {
        let slots: Vec<_> = words_of(director).slots().collect();
        for key in 0..200 {
            let slots = slots.clone();
            let is_swap = move |verb: &Verb| is_swap_of(verb, &slots, |word| !word.is_free());
            let overtakes = director.stops(0).overtaking(is_swap);
            director.begin(0, Command::Set(format!("k{}", key % 20), 60));
            if director.stops_at(&overtakes, 0).await {
                break;
            }
            overtakes.release();
        }
        director.kill(0);
        director.tell(1, Command::Repair).await;
        for key in 0..20 {
            director.tell(1, Command::Get(format!("k{key}"))).await;
        }
        match director.cache.engine().stats().damaged {
            0 => Ok(()),
            _ => Err(CacheError::Damaged { what: "a slot points to no record" }),
        }
    });
}

/// A lookup has found where the object is. Its chunk is reused for a record of the same key, which
/// is written and not published; then the writer dies.
#[test]
fn a_lookup_never_gives_a_record_of_a_later_life_of_its_chunk() {
    let case = Case { clients: 3, chunk_bytes: 256, chunks: 10, group_objects_max: 1, ..Case::default() };
    show_order(Hole::Generation, 1..2, &case, async |director| {
        director.set(b"k", load::unique_value(2, 0, 60)).await?;
        let (chunk, _) = chunks_with_objects(director).await?[0];
        let at = pool_of(director).layout.chunk(chunk);
        let is_read = |operation: &Operation| matches!(operation, Operation::Read { .. });
        let reads = director.stops(0).before(move |verb| verb.at == at && is_read(&verb.operation));
        director.begin(0, Command::Get("k".to_owned()));
        director.reached(&reads).await;
        let slots: Vec<_> = words_of(director).slots().collect();
        let publishes = director.stops(1).before_behind_write(at, move |verb| is_swap_of(verb, &slots, |_| true));
        for _ in 0..500 {
            director.begin(1, Command::Set("k".to_owned(), 60));
            if director.stops_at(&publishes, 1).await {
                break;
            }
        }
        assert!(publishes.is_reached(), "the chunk is never reused");
        director.kill(1);
        director.finish(&reads, 0).await;
        director.get(b"k").await.map(drop)
    });
}

/// A blind SET is under way for so long that its slot has the word again by which the client knew
/// the key's object, for another key: the chunk was reused as often as the tag has values. A client
/// far from memory remembered the word. One near it had READ the bucket, and stood still then.
#[test]
fn a_set_that_was_under_way_for_long_leaves_no_second_object_of_its_key() {
    for distance in [Distance::Far, Distance::Near] {
        let case = Case { clients: 3, distance, ..Case::default() };
        show_order(Hole::UncheckedSwap, 1..2, &case, async |director| {
            let (key, other) = colliding_keys(director);
            director.tell(1, Command::Set(key.clone(), 60)).await;
            let (slot, word) = live_slot(director).await?;
            // Only a client whose group has room replaces an object blindly.
            director.tell(0, Command::Set("another".to_owned(), 60)).await;
            director.tell(0, Command::Get(key.clone())).await;
            let protects = director.stops(0).before(|verb| matches!(verb.operation, Operation::WriteWord { .. }));
            director.begin(0, Command::Set(key.clone(), 60));
            director.reached(&protects).await;
            director.tell(1, Command::Delete(key.clone())).await;
            put_behind(director, (slot, word), other.as_bytes()).await?;
            director.tell(1, Command::Set(key.clone(), 60)).await;
            // Longer than an operation relies on a tag.
            director.endpoint().pause(30_000_000).await;
            director.finish(&protects, 0).await;
            director.tell(1, Command::Delete(key.clone())).await;
            director.get(key.as_bytes()).await.map(drop)
        });
    }
}

/// The head of a record may end in front of its key. It is then no head of the empty key.
#[test]
fn a_set_of_the_empty_key_replaces_no_other_object() {
    for distance in [Distance::Far, Distance::Near] {
        let case = Case { clients: 1, distance, ..Case::default() };
        direct(&case, 1, async |director: &Director| {
            let settings = (pool_of(director).settings.hash_seed, director.cache.engine().shared().settings().buckets);
            let hash = |key: &str| KeyHash::new(Hasher::new(settings.0).hash(key.as_bytes()), settings.1);
            let place = |key: &str| (hash(key).bucket, hash(key).fingerprint);
            let is_beside = |number: &u32| place(&format!("{number:040}")) == place("");
            let other = format!("{:040}", (0..1_000_000).find(is_beside).expect("a fingerprint has eight bits"));
            for round in 0..3 {
                director.set(other.as_bytes(), load::unique_value(0, round, 60)).await?;
                director.set(b"", load::unique_value(0, 10 + round, 60)).await?;
                assert_eq!(director.cache.objects().await?, 2, "no object was replaced by another key's");
            }
            director.get(other.as_bytes()).await.map(drop)?;
            director.get(b"").await.map(drop)
        });
    }
}

/// Makes an empty slot point to a record of another key, as if the chunk had been reused until its
/// tag came back. A record of a key of the same length was there before.
async fn put_behind(client: &Client, (slot, word): (Address, Slot), key: &[u8]) -> Result<(), CacheError> {
    let layout = &pool_of(client).layout;
    let hasher = Hasher::new(pool_of(client).settings.hash_seed);
    let format = SlotFormat::new(layout.heap_bytes_max());
    let at = layout.chunk(ChunkId(0)).add(format.heap_offset(word));
    let mut record = client.endpoint().read(at, Buffer::sized(word.length().bytes() as usize)).await?;
    let header = Record::decode(&record, &hasher, format.tag_of(word)).expect("nothing has reused it").header;
    record::encode_small(&mut record, &hasher, &header, key, &vec![1; header.value_bytes]);
    let mut batch = Batch::new();
    batch.write(at, record);
    let swap = batch.compare_and_swap(slot, 0, word.0);
    client.endpoint().post(&mut batch).await?;
    assert!(batch.swapped(swap), "the object was deleted");
    Ok(client.cache.engine().client().count_objects(1).await?)
}

/// Two keys of one length with one bucket and one fingerprint.
fn colliding_keys(client: &Client) -> (String, String) {
    let pool = client.cache.engine().shared();
    let hasher = Hasher::new(pool.pool().settings.hash_seed);
    let mut seen = HashMap::new();
    for number in 100_000..1_000_000 {
        let key = format!("k{number}");
        let hash = KeyHash::new(hasher.hash(key.as_bytes()), pool.settings().buckets);
        if let Some(before) = seen.insert((hash.bucket, hash.fingerprint), key.clone()) {
            return (before, key);
        }
    }
    panic!("a fingerprint has eight bits");
}

/// The only live slot of the pool.
async fn live_slot(client: &Client) -> Result<(Address, Slot), CacheError> {
    for slot in words_of(client).slots() {
        let word = Slot(read_word(client.endpoint(), slot).await?);
        if word.is_live() {
            return Ok((slot, word));
        }
    }
    panic!("an object is there");
}

/// The chunks of this pool that live slots point into, as they are now.
async fn chunks_with_objects(client: &Client) -> Result<Vec<(ChunkId, chunks::Descriptor)>, CacheError> {
    let (layout, endpoint) = (&pool_of(client).layout, client.endpoint());
    let format = SlotFormat::new(layout.heap_bytes_max());
    let mut found = Vec::new();
    for slot in words_of(client).slots() {
        let word = Slot(read_word(endpoint, slot).await?);
        let chunk = ChunkId((format.heap_offset(word) / layout.chunk_bytes) as u32);
        if word.is_live() {
            found.push((chunk, chunks::descriptors(endpoint, layout, chunk, 1).await?[0]));
        }
    }
    Ok(found)
}

/// In front of the swap by which a client puts a group into a queue.
fn before_enqueue(director: &Director, number: usize) -> Rc<Stop> {
    let words = words_of(director);
    director.stops(number).before(move |verb| {
        let fills = matches!(verb.operation, Operation::CompareAndSwap { desired, .. } if desired >> 63 == 1);
        fills && words.is_node(verb.at)
    })
}

/// Client 0 makes room for an object and takes the head's ticket. Until it owns the group, a
/// repairer finds its node behind the head. Client 0 puts the group back, because it was looked up,
/// and the repairer wants to steal what it has found.
#[test]
fn a_group_that_was_put_back_is_not_stolen() {
    let subject = ForgeSubject { options: ForgeOptions::paper(), ..ForgeSubject::default() };
    let case = Case { clients: 3, objects_max: 1, group_objects_max: 1, subject, ..Case::default() };
    direct(&case, 1, async |director| {
        director.tell(0, Command::Set("a".to_owned(), 40)).await;
        director.tell(0, Command::Get("a".to_owned())).await;
        let (chunk, _) = chunks_with_objects(director).await?[0];
        let descriptor = pool_of(director).layout.descriptor(chunk);
        let owns = director.stops(0).before_swap(descriptor);
        director.begin(0, Command::Set("b".to_owned(), 40));
        director.reached(&owns).await;
        let steals = director.stops(1).before_swap(descriptor);
        director.begin(1, Command::Repair);
        director.reached(&steals).await;
        let enqueues = before_enqueue(director, 0);
        owns.release();
        director.reached(&enqueues).await;
        assert_eq!(state_of(director, chunk).await?.state, ChunkState::Queued, "it was put back");
        director.finish(&steals, 1).await;
        let dies = director.stops(0).before_batch(0);
        enqueues.release();
        director.reached(&dies).await;
        director.kill(0);
        director.tell(1, Command::Repair).await;
        Ok(())
    });
}

/// A ticket of a client that is gone leaves a group's node behind the head, and two clients repair
/// that. The first has found the node when the second puts the group, which is its own, into the
/// queue again.
#[test]
fn a_group_that_was_settled_is_not_stolen() {
    let case = Case { clients: 3, group_objects_max: 1, ..Case::default() };
    direct(&case, 1, async |director: &Director| {
        director.tell(0, Command::Set("a".to_owned(), 40)).await;
        let (chunk, _) = chunks_with_objects(director).await?[0];
        let mut ticket = Batch::new();
        ticket.fetch_and_add(words_of(director).cursors(Queue::Small), 1);
        director.endpoint().post(&mut ticket).await?;
        let steals = director.stops(1).before_swap(pool_of(director).layout.descriptor(chunk));
        director.begin(1, Command::Repair);
        director.reached(&steals).await;
        let enqueues = before_enqueue(director, 0);
        director.begin(0, Command::Repair);
        director.reached(&enqueues).await;
        director.finish(&steals, 1).await;
        director.finish(&enqueues, 0).await;
        Ok(())
    });
}

/// A client that has read a slot protects the chunk behind it while it swaps the slot. The chunk's
/// owner has died, and nothing points into the chunk.
#[test]
fn a_repair_frees_no_chunk_that_a_change_protects() {
    let case = Case { clients: 3, ..Case::default() };
    direct(&case, 1, async |director: &Director| {
        director.tell(0, Command::Set("a".to_owned(), 40)).await;
        let (chunk, _) = chunks_with_objects(director).await?[0];
        director.delete(b"a").await?;
        director.kill(0);
        let (client, endpoint) = (director.cache.engine().client(), director.endpoint());
        let mut protection = Protection::default();
        client.member().prepare(endpoint, &mut protection).await?;
        let mut batch = Batch::new();
        client.member().protect(&mut batch, &mut protection, chunk);
        endpoint.post(&mut batch).await?;
        let before = state_of(director, chunk).await?;
        director.tell(1, Command::Repair).await;
        let after = state_of(director, chunk).await?;
        assert_eq!((after.state, after.generation), (ChunkState::Leaving, before.generation));
        client.member().unprotect(endpoint, &mut protection);
        endpoint.flush().await?;
        director.tell(1, Command::Repair).await;
        Ok(())
    });
}

/// A cleaner READs what a group holds while the group is open. It READs that the group is queued
/// and mostly dead after the owner has closed it.
#[test]
fn a_group_is_judged_by_what_its_descriptor_says_once_it_is_owned() {
    let case = Case { clients: 3, chunks: 18, slots: 256, group_objects_max: 4, ..Case::default() };
    let looked = count(&case, 20, clean_while_a_group_is_closed);
    // A cleaner looks at some chunks only.
    assert!(looked > 0, "no cleaner looked at the group");
}

async fn clean_while_a_group_is_closed(director: &Director) -> Result<bool, CacheError> {
    // The cleaner has an open group with room, and will want more chunks than are free.
    director.tell(1, Command::Set("cleaner's".to_owned(), 10)).await;
    let (layout, endpoint) = (pool_of(director).layout.clone(), director.endpoint());
    let (mut key, mut open) = (0, None);
    while open.is_none() {
        director.set_keys(0, "f", key..key + 1).await;
        key += 1;
        let is_full = chunks::free_chunks(endpoint, &layout).await? < 3;
        // A group that was never closed tells of no objects.
        let is_first = |each: &chunks::Descriptor| {
            let is_owners = |chunk: Chunk| chunk.state == ChunkState::Open && chunk.owner_slot == 0;
            each.contents == 0 && each.chunk.is_some_and(is_owners)
        };
        let objects = chunks_with_objects(director).await?;
        open = objects.iter().find(|(_, each)| is_full && is_first(each)).map(|(chunk, _)| *chunk);
        if key == 200 {
            return Ok(false);
        }
    }
    let chunk = open.expect("the loop has ended");
    // A search for a free chunk READs the count of them beside the descriptors.
    let is_word = |verb: &Verb| matches!(verb.operation, Operation::ReadWord { .. });
    let cleans = move |verbs: &[Verb]| !verbs.iter().any(is_word);
    let looks = director.stops(1).within_read(layout.contents(chunk), cleans);
    director.begin(1, Command::Set("large".to_owned(), 2400));
    if !director.stops_at(&looks, 1).await {
        return Ok(false);
    }
    let first = key - 1;
    while state_of(director, chunk).await?.state == ChunkState::Open {
        director.set_keys(0, "f", key..key + 1).await;
        key += 1;
    }
    for dead in first..key - 1 {
        director.tell(0, Command::Delete(format!("f{dead}"))).await;
    }
    director.finish(&looks, 1).await;
    Ok(true)
}

/// A case in which each object has a group of its own, and a client far from memory remembers what
/// it has set.
fn lonely_objects() -> Case {
    Case { clients: 3, chunk_bytes: 256, group_objects_max: 1, distance: Distance::Far, ..Case::default() }
}

/// Client 1 sets a key, whose group is queued then. Returns its chunk.
async fn set_and_queue(director: &Director, key: &str) -> Result<ChunkId, CacheError> {
    director.tell(1, Command::Set(key.to_owned(), 60)).await;
    let (chunk, _) = chunks_with_objects(director).await?[0];
    director.tell(1, Command::Set("another".to_owned(), 60)).await;
    assert_eq!(state_of(director, chunk).await?.state, ChunkState::Queued, "a full group is queued");
    Ok(chunk)
}

/// A lookup has found where an object is. The next record but one of its key is written in the same
/// place and not published; then the writer dies.
#[test]
fn a_lookup_never_gives_a_record_in_the_place_of_another_that_is_not_published() {
    show_order(Hole::SameEdition, 1..2, &lonely_objects(), async |director| {
        let chunk = set_and_queue(director, "k").await?;
        let at = pool_of(director).layout.chunk(chunk);
        let is_read = |operation: &Operation| matches!(operation, Operation::Read { .. });
        let reads = director.stops(0).before(move |verb| verb.at == at && is_read(&verb.operation));
        director.begin(0, Command::Get("k".to_owned()));
        director.reached(&reads).await;
        director.tell(1, Command::Set("k".to_owned(), 60)).await;
        let slots: Vec<_> = words_of(director).slots().collect();
        let publishes = director.stops(1).before_behind_write(at, move |verb| is_swap_of(verb, &slots, |_| true));
        director.begin(1, Command::Set("k".to_owned(), 60));
        director.reached(&publishes).await;
        director.kill(1);
        director.finish(&reads, 0).await;
        director.get(b"k").await.map(drop)
    });
}

/// Client 1 stops where it is about to write a record in the place of one that it has replaced.
/// Returns the chunk, and the stop.
async fn come_to_a_vacancy(director: &Director) -> Result<(ChunkId, Rc<Stop>), CacheError> {
    let chunk = set_and_queue(director, "k").await?;
    director.tell(1, Command::Set("k".to_owned(), 60)).await;
    let writes = director.stops(1).before(is_word_written_to(entry_of(director, chunk, 0)));
    director.begin(1, Command::Set("k".to_owned(), 60));
    director.reached(&writes).await;
    Ok((chunk, writes))
}

/// The same. Meanwhile the group's next owner has READ its map, and lets the chunk wait.
async fn come_to_an_orphan(director: &Director) -> Result<Rc<Stop>, CacheError> {
    let (chunk, writes) = come_to_a_vacancy(director).await?;
    let mut keys = 0..300;
    while state_of(director, chunk).await?.state == ChunkState::Queued {
        let key = keys.next().expect("the group leaves its queue");
        director.set_keys(0, "f", key..key + 1).await;
    }
    assert_eq!(state_of(director, chunk).await?.state, ChunkState::Leaving, "the chunk is protected");
    Ok(writes)
}

#[test]
fn a_record_that_was_published_in_a_group_with_an_owner_is_moved_at_once() {
    show_order(Hole::UncheckedVacancy, 1..2, &lonely_objects(), async |director| {
        let writes = come_to_an_orphan(director).await?;
        director.finish(&writes, 1).await;
        // With the hole open nothing protects the chunk any more.
        director.tell(0, Command::Repair).await;
        director.set_keys(0, "g", 0..4).await;
        match director.get(b"k").await? {
            true => Ok(()),
            false => Err(CacheError::Damaged { what: "a record was dropped" }),
        }
    });
}

/// The dead client has published the object in the place where it was when the owner READ the map.
#[test]
fn an_owner_takes_no_object_for_known_whose_slot_it_has_not_read() {
    let case = Case { clients: 4, ..lonely_objects() };
    show_order(Hole::ForgottenOrphans, 1..2, &case, async |director| {
        let (chunk, writes) = come_to_a_vacancy(director).await?;
        let mut keys = 0..300;
        let looks = loop {
            let layout = pool_of(director).layout.clone();
            let is_firsts = move |at| layout.describe(at).is_some_and(|name| name.starts_with("first protections"));
            let looks = director
                .stops(0)
                .before(move |verb| matches!(verb.operation, Operation::Read { .. }) && is_firsts(verb.at));
            let key = keys.next().expect("the group leaves its queue");
            director.begin(0, Command::Set(format!("f{key}"), 60));
            if director.stops_at(&looks, 0).await && state_of(director, chunk).await?.state == ChunkState::Leaving {
                break looks;
            }
            looks.release();
            director.ended(0).await;
        };
        let published = director.stops(1).before_batch(0);
        writes.release();
        director.reached(&published).await;
        director.kill(1);
        director.tell(2, Command::Repair).await;
        director.finish(&looks, 0).await;
        Ok(())
    });
}

/// Client 1 publishes a record in a group, for whose map it writes this entry, and dies.
async fn publish_and_die(director: &Director, (entry, key): (Address, &str), meanwhile: impl AsyncFnOnce()) {
    let writes = director.stops(1).before(is_word_written_to(entry));
    director.begin(1, Command::Set(key.to_owned(), 60));
    director.reached(&writes).await;
    meanwhile().await;
    let published = director.stops(1).before_batch(0);
    writes.release();
    director.reached(&published).await;
    director.kill(1);
}

/// Where entry `number` of a chunk's map is. The map begins with its last entry.
fn entry_of(director: &Director, chunk: ChunkId, number: u64) -> Address {
    let layout = &pool_of(director).layout;
    layout.chunk(chunk).add(layout.chunk_bytes - 8 * (number + 1))
}

fn is_word_written_to(at: Address) -> impl Fn(&Verb) -> bool + 'static {
    move |verb| verb.at == at && matches!(verb.operation, Operation::WriteWord { .. })
}

fn is_write_to(at: Address) -> impl Fn(&Verb) -> bool + 'static {
    move |verb| verb.at == at && matches!(verb.operation, Operation::Write { .. })
}

/// A ticket without a node says that a group has no owner. A repairer queues it again.
#[test]
fn a_repairer_writes_over_no_entry_of_a_map() {
    let case = Case { chunk_bytes: 512, group_objects_max: 2, ..lonely_objects() };
    show_order(Hole::OverwrittenEntry, 1..2, &case, async |director| {
        for key in ["k", "l", "m"] {
            director.tell(1, Command::Set(key.to_owned(), 60)).await;
        }
        let (chunk, _) = chunks_with_objects(director).await?[0];
        director.tell(1, Command::Set("k".to_owned(), 60)).await;
        let writes = director.stops(0).before(is_write_to(entry_of(director, chunk, 1)));
        publish_and_die(director, (entry_of(director, chunk, 0), "m"), async || {
            let mut ticket = Batch::new();
            ticket.fetch_and_add(words_of(director).cursors(Queue::Small), 1);
            director.endpoint().post(&mut ticket).await.expect("the pool is there");
            director.begin(0, Command::Repair);
            director.stops_at(&writes, 0).await;
        })
        .await;
        director.finish(&writes, 0).await;
        director.tell(0, Command::Repair).await;
        director.tell(0, Command::Repair).await;
        director.set_keys(0, "g", 0..100).await;
        Ok(())
    });
}

/// The word of a key's slot. No other key here has its fingerprint.
async fn word_of(director: &Director, key: &str) -> Result<Slot, CacheError> {
    let pool = director.cache.engine().shared();
    let hasher = Hasher::new(pool.pool().settings.hash_seed);
    let hash = KeyHash::new(hasher.hash(key.as_bytes()), pool.settings().buckets);
    for slot in words_of(director).slots() {
        let word = Slot(read_word(director.endpoint(), slot).await?);
        if word.is_live() && word.fingerprint() == hash.fingerprint {
            return Ok(word);
        }
    }
    panic!("{key} is there");
}

/// An evictor puts a group back into its queue, because all its objects were looked up.
#[test]
fn an_evictor_writes_over_no_entry_of_a_map() {
    let case = Case { chunk_bytes: 512, group_objects_max: 2, ..lonely_objects() };
    show_order(Hole::OverwrittenEntry, 1..2, &case, async |director| {
        let layout = &pool_of(director).layout;
        let heap_offset = |word: Slot| SlotFormat::new(layout.heap_bytes_max()).heap_offset(word);
        let chunk_of = |word| ChunkId((heap_offset(word) / layout.chunk_bytes) as u32);
        let look_up = async |key: &str| {
            for _ in 0..3 {
                director.tell(0, Command::Get(key.to_owned())).await;
            }
        };
        for key in ["k", "l"] {
            director.tell(0, Command::Set(key.to_owned(), 60)).await;
            look_up(key).await;
        }
        let first = chunk_of(word_of(director, "k").await?);
        // Whatever is set is looked up, and so goes to the main queue.
        let mut keys = 0..1000;
        let begin_to_fill = |keys: &mut std::ops::Range<u64>| {
            let key = format!("f{}", keys.next().expect("the queues turn"));
            director.begin(0, Command::Set(key.clone(), 60));
            key
        };
        let mut chunk = first;
        while chunk == first || state_of(director, chunk).await?.state != ChunkState::Queued {
            let key = begin_to_fill(&mut keys);
            director.ended(0).await;
            look_up(&key).await;
            chunk = chunk_of(word_of(director, "k").await?);
        }
        let (k, l) = (word_of(director, "k").await?, word_of(director, "l").await?);
        let number = u64::from(heap_offset(k) > heap_offset(l));
        let generation = state_of(director, chunk).await?.generation as u16;
        assert_eq!(chunk_of(l), chunk);
        for key in ["k", "l"] {
            look_up(key).await;
        }
        for key in ["m", "k"] {
            director.tell(1, Command::Set(key.to_owned(), 60)).await;
        }
        let writes = director.stops(0).before(is_write_to(entry_of(director, chunk, 1)));
        publish_and_die(director, (entry_of(director, chunk, number), "m"), async || {
            for _ in 0..200 {
                let key = begin_to_fill(&mut keys);
                if director.stops_at(&writes, 0).await {
                    break;
                }
                look_up(&key).await;
            }
        })
        .await;
        director.finish(&writes, 0).await;
        director.tell(0, Command::Repair).await;
        director.tell(0, Command::Repair).await;
        // Until the chunk is reused.
        while state_of(director, chunk).await?.generation as u16 == generation {
            let key = begin_to_fill(&mut keys);
            director.ended(0).await;
            look_up(&key).await;
        }
        Ok(())
    });
}

#[test]
fn no_slot_points_to_what_a_dead_client_published_in_a_group_with_an_owner() {
    show_order(Hole::ForgottenOrphans, 1..2, &lonely_objects(), async |director| {
        let writes = come_to_an_orphan(director).await?;
        let published = director.stops(1).before_batch(0);
        writes.release();
        director.reached(&published).await;
        director.kill(1);
        director.tell(0, Command::Repair).await;
        director.tell(0, Command::Repair).await;
        director.set_keys(0, "g", 0..100).await;
        Ok(())
    });
}
