//! What becomes of a region that a process follows over TCP when the process stands still, dies,
//! is cut off or leaves: a change completes in bounded time, and only once the process has seen it
//! or answers for the region no more.

use atoll_fabric::conformance::proxy::{Faults, Proxy};
use atoll_fabric::tcp::{Agent, AgentOptions, RunningAgent, TcpEndpoint, TcpFabric, TcpOptions, TcpReach};
use atoll_fabric::{
    Address, Batch, Buffer, Domain, Endpoint, Fabric, FabricError, Kind, Lifetime, Reach, RegionAttributes, VerbError,
    block_on,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BYTES: u64 = 1 << 16;
/// A lease that ends within a test.
const LEASE: Duration = Duration::from_secs(1);
/// A lease that does not.
const LONG: Duration = Duration::from_secs(30);
/// What a busy machine may take longer.
const SLACK: Duration = Duration::from_secs(3);
/// A word of the home: where the region is.
const PLACE: Address = Address::new(0, 0, 64);

fn agent(watch_lease: Duration, threads: usize) -> RunningAgent {
    let options = AgentOptions { lease: Duration::ZERO, watch_lease, threads, ..AgentOptions::default() };
    Agent::bind("127.0.0.1:0", options).unwrap().start().unwrap()
}

fn fabric(address: SocketAddr) -> TcpFabric {
    let options = TcpOptions { deadline: Duration::from_secs(20), ..TcpOptions::default() };
    TcpFabric::with_options(&format!("tcp:{address}"), options).unwrap()
}

fn created(agent: &RunningAgent) -> TcpReach {
    let fabric = fabric(agent.address());
    fabric.reach(fabric.create(0, 1 << 20, 1 << 20).unwrap())
}

fn opened(address: SocketAddr) -> TcpReach {
    let fabric = fabric(address);
    fabric.reach(fabric.open(0).unwrap())
}

fn export(endpoint: &TcpEndpoint) -> Address {
    export_of(endpoint, BYTES)
}

fn export_of(endpoint: &TcpEndpoint, bytes: u64) -> Address {
    let wanted = RegionAttributes { bytes, kind: Kind::Host, domain: Domain::Cpu, lifetime: Lifetime::Process };
    endpoint.export(wanted).unwrap()
}

fn write(endpoint: &TcpEndpoint, at: Address, word: u64) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.write_word(at, word);
    block_on(endpoint, endpoint.post(&mut batch))
}

fn read(endpoint: &TcpEndpoint, at: Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let found = batch.read_word(at);
    block_on(endpoint, endpoint.post(&mut batch)).map(|()| batch.word(found))
}

fn why(refused: Result<(), FabricError>) -> String {
    match refused.unwrap_err() {
        FabricError::NoExport { why, .. } => why.to_owned(),
        other => panic!("{other}"),
    }
}

fn is_absent(reached: &Result<RegionAttributes, VerbError>) -> bool {
    matches!(reached, Err(VerbError::ExportAbsent(_)))
}

#[test]
fn what_was_in_the_region_before_is_seen_and_so_is_every_kind_of_change() {
    for threads in [1, 3] {
        let agent = agent(LONG, threads);
        let reach = created(&agent);
        let [owner, other] = [reach.endpoint(), reach.endpoint()];
        let at = export(&owner);
        other.reach_export(at).unwrap();
        write(&other, at.add(BYTES - 8), 7).unwrap();
        owner.follow(at).unwrap();
        assert_eq!((owner.own_word(at), owner.own_word(at.add(BYTES - 8))), (Some(0), Some(7)));
        assert_eq!((owner.own_word(at.add(4)), owner.own_word(at.add(BYTES))), (None, None));
        for (round, writer) in [&other, &owner].into_iter().enumerate() {
            let base = at.add(4096 * round as u64);
            let mut from = Buffer::sized(2048);
            from.words_mut().fill(3);
            let mut batch = Batch::new();
            batch.write(base, from);
            batch.write_word(base.add(8), 4);
            batch.fetch_and_add(base.add(16), 10);
            batch.compare_and_swap(base.add(24), 3, 9);
            batch.compare_and_swap(base.add(32), 99, 9);
            block_on(writer, writer.post(&mut batch)).unwrap();
            let seen = [0, 8, 16, 24, 32, 2040, 2048].map(|offset| owner.own_word(base.add(offset)).unwrap());
            assert_eq!(seen, [3, 4, 13, 9, 3, 3, 0]);
            for value in 0..3000 {
                batch.clear();
                batch.write_word(base.add(40), value);
                writer.post_unawaited(&mut batch);
            }
            block_on(writer, writer.flush()).unwrap();
            assert_eq!(owner.own_word(base.add(40)), Some(2999));
        }
        // Longer than a notice, and than what the socket takes at once.
        let long = export(&owner);
        owner.follow(long).unwrap();
        other.reach_export(long).unwrap();
        for value in 1..20 {
            let mut from = Buffer::sized(BYTES as usize);
            from.words_mut().fill(value);
            let mut batch = Batch::new();
            batch.write(long, from);
            block_on(&other, other.post(&mut batch)).unwrap();
            assert!((0..BYTES / 8).all(|word| owner.own_word(long.add(8 * word)) == Some(value)));
        }
        assert_eq!(owner.own_word(at.add(40)), Some(2999), "each region has a mirror of its own");
    }
}

