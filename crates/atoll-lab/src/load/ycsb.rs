//! The core workloads of YCSB (Cooper et al., SoCC 2010), as the papers have them.
//!
//! | | requests | keys by |
//! |---|---|---|
//! | A | 50 % GET, 50 % update | Zipf |
//! | B | 95 % GET, 5 % update | Zipf |
//! | C | GET | Zipf |
//! | D | 95 % GET, 5 % insert | latest |
//! | E | 95 % scan of 1 to 100 keys, 5 % insert | Zipf |
//! | F | 50 % GET, 50 % read-modify-write | Zipf |
//!
//! Sizes are those of the papers: theta 0.99 (FORGE 6.1, Ditto 5.1, SELCC 7.1.3), objects of 256
//! bytes (FORGE 6.2; Ditto's key-value pairs), 10 million keys (Ditto 5.1; FORGE does not print its
//! number). DiFache has 1 million objects, SELCC 24 million lines and an index of 2 billion
//! records. Nothing here needs memory that grows with the keys.
//!
//! **Zipf**: rank r has a probability proportional to 1 / r^theta. A bijection of all keys, those
//! to be inserted included, gives the key of a rank. A key that is not yet inserted is drawn again,
//! as in YCSB.
//!
//! **Latest**: the same with ranks counted backwards from the newest key.
//!
//! **Inserts** of client c of n have the numbers loaded + c, loaded + c + n, and so on. A client
//! assumes that all clients have inserted as many keys as itself. Its requests therefore do not
//! depend on the speed of other clients. A client that is ahead may ask for a key that is not yet
//! inserted; that is a miss.

use super::permutation::Permutation;
use super::{KEY_BYTES, Kind, Load, LoadOptions, REQUESTS, Request, Stream, share};
use crate::LabError;
use crate::trace::Operation;
use crate::zipf::ZipfRanks;
use atoll_deployment::random::{Random, mix};

/// Keys that are loaded, unless said otherwise (Ditto 5.1).
pub const KEYS: u64 = 10_000_000;
/// Zipf's exponent, unless said otherwise.
pub const THETA: f64 = 0.99;
/// Key and value together, unless said otherwise.
pub const OBJECT_BYTES: u32 = 256;
/// The longest scan, in keys; lengths are uniform from 1 on.
pub const SCAN_KEYS_MAX: u16 = 100;

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Zipf,
    Latest,
}

/// One of the six.
#[derive(Clone, Copy, Debug)]
struct Workload {
    letter: &'static str,
    what: &'static str,
    /// The kind of most requests, and the second kind.
    kinds: [Kind; 2],
    /// Percent of the second kind.
    others: u64,
    choice: Choice,
}

const GET: Kind = Kind::Plain(Operation::Get);
const UPDATE: Kind = Kind::Plain(Operation::Set);

const WORKLOADS: [Workload; 6] = [
    Workload { letter: "a", what: "50 % GET, 50 % update", kinds: [GET, UPDATE], others: 50, choice: Choice::Zipf },
    Workload { letter: "b", what: "95 % GET, 5 % update", kinds: [GET, UPDATE], others: 5, choice: Choice::Zipf },
    Workload { letter: "c", what: "100 % GET", kinds: [GET, GET], others: 0, choice: Choice::Zipf },
    Workload {
        letter: "d",
        what: "95 % GET, 5 % insert",
        kinds: [GET, Kind::Insert],
        others: 5,
        choice: Choice::Latest,
    },
    Workload {
        letter: "e",
        what: "95 % scan, 5 % insert",
        kinds: [Kind::Scan, Kind::Insert],
        others: 5,
        choice: Choice::Zipf,
    },
    Workload {
        letter: "f",
        what: "50 % GET, 50 % read-modify-write",
        kinds: [GET, Kind::ReadModifyWrite],
        others: 50,
        choice: Choice::Zipf,
    },
];

/// The workloads' names, with what they are.
pub(super) fn names() -> Vec<(String, String)> {
    WORKLOADS.iter().map(|workload| (format!("ycsb-{}", workload.letter), format!("YCSB: {}", workload.what))).collect()
}

/// A workload of YCSB.
#[derive(Clone, Debug)]
pub struct Ycsb {
    workload: Workload,
    keys: u64,
    theta: f64,
    value_bytes: u32,
    requests: u64,
    seed: u64,
}

