//! The bytes on a connection between a client and an agent.
//!
//! All is made of words of eight bytes, in the byte order of the hosts. A host of the other byte
//! order does not find the magic word.
//!
//! ```text
//! greeting   the agent's first bytes
//!   word 0   magic "ATOLLTCP"
//!   word 1   version 32 | 1 if a secret is needed 32
//!   word 2-5 challenge, random
//!
//! frame      everything after the greeting, in both directions
//!   word 0   bytes of the body 32 | number of the frame 32
//!   word 1   kind 8 | verbs 8 | status 16 | clock 32
//!   body     whole words
//!
//! clock      by the agent: the lower half of its clock in milliseconds, not long before it sent
//!            the frame
//!
//! kind       1 batch, 2 call: by the client; 3 done, 4 answer, 5 the end: by the agent;
//!            6 to 10 on a watch connection alone: see `notice`
//!
//! batch      a verb behind the other
//!   word 0   address: see `Address`; a memory node's number is that of an attachment
//!   word 1   bytes 32 | code 8 | 1 if fenced 8 | 0 16
//!   code     1 READ, 2 READ of a word, 3 WRITE: the words follow, 4 WRITE of a word: it follows,
//!            5 compare-and-swap: expected and desired follow, 6 fetch-and-add: the addend follows
//!
//! done       status 0: of each READ its words, of each word READ and atomic the word found, in
//!            order; another status: nothing, and the batch took no effect
//! ```
//!
//! Calls and answers: [`call`](super::call). The agent answers every frame with one frame, in
//! order; a watch connection has rules of its own. A frame that breaks a rule is answered with the
//! end, and the connection is closed.
//!
//! | limit | of |
//! |---|---|
//! | [`FRAME_BYTES_MAX`] | the body of a frame, and the body of its answer |
//! | [`VERB_BYTES_MAX`] | a READ, a WRITE |
//! | [`BATCH_VERBS_MAX`] | verbs of a frame |
//! | [`CALL_BYTES_MAX`] | the body of a call; before the peer has proved itself, of a frame |

use crate::Address;
use crate::batch::BATCH_VERBS_MAX;
use arrayvec::ArrayVec;

pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"ATOLLTCP");
pub(super) const VERSION: u64 = 3;
/// Words of the greeting.
pub(super) const GREETING_WORDS: usize = 6;
/// Words of a frame before its body.
pub(super) const HEAD_WORDS: usize = 2;
pub(super) const FRAME_BYTES_MAX: usize = 4 << 20;
pub(super) const VERB_BYTES_MAX: u64 = 1 << 20;
/// Frames that wait to leave together leave once they have this many bytes, so that the other side
/// works on them meanwhile. With less, the calls cost more than is gained.
pub(super) const SEND_FROM_BYTES: usize = 8 << 10;
/// A message with its header is the longest.
pub(super) const CALL_BYTES_MAX: usize = 8 << 10;

const _: () =
    assert!(VERB_BYTES_MAX as usize + 64 <= FRAME_BYTES_MAX && crate::MESSAGE_BYTES_MAX + 256 < CALL_BYTES_MAX);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Batch = 1,
    Call = 2,
    Done = 3,
    Answer = 4,
    End = 5,
    Notice = 6,
    Seen = 7,
    Ping = 8,
    Pong = 9,
    Leave = 10,
}

/// Why a batch was not executed, or why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Status {
    Good = 0,
    /// A verb is outside every region.
    Unreachable = 1,
    /// The agent's host has no memory for a page.
    NoMemory = 2,
    /// The session was shut out.
    Fenced = 3,
    /// The attachment is of no region.
    Detached = 4,
    /// The peer broke a rule of the protocol.
    Malformed = 5,
    /// The peer does not know the secret.
    Secret = 6,
    /// The agent has as many connections as it takes, or no memory for a frame.
    Full = 7,
}

