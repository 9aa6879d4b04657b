//! Numbers of bytes, as people write them.

/// A number of bytes as people write it, also to the program and in Python: `1GiB`, `512M`,
/// `1000000`; at least one and at most 2^50.
/// As for Redis, `1gb` is 2^30 and `1g` is 10^9.
///
/// # Errors
/// In words for the one who wrote it.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let of_two = lower.strip_suffix('b').filter(|number| number.ends_with(['k', 'm', 'g', 't']));
    let bytes: Option<bytesize::ByteSize> = of_two.map_or(lower.parse(), |number| format!("{number}ib").parse()).ok();
    match bytes.map(|bytes| bytes.as_u64()) {
        Some(bytes @ 1..=0x4_0000_0000_0000) => Ok(bytes),
        Some(_) => Err("write at least 1 byte and at most 1024TiB".to_owned()),
        None => Err("write a number of bytes, such as 64MiB or 1GiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn units_are_those_of_redis() {
        let bytes = |text| parse_bytes(text).unwrap();
        assert_eq!(["1gb", "1GB", "1GiB", "1 gb"].map(bytes), [1 << 30; 4]);
        assert_eq!(["1g", "1G", "1000m", "1000000k", "1000000000", "1000000000b"].map(bytes), [1_000_000_000; 6]);
        assert_eq!(bytes("1.5mb"), 3 << 19);
        for refused in ["", "b", "x", "-1", "0", "1025tb", "1zb"] {
            assert!(parse_bytes(refused).is_err(), "{refused}");
        }
    }
}
