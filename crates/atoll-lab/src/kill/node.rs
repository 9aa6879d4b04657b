//! The memory nodes of an experiment over a network. The home is a thread of the experiment's
//! process. Each further node is a process, which is killed, and started again at its address.

use crate::LabError;
use crate::fleet::{Post, Task, spawn};
use atoll_fabric::tcp::{Agent, AgentOptions, RunningAgent, Secret};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::time::{Duration, Instant};

/// Where this namespace reaches them.
pub(super) const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// How long a node tries to listen: its port may be in use for a moment.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The process of a further memory node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodeTask {
    listen: IpAddr,
    port: u16,
    capacity_bytes: u64,
    secret_file: Option<PathBuf>,
}

impl NodeTask {
    fn options(&self) -> Result<AgentOptions, LabError> {
        let secret = self.secret_file.as_deref().map(Secret::of_file).transpose()?;
        Ok(AgentOptions { capacity_bytes: self.capacity_bytes, secret, ..AgentOptions::default() })
    }

    fn bind(&self) -> Result<Agent, LabError> {
        let (listen, begun) = (format!("{}:{}", self.listen, self.port), Instant::now());
        loop {
            match Agent::bind(&listen, self.options()?) {
                Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                bound => return Ok(bound?),
            }
        }
    }
}

impl Task for NodeTask {
    const NAME: &'static str = "node";

    fn run(self, post: Post) -> Result<(), LabError> {
        post.end_with_parent()?;
        let agent = self.bind()?.start()?;
        post.stand_by()?;
        agent.join();
        Ok(())
    }
}

/// The process of a node, killed when it is dropped.
struct Running {
    child: Child,
    /// Kept open: the process ends when it is closed before it serves.
    _input: ChildStdin,
}

impl Running {
    fn start(task: &NodeTask) -> Result<Self, LabError> {
        let failed = |source| LabError::System { what: "start a memory node", source };
        let (child, mut input, output) = spawn(task, &[])?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(failed)?;
        // If it has ended, its own message is on the error output.
        writeln!(input, "go").map_err(failed)?;
        Ok(Self { child, _input: input })
    }

    fn signal(&self, signal: Signal) -> Result<(), LabError> {
        let failed = |error: rustix::io::Errno| LabError::System { what: "signal a memory node", source: error.into() };
        Pid::from_raw(self.child.id() as i32).map_or(Ok(()), |pid| kill_process(pid, signal)).map_err(failed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A further node.
struct Member {
    task: NodeTask,
    running: Option<Running>,
    /// When it is to be started again, or to go on, if it is killed or stopped.
    back: Option<Instant>,
}

/// They, until they are dropped.
pub(super) struct Nodes {
    home: RunningAgent,
    members: Vec<Member>,
    /// The file of their secret, if other hosts reach them.
    secret_file: Option<PathBuf>,
}

impl Nodes {
    /// So many, of so many bytes each, which other hosts reach or not.
    pub(super) fn start(count: u64, capacity_bytes: u64, is_for_hosts: bool) -> Result<Self, LabError> {
        let secret_file = is_for_hosts.then(draw_secret).transpose()?;
        let listen = IpAddr::from(if is_for_hosts { Ipv4Addr::UNSPECIFIED } else { LOCALHOST });
        let task = |port| NodeTask { listen, port, capacity_bytes, secret_file: secret_file.clone() };
        let home = task(0).bind()?.start()?;
        let mut nodes = Self { home, members: Vec::new(), secret_file: secret_file.clone() };
        for _ in 1..count {
            let task = task(free_port(listen)?);
            nodes.members.push(Member { running: Some(Running::start(&task)?), task, back: None });
        }
        Ok(nodes)
    }

    /// The pool's address where the nodes have this one.
    pub(super) fn pool(&self, node: Ipv4Addr) -> String {
        let members = self.members.iter().map(|member| member.task.port);
        let ports = std::iter::once(self.home.address().port()).chain(members);
        let addresses: Vec<String> = ports.map(|port| format!("{node}:{port}")).collect();
        format!("tcp:{}", addresses.join(","))
    }

    pub(super) fn secret_file(&self) -> Option<PathBuf> {
        self.secret_file.clone()
    }

    /// Nodes that can be killed.
    pub(super) fn members(&self) -> u64 {
        self.members.len() as u64
    }

    /// Kills a further node, and starts it again after this long. Says whether it was there.
    pub(super) fn kill(&mut self, member: usize, time: Duration) -> bool {
        let member = &mut self.members[member];
        let was_there = member.running.take().is_some();
        if was_there {
            member.back = Some(Instant::now() + time);
        }
        was_there
    }

    /// Stops a further node, which does not answer then, and lets it go on after this long. Says
    /// whether it ran.
    pub(super) fn stop(&mut self, member: usize, time: Duration) -> Result<bool, LabError> {
        let member = &mut self.members[member];
        let Some(running) = member.running.as_ref().filter(|_| member.back.is_none()) else { return Ok(false) };
        running.signal(Signal::STOP)?;
        member.back = Some(Instant::now() + time);
        Ok(true)
    }

    /// Starts the nodes again, or lets them go on, whose time has come by `now`; all without one.
    pub(super) fn tend(&mut self, now: Option<Instant>) -> Result<(), LabError> {
        for member in &mut self.members {
            if member.back.is_some_and(|at| now.is_none_or(|now| at <= now)) {
                match &member.running {
                    Some(stopped) => stopped.signal(Signal::CONT)?,
                    None => member.running = Some(Running::start(&member.task)?),
                }
                member.back = None;
            }
        }
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some(path) = &self.secret_file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A port without a listener.
fn free_port(listen: IpAddr) -> Result<u16, LabError> {
    let found = TcpListener::bind((listen, 0)).and_then(|listener| listener.local_addr());
    found
        .map(|address| address.port())
        .map_err(|source| LabError::System { what: "find a port for a memory node", source })
}

/// A file with a secret that only this user can read.
fn draw_secret() -> Result<PathBuf, LabError> {
    let failed = |source| LabError::System { what: "draw a secret for the memory node", source };
    let path = std::env::temp_dir().join(format!("atoll-kill-{}-secret", std::process::id()));
    let mut drawn = [0; 32];
    let mut random = std::fs::File::open("/dev/urandom").map_err(failed)?;
    std::io::Read::read_exact(&mut random, &mut drawn).map_err(failed)?;
    let text: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    // What another process left under the name is not written to.
    let _ = std::fs::remove_file(&path);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    Ok(path)
}
