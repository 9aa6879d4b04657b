//! Blocks: large values that go straight between the pool and the program's buffers, many in one
//! call. `package/atoll/blocks.py` makes the operations of it that programs use.
//!
//! All of a call's copies are one stretch without the interpreter lock.

use crate::cache::Cache;
use crate::error::of_operation;
use crate::key::bytes_of;
use crate::memory::Memory;
use crate::opened::on_cache;
use atoll::{Attributes, Condition, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Why blocks were copied no further.
enum Ended {
    Failed(Error),
    /// The block at this place has so many bytes, its buffer so many.
    Small(usize, usize, usize),
}

fn raised(py: Python<'_>, ended: Ended) -> PyErr {
    match ended {
        Ended::Failed(error) => of_operation(py, &error),
        Ended::Small(place, block, buffer) => {
            PyValueError::new_err(format!("block {place} has {block} bytes, its buffer {buffer}"))
        }
    }
}

fn paired(keys: &[Bound<'_, PyAny>], buffers: &[Bound<'_, PyAny>]) -> PyResult<()> {
    match keys.len() == buffers.len() {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("{} keys and {} buffers", keys.len(), buffers.len()))),
    }
}

fn all_bytes<'k>(keys: &'k [Bound<'_, PyAny>]) -> PyResult<Vec<&'k [u8]>> {
    keys.iter().map(|key| bytes_of(key)).collect()
}

/// Copies the values of the keys into the buffers, from the first on until a key is absent.
/// Returns the lengths of those that were copied.
#[pyfunction]
pub(crate) fn get_blocks(
    py: Python<'_>,
    cache: &Bound<'_, Cache>,
    keys: Vec<Bound<'_, PyAny>>,
    buffers: Vec<Bound<'_, PyAny>>,
) -> PyResult<Vec<usize>> {
    paired(&keys, &buffers)?;
    let keys = all_bytes(&keys)?;
    let mut memory = buffers.iter().map(Memory::writable).collect::<PyResult<Vec<_>>>()?;
    let opened = cache.get().cache(py)?;
    let copied = on_cache!(py, &*opened, true, |cache| {
        let mut lengths = Vec::with_capacity(keys.len());
        for (place, (key, memory)) in keys.iter().zip(&mut memory).enumerate() {
            let into = memory.bytes_mut();
            let Some(meta) = cache.get_to_slice(key, into).map_err(Ended::Failed)? else { break };
            if meta.value_bytes > into.len() {
                return Err(Ended::Small(place, meta.value_bytes, into.len()));
            }
            lengths.push(meta.value_bytes);
        }
        Ok(lengths)
    });
    copied.map_err(|ended| raised(py, ended))
}

/// Sets the keys to the bytes of the buffers, in their order.
#[pyfunction]
#[pyo3(signature = (cache, keys, buffers, ttl = None))]
pub(crate) fn set_blocks(
    py: Python<'_>,
    cache: &Bound<'_, Cache>,
    keys: Vec<Bound<'_, PyAny>>,
    buffers: Vec<Bound<'_, PyAny>>,
    ttl: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    paired(&keys, &buffers)?;
    let keys = all_bytes(&keys)?;
    let memory = buffers.iter().map(Memory::readable).collect::<PyResult<Vec<_>>>()?;
    let mut options = cache.get().set_options(ttl, Condition::Always)?;
    options.attributes = Attributes::NONE;
    let opened = cache.get().cache(py)?;
    let set = on_cache!(py, &*opened, true, |cache| {
        keys.iter().zip(&memory).try_for_each(|(key, memory)| {
            cache.set_with(key, memory.bytes(), &options).map(drop).map_err(Ended::Failed)
        })
    });
    set.map_err(|ended| raised(py, ended))
}

/// How many keys are there from the first on until one is absent.
#[pyfunction]
pub(crate) fn count_blocks(py: Python<'_>, cache: &Bound<'_, Cache>, keys: Vec<Bound<'_, PyAny>>) -> PyResult<usize> {
    let keys = all_bytes(&keys)?;
    let opened = cache.get().cache(py)?;
    let counted = on_cache!(py, &*opened, false, |cache| {
        let mut count = 0;
        for key in &keys {
            if !cache.contains(key)? {
                break;
            }
            count += 1;
        }
        Ok(count)
    });
    counted.map_err(|error| of_operation(py, &error))
}