impl Status {
    const ALL: [Self; 8] = [
        Self::Good,
        Self::Unreachable,
        Self::NoMemory,
        Self::Fenced,
        Self::Detached,
        Self::Malformed,
        Self::Secret,
        Self::Full,
    ];
}

/// The head of a frame, whose length is in bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) words: usize,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) verbs: u8,
    pub(super) status: Status,
    pub(super) clock: u32,
}

impl Head {
    /// A head without verbs and with a good status.
    pub(super) fn new(kind: Kind, number: u32, words: usize) -> Self {
        Self { words, number, kind, verbs: 0, status: Status::Good, clock: 0 }
    }

    pub(super) fn encode(self) -> [u64; HEAD_WORDS] {
        debug_assert!(8 * self.words <= FRAME_BYTES_MAX);
        let word = u64::from(self.kind as u8) | u64::from(self.verbs) << 8 | u64::from(self.status as u16) << 16;
        let word = word | u64::from(self.clock) << 32;
        [(8 * self.words) as u64 | u64::from(self.number) << 32, word]
    }

    /// `None` for words that are no head.
    pub(super) fn decode(words: [u64; HEAD_WORDS]) -> Option<Self> {
        let [length, word] = words;
        let bytes = length as u32 as usize;
        let kind = match word as u8 {
            1 => Kind::Batch,
            2 => Kind::Call,
            3 => Kind::Done,
            4 => Kind::Answer,
            5 => Kind::End,
            6 => Kind::Notice,
            7 => Kind::Seen,
            8 => Kind::Ping,
            9 => Kind::Pong,
            10 => Kind::Leave,
            _ => return None,
        };
        let status = *Status::ALL.get((word >> 16) as u16 as usize)?;
        let verbs = (word >> 8) as u8;
        let is_sound = bytes <= FRAME_BYTES_MAX && bytes.is_multiple_of(8) && usize::from(verbs) <= BATCH_VERBS_MAX;
        is_sound.then_some(Self {
            words: bytes / 8,
            number: (length >> 32) as u32,
            kind,
            verbs,
            status,
            clock: (word >> 32) as u32,
        })
    }
}

/// A verb as it is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// READ so many words.
    Read(usize),
    /// READ a word.
    ReadWord,
    /// WRITE these words.
    Write(&'a [u64]),
    /// WRITE a word.
    WriteWord(u64),
    /// Compare-and-swap, from and to.
    Swap(u64, u64),
    /// Fetch-and-add.
    Add(u64),
}

impl Action<'_> {
    /// Words that it touches.
    pub(crate) fn words(&self) -> usize {
        match self {
            Self::Read(words) => *words,
            Self::Write(words) => words.len(),
            _ => 1,
        }
    }

    /// Words of its result.
    pub(crate) fn found(&self) -> usize {
        match self {
            Self::Read(words) => *words,
            Self::Write(_) | Self::WriteWord(_) => 0,
            Self::ReadWord | Self::Swap(..) | Self::Add(_) => 1,
        }
    }

    /// Words of it in a frame.
    pub(super) fn sent(&self) -> usize {
        2 + match self {
            Self::Read(_) | Self::ReadWord => 0,
            Self::Write(words) => words.len(),
            Self::WriteWord(_) | Self::Add(_) => 1,
            Self::Swap(..) => 2,
        }
    }
}

/// A verb with its address, which is not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireVerb<'a> {
    pub(crate) at: Address,
    pub(crate) fenced: bool,
    pub(crate) action: Action<'a>,
}

/// The verbs of a frame.
pub(crate) type WireVerbs<'a> = ArrayVec<WireVerb<'a>, BATCH_VERBS_MAX>;