#[test]
fn a_region_of_any_size_is_followed() {
    let agent = agent(LONG, 1);
    let reach = created(&agent);
    let [owner, other] = [reach.endpoint(), reach.endpoint()];
    for bytes in [4096, 4104, 12_280, 5 << 20] {
        let at = export_of(&owner, bytes);
        other.reach_export(at).unwrap();
        let words = [0, bytes / 16 * 8, bytes - 8].map(|offset| at.add(offset));
        write(&other, words[1], bytes).unwrap();
        owner.follow(at).unwrap();
        write(&other, words[2], bytes).unwrap();
        assert_eq!(words.map(|word| owner.own_word(word)), [Some(0), Some(bytes), Some(bytes)]);
        assert_eq!(owner.own_word(at.add(bytes)), None);
    }
}

/// Writers change two words in order, each its own. The process looks at them in the other order.
#[test]
fn words_are_seen_in_the_order_of_their_changes_and_none_goes_back() {
    const WRITERS: usize = 3;
    const ROUNDS: u64 = 2000;
    let agent = agent(LONG, 3);
    let reach = created(&agent);
    let [owner, thread] = [reach.endpoint(), reach.endpoint()];
    let at = export(&owner);
    owner.follow(at).unwrap();
    thread.follow(at).unwrap();
    let pair = |writer: usize| [at.add(16 * writer as u64), at.add(BYTES / 2 + 64 * writer as u64)];
    let completed: [AtomicU64; WRITERS] = Default::default();
    std::thread::scope(|scope| {
        for (writer, done) in completed.iter().enumerate() {
            let endpoint = reach.endpoint();
            scope.spawn(move || {
                endpoint.reach_export(at).unwrap();
                let [first, second] = pair(writer);
                for value in 1..=ROUNDS {
                    let mut batch = Batch::new();
                    batch.write_word(first, value);
                    if value % 2 == 0 {
                        batch.write_word(second, value);
                    } else {
                        batch.compare_and_swap(second, value - 1, value);
                        batch.fence();
                    }
                    block_on(&endpoint, endpoint.post(&mut batch)).unwrap();
                    done.store(value, Ordering::SeqCst);
                }
            });
        }
        let completed = &completed;
        let looking = [owner, thread].map(|endpoint| {
            scope.spawn(move || {
                let mut last = [0; WRITERS];
                while last.iter().any(|seen| *seen < ROUNDS) {
                    for (writer, last) in last.iter_mut().enumerate() {
                        let done = completed[writer].load(Ordering::SeqCst);
                        let [first, second] = pair(writer);
                        let [second, first] = [second, first].map(|word| endpoint.own_word(word).unwrap());
                        assert!(second >= done && second >= *last && first >= second, "{done} {last} {second} {first}");
                        *last = second;
                    }
                    std::thread::yield_now();
                }
                endpoint
            })
        });
        // The owner stays until both have seen everything.
        drop(looking.map(|thread| thread.join().unwrap()));
    });
}

