//! The messages between clients and server.
//!
//! ```text
//! every message   word 0  kind 8 | operation or outcome 8 | condition 8 | 0 8 | client's place 32
//!                 word 1  client's epoch 32 | server's epoch 32
//!                 word 2  sequence number: each client counts its changes, and its logs, from 1
//! a change        word 3  the version that must be there, if the condition is one
//!                 word 4  expiry, ms since 1970; 0 for never
//!                 word 5  key length 32 | value length 32
//!                 word 6  first byte of this part 32
//!                 then    key and value without a gap, from that byte on:
//!                         all of it, or as much as the message holds
//! an answer       word 3  token of the present object; 0 for none
//!                         of a flush: how many objects were removed
//!                 word 4  token of the old object; 0 for none
//!                 word 5  its expiry
//!                 word 6  its value's length
//! accesses        word 3.. for each: its age in microseconds when the message was sent,
//!                         and the hash of the key
//! ```
//!
//! Words are little-endian. Any process may send to a mailbox. A message of any other form is
//! dropped, and lengths are checked before they are used.

use super::record::{expiry_of, expiry_word};
use atoll_fabric::MESSAGE_BYTES_MAX;
use atoll_pool::Incarnation;
use atoll_pool::fields::Numbers;

/// Bytes of the words that a change and an answer have.
const CHANGE_BYTES: usize = 56;
const HEAD_BYTES: usize = 24;
/// Bytes of key and value that one message holds.
pub const PART_BYTES: usize = MESSAGE_BYTES_MAX - CHANGE_BYTES;
/// Bytes of accesses that are sent at once (Ditto's CliqueMap sends them when 2 KB are full).
pub const LOG_BYTES: usize = 2048;
/// Bytes of one access.
pub const ACCESS_BYTES: usize = 16;
/// Accesses of a full log.
pub const LOG_ACCESSES: usize = LOG_BYTES / ACCESS_BYTES;

const CHANGE: u8 = 1;
const ACCESSES: u8 = 2;
const ANSWER: u8 = 3;
const NOTED: u8 = 4;
/// The operations by their numbers in a message.
const OPERATIONS: Numbers<Operation, 4> =
    Numbers([(1, Operation::Put), (2, Operation::Expire), (3, Operation::Remove), (4, Operation::Flush)]);
/// The outcomes by their numbers in a message.
const OUTCOMES: Numbers<Outcome, 4> =
    Numbers([(1, Outcome::Done), (2, Outcome::Conflict), (3, Outcome::NoRoom), (4, Outcome::Stale)]);

/// What every message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The client that sent it, or that it answers.
    pub client: Incarnation,
    /// The server that sent it, or that it is for.
    pub server_epoch: u32,
    /// The sequence number of the client's change, or log.
    pub sequence: u64,
}

/// The operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The value is replaced.
    Put,
    /// Value and token stay, the expiry changes.
    Expire,
    /// The object is removed.
    Remove,
    /// Every object is removed.
    Flush,
}

/// The condition of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Anything, or nothing.
    Any,
    /// Nothing.
    Absent,
    /// The present object has this version.
    Version(u64),
}

/// A request to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The operation.
    pub operation: Operation,
    /// What must be there.
    pub condition: Condition,
    /// When the object is to expire.
    pub expiry_ms: Option<u64>,
    /// Length of the key.
    pub key_bytes: u32,
    /// Length of the value.
    pub value_bytes: u32,
}

impl Change {
    /// Bytes of key and value together.
    pub fn body_bytes(&self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    /// How many messages it needs.
    pub fn parts(&self) -> usize {
        self.body_bytes().div_ceil(PART_BYTES).max(1)
    }
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The condition did not hold; nothing is changed.
    Conflict,
    /// Even eviction finds no room for it; nothing is changed.
    NoRoom,
    /// The request was sent to an earlier server. This server has done nothing, and does not know
    /// what the earlier one did.
    Stale,
}

/// The object before a change, or the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Its token.
    pub token: u64,
    /// When it expires.
    pub expiry_ms: Option<u64>,
    /// Length of its value.
    pub value_bytes: u64,
}

/// The answer to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The outcome of the change.
    pub outcome: Outcome,
    /// The token of the present object, 0 for none. Of a flush, how many objects were removed.
    pub token: u64,
    /// The object before the change.
    pub before: Option<Present>,
}

