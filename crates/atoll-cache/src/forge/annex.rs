//! What a form of FORGE adds to a pool: settings in the header, an area behind the rings, and state
//! of each process.
//!
//! The shipped engine adds nothing: its annex is `()`.

use super::settings::ENGINE_FORGE;
use atoll_fabric::Address;
use atoll_pool::{Pool, PoolError, PoolSettings};

/// The annex of a form, as one process has it.
pub trait Annex: Sized + 'static {
    /// The number in the header of pools with this annex.
    const ENGINE: u64;

    /// Writes the annex's own settings into a new pool's settings. Word 2 and later of the engine's
    /// settings belong to it.
    fn claim(settings: PoolSettings) -> PoolSettings {
        settings
    }

    /// Checks the annex's settings; returns the bytes of its area.
    fn area_bytes(settings: &PoolSettings) -> Result<u64, PoolError>;

    /// The annex of a pool that this process opens. The area begins at `area`, on a line.
    fn opened(pool: &Pool, area: Address) -> Result<Self, PoolError>;

    /// Names the word at an offset of the area.
    fn describe(&self, offset: u64) -> String {
        format!("annex {offset}")
    }
}

impl Annex for () {
    const ENGINE: u64 = ENGINE_FORGE;

    fn area_bytes(settings: &PoolSettings) -> Result<u64, PoolError> {
        match settings.engine_settings[2] {
            0 => Ok(0),
            _ => Err(PoolError::Damaged { what: "the engine's settings" }),
        }
    }

    fn opened(_pool: &Pool, _area: Address) -> Result<Self, PoolError> {
        Ok(())
    }
}