/// Appends a verb.
#[inline]
pub(super) fn encode_verb(verb: &WireVerb<'_>, out: &mut Vec<u64>) {
    let code: u64 = match verb.action {
        Action::Read(_) => 1,
        Action::ReadWord => 2,
        Action::Write(_) => 3,
        Action::WriteWord(_) => 4,
        Action::Swap(..) => 5,
        Action::Add(_) => 6,
    };
    let bytes = 8 * verb.action.words() as u64;
    out.extend([verb.at.to_bits(), bytes | code << 32 | u64::from(verb.fenced) << 40]);
    match verb.action {
        Action::Read(_) | Action::ReadWord => {}
        Action::Write(words) => out.extend_from_slice(words),
        Action::WriteWord(word) | Action::Add(word) => out.push(word),
        Action::Swap(expected, desired) => out.extend([expected, desired]),
    }
}

/// The verbs of the body of a batch; `None` if it breaks a rule.
#[inline]
pub(super) fn decode_verbs(mut body: &[u64], count: u8) -> Option<WireVerbs<'_>> {
    let mut verbs = WireVerbs::new();
    let mut found = 0;
    for _ in 0..count {
        let ([at, word], rest) = body.split_first_chunk::<2>()?;
        let (bytes, code, fenced) = (*word as u32, (word >> 32) as u8, (word >> 40) as u8);
        let is_sound = u64::from(bytes) <= VERB_BYTES_MAX && bytes.is_multiple_of(8) && fenced <= 1 && word >> 48 == 0;
        if !is_sound || !matches!(code, 1 | 3) && bytes != 8 {
            return None;
        }
        let words = (bytes / 8) as usize;
        let (action, rest) = match code {
            1 => (Action::Read(words), rest),
            2 => (Action::ReadWord, rest),
            3 => {
                let (data, rest) = rest.split_at_checked(words)?;
                (Action::Write(data), rest)
            }
            4 | 6 => {
                let ([word], rest) = rest.split_first_chunk::<1>()?;
                (if code == 4 { Action::WriteWord(*word) } else { Action::Add(*word) }, rest)
            }
            5 => {
                let ([expected, desired], rest) = rest.split_first_chunk::<2>()?;
                (Action::Swap(*expected, *desired), rest)
            }
            _ => return None,
        };
        found += action.found();
        verbs.try_push(WireVerb { at: Address::from_bits(*at), fenced: fenced == 1, action }).ok()?;
        body = rest;
    }
    (body.is_empty() && 8 * found <= FRAME_BYTES_MAX).then_some(verbs)
}

/// The challenge of a greeting, and whether a secret is needed; `None` if the peer is no agent of
/// this version.
pub(super) fn decode_greeting(words: &[u64; GREETING_WORDS]) -> Option<([u64; 4], bool)> {
    let [magic, version, challenge @ ..] = *words;
    (magic == MAGIC && version as u32 == VERSION as u32).then_some((challenge, version >> 32 != 0))
}

/// The greeting of an agent.
pub(super) fn encode_greeting(challenge: [u64; 4], needs_secret: bool) -> [u64; GREETING_WORDS] {
    let [a, b, c, d] = challenge;
    [MAGIC, VERSION | u64::from(needs_secret) << 32, a, b, c, d]
}

