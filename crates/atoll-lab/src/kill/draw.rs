//! What a client of the load does next, and on which key: drawn at random.

use super::value::{Key, Keys, Kind};
use crate::zipf::ZipfRanks;
use atoll_deployment::random::Random;

const THETA: f64 = 0.9;

/// Which client this is, of all that are ever joined at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    /// Its place, and how many places there are. Plain keys whose number has this remainder are its
    /// own.
    pub(super) place: (u64, u64),
    /// No other client ever had the same.
    pub(super) nonce: u64,
    /// Whether it mostly reads.
    pub(super) reads: bool,
    /// How much it looks at few keys again and again, as near caches need it.
    pub(super) rereads: Rereads,
}

/// How much of what a client does is to look at few keys again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rereads {
    /// Nothing.
    Nothing,
    /// Most.
    Much,
    /// All: the client changes nothing.
    All,
}

/// What to do next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Get,
    GetMany,
    Set,
    Delete,
    Expire,
    Chain,
    Increment,
    GetCounter,
    DeleteCounter,
    Append,
    GetList,
    /// A lookup of a key that all clients look up much.
    Reread,
    /// Lookups of several of these at once.
    RereadMany,
}

/// Of a client that rereads, one act in so many is another one.
const REREADS: u64 = 8;
/// Of rereads, one in so many looks several keys up.
const REREADS_OF_MANY: u64 = 32;
/// Keys of each kind that are reread, by how often. The loads change these much, too.
const REREAD: [(Kind, u64, u64); 4] =
    [(Kind::Plain, 64, 12), (Kind::Chain, 16, 2), (Kind::Counter, 8, 1), (Kind::List, 8, 1)];

/// Shares of a thousand, of a worker and of the checker.
const ACTS: [(Act, u64, u64); 11] = [
    (Act::Get, 440, 650),
    (Act::GetMany, 30, 30),
    (Act::Set, 270, 40),
    (Act::Delete, 25, 5),
    (Act::Expire, 25, 5),
    (Act::Chain, 70, 100),
    (Act::Increment, 60, 40),
    (Act::GetCounter, 20, 70),
    (Act::DeleteCounter, 2, 1),
    (Act::Append, 30, 9),
    (Act::GetList, 28, 50),
];

/// A client's choices.
pub(super) struct Draw {
    pub(super) keys: Keys,
    pub(super) writer: Writer,
    pub(super) random: Random,
    plain: ZipfRanks,
    chains: ZipfRanks,
    few: ZipfRanks,
}

impl Draw {
    /// Those of a writer. Its number is their seed.
    pub(super) fn new(keys: Keys, writer: Writer) -> Self {
        let [plain, chains, few] =
            [keys.plain, Keys::CHAINS, Keys::COUNTERS.min(Keys::LISTS)].map(|keys| ZipfRanks::new(keys, THETA));
        Self { keys, writer, random: Random::new(writer.nonce), plain, chains, few }
    }

    /// What to do next.
    pub(super) fn act(&mut self) -> Act {
        match self.writer.rereads {
            Rereads::All => return Act::Reread,
            Rereads::Much if self.random.below(REREADS) > 0 => {
                return if self.random.below(REREADS_OF_MANY) > 0 { Act::Reread } else { Act::RereadMany };
            }
            Rereads::Nothing | Rereads::Much => {}
        }
        let mut drawn = self.random.below(1000);
        for (each, worker, checker) in ACTS {
            let share = if self.writer.reads { checker } else { worker };
            if drawn < share {
                return each;
            }
            drawn -= share;
        }
        Act::Get
    }

    /// A key that is reread. Those of lower ranks are changed most.
    pub(super) fn some_reread(&mut self) -> Key {
        let mut drawn = self.random.below(REREAD.iter().map(|(.., share)| share).sum());
        for (kind, keys, share) in REREAD {
            if drawn < share {
                return self.keys.key(kind, self.random.below(keys));
            }
            drawn -= share;
        }
        unreachable!("the shares are all that is drawn from")
    }

    /// One whose values say their version.
    pub(super) fn some_plain_reread(&mut self) -> Key {
        let (kind, keys, _) = REREAD[0];
        self.keys.key(kind, self.random.below(keys))
    }

    pub(super) fn some_plain(&mut self) -> Key {
        self.keys.key(Kind::Plain, self.plain.sample(&mut self.random) - 1)
    }

    pub(super) fn some_chain(&mut self) -> Key {
        self.keys.key(Kind::Chain, self.chains.sample(&mut self.random) - 1)
    }

    pub(super) fn some_of_few(&mut self, kind: Kind) -> Key {
        self.keys.key(kind, self.few.sample(&mut self.random) - 1)
    }

    /// A key near `key` that only this writer sets, or makes.
    pub(super) fn own(&self, key: Key) -> Key {
        let (index, writers) = self.writer.place;
        let own = key.number - key.number % writers + index;
        let first = self.keys.key(key.kind, 0).number;
        if own < first || own >= first + self.of_kind(key.kind) { key } else { Key { number: own, ..key } }
    }

    fn of_kind(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Plain => self.keys.plain,
            Kind::Chain => Keys::CHAINS,
            Kind::Counter => Keys::COUNTERS,
            Kind::List => Keys::LISTS,
        }
    }

    pub(super) fn is_own(&self, key: Key) -> bool {
        key.number % self.writer.place.1 == self.writer.place.0
    }

    /// A time to live for one value in five: from some milliseconds to some seconds.
    pub(super) fn some_expiry_ms(&mut self, now_ms: u64) -> u64 {
        match self.random.below(5) {
            0 => now_ms + 5 + self.random.below(1 << (4 + self.random.clone().below(9))),
            _ => 0,
        }
    }
}
