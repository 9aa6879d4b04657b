//! Processes that use a pool die, stop, fork and panic: promise 4.
//!
//! A worker is this test binary again, told by its environment which pool to load. It prints a line
//! when it has a client.

use crate::binary::{PoolName, Serving, Space, engines, printed};
use atoll::{CacheError, Client, ClientState, Pool, PoolOptions};
use atoll_fabric::region::Region;
use atoll_fabric::shm::fork::in_fork;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Batch, Endpoint, Identity, VerbError, run_ready};
use atoll_pool::{PlaceState, registry};
use redis::Commands;
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const POOL: &str = "ATOLL_TEST_KILL_POOL";
const JOINER: &str = "ATOLL_TEST_KILL_JOINER";
const CLIENTS: &str = "ATOLL_TEST_KILL_CLIENTS";
/// Much longer than anything here takes; who passes it waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);
const LARGEST: &str = "ATOLL_TEST_KILL_LARGEST";
/// The largest value of a load, and of one without values that take several chunks.
const LARGE_BYTES: usize = 100_000;
const SMALL_BYTES: usize = 999;

/// A process with clients under load, killed at the end.
struct Worker(Child);

impl Worker {
    fn start(pool: &PoolName, clients: u32) -> Self {
        Self::with_values_to(LARGE_BYTES, pool, clients)
    }

    fn with_values_to(largest_bytes: usize, pool: &PoolName, clients: u32) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kill::a_worker_that_another_test_started", "--nocapture"]);
        command.env(POOL, &pool.0).env(CLIENTS, clients.to_string()).env(LARGEST, largest_bytes.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with("loads"))), "the worker ended early");
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_worker_that_another_test_started() {
    let Ok(name) = std::env::var(POOL) else { return };
    let clients: u32 = std::env::var(CLIENTS).unwrap().parse().unwrap();
    let largest_bytes = std::env::var(LARGEST).unwrap().parse().unwrap();
    let pool = Pool::open(&name).unwrap();
    let mut clients: Vec<Client> = (0..clients).map(|_| pool.client().unwrap()).collect();
    println!("{} loads", std::process::id());
    for round in 0u64.. {
        for cache in &mut clients {
            load_to(largest_bytes, cache, round);
            cache.increment(b"rounds", 1).unwrap();
        }
    }
}

/// Some operations: small values, a large one now and then, removals.
fn load(cache: &mut Client, round: u64) {
    load_to(LARGE_BYTES, cache, round);
}

fn load_to(largest_bytes: usize, cache: &mut Client, round: u64) {
    for index in 0..20 {
        let key = (round * 20 + index) * 0x9e37_79b9 % 10_000;
        let bytes = if key.is_multiple_of(50) { largest_bytes } else { 100 + key as usize % 900 };
        match cache.set(&key.to_le_bytes(), &vec![key as u8; bytes]) {
            Ok(()) => {}
            Err(error) => panic!("{error}"),
        }
        let other = (key * 7 + 1) % 10_000;
        if let Some(value) = cache.get(&other.to_le_bytes()).unwrap() {
            assert!(value.iter().all(|byte| *byte == other as u8), "a wrong value");
        }
    }
    cache.delete(&(round % 10_000).to_le_bytes()).unwrap();
}

/// Loads `cache` until `done`, which is asked now and then.
fn load_until(cache: &mut Client, mut done: impl FnMut(&mut Client) -> bool) -> Duration {
    let since = Instant::now();
    let mut round = 0;
    while !done(cache) {
        assert!(since.elapsed() < PATIENCE, "it never happens");
        (0..20).for_each(|more| load(cache, round + more));
        round += 20;
    }
    since.elapsed()
}

/// A pool of every engine, one after the other.
fn pools(test: &str, clients_max: u32) -> impl Iterator<Item = (PoolName, Pool)> {
    engines().into_iter().map(move |engine| {
        println!("{engine}:");
        let name = PoolName::new(&format!("{test}-{}", engine.id()));
        let options = PoolOptions::default().capacity_bytes(16 << 20).clients_max(clients_max).engine(engine);
        let pool = Pool::create(&name.0, &options).unwrap();
        (name, pool)
    })
}