/// Parses frames as both sides do, without executing any; gives how many are whole and sound. It is
/// for fuzzing.
pub fn parse(mut words: &[u64]) -> usize {
    let mut frames = 0;
    while let Some((head, rest)) = words.split_first_chunk::<HEAD_WORDS>() {
        let Some(head) = Head::decode(*head) else { break };
        let Some((body, rest)) = rest.split_at_checked(head.words) else { break };
        let is_sound = match head.kind {
            Kind::Batch => decode_verbs(body, head.verbs).is_some_and(|verbs| {
                let mut again = Vec::new();
                verbs.iter().for_each(|verb| encode_verb(verb, &mut again));
                assert_eq!(again, body, "a sound batch has one form");
                true
            }),
            Kind::Call => super::call::Call::decode(body).is_some(),
            Kind::Answer => super::call::Answer::decode(body).is_some(),
            Kind::Done | Kind::End => true,
            Kind::Notice => super::notice::decode_notice(body, usize::MAX, |_, _| {}).is_some(),
            Kind::Seen | Kind::Ping | Kind::Pong => super::notice::decode_word(body).is_some(),
            Kind::Leave => body.is_empty(),
        };
        if !is_sound {
            break;
        }
        frames += 1;
        words = rest;
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verbs(data: &[u64]) -> WireVerbs<'_> {
        let at = |offset| Address::new(3, 0, offset);
        let actions = [
            Action::Read(32),
            Action::ReadWord,
            Action::Write(data),
            Action::WriteWord(9),
            Action::Swap(1, u64::MAX),
            Action::Add(7),
            Action::Read(0),
        ];
        let verb = |(index, action)| WireVerb { at: at(8 * index as u64), fenced: index % 2 == 1, action };
        actions.into_iter().enumerate().map(verb).collect()
    }

    #[test]
    fn a_frame_is_read_as_it_was_written_and_a_part_of_it_is_refused() {
        let data = [1, 2, 3];
        let verbs = verbs(&data);
        let mut body = Vec::new();
        verbs.iter().for_each(|verb| encode_verb(verb, &mut body));
        assert_eq!(body.len(), verbs.iter().map(|verb| verb.action.sent()).sum::<usize>());
        let count = verbs.len() as u8;
        assert_eq!(decode_verbs(&body, count), Some(verbs.clone()));
        assert_eq!(decode_verbs(&body, count - 1), None, "words are left");
        (0..body.len()).for_each(|words| assert_eq!(decode_verbs(&body[..words], count), None));
        let head = Head { verbs: count, ..Head::new(Kind::Batch, u32::MAX, body.len()) };
        assert_eq!(Head::decode(head.encode()), Some(head));
    }

    #[test]
    fn no_length_beyond_the_limits_is_taken() {
        let head = Head::new(Kind::Batch, 1, 0).encode();
        for bad in [FRAME_BYTES_MAX as u64 + 8, 4, u64::from(u32::MAX)] {
            assert_eq!(Head::decode([bad, head[1]]), None);
        }
        for bad in [0, 11, 1 | 33 << 8, 1 | 8 << 16] {
            assert_eq!(Head::decode([0, bad]), None);
        }
        for word in [(VERB_BYTES_MAX + 8) | 1 << 32, 4 | 1 << 32, 16 | 2 << 32, 8 | 1 << 32 | 2 << 40, 8 | 7 << 32] {
            assert_eq!(decode_verbs(&[0, word], 1), None);
        }
        // Five READs of a mebibyte are more than an answer holds.
        let reads = [0, VERB_BYTES_MAX | 1 << 32].repeat(5);
        assert_eq!(decode_verbs(&reads[..8], 4).map(|verbs| verbs.len()), Some(4));
        assert_eq!(decode_verbs(&reads, 5), None);
    }

    /// What the fuzz target does, in every run of the tests: sound frames with words changed.
    #[test]
    fn frames_with_changed_words_are_parsed_to_the_end_or_refused() {
        let data = [1, 2, 3];
        let verbs = verbs(&data);
        let mut sound = Vec::new();
        verbs.iter().for_each(|verb| encode_verb(verb, &mut sound));
        let head = Head { verbs: verbs.len() as u8, ..Head::new(Kind::Batch, 7, sound.len()) };
        let mut frame = [&head.encode()[..], &sound].concat().repeat(3);
        let notice = [9, 5 | 2 << 32, 1, 2, 7 | 1 << 32, 3];
        let watch: [(Kind, &[u64]); 4] =
            [(Kind::Notice, &notice), (Kind::Seen, &[9]), (Kind::Ping, &[1]), (Kind::Leave, &[])];
        watch.into_iter().for_each(|(kind, body)| crate::tcp::notice::push_frame(&mut frame, kind, body));
        assert_eq!(parse(&frame), 7);
        let mut random = 1_u64;
        for _ in 0..100_000 {
            let mut changed = frame.clone();
            for _ in 0..1 + random % 3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 32) as usize % changed.len();
                changed[at] ^= 1 << (random >> 58);
            }
            assert!(parse(&changed) <= 7);
        }
    }
}
