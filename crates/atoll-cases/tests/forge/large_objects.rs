//! `forge` on the simulated fabric: promises 1 and 6 for large objects.

use atoll_cache::{Condition, SetOptions, Value};
use atoll_cases::promises::under_seeds;
use atoll_cases::{Case, ForgeSubject, load};
use atoll_fabric::Address;
use atoll_pool::ChunkId;
use atoll_sim::{Distance, Random};
use std::rc::Rc;

/// Extents of a large value are READ after the slot, and pass to another record when the object is
/// moved. A set-if-absent that is refused tells what it has READ.
#[test]
fn promise_1_a_change_of_a_large_object_never_decides_on_bytes_that_were_reused() {
    let case =
        |seed| Case { chunk_bytes: 256, chunks: 24 + seed % 8, group_objects_max: 1, clients: 4, ..Case::default() };
    under_seeds::<ForgeSubject, _, _>(1000, case, |case: &Case, seed| {
        case.run_part(seed, |client| async move {
            let mut random = client.random();
            for step in 0..60 {
                let key = if random.below(3) == 0 { b"a" } else { b"b" };
                let value = load::unique_value(client.number, step, 400 + random.below(300));
                let condition = if random.below(2) == 0 { Condition::Always } else { Condition::IfAbsent };
                client.set_returning(key, value, condition).await?;
                // Looked up often, it is moved to the main queue.
                client.cache.get(key, &mut Value::new()).await?;
            }
            Ok(client)
        })
    });
}

/// One bit of a value is changed in the pool. The object is dropped, whichever way it is looked up.
fn damaged(seed: u64) -> Result<(), String> {
    const MARK: u64 = 0x5eed_0000_0000_0000;
    let mut random = Random::stream(seed, 1);
    // Of several pieces that are hashed by themselves, and of several chunks.
    let words = 600 + random.below(1000);
    let value: Rc<[u8]> = (0..words).flat_map(|word| (MARK + word).to_le_bytes()).collect();
    let distance = if seed.is_multiple_of(2) { Distance::Near } else { Distance::Far };
    let case = Case::<ForgeSubject> { chunk_bytes: 4096, chunks: 32, clients: 1, distance, ..Case::default() };
    let (sim, pool) = case.formatted(seed)?;
    let history = Rc::default();
    let set = value.clone();
    case.play(&sim, &history, |client| {
        let value = set.clone();
        async move {
            client.cache.set(b"8 bytes.", &value, &SetOptions::default()).await?;
            let mut own = vec![0; value.len()];
            assert!(client.cache.get_to_slice(b"8 bytes.", &mut own).await?.is_some());
            assert_eq!(own, *value);
            Ok(client)
        }
    })?;
    let changed = MARK + random.below(words);
    let layout = &pool.pool().layout;
    let heap = layout.chunk(ChunkId(0)).offset()..layout.end();
    let mut places = heap.step_by(8).map(|offset| Address::new(0, 0, offset));
    let at = places.find(|at| sim.peek_word(*at) == changed).expect("the value is in the heap");
    sim.poke_word(at, changed ^ 1 << random.below(64));
    case.play(&sim, &history, |client| {
        let bytes = value.len();
        async move {
            let mut own = vec![0; bytes];
            let found = match seed / 2 % 2 {
                0 => client.cache.get_to_slice(b"8 bytes.", &mut own).await?.is_some(),
                _ => client.cache.get(b"8 bytes.", &mut Value::new()).await?,
            };
            assert!(!found, "a damaged value was given");
            assert!(client.cache.peek(b"8 bytes.").await?.is_none(), "it is dropped");
            Ok(client)
        }
    })
}

#[test]
fn promise_6_a_large_value_of_which_a_bit_has_changed_is_never_given() {
    under_seeds::<ForgeSubject, _, _>(100, |_| (), |(), seed| damaged(seed));
}