fn states(pool: &Pool) -> Vec<ClientState> {
    pool.info().unwrap().clients.iter().map(|client| client.state).collect()
}

/// No client uses the pool any more: all invariants hold. After all objects are removed, no client
/// owns a chunk.
fn is_whole(pool: &Pool) {
    pool.repair().unwrap();
    assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
    pool.client().unwrap().flush().unwrap();
    let report = pool.verify().unwrap();
    let [_free, open, _queued, leaving, extent, bound, ..] = report.chunks;
    assert_eq!((report.faults, report.objects), (Vec::new(), 0));
    assert_eq!([open, leaving, extent, bound], [0; 4], "chunks are lost");
}

#[test]
fn what_a_killed_worker_held_comes_back_by_itself_while_a_survivor_goes_on() {
    for (name, pool) in pools("kill-survivor", 8) {
        let mut survivor = pool.client().unwrap();
        let worker = Worker::start(&name, 2);
        load_until(&mut survivor, |cache| cache.get(b"rounds").unwrap().is_some());
        worker.kill();
        let repaired = load_until(&mut survivor, |_| states(&pool) == [ClientState::Running]);
        println!("repaired after {} ms of load", repaired.as_millis());
        assert_eq!(survivor.stats().clients_fenced, 2);
        drop(survivor);
        is_whole(&pool);
    }
}

/// Stops a worker whose values have up to this many bytes, loads the pool meanwhile and repairs it;
/// the bytes that it held at first and at the end. It goes on when it is resumed, and all is whole
/// when it is killed.
fn held_while_stopped(largest_bytes: usize, name: &PoolName, pool: &Pool) -> (u64, u64) {
    let mut survivor = pool.client().unwrap();
    let worker = Worker::with_values_to(largest_bytes, name, 1);
    load_until(&mut survivor, |cache| cache.get(b"rounds").unwrap().is_some());
    worker.signal(Signal::STOP);
    load_until(&mut survivor, |_| states(pool) == [ClientState::Running, ClientState::Stopped]);
    let before = pool.info().unwrap();
    // Longer than a client may stand still unsuspected.
    let since = Instant::now();
    load_until(&mut survivor, |_| since.elapsed() > Duration::from_millis(600));
    let shown = printed(&["pool", "repair", &name.0, "--json"]);
    assert!(shown.contains("\"clients\": 0"), "{shown}");
    let after = pool.info().unwrap();
    assert_eq!(after.clients[1], before.clients[1]);
    assert_eq!(survivor.stats().clients_fenced, 0);
    let shown = printed(&["pool", "info", &name.0]);
    assert!(shown.contains(&format!("pid {} stopped", worker.0.id())), "{shown}");
    survivor.delete(b"rounds").unwrap();
    worker.signal(Signal::CONT);
    load_until(&mut survivor, |cache| cache.get(b"rounds").unwrap().is_some());
    worker.signal(Signal::STOP);
    load_until(&mut survivor, |_| states(pool)[1] == ClientState::Stopped);
    drop(survivor);
    let shown = printed(&["pool", "repair", &name.0, "--kill-stopped", "--json"]);
    assert!(shown.contains("\"killed\": 1") && shown.contains("\"quarantined_bytes\": 0"), "{shown}");
    assert_eq!(states(pool), []);
    is_whole(pool);
    (before.quarantined_bytes, after.quarantined_bytes)
}

#[test]
fn what_a_stopped_process_holds_is_left_alone_and_it_goes_on_when_it_is_resumed() {
    for (name, pool) in pools("kill-stopped", 8) {
        let (before, after) = held_while_stopped(SMALL_BYTES, &name, &pool);
        assert!(before > 0 && after == before, "{before} bytes, then {after}");
    }
}

/// A large value that it has published, but whose chunks do not say so yet, may be replaced by
/// others: its chunks come back then.
#[test]
fn a_stopped_process_keeps_no_large_value_that_it_has_published() {
    for (name, pool) in pools("kill-stopped-large", 8) {
        let (before, after) = held_while_stopped(LARGE_BYTES, &name, &pool);
        assert!(after <= before, "{before} bytes, then {after}");
    }
}

