//! Shared memory passes the suite, with clients that are threads and with clients that are processes.

use atoll_fabric::conformance::{self, Case, Fixture, REGION_BYTES};
use atoll_fabric::run_ready;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

struct Threads {
    rounds: u64,
}

impl Fixture for Threads {
    type Endpoint = ShmEndpoint;

    fn run(&self, case: &Case<ShmEndpoint>) {
        println!("{}", case.name);
        let region = Arc::new(ShmRegion::anonymous(REGION_BYTES).unwrap());
        let (play, rounds) = (case.play, self.rounds);
        std::thread::scope(|scope| {
            for client in 0..case.clients {
                let endpoint = ShmEndpoint::new(region.clone());
                scope.spawn(move || run_ready(play(endpoint, client, rounds)));
            }
        });
        run_ready((case.verify)(ShmEndpoint::new(region), rounds));
    }
}

/// Every client is this test binary again, told by its environment what to play.
struct Processes {
    rounds: u64,
}

const REGION: &str = "ATOLL_CONFORMANCE_REGION";
const PART: &str = "ATOLL_CONFORMANCE_PART";

/// The region's name goes when the case is over, also when it fails.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = ShmRegion::remove(&self.0);
    }
}

impl Fixture for Processes {
    type Endpoint = ShmEndpoint;

    fn run(&self, case: &Case<ShmEndpoint>) {
        let name = Named(format!("shm:/conformance-{}-{}", std::process::id(), case.name));
        let region = Arc::new(ShmRegion::create(&name.0, REGION_BYTES).unwrap());
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
        run_ready((case.verify)(ShmEndpoint::new(region), self.rounds));
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

/// Plays the part that [`Processes`] set; nothing in an ordinary run of the tests.
#[test]
fn a_client_in_a_process_of_its_own() {
    let Ok(name) = std::env::var(REGION) else { return };
    let part = std::env::var(PART).unwrap();
    let [case, client, rounds] = part.split(' ').collect::<Vec<_>>()[..] else { panic!("`{part}` is no part") };
    let case = conformance::case(case).unwrap();
    let endpoint = ShmEndpoint::new(Arc::new(ShmRegion::open(&name).unwrap()));
    run_ready((case.play)(endpoint, client.parse().unwrap(), rounds.parse().unwrap()));
}
