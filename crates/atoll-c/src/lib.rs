//! Atoll for programs in C: what `include/atoll.h` declares and describes.
//!
//! | a caller in C | here |
//! |---|---|
//! | gives pointers and lengths | each is checked for null and for lengths that no memory has |
//! | expects no panic | every function catches it: [`Status::Bug`] |
//! | forks | an operation of an inherited cache is [`Status::Forked`]; to close it leaks what only the parent may drop |
//! | asks for the text of an error | it is the thread's own, until the thread's next operation |
//!
//! What cannot be checked is the caller's promise: memory is as long as its length says, and a
//! cache comes from [`atoll_open`] and was not closed.

use atoll::{
    Beginning, BuildError, Cache, CacheError, Condition, Error, Expiry, FabricError, OpenError, Pool, PoolError,
    PoolOptions, SetOptions, VerbError,
};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// `enum atoll_status`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each is")]
pub enum Status {
    Ok = 0,
    Miss = 1,
    Exists = 2,
    Short = 3,
    Invalid = -1,
    TooLarge = -2,
    Full = -3,
    Number = -4,
    Kind = -5,
    Absent = -6,
    Open = -7,
    Lost = -8,
    Damaged = -9,
    Forked = -10,
    Bug = -11,
}

/// A failed operation: its status, and the text for [`atoll_error`].
struct Failure(Status, String);

type Outcome = Result<Status, Failure>;

fn invalid(text: impl Into<String>) -> Failure {
    Failure(Status::Invalid, text.into())
}

fn status_of_verb(error: &VerbError) -> Status {
    match error {
        VerbError::NoMemory(_) => Status::Full,
        VerbError::Forked => Status::Forked,
        _ => Status::Lost,
    }
}

fn status_of_open(error: &OpenError) -> Status {
    match error {
        OpenError::Region(FabricError::Absent(_)) => Status::Absent,
        OpenError::Pool(PoolError::Full { .. }) => Status::Full,
        _ => Status::Open,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Cache(error) => match error {
                CacheError::KeyTooLong { .. } | CacheError::ValueTooLarge { .. } => Status::TooLarge,
                CacheError::AnotherKind { .. } => Status::Kind,
                CacheError::OutOfMemory => Status::Full,
                CacheError::NodeAbsent { .. } | CacheError::Overtaken | CacheError::BegunByAnother => Status::Lost,
                CacheError::Damaged { .. } => Status::Damaged,
                CacheError::Verb(error) => status_of_verb(error),
            },
            Error::Open(error) => status_of_open(error),
            Error::NotANumber | Error::Overflow => Status::Number,
        };
        Self(status, error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self(status_of_open(&error), error.to_string())
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let status = match &error {
            BuildError::Open(error) => status_of_open(error),
            _ => Status::Open,
        };
        Self(status, error.to_string())
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn keep_text(text: String) {
    // No text of an error has a null byte; one that had would end there.
    let text = CString::new(text).unwrap_or_else(|error| {
        let end = error.nul_position();
        CString::new(&error.into_vec()[..end]).unwrap_or_default()
    });
    // A destructor of a thread may run after the text's own.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
}

/// Runs an operation: no panic leaves it, and an error leaves its text.
fn run(operation: impl FnOnce() -> Outcome) -> c_int {
    keep_text(String::new());
    let outcome = catch_unwind(AssertUnwindSafe(operation)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Failure(Status::Bug, format!("a bug of Atoll: {text}")))
    });
    match outcome {
        Ok(status) => status as c_int,
        Err(Failure(status, text)) => {
            keep_text(text);
            status as c_int
        }
    }
}

/// The bytes at a pointer.
///
/// # Safety
/// If the pointer is not null, `bytes` bytes from it on are readable, and no thread writes them
/// while the slice is used.
unsafe fn slice<'a>(name: &str, start: *const c_void, bytes: usize) -> Result<&'a [u8], Failure> {
    match bytes {
        0 => Ok(&[]),
        _ if start.is_null() => Err(invalid(format!("{name} is NULL, and its length is not 0"))),
        _ if bytes > isize::MAX as usize => Err(invalid(format!("no {name} has {bytes} bytes"))),
        // SAFETY: neither null nor longer than any memory; the rest is the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(start.cast(), bytes) }),
    }
}

