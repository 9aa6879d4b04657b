//! The file of users: any text is users, or is refused with the line that is wrong.
#![no_main]

use atoll_server::Redis;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Redis::default().with_users(text, "users") {
        assert!(error.to_string().contains("users"), "{error}");
    }
});
