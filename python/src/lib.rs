//! `atoll._atoll`: what the Python package `atoll` has of the library.
//!
//! | module | concept |
//! |---|---|
//! | `cache` | the class: every operation that is one call of the library |
//! | `current` | the pool as this process has it open, also after a fork |
//! | `opened` | a cache on the fabric that its address names |
//! | `blocks` | large values straight to and from buffers of the program, many at a time |
//! | `memory` | the buffers as slices |
//! | `key`, `ttl` | keys and times as Python programs write them |
//! | `value` | values as bytes and flags, and back |
//! | `error` | the library's errors as exceptions |
//!
//! Everything that calls a program's functions, waits or is asynchronous is written in Python, in
//! `package/atoll`.
//!
//! Over shared memory no operation waits for another process, so an operation keeps the interpreter
//! lock: to release it costs more than a lookup. It is released for what takes long: values of
//! 64 KiB or more, opening a pool, removing every key. Over a network every operation releases it.

mod blocks;
mod cache;
mod current;
mod error;
mod key;
mod memory;
mod opened;
mod ttl;
mod value;

use pyo3::prelude::*;

/// Removes the pool of this address. A pool that processes have open is removed only by `force`;
/// they keep its memory until they close it. Returns the bytes that the pool had.
#[pyfunction]
#[pyo3(signature = (address, *, force = false))]
fn remove(py: Python<'_>, address: &str, force: bool) -> PyResult<u64> {
    let removed = py.detach(|| opened::remove(address, force));
    removed.map(|removed| removed.bytes).map_err(|refused| error::of_removal(py, &refused))
}

/// The compiled part of the package `atoll`.
#[pymodule]
fn _atoll(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<cache::Cache>()?;
    module.add_function(wrap_pyfunction!(blocks::get_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(blocks::set_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(blocks::count_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(remove, module)?)
}
