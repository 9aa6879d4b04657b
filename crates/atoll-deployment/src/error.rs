//! Why a deployment failed.

use atoll::OpenError;
use atoll_cache::CacheError;
use atoll_near::NearError;
use atoll_pool::PoolError;

/// Why a cache could not be had, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentError {
    /// The cache failed.
    #[error("the cache failed: {0}")]
    Cache(#[from] CacheError),
    /// The shared memory could not be had.
    #[error(transparent)]
    Region(#[from] atoll_fabric::FabricError),
    /// The pool could not be made or opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A reference engine was asked for what only a pool can do.
    #[error(
        "references and sampled policies live in one process, limited by objects: give --cache-objects, no --processes above 1, or another engine"
    )]
    ReferenceOnly,
    /// There is no near cache.
    #[error("{0}")]
    Near(String),
    /// The plan asks for what there is not.
    #[error("{0}")]
    Plan(String),
}

/// What the library says of a pool is what the other ways to it say.
impl From<OpenError> for DeploymentError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Region(error) | OpenError::Near(NearError::Export(error)) => Self::Region(error),
            OpenError::Pool(error) => Self::Pool(error),
            OpenError::Near(NearError::Verb(error)) => Self::Pool(PoolError::Verb(error)),
            OpenError::Near(error) => Self::Near(error.to_string()),
            error @ (OpenError::NoRoomNear { .. } | OpenError::Remnant { .. }) => Self::Near(error.to_string()),
        }
    }
}
