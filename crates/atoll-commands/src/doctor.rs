//! `atoll doctor`: whether this host has what Atoll needs, and what would make it faster.

use atoll::fabric::{OnFabric, ServedFabric, on_fabric};
use atoll::{OpenError, Pool, PoolOptions};
use atoll_fabric::shm::host::Room;
use atoll_fabric::{Clock, FabricError};
use bytesize::ByteSize;
use clap::Args;
use serde_json::json;
use std::error::Error;
use std::net::TcpListener;

/// Less shared memory than this is a mistake, most often that of a container.
const MEMORY_BYTES_MIN: u64 = 128 << 20;
/// What `atoll serve` wants by default, for 10 000 connections.
const DESCRIPTORS_MIN: u64 = 10_064;
/// What a network of 10 Gbit/s carries in a millisecond.
const BUFFER_BYTES_MIN: u64 = 1_250_000;
/// Clocks that a process reads without a system call.
const FAST_CLOCKS: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
/// Where pools have their names.
const SHARED_MEMORY: &str = "/dev/shm";
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Check whether this host has what Atoll needs, and say what would make it faster
#[derive(Args, Debug)]
pub struct DoctorCommand {
    /// Also check the pool at this address, and its memory nodes: shm:/NAME, the path of a file, or
    /// tcp:HOST:PORT[,HOST:PORT...]
    address: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// It works, and could be better.
    Advice,
    /// Something does not work.
    Bad,
}

/// One thing that was looked at.
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { name, verdict, found: found.into() }
    }
}

impl DoctorCommand {
    /// Does it, and prints what comes of it. The error counts what does not work.
    pub fn run(self) -> Result<(), Box<dyn Error>> {
        let mut checks = vec![shared_memory(), device_of_pools(), a_pool(), control_group(), descriptors()];
        checks.extend([locked_memory(), huge_pages(), clock(), redis_port(), socket_buffers()]);
        if let Some(address) = &self.address {
            let looked = on_fabric(address, Looking { address });
            checks.extend(looked.unwrap_or_else(|error| vec![Check::new("address", Verdict::Bad, error.to_string())]));
        }
        if self.json {
            let shown = checks.iter().map(
                |Check { name, verdict, found }| json!({ "check": name, "verdict": word(*verdict), "found": found }),
            );
            println!("{:#}", json!(shown.collect::<Vec<_>>()));
        } else {
            for Check { name, verdict, found } in &checks {
                println!("{:<7} {name:<14} {found}", word(*verdict));
            }
        }
        match checks.iter().filter(|check| check.verdict == Verdict::Bad).count() {
            0 => Ok(()),
            bad => Err(format!("{bad} of {} checks found what does not work", checks.len()).into()),
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Advice => "advice",
        Verdict::Bad => "bad",
    }
}

/// Pools in shared memory have room.
fn shared_memory() -> Check {
    let name = "shared memory";
    match Room::of_region(Some("shm:/doctor")) {
        None => Check::new(name, Verdict::Good, "no limit that can be read"),
        Some(room) if room.usable_bytes() < MEMORY_BYTES_MIN => Check::new(name, Verdict::Bad, room.to_string()),
        Some(room) => Check::new(name, Verdict::Good, room.to_string()),
    }
}

/// The file system in which pools have their names is there, and how large it is.
fn device_of_pools() -> Check {
    match rustix::fs::statvfs(SHARED_MEMORY) {
        Err(error) => Check::new(SHARED_MEMORY, Verdict::Bad, format!("{error}: mount a tmpfs there")),
        // A tmpfs without a limit has no blocks.
        Ok(found) if found.f_blocks == 0 => Check::new(SHARED_MEMORY, Verdict::Good, "no limit of its own"),
        Ok(found) => {
            let [bytes, left] = [found.f_blocks, found.f_bavail].map(|blocks| ByteSize(blocks * found.f_frsize));
            Check::new(SHARED_MEMORY, Verdict::Good, format!("{left} of {bytes} left for all pools of this host"))
        }
    }
}

/// What the control group of this process may use.
fn control_group() -> Check {
    let name = "control group";
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = Room::of_control_groups().map_or("no limit of memory".to_owned(), |room| room.to_string());
    let found = format!("{memory}; {cores} core(s) for this process");
    if cores > 1 {
        return Check::new(name, Verdict::Good, found);
    }
    Check::new(name, Verdict::Advice, format!("{found}: a server and its clients take turns on it (cpuset, CPUQuota)"))
}

/// Pools are not locked into memory, so the limit of that does not matter; swap does.
fn locked_memory() -> Check {
    use rustix::process::{Resource, getrlimit};
    let name = "memory lock";
    let limit = getrlimit(Resource::Memlock)
        .maximum
        .map_or("no limit".to_owned(), |most| format!("at most {}", ByteSize(most)));
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() > 1 {
        let advice = format!(
            "{limit}; pools are not locked, and this host swaps: an object on disk takes milliseconds (`swapoff -a`)"
        );
        return Check::new(name, Verdict::Advice, advice);
    }
    Check::new(name, Verdict::Good, format!("{limit}; pools are not locked, and this host does not swap"))
}

/// A pool can be made, used and removed.
fn a_pool() -> Check {
    let name = format!("shm:/atoll-doctor-{}", std::process::id());
    let pool = match Pool::create(&name, &PoolOptions::default().capacity_bytes(4 << 20)) {
        Ok(pool) => pool,
        // What has this name already is not ours.
        Err(error) => return Check::new("a pool", Verdict::Bad, error.to_string()),
    };
    let used = || -> Result<(), Box<dyn Error>> {
        let mut client = pool.client()?;
        client.set(b"key", b"value")?;
        let found = client.get(b"key")?.map(<[u8]>::to_vec);
        if found.as_deref() == Some(b"value") { Ok(()) } else { Err("the value that was set is not there".into()) }
    };
    let used = used();
    drop(pool);
    match used.and_then(|()| Ok(Pool::remove(&name).map(drop)?)) {
        Ok(()) => Check::new("a pool", Verdict::Good, "was created in shared memory, used and removed"),
        Err(error) => {
            let _ = Pool::remove_by_force(&name);
            Check::new("a pool", Verdict::Bad, error.to_string())
        }
    }
}

/// A server can have its connections.
fn descriptors() -> Check {
    use rustix::process::{Resource, getrlimit};
    let name = "open files";
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < DESCRIPTORS_MIN => {
            let advice = format!(
                "at most {most}: a server has fewer than 10000 connections (`ulimit -Hn 20000`, or LimitNOFILE in a unit)"
            );
            Check::new(name, Verdict::Advice, advice)
        }
        Some(most) => Check::new(name, Verdict::Good, format!("at most {most}")),
        None => Check::new(name, Verdict::Good, "no limit"),
    }
}

