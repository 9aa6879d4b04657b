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
//! | `doctor` | `atoll doctor` |
//! | `new_pool` | the options of a new pool |
//! | `address` | addresses |
//! | `engine` | the options of its engine |
//! | `settings` | options from the environment and from a file |
//! | `size` | numbers of bytes |
#![forbid(unsafe_code)]

mod address;
mod doctor;
mod engine;
mod new_pool;
mod node;
mod pool;
mod serve;
pub mod settings;
mod size;

pub use doctor::DoctorCommand;
pub use node::NodeCommand;
pub use pool::PoolCommand;
pub use serve::ServeCommand;

use atoll::fabric::PoolFabric;
use atoll::{OpenError, Pool};

/// The requested capacity. The default is 1 GiB, or less if the host has no room for it; that is
/// reported on standard error.
fn capacity_or_default(given: Option<u64>, name: Option<&str>) -> u64 {
    const DEFAULT_BYTES: u64 = 1 << 30;
    given.unwrap_or_else(|| {
        let (bytes, less) = atoll_fabric::shm::host::capacity_default(name, DEFAULT_BYTES);
        if let Some(room) = less {
            eprintln!("{room}: the pool has {bytes} bytes, and not {DEFAULT_BYTES} (--capacity)");
        }
        bytes
    })
}

/// Opens a pool. If opening it emptied it, that is reported on standard error.
fn open_pool<F: PoolFabric>(fabric: &F) -> Result<Pool<F>, OpenError> {
    let pool = Pool::open_on(fabric)?;
    let name = fabric.address().unwrap_or("the pool");
    if pool.was_reformatted() {
        eprintln!("{name} was in use when its host went down: it was made anew with the same settings, and is empty");
    }
    Ok(pool)
}
