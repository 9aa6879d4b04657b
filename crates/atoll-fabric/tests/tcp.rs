//! TCP passes the suite, with agents that are threads of the test and connections over loopback.

use atoll_fabric::conformance::control::{self, ControlFixture, Done};
use atoll_fabric::conformance::{self, Case, Fixture, REGION_BYTES};
use atoll_fabric::shm::ShmFabric;
use atoll_fabric::tcp::{
    Agent, AgentOptions, Authority, Certificate, RunningAgent, Secret, TcpEndpoint, TcpFabric, TcpOptions, TcpReach,
};
use atoll_fabric::{
    Address, Batch, Buffer, Clock, Endpoint, Fabric, FabricError, Reach, VerbError, block_on, block_on_with,
};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const LOOPBACK: &str = "127.0.0.1:0";

/// Agents, and the address of a pool on them.
struct Agents {
    running: Vec<RunningAgent>,
    fabric: TcpFabric,
}

impl Agents {
    fn start(options: &[AgentOptions], client: TcpOptions) -> Self {
        let start = |options: &AgentOptions| Agent::bind(LOOPBACK, options.clone()).unwrap().start().unwrap();
        let running: Vec<RunningAgent> = options.iter().map(start).collect();
        let addresses: Vec<String> = running.iter().map(|agent| agent.address().to_string()).collect();
        let fabric = TcpFabric::with_options(&format!("tcp:{}", addresses.join(",")), client).unwrap();
        Self { running, fabric }
    }

    fn some(count: usize, options: &AgentOptions) -> Self {
        Self::start(&vec![options.clone(); count], TcpOptions::default())
    }

    /// A reach of fresh regions of so many nodes.
    fn reach(&self, nodes: u8) -> TcpReach {
        let create = |node| self.fabric.create(node, REGION_BYTES, REGION_BYTES).unwrap();
        let reach = self.fabric.reach(create(0));
        (1..nodes).for_each(|node| assert!(reach.admit(node, create(node))));
        reach
    }
}

/// A name of this host, removed with its regions when the test is over.
struct Name(String);

impl Name {
    fn new(what: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("shm:/atoll-tcp-{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let fabric = ShmFabric::named(&self.0).unwrap();
        (0..4).for_each(|node| drop(fabric.remove(node)));
    }
}

/// Clients that are threads.
struct Threads {
    rounds: u64,
    agents: usize,
    options: AgentOptions,
    client: TcpOptions,
}

impl Fixture for Threads {
    type Endpoint = TcpEndpoint;

    fn run(&self, case: &Case<TcpEndpoint>) {
        println!("{}", case.name);
        let agents = Agents::start(&vec![self.options.clone(); self.agents], self.client.clone());
        let reach = agents.reach(case.nodes);
        let (play, rounds) = (case.play, self.rounds);
        std::thread::scope(|scope| {
            for client in 0..case.clients {
                let endpoint = reach.endpoint();
                scope.spawn(move || block_on_with(std::thread::yield_now, play(endpoint, client, rounds)));
            }
        });
        block_on_with(std::thread::yield_now, (case.verify)(reach.endpoint(), rounds));
    }
}

/// Sessions can be shut out at once. A process that follows a region keeps its lease on a busy
/// machine.
fn options() -> AgentOptions {
    AgentOptions { lease: Duration::ZERO, watch_lease: Duration::from_secs(10), ..AgentOptions::default() }
}

#[test]
fn tcp_passes_with_one_agent() {
    conformance::run(&Threads { rounds: 300, agents: 1, options: options(), client: TcpOptions::default() });
}

#[test]
fn tcp_passes_with_an_agent_for_each_memory_node_and_threads_of_agents() {
    conformance::run(&Threads {
        rounds: 200,
        agents: 3,
        options: AgentOptions { threads: 2, ..options() },
        client: TcpOptions::default(),
    });
}

#[test]
fn compute_nodes_export_regions_over_tcp() {
    conformance::run_exports(&Threads { rounds: 200, agents: 1, options: options(), client: TcpOptions::default() });
    let name = Name::new("exports");
    let options = AgentOptions { name: Some(name.0.clone()), ..options() };
    let threads = Threads { rounds: 50, agents: 1, options, client: TcpOptions::default() };
    threads.run(&conformance::case("an_exported_region_goes_with_its_owner").unwrap());
}

/// Every client is this test binary again, told by its environment what to play.
struct Processes {
    rounds: u64,
    agents: usize,
    options: AgentOptions,
    /// The file of the agents' authority, if there is TLS.
    authority: Option<std::path::PathBuf>,
}

const POOL: &str = "ATOLL_TEST_TCP_POOL";
const PART: &str = "ATOLL_TEST_TCP_PART";

impl Fixture for Processes {
    type Endpoint = TcpEndpoint;

