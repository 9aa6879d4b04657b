//! A batch between its post and its completion.
//!
//! Which verb may take effect next, from the contract (rows: the earlier verb, columns: the later
//! one, same node):
//!
//! ```text
//!            READ       WRITE      atomic      fenced
//! READ       any order  any order  any order   in order
//! WRITE      in order   in order   in order    in order
//! atomic     in order   any order  any order   in order
//! ```
//!
//! In an explored run with these relaxations the pieces of a batch are steps of their own: a READ
//! or WRITE of several words has two, its words of even and of odd place, which parts every word
//! from its neighbours; any other verb has one. Piece `2 v + h` is half `h` of verb `v`.
//!
//! Verbs of different nodes are in no order, fenced or not. A verb is in order behind another if
//! all words of the other have taken effect before its first.

use crate::effect::{Effect, EffectKind};
use crate::footprint::Words;
use crate::memory::Memory;
use crate::relaxations::Frequencies;
use crate::{Random, Relaxations};
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Address, Buffer, VerbError};
use std::task::Waker;

/// The task that waits for a batch.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The future of its post; its task is its lane's, or the waker says which.
    Awaited(Option<Waker>),
    /// The completion has arrived and the future has not been polled yet.
    Landed,
    /// No task: it was posted unawaited.
    Unawaited,
    /// No task any more: the future was dropped. The buffers die with the batch.
    Abandoned,
    /// The future, which is to learn that the outcome is unknown while the batch continues.
    Unknown,
    /// The batch has ended badly and the future has not been polled yet.
    Failed(Failure),
}

/// Why a batch ended badly; a word, because every batch has room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    PeerDead,
    OutcomeUnknown,
    Fenced,
}

impl From<Failure> for VerbError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::PeerDead => Self::PeerDead,
            Failure::OutcomeUnknown => Self::OutcomeUnknown,
            Failure::Fenced => Self::Fenced,
        }
    }
}

/// A batch in flight. A slot that is used again keeps its memory.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) lane: u32,
    pub(crate) endpoint: u32,
    /// How many its lane had posted before.
    pub(crate) number: u32,
    pub(crate) fate: Fate,
    verbs: Vec<FlyingVerb>,
    /// A bit for each verb that has not wholly taken effect.
    pending: u32,
    /// The number of the timer that it waits for before it continues; 0 for none.
    pub(crate) held: u64,
    /// Whether it was posted and has neither landed nor failed.
    pub(crate) afloat: bool,
    /// Whether no living client waits for it: see [`fault`](crate::fault).
    pub(crate) adrift: bool,
    /// Whether its completion cannot arrive: its outcome is unknown at its deadline.
    pub(crate) lost: bool,
}

#[derive(Debug)]
struct FlyingVerb {
    verb: Verb,
    /// A bit for each verb of the batch that must have taken effect before; where verbs are
    /// reordered.
    after: u32,
    progress: Progress,
}

/// How much of a verb has taken effect.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// Nothing.
    None,
    /// In an explored run, the words of all places but the even or odd ones.
    Half {
        /// Of which places they are left: 0 for even ones.
        left: u8,
    },
    /// All words but those of the bits; for verbs of up to 64 words.
    AllBut(u64),
    /// All words but `left`, the first of them `next`, each `stride` words (modulo their number, to
    /// which it is coprime) behind the one before it; for longer verbs, to which a bit per word
    /// would be a heap allocation.
    Strided { next: u32, stride: u32, left: u32 },
}

impl Flight {
    pub(crate) fn empty() -> Self {
        Self {
            lane: 0,
            endpoint: 0,
            number: 0,
            fate: Fate::Abandoned,
            verbs: Vec::new(),
            pending: 0,
            held: 0,
            afloat: false,
            adrift: false,
            lost: false,
        }
    }

    /// Takes the operations out of `verbs`, which keep a placeholder each.
    pub(crate) fn board(&mut self, verbs: &mut [Verb], relaxations: Relaxations) {
        debug_assert!(self.verbs.is_empty());
        self.pending = if verbs.len() == 32 { u32::MAX } else { (1 << verbs.len()) - 1 };
        (self.held, self.afloat, self.adrift, self.lost) = (0, true, false, false);
        self.verbs.extend(verbs.iter_mut().map(|verb| {
            let operation = std::mem::replace(&mut verb.operation, Operation::ReadWord { value: 0 });
            let verb = Verb { at: verb.at, fenced: verb.fenced, operation };
            FlyingVerb { verb, after: 0, progress: Progress::None }
        }));
        // In program order no verb needs to know which verbs must be before it.
        if relaxations.reorder {
            (0..self.verbs.len()).for_each(|index| self.verbs[index].after = self.before(index));
        }
    }

