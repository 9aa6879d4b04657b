//! `forge` on the simulated fabric: promise 1 for large objects.

use atoll_cache::{Condition, Value};
use atoll_cases::promises::under_seeds;
use atoll_cases::{Case, ForgeSubject, load};

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
