//! Patterns of keys: what matches is what a plain reading of the rules says, and it takes no
//! exponential time.
//!
//! `atoll_server::redis::glob` has unit tests on a stable compiler.
#![no_main]

use atoll_server::redis::glob;

/// The rules, one step after the other. It takes exponential time.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        ([b'*', pattern @ ..], text) => (0..=text.len()).any(|taken| matches(pattern, &text[taken..])),
        (_, []) => false,
        ([b'?', pattern @ ..], [_, text @ ..]) => matches(pattern, text),
        ([b'[', class @ ..], [byte, text @ ..]) => {
            let (is_negated, mut class) = class.strip_prefix(b"^").map_or((false, class), |class| (true, class));
            let mut is_in = false;
            loop {
                class = match class {
                    [b'\\', one, class @ ..] => {
                        is_in |= one == byte;
                        class
                    }
                    [b']', class @ ..] => break is_in != is_negated && matches(class, text),
                    [] => break is_in != is_negated && matches(&[], text),
                    [from, b'-', to, class @ ..] => {
                        is_in |= (from.min(to)..=from.max(to)).contains(&byte);
                        class
                    }
                    [one, class @ ..] => {
                        is_in |= one == byte;
                        class
                    }
                }
            }
        }
        ([b'\\', one, pattern @ ..], [byte, text @ ..]) => one == byte && matches(pattern, text),
        ([one, pattern @ ..], [byte, text @ ..]) => one == byte && matches(pattern, text),
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, rest)) = data.split_first() else { return };
    let (pattern, text) = rest.split_at(usize::from(*length).min(rest.len()));
    let found = glob::matches(pattern, text);
    if pattern.len() <= 12 && text.len() <= 16 {
        assert_eq!(found, matches(pattern, text), "{pattern:?} {text:?}");
    }
});
