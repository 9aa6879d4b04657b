//! The class: every operation that is one call of the library.
//!
//! A value is copied out of the pool into a buffer of the thread, where it is checked, and from
//! there into the object that the program gets. Where a thread expects a large value of `bytes`, it
//! looks at the length first, and the value is copied straight into the object.

use crate::current::{Current, Use};
use crate::error::{of_operation, raise};
use crate::key::bytes_of;
use crate::memory::Memory;
use crate::opened::{Opening, on_cache};
use crate::ttl;
use crate::value::{self, Codec, INTEGER_ATTRIBUTES};
use atoll::size::parse_bytes;
use atoll::{Beginning, Condition, Error, Expiry, Lease, Meta, PoolOptions, SetOptions, Value};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Values of this size or more are copied without the interpreter lock.
const LARGE_BYTES: usize = 64 << 10;
/// Bytes that a thread's buffer keeps: to allocate so many anew costs more than to copy them.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Keys that are looked up at a time.
const KEYS_AT_A_TIME: usize = 128;
/// Clients that a process has at most, if its user does not say.
const CLIENTS_DEFAULT: usize = 4;
/// Clients of all processes together at most, if the user does not say: servers of Python programs
/// are many processes. Smaller pools have the library's default.
const CLIENTS_MAX_DEFAULT: u32 = 512;
const MANY_CLIENTS_BYTES_MIN: u64 = 64 << 20;

thread_local! {
    /// Where a lookup copies a value to.
    static FOUND: RefCell<Value> = const { RefCell::new(Value::new()) };
}

/// A cache in a pool that any number of processes have open.
#[pyclass(subclass, frozen, module = "atoll._atoll")]
pub(crate) struct Cache {
    current: Current,
    codec: Option<Codec>,
    /// When an object expires that is set without a time to live.
    expiry: Expiry,
    /// Whether the last value that was found was large, so that the next one may be.
    expects_large: AtomicBool,
}

/// A number of bytes: an int, or text such as `256MiB`.
fn bytes_from(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(text) = given.extract::<&str>() {
        return parse_bytes(text).map_err(|what| PyValueError::new_err(format!("{text:?} is no size: {what}")));
    }
    let written = || PyValueError::new_err("a size is a number of bytes, or text such as \"64MiB\" or \"1GiB\"");
    given.extract::<u64>().map_err(|_| written())
}

impl Cache {
    #[inline]
    pub(crate) fn cache(&self, py: Python<'_>) -> PyResult<Use> {
        self.current.cache(py)
    }

    pub(crate) fn set_options(&self, ttl: Option<&Bound<'_, PyAny>>, condition: Condition) -> PyResult<SetOptions> {
        Ok(SetOptions { expiry: ttl::expiry(ttl, self.expiry)?, condition, ..SetOptions::default() })
    }

    /// Sets a key; returns whether the condition held.
    #[inline]
    fn set_if(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, mut options: SetOptions) -> PyResult<bool> {
        let py = key.py();
        let (encoded, attributes) = value::encode(value, self.codec.as_ref())?;
        options.attributes = attributes;
        let (key, bytes, opened) = (bytes_of(key)?, encoded.bytes()?, self.cache(py)?);
        let is_large = bytes.len() >= LARGE_BYTES;
        let outcome = on_cache!(py, &*opened, is_large, |cache| cache.set_with(key, bytes, &options));
        outcome.map(|outcome| outcome.stored).map_err(|error| of_operation(py, &error))
    }

    /// Looks a key up and uses the value that is found.
    #[inline]
    fn look<T>(
        &self,
        py: Python<'_>,
        key: &[u8],
        use_found: impl FnOnce(&Value) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        FOUND.with(|place| match place.try_borrow_mut() {
            Ok(mut found) => self.look_into(py, key, &mut found, use_found),
            // A finalizer looks a key up, while the garbage collector runs within a lookup.
            Err(_) => self.look_into(py, key, &mut Value::new(), use_found),
        })
    }

