//! Orders that matter to `forge`.

use super::script::{Errand, Script, direct, directed, pool_of, state_of, until};
use atoll_cache::forge::slot::{Slot, SlotFormat};
use atoll_cache::forge::{ForgeOptions, Hole, Queue};
use atoll_cache::{CacheError, Engine, Pooled};
use atoll_cases::{Case, Client, ForgePoolWords, Forged, Stop, Stops, load};
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Address, Batch, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks, read_word};
use std::cell::Cell;
use std::rc::Rc;

/// Plays a script, which goes well while the hole is closed, and wrong while it is open.
fn show(hole: Hole, run: impl Fn(Option<Hole>) -> Result<(), String>) {
    run(None).unwrap();
    let error = run(Some(hole)).expect_err("the hole is open");
    println!("{hole:?}: {}", error.lines().next().unwrap_or_default());
}

fn is_swap_of(verb: &Verb, slots: &[Address], becomes: impl Fn(Slot) -> bool) -> bool {
    let Operation::CompareAndSwap { desired, .. } = verb.operation else { return false };
    becomes(Slot(desired)) && slots.contains(&verb.at)
}

/// A writer dies when the slot has changed on one node, and its record has not reached the other.
#[test]
fn what_one_node_says_of_another_was_there_before() {
    show(Hole::UnorderedNodes, |hole| {
        let case = Case { clients: 3, nodes: 3, chunks: 24, hole, ..Case::default() };
        directed(&case, 1, |script, client: Client| async move {
            match client.number {
                0 | 1 => return script.serve(client).await,
                _ => {}
            }
            let words = ForgePoolWords { pool: client.cache.engine().shared().clone() };
            let slots: Vec<_> = words.slots().collect();
            for key in 0..200 {
                let slots = slots.clone();
                let overtakes =
                    script.stops(0).overtaking(move |verb| is_swap_of(verb, &slots, |word| !word.is_free()));
                script.begin(0, Errand::Set(format!("k{}", key % 20), 60));
                until(&client, || overtakes.is_reached() || script.has_ended(0)).await;
                if overtakes.is_reached() {
                    break;
                }
                overtakes.release();
            }
            script.kill(0);
            script.errand(1, Errand::Repair, &client).await;
            for key in 0..20 {
                script.errand(1, Errand::Get(format!("k{key}")), &client).await;
            }
            if client.cache.engine().stats().damaged > 0 {
                return Err(CacheError::Damaged { what: "a slot points to no record" });
            }
            Ok(client)
        })
    });
}

/// A lookup has found where the object is. Its chunk is used anew for a record of the same key,
/// which is written and not published; the writer dies then.
#[test]
fn a_lookup_never_gives_a_record_of_a_later_life_of_its_chunk() {
    show(Hole::Generation, |hole| {
        let case = Case { clients: 3, chunk_bytes: 256, chunks: 10, group_objects_max: 1, hole, ..Case::default() };
        directed(&case, 1, |script, mut client: Client| async move {
            match client.number {
                0 | 1 => return script.serve(client).await,
                _ => {}
            }
            client.set(b"k", load::unique_value(2, 0, 30)).await?;
            let layout = pool_of(&client).layout.clone();
            let (chunk, _) = chunks_with_objects(&client).await?[0];
            let at = layout.chunk(chunk);
            let is_read = |operation: &Operation| matches!(operation, Operation::Read { .. });
            let reads = script.stops(0).before(move |verb| verb.at == at && is_read(&verb.operation));
            script.begin(0, Errand::Get("k".to_owned()));
            let endpoint = &client.cache.engine().client().endpoint;
            reads.reached(endpoint).await;
            let words = ForgePoolWords { pool: client.cache.engine().shared().clone() };
            let slots: Vec<_> = words.slots().collect();
            let publishes = script.stops(1).before_behind_write(at, move |verb| is_swap_of(verb, &slots, |_| true));
            for step in 0..500 {
                let _ = step;
                script.begin(1, Errand::Set("k".to_owned(), 30));
                until(&client, || publishes.is_reached() || script.has_ended(1)).await;
                if publishes.is_reached() {
                    break;
                }
            }
            assert!(publishes.is_reached(), "the chunk is never used anew");
            script.kill(1);
            reads.release();
            script.ended(0, &client).await;
            client.get(b"k").await?;
            Ok(client)
        })
    });
}