    fn run(&self, case: &Case<TcpEndpoint>) {
        println!("{} among processes", case.name);
        let authority = self.authority.as_deref().map(|file| Authority::of_file(file).unwrap());
        let client = TcpOptions { authority, ..TcpOptions::default() };
        let agents = Agents::start(&vec![self.options.clone(); self.agents], client);
        let reach = agents.reach(case.nodes);
        let ca = self.authority.as_ref().map_or(String::new(), |file| format!("?ca={}", file.display()));
        let pool = format!("{}{ca}", Fabric::address(&agents.fabric).unwrap());
        let children: Vec<Child> = (0..case.clients)
            .map(|client| {
                let part = format!("{} {client} {}", case.name, self.rounds);
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "a_client_in_a_process_of_its_own", "--nocapture"]);
                command.stdout(Stdio::null()).env(POOL, &pool).env(PART, part).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "a client of {} failed", case.name);
        }
        block_on_with(std::thread::yield_now, (case.verify)(reach.endpoint(), self.rounds));
    }
}

/// The part of a client of [`Processes`], if the environment names one.
#[test]
fn a_client_in_a_process_of_its_own() {
    let (Ok(pool), Ok(part)) = (std::env::var(POOL), std::env::var(PART)) else { return };
    let [name, client, rounds] = part.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let fabric = TcpFabric::named(&pool).unwrap();
    let endpoint = fabric.reach(fabric.open(0).unwrap()).endpoint();
    let case = conformance::case(name).unwrap();
    block_on_with(std::thread::yield_now, (case.play)(endpoint, client.parse().unwrap(), rounds.parse().unwrap()));
}

#[test]
fn a_process_follows_the_regions_that_it_exports_over_tcp() {
    conformance::run_followed(&Threads { rounds: 100, agents: 1, options: options(), client: TcpOptions::default() });
    let options = AgentOptions { threads: 2, ..options() };
    let client = TcpOptions::default();
    conformance::run_followed(&Threads { rounds: 100, agents: 3, options: options.clone(), client });
    conformance::run_followed(&Processes { rounds: 100, agents: 2, options, authority: None });
}

#[test]
fn a_process_follows_the_regions_that_it_exports_within_tls() {
    let signed = Signed::new("follows", "127.0.0.1");
    let options = AgentOptions { certificate: Some(signed.certificate()), threads: 2, ..options() };
    let client = TcpOptions { authority: Some(signed.authority()), ..TcpOptions::default() };
    conformance::run_followed(&Threads { rounds: 60, agents: 1, options: options.clone(), client });
    let authority = Some(signed.0.join("cert.pem"));
    conformance::run_followed(&Processes { rounds: 60, agents: 1, options, authority });
}

#[test]
fn messages_keep_their_contract_over_tcp() {
    conformance::run_messages(&Threads { rounds: 200, agents: 1, options: options(), client: TcpOptions::default() });
}

/// The control plane of agents that are made for each case.
struct Control {
    agents: usize,
    is_named: bool,
}