impl Ycsb {
    /// The workload of that letter.
    pub(super) fn of(letter: &str, options: &LoadOptions) -> Result<Self, LabError> {
        let known = WORKLOADS.iter().find(|workload| workload.letter == letter);
        let unknown = || LabError::Options(format!("ycsb-{letter} is no workload: there are ycsb-a to ycsb-f"));
        if !(0.0..=100.0).contains(&options.theta) {
            return Err(LabError::Options("--theta takes 0 to 100".to_owned()));
        }
        if options.object_bytes <= KEY_BYTES {
            return Err(LabError::Options(format!("--object-bytes takes more than the {KEY_BYTES} of a key")));
        }
        Ok(Self {
            workload: *known.ok_or_else(unknown)?,
            keys: options.keys,
            theta: options.theta,
            value_bytes: options.object_bytes - KEY_BYTES,
            requests: options.requests.unwrap_or(REQUESTS),
            seed: options.seed,
        })
    }

    /// Keys that there are once all requests are made, as expected from the share of inserts.
    fn keys_at_end(&self) -> u64 {
        let inserts = self.workload.kinds[1] == Kind::Insert;
        self.keys + if inserts { (self.requests as u128 * u128::from(self.workload.others) / 100) as u64 } else { 0 }
    }

    fn request(&self, kind: Kind, key: u64) -> Request {
        Request { key, time_ns: 0, key_bytes: KEY_BYTES, value_bytes: self.value_bytes, ttl_s: 0, keys: 1, kind }
    }
}

impl Load for Ycsb {
    fn what(&self) -> String {
        let Workload { letter, what, .. } = self.workload;
        let letter = letter.to_uppercase();
        format!("YCSB {letter}: {what}; {} keys, theta {}, values of {} bytes", self.keys, self.theta, self.value_bytes)
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn keys_loaded(&self) -> u64 {
        self.keys
    }

    fn preload(&self, client: u64, clients: u64) -> Stream {
        let load = self.clone();
        Box::new((0..share(self.keys, client, clients)).map(move |step| load.request(UPDATE, client + step * clients)))
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        Box::new(Client {
            random: Random::new(mix(mix(self.seed) ^ client)),
            ranks: match self.workload.choice {
                Choice::Zipf => ZipfRanks::new(self.keys_at_end(), self.theta),
                Choice::Latest => ZipfRanks::new(self.keys, self.theta),
            },
            scramble: Permutation::new(self.keys_at_end(), self.seed),
            left: share(self.requests, client, clients),
            inserted: 0,
            known: self.keys,
            client,
            clients,
            load: self.clone(),
        })
    }
}

/// The stream of one client.
struct Client {
    load: Ycsb,
    client: u64,
    clients: u64,
    random: Random,
    ranks: ZipfRanks,
    scramble: Permutation,
    /// Requests yet to be made.
    left: u64,
    /// Keys that this client inserted.
    inserted: u64,
    /// Keys that it assumes to be inserted: numbers below this.
    known: u64,
}

impl Client {
    fn insert(&mut self) -> Request {
        let key = self.load.keys + self.inserted * self.clients + self.client;
        self.inserted += 1;
        self.known += self.clients;
        if self.load.workload.choice == Choice::Latest {
            self.ranks = ZipfRanks::new(self.known, self.load.theta);
        }
        self.load.request(Kind::Insert, key)
    }

    fn known_key(&mut self) -> u64 {
        match self.load.workload.choice {
            Choice::Latest => self.known - self.ranks.sample(&mut self.random),
            Choice::Zipf => loop {
                let key = self.scramble.apply(self.ranks.sample(&mut self.random) - 1);
                if key < self.known {
                    return key;
                }
            },
        }
    }
}

impl Iterator for Client {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let other = self.random.below(100) < self.load.workload.others;
        let kind = self.load.workload.kinds[usize::from(other)];
        if kind == Kind::Insert {
            return Some(self.insert());
        }
        let key = self.known_key();
        let mut request = self.load.request(kind, key);
        if kind == Kind::Scan {
            let length = 1 + self.random.below(u64::from(SCAN_KEYS_MAX));
            // A scan ends with the last key.
            request.keys = length.min(self.known - key) as u16;
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests;
