//! How much memory connections cost an agent, and how much processor time idle threads. The tests
//! measure their own process, so that they run one after the other.

use atoll_fabric::tcp::{
    Agent, AgentOptions, Authority, Certificate, RunningAgent, TcpEndpoint, TcpFabric, TcpOptions, TcpReach,
};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Fabric, Identity, Reach, VerbError, block_on};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

const BYTES: u64 = 1 << 20;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn agent(options: AgentOptions) -> RunningAgent {
    Agent::bind("127.0.0.1:0", options).unwrap().start().unwrap()
}

fn created(agent: &RunningAgent) -> TcpReach {
    let fabric = TcpFabric::named(&format!("tcp:{}", agent.address())).unwrap();
    fabric.reach(fabric.create(0, BYTES, BYTES).unwrap())
}

fn add(endpoint: &TcpEndpoint, offset: u64, addend: u64) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let found = batch.fetch_and_add(Address::new(0, 0, offset), addend);
    block_on(endpoint, endpoint.post(&mut batch)).map(|()| batch.word(found))
}

#[test]
fn a_thousand_idle_connections_cost_little() {
    idle_connections_cost_little(AgentOptions::default(), TcpOptions::default(), 64 << 10);
}

#[test]
fn a_thousand_idle_connections_within_tls_cost_little() {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!("atoll-memory-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&certificate, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let authority = Some(Authority::of_file(&certificate).unwrap());
    let certificate = Some(Certificate::of_files(&certificate, &key, None).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    let client = TcpOptions { authority, ..TcpOptions::default() };
    // TLS has as many buffers on either side.
    idle_connections_cost_little(AgentOptions { certificate, ..AgentOptions::default() }, client, 2 * (64 << 10));
}

fn idle_connections_cost_little(options: AgentOptions, client: TcpOptions, bytes_max: u64) {
    let _alone = alone();
    let agent = agent(AgentOptions { connections_max: 3000, ..options });
    let fabric = TcpFabric::with_options(&format!("tcp:{}", agent.address()), client).unwrap();
    let reach = fabric.reach(fabric.create(0, BYTES, BYTES).unwrap());
    const CLIENTS: usize = 1000;
    let endpoints: Vec<TcpEndpoint> = (0..CLIENTS).map(|_| reach.endpoint()).collect();
    // Allocations of the first clients are no measure.
    endpoints[..50].iter().for_each(|endpoint| assert_ne!(endpoint.identity(), Identity::NOBODY));
    let before = rss_bytes();
    endpoints.iter().for_each(|endpoint| assert_ne!(endpoint.identity(), Identity::NOBODY));
    let grown = rss_bytes().saturating_sub(before) / (CLIENTS as u64 - 50);
    // Both sides are in this process: a client has room for 64 KiB of what arrives, of which an
    // idle one has touched a page.
    println!("{grown} bytes for each connection, of both sides together");
    assert!(grown <= bytes_max, "{grown} bytes");
    assert_eq!(agent.connections(), CLIENTS + 1);
    assert_eq!(add(&endpoints[999], 8, 1), Ok(0));
}

/// Processor time of all threads of this process.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time` alone.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Threads that look for what comes soon before they sleep take no core while nothing comes.
#[test]
fn agents_and_clients_without_work_sleep() {
    let _alone = alone();
    let agent = agent(AgentOptions { threads: 2, ..AgentOptions::default() });
    let endpoint = created(&agent).endpoint();
    let mut least = Duration::MAX;
    for _ in 0..20 {
        for _ in 0..200 {
            add(&endpoint, 0, 1).unwrap();
        }
        let before = processor_time();
        block_on(&endpoint, endpoint.pause(50_000_000));
        least = least.min(processor_time() - before);
    }
    assert!(least < Duration::from_millis(5), "{least:?} of 50 ms");
}

fn rss_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
fn a_client_that_takes_no_answers_grows_the_agent_no_further_and_harms_no_other() {
    let _alone = alone();
    let agent = agent(AgentOptions::default());
    let reach = created(&agent);
    let greedy = reach.endpoint();
    let other = reach.endpoint();
    assert_eq!(add(&greedy, 8, 1), Ok(0));
    let before = rss_bytes();
    // The client asks for most of a gigabyte, and takes no answer.
    let mut posted: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for _ in 0..256 {
        let greedy = &greedy;
        posted.push(Box::pin(async move {
            let mut batch = Batch::new();
            for _ in 0..3 {
                batch.read(Address::new(0, 0, 0), Buffer::sized(1 << 20));
            }
            let _ = greedy.post(&mut batch).await;
        }));
    }
    block_on(
        &greedy,
        poll_fn(|context| {
            posted.iter_mut().for_each(|post| assert!(post.as_mut().poll(context).is_pending()));
            Poll::Ready(())
        }),
    );
    let asked = rss_bytes();
    atoll_fabric::Arrivals::send(&greedy);
    let (begun, mut rounds) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_millis(500) || rounds < 500 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{rounds} verbs of another client in half a minute");
        assert_eq!(add(&other, 16, 1), Ok(rounds));
        rounds += 1;
    }
    let grown = rss_bytes().saturating_sub(asked);
    println!("{grown} bytes more, {} of them the client's own, {rounds} verbs of another", asked - before);
    assert!(grown < 24 << 20, "{grown} bytes");
}