/// A message that has been checked.
#[derive(Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A client requests a change. A message has a part of key and value, from a byte on.
    Change(Change, usize, &'a [u8]),
    /// A client sends accesses.
    Accesses(Accesses<'a>),
    /// The server answers a change.
    Answer(Answer),
    /// The server has noted a log of accesses.
    Noted,
}

/// The accesses of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accesses<'a>(&'a [u8]);

impl Accesses<'_> {
    /// The age in microseconds and the hash of the key, of each access.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.0.chunks_exact(ACCESS_BYTES).map(|access| (word(access, 0), word(access, 1)))
    }
}

/// A word of bytes that are long enough.
fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * index..8 * index + 8].try_into().expect("eight bytes"))
}

/// Decodes a message, if it is one.
pub fn decode(bytes: &[u8]) -> Option<(Head, Payload<'_>)> {
    if bytes.len() < HEAD_BYTES {
        return None;
    }
    let [kind, what, condition, zero] = bytes[..4].try_into().expect("four bytes");
    let (first, epochs) = (word(bytes, 0), word(bytes, 1));
    let client = Incarnation { slot: (first >> 32) as u32, epoch: epochs as u32 };
    let head = Head { client, server_epoch: (epochs >> 32) as u32, sequence: word(bytes, 2) };
    let payload = match (kind, zero) {
        (CHANGE, 0) => decode_change(bytes, what, condition)?,
        (ACCESSES, 0) if (what, condition) == (0, 0) => {
            let accesses = &bytes[HEAD_BYTES..];
            let is_whole = accesses.len().is_multiple_of(ACCESS_BYTES) && accesses.len() <= LOG_BYTES;
            Payload::Accesses(is_whole.then_some(Accesses(accesses))?)
        }
        (ANSWER, 0) if condition == 0 => Payload::Answer(decode_answer(bytes, what)?),
        (NOTED, 0) if (what, condition, bytes.len()) == (0, 0, HEAD_BYTES) => Payload::Noted,
        _ => return None,
    };
    Some((head, payload))
}

fn decode_change(bytes: &[u8], operation: u8, condition: u8) -> Option<Payload<'_>> {
    let body = bytes.get(CHANGE_BYTES..)?;
    let operation = OPERATIONS.value(operation.into())?;
    let condition = match (condition, word(bytes, 3)) {
        (0, 0) => Condition::Any,
        (1, 0) => Condition::Absent,
        (2, version) if version != 0 => Condition::Version(version),
        _ => return None,
    };
    let (lengths, first) = (word(bytes, 5), word(bytes, 6));
    let (key_bytes, value_bytes) = (lengths as u32, (lengths >> 32) as u32);
    let change = Change { operation, condition, expiry_ms: expiry_of(word(bytes, 4)), key_bytes, value_bytes };
    // Parts are cut in one way only, so a part that arrives again is the same.
    let first = usize::try_from(first).ok()?;
    let is_a_part = first.is_multiple_of(PART_BYTES)
        && (first < change.body_bytes() || first == 0)
        && body.len() == (change.body_bytes() - first).min(PART_BYTES);
    is_a_part.then_some(Payload::Change(change, first, body))
}

fn decode_answer(bytes: &[u8], outcome: u8) -> Option<Answer> {
    if bytes.len() != CHANGE_BYTES {
        return None;
    }
    let outcome = OUTCOMES.value(outcome.into())?;
    let before = Present { token: word(bytes, 4), expiry_ms: expiry_of(word(bytes, 5)), value_bytes: word(bytes, 6) };
    Some(Answer { outcome, token: word(bytes, 3), before: (before.token != 0).then_some(before) })
}

fn begin(into: &mut Vec<u8>, kind: u8, what: u8, condition: u8, head: &Head) {
    into.clear();
    into.extend_from_slice(&[kind, what, condition, 0]);
    into.extend_from_slice(&head.client.slot.to_le_bytes());
    into.extend_from_slice(&head.client.epoch.to_le_bytes());
    into.extend_from_slice(&head.server_epoch.to_le_bytes());
    into.extend_from_slice(&head.sequence.to_le_bytes());
}

fn add(into: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
}