    #[inline]
    fn look_into<T>(
        &self,
        py: Python<'_>,
        key: &[u8],
        found: &mut Value,
        use_found: impl FnOnce(&Value) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let opened = self.cache(py)?;
        let expects_large = self.expects_large.load(Relaxed);
        let hit = on_cache!(py, &*opened, expects_large, |cache| cache.get_into(key, found));
        if !hit.map_err(|error| of_operation(py, &error))? {
            return Ok(None);
        }
        let is_large = found.bytes().len() >= LARGE_BYTES;
        if is_large != expects_large {
            self.expects_large.store(is_large, Relaxed);
        }
        let used = use_found(found);
        if is_large {
            found.shrink_beyond(KEPT_BYTES_MAX);
        }
        used.map(Some)
    }

    /// The value of a key, if it is large and `bytes`: copied once, from the pool to the object.
    fn find_large<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let opened = self.cache(py)?;
        let is_large = |meta: &Meta| meta.value_bytes >= LARGE_BYTES && value::is_bytes(meta.attributes);
        let seen = done(py, on_cache!(py, &*opened, false, |cache| cache.peek(key)))?;
        let Some(seen) = seen.filter(is_large) else { return Ok(None) };
        let mut found = None;
        let bytes = PyBytes::new_with(py, seen.value_bytes, |into| {
            found = done(py, on_cache!(py, &*opened, true, |cache| cache.get_to_slice(key, into)))?;
            Ok(())
        })?;
        // Another process may have changed it since.
        let is_same = |meta: &Meta| meta.value_bytes == seen.value_bytes && value::is_bytes(meta.attributes);
        Ok(found.filter(is_same).map(|_| bytes))
    }

    /// The value of a key as an object.
    #[inline]
    fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        if self.expects_large.load(Relaxed)
            && let Some(bytes) = self.find_large(py, bytes_of(key)?)?
        {
            return Ok(Some(bytes.into_any()));
        }
        let found = self.look(py, bytes_of(key)?, |found| {
            let attributes = found.meta().attributes;
            match value::is_built_in(attributes) {
                true => value::decode(py, found.bytes(), attributes, None).map(Ok),
                // A codec's code may look keys up itself.
                false => Ok(Err((found.bytes().to_vec(), attributes))),
            }
        })?;
        match found {
            None => Ok(None),
            Some(Ok(object)) => Ok(Some(object)),
            Some(Err((bytes, attributes))) => value::decode(py, &bytes, attributes, self.codec.as_ref()).map(Some),
        }
    }

    fn increment(
        &self,
        key: &Bound<'_, PyAny>,
        by: i64,
        ttl: Option<&Bound<'_, PyAny>>,
        create: bool,
    ) -> PyResult<i64> {
        let py = key.py();
        let beginning = match create {
            true => Some(Beginning { expiry: ttl::expiry(ttl, self.expiry)?, attributes: INTEGER_ATTRIBUTES }),
            false => None,
        };
        let (bytes, opened) = (bytes_of(key)?, self.cache(py)?);
        let sum = on_cache!(py, &*opened, false, |cache| cache.increment_from(bytes, by, beginning));
        match sum.map_err(|error| of_operation(py, &error))? {
            Some(sum) => Ok(sum),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }
}

