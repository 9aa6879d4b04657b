//! Shared memory passes the suite, with clients that are threads and with clients that are
//! processes.

use atoll_fabric::conformance::control::{self, ControlFixture, Done};
use atoll_fabric::conformance::late::{Late, count_wait};
use atoll_fabric::conformance::{self, Case, Fixture, REGION_BYTES};
use atoll_fabric::shm::{ShmEndpoint, ShmFabric, ShmNodes, ShmRegion};
use atoll_fabric::{Clock, Endpoint, Fabric, FabricError, Reach, block_on_with, run_ready};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

struct Threads {
    rounds: u64,
}

impl Fixture for Threads {
    type Endpoint = ShmEndpoint;

    fn run(&self, case: &Case<ShmEndpoint>) {
        println!("{}", case.name);
        let anonymous = || Arc::new(ShmRegion::anonymous(REGION_BYTES).unwrap());
        let (home, nodes) = (anonymous(), Arc::new(ShmNodes::named("shm:/conformance-absent")));
        for node in 1..case.nodes {
            nodes.insert(node, anonymous()).unwrap();
        }
        let endpoint = || ShmEndpoint::with_regions(vec![home.clone()], Clock::host()).with_nodes(nodes.clone());
        let (play, rounds) = (case.play, self.rounds);
        std::thread::scope(|scope| {
            for client in 0..case.clients {
                let endpoint = endpoint();
                scope.spawn(move || block_on_with(std::thread::yield_now, play(endpoint, client, rounds)));
            }
        });
        block_on_with(std::thread::yield_now, (case.verify)(endpoint(), rounds));
    }
}

/// Every client is this test binary again, told by its environment what to play.
struct Processes {
    rounds: u64,
}

const REGION: &str = "ATOLL_CONFORMANCE_REGION";
const PART: &str = "ATOLL_CONFORMANCE_PART";

/// The regions of a case: the home's name, and how many nodes there are. Their names go when the
/// case is over, also when it fails.
struct Named(String, u8);

impl Named {
    fn make(home: String, nodes: u8) -> Self {
        let named = Self(home, nodes);
        for name in named.names() {
            ShmRegion::create(&name, REGION_BYTES).unwrap();
        }
        named
    }

    fn names(&self) -> impl Iterator<Item = String> {
        (0..self.1).map(|node| if node == 0 { self.0.clone() } else { ShmNodes::name(&self.0, node) })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = ShmRegion::remove(&name);
        }
    }
}

/// An endpoint over the regions of a case.
fn opened(home: &str) -> ShmEndpoint {
    let region = Arc::new(ShmRegion::open(home).unwrap());
    ShmEndpoint::with_regions(vec![region], Clock::host()).with_nodes(Arc::new(ShmNodes::named(home)))
}

impl Fixture for Processes {
    type Endpoint = ShmEndpoint;

    fn run(&self, case: &Case<ShmEndpoint>) {
        let name = Named::make(format!("shm:/conformance-{}-{}", std::process::id(), case.name), case.nodes);
        let part = |client| format!("{} {client} {}", case.name, self.rounds);
        let children: Vec<Child> = (0..case.clients)
            .map(|client| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "a_client_in_a_process_of_its_own", "--nocapture"]);
                command.stdout(Stdio::null()).env(REGION, &name.0).env(PART, part(client)).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "a client of {} failed", case.name);
        }
        run_ready((case.verify)(opened(&name.0), self.rounds));
    }
}

#[test]
fn shared_memory_passes_with_threads() {
    conformance::run(&Threads { rounds: 3000 });
}

#[test]
fn shared_memory_passes_with_processes() {
    conformance::run(&Processes { rounds: 1000 });
}

#[test]
fn compute_nodes_of_one_host_export_regions_to_threads_and_to_processes() {
    conformance::run_exports(&Threads { rounds: 3000 });
    conformance::run_exports(&Processes { rounds: 1000 });
    conformance::run_followed(&Threads { rounds: 3000 });
    conformance::run_followed(&Processes { rounds: 1000 });
}

