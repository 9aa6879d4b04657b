//! How a server starts: it has its port and answers before its memory is there, and says beforehand
//! if the host has none for it.

use crate::binary::{Serving, printed, refused};
use atoll::{Pool, PoolOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn fact(server: &Serving, name: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("atoll").query(&mut server.connect()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().parse().unwrap()
}

#[test]
fn a_server_answers_while_its_memory_is_still_being_provided() {
    let server = Serving::start(&["--capacity", "4GiB"]);
    let pong: String = redis::cmd("PING").query(&mut server.connect()).unwrap();
    let provided = fact(&server, "pool_provided_bytes");
    println!("{provided} bytes were there at the first answer");
    assert_eq!(pong, "PONG");
    assert!(provided < 4 << 30, "all of it was there before the first answer");
    let () = redis::cmd("SET").arg("k").arg("v").query(&mut server.connect()).unwrap();
    assert_eq!(redis::cmd("GET").arg("k").query::<String>(&mut server.connect()).unwrap(), "v");
}

/// The thread that provides has the region open: it must not outlive the pool.
#[test]
fn a_pool_that_is_closed_while_its_memory_is_being_provided_is_in_use_no_longer() {
    let name = format!("shm:/closed-{}", std::process::id());
    for _ in 0..3 {
        let pool = Pool::create(&name, &PoolOptions::default().capacity_bytes(1 << 30)).unwrap();
        assert!(pool.provided_bytes() < 1 << 30);
        drop(pool);
        Pool::remove(&name).unwrap();
    }
}

#[test]
fn all_memory_comes_to_be_there_while_clients_use_what_is_there_already() {
    let server = Serving::start(&["--capacity", "256MiB", "--engine", "ditto"]);
    let mut redis = server.connect();
    let mut pipe = redis::pipe();
    for key in 0..20_000 {
        pipe.set(format!("key {key}"), vec![7u8; 4000]).ignore();
    }
    let () = pipe.query(&mut redis).unwrap();
    // A writer provides what it finds missing, so that nothing is evicted that has room.
    let stats: String = redis::cmd("INFO").arg("stats").query(&mut redis).unwrap();
    assert!(stats.contains("evicted_keys:0"), "{stats}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while fact(&server, "pool_provided_bytes") < 256 << 20 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fact(&server, "pool_provided_bytes"), 256 << 20);
}

/// The pool would not fit: the port is told first, so no memory was asked for.
#[test]
fn a_busy_port_is_refused_before_any_memory_is_taken() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let said = refused(&["serve", "--capacity", "3TiB", "--port", &port]);
    assert!(said.contains("in use") && said.contains("another port"), "{said}");
    let said = refused(&["serve", "--capacity", "3TiB", "--port", "0"]);
    assert!(said.contains("choose a smaller capacity") && said.contains("MemAvailable"), "{said}");
}

/// A control group with a limit, of version 1 or 2; `None` where this process may make none.
struct Group(PathBuf);

impl Group {
    fn new(limit_bytes: u64) -> Option<Self> {
        let name = format!("atoll-test-{}", std::process::id());
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let below = |controller: &str| {
            let path = own.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|each| each == controller).then_some(path)
            });
            path.unwrap_or("/").trim_start_matches('/').to_owned()
        };
        let [first, second] = ["memory.limit_in_bytes", "memory.max"];
        let candidates = [
            (Path::new("/sys/fs/cgroup/memory").join(below("memory")), first),
            (Path::new("/sys/fs/cgroup").join(below("")), second),
            (Path::new("/sys/fs/cgroup").to_owned(), second),
        ];
        candidates.iter().find_map(|(directory, limit)| {
            let group = Self(directory.join(&name));
            std::fs::create_dir(&group.0).ok()?;
            std::fs::write(group.0.join(limit), limit_bytes.to_string()).is_ok().then_some(group)
        })
    }

    /// Runs a shell command inside it.
    fn run(&self, command: &str) -> std::process::Output {
        let script = format!("echo $$ > {}/cgroup.procs && exec {command}", self.0.display());
        Command::new("sh").args(["-c", &script]).output().expect("there is a shell")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn what_a_control_group_has_no_room_for_is_refused_and_the_default_is_what_fits() {
    let Some(group) = Group::new(256 << 20) else {
        eprintln!("SKIPPED: no control group with a limit of memory can be made here");
        return;
    };
    let atoll = env!("CARGO_BIN_EXE_atoll");
    let refused = group.run(&format!("{atoll} serve --port 0 --capacity 1GiB"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("control group"), "{said}");
    assert!(said.contains("1073741824") && said.contains("choose a smaller capacity"), "{said}");
    let shown = group.run(&format!("{atoll} serve --config"));
    let (config, said) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    let capacity = config.lines().find_map(|line| line.strip_prefix("capacity = ")?.parse::<u64>().ok());
    assert!(capacity.is_some_and(|capacity| (64 << 20..256 << 20).contains(&capacity)), "{config}");
    assert!(said.contains("control group"), "{said}");
    // The server serves, is filled and left alone: the kernel kills no process.
    let served = group.run(&format!("timeout 5 {atoll} serve --port 0"));
    let line = String::from_utf8_lossy(&served.stdout).to_string();
    assert_eq!(
        served.status.code(),
        Some(124),
        "it ended by itself: {line} {}",
        String::from_utf8_lossy(&served.stderr)
    );
    assert!(line.contains("serves 127.0.0.1"), "{line}");
}

#[test]
fn the_capacity_that_is_chosen_is_printed() {
    assert!(printed(&["serve", "--config"]).contains("capacity = "));
}