/// Runs an operation of the library.
fn done<T>(py: Python<'_>, outcome: Result<T, Error>) -> PyResult<T> {
    outcome.map_err(|error| of_operation(py, &error))
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (address, *, capacity = None, codec = None, ttl = None, create = true, clients = None,
        clients_max = None, object_bytes = None, near = None))]
    #[expect(clippy::too_many_arguments, reason = "they have names where Python programs write them")]
    fn new(
        py: Python<'_>,
        address: String,
        capacity: Option<&Bound<'_, PyAny>>,
        codec: Option<&Bound<'_, PyAny>>,
        ttl: Option<&Bound<'_, PyAny>>,
        create: bool,
        clients: Option<usize>,
        clients_max: Option<u32>,
        object_bytes: Option<u32>,
        near: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        const CAPACITY_DEFAULT: u64 = 256 << 20;
        let capacity_bytes = capacity.map_or(Ok(CAPACITY_DEFAULT), bytes_from)?;
        let mut options = PoolOptions::default().capacity_bytes(capacity_bytes);
        let many = (capacity_bytes >= MANY_CLIENTS_BYTES_MIN).then_some(CLIENTS_MAX_DEFAULT);
        if let Some(clients_max) = clients_max.or(many) {
            options = options.clients_max(clients_max);
        }
        if let Some(object_bytes) = object_bytes {
            options = options.object_bytes_mean(object_bytes);
        }
        let codec = codec.map(Codec::new).transpose()?;
        let expiry = ttl::expiry(ttl, Expiry::Never)?;
        let near_bytes = near.map(bytes_from).transpose()?;
        let clients = clients.unwrap_or(CLIENTS_DEFAULT);
        let opening = Opening { address, options, creates: create, clients, near_bytes };
        Ok(Self { current: Current::open(py, opening)?, codec, expiry, expects_large: AtomicBool::new(false) })
    }

    /// The value of `key`, or `default` if it is absent.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key)?.or(default))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find(key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Copies the value of `key` into `buffer`, which is writable, such as a bytearray or an array.
    /// Returns its length in bytes, or `None` if the key is absent. A buffer that is too small is a
    /// `ValueError`. The bytes are those that are stored, whatever type was set.
    fn get_into(&self, py: Python<'_>, key: &Bound<'_, PyAny>, buffer: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let mut memory = Memory::writable(buffer)?;
        let (key, opened) = (bytes_of(key)?, self.cache(py)?);
        let into = memory.bytes_mut();
        let room = into.len();
        let found = on_cache!(py, &*opened, room >= LARGE_BYTES, |cache| cache.get_to_slice(key, into));
        match done(py, found)?.map(|meta| meta.value_bytes) {
            Some(bytes) if bytes > room => {
                Err(PyValueError::new_err(format!("the value has {bytes} bytes, the buffer {room}")))
            }
            bytes => Ok(bytes),
        }
    }

    /// Sets `key` to `value`: for `ttl` seconds or a `timedelta`, else for the cache's own time to
    /// live, else until it is evicted.
    #[pyo3(signature = (key, value, ttl = None))]
    fn set(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.set_if(key, value, self.set_options(ttl, Condition::Always)?).map(drop)
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(key, value, None)
    }

    /// As `set`, but only if `key` is absent; returns whether it was set.
    #[pyo3(signature = (key, value, ttl = None))]
    fn add(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        self.set_if(key, value, self.set_options(ttl, Condition::IfAbsent)?)
    }

    /// As `set`, but only if `key` is present; returns whether it was set.
    #[pyo3(signature = (key, value, ttl = None))]
    fn replace(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        self.set_if(key, value, self.set_options(ttl, Condition::IfPresent)?)
    }

    /// Removes `key`; returns whether it was present.
    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, bytes) = (key.py(), bytes_of(key)?);
        let opened = self.cache(py)?;
        done(py, on_cache!(py, &*opened, false, |cache| cache.delete(bytes)))
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.delete(key)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, bytes) = (key.py(), bytes_of(key)?);
        let opened = self.cache(py)?;
        done(py, on_cache!(py, &*opened, false, |cache| cache.contains(bytes)))
    }

    /// Sets the time to live of `key` anew; returns whether it is present.
    #[pyo3(signature = (key, ttl = None))]
    fn touch(&self, key: &Bound<'_, PyAny>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let (py, bytes) = (key.py(), bytes_of(key)?);
        let (opened, expiry) = (self.cache(py)?, ttl::expiry(ttl, self.expiry)?);
        done(py, on_cache!(py, &*opened, false, |cache| cache.set_expiry(bytes, expiry)))
    }

    /// Adds `delta` to the number at `key`, in one step for all processes, and returns the sum. An
    /// absent key counts as 0, and is created with this time to live; with `create=False` it is a
    /// `KeyError`. The time to live of a present number stays as it is.
    #[pyo3(signature = (key, delta = 1, ttl = None, *, create = true))]
    fn incr(&self, key: &Bound<'_, PyAny>, delta: i64, ttl: Option<&Bound<'_, PyAny>>, create: bool) -> PyResult<i64> {
        self.increment(key, delta, ttl, create)
    }

    /// Subtracts `delta`: see `incr`.
    #[pyo3(signature = (key, delta = 1, ttl = None, *, create = true))]
    fn decr(&self, key: &Bound<'_, PyAny>, delta: i64, ttl: Option<&Bound<'_, PyAny>>, create: bool) -> PyResult<i64> {
        let by = delta.checked_neg().ok_or_else(|| raise(key.py(), "OutOfRange", "the delta is beyond 64 bits"))?;
        self.increment(key, by, ttl, create)
    }

    /// The values of the keys that are present, by their keys. The lookups are faster together.
    fn get_many<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let keys = keys.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let values = PyDict::new(py);
        for keys in keys.chunks(KEYS_AT_A_TIME) {
            let bytes = keys.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
            let mut found = vec![None; keys.len()];
            let keep = |index: usize, value: Option<&Value>| {
                found[index] = value.map(|value| (value.bytes().to_vec(), value.meta().attributes));
            };
            let opened = self.cache(py)?;
            done(py, on_cache!(py, &*opened, false, |cache| cache.get_each(&bytes, keep)))?;
            for (key, (bytes, attributes)) in keys.iter().zip(found).filter_map(|(key, found)| Some((key, found?))) {
                values.set_item(key, value::decode(py, &bytes, attributes, self.codec.as_ref())?)?;
            }
        }
        Ok(values)
    }

    /// Sets every key of a mapping. If one cannot be set, those before it are.
    #[pyo3(signature = (values, ttl = None))]
    fn set_many(&self, values: &Bound<'_, PyAny>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let options = self.set_options(ttl, Condition::Always)?;
        let values = values.cast::<PyMapping>()?;
        for item in values.items()?.iter() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            self.set_if(&key, &value, options)?;
        }
        Ok(())
    }

    /// Removes keys; returns how many were present.
    fn delete_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut deleted = 0;
        for key in keys.try_iter()? {
            deleted += usize::from(self.delete(&key?)?);
        }
        Ok(deleted)
    }

    /// Removes every key of the pool, whichever process set it; returns how many.
    fn clear(&self, py: Python<'_>) -> PyResult<u64> {
        let opened = self.cache(py)?;
        done(py, on_cache!(py, &*opened, true, |cache| cache.flush()))
    }

    /// The token of a lease of a key, which one caller among all processes holds; `None` while
    /// another one does, or if the key is present.
    fn _lease(&self, key: &Bound<'_, PyAny>, seconds: f64) -> PyResult<Option<u64>> {
        let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
        let time = time.ok_or_else(|| PyValueError::new_err("a lease is more than 0 seconds"))?;
        let (py, bytes) = (key.py(), bytes_of(key)?);
        let opened = self.cache(py)?;
        match done(py, on_cache!(py, &*opened, false, |cache| cache.lease(bytes, time)))? {
            Lease::Held { token } => Ok(Some(token)),
            Lease::Value(_) | Lease::Another => Ok(None),
        }
    }

    fn _release_lease(&self, key: &Bound<'_, PyAny>, token: u64) -> PyResult<()> {
        let (py, bytes) = (key.py(), bytes_of(key)?);
        let opened = self.cache(py)?;
        on_cache!(py, &*opened, false, |cache| cache.release_lease(bytes, token));
        Ok(())
    }

    /// What this process has counted (`hits`, those of them from its near cache, `misses`, `sets`,
    /// `deletes`, `evictions`, `expirations`), and what the pool holds (`objects`, `used_bytes`,
    /// `capacity_bytes`).
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let opened = self.cache(py)?;
        let (counted, objects, capacity_bytes) = on_cache!(py, &*opened, false, |cache| {
            (cache.statistics(), cache.objects(), cache.pool().capacity_bytes())
        });
        let stats = PyDict::new(py);
        for (name, count) in [
            ("hits", counted.pool.hits),
            ("near_hits", counted.pool.near_hits),
            ("misses", counted.pool.misses()),
            ("sets", counted.pool.puts),
            ("deletes", counted.pool.removes),
            ("evictions", counted.pool.evictions),
            ("expirations", counted.pool.expirations),
            ("objects", done(py, objects)?),
            ("used_bytes", counted.weight_bytes),
            ("capacity_bytes", capacity_bytes),
        ] {
            stats.set_item(name, count)?;
        }
        Ok(stats)
    }

    /// Leaves the pool, which stays as it is. Operations of this cache are errors from then on.
    fn close(&self) {
        self.current.close();
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.current.is_closed()
    }

    /// The pool's address.
    #[getter]
    fn address(&self) -> &str {
        &self.current.opening().address
    }

    /// The codec that it was opened with.
    #[getter]
    fn codec(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.codec.as_ref().map(|codec| codec.object.clone_ref(py))
    }
}
