//! The hidden command that a process of an experiment runs, and the list of tasks.

use crate::LabError;
use crate::fleet::{Post, Task};
use crate::kill::{KillTask, NodeTask};
use crate::micro::MicroTask;
use crate::replay::ReplayTask;

/// The hidden command that a process of an experiment runs
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessCommand {
    /// The task's name
    name: String,
    /// The task, as the parent wrote it
    #[arg(default_value_t)]
    task: String,
}

/// How a task of some type is read and done.
type Run = fn(&str) -> Result<(), LabError>;

/// All tasks, by name.
const TASKS: [(&str, Run); 4] = [
    (ReplayTask::NAME, run::<ReplayTask>),
    (MicroTask::NAME, run::<MicroTask>),
    (KillTask::NAME, run::<KillTask>),
    (NodeTask::NAME, run::<NodeTask>),
];

fn run<T: Task>(task: &str) -> Result<(), LabError> {
    let task: T = serde_json::from_str(task).map_err(|error| for_the_lab(&error.to_string()))?;
    task.run(Post)
}

fn for_the_lab(what: &str) -> LabError {
    LabError::Options(format!("this command is for the lab itself: {what}"))
}

impl ProcessCommand {
    /// Does the task.
    pub fn run(self) -> Result<(), LabError> {
        let found = TASKS.iter().find(|(name, _)| *name == self.name);
        let (_, run) = found.ok_or_else(|| for_the_lab(&format!("there is no task {:?}", self.name)))?;
        run(&self.task)
    }
}
