//! The messages between clients and the manager.
//!
//! ```text
//! word 0  magic 32 | kind 8 | place of the client's node 8 | 0
//!      1  session: of the client, never used again
//!      2  sequence: of the request, rising in the session
//!      3  of a request the member word of the client's node, of an answer its number
//!      4  address of the object
//!      5  its bytes 32 | the first byte of a written part, or of a word 32
//!      6  bytes in all | expected | addend | the word of an answer
//!      7  where the bytes of this message begin | desired
//!         bytes
//! ```

use atoll_fabric::MESSAGE_BYTES_MAX;
use atoll_pool::fields::{Fields, Numbers};

const HEAD_WORDS: usize = 8;
const HEAD_BYTES: usize = 8 * HEAD_WORDS;
const MAGIC: u64 = 0x6d63_0001;
const FIRST: Fields<4> = Fields::new([32, 8, 8, 16]);
const FIFTH: Fields<2> = Fields::new([32, 32]);
/// Bytes of an object in one message.
pub(super) const PART_BYTES: usize = MESSAGE_BYTES_MAX - HEAD_BYTES;
const PARTS_MAX: usize = 64;

/// The largest object that is cached: so many messages.
pub const OBJECT_BYTES_MAX: u32 = (PARTS_MAX * PART_BYTES) as u32;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    CompareAndSwap,
    FetchAndAdd,
    /// The answer to a read.
    Bytes,
    /// The answer to a change, with a word: of a write the invalidation word of the writer's node,
    /// of an atomic what it found.
    Done,
    /// The answer where a sharer neither answers nor is known to be dead; the word is its number.
    Silent,
    /// The answer where the memory node has no such bytes.
    Unreachable,
}

const KINDS: Numbers<Kind, 8> = Numbers([
    (1, Kind::Read),
    (2, Kind::Write),
    (3, Kind::CompareAndSwap),
    (4, Kind::FetchAndAdd),
    (5, Kind::Bytes),
    (6, Kind::Done),
    (7, Kind::Silent),
    (8, Kind::Unreachable),
]);

/// The words of a message before its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) place: usize,
    pub(super) session: u64,
    pub(super) sequence: u64,
    pub(super) member_or_answers: u64,
    pub(super) at: u64,
    pub(super) bytes: u32,
    pub(super) start: u32,
    pub(super) operands: [u64; 2],
}

impl Head {
    /// Makes a message of this head and the bytes.
    pub(super) fn encode(&self, bytes: &[u8], into: &mut Vec<u8>) {
        let words: [u64; HEAD_WORDS] = [
            FIRST.pack([MAGIC, KINDS.number(self.kind), self.place as u64, 0]),
            self.session,
            self.sequence,
            self.member_or_answers,
            self.at,
            FIFTH.pack([self.bytes.into(), self.start.into()]),
            self.operands[0],
            self.operands[1],
        ];
        into.clear();
        words.iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
        into.extend_from_slice(bytes);
    }

    /// The head of a message, and its bytes. `None` if it is no message of this version.
    pub(super) fn decode(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, bytes) = message.split_at_checked(HEAD_BYTES)?;
        let (words, _) = head.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        let [magic, kind, place, _] = FIRST.unpack(word(0));
        let [object_bytes, start] = FIFTH.unpack(word(5));
        let kind = KINDS.value(kind).filter(|_| magic == MAGIC)?;
        let head = Self {
            kind,
            place: place as usize,
            session: word(1),
            sequence: word(2),
            member_or_answers: word(3),
            at: word(4),
            bytes: object_bytes as u32,
            start: start as u32,
            operands: [word(6), word(7)],
        };
        Some((head, bytes))
    }

    /// Whether the message brings, or fetches, bytes that may be of several messages.
    fn has_parts(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Bytes)
    }
}

/// Whether a message is the first one of a request, for models of what a request costs the manager.
pub fn begins_request(message: &[u8]) -> bool {
    Head::decode(message).is_some_and(|(head, _)| !head.has_parts() || head.operands[1] == 0)
}

/// Where the messages begin for so many bytes.
pub(super) fn parts(bytes: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..bytes).step_by(PART_BYTES).map(move |start| start..bytes.min(start + PART_BYTES))
}

/// Which of an object's bytes have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gathered {
    bytes: usize,
    /// A bit for each message that is missing.
    missing: u64,
}

impl Gathered {
    /// None of so many, which are at least one and at most [`OBJECT_BYTES_MAX`].
    pub(super) fn none_of(bytes: usize) -> Self {
        debug_assert!((1..=OBJECT_BYTES_MAX as usize).contains(&bytes));
        Self { bytes, missing: u64::MAX >> (PARTS_MAX - bytes.div_ceil(PART_BYTES)) }
    }

    /// Puts the bytes of a message to their place. Bytes that are no part are dropped.
    pub(super) fn add(&mut self, head: &Head, bytes: &[u8], into: &mut [u8]) {
        let is_same = head.has_parts() && head.operands[0] == self.bytes as u64 && into.len() == self.bytes;
        let found = parts(self.bytes).enumerate().find(|(_, part)| part.start as u64 == head.operands[1]);
        if let Some((number, part)) = found.filter(|(_, part)| is_same && part.len() == bytes.len()) {
            into[part].copy_from_slice(bytes);
            self.missing &= !(1 << number);
        }
    }

    /// Whether all have come.
    pub(super) fn is_whole(self) -> bool {
        self.missing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        kind: Kind::Write,
        place: 63,
        session: 5,
        sequence: u64::MAX,
        member_or_answers: 7,
        at: 4096,
        bytes: 10_000,
        start: 8,
        operands: [9000, 0],
    };

    #[test]
    fn a_message_is_read_as_it_was_written_and_a_foreign_one_is_none() {
        let mut message = Vec::new();
        HEAD.encode(b"payload.", &mut message);
        assert_eq!(Head::decode(&message), Some((HEAD, &b"payload."[..])));
        assert!(begins_request(&message));
        Head { operands: [9000, 4032], ..HEAD }.encode(b"payload.", &mut message);
        assert!(!begins_request(&message), "a later part");
        assert_eq!(Head::decode(&message[..HEAD_BYTES - 1]), None);
        message[0] ^= 1;
        assert_eq!(Head::decode(&message), None);
    }

    #[test]
    fn bytes_are_gathered_from_messages_in_any_order_and_foreign_parts_are_dropped() {
        let bytes: Vec<u8> = (0..9000).map(|byte| byte as u8).collect();
        let (mut gathered, mut into) = (Gathered::none_of(9000), vec![0; 9000]);
        let head = |start| Head { operands: [9000, start], ..HEAD };
        for part in parts(9000).collect::<Vec<_>>().into_iter().rev() {
            assert!(!gathered.is_whole());
            gathered.add(&head(1), &bytes[part.clone()], &mut into);
            gathered.add(&head(part.start as u64), &bytes[..part.len() - 1], &mut into);
            gathered.add(&head(part.start as u64), &bytes[part], &mut into);
        }
        assert!(gathered.is_whole() && into == bytes);
        assert_eq!(parts(OBJECT_BYTES_MAX as usize).count(), PARTS_MAX);
        assert_eq!(Gathered::none_of(8).missing, 1);
        assert_eq!(Gathered::none_of(OBJECT_BYTES_MAX as usize).missing, u64::MAX);
    }
}
