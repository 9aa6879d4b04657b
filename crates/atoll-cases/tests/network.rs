//! Any engine over memory nodes and a network that delays, cuts, stalls and repeats: promises 1
//! and 4.
//!
//! Several threads play a load, each with several operations at a time, through proxies that draw
//! their faults from a seed. The operations of a client that the network has failed have unknown
//! outcomes. Its thread goes on with a new client: at once, or when the pool's registry says that
//! the last one has ended. In the second case the history says so, too: what was under way has
//! happened by then, or never does.

use atoll_cache::ditto::{Ditto, DittoOptions};
use atoll_cache::forge::{Forge, ForgeOptions, Hole};
use atoll_cache::{Cache, CacheError, EnginePool, Lasting, Pooled};
use atoll_cases::ticketed::Ticketed;
use atoll_cases::{Load, load};
use atoll_fabric::conformance::proxy::{Faults, Proxy};
use atoll_fabric::tcp::{Agent, AgentOptions, RunningAgent, TcpEndpoint, TcpFabric, TcpOptions, TcpReach};
use atoll_fabric::{Endpoint, Fabric, Reach, Region, VerbError, block_on, block_on_with};
use atoll_pool::registry::{self, Incarnation};
use atoll_pool::{PlaceState, PoolError, PoolSettings};
use atoll_sim::history::Event;
use atoll_sim::{History, Random};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Threads that play.
const THREADS: u32 = 4;
/// Clients of each thread, one after the other.
const CLIENTS: u32 = 6;
/// Operations that a client has under way at once.
const LANES: u64 = 4;

const LOAD: Load = Load::new(8, 300, 700, 40);
/// For clients of which many end early.
const LONG_LOAD: Load = Load::new(16, 2000, 700, 40);

type Tcp = TcpEndpoint;

/// Memory nodes, and the way to them.
struct Network {
    agents: Vec<RunningAgent>,
    proxies: Vec<Proxy>,
    /// Whether it cuts connections or lets them stall.
    loses: bool,
}

impl Network {
    fn new(nodes: u32, faults: Faults) -> Self {
        let agent = |_| Agent::bind("127.0.0.1:0", agent_options()).unwrap().start().unwrap();
        let agents: Vec<RunningAgent> = (0..nodes).map(agent).collect();
        let proxy = |(node, agent): (usize, &RunningAgent)| {
            Proxy::start(agent.address(), Faults { seed: faults.seed ^ (node as u64) << 32, ..faults })
        };
        let proxies = agents.iter().enumerate().map(proxy).collect();
        Self { agents, proxies, loses: faults.cut_per_mille + faults.stall_per_mille > 0 }
    }

    /// The nodes without the network's faults.
    fn near(&self) -> TcpFabric {
        fabric(self.agents.iter().map(RunningAgent::address), TcpOptions::default())
    }

    fn far(&self) -> TcpFabric {
        let (deadline, connect_timeout) = (Duration::from_millis(100), Duration::from_millis(500));
        let options = match self.loses {
            true => TcpOptions { deadline, connect_timeout, ..TcpOptions::default() },
            // Nothing but a busy machine could end a wait.
            false => TcpOptions::default(),
        };
        fabric(self.proxies.iter().map(Proxy::address), options)
    }
}

fn agent_options() -> AgentOptions {
    AgentOptions { lease: Duration::from_millis(20), capacity_bytes: 16 << 20, ..AgentOptions::default() }
}

fn fabric(addresses: impl Iterator<Item = SocketAddr>, options: TcpOptions) -> TcpFabric {
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    TcpFabric::with_options(&format!("tcp:{}", addresses.join(",")), options).unwrap()
}

/// Repeats until it is done: the network may fail it.
fn persist<T, E>(what: impl FnMut() -> Result<T, E>) -> T {
    std::iter::repeat_with(what).find_map(Result::ok).expect("it is repeated for ever")
}

/// A pool of an engine, as all threads have it open.
struct Played<G: Pooled<Tcp>> {
    shared: Arc<G::Shared>,
    near: TcpReach,
    far: TcpReach,
    seed: u64,
    tickets: AtomicU64,
    clients: AtomicU32,
    lost: AtomicU32,
    configure: fn(&mut G),
}