/// The buffer at a pointer.
///
/// # Safety
/// As for [`slice`]; the bytes are writable, and no thread uses them while the slice is used.
unsafe fn slice_mut<'a>(name: &str, start: *mut c_void, bytes: usize) -> Result<&'a mut [u8], Failure> {
    // SAFETY: the same promise.
    unsafe { slice(name, start, bytes) }?;
    match bytes {
        0 => Ok(&mut []),
        // SAFETY: checked just now; the caller promises that the bytes are writable and not shared.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes) }),
    }
}

/// Checks an array of the caller's structures.
fn check_array<T>(name: &str, first: *const T, count: usize) -> Result<(), Failure> {
    let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
    match bytes {
        None => Err(invalid(format!("no array has {count} {name}"))),
        Some(_) if first.is_null() || !first.is_aligned() => Err(invalid(format!("the {name} are no array"))),
        Some(_) => Ok(()),
    }
}

/// Stores a result where the caller wants it, if it wants it.
///
/// # Safety
/// A pointer that is not null is one to a writable `T`.
unsafe fn store<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// The cache of an operation.
///
/// # Safety
/// A pointer that is not null comes from [`atoll_open`] and was not closed.
unsafe fn cache_of<'a>(cache: *const Cache) -> Result<&'a Cache, Failure> {
    // SAFETY: the caller's promise.
    let cache = unsafe { cache.as_ref() }.ok_or_else(|| invalid("the cache is NULL"))?;
    match cache.is_inherited() {
        false => Ok(cache),
        true => Err(Failure(
            Status::Forked,
            "this process is a fork of the one that opened the cache: close it and open the pool here".to_owned(),
        )),
    }
}

fn expiry(ttl_ms: u64) -> Expiry {
    if ttl_ms == 0 { Expiry::Never } else { Expiry::InMs(ttl_ms) }
}

/// `struct atoll_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header says what each is")]
pub struct Options {
    pub struct_bytes: usize,
    pub capacity_bytes: u64,
    pub clients_max: u32,
    pub clients: u32,
    pub create: c_int,
}

/// `struct atoll_lookup`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the header says what each is")]
pub struct Lookup {
    pub key: *const c_void,
    pub key_bytes: usize,
    pub buffer: *mut c_void,
    pub buffer_bytes: usize,
    pub value_bytes: usize,
    pub status: c_int,
}

/// `struct atoll_item`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the header says what each is")]
pub struct Item {
    pub key: *const c_void,
    pub key_bytes: usize,
    pub value: *const c_void,
    pub value_bytes: usize,
}

/// The text of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn atoll_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn open(address: &CStr, options: Options) -> Result<Cache, Failure> {
    const CAPACITY_DEFAULT: u64 = 256 << 20;
    const CLIENTS_DEFAULT: u32 = 4;
    let or = |given, default| if given == 0 { default } else { given };
    let address = address.to_str().map_err(|_| invalid("the address is not UTF-8"))?;
    let pool = match options.create {
        0 => Pool::open(address)?,
        _ => {
            let capacity_bytes = if options.capacity_bytes == 0 { CAPACITY_DEFAULT } else { options.capacity_bytes };
            let mut new = PoolOptions::default().capacity_bytes(capacity_bytes);
            if options.clients_max > 0 {
                new = new.clients_max(options.clients_max);
            }
            Pool::open_or_create(address, &new)?
        }
    };
    Ok(Cache::builder().clients(or(options.clients, CLIENTS_DEFAULT) as usize).build(&pool)?)
}

