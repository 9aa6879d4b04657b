//! A candidate of a lookup: a slot with the key's fingerprint, judged by its record.

use crate::extent::ExtentIo;
use crate::record::{Header, LargeBody, Record};
use crate::{CacheError, Value};
use atoll_fabric::Endpoint;

/// The verdict on a slot.
pub(crate) enum Candidate {
    /// The key's object. The value's buffer holds its record, or key and value of a large object.
    Ours(Header),
    /// Another key's object.
    Other,
    /// The memory was reused meanwhile, or the bytes are not sound.
    Reused,
}

impl Candidate {
    /// Judges the candidate in `into` by its key alone, without a check. For the holes that trust
    /// bytes, as the prototypes do.
    #[cold]
    pub(crate) fn believed(key: &[u8], into: &mut Value) -> Self {
        let header = Record::unchecked_header(&into.buffer);
        let (key_at, value_at) = (header.key_at(), header.value_at());
        if into.buffer.bytes().get(key_at..value_at) != Some(key) || value_at + header.value_bytes > into.buffer.len() {
            return Self::Other;
        }
        into.start = value_at;
        Self::Ours(header)
    }

    /// READs key and value of a large object into `into`, and judges them by the checksum in the
    /// record. A place that defers gets the record alone.
    pub(crate) async fn read_body<E: Endpoint>(
        io: ExtentIo<'_, E>,
        (header, body): (Header, &LargeBody),
        key: &[u8],
        into: &mut Value,
    ) -> Result<Self, CacheError> {
        assert!(header.large, "only a large object has extents");
        if header.value_bytes >= into.defers_from {
            into.deferred = Some(Box::new((header, *body)));
            return Ok(Self::Ours(header));
        }
        let Some(buffer) = io.read_body(&header, body, std::mem::take(&mut into.buffer)).await? else {
            return Ok(Self::Reused);
        };
        into.buffer = buffer;
        into.start = header.key_bytes;
        let same = &into.buffer.bytes()[..header.key_bytes] == key;
        Ok(if same { Self::Ours(header) } else { Self::Other })
    }
}