/// What stands in brackets is chosen.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(chosen, _)| chosen)
}

/// Large pools have large pages.
fn huge_pages() -> Check {
    let name = "huge pages";
    match std::fs::read_to_string(HUGE_PAGES) {
        Err(_) => Check::new(name, Verdict::Advice, format!("{HUGE_PAGES} cannot be read")),
        Ok(text) if matches!(chosen(&text), "never" | "deny") => {
            let chosen = chosen(&text);
            let advice = format!("{chosen}: operations on large pools are faster after `echo advise > {HUGE_PAGES}`");
            Check::new(name, Verdict::Advice, advice)
        }
        Ok(text) => Check::new(name, Verdict::Good, chosen(&text)),
    }
}

/// Expiry has a clock, and reading it is cheap.
fn clock() -> Check {
    let name = "clock";
    if Clock::host().agent_ms().is_none() {
        let why = "/proc/self/timens_offsets cannot be read: expiry relies on the wall clock alone";
        return Check::new(name, Verdict::Advice, why);
    }
    match std::fs::read_to_string(CLOCK_SOURCE) {
        Ok(source) if !FAST_CLOCKS.contains(&source.trim()) => Check::new(
            name,
            Verdict::Advice,
            format!("{}: slow to read; `tsc` is fast, where it is stable", source.trim()),
        ),
        Ok(source) => Check::new(name, Verdict::Good, source.trim()),
        Err(_) => Check::new(name, Verdict::Good, "there is one"),
    }
}

/// The port that clients expect is free.
fn redis_port() -> Check {
    let name = "port 6379";
    match TcpListener::bind("127.0.0.1:6379") {
        Ok(_) => Check::new(name, Verdict::Good, "free"),
        Err(error) => Check::new(name, Verdict::Advice, format!("{error}: choose another with `atoll serve --port`")),
    }
}

/// Sockets of memory nodes carry what a network does in a round trip.
fn socket_buffers() -> Check {
    let name = "socket buffers";
    match atoll_fabric::tcp::socket_bytes_max() {
        Some(most) if most < BUFFER_BYTES_MIN => Check::new(
            name,
            Verdict::Advice,
            format!(
                "at most {most} bytes: large values over `tcp:` are slow where a round trip is long (net.ipv4.tcp_rmem and \
                 tcp_wmem)"
            ),
        ),
        Some(most) => Check::new(name, Verdict::Good, format!("at most {most} bytes")),
        None => Check::new(name, Verdict::Good, "no limit that can be read"),
    }
}

/// Memory nodes answer, and have a pool.
struct Looking<'a> {
    address: &'a str,
}

impl OnFabric for Looking<'_> {
    type Output = Vec<Check>;

    fn run<F: ServedFabric>(self, fabric: F) -> Vec<Check> {
        let mut checks = Vec::new();
        match fabric.room_bytes() {
            Ok(None) => {}
            Ok(Some(left)) => {
                let found = format!("{} answer, {left} bytes left for pools", fabric.agents());
                checks.push(Check::new("memory nodes", Verdict::Good, found));
            }
            Err(error) => checks.push(Check::new("memory nodes", Verdict::Bad, error.to_string())),
        }
        let name = "the pool";
        checks.push(match Pool::open_on(&fabric) {
            Ok(pool) => {
                let found =
                    format!("engine {}, {} bytes, fabric {}", pool.engine(), pool.capacity_bytes(), pool.fabric());
                Check::new(name, Verdict::Good, found)
            }
            Err(OpenError::Region(FabricError::Absent(_))) => {
                let advice = format!("there is none: make one with `atoll pool create {}`", self.address);
                Check::new(name, Verdict::Advice, advice)
            }
            Err(error) => Check::new(name, Verdict::Bad, error.to_string()),
        });
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_brackets_is_chosen() {
        assert_eq!(chosen("always within_size advise [never] deny force\n"), "never");
        assert_eq!(chosen("tsc\n"), "tsc");
    }
}