#[test]
fn a_fork_is_told_so_changes_nothing_and_may_open_the_pool_anew() {
    for (name, pool) in pools("kill-fork", 8) {
        let mut cache = pool.client().unwrap();
        cache.set(b"key", b"of the parent").unwrap();
        let is_refused = |result: Result<(), CacheError>| matches!(result, Err(CacheError::Verb(VerbError::Forked)));
        let status = in_fork(|| {
            let told = is_refused(cache.set(b"key", b"of the child")) && is_refused(cache.get(b"key").map(drop));
            let anew = || {
                let mut anew = Pool::open(&name.0).ok()?.client().ok()?;
                anew.set(b"other", b"of the child").ok()?;
                Some(anew.get(b"key").ok()?? == b"of the parent")
            };
            if told && anew() == Some(true) { 7 } else { 8 }
        });
        assert_eq!(status.unwrap(), 7);
        assert_eq!(cache.get(b"key").unwrap(), Some(&b"of the parent"[..]));
        assert_eq!(cache.get(b"other").unwrap(), Some(&b"of the child"[..]));
        drop(cache);
        assert_eq!(states(&pool), []);
        is_whole(&pool);
    }
}

/// Runs `atoll` and kills it after a part of the time that it took when it was left alone; whether
/// it was killed before its end.
fn killed_after(args: &[&str], part: Duration) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    let mut child = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(part);
    child.kill().unwrap();
    child.wait().unwrap().signal() == Some(Signal::KILL.as_raw())
}

/// Kills of one command in one test, each before its end.
const KILLS: u32 = 12;

/// Kills a command at parts of the time that it took when it was left alone: at so many of `of`
/// first, and then later and later. Where a kill comes too late, because the machine has become
/// quicker, the command is taken to need less time from then on, and killed once more.
fn kill_throughout(mut whole: Duration, first: u32, of: u32, mut is_killed_after: impl FnMut(Duration) -> bool) {
    let (mut killed, mut late) = (0, 0);
    while killed < KILLS {
        let part = whole * (first * KILLS + (of - first) * killed) / (of * KILLS);
        if is_killed_after(part) {
            killed += 1;
        } else {
            late += 1;
            whole = whole * 9 / 10;
            assert!(late < 10 * KILLS, "{killed} kills came before the end, and {late} too late");
        }
    }
    println!("{killed} kills before the end, {late} too late");
}

#[test]
fn a_repairer_that_is_killed_is_no_harm() {
    for (name, pool) in pools("kill-repairer", 8) {
        let leave_a_dead_worker = || {
            let worker = Worker::start(&name, 2);
            std::thread::sleep(Duration::from_millis(10));
            worker.kill();
            assert_eq!(states(&pool), [ClientState::Dead; 2], "the repair has something to do");
        };
        leave_a_dead_worker();
        let begun = Instant::now();
        printed(&["pool", "repair", &name.0]);
        let whole = begun.elapsed();
        let mut begun = 0;
        // Most of the time is the start of the process: the repair is in the last part of it.
        kill_throughout(whole, 1, 2, |part| {
            leave_a_dead_worker();
            let is_killed = killed_after(&["pool", "repair", &name.0], part);
            begun += u32::from(is_killed && states(&pool) != [ClientState::Dead; 2]);
            pool.repair().unwrap();
            is_killed
        });
        println!("{begun} of the repairs had begun");
        assert_eq!(states(&pool), []);
        is_whole(&pool);
    }
}

/// Makes places of the registry Joining, as if their joiners had come so far; gives the endpoint
/// that did.
fn poke_joining(name: &PoolName, places: u32, who: Option<Identity>, raise: bool) -> ShmEndpoint {
    let region = ShmRegion::open(&name.0).unwrap();
    let bytes = region.attributes().bytes;
    let endpoint = ShmEndpoint::new(Arc::new(region));
    let layout = run_ready(atoll_pool::Pool::open(&endpoint, bytes)).unwrap().layout;
    let mut batch = Batch::new();
    for place in 0..places {
        let who = who.unwrap_or_else(|| endpoint.identity());
        batch.write_word(layout.signal(place), PlaceState::Joining.word(who, 1));
    }
    if raise {
        batch.write_word(layout.members_ever(), places.into());
    }
    run_ready(endpoint.post(&mut batch)).unwrap();
    endpoint
}

