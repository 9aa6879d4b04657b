//! The layout of a block: the words of the extension, then a record (see [`crate::record`]), then
//! unused bytes.
//!
//! A record's `generation` is the block's tag when it was written. A dead record has the number
//! [`DEAD_NUMBER`] and no key. Its value is the bucket in which a slot names the dead block. So a
//! look into that one bucket shows whether the block is named.

use super::class::Class;
use super::operation::Operation;
use super::slot::{Block, Content, KeyHash, Slot};
use super::{Core, Hole};
use crate::Attributes;
use crate::record::{self, Header, LargeBody, Record};
use atoll_fabric::{Address, Buffer, Endpoint};

/// The number of a dead record.
const DEAD_NUMBER: u16 = 0x800;

/// A block as it was READ, regardless of the slot that names it. Two images are equal if and only
/// if their bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// Nothing: only zeros.
    Void,
    /// A whole record of some time.
    Record {
        /// The bucket in which a slot names the block, if there is such a slot.
        bucket: u32,
        /// The block's tag then.
        tag: u16,
        /// A hash of the record's header, in which its checksum is.
        checksum: u64,
    },
    /// No whole record. A client writes it, or died writing it, or the earlier content was no
    /// blocks.
    Torn {
        /// A hash of the block's bytes.
        content: u64,
    },
}

impl Image {
    /// The bucket in which a slot names the block, if there is such a slot.
    pub(super) fn bucket(self) -> Option<u32> {
        match self {
            Self::Record { bucket, .. } => Some(bucket),
            Self::Void | Self::Torn { .. } => None,
        }
    }

    /// The tag of the record.
    pub(super) fn tag(self) -> Option<u16> {
        match self {
            Self::Record { tag, .. } => Some(tag),
            Self::Void | Self::Torn { .. } => None,
        }
    }

    pub(super) fn is_torn(self) -> bool {
        matches!(self, Self::Torn { .. })
    }
}

impl<E: Endpoint> Core<E> {
    /// The parts of `key`'s hash.
    #[inline]
    pub(super) fn key_hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::new(self.shared.hasher.hash(key), self.shared.settings.buckets)
    }

    /// Bytes of the extension.
    #[inline]
    pub(super) fn extension_bytes(&self) -> usize {
        self.shared.settings.extension_bytes as usize
    }

    /// Whether an object's key and value lie in chunks of their own.
    pub(super) fn is_large(&self, header: &Header) -> bool {
        let bytes = header.small_record_bytes() + self.shared.settings.extension_bytes;
        bytes > self.client.pool.layout.chunk_bytes / 2
    }

    /// Moves the window of a block that was read to its record, and returns the record if it is the
    /// slot's own.
    #[inline]
    pub(super) fn judge<'r>(&self, word: Slot, block: &'r mut Buffer) -> Option<Record<'r>> {
        let (extension, bytes) = (self.extension_bytes(), block.len());
        block.narrow(extension, bytes.saturating_sub(extension));
        let record = Record::decode(block, &self.shared.hasher, 0)?;
        let header = &record.header;
        let same =
            header.generation == word.tag() && header.number & DEAD_NUMBER == 0 && header.large == word.is_large();
        (same || self.is_open(Hole::Tag)).then_some(record)
    }

    /// Decodes the block of so many bytes from `start` on.
    pub(super) fn image(&self, block: &mut Buffer, start: usize, bytes: usize) -> Image {
        let extension = self.extension_bytes();
        block.narrow(start + extension, bytes.saturating_sub(extension));
        if let Some(record) = self.record_image(block) {
            return record;
        }
        let is_void = self.is_open(Hole::TornLook) || block.words().iter().all(|word| *word == 0);
        if is_void { Image::Void } else { Image::Torn { content: self.shared.hasher.hash(block.bytes()) } }
    }

    fn record_image(&self, block: &Buffer) -> Option<Image> {
        let record = Record::decode(block, &self.shared.hasher, 0)?;
        let (header, buckets) = (record.header, self.shared.settings.buckets);
        let bucket = if header.number & DEAD_NUMBER != 0 {
            let value = block.bytes().get(record.value_at..record.value_at + header.value_bytes)?;
            u32::from_le_bytes(value.try_into().ok()?)
        } else {
            let hash = record.large().map_or_else(|| self.shared.hasher.hash(record.key), |body| body.key_hash);
            KeyHash::new(hash, buckets).bucket
        };
        let checksum = self.shared.hasher.hash(&block.bytes()[..record.value_at.min(block.len())]);
        (bucket < buckets).then_some(Image::Record { bucket, tag: header.generation, checksum })
    }

    /// Encodes an object's record for a block into `outgoing`, and returns its slot word.
    #[expect(clippy::too_many_arguments, reason = "all of an object and its place")]
    pub(super) fn encode(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        header: &Header,
        large: Option<&LargeBody>,
        extension: &[u64],
        place: (Block, Class, u16),
    ) -> Slot {
        let (block, class, tag) = place;
        let header = Header { number: 0, main: false, tagged: true, generation: tag, ..*header };
        let content = match large {
            Some(body) => {
                record::encode_large(&mut op.outgoing, &self.shared.hasher, &header, body);
                Content::Large
            }
            None => {
                record::encode_small(&mut op.outgoing, &self.shared.hasher, &header, key, value);
                Content::Small
            }
        };
        self.put_extension_before(op, extension);
        Slot::live(hash.fingerprint, class, content, block, tag)
    }

    /// Encodes a dead record into `outgoing`. Each dead record is unique. So a client that looks
    /// twice sees whether the block was used in between.
    pub(super) fn encode_dead(&self, op: &mut Operation, bucket: u32, tag: u16) {
        let header = Header {
            key_bytes: 0,
            value_bytes: 4,
            number: DEAD_NUMBER,
            main: false,
            large: false,
            blind: false,
            expiry_ms: None,
            tagged: true,
            generation: tag,
            token: self.client.endpoint.random(),
            attributes: Attributes::NONE,
        };
        record::encode_small(&mut op.outgoing, &self.shared.hasher, &header, &[], &bucket.to_le_bytes());
        self.put_extension_before(op, &[]);
    }

    /// Moves the encoded record behind the words of its extension; missing words are zero.
    fn put_extension_before(&self, op: &mut Operation, extension: &[u64]) {
        let words = self.extension_bytes() / 8;
        if words == 0 {
            return;
        }
        let (record_words, record_bytes) = (op.outgoing.words().len(), op.outgoing.len());
        op.outgoing.resize(8 * (words + record_words));
        let all = op.outgoing.words_mut();
        all.copy_within(..record_words, words);
        for (index, word) in all[..words].iter_mut().enumerate() {
            *word = extension.get(index).copied().unwrap_or(0);
        }
        op.outgoing.resize(8 * words + record_bytes);
    }

    /// Where the encoded record is to be, and the record.
    pub(super) fn outgoing_record(&self, op: &mut Operation, block: Block) -> Option<(Address, Buffer)> {
        let (at, _) = self.block_span(block)?;
        Some((at, std::mem::take(&mut op.outgoing)))
    }
}
