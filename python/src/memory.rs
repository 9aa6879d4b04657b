//! Memory of Python objects (the buffer protocol) as slices. This is the only unsafe code of the
//! package.
//!
//! A value is copied between the pool and this memory without the interpreter lock. As with
//! `readinto` of Python's files, a program must not let another thread use a buffer meanwhile: it
//! would read or store a mix of bytes.
#![allow(unsafe_code)]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;

/// The memory of an object whose bytes lie one behind the other. The object keeps it where it is
/// until this is dropped.
pub(crate) struct Memory(PyUntypedBuffer);

impl Memory {
    /// Memory to read from.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        match buffer.is_c_contiguous() {
            true => Ok(Self(buffer)),
            false => Err(PyBufferError::new_err("the buffer's bytes must lie one behind the other: make a copy of it")),
        }
    }

    /// Memory to write to.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = Self::readable(object)?;
        match memory.0.readonly() {
            true => Err(PyTypeError::new_err("the buffer is read-only: give a bytearray, an array or a writable view")),
            false => Ok(memory),
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the buffer is contiguous, so that `len_bytes` bytes from `buf_ptr` on are its
            // own; it is not null, because it is not empty; the object keeps them in place as long
            // as `self.0` lives. No other thread writes them meanwhile (see the module).
            bytes => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), bytes) },
        }
    }

    /// The bytes of writable memory.
    ///
    /// # Panics
    /// If the memory is read-only.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(!self.0.readonly(), "it was checked to be writable");
        match self.0.len_bytes() {
            0 => &mut [],
            // SAFETY: as in `bytes`; the memory is writable, and no other thread uses it meanwhile
            // (see the module).
            bytes => unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), bytes) },
        }
    }
}
