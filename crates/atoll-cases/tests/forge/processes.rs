//! `forge` over shared memory with several processes of several threads each: promises 1 and 5.
//!
//! Every process is this test binary again, told by its environment what to play. Operations are
//! stamped with tickets from a word in a second region, so that the histories of all threads of all
//! processes merge into one.

use crate::ticketed::{self, decode};
use atoll_cache::Pooled;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Lasting, SetOptions, Value};
use atoll_cases::Load;
use atoll_cases::compiled::shm;
use atoll_cases::ticketed::Ticketed;
use atoll_cases::{Case, load};
use atoll_fabric::run_ready;
use atoll_fabric::shm::{ShmEndpoint, ShmNodes, ShmRegion};
use atoll_pool::PoolSettings;
use atoll_sim::{History, Random};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const REGION: &str = "ATOLL_TEST_REGION";
const PART: &str = "ATOLL_TEST_PART";

/// A pool in a named region, and what belongs to it. The names go when the test is over, also when
/// it fails.
struct Named {
    name: String,
    home_bytes: u64,
}

impl Named {
    fn new(test: &str, settings: PoolSettings) -> Self {
        let name = format!("shm:/atoll-{test}-{}", std::process::id());
        let named = Self { name, home_bytes: settings.home_bytes() };
        ShmRegion::create(&named.tickets(), ticketed::REGION_BYTES).unwrap();
        ShmRegion::create(&named.name, settings.home_bytes()).unwrap();
        (1..settings.nodes as u8).for_each(|node| named.create_node(node, settings.member_bytes));
        run_ready(shm::Forge::format(&named.endpoint(), settings)).unwrap();
        named
    }

    fn tickets(&self) -> String {
        format!("{}-tickets", self.name)
    }

    /// The file of a client's history.
    fn history(&self, client: u32) -> PathBuf {
        let name = self.name.trim_start_matches("shm:/");
        std::env::temp_dir().join(format!("{name}-{client}"))
    }

    fn create_node(&self, node: u8, bytes: u64) {
        ShmRegion::create(&ShmNodes::name(&self.name, node), bytes).unwrap();
    }

    /// The endpoint of a process of its own, which shares nothing with the other endpoints here.
    fn endpoint(&self) -> ShmEndpoint {
        let home = Arc::new(ShmRegion::open(&self.name).unwrap());
        ShmEndpoint::new(home).with_nodes(Arc::new(ShmNodes::named(&self.name)))
    }

    /// Adds a memory node while other clients use the pool.
    fn grow(&self, bytes: u64) {
        let endpoint = self.endpoint();
        run_ready(async {
            let pool = shm::Forge::open(&endpoint, self.home_bytes).await.unwrap();
            let forge = shm::Forge::join(&pool, endpoint).await.unwrap();
            self.create_node(pool.pool().layout.nodes_known(), bytes);
            forge.grow(bytes).await.unwrap();
        });
    }

    /// Runs `processes` processes that play the part, and waits for them. A node with
    /// `growth_bytes` is added while they play.
    fn play(&self, part: &str, processes: u32, growth_bytes: Option<u64>) {
        let children: Vec<Child> = (0..processes)
            .map(|process| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "processes::a_process_that_another_test_started", "--nocapture"]);
                let part = format!("{part} {process} {}", self.home_bytes);
                command.stdout(Stdio::null()).env(REGION, &self.name).env(PART, part).spawn().unwrap()
            })
            .collect();
        if let Some(bytes) = growth_bytes {
            self.grow(bytes);
        }
        for mut child in children {
            assert!(child.wait().unwrap().success(), "a process that played `{part}` failed");
        }
    }

    fn verify(&self) {
        let endpoint = self.endpoint();
        run_ready(async {
            let pool = shm::Forge::open(&endpoint, self.home_bytes).await.unwrap();
            let forge = shm::Forge::join(&pool, endpoint).await.unwrap();
            let report = forge.verify().await.unwrap();
            assert_eq!(report.faults, Vec::<String>::new());
        });
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        (1..8).for_each(|node| drop(ShmRegion::remove(&ShmNodes::name(&self.name, node))));
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
        let case: Case = Case { clients: PROCESSES * THREADS, ..Case::drawn(round) };
        let (nodes, growth_chunks) = (1 + round as u32 % 3, 20 * (round % 2));
        let case = Case { chunks: case.chunks + 48, nodes, growth_chunks, ..case };
        let named = Named::new(&format!("history-{round}"), case.settings());
        let growth = (growth_chunks > 0).then(|| case.growth_bytes());
        named.play(&format!("history {round}"), PROCESSES, growth);
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
        let settings = options.for_growth(20 << 20, 4 << 20).spread(1 + round as u32);
        let named = Named::new(&format!("sizes-{round}"), settings);
        named.play(&format!("sizes {round}"), PROCESSES, Some(4 << 20));
        named.verify();
        // Everything is in the region, whose size no write can change.
        let layout_end = run_ready(async {
            let endpoint = named.endpoint();
            shm::Forge::open(&endpoint, named.home_bytes).await.unwrap().pool().layout.end()
        });
        assert!(layout_end <= named.home_bytes);
    }
}

/// Plays the part that another test set; nothing in an ordinary run of the tests.
#[test]
fn a_process_that_another_test_started() {
    let Ok(name) = std::env::var(REGION) else { return };
    let part = std::env::var(PART).unwrap();
    let [part, round, process, home_bytes] = part.split(' ').collect::<Vec<_>>()[..] else {
        panic!("`{part}` is no part")
    };
    let (round, process): (u64, u32) = (round.parse().unwrap(), process.parse().unwrap());
    let named = Named { name, home_bytes: home_bytes.parse().unwrap() };
    let named = std::mem::ManuallyDrop::new(named);
    let home = Arc::new(ShmRegion::open(&named.name).unwrap());
    let nodes = Arc::new(ShmNodes::named(&named.name));
    let endpoint = || ShmEndpoint::new(home.clone()).with_nodes(nodes.clone());
    let pool = run_ready(shm::Forge::open(&endpoint(), named.home_bytes)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, pool, named, endpoint) = (process * THREADS + thread, &pool, &*named, endpoint());
            scope.spawn(move || {
                let forge = run_ready(shm::Forge::join(pool, endpoint)).unwrap();
                let cache = Cache::new(forge);
                match part {
                    "history" => record_history(named, cache, client, round),
                    _ => set_sizes(cache, client, round),
                }
            });
        }
    });
}

fn record_history(named: &Named, cache: Cache<shm::Forge>, client: u32, round: u64) {
    let tickets = Arc::new(ShmRegion::open(&named.tickets()).unwrap());
    let recorder = Ticketed::new(ticketed::tickets(tickets));
    let case: Case = Case::drawn(round);
    let load = Load { keys: 12, operations: 2000, ..case.load };
    let cache = Cache::new(Lasting::new(cache.into_engine()));
    run_ready(load::run(&cache, client, round, &load, 1, &recorder)).unwrap();
    std::fs::write(named.history(client), ticketed::encode(&recorder.into_events())).unwrap();
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

fn set_sizes(cache: Cache<shm::Forge>, client: u32, round: u64) {
    let mut random = Random::stream(round, 100 + u64::from(client));
    let (mut value, mut hits) = (Value::new(), 0);
    for step in 0..3000 {
        let key = random.below(400);
        // From 1 B to 1 MiB, small ones as likely as large ones; in the middle nearly all are
        // small.
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
