//! The README's section "A pool over two machines", exactly as written, in two network namespaces.
//!
//! Namespaces need root. Without it the test says so and ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The address that the README gives the machine that lends memory.
const LENDER: &str = "10.0.0.1/24";
const OTHER: &str = "10.0.0.2/24";

/// The indented blocks of a section of the README, without the prose between them.
fn blocks(heading: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let section = readme.split("\n## ").find_map(|section| section.strip_prefix(heading)).expect("the README has it");
    let mut blocks = vec![String::new()];
    for line in section.lines() {
        match line.strip_prefix("    ") {
            Some(command) => *blocks.last_mut().unwrap() += &format!("{command}\n"),
            None if line.is_empty() || blocks.last().is_some_and(String::is_empty) => {}
            None => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A machine: a network namespace and a folder. It goes with what runs in it.
struct Machine {
    namespace: String,
    folder: PathBuf,
    /// Programs that serve until they are ended.
    serving: Vec<Child>,
}

impl Machine {
    fn new(name: &str) -> Self {
        let namespace = format!("atoll-readme-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&namespace);
        std::fs::create_dir_all(&folder).unwrap();
        ip(&format!("netns add {namespace}"));
        ip(&format!("-n {namespace} link set lo up"));
        Self { namespace, folder, serving: Vec::new() }
    }

    fn has(&self, address: &str) {
        ip(&format!("-n {} address add {address} dev eth0", self.namespace));
        ip(&format!("-n {} link set eth0 up", self.namespace));
    }

    fn shell(&self, script: &str) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_atoll")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "bash", "-ec", script]).env("PATH", path);
        command.current_dir(&self.folder);
        command
    }

    /// Does what a block says, line after line. A program that serves goes on, once it has said
    /// that it does. Gives what the others printed.
    fn run(&mut self, block: &str) -> String {
        let (mut printed, mut exports) = (String::new(), String::new());
        for line in block.replace("\\\n", " ").lines() {
            if line.starts_with("export ") {
                exports += &format!("{line}\n");
            } else if ["atoll node ", "atoll serve "].iter().any(|program| line.starts_with(program)) {
                self.serve(&exports, line);
            } else {
                let done = self.shell(&format!("{exports}{line}")).output().unwrap();
                let said = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.success(), "{line}: {said}");
                printed += &String::from_utf8_lossy(&done.stdout);
            }
        }
        printed
    }

    fn serve(&mut self, exports: &str, line: &str) {
        let log = self.folder.join(format!("{}.log", self.serving.len()));
        let mut command = self.shell(&format!("{exports}exec {}", line.split('#').next().unwrap_or(line)));
        let child = command.stdout(File::create(&log).unwrap()).stderr(Stdio::null()).spawn().unwrap();
        self.serving.push(child);
        let end = Instant::now() + Duration::from_secs(20);
        while std::fs::read_to_string(&log).unwrap().is_empty() {
            assert!(Instant::now() < end, "`{line}` says that it serves");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn end_serving(&mut self) {
        for mut child in self.serving.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn copy_to(&self, name: &str, other: &Self) {
        std::fs::copy(self.folder.join(name), other.folder.join(name)).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end_serving();
        let _ = Command::new("ip").args(["netns", "delete", &self.namespace]).status();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_pool_over_two_machines_is_made_as_the_readme_says() {
    let probe = format!("atoll-readme-{}", std::process::id());
    let ip_netns = |what: &str| Command::new("ip").args(["netns", what, &probe]).stderr(Stdio::null()).status();
    if !ip_netns("add").is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: network namespaces are not permitted here: run as root, with iproute2");
        return;
    }
    ip_netns("delete").unwrap();
    let blocks = blocks("A pool over two machines");
    let [lends, serves, with_tls, near] = &blocks[..] else { panic!("other blocks than this test knows: {blocks:#?}") };
    let (mut lender, mut other) = (Machine::new("lender"), Machine::new("other"));
    let (one, two) = (&lender.namespace, &other.namespace);
    ip(&format!("link add eth0 netns {one} type veth peer name eth0 netns {two}"));
    lender.has(LENDER);
    other.has(OTHER);

    lender.run(lends);
    lender.copy_to("atoll.secret", &other);
    assert!(other.run(serves).ends_with("OK\n"), "the last command sets a key");
    assert_eq!(other.run("redis-cli get k"), "v\n");
    let refused = other.shell("atoll pool info tcp:10.0.0.1:7700").output().unwrap();
    assert!(!refused.status.success(), "without the secret");

    // The same server with a near cache.
    let secret = "export ATOLL_SECRET_FILE=atoll.secret\n";
    other.end_serving();
    other.run(&format!("{secret}{near}"));
    assert_eq!(other.run("redis-cli get k"), "v\n");

    other.end_serving();
    lender.end_serving();
    lender.run(with_tls);
    lender.copy_to("node.crt", &other);
    let address = "tcp:10.0.0.1:7700?ca=node.crt";
    other.run(&format!("{secret}atoll pool create '{address}'\natoll serve --pool '{address}'\n"));
    assert_eq!(other.run("redis-cli set k w\nredis-cli get k"), "OK\nw\n");
}
