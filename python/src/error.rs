//! The library's errors as exceptions, which `package/atoll/_errors.py` declares.
//!
//! | exception | the library's error |
//! |---|---|
//! | `TooLarge` | a key or a value beyond its limit |
//! | `PoolFull` | no room for an object; the host has no memory left |
//! | `TooManyClients` | the pool has no place for this process |
//! | `NotANumber`, `OutOfRange` | an increment of something else, or beyond 64 bits |
//! | `WrongKind` | the value is a hash of a Redis client |
//! | `PoolAbsent`, `PoolInUse`, `OpenFailed` | the pool cannot be opened, created or removed |
//! | `PoolLost` | the memory is gone, or this client was shut out |
//! | `Damaged` | bytes in the pool that no client wrote |
//! | `CodecError` | bytes that this cache's codec did not write |
//! | `Closed` | the cache was closed |

use atoll::{BuildError, CacheError, Error, FabricError, OpenError, PoolError, RemoveError, VerbError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An exception of the package.
#[cold]
pub(crate) fn raise(py: Python<'_>, class: &str, message: impl ToString) -> PyErr {
    let class = py.import("atoll._errors").and_then(|errors| Ok(errors.getattr(class)?.cast_into::<PyType>()?));
    match class {
        Ok(class) => PyErr::from_type(class, message.to_string()),
        Err(error) => error,
    }
}

fn class_of_verb(error: &VerbError) -> &'static str {
    match error {
        VerbError::NoMemory(_) => "PoolFull",
        _ => "PoolLost",
    }
}

fn class_of_cache(error: &CacheError) -> &'static str {
    match error {
        CacheError::KeyTooLong { .. } | CacheError::ValueTooLarge { .. } => "TooLarge",
        CacheError::AnotherKind { .. } => "WrongKind",
        CacheError::OutOfMemory => "PoolFull",
        CacheError::NodeAbsent { .. } | CacheError::Overtaken | CacheError::BegunByAnother => "PoolLost",
        CacheError::Damaged { .. } => "Damaged",
        CacheError::Verb(error) => class_of_verb(error),
    }
}

fn class_of_open(error: &OpenError) -> &'static str {
    match error {
        OpenError::Region(FabricError::Absent(_)) => "PoolAbsent",
        OpenError::Pool(PoolError::Full { .. }) => "TooManyClients",
        _ => "OpenFailed",
    }
}

/// The library's texts are for the command line, where these are other words.
#[cold]
fn of_open(py: Python<'_>, error: &OpenError) -> PyErr {
    let text = match error {
        OpenError::Region(FabricError::Absent(name)) => format!("{name} does not exist: leave out create=False"),
        OpenError::Pool(PoolError::Full { clients_max }) => format!(
            "the pool has its {clients_max} clients: end a process, or remove the pool and open it with a larger \
             clients_max"
        ),
        _ => error.to_string(),
    };
    raise(py, class_of_open(error), text)
}

/// An operation failed.
#[cold]
pub(crate) fn of_operation(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Cache(error) => class_of_cache(error),
        Error::Open(error) => return of_open(py, error),
        Error::NotANumber => "NotANumber",
        Error::Overflow => "OutOfRange",
    };
    raise(py, class, error)
}

/// The pool could not be opened.
#[cold]
pub(crate) fn of_opening(py: Python<'_>, error: &BuildError) -> PyErr {
    match error {
        BuildError::Open(error) => of_open(py, error),
        _ => raise(py, "OpenFailed", error),
    }
}

/// The pool could not be removed.
#[cold]
pub(crate) fn of_removal(py: Python<'_>, error: &RemoveError) -> PyErr {
    match error {
        RemoveError::Open(OpenError::Region(FabricError::Absent(name))) => {
            raise(py, "PoolAbsent", format!("{name} does not exist: there is nothing to remove"))
        }
        RemoveError::Open(error) => of_open(py, error),
        RemoveError::Unsound { name, why } => raise(
            py,
            "OpenFailed",
            format!("{name} is no whole pool ({why}): to remove it nevertheless, give force=True"),
        ),
        RemoveError::InUse { name, users } => {
            let message = format!(
                "{name} is in use by {users}: end them first. With force=True its name goes, and they keep its memory \
                 until they end"
            );
            raise(py, "PoolInUse", message)
        }
        RemoveError::Incomplete { name, why } => raise(
            py,
            "OpenFailed",
            format!("{name} is not removed: {why}. With force=True what is there and unused is removed"),
        ),
    }
}