#[test]
fn the_endpoints_of_a_process_share_a_mirror_and_no_other_process_has_it() {
    let agent = agent(LONG, 2);
    let reach = created(&agent);
    let [owner, thread, late] = [reach.endpoint(), reach.endpoint(), reach.endpoint()];
    let at = export(&owner);
    let unknown = why(thread.follow(at));
    assert!(unknown.contains("does not follow it"), "{unknown}");
    owner.follow(at).unwrap();
    assert_eq!(read(&thread, PLACE), Ok(0));
    let connections = agent.connections();
    thread.follow(at.add(8)).unwrap();
    thread.follow(at).unwrap();
    owner.follow(at).unwrap();
    assert_eq!(agent.connections(), connections, "one watch serves all");
    for round in 1..100 {
        write(&thread, at.add(8), round).unwrap();
        assert_eq!((owner.own_word(at.add(8)), thread.own_word(at.add(8))), (Some(round), Some(round)));
    }
    for bad in [Address::new(0, 0, 0), Address::on_compute(at.compute_node().unwrap(), 9, 0)] {
        why(owner.follow(bad));
        assert_eq!(owner.own_word(bad), None);
    }
    drop(owner);
    assert_eq!(thread.own_word(at.add(8)), None, "it ends with its owner at once");
    assert!(is_absent(&late.reach_export(at)));
    why(late.follow(at));
    // The number may be lent again; its new region has a mirror of its own.
    let again = export(&late);
    late.follow(again).unwrap();
    assert_eq!((late.own_word(again.add(8)), thread.own_word(at.add(8))), (Some(0), None));
}

/// A writer that changes the region while the network stands still: it waits until the process
/// answers no more, and no longer.
#[test]
fn a_process_that_is_parted_from_the_agent_delays_a_change_for_its_lease_and_answers_no_more() {
    for is_shut_out in [false, true] {
        let agent = agent(LEASE, 1);
        let direct = created(&agent);
        let proxy = Proxy::start(agent.address(), Faults::default());
        let through = opened(proxy.address());
        let [owner, writer] = [through.endpoint(), direct.endpoint()];
        let at = export(&owner);
        writer.reach_export(at).unwrap();
        owner.follow(at).unwrap();
        write(&writer, at, 1).unwrap();
        assert!(matches!(owner.own_word(at), Some(1) | None));
        let who = owner.identity();
        proxy.part(true);
        if is_shut_out {
            // Its session ends, and its process cannot be told.
            let _ = block_on(&writer, writer.shut_out(who)).unwrap();
        }
        let begun = Instant::now();
        write(&writer, at, 2).unwrap();
        let (seen, took) = (owner.own_word(at), begun.elapsed());
        assert_eq!(seen, None, "it would have answered {seen:?} after a change that completed in {took:?}");
        assert!(took < LEASE + LEASE / 4 + SLACK, "{took:?}");
        assert_eq!(write(&writer, at, 3), Err(VerbError::PeerDead), "the region is gone");
        while is_shut_out && !block_on(&writer, writer.is_dead(who)).unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(is_absent(&writer.reach_export(at)));
        proxy.part(false);
        assert_eq!(owner.own_word(at), None, "what has waited in the network does not count");
        if !is_shut_out {
            assert!(is_absent(&owner.reach_export(at)));
            assert_eq!(why(owner.follow(at)), "its owner has ended, or exports no such region");
            let again = export(&owner);
            owner.follow(again).unwrap();
        }
    }
}

