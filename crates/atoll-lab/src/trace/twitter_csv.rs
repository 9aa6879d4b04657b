//! The CSV format of Twitter's cache traces, without a header:
//!
//! ```text
//! timestamp,key,key_size,value_size,client_id,operation,TTL
//! ```
//!
//! Keys are not quoted and may hold commas: what lies between the first field and the last five is
//! the key. A value size of -1 means that it is unknown, and is read as 0.

use super::bytes::Bytes;
use super::{Operation, Request, TIME_S_MAX, TraceError};
use std::io::{BufRead, Read};

/// A longer line than any key needs.
const LINE_BYTES_MAX: u64 = 1 << 18;

/// Whether `first`, the first bytes of a file, begin with a line that is a request.
pub(super) fn looks_like(first: &[u8]) -> bool {
    first.split(|&byte| byte == b'\n').next().is_some_and(|line| parse(line, &mut Request::default()).is_ok())
}

fn number(field: &[u8], what: &str) -> Result<u64, String> {
    let text = std::str::from_utf8(field).ok().map(str::trim);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("the {what} is no number"))
}

fn parse(line: &[u8], request: &mut Request) -> Result<(), String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut from_end = line.rsplitn(6, |&byte| byte == b',');
    let [Some(ttl), Some(operation), Some(_client), Some(value_bytes), Some(key_bytes), Some(start)] =
        std::array::from_fn(|_| from_end.next())
    else {
        return Err("fewer than the 7 fields timestamp,key,key_size,value_size,client_id,operation,TTL".to_owned());
    };
    let Some(comma) = start.iter().position(|&byte| byte == b',') else {
        return Err("fewer than the 7 fields timestamp,key,key_size,value_size,client_id,operation,TTL".to_owned());
    };
    let (time, key) = (&start[..comma], &start[comma + 1..]);
    request.time_s = number(time, "timestamp")?;
    if request.time_s > TIME_S_MAX {
        return Err(format!("the timestamp {} is not in seconds", request.time_s));
    }
    request.key.clear();
    request.key.extend_from_slice(key);
    let key_bytes = number(key_bytes, "key_size")?;
    request.key_bytes = u32::try_from(key_bytes).map_err(|_| format!("the key_size {key_bytes} is out of range"))?;
    // Meta's traces have -1 where the size is unknown, since the look-up missed there too.
    request.value_bytes = if value_bytes == b"-1" { 0 } else { number(value_bytes, "value_size")? };
    request.operation = Operation::named(operation)
        .ok_or_else(|| format!("the operation {:?} is unknown", String::from_utf8_lossy(operation)))?;
    request.ttl_s = number(ttl, "TTL")?;
    Ok(())
}

/// A reader of lines.
pub struct TwitterCsv {
    bytes: Bytes,
    line: Vec<u8>,
    lines: u64,
}

impl TwitterCsv {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, line: Vec::new(), lines: 0 }
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Reads one line into `self.line`, without its end; `false` at the end of the file.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        let read = self.bytes.reader().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        let bytes = read.map_err(|error| self.bytes.unreadable("line", self.lines, error))?;
        if bytes == 0 {
            return Ok(false);
        }
        self.lines += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if bytes as u64 == LINE_BYTES_MAX {
            let what = format!("longer than {LINE_BYTES_MAX} bytes: this is no CSV trace");
            return Err(self.bytes.malformed("line", self.lines, what));
        }
        Ok(true)
    }

    pub(super) fn read(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if !self.read_line()? {
            return Ok(false);
        }
        parse(&self.line, request).map_err(|what| self.bytes.malformed("line", self.lines, what))?;
        Ok(true)
    }
}