impl ControlFixture for Control {
    type Fabric = TcpFabric;

    fn with(&self, plays: &dyn Fn(&TcpFabric)) {
        let names: Vec<Name> = (0..self.agents).map(|_| Name::new("control")).collect();
        let name = |name: &Name| self.is_named.then(|| name.0.clone());
        let options: Vec<AgentOptions> =
            names.iter().map(|each| AgentOptions { name: name(each), ..options() }).collect();
        plays(&Agents::start(&options, TcpOptions::default()).fabric);
    }

    fn done(&self, done: Done) -> u64 {
        block_on_with(std::thread::yield_now, done)
    }
}

#[test]
fn the_control_plane_over_tcp_keeps_its_contract() {
    for (agents, is_named) in [(1, false), (1, true), (3, false), (3, true)] {
        println!("{agents} agents, named: {is_named}");
        control::run(&Control { agents, is_named });
    }
}

#[test]
fn an_address_that_names_no_agents_is_an_error_that_says_so() {
    for address in ["tcp:", "tcp:host", "tcp:host:", "tcp::7", "tcp:host:0", "tcp:a:1,,b:2", "tcp:a:99999", "shm:/x"] {
        let refused = TcpFabric::named(address).unwrap_err();
        assert!(matches!(refused, FabricError::BadAddress(_)), "{address}: {refused}");
    }
    let fabric = TcpFabric::named("tcp:127.0.0.1:1").unwrap();
    let gone = fabric.open(0).unwrap_err().to_string();
    assert!(gone.contains("tcp:127.0.0.1:1: cannot reach the memory node"), "{gone}");
}

#[test]
fn an_agent_with_a_secret_serves_those_alone_who_know_it() {
    let secret = |bytes: &[u8; 16]| Some(Secret::new(bytes).unwrap());
    let agent = AgentOptions { secret: secret(b"sixteen bytes !!"), ..options() };
    let with = |secret| Agents::start(std::slice::from_ref(&agent), TcpOptions { secret, ..TcpOptions::default() });
    let good = with(secret(b"sixteen bytes !!"));
    let endpoint = good.reach(1).endpoint();
    assert_ne!(endpoint.identity(), atoll_fabric::Identity::NOBODY);
    let text = |agents: &Agents| agents.fabric.open(0).unwrap_err().to_string();
    let none = text(&with(None));
    assert!(none.contains("ATOLL_SECRET_FILE"), "{none}");
    let bad = text(&with(secret(b"sixteen bytes ??")));
    assert!(bad.contains("it refuses the secret"), "{bad}");
    let refused = Agent::bind("0.0.0.0:0", options()).err().unwrap().to_string();
    assert!(refused.contains("--secret-file"), "{refused}");
    assert_eq!(block_on(&endpoint, endpoint.flush()), Ok(()));
    drop((endpoint, good.running));
}

/// Processes of the agent's host open the region by its name, and both sides' atomics and deaths
/// are one.
#[test]
fn a_region_is_the_same_by_tcp_and_by_its_name_on_the_agents_host() {
    let name = Name::new("both");
    let agents = Agents::some(1, &AgentOptions { name: Some(name.0.clone()), ..options() });
    let reach = agents.reach(1);
    let here = ShmFabric::named(&name.0).unwrap();
    let here = here.reach(here.open(0).unwrap());
    const ROUNDS: u64 = 2000;
    std::thread::scope(|scope| {
        let (near, far) = (here.endpoint(), reach.endpoint());
        scope.spawn(move || (0..ROUNDS).for_each(|_| assert!(add(&near, 8, 1) < 2 * ROUNDS)));
        scope.spawn(move || (0..ROUNDS).for_each(|_| assert!(add(&far, 8, 1) < 2 * ROUNDS)));
    });
    let (near, far) = (here.endpoint(), reach.endpoint());
    assert_eq!((add(&near, 8, 0), add(&far, 8, 0)), (2 * ROUNDS, 2 * ROUNDS));
    let (near_id, far_id) = (near.identity(), far.identity());
    assert_eq!(block_on(&near, near.is_dead(far_id)), Ok(false));
    assert_eq!(block_on(&far, far.is_dead(near_id)), Ok(false));
    assert_eq!(block_on(&far, far.shut_out(near_id)), Ok(false), "a process of the host cannot be forced");
    drop(far);
    assert_eq!(block_on(&near, near.is_dead(far_id)), Ok(true));
    let far = reach.endpoint();
    drop(near);
    assert_eq!(block_on(&far, far.is_dead(near_id)), Ok(true));
}