/// Opens or creates a pool.
///
/// # Safety
/// `address` is a text that ends with a null byte, `options` null or a readable structure, and
/// `cache` a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_open(address: *const c_char, options: *const Options, cache: *mut *mut Cache) -> c_int {
    run(|| {
        if address.is_null() || cache.is_null() {
            return Err(invalid("the address or the place for the cache is NULL"));
        }
        // SAFETY: not null; the caller's promise.
        let (address, given) = unsafe {
            cache.write(ptr::null_mut());
            (CStr::from_ptr(address), options.as_ref().copied())
        };
        let default =
            Options { struct_bytes: size_of::<Options>(), capacity_bytes: 0, clients_max: 0, clients: 0, create: 1 };
        let options = given.unwrap_or(default);
        if options.struct_bytes != size_of::<Options>() {
            return Err(invalid("the options are not those of this library's atoll.h: begin with ATOLL_OPTIONS"));
        }
        let opened = Box::new(open(address, options)?);
        // SAFETY: not null; the caller's promise.
        unsafe { cache.write(Box::into_raw(opened)) };
        Ok(Status::Ok)
    })
}

/// Leaves the pool.
///
/// # Safety
/// `cache` is null, or comes from [`atoll_open`] and is not used again by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_close(cache: *mut Cache) {
    run(|| {
        if !cache.is_null() {
            // SAFETY: it was made by `Box::into_raw` in `atoll_open`; the caller gives it up.
            let cache = unsafe { Box::from_raw(cache) };
            if cache.is_inherited() {
                std::mem::forget(cache);
            }
        }
        Ok(Status::Ok)
    });
}

/// Copies a value into a buffer.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get(
    cache: *mut Cache,
    key: *const c_void,
    key_bytes: usize,
    buffer: *mut c_void,
    buffer_bytes: usize,
    value_bytes: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, for each pointer with its length.
    run(|| unsafe {
        let (cache, key) = (cache_of(cache)?, slice("key", key, key_bytes)?);
        let into = slice_mut("buffer", buffer, buffer_bytes)?;
        let Some(found) = cache.get_to_slice(key, into)? else { return Ok(Status::Miss) };
        store(value_bytes, found.value_bytes);
        Ok(if found.value_bytes > into.len() { Status::Short } else { Status::Ok })
    })
}

/// Memory of the C library, which is freed if it is not given away.
struct Allocated(*mut c_void, usize);

impl Allocated {
    fn new(bytes: usize) -> Result<Self, Failure> {
        // SAFETY: it has no precondition; a length of 1 at least, so that null means failure.
        let start = unsafe { libc::malloc(bytes.max(1)) };
        match start.is_null() {
            true => Err(Failure(Status::Full, format!("this process has no memory for a value of {bytes} bytes"))),
            false => Ok(Self(start, bytes)),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `self.1` bytes were allocated; they are set to zero before they are a slice.
        unsafe {
            self.0.cast::<u8>().write_bytes(0, self.1);
            std::slice::from_raw_parts_mut(self.0.cast(), self.1)
        }
    }

    fn into_raw(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: it comes from `malloc`, and was not given away.
        unsafe { libc::free(self.0) };
    }
}

/// Copies a value into memory that the caller frees.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_allocated(
    cache: *mut Cache,
    key: *const c_void,
    key_bytes: usize,
    value: *mut *mut c_void,
    value_bytes: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, for each pointer with its length.
    run(|| unsafe {
        if value.is_null() || value_bytes.is_null() {
            return Err(invalid("the place for the value or for its length is NULL"));
        }
        value.write(ptr::null_mut());
        value_bytes.write(0);
        let (cache, key) = (cache_of(cache)?, slice("key", key, key_bytes)?);
        let mut bytes = match cache.peek(key)? {
            Some(meta) => meta.value_bytes,
            None => return Ok(Status::Miss),
        };
        // Another process may set a longer value in between.
        loop {
            let mut allocated = Allocated::new(bytes)?;
            let Some(found) = cache.get_to_slice(key, allocated.bytes_mut())? else { return Ok(Status::Miss) };
            if found.value_bytes <= bytes {
                value_bytes.write(found.value_bytes);
                value.write(allocated.into_raw());
                return Ok(Status::Ok);
            }
            bytes = found.value_bytes;
        }
    })
}

