//! A replay by several processes on one named cache.

use super::player::{Player, Tally};
use super::{Settings, play};
use crate::LabError;
use crate::fleet::{Fleet, Post, Task};
use crate::progress::Progress;
use crate::trace::Trace;
use atoll_fabric::Clock;
use serde::{Deserialize, Serialize};

/// What one process of a replay does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReplayTask {
    settings: Settings,
    /// Which of the processes it is.
    index: u32,
}

/// Starts the processes on the cache, which must exist, and adds up what they count. Also gives
/// requests per second.
pub(super) fn play_all(settings: &Settings, progress: &Progress) -> Result<(Tally, f64), LabError> {
    let task = |index| ReplayTask { settings: settings.clone(), index };
    let fleet = Fleet::start((0..settings.processes).map(task))?;
    let tallies: Vec<Tally> = fleet.go(|position| progress.set(position))?;
    let mut total = Tally::default();
    tallies.iter().for_each(|tally| total.add(tally));
    Ok((total, tallies.iter().map(Tally::requests_per_s).sum()))
}

impl Task for ReplayTask {
    const NAME: &'static str = "replay";

    fn run(self, post: Post) -> Result<(), LabError> {
        Playing { task: self, post }.run()
    }
}

struct Playing {
    task: ReplayTask,
    post: Post,
}

impl Playing {
    fn run(self) -> Result<(), LabError> {
        let ReplayTask { settings, index } = self.task;
        let (clock, time) = Clock::manual(0);
        let deployment = settings.plan.open(&clock)?;
        let clients = (0..settings.clients).map(|_| deployment.client()).collect::<Result<Vec<_>, _>>()?;
        let player = Player::new(clients, time, settings.sizes);
        let trace = Trace::open(&settings.trace, settings.seed)?;
        let post = self.post;
        post.stand_by()?;
        let (processes, index) = (u64::from(settings.processes), u64::from(index));
        let tally = play(player, trace, |number| number % processes == index, |position| post.progress(position))?;
        post.report(&tally);
        Ok(())
    }
}