/// Writes part number `part` of a change.
pub fn encode_change(into: &mut Vec<u8>, head: &Head, change: &Change, part: usize, key: &[u8], value: &[u8]) {
    debug_assert_eq!((key.len(), value.len()), (change.key_bytes as usize, change.value_bytes as usize));
    let (condition, version) = match change.condition {
        Condition::Any => (0, 0),
        Condition::Absent => (1, 0),
        Condition::Version(version) => (2, version),
    };
    begin(into, CHANGE, OPERATIONS.number(change.operation) as u8, condition, head);
    let lengths = u64::from(change.key_bytes) | u64::from(change.value_bytes) << 32;
    let first = part * PART_BYTES;
    add(into, &[version, expiry_word(change.expiry_ms), lengths, first as u64]);
    let end = (first + PART_BYTES).min(key.len() + value.len());
    let of_value = |at: usize| at.saturating_sub(key.len()).min(value.len());
    into.extend_from_slice(&key[first.min(key.len())..end.min(key.len())]);
    into.extend_from_slice(&value[of_value(first)..of_value(end)]);
}

/// Writes the answer to a change.
pub fn encode_answer(into: &mut Vec<u8>, head: &Head, answer: &Answer) {
    begin(into, ANSWER, OUTCOMES.number(answer.outcome) as u8, 0, head);
    let before = answer.before.map(|before| [before.token, expiry_word(before.expiry_ms), before.value_bytes]);
    let [token, expiry, value_bytes] = before.unwrap_or_default();
    add(into, &[answer.token, token, expiry, value_bytes]);
}

/// Writes a log of accesses: the age in microseconds and the hash of the key, of each access.
pub fn encode_accesses(into: &mut Vec<u8>, head: &Head, accesses: impl Iterator<Item = (u64, u64)>) {
    begin(into, ACCESSES, 0, 0, head);
    accesses.for_each(|(age_us, hash)| add(into, &[age_us, hash]));
}

/// Writes that a log has been noted.
pub fn encode_noted(into: &mut Vec<u8>, head: &Head) {
    begin(into, NOTED, 0, 0, head);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head { client: Incarnation { slot: 3, epoch: 4 }, server_epoch: 5, sequence: 6 };

    fn change(key: &[u8], value: &[u8], condition: Condition) -> Change {
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        Change { operation: Operation::Put, condition, expiry_ms: Some(7), key_bytes, value_bytes }
    }

    #[test]
    fn the_parts_of_a_change_make_up_key_and_value() {
        let mut message = Vec::new();
        for (key_bytes, value_bytes) in [(0, 0), (1, 0), (16, 240), (PART_BYTES, 1), (PART_BYTES + 1, 3 * PART_BYTES)] {
            let (key, value) = (vec![1; key_bytes], vec![2; value_bytes]);
            let change = change(&key, &value, Condition::Version(8));
            let mut body = Vec::new();
            for part in 0..change.parts() {
                encode_change(&mut message, &HEAD, &change, part, &key, &value);
                assert!(message.len() <= MESSAGE_BYTES_MAX);
                let Some((head, Payload::Change(decoded, first, bytes))) = decode(&message) else {
                    panic!("{message:?}")
                };
                assert_eq!((head, decoded, first), (HEAD, change, body.len()));
                body.extend_from_slice(bytes);
            }
            assert_eq!(body, [key, value].concat());
        }
    }

    #[test]
    fn answers_and_accesses_are_read_as_they_were_written() {
        let mut message = Vec::new();
        let before = Some(Present { token: 9, expiry_ms: None, value_bytes: 10 });
        for before in [None, before] {
            let answer = Answer { outcome: Outcome::Conflict, token: 11, before };
            encode_answer(&mut message, &HEAD, &answer);
            assert_eq!(decode(&message), Some((HEAD, Payload::Answer(answer))));
        }
        let accesses: Vec<(u64, u64)> = (0..LOG_ACCESSES as u64).map(|number| (number, number * number)).collect();
        encode_accesses(&mut message, &HEAD, accesses.iter().copied());
        let Some((HEAD, Payload::Accesses(payload))) = decode(&message) else { panic!("{message:?}") };
        assert_eq!(payload.iter().collect::<Vec<_>>(), accesses);
        encode_noted(&mut message, &HEAD);
        assert_eq!(decode(&message), Some((HEAD, Payload::Noted)));
    }

    #[test]
    fn a_message_cut_short_or_with_more_behind_it_is_none() {
        let mut message = Vec::new();
        encode_change(&mut message, &HEAD, &change(b"key", b"value", Condition::Absent), 0, b"key", b"value");
        assert!((0..message.len()).all(|end| decode(&message[..end]).is_none()));
        message.push(0);
        assert_eq!(decode(&message), None);
    }
}
