//! Why an experiment could not be done.

use crate::trace::TraceError;
use atoll::OpenError;
use atoll_cache::CacheError;
use atoll_deployment::DeploymentError;
use atoll_pool::PoolError;
use std::path::PathBuf;

/// Why an experiment could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The cache failed.
    #[error("the cache failed: {0}")]
    Cache(#[from] CacheError),
    /// The shared memory could not be had.
    #[error(transparent)]
    Region(#[from] atoll_fabric::FabricError),
    /// The pool could not be made or opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
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

impl From<DeploymentError> for LabError {
    fn from(error: DeploymentError) -> Self {
        match error {
            DeploymentError::Cache(error) => Self::Cache(error),
            DeploymentError::Region(error) => Self::Region(error),
            DeploymentError::Pool(error) => Self::Pool(error),
            DeploymentError::Plan(_) | DeploymentError::ReferenceOnly => Self::Options(error.to_string()),
            DeploymentError::Near(what) => Self::Failed(what),
        }
    }
}

impl From<OpenError> for LabError {
    fn from(error: OpenError) -> Self {
        DeploymentError::from(error).into()
    }
}