/// # Safety
/// As the header says of the memory and the cache.
unsafe fn set(
    cache: *mut Cache,
    (key, key_bytes): (*const c_void, usize),
    (value, value_bytes): (*const c_void, usize),
    ttl_ms: u64,
    condition: Condition,
) -> Outcome {
    // SAFETY: the caller's promise, for each pointer with its length.
    let (cache, key, value) =
        unsafe { (cache_of(cache)?, slice("key", key, key_bytes)?, slice("value", value, value_bytes)?) };
    let options = SetOptions { expiry: expiry(ttl_ms), condition, ..SetOptions::default() };
    Ok(if cache.set_with(key, value, &options)?.stored { Status::Ok } else { Status::Exists })
}

/// Sets a key.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set(
    cache: *mut Cache,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_ms: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    run(|| unsafe { set(cache, (key, key_bytes), (value, value_bytes), ttl_ms, Condition::Always) })
}

/// Sets a key that is absent.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_add(
    cache: *mut Cache,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_ms: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    run(|| unsafe { set(cache, (key, key_bytes), (value, value_bytes), ttl_ms, Condition::IfAbsent) })
}

/// Removes a key.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_delete(cache: *mut Cache, key: *const c_void, key_bytes: usize) -> c_int {
    // SAFETY: the caller's promise.
    run(|| unsafe {
        let deleted = cache_of(cache)?.delete(slice("key", key, key_bytes)?)?;
        Ok(if deleted { Status::Ok } else { Status::Miss })
    })
}

/// Adds to a number.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_incr(
    cache: *mut Cache,
    key: *const c_void,
    key_bytes: usize,
    by: i64,
    ttl_ms: u64,
    sum: *mut i64,
) -> c_int {
    // SAFETY: the caller's promise.
    run(|| unsafe {
        let beginning = Beginning { expiry: expiry(ttl_ms), ..Beginning::default() };
        let added = cache_of(cache)?.increment_from(slice("key", key, key_bytes)?, by, Some(beginning))?;
        store(sum, added.expect("an absent key begins with 0"));
        Ok(Status::Ok)
    })
}

/// Looks many keys up.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_many(cache: *mut Cache, lookups: *mut Lookup, count: usize) -> c_int {
    // SAFETY: the caller's promise, for each pointer with its length.
    run(|| unsafe {
        let cache = cache_of(cache)?;
        if count == 0 {
            return Ok(Status::Ok);
        }
        check_array("lookups", lookups, count)?;
        let lookups = std::slice::from_raw_parts_mut(lookups, count);
        let mut keys = Vec::with_capacity(count);
        let mut buffers = Vec::with_capacity(count);
        for lookup in &*lookups {
            keys.push(slice("key", lookup.key, lookup.key_bytes)?);
            // A pointer, since two lookups may have the same buffer.
            slice("buffer", lookup.buffer, lookup.buffer_bytes)?;
            buffers.push((lookup.buffer, lookup.buffer_bytes));
        }
        let mut failed = None;
        cache.get_each(&keys, |index, found| {
            let lookup = &mut lookups[index];
            let Some(value) = found.map(atoll::Value::bytes) else {
                (lookup.status, lookup.value_bytes) = (Status::Miss as c_int, 0);
                return;
            };
            lookup.value_bytes = value.len();
            match slice_mut("buffer", buffers[index].0, buffers[index].1) {
                Ok(buffer) if value.len() <= buffer.len() => {
                    buffer[..value.len()].copy_from_slice(value);
                    lookup.status = Status::Ok as c_int;
                }
                Ok(_) => lookup.status = Status::Short as c_int,
                Err(failure) => failed = Some(failure),
            }
        })?;
        failed.map_or(Ok(Status::Ok), Err)
    })
}

/// Sets many keys.
///
/// # Safety
/// As the header says of the memory and the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set_many(
    cache: *mut Cache,
    items: *const Item,
    count: usize,
    ttl_ms: u64,
    done: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, for each pointer with its length; the items are only read.
    run(|| unsafe {
        store(done, 0);
        cache_of(cache)?;
        if count == 0 {
            return Ok(Status::Ok);
        }
        check_array("items", items, count)?;
        for (index, item) in std::slice::from_raw_parts(items, count).iter().enumerate() {
            let (key, value) = ((item.key, item.key_bytes), (item.value, item.value_bytes));
            set(cache, key, value, ttl_ms, Condition::Always)?;
            store(done, index + 1);
        }
        Ok(Status::Ok)
    })
}
