//! A seed is the same run on every machine: digests of runs with every relaxation and every fault,
//! against numbers that are committed.
//!
//! A change to the simulator that changes what seeds mean changes them: take the new ones over from
//! the failing test, and say so.

use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind, VerbError};
use atoll_sim::sim::region;
use atoll_sim::{Faults, Fencing, Relaxations, Sim, SimEndpoint, SimOptions};

const FAULTS: Faults = Faults {
    kills_max: 2,
    pauses_max: 3,
    unknowns_max: 3,
    link_cuts_max: 2,
    slow_nodes_max: 2,
    node_losses_max: 1,
    clock_jumps_max: 2,
    clock_jump_ms_max: 10_000,
    clock_drift_per_mille_max: 3,
    steps_between: 150,
    ns_max: 1_000_000,
};

/// A bit of everything, until an error that does not go away.
async fn play(endpoint: SimEndpoint) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    for _ in 0..40 {
        let node = (endpoint.random() % 2) as u8;
        let mut data = Buffer::new();
        data.resize(8 * (1 + (endpoint.random() % 90) as usize));
        data.words_mut().fill(endpoint.unix_ms() ^ endpoint.now_ns());
        batch.write(Address::new(node, 0, 1024), data);
        batch.compare_and_swap(Address::new(0, 0, 0), endpoint.random() % 4, endpoint.random() % 4);
        batch.read_word(Address::new(node, 0, 1024 + 8 * (endpoint.random() % 90)));
        match endpoint.post(&mut batch).await {
            Ok(()) | Err(VerbError::OutcomeUnknown) => {}
            Err(error) => return Err(error),
        }
        batch.clear();
        batch.fetch_and_add(Address::new(node, 0, 8), 1);
        endpoint.post_unawaited(&mut batch);
        endpoint.pause(endpoint.random() % 1000).await;
        if endpoint.random().is_multiple_of(8) {
            let _ = endpoint.shut_out(atoll_fabric::Identity::from_bits(1 + (endpoint.random() % 6) as u32)).await?;
        }
    }
    endpoint.flush().await
}

fn digest(seed: u64) -> u64 {
    let nodes = vec![vec![region(4096, Kind::Host)], vec![region(4096, Kind::Host)]];
    let options = SimOptions::with_nodes(seed, nodes);
    // What a wall clock shows is part of what is written, and so of the digest.
    let relaxations = Relaxations { wall_clock_skew_ms_max: 20, ..options.relaxations };
    let sim = Sim::new(SimOptions { faults: FAULTS, fencing: Fencing::Forced, relaxations, ..options });
    let spawn = |name: String| {
        let endpoint = sim.endpoint(&name);
        sim.spawn(&name, async move { drop(play(endpoint).await) });
    };
    (0..4).for_each(|number| spawn(format!("client {number}")));
    let control = sim.control();
    sim.spawn_spared("driver", async move {
        while let Some(dead) = control.next_killed().await {
            let endpoint = control.endpoint("successor");
            control.spawn(&format!("after {}", control.name(dead)), async move { drop(play(endpoint).await) });
        }
    });
    sim.run().unwrap().digest
}

#[test]
fn seeds_with_faults_have_the_digests_that_they_always_had() {
    let digests: Vec<u64> = (0..8).map(digest).collect();
    assert_eq!(digests, DIGESTS, "{digests:#x?}");
}

const DIGESTS: [u64; 8] = [
    0x24c9_97a6_91c6_0b04,
    0xdeaf_4ed1_0107_6a38,
    0x87cb_82f6_7864_2694,
    0x4b82_337f_df68_db8e,
    0x4d7f_2d07_a6bf_e735,
    0x8cc0_4a93_e2cb_3e59,
    0x70e7_6173_8efe_c047,
    0x60e6_30b9_55d8_ef2a,
];
