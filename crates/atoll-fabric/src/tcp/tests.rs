//! Followers made by hand, which break the rules of a watch.

use super::call::{Answer, Call};
use super::control::Control;
use super::notice::{decode_notice, decode_word, push_frame};
use super::wire::{HEAD_WORDS, Head, Kind};
use super::{Agent, AgentOptions, RunningAgent, TcpEndpoint, TcpFabric, TcpOptions};
use crate::shm::fork;
use crate::{
    Address, Batch, Domain, Endpoint, Fabric, Kind as Memory, Lifetime, Reach, RegionAttributes, VerbError, block_on,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(1);
/// What a busy machine may take longer.
const SLACK: Duration = Duration::from_secs(3);

/// An agent, the owner of an exported region, a writer that reaches it, and the region.
fn made(watch_lease: Duration) -> (RunningAgent, TcpEndpoint, TcpEndpoint, Address) {
    let options = AgentOptions { watch_lease, threads: 2, ..AgentOptions::default() };
    let agent = Agent::bind("127.0.0.1:0", options).unwrap().start().unwrap();
    let client = TcpOptions { deadline: Duration::from_secs(20), ..TcpOptions::default() };
    let fabric = TcpFabric::with_options(&format!("tcp:{}", agent.address()), client).unwrap();
    let reach = fabric.reach(fabric.create(0, 1 << 16, 1 << 16).unwrap());
    let [owner, writer] = [reach.endpoint(), reach.endpoint()];
    let wanted =
        RegionAttributes { bytes: 1 << 16, kind: Memory::Host, domain: Domain::Cpu, lifetime: Lifetime::Process };
    let at = owner.export(wanted).unwrap();
    writer.reach_export(at).unwrap();
    (agent, owner, writer, at)
}

fn watch(agent: &RunningAgent, session: u64, at: Address) -> (Control, Answer) {
    let mut control = Control::connect(&agent.address().to_string(), &TcpOptions::default()).unwrap();
    let answer = control.ask_once(&Call::Watch { session, at: at.to_bits() }).unwrap();
    (control, answer)
}

fn write(endpoint: &TcpEndpoint, at: Address, word: u64) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.write_word(at, word);
    block_on(endpoint, endpoint.post(&mut batch))
}

/// A follower without a mirror, and when it asked for its first lease.
struct Follower(TcpStream, Instant);

impl Follower {
    /// One that has the present words, and its first lease.
    fn begin(agent: &RunningAgent, owner: &TcpEndpoint, at: Address) -> Self {
        let (control, answer) = watch(agent, owner.home_session().unwrap().1, at);
        assert!(matches!(answer, Answer::Watching { size: 0x1_0000, .. }), "{answer:?}");
        let (stream, _, _) = control.into_stream();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut follower = Self(stream, Instant::now());
        let told = follower.await_notice();
        follower.send(Kind::Seen, &[told]);
        follower.1 = Instant::now();
        follower.send(Kind::Ping, &[1]);
        while follower.next().unwrap() != (Kind::Pong, vec![1]) {}
        follower
    }

    fn send(&mut self, kind: Kind, body: &[u64]) {
        let mut frame = Vec::new();
        push_frame(&mut frame, kind, body);
        let _ = self.0.write_all(bytemuck::cast_slice(&frame));
    }

    /// The next frame; `None` at the end of the connection.
    fn next(&mut self) -> Option<(Kind, Vec<u64>)> {
        let mut head = [0; HEAD_WORDS];
        self.0.read_exact(bytemuck::cast_slice_mut(&mut head)).ok()?;
        let head = Head::decode(head).unwrap();
        let mut body = vec![0; head.words];
        self.0.read_exact(bytemuck::cast_slice_mut(&mut body)).ok()?;
        Some((head.kind, body))
    }

    /// The count of the next notice.
    fn await_notice(&mut self) -> u64 {
        loop {
            match self.next().expect("the watch goes on") {
                (Kind::Notice, body) => return decode_notice(&body, 1 << 13, |_, _| {}).unwrap(),
                (Kind::Pong, body) => drop(decode_word(&body).unwrap()),
                (kind, _) => panic!("{kind:?}"),
            }
        }
    }
}

#[test]
fn a_follower_that_pings_and_sees_nothing_delays_writers_once_and_for_a_bounded_time() {
    let (agent, owner, writer, at) = made(LEASE);
    let mut follower = Follower::begin(&agent, &owner, at);
    let leased = follower.1;
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let writing = scope.spawn(move || (write(&writer, at, 1), begun.elapsed(), writer));
        while !writing.is_finished() {
            follower.send(Kind::Ping, &[2]);
            std::thread::sleep(Duration::from_millis(10));
        }
        let (written, took, writer) = writing.join().unwrap();
        assert_eq!(written, Ok(()));
        assert!(leased.elapsed() >= LEASE, "a lease was running when it completed after {took:?}");
        assert!(took < LEASE + LEASE / 4 + SLACK, "{took:?}");
        assert_eq!(write(&writer, at, 2), Err(VerbError::PeerDead));
        assert!(matches!(writer.reach_export(at), Err(VerbError::ExportAbsent(_))));
    });
    while follower.next().is_some() {}
    assert!(matches!(watch(&agent, owner.home_session().unwrap().1, at).1, Answer::Exists {}));
}

