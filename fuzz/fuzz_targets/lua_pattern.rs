//! Patterns of scripts: any bytes are a pattern or an error, a match lies within the text, and it
//! ends when its time is over.
//!
//! The unit tests of `atoll_server::redis::script::pattern` compare it with Lua's own functions.
#![no_main]

use atoll_server::redis::script::pattern;

/// Looks at the time before it is over.
const LOOKS: u32 = 16;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, rest)) = data.split_first() else { return };
    let (pattern, text) = rest.split_at(usize::from(*length).min(rest.len()));
    if let Ok(Some((start, end))) = pattern::first_within(text, pattern, LOOKS) {
        assert!(start <= end && end <= text.len(), "{pattern:?} {text:?}");
    }
});
