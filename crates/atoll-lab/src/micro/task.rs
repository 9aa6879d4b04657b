//! What one process of the experiment measures.

use super::redis::RedisSource;
use super::subject::{Client, Copying, Key, LibrarySource, Source};
use super::workload::{Extent, Measured, Workload};
use crate::LabError;
use crate::fleet::{Post, Task};
use atoll_deployment::Plan;
use atoll_fabric::Clock;
use serde::{Deserialize, Serialize};
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
            Target::Engine(plan) => {
                let source = EngineSource(plan);
                // The cache is opened before the process says that it is ready.
                source.subject()?;
                self.measure(&source, &post)
            }
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

/// Clients of a cache of ours. Each opens the cache anew, since a deployment may be bound to its
/// thread.
struct EngineSource<'p>(&'p Plan);

impl Source for EngineSource<'_> {
    type Subject = Client;

    fn subject(&self) -> Result<Client, LabError> {
        Client::new(&*self.0.open(&Clock::host())?)
    }
}
