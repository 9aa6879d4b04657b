//! Request traces: files in two formats, and generated loads, read as one stream of [`Request`]s.
//!
//! | source | recognised by |
//! |---|---|
//! | [`oracle_general`] | `.oracleGeneral` in the name, else a first record that makes sense |
//! | [`twitter_csv`] | `.csv` in the name, else a first line that is a request |
//! | [`Zipf`](crate::zipf) | `zipf:KEYS,THETA,REQUESTS` |
//!
//! A file may be compressed with zstd: the frame's magic number decides, not the name. Files are
//! untrusted. A fault of a file is an error that names the record or line. Memory use does not
//! depend on the file's content.
//!
//! Invariant: [`Request::time_s`] is at most [`TIME_S_MAX`]. Its nanoseconds fit a word.

mod bytes;
mod frames;
pub mod oracle_general;
pub(crate) mod request;
pub mod twitter_csv;

pub use request::{Effect, Operation, Request, TIME_S_MAX};

use crate::zipf::{Zipf, ZipfError};
use bytes::Bytes;
use oracle_general::OracleGeneral;
use std::path::{Path, PathBuf};
use twitter_csv::TwitterCsv;

/// What a message says of traces that are not there.
pub const WHERE_TRACES_ARE: &str = "README.md, \"Traces\", says where traces can be had";

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
