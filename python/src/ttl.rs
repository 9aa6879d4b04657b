//! Times to live as Python programs write them.
//!
//! | written | means |
//! |---|---|
//! | `None` | the cache's own time to live; without one, never |
//! | a number | so many seconds |
//! | `timedelta` | so long |
//! | `math.inf` | never, whatever the cache's own time to live |

use atoll::Expiry;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use std::time::Duration;

/// When an object expires that is set with this time to live. A millisecond is the shortest time.
pub(crate) fn expiry(ttl: Option<&Bound<'_, PyAny>>, default: Expiry) -> PyResult<Expiry> {
    let Some(ttl) = ttl else { return Ok(default) };
    let is_number =
        (ttl.is_instance_of::<PyInt>() || ttl.is_instance_of::<PyFloat>()) && !ttl.is_instance_of::<PyBool>();
    if is_number {
        let seconds: f64 = ttl.extract()?;
        return match seconds {
            f64::INFINITY => Ok(Expiry::Never),
            seconds if seconds > 0.0 => Ok(after(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))),
            _ => Err(not_positive()),
        };
    }
    match ttl.extract::<Duration>() {
        Ok(Duration::ZERO) => Err(not_positive()),
        Ok(time) => Ok(after(time)),
        // A negative timedelta is a timedelta all the same.
        Err(_) if ttl.hasattr("total_seconds")? => Err(not_positive()),
        Err(_) => Err(PyTypeError::new_err("a ttl is a number of seconds, a timedelta, or None")),
    }
}

fn after(time: Duration) -> Expiry {
    Expiry::InMs(u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

fn not_positive() -> PyErr {
    PyValueError::new_err("a ttl is more than 0 seconds: to remove a key now, delete it")
}