    /// The verbs that must take effect before verb number `index`.
    fn before(&self, index: usize) -> u32 {
        let later = &self.verbs[index].verb;
        let mut before = 0;
        let is_read = is_read(&later.operation);
        for (index, earlier) in self.verbs[..index].iter().enumerate() {
            let in_order = earlier.verb.at.is_on_node_of(later.at)
                && (later.fenced
                    || is_write(&earlier.verb.operation)
                    || is_read && !self::is_read(&earlier.verb.operation));
            before |= u32::from(in_order) << index;
        }
        before
    }

    /// Puts the operations, with their results, back into `verbs`.
    pub(crate) fn disembark(&mut self, verbs: &mut [Verb]) {
        debug_assert_eq!(verbs.len(), self.verbs.len());
        for (verb, flown) in verbs.iter_mut().zip(&mut self.verbs) {
            std::mem::swap(&mut verb.operation, &mut flown.verb.operation);
        }
        self.verbs.clear();
    }

    /// Whether one more effect is its last.
    pub(crate) fn is_last(&self) -> bool {
        self.pending.count_ones() <= 1
    }

    /// The words that its next effect touches; for verbs that take effect whole and in order.
    pub(crate) fn next_words(&self, memory: &Memory) -> Option<Words> {
        let verb = &self.verbs.get(self.pending.trailing_zeros() as usize)?.verb;
        Some(Self::words_of(verb, memory))
    }

    fn words_of(verb: &Verb, memory: &Memory) -> Words {
        let writes = match &verb.operation {
            Operation::Read { .. } | Operation::ReadWord { .. } => false,
            Operation::CompareAndSwap { expected, .. } => {
                memory.words(verb.at, 8).is_some_and(|words| words[0] == *expected)
            }
            _ => true,
        };
        let bytes = verb.len();
        let places = if bytes > 8 { 3 } else { 1 << ((verb.at.offset() / 8) & 1) };
        Words::new(verb.at, bytes, writes, places)
    }

    /// The pieces that may take effect now.
    pub(crate) fn pieces(&self, relaxations: Relaxations) -> impl Iterator<Item = u8> {
        let first = self.pending.trailing_zeros() as usize;
        let may = move |(index, flying): &(usize, &FlyingVerb)| {
            let is_next = if relaxations.reorder { flying.after & self.pending == 0 } else { *index == first };
            self.pending >> index & 1 == 1 && is_next
        };
        let verbs = self.verbs.iter().enumerate().filter(may);
        verbs.flat_map(move |(index, flying)| {
            let halves = flying.halves(relaxations);
            (0..2).filter(move |half| halves >> half & 1 == 1).map(move |half| 2 * index as u8 + half)
        })
    }

    /// The words that a piece touches.
    pub(crate) fn piece_words(&self, piece: u8, relaxations: Relaxations, memory: &Memory) -> Words {
        let flying = &self.verbs[usize::from(piece / 2)];
        let words = Self::words_of(&flying.verb, memory);
        if !flying.has_halves(relaxations) {
            return words;
        }
        let place = flying.verb.at.offset() / 8 + u64::from(piece & 1);
        words.at_places(1 << (place & 1))
    }

    /// Lets a piece take effect.
    pub(crate) fn step_piece(&mut self, piece: u8, relaxations: Relaxations, memory: &mut Memory) -> Effect {
        let index = usize::from(piece / 2);
        let flying = &mut self.verbs[index];
        let (wholly, kind, word) = flying.step_half(piece & 1, relaxations, memory);
        self.pending &= !(u32::from(wholly) << index);
        Effect { verb: index as u8, kind, at: flying.verb.at, word }
    }

    /// Whether the contract has a piece behind another one.
    pub(crate) fn is_behind(&self, later: u8, earlier: u8) -> bool {
        self.verbs[usize::from(later / 2)].after >> (earlier / 2) & 1 == 1
    }

