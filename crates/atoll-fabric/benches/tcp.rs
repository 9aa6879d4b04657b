//! What a READ costs over loopback, beside a bare ping-pong of as many bytes over the same kind of
//! socket. One client thread, one agent thread. Medians of rounds that alternate; the agent's
//! processor time for each READ is that of all rounds.

use atoll_fabric::tcp::{Agent, AgentOptions, TcpEndpoint, TcpFabric};
use atoll_fabric::{Address, Buffer, Endpoint, Fabric, Reach, block_on};
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

const BYTES: usize = 256;
/// Bytes of a READ on its way there and back, with the heads of their frames.
const THERE: usize = 32;
const BACK: usize = 16 + BYTES;
const ROUNDS: usize = 11;
const ROUND: Duration = Duration::from_millis(300);

/// A peer that answers each message of so many bytes with a message of so many bytes.
fn bare() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    for each in [&stream, &peer] {
        each.set_nodelay(true).unwrap();
    }
    std::thread::spawn(move || {
        let (mut there, back) = ([0; THERE], [0; BACK]);
        while peer.read_exact(&mut there).is_ok() && peer.write_all(&back).is_ok() {}
    });
    stream
}

/// Repeats for a round; gives nanoseconds of each time.
fn timed(mut each: impl FnMut()) -> f64 {
    let (begun, mut count) = (Instant::now(), 0_u32);
    while begun.elapsed() < ROUND {
        (0..16).for_each(|_| each());
        count += 16;
    }
    begun.elapsed().as_nanos() as f64 / f64::from(count)
}

/// READs of which `depth` are in flight all the time.
struct Deep<'e> {
    endpoint: &'e TcpEndpoint,
    reads: Vec<Pin<Box<dyn Future<Output = std::convert::Infallible> + 'e>>>,
}

impl<'e> Deep<'e> {
    fn new(endpoint: &'e TcpEndpoint, depth: usize) -> Self {
        let read = async |slot: u64| -> std::convert::Infallible {
            let mut buffer = Buffer::sized(BYTES);
            loop {
                buffer = endpoint.read(Address::new(0, 0, 4096 * slot), buffer).await.unwrap();
                DONE.set(DONE.get() + 1);
            }
        };
        Self { endpoint, reads: (0..depth as u64).map(|slot| Box::pin(read(slot)) as _).collect() }
    }

    fn run(&mut self) -> f64 {
        let (begun, before) = (Instant::now(), DONE.get());
        while begun.elapsed() < ROUND {
            block_on(
                self.endpoint,
                poll_fn(|context| {
                    self.reads.iter_mut().for_each(|read| assert!(read.as_mut().poll(context).is_pending()));
                    Poll::Ready(())
                }),
            );
            self.endpoint.wait();
        }
        begun.elapsed().as_nanos() as f64 / (DONE.get() - before) as f64
    }
}

thread_local! {
    static DONE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Processor time of the agent's thread in nanoseconds.
fn agent_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let ns = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let times = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        name.starts_with("atoll-agent").then(|| times.split(' ').next()?.parse::<u64>().ok())?
    };
    tasks.filter_map(ns).sum::<u64>()
}

fn median(mut found: Vec<f64>) -> f64 {
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}

fn main() {
    let agent = Agent::bind("127.0.0.1:0", AgentOptions::default()).unwrap().start().unwrap();
    let fabric = TcpFabric::named(&format!("tcp:{}", agent.address())).unwrap();
    let reach = fabric.reach(fabric.create(0, 1 << 20, 1 << 20).unwrap());
    let endpoint = reach.endpoint();
    let mut stream = bare();
    let (mut pings, mut reads) = (Vec::new(), Vec::new());
    let mut buffer = Buffer::sized(BYTES);
    let (mut agent_taken, mut count) = (0, 0_u64);
    for _ in 0..ROUNDS {
        pings.push(timed(|| {
            stream.write_all(&[0; THERE]).unwrap();
            stream.read_exact(&mut [0; BACK]).unwrap();
        }));
        let before = agent_ns();
        reads.push(timed(|| {
            let read = endpoint.read(Address::new(0, 0, 0), std::mem::take(&mut buffer));
            buffer = block_on(&endpoint, read).unwrap();
            count += 1;
        }));
        agent_taken += agent_ns() - before;
    }
    let (ping, read) = (median(pings), median(reads));
    println!("bare ping-pong        {ping:9.0} ns");
    let agent_each = agent_taken as f64 / count as f64;
    println!("READ,   1 in flight   {read:9.0} ns   {:.2} of the ping-pong, agent {agent_each:.0} ns", read / ping);
    for depth in [8, 32, 128] {
        let mut deep = Deep::new(&endpoint, depth);
        let (before, read_before) = (agent_ns(), DONE.get());
        let ns = median((0..ROUNDS).map(|_| deep.run()).collect());
        let agent_ns = (agent_ns() - before) as f64 / (DONE.get() - read_before) as f64;
        println!("READ, {depth:3} in flight   {ns:9.0} ns   {:.2} M/s, agent {agent_ns:.0} ns", 1e3 / ns);
    }
}
