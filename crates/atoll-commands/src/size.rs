//! Numbers of bytes on the command line.

/// A number of bytes as people write it: `1GiB`, `512M`, `1000000`; at least one and at most 2^50.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let bytes: Option<bytesize::ByteSize> = text.parse().ok();
    match bytes.map(|bytes| bytes.as_u64()) {
        Some(bytes @ 1..=0x4_0000_0000_0000) => Ok(bytes),
        Some(_) => Err("write at least 1 byte and at most 1024TiB".to_owned()),
        None => Err("write a number of bytes, such as 64MiB or 1GiB".to_owned()),
    }
}