#[test]
fn messages_of_one_host_keep_their_contract_among_threads_and_among_processes() {
    conformance::run_messages(&Threads { rounds: 3000 });
    conformance::run_messages(&Processes { rounds: 1000 });
}

/// Plays the part that [`Processes`] set; nothing in an ordinary run of the tests.
#[test]
fn a_client_in_a_process_of_its_own() {
    let Ok(name) = std::env::var(REGION) else { return };
    let part = std::env::var(PART).unwrap();
    let [case, client, rounds] = part.split(' ').collect::<Vec<_>>()[..] else { panic!("`{part}` is no part") };
    let case = conformance::case(case).or_else(|| conformance::message_case(case)).unwrap();
    let play = (case.play)(opened(&name), client.parse().unwrap(), rounds.parse().unwrap());
    block_on_with(std::thread::yield_now, play);
}

/// The control plane of regions with names, and of anonymous ones; with results that come late, or
/// at once.
struct Control<F: Fabric> {
    fabric: fn() -> F,
}

impl<F: Fabric> ControlFixture for Control<F> {
    type Fabric = F;

    fn with(&self, plays: &dyn Fn(&F)) {
        /// Names go when the case is over, also when it fails.
        struct Removed<'f, F: Fabric>(&'f F);
        impl<F: Fabric> Drop for Removed<'_, F> {
            fn drop(&mut self) {
                (0..4).for_each(|node| drop(self.0.remove(node)));
            }
        }
        let fabric = (self.fabric)();
        let _removed = Removed(&fabric);
        plays(&fabric);
    }

    fn done(&self, done: Done) -> u64 {
        block_on_with(count_wait, done)
    }
}

fn named() -> ShmFabric {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    ShmFabric::named(&format!("shm:/conformance-control-{}-{number}", std::process::id())).unwrap()
}

#[test]
fn the_control_plane_of_shared_memory_keeps_its_contract() {
    control::run(&Control { fabric: named });
    control::run(&Control { fabric: ShmFabric::anonymous });
    control::run(&Control { fabric: || Late(named()) });
}

#[test]
fn a_fabric_that_is_not_there_is_an_error_that_says_so() {
    for address in ["tcp:host:1/x", "verbs:mlx5_0", "sim:7"] {
        let refused = ShmFabric::named(address).unwrap_err();
        assert!(matches!(refused, FabricError::NoFabric { .. }), "{refused}");
        assert!(refused.to_string().contains("this version has no"), "{refused}");
    }
    assert!(matches!(ShmFabric::named("no-slash"), Err(FabricError::BadName(_))));
}

/// Clients that are threads, over shared memory whose results come late.
struct LateThreads {
    rounds: u64,
}

impl Fixture for LateThreads {
    type Endpoint = Late<ShmEndpoint>;

    fn run(&self, case: &Case<Late<ShmEndpoint>>) {
        let fabric = Late(ShmFabric::anonymous());
        let reach = fabric.reach(fabric.create(0, REGION_BYTES, REGION_BYTES).unwrap());
        for node in 1..case.nodes {
            assert!(reach.admit(node, fabric.create(node, REGION_BYTES, REGION_BYTES).unwrap()));
        }
        let (play, rounds) = (case.play, self.rounds);
        std::thread::scope(|scope| {
            for client in 0..case.clients {
                let endpoint = reach.endpoint();
                scope.spawn(move || block_on_with(count_wait, play(endpoint, client, rounds)));
            }
        });
        block_on_with(count_wait, (case.verify)(reach.endpoint(), rounds));
    }
}

#[test]
fn shared_memory_passes_when_results_come_late() {
    conformance::run(&LateThreads { rounds: 300 });
}

#[test]
#[should_panic = "give the future to block_on"]
fn a_future_that_waits_is_not_taken_for_one_that_is_ready() {
    let fabric = Late(ShmFabric::anonymous());
    let endpoint = fabric.reach(fabric.create(0, REGION_BYTES, REGION_BYTES).unwrap()).endpoint();
    let _ = run_ready(endpoint.flush());
}
