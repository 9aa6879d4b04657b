//! A replay by several processes on one named cache.

use super::player::{Player, Tally};
use super::{Settings, play};
use crate::LabError;
use crate::deployment::{Deployment, Experiment, on_engine};
use crate::fleet::{Fleet, Post, Task};
use crate::progress::Progress;
use crate::trace::Trace;
use atoll_fabric::Clock;
use serde::{Deserialize, Serialize};

/// What one process of a replay does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    settings: Settings,
    /// Which of the processes it is.
    index: u32,
}

/// Starts the processes on the cache, which is there, and adds up what they count; with it,
/// requests per second.
pub(super) fn play_all(settings: &Settings, progress: &Progress) -> Result<(Tally, f64), LabError> {
    let part = |index| Task::Replay(Part { settings: settings.clone(), index });
    let fleet = Fleet::start((0..settings.processes).map(part))?;
    let tallies: Vec<Tally> = fleet.go(|position| progress.set(position))?;
    let mut total = Tally::new();
    tallies.iter().for_each(|tally| total.add(tally));
    Ok((total, tallies.iter().map(Tally::requests_per_s).sum()))
}

impl Part {
    /// Does the part, in the process that it is for.
    pub(crate) fn run(self, post: Post) -> Result<(), LabError> {
        on_engine(self.settings.plan.engine, Playing { part: self, post })
    }
}

struct Playing {
    part: Part,
    post: Post,
}

impl Experiment for Playing {
    type Output = ();

    fn run<D: Deployment>(self) -> Result<(), LabError> {
        let Part { settings, index } = self.part;
        let (clock, time) = Clock::manual(0);
        let deployment = D::open(&settings.plan, &clock)?;
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