/// The chunks of this pool that live slots point into, as they are now.
async fn chunks_with_objects(client: &Client) -> Result<Vec<(ChunkId, chunks::Descriptor)>, CacheError> {
    let (layout, endpoint) = (&pool_of(client).layout, &client.cache.engine().client().endpoint);
    let format = SlotFormat::new(layout.heap_bytes_max());
    let words = ForgePoolWords { pool: client.cache.engine().shared().clone() };
    let mut found = Vec::new();
    for slot in words.slots() {
        let word = Slot(read_word(endpoint, slot).await?);
        let chunk = ChunkId((format.heap_offset(word) / layout.chunk_bytes) as u32);
        if word.is_live() {
            found.push((chunk, chunks::descriptors(endpoint, layout, chunk, 1).await?[0]));
        }
    }
    Ok(found)
}

/// In front of the swap that puts a group into a queue.
fn before_enqueue(client: &Client, stops: &Stops) -> Rc<Stop> {
    let words = ForgePoolWords { pool: client.cache.engine().shared().clone() };
    stops.before(move |verb| {
        let fills = matches!(verb.operation, Operation::CompareAndSwap { desired, .. } if desired >> 63 == 1);
        fills && words.is_node(verb.at)
    })
}

/// Client 0 makes room for an object and takes the head's ticket: until it owns the group, a
/// repairer finds its node behind the head. Client 0 puts the group back, because it was looked up,
/// and the repairer wants to steal what it has found.
#[test]
fn a_group_that_was_put_back_is_not_stolen() {
    let subject = Forged { options: ForgeOptions::paper(), ..Forged::default() };
    let case = Case { clients: 3, objects_max: 1, group_objects_max: 1, subject, ..Case::default() };
    direct(&case, 1, |script, mut client| async move {
        match client.number {
            0 => {
                let looked_up = async |client: &mut Client| {
                    client.set(b"a", vec![1; 40]).await?;
                    client.get(b"a").await.map(drop)
                };
                script.on_cue(1, &mut client, looked_up).await?;
                script.on_cue(2, &mut client, async |client| client.set(b"b", vec![2; 40]).await).await?;
            }
            1 => {
                for cue in 1..=2 {
                    let repair = async |client: &mut Client| client.cache.engine().repair().await.map(drop);
                    script.on_cue(cue, &mut client, repair).await?;
                }
            }
            _ => {
                let endpoint = &client.cache.engine().client().endpoint;
                script.played(0, &client).await;
                let (chunk, _) = chunks_with_objects(&client).await?[0];
                let descriptor = pool_of(&client).layout.descriptor(chunk);
                let owns = script.stops(0).before_swap(descriptor);
                script.cue(0);
                owns.reached(endpoint).await;
                let steals = script.stops(1).before_swap(descriptor);
                script.cue(1);
                steals.reached(endpoint).await;
                let enqueues = before_enqueue(&client, &script.stops(0));
                owns.release();
                enqueues.reached(endpoint).await;
                assert_eq!(state_of(&client, chunk).await?.state, ChunkState::Queued, "it was put back");
                steals.release();
                script.ended(1, &client).await;
                let dies = script.stops(0).before_batch(0);
                enqueues.release();
                dies.reached(endpoint).await;
                script.kill(0);
                script.played(1, &client).await;
            }
        }
        Ok(client)
    });
}

/// A ticket that nobody has any more leaves a group's node behind the head, and two clients repair
/// that. The first has found it when the second puts the group, which is its own, into the queue
/// again.
#[test]
fn a_group_that_was_settled_is_not_stolen() {
    let case = Case { clients: 3, group_objects_max: 1, ..Case::default() };
    direct(&case, 1, |script, mut client: Client| async move {
        let repair = async |client: &mut Client| client.cache.engine().repair().await.map(drop);
        match client.number {
            0 => {
                script.on_cue(1, &mut client, async |client| client.set(b"a", vec![1; 40]).await).await?;
                script.on_cue(2, &mut client, repair).await?;
            }
            1 => script.on_cue(1, &mut client, repair).await?,
            _ => {
                let endpoint = &client.cache.engine().client().endpoint;
                script.played(0, &client).await;
                let (chunk, _) = chunks_with_objects(&client).await?[0];
                let words = ForgePoolWords { pool: client.cache.engine().shared().clone() };
                let mut ticket = Batch::new();
                ticket.fetch_and_add(words.cursors(Queue::Small), 1);
                endpoint.post(&mut ticket).await?;
                let steals = script.stops(1).before_swap(pool_of(&client).layout.descriptor(chunk));
                script.cue(1);
                steals.reached(endpoint).await;
                let enqueues = before_enqueue(&client, &script.stops(0));
                script.cue(0);
                enqueues.reached(endpoint).await;
                steals.release();
                script.ended(1, &client).await;
                enqueues.release();
                script.ended(0, &client).await;
            }
        }
        Ok(client)
    });
}