    /// Whether a piece is the last one that has not taken effect.
    pub(crate) fn is_last_piece(&self, relaxations: Relaxations) -> bool {
        self.is_last() && self.pieces(relaxations).count() == 1
    }

    /// Nothing more of it takes effect.
    pub(crate) fn cut(&mut self) {
        self.pending = 0;
    }

    /// Its verbs to one of `nodes`, a bit each, do not take effect.
    pub(crate) fn cut_nodes(&mut self, nodes: u64) {
        for (index, flying) in self.verbs.iter().enumerate() {
            let is_cut = flying.verb.at.memory_node().is_some_and(|node| nodes >> node & 1 == 1);
            self.pending &= !(u32::from(is_cut) << index);
        }
    }

    /// A bit for each memory node that it touches.
    pub(crate) fn nodes(&self) -> u64 {
        let touched = self.verbs.iter().filter_map(|flying| flying.verb.at.memory_node());
        touched.fold(0, |nodes, node| nodes | 1 << node)
    }

    /// What the verbs of a batch become whose buffers stay with the fabric: as they were, with
    /// buffers of no bytes.
    pub(crate) fn strand(&self, verbs: &mut [Verb]) {
        for (verb, flying) in verbs.iter_mut().zip(&self.verbs) {
            verb.operation = match &flying.verb.operation {
                Operation::Read { .. } => Operation::Read { into: Buffer::new() },
                Operation::ReadWord { .. } => Operation::ReadWord { value: 0 },
                Operation::Write { .. } => Operation::Write { from: Buffer::new() },
                Operation::WriteWord { value } => Operation::WriteWord { value: *value },
                Operation::CompareAndSwap { expected, desired, .. } => {
                    Operation::CompareAndSwap { expected: *expected, desired: *desired, found: !*expected }
                }
                Operation::FetchAndAdd { addend, .. } => Operation::FetchAndAdd { addend: *addend, found: 0 },
            };
        }
    }

    /// What verb number `index` did, in words.
    pub(crate) fn verb_described(&self, index: u8) -> String {
        let flying = &self.verbs[index as usize];
        let bytes = flying.verb.len();
        match &flying.verb.operation {
            Operation::Read { into } => {
                format!("{bytes} bytes, the first word {:#x}", into.words().first().unwrap_or(&0))
            }
            Operation::ReadWord { value } => format!("is {value:#x}"),
            Operation::Write { from } => {
                format!("{bytes} bytes, the first word {:#x}", from.words().first().unwrap_or(&0))
            }
            Operation::WriteWord { value } => format!("becomes {value:#x}"),
            Operation::CompareAndSwap { expected, desired, found } if expected == found => {
                format!("from {expected:#x} to {desired:#x}")
            }
            Operation::CompareAndSwap { expected, desired, found } => {
                format!("from {expected:#x} to {desired:#x} REFUSED, is {found:#x}")
            }
            Operation::FetchAndAdd { addend, found } => {
                format!("from {found:#x} to {:#x}", found.wrapping_add(*addend))
            }
        }
    }

    /// Its verbs, in program order.
    #[inline]
    pub(crate) fn verbs(&self) -> impl ExactSizeIterator<Item = &Verb> {
        self.verbs.iter().map(|flying| &flying.verb)
    }

    /// Verb number `index`.
    #[inline]
    pub(crate) fn verb(&self, index: usize) -> &Verb {
        &self.verbs[index].verb
    }

    /// Whether one of the verbs of `bits` is to the node of `at`.
    #[inline]
    pub(crate) fn touches(&self, bits: u32, at: Address) -> bool {
        let is_there = |(index, verb): (usize, &Verb)| bits >> index & 1 == 1 && verb.at.is_on_node_of(at);
        bits != 0 && self.verbs().enumerate().any(is_there)
    }

    /// Lets verb number `index` take effect whole, unless the batch was cut; in a timed run.
    #[inline]
    pub(crate) fn effect(&mut self, index: usize, memory: &mut Memory) -> Option<Effect> {
        if self.pending >> index & 1 == 0 {
            return None;
        }
        let flying = &mut self.verbs[index];
        let (kind, word) = flying.take_effect(memory);
        self.pending &= !(1 << index);
        Some(Effect { verb: index as u8, kind, at: flying.verb.at, word })
    }

