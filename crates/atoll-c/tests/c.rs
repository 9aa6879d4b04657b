//! The header and the library as a program in C uses them, and what each function refuses.

use atoll_c::{
    Item, Lookup, Options, Status, atoll_add, atoll_close, atoll_delete, atoll_error, atoll_get, atoll_get_allocated,
    atoll_get_many, atoll_incr, atoll_open, atoll_set, atoll_set_many,
};
use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::ptr::{null, null_mut};

/// The library that cargo has built beside this test.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libatoll_c") && name.ends_with(".a")
    };
    let found = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_library);
    found.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("cargo builds the static library")
}

fn remove(address: &str) {
    atoll::Pool::remove_by_force(address).expect("the pool is there");
}

#[test]
fn the_example_compiles_without_a_warning_and_shares_a_cache_with_its_fork() {
    let here = env!("CARGO_MANIFEST_DIR");
    let folder = std::env::temp_dir().join(format!("atoll-c-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("cache");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .arg(format!("-I{here}/include"))
        .arg(format!("{here}/examples/cache.c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("the linker of Rust programs is cc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let address = format!("shm:/atoll-c-example-{}", std::process::id());
    let ran = Command::new(&program).arg(&address).output().unwrap();
    remove(&address);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(
        String::from_utf8(ran.stdout).unwrap(),
        "user:7 is alice\n2 visits\nuser:7: status 0, 5 bytes\nuser:8: status 1, 0 bytes\nvisits: status 3, 1 bytes\n\
         the value is no decimal number: an increment would lose it\n"
    );
}

#[test]
fn the_header_has_every_function_and_status_of_the_library() {
    let header = include_str!("../include/atoll.h");
    let source = include_str!("../src/lib.rs");
    let functions: Vec<&str> =
        source.lines().filter_map(|line| line.split_once("extern \"C\" fn ")?.1.split('(').next()).collect();
    assert!(functions.len() >= 11, "{functions:?}");
    for function in functions {
        assert!(header.contains(&format!("{function}(")), "{function}");
    }
    let statuses = [
        Status::Ok,
        Status::Miss,
        Status::Exists,
        Status::Short,
        Status::Invalid,
        Status::TooLarge,
        Status::Full,
        Status::Number,
        Status::Kind,
        Status::Absent,
        Status::Open,
        Status::Lost,
        Status::Damaged,
        Status::Forked,
        Status::Bug,
    ];
    for status in statuses {
        let name = match status {
            Status::TooLarge => "TOO_LARGE".to_owned(),
            status => format!("{status:?}").to_uppercase(),
        };
        assert!(header.contains(&format!("ATOLL_{name} = {}", status as i32)), "{name}");
    }
}

fn text() -> String {
    // SAFETY: a text of this thread, which no operation replaces meanwhile.
    unsafe { CStr::from_ptr(atoll_error()) }.to_str().unwrap().to_owned()
}

/// A cache of a pool that is removed at the end.
struct Opened(*mut atoll::Cache, String);

impl Opened {
    fn new(name: &str) -> Self {
        let address = format!("shm:/atoll-c-{name}-{}", std::process::id());
        let options = Options {
            struct_bytes: size_of::<Options>(),
            capacity_bytes: 16 << 20,
            clients_max: 0,
            clients: 0,
            create: 1,
        };
        let (mut cache, given) = (null_mut(), CString::new(address.clone()).unwrap());
        // SAFETY: a text, options and a place.
        assert_eq!(unsafe { atoll_open(given.as_ptr(), &options, &mut cache) }, 0, "{}", text());
        Self(cache, address)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened, and not used again.
        unsafe { atoll_close(self.0) };
        remove(&self.1);
    }
}

fn bytes(text: &[u8]) -> (*const c_void, usize) {
    (text.as_ptr().cast(), text.len())
}

#[test]
fn values_of_every_size_come_back_and_short_buffers_stay_as_they_are() {
    let opened = Opened::new("values");
    let cache = opened.0;
    for size in [0, 1, 100, 40_000, 3_000_000] {
        let value: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
        let ((key, key_bytes), (start, length)) = (bytes(b"k"), bytes(&value));
        let mut into = vec![9_u8; size + 1];
        let mut found = usize::MAX;
        // SAFETY: each pointer is given with its length.
        unsafe {
            assert_eq!(atoll_set(cache, key, key_bytes, start, length, 0), 0);
            assert_eq!(atoll_get(cache, key, key_bytes, into.as_mut_ptr().cast(), into.len(), &mut found), 0);
            assert!(found == size && into[..size] == value && into[size] == 9);
            if size > 0 {
                let mut short = vec![9_u8; size - 1];
                let got = atoll_get(cache, key, key_bytes, short.as_mut_ptr().cast(), size - 1, &mut found);
                assert_eq!((got, found), (Status::Short as i32, size));
                assert!(short.iter().all(|byte| *byte == 9));
            }
            let (mut allocated, mut length) = (null_mut(), 0);
            assert_eq!(atoll_get_allocated(cache, key, key_bytes, &mut allocated, &mut length), 0);
            assert_eq!(std::slice::from_raw_parts(allocated.cast::<u8>(), length), value);
            libc::free(allocated);
        }
    }
}

#[test]
fn conditions_times_and_counters_are_those_of_the_library() {
    let opened = Opened::new("changes");
    let cache = opened.0;
    let ((key, key_bytes), (value, value_bytes)) = (bytes(b"n"), bytes(b"5"));
    let mut sum = 0;
    // SAFETY: each pointer is given with its length.
    unsafe {
        assert_eq!(atoll_delete(cache, key, key_bytes), Status::Miss as i32);
        assert_eq!(atoll_add(cache, key, key_bytes, value, value_bytes, 0), 0);
        assert_eq!(atoll_add(cache, key, key_bytes, null(), 0, 0), Status::Exists as i32);
        assert_eq!((atoll_incr(cache, key, key_bytes, -7, 0, &mut sum), sum), (0, -2));
        assert_eq!(atoll_incr(cache, key, key_bytes, i64::MIN, 0, &mut sum), Status::Number as i32);
        assert!(text().contains("64 bits"), "{}", text());
        assert_eq!(atoll_delete(cache, key, key_bytes), 0);
        assert_eq!(text(), "", "an operation that succeeds has no error");
        assert_eq!(atoll_set(cache, key, key_bytes, value, value_bytes, 1), 0);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(atoll_get(cache, key, key_bytes, null_mut(), 0, null_mut()), Status::Miss as i32);
        let items = [b"a", b"b"].map(|key| Item { key: key.as_ptr().cast(), key_bytes: 1, value, value_bytes });
        let mut done = 9;
        assert_eq!((atoll_set_many(cache, items.as_ptr(), 2, 0, &mut done), done), (0, 2));
        let mut place = [0_u8; 4];
        let mut lookups = [b"a", b"x", b"b"].map(|key| Lookup {
            key: key.as_ptr().cast(),
            key_bytes: 1,
            buffer: place.as_mut_ptr().cast(),
            buffer_bytes: 4,
            value_bytes: 9,
            status: -1,
        });
        assert_eq!(atoll_get_many(cache, lookups.as_mut_ptr(), 3), 0);
        assert_eq!(lookups.each_ref().map(|lookup| (lookup.status, lookup.value_bytes)), [(0, 1), (1, 0), (0, 1)]);
        assert_eq!(place[0], b'5');
    }
}

#[test]
fn bad_arguments_are_refused_and_change_nothing() {
    let opened = Opened::new("refused");
    let cache = opened.0;
    let ((key, key_bytes), invalid) = (bytes(b"k"), Status::Invalid as i32);
    let huge = vec![0_u8; 70_000];
    let mut place = null_mut();
    let mut lookup =
        Lookup { key: null(), key_bytes: 3, buffer: null_mut(), buffer_bytes: 0, value_bytes: 0, status: 0 };
    // SAFETY: every pointer is null or has its length.
    unsafe {
        assert_eq!(atoll_get(null_mut(), key, key_bytes, null_mut(), 0, null_mut()), invalid);
        assert_eq!(atoll_get(cache, null(), 1, null_mut(), 0, null_mut()), invalid);
        assert_eq!(atoll_get(cache, key, usize::MAX, null_mut(), 0, null_mut()), invalid);
        assert_eq!(atoll_get(cache, key, key_bytes, null_mut(), 8, null_mut()), invalid);
        assert!(text().starts_with("buffer is NULL"), "{}", text());
        assert_eq!(atoll_set(cache, key, key_bytes, null(), 8, 0), invalid);
        assert_eq!(atoll_get_allocated(cache, key, key_bytes, null_mut(), null_mut()), invalid);
        assert_eq!(atoll_get_many(cache, null_mut(), 1), invalid);
        assert_eq!(atoll_get_many(cache, &mut lookup, 1), invalid);
        assert_eq!(atoll_get_many(cache, &mut lookup, usize::MAX), invalid);
        assert_eq!(atoll_set_many(cache, null(), 1, 0, null_mut()), invalid);
        assert_eq!(atoll_get_many(cache, null_mut(), 0), 0);
        let (start, length) = bytes(&huge);
        assert_eq!(atoll_set(cache, start, length, null(), 0, 0), Status::TooLarge as i32);
        let larger = vec![0_u8; 16 << 20];
        let (start, length) = bytes(&larger);
        assert_eq!(atoll_set(cache, key, key_bytes, start, length, 0), Status::TooLarge as i32);
        assert_eq!(atoll_open(null(), null(), &mut place), invalid);
        let old = Options { struct_bytes: 8, capacity_bytes: 0, clients_max: 0, clients: 0, create: 0 };
        assert_eq!(atoll_open(c"shm:/atoll-c-none".as_ptr(), &old, &mut place), invalid);
        let absent = Options { struct_bytes: size_of::<Options>(), ..old };
        assert_eq!(atoll_open(c"shm:/atoll-c-none".as_ptr(), &absent, &mut place), Status::Absent as i32);
        assert!(place.is_null() && !text().is_empty());
        assert_eq!(atoll_open(c"udp:x".as_ptr(), null(), &mut place), Status::Open as i32);
        assert_eq!(atoll_get(cache, key, key_bytes, null_mut(), 0, null_mut()), Status::Miss as i32);
        atoll_close(null_mut());
    }
}