/// Changes without end, of which the follower takes none from its socket.
#[test]
fn a_follower_that_takes_nothing_bounds_what_is_executed_for_one_connection() {
    let (agent, owner, writer, at) = made(Duration::from_secs(2));
    let follower = Follower::begin(&agent, &owner, at);
    let reader = writer.reach_export(at).map(|_| &writer).unwrap();
    let mut batch = Batch::new();
    for value in 1..=4000 {
        batch.write_word(at, value);
        reader.post_unawaited(&mut batch);
    }
    // The owner's link is another one, and its READ of another region waits for nothing.
    let begun = Instant::now();
    let mut count = Batch::new();
    let found = count.read_word(Address::new(0, 0, 0));
    block_on(&owner, owner.post(&mut count)).unwrap();
    assert_eq!(count.word(found), 0);
    assert!(begun.elapsed() < Duration::from_secs(1), "another connection waits: {:?}", begun.elapsed());
    // The rest is refused: the region is gone.
    let flushed = block_on(&writer, writer.flush());
    assert!(matches!(flushed, Err(VerbError::PeerDead)), "{flushed:?}");
    drop(follower);
}

#[test]
fn a_follower_that_breaks_a_rule_is_cut_off_and_its_lease_still_counts() {
    for broken in 0..5 {
        let (agent, owner, writer, at) = made(LEASE);
        let mut follower = Follower::begin(&agent, &owner, at);
        let begun = follower.1;
        match broken {
            0 => follower.send(Kind::Seen, &[1000]),
            1 => follower.send(Kind::Batch, &[]),
            2 => follower.send(Kind::Ping, &[1, 2]),
            3 => follower.send(Kind::Notice, &[1, 5 | 1 << 32, 9]),
            _ => follower.send(Kind::Leave, &[1]),
        }
        while follower.next().is_some_and(|(kind, _)| kind != Kind::End) {}
        assert_eq!(write(&writer, at, 1), Ok(()));
        assert!(begun.elapsed() >= LEASE, "{:?}", begun.elapsed());
        assert!(begun.elapsed() < LEASE + SLACK, "{:?}", begun.elapsed());
        assert_eq!(write(&writer, at, 2), Err(VerbError::PeerDead));
    }
}

#[test]
fn a_follower_that_leaves_delays_no_writer() {
    let (agent, owner, writer, at) = made(Duration::from_secs(60));
    let mut follower = Follower::begin(&agent, &owner, at);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| (write(&writer, at, 1), writer));
        assert!(follower.await_notice() > 1);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!writing.is_finished(), "the change is not seen");
        follower.send(Kind::Leave, &[]);
        let (written, writer) = writing.join().unwrap();
        assert_eq!(written, Ok(()));
        assert_eq!(write(&writer, at, 2), Err(VerbError::PeerDead));
    });
    assert_eq!(follower.next(), None);
}

#[test]
fn a_region_is_watched_for_the_session_that_exports_it_and_once() {
    let (agent, owner, writer, at) = made(LEASE);
    let session = |endpoint: &TcpEndpoint| endpoint.home_session().unwrap().1;
    let place = |node, region| Address::on_compute(node, region, 0);
    let node = at.compute_node().unwrap();
    for (session, at) in [
        (session(&owner) ^ 1, at),
        (session(&writer), at),
        (session(&owner), place(node, 9)),
        (session(&owner), place(node + 1, 0)),
        (session(&owner), Address::new(0, 0, 0)),
        (session(&owner), Address::from_bits(u64::MAX)),
    ] {
        let answer = watch(&agent, session, at).1;
        assert!(matches!(answer, Answer::Absent { .. }), "{answer:?}");
    }
    let _first = watch(&agent, session(&owner), at);
    assert!(matches!(watch(&agent, session(&owner), at).1, Answer::Exists {}));
    // A follower that has not begun delays no writer.
    let begun = Instant::now();
    assert_eq!(write(&writer, at, 1), Ok(()));
    assert!(begun.elapsed() < Duration::from_secs(2));
}

/// Where a process that has an agent forks, the child has copies of its descriptors.
#[test]
fn an_agent_that_ends_is_gone_for_its_clients_although_a_fork_lives() {
    let (agent, owner, _writer, at) = made(LEASE);
    let address = agent.address();
    let fork = std::thread::spawn(|| {
        fork::in_fork(|| {
            std::thread::sleep(2 * SLACK);
            0
        })
    });
    std::thread::sleep(LEASE);
    let ended = Instant::now();
    drop(agent);
    assert!(write(&owner, at, 1).is_err());
    assert!(TcpStream::connect(address).is_err(), "nothing listens there any more");
    assert!(ended.elapsed() < SLACK, "{:?}", ended.elapsed());
    assert_eq!(fork.join().unwrap().unwrap(), 0);
}