fn add<E: Endpoint>(endpoint: &E, offset: u64, addend: u64) -> u64 {
    let mut batch = Batch::new();
    let found = batch.fetch_and_add(Address::new(0, 0, offset), addend);
    block_on(endpoint, endpoint.post(&mut batch)).unwrap();
    batch.word(found)
}

#[test]
fn a_client_that_was_silent_for_the_lease_is_shut_out_and_learns_it() {
    let agents = Agents::some(1, &AgentOptions { lease: Duration::from_secs(2), ..AgentOptions::default() });
    let reach = agents.reach(1);
    let [one, other] = [reach.endpoint(), reach.endpoint()];
    let (who, _) = (one.identity(), other.identity());
    add(&one, 8, 1);
    assert_eq!(block_on(&other, other.shut_out(who)), Ok(false), "it was heard a moment ago");
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(block_on(&other, other.is_dead(who)), Ok(false));
    assert_eq!(block_on(&other, other.shut_out(who)), Ok(true));
    assert_eq!(block_on(&other, other.is_dead(who)), Ok(true));
    for _ in 0..3 {
        let mut batch = Batch::new();
        batch.fetch_and_add(Address::new(0, 0, 8), 1);
        assert_eq!(block_on(&one, one.post(&mut batch)), Err(VerbError::Fenced));
    }
    assert_eq!(add(&other, 8, 0), 1);
}

