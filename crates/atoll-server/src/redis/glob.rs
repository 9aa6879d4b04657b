//! Patterns: of keys for `KEYS` and `SCAN ... MATCH`, of channels, and of names.
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | any bytes, also none |
//! | `?` | any byte |
//! | `[abc]` `[a-c]` `[^a]` | one of the bytes; a range, its ends in any order; none of them |
//! | `\x` | the byte `x`, also within brackets |
//! | any other byte | itself |
//!
//! After an open bracket that is never closed, all bytes belong to the set, as in Redis. The time
//! is at most the length of the pattern times that of the text. A mismatch backtracks only to the
//! last star: it can match all that an earlier star could give up.

/// Whether the whole of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at_pattern, mut at_text) = (0, 0);
    // The pattern behind the last star, and the first byte that the star has not been tried to
    // take.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at_pattern) == Some(&b'*') {
            at_pattern += 1;
            if at_pattern == pattern.len() {
                return true;
            }
            star = Some((at_pattern, at_text));
            continue;
        }
        if at_text == text.len() {
            return at_pattern == pattern.len();
        }
        let step = if at_pattern < pattern.len() { element(&pattern[at_pattern..], text[at_text]) } else { None };
        match (step, star) {
            (Some(taken), _) => {
                at_pattern += taken;
                at_text += 1;
            }
            (None, Some((behind, taken))) => {
                // What follows a star begins where its first plain bytes are next.
                let Some(further) = memchr::memmem::find(&text[taken + 1..], plain(&pattern[behind..])) else {
                    return false;
                };
                at_text = taken + 1 + further;
                (star, at_pattern) = (Some((behind, at_text)), behind);
            }
            (None, None) => return false,
        }
    }
}

/// The bytes that `pattern` begins with which stand for themselves.
fn plain(pattern: &[u8]) -> &[u8] {
    let special = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..special.unwrap_or(pattern.len())]
}

/// The length of the element that `pattern` begins with (which is no star) if it matches `byte`.
fn element(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', ..] => {
            let (taken, found) = class(pattern, byte);
            found.then_some(taken)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// The length of the bracketed class that `pattern` begins with, and whether `byte` is in it.
fn class(pattern: &[u8], byte: u8) -> (usize, bool) {
    let negated = pattern.get(1) == Some(&b'^');
    let (mut at, mut found) = (if negated { 2 } else { 1 }, false);
    loop {
        match &pattern[at..] {
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [] => break,
            [from, b'-', to, ..] => {
                let (low, high) = (from.min(to), from.max(to));
                found |= (low..=high).contains(&&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (at, found != negated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "abc", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("[]", "a", false),
            ("[abc", "b", true),
            ("a\\", "a\\", true),
            ("a**b", "ab", true),
            ("*b", "aab", true),
            ("a?*", "a", false),
            ("*ab?*ab", "aabababcab", true),
            ("*ab?*ab", "aabababca", false),
            ("*\\a?b", "xaaab", true),
            ("*a[", "aaa", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(1000) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
    }

    #[test]
    fn a_long_plain_part_behind_a_star_is_searched_in_linear_time() {
        let pattern = format!("*{}b", "a".repeat(1 << 20));
        let begun = std::time::Instant::now();
        assert!(!matches(pattern.as_bytes(), "a".repeat(4 << 20).as_bytes()));
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }
}
