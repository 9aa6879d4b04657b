//! The processes that are killed, stopped and resumed, and their successors.

use super::hosts::{Host, Hosts};
use super::namespaces::Namespaces;
use super::task::KillTask;
use super::timings::Measured;
use crate::LabError;
use crate::fleet::spawn;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A process that does not end so long after it was told to waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);
/// Notes kept of one process.
const NOTES_MAX: usize = 20;

/// What a process said.
#[derive(Debug, Default)]
struct Heard {
    notes: Vec<String>,
    measured: Option<Measured>,
}

/// A process of the experiment.
pub(super) struct Process {
    task: KillTask,
    namespaces: Namespaces,
    /// The process, or the `unshare` that started it.
    child: Child,
    /// Kept open: the process ends when it is closed.
    _input: ChildStdin,
    listener: Option<JoinHandle<Heard>>,
    /// When it is to be resumed, if it is stopped.
    resume: Option<Instant>,
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> LabError {
    move |source| LabError::System { what, source }
}

impl Process {
    fn start(task: KillTask, namespaces: Namespaces) -> Result<Self, LabError> {
        let (child, mut input, output) = spawn(&task, &namespaces.prefix())?;
        // It need not wait for other processes.
        writeln!(input, "go").map_err(failed("begin a process of the experiment"))?;
        let listener = std::thread::spawn(move || listen(output));
        Ok(Self { task, namespaces, child, _input: input, listener: Some(listener), resume: None })
    }

    /// Signals the process. Says whether it was there.
    fn signal(&self, signal: Signal) -> Result<bool, LabError> {
        let Some(pid) = self.namespaces.inner(self.child.id()).and_then(Pid::from_raw) else { return Ok(false) };
        match kill_process(pid, signal) {
            // `unshare` has not yet started the program, or has not yet ended after it.
            Err(Errno::SRCH) if !self.namespaces.keeps_pid() => Ok(false),
            signalled => {
                signalled.map(|()| true).map_err(|error| failed("signal a process of the experiment")(error.into()))
            }
        }
    }

    /// Kills the process, and waits for its end.
    fn kill(&mut self) -> Result<(), LabError> {
        if !self.namespaces.keeps_pid() {
            self.signal(Signal::KILL)?;
        }
        self.child.kill().map_err(failed("kill a process of the experiment"))?;
        self.child.wait().map(drop).map_err(failed("wait for a process of the experiment"))
    }

    fn resume(&mut self) -> Result<(), LabError> {
        if self.resume.take().is_some() { self.signal(Signal::CONT).map(drop) } else { Ok(()) }
    }

    fn heard(&mut self) -> Heard {
        self.listener.take().and_then(|listener| listener.join().ok()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, and need not be.
        let _ = self.kill();
    }
}

fn listen(output: ChildStdout) -> Heard {
    let mut heard = Heard::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(note) = line.strip_prefix("note ") {
            if heard.notes.len() < NOTES_MAX {
                heard.notes.push(note.to_owned());
            }
        } else if let Some(measured) = line.strip_prefix("done ") {
            heard.measured = serde_json::from_str(measured).ok().flatten();
        }
    }
    heard
}

/// Where the processes run.
pub(super) enum Surroundings {
    /// Where the experiment does.
    Here,
    /// In pid namespaces in turn.
    Mixed,
    /// Each worker on a host of its own.
    Hosts(Hosts),
}

impl Surroundings {
    /// The host of a worker, if it has one.
    pub(super) fn host(&self, worker: usize) -> Option<Host> {
        match self {
            Self::Hosts(hosts) if worker < hosts.count() => Some(hosts.host(worker)),
            _ => None,
        }
    }

