//! Values of CONFIG SET: any bytes are a value of a parameter, or are refused with words.
//!
//! The first byte chooses the parameter.
#![no_main]

use atoll_server::redis::config;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&number, text)) = data.split_first() else { return };
    let mut names = config::names();
    let name = names.nth(usize::from(number) % config::names().len()).expect("it is below their number");
    if let Err(why) = config::check(name, text).expect("there is such a parameter") {
        assert!(!why.is_empty(), "{name}");
    }
});
