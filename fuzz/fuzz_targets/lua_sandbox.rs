//! Scripts: any text replies or fails within its time and memory, and leaves an interpreter that
//! runs the next one.
//!
//! Texts that are no Lua end at once, so the corpus decides how deep it looks: give cargo-fuzz
//! scripts to begin with.
#![no_main]

use atoll_server::redis::script::sandbox::Sandbox;
use std::cell::RefCell;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(20);

thread_local! {
    static SANDBOX: RefCell<Sandbox> = RefCell::default();
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    SANDBOX.with_borrow_mut(|sandbox| {
        let began = Instant::now();
        let _ = sandbox.run(data, &[b"a", b"2"], TIME);
        assert!(began.elapsed() < 100 * TIME, "{:?}", began.elapsed());
        let whole = b"return {('x'):rep(2), type(redis.call), cjson.encode({1}), #KEYS, rawget(_G, 'x') == nil}";
        let reply = sandbox.run(whole, &[], 100 * TIME);
        assert_eq!(reply.as_deref(), Ok(&b"*5\r\n$2\r\nxx\r\n$8\r\nfunction\r\n$3\r\n[1]\r\n:0\r\n:1\r\n"[..]));
    });
});
