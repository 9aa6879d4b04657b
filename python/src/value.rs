//! Values as the pool holds them: bytes, and flags that say what the bytes are.
//!
//! The flags are those that `pymemcache` and `python-memcached` use, so that memcached clients of
//! `atoll serve` read what Python programs write, and the other way round.
//!
//! | flags | Python type | bytes |
//! |---|---|---|
//! | 0 | `bytes`, `bytearray`, `memoryview`; other buffers without a codec; read as `bytes` | as they are |
//! | 1 | what the codec `pickle` writes | a pickle |
//! | 2, 4 | `int` | decimal |
//! | 16 | `str` | UTF-8 |
//! | 32 | `None`, `bool`, `float`; what the codec `json` writes | JSON |
//! | any other | what a program's own codec writes | the codec's |
//!
//! A subclass of one of these types is written by the codec, which may keep its type. Pickles are
//! read only by a cache that has the codec `pickle`: to read one runs what its writer says.

use crate::error::raise;
use atoll::Attributes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString};

const BYTES: u32 = 0;
const PICKLE: u32 = 1;
const INTEGER: u32 = 2;
const LONG_INTEGER: u32 = 4;
const TEXT: u32 = 16;
const JSON: u32 = 32;

/// The flags of an integer.
pub(crate) const INTEGER_ATTRIBUTES: Attributes = Attributes { kind: 0, flags: INTEGER };

/// How values of further types are written: an object with `flags`, `encode` and `decode`.
pub(crate) struct Codec {
    flags: u32,
    /// The object itself.
    pub(crate) object: Py<PyAny>,
}

impl Codec {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        for name in [intern!(py, "encode"), intern!(py, "decode")] {
            if !object.getattr_opt(name)?.is_some_and(|method| method.is_callable()) {
                return Err(PyTypeError::new_err(
                    "a codec has flags (a number), encode(value) -> bytes and decode(bytes) -> value: give atoll.json, \
                     atoll.pickle, or an object like them",
                ));
            }
        }
        let flags: u32 = object.getattr(intern!(py, "flags"))?.extract()?;
        if [BYTES, INTEGER, LONG_INTEGER, TEXT].contains(&flags) {
            return Err(PyTypeError::new_err(format!(
                "the flags {flags} stand for bytes, text or a number: give the codec flags of its own, such as 256"
            )));
        }
        Ok(Self { flags, object: object.clone().unbind() })
    }

    fn encode<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = value.py();
        let written = self.object.bind(py).call_method1(intern!(py, "encode"), (value,))?;
        written.cast_into::<PyBytes>().map_err(|_| PyTypeError::new_err("a codec's encode returns bytes"))
    }

    fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        decoded_by(self.object.bind(py), bytes)
    }
}

/// The value that a codec makes of the bytes, which any program may have written.
fn decoded_by<'py>(codec: &Bound<'py, PyAny>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let py = codec.py();
    let decoded = codec.call_method1(intern!(py, "decode"), (PyBytes::new(py, bytes),));
    decoded.map_err(|error| match error.is_instance_of::<PyException>(py) {
        true => unreadable(py, error),
        // An interrupt, or the end of the program.
        false => error,
    })
}

#[cold]
fn unreadable(py: Python<'_>, cause: PyErr) -> PyErr {
    let message = format!("the value cannot be read ({cause}): another program may have written it; delete the key");
    let error = raise(py, "CodecError", message);
    error.set_cause(py, Some(cause));
    error
}

/// A value as bytes.
pub(crate) enum Encoded<'py> {
    /// The object's own bytes, or those that a codec wrote.
    Bytes(Bound<'py, PyBytes>),
    /// The object's own UTF-8.
    Text(Bound<'py, PyString>),
    Written(Vec<u8>),
    Literal(&'static [u8]),
}

impl Encoded<'_> {
    #[inline]
    pub(crate) fn bytes(&self) -> PyResult<&[u8]> {
        Ok(match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Text(text) => text.to_str()?.as_bytes(),
            Self::Written(bytes) => bytes,
            Self::Literal(bytes) => bytes,
        })
    }
}

/// A value as bytes, and what is said of them.
#[inline]
pub(crate) fn encode<'py>(value: &Bound<'py, PyAny>, codec: Option<&Codec>) -> PyResult<(Encoded<'py>, Attributes)> {
    let (encoded, flags) = if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        (Encoded::Bytes(bytes.clone()), BYTES)
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        (Encoded::Text(text.clone()), TEXT)
    } else if value.is_exact_instance_of::<PyInt>() {
        (Encoded::Written(decimal(value)?), INTEGER)
    } else {
        encode_other(value, codec)?
    };
    Ok((encoded, Attributes { kind: 0, flags }))
}

fn decimal(number: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    Ok(match number.extract::<i64>() {
        Ok(number) => number.to_string().into_bytes(),
        Err(_) => number.str()?.to_str()?.as_bytes().to_vec(),
    })
}

