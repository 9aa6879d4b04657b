//! The oracleGeneral format of libCacheSim: packed little-endian records of 24 bytes.
//!
//! ```text
//! 0          4              12          16                            24
//! +----------+--------------+-----------+-----------------------------+
//! | time, s  |  object id   |  size, B  |  number of the object's     |
//! |   u32    |     u64      |    u32    |  next request, -1: none i64 |
//! +----------+--------------+-----------+-----------------------------+
//! ```
//!
//! Every request is a GET. The last field is for oracles; here it only tells records from other
//! bytes. Some tools write the largest i64 where there is no next request.

use super::bytes::Bytes;
use super::{Operation, Request, TraceError};

const RECORD_BYTES: usize = 24;
/// No trace is longer than this; text and noise read as records nearly always claim to be.
const NEXT_MAX: i64 = 1 << 48;

/// A field of the record that begins at its offset.
fn field<const BYTES: usize>(record: &[u8; RECORD_BYTES], offset: usize) -> [u8; BYTES] {
    std::array::from_fn(|index| record[offset + index])
}

fn next_of(record: &[u8; RECORD_BYTES]) -> Option<i64> {
    let next = i64::from_le_bytes(field(record, 16));
    ((-1..NEXT_MAX).contains(&next) || next == i64::MAX).then_some(next)
}

/// Whether `first`, the first bytes of a file, begin with a record that makes sense.
pub(super) fn looks_like(first: &[u8]) -> bool {
    first.first_chunk().is_some_and(|record| next_of(record).is_some())
}

/// A reader of records.
pub struct OracleGeneral {
    bytes: Bytes,
    records: u64,
}

impl OracleGeneral {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, records: 0 }
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The next whole record; `None` at the end.
    #[inline]
    fn record(&mut self) -> Result<Option<[u8; RECORD_BYTES]>, TraceError> {
        let mut record = [0; RECORD_BYTES];
        let mut filled = 0;
        while filled < RECORD_BYTES {
            match self.bytes.reader().read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => {
                    let what = format!("cut off after {filled} of {RECORD_BYTES} bytes; fetch the file again");
                    return Err(self.bytes.malformed("record", self.records + 1, what));
                }
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.bytes.unreadable("record", self.records, error)),
            }
        }
        self.records += 1;
        Ok(Some(record))
    }

    #[inline]
    pub(super) fn read(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let Some(record) = self.record()? else { return Ok(false) };
        if next_of(&record).is_none() {
            let what = "its last field is no request number: the file is not in the oracleGeneral format, or damaged";
            return Err(self.bytes.malformed("record", self.records, what));
        }
        request.time_s = u64::from(u32::from_le_bytes(field(&record, 0)));
        request.set_key(u64::from_le_bytes(field(&record, 4)));
        request.value_bytes = u64::from(u32::from_le_bytes(field(&record, 12)));
        (request.operation, request.ttl_s) = (Operation::Get, 0);
        Ok(true)
    }
}