    /// Drops what is in it.
    pub(crate) fn clear(&mut self) {
        self.verbs.clear();
    }

    /// Whether every verb has wholly taken effect.
    pub(crate) fn is_done(&self) -> bool {
        self.pending == 0
    }

    /// Lets one verb, or some words of one, take effect.
    #[inline]
    pub(crate) fn step(&mut self, memory: &mut Memory, frequencies: &Frequencies, random: &mut Random) -> Effect {
        let index = self.next(frequencies, random);
        let flying = &mut self.verbs[index];
        let (wholly, kind, word) = flying.step(memory, frequencies, random);
        self.pending &= !(u32::from(wholly) << index);
        Effect { verb: index as u8, kind, at: flying.verb.at, word }
    }

    /// A verb that may take effect.
    #[inline]
    fn next(&self, frequencies: &Frequencies, random: &mut Random) -> usize {
        // The first one always may: it has nothing pending before it.
        let first = self.pending.trailing_zeros() as usize;
        if self.pending.is_power_of_two() || !random.chance(frequencies.reorder) {
            return first;
        }
        let mut eligible = 0_u32;
        for (index, flying) in self.verbs.iter().enumerate().skip(first) {
            eligible |= u32::from(flying.after & self.pending == 0) << index;
        }
        eligible &= self.pending;
        nth_bit(u64::from(eligible), random.below(u64::from(eligible.count_ones())) as u32)
    }
}

impl FlyingVerb {
    /// Whether it has now wholly taken effect, its kind, and its word for the digest.
    #[inline]
    fn step(&mut self, memory: &mut Memory, frequencies: &Frequencies, random: &mut Random) -> (bool, EffectKind, u64) {
        if !self.tears(frequencies, random) {
            let (kind, word) = self.take_effect(memory);
            return (true, kind, word);
        }
        let (at, bytes) = (self.verb.at, self.verb.len());
        memory.touch(at, bytes);
        let words = memory.words_mut(at, bytes).expect("verbs are checked when they are posted");
        match &mut self.verb.operation {
            Operation::Read { into } => {
                let into = into.words_mut();
                let last = self.progress.advance(words.len(), random, |word| into[word] = words[word]);
                (last, EffectKind::ReadPart, into[0])
            }
            Operation::Write { from } => {
                let from = from.words();
                let last = self.progress.advance(words.len(), random, |word| words[word] = from[word]);
                (last, EffectKind::WritePart, from[0])
            }
            _ => unreachable!("a verb on one word takes effect whole"),
        }
    }

    /// Whether it takes effect in two halves in an explored run.
    fn has_halves(&self, relaxations: Relaxations) -> bool {
        let words = match &self.verb.operation {
            Operation::Read { into: buffer } | Operation::Write { from: buffer } => buffer.words().len(),
            _ => 1,
        };
        relaxations.tear && words > 1
    }

    /// A bit for each half that has not taken effect; one that has no halves is a first one.
    fn halves(&self, relaxations: Relaxations) -> u8 {
        match self.progress {
            Progress::Half { left } => 1 << left,
            _ if self.has_halves(relaxations) => 3,
            _ => 1,
        }
    }

    /// Lets one half take effect. Whether it has now wholly taken effect, its kind, and its word
    /// for the digest.
    fn step_half(&mut self, half: u8, relaxations: Relaxations, memory: &mut Memory) -> (bool, EffectKind, u64) {
        if !self.has_halves(relaxations) {
            let (kind, word) = self.take_effect(memory);
            return (true, kind, word);
        }
        let wholly = matches!(self.progress, Progress::Half { .. });
        self.progress = Progress::Half { left: 1 - half };
        let (at, bytes) = (self.verb.at, self.verb.len());
        let words = memory.words_mut(at, bytes).expect("verbs are checked when they are posted");
        let places = (usize::from(half)..words.len()).step_by(2);
        match &mut self.verb.operation {
            Operation::Read { into } => {
                let into = into.words_mut();
                places.for_each(|place| into[place] = words[place]);
                (wholly, EffectKind::ReadPart, into[usize::from(half)])
            }
            Operation::Write { from } => {
                let from = from.words();
                places.for_each(|place| words[place] = from[place]);
                (wholly, EffectKind::WritePart, from[usize::from(half)])
            }
            _ => unreachable!("a verb on one word takes effect whole"),
        }
    }

