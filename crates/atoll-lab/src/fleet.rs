//! The processes of an experiment: this binary, started again with a task.
//!
//! | from | line | meaning |
//! |---|---|---|
//! | child | `ready` | everything is set up |
//! | parent | `go` | all are ready: begin |
//! | child | `at N` | progress |
//! | child | `note TEXT` | a note that survives if the child is killed |
//! | child | `done JSON` | the result; the child ends |
//!
//! Lines go over the child's standard input and output. Its standard error is the parent's. A child
//! whose input ends before `go` ends too, so no child outlives a parent that failed.
//!
//! Name and content of the task are the arguments of the hidden command `lab process`, at which the
//! binary must have mounted [`LabCommand`](crate::LabCommand).

use crate::LabError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a process of an experiment is started for.
pub(crate) trait Task: Serialize + DeserializeOwned {
    /// What it is called among all tasks.
    const NAME: &'static str;

    /// Does it, in the process that was started for it.
    fn run(self, post: Post) -> Result<(), LabError>;
}

/// A child's side of the lines.
#[derive(Debug)]
pub(crate) struct Post;

fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // A parent that has ended reads nothing, so a failure to write is no error.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

impl Post {
    /// Ends this process when its parent ends, so that none runs for ever.
    pub(crate) fn end_with_parent(&self) -> Result<(), LabError> {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|error| LabError::System { what: "ask to end with the parent process", source: error.into() })
    }

    /// Says that everything is set up, and waits until all processes are.
    pub(crate) fn stand_by(&self) -> Result<(), LabError> {
        say(format_args!("ready"));
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        read.map_err(|source| LabError::System { what: "hear from the experiment's parent process", source })?;
        if line.trim() == "go" { Ok(()) } else { Err(LabError::Options("the experiment was given up".to_owned())) }
    }

    pub(crate) fn progress(&self, at: u64) {
        say(format_args!("at {at}"));
    }

    pub(crate) fn note(&self, what: &str) {
        say(format_args!("note {}", what.replace('\n', " ")));
    }

    pub(crate) fn report<R: Serialize>(&self, report: &R) {
        say(format_args!("done {}", serde_json::to_string(report).expect("a report is plain data")));
    }
}

/// Starts this binary again with a task. A command `prefix`, if there is one, starts the binary.
pub(crate) fn spawn<T: Task>(task: &T, prefix: &[String]) -> Result<(Child, ChildStdin, ChildStdout), LabError> {
    let failed = |source| LabError::System { what: "start a process of the experiment", source };
    let binary = std::env::current_exe().map_err(failed)?;
    let task = serde_json::to_string(task).expect("a task is plain data");
    let mut words = prefix.iter().map(OsStr::new).chain([binary.as_os_str()]);
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).args(["lab", "process", T::NAME, &task]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        unreachable!("both were asked to be piped")
    };
    Ok((child, input, output))
}

struct Process {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
    index: usize,
}

impl Process {
    fn start<T: Task>(index: usize, task: &T) -> Result<Self, LabError> {
        let (child, input, output) = spawn(task, &[])?;
        Ok(Self { child, input, lines: BufReader::new(output), index })
    }

    fn failed(&mut self, what: &str) -> LabError {
        let end = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        LabError::Process { index: self.index, what: format!("{what} ({end}); its own message is above") }
    }

    fn line(&mut self) -> Result<String, LabError> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line.trim_end().to_owned()),
            _ => Err(self.failed("ended early")),
        }
    }

    fn await_ready(&mut self) -> Result<(), LabError> {
        match self.line()?.as_str() {
            "ready" => Ok(()),
            _ => Err(self.failed("did not get ready")),
        }
    }

    fn go(&mut self) -> Result<(), LabError> {
        writeln!(self.input, "go").map_err(|_| self.failed("ended before it began"))
    }

    fn result<R: DeserializeOwned>(&mut self, progress: &(impl Fn(usize, u64) + Sync)) -> Result<R, LabError> {
        loop {
            let line = self.line()?;
            if let Some(at) = line.strip_prefix("at ") {
                progress(self.index, at.parse().unwrap_or(0));
            } else if let Some(result) = line.strip_prefix("done ") {
                return serde_json::from_str(result).map_err(|_| self.failed("gave a result that cannot be read"));
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes that are set up and wait for each other.
pub(crate) struct Fleet {
    processes: Vec<Process>,
}

impl Fleet {
    /// Starts a process a task and waits until all are ready.
    pub(crate) fn start(tasks: impl IntoIterator<Item = impl Task>) -> Result<Self, LabError> {
        let started = tasks.into_iter().enumerate().map(|(index, task)| Process::start(index, &task));
        let mut processes = started.collect::<Result<Vec<_>, _>>()?;
        processes.iter_mut().try_for_each(Process::await_ready)?;
        Ok(Self { processes })
    }

    /// Lets all begin, and gives their results in order. `progress` is called with the progress of
    /// the slowest process.
    pub(crate) fn go<R: DeserializeOwned + Send>(mut self, progress: impl Fn(u64) + Sync) -> Result<Vec<R>, LabError> {
        self.processes.iter_mut().try_for_each(Process::go)?;
        let positions: Vec<AtomicU64> = self.processes.iter().map(|_| AtomicU64::new(0)).collect();
        let moved = |index: usize, at: u64| {
            positions[index].store(at, Ordering::Relaxed);
            progress(positions.iter().map(|position| position.load(Ordering::Relaxed)).min().unwrap_or(0));
        };
        std::thread::scope(|scope| {
            let listen = |process| scope.spawn(|| Process::result(process, &moved));
            let listeners: Vec<_> = self.processes.iter_mut().map(listen).collect();
            listeners.into_iter().map(|listener| listener.join().expect("a listener has a bug")).collect()
        })
    }
}
