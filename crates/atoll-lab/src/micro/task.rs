//! What one process of the experiment measures.

use super::redis::RedisSource;
use super::subject::{Client, Copying, Key, LibrarySource, Source};
use super::workload::{Extent, Measured, Workload};
use crate::LabError;
use crate::deployment::{Deployment, Experiment, Plan, on_engine};
use crate::fleet::{Post, Task};
use atoll_fabric::Clock;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

/// What is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Target {
    /// A named cache that the parent made.
    Engine(Plan),
    /// moka's sync cache for this many objects, in the process.
    Moka(u64),
    /// quick_cache's sync cache for this many objects, in the process.
    QuickCache(u64),
    /// A redis-server that the parent started.
    Redis(PathBuf),
    /// A plain copying loop.
    Copying,
}

/// What one process measures, in this order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MicroTask {
    pub(super) target: Target,
    pub(super) workloads: Vec<Workload>,
    pub(super) extent: Extent,
}

impl Task for MicroTask {
    const NAME: &'static str = "micro";

    fn run(self, post: Post) -> Result<(), LabError> {
        type Moka = moka::sync::Cache<Key, Arc<[u8]>>;
        type QuickCache = quick_cache::sync::Cache<Key, Arc<[u8]>>;
        match &self.target {
            Target::Engine(plan) => on_engine(&plan.engine, Opened { plan, task: &self, post }),
            Target::Moka(objects_max) => self.measure(&LibrarySource::<Moka>::new(*objects_max), &post),
            Target::QuickCache(objects_max) => self.measure(&LibrarySource::<QuickCache>::new(*objects_max), &post),
            Target::Redis(socket) => self.measure(&RedisSource(socket.clone()), &post),
            Target::Copying => self.measure(&Copying::new(self.extent.objects), &post),
        }
    }
}

impl MicroTask {
    fn measure<S: Source>(&self, source: &S, post: &Post) -> Result<(), LabError> {
        post.stand_by()?;
        let measure = |workload: &Workload| workload.run(source, &self.extent);
        let measured: Vec<Measured> = self.workloads.iter().map(measure).collect::<Result<_, _>>()?;
        post.report(&measured);
        Ok(())
    }
}

struct Opened<'p> {
    plan: &'p Plan,
    task: &'p MicroTask,
    post: Post,
}

impl Experiment for Opened<'_> {
    type Output = ();

    fn run<D: Deployment>(self) -> Result<(), LabError> {
        // The cache is opened before the process says that it is ready.
        let source = EngineSource { plan: self.plan, deployment: PhantomData::<fn() -> D> };
        source.subject()?;
        self.task.measure(&source, &self.post)
    }
}

/// Clients of a cache of ours. Each opens the cache anew, since a deployment may be bound to its
/// thread.
struct EngineSource<'p, D> {
    plan: &'p Plan,
    deployment: PhantomData<fn() -> D>,
}

impl<D: Deployment> Source for EngineSource<'_, D> {
    type Subject = Client<D::Engine>;

    fn subject(&self) -> Result<Self::Subject, LabError> {
        Client::new(&D::open(self.plan, &Clock::host())?)
    }
}