#[test]
fn a_client_that_died_while_it_joined_is_repaired_at_once() {
    for (name, pool) in pools("kill-joining", 8) {
        let joiner = poke_joining(&name, 1, None, true);
        assert_eq!(states(&pool), [ClientState::Joining]);
        pool.repair().unwrap();
        assert_eq!(states(&pool), [ClientState::Joining], "it lives");
        drop(joiner);
        assert_eq!(states(&pool), [ClientState::Dead]);
        let since = Instant::now();
        pool.repair().unwrap();
        assert!(since.elapsed() < Duration::from_secs(3), "it waits for the dead");
        assert_eq!(states(&pool), []);
        is_whole(&pool);
    }
}

#[test]
fn dead_joiners_keep_no_place_from_a_living_one() {
    for raise in [true, false] {
        for (name, pool) in pools("kill-joiners", 4) {
            // Some joiners have an endpoint that has ended; some have an identity that no endpoint
            // ever had.
            drop(poke_joining(&name, 4, None, raise));
            poke_joining(&name, 2, Some(Identity::NOBODY), raise);
            let clients: Vec<Client> = (0..4).map(|_| pool.client().unwrap()).collect();
            assert!(pool.client().is_err(), "all places are of the living");
            drop(clients);
            is_whole(&pool);
        }
    }
}

/// Processes that join and leave in a loop are killed at random moments, some of them in the middle
/// of a join.
#[test]
fn the_only_place_of_a_pool_comes_back_from_every_client_that_is_killed() {
    for (name, pool) in pools("kill-one-place", 1) {
        for round in 0..10u64 {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "kill::a_joiner_that_another_test_started", "--nocapture"]).env(POOL, &name.0);
            let mut joiner = command.env(JOINER, "1").stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(joiner.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with("joins"))), "the joiner ended early");
            std::thread::sleep(Duration::from_micros(370 * round));
            joiner.kill().unwrap();
            joiner.wait().unwrap();
            let mut cache = pool.client().unwrap();
            cache.set(b"key", b"value").unwrap();
        }
        assert_eq!(states(&pool), []);
        is_whole(&pool);
    }
}

/// Makes all clients of a pool Fenced, as if they had been shut out.
fn poke_fenced(name: &PoolName) {
    let region = ShmRegion::open(&name.0).unwrap();
    let bytes = region.attributes().bytes;
    let endpoint = ShmEndpoint::new(Arc::new(region));
    let pool = run_ready(atoll_pool::Pool::open(&endpoint, bytes)).unwrap();
    for place in run_ready(registry::places(&endpoint, &pool)).unwrap() {
        if place.state == PlaceState::Taken {
            assert!(run_ready(registry::declare_dead(&endpoint, &pool, &place)).unwrap());
        }
    }
}

#[test]
fn a_client_that_was_shut_out_says_so_before_it_acknowledges_anything() {
    for (name, pool) in pools("kill-shut-out", 8) {
        let mut caches: Vec<Client> = (0..4).map(|_| pool.client().unwrap()).collect();
        (0..200).for_each(|round| load(&mut caches[(round % 4) as usize], round));
        poke_fenced(&name);
        // So long the copy of the pool's clock is good, beside which a client asks.
        std::thread::sleep(Duration::from_millis(2));
        let told = |outcome: Result<(), CacheError>| outcome.is_err_and(|error| error.is_shut_out());
        for _ in 0..3 {
            assert!(told(caches[0].set(b"key", b"value")), "a set was acknowledged");
            assert!(told(caches[1].increment(b"rounds", 1).map(drop)), "an increment was acknowledged");
            assert!(told(caches[2].delete(b"key").map(drop)), "a removal was acknowledged");
            assert!(told(caches[3].tend()), "a round was made");
        }
        let mut anew = pool.client().unwrap();
        anew.set(b"key", b"value").unwrap();
        drop((anew, caches));
        is_whole(&pool);
    }
}

