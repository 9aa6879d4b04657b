//! Promise 2 of the pool's clock: whatever clients' own clocks show, time passes as it does, and
//! for all clients alike.

use atoll_fabric::{Endpoint, Kind};
use atoll_pool::clock::{ESTIMATE_NS, OUTLIER_MS, REFRESH_NS, SKEW_MS};
use atoll_pool::{EngineArea, Pool, PoolClock, PoolSettings, boot};
use atoll_sim::sim::region;
use atoll_sim::{Control, Faults, Random, Relaxations, Sim, SimEndpoint, SimOptions, for_each_seed};
use std::cell::RefCell;
use std::rc::Rc;

const MS: u64 = 1_000_000;
const DAY_MS: u64 = 86_400_000;
/// How much too fast or too slow a client's monotone clock is at most, per mille.
const DRIFT_PER_MILLE: u64 = 200;

/// One client's look at the pool's clock, in true time.
#[derive(Clone, Copy, Debug)]
struct Look {
    client: u32,
    /// Whether the client reckons by the agent's clock.
    has_agent: bool,
    begun_ns: u64,
    ended_ns: u64,
    ms: u64,
    /// The word when the look had ended.
    word_ms: u64,
}

fn options(seed: u64, relaxations: Relaxations, faults: Faults) -> (SimOptions, PoolSettings) {
    let settings = PoolSettings::for_capacity(64 << 10);
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    (SimOptions { relaxations, faults, ..SimOptions::with_nodes(seed, nodes) }, settings)
}

fn formatted(sim: &Sim, settings: PoolSettings) -> (Rc<Pool>, u64) {
    let endpoint = sim.endpoint("maker");
    let pool = sim.block_on(async move { Pool::format(&endpoint, settings, EngineArea::default()).await });
    let pool = pool.unwrap().unwrap();
    let begun_ms = sim.peek_word(pool.layout.clock());
    (Rc::new(pool), begun_ms)
}

/// Looks by `clock`, and past the fabric at the word. What the clock says without a look is held
/// against that.
async fn look((control, endpoint): (&Control, &SimEndpoint), clock: &mut PoolClock, pool: &Pool, client: u32) -> Look {
    let word = |at| control.peek_word(at);
    let (begun_ns, now_ns) = (endpoint.virtual_ns(), endpoint.now_ns());
    // A maker without the agent's clock leaves all clients without its use.
    let has_agent = endpoint.agent_ms().is_some() && word(pool.layout.clock_offset()) != u64::MAX;
    let come_ms = word(pool.layout.clock());
    let is_ahead = clock.is_far_ahead(endpoint, come_ms, now_ns);
    assert!(!is_ahead, "a time that has come for another client is not ahead");
    let estimated_ms = clock.estimated_ms(endpoint, now_ns);
    let ms = clock.now_ms(endpoint, &pool.layout, now_ns).await.unwrap();
    if let Some(estimated_ms) = estimated_ms {
        // By as much as a slow clock falls behind a fast one meanwhile.
        let off_ms = SKEW_MS + ESTIMATE_NS / MS * 2 * DRIFT_PER_MILLE / (1000 - DRIFT_PER_MILLE);
        // The pool's time may stand still, until the agent's clock has caught up with the word. And
        // a look that is younger than a millisecond is not repeated.
        let is_sound = estimated_ms + off_ms >= come_ms.min(ms) && estimated_ms <= ms + ESTIMATE_NS / MS;
        assert!(is_sound, "{estimated_ms} ms, after {come_ms} and before {ms}");
    }
    Look { client, has_agent, begun_ns, ended_ns: endpoint.virtual_ns(), ms, word_ms: word(pool.layout.clock()) }
}

/// How long clients pause between looks: mostly for less than they judge by one value, for about as
/// long, for longer, and all for the same time, so that their swaps meet.
const PAUSES: [fn(&mut Random) -> u64; 4] =
    [|random| random.spread(12), |random| random.spread(20), |random| random.spread(23), |_| REFRESH_NS];

/// Looks of four clients, of which some come late, and the pool's time at the beginning.
fn looks(seed: u64, pause: fn(&mut Random) -> u64) -> (Vec<Look>, u64) {
    let mut faults = Faults::host(0, 200, 10);
    (faults.clock_drift_per_mille_max, faults.ns_max) = (DRIFT_PER_MILLE as u32, 50 * MS);
    let (options, settings) = options(seed, Relaxations::all(), faults);
    let sim = Sim::new(options);
    let (pool, begun_ms) = formatted(&sim, settings);
    let seen = Rc::new(RefCell::new(Vec::new()));
    for client in 0..4 {
        let (pool, seen, control, endpoint) = (pool.clone(), seen.clone(), sim.control(), sim.endpoint("client"));
        sim.spawn(&format!("client {client}"), async move {
            let (mut random, mut clock) = (Random::stream(seed, 100 + u64::from(client)), PoolClock::default());
            endpoint.pause(1 + random.spread(28)).await;
            for _ in 0..40 {
                endpoint.pause(1 + pause(&mut random)).await;
                let look = look((&control, &endpoint), &mut clock, &pool, client).await;
                seen.borrow_mut().push(look);
            }
        });
    }
    sim.run().unwrap();
    (seen.take(), begun_ms)
}

