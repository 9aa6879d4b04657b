//! Loads: what clients ask of a cache, as streams of requests that a seed determines.
//!
//! | name | load | file |
//! |---|---|---|
//! | `ycsb-a` to `ycsb-f` | the core workloads of YCSB | [`ycsb`] |
//! | `twitter-1` to `twitter-54` | like a cluster of Twitter's, from the table of their statistics | [`twitter`] |
//! | anything else | a trace: a file, `zipf:KEYS,THETA,REQUESTS`, or a name in the folder of traces | [`traced`] |
//!
//! Experiments also make loads that no name stands for: [`patterned`].
//!
//! The driver of a load knows only [`Load`]. It sets the keys of [`Load::preload`], then gives
//! every client its [`Load::stream`]. A client's stream depends on the load, its seed, the client's
//! number and the number of clients. A slow cache sees the same requests as a fast one. No digit
//! depends on the machine.
//!
//! A new load is a file with a type that implements [`Load`], and a line in [`LoadOptions::open`].

mod command;
pub mod fit;
pub mod patterned;
pub mod permutation;
pub mod statistics;
pub mod traced;
pub mod twitter;
pub mod ycsb;

use crate::LabError;
use crate::trace::Operation;
use std::path::PathBuf;

pub use command::LoadCommand;
pub use statistics::Statistics;

/// Length of the keys of generated loads without another one: the key's number.
pub const KEY_BYTES: u32 = 8;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An operation of memcached; [`Operation::effect`] says what it does to a cache that the load
    /// fills. YCSB's read is a GET, its update a SET.
    Plain(Operation),
    /// Write a key that is new.
    Insert,
    /// Read [`Request::keys`] keys of consecutive numbers. FORGE, whose index has no order, does
    /// them as so many GETs, one after the other; a scan is one request and many GETs, and a report
    /// must say which it counts.
    Scan,
    /// Read, then write the same key.
    ReadModifyWrite,
}

impl Kind {
    /// Its name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain(operation) => operation.name(),
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// One request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The key's number. [`Request::key`] makes the key of it.
    pub key: u64,
    /// When the request is made, in nanoseconds of the load's own clock; 0 where the load has none
    /// and clients ask as fast as they can.
    pub time_ns: u64,
    /// Length of the key.
    pub key_bytes: u32,
    /// Length of the value that the key has, or gets.
    pub value_bytes: u32,
    /// Seconds until what is written expires; 0 for never.
    pub ttl_s: u32,
    /// Keys of a scan; 1 for every other kind.
    pub keys: u16,
    /// What to do.
    pub kind: Kind,
}

impl Request {
    /// Writes the key into `key`: its number's 8 bytes, little-endian, and zeros up to
    /// [`Request::key_bytes`].
    ///
    /// Keys are never shorter than their number, whatever the load says, since no two may be the
    /// same.
    pub fn key(&self, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.key.to_le_bytes());
        key.resize(key.len().max(self.key_bytes as usize), 0);
    }
}

/// The requests of one client, or what it sets before.
pub type Stream = Box<dyn Iterator<Item = Request> + Send>;

/// A load that any number of clients share.
pub trait Load: Send + Sync {
    /// What it is, in a line for people.
    fn what(&self) -> String;

    /// Requests of all clients together, without those of [`Load::preload`].
    fn requests(&self) -> u64;

    /// Keys that are there before the first request: numbers from 0 on. 0 for a load that begins
    /// with an empty cache.
    fn keys_loaded(&self) -> u64 {
        0
    }

    /// What client `client` of `clients` sets before any stream begins. Together the clients
    /// set each key that is to be loaded once.
    fn preload(&self, client: u64, clients: u64) -> Stream;

    /// The requests of client `client` of `clients`.
    ///
    /// The implementer gives the same stream whenever the arguments are the same, and together the
    /// clients make [`Load::requests`] requests. The caller may take the streams in any order and
    /// interleaving; a request counts as made when it was taken.
    ///
    /// # Panics
    /// If `client` is not below `clients`.
    fn stream(&self, client: u64, clients: u64) -> Stream;
}

/// How many of `total` things fall to `client`, if thing i falls to client i mod `clients`.
pub fn share(total: u64, client: u64, clients: u64) -> u64 {
    assert!(client < clients, "client {client} of {clients}");
    (total + clients - 1 - client) / clients
}