/// A client is dead once its sessions with all agents have ended, and not before.
#[test]
fn a_client_of_several_agents_is_dead_when_none_of_them_executes_for_it() {
    let agents = Agents::some(2, &options());
    let reach = agents.reach(2);
    let [one, other] = [reach.endpoint(), reach.endpoint()];
    let who = one.identity();
    let at = Address::new(1, 0, 8);
    let change = |endpoint: &TcpEndpoint| {
        let mut batch = Batch::new();
        batch.fetch_and_add(at, 1);
        block_on(endpoint, endpoint.post(&mut batch))
    };
    assert_eq!((change(&one), change(&other)), (Ok(()), Ok(())));
    // The further agent is asked to end the session, which takes a moment.
    let until = Instant::now() + Duration::from_secs(5);
    while !block_on(&other, other.shut_out(who)).unwrap() {
        assert!(Instant::now() < until, "the other agent answers");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(change(&one).is_err(), "its session with the further agent has ended, too");
    assert_eq!(change(&other), Ok(()));
    // A further agent that is gone executes nothing.
    let Agents { mut running, fabric: _fabric } = agents;
    let third = reach.endpoint();
    let who = third.identity();
    assert_eq!(change(&third), Ok(()));
    drop(running.remove(1));
    assert_eq!(change(&third), Err(VerbError::OutcomeUnknown));
    drop(third);
    while !block_on(&other, other.is_dead(who)).unwrap() {
        assert!(Instant::now() < until, "the other agent is gone");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One that has ended is dead although it exists, and gives back what it had of a further agent.
#[test]
fn an_endpoint_that_has_ended_is_dead_and_posts_nothing() {
    let agents = Agents::some(2, &options());
    let reach = agents.reach(2);
    let [one, other] = [reach.endpoint(), reach.endpoint()];
    let who = one.identity();
    let change = |endpoint: &TcpEndpoint, node| {
        let mut batch = Batch::new();
        batch.fetch_and_add(Address::new(node, 0, 8), 1);
        block_on(endpoint, endpoint.post(&mut batch))
    };
    assert!([0, 1].into_iter().all(|node| change(&one, node).is_ok() && change(&other, node).is_ok()));
    assert_eq!(block_on(&other, other.is_dead(who)), Ok(false));
    one.end();
    assert!([0, 1].into_iter().all(|node| change(&one, node).is_err()));
    let until = Instant::now() + Duration::from_secs(5);
    while !block_on(&other, other.is_dead(who)).unwrap() {
        assert!(Instant::now() < until, "nothing keeps it alive");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!([0, 1].map(|node| change(&other, node)), [Ok(()), Ok(())]);
    drop(one);
}

/// What has arrived ends the wait, whichever memory node it came from: a wait for links lasts ten
/// milliseconds if nothing comes, so that 100 of them last a second.
#[test]
fn an_answer_of_one_of_several_agents_ends_the_wait() {
    let agents = Agents::some(2, &options());
    let reach = agents.reach(2);
    let endpoint = reach.endpoint();
    let rounds = (0..10).map(|_| {
        let begun = Instant::now();
        for _ in 0..100 {
            let mut batch = Batch::new();
            (0..2).for_each(|node| _ = batch.read_word(Address::new(node, 0, 0)));
            block_on(&endpoint, endpoint.post(&mut batch)).unwrap();
        }
        begun.elapsed()
    });
    let least = rounds.min().unwrap();
    assert!(least < Duration::from_millis(100), "100 batches took {least:?}");
}

/// The clock of an agent is that of its host's processes, or a little behind, and never goes back.
#[test]
fn an_endpoint_reads_the_clock_of_its_agents_host() {
    let agents = Agents::some(1, &options());
    let endpoint = agents.reach(1).endpoint();
    let mut last_ms = 0;
    for round in 0..200 {
        let told_ms = endpoint.agent_ms().unwrap();
        let here_ms = Clock::host().agent_ms().unwrap();
        assert!(told_ms <= here_ms && told_ms >= last_ms, "{told_ms} of {here_ms} after {last_ms}");
        // A busy machine may have kept the answer waiting.
        assert!(told_ms + 2000 > here_ms, "{told_ms} of {here_ms}");
        last_ms = told_ms;
        if round % 2 == 0 {
            add(&endpoint, 8, 1);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Files of a certificate that signs itself, removed at the end.
struct Signed(std::path::PathBuf);

impl Signed {
    fn new(what: &str, host: &str) -> Self {
        let signed = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        let path = std::env::temp_dir().join(format!("atoll-tls-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("cert.pem"), signed.cert.pem()).unwrap();
        std::fs::write(path.join("key.pem"), signed.signing_key.serialize_pem()).unwrap();
        Self(path)
    }

    fn certificate(&self) -> Certificate {
        Certificate::of_files(&self.0.join("cert.pem"), &self.0.join("key.pem"), None).unwrap()
    }

    fn authority(&self) -> Authority {
        Authority::of_file(&self.0.join("cert.pem")).unwrap()
    }
}

impl Drop for Signed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tcp_passes_within_tls() {
    let signed = Signed::new("passes", "127.0.0.1");
    let (certificate, authority) = (Some(signed.certificate()), Some(signed.authority()));
    let options = AgentOptions { certificate, authority: authority.clone(), threads: 2, ..options() };
    let client = TcpOptions { authority, ..TcpOptions::default() };
    conformance::run(&Threads { rounds: 100, agents: 3, options: options.clone(), client: client.clone() });
    conformance::run_exports(&Threads { rounds: 50, agents: 1, options, client });
}

/// Frames longer than a record of TLS, many at a time, so that sockets are full.
#[test]
fn long_batches_pass_tls_in_both_directions() {
    let signed = Signed::new("long", "127.0.0.1");
    let options = AgentOptions { certificate: Some(signed.certificate()), ..options() };
    let client = TcpOptions { authority: Some(signed.authority()), ..TcpOptions::default() };
    let agents = Agents::start(&[options], client);
    let reach = agents.fabric.reach(agents.fabric.create(0, 16 << 20, 16 << 20).unwrap());
    let endpoint = reach.endpoint();
    const BYTES: usize = 1 << 20;
    for round in 0..8_u8 {
        let write = async |part: u64| {
            let mut from = Buffer::sized(BYTES);
            from.bytes_mut().fill(round ^ part as u8);
            let mut batch = Batch::new();
            batch.write(Address::new(0, 0, part * BYTES as u64), from);
            endpoint.post(&mut batch).await
        };
        let read = async |part: u64| {
            let read = endpoint.read(Address::new(0, 0, part * BYTES as u64), Buffer::sized(BYTES)).await.unwrap();
            assert!(read.bytes().iter().all(|byte| *byte == round ^ part as u8), "part {part}");
        };
        let mut writes: Vec<_> = (0..8).map(|part| Box::pin(write(part))).collect();
        block_on(&endpoint, all(&mut writes)).into_iter().for_each(|written| written.unwrap());
        let mut reads: Vec<_> = (0..8).map(|part| Box::pin(read(part))).collect();
        block_on(&endpoint, all(&mut reads));
    }
}

/// Polls all of them until all have ended.
async fn all<F: Future + Unpin>(futures: &mut [F]) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(ready) = std::pin::Pin::new(future).poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[test]
fn tls_lets_no_client_in_that_does_not_know_the_agents_authority_and_no_agent_pass_that_has_another() {
    let (ours, other) = (Signed::new("ours", "127.0.0.1"), Signed::new("other", "127.0.0.1"));
    let elsewhere = Signed::new("elsewhere", "192.0.2.1");
    let client = |authority: Option<&Signed>| TcpOptions {
        authority: authority.map(Signed::authority),
        connect_timeout: Duration::from_secs(20),
        ..TcpOptions::default()
    };
    // An answer does not come, where one side has no TLS.
    let brief = |authority| TcpOptions { connect_timeout: Duration::from_millis(300), ..client(authority) };
    let error = |agent: Option<&Signed>, client: TcpOptions| {
        let options = AgentOptions { certificate: agent.map(Signed::certificate), ..options() };
        Agents::start(&[options], client).fabric.create(0, REGION_BYTES, REGION_BYTES).err().map(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error}: {}", source.unwrap_or_default())
        })
    };
    assert_eq!(error(Some(&ours), client(Some(&ours))), None);
    let unknown = error(Some(&ours), client(Some(&other))).unwrap();
    assert!(unknown.contains("certificate"), "{unknown}");
    let misnamed = error(Some(&elsewhere), client(Some(&elsewhere))).unwrap();
    assert!(misnamed.contains("certificate"), "{misnamed}");
    let plain_client = error(Some(&ours), brief(None)).unwrap();
    assert!(plain_client.contains("?ca="), "{plain_client}");
    assert!(error(None, brief(Some(&ours))).is_some(), "an agent without TLS is not one that proves itself");
}

#[test]
fn an_address_names_the_authority() {
    let signed = Signed::new("address", "127.0.0.1");
    let options = AgentOptions { certificate: Some(signed.certificate()), ..options() };
    let agent = Agent::bind(LOOPBACK, options).unwrap().start().unwrap();
    let file = signed.0.join("cert.pem");
    let address = format!("tcp:{}?ca={}", agent.address(), file.display());
    TcpFabric::named(&address).unwrap().create(0, REGION_BYTES, REGION_BYTES).unwrap();
    let missing = TcpFabric::named("tcp:127.0.0.1:1?ca=/nowhere/ca.pem").unwrap_err().to_string();
    assert!(missing.contains("/nowhere/ca.pem"), "{missing}");
}
