//! Why an experiment could not be done.

use crate::trace::TraceError;
use atoll::OpenError;
use atoll_cache::CacheError;
use atoll_deployment::DeploymentError;
use atoll_fabric::FabricError;
use atoll_pool::PoolError;
use std::path::PathBuf;

/// Why an experiment could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A cache could not be had, or did not answer.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// More objects were resident than the cache may hold.
    #[error(
        "{objects_max} objects were resident at a time, more than the {bound} that the cache may hold: the engine breaks its promise"
    )]
    TooManyResident {
        /// The most that were seen.
        objects_max: u64,
        /// The most that may be.
        bound: u64,
    },
    /// Keys were shown that the engine does not count as resident.
    #[error("a scan shows {shown} keys where the engine counts {counted} objects: the engine's count is wrong")]
    Miscounted {
        /// Distinct keys that the scan showed.
        shown: u64,
        /// What the engine counts.
        counted: u64,
    },
    /// A folder of traces lacks what the experiment needs.
    #[error("{path}: {what}")]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// A process of the experiment failed.
    #[error("process {index} of the experiment: {what}")]
    Process {
        /// Which, from 0.
        index: usize,
        /// What happened.
        what: String,
    },
    /// Something that must hold does not.
    #[error("{0}")]
    Failed(String),
    /// Something was wrong, or lost.
    #[error("the cache did not keep its promises: see the report")]
    Unsound,
    /// Options contradict each other.
    #[error("{0}")]
    Options(String),
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

/// What a deployment fails with also fails an experiment.
macro_rules! of_deployments {
    ($($Error:ty),*) => {$(
        impl From<$Error> for LabError {
            fn from(error: $Error) -> Self {
                DeploymentError::from(error).into()
            }
        }
    )*};
}

of_deployments!(CacheError, FabricError, PoolError, OpenError);
