//! Promise 2: expiry follows the pool's clock within the stated skew.

use atoll_cases::promises::faults_do_no_harm;
use atoll_cases::{
    Case, CliqueMapSubject, DittoSubject, FaultyCase, ForgeSubject, GlCacheSubject, KvsSubject, Load, QueuesSubject,
    Subject,
};
use atoll_sim::Faults;
use atoll_sim::history::Evictions;

/// Runs in which nothing is evicted, so that only an expiry explains a miss. Wall clocks are wrong
/// by up to years, and monotone clocks run at rates of their own.
fn nothing_is_served_late_or_lost_early<S: Subject>(seeds: u64) {
    let runs = faults_do_no_harm(seeds, |seed| {
        let drawn = FaultyCase::<S>::drawn(seed);
        let load = Load { operations: 60, mixed: true, expiring: true, value_bytes_max: 200, ..drawn.case.load };
        let roomy = Case { chunks: 400, slots: 1024, objects_max: 0, evictions: Evictions::Never, ..drawn.case };
        let faults = Faults {
            clock_jumps_max: 4,
            clock_jump_ms_max: drawn.faults.clock_jump_ms_max,
            clock_drift_per_mille_max: 200,
            ns_max: 10_000_000,
            ..Faults::host(0, 4, 200)
        };
        FaultyCase { case: Case { load, ..roomy }, faults, resized_chunks: 0, ..drawn }
    });
    let hits: usize = runs.iter().map(|run| run.checked.hits).sum();
    assert!(hits > 1000, "{hits} hits show little");
}

#[test]
fn promise_2_no_engine_serves_anything_after_its_expiry_or_loses_anything_before() {
    nothing_is_served_late_or_lost_early::<ForgeSubject>(150);
    nothing_is_served_late_or_lost_early::<GlCacheSubject>(40);
    nothing_is_served_late_or_lost_early::<DittoSubject>(80);
    nothing_is_served_late_or_lost_early::<KvsSubject>(80);
    nothing_is_served_late_or_lost_early::<QueuesSubject>(40);
    nothing_is_served_late_or_lost_early::<CliqueMapSubject>(40);
}