#[test]
fn a_watch_that_is_cut_is_over_for_its_process_before_a_change_completes() {
    let agent = agent(LEASE, 2);
    let direct = created(&agent);
    let proxy = Proxy::start(agent.address(), Faults::default());
    let through = opened(proxy.address());
    let [owner, writer, late] = [through.endpoint(), direct.endpoint(), direct.endpoint()];
    let at = export(&owner);
    writer.reach_export(at).unwrap();
    owner.follow(at).unwrap();
    proxy.cut_latest();
    let begun = Instant::now();
    // The region is there until nothing answers for it any more.
    while late.reach_export(at).is_ok() {
        assert!(begun.elapsed() < LEASE + SLACK);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(owner.own_word(at), None);
    let after = write(&writer, at, 2);
    assert!(matches!(after, Err(VerbError::PeerDead)), "{after:?}");
    assert_eq!(read(&owner, PLACE), Ok(0), "the owner's other verbs go on");
}

#[test]
fn a_session_that_is_shut_out_is_dead_once_its_process_answers_no_more() {
    let agent = agent(LONG, 2);
    let reach = created(&agent);
    let [owner, other] = [reach.endpoint(), reach.endpoint()];
    let at = export(&owner);
    owner.follow(at).unwrap();
    let who = owner.identity();
    let begun = Instant::now();
    while !block_on(&other, other.shut_out(who)).unwrap() {
        assert!(begun.elapsed() < LONG / 2, "the process is told, and leaves");
    }
    assert_eq!(owner.own_word(at), None);
    assert!(is_absent(&other.reach_export(at)));
}

#[test]
fn an_agent_whose_regions_have_a_name_lets_no_process_follow_them() {
    let name = format!("shm:/atoll-tcp-follow-{}", std::process::id());
    let options = AgentOptions { name: Some(name.clone()), ..AgentOptions::default() };
    let agent = Agent::bind("127.0.0.1:0", options).unwrap().start().unwrap();
    let owner = created(&agent).endpoint();
    let at = export(&owner);
    let refused = why(owner.follow(at));
    let reached = owner.reach_export(at);
    drop(owner);
    fabric(agent.address()).remove(0).unwrap();
    assert!(refused.contains("start the node without --pool shm:"), "{refused}");
    assert!(reached.is_ok(), "it is exported as before");
}

const POOL: &str = "ATOLL_TEST_FOLLOW_POOL";
const FILE: &str = "ATOLL_TEST_FOLLOW_FILE";

/// A file in which the writer says what has completed: it is read faster than a word of the pool.
struct Completed(PathBuf);

impl Completed {
    fn new(what: &str) -> Self {
        Self(std::env::temp_dir().join(format!("atoll-follow-{}{what}", std::process::id())))
    }

    fn note(&self, value: u64) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, value.to_string()).unwrap();
        std::fs::rename(new, &self.0).unwrap();
    }
}

impl Drop for Completed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A process that follows a region, and looks at it all the time. It fails if it sees an old word.
/// It ends when the region is gone.
#[test]
fn a_follower_in_a_process_of_its_own() {
    let (Ok(pool), Ok(file)) = (std::env::var(POOL), std::env::var(FILE)) else { return };
    let fabric = TcpFabric::named(&pool).unwrap();
    let endpoint = fabric.reach(fabric.open(0).unwrap()).endpoint();
    let at = export(&endpoint);
    endpoint.follow(at).unwrap();
    write(&endpoint, PLACE, at.to_bits()).unwrap();
    loop {
        let completed = std::fs::read_to_string(&file).map_or(0, |value| value.parse().unwrap());
        match endpoint.own_word(at) {
            Some(seen) => assert!(seen >= completed, "{seen} is seen, and {completed} was completed"),
            None if is_absent(&endpoint.reach_export(at)) => break,
            None => {}
        }
    }
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_process_that_is_stopped_or_killed_delays_a_change_for_its_lease_and_never_answers_with_an_old_word() {
    for ends_by in ["-STOP", "-KILL"] {
        let agent = agent(LEASE, 2);
        let writer = created(&agent).endpoint();
        let completed = Completed::new(ends_by);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_follower_in_a_process_of_its_own", "--nocapture"]);
        command.env(POOL, format!("tcp:{}", agent.address())).env(FILE, &completed.0);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut place = 0;
        while place == 0 {
            assert!(child.try_wait().unwrap().is_none(), "the follower has failed");
            place = read(&writer, PLACE).unwrap();
        }
        let at = Address::from_bits(place);
        writer.reach_export(at).unwrap();
        let change = |value| {
            let begun = Instant::now();
            let changed = write(&writer, at, value);
            assert!(matches!(changed, Ok(()) | Err(VerbError::PeerDead)), "{changed:?}");
            completed.note(value);
            begun.elapsed()
        };
        let mut longest = (1..200).map(change).max().unwrap();
        signal(&child, ends_by);
        // The signal takes effect a moment later.
        let begun = Instant::now();
        let mut value = 200;
        while writer.reach_export(at).is_ok() {
            longest = longest.max(change(value));
            value += 1;
            assert!(begun.elapsed() < LEASE * 2 + SLACK);
        }
        println!("{ends_by}: the longest change took {longest:?}");
        assert!(longest < LEASE + LEASE / 4 + SLACK, "{longest:?}");
        // A writer that finds the region absent goes on.
        completed.note(value);
        if ends_by == "-STOP" {
            signal(&child, "-CONT");
            assert!(child.wait().unwrap().success());
        } else {
            child.wait().unwrap();
        }
    }
}