/// A client that has read a slot protects the chunk behind it while it swaps the slot. The chunk's
/// owner has died, and nothing points into it.
#[test]
fn a_repair_frees_no_chunk_that_a_change_protects() {
    let case = Case { clients: 3, ..Case::default() };
    direct(&case, 1, |script, mut client: Client| async move {
        match client.number {
            0 => {
                script.on_cue(1, &mut client, async |client| client.set(b"a", vec![1; 40]).await).await?;
                return script.wait(client).await;
            }
            1 => {
                for cue in 1..=2 {
                    let repair = async |client: &mut Client| client.cache.engine().repair().await.map(drop);
                    script.on_cue(cue, &mut client, repair).await?;
                }
            }
            _ => {
                script.played(0, &client).await;
                let (chunk, _) = chunks_with_objects(&client).await?[0];
                client.delete(b"a").await?;
                script.kill(0);
                let (me, endpoint) = (client.cache.engine().client().me(), &client.cache.engine().client().endpoint);
                let protection = pool_of(&client).layout.protection(me.slot, 0);
                // What ends a protection of its own may be under way.
                endpoint.flush().await?;
                let mut batch = Batch::new();
                batch.write_word(protection, u64::from(me.epoch) << 32 | (u64::from(chunk.0) + 1));
                endpoint.post(&mut batch).await?;
                let before = state_of(&client, chunk).await?;
                script.played(1, &client).await;
                let after = state_of(&client, chunk).await?;
                assert_eq!((after.state, after.generation), (ChunkState::Leaving, before.generation));
                let mut batch = Batch::new();
                batch.write_word(protection, 0);
                endpoint.post(&mut batch).await?;
                script.played(1, &client).await;
            }
        }
        Ok(client)
    });
}

/// A cleaner reads what a group holds while the group is open, and that it is queued and mostly
/// dead after its owner has closed it.
#[test]
fn a_group_is_judged_by_what_its_descriptor_says_once_it_is_owned() {
    const SEEDS: u64 = 20;
    let looked = Rc::new(Cell::new(0));
    for seed in 0..SEEDS {
        let case = Case { clients: 3, chunks: 18, slots: 256, group_objects_max: 4, ..Case::default() };
        let looked = looked.clone();
        direct(&case, seed, move |script, client: Client| {
            let looked = looked.clone();
            async move {
                match client.number {
                    0 | 1 => script.serve(client).await,
                    _ => clean_while_a_group_is_closed(script, client, looked).await,
                }
            }
        });
    }
    // A cleaner looks at some chunks only.
    println!("{} of {SEEDS} cleaners looked at the group", looked.get());
    assert!(looked.get() > 0);
}

async fn clean_while_a_group_is_closed(
    script: Rc<Script>,
    client: Client,
    looked: Rc<Cell<u32>>,
) -> Result<Client, CacheError> {
    // The cleaner has an open group with room, and will want more chunks than are free.
    script.errand(1, Errand::Set("cleaner's".to_owned(), 10), &client).await;
    let (layout, endpoint) = (pool_of(&client).layout.clone(), &client.cache.engine().client().endpoint);
    let (mut key, mut open) = (0, None);
    while open.is_none() {
        script.errand(0, Errand::Set(format!("f{key}"), 60), &client).await;
        key += 1;
        let is_full = chunks::free_chunks(endpoint, &layout).await? < 3;
        // What was never closed tells of no objects.
        let is_first = |each: &chunks::Descriptor| {
            let is_owners = |chunk: Chunk| chunk.state == ChunkState::Open && chunk.owner_slot == 0;
            each.contents == 0 && each.chunk.is_some_and(is_owners)
        };
        let objects = chunks_with_objects(&client).await?;
        open = objects.iter().find(|(_, each)| is_full && is_first(each)).map(|(chunk, _)| *chunk);
        if key == 200 {
            return Ok(client);
        }
    }
    let chunk = open.expect("the loop has ended");
    // A search for a free chunk READs the count of them beside the descriptors.
    let is_word = |verb: &Verb| matches!(verb.operation, Operation::ReadWord { .. });
    let cleans = move |verbs: &[Verb]| !verbs.iter().any(is_word);
    let looks = script.stops(1).within_read(layout.contents(chunk), cleans);
    script.begin(1, Errand::Set("large".to_owned(), 2400));
    until(&client, || looks.is_reached() || script.has_ended(1)).await;
    if !looks.is_reached() {
        return Ok(client);
    }
    looked.set(looked.get() + 1);
    let first = key - 1;
    while state_of(&client, chunk).await?.state == ChunkState::Open {
        script.errand(0, Errand::Set(format!("f{key}"), 60), &client).await;
        key += 1;
    }
    for dead in first..key - 1 {
        script.errand(0, Errand::Delete(format!("f{dead}")), &client).await;
    }
    looks.release();
    script.ended(1, &client).await;
    Ok(client)
}
