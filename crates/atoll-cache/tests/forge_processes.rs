//! `forge` over shared memory with several processes of several threads each: promises 1 and 5.
//!
//! Every process is this test binary again, told by its environment what to play. Operations are stamped with tickets from a word
//! in a second region, so that the histories of all threads of all processes merge into one.

use atoll_cache::forge::{Forge, ForgeOptions, ForgePool};
use atoll_cache::{Cache, SetOptions, Value};
use atoll_fabric::run_ready;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_lab::simulated::Load;
use atoll_pool::PoolSettings;
use atoll_sim::{History, Random};
mod ticketed;
use atoll_lab::simulated::{Case, load};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use ticketed::{Ticketed, decode};

const REGION: &str = "ATOLL_TEST_REGION";
const PART: &str = "ATOLL_TEST_PART";

/// A pool in a named region, and what belongs to it. The names go when the test is over, also when it fails.
struct Named {
    name: String,
    capacity_bytes: u64,
}

impl Named {
    fn new(test: &str, settings: PoolSettings) -> Self {
        let named =
            Self { name: format!("shm:/atoll-{test}-{}", std::process::id()), capacity_bytes: settings.capacity_bytes };
        ShmRegion::create(&named.tickets(), Ticketed::REGION_BYTES).unwrap();
        let region = Arc::new(ShmRegion::create(&named.name, settings.capacity_bytes).unwrap());
        run_ready(ForgePool::format(&ShmEndpoint::new(region), settings)).unwrap();
        named
    }

    fn tickets(&self) -> String {
        format!("{}-tickets", self.name)
    }

    /// Where the client's history goes.
    fn history(&self, client: u32) -> PathBuf {
        let name = self.name.trim_start_matches("shm:/");
        std::env::temp_dir().join(format!("{name}-{client}"))
    }

    fn region(&self) -> Arc<ShmRegion> {
        Arc::new(ShmRegion::open(&self.name).unwrap())
    }

    /// Runs `processes` processes that play the part, and waits for them.
    fn play(&self, part: &str, processes: u32) {
        let children: Vec<Child> = (0..processes)
            .map(|process| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "a_process_that_another_test_started", "--nocapture"]);
                let part = format!("{part} {process} {}", self.capacity_bytes);
                command.stdout(Stdio::null()).env(REGION, &self.name).env(PART, part).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "a process that played `{part}` failed");
        }
    }

    fn verify(&self) {
        let endpoint = ShmEndpoint::new(self.region());
        run_ready(async {
            let pool = ForgePool::open(&endpoint, self.capacity_bytes).await.unwrap();
            let mut forge = Forge::join(&pool, endpoint).await.unwrap();
            let report = forge.verify().await.unwrap();
            assert_eq!(report.faults, Vec::<String>::new());
        });
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = ShmRegion::remove(&self.name);
        let _ = ShmRegion::remove(&self.tickets());
        (0..PROCESSES * THREADS).for_each(|client| drop(std::fs::remove_file(self.history(client))));
    }
}

const PROCESSES: u32 = 3;
const THREADS: u32 = 2;

#[test]
fn promise_1_histories_of_several_processes_and_threads_are_linearizable() {
    for round in 0..8 {
        let case = Case { clients: PROCESSES * THREADS, ..Case::drawn(round) };
        let case = Case { chunks: case.chunks + 24, ..case };
        let named = Named::new(&format!("history-{round}"), case.settings());
        named.play(&format!("history {round}"), PROCESSES);
        named.verify();
        let events = (0..PROCESSES * THREADS).flat_map(|client| decode(&std::fs::read(named.history(client)).unwrap()));
        let checked = History::from_events(events.collect()).check().unwrap();
        println!("round {round}: {checked:?}");
        assert!(checked.hits > 100, "{checked:?} shows little");
    }
}

