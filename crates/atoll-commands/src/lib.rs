//! The commands of the program `atoll` that serve, and look after pools and memory nodes: what
//! there is without the lab.
//!
//! A crate of its own, so that the compiler works on the server over each engine and fabric while
//! it works on the lab.
//!
//! | module | concept |
//! |---|---|
//! | `serve` | `atoll serve` |
//! | `node` | `atoll node` |
//! | `pool` | `atoll pool` |
//! | `top` | `atoll top` |
//! | `doctor` | `atoll doctor` |
//! | `new_pool` | the options of a new pool |
//! | `address` | addresses |
//! | `engine` | the options of its engine |
//! | `logs` | the log of what serves |
//! | `settings` | options from the environment and from a file |
#![forbid(unsafe_code)]

mod address;
mod doctor;
mod engine;
mod logs;
mod new_pool;
mod node;
mod pool;
mod serve;
pub mod settings;
mod top;

pub use doctor::DoctorCommand;
pub use node::NodeCommand;
pub use pool::PoolCommand;
pub use serve::ServeCommand;
pub use top::TopCommand;

use atoll::fabric::PoolFabric;
use atoll::{OpenError, Pool};
use atoll_fabric::VerbError;
use atoll_pool::PoolError;
use std::time::{Duration, Instant};

/// The requested capacity. The default is 1 GiB, or less if the host has no room for it; that is
/// logged.
fn capacity_or_default(given: Option<u64>, name: Option<&str>) -> u64 {
    const DEFAULT_BYTES: u64 = 1 << 30;
    given.unwrap_or_else(|| {
        let (bytes, less) = atoll_fabric::shm::host::capacity_default(name, DEFAULT_BYTES);
        if let Some(room) = less {
            tracing::warn!("{room}: the pool has {bytes} bytes, and not {DEFAULT_BYTES} (--capacity)");
        }
        bytes
    })
}

/// The password in a file. An end of line behind it does not count.
fn password_of(path: &std::path::Path) -> Result<Vec<u8>, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    match end {
        0 => Err(format!("{} holds no password: write one into it", path.display())),
        _ => Ok(text[..end].to_vec()),
    }
}

/// How long a pool is waited for of which a memory node does not answer. By then the others go on
/// without it.
const NODE_PATIENCE: Duration = Duration::from_secs(20);
const OPEN_AGAIN: Duration = Duration::from_millis(500);

/// Opens a pool. If opening it emptied it, that is logged. A memory node beside the home that does
/// not answer is waited for.
fn open_pool<F: PoolFabric>(fabric: &F) -> Result<Pool<F>, OpenError> {
    let (begun, mut is_told) = (Instant::now(), false);
    let pool = loop {
        match Pool::open_on(fabric) {
            Err(OpenError::Pool(PoolError::Verb(VerbError::NodeAbsent(absent))))
                if absent.node > 0 && fabric.is_unanswered() && begun.elapsed() < NODE_PATIENCE =>
            {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(
                        "memory node {} cannot be reached ({}): waiting for it up to {} s",
                        absent.node,
                        absent.why,
                        NODE_PATIENCE.as_secs()
                    );
                }
                std::thread::sleep(OPEN_AGAIN);
            }
            opened => break opened?,
        }
    };
    let name = fabric.address().unwrap_or("the pool");
    if pool.was_reformatted() {
        tracing::warn!(
            "{name} was in use when its host went down: it was made anew with the same settings, and is empty"
        );
    }
    Ok(pool)
}
