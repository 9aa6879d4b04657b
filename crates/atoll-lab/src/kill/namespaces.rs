//! Namespaces for processes of the experiment: they run as in containers that share a pool.

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
}

impl Namespaces {
    /// That of the process `serial`: all in turn, or none but this one.
    pub(super) fn of(serial: u64, mixed: bool) -> Self {
        match serial % 3 {
            1 if mixed => Self::Pids,
            2 if mixed => Self::PidsAndProc,
            _ => Self::Here,
        }
    }

    /// The command that a program is started by; itself for none. Its end is the end of what it
    /// started.
    pub(super) fn prefix(self) -> &'static [&'static str] {
        match self {
            Self::Here => &[],
            Self::Pids => &["unshare", "--pid", "--fork", "--kill-child"],
            Self::PidsAndProc => &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
        }
    }

    /// Whether this user may make all of them.
    pub(super) fn check() -> Result<(), LabError> {
        let is_permitted = |namespaces: Self| {
            let [program, args @ ..] = namespaces.prefix() else { return true };
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
        if self == Self::Here {
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