    /// Lets it take effect whole; gives its kind, and its word for the digest.
    #[inline]
    fn take_effect(&mut self, memory: &mut Memory) -> (EffectKind, u64) {
        let (at, bytes) = (self.verb.at, self.verb.len());
        memory.touch(at, bytes);
        let words = memory.words_mut(at, bytes).expect("verbs are checked when they are posted");
        match &mut self.verb.operation {
            Operation::ReadWord { value } => {
                *value = words[0];
                (EffectKind::Read, *value)
            }
            Operation::WriteWord { value } => {
                words[0] = *value;
                (EffectKind::Write, *value)
            }
            Operation::CompareAndSwap { expected, desired, found } => {
                *found = words[0];
                if *found == *expected {
                    words[0] = *desired;
                }
                (EffectKind::Swap, *found)
            }
            Operation::FetchAndAdd { addend, found } => {
                *found = words[0];
                words[0] = found.wrapping_add(*addend);
                (EffectKind::Add, *found)
            }
            Operation::Read { into } => {
                into.words_mut().copy_from_slice(words);
                (EffectKind::Read, words.first().copied().unwrap_or(0))
            }
            Operation::Write { from } => {
                words.copy_from_slice(from.words());
                (EffectKind::Write, words.first().copied().unwrap_or(0))
            }
        }
    }

    /// Whether it takes effect in parts; decided when it begins to.
    #[inline]
    fn tears(&mut self, frequencies: &Frequencies, random: &mut Random) -> bool {
        let words = match &self.verb.operation {
            Operation::Read { into: buffer } | Operation::Write { from: buffer } => buffer.words().len(),
            _ => return false,
        };
        if matches!(self.progress, Progress::None) {
            if words < 2 || !random.chance(frequencies.tear) {
                return false;
            }
            self.progress = Progress::torn(words, random);
        }
        true
    }
}

impl Progress {
    /// An order for the words of a verb that has 2 or more.
    #[cold]
    fn torn(words: usize, random: &mut Random) -> Self {
        if words <= 64 {
            return Self::AllBut(u64::MAX >> (64 - words));
        }
        let coprime = |stride: u64| {
            let (mut a, mut b) = (stride, words as u64);
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a == 1
        };
        let last = words as u64 - 1;
        // Hardware goes upwards or downwards from an end; the contract permits every other order.
        let (next, stride) = match random.below(4) {
            0 => (0, 1),
            1 => (last, last),
            2 => (random.below(words as u64), random.pick(&[1, last])),
            _ => loop {
                let stride = 1 + random.below(last);
                if coprime(stride) {
                    break (random.below(words as u64), stride);
                }
            },
        };
        Self::Strided { next: next as u32, stride: stride as u32, left: words as u32 }
    }

    /// Calls `mv` for the words that take effect now; whether those are the last.
    #[cold]
    fn advance(&mut self, words: usize, random: &mut Random, mut mv: impl FnMut(usize)) -> bool {
        // Within one step the order of words does not matter. One word at a time would make long
        // verbs a matter of hundreds of steps.
        let single = random.chance(256);
        match self {
            Self::AllBut(bits) => {
                let mut now = *bits & if single { 0 } else { random.word() };
                if now == 0 {
                    now = 1 << nth_bit(*bits, random.below(u64::from(bits.count_ones())) as u32);
                }
                *bits &= !now;
                while now != 0 {
                    let word = now.trailing_zeros() as usize;
                    mv(word);
                    now &= now - 1;
                }
                *bits == 0
            }
            Self::Strided { next, stride, left } => {
                let now = if single { 1 } else { 1 + random.below(u64::from(*left)) as u32 };
                for _ in 0..now {
                    let word = *next as usize;
                    *next = ((word + *stride as usize) % words) as u32;
                    mv(word);
                }
                *left -= now;
                *left == 0
            }
            Self::None | Self::Half { .. } => unreachable!("a torn verb has an order"),
        }
    }
}

#[inline]
fn nth_bit(mut bits: u64, n: u32) -> usize {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros() as usize
}

fn is_read(operation: &Operation) -> bool {
    matches!(operation, Operation::Read { .. } | Operation::ReadWord { .. })
}

fn is_write(operation: &Operation) -> bool {
    matches!(operation, Operation::Write { .. } | Operation::WriteWord { .. })
}