impl<G: Pooled<Tcp, Shared: Send + Sync> + 'static> Played<G> {
    fn new(network: &Network, settings: PoolSettings, seed: u64, configure: fn(&mut G)) -> Self {
        let (near, far) = (network.near(), network.far());
        let home = near.create(0, settings.home_bytes(), settings.home_bytes()).unwrap();
        let near = near.reach(home);
        for node in 1..settings.nodes as u8 {
            let made = network.near().create(node, settings.member_bytes, settings.member_bytes).unwrap();
            assert!(near.admit(node, made));
        }
        let endpoint = near.endpoint();
        let shared = block_on(&endpoint, G::format(&endpoint, settings.clone())).unwrap();
        let far_home = far.reach(persist(|| far.open(0)));
        for node in 1..settings.nodes as u8 {
            assert!(far_home.admit(node, persist(|| far.open(node))));
        }
        let far = far_home;
        let (tickets, clients, lost) = (AtomicU64::new(1), AtomicU32::new(0), AtomicU32::new(0));
        Self { shared, near, far, seed, tickets, clients, lost, configure }
    }

    fn recorder(&self) -> Ticketed<impl Fn() -> u64> {
        Ticketed::new(|| self.tickets.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
    }

    /// What one thread does; gives its history.
    fn play(&self, thread: u32) -> Vec<Event> {
        let recorder = self.recorder();
        let mut random = Random::stream(self.seed, 100 + u64::from(thread));
        for _ in 0..CLIENTS {
            let number = self.clients.fetch_add(1, Relaxed);
            let mut engine = persist(|| {
                let joined = block_on_with(|| self.far.wait(), G::join(&self.shared, self.far.endpoint()));
                assert!(!matches!(joined, Err(PoolError::Damaged { .. })), "{:?}", joined.err());
                joined
            });
            (self.configure)(&mut engine);
            let cache = Cache::new(Lasting::new(engine));
            let me = cache.engine().client().me();
            let wait = || cache.engine().client().endpoint.wait();
            let played = block_on_with(wait, load::run(&cache, number, self.seed, &LOAD, LANES, &recorder));
            let Err(error) = played else {
                let _ = block_on_with(wait, cache.engine().leave());
                continue;
            };
            assert!(is_of_network(&error), "{error}");
            self.lost.fetch_add(1, Relaxed);
            drop(cache);
            if random.below(2) == 0 {
                self.await_end(me);
                recorder.shut_out(number);
            }
        }
        recorder.into_events()
    }

    /// Waits until a client has ended, and repairs the pool.
    fn await_end(&self, who: Incarnation) {
        let mut keeper = None;
        let is_alive =
            |places: &[registry::Place]| places.iter().any(|place| place.incarnation == who && place.state.is_alive());
        loop {
            let endpoint = self.near.endpoint();
            let places = block_on(&endpoint, registry::places(&endpoint, self.shared.pool()));
            if places.is_ok_and(|places| !is_alive(&places)) {
                return self.dismiss(keeper);
            }
            self.repair(&mut keeper);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Repairs the pool, by a client that stays: only a client that has seen another one stand
    /// still for a while shuts it out.
    fn repair(&self, keeper: &mut Option<G>) {
        if keeper.is_none() {
            *keeper = block_on_with(|| self.near.wait(), G::join(&self.shared, self.near.endpoint())).ok();
        }
        let Some(engine) = keeper else { return };
        // It may be shut out while another thread keeps it from its core.
        if block_on_with(|| engine.client().endpoint.wait(), engine.repair()).is_err() {
            *keeper = None;
        }
    }

    fn dismiss(&self, keeper: Option<G>) {
        if let Some(engine) = keeper {
            let _ = block_on_with(|| engine.client().endpoint.wait(), engine.leave());
        }
    }

    /// Walks the pool, once all have left or were shut out and repaired; gives what is wrong. Only
    /// time shows that a client is dead, and its repairer may have died with it.
    fn verify(&self) -> Vec<String> {
        let endpoint = self.near.endpoint();
        let (deadline, mut keeper) = (Instant::now() + Duration::from_secs(120), None);
        loop {
            self.repair(&mut keeper);
            let own = keeper.as_ref().map(|keeper: &G| keeper.client().me());
            let places = block_on(&endpoint, registry::places(&endpoint, self.shared.pool())).unwrap();
            let is_free = |place: &registry::Place| place.state == PlaceState::Free || own == Some(place.incarnation);
            if places.iter().all(is_free) {
                self.dismiss(keeper);
                break;
            }
            assert!(Instant::now() < deadline, "places are never repaired: {places:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let auditor = G::auditor(&self.shared, endpoint).unwrap();
        block_on_with(|| auditor.client().endpoint.wait(), auditor.verify()).unwrap().faults
    }
}

/// Whether the network has failed a client, or another client had it shut out meanwhile.
fn is_of_network(error: &CacheError) -> bool {
    let CacheError::Verb(error) = error else { return false };
    matches!(error, VerbError::Fenced | VerbError::OutcomeUnknown | VerbError::PeerDead | VerbError::NodeAbsent(_))
}

/// What came of a load.
struct Outcome {
    /// The history of all threads.
    history: History,
    /// Clients that the network has failed.
    lost: u32,
    /// What is wrong with the pool.
    faults: Vec<String>,
}

/// Plays a load over the nodes of the settings.
fn played<G: Pooled<Tcp, Shared: Send + Sync> + 'static>(
    settings: PoolSettings,
    faults: Faults,
    configure: fn(&mut G),
) -> Outcome {
    let network = Network::new(settings.nodes, faults);
    let played = Played::<G>::new(&network, settings, faults.seed, configure);
    let events = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let played = &played;
                    move || played.play(thread)
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    network.proxies.iter().for_each(Proxy::calm);
    let faults = played.verify();
    Outcome { history: History::from_events(events), lost: played.lost.into_inner(), faults }
}

/// A pool that evicts much of the time.
fn small(settings: PoolSettings, nodes: u32) -> PoolSettings {
    PoolSettings { clients_max: 4 * THREADS, ..settings }.spread(nodes)
}

fn is_linearizable<G: Pooled<Tcp, Shared: Send + Sync> + 'static>(name: &str, settings: impl Fn() -> PoolSettings) {
    for seed in 0..4 {
        let faults = Faults {
            seed,
            delay: Duration::from_micros(50 << seed),
            jitters: true,
            // The first network only delays.
            cut_per_mille: seed.min(2),
            stall_per_mille: seed / 3,
            repeat_per_mille: 300 * seed,
        };
        let Outcome { history, lost, faults } = played::<G>(small(settings(), 1 + seed as u32 % 2), faults, |_| ());
        let checked = history.check().unwrap_or_else(|violation| panic!("{name}, seed {seed}: {violation}"));
        println!("{name}, seed {seed}: {checked:?}, {lost} clients lost of {}", THREADS * CLIENTS);
        assert_eq!(faults, Vec::<String>::new(), "{name}, seed {seed}");
        assert!(checked.hits > 200 && (lost > 0) == (seed > 0), "{checked:?}, {lost} lost: it shows little");
    }
}

#[test]
fn promise_1_histories_of_forge_over_a_faulty_network_are_linearizable() {
    is_linearizable::<Forge<Tcp>>("forge", || ForgeOptions::default().for_capacity(1 << 20));
}

#[test]
fn promise_1_histories_of_ditto_over_a_faulty_network_are_linearizable() {
    is_linearizable::<Ditto<Tcp>>("ditto", || DittoOptions::default().for_capacity(1 << 20));
}

/// What one thread does while a memory node ends and comes back: each of its clients opens the pool
/// as a process of its own; gives its history.
fn play_on<G: Pooled<Tcp> + 'static>(network: &TcpFabric, tickets: &AtomicU64, thread: u32, seed: u64) -> Vec<Event> {
    let recorder = Ticketed::new(|| tickets.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
    for number in (0..CLIENTS).map(|nth| thread * CLIENTS + nth) {
        let (_reach, engine) = joined::<G>(network);
        let cache = Cache::new(Lasting::new(engine));
        let wait = || cache.engine().client().endpoint.wait();
        let played = block_on_with(wait, load::run(&cache, number, seed, &LONG_LOAD, LANES, &recorder));
        match played {
            Ok(()) => drop(block_on_with(wait, cache.engine().leave())),
            Err(error) => assert!(is_of_network(&error), "{error}"),
        }
    }
    recorder.into_events()
}

/// Opens the pool and joins it, however often that fails.
fn joined<G: Pooled<Tcp>>(network: &TcpFabric) -> (TcpReach, G) {
    persist(|| {
        std::thread::sleep(Duration::from_millis(1));
        let home = network.open(0).map_err(|error| error.to_string())?;
        let bytes = home.attributes().bytes;
        let reach = network.reach(home);
        let endpoint = reach.endpoint();
        let opened = block_on_with(|| reach.wait(), G::open(&endpoint, bytes)).map_err(|error| error.to_string())?;
        let engine = block_on_with(|| reach.wait(), G::join(&opened, reach.endpoint()));
        Ok::<_, String>((reach, engine.map_err(|error| error.to_string())?))
    })
}

fn survives_the_end_of_a_node<G: Pooled<Tcp> + 'static>(settings: PoolSettings, seed: u64) {
    let mut network = Network::new(2, Faults { seed, ..Faults::default() });
    let settings = small(settings, 2);
    let near = network.near();
    let home = near.create(0, settings.home_bytes(), settings.home_bytes()).unwrap();
    let reach = near.reach(home);
    assert!(reach.admit(1, near.create(1, settings.member_bytes, settings.member_bytes).unwrap()));
    let endpoint = reach.endpoint();
    block_on(&endpoint, G::format(&endpoint, settings)).unwrap();
    drop((endpoint, reach));
    let (tickets, mut ended) = (AtomicU64::new(1), 0);
    let events: Vec<Event> = std::thread::scope(|scope| {
        let play = |thread| {
            let (near, tickets) = (&near, &tickets);
            scope.spawn(move || play_on::<G>(near, tickets, thread, seed))
        };
        let threads: Vec<_> = (0..THREADS).map(play).collect();
        let address = network.agents[1].address();
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) && ended < 4 {
            std::thread::sleep(Duration::from_millis(60 + 40 * seed));
            drop(network.agents.pop());
            std::thread::sleep(Duration::from_millis(20 + 100 * (seed % 2)));
            network.agents.push(persist(|| Agent::bind(&address.to_string(), agent_options()).and_then(Agent::start)));
            ended += 1;
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let checked = History::from_events(events).check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    println!("seed {seed}: {checked:?}, the node ended {ended} times");
    assert!(checked.hits > 100 && ended > 0, "{checked:?}: it shows little");
    // The last client asks for the node until that is back, and then everything is sound.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (reach, engine) = joined::<G>(&near);
        let wait = || reach.wait();
        // A client that stays finds those, too, that stand still and are not proven to be dead.
        let until = Instant::now() + Duration::from_secs(10);
        let left = loop {
            let tended = block_on_with(wait, engine.tend());
            let repaired = block_on_with(wait, engine.repair());
            let absent = engine.client().endpoint.absent();
            let places = block_on_with(wait, registry::places(&engine.client().endpoint, engine.shared().pool()));
            let me = engine.client().me();
            let is_mine_or_free = |place: &registry::Place| place.state == PlaceState::Free || place.incarnation == me;
            let is_alone = places.as_ref().is_ok_and(|places| places.iter().all(is_mine_or_free));
            if absent == 0 && repaired.is_ok() && is_alone {
                let faults = block_on_with(wait, engine.verify()).unwrap().faults;
                assert_eq!(faults, Vec::<String>::new(), "seed {seed}");
                return;
            }
            if tended.is_err() || Instant::now() > until {
                break format!("absent {absent:b}, {repaired:?}, {me:?}, {places:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(Instant::now() < end, "seed {seed}: the pool never gets whole again: {left}");
        let _ = block_on_with(wait, engine.leave());
    }
}

#[test]
fn promise_1_histories_are_linearizable_while_a_memory_node_ends_and_comes_back_empty() {
    for seed in 0..3 {
        survives_the_end_of_a_node::<Forge<Tcp>>(ForgeOptions::default().for_capacity(1 << 20), seed);
        survives_the_end_of_a_node::<Ditto<Tcp>>(DittoOptions::default().for_capacity(1 << 20), seed);
    }
}

/// The checks see what a client over a network could do wrong.
#[test]
fn a_hole_is_seen_over_a_network() {
    for hole in [Hole::UncheckedAddress, Hole::LostUpdate] {
        let open: fn(&mut Forge<Tcp>) = match hole {
            Hole::LostUpdate => |engine| engine.open_hole(Hole::LostUpdate),
            _ => |engine| engine.open_hole(Hole::UncheckedAddress),
        };
        let faults = |seed| Faults { seed, delay: Duration::from_micros(50), jitters: true, ..Faults::default() };
        let settings = || small(ForgeOptions::default().for_capacity(1 << 20), 1);
        let is_seen = (0..20).any(|seed| played::<Forge<Tcp>>(settings(), faults(seed), open).history.check().is_err());
        assert!(is_seen, "{hole:?} is not seen");
    }
}
