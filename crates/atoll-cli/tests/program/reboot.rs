//! A pool's file after its host went down: promise 4. The boot id in the file is changed instead of
//! the host's.

use crate::binary::engines;
use atoll::{Pool, PoolOptions};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

const POOL: &str = "ATOLL_TEST_REBOOT_POOL";
const KEYS: &str = "ATOLL_TEST_REBOOT_KEYS";
/// Byte offset of the boot id.
const BOOT: u64 = 8 * 17;

/// A pool in a file, removed at the end.
struct PoolFile(String);

impl PoolFile {
    /// One pool of every engine, one after the other.
    fn of_every_engine(test: &str) -> impl Iterator<Item = Self> {
        engines().into_iter().map(move |engine| {
            println!("{engine}:");
            let id = engine.id();
            let options = PoolOptions::default().capacity_bytes(4 << 20).clients_max(5).engine(engine);
            let file = Self::named(&format!("{test}-{id}"));
            Pool::create(&file.0, &options).unwrap();
            file
        })
    }

    /// On a disk: a tmpfs does not outlive a boot.
    fn named(test: &str) -> Self {
        Self(format!("{}/reboot-{test}-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id()))
    }

    /// A client that sets some keys and is killed with its process, as all are when the host goes
    /// down.
    fn crash(&self, keys: u32) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "reboot::a_client_that_another_test_started", "--nocapture"]);
        command.env(POOL, &self.0).env(KEYS, keys.to_string());
        let mut client = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with("waits"))), "the client ended early");
        client.kill().unwrap();
        client.wait().unwrap();
    }

    fn boot(&self) -> u64 {
        let mut word = [0; 8];
        OpenOptions::new().read(true).open(&self.0).unwrap().read_exact_at(&mut word, BOOT).unwrap();
        u64::from_le_bytes(word)
    }

    /// As if the host had been restarted since the last time that the file was open.
    fn reboot(&self) {
        let other = self.boot() ^ 0x5555;
        OpenOptions::new().write(true).open(&self.0).unwrap().write_all_at(&other.to_le_bytes(), BOOT).unwrap();
    }

    fn set(&self, key: &[u8]) {
        Pool::open(&self.0).unwrap().client().unwrap().set(key, b"value").unwrap();
    }

    fn has(&self, key: &[u8]) -> bool {
        Pool::open(&self.0).unwrap().client().unwrap().exists(key).unwrap()
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_client_that_another_test_started() {
    let Ok(name) = std::env::var(POOL) else { return };
    let keys: u32 = std::env::var(KEYS).unwrap().parse().unwrap();
    let mut cache = Pool::open(&name).unwrap().client().unwrap();
    (0..keys).for_each(|key| cache.set(&key.to_le_bytes(), &[7; 300]).unwrap());
    println!("{} waits", std::process::id());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_file_that_is_open_is_not_made_anew_whatever_its_boot_id() {
    for file in PoolFile::of_every_engine("in-use") {
        let pool = Pool::open(&file.0).unwrap();
        let mut cache = pool.client().unwrap();
        cache.set(b"key", b"value").unwrap();
        file.reboot();
        let refused = crate::binary::refused(&["pool", "info", &file.0]);
        assert!(refused.contains("boot id") && refused.contains("open"), "{refused}");
        assert_eq!(cache.get(b"key").unwrap(), Some(&b"value"[..]));
        assert_eq!(pool.verify().unwrap().objects, 1);
    }
}

#[test]
fn a_pool_that_everybody_had_left_goes_on_after_a_reboot() {
    for file in PoolFile::of_every_engine("closed") {
        let boot = file.boot();
        for key in [b"one", b"two"] {
            file.set(key);
            file.reboot();
            let pool = Pool::open(&file.0).unwrap();
            assert!(!pool.was_reformatted());
            assert_eq!(file.boot(), boot);
            drop(pool);
            assert!(file.has(key));
        }
        assert!(file.has(b"one"));
        file.reboot();
        assert_eq!(Pool::open(&file.0).unwrap().verify().unwrap().faults, Vec::<String>::new());
    }
}

#[test]
fn a_pool_that_was_in_use_is_empty_after_a_reboot_and_has_the_settings_it_had() {
    for file in PoolFile::of_every_engine("open") {
        file.set(b"key");
        let before = Pool::open(&file.0).unwrap().settings();
        file.crash(1);
        file.reboot();
        let boot = file.boot();
        let said = crate::binary::atoll(&["pool", "info", &file.0]);
        assert!(String::from_utf8_lossy(&said.stderr).contains("made anew"), "{said:?}");
        assert!(said.status.success() && String::from_utf8_lossy(&said.stdout).contains("objects            0"));
        assert_ne!(file.boot(), boot);
        let pool = Pool::open(&file.0).unwrap();
        assert!(!pool.was_reformatted(), "only once");
        assert_eq!(pool.settings(), before);
        assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
        assert!(!file.has(b"key"));
        file.set(b"key");
        assert!(file.has(b"key"));
    }
}

#[test]
fn one_that_joined_a_closed_pool_and_died_has_opened_it() {
    for file in PoolFile::of_every_engine("joined") {
        file.set(b"key");
        file.crash(0);
        file.reboot();
        assert!(Pool::open(&file.0).unwrap().was_reformatted());
        // Nor is a pool closed that one client left and another did not.
        let stays = Pool::open(&file.0).unwrap();
        file.crash(0);
        file.set(b"key");
        drop(stays);
        file.reboot();
        assert!(Pool::open(&file.0).unwrap().was_reformatted());
    }
}

#[test]
fn of_many_that_open_it_at_once_one_makes_it_anew() {
    for file in PoolFile::of_every_engine("many") {
        file.crash(0);
        for _ in 0..5 {
            file.reboot();
            let start = || {
                let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
                command.args(["pool", "repair", &file.0]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
            };
            let openers: Vec<_> = (0..4).map(|_| start()).collect();
            let outputs: Vec<_> = openers.into_iter().map(|opener| opener.wait_with_output().unwrap()).collect();
            assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
            let anew = outputs.iter().filter(|output| String::from_utf8_lossy(&output.stderr).contains("made anew"));
            assert_eq!(anew.count(), 1);
            assert_eq!(Pool::open(&file.0).unwrap().verify().unwrap().faults, Vec::<String>::new());
            file.crash(0);
        }
    }
}

#[test]
fn all_nodes_of_a_pool_go_on_after_a_reboot_or_are_empty_together() {
    let file = PoolFile::named("nodes");
    let options = PoolOptions::default().capacity_bytes(4 << 20).nodes(2).capacity_bytes_max(8 << 20).clients_max(5);
    let pool = Pool::create(&file.0, &options).unwrap();
    pool.grow(3 << 20).unwrap();
    let fill = |pool: &Pool| {
        let mut cache = pool.client().unwrap();
        (0..20_000u32).for_each(|key| cache.set(&key.to_le_bytes(), &[7; 300]).unwrap());
        cache
    };
    drop(fill(&pool));
    let objects = pool.info().unwrap().objects;
    drop(pool);
    file.reboot();
    let pool = Pool::open(&file.0).unwrap();
    assert!(!pool.was_reformatted() && pool.info().unwrap().objects == objects);
    assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
    drop(pool);
    file.crash(20_000);
    file.reboot();
    let pool = Pool::open(&file.0).unwrap();
    assert!(pool.was_reformatted());
    let info = pool.info().unwrap();
    assert_eq!((info.objects, info.nodes.len(), info.chunks_free), (0, 3, info.chunks));
    assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
    drop(fill(&pool));
    assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
    drop(pool);
    Pool::remove(&file.0).unwrap();
}