#[test]
fn promise_2_a_time_that_one_client_has_judged_by_is_over_for_every_client_within_the_skew() {
    for_each_seed(1000, |seed| {
        for pause in PAUSES {
            let (mut looks, _) = looks(seed, pause);
            looks.sort_by_key(|look| look.ended_ns);
            for later in &looks {
                // Else a client that looks for the first time could find the time earlier.
                assert!(later.ms <= later.word_ms, "seed {seed}: {later:?} judges by what the word never was");
                let ended = looks.partition_point(|look| look.ended_ns + SKEW_MS * MS <= later.begun_ns);
                let latest = looks[..ended].iter().max_by_key(|look| look.ms);
                if let Some(before) = latest.filter(|before| before.ms > later.ms) {
                    panic!("seed {seed}: {later:?} is behind {before:?}");
                }
                let own = looks.iter().filter(|look| look.client == later.client && look.ended_ns <= later.begun_ns);
                assert!(
                    own.map(|look| look.ms).max().is_none_or(|ms| ms <= later.ms),
                    "seed {seed}: {later:?} went back"
                );
            }
        }
    });
}

#[test]
fn promise_2_no_wall_clock_moves_the_pools_clock_and_no_client_moves_it_further_than_its_own_time_went() {
    let mut with_agents = 0;
    for_each_seed(1000, |seed| {
        for pause in PAUSES {
            let (looks, begun_ms) = looks(seed, pause);
            let have_agents = looks.iter().all(|look| look.has_agent);
            with_agents += u64::from(have_agents);
            let drift = if have_agents { 0 } else { DRIFT_PER_MILLE };
            for look in &looks {
                let most_ms = look.ended_ns * (1000 + drift) / 1000 / MS;
                assert!(look.ms - begun_ms <= most_ms, "seed {seed}: {look:?} is later than {begun_ms} + {most_ms} ms");
                let first = looks.iter().find(|first| first.client == look.client).unwrap();
                // What a client judges by is as old as it may be at most, and rounded down twice.
                // One that reckons by the agent's clock waits for that where others were too fast.
                let (since_ns, since_ms, slow) = match look.has_agent {
                    true => (0, begun_ms, 0),
                    false => (first.ended_ns, first.ms, DRIFT_PER_MILLE),
                };
                let passed_ns = look.begun_ns.saturating_sub(since_ns) * (1000 - slow) / 1000;
                let least_ms = since_ms + passed_ns.saturating_sub(REFRESH_NS * 5 / 4) / MS;
                assert!(look.ms + 1 >= least_ms, "seed {seed}: {look:?} stands still, after {first:?}");
            }
        }
    });
    assert!(with_agents > 50, "{with_agents} runs in which all have the agent's clock");
}

/// The time that a client which has just come finds after a day without any.
fn after_a_day(have_agents: bool) -> (u64, u64) {
    let (options, settings) = options(1, Relaxations::none(), Faults::none());
    let sim = Sim::new(options);
    let (pool, begun_ms) = formatted(&sim, settings);
    if !have_agents {
        sim.poke_word(pool.layout.clock_offset(), u64::MAX);
    }
    let (control, endpoint) = (sim.control(), sim.endpoint("late"));
    let look = sim.block_on(async move {
        endpoint.pause(DAY_MS * MS).await;
        look((&control, &endpoint), &mut PoolClock::default(), &pool, 0).await
    });
    (look.unwrap().ms, begun_ms)
}

#[test]
fn a_day_without_clients_passes_on_the_agents_clock_and_not_where_there_is_none() {
    let (ms, begun_ms) = after_a_day(true);
    assert!((DAY_MS - 1..=DAY_MS + 1).contains(&(ms - begun_ms)), "{begun_ms} became {ms}");
    let (ms, begun_ms) = after_a_day(false);
    assert_eq!(ms, begun_ms);
}

const HOUR_MS: u64 = 3_600_000;

