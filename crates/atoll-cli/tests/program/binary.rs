//! The binary as a user starts it.

use atoll::EngineOptions;
use atoll_cache::ditto::DittoOptions;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

/// Where a process runs, as in a container of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Where this test runs.
    Here,
    /// In a pid namespace of its own, with the `/proc` of this one.
    Pids,
    /// In a pid namespace of its own, with a `/proc` of that.
    PidsAndProc,
    /// In a mount namespace whose boot id is another file.
    OtherBoot,
    /// In a mount namespace whose boot id cannot be read.
    UnknownBoot,
    /// In a mount namespace whose `/dev/shm` has 64 MiB, as that of a container.
    SmallShm,
}

impl Space {
    /// Those that differ in what a pid means.
    pub(crate) fn all() -> [Self; 3] {
        [Self::Here, Self::Pids, Self::PidsAndProc]
    }

    /// Whether `unshare` may make it.
    pub(crate) fn is_permitted(&self) -> bool {
        self.command("true", &[]).status().is_ok_and(|status| status.success())
    }

    /// A command in this space. A kill of what it starts kills what runs in it.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mount = |line: &str| format!("{line} /proc/sys/kernel/random/boot_id && exec \"$0\" \"$@\"");
        let id = "11111111-2222-3333-4444-555555555555";
        let script = match self {
            Self::OtherBoot => mount(&format!("id=$(mktemp) && echo {id} > $id && mount --bind $id")),
            Self::UnknownBoot => mount("mount --bind /dev/null"),
            Self::SmallShm => "mount -t tmpfs -o size=64m tmpfs /dev/shm && exec \"$0\" \"$@\"".to_owned(),
            _ => String::new(),
        };
        let unshared: &[&str] = match self {
            Self::Here => &[],
            Self::Pids => &["unshare", "--pid", "--fork", "--kill-child"],
            Self::PidsAndProc => &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
            Self::OtherBoot | Self::UnknownBoot | Self::SmallShm => &["unshare", "--mount", "sh", "-c", &script],
        };
        let mut words = unshared.iter().chain([&program]).chain(args);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words);
        command
    }
}

/// Runs `atoll` in a space, to its end.
pub(crate) fn in_space(space: &Space, args: &[&str]) -> Output {
    space.command(env!("CARGO_BIN_EXE_atoll"), args).output().expect("the binary starts")
}

/// Every engine that a pool can be made for, with what it is shipped with.
pub(crate) fn engines() -> [EngineOptions; 2] {
    [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())]
}

/// Runs `atoll` to its end.
pub(crate) fn atoll(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atoll")).args(args).output().expect("the binary starts")
}

/// What a command printed, after it succeeded.
pub(crate) fn printed(args: &[&str]) -> String {
    let output = atoll(args);
    let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{args:?}: {}{}", said(&output.stdout), said(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What a command printed, after it succeeded; until then `meanwhile` is done over and over.
pub(crate) fn printed_while(args: &[&str], mut meanwhile: impl FnMut()) -> String {
    let command = Command::new(env!("CARGO_BIN_EXE_atoll")).args(args).stdout(Stdio::piped()).spawn();
    let mut child = command.expect("the binary starts");
    while child.try_wait().expect("a child can be waited for").is_none() {
        meanwhile();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("a child can be waited for");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a command said of its failure.
pub(crate) fn refused(args: &[&str]) -> String {
    let output = atoll(args);
    assert!(!output.status.success(), "{args:?} succeeded");
    String::from_utf8(output.stderr).expect("text")
}

/// A pool's name that no other test has, removed at the end.
pub(crate) struct PoolName(pub(crate) String);

impl PoolName {
    pub(crate) fn new(test: &str) -> Self {
        Self(format!("shm:/test-{test}-{}", std::process::id()))
    }
}

impl Drop for PoolName {
    fn drop(&mut self) {
        let _ = atoll(&["pool", "remove", "--force", &self.0]);
    }
}

/// A server on a port of its own, killed at the end.
pub(crate) struct Serving {
    child: Child,
    pub(crate) port: u16,
    /// Where it serves memcached, if it does.
    pub(crate) memcached_port: Option<u16>,
}

impl Serving {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(&Space::Here, args)
    }

    pub(crate) fn start_in(space: &Space, args: &[&str]) -> Self {
        let mut child = space
            .command(env!("CARGO_BIN_EXE_atoll"), &["serve", "--port", "0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let mut ports = line.split_whitespace().filter_map(|word| word.rsplit_once(':')?.1.parse().ok());
        let (port, memcached_port) = (ports.next(), ports.next());
        Self { child, port: port.unwrap_or_else(|| panic!("no port in {line:?}")), memcached_port }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> redis::Connection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.port)).expect("an address");
        client.get_connection().expect("a connection")
    }

    /// A connection of this user, if the password is right.
    pub(crate) fn connect_as(&self, user: &str, password: &str) -> redis::RedisResult<redis::Connection> {
        redis::Client::open(format!("redis://{user}:{password}@127.0.0.1:{}/", self.port))?.get_connection()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