/// Which load, for a command line to flatten.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadOptions {
    /// ycsb-a to ycsb-f, twitter-1 to twitter-54, a trace's file, zipf:KEYS,THETA,REQUESTS, or a
    /// trace's name in --traces
    #[arg(default_value = "ycsb-c")]
    pub name: String,
    /// Requests of all clients together; a trace is cut there
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub requests: Option<u64>,
    /// YCSB: keys that are loaded first
    #[arg(long, default_value_t = ycsb::KEYS, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub keys: u64,
    /// YCSB: Zipf's exponent
    #[arg(long, default_value_t = ycsb::THETA)]
    pub theta: f64,
    /// YCSB: bytes of a key and its value together
    #[arg(long, default_value_t = ycsb::OBJECT_BYTES, value_parser = clap::value_parser!(u32).range(9..))]
    pub object_bytes: u32,
    /// Folder of traces, with twitter_2020Mar_stats.csv for twitter-N
    #[arg(long)]
    pub traces: Option<PathBuf>,
    /// Seed of a generated load
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Requests of a generated load, unless a number is given.
pub const REQUESTS: u64 = 1_000_000;

impl LoadOptions {
    /// The load of that name with the defaults of the command line.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            requests: None,
            keys: ycsb::KEYS,
            theta: ycsb::THETA,
            object_bytes: ycsb::OBJECT_BYTES,
            traces: None,
            seed: 1,
        }
    }

    /// Makes the load. A trace is read whole.
    pub fn open(&self) -> Result<Box<dyn Load>, LabError> {
        if let Some(workload) = self.name.strip_prefix("ycsb-") {
            return Ok(Box::new(ycsb::Ycsb::of(workload, self)?));
        }
        if let Some(cluster) = self.name.strip_prefix("twitter-") {
            return Ok(Box::new(twitter::Twitter::of(cluster, self)?));
        }
        Ok(Box::new(traced::Traced::of(self)?))
    }

    /// The names of the loads that there are, without those of files elsewhere.
    pub fn names(&self) -> Result<Vec<(String, String)>, LabError> {
        let mut names = ycsb::names();
        if let Some(folder) = &self.traces {
            names.extend(twitter::names(folder)?);
            names.extend(traced::names(folder)?);
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_a_load_without_loss() {
        for name in ["ycsb-a", "ycsb-d", "ycsb-e", "zipf:100,1,1001"] {
            let options = LoadOptions { requests: Some(1001), keys: 77, ..LoadOptions::named(name) };
            let load = options.open().unwrap();
            for clients in [1, 3, 64] {
                let counts =
                    |of: &dyn Fn(u64) -> Stream| (0..clients).map(|client| of(client).count() as u64).sum::<u64>();
                assert_eq!(counts(&|client| load.stream(client, clients)), load.requests(), "{name}");
                assert_eq!(counts(&|client| load.preload(client, clients)), load.keys_loaded(), "{name}");
            }
        }
    }

    #[test]
    fn a_stream_repeats_and_clients_and_seeds_differ() {
        let take = |seed, client| -> Vec<Request> {
            let options = LoadOptions { seed, requests: Some(3000), keys: 1000, ..LoadOptions::named("ycsb-a") };
            options.open().unwrap().stream(client, 4).collect()
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(1, 1));
        assert_ne!(take(1, 0), take(2, 0));
    }

    #[test]
    fn a_key_is_its_number_padded_and_never_shorter() {
        let mut key = Vec::new();
        let request = |key_bytes| Request {
            key: 5,
            time_ns: 0,
            key_bytes,
            value_bytes: 1,
            ttl_s: 0,
            keys: 1,
            kind: Kind::Plain(Operation::Get),
        };
        request(12).key(&mut key);
        assert_eq!(key, [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        request(1).key(&mut key);
        assert_eq!(key.len(), 8);
    }

    #[test]
    fn an_unknown_load_is_refused_with_what_to_do() {
        for (name, expected) in [("ycsb-g", "ycsb-a"), ("twitter-3", "--traces"), ("/no/such", "trace")] {
            let error = LoadOptions::named(name).open().err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
