//! Request traces: files in two formats, and generated loads, read as one stream of [`Request`]s.
//!
//! | source | recognised by |
//! |---|---|
//! | [`oracle_general`] | `.oracleGeneral` in the name, else a first record that makes sense |
//! | [`twitter_csv`] | `.csv` in the name, else a first line that is a request |
//! | [`Zipf`](crate::zipf) | `zipf:KEYS,THETA,REQUESTS` |
//!
//! A file may be compressed with zstd, whatever its name says: the frame's magic number decides.
//! Files are untrusted: whatever is wrong with one is an error that names the record or line, and
//! memory use does not depend on what the file says.
//!
//! Invariant: [`Request::time_s`] is at most [`TIME_S_MAX`], so that its nanoseconds fit a word.

mod bytes;
pub mod oracle_general;
pub mod twitter_csv;

use crate::zipf::{Zipf, ZipfError};
use bytes::Bytes;
use oracle_general::OracleGeneral;
use std::path::{Path, PathBuf};
use twitter_csv::TwitterCsv;

/// The latest time that a trace may have: about the year 2242.
pub const TIME_S_MAX: u64 = 1 << 33;

/// What a client asked for, in the words of memcached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Read.
    #[default]
    Get,
    /// Read, with a token for [`Operation::Cas`].
    Gets,
    /// Write.
    Set,
    /// Write if absent.
    Add,
    /// Write if present.
    Replace,
    /// Write if unchanged.
    Cas,
    /// Write after the value.
    Append,
    /// Write before the value.
    Prepend,
    /// Remove.
    Delete,
    /// Add to a number.
    Incr,
    /// Subtract from a number.
    Decr,
}

impl Operation {
    /// Every operation with its name.
    const NAMES: [(Self, &str); 11] = [
        (Self::Get, "get"),
        (Self::Gets, "gets"),
        (Self::Set, "set"),
        (Self::Add, "add"),
        (Self::Replace, "replace"),
        (Self::Cas, "cas"),
        (Self::Append, "append"),
        (Self::Prepend, "prepend"),
        (Self::Delete, "delete"),
        (Self::Incr, "incr"),
        (Self::Decr, "decr"),
    ];

    /// The operation of that name, in small letters.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(operation, _)| *operation)
    }

    /// Its name, in small letters.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(operation, _)| *operation == self).expect("every operation has a name").1
    }

    /// What it does to a cache that a replay fills.
    ///
    /// A replay holds no meaningful values, so that a write of any kind leaves an object of the
    /// traced size; the condition of `replace`, `cas`, `append`, `prepend`, `incr` and `decr` held
    /// when the trace was taken, where the cache was another one.
    pub fn effect(self) -> Effect {
        match self {
            Self::Get | Self::Gets => Effect::Look,
            Self::Add => Effect::WriteIfAbsent,
            Self::Delete => Effect::Remove,
            _ => Effect::Write,
        }
    }
}

/// What a request does to a cache that a replay fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A look-up, followed by a write if it misses.
    Look,
    /// A look-up by whoever counts, and a write.
    Write,
    /// The same, and the write takes place only after a miss.
    WriteIfAbsent,
    /// The object goes; counts as neither hit nor miss.
    Remove,
}

/// One request of a trace. Reuse one: its key keeps its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Seconds on the trace's clock.
    pub time_s: u64,
    /// What identifies the object; 8 bytes where the source has numbers.
    pub key: Vec<u8>,
    /// Length of the key where the trace was taken, which may be another than that of `key`, since
    /// published keys are anonymised.
    pub key_bytes: u32,
    /// Length of the value; of the whole object where the source does not tell them apart.
    pub value_bytes: u64,
    /// What was asked for.
    pub operation: Operation,
    /// Seconds until the object expires; 0 for never.
    pub ttl_s: u64,
}

impl Request {
    /// The key as a number: itself where the source has numbers, else a hash of it.
    pub fn key_number(&self) -> u64 {
        match <[u8; 8]>::try_from(&*self.key) {
            Ok(id) => u64::from_le_bytes(id),
            Err(_) => rapidhash::v3::rapidhash_v3(&self.key),
        }
    }

    /// Makes `id` the key.
    pub(crate) fn set_key(&mut self, id: u64) {
        self.key.clear();
        self.key.extend_from_slice(&id.to_le_bytes());
        self.key_bytes = 8;
    }
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened.
    #[error(
        "cannot open the trace {path}: {source}; give the path of a trace file, or a generated load such as zipf:100000,0.99,1000000"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Reading or decompressing failed.
    #[error("{path}, after {whole} {unit}s: {source}; the file is damaged or cut short, fetch it again")]
    Read {
        /// The file.
        path: PathBuf,
        /// Whole records or lines before the failure.
        whole: u64,
        /// `record` or `line`.
        unit: &'static str,
        /// What the system or the decompressor said.
        source: std::io::Error,
    },
    /// A record or line makes no sense.
    #[error("{path}, {unit} {number}: {what}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// `record` or `line`.
        unit: &'static str,
        /// Its number, from 1.
        number: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Neither name nor content tell the format.
    #[error(
        "{path} is no trace that is known here: neither its name (.oracleGeneral, .csv, also with .zst) nor its first bytes fit"
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing in the file.
    #[error("{path} holds no request")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A generated load is wrongly described.
    #[error(transparent)]
    Zipf(#[from] ZipfError),
}

enum Source {
    OracleGeneral(OracleGeneral),
    TwitterCsv(TwitterCsv),
    Zipf(Zipf),
}

/// A trace that is being read, from its first request to its last.
pub struct Trace {
    source: Source,
}

impl Trace {
    /// Opens the file or generated load that `spec` names. `seed` is for generated loads.
    pub fn open(spec: &str, seed: u64) -> Result<Self, TraceError> {
        match spec.strip_prefix("zipf:") {
            Some(zipf) => Ok(Self { source: Source::Zipf(Zipf::parse(zipf, seed)?) }),
            None => Self::open_file(Path::new(spec)),
        }
    }

    /// Opens a trace file.
    pub fn open_file(path: &Path) -> Result<Self, TraceError> {
        let mut bytes = Bytes::open(path)?;
        let first = bytes.peek()?;
        if first.is_empty() {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = if name.contains(".oracleGeneral") {
            Source::OracleGeneral(OracleGeneral::new(bytes))
        } else if name.contains(".csv") || twitter_csv::looks_like(first) {
            Source::TwitterCsv(TwitterCsv::new(bytes))
        } else if oracle_general::looks_like(first) {
            Source::OracleGeneral(OracleGeneral::new(bytes))
        } else {
            return Err(TraceError::UnknownFormat { path: path.to_owned() });
        };
        Ok(Self { source })
    }

    /// Reads the next request into `request`; `false` at the end.
    #[inline]
    pub fn read(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        match &mut self.source {
            Source::OracleGeneral(source) => source.read(request),
            Source::TwitterCsv(source) => source.read(request),
            Source::Zipf(source) => Ok(source.read(request)),
        }
    }

    /// How far it has been read, and how far there is to go: in bytes of a file, in requests of a
    /// generated load.
    pub fn position(&self) -> (u64, u64) {
        match &self.source {
            Source::OracleGeneral(source) => source.bytes().position(),
            Source::TwitterCsv(source) => source.bytes().position(),
            Source::Zipf(source) => source.position(),
        }
    }
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut request = Request::default();
        match self.read(&mut request) {
            Ok(true) => Some(Ok(request)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests;