/// How far the pool's time has gone an hour after a reboot that took an hour, if the wall clock of
/// the client that takes the pool over is `ahead_ms` ahead.
fn passed_over_a_reboot(ahead_ms: i64) -> u64 {
    let (options, settings) = options(1, Relaxations::none(), Faults::none());
    let sim = Sim::new(options);
    let (pool, begun_ms) = formatted(&sim, settings);
    // Closed, as a pool is that all clients have left.
    sim.poke_word(pool.layout.closing(), 1);
    let (endpoint, control) = (sim.endpoint("taker"), sim.control());
    let found = sim.block_on(async move {
        endpoint.pause(HOUR_MS * MS).await;
        control.restart_agent();
        // An endpoint is a task's that has posted by it.
        let verdict = boot::look(&endpoint, &pool.layout, Some(99), false, false).await.unwrap();
        assert_eq!(verdict, boot::Verdict::TakenOver);
        control.jump_clock(control.owner(&endpoint).unwrap(), ahead_ms);
        boot::settle(&endpoint, &pool, Some(99), false, verdict).await.unwrap();
        endpoint.pause(HOUR_MS * MS).await;
        look((&control, &endpoint), &mut PoolClock::default(), &pool, 0).await
    });
    found.unwrap().ms - begun_ms
}

#[test]
fn after_a_reboot_the_time_goes_on_by_the_wall_clock_and_never_back() {
    let year_ms = 365 * DAY_MS;
    assert!(passed_over_a_reboot(0).abs_diff(2 * HOUR_MS) <= 1);
    assert!(passed_over_a_reboot(year_ms as i64).abs_diff(year_ms + 2 * HOUR_MS) <= 1);
    assert!(passed_over_a_reboot(-(year_ms as i64)).abs_diff(HOUR_MS) <= 1);
}

#[test]
fn what_expires_later_than_an_outlier_needs_no_look() {
    let (options, settings) = options(1, Relaxations::none(), Faults::none());
    let sim = Sim::new(options);
    let (pool, begun_ms) = formatted(&sim, settings);
    let (endpoint, control) = (sim.endpoint("client"), sim.control());
    let checked = sim.block_on(async move {
        let mut clock = PoolClock::default();
        let is_ahead = |clock: &PoolClock, ms| clock.is_far_ahead(&endpoint, begun_ms + ms, endpoint.now_ns());
        assert!(!is_ahead(&clock, DAY_MS), "a client that has not looked knows nothing");
        assert_eq!(clock.estimated_ms(&endpoint, endpoint.now_ns()), None);
        look((&control, &endpoint), &mut clock, &pool, 0).await;
        assert!(is_ahead(&clock, OUTLIER_MS + 100) && !is_ahead(&clock, OUTLIER_MS));
        endpoint.pause(900 * MS).await;
        assert!(is_ahead(&clock, OUTLIER_MS + 1000) && !is_ahead(&clock, OUTLIER_MS + 100), "time passes");
        assert_eq!(clock.estimated_ms(&endpoint, endpoint.now_ns()), None, "an estimate is of a look that is younger");
        endpoint.pause(200 * MS).await;
        assert!(!is_ahead(&clock, DAY_MS), "the look is older than a second");
    });
    checked.unwrap();
}

#[test]
fn a_wall_clock_that_is_refused_is_reported_and_so_is_an_agents_clock_that_is_behind() {
    let (options, settings) = options(1, Relaxations::none(), Faults::none());
    let sim = Sim::new(options);
    let (pool, _) = formatted(&sim, settings);
    let (endpoint, control) = (sim.endpoint("client"), sim.control());
    let checked = sim.block_on(async move {
        let mut clock = PoolClock::default();
        let first = look((&control, &endpoint), &mut clock, &pool, 0).await;
        assert_eq!((clock.outliers(), clock.wall_ahead_ms()), (0, 0));
        let me = control.owner(&endpoint).unwrap();
        for (jump_ms, outliers) in [(DAY_MS as i64, 1), (1, 1), (-(DAY_MS as i64), 1), (-(OUTLIER_MS as i64) - 1, 2)] {
            control.jump_clock(me, jump_ms);
            endpoint.pause(2 * REFRESH_NS).await;
            look((&control, &endpoint), &mut clock, &pool, 0).await;
            assert_eq!(clock.outliers(), outliers, "after a step of {jump_ms} ms");
        }
        assert_eq!(clock.wall_ahead_ms(), -(OUTLIER_MS as i64));
        // As if the agent were another one: the client goes on by its own clock.
        control.restart_agent();
        for pauses in 1..4 {
            endpoint.pause(100 * MS).await;
            let now = look((&control, &endpoint), &mut clock, &pool, 0).await;
            assert_eq!(clock.outliers(), 3);
            assert!(now.ms - first.ms >= 100 * (pauses - 1), "{first:?}, {now:?}");
        }
    });
    checked.unwrap();
}