#[test]
fn promise_5_no_set_fails_whatever_the_sizes_and_the_capacity_holds() {
    for (round, options) in [ForgeOptions::default(), ForgeOptions::paper()].into_iter().enumerate() {
        let named = Named::new(&format!("sizes-{round}"), options.for_capacity(24 << 20));
        named.play(&format!("sizes {round}"), PROCESSES);
        named.verify();
        // Everything is in the region, whose size no write can change.
        let layout_end = run_ready(async {
            let endpoint = ShmEndpoint::new(named.region());
            ForgePool::open(&endpoint, named.capacity_bytes).await.unwrap().pool().layout.end()
        });
        assert!(layout_end <= named.capacity_bytes);
    }
}

/// Plays the part that another test set; nothing in an ordinary run of the tests.
#[test]
fn a_process_that_another_test_started() {
    let Ok(name) = std::env::var(REGION) else { return };
    let part = std::env::var(PART).unwrap();
    let [part, round, process, capacity_bytes] = part.split(' ').collect::<Vec<_>>()[..] else {
        panic!("`{part}` is no part")
    };
    let (round, process): (u64, u32) = (round.parse().unwrap(), process.parse().unwrap());
    let named = Named { name, capacity_bytes: capacity_bytes.parse().unwrap() };
    let named = std::mem::ManuallyDrop::new(named);
    let endpoint = ShmEndpoint::new(named.region());
    let pool = run_ready(ForgePool::open(&endpoint, named.capacity_bytes)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, pool, named) = (process * THREADS + thread, &pool, &*named);
            scope.spawn(move || {
                let forge = run_ready(Forge::join(pool, ShmEndpoint::new(named.region()))).unwrap();
                let cache = Cache::new(forge);
                match part {
                    "history" => record_history(named, cache, client, round),
                    _ => set_sizes(cache, client, round),
                }
            });
        }
    });
}

fn record_history(named: &Named, mut cache: Cache<Forge<ShmEndpoint>>, client: u32, round: u64) {
    let tickets = Arc::new(ShmRegion::open(&named.tickets()).unwrap());
    let recorder = Ticketed::new(tickets);
    let case = Case::drawn(round);
    let load = Load { keys: 12, operations: 2000, ..case.load };
    run_ready(load::run(&mut cache, client, round, &load, &recorder)).unwrap();
    std::fs::write(named.history(client), recorder.encoded()).unwrap();
}

/// Bytes that tell their key, writer and length, so that a torn or foreign value is noticed.
fn value_of(key: u64, writer: u32, bytes: usize) -> Vec<u8> {
    let fill = (key as u8).wrapping_mul(31).wrapping_add(bytes as u8);
    let mut value = vec![fill; bytes];
    value[0] = key as u8;
    if let Some(last) = value.get_mut(1) {
        *last = writer as u8;
    }
    value
}

fn set_sizes(mut cache: Cache<Forge<ShmEndpoint>>, client: u32, round: u64) {
    let mut random = Random::stream(round, 100 + u64::from(client));
    let (mut value, mut hits) = (Value::new(), 0);
    for step in 0..3000 {
        let key = random.below(400);
        // From 1 B to 1 MiB, small ones as likely as large ones; in the middle nearly all are small.
        let octaves = if step / 1000 == 1 { 11 } else { 21 };
        let octave = random.below(octaves);
        let bytes = 1 + random.below(1 << octave) as usize;
        run_ready(async {
            if random.below(2) == 0 {
                let value = value_of(key, client, bytes);
                cache.set(&key.to_le_bytes(), &value, &SetOptions::default()).await.unwrap();
            } else if cache.get(&key.to_le_bytes(), &mut value).await.unwrap() {
                let (bytes, writer) = (value.bytes(), value.bytes().get(1).map_or(0, |writer| u32::from(*writer)));
                assert!(bytes == value_of(key, writer, bytes.len()), "a value of {} bytes is torn", bytes.len());
                hits += 1;
            }
        });
    }
    assert!(hits > 100, "{hits} hits show little");
}
