//! A key as Python programs write it: `str`, whose UTF-8 is the key, or `bytes`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The bytes of a key. They are the object's own.
#[inline]
pub(crate) fn bytes_of<'k>(key: &'k Bound<'_, PyAny>) -> PyResult<&'k [u8]> {
    if let Ok(text) = key.cast::<PyString>() {
        return text.to_str().map(str::as_bytes);
    }
    match key.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes()),
        Err(_) => Err(refused(key)),
    }
}

#[cold]
fn refused(key: &Bound<'_, PyAny>) -> PyErr {
    let name = key.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("a key is str or bytes, not {name}: write it as text, such as f\"user:{{id}}\""))
}
