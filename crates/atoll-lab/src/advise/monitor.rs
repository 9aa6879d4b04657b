//! The requests in the lines of MONITOR.
//!
//! ```text
//! 1339518083.107412 [0 127.0.0.1:60866] "set" "a key" "value"
//! ```

use crate::trace::Effect;

/// Commands that read, by their first key.
const READS: [&str; 14] = [
    "get",
    "getrange",
    "strlen",
    "exists",
    "ttl",
    "pttl",
    "hget",
    "hgetall",
    "hmget",
    "lrange",
    "smembers",
    "sismember",
    "zscore",
    "zrange",
];
/// Commands that write, by their first key.
const WRITES: [&str; 17] = [
    "set", "setex", "psetex", "setnx", "getset", "append", "incr", "incrby", "decr", "decrby", "hset", "hmset",
    "lpush", "rpush", "sadd", "zadd", "setrange",
];

/// The command and its arguments, unescaped. Empty if the line is none of MONITOR's.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let Some(begin) = line.windows(2).position(|pair| pair == b"] ") else { return Vec::new() };
    let (mut words, mut rest) = (Vec::new(), line[begin + 2..].iter());
    while rest.find(|byte| **byte == b'"').is_some() {
        let mut word = Vec::new();
        while let Some(byte) = rest.next().filter(|byte| **byte != b'"') {
            if *byte != b'\\' {
                word.push(*byte);
                continue;
            }
            match rest.next() {
                Some(b'x') => {
                    let digit =
                        |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16)).unwrap_or(0) as u8;
                    let (high, low) = (digit(rest.next()), digit(rest.next()));
                    word.push(high << 4 | low);
                }
                Some(b'n') => word.push(b'\n'),
                Some(b'r') => word.push(b'\r'),
                Some(b't') => word.push(b'\t'),
                Some(b'a') => word.push(7),
                Some(b'b') => word.push(8),
                Some(other) => word.push(*other),
                None => {}
            }
        }
        words.push(word);
    }
    words
}

/// Calls `each` with the effect and the key of every look-up and write in a line.
pub(super) fn requests(line: &[u8], mut each: impl FnMut(Effect, &[u8])) {
    let words = words(line);
    let Some((command, arguments)) = words.split_first() else { return };
    let command = command.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| name.as_bytes() == command);
    match arguments.first() {
        Some(key) if is(&READS) => each(Effect::Look, key),
        Some(key) if is(&WRITES) => each(Effect::Write, key),
        _ if command == b"mget" => arguments.iter().for_each(|key| each(Effect::Look, key)),
        _ if command == b"mset" => arguments.iter().step_by(2).for_each(|key| each(Effect::Write, key)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_and_unescaped() {
        let of = |line: &str| {
            let mut found = Vec::new();
            requests(line.as_bytes(), |effect, key| found.push((effect, key.to_vec())));
            found
        };
        assert_eq!(of(r#"+1.5 [0 127.0.0.1:1] "SET" "a\"\x00b" "v] \"x""#), [(Effect::Write, b"a\"\0b".to_vec())]);
        assert_eq!(of(r#"1.5 [0 lua] "mget" "a" "b""#), ["a", "b"].map(|key| (Effect::Look, key.into())));
        for line in ["+OK", "", r#"1.5 [0 x] "PING""#, r#"1.5 [0 x] "get""#, r#"1.5 [0 x] "#, "1.5 [0 x] \"get\" \"\\x"]
        {
            assert!(of(line).is_empty() || line.ends_with("\\x"), "{line}");
        }
    }
}
