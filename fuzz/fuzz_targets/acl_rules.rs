//! Rules of users, one a line: none makes a panic, one that is refused changes nothing, and what
//! describes a user makes the same user again.
//!
//! The unit tests of `atoll_server::redis::acl::user` hold the same promise on a stable compiler.
#![no_main]

use atoll_server::redis::acl::user::{User, joined};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(rules) = joined(data.split(|byte| *byte == b'\n')) else { return };
    let mut user = User::default();
    for rule in &rules {
        let before = user.clone();
        if user.apply_all([rule.as_slice()].into_iter()).is_err() {
            assert_eq!(user, before);
        }
    }
    let (text, mut again) = (user.describe(), User::default());
    let described = joined(text.split(|byte| *byte == b' ')).expect("a description has its parentheses closed");
    again.apply_all(described.iter().map(Vec::as_slice)).expect("a description is rules");
    assert_eq!(again, user);
});
