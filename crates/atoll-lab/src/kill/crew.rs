//! The processes that are killed, stopped and resumed, and their successors.

use super::part::{Part, Told};
use super::space::Space;
use crate::LabError;
use crate::fleet::{Task, spawn};
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
    told: Option<Told>,
}

/// A process of the experiment.
pub(super) struct Hand {
    part: Part,
    space: Space,
    /// The process, or the `unshare` that started it.
    child: Child,
    /// Kept open: the process takes its end for the parent's.
    _input: ChildStdin,
    listener: Option<JoinHandle<Heard>>,
    /// When it is to be resumed, if it is stopped.
    resume: Option<Instant>,
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> LabError {
    move |source| LabError::System { what, source }
}

impl Hand {
    fn start(part: Part, space: Space) -> Result<Self, LabError> {
        let (child, mut input, output) = spawn(&Task::Kill(part.clone()), space.prefix())?;
        // It need not wait for anybody.
        writeln!(input, "go").map_err(failed("begin a process of the experiment"))?;
        let listener = std::thread::spawn(move || listen(output));
        Ok(Self { part, space, child, _input: input, listener: Some(listener), resume: None })
    }

    /// Signals the process; whether it was there.
    fn signal(&self, signal: Signal) -> Result<bool, LabError> {
        let Some(pid) = self.space.inner(self.child.id()).and_then(Pid::from_raw) else { return Ok(false) };
        match kill_process(pid, signal) {
            // `unshare` has not come to the program, or has not ended behind it.
            Err(Errno::SRCH) if self.space != Space::Here => Ok(false),
            signalled => {
                signalled.map(|()| true).map_err(|error| failed("signal a process of the experiment")(error.into()))
            }
        }
    }

    /// Kills the process, and waits for its end.
    fn kill(&mut self) -> Result<(), LabError> {
        if self.space != Space::Here {
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

impl Drop for Hand {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, and need not be.
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
        } else if let Some(told) = line.strip_prefix("done ") {
            heard.told = serde_json::from_str(told).ok();
        }
    }
    heard
}

/// All processes: the workers, and the checker behind them.
pub(super) struct Crew {
    hands: Vec<Hand>,
    serial: u64,
    /// Whether processes run in namespaces of their own.
    mixed: bool,
    /// What went wrong, in words.
    notes: Vec<String>,
}

impl Crew {
    /// Starts a process a part; the last one is never killed.
    pub(super) fn start(parts: Vec<Part>, mixed: bool) -> Result<Self, LabError> {
        let serial = parts.len() as u64;
        let started = parts.into_iter().map(|part| {
            let space = Space::of(part.serial, mixed);
            Hand::start(part, space)
        });
        Ok(Self { hands: started.collect::<Result<_, _>>()?, serial, mixed, notes: Vec::new() })
    }

    /// Processes that may be killed.
    pub(super) fn workers(&self) -> u64 {
        self.hands.len() as u64 - 1
    }

    /// Kills a worker and starts another in its place.
    pub(super) fn kill(&mut self, worker: usize) -> Result<(), LabError> {
        self.serial += 1;
        let hand = &mut self.hands[worker];
        hand.kill()?;
        self.notes.extend(hand.heard().notes);
        let space = Space::of(self.serial, self.mixed);
        *hand = Hand::start(Part { serial: self.serial, ..hand.part.clone() }, space)?;
        Ok(())
    }

    /// Stops a worker for so long, if it is not stopped already; whether it did.
    pub(super) fn stop(&mut self, worker: usize, time: Duration) -> Result<bool, LabError> {
        let hand = &mut self.hands[worker];
        if hand.resume.is_some() {
            return Ok(false);
        }
        if !hand.signal(Signal::STOP)? {
            return Ok(false);
        }
        hand.resume = Some(Instant::now() + time);
        Ok(true)
    }

    /// Resumes those whose time has come; notes those that ended by themselves, and starts others
    /// in their place.
    pub(super) fn tend(&mut self) -> Result<(), LabError> {
        let now = Instant::now();
        for (index, hand) in self.hands.iter_mut().enumerate() {
            if hand.resume.is_some_and(|at| at <= now) {
                hand.resume()?;
            }
            if let Some(status) = hand.child.try_wait().map_err(failed("look at a process of the experiment"))? {
                self.notes.push(format!("process {index} ended by itself: {status}"));
                self.notes.extend(hand.heard().notes);
                self.serial += 1;
                let space = Space::of(self.serial, self.mixed);
                *hand = Hand::start(Part { serial: self.serial, ..hand.part.clone() }, space)?;
            }
        }
        Ok(())
    }

    /// Resumes all.
    pub(super) fn resume(&mut self) -> Result<(), LabError> {
        self.hands.iter_mut().try_for_each(Hand::resume)
    }

    /// Waits until all have ended, after they were told to; gives what the checker told.
    pub(super) fn end(mut self) -> Result<(Vec<String>, Option<Told>), LabError> {
        self.resume()?;
        let deadline = Instant::now() + PATIENCE;
        let mut told = None;
        for (index, mut hand) in self.hands.drain(..).enumerate() {
            while hand.child.try_wait().map_err(failed("look at a process of the experiment"))?.is_none() {
                if Instant::now() > deadline {
                    self.notes.push(format!("process {index} does not end: it waits for ever"));
                    let _ = hand.child.kill();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let heard = hand.heard();
            self.notes.extend(heard.notes);
            told = heard.told;
        }
        Ok((self.notes, told))
    }
}