    fn of(&self, index: usize, serial: u64) -> Namespaces {
        match self {
            Self::Here => Namespaces::Here,
            Self::Mixed => Namespaces::of(serial),
            Self::Hosts(_) => self.host(index).map_or(Namespaces::Here, Namespaces::Host),
        }
    }
}

/// All processes: the workers, and the checker as the last one.
pub(super) struct Processes {
    processes: Vec<Process>,
    serial: u64,
    surroundings: Surroundings,
    /// What went wrong, in words.
    notes: Vec<String>,
}

impl Processes {
    /// Starts a process for each task. The last one is never killed.
    pub(super) fn start(tasks: Vec<KillTask>, surroundings: Surroundings) -> Result<Self, LabError> {
        let serial = tasks.len() as u64;
        let started = tasks.into_iter().enumerate().map(|(index, task)| {
            let namespaces = surroundings.of(index, task.serial);
            Process::start(task, namespaces)
        });
        Ok(Self { processes: started.collect::<Result<_, _>>()?, serial, surroundings, notes: Vec::new() })
    }

    /// Whether the links of workers can be cut.
    pub(super) fn has_links(&self) -> bool {
        matches!(self.surroundings, Surroundings::Hosts(_))
    }

    /// Cuts a worker's link for this long, if it has one that is not cut already. Says whether it
    /// did.
    pub(super) fn cut(&mut self, worker: usize, time: Duration) -> Result<bool, LabError> {
        match &mut self.surroundings {
            Surroundings::Hosts(hosts) => hosts.cut(worker, time),
            _ => Ok(false),
        }
    }

    fn mend(&mut self, now: Option<Instant>) -> Result<(), LabError> {
        match &mut self.surroundings {
            Surroundings::Hosts(hosts) => hosts.mend(now),
            _ => Ok(()),
        }
    }

    /// Processes that may be killed.
    pub(super) fn workers(&self) -> u64 {
        self.processes.len() as u64 - 1
    }

    /// Kills a worker and starts another in its place.
    pub(super) fn kill(&mut self, worker: usize) -> Result<(), LabError> {
        self.processes[worker].kill()?;
        self.succeed(worker)
    }

    /// Stops a worker for this long, if it is not stopped already. Says whether it did.
    pub(super) fn stop(&mut self, worker: usize, time: Duration) -> Result<bool, LabError> {
        let process = &mut self.processes[worker];
        if process.resume.is_some() {
            return Ok(false);
        }
        if !process.signal(Signal::STOP)? {
            return Ok(false);
        }
        process.resume = Some(Instant::now() + time);
        Ok(true)
    }

    /// Resumes processes and mends links whose time has come. Notes processes that ended by
    /// themselves, and starts successors.
    pub(super) fn tend(&mut self) -> Result<(), LabError> {
        let now = Instant::now();
        self.mend(Some(now))?;
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            if process.resume.is_some_and(|at| at <= now) {
                process.resume()?;
            }
            if let Some(status) = process.child.try_wait().map_err(failed("look at a process of the experiment"))? {
                self.notes.push(format!("process {index} ended by itself: {status}"));
                self.succeed(index)?;
            }
        }
        Ok(())
    }

    /// Notes what a process said that has ended, and starts its successor.
    fn succeed(&mut self, index: usize) -> Result<(), LabError> {
        self.serial += 1;
        let process = &mut self.processes[index];
        self.notes.extend(process.heard().notes);
        let namespaces = self.surroundings.of(index, self.serial);
        *process = Process::start(KillTask { serial: self.serial, ..process.task.clone() }, namespaces)?;
        Ok(())
    }

    /// Resumes all, and mends all links.
    pub(super) fn resume(&mut self) -> Result<(), LabError> {
        self.mend(None)?;
        self.processes.iter_mut().try_for_each(Process::resume)
    }

    /// Waits until all have ended, after they were told to; gives what the checker measured.
    pub(super) fn end(mut self) -> Result<(Vec<String>, Option<Measured>), LabError> {
        self.resume()?;
        let deadline = Instant::now() + PATIENCE;
        let mut measured = None;
        for (index, mut process) in self.processes.drain(..).enumerate() {
            while process.child.try_wait().map_err(failed("look at a process of the experiment"))?.is_none() {
                if Instant::now() > deadline {
                    self.notes.push(format!("process {index} does not end: it waits for ever"));
                    let _ = process.child.kill();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let heard = process.heard();
            self.notes.extend(heard.notes);
            measured = heard.measured;
        }
        Ok((self.notes, measured))
    }
}