#[test]
fn a_server_that_was_shut_out_joins_again_by_itself() {
    for (name, pool) in pools("kill-rejoin", 8) {
        let server = Serving::start(&["--pool", &name.0, "--threads", "2"]);
        let mut redis = [server.connect(), server.connect()];
        redis.iter_mut().for_each(|redis| redis.set("key", "value").unwrap());
        let before: Vec<_> = pool.info().unwrap().clients.iter().map(|client| client.incarnation).collect();
        poke_fenced(&name);
        let since = Instant::now();
        for redis in &mut redis {
            while let Err(error) = redis.set::<_, _, ()>("key", "other") {
                assert!(error.to_string().contains("lost the pool"), "{error}");
                assert!(since.elapsed() < PATIENCE, "it does not join again");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        while states(&pool) != [ClientState::Running; 2] {
            assert!(since.elapsed() < PATIENCE, "it does not join again");
            std::thread::sleep(Duration::from_millis(5));
        }
        let after = pool.info().unwrap().clients;
        assert!(after.iter().all(|client| !before.contains(&client.incarnation)), "{after:?}");
        drop(server);
        is_whole(&pool);
    }
}

#[test]
fn a_joiner_that_another_test_started() {
    if std::env::var(JOINER).is_err() {
        return;
    }
    let pool = Pool::open(&std::env::var(POOL).unwrap()).unwrap();
    println!("{} joins", std::process::id());
    loop {
        drop(pool.client().unwrap());
    }
}

#[test]
fn a_new_client_joins_although_dead_ones_have_all_places() {
    for (name, pool) in pools("kill-places", 3) {
        let worker = Worker::start(&name, 3);
        assert!(pool.client().is_err(), "there was a place left");
        worker.kill();
        assert_eq!(states(&pool), [ClientState::Dead; 3]);
        let mut cache = pool.client().unwrap();
        cache.set(b"key", b"value").unwrap();
        drop(cache);
        is_whole(&pool);
    }
}

#[test]
fn a_thread_that_panics_with_a_client_is_repaired_by_another_thread() {
    for (_name, pool) in pools("kill-panic", 8) {
        let mut survivor = pool.client().unwrap();
        let mut cache = pool.client().unwrap();
        let thread = std::thread::spawn(move || {
            (0..30).for_each(|round| load(&mut cache, round));
            cache.get_many(&[b"one", b"two"], |_, _| panic!("as this test wants it")).unwrap();
        });
        assert!(thread.join().is_err());
        assert_eq!(states(&pool), [ClientState::Running, ClientState::Dead]);
        assert!(pool.info().unwrap().quarantined_bytes > 0);
        let since = Instant::now();
        while states(&pool) != [ClientState::Running] {
            assert!(since.elapsed() < PATIENCE, "nobody repairs it");
            survivor.tend().unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(survivor);
        is_whole(&pool);
    }
}

#[test]
fn a_server_that_was_killed_goes_on_with_the_data_it_had_and_repairs_while_idle() {
    for (name, pool) in pools("kill-server", 8) {
        let server = Serving::start(&["--pool", &name.0, "--threads", "2"]);
        let mut redis = server.connect();
        let value = |key: u32| vec![key as u8; if key.is_multiple_of(100) { 50_000 } else { 500 }];
        for key in 0..2000u32 {
            let () = redis.set(key, value(key)).unwrap();
        }
        drop(server);
        assert_eq!(states(&pool), [ClientState::Dead; 2]);
        let server = Serving::start(&["--pool", &name.0, "--threads", "2"]);
        let mut redis = server.connect();
        for key in 0..2000u32 {
            assert_eq!(redis.get::<_, Option<Vec<u8>>>(key).unwrap(), Some(value(key)), "key {key}");
        }
        let since = Instant::now();
        while states(&pool) != [ClientState::Running; 2] {
            assert!(since.elapsed() < PATIENCE, "an idle server repairs nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(redis.incr::<_, _, i64>("n", 1).unwrap(), 1);
        drop(server);
        is_whole(&pool);
    }
}

#[test]
fn the_experiment_that_kills_processes_finds_nothing_wrong() {
    let shown = printed(&["lab", "kill", "--minutes", "0.1", "--rate", "300", "--workers", "3", "--json"]);
    for expected in ["\"wrong\":0", "\"verify_ok\":true", "\"lost_bytes\":0", "\"kills\":", "\"throughput_ratio\":"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    assert!(!shown.contains("\"kills\":0,"), "{shown}");
}

#[test]
fn the_experiment_with_containers_mixed_in_finds_nothing_wrong() {
    if !Space::all().iter().all(Space::is_permitted) {
        eprintln!("SKIPPED: `unshare` is not permitted here: run as root, or allow user namespaces");
        return;
    }
    let shown =
        printed(&["lab", "kill", "--minutes", "0.1", "--rate", "300", "--workers", "4", "--namespaces", "--json"]);
    for expected in ["\"wrong\":0", "\"verify_ok\":true", "\"lost_bytes\":0"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    assert!(!shown.contains("\"kills\":0,"), "{shown}");
}

/// Its workers are in network namespaces whose links are cut, where this user may make them. One of
/// two memory nodes is killed now and then.
#[test]
fn the_experiment_over_memory_nodes_finds_nothing_wrong() {
    let shown = printed(&["lab", "kill", "--fabric", "tcp", "--minutes", "0.25", "--rate", "200", "--json"]);
    for expected in ["\"wrong\":0", "\"verify_ok\":true", "\"lost_bytes\":0"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    for none in ["\"kills\":0,", "\"node_kills\":0,"] {
        assert!(!shown.contains(none), "{none} in {shown}");
    }
}

/// What each experiment says that finds nothing wrong with near caches. It fails by itself if no
/// near cache answered a lookup.
fn near_is_tested(experiment: &[&str], happened: &[&str]) {
    let near = ["lab", "kill", "--near", "4MiB", "--capacity-mib", "32", "--json"];
    let shown = printed(&[&near, experiment].concat());
    for expected in ["\"wrong\":0", "\"verify_ok\":true", "\"lost_bytes\":0"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    for what in [&["near_hits", "near_outdated", "copies_ended", "kills", "stops"], happened].concat() {
        assert!(shown.contains(&format!("\"{what}\":")), "{what} in {shown}");
        assert!(![',', '}'].iter().any(|end| shown.contains(&format!("\"{what}\":0{end}"))), "{what} in {shown}");
    }
}

#[test]
fn the_experiment_with_near_caches_finds_no_old_value() {
    near_is_tested(&["--minutes", "0.2", "--rate", "300", "--workers", "3"], &[]);
}

#[test]
fn the_experiment_with_near_caches_over_memory_nodes_finds_no_old_value() {
    // Links are cut where this user may make network namespaces.
    let are_cut = Space::all().iter().all(Space::is_permitted);
    let happened: &[&str] = if are_cut { &["node_kills", "partitions"] } else { &["node_kills"] };
    near_is_tested(&["--fabric", "tcp", "--minutes", "0.3", "--rate", "200"], happened);
}

#[test]
fn growers_that_are_killed_anywhere_leave_a_pool_that_grows_again() {
    let name = PoolName::new("kill-growers");
    printed(&["pool", "create", &name.0, "--capacity", "16MiB", "--nodes", "2", "--capacity-max", "80MiB"]);
    let worker = Worker::start(&name, 2);
    let grow = ["pool", "grow", &name.0, "--by", "4MiB"];
    let begun = Instant::now();
    printed(&grow);
    let whole = begun.elapsed();
    kill_throughout(whole, 0, 1, |part| killed_after(&grow, part));
    let pool = Pool::open(&name.0).unwrap();
    let before = pool.info().unwrap().nodes.len();
    printed(&["pool", "grow", &name.0, "--by", "4MiB"]);
    let after = pool.info().unwrap().nodes;
    assert_eq!(after.len(), before + 1, "{after:?}");
    worker.kill();
    pool.repair().unwrap();
    assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
    println!("{before} nodes were there after the kills");
}
