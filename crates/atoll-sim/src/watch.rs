//! Words that a scenario watches: when each changed, and for how long it had stood still when an
//! endpoint last READ it.
//!
//! Some protocols draw conclusions from a word that stands still. A test judges them by what they
//! READ.

use crate::effect::{Effect, EffectKind};
use crate::memory::Memory;
use atoll_fabric::{Address, Identity};
use std::collections::{BTreeMap, VecDeque};

/// A living client that was shut out.
#[derive(Clone, Debug)]
pub struct Forced {
    /// The endpoint that did so.
    pub by: Identity,
    /// The endpoint that was shut out.
    pub who: Identity,
    /// For each watched word, the virtual time for which it had not changed when `by` READ it last.
    pub still_ns: BTreeMap<Address, u64>,
    /// The same when `by` READ it, the longest by its last READs. If an endpoint runs several
    /// operations, it is unknown which READ decided.
    pub longest_ns: BTreeMap<Address, u64>,
}

/// READs of a word by one endpoint that are remembered.
const READS_MAX: usize = 16;

/// The words that are watched.
#[derive(Default)]
pub(crate) struct Watch {
    words: BTreeMap<Address, Watched>,
    /// Living clients that were shut out, in order.
    pub(crate) forced: Vec<Forced>,
}

struct Watched {
    word: u64,
    /// When it changed, the beginning of the watch first.
    changes_ns: Vec<u64>,
    /// By endpoint, the last ones.
    reads: BTreeMap<u32, VecDeque<Read>>,
}

/// When the pieces of one READ took effect.
struct Read {
    batch: (u32, u32),
    first_ns: u64,
    last_ns: u64,
}

impl Watch {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.words.is_empty()
    }

    pub(crate) fn add(&mut self, at: Address, word: u64, now_ns: u64) {
        let watched = || Watched { word, changes_ns: vec![now_ns], reads: BTreeMap::new() };
        self.words.entry(at).or_insert_with(watched);
    }

    /// An effect of a verb of this many bytes, of a batch of an endpoint.
    pub(crate) fn note(
        &mut self,
        memory: &Memory,
        now_ns: u64,
        (endpoint, batch): (u32, (u32, u32)),
        effect: Effect,
        bytes: u64,
    ) {
        for (at, watched) in self.words.range_mut(effect.at..effect.at.add(bytes)) {
            let word = memory.words(*at, 8).map_or(0, |words| words[0]);
            if std::mem::replace(&mut watched.word, word) != word {
                watched.changes_ns.push(now_ns);
            }
            if matches!(effect.kind, EffectKind::Read | EffectKind::ReadPart) {
                let reads = watched.reads.entry(endpoint).or_default();
                let same = reads.iter().position(|read| read.batch == batch).and_then(|index| reads.remove(index));
                let first_ns = same.map_or(now_ns, |read| read.first_ns);
                reads.push_back(Read { batch, first_ns, last_ns: now_ns });
                if reads.len() > READS_MAX {
                    reads.pop_front();
                }
            }
        }
    }

    /// What an endpoint shuts out, and by which looks.
    pub(crate) fn note_forced(&mut self, by: u32, who: Identity) {
        let (still_ns, longest_ns) = (self.still_ns(by, 1), self.still_ns(by, READS_MAX));
        self.forced.push(Forced { by: Identity::from_bits(by + 1), who, still_ns, longest_ns });
    }

    /// For how long each word had stood still at one of the last READs of an endpoint, at most.
    fn still_ns(&self, endpoint: u32, reads: usize) -> BTreeMap<Address, u64> {
        let still_at = |watched: &Watched, Read { first_ns, last_ns, .. }: &Read| {
            let ends = watched.changes_ns.iter().skip(1).copied().chain([u64::MAX]);
            let spans = watched.changes_ns.iter().copied().zip(ends);
            let seen = spans.filter(|(begun, ended)| begun <= last_ns && ended >= first_ns);
            seen.map(|(begun, ended)| ended.min(*last_ns) - begun).max().unwrap_or(0)
        };
        let still = |watched: &Watched| {
            let last = watched.reads.get(&endpoint).into_iter().flatten().rev().take(reads);
            last.map(|read| still_at(watched, read)).max().unwrap_or(0)
        };
        self.words.iter().map(|(at, watched)| (*at, still(watched))).collect()
    }
}
