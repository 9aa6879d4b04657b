//! JSON of scripts: any bytes are a value or an error, and what is made of a value is one again.
#![no_main]

mod sanitizer;

use atoll_server::redis::script::sandbox::Sandbox;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(5);

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The sanitizer sees no stack that a script has left, so none is kept for the next text.
    let mut sandbox = Sandbox::new();
    let both = b"local is_value, value = pcall(cjson.decode, ARGV[1]) \
                     if not is_value then return 1 end \
                     local is_text, text = pcall(cjson.encode, value) \
                     if not is_text then return 2 end \
                     return type(cjson.decode(text)) == type(value) and 3 or text";
    let reply = sandbox.run(both, &[data], TIME);
    let replies = [&b":1\r\n"[..], b":2\r\n", b":3\r\n"].map(|reply| Ok(reply.to_vec()));
    assert!(replies.contains(&reply), "{reply:?}");
});
