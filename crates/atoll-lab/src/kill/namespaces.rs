//! Namespaces for processes of the experiment: they run as in containers that share a pool.

use super::hosts::Host;
use crate::LabError;
use std::process::{Command, Stdio};

/// Where a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespaces {
    /// Where the experiment does.
    Here,
    /// In a pid namespace of its own, with the `/proc` of this one: what it sees there are other
    /// processes.
    Pids,
    /// In a pid and a mount namespace of its own, with a `/proc` of that.
    PidsAndProc,
    /// In the network namespace of a host of its own.
    Host(Host),
}

impl Namespaces {
    /// That of the process `serial`, where all come in turn.
    pub(super) fn of(serial: u64) -> Self {
        match serial % 3 {
            1 => Self::Pids,
            2 => Self::PidsAndProc,
            _ => Self::Here,
        }
    }

    /// The command that a program is started by; itself for none. Its end is the end of what it
    /// started.
    pub(super) fn prefix(self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::Here => Vec::new(),
            Self::Pids => words(&["unshare", "--pid", "--fork", "--kill-child"]),
            Self::PidsAndProc => words(&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]),
            Self::Host(host) => words(&["ip", "netns", "exec", &host.namespace()]),
        }
    }

    /// Whether the program that starts a process becomes that process.
    pub(super) fn keeps_pid(self) -> bool {
        matches!(self, Self::Here | Self::Host(_))
    }

    /// Whether this user may make all of them.
    pub(super) fn check() -> Result<(), LabError> {
        let is_permitted = |namespaces: Self| {
            let prefix = namespaces.prefix();
            let [program, args @ ..] = &prefix[..] else { return true };
            let mut command = Command::new(program);
            let run = command.args(args).arg("true").stdin(Stdio::null()).stderr(Stdio::null()).status();
            run.is_ok_and(|status| status.success())
        };
        if is_permitted(Self::Pids) && is_permitted(Self::PidsAndProc) {
            return Ok(());
        }
        let why =
            "--namespaces needs `unshare` (util-linux) and the right to make pid and mount namespaces: run as root";
        Err(LabError::Options(why.to_owned()))
    }

    /// The process that `unshare` started, by the pid that it has here; `None` if it has not come
    /// to that.
    pub(super) fn inner(self, outer: u32) -> Option<i32> {
        if self.keeps_pid() {
            return i32::try_from(outer).ok();
        }
        let is_child = |pid: &i32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
            parent == Some(outer)
        };
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_child)
    }
}
