//! Seeds of the swarm that once ended in a failure.

use atoll_cases::engine::SimulatedEngine::{Ditto, Forge, Kvs, Queues};

/// What a seed draws changes with the relaxations that there are; so each fault has a test of its
/// own, too.
#[test]
fn seeds_that_failed_once_do_not_any_more() {
    let failed_once = [
        (Forge, 60_504),
        (Forge, 1_795_417_092_021_482),
        (Forge, 1_795_430_848_107_328),
        (Forge, 1_795_433_488_093_929),
        (Forge, 1_795_512_177_004_351),
        (Forge, 1_795_512_177_009_208),
        (Forge, 1_795_512_177_014_109),
        (Forge, 1_795_512_177_023_379),
        (Forge, 1_795_557_704_116_563),
        (Queues, 3_059_358),
        (Queues, 1_795_428_688_007_940),
        (Queues, 1_795_486_415_002_606),
        (Queues, 1_795_486_415_004_615),
        (Queues, 1_795_486_415_007_009),
        (Queues, 1_795_486_415_033_898),
        (Queues, 1_795_486_415_037_117),
        (Ditto, 1_795_428_328_008_337),
        (Ditto, 1_795_432_168_033_245),
        (Ditto, 1_795_432_168_039_392),
        (Ditto, 1_795_467_161_045_356),
        (Ditto, 1_795_486_055_023_735),
        (Ditto, 1_795_486_055_038_116),
        (Kvs, 1_795_512_417_015_369),
        (Kvs, 1_795_512_417_024_024),
    ];
    for (engine, seed) in failed_once {
        if let Err(what) = engine.run_seed(seed) {
            panic!("atoll sim replay --engine {} --seed {seed}: {what}", engine.name());
        }
    }
}
