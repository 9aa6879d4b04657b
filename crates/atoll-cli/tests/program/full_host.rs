//! Pools on a file system that is small and full: no process dies of SIGBUS, whatever other
//! processes do and wherever they die.
//!
//! Each test mounts a file system in memory of its own, for which it must be root.

use crate::binary::{atoll, printed, refused};
use atoll::{Pool, PoolOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A file system in memory, unmounted at the end.
struct Mounted(PathBuf);

impl Mounted {
    fn new(test: &str, bytes: u64) -> Self {
        let path = std::env::temp_dir().join(format!("atoll-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let options = format!("size={bytes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "this test mounts a file system, for which it must be root"
        );
        Self(path)
    }

    fn pool(&self) -> String {
        self.0.join("pool").display().to_string()
    }

    /// Takes all memory that is left, until the file is removed.
    fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.0.join("full")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn host_bytes(pool: &str) -> u64 {
    std::fs::metadata(pool).unwrap().blocks() * 512
}

fn fill(cache: &mut atoll::Client, keys: std::ops::Range<u32>) {
    for key in keys {
        cache.set(format!("key {key}").as_bytes(), &[7; 300]).unwrap();
    }
}

/// A pool of 32 MiB on a file system of its own, so large.
fn created(test: &str, engine: &str, host_bytes: u64) -> (Mounted, String) {
    let mounted = Mounted::new(&format!("{test}-{engine}"), host_bytes);
    let name = mounted.pool();
    printed(&["pool", "create", &name, "--capacity", "32MiB", "--engine", engine]);
    (mounted, name)
}

fn in_background(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts")
}

/// A client that does nothing may be inside an operation, as far as another client can see.
#[test]
fn memory_stays_while_a_client_stands_still_and_goes_back_once_it_goes_on() {
    for engine in ["forge", "ditto"] {
        let (_mounted, name) = created("still", engine, 64 << 20);
        let pool = Pool::open(&name).unwrap();
        let (mut still, mut cache) = (pool.client().unwrap(), pool.client().unwrap());
        fill(&mut still, 0..1000);
        let whole = host_bytes(&name);
        let shrunk = printed(&["pool", "shrink", &name, "--by", "16MiB", "--json"]);
        if engine == "forge" {
            assert!(shrunk.contains("\"held_bytes\": 16777216") && host_bytes(&name) == whole, "{shrunk}");
        }
        // The retirer has ended. Another client finishes its work, once no client can still be in
        // an older operation.
        let deadline = Instant::now() + Duration::from_secs(20);
        while pool.info().unwrap().chunks_undiscarded > 0 && Instant::now() < deadline {
            still.tend().unwrap();
            cache.tend().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(pool.info().unwrap().chunks_undiscarded, 0);
        assert_eq!(host_bytes(&name) + (16 << 20), whole, "{engine}: chunks are of whole pages");
    }
}

/// What goes back is taken by others at once, so that a READ of it would kill. A pool that is
/// larger again has memory first.
#[test]
fn nobody_dies_of_a_full_host_while_resizers_are_killed() {
    for engine in ["forge", "ditto"] {
        let (mounted, name) = created("full", engine, 40 << 20);
        let users: Vec<Child> = (0..2).map(|user| in_background_user(&name, user)).collect();
        let pool = Pool::open(&name).unwrap();
        let retired = || pool.info().unwrap().chunks_retired;
        let (mut killed, mut restored) = (0, 0);
        for round in 0..12 {
            let mut shrinking = in_background(&["pool", "shrink", &name, "--by", "8MiB"]);
            killed += u64::from(kill_once(&mut shrinking, || retired() > 40 * round));
            let had = retired();
            mounted.fill();
            // A repairer looks at all that the dead one had.
            printed(&["pool", "repair", &name]);
            let mut growing = in_background(&["pool", "grow", &name, "--by", "8MiB"]);
            kill_once(&mut growing, || retired() < had.saturating_sub(20 * round));
            assert_ne!(signal(&growing.wait().unwrap()), Some(libc_sigbus()), "the grower");
            printed(&["pool", "repair", &name]);
            std::fs::remove_file(mounted.0.join("full")).unwrap();
            restored += u64::from(atoll(&["pool", "grow", &name, "--by", "32MiB"]).status.success());
        }
        println!("{engine}: {killed} of 12 retirers were killed, {restored} restored all");
        for mut user in users {
            assert!(user.try_wait().unwrap().is_none(), "{engine}: a user has died");
            user.kill().unwrap();
            user.wait().unwrap();
        }
        assert!(killed > 0 && restored > 0, "{engine}: {killed} retirers were killed, {restored} restored all");
        printed(&["pool", "repair", &name]);
        assert!(printed(&["pool", "verify", &name]).contains("sound"));
    }
}

/// Kills a process as soon as it has come so far; `false` if it has ended before.
fn kill_once(process: &mut Child, came_so_far: impl Fn() -> bool) -> bool {
    while process.try_wait().unwrap().is_none() {
        if came_so_far() {
            process.kill().unwrap();
            process.wait().unwrap();
            return true;
        }
    }
    false
}

fn libc_sigbus() -> i32 {
    7
}

fn signal(status: &std::process::ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    status.signal()
}

/// A process that uses the pool until it is killed: this test's own binary, run again.
fn in_background_user(pool: &str, user: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "full_host::a_user_of_a_pool"]).env("ATOLL_TEST_POOL", pool);
    command.env("ATOLL_TEST_USER", user.to_string()).stdout(Stdio::null());
    command.spawn().expect("the binary starts")
}

#[test]
#[ignore = "the part of a process that another test starts"]
fn a_user_of_a_pool() {
    let (Ok(pool), Ok(user)) = (std::env::var("ATOLL_TEST_POOL"), std::env::var("ATOLL_TEST_USER")) else { return };
    let pool = Pool::open(&pool).unwrap();
    let mut cache = pool.client().unwrap();
    let first = user.parse::<u32>().unwrap() * 1_000_000;
    for round in 0_u32.. {
        let keys = first..first + 60_000;
        for key in keys.clone().skip((round as usize * 977) % 5).step_by(5) {
            // All chunks may be out of use, or a resizer's.
            let _ = cache.set(format!("key {key}").as_bytes(), &[7; 300]);
            if let Some(value) = cache.get(format!("key {}", key - key % 7).as_bytes()).unwrap() {
                assert_eq!(value, [7; 300]);
            }
        }
    }
}

#[test]
fn a_pool_that_does_not_fit_is_refused_with_the_size_and_how_to_change_it() {
    let mounted = Mounted::new("small", 8 << 20);
    let said = refused(&["pool", "create", &mounted.pool(), "--capacity", "16MiB"]);
    assert!(said.contains("16777216") && said.contains("remount,size="), "{said}");
    assert!(!Path::new(&mounted.pool()).exists());
    let anonymous = Pool::anonymous(&PoolOptions::default().capacity_bytes(1 << 42));
    let said = anonymous.err().expect("no machine has as much").to_string();
    assert!(said.contains("choose a smaller capacity"), "{said}");
}
