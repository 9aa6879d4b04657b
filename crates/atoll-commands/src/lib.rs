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
//! | `size` | numbers of bytes |
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
mod size;
mod top;

pub use doctor::DoctorCommand;
pub use node::NodeCommand;
pub use pool::PoolCommand;
pub use serve::ServeCommand;
pub use top::TopCommand;

use atoll::fabric::PoolFabric;
use atoll::{OpenError, Pool};

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

/// Opens a pool. If opening it emptied it, that is logged.
fn open_pool<F: PoolFabric>(fabric: &F) -> Result<Pool<F>, OpenError> {
    let pool = Pool::open_on(fabric)?;
    let name = fabric.address().unwrap_or("the pool");
    if pool.was_reformatted() {
        tracing::warn!(
            "{name} was in use when its host went down: it was made anew with the same settings, and is empty"
        );
    }
    Ok(pool)
}
