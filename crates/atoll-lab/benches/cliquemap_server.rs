//! What the server of CliqueMap does for a message, in nanoseconds of this machine: `cargo bench -p
//! atoll-lab --bench cliquemap_server`.
//!
//! The figures stand in `bench/processor.rs` of `atoll-papers`. Messages come from memory, and
//! answers go nowhere: receiving and sending are the network's.

use atoll_baselines::cliquemap::wire::{self, Change, Condition, Head, Operation};
use atoll_baselines::cliquemap::{CliqueMapOptions, CliqueMapPool, Policy, Server};
use atoll_cache::EnginePool;
use atoll_fabric::pass_on;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Clock, Endpoint, Mailbox, Message, MessageError, Messenger, Sender, run_ready};
use atoll_lab::load::{LoadOptions, Stream};
use atoll_pool::Incarnation;
use std::future::Future;
use std::sync::Arc;

const KEYS: u64 = 300_000;
const VALUE: [u8; 240] = [7; 240];
const ROUNDS: usize = 21;
const MESSAGES: u64 = 40_000;
const CLIENT: Mailbox = Mailbox(1);

/// Memory of this process, and a post that takes what it is given.
struct Deaf(ShmEndpoint);

impl Endpoint for Deaf {
    pass_on!(0: post read post_unawaited flush pause now_ns unix_ms agent_ms random);
    pass_on!(0: region_attributes wait boot limits identity origin is_dead shut_out);
    pass_on!(0: fabric);
}

impl Messenger for Deaf {
    fn mailbox(&self) -> Mailbox {
        Mailbox(2)
    }

    fn sign(&self, _: Sender) {}

    fn send(&self, _to: Mailbox, bytes: &[u8]) -> Result<(), MessageError> {
        std::hint::black_box(bytes);
        Ok(())
    }

    async fn receive(&self) -> Message {
        std::future::pending().await
    }

    async fn receive_within(&self, _ns: u64) -> Option<Message> {
        None
    }
}

/// As skewed as the papers' loads are.
fn keys_asked_for() -> Stream {
    let options = LoadOptions { keys: KEYS, requests: Some(4_000_000), ..LoadOptions::named("ycsb-c") };
    options.open().expect("there is such a load").stream(0, 1)
}

struct Bench {
    pool: Arc<CliqueMapPool>,
    server: Server<Deaf>,
    sequence: u64,
    asked: Stream,
}

impl Bench {
    fn new(policy: Policy, capacity_bytes: u64) -> Self {
        let settings = CliqueMapOptions { policy, object_bytes_mean: 350 }.for_capacity(capacity_bytes);
        let region = Arc::new(ShmRegion::anonymous(settings.capacity_bytes).unwrap());
        let endpoint = ShmEndpoint::with_regions(vec![region], Clock::host());
        let pool = run_ready(CliqueMapPool::format(&endpoint, settings)).unwrap();
        let server = run_ready(Server::start(&pool, Deaf(endpoint))).unwrap();
        Self { pool, server, sequence: 0, asked: keys_asked_for() }
    }

    fn key(&mut self) -> [u8; 16] {
        let request = self.asked.next().or_else(|| {
            self.asked = keys_asked_for();
            self.asked.next()
        });
        Self::key_of(request.expect("a load has requests").key % KEYS)
    }

    fn key_of(number: u64) -> [u8; 16] {
        let mut key = [b'k'; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn head(&mut self) -> Head {
        self.sequence += 1;
        Head { client: Incarnation { slot: 0, epoch: 1 }, server_epoch: 1, sequence: self.sequence }
    }

    fn set(&mut self, key: [u8; 16]) -> Message {
        let (key_bytes, value_bytes) = (key.len() as u32, VALUE.len() as u32);
        let (operation, condition) = (Operation::Put, Condition::Any);
        let change = Change { operation, condition, expiry_ms: None, key_bytes, value_bytes };
        let (head, mut bytes) = (self.head(), Vec::new());
        wire::encode_change(&mut bytes, &head, &change, 0, &key, &VALUE);
        Message { from: CLIENT, sender: Sender::default(), bytes }
    }

    fn accesses(&mut self) -> Message {
        let (head, mut bytes) = (self.head(), Vec::new());
        let keys: Vec<[u8; 16]> = (0..wire::LOG_ACCESSES).map(|_| self.key()).collect();
        let hashes = keys.iter().map(|key| self.pool.hash(key));
        wire::encode_accesses(&mut bytes, &head, hashes.map(|hash| (1, hash)));
        Message { from: CLIENT, sender: Sender::default(), bytes }
    }

    /// The median over rounds of what a message takes, in nanoseconds.
    fn median_ns(&mut self, messages: u64, make: fn(&mut Self) -> Message) -> f64 {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let made: Vec<Message> = (0..messages).map(|_| make(self)).collect();
            let begun_ns = on_processor_ns();
            for message in &made {
                run_ready(self.server.take(message)).unwrap();
            }
            rounds.push((on_processor_ns() - begun_ns) as f64 / messages as f64);
        }
        rounds.sort_by(f64::total_cmp);
        rounds[ROUNDS / 2]
    }
}

/// For how long this thread has been on a processor: others may be at work on the machine.
fn on_processor_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    told.split(' ').next().and_then(|ns| ns.parse().ok()).expect("its first number")
}

fn main() {
    for policy in [Policy::Lru, Policy::Lfu] {
        // One that has room for all keys, and one that evicts with most changes.
        for (what, capacity_bytes) in [("room for all", KEYS * 1200), ("room for half", KEYS * 175)] {
            let mut bench = Bench::new(policy, capacity_bytes);
            for number in 0..KEYS {
                let message = bench.set(Bench::key_of(number));
                run_ready(bench.server.take(&message)).unwrap();
            }
            let change_ns = bench.median_ns(MESSAGES, |bench| {
                let key = bench.key();
                bench.set(key)
            });
            // The scheduler counts in ticks of milliseconds: a round has many.
            let log_ns = bench.median_ns(10 * MESSAGES / wire::LOG_ACCESSES as u64, Bench::accesses);
            let (name, access_ns) = (policy.engine_name(), log_ns / wire::LOG_ACCESSES as f64);
            let evictions = bench.server.stats().evictions;
            println!("{name}, {what}: a SET {change_ns:.0} ns, an access {access_ns:.0} ns; {evictions} evictions");
        }
    }
}