fn encode_other<'py>(value: &Bound<'py, PyAny>, codec: Option<&Codec>) -> PyResult<(Encoded<'py>, u32)> {
    if value.is_none() {
        return Ok((Encoded::Literal(b"null"), JSON));
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok((Encoded::Literal(if truth.is_true() { b"true" } else { b"false" }), JSON));
    }
    if value.is_exact_instance_of::<PyFloat>() {
        return Ok((Encoded::Written(json_of_float(value)?), JSON));
    }
    let is_bytes = value.is_exact_instance_of::<PyByteArray>() || value.is_exact_instance_of::<PyMemoryView>();
    match codec {
        Some(codec) if !is_bytes => Ok((Encoded::Bytes(codec.encode(value)?), codec.flags)),
        _ => match PyBuffer::<u8>::get(value).and_then(|buffer| buffer.to_vec(value.py())) {
            Ok(bytes) => Ok((Encoded::Written(bytes), BYTES)),
            Err(_) => bytes_of_any_buffer(value).map(|bytes| (Encoded::Bytes(bytes), BYTES)),
        },
    }
}

/// The bytes of a buffer of larger items.
fn bytes_of_any_buffer<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = value.py();
    let Ok(view) = PyMemoryView::from(value) else { return Err(refused(value)) };
    Ok(view.call_method0(intern!(py, "tobytes"))?.cast_into::<PyBytes>()?)
}

/// As the module `json` of Python writes it.
fn json_of_float(number: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let value: f64 = number.extract()?;
    Ok(match value {
        value if value.is_nan() => b"NaN".to_vec(),
        f64::INFINITY => b"Infinity".to_vec(),
        f64::NEG_INFINITY => b"-Infinity".to_vec(),
        _ => number.repr()?.to_str()?.as_bytes().to_vec(),
    })
}

#[cold]
fn refused(value: &Bound<'_, PyAny>) -> PyErr {
    let name = value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "a {name} needs a codec: open the cache with codec=atoll.json, or with codec=atoll.pickle if every process that \
         can write the pool is trusted; bytes, str, int, float, bool and None need none"
    ))
}

/// Whether the value is `bytes`, as they are.
#[inline]
pub(crate) fn is_bytes(attributes: Attributes) -> bool {
    matches!(attributes, Attributes { kind: 0, flags: BYTES })
}

/// Whether a value with these attributes is made without a call of Python code.
#[inline]
pub(crate) fn is_built_in(attributes: Attributes) -> bool {
    matches!(attributes, Attributes { kind: 0, flags: BYTES | TEXT })
}

/// The value that the bytes are.
#[inline]
pub(crate) fn decode<'py>(
    py: Python<'py>,
    bytes: &[u8],
    attributes: Attributes,
    codec: Option<&Codec>,
) -> PyResult<Bound<'py, PyAny>> {
    match attributes {
        Attributes { kind: 0, flags: BYTES } => Ok(PyBytes::new(py, bytes).into_any()),
        Attributes { kind: 0, flags: TEXT } => {
            let text = PyString::from_bytes(py, bytes).map_err(|error| unreadable(py, error))?;
            Ok(text.into_any())
        }
        _ => decode_other(py, bytes, attributes, codec),
    }
}

fn decode_other<'py>(
    py: Python<'py>,
    bytes: &[u8],
    attributes: Attributes,
    codec: Option<&Codec>,
) -> PyResult<Bound<'py, PyAny>> {
    if !attributes.is_string() {
        return Err(raise(
            py,
            "WrongKind",
            "the value is a hash of a Redis client: read it with HGETALL, or delete it",
        ));
    }
    match (attributes.flags, codec) {
        (INTEGER | LONG_INTEGER, _) => integer(py, bytes),
        (JSON, _) if matches!(bytes, b"null" | b"true" | b"false") => Ok(match bytes {
            b"null" => py.None().into_bound(py),
            truth => PyBool::new(py, truth == b"true").to_owned().into_any(),
        }),
        (flags, Some(codec)) if flags == codec.flags => codec.decode(py, bytes),
        (JSON, _) => {
            let json = py.import(intern!(py, "atoll._codecs"))?.getattr(intern!(py, "json"))?;
            decoded_by(&json, bytes)
        }
        (PICKLE, _) => Err(raise(
            py,
            "CodecError",
            "the value is a pickle, and to read one runs what its writer says: open the cache with codec=atoll.pickle if \
             every process that can write the pool is trusted, or delete the key",
        )),
        (flags, _) => Err(raise(
            py,
            "CodecError",
            format!(
                "the value has the flags {flags}, which this cache's codec did not write: open the cache with the \
                     codec that did, or delete the key"
            ),
        )),
    }
}

fn integer<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let text = std::str::from_utf8(bytes).ok();
    if let Some(Ok(number)) = text.map(str::parse::<i64>) {
        return Ok(number.into_pyobject(py)?.into_any());
    }
    let parsed = text.map(|text| py.get_type::<PyInt>().call1((text,)));
    match parsed {
        Some(Ok(number)) => Ok(number),
        _ => Err(raise(py, "CodecError", "the value should be a decimal number and is none: delete the key")),
    }
}
